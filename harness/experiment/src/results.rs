//! Results in a folder: what ran, every number of it, and what is needed to go on.
//!
//! ```text
//! experiment.toml   the whole experiment, with the version that ran it
//! runs.csv          a row for each run: what was set or varied, and every metric
//! flows.csv         a row for each direction of each connection
//! transfers.csv     a row for each transfer
//! ports.csv         a row for each port that did something
//! series-NAME.csv   what probe NAME saw over time
//! runs.jsonl        a line of JSON for each run, as it ended
//! files/            files that values of the sweep name
//! parts/            the rows of the tables, as the runs ended
//! ```
//!
//! A finished run is in the folder for good: its rows are appended to the tables in `parts`, then
//! its line to `runs.jsonl`, which says how far the tables go. What a killed process has left behind
//! the last whole line is cut off by the next one, which runs only what is missing. The tables
//! beside are made of that when a command ends, in the order of the plan, so that they are the same
//! whichever process, thread or shard ran what and when.

mod assemble;
mod error;
mod folder;
mod journal;
mod layout;
mod merge;
mod tables;
mod whole;

pub use error::FolderError;
pub use folder::Folder;
pub use journal::Record;
pub use layout::SLURM;
pub use merge::{Merged, merge};
pub use tables::{RunTables, cell, cells, column};
