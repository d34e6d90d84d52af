//! Where results go, and what happens if they cannot.

use super::*;

/// A small incast: two points of one run each.
const SMALL: &str = "incast -n 2,4 --cc reno --rto linux --blocks 2 -r 1";

#[test]
fn every_file_asked_for_is_written_whole() {
    let dir = folder("files");
    let d = dir.display();
    let ran = narrows(&format!(
        "{SMALL} --report {d}/r.html --json {d}/r.json --csv {d}/r.csv --svg {d}/r.svg"
    ));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert_eq!(files_in(&dir), ["r.csv", "r.html", "r.json", "r.svg"]);
    assert!(
        ran.err.contains(&format!("the report is in {d}/r.html")),
        "{}",
        ran.err
    );
    for (file, lines) in [("r.csv", 3), ("r.json", 2)] {
        let text = fs::read_to_string(dir.join(file)).unwrap();
        assert_eq!(text.lines().count(), lines, "{file}");
    }
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn machine_output_stays_alone_on_standard_output() {
    let ran = narrows(&format!("{SMALL} --no-report --json"));
    let lines = ran
        .out
        .lines()
        .map(serde_json::from_str::<serde_json::Value>);
    let runs: Result<Vec<_>, _> = lines.collect();
    assert_eq!(runs.unwrap().len(), 2);
    assert!(ran.err.contains("goodput"), "{}", ran.err);
    let ran = narrows(&format!("{SMALL} --no-report --csv - --quiet"));
    assert!(
        ran.out.starts_with("point,repetition,seed,outcome,"),
        "{}",
        ran.out
    );
    assert_eq!(ran.out.lines().count(), 3);
}

#[test]
fn a_folder_that_cannot_be_written_stops_before_the_first_run() {
    for option in ["--report", "--json", "--csv", "--svg"] {
        // It would take minutes.
        let line = format!(
            "incast -n 2000 --blocks 100000 --cc reno --rto linux {option} /no/such/folder/x"
        );
        let ran = narrows(&line);
        assert_eq!(ran.code, EXIT_FAILED);
        assert!(ran.err.contains("cannot write the") && ran.err.contains("/no/such/folder/x"));
    }
    assert!(
        files_in(Path::new("."))
            .iter()
            .all(|f| !f.starts_with(".narrows-report"))
    );
}

/// Two outputs to one file are refused before anything runs, whatever its spelling.
#[test]
fn each_output_has_a_file_of_its_own() {
    let dir = folder("same");
    let d = dir.display();
    fs::write(dir.join("old"), "old").unwrap();
    fs::create_dir(dir.join("sub")).unwrap();
    let one = "incast -n 2 --cc reno --rto 1ms --blocks 1 -r 1";
    let mut cases = vec![
        (format!("{one} --csv {d}/x --json {d}/x"), "--csv", "--json"),
        (
            format!("{one} --csv {d}/x --json {d}/./x"),
            "--csv",
            "--json",
        ),
        (
            format!("{one} --csv {d}/x --json {d}/sub/../x"),
            "--csv",
            "--json",
        ),
        (
            format!("{one} --report {d}/x --svg {d}/x"),
            "--svg",
            "--report",
        ),
        (
            format!("{one} --svg narrows-report.html"),
            "--svg",
            "--report",
        ),
        (
            format!("{one} --pcap {d}/x --trace {d}/x"),
            "--trace",
            "--pcap",
        ),
        (
            format!("{one} --pcap {d}/old --json {d}/old"),
            "--pcap",
            "--json",
        ),
        (format!("flows --json {d}/x --svg {d}/x"), "--svg", "--json"),
        (
            format!("script {d} --json {d}/x --junit {d}/x"),
            "--junit",
            "--json",
        ),
        (
            format!("validate --docs {d} --report {d}/VALIDATION.md"),
            "--report",
            "--docs",
        ),
        (
            format!("validate --report {d}/x --json {d}/x"),
            "--json",
            "--report",
        ),
    ];
    #[cfg(unix)]
    {
        std::os::unix::fs::symlink("old", dir.join("link")).unwrap();
        cases.push((
            format!("{one} --csv {d}/old --json {d}/link"),
            "--csv",
            "--json",
        ));
    }
    let before = files_in(&dir);
    for (line, option, first) in cases {
        let ran = narrows(&line);
        assert_eq!(ran.code, EXIT_USAGE, "{line}: {}{}", ran.out, ran.err);
        let why = format!("for '{option}': {first} goes to the same file");
        assert!(ran.err.contains(&why), "{line}: {}", ran.err);
        assert_eq!(files_in(&dir), before, "{line}");
    }
    #[cfg(unix)]
    assert_eq!(
        narrows(&format!(
            "{one} --no-report --csv /dev/null --svg /dev/null"
        ))
        .code,
        EXIT_OK
    );
    fs::remove_dir_all(&dir).unwrap();
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing_else() {
    let dir = folder("full");
    let d = dir.display();
    let ran = narrows(&format!(
        "{SMALL} --csv /dev/full --json {d}/r.json --report {d}/r.html"
    ));
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(
        ran.err.contains("cannot write the CSV to /dev/full"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("goodput"), "the table is still told");
    assert_eq!(files_in(&dir), ["r.html", "r.json"]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The run is the result; its capture and its trace only look on.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_for_what_is_recorded_keeps_the_run() {
    let one = "incast -n 2 --cc reno --rto linux --sru 64KiB --blocks 2 -r 1 --no-report";
    let run = |more: &str| narrows(&format!("{one} {more}"));
    let table = |ran: &Ran| ran.out.clone();
    let well = run("");
    assert_eq!(well.code, EXIT_OK, "{}", well.err);
    for (options, said) in [
        ("--pcap /dev/full", &["capture"][..]),
        ("--trace /dev/full", &["trace"]),
        ("--pcap /dev/full --trace /dev/full", &["capture", "trace"]),
    ] {
        let ran = run(options);
        assert_eq!(ran.code, EXIT_FAILED, "{options}");
        assert_eq!(table(&ran), table(&well), "{options}");
        let errors: Vec<&str> = ran.err.lines().collect();
        assert_eq!(errors.len(), said.len(), "{}", ran.err);
        for (error, what) in errors.iter().zip(said) {
            let whole = format!("cannot write the {what} to /dev/full: ");
            assert!(error.contains(&whole) && error.contains("space"), "{error}");
        }
    }
}

#[test]
fn an_interrupted_sweep_keeps_an_older_report() {
    let dir = folder("interrupted");
    let report = dir.join("r.html");
    fs::write(&report, "older").unwrap();
    let line = format!("{SMALL} -j 1 --report {}", report.display());
    let ran = narrows_with(&app(), &line, &AtomicBool::new(true));
    assert_eq!(ran.code, EXIT_INTERRUPTED);
    assert_eq!(fs::read_to_string(&report).unwrap(), "older");
    assert_eq!(files_in(&dir), ["r.html"]);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn one_run_can_be_captured() {
    let dir = folder("pcap");
    let file = dir.join("x.pcapng");
    let line = format!(
        "incast -n 2 --cc reno --rto 1ms --blocks 1 --no-report --pcap {}",
        file.display()
    );
    let ran = narrows(&line);
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert!(fs::read(&file).unwrap().len() > 1_000);
    assert_eq!(files_in(&dir), ["x.pcapng"]);
    let both = format!("{line} --trace {}", dir.join("x.jsonl").display());
    assert_eq!(narrows(&both).code, EXIT_OK);
    assert_eq!(files_in(&dir), ["x.jsonl", "x.pcapng"]);
    fs::remove_dir_all(&dir).unwrap();
}
