//! A segment leaves.

mod burst;
mod output;
mod silly_window;

pub(crate) use output::{Made, Output};
