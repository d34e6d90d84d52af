//! `narrows run`, `show`, `keys`, `merge` and `diff`, as a user runs them.

#![allow(
    clippy::disallowed_methods,
    reason = "a test that kills a process waits for it to have begun"
)]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

const FILE: &str = r#"
title = "Copies that meet"
[network]
hosts = 4
queue = { limit = "40p" }
[[traffic]]
name = "copy"
kind = "bulk"
from = "h1..h3"
to = "h0"
size = "200kB"
[[probe]]
name = "port"
kind = "queue"
on = "s0->h0"
series = "polled"
every = "1ms"
[run]
repetitions = 2
[sweep]
"host.tcp.congestion" = ["reno", "cubic"]
"network.link.delay" = ["5us", "50us"]
[show]
x = "network.link.delay"
y = ["goodput", "latency.p99", "drops"]
[[expect]]
that = "goodput"
is = "> 1Mb/s"
"#;

struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Self {
        // Tests of one name run at the same time, too.
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let (id, number) = (std::process::id(), NUMBER.fetch_add(1, Ordering::Relaxed));
        let path = std::env::temp_dir().join(format!("narrows-run-{name}-{id}-{number}"));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        fs::write(path.join("x.toml"), FILE).unwrap();
        Self(path)
    }
    fn command(&self, args: &[&str]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        command.args(args).current_dir(&self.0);
        command
    }
    fn run(&self, args: &[&str]) -> Output {
        self.command(args).output().unwrap()
    }
    fn read(&self, name: &str) -> String {
        fs::read_to_string(self.0.join(name)).unwrap_or_else(|e| panic!("{name}: {e}"))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn out(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

fn err(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

const TABLES: [&str; 8] = [
    "runs.csv",
    "flows.csv",
    "transfers.csv",
    "ports.csv",
    "series-port.csv",
    "figure-goodput.csv",
    "figure-goodput.svg",
    "figure-cdf.csv",
];

fn tables(scratch: &Scratch, folder: &str) -> Vec<String> {
    let read = |name: &&str| scratch.read(&format!("{folder}/{name}"));
    TABLES.iter().map(read).collect()
}

#[test]
fn a_file_gives_a_table_and_a_folder() {
    let s = Scratch::new("folder");
    let ran = s.run(&["run", "x.toml", "--out", "all"]);
    assert_eq!(ran.status.code(), Some(0), "{}", err(&ran));
    let text = out(&ran);
    for part in [
        "Copies that meet",
        "congestion control",
        "link delay",
        "latency.p99",
        "holds: goodput",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    let all = tables(&s, "all");
    assert_eq!(all[0].lines().count(), 9, "{}", all[0]);
    let report = s.read("all/report.html");
    for part in [
        "<svg",
        "Copies that meet",
        "run x.toml --out all",
        "network.queue.limit",
    ] {
        assert!(report.contains(part), "{part}");
    }
    // The experiment in the folder gives the same.
    let again = s.run(&["run", "all/experiment.toml", "--out", "again", "-q"]);
    assert_eq!(again.status.code(), Some(0), "{}", err(&again));
    assert_eq!(all, tables(&s, "again"));
    let same = s.run(&["diff", "all", "again"]);
    assert_eq!(same.status.code(), Some(0), "{}", out(&same));
}

/// What a report says is what was measured: differences are beyond the intervals, losses have a
/// place, and nothing is said of single runs.
#[test]
fn a_report_says_what_was_measured() {
    let s = Scratch::new("report");
    let ran = s.run(&[
        "run",
        "x.toml",
        "--out",
        "all",
        "-q",
        "--set",
        "network.queue.limit=20p",
    ]);
    assert!(ran.status.success(), "{}", err(&ran));
    let report = s.read("all/report.html");
    for part in [
        "8 runs: 4 points of the sweep, 2 at each.",
        "<h2>What differs</h2>",
        "link delay 50us against 5us",
        "<h2>Drops by place</h2>",
        "s0-&gt;h0",
        "<th>full</th>",
        "<h2>Timeouts by class</h2>",
        "Distribution of transfer times",
        "Queue (packets) of s0-&gt;h0, seen by probe port",
        "series-port.csv",
        "host.tcp.congestion",
        "narrows run experiment.toml --out again",
    ] {
        assert!(report.contains(part), "{part}");
    }
    let single = ["-r", "1", "--out", "one", "-q"];
    let ran = s.run(&[&["run", "x.toml"], &single[..]].concat());
    assert!(ran.status.success(), "{}", err(&ran));
    let report = s.read("one/report.html");
    assert!(report.contains("One run for each point"), "{report}");
    assert!(!report.contains("<h2>What differs</h2>"));
    // What makes no difference is not called one.
    let same = [
        "--set",
        "host.tcp.congestion=reno",
        "--set",
        "network.link.delay=5us",
        "--sweep",
        "run.wire=off,on",
        "--out",
        "same",
        "-q",
    ];
    let ran = s.run(&[&["run", "x.toml"], &same[..]].concat());
    assert!(ran.status.success(), "{}", err(&ran));
    let report = s.read("same/report.html");
    let none = "No pair that was compared differs beyond the 95 % intervals: goodput, ";
    assert!(report.contains(none), "{report}");
    assert!(
        !report.contains("higher") && !report.contains("lower"),
        "{report}"
    );
    // Words on an axis are words in its numbers.
    let words = [
        "--set",
        "show.x=host.tcp.congestion",
        "--out",
        "words",
        "-q",
    ];
    let ran = s.run(&[&["run", "x.toml"], &words[..]].concat());
    assert!(ran.status.success(), "{}", err(&ran));
    let numbers = s.read("words/figure-goodput.csv");
    assert!(numbers.contains("5us,cubic,"), "{numbers}");
    let svg = s.read("words/figure-goodput.svg");
    assert!(svg.contains(">cubic</text>"), "{svg}");
}

#[test]
fn threads_and_shards_change_nothing() {
    let s = Scratch::new("shards");
    assert!(
        s.run(&["run", "x.toml", "--out", "one", "-j", "1", "-q"])
            .status
            .success()
    );
    for n in 1..=3 {
        let (shard, folder) = (format!("{n}/3"), format!("part{n}"));
        let ran = s.run(&["run", "x.toml", "--out", &folder, "--shard", &shard, "-q"]);
        assert!(ran.status.success(), "{}", err(&ran));
    }
    let merged = s.run(&["merge", "whole", "part1", "part2", "part3"]);
    assert!(merged.status.success(), "{}", err(&merged));
    assert!(err(&merged).contains("8 runs"), "{}", err(&merged));
    for name in &TABLES[..5] {
        assert_eq!(
            s.read(&format!("one/{name}")),
            s.read(&format!("whole/{name}")),
            "{name}"
        );
    }
    assert!(s.read("whole/report.html").contains("8 runs: 4 points"));
    assert_eq!(tables(&s, "one"), tables(&s, "whole"));
}

#[cfg(unix)]
#[test]
fn a_killed_run_goes_on_where_it_was() {
    let s = Scratch::new("killed");
    let sets = ["--set", "traffic.copy.size=3MB", "-r", "8"];
    let args = |out: &'static str| [&["run", "x.toml", "-q", "--out", out][..], &sets].concat();
    let mut child = s
        .command(&args("cut"))
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = s.0.join("cut/runs.jsonl");
    let begun = || fs::metadata(&journal).is_ok_and(|m| m.len() > 2_000);
    for _ in 0..6_000 {
        if begun() || child.try_wait().unwrap().is_some() {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(begun());
    let finished = s.read("cut/runs.jsonl").matches("\"outcome\"").count();
    let ran = s.run(&args("cut"));
    assert!(ran.status.success(), "{}", err(&ran));
    assert!(finished >= 1);
    assert!(s.run(&args("whole")).status.success());
    assert_eq!(tables(&s, "cut"), tables(&s, "whole"));
}

/// A file may be at most so long: what a full disk is to a write.
#[cfg(unix)]
#[test]
fn a_full_disk_is_told_and_loses_nothing() {
    let s = Scratch::new("full");
    let narrows = env!("CARGO_BIN_EXE_narrows");
    // In blocks of 512 bytes; the signal that comes with it is ignored, so that the write fails.
    let script = format!("trap '' XFSZ; ulimit -f 24; exec {narrows} run x.toml --out o -q -j 1");
    let ran = Command::new("sh")
        .args(["-c", &script])
        .current_dir(&s.0)
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1), "{}", err(&ran));
    assert!(err(&ran).contains("cannot write"), "{}", err(&ran));
    let finished = s.read("o/runs.jsonl").matches("\"outcome\"").count();
    let ran = s.run(&["run", "x.toml", "--out", "o"]);
    assert!(ran.status.success(), "{}", err(&ran));
    if finished > 0 {
        assert!(
            err(&ran).contains(&format!("{finished} runs are there")),
            "{}",
            err(&ran)
        );
    }
    assert!(
        s.run(&["run", "x.toml", "--out", "whole", "-q"])
            .status
            .success()
    );
    assert_eq!(tables(&s, "o"), tables(&s, "whole"));
}

#[test]
fn options_set_and_vary() {
    let s = Scratch::new("options");
    let ran = s.run(&[
        "run",
        "x.toml",
        "--set",
        "network.link.delay=1ms",
        "--sweep",
        "host.tcp.congestion=dctcp,reno,cubic:hystart=off",
        "-r",
        "1",
        "--seed",
        "7",
        "--out",
        "o",
    ]);
    let wrong = err(&ran);
    if !ran.status.success() {
        // A parameter that CUBIC does not have is told with its option.
        assert!(
            wrong.contains("--sweep") && wrong.contains("cubic"),
            "{wrong}"
        );
    }
    let ran = s.run(&[
        "run",
        "x.toml",
        "--set",
        "network.link.delay=1ms",
        "--sweep",
        "host.tcp.congestion=dctcp:g=1/32,floor=1,reno",
        "-r",
        "1",
        "--seed",
        "7",
        "--out",
        "o",
    ]);
    assert!(ran.status.success(), "{}", err(&ran));
    let runs = s.read("o/runs.csv");
    assert_eq!(runs.lines().count(), 3, "{runs}");
    assert!(
        runs.contains("\"dctcp:g=1/32,floor=1\"") && runs.contains(",1000000,"),
        "{runs}"
    );
}

#[test]
fn mistakes_are_told_with_what_to_do() {
    let s = Scratch::new("mistakes");
    let with = |name: &str, from: &str, to: &str| {
        assert!(FILE.contains(from), "{from}");
        fs::write(s.0.join(name), FILE.replacen(from, to, 1)).unwrap();
    };
    with("typo.toml", "kind = \"bulk\"", "kind = \"bulc\"");
    with("range.toml", "\"50us\"]", "\"50s\"]");
    with("later.toml", "to = \"h0\"", "to = \"h7\"");
    with("metric.toml", "\"drops\"]", "\"dropps\"]");
    with("nokind.toml", "kind = \"queue\"", "");
    with("syntax.toml", "hosts = 4", "hosts = = 4");
    let cases: [(&[&str], &str); 15] = [
        (&["run", "typo.toml"], "did you mean 'bulk'?"),
        (&["run", "range.toml"], "0ns to 10s"),
        (&["run", "later.toml"], "to = \"h7\""),
        (&["run", "metric.toml"], "did you mean 'drops'?"),
        (&["run", "nokind.toml"], "has no kind"),
        (&["run", "syntax.toml"], "syntax.toml:4"),
        (&["run", "nowhere.toml"], "cannot read nowhere.toml"),
        (&["run", "two-sender"], "did you mean 'two-senders'?"),
        (&["run", "burst"], "narrows story burst"),
        (
            &["run", "x.toml", "--set", "host.tcp.rtt=1"],
            "did you mean 'rto'?",
        ),
        (&["run", "x.toml", "--set", "seed"], "KEY=VALUE"),
        (&["run", "x.toml", "--shard", "1/2"], "--out"),
        (
            &["run", "x.toml", "--sweep", "network.hosts=1"],
            "no host 'h1'",
        ),
        (&["keys", "nothing-like-it"], "no key has"),
        (&["merge", "o", "not-there"], "cannot read"),
    ];
    for (args, part) in cases {
        let ran = s.run(args);
        let text = err(&ran);
        assert!(matches!(ran.status.code(), Some(1 | 2)), "{args:?}: {text}");
        assert!(text.contains(part), "{args:?}: {text}");
        assert!(out(&ran).is_empty(), "{args:?}: {}", out(&ran));
    }
}

/// An incast overflows late in a sweep: what the report says holds for all points.
#[test]
fn drops_are_told_wherever_they_are() {
    let s = Scratch::new("late");
    let sizes: Vec<String> = (1..=30).map(|n| format!("{n}00B")).collect();
    let few = format!("traffic.copy.size={}", sizes.join(","));
    let base = ["run", "x.toml", "--set", "host.tcp.congestion=reno"];
    let base = [
        &base[..],
        &["--set", "network.link.delay=5us", "-r", "1", "-q"],
    ]
    .concat();
    let none = s.run(&[&base[..], &["--sweep", &few, "--out", "none"]].concat());
    assert!(none.status.code().is_some(), "{}", err(&none));
    assert!(
        s.read("none/report.html")
            .contains("No port dropped or refused")
    );
    let late = few + ",2MB";
    let some = s.run(&[&base[..], &["--sweep", &late, "--out", "some"]].concat());
    assert!(some.status.code().is_some(), "{}", err(&some));
    let report = s.read("some/report.html");
    assert!(!report.contains("No port dropped"), "{report}");
    assert!(
        report.contains("At 30 other points there were none."),
        "{report}"
    );
}

#[test]
fn one_run_is_recorded() {
    let scratch = Scratch::new("record");
    let many = scratch.run(&["run", "x.toml", "--pcap", "c.pcapng"]);
    assert_eq!(many.status.code(), Some(2));
    let told = err(&many);
    let how = "--set host.tcp.congestion=VALUE --set network.link.delay=VALUE -r 1";
    assert!(told.contains("this is 8") && told.contains(how), "{told}");
    let one = [
        "run",
        "x.toml",
        "--set",
        "host.tcp.congestion=reno",
        "--set",
        "network.link.delay=5us",
        "-r",
        "1",
    ];
    let run = |more: &[&str]| scratch.run(&[&one[..], more].concat());
    let plain = run(&[]);
    let recorded = run(&[
        "--pcap",
        "c.pcapng",
        "--pcap-at",
        "h2",
        "--trace",
        "t.jsonl",
    ]);
    assert_eq!(recorded.status.code(), Some(0), "{}", err(&recorded));
    assert_eq!(out(&plain), out(&recorded));
    let trace = fs::read_to_string(scratch.0.join("t.jsonl")).unwrap();
    assert!(trace.lines().count() > 10, "{trace}");
    let capture = fs::read(scratch.0.join("c.pcapng")).unwrap();
    let address = b"the link of 10.0.0.3";
    assert!(capture.windows(address.len()).any(|w| w == address));
    // Above the host's offloads fewer packets, which can be explained as well.
    let above = run(&[
        "--set",
        "host.nic.tso=64KiB",
        "--pcap",
        "h.pcapng",
        "--pcap-at",
        "h2",
        "--pcap-side",
        "host",
    ]);
    assert_eq!(above.status.code(), Some(0), "{}", err(&above));
    let above = fs::read(scratch.0.join("h.pcapng")).unwrap();
    let address = b"at 10.0.0.3: outbound";
    assert!(above.windows(address.len()).any(|w| w == address));
    assert!(above.len() < capture.len());
    let explained = scratch.run(&["explain", "h.pcapng"]);
    assert_eq!(explained.status.code(), Some(0), "{}", err(&explained));
    let nobody = run(&["--pcap", "d.pcapng", "--pcap-at", "h9"]);
    assert_eq!(nobody.status.code(), Some(2));
    assert!(err(&nobody).contains("one host"), "{}", err(&nobody));
    let folder = ["--out", "results"];
    assert_eq!(run(&folder).status.code(), Some(0));
    let again = run(&[&folder[..], &["--pcap", "e.pcapng"]].concat());
    assert_eq!(again.status.code(), Some(1));
    assert!(err(&again).contains("another folder"), "{}", err(&again));
    for file in ["d.pcapng", "e.pcapng"] {
        assert!(!scratch.0.join(file).exists(), "{file}");
    }
}

#[test]
fn an_expectation_that_fails_is_an_exit_code_and_a_junit_failure() {
    let s = Scratch::new("expect");
    fs::write(s.0.join("y.toml"), FILE.replace("> 1Mb/s", "> 10Gb/s")).unwrap();
    let ran = s.run(&["run", "y.toml", "-r", "1", "--junit", "j.xml"]);
    assert_eq!(
        ran.status.code(),
        Some(0),
        "without --check it is only told"
    );
    assert!(out(&ran).contains("fails: goodput"), "{}", out(&ran));
    assert!(
        out(&ran).contains("values: run.repetitions is 1, in the file 2."),
        "{}",
        out(&ran)
    );
    // What was set to something else may be why.
    let delay = ["--set", "network.link.delay=0.005ms"];
    let (queue, size) = ("network.queue.limit", "traffic.copy.size");
    let set = format!("{queue}=50p");
    let sweep = format!("{size}=100kB,200kB");
    let other = ["--set", set.as_str(), "--sweep", sweep.as_str()];
    let ran = s.run(&[&["run", "y.toml", "-r", "1"], &delay[..], &other[..]].concat());
    for said in [
        format!("{queue} is 50p, in the file 40p"),
        format!("{size} is 100kB,200kB, in the file 200kB"),
    ] {
        assert!(out(&ran).contains(&said), "{}", out(&ran));
    }
    assert!(!out(&ran).contains("delay is"), "{}", out(&ran));
    // So are values that are kept as they were typed, and what is only shown says nothing of it.
    let trunk = "[network]\ntopology = \"leaf-spine\"\nleaves = 2\n\
                 trunk.link = { rate = \"100Gb/s\", delay = \"5us\" }\n\
                 port.\"leaf->spine\".queue = { limit = \"1MB\" }\n";
    let few = "[group.few]\nhosts = [\"h0\"]\ntcp = { receive_window = \"100kB\" }\n[run]\n";
    let other = FILE
        .replace("[network]\n", trunk)
        .replace("[run]\n", few)
        .replace("s0->h0", "leaf0->h0");
    fs::write(s.0.join("z.toml"), other.replace("> 1Mb/s", "> 10Gb/s")).unwrap();
    let sets = [
        "network.trunk.link.rate=100000Mb/s",
        "network.trunk.link.delay=6us",
        r#"network.port."leaf->spine".queue.limit=1000kB"#,
        "group.few.tcp.receive_window=0.1MB",
        "title=Copies",
        "about=They meet",
        "show.x=host.tcp.congestion",
    ];
    let sets = sets.iter().flat_map(|set| ["--set", set]);
    let line: Vec<&str> = ["run", "z.toml"].into_iter().chain(sets).collect();
    let ran = s.run(&line);
    let said = "values: network.trunk.link.delay is 6us, in the file 5us.";
    assert!(out(&ran).contains(said), "{}{}", out(&ran), err(&ran));
    let ran = s.run(&["run", "y.toml", "-r", "1", "--check", "-q"]);
    assert_eq!(ran.status.code(), Some(1));
    let unmet = err(&ran);
    assert!(
        unmet.lines().count() == 4 && unmet.lines().all(|l| l.starts_with("fails: ")),
        "{unmet}"
    );
    let junit = s.read("j.xml");
    assert!(
        junit.contains("failures=\"4\"") && junit.contains("<failure"),
        "{junit}"
    );
}

#[test]
fn what_is_expected_of_points_that_arguments_leave_out_is_not_judged() {
    let s = Scratch::new("left-out");
    let file = FILE.replace(
        "[[expect]]",
        "[[expect]]\nthat = \"drops\"\nis = \"< 1\"\nwhere = { \"network.link.delay\" = \"50us\" }\n[[expect]]",
    );
    fs::write(s.0.join("left.toml"), file).unwrap();
    let other = ["run", "left.toml", "--sweep", "network.link.delay=5us,9us"];
    let output = s.run(&[&other[..], &["-r", "1"]].concat());
    assert!(
        err(&output).contains("1 of what the file expects is about points that are not run"),
        "{}",
        err(&output)
    );
    assert!(!out(&output).contains("drops < 1"), "{}", out(&output));
    // Who asks for a check is told that it cannot be.
    let output = s.run(&[&other[..], &["--check"]].concat());
    assert_eq!(output.status.code(), Some(2), "{}", err(&output));
    assert!(err(&output).contains("is never '50us'"), "{}", err(&output));
}

#[test]
fn everything_that_has_a_key_is_listed() {
    let s = Scratch::new("keys");
    let keys = out(&s.run(&["keys"]));
    for key in [
        "host.tcp.congestion",
        "network.queue.threshold",
        "network.leaves (leaf-spine)",
        "traffic.NAME.size (bulk)",
        "probe.NAME.every (rate)",
        "change.N.at",
        "change.N.nic.gro",
        "expect.N.that",
    ] {
        assert!(keys.contains(key), "{key}");
    }
    // What can be off and is.
    let kinds = keys.lines().map(str::trim);
    let silent = kinds.filter(|kind| kind.starts_with("off, or ") && !kind.contains("[default: "));
    assert_eq!(silent.collect::<Vec<_>>(), [""; 0]);
    assert!(out(&s.run(&["keys", "nagle"])).contains("TCP_NODELAY"));
    let list = out(&s.run(&["list"]));
    for name in [
        "leaf-spine",
        "fan-out",
        "two-senders",
        "latency.p99",
        "rate",
    ] {
        assert!(list.contains(name), "{name}");
    }
}

#[test]
fn what_is_shown_runs_as_printed() {
    let s = Scratch::new("show");
    let text = out(&s.run(&["show", "two-senders"]));
    fs::write(s.0.join("shown.toml"), &text).unwrap();
    let quick = [
        "--set",
        "run.duration=50ms",
        "--set",
        "run.warm_up=10ms",
        "-r",
        "1",
    ];
    let by_file = s.run(&[&["run", "shown.toml"][..], &quick].concat());
    let by_name = s.run(&[&["run", "two-senders"][..], &quick].concat());
    assert!(by_file.status.success(), "{}", err(&by_file));
    assert_eq!(out(&by_file), out(&by_name));
    let dry = out(&s.run(&["run", "two-senders", "--dry-run"]));
    assert!(dry.starts_with("27 runs"), "{dry}");
    assert!(!Path::new("narrows-report.html").exists());
}

#[test]
fn schema_completions_and_pages_are_made_of_what_there_is() {
    let s = Scratch::new("generate");
    let schema = out(&s.run(&["generate", "schema"]));
    let value: serde_json::Value = serde_json::from_str(&schema).unwrap();
    assert_eq!(value["properties"]["network"]["type"], "object");
    for shell in ["bash", "zsh", "fish"] {
        let script = out(&s.run(&["generate", "completions", shell]));
        assert!(script.contains("dry-run"), "{shell}");
    }
    let made = s.run(&["generate", "man", "."]);
    assert!(made.status.success(), "{}", err(&made));
    assert!(s.read("narrows-run.1").contains("KEY=VALUE"));
    assert!(s.read("narrows-live-incast.1").contains("narrows"));
    let nowhere = s.run(&["generate", "man", "not/there"]);
    assert_eq!(nowhere.status.code(), Some(1));
}

/// What a file or an option says that cannot be is told, with what would be right.
#[test]
fn mistakes_are_told_where_they_are() {
    let s = Scratch::new("mistakes");
    let with = |more: &str| fs::write(s.0.join("y.toml"), FILE.to_owned() + more).unwrap();
    let dry = |args: &[&str]| {
        let ran = s.run(&[&["run", "y.toml", "--dry-run"], args].concat());
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {}", out(&ran));
        err(&ran)
    };
    with("[short]\ncc = \"host.tcp.congetsion\"\n");
    let text = dry(&[]);
    assert!(text.contains("did you mean 'congestion'"), "{text}");
    assert!(text.contains("cc = \"host.tcp.congetsion\""), "{text}");
    with("[short]\nb = \"traffic.get.size\"\n");
    assert!(dry(&[]).contains("there is no 'get' here"));
    with("[[traffic]]\nname = 3\nkind = \"bulk\"\n");
    assert!(dry(&[]).contains("a traffic's name is a word in quotes"));
    with("[[expect]]\nthat = \"nope.drops\"\nis = \"> 1\"\n");
    assert!(dry(&[]).contains("there is no metric 'nope.drops'"));
    with("");
    let text = dry(&["--set", "network.trunk.link.rate=1Gb/s"]);
    assert!(text.contains("no links between switches"), "{text}");
    let text = dry(&["--seed", "3", "--sweep", "run.seed=1-4"]);
    assert!(text.contains("leave out one of the two"), "{text}");
    let text = dry(&["--sweep", "network.link.delay=1ms,1000us"]);
    assert!(text.contains("are one value"), "{text}");
}

/// What an argument gives is marked in the argument, with the line of the file that has to do with
/// it, and what the file says in the file.
#[test]
fn mistakes_of_arguments_are_marked_in_them() {
    let s = Scratch::new("arguments");
    let marked = |args: &[&str]| {
        let ran = s.run(&[&["run", "x.toml", "--dry-run"], args].concat());
        assert_eq!(ran.status.code(), Some(2), "{args:?}: {}", out(&ran));
        err(&ran)
    };
    let cases: [(&[&str], &str, &str); 15] = [
        (
            &["--set", "host.tcp.congestion=dctp"],
            "did you mean 'dctcp'?",
            " | --set host.tcp.congestion=dctp\n\
             \x20|                           ^^^^\n",
        ),
        (
            &["--set", "host.tpc.congestion=reno"],
            "did you mean 'tcp'?",
            " | --set host.tpc.congestion=reno\n\
             \x20|            ^^^\n",
        ),
        (
            &["--set", "network.link.delay = 50s"],
            "0ns to 10s",
            " | --set network.link.delay = 50s\n\
             \x20|                            ^^^\n",
        ),
        (
            &["--set", "traffic.copy.to=h7"],
            "no host, switch, group or tier 'h7'",
            " | --set traffic.copy.to=h7\n\
             \x20|                       ^^\n",
        ),
        (
            &["--sweep", "host.tcp.congestion=reno, dctp,cubic"],
            "did you mean 'dctcp'?",
            " | --sweep host.tcp.congestion=reno, dctp,cubic\n\
             \x20|                                   ^^^^\n",
        ),
        (
            &["--sweep", "host.tcp.congetsion=reno,cubic"],
            "did you mean 'congestion'?",
            " | --sweep host.tcp.congetsion=reno,cubic\n\
             \x20|                  ^^^^^^^^^^\n",
        ),
        (
            &["--set", " host.tcp.congetsion=reno"],
            "did you mean 'congestion'?",
            " | --set  host.tcp.congetsion=reno\n\
             \x20|                 ^^^^^^^^^^\n",
        ),
        (
            &["--set", " \u{e9}=1"],
            "\u{e9}",
            " | --set  \u{e9}=1\n\
             \x20|        ^\n",
        ),
        (
            &["--sweep", "network.link.delay=1ms,1000us"],
            "are one value",
            " | --sweep network.link.delay=1ms,1000us\n\
             \x20|                            ^^^^^^^^^^\n",
        ),
        (
            &["--seed", "3", "--sweep", "run.seed=1-4"],
            "--seed gives run.seed one value",
            " | --sweep run.seed=1-4\n\
             \x20|         ^^^^^^^^\n",
        ),
        (
            &["-r", "0"],
            "allowed is 1 to 10000",
            " | --repetitions 0\n\
             \x20|               ^\n",
        ),
        // One from the file, one given.
        (
            &["--set", "network.hosts=3"],
            "traffic.copy.from: ",
            " | --set network.hosts=3\n\
             \x20|                     ^\n\
             x.toml:9:8: traffic.copy.from: it is set here\n\
             \x20 |\n\
             9 | from = \"h1..h3\"\n\
             \x20 |        ^^^^^^^^\n",
        ),
        (
            &["--sweep", "network.hosts=4,3"],
            "(with ",
            " | --sweep network.hosts=4,3\n\
             \x20|                         ^\n",
        ),
        (
            &["--set", "network.port.\"s0->h9\".queue.limit=9kB"],
            "did you mean 'h0'?",
            " | --set network.port.\"s0->h9\".queue.limit=9kB\n\
             \x20|       ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^\n",
        ),
        // Both given: that which cannot be beside the other.
        (
            &["--set", "traffic.copy.from=h2", "--set", "network.hosts=2"],
            "traffic.copy.from",
            " | --set traffic.copy.from=h2\n\
             \x20|                         ^^\n",
        ),
    ];
    for (args, why, mark) in cases {
        let text = marked(args);
        assert!(text.contains(why), "{args:?}: {text}");
        assert!(text.contains(mark), "{args:?}: {text}");
    }
    // A mistake of the file is none of an argument.
    fs::write(s.0.join("x.toml"), FILE.replacen("\"h0\"", "\"h7\"", 1)).unwrap();
    let text = marked(&["--set", "network.link.rate=1Gb/s"]);
    assert!(text.starts_with("x.toml:10:6: traffic.copy.to"), "{text}");
    assert!(!text.contains("--set"), "{text}");
}

/// A value is the same however it is written, and a metric by whichever of its names.
#[test]
fn values_and_metrics_have_several_names() {
    let s = Scratch::new("names");
    let more = "[[expect]]\nthat = \"traffic.copy.goodput\"\nis = \"> 2Mb/s\"\n\
                where = { \"network.link.delay\" = \"50000ns\" }\n\
                [[expect]]\nthat = \"copy.drops\"\nis = \">= 0\"\n";
    fs::write(s.0.join("y.toml"), FILE.to_owned() + more).unwrap();
    let ran = s.run(&["run", "y.toml", "--check", "-r", "1"]);
    assert!(ran.status.success(), "{}{}", out(&ran), err(&ran));
    let text = out(&ran);
    assert!(
        text.contains("holds: traffic.copy.goodput > 2Mb/s with"),
        "{text}"
    );
    // What is expected at 50 us is expected still where the key is set to that.
    let set = ["--set", "network.link.delay=50000ns", "-r", "1"];
    let text = out(&s.run(&[&["run", "y.toml"], &set[..]].concat()));
    assert_eq!(
        text.matches("holds: traffic.copy.goodput").count(),
        2,
        "{text}"
    );
    let set = ["--set", "network.link.delay=5us", "-r", "1"];
    let text = out(&s.run(&[&["run", "y.toml"], &set[..]].concat()));
    assert!(!text.contains("holds: traffic.copy.goodput"), "{text}");
    // Of several traffics each has columns of its own; what they share is the run's.
    let two = "[[traffic]]\nname = \"back\"\nkind = \"bulk\"\nfrom = \"h0\"\nto = \"h1\"\nsize = \"20kB\"\n";
    fs::write(s.0.join("z.toml"), FILE.to_owned() + two).unwrap();
    let ran = s.run(&["run", "z.toml", "-r", "1", "-q", "--out", "two"]);
    assert!(ran.status.success(), "{}", err(&ran));
    let runs = s.read("two/runs.csv");
    let head = runs.lines().next().unwrap_or_default();
    for column in [
        "copy.goodput_bps",
        "back.latency.p99_ns",
        "traffic.back.start_ns",
    ] {
        assert!(head.split(',').any(|c| c == column), "{column}: {head}");
    }
    let ran = s.run(&["run", "z.toml", "--dry-run", "--set", "show.y=back.drops"]);
    assert!(err(&ran).contains("of the whole run"), "{}", err(&ran));
}

/// Another kind keeps the keys that both have, and says which it does not.
#[test]
fn another_kind_says_what_does_not_apply() {
    let s = Scratch::new("kind");
    let set = [
        "--set",
        "traffic.copy.kind=all-to-all",
        "--out",
        "o",
        "-q",
        "-r",
        "1",
    ];
    let ran = s.run(&[&["run", "x.toml"], &set[..]].concat());
    assert!(ran.status.success(), "{}", err(&ran));
    let text = err(&ran);
    assert!(text.contains("which has no from:"), "{text}");
    assert!(
        s.read("o/experiment.toml")
            .contains("traffic.copy.size = \"200kB\"")
    );
}

/// A distribution lies beside the experiment that names it, and results do not need it.
#[test]
fn distributions_are_beside_their_experiment() {
    let s = Scratch::new("sizes");
    fs::create_dir(s.0.join("sub")).unwrap();
    fs::write(s.0.join("sub/few.cdf"), "1kB 0.5\n10kB 1\n").unwrap();
    fs::write(s.0.join("sub/many.cdf"), "10kB 0.5\n100kB 1\n").unwrap();
    let text = "network.hosts = 3\n[[traffic]]\nname = \"get\"\nkind = \"fan-out\"\nk = 1\n\
                size = \"file:few.cdf\"\nload = \"50Mb/s\"\n[run]\nduration = \"20ms\"\n";
    fs::write(s.0.join("sub/x.toml"), text).unwrap();
    let ran = s.run(&["run", "sub/x.toml", "-q", "--out", "one"]);
    assert!(ran.status.success(), "{}", err(&ran));
    let sweep = "[sweep]\n\"traffic.get.size\" = [\"file:few.cdf\", \"file:many.cdf\"]\n";
    fs::write(s.0.join("sub/y.toml"), text.to_owned() + sweep).unwrap();
    let ran = s.run(&["run", "sub/y.toml", "-q", "--out", "two"]);
    assert!(ran.status.success(), "{}", err(&ran));
    let ran = s.run(&["run", "two/experiment.toml", "-q", "--out", "two"]);
    assert!(ran.status.success(), "{}", err(&ran));
    fs::remove_file(s.0.join("sub/few.cdf")).unwrap();
    let ran = s.run(&["run", "one/experiment.toml", "-q", "--out", "again"]);
    assert!(ran.status.success(), "{}", err(&ran));
    assert_eq!(s.read("one/runs.csv"), s.read("again/runs.csv"));
}

/// What was finished when a run is interrupted is in the report, which says that it is partial.
#[cfg(unix)]
#[test]
fn an_interrupted_run_leaves_a_report() {
    let s = Scratch::new("interrupted");
    let sets = ["--set", "traffic.copy.size=30MB", "-r", "20", "-j", "1"];
    let mut child = s
        .command(&[&["run", "x.toml", "--out", "o"], &sets[..]].concat())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let journal = s.0.join("o/runs.jsonl");
    for _ in 0..6_000 {
        if fs::metadata(&journal).is_ok_and(|m| m.len() > 100) {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let interrupt = Command::new("kill")
        .args(["-INT", &child.id().to_string()])
        .status();
    assert!(interrupt.unwrap().success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let report = s.read("o/report.html");
    assert!(report.contains("Partial: "), "{report}");
    assert!(report.contains(" of 80 runs."), "{report}");
}

/// A stand-in for Slurm's `sbatch`, which does each task at once, the second one in two goes: the
/// first is killed.
#[cfg(unix)]
const SBATCH: &str = r#"#!/bin/sh
here=$(dirname "$0")
echo "$@" >> "$here/log"
for arg; do
    case $arg in
        --array=1-*) last=${arg#--array=1-} ;;
        --dependency=*) merge=yes ;;
    esac
    script=$arg
done
if [ -n "$merge" ]; then
    sh "$script" > "$here/merge.log" 2>&1
    echo "42;here"
    exit
fi
n=1
while [ $n -le $last ]; do
    export SLURM_ARRAY_TASK_ID=$n
    if [ $n -eq 2 ]; then
        sh "$script" & task=$!
        sleep 0.05
        kill -9 $task
        wait $task
    fi
    sh "$script" || exit 1
    n=$((n + 1))
done
echo 41
"#;

/// With a `sbatch` of one's own on the path.
#[cfg(unix)]
fn with_sbatch(s: &Scratch, script: &str, args: &[&str]) -> Output {
    use std::os::unix::fs::PermissionsExt;
    let bin = s.0.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join("sbatch"), script).unwrap();
    fs::set_permissions(bin.join("sbatch"), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:/usr/bin:/bin", bin.display());
    s.command(args).env("PATH", path).output().unwrap()
}

#[cfg(unix)]
#[test]
fn slurm_gives_what_one_process_does() {
    let s = Scratch::new("slurm");
    let file = ["run", "x.toml", "-r", "3"];
    let options = [
        "--slurm=5",
        "--sbatch=--partition=long",
        "--out",
        "it's all",
    ];
    let submit = || with_sbatch(&s, SBATCH, &[&file[..], &options].concat());
    let ran = submit();
    assert_eq!(ran.status.code(), Some(0), "{}", err(&ran));
    let text = err(&ran);
    let said = "job 41 does 12 runs in 5 tasks, job 42 puts them into";
    assert!(text.contains(said), "{text}");
    let log = s.read("bin/log");
    for part in [
        "--array=1-5",
        "--requeue",
        "--partition=long",
        "--dependency=afterany:41",
    ] {
        assert!(log.contains(part), "{part}: {log}");
    }
    let one = s.run(&[&file[..], &["--out", "one", "-q"]].concat());
    assert!(one.status.success(), "{}", err(&one));
    assert_eq!(tables(&s, "it's all"), tables(&s, "one"));
    assert!(s.read("it's all/report.html").contains("12 runs: 4 points"));
    // What the folder has already is not run again.
    let first = s.run(&["run", "x.toml", "-r", "1", "--out", "it's all too", "-q"]);
    assert!(first.status.success(), "{}", err(&first));
    let more = [&file[..], &options[..3], &["it's all too"]].concat();
    let ran = with_sbatch(&s, SBATCH, &more);
    assert!(err(&ran).contains("does 8 runs"), "{}", err(&ran));
    let lines = |n: u32| {
        let journal = format!("it's all too/slurm/part{n}/runs.jsonl");
        fs::read_to_string(s.0.join(journal)).map_or(0, |text| text.lines().count())
    };
    assert_eq!((1..=5).map(lines).sum::<usize>(), 8);
    assert_eq!(tables(&s, "it's all too"), tables(&s, "one"));
    fs::write(s.0.join("bin/log"), &log).unwrap();
    // Again: nothing is left to do.
    let ran = submit();
    assert_eq!(ran.status.code(), Some(0), "{}", err(&ran));
    assert!(
        err(&ran).contains("12 runs are in it's all"),
        "{}",
        err(&ran)
    );
    assert_eq!(s.read("bin/log"), log);
}

/// The job that merges says whether what was expected came out; where nothing is left to do, the
/// command does.
#[cfg(unix)]
#[test]
fn slurm_checks_what_was_expected() {
    let s = Scratch::new("expected");
    let expected = "\n[[expect]]\nthat = \"goodput\"\nis = \"< 1kb/s\"\n";
    let text = s.read("x.toml") + expected;
    fs::write(s.0.join("y.toml"), text).unwrap();
    let options = ["--out", "o o", "--check", "--junit", "j.xml"];
    let args = [&["run", "y.toml", "--slurm=2"], &options[..]].concat();
    let ran = with_sbatch(&s, SBATCH, &args);
    assert_eq!(ran.status.code(), Some(0), "{}", err(&ran));
    let merged = s.read("bin/merge.log");
    assert!(merged.contains("goodput"), "{merged}");
    let junit = s.read("j.xml");
    assert!(junit.contains("<failure"), "{junit}");
    fs::remove_file(s.0.join("j.xml")).unwrap();
    let ran = with_sbatch(&s, SBATCH, &args);
    assert_eq!(ran.status.code(), Some(1), "{}", err(&ran));
    assert_eq!(s.read("j.xml"), junit);
}

#[cfg(unix)]
#[test]
fn what_slurm_does_not_take_is_told() {
    let s = Scratch::new("refused");
    let args = ["run", "x.toml", "--slurm", "--out", "o"];
    for option in ["--array=1-4%2", "--dep=singleton", "-o log", "--parsable"] {
        let option = format!("--sbatch={option}");
        let ran = with_sbatch(&s, SBATCH, &[&args[..], &[&option]].concat());
        assert_eq!(ran.status.code(), Some(2), "{option}");
        assert!(err(&ran).contains("narrows sets it"), "{}", err(&ran));
    }
    let refuse = "#!/bin/sh\necho 'sbatch: error: invalid partition' >&2\nexit 1\n";
    let ran = with_sbatch(&s, refuse, &args);
    assert_eq!(ran.status.code(), Some(1));
    assert!(err(&ran).contains("invalid partition"), "{}", err(&ran));
    let ran = s
        .command(&args)
        .env("PATH", s.0.join("nowhere"))
        .output()
        .unwrap();
    assert_eq!(ran.status.code(), Some(1));
    assert!(
        err(&ran).contains("there is no sbatch here"),
        "{}",
        err(&ran)
    );
    // An array whose parts nothing will merge is told, with how to.
    let second = "#!/bin/sh\ncase \"$*\" in *afterany*) exit 1 ;; esac\necho 41\n";
    let ran = with_sbatch(&s, second, &args);
    assert!(
        err(&ran).contains("job 41 runs all the same"),
        "{}",
        err(&ran)
    );
}

#[test]
fn a_dry_run_says_what_it_takes() {
    let s = Scratch::new("dry");
    let ran = s.run(&["run", "x.toml", "--dry-run", "-j", "1", "--out", "o"]);
    assert!(ran.status.success(), "{}", err(&ran));
    let text = out(&ran);
    for part in [
        "8 runs: 4 points of the sweep, 2 at each",
        "time: about ",
        " on 1 thread (tried 4 of 4 points in ",
        ", to the end)",
        "network.link.delay = 50us",
    ] {
        assert!(text.contains(part), "{part}: {text}");
    }
    assert_eq!(
        text.contains("memory: about "),
        cfg!(target_os = "linux"),
        "{text}"
    );
    assert!(!s.0.join("o").exists());
    // What is longer than a trial is cut.
    let long = [
        "--set",
        "traffic.copy.size=off",
        "--set",
        "run.duration=100000s",
    ];
    let ran = s.run(&[&["run", "x.toml", "--dry-run"], &long[..]].concat());
    assert!(ran.status.success(), "{}", err(&ran));
    assert!(out(&ran).contains("cut at "), "{}", out(&ran));
}
