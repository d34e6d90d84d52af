//! `narrows flows`.

use super::*;

const SHORT: &str = "flows --duration 20ms --warm-up 5ms";

#[test]
fn a_table_with_a_line_for_each_flow() {
    let ran = narrows(&format!("{SHORT} -n 3 --cc reno,dctcp"));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let lines: Vec<&str> = ran.out.lines().collect();
    assert!(lines[1].contains("reno") && lines[2].contains("dctcp") && lines[3].contains("reno"));
    assert!(ran.out.contains("% busy"), "{}", ran.out);
    assert_eq!(
        ran.out,
        narrows(&format!("{SHORT} -n 3 --cc reno,dctcp")).out
    );
}

#[test]
fn json_and_a_plot() {
    let ran = narrows(&format!("{SHORT} --size 100kB --json -"));
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
    assert_eq!(value["outcome"], "completed");
    assert_eq!(value["flows"][1]["delivered_bytes"], 100_000);
    assert!(value["flows"][0]["completed_ns"].as_u64().unwrap() > 100_000);
    let dir = folder("flows-plots");
    for plot in ["queue", "cwnd", "goodput", "rtt", "alpha"] {
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
    }
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
        ("--lose-each 2", ["--lose-each", "2"]),
        ("--warm-up 20ms", ["for '--warm-up'", "allowed is"]),
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

/// Each algorithm of a list has a flow, and one that is there twice has two.
#[test]
fn algorithms_are_dealt_out() {
    let of = |options: &str| -> Vec<String> {
        let ran = narrows(&format!("{SHORT} {options} --json -"));
        assert_eq!(ran.code, EXIT_OK, "{options}: {}", ran.err);
        let value: serde_json::Value = serde_json::from_str(&ran.out).unwrap();
        let flows = value["flows"].as_array().unwrap().iter();
        flows
            .map(|f| f["cc"].as_str().unwrap().to_owned())
            .collect()
    };
    assert_eq!(of(""), ["cubic", "cubic"]);
    assert_eq!(of("--cc reno"), ["reno", "reno"]);
    assert_eq!(of("--cc reno,cubic,dctcp"), ["reno", "cubic", "dctcp"]);
    assert_eq!(of("--cc reno,reno,cubic"), ["reno", "reno", "cubic"]);
    assert_eq!(of("-n 3 --cc reno,cubic"), ["reno", "cubic", "reno"]);
}

#[test]
fn what_makes_a_result_unexpected_is_said() {
    for (options, said) in [
        (
            "--cc dctcp --ecn-threshold off",
            "No packet is ever marked, and dctcp asks for ECN: the port's queue management is \
             drop-tail.",
        ),
        (
            "--cc dctcp --ecn-threshold 1MB --buffer 64KiB",
            "the threshold of 1MB is not below the buffer of 64KiB",
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
    for options in ["--cc dctcp", "--cc reno --ecn-threshold off"] {
        let ran = narrows(&format!("{SHORT} {options}"));
        assert!(!ran.out.contains("marked, and"), "{options}: {}", ran.out);
    }
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
    assert!(ran.out.is_empty());
    assert_eq!(files_in(&dir), ["x.jsonl", "x.pcapng"]);
    let capture = fs::read(dir.join("x.pcapng")).unwrap();
    assert_eq!(capture[..4], [0x0a, 0x0d, 0x0d, 0x0a]);
    fs::remove_dir_all(&dir).unwrap();
}
