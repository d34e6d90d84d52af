//! The report of any experiment: its figures, each with its numbers, and a page around them.

mod cdf;
mod collapse;
mod course;
mod differences;
mod figure;
mod ledger;
mod losses;
mod readings;
mod remarks;
mod report;
mod sequence;
mod settings;
mod sweep;

pub use figure::Figure;
pub use remarks::{runs_in_words, said};
pub use report::Report;
