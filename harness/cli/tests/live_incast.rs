//! `narrows live incast`: the collapse and its cure on wires of the kernel.
//!
//! Each test has a lab of its own name. Where that cannot be a test is skipped with a message; with
//! `CI=true` it fails. Nothing here asserts a time or a rate: only what was counted, and which of
//! two runs was the better one by far.
#![cfg(target_os = "linux")]

use serde_json::Value;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// A name for a lab, and a folder; both are gone afterwards. There is one at a time: live runs
/// are not to slow one another down.
struct Place {
    lab: String,
    folder: PathBuf,
    _alone: MutexGuard<'static, ()>,
}

impl Place {
    /// `None`: this machine cannot.
    fn new() -> Option<Self> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        static ALONE: Mutex<()> = Mutex::new(());
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let lab = format!("nwincast-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(&lab);
        fs::create_dir_all(&folder).unwrap();
        let place = Self {
            lab,
            folder,
            _alone: alone,
        };
        let tried = place.incast(&["-n", "1", "--rto", "fine", "--blocks", "1", "-q"]);
        let tried = { tried }
            .args(["--no-simulation", "--no-report"])
            .output()
            .unwrap();
        if tried.status.success() {
            return Some(place);
        }
        let why = String::from_utf8_lossy(&tried.stderr).into_owned();
        let ci = std::env::var("CI").is_ok_and(|v| v == "true");
        assert!(!ci, "{why}");
        eprintln!("SKIPPED: {why}");
        None
    }

    fn live(&self, command: &str) -> Command {
        let mut all = Command::new(env!("CARGO_BIN_EXE_narrows"));
        all.args(["live", command, "--lab", &self.lab]);
        all
    }

    fn incast(&self, arguments: &[&str]) -> Command {
        let mut command = self.live("incast");
        command.args(arguments);
        command
    }

    fn file(&self, name: &str) -> String {
        self.folder.join(name).to_str().unwrap().to_owned()
    }

    /// The runs as `--json` has them.
    fn json(&self, arguments: &[&str]) -> Vec<Value> {
        let mut command = self.incast(arguments);
        let output = succeed(command.args(["-q", "--no-report", "--json", "-"]));
        assert!(!self.is_there(), "the lab is still there");
        let text = String::from_utf8(output.stdout).unwrap();
        let line = |line| serde_json::from_str(line).unwrap();
        text.lines().map(line).collect()
    }

    fn is_there(&self) -> bool {
        let names = [self.lab.clone(), format!("{}-switch", self.lab)];
        names
            .iter()
            .any(|n| Path::new("/run/netns").join(n).exists())
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        let _ = self.live("down").output();
        let _ = fs::remove_dir_all(&self.folder);
    }
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap();
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

/// Whether a run has this value of a key, if that is varied.
fn has(run: &Value, key: &str, value: &str) -> bool {
    run["set"].get(key).is_none_or(|is| is == value)
}

/// The only run of `side` with this RTO policy.
fn run<'a>(all: &'a [Value], side: &str, rto: &str) -> &'a Value {
    let of_side = |run: &&Value| has(run, "run.place", side) && has(run, "host.tcp.rto", rto);
    let mut found = all.iter().filter(of_side);
    let one = found.next().unwrap();
    assert!(found.next().is_none());
    one
}

/// The only run of `side`.
fn only<'a>(all: &'a [Value], side: &str) -> &'a Value {
    let found: Vec<&Value> = all.iter().filter(|r| has(r, "run.place", side)).collect();
    assert_eq!(found.len(), 1, "{all:?}");
    found[0]
}

fn number(run: &Value, name: &str) -> u64 {
    run["metrics"][name]
        .as_u64()
        .unwrap_or_else(|| panic!("{name}: {run}"))
}

/// The coarse policy's floor, in nanoseconds.
const FLOOR: u64 = 200_000_000;

/// Sixteen servers, whose windows together are several times what the port holds: whole windows
/// are lost, and with a floor of 200 ms each such loss is a pause in which nothing is sent.
fn collapse_and_cure(place: &Place, senders: &str, fine: &str) {
    let policies = format!("linux,{fine}");
    let settings = [
        "--senders",
        senders,
        "-n",
        "16",
        "--rto",
        &policies,
        "--blocks",
        "6",
        "--rate",
        "100Mb/s",
        "--buffer",
        "16KiB",
    ];
    // A machine that is busy enough makes any run as slow as a collapse: then once more.
    let mut seen = Vec::new();
    for _ in 0..8 {
        let all = place.json(&settings);
        let [live, simulated] = ["live", "simulated"].map(|side| {
            let (coarse, cured) = (run(&all, side, "linux"), run(&all, side, fine));
            let [coarse, cured] = [coarse, cured].map(counted);
            // A pause is not shorter than the floor, on whatever machine.
            assert!(coarse.slowest > FLOOR, "{side}: {coarse:?}");
            (coarse, cured)
        });
        // The buffer is full when it drops: ten frames and no more.
        let longest = number(run(&all, "live", "linux"), "max_queue_bytes");
        assert!(longest <= 16 << 10, "{longest}");
        assert!(simulated.0.median > simulated.1.median, "{simulated:?}");
        // Most blocks are done in less than one such pause, though there were timeouts.
        if live.1.median < FLOOR && live.1.median < live.0.median {
            return;
        }
        seen.push(live);
    }
    panic!("no cure: {seen:?}");
}

/// Times of blocks, in nanoseconds.
#[derive(Debug)]
struct Blocks {
    median: u64,
    slowest: u64,
}

/// What every run of [`collapse_and_cure`] must have counted.
fn counted(run: &Value) -> Blocks {
    assert_eq!(run["outcome"], "completed", "{run}");
    assert_eq!(number(run, "transfers"), 6);
    assert_eq!(number(run, "received_bytes"), 6 * 16 * 65_536);
    assert!(number(run, "drops") > 50, "{run}");
    let (sent, again) = (number(run, "segments"), number(run, "retransmits"));
    // Each byte at least once, and what was lost once more.
    assert!(sent > 6 * 16 * 45, "{run}");
    assert!(again > 50 && again < sent, "{run}");
    assert!(number(run, "timeouts") >= 3, "{run}");
    Blocks {
        median: number(run, "latency.p50_ns"),
        slowest: number(run, "latency.p99_ns"),
    }
}

#[test]
fn our_servers_collapse_and_are_cured() {
    if let Some(place) = Place::new() {
        collapse_and_cure(&place, "ours", "fine");
    }
}

#[test]
fn the_kernels_servers_collapse_and_are_cured() {
    if let Some(place) = Place::new() {
        collapse_and_cure(&place, "kernel", "5ms");
    }
}

/// Runs with marks and without, of servers whose windows are several times what the port holds.
/// Where there are marks senders hold back, and much less is lost.
fn marks_hold_senders_back(place: &Place, settings: &[&str]) {
    let usual = ["-n", "8", "--blocks", "8", "--rate", "100Mb/s"];
    let count = |threshold: &str| {
        let more = ["--ecn-threshold", threshold];
        let all = place.json(&[&usual, settings, &more].concat());
        ["live", "simulated"].map(|side| {
            let run = only(&all, side);
            assert_eq!(run["outcome"], "completed", "{run}");
            (number(run, "marks"), number(run, "drops"))
        })
    };
    let mut seen = Vec::new();
    for _ in 0..8 {
        let (with, without) = (count("8p"), count("off"));
        for ((marks, _), (none, drops)) in with.into_iter().zip(without) {
            assert!(marks > 500, "{with:?}");
            assert!(none == 0 && drops > 50, "{without:?}");
        }
        // Busy machines send in heaps, of which more is lost.
        if with[0].1 < without[0].1 {
            return;
        }
        seen.push((with, without));
    }
    panic!("no less was lost: {seen:?}");
}

#[test]
fn our_dctcp_heeds_the_marks_of_the_kernels_port() {
    if let Some(place) = Place::new() {
        marks_hold_senders_back(&place, &["--cc", "dctcp", "--rto", "fine"]);
    }
}

#[test]
fn the_kernels_senders_heed_the_marks() {
    let Some(place) = Place::new() else { return };
    let kernels = ["--senders", "kernel", "--rto", "5ms"];
    let classic = ["--cc", "reno", "--ecn", "classic"];
    marks_hold_senders_back(&place, &[&kernels[..], &classic].concat());
    // Nobody asked for ECN: nobody is marked.
    let quick = ["-n", "8", "--blocks", "2", "--cc", "reno"];
    let all = place.json(&[&kernels[..], &quick].concat());
    assert_eq!(number(only(&all, "live"), "marks"), 0);
    // The kernel's DCTCP is a module that may be missing, which is said.
    let mut dctcp = place.incast(&["-n", "2", "--blocks", "2", "--cc", "dctcp"]);
    let output = dctcp.args(kernels).arg("-q").output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        output.status.success() || said.contains("modprobe tcp_dctcp"),
        "{said}"
    );
}

/// A buffer of so many packets is one of so many full ones' bytes.
#[test]
fn a_buffer_in_packets_holds_full_ones() {
    let Some(place) = Place::new() else { return };
    let settings = [
        "-n", "8", "--blocks", "2", "--rto", "fine", "--buffer", "12p",
    ];
    let all = place.json(&settings);
    assert!(number(only(&all, "live"), "max_queue_bytes") <= 12 * 1_514);
    let output = succeed(place.incast(&settings).arg("--no-report"));
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(said.contains("one of bytes: 18168"), "{said}");
}

/// A frame in for each that went out, or for every second.
#[test]
fn the_kernels_client_acknowledges_as_told() {
    let Some(place) = Place::new() else { return };
    let frames_of = |more: &[&str]| {
        let usual = [
            "-n",
            "1",
            "--rto",
            "fine",
            "--blocks",
            "20",
            "--no-simulation",
        ];
        let all = place.json(&[&usual, more].concat());
        let run = run(&all, "live", "fine");
        (number(run, "events"), number(run, "segments"))
    };
    let (frames, data) = frames_of(&[]);
    assert!(frames > data * 7 / 4, "{frames} frames for {data}");
    let (frames, data) = frames_of(&["--delayed-ack"]);
    assert!(frames < data * 7 / 4, "{frames} frames for {data}");
}

/// With AF_XDP at our end the kernel leaves its checksums to us, on either side of the run, and
/// what is captured of them is whole.
#[test]
fn hosts_of_ours_on_af_xdp() {
    let Some(place) = Place::new() else { return };
    for senders in ["ours", "kernel"] {
        let capture = place.file("xdp.pcapng");
        let all = place.json(&[
            "--device",
            "xdp",
            "--senders",
            senders,
            "-n",
            "3",
            "--rto",
            "linux",
            "--blocks",
            "2",
            "--rate",
            "50Mb/s",
            "--no-simulation",
            "--pcap",
            &capture,
            "--snaplen",
            "96",
        ]);
        let run = run(&all, "live", "linux");
        assert_eq!(run["outcome"], "completed", "{run}");
        assert_eq!(number(run, "received_bytes"), 2 * 3 * (64 << 10), "{run}");
        let bad = "tcp.checksum.status == 0 && tcp.len == 0";
        let mut tshark = Command::new("tshark");
        let given = ["-o", "tcp.check_checksum:TRUE", "-r", &capture];
        let Ok(output) = tshark.args(given).args(["-Y", bad]).output() else {
            continue;
        };
        assert!(
            output.status.success() && output.stdout.is_empty(),
            "{output:?}"
        );
        let mut tshark = Command::new("tshark");
        let fields = ["-T", "fields", "-e", "frame.cap_len", "-e", "frame.len"];
        let output = succeed(tshark.args(["-r", &capture]).args(fields));
        let text = String::from_utf8(output.stdout).unwrap();
        let sizes = text.lines().map(|line| {
            let (kept, long) = line.split_once('\t').unwrap();
            (kept.parse::<u32>().unwrap(), long.parse::<u32>().unwrap())
        });
        let (all, cut) = sizes.fold((0, 0), |(all, cut), (kept, long)| {
            assert_eq!(kept, long.min(96));
            (all + 1, cut + u32::from(kept < long))
        });
        assert!(cut > 100 && cut < all, "{cut} of {all}");
    }
}

#[test]
fn results_are_laid_out_as_simulated_ones() {
    let Some(place) = Place::new() else { return };
    let (report, svg, capture, trace) = (
        place.file("r.html"),
        place.file("r.svg"),
        place.file("r.pcapng"),
        place.file("r.jsonl"),
    );
    let settings = [
        "-n", "2", "--rto", "fine", "--blocks", "2", "--rate", "50Mb/s",
    ];
    let mut live = place.incast(&settings);
    live.args([
        "--csv", "-", "--report", &report, "--svg", &svg, "--pcap", &capture, "--trace", &trace,
    ]);
    let csv = String::from_utf8(succeed(&mut live).stdout).unwrap();
    let lines: Vec<Vec<&str>> = csv.lines().map(|l| l.split(',').collect()).collect();
    let at = lines[0].iter().position(|column| *column == "run.place");
    let places: Vec<&str> = lines[1..].iter().map(|row| row[at.unwrap()]).collect();
    assert_eq!(places, ["live", "simulated"], "{csv}");

    let all = place.json(&settings);
    let names = |run: &Value| -> Vec<String> {
        let metrics = run["metrics"].as_object().unwrap();
        metrics.keys().cloned().collect()
    };
    let (live, simulated) = (names(only(&all, "live")), names(only(&all, "simulated")));
    let unknown: Vec<&String> = simulated.iter().filter(|n| !live.contains(n)).collect();
    assert_eq!(unknown, ["utilisation"], "{live:?}");

    let page = fs::read_to_string(report).unwrap();
    for part in [
        "<svg",
        ">live</td>",
        ">simulated</td>",
        "link rate",
        "50Mb/s",
    ] {
        assert!(page.contains(part), "no {part}");
    }
    for outside in ["http://", "https://", "src="] {
        let page = page.replace("http://www.w3.org/2000/svg", "");
        assert!(!page.contains(outside), "{outside}");
    }
    assert!(fs::read_to_string(svg).unwrap().starts_with("<svg"));
    check_capture(&capture);
    // Both hosts are in the capture.
    let capture = fs::read(capture).unwrap();
    for host in ["10.77.0.1", "10.77.0.2"] {
        assert!(
            capture.windows(host.len()).any(|w| w == host.as_bytes()),
            "{host}"
        );
    }
    // And in the trace, each with a connection.
    let trace = fs::read_to_string(trace).unwrap();
    let lines = trace
        .lines()
        .map(|line| serde_json::from_str(line).unwrap());
    let lines: Vec<Value> = lines.collect();
    for host in [1, 2] {
        let told = |event| move |line: &&Value| line["host"] == host && line["event"] == event;
        for event in ["open", "state"] {
            assert!(lines.iter().any(|l| told(event)(&l)), "{host}: {event}");
        }
    }
}

/// Every frame is well formed, and every checksum right.
fn check_capture(path: &str) {
    let frames = |filter: &str| {
        let mut shark = Command::new("tshark");
        shark.args(["-n", "-r", path, "-Y", filter]);
        for check in ["ip.check_checksum:TRUE", "tcp.check_checksum:TRUE"] {
            shark.args(["-o", check]);
        }
        let output = shark.output();
        let missing = output
            .as_ref()
            .is_err_and(|e| e.kind() == std::io::ErrorKind::NotFound);
        if missing && std::env::var("CI").is_ok_and(|v| v == "true") {
            panic!("tshark is not installed");
        } else if missing {
            eprintln!("SKIPPED: tshark is not installed");
            return None;
        }
        let output = output.unwrap();
        assert!(output.status.success(), "{filter}");
        Some(String::from_utf8_lossy(&output.stdout).lines().count())
    };
    let bad = "_ws.malformed || ip.checksum.status == 0 || tcp.checksum.status == 0";
    if let Some(bad) = frames(bad) {
        assert_eq!(bad, 0);
        assert!(frames("tcp.checksum.status == 1 && tcp.len > 0") >= Some(180));
    }
}

/// Wrong before anything is made.
#[test]
fn what_cannot_be_is_refused() {
    for (arguments, says) in [
        (&["--cc", "nobody"][..], "known are"),
        (
            &["--senders", "kernel", "--rto", "fine"],
            "whole milliseconds",
        ),
        (
            &["--senders", "kernel", "--rto", "1500us"],
            "whole milliseconds",
        ),
        (&["--senders", "kernel", "--loss", "sack"], "rack"),
        (&["-n", "201"], "up to 200"),
        (&["--buffer", "1500B"], "1518B"),
        (&["--buffer", "64"], "64p"),
        (&["--ecn-threshold", "8"], "8p"),
        (&["-n", "1,2", "--pcap", "/dev/null"], "one run"),
        (
            &["-n", "1", "--pcap", "/dev/null", "--pcap-side", "host"],
            "leave --pcap-side out",
        ),
        (
            &["-n", "1", "--pcap", "/dev/null", "--pcap-at", "h9"],
            "leave --pcap-at out",
        ),
        (&["--json", "--csv"], "standard output"),
        (&["--block", "10", "-n", "32"], "block"),
    ] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
        let output = command
            .args(["live", "incast"])
            .args(arguments)
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {said}");
        assert!(said.contains(says), "{arguments:?}: {said}");
    }
}

/// Only what hangs reaches it, however slow the machine.
const PATIENCE: Duration = Duration::from_secs(600);

/// Wait for what must come.
#[allow(clippy::disallowed_methods)] // It waits for other processes.
fn eventually(what: &str, mut is: impl FnMut() -> bool) {
    let begin = Instant::now();
    while !is() {
        assert!(begin.elapsed() < PATIENCE, "never: {what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// A run that would last for minutes, with its lab up.
fn endless(place: &Place) -> std::process::Child {
    let mut command = place.incast(&["-n", "4", "--rto", "linux", "--blocks", "100000", "-q"]);
    let child = command.arg("--no-simulation");
    let child = child.stdout(Stdio::null()).stderr(Stdio::null()).spawn();
    let child = child.unwrap();
    eventually("its hosts are there", || {
        let status = place.live("status").output().unwrap();
        String::from_utf8_lossy(&status.stdout).contains("host 4:")
    });
    child
}

fn signal(child: &std::process::Child, signal: &str) {
    let pid = child.id().to_string();
    let sent = Command::new("kill").args([signal, &pid]).status();
    assert!(sent.unwrap().success());
}

#[test]
fn ctrl_c_removes_the_lab() {
    let Some(place) = Place::new() else { return };
    let mut child = endless(&place);
    // It belongs to the run.
    let second = place
        .incast(&["-n", "1", "--rto", "fine"])
        .output()
        .unwrap();
    assert_eq!(second.status.code(), Some(1));
    let said = String::from_utf8_lossy(&second.stderr).into_owned();
    assert!(said.contains("--lab"), "{said}");
    signal(&child, "-INT");
    assert_eq!(child.wait().unwrap().code(), Some(130));
    assert!(!place.is_there());
}

#[test]
fn a_killed_run_leaves_nothing_that_the_next_does_not_reclaim() {
    let Some(place) = Place::new() else { return };
    let is_down = || {
        let status = place.live("status").output().unwrap();
        String::from_utf8_lossy(&status.stdout).contains("is down")
    };
    let kill = || {
        let mut child = endless(&place);
        signal(&child, "-KILL");
        child.wait().unwrap();
        assert!(place.is_there());
        // What has no maker counts as down.
        eventually("the maker is known to be gone", is_down);
    };
    // The next run takes its place.
    kill();
    let again = place.incast(&["-n", "2", "--rto", "fine", "--blocks", "1", "-q"]);
    succeed({ again }.arg("--no-simulation"));
    assert!(!place.is_there());
    // So does `up`, which makes a lab to stay; that one is not to be had.
    kill();
    let up = succeed(&mut place.live("up"));
    assert!(String::from_utf8_lossy(&up.stdout).contains("in place of what was left"));
    let refused = place
        .incast(&["-n", "1", "--rto", "fine"])
        .output()
        .unwrap();
    assert_eq!(refused.status.code(), Some(1));
    assert!(place.is_there());
    succeed(&mut place.live("down"));
    // And `down` removes it.
    kill();
    let down = succeed(&mut place.live("down"));
    assert!(String::from_utf8_lossy(&down.stdout).contains("is removed"));
    assert!(!place.is_there());
}

/// Without a name each run has its own lab, and whoever comes next removes what the dead left.
#[test]
fn labs_of_the_dead_are_swept() {
    let Some(place) = Place::new() else { return };
    let mut command = Command::new(env!("CARGO_BIN_EXE_narrows"));
    command.args([
        "live", "incast", "-n", "2", "--rto", "linux", "--blocks", "100000", "-q",
    ]);
    let command = command
        .arg("--no-simulation")
        .stdout(Stdio::null())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let name = format!("narrows-run-{}", child.id());
    let path = Path::new("/run/netns").join(&name);
    eventually("the lab is there", || path.exists());
    // While its maker lives it is left alone.
    succeed(&mut place.live("down"));
    assert!(path.exists());
    signal(&child, "-KILL");
    child.wait().unwrap();
    eventually("it is swept", || {
        succeed(&mut place.live("down"));
        !path.exists()
    });
    assert!(
        !Path::new("/run/netns")
            .join(format!("{name}-switch"))
            .exists()
    );
}
