//! What stands where in a folder of results.

/// The folder, in one of results, of jobs that a cluster does for it.
pub const SLURM: &str = "slurm";

pub(super) const EXPERIMENT: &str = "experiment.toml";
pub(super) const JOURNAL: &str = "runs.jsonl";
pub(super) const PARTS: &str = "parts";
pub(super) const FILES: &str = "files";
