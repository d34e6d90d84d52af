//! Tells the library which commit it is built from, for what it records.
//!
//! In release builds only: in others each commit would mean to compile the library anew.

use std::path::{Path, PathBuf};
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if std::env::var("PROFILE").as_deref() != Ok("release") {
        return;
    }
    let package = PathBuf::from(std::env::var_os("CARGO_MANIFEST_DIR").unwrap_or_default());
    if let Some(commit) = packaged(&package).or_else(|| checked_out(&package)) {
        println!("cargo::rustc-env=NARROWS_COMMIT={commit}");
    }
}

/// What `cargo package` noted.
fn packaged(package: &Path) -> Option<String> {
    let note = std::fs::read_to_string(package.join(".cargo_vcs_info.json")).ok()?;
    let (_, rest) = note.split_once("\"sha1\"")?;
    let sha = rest.split('"').nth(1)?;
    Some(sha.get(..12)?.to_owned())
}

/// The commit of the checkout that this package is in, and whether it was changed since.
fn checked_out(package: &Path) -> Option<String> {
    let root = package.parent()?.parent()?;
    // Not of a checkout that somebody has this package's sources somewhere below.
    let top = git(root, &["rev-parse", "--show-toplevel"])?;
    if std::fs::canonicalize(top).ok()? != std::fs::canonicalize(root).ok()? {
        return None;
    }
    for file in ["HEAD", "index"] {
        let path = git(root, &["rev-parse", "--git-path", file])?;
        println!("cargo::rerun-if-changed={}", root.join(path).display());
    }
    for sources in [
        "congestion/src",
        "stack/src",
        "harness/net/src",
        "harness/run/src",
        "harness/experiment/src",
        "harness/script/src",
        "harness/report/src",
        "harness/lab/src",
        "harness/validate/src",
        "harness/cli/src",
    ] {
        println!("cargo::rerun-if-changed={}", root.join(sources).display());
    }
    git(
        root,
        &[
            "describe",
            "--always",
            "--dirty=+",
            "--exclude=*",
            "--abbrev=12",
        ],
    )
}

fn git(folder: &Path, args: &[&str]) -> Option<String> {
    let said = Command::new("git").current_dir(folder).args(args).output();
    let said = said.ok().filter(|s| s.status.success())?;
    let text = String::from_utf8(said.stdout).ok()?.trim().to_owned();
    (!text.is_empty()).then_some(text)
}
