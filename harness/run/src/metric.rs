//! Metrics: what is measured of a run, one table entry each.
//!
//! A metric has a name, a unit and a function of the run: the column of a result, the y axis of a
//! picture and what `[[expect]]` can name are made of that entry. Metrics that make sense for one
//! traffic alone are there for each, as `NAME.metric`, when an experiment has several.

mod entry;
mod measured;
mod standard;
mod table;

pub use entry::{Better, Metric, Scope, Whose};
pub use measured::Measured;
pub use table::{Metrics, Named};
