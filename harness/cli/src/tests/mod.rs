use super::*;
use crate::catalog::Catalog;
use std::fs;
use std::path::{Path, PathBuf};

mod files;
mod flows;
mod own;
mod reports;
mod validate;

/// What a command did.
pub(super) struct Ran {
    pub(super) code: u8,
    pub(super) out: String,
    pub(super) err: String,
}

pub(super) fn app() -> App {
    App::new(Catalog::default())
}

/// Run `narrows` with the words of `line`.
pub(super) fn narrows(line: &str) -> Ran {
    narrows_with(&app(), line, &AtomicBool::new(false))
}

pub(super) fn narrows_with(app: &App, line: &str, cancel: &AtomicBool) -> Ran {
    narrows_in(COLUMNS, app, line, cancel)
}

/// On a screen of so many columns.
pub(super) fn narrows_in(columns: usize, app: &App, line: &str, cancel: &AtomicBool) -> Ran {
    let (mut out, mut err) = (Vec::new(), Vec::new());
    let mut console = Console {
        stdout: &mut out,
        stderr: &mut err,
        colour: false,
        columns,
        wrap: Wrap {
            stdout: (columns < COLUMNS).then_some(columns),
            stderr: (columns < COLUMNS).then_some(columns),
        },
        stderr_terminal: false,
        cancel,
    };
    let args = std::iter::once("narrows")
        .chain(line.split_whitespace())
        .map(OsString::from);
    let code = app.run(args, &mut console);
    let text = |bytes| String::from_utf8(bytes).unwrap();
    Ran {
        code,
        out: text(out),
        err: text(err),
    }
}

/// An empty folder for one test.
pub(super) fn folder(name: &str) -> PathBuf {
    let path = std::env::temp_dir().join(format!("narrows-cli-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    fs::create_dir_all(&path).unwrap();
    path
}

pub(super) fn files_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).unwrap();
    let mut names: Vec<String> = entries
        .map(|e| e.unwrap().file_name().display().to_string())
        .collect();
    names.sort();
    names
}

#[test]
fn options_are_consistent() {
    use clap::CommandFactory;
    Cli::command().debug_assert();
}

/// What is wrong, the option, and what would be right.
#[test]
fn errors_name_option_range_and_near_match() {
    for (line, parts) in [
        (
            "incast --cc cubik",
            &["'cubik' for '--cc'", "did you mean 'cubic'?"][..],
        ),
        (
            "incast --rto linus",
            &["'linus' for '--rto'", "did you mean 'linux'?"],
        ),
        (
            "incast --rto 5",
            &["'5' for '--rto'", "with its unit, such as 5ms"],
        ),
        (
            "incast --seed x",
            &[
                "'x' for '--seed",
                "whole number from 0 to 18446744073709551615",
            ],
        ),
        (
            "incast --ecn-threshold 5",
            &["expected off, packets or bytes"],
        ),
        ("incast --tick 5", &["expected exact or a time"]),
        ("incast --seed -1", &["'-1' for '--seed", "from 0 to"]),
        (
            "incast --delay -1us",
            &["'-1us' for '--delay", "allowed is 0ns to 10s"],
        ),
        ("incast -n -1", &["'-1' for '--servers", "from 1 to 100000"]),
        ("incast --iw 0", &["'0' for '--initial-window", "1 to 1000"]),
        ("incast --sru -4", &["--sru", "allowed is 1B to 1TiB"]),
        (
            "incast --codel 5ms",
            &["expected TARGET:INTERVAL", "allowed is 100ns to 100s"],
        ),
        (
            "incast --codel 100ms:5ms",
            &["'100ms:5ms' for '--codel'", "below the interval"],
        ),
        (
            "flows --lose-each 2",
            &["'2' for '--lose-each", "3 and more"],
        ),
        ("flows --seed -1", &["'-1' for '--seed", "from 0 to"]),
        ("flows --rtt -1us", &["--rtt", "allowed is 0s to 40s"]),
        (
            "flows --impair lose=1%",
            &["--impair", "did you mean 'loss'?", "allowed is shares"],
        ),
        (
            "incast --delayed-ack 2",
            &["such as 2/40ms: the unit is missing"],
        ),
        (
            "incast --loss rakc",
            &["'rakc' for '--loss'", "did you mean 'rack'?"],
        ),
        (
            "incast --preset fast8",
            &["'fast8' for '--preset'", "did you mean 'fast08'?"],
        ),
        ("incast --cc dctcp:g=7", &["--cc", "fraction"]),
        ("incast --servers 0", &["'0' for '--servers", "1 to 100000"]),
        ("incast --servers 64-1", &["--servers", "empty"]),
        ("incast --rate 5T", &["'5T' for '--rate", "1kb/s to 1Tb/s"]),
        ("incast --rate 1GB/s", &["--rate", "bytes"]),
        ("incast --delay 25", &["--delay", "unit is missing"]),
        (
            "incast --buffer 64",
            &["--buffer", "packets (64p) or bytes (64B)"],
        ),
        (
            "incast --buffer 1000B",
            &["'1000B' for '--buffer'", "allowed is 1518B"],
        ),
        (
            "incast --shared-buffer 4MB:0",
            &["'4MB:0' for '--shared-buffer", "above zero"],
        ),
        (
            "incast --shared-buffer 1000B",
            &["holds no packet", "allowed is 1518B"],
        ),
        (
            "incast --impair los=1%",
            &["'los=1%' for '--impair", "did you mean 'loss'?"],
        ),
        (
            "incast --impair loss=1%,reorder=1%,hold=0",
            &["--impair", "above zero"],
        ),
        ("incast --mss 9000", &["'9000' for '--mss'", "64 to 1460"]),
        (
            "incast --initial-window 0",
            &["--initial-window", "1 to 1000"],
        ),
        (
            "incast --initial-window 1001",
            &["'1001' for '--initial-window", "1 to 1000"],
        ),
        (
            "flows --initial-window 5000",
            &["'5000' for '--initial-window", "1 to 1000"],
        ),
        (
            "incast --cc reno,dctcp --ecn off",
            &["'off' for '--ecn'", "choose ecn auto"],
        ),
        (
            "incast --cc dctcp --ecn auto,classic",
            &["'auto,classic' for '--ecn'", "RFC 8257"],
        ),
        (
            "incast --preset fast08 --time-limit 1s",
            &[
                "'1s' for '--time-limit'",
                "--preset fast08 runs for a time",
                "--duration 1s",
            ],
        ),
        (
            "incast --preset fast08 --loss sack",
            &[
                "'off' for '--sack'",
                "it is what the preset has: give --sack, too",
                "sack on",
            ],
        ),
        (
            "incast --preset fast08 --mtu 500",
            &[
                "'1000' for '--mss'",
                "460 with network.mtu 500",
                "give --mss, too",
            ],
        ),
        (
            "incast --mtu 65535",
            &[
                "'64KiB' for '--buffer'",
                "network.mtu 65535",
                "give --buffer, too",
            ],
        ),
        (
            "incast -n 1-10000 -r 10000",
            &["900000000 runs", "at most 1000000"],
        ),
        (
            "incast -n 1-10000 -r 12",
            &["1080000 runs", "give fewer values"],
        ),
        (
            "incast --rto 100s",
            &[
                "'100s' for '--rto'",
                "allowed is up to 60s",
                "floor:100s,max=100s",
            ],
        ),
        (
            "incast --rto floor:100s",
            &["'floor:100s' for '--rto'", "allowed is up to 60s"],
        ),
        (
            "incast --sru 2TiB",
            &["'2TiB' for '--sru'", "allowed is 1B to 1TiB"],
        ),
        (
            "flows --rate 200Gb/s",
            &["'200Gb/s' for '--rate'", "1kb/s to 100Gb/s", "ten times"],
        ),
        (
            "flows --shared-buffer 4MB:2000000",
            &["'4MB:2000000' for '--shared-buffer'", "1 to 1048576"],
        ),
        (
            "flows --shared-buffer 1kB",
            &["'1kB' for '--shared-buffer'", "allowed is"],
        ),
        ("flows --rtt 41s", &["'41s' for '--rtt'", "0s to 40s"]),
        (
            "flows --apart 2s",
            &["'2s' for '--apart'", "after --duration"],
        ),
        (
            "flows --svg x --plot cwnd --interval 50ns",
            &["'50ns' for '--interval'", "allowed is 1us"],
        ),
        (
            "incast --json --csv /dev/stdout",
            &["--csv", "--json goes to standard output already"],
        ),
        (
            "incast --report -",
            &["'-' for '--report'", "give its name"],
        ),
        ("incast --svg -", &["'-' for '--svg'", "give its name"]),
        (
            "incast -n 2 --cc reno --rto 1ms --pcap -",
            &["'-' for '--pcap'", "give its name"],
        ),
        (
            "incast -n 2 --cc reno --rto 1ms --trace -",
            &["'-' for '--trace'", "give its name"],
        ),
        ("flows --pcap -", &["'-' for '--pcap'", "give its name"]),
        ("flows --trace -", &["'-' for '--trace'", "give its name"]),
        (
            "validate --report -",
            &["'-' for '--report'", "give its name"],
        ),
        ("incast --repetitions 0", &["--repetitions", "1 to 10000"]),
        (
            "incast -n 4,4",
            &["'4,4' for '--servers", "'4' is there twice"],
        ),
        ("incast --cc reno,reno", &["--cc", "'reno' is there twice"]),
        (
            "incast --svg x.pdf",
            &["'x.pdf' for '--svg'", "SVG", "not .pdf but x.svg"],
        ),
        ("flows --svg x.PNG", &["'x.PNG' for '--svg'", "x.svg"]),
        ("incast --json x.csv", &["'x.csv' for '--json'", "x.json"]),
        ("incast --csv x.json", &["'x.json' for '--csv'", "x.csv"]),
        (
            "incast --report x.pdf",
            &["'x.pdf' for '--report'", "x.html"],
        ),
        (
            "flows --pcap x.json",
            &["'x.json' for '--pcap'", "x.pcapng"],
        ),
        ("flows --trace x.csv", &["'x.csv' for '--trace'", "x.jsonl"]),
        (
            "validate --report x.md",
            &["'x.md' for '--report'", "x.html"],
        ),
        ("incast --snaplen 96", &["--snaplen", "--pcap"]),
        ("live incast --snaplen 96", &["--snaplen", "--pcap"]),
        (
            "incast -n 2 --cc reno --rto 1ms --pcap x --snaplen 1MB",
            &["--snaplen", "40B to 256KiB"],
        ),
        (
            "incast --red 10p:2000000000p:5",
            &["for '--red'", "2000000000p is out of range", "1073741824p"],
        ),
        ("incast --sack off", &["--sack", "newreno"]),
        (
            "incast --loss newreno --sack on",
            &[
                "'on' for '--sack'",
                "newreno works without SACK",
                "sack auto",
            ],
        ),
        ("incast --order sorted", &["--order", "shuffled, fixed"]),
        (
            "incast --sru 1MB --block 1MB",
            &["--sru", "--block", "cannot be used with"],
        ),
        (
            "incast --blocks 3 --duration 1s",
            &["--blocks", "--duration", "cannot be used with"],
        ),
        ("incast --bufer 64p", &["--bufer", "--buffer"]),
        ("incats", &["incats", "incast"]),
        (
            "incast --json --csv",
            &["--csv", "--json goes to standard output already"],
        ),
        (
            "incast --pcap x.pcapng",
            &["--pcap", "one run", "90", "--servers"],
        ),
        (
            "incast --trace x.jsonl",
            &["--trace", "a trace is of one run", "90"],
        ),
    ] {
        let ran = narrows(line);
        assert_eq!(ran.code, EXIT_USAGE, "{line}: {}{}", ran.out, ran.err);
        for part in parts {
            assert!(
                ran.err.contains(part),
                "{line}: no '{part}' in\n{}",
                ran.err
            );
        }
        assert!(ran.out.is_empty());
    }
}

#[test]
fn help_and_version_go_to_standard_output() {
    for line in [
        "--help",
        "incast --help",
        "help incast",
        "validate --help",
        "list --help",
        "--version",
    ] {
        let ran = narrows(line);
        assert_eq!((ran.code, ran.err.as_str()), (EXIT_OK, ""), "{line}");
        assert!(!ran.out.is_empty());
    }
    assert_eq!(narrows("").code, EXIT_USAGE);
}

#[test]
fn list_shows_every_name_with_a_line() {
    let ran = narrows("list");
    assert_eq!(ran.code, EXIT_OK);
    let catalog = Catalog::default();
    for kind in catalog::Kind::ALL {
        for entry in catalog.entries(kind) {
            let start = format!("{} ", entry.name);
            let mut lines = ran.out.lines().filter(|l| l.trim().starts_with(&start));
            assert!(lines.any(|l| l.contains(&entry.summary)), "{}", entry.name);
        }
    }
    assert!(
        ran.out.lines().all(|l| l.chars().count() <= 100),
        "{}",
        ran.out
    );
    assert!(narrows("list --parameters").out.contains("dctcp[:"));
}

/// A user's own algorithm is found by name, in the list and on the command line.
#[test]
fn own_names_work_like_ours() {
    use narrows::congestion::{FlowStart, Reno};
    let mut catalog = Catalog::default();
    let congestion = catalog.registry.congestion_mut();
    congestion.register("mine", "an experiment", |s: &FlowStart| Reno::new(s));
    let app = App::new(catalog);
    let cancel = AtomicBool::new(false);
    assert!(
        narrows_with(&app, "list", &cancel)
            .out
            .contains("an experiment")
    );
    let line = "incast --cc reno,mine -n 2 --blocks 1 -r 1 --no-report";
    let ran = narrows_with(&app, line, &cancel);
    assert_eq!(ran.code, EXIT_OK);
    assert!(
        ran.out.lines().any(|l| l.starts_with("mine")),
        "{}",
        ran.out
    );
}

/// The experiment of `line`, as the folder of its results has it.
fn experiment(name: &str, line: &str) -> String {
    let dir = folder(name);
    let out = dir.join("out");
    let ran = narrows(&format!("{line} --quiet --out {}", out.display()));
    assert_eq!(ran.code, EXIT_OK, "{line}: {}", ran.err);
    let text = fs::read_to_string(out.join("experiment.toml")).unwrap();
    fs::remove_dir_all(&dir).unwrap();
    text
}

#[test]
fn options_reach_the_runs() {
    let line = "incast -n 4 --cc cubic:l=2,fast-convergence=off --rto 5ms --buffer 64p --ecn-threshold 20p \
        --block 1MB --blocks 2 --time-limit 9s --rate 10G --delay 5us --jitter 0 --tick 10ms \
        --loss rack --prr off --limited-transmit off --timestamps on --ecn classic \
        --delayed-ack 2/40ms --iw 2 --rwnd 64KiB --mss 1000 --mtu 1040 --framing none \
        --queue-counting with-in-service --server-nic 50p --client-nic 10p --request 1000B \
        --order fixed --seed 9 --wire -r 1 \
        --shared-buffer 4MB:1/4 --impair loss=0.1%,on=data \
        --ties waited-last --undo off --idle-restart rfc5681";
    let text = experiment("options", line);
    let port = r#"network.port."s0->h0""#;
    for part in [
        "group.servers.size = 4",
        "traffic.read.block = \"1MB\"",
        "traffic.read.blocks = 2",
        "run.duration = \"9s\"",
        "traffic.read.request = \"1kB\"",
        "traffic.read.order = \"fixed\"",
        "traffic.read.jitter = \"0s\"",
        "network.link.rate = \"10Gb/s\"",
        "network.link.delay = \"5us\"",
        "network.link.framing = \"none\"",
        "network.mtu = 1040",
        &format!("{port}.queue.limit = \"64p\""),
        &format!("{port}.queue.counting = \"with-in-service\""),
        &format!("{port}.queue.discipline = \"ecn-step\""),
        &format!("{port}.queue.threshold = \"20p\""),
        &format!("{port}.link.loss = \"0.1%\""),
        "group.servers.nic.tx_queue = \"50p\"",
        "group.client.nic.tx_queue = \"10p\"",
        "host.tcp.congestion = \"cubic:l=2,fast-convergence=off\"",
        "host.tcp.rto = \"5ms\"",
        "host.tcp.loss_detection = \"rack\"",
        "host.tcp.prr = \"off\"",
        "host.tcp.limited_transmit = \"off\"",
        "host.tcp.ecn = \"classic\"",
        "host.tcp.delayed_ack = \"2/40ms\"",
        "host.tcp.initial_window = 2",
        "host.tcp.receive_window = \"64KiB\"",
        "host.tcp.mss = 1000",
        "host.tcp.timer_tick = \"10ms\"",
        "network.shared_buffer = \"4MB:1/4\"",
        "network.ties = \"waited-last\"",
        "host.tcp.idle_restart = \"rfc5681\"",
        "host.tcp.undo = \"off\"",
        "run.seed = 9",
        "run.wire = \"on\"",
    ] {
        assert!(text.contains(part), "no '{part}' in\n{text}");
    }
    assert!(!text.contains("sweep."), "{text}");
}

/// Each habit of ns-2 that the preset has can be taken from it.
#[test]
fn the_habits_of_a_preset_have_names() {
    let line = "incast --preset fast08 -n 2 --duration 10ms -r 1 --queue-counting waiting --ties shuffled --idle-restart keep --cc reno --rto 1ms";
    let text = experiment("habits", line);
    for part in ["ns-2", "waited-last", "rfc5681", "end=ssthresh"] {
        // The title and what it is about say whose habits they are.
        let keys = text.lines().filter_map(|l| l.split_once(" = "));
        let mut keys = keys.filter(|(key, _)| key.contains('.') && !key.starts_with("short."));
        let own = keys.any(|(_, value)| value.contains(part));
        assert!(!own, "{part} is the preset's own:\n{text}");
    }
}

#[test]
fn presets_are_a_start_that_options_change() {
    let ran =
        narrows("incast --preset fast08 -n 2,4 --buffer 32p,256p --duration 10ms -r 1 --no-report");
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    assert_eq!(
        ran.out
            .lines()
            .filter(|l| l.starts_with("32p") || l.starts_with("256p"))
            .count(),
        4,
        "{}",
        ran.out
    );
}

#[test]
fn a_point_is_run_three_times_but_once_where_it_is_recorded() {
    let dir = folder("times");
    let count = |options: &str| {
        let file = dir.join("x.pcapng").display().to_string();
        let line =
            format!("incast -n 2 --cc reno --rto linux --blocks 1 --no-report --csv - {options}");
        let ran = narrows(&line.replace("FILE", &file));
        assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
        ran.out.lines().count() - 1
    };
    assert_eq!(count(""), 3);
    assert_eq!(count("-r 2"), 2);
    assert_eq!(count("--pcap FILE"), 1);
    fs::remove_dir_all(&dir).unwrap();
}

/// A list is an axis; what is over x varies fastest, so that tables read along it.
#[test]
fn lists_are_tried_with_each_other() {
    let ran = narrows(
        "incast -n 1,2 --cc reno --rto linux --sru 4kB,8kB --blocks 1 -r 1 --csv - --no-report -q",
    );
    assert_eq!(ran.code, EXIT_OK, "{}", ran.err);
    let rows: Vec<Vec<&str>> = ran.out.lines().map(|l| l.split(',').collect()).collect();
    let column = |name: &str| rows[0].iter().position(|c| *c == name).unwrap();
    let (servers, sru) = (
        column("group.servers.size"),
        column("traffic.read.sru_bytes"),
    );
    let seen: Vec<(&str, &str)> = rows[1..]
        .iter()
        .map(|row| (row[sru], row[servers]))
        .collect();
    assert_eq!(
        seen,
        [("4000", "1"), ("4000", "2"), ("8000", "1"), ("8000", "2")]
    );
}

#[test]
fn a_recorded_command_names_the_program_that_ran() {
    for (given, recorded) in [
        (
            &["/usr/bin/narrows", "incast", "-n", "4"][..],
            "narrows incast -n 4",
        ),
        (
            &["target/release/examples/own_rto", "incast", "--title=a b"],
            "own_rto incast '--title=a b'",
        ),
        (&["./my tcp", "it's"], r"'my tcp' 'it'\''s'"),
        (&[], "narrows"),
    ] {
        let args: Vec<OsString> = given.iter().map(OsString::from).collect();
        assert_eq!(command_line(&args), recorded);
    }
}

#[test]
fn the_beginning_of_several_stories_names_them() {
    let ran = narrows("story rack");
    assert_eq!(ran.code, EXIT_FAILED);
    for name in ["'racks'", "'rack coalesce'", "'rack tails'"] {
        let (_, near) = ran.err.split_once("did you mean ").unwrap();
        let (near, _) = near.split_once('?').unwrap();
        assert!(near.contains(name), "{}", ran.err);
    }
}

#[test]
fn a_meter_takes_each_period_once() {
    let ran = narrows("meter lo --every 1ms,1000us");
    assert!(ran.err.contains("given twice"), "{}", ran.err);
}
