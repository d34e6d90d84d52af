//! What an instrument saw.

use crate::metric::Measured;

/// What an instrument saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// What it looked at: `s0->h0`, `h3:5001`.
    pub of: String,
    /// Numbers: the name of each, its unit, its value.
    pub values: Vec<(String, &'static str, Measured)>,
    /// What it saw on the way, if that was asked for.
    pub series: Option<Series>,
    /// What it has to tell in rows of their own kind.
    pub table: Option<Table>,
}

/// Rows of cells, as they stand in a file of their own: `table-NAME.csv` for the probe NAME.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns, with their units.
    pub columns: Vec<&'static str>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// A table of numbers over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Names of the columns, with their units: `time_ns`, `queue_bytes`.
    pub columns: Vec<String>,
    /// A number for each column; none where there is nothing to say.
    pub rows: Vec<Vec<Option<f64>>>,
}

impl Series {
    /// Where in a row the column `name` is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}
