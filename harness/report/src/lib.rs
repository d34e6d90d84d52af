//! From runs to something a person reads: table, sentences, plot, page, JSON and CSV.

pub mod chart;
pub mod explain;
pub mod flows;
pub mod html;
pub mod points;
pub mod study;
pub mod table;
#[doc(hidden)]
pub mod testing;
