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
    ] {
        let ran = narrows(&format!("flows --duration 20ms {options}"));
        assert_eq!(ran.code, EXIT_USAGE, "{options}: {}", ran.out);
        for part in parts {
            assert!(ran.err.contains(part), "{options}: {part} in\n{}", ran.err);
        }
    }
}
