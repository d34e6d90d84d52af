//! `narrows flows`.

use super::*;

const SHORT: &str = "flows --duration 20ms --warm-up 5ms";

/// The flows of a run as its folder has them.
fn flows(folder: &std::path::Path) -> Vec<Vec<String>> {
    let text = fs::read_to_string(folder.join("flows.csv")).unwrap();
    let rows = text.lines().skip(1);
    rows.map(|row| row.split(',').map(str::to_owned).collect())
        .collect()
}

#[test]
fn a_table_with_a_line_for_each_flow() {
    let ran = narrows(&format!("{SHORT} -n 3 --cc reno,dctcp"));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    let cells = |n: usize| lines[n].split_whitespace().take(2).collect::<Vec<_>>();
    assert_eq!(cells(1), ["h1->h0", "reno"]);
    assert_eq!(cells(2), ["h2->h0", "dctcp"]);
    assert_eq!(cells(3), ["h3->h0", "reno"]);
    assert!(ran.out.contains("port.s0->h0.mean_packets"), "{}", ran.out);
    let again = narrows(&format!("{SHORT} -n 3 --cc reno,dctcp"));
    assert_eq!(ran.out, again.out);
}

#[test]
fn json_and_a_plot() {
    let ran = narrows("flows --duration 20ms --size 100kB --json -");
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["outcome"], "completed");
    assert_eq!(value["metrics"]["received_bytes"], 200_000, "{value}");
    let dir = folder("flows-plots");
    for (plot, unit) in [
        ("queue", "(packets)"),
        ("cwnd", "(kB)"),
        ("goodput", "(Mb/s)"),
        ("rtt", "(us)"),
        ("alpha", "Alpha"),
    ] {
        let file = dir.join(format!("{plot}.svg"));
        let ran = narrows(&format!(
            "{SHORT} --cc dctcp --svg {} --plot {plot}",
            file.display()
        ));
        assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
        let svg = fs::read_to_string(file).unwrap();
        assert!(
            svg.starts_with("<svg") && svg.contains("Time (ms)"),
            "{plot}"
        );
        assert!(svg.contains("<path") || svg.contains("<polyline"), "{plot}");
        assert!(svg.contains(unit), "{plot}: {svg}");
    }
    // One that there is not.
    let file = dir.join("no.svg");
    let ran = narrows(&format!(
        "{SHORT} --cc reno --svg {} --plot alpha",
        file.display()
    ));
    assert_eq!(ran.code, EXIT_USAGE, "{}", ran.err);
    assert!(ran.err.contains("figures here are"), "{}", ran.err);
    assert!(ran.err.contains("figure-flow-cwnd-bytes"), "{}", ran.err);
    fs::remove_dir_all(&dir).unwrap();
}

/// Whatever cannot be written, the run is told.
#[cfg(target_os = "linux")]
#[test]
fn a_full_disk_loses_nothing_else() {
    let well = narrows(SHORT);
    for (option, what) in [
        ("--pcap", "capture"),
        ("--trace", "trace"),
        ("--svg", "plot"),
        ("--json", "JSON"),
    ] {
        let ran = narrows(&format!("{SHORT} {option} /dev/full"));
        assert_eq!(ran.code, EXIT_FAILED, "{option}");
        let whole = format!("cannot write the {what} to /dev/full: ");
        assert!(ran.err.contains(&whole), "{}", ran.err);
        assert_eq!(ran.out, well.out, "{option}");
    }
}

#[test]
fn mistakes_are_named() {
    for (options, parts) in [
        (
            "--cc cubik",
            ["'cubik' for '--cc'", "did you mean 'cubic'?"],
        ),
        ("--rto 0s", ["for '--rto'", ""]),
        ("--rate 200Gb/s", ["for '--rate'", "ten times as fast"]),
        ("--apart 10ms -n 4", ["for '--apart'", "after --duration"]),
        ("--lose-each 2", ["--lose-each", "2"]),
        ("--warm-up 20ms", ["for '--warm-up'", "shorter than"]),
        ("--buffer 100B", ["for '--buffer'", "allowed is"]),
        ("--plot cwnd", ["--svg", ""]),
        ("--snaplen 96", ["--pcap", ""]),
        ("--snaplen 39 --pcap x", ["for '--snaplen", "40B to 256KiB"]),
        (
            "--cc reno,cubic,dctcp -n 2",
            ["for '--cc'", "leaves dctcp without one: give -n 3"],
        ),
        ("-n 1 --apart 1ms", ["for '--apart'", "one flow"]),
        (
            "--svg x --interval 1ms",
            ["for '--interval'", "whenever it changes"],
        ),
        ("--red 1p:2000000000p:5", ["for '--red'", "1073741824p"]),
        ("--red 1B:2TiB:5", ["for '--red'", "1TiB"]),
    ] {
        let ran = narrows(&format!("flows --duration 20ms {options}"));
        assert_eq!(ran.code, EXIT_USAGE, "{options}: {}", ran.out);
        for part in parts {
            assert!(ran.err.contains(part), "{options}: {part} in\n{}", ran.err);
        }
    }
}

/// Each algorithm of a list has a flow, and one that is there twice has two; flows of several
/// begin in the order of their senders.
#[test]
fn algorithms_are_dealt_out() {
    let dir = folder("flows-dealt");
    let of = |options: &str| -> Vec<(String, String)> {
        let out = dir.join("out");
        let line = format!(
            "{SHORT} {options} --apart 1ms --quiet --out {}",
            out.display()
        );
        let ran = narrows(&line);
        assert_eq!(ran.code, EXIT_OK, "{options}: {}", ran.err);
        let mut all = flows(&out);
        fs::remove_dir_all(&out).unwrap();
        // From, then traffic and when it was opened.
        all.sort_by_key(|row| row[3].clone());
        let row = |row: &Vec<String>| (row[2].clone(), row[19].clone());
        all.iter().map(row).collect()
    };
    let expected = |names: &[&str]| -> Vec<(String, String)> {
        let flow = |(n, name): (usize, &&str)| ((*name).to_owned(), (n * 1_000_000).to_string());
        names.iter().enumerate().map(flow).collect()
    };
    assert_eq!(of(""), expected(&["flow", "flow"]));
    assert_eq!(of("--cc reno"), expected(&["flow", "flow"]));
    assert_eq!(
        of("--cc reno,cubic,dctcp"),
        expected(&["reno", "cubic", "dctcp"])
    );
    assert_eq!(
        of("--cc reno,reno,cubic"),
        expected(&["reno", "reno-2", "cubic"])
    );
    assert_eq!(
        of("-n 3 --cc reno,cubic"),
        expected(&["reno", "cubic", "reno"])
    );
    fs::remove_dir_all(&dir).unwrap();
}

/// What is said of any experiment is said of this one: several values, a folder that runs again.
#[test]
fn flows_are_an_experiment() {
    let dir = folder("flows-experiment");
    let out = dir.join("out");
    let line = "flows --duration 20ms --cc reno,cubic --buffer 64KiB,256KiB --rtt 100us,1ms -r 2";
    let ran = narrows(&format!("{line} --quiet --out {}", out.display()));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let runs = fs::read_to_string(out.join("runs.csv")).unwrap();
    assert_eq!(runs.lines().count(), 1 + 2 * 2 * 2);
    let again = dir.join("again");
    let file = out.join("experiment.toml");
    let ran = narrows(&format!(
        "run {} --quiet --out {}",
        file.display(),
        again.display()
    ));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert_eq!(fs::read_to_string(again.join("runs.csv")).unwrap(), runs);
    let ran = narrows(&format!("{line} --dry-run"));
    assert!(ran.out.contains("8 runs"), "{}", ran.out);
    fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn what_makes_a_result_unexpected_is_said() {
    for (options, said) in [
        (
            "--cc dctcp --ecn-threshold off --buffer 16KiB",
            "packets were dropped and none was marked",
        ),
        (
            "--size 10kB",
            "All was over before the warm-up of 5ms, and nothing is counted",
        ),
    ] {
        let ran = narrows(&format!("{SHORT} {options}"));
        let well = narrows(&format!("{SHORT} {options} --json -"));
        assert!(ran.out.contains(said), "{options}: {}", ran.out);
        assert!(well.err.contains(said), "{options}: {}", well.err);
    }
    let ran = narrows(&format!("{SHORT} --cc dctcp"));
    assert!(!ran.out.contains("marked:"), "{}", ran.out);
    assert!(!ran.out.contains("warm-up"), "{}", ran.out);
}

/// Interrupted: what was captured and traced is there, and no more is claimed.
#[test]
fn an_interrupted_run_keeps_its_capture() {
    let dir = folder("flows-interrupted");
    let d = dir.display();
    let line = format!("{SHORT} --pcap {d}/x.pcapng --trace {d}/x.jsonl --svg {d}/x.svg");
    let ran = narrows_with(&app(), &line, &AtomicBool::new(true));
    assert_eq!(ran.code, EXIT_INTERRUPTED);
    assert!(
        ran.err.contains("recorded until then is kept"),
        "{}",
        ran.err
    );
    assert!(!ran.out.contains("h1->h0"), "{}", ran.out);
    assert_eq!(files_in(&dir), ["x.jsonl", "x.pcapng"]);
    fs::remove_dir_all(&dir).unwrap();
}
