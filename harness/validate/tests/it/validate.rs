//! The quick checks of `narrows validate`, as tests, and the documentation that goes with them.

use narrows_validate::origin::Origins;
use narrows_validate::report::Tally;
use narrows_validate::report::markdown::{Sections, anchors, sections};
use narrows_validate::report::overview::undescribed;
use narrows_validate::{Verdict, about, checks, full_checks, local_checks, run_checks};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Duration;

/// Checks that take no longer than this, optimised, are run here.
const QUICK: u32 = 2;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
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

/// Where an explanation may be: docs/validation/*.md, and not the tables below it.
fn explanations() -> Sections {
    let folder = root().join("docs/validation");
    let own = |file: &PathBuf| file.parent() == Some(folder.as_path());
    let mut all = Sections::new();
    for file in files(&folder, ".md").iter().filter(|f| own(f)) {
        all.extend(sections(&read(file), &file.display().to_string()));
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
    let undescribed = undescribed(&reports, &Origins::known());
    assert!(
        undescribed.is_empty(),
        "not in origins.tsv: {undescribed:#?}"
    );
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

#[test]
fn every_family_is_described() {
    for check in [checks(), full_checks(), local_checks()].concat() {
        assert!(about(check.family()).is_some(), "{}", check.family());
    }
}

/// The long checks' rows are not made here, but most have their sources from these tables.
#[test]
fn every_table_of_references_is_described() {
    let origins = Origins::known();
    let tables = files(&root().join("harness/validate/reference"), ".csv");
    assert!(!tables.is_empty());
    for table in tables {
        let text = read(&table);
        let source = text.lines().find_map(|l| l.strip_prefix('#'));
        let source = source.expect("a source").trim();
        let what = table.display();
        assert!(origins.of(source).is_some(), "{what}: {source}");
    }
}

/// The long checks' rows are not made here, so the sources are read for what rows name.
#[test]
fn every_explanation_that_a_row_names_exists() {
    let sections = explanations();
    let sources = files(&root().join("harness/validate/src"), ".rs");
    let texts: Vec<String> = sources.iter().map(|f| read(f)).collect();
    let all = texts.concat();
    let mut lost = BTreeSet::new();
    for (file, text) in sources.iter().zip(&texts) {
        // Their tests name made-up ones.
        let made_up = ["row.rs", "explained.rs", "testing.rs"];
        let is_report = file.components().any(|c| c.as_os_str() == "report");
        if is_report || made_up.iter().any(|name| file.ends_with(name)) {
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

/// The page, the documents that explain, and the chapters.
fn documents() -> Vec<PathBuf> {
    let docs = root().join("docs");
    let mut all = vec![docs.join("VALIDATION.md")];
    all.extend(files(&docs.join("validation"), ".md"));
    all
}

/// Where the links and images of a document lead, without those that leave the repository.
fn links(file: &Path) -> Vec<(PathBuf, Option<String>)> {
    let text = read(file);
    let targets = text
        .match_indices("](")
        .filter_map(|(at, start)| text[at + start.len()..].split(')').next());
    let mut found = Vec::new();
    for target in targets.filter(|t| !t.contains("://")) {
        let (path, anchor) = match target.split_once('#') {
            Some((path, anchor)) => (path, Some(anchor.to_owned())),
            None => (target, None),
        };
        let path = match path {
            "" => file.to_owned(),
            path => file.parent().expect("a folder").join(path),
        };
        let path = path.canonicalize();
        let path = path.unwrap_or_else(|e| panic!("{}: {target}: {e}", file.display()));
        found.push((path, anchor));
    }
    found
}

#[test]
fn every_link_leads_somewhere() {
    let read_first = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"];
    let read_first = read_first.map(|name| root().join(name));
    for file in files(&root().join("docs"), ".md")
        .into_iter()
        .chain(read_first)
    {
        for (path, anchor) in links(&file) {
            let Some(anchor) = anchor else { continue };
            assert!(
                anchors(&read(&path)).contains(&anchor),
                "{}: {} has no section '{anchor}'",
                file.display(),
                path.display()
            );
        }
    }
}

/// No figures of checks that are gone.
#[test]
fn every_figure_is_shown() {
    let svg = |p: &PathBuf| p.extension() == Some("svg".as_ref());
    let made: BTreeSet<PathBuf> = files(&root().join("docs/validation"), ".svg")
        .iter()
        .map(|p| p.canonicalize().expect("it is there"))
        .collect();
    let shown: BTreeSet<PathBuf> = documents()
        .iter()
        .flat_map(|file| links(file))
        .map(|(path, _)| path)
        .filter(svg)
        .collect();
    assert_eq!(made, shown);
}
