//! The narrows simulated network, its scenarios and its reports.
