//! A segment leaves.

mod output;
mod silly_window;

pub(crate) use output::Output;
