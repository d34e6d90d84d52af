//! Which narrows this is, for what is recorded.

/// The version of the package.
pub const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit that a release build was made from, with a `+` if something was changed since;
/// other builds do not know it.
pub const COMMIT: Option<&str> = option_env!("NARROWS_COMMIT");

/// Version and commit, for people: `0.1.0 (commit 0123456789ab)`.
pub fn text() -> String {
    match COMMIT {
        Some(commit) => format!("{VERSION} (commit {commit})"),
        None => VERSION.to_owned(),
    }
}
