//! Headings of options in help texts.

pub(super) const WHAT: &str = "What runs";
pub(super) const OUTPUT: &str = "Output";
