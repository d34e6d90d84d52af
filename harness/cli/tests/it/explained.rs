//! `narrows explain --out --simulate` of a capture that `narrows incast` took.

use std::path::{Path, PathBuf};
use std::process::Command;

fn narrows(dir: &Path, line: &str) -> String {
    let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(line.split_whitespace())
        .current_dir(dir)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{line}: {ran:?}");
    String::from_utf8(ran.stdout).unwrap()
}

fn folder(name: &str) -> PathBuf {
    let dir = std::env::temp_dir().join(format!("narrows-explained-{name}-{}", std::process::id()));
    let _ = std::fs::remove_dir_all(&dir);
    std::fs::create_dir_all(&dir).unwrap();
    dir
}

/// The p99 of a line of the table of what was tried, in microseconds.
fn p99(table: &str, with: &str) -> f64 {
    let line = table.lines().find(|line| line.ends_with(with));
    let line = line.unwrap_or_else(|| panic!("no line with {with}: {table}"));
    let time = line.split_whitespace().nth(2).unwrap();
    let digits = time.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match &time[digits.len()..] {
        "us" => 1.0,
        "ms" => 1e3,
        "s" => 1e6,
        other => panic!("{other}: {line}"),
    };
    digits.parse::<f64>().unwrap() * unit
}

#[test]
fn what_would_help_an_incast_is_tried_and_stands_on_the_page() {
    let dir = folder("incast");
    narrows(
        &dir,
        "incast -n 32 --cc reno --rto 200ms --blocks 3 --sru 64kB -r 1 --no-report --quiet --pcap c.pcapng --snaplen 96",
    );
    let told = narrows(
        &dir,
        "explain c.pcapng --out out --simulate again.toml --quiet",
    );
    let told = told.split_once("Simulated: again.toml").unwrap().1;
    let lower = "--set host.tcp.rto=1ms";
    assert!(told.contains(lower), "{told}");
    assert!(
        p99(told, lower) * 10.0 < p99(told, "everything as it was"),
        "{told}"
    );
    let page = std::fs::read_to_string(dir.join("out/report.html")).unwrap();
    for part in [
        "What would help, as far as the gaps tell",
        "narrows run rebuilt.toml --set host.tcp.rto=1ms",
        "everything as it was",
        "Hosts that lost the most time",
        "When: time lost in gaps that began then",
        "id=\"rtt\"",
    ] {
        assert!(page.contains(part), "{part}");
    }
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn of_more_packets_than_points_all_of_a_connection_are_drawn() {
    let dir = folder("points");
    narrows(
        &dir,
        "incast -n 2 --cc reno --rto 1ms --blocks 1 --sru 2MB -r 1 --no-report --quiet --pcap c.pcapng --snaplen 96",
    );
    let points = |at_most: &str| {
        let line = format!("explain c.pcapng --quiet --draw 1 --out {at_most} --points {at_most}");
        narrows(&dir, &line);
        let events = std::fs::read_to_string(dir.join(at_most).join("events.jsonl")).unwrap();
        let number = |line: &str, name: &str| {
            let (_, rest) = line.split_once(&format!("\"{name}\":")).unwrap();
            let end = rest.find([',', '}']).unwrap();
            rest[..end].parse::<u64>().unwrap()
        };
        let sent: Vec<&str> = events.lines().filter(|l| l.contains("tcp:sent")).collect();
        let packets: u64 = sent.iter().map(|line| number(line, "count")).sum();
        let last = sent.iter().map(|line| number(line, "to")).max().unwrap();
        (events.lines().count(), packets, last)
    };
    let (few, all) = (points("500"), points("1000000"));
    assert!(few.0 < 500 && all.0 > 2_000, "{few:?} {all:?}");
    assert_eq!((few.1, few.2), (all.1, all.2));
    std::fs::remove_dir_all(&dir).unwrap();
}
