//! The narrows simulated network, its scenarios and its reports.

pub mod cli;
pub mod host;
pub mod net;
pub mod report;
pub mod scenario;
pub mod sim;
