//! A segment leaves.

pub(super) mod ack_policy;
mod output;
mod silly_window;

pub(super) use output::Output;
