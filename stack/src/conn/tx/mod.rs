//! A segment leaves.

pub(super) mod ack_policy;
pub(super) mod challenge;
mod output;
mod silly_window;
