//! From runs to something a person reads: table, sentences, plot, page, JSON and CSV.

pub mod chart;
pub mod explain;
pub mod flows;
pub mod html;
pub mod live;
pub mod points;
pub mod records;
pub mod story;
pub mod study;
pub mod summary;
pub mod table;
#[doc(hidden)]
pub mod testing;

pub use summary::{Point, Summary, VariantSummary};
