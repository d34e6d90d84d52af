//! The quick checks of `narrows validate`, as tests, and the documentation that goes with them.

use narrows_harness::report::validation::Tally;
use narrows_harness::report::validation::chapter::{Sections, anchors, replaced};
use narrows_harness::validate::{Verdict, checks, run_checks};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Checks that take no longer than this, optimised, are run here.
const QUICK: u32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Every file below `folder` whose name ends in `ending`, in order.
fn files(folder: &Path, ending: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let Ok(entries) = fs::read_dir(folder) else {
        return found;
    };
    for entry in entries {
        let path = entry.expect("a readable folder").path();
        if path.is_dir() {
            found.extend(files(&path, ending));
        } else if path.to_string_lossy().ends_with(ending) {
            found.push(path);
        }
    }
    found.sort();
    found
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// Where an explanation may be: VALIDATION.md outside its generated part, and validation/*.md.
fn sections() -> Sections {
    let docs = root().join("docs");
    let own = replaced(&read(&docs.join("VALIDATION.md")), "").expect("both markers, each once");
    let mut all: Sections = anchors(&own)
        .into_iter()
        .map(|a| (a, String::new()))
        .collect();
    for file in files(&docs.join("validation"), ".md") {
        let name = file.display().to_string();
        all.extend(anchors(&read(&file)).into_iter().map(|a| (a, name.clone())));
    }
    all
}

#[test]
fn quick_checks_agree() {
    let all = checks();
    let quick: Vec<_> = all.into_iter().filter(|c| c.seconds <= QUICK).collect();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let cancel = AtomicBool::new(false);
    let reports = run_checks(&quick, cores, &cancel, &|| Duration::ZERO, &|_| {});
    let mut wrong = Vec::new();
    for report in &reports {
        let rows = report.rows.iter();
        for row in rows.filter(|r| r.verdict() == Verdict::Differs) {
            let (name, what) = (report.check.name, &row.what);
            let tolerance = row.tolerance;
            wrong.push(format!(
                "{name}: {what}: {} and not {} ({tolerance})",
                row.ours, row.reference
            ));
        }
        assert!(
            report.failure.is_some() || !report.rows.is_empty(),
            "{} compares nothing",
            report.check.name
        );
    }
    let tally = Tally::of(&reports, quick.len());
    assert!(tally.holds(), "{wrong:#?} {:?}", tally.failed);
}

#[test]
fn names_are_paths_and_each_its_own() {
    let mut seen = BTreeSet::new();
    for check in checks() {
        let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || "-/".contains(c);
        assert!(check.name.chars().all(plain), "{}", check.name);
        assert!(seen.insert(check.name), "{} is there twice", check.name);
        assert!(!check.what.is_empty() && !check.what.ends_with('.'));
    }
}

/// The long checks' rows are not made here, so the sources are read for what rows name.
#[test]
fn every_explanation_that_a_row_names_exists() {
    let sections = sections();
    let sources = files(&root().join("harness/src/validate"), ".rs");
    let texts: Vec<String> = sources.iter().map(|f| read(f)).collect();
    let all = texts.concat();
    let mut lost = BTreeSet::new();
    for (file, text) in sources.iter().zip(&texts) {
        // Their tests name a made-up one.
        if file.ends_with("row.rs") || file.ends_with("explained.rs") {
            continue;
        }
        for (at, call) in text.match_indices(".explained(") {
            let given = text[at + call.len()..].trim_start();
            let quoted = |t: &str| t.split('"').next().unwrap_or_default().to_owned();
            let anchor = match given.strip_prefix('"') {
                Some(rest) => quoted(rest),
                None => {
                    let name = given.split(')').next().unwrap_or_default();
                    let (_, value) = all
                        .split_once(&format!("const {name}: &str = \""))
                        .unwrap_or_else(|| panic!("{}: what is {name}?", file.display()));
                    quoted(value)
                }
            };
            if !sections.contains_key(&anchor) {
                lost.insert(format!("'{anchor}' of {}", file.display()));
            }
        }
    }
    assert!(lost.is_empty(), "no such sections: {lost:#?}");
}

/// Figures of checks that are gone, or links to ones that were never made.
#[test]
fn figures_and_documents_belong_together() {
    let docs = root().join("docs");
    let mut text = read(&docs.join("VALIDATION.md"));
    for file in files(&docs.join("validation"), ".md") {
        text += &read(&file).replace("](", "](validation/");
    }
    let made: BTreeSet<String> = files(&docs.join("validation"), ".svg")
        .iter()
        .map(|p| {
            p.file_name()
                .expect("a file")
                .to_string_lossy()
                .into_owned()
        })
        .collect();
    let shown: BTreeSet<String> = text
        .match_indices("](validation/")
        .filter_map(|(at, start)| text[at + start.len()..].split(')').next())
        .filter(|target| target.ends_with(".svg"))
        .map(str::to_owned)
        .collect();
    assert_eq!(made, shown);
}
