//! Every committed input of the fuzz targets, through the body of its target: what fuzzing once
//! found stays found, on a stable compiler and without a fuzzer.
#![allow(missing_docs)]

use narrows_tests::bodies::{TARGETS, Target, target};
use std::path::{Path, PathBuf};

fn inputs(target: Target) -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let folder = root.join("fuzz/seeds").join(target.name);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{folder:?}: {e}"));
    let mut paths: Vec<PathBuf> = entries.map(|e| e.unwrap().path()).collect();
    paths.sort();
    paths
}

/// Each input by itself, so that a failure names its file.
fn replay(name: &str) {
    let target = target(name);
    let paths = inputs(target);
    assert!(paths.len() >= 8, "{name} has {} inputs only", paths.len());
    for path in paths {
        let bytes = std::fs::read(&path).unwrap();
        let run = std::panic::catch_unwind(|| (target.run)(&bytes));
        assert!(run.is_ok(), "{path:?} fails");
    }
}

#[test]
fn options() {
    replay("options");
}

#[test]
fn packets() {
    replay("packets");
}

#[test]
fn segments() {
    replay("segments");
}

#[test]
fn frames() {
    replay("frames");
}

#[test]
fn shared() {
    replay("shared");
}

#[test]
fn schedules() {
    replay("schedules");
}

#[test]
fn scripts() {
    replay("scripts");
}

#[test]
fn captures() {
    replay("captures");
}

#[test]
fn two() {
    replay("two");
}

/// The programs in `fuzz/` are those of the list.
#[test]
fn every_target_has_its_program() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let manifest = std::fs::read_to_string(root.join("fuzz/Cargo.toml")).unwrap();
    for target in TARGETS {
        assert!(manifest.contains(&format!("name = \"{}\"", target.name)));
        let program = root.join(format!("fuzz/targets/{}.rs", target.name));
        let program = std::fs::read_to_string(program).unwrap();
        assert!(program.contains(&format!("target(\"{}\")", target.name)));
    }
    assert_eq!(manifest.matches("[[bin]]").count(), TARGETS.len());
}
