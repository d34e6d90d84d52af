//! Reference values: small tables in `harness/validate/reference/`, compiled in.
//!
//! A file is CSV without quotes: lines that start with `#` are remarks (the first says where the
//! figures come from), the first other line names the columns.

/// A table of reference values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Table {
    /// Where the figures come from: the text of the first remark.
    pub source: String,
    columns: Vec<&'static str>,
    rows: Vec<Vec<&'static str>>,
}

/// A line of a table.
#[derive(Clone, Copy, Debug)]
pub struct Line<'a> {
    table: &'a Table,
    cells: &'a [&'static str],
}

impl Table {
    /// Reads a file that was compiled in.
    ///
    /// # Panics
    /// If the file is not such a table; a test reads them all.
    pub fn parse(text: &'static str) -> Self {
        let source = text
            .lines()
            .find_map(|l| l.strip_prefix('#'))
            .expect("a table starts with its source")
            .trim()
            .to_owned();
        let mut lines = text
            .lines()
            .map(str::trim)
            .filter(|l| !l.is_empty() && !l.starts_with('#'))
            .map(|l| l.split(',').map(str::trim).collect::<Vec<_>>());
        let columns = lines.next().expect("a table names its columns");
        let rows: Vec<_> = lines.collect();
        for row in &rows {
            assert_eq!(row.len(), columns.len(), "{row:?} has other columns");
        }
        Self {
            source,
            columns,
            rows,
        }
    }

    /// Its lines.
    pub fn lines(&self) -> impl Iterator<Item = Line<'_>> {
        self.rows.iter().map(|cells| Line { table: self, cells })
    }
}

impl Line<'_> {
    /// A cell.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn text(&self, column: &str) -> &'static str {
        let i = self.table.columns.iter().position(|c| *c == column);
        self.cells[i.unwrap_or_else(|| panic!("no column {column}"))]
    }

    /// A number; `None` if the cell is empty or `-`.
    ///
    /// # Panics
    /// If there is no such column, or something else in the cell.
    pub fn number(&self, column: &str) -> Option<f64> {
        match self.text(column) {
            "" | "-" => None,
            text => Some(
                text.parse()
                    .unwrap_or_else(|_| panic!("{column}: {text} is no number")),
            ),
        }
    }

    /// A whole number.
    ///
    /// # Panics
    /// If there is no such column, or something else in the cell.
    pub fn whole(&self, column: &str) -> u32 {
        let text = self.text(column);
        text.parse()
            .unwrap_or_else(|_| panic!("{column}: {text} is no whole number"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cells_are_found_by_name() {
        let t = Table::parse("# A paper, table 1\n# more\nn,goodput\n\n1, 908.2\n2,-\n");
        assert_eq!(t.source, "A paper, table 1");
        let cells: Vec<_> = t
            .lines()
            .map(|l| (l.whole("n"), l.number("goodput")))
            .collect();
        assert_eq!(cells, [(1, Some(908.2)), (2, None)]);
    }
}
