//! Rows of text under a head, and the metrics that become columns of them.

/// A metric in a table.
#[derive(Clone, Copy, Debug)]
pub struct Column {
    /// What stands above it.
    pub title: &'static str,
    /// The metric: `latency.p99`, `port.s0->h0.max_bytes`.
    pub metric: &'static str,
}

impl Column {
    /// A metric under a title.
    pub const fn new(title: &'static str, metric: &'static str) -> Self {
        Self { title, metric }
    }
}

/// Rows of text.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Grid {
    /// What stands above the columns.
    pub head: Vec<String>,
    /// How many columns are words, which stand left.
    pub words: usize,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Grid {
    /// Without rows yet; the first `words` columns are words.
    pub fn new<const N: usize>(head: [&str; N], words: usize) -> Self {
        Self {
            head: head.map(str::to_owned).to_vec(),
            words,
            rows: Vec::new(),
        }
    }
}
