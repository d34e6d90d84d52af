//! Where results go, and what happens if they cannot.

use super::*;
use std::sync::atomic::AtomicUsize;

#[test]
fn every_file_asked_for_is_written_whole() {
    let dir = folder("files");
    let d = dir.display();
    let ran = narrows(&format!(
        "incast -n 2,8 --report {d}/r.html --json {d}/r.json --csv {d}/r.csv --svg {d}/r.svg"
    ));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert_eq!(files_in(&dir), ["r.csv", "r.html", "r.json", "r.svg"]);
    assert!(ran.out.contains(&format!("Report: {d}/r.html")));
    let csv = fs::read_to_string(dir.join("r.csv")).unwrap();
    assert_eq!(csv.lines().count(), 1 + 2 * 9);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn machine_output_stays_alone_on_standard_output() {
    let ran = narrows("incast -n 2 --no-report --json");
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["runs"].as_array().unwrap().len(), 9);
    assert!(ran.err.contains("goodput Mb/s") && ran.err.contains("No collapse"));
    let ran = narrows("incast -n 2 --no-report --csv - --quiet");
    assert!(ran.out.starts_with("variant,congestion,rto,"));
    assert_eq!(ran.out.lines().count(), 10);
}

#[test]
fn a_folder_that_cannot_be_written_stops_before_the_first_run() {
    let count = AtomicUsize::new(0);
    let runner = |spec: &narrows_experiment::scenario::IncastSpec,
                  ctx: narrows_experiment::scenario::RunContext<'_>| {
        count.fetch_add(1, Ordering::Relaxed);
        fake::run(spec, ctx)
    };
    let app = once(App::new(Catalog::default(), runner));
    for option in ["--report", "--json", "--csv", "--svg"] {
        let line = format!("incast {option} /no/such/folder/x");
        let ran = narrows_with(&app, &line, &AtomicBool::new(false));
        assert_eq!(ran.code, EXIT_FAILED);
        assert!(ran.err.contains("cannot write the") && ran.err.contains("/no/such/folder/x"));
        assert_eq!(count.load(Ordering::Relaxed), 0);
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
    let one = "incast -n 2 --cc reno --rto 1ms";
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

#[test]
fn settings_read_as_they_are_typed() {
    let ran = narrows(
        "incast -n 2 --no-report --json --idle-restart rfc2861 --ties waited-last --request 1KiB",
    );
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    let text = value["settings"].to_string();
    for part in ["rfc2861", "waited-last", "1KiB"] {
        assert!(text.contains(part), "{part} in {text}");
    }
}

#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing_else() {
    let dir = folder("full");
    let d = dir.display();
    let ran = narrows(&format!(
        "incast -n 2 --csv /dev/full --json {d}/r.json --report {d}/r.html"
    ));
    assert_eq!(ran.code, EXIT_FAILED);
    assert!(
        ran.err.contains("cannot write the CSV to /dev/full"),
        "{}",
        ran.err
    );
    assert!(ran.out.contains("goodput Mb/s"), "the table is still told");
    assert_eq!(files_in(&dir), ["r.html", "r.json"]);
    fs::remove_dir_all(&dir).unwrap();
}

/// The run is the result; its capture and its trace only look on.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_for_what_is_recorded_keeps_the_run() {
    let catalog = Catalog::default();
    let runner = catalog.incast();
    let app = once(App::new(catalog, runner));
    let one = "incast -n 2 --cc reno --rto linux --sru 64KiB --blocks 2 --no-report";
    let run = |more: &str| narrows_with(&app, &format!("{one} {more}"), &AtomicBool::new(false));
    // All but the last line, which has the time that it took.
    let table = |ran: &Ran| {
        let lines = ran.out.trim_end().rsplit_once('\n');
        lines.expect("lines").0.to_owned()
    };
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
fn an_interrupted_sweep_reports_what_is_finished() {
    let dir = folder("interrupted");
    let report = dir.join("r.html");
    let cancel = AtomicBool::new(false);
    let count = AtomicUsize::new(0);
    let runner = |spec: &narrows_experiment::scenario::IncastSpec,
                  ctx: narrows_experiment::scenario::RunContext<'_>| {
        if count.fetch_add(1, Ordering::Relaxed) == 20 {
            cancel.store(true, Ordering::Relaxed);
        }
        fake::run(spec, ctx)
    };
    let app = once(App::new(Catalog::default(), runner));
    let line = format!("incast -j 1 --report {}", report.display());
    let ran = narrows_with(&app, &line, &cancel);
    assert_eq!(ran.code, EXIT_INTERRUPTED);
    assert!(
        ran.out.contains("Only 20 of 90 runs were finished"),
        "{}",
        ran.out
    );
    assert!(
        fs::read_to_string(&report)
            .unwrap()
            .contains("Only 20 of 90 runs")
    );
    assert_eq!(files_in(&dir), ["r.html"]);

    // Before anything is finished, an older report stays.
    let ran = narrows_with(&app, &line, &cancel);
    assert_eq!(ran.code, EXIT_INTERRUPTED);
    assert!(ran.out.contains("No run was finished"));
    assert!(
        fs::read_to_string(&report)
            .unwrap()
            .contains("Only 20 of 90 runs")
    );
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn failed_runs_are_told_and_the_rest_kept() {
    let runner = |spec: &narrows_experiment::scenario::IncastSpec,
                  ctx: narrows_experiment::scenario::RunContext<'_>| {
        assert!(spec.servers < 32, "too many");
        fake::run(spec, ctx)
    };
    let app = once(App::new(Catalog::default(), runner));
    let ran = narrows_with(&app, "incast --no-report", &AtomicBool::new(false));
    assert_eq!(ran.code, EXIT_FAILED);
    for part in [
        "with 32 servers, seed 1: internal error",
        "too many",
        "and 22 more runs failed",
    ] {
        assert!(ran.out.contains(part), "{part} in\n{}", ran.out);
    }
    assert!(ran.out.contains("Only 63 of 90 runs"));
}

#[test]
fn one_run_can_be_captured() {
    let dir = folder("pcap");
    let file = dir.join("x.pcapng");
    let line = format!(
        "incast -n 2 --cc reno --rto 1ms --no-report --pcap {}",
        file.display()
    );
    let ran = narrows(&line);
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert_eq!(fs::read(&file).unwrap(), b"fake");
    assert_eq!(files_in(&dir), ["x.pcapng"]);
    let both = format!("{line} --trace {}", dir.join("x.jsonl").display());
    assert_eq!(narrows(&both).code, EXIT_OK);
    assert_eq!(fs::read(dir.join("x.jsonl")).unwrap(), b"{}\n");
    fs::remove_dir_all(&dir).unwrap();
}
