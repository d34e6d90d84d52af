//! The conformance lists of `docs/conformance` tell the truth: every test they name exists, no MUST
//! is without one, and the pages are what the lists say.
//!
//! `NARROWS_WRITE_CONFORMANCE=1 cargo test -p narrows-tests --test conformance` writes the pages
//! anew.
#![allow(missing_docs)]

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

const COLUMNS: [&str; 7] = [
    "id",
    "section",
    "level",
    "requirement",
    "where",
    "tests",
    "status",
];

#[derive(Debug)]
struct Row {
    id: String,
    section: String,
    level: String,
    requirement: String,
    place: String,
    tests: Vec<String>,
    status: String,
}

impl Row {
    fn is_done(&self) -> bool {
        self.status == "done" || self.status.starts_with("done; ")
    }
    fn is_must(&self) -> bool {
        self.level.starts_with("MUST")
    }
}

/// One RFC: its number, title and rows.
#[derive(Debug)]
struct List {
    file: String,
    rows: Vec<Row>,
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR"))
        .parent()
        .expect("the tests lie in the workspace")
        .to_owned()
}

fn folder() -> PathBuf {
    root().join("docs/conformance")
}

/// The fields of a line of CSV (RFC 4180, without line breaks in fields).
fn fields(line: &str) -> Vec<String> {
    let mut fields = vec![String::new()];
    let mut quoted = false;
    let mut chars = line.chars().peekable();
    while let Some(c) = chars.next() {
        let field = fields.last_mut().expect("never empty");
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                field.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => fields.push(String::new()),
            c => field.push(c),
        }
    }
    assert!(!quoted, "a quote is not closed: {line}");
    fields
}

fn list(path: &Path) -> List {
    let text = fs::read_to_string(path).unwrap();
    let mut lines = text.lines();
    assert_eq!(fields(lines.next().unwrap()), COLUMNS, "{path:?}");
    let rows = lines.map(|line| {
        let [id, section, level, requirement, place, tests, status] =
            <[String; 7]>::try_from(fields(line)).unwrap_or_else(|f| panic!("{path:?}: {f:?}"));
        Row {
            id,
            section,
            level,
            requirement,
            place,
            tests: tests.split_whitespace().map(str::to_owned).collect(),
            status,
        }
    });
    let file = path.file_stem().unwrap().to_str().unwrap().to_owned();
    List {
        file,
        rows: rows.collect(),
    }
}

/// All lists, by number of the RFC.
fn lists() -> Vec<List> {
    let mut paths: Vec<PathBuf> = fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|e| e == "csv"))
        .collect();
    paths.sort_by_key(|p| {
        let stem = p.file_stem().unwrap().to_str().unwrap();
        stem.trim_start_matches("rfc").parse::<u32>().unwrap()
    });
    paths.iter().map(|p| list(p)).collect()
}

/// The names of the tests in a source file.
fn tests_in(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap_or_else(|e| panic!("{path:?}: {e}"));
    let mut names = BTreeSet::new();
    let mut armed = false;
    for line in text.lines() {
        let line = line.trim();
        if line == "#[test]" || line == "#[tokio::test]" {
            armed = true;
        } else if armed && let Some(rest) = line.trim_start_matches("async ").strip_prefix("fn ") {
            let name = rest.split(['(', '<']).next().unwrap();
            names.insert(name.to_owned());
            armed = false;
        }
    }
    names
}

#[test]
fn every_named_test_exists() {
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut wrong = Vec::new();
    for list in lists() {
        for row in &list.rows {
            for test in &row.tests {
                let Some((file, name)) = test.split_once("::") else {
                    wrong.push(format!("{} {}: {test} is no path::name", list.file, row.id));
                    continue;
                };
                let path = root().join(file);
                if !path.is_file() {
                    wrong.push(format!("{} {}: no file {file}", list.file, row.id));
                    continue;
                }
                let names = known
                    .entry(file.to_owned())
                    .or_insert_with(|| tests_in(&path));
                if !names.contains(name) {
                    wrong.push(format!("{} {}: no test {test}", list.file, row.id));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert!(known.len() > 15, "files looked into: {}", known.len());
}

#[test]
fn no_must_is_without_a_test() {
    for list in lists() {
        for row in &list.rows {
            let name = format!("{} {}", list.file, row.id);
            let excused = row.status.starts_with("not applicable, because ");
            let open = row.status.starts_with("not done, because ");
            assert!(row.is_done() || excused || open, "{name}: {}", row.status);
            assert_eq!(row.is_done(), !row.tests.is_empty(), "{name}: tests");
            assert_eq!(row.is_done(), !row.place.is_empty(), "{name}: where");
            if row.is_must() {
                assert!(row.is_done() || excused, "{name} is a MUST: {}", row.status);
            }
            let levels = [
                "MUST",
                "MUST NOT",
                "SHOULD",
                "SHOULD NOT",
                "MAY",
                "RECOMMENDED",
                // A step of an algorithm, without a key word.
                "STEP",
            ];
            assert!(
                levels.contains(&row.level.as_str()),
                "{name}: {}",
                row.level
            );
            assert!(
                !row.requirement.is_empty() && !row.section.is_empty(),
                "{name}"
            );
        }
    }
}

/// RFC 9293's own numbers, all of them, in order; its tests bear their names.
#[test]
fn rfc_9293_is_complete() {
    let list = list(&folder().join("rfc9293.csv"));
    let numbered = |prefix: &str, n: u32| (1..=n).map(|i| format!("{prefix}-{i}")).collect();
    let want: Vec<Vec<String>> = vec![
        numbered("MUST", 69),
        numbered("SHLD", 31),
        numbered("MAY", 18),
        numbered("REC", 1),
    ];
    let ids: Vec<String> = list.rows.iter().map(|r| r.id.clone()).collect();
    assert_eq!(ids, want.concat());
    for row in list.rows.iter().filter(|r| r.is_done()) {
        let name = row.id.to_lowercase().replace('-', "_") + "_";
        let named = row.tests.iter().any(|t| t.contains(&name));
        assert!(
            named || row.id.starts_with("MAY"),
            "{}: no test named {name}",
            row.id
        );
    }
}

#[test]
fn ids_are_unique_and_files_exist() {
    for list in lists() {
        let mut seen = BTreeSet::new();
        for row in &list.rows {
            assert!(seen.insert(&row.id), "{} {} twice", list.file, row.id);
            let words = row.place.split([' ', ':', ';', ',']);
            for file in words.filter(|w| w.ends_with(".rs") || w.ends_with('/')) {
                let there =
                    root().join(file).exists() || root().join("stack/src").join(file).exists();
                assert!(there, "{} {}: no file {file}", list.file, row.id);
            }
        }
    }
}

/// Those that noticed a mutation are still there.
#[test]
fn the_mutations_name_tests_that_exist() {
    let text = fs::read_to_string(folder().join("MUTATIONS.md")).unwrap();
    let mut known: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    let mut count = 0;
    for part in text.split("[`").skip(1) {
        let (name, rest) = part.split_once("`](../../").expect("a link to a test");
        let (file, _) = rest.split_once(')').expect("a link to a test");
        let names = known
            .entry(file.to_owned())
            .or_insert_with(|| tests_in(&root().join(file)));
        assert!(names.contains(name), "no test {name} in {file}");
        count += 1;
    }
    assert!(count >= 40, "{count}");
}

// ---- The pages.

fn title(file: &str) -> &'static str {
    match file {
        "rfc1122" => "Requirements for Internet hosts (parts that touch TCP)",
        "rfc1191" => "Path MTU discovery",
        "rfc2018" => "Selective acknowledgement",
        "rfc2861" => "Congestion window validation (historic)",
        "rfc2883" => "Duplicate SACK",
        "rfc3042" => "Limited transmit",
        "rfc3168" => "Explicit congestion notification",
        "rfc3708" => "Spurious retransmissions by D-SACK",
        "rfc4821" => "Packetization layer path MTU discovery (with RFC 8899)",
        "rfc5681" => "Congestion control",
        "rfc5682" => "F-RTO",
        "rfc5927" => "ICMP attacks against TCP",
        "rfc5961" => "Robustness against blind attacks",
        "rfc6298" => "Retransmission timer",
        "rfc6528" => "Initial sequence numbers",
        "rfc6582" => "NewReno",
        "rfc6675" => "SACK-based loss recovery",
        "rfc6928" => "Initial window of 10",
        "rfc7323" => "Window scale, timestamps, PAWS",
        "rfc7413" => "TCP Fast Open",
        "rfc7661" => "Congestion window validation",
        "rfc8200" => "IPv6 (parts that touch TCP)",
        "rfc8201" => "Path MTU discovery for IPv6",
        "rfc8257" => "DCTCP",
        "rfc8504" => "IPv6 node requirements (parts that touch TCP)",
        "rfc8985" => "RACK-TLP",
        "rfc9293" => "Transmission Control Protocol",
        "rfc9406" => "HyStart++",
        "rfc9438" => "CUBIC",
        "rfc9937" => "Proportional rate reduction",
        other => panic!("{other} has no title"),
    }
}

/// What the key words of a list have been held against.
fn held_against(file: &str) -> &'static str {
    match file {
        "rfc9293" => "the numbers of its Appendix B",
        "rfc1122" => {
            "its text (sections 3.2, 3.3.2 to 3.3.4 and 4.2.3). Section 4.2 has become RFC 9293, \
             whose list has it"
        }
        "rfc1191" => {
            "its text. Section 6 calls itself suggestions and has, but for two, no key words: \
             STEP is what it says there"
        }
        "rfc8200" => "its text (sections 3 to 8). The RFC writes them in lower case",
        "rfc8504" => {
            "its text (sections 4 to 13). Temporary addresses, DHCP, DNS, service discovery and \
             mobility (sections 6.4, 6.5, 7 to 9 and 12) are not in the list"
        }
        "rfc2861" => {
            "its text (section 3). It is historic, obsoleted by RFC 7661, and has no key words: \
             the steps are those of its pseudo-code"
        }
        "rfc4821" => {
            "its text (sections 2 to 10). The rows 8899 are what RFC 8899 adds for TCP's search"
        }
        "rfc7413" => "its text (sections 2 to 9, with the errata 4238 and 4239)",
        "rfc7661" => "its text (section 4)",
        "rfc8257" => "its text (sections 3.2 to 4.2)",
        "rfc5927" => {
            "its text (sections 4 to 7). It is informational, has no key words of its own, and \
             describes what implementations do"
        }
        "rfc9937" => "its text (sections 4 to 6)",
        "rfc2018" | "rfc2883" | "rfc3042" | "rfc3168" | "rfc3708" | "rfc5681" | "rfc5682"
        | "rfc5961" | "rfc6298" | "rfc6528" | "rfc6582" | "rfc6675" | "rfc6928" | "rfc7323"
        | "rfc8985" | "rfc9406" | "rfc9438" => "its text",
        "rfc8201" => {
            "its text. The RFC writes them in lower case, and section 5 calls itself notes"
        }
        other => panic!("nobody knows what {other} was held against"),
    }
}

fn cell(text: &str) -> String {
    text.replace('|', "\\|").replace('<', "&lt;")
}

fn page(list: &List) -> String {
    let number = list.file.trim_start_matches("rfc");
    let mut out = format!("# RFC {number}: {}\n\n", title(&list.file));
    out += "Made from the list beside it; see [the overview](README.md). Files are those of `stack/src`.";
    let source = held_against(&list.file);
    writeln!(out, " Its key words were held against {source}.\n").unwrap();
    out += "| | Section | | What it asks for | Where | Tests |\n|---|---|---|---|---|---|\n";
    for row in &list.rows {
        let tests: Vec<String> = row
            .tests
            .iter()
            .filter_map(|t| t.split_once("::"))
            .map(|(file, name)| format!("[`{name}`](../../{file})"))
            .collect();
        let mut last = tests.join("<br>");
        if row.status != "done" {
            let status = cell(row.status.trim_start_matches("done; "));
            last = if last.is_empty() {
                format!("*{status}*")
            } else {
                format!("{last}<br>*{status}*")
            };
        }
        writeln!(
            out,
            "| {} | {} | {} | {} | {} | {last} |",
            row.id,
            row.section,
            row.level,
            cell(&row.requirement),
            cell(&row.place),
        )
        .unwrap();
    }
    out
}

fn overview(lists: &[List]) -> String {
    let mut out = String::from(
        "# Conformance\n\n\
         What the RFCs ask of a TCP, requirement by requirement: where it is done, and the test \
         that fails if it is not. The lists (`rfc*.csv`) are the source; the pages are made from \
         them, and `tests/tests/conformance.rs` checks that each test named exists, that no MUST is \
         without one, and that the pages are up to date \
         (`NARROWS_WRITE_CONFORMANCE=1 cargo test -p narrows-tests --test conformance` writes \
         them).\n\n\
         That the tests do fail was tried: [MUTATIONS.md](MUTATIONS.md) breaks rules one at a time \
         and says what noticed.\n\n\
         STEP is a step of an algorithm that has no key word (MUST, SHOULD, MAY). Of RFCs other than \
         9293 the numbers in front are those of our lists, which name what a TCP is measured by and \
         not every sentence; what their key words were held against stands on each page.\n\n\
         | RFC | | Requirements | Done | Not applicable | Not done |\n|---|---|--:|--:|--:|--:|\n",
    );
    let mut sum = [0; 4];
    for list in lists {
        let count = |f: &dyn Fn(&Row) -> bool| list.rows.iter().filter(|r| f(r)).count();
        let counts = [
            list.rows.len(),
            count(&Row::is_done),
            count(&|r| r.status.starts_with("not applicable")),
            count(&|r| r.status.starts_with("not done")),
        ];
        for (sum, n) in sum.iter_mut().zip(counts) {
            *sum += n;
        }
        let [all, done, na, open] = counts;
        let number = list.file.trim_start_matches("rfc");
        writeln!(
            out,
            "| [{number}]({}.md) | {} | {all} | {done} | {na} | {open} |",
            list.file,
            title(&list.file)
        )
        .unwrap();
    }
    let [all, done, na, open] = sum;
    writeln!(
        out,
        "| **All** | | **{all}** | **{done}** | **{na}** | **{open}** |"
    )
    .unwrap();
    out += "\n## Not done\n\n";
    for list in lists {
        for row in list
            .rows
            .iter()
            .filter(|r| r.status.starts_with("not done"))
        {
            let number = list.file.trim_start_matches("rfc");
            let why = row.status.trim_start_matches("not done, because ");
            writeln!(
                out,
                "- RFC {number} {} ({}): {}. Why not: {why}.",
                row.id, row.level, row.requirement
            )
            .unwrap();
        }
    }
    out
}

#[test]
fn the_pages_are_up_to_date() {
    let lists = lists();
    let write = std::env::var_os("NARROWS_WRITE_CONFORMANCE").is_some();
    let mut pages = vec![("README.md".to_owned(), overview(&lists))];
    for list in &lists {
        pages.push((format!("{}.md", list.file), page(list)));
    }
    for (name, text) in pages {
        let path = folder().join(&name);
        if write {
            fs::write(&path, &text).unwrap();
        }
        let stands = fs::read_to_string(&path).unwrap_or_default();
        assert!(
            stands == text,
            "docs/conformance/{name} is not what the lists say: \
             NARROWS_WRITE_CONFORMANCE=1 cargo test -p narrows-tests --test conformance"
        );
    }
}
