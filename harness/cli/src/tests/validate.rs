//! `narrows validate`, over made-up checks.

use super::*;
use narrows_validate::Check;
use narrows_validate::report::chapter::MARK;
use narrows_validate::report::overview::{BEGIN, END};
use narrows_validate::testing::CHECKS;

fn validate(checks: &[Check], options: &str) -> Ran {
    let mut app = app();
    app.checks = checks.to_vec();
    narrows_with(
        &app,
        &format!("validate {options}"),
        &AtomicBool::new(false),
    )
}

#[test]
fn the_exit_code_tells_whether_all_is_well() {
    let ran = validate(&CHECKS, "-j 2");
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(ran.out.contains("1 differs") && ran.out.contains("a/second failed"));
    let ran = validate(&CHECKS[..1], "");
    assert_eq!(ran.code, EXIT_OK, "{}{}", ran.out, ran.err);
    assert!(ran.out.contains("2 agree, 1 is explained and 0 differ."));
    assert!(ran.out.contains("1 check in "));
    let quiet = validate(&CHECKS[..1], "-q");
    assert_eq!(quiet.out.lines().count(), 1, "{}", quiet.out);
}

#[test]
fn the_table() {
    let ran = validate(&CHECKS, "");
    let stable: String = ran
        .out
        .lines()
        .filter(|l| !l.contains(" checks in "))
        .map(|l| l.to_owned() + "\n")
        .collect();
    assert_eq!(stable, include_str!("validation.txt"));
}

#[test]
fn checks_are_chosen_by_the_beginning_of_their_names() {
    let names = |options: &str| -> Vec<String> {
        let ran = validate(&CHECKS, &format!("{options} --list"));
        assert_eq!(ran.code, EXIT_OK);
        let first = |l: &str| l.split_whitespace().next().unwrap().to_owned();
        ran.out.lines().map(first).collect()
    };
    assert_eq!(names(""), ["a/first", "a/second", "b"]);
    assert_eq!(names("--only a"), ["a/first", "a/second"]);
    assert_eq!(names("--only a/"), ["a/first", "a/second"]);
    assert_eq!(names("--only b --only a/f"), ["a/first", "b"]);
    let ran = validate(&CHECKS, "--only a/frist");
    assert_eq!(ran.code, EXIT_USAGE);
    for part in [
        "'a/frist' for '--only'",
        "did you mean 'a/first'?",
        "\n  b\n",
    ] {
        assert!(ran.err.contains(part), "{part} in\n{}", ran.err);
    }
}

#[test]
fn files() {
    let dir = folder("validate-files");
    let d = dir.display();
    let ran = validate(
        &CHECKS,
        &format!("--json {d}/v.json --report {d}/v.html -q"),
    );
    assert_eq!(ran.code, EXIT_FAILED);
    assert_eq!(files_in(&dir), ["v.html", "v.json"]);
    let json = fs::read_to_string(dir.join("v.json")).unwrap();
    let value: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(value["differ"], 1);
    fs::remove_dir_all(&dir).unwrap();

    let ran = validate(&CHECKS, "--json");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["command"], "narrows validate --json");
    assert!(ran.err.contains("a/first") && ran.err.contains("1 differs"));
    let ran = validate(&CHECKS, "--report /no/such/folder/x");
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(ran.err.contains("cannot write the report"), "{}", ran.err);
}

/// A folder with a page that holds the markers, and with `explanation`, if any.
fn documentation(name: &str, explanation: &str) -> PathBuf {
    let dir = folder(name);
    let page = format!("# Validation\n\nWords.\n{BEGIN}\n{END}\nMore.\n");
    fs::write(dir.join("VALIDATION.md"), page).unwrap();
    fs::create_dir_all(dir.join("validation/tables")).unwrap();
    if !explanation.is_empty() {
        fs::write(dir.join("validation/a.md"), explanation).unwrap();
    }
    dir
}

const WHY_16: &str = "## Why 16\n\nBecause.\n";

#[test]
fn the_documentation_needs_a_page_with_both_markers() {
    let dir = folder("validate-markers");
    let line = format!("--docs {}", dir.display());
    let ran = validate(&CHECKS[..1], &line);
    assert_eq!(ran.code, EXIT_USAGE);
    assert!(ran.err.contains("cannot read"), "{}", ran.err);
    fs::write(dir.join("VALIDATION.md"), "no markers").unwrap();
    let ran = validate(&CHECKS[..1], &line);
    assert!(ran.err.contains(BEGIN) && ran.err.contains("each once"));
    assert_eq!(files_in(&dir), ["VALIDATION.md"]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn the_documentation_is_a_page_and_its_chapters_and_the_same_each_time() {
    let dir = documentation("validate-docs", "");
    let line = format!("--docs {}", dir.display());
    // The section that a row names is nowhere: all is written, and it is said.
    let ran = validate(&CHECKS[..1], &line);
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(ran.out.contains("No section 'why-16'"), "{}", ran.out);
    fs::write(dir.join("validation/a.md"), WHY_16).unwrap();
    let files = [
        "validation/made-up.svg",
        "validation/tables/a.md",
        "VALIDATION.md",
    ];
    let read = || files.map(|p| fs::read_to_string(dir.join(p)).unwrap());
    let ran = validate(&CHECKS[..1], &line);
    assert_eq!(ran.code, EXIT_OK, "{}{}", ran.out, ran.err);
    let told: Vec<&str> = ran
        .out
        .lines()
        .filter(|l| l.starts_with("Wrote "))
        .collect();
    let expected = files.map(|f| format!("Wrote {}", dir.join(f).display()));
    assert_eq!(told, expected);
    assert!(!ran.out.contains("Removed"), "{}", ran.out);
    let first = read();
    assert!(first[1].starts_with(MARK) && first[1].contains("(../a.md#why-16)"));
    assert!(first[2].starts_with("# Validation\n\nWords.\n") && first[2].ends_with("More.\n"));
    assert!(first[2].contains("(validation/tables/a.md)"));
    assert!(first[2].contains("[Why 16](validation/a.md#why-16)"));
    validate(&CHECKS[..1], &format!("{line} -j 2"));
    assert_eq!(read(), first);

    // A failed check leaves holes: all stays as it was.
    let ran = validate(&CHECKS, &line);
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(ran.out.contains("stays as it was") && !ran.out.contains("Wrote"));
    assert_eq!(read(), first);
    assert_eq!(
        validate(&CHECKS, &format!("{line} --only a")).code,
        EXIT_USAGE
    );
    assert_eq!(files_in(&dir), ["VALIDATION.md", "validation"]);
    let below = ["a.md", "made-up.svg", "tables"];
    assert_eq!(files_in(&dir.join("validation")), below);
    assert_eq!(files_in(&dir.join("validation/tables")), ["a.md"]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn chapters_and_figures_of_families_that_are_gone_go_and_nothing_else() {
    let dir = documentation("validate-stale", WHY_16);
    let line = format!("--docs {}", dir.display());
    let inside = dir.join("validation");
    let gone = format!("{MARK}\n\n# gone\n\n![Old](../old.svg)\n\n![](../made-up.svg)\n");
    for (name, text) in [
        ("tables/gone.md", gone.as_str()),
        ("old.svg", "<svg/>"),
        ("kept.svg", "<svg/>"),
        ("tables/own.md", "Words of a person. ![](../kept.svg)\n"),
    ] {
        fs::write(inside.join(name), text).unwrap();
    }
    let ran = validate(&CHECKS[..1], &line);
    assert_eq!(ran.code, EXIT_OK, "{}{}", ran.out, ran.err);
    for name in ["tables/gone.md", "old.svg"] {
        let told = format!("Removed {}\n", inside.join(name).display());
        assert!(ran.out.contains(&told), "{}", ran.out);
    }
    let left = ["a.md", "kept.svg", "made-up.svg", "tables"];
    assert_eq!(files_in(&inside), left);
    assert_eq!(files_in(&inside.join("tables")), ["a.md", "own.md"]);

    // What a person wrote is not written over.
    fs::write(inside.join("tables/a.md"), "Words of a person.\n").unwrap();
    let ran = validate(&CHECKS[..1], &line);
    assert_eq!(ran.code, EXIT_USAGE);
    assert!(ran.err.contains("move it away"), "{}", ran.err);
    let text = fs::read_to_string(inside.join("tables/a.md")).unwrap();
    assert_eq!(text, "Words of a person.\n");
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn an_interruption_keeps_what_is_finished() {
    static CANCEL: AtomicBool = AtomicBool::new(false);
    let stop = Check {
        name: "b/stops",
        what: "An interruption",
        seconds: 0,
        run: |b| {
            CANCEL.store(true, Ordering::Relaxed);
            b.checkpoint()
        },
    };
    let mut app = app();
    app.checks = vec![CHECKS[0], stop, stop];
    let ran = narrows_with(&app, "validate -j 1", &CANCEL);
    assert_eq!(ran.code, EXIT_INTERRUPTED);
    assert!(ran.out.contains("N = 1, goodput"), "{}", ran.out);
    assert!(ran.out.contains("Interrupted: 2 checks were not finished."));
}
