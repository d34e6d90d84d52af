//! A segment leaves.

mod output;
mod silly_window;

pub(super) use output::Output;
