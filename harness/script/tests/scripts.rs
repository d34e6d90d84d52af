//! Our own scripts (harness/script/scripts), and that they can fail.

use narrows_script::ast::{Action, Direction, Event};
use narrows_script::{Defines, Options, Profile, Report, parse, run, suite};
use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

/// Every folder of harness/script/scripts.
const TOPICS: &[&str] = &[
    "calls",
    "cork",
    "dctcp",
    "delayed-ack",
    "ecn",
    "f-rto",
    "fast-open",
    "fast-retransmit",
    "half-close",
    "handshake",
    "icmp",
    "idle-restart",
    "keepalive",
    "limited-transmit",
    "mtu-probing",
    "nagle",
    "notsent-lowat",
    "options",
    "out-of-window",
    "paws",
    "prr",
    "rack-tlp",
    "reset",
    "rto",
    "sack",
    "simultaneous",
    "time-wait",
    "user-timeout",
    "zero-window",
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("scripts")
}

fn files(path: PathBuf) -> Vec<PathBuf> {
    suite::find(&[path]).unwrap()
}

fn reports(path: PathBuf, threads: usize) -> Vec<Report> {
    let never = AtomicBool::new(false);
    suite::run_all(&files(path), &Options::default(), threads, &never).unwrap()
}

/// Runs one topic, naming each script.
fn topic(name: &str) {
    let mut failed = String::new();
    for report in reports(folder().join(name), 1) {
        let verdict = if report.passed() { "passed" } else { "FAILED" };
        println!("{}: {verdict}, {} steps", report.file, report.steps);
        failed.push_str(&report.text());
    }
    assert!(failed.is_empty(), "\n{failed}");
}

macro_rules! topics {
    ($($test:ident: $name:literal,)*) => {
        $(#[test]
        fn $test() {
            topic($name);
        })*
        const TESTED: &[&str] = &[$($name),*];
    };
}

topics! {
    calls: "calls",
    cork: "cork",
    dctcp: "dctcp",
    delayed_ack: "delayed-ack",
    ecn: "ecn",
    f_rto: "f-rto",
    fast_open: "fast-open",
    fast_retransmit: "fast-retransmit",
    half_close: "half-close",
    handshake: "handshake",
    icmp: "icmp",
    idle_restart: "idle-restart",
    keepalive: "keepalive",
    limited_transmit: "limited-transmit",
    mtu_probing: "mtu-probing",
    nagle: "nagle",
    notsent_lowat: "notsent-lowat",
    options: "options",
    out_of_window: "out-of-window",
    paws: "paws",
    prr: "prr",
    rack_tlp: "rack-tlp",
    reset: "reset",
    rto: "rto",
    sack: "sack",
    simultaneous: "simultaneous",
    time_wait: "time-wait",
    user_timeout: "user-timeout",
    zero_window: "zero-window",
}

#[test]
fn every_folder_is_a_topic_that_is_tested() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|e| e.unwrap().file_name().into_string().unwrap())
        .collect();
    found.sort();
    assert_eq!(found, TOPICS);
    assert_eq!(TOPICS, TESTED);
    assert!(files(folder()).len() >= 150);
}

#[test]
fn each_script_says_where_its_rule_stands() {
    for path in files(folder()) {
        let source = std::fs::read_to_string(&path).unwrap();
        let lines = source.lines().take_while(|l| l.starts_with("//"));
        let comment: String = lines.collect();
        assert!(comment.len() > 25, "{}: {comment}", path.display());
    }
}

fn events(source: &str) -> Vec<Event> {
    parse(source, &Defines::new()).unwrap().events
}

/// Without any one of the packets it expects a script must fail: what left is then in surplus, or
/// comes where another is expected.
#[test]
fn every_expected_packet_counts() {
    let mut tried = 0;
    for path in files(folder()) {
        let source = std::fs::read_to_string(&path).unwrap();
        let events = events(&source);
        for event in &events {
            let Action::Packet(packet) = &event.action else {
                continue;
            };
            if packet.direction != Direction::Out {
                continue;
            }
            let with = |text: &str| {
                let mut changed = source.clone();
                changed.replace_range(packet.span.start..packet.span.end, text);
                run("changed", &changed, &Options::default())
            };
            let passed = with("%{ }%").passed();
            let line = source[..event.span.start].lines().count();
            assert!(!passed, "{}: line {line} does not count", path.display());
            tried += 1;
        }
    }
    assert!(tried > 500, "{tried}");
}

/// An assertion turned around must fail.
#[test]
fn every_assertion_counts() {
    let mut tried = 0;
    for path in files(folder()) {
        let source = std::fs::read_to_string(&path).unwrap();
        for (at, word) in source.match_indices("assert ") {
            let end = source[at..]
                .find(['\n', '}'])
                .map_or(source.len(), |n| at + n);
            // `not` binds to the first operand only.
            if source[at..end].contains(" or ") {
                continue;
            }
            let mut turned = source.clone();
            turned.insert_str(at + word.len(), "not ");
            let report = run("turned", &turned, &Options::default());
            assert!(!report.passed(), "{}: {}", path.display(), &source[at..end]);
            tried += 1;
        }
    }
    assert!(tried > 50, "{tried}");
}

/// Whatever order its lines have, a script comes to an end.
#[test]
fn scripts_in_disorder_neither_panic_nor_hang() {
    for path in files(folder()) {
        let source = std::fs::read_to_string(&path).unwrap();
        let lines: Vec<&str> = source.lines().collect();
        for i in 0..lines.len().saturating_sub(1) {
            let mut swapped = lines.clone();
            swapped.swap(i, i + 1);
            run("swapped", &swapped.join("\n"), &Options::default());
            let mut twice = lines.clone();
            twice.insert(i, lines[i]);
            run("twice", &twice.join("\n"), &Options::default());
        }
    }
}

const OPEN: &str = include_str!("opening.pkt");

fn error(rest: &str) -> String {
    let report = run("bad.pkt", &format!("{OPEN}{rest}\n"), &Options::default());
    assert!(!report.passed(), "{rest}");
    report.text()
}

#[test]
fn the_opening_alone_passes() {
    let report = run("ok.pkt", OPEN, &Options::default());
    assert!(report.passed(), "{}", report.text());
}

/// Scripts that are wrong on purpose, and what is said of them.
#[test]
fn wrong_scripts_fail_with_a_message_that_says_why() {
    for (rest, parts) in [
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 2",
            &[
                "error: another packet left: ack\n",
                "--> bad.pkt:9:4\n",
                "9 | +0 > P. 1:11(10) ack 2\n",
                "expected: > P. 1:11(10) ack 2\n",
                "got: > P. 1:11(10) ack 1 win 65535 at 0.100000\n",
                "so far:",
                "0.000000 < S 0:0(0) win 65535 <mss 1000>\n",
                "0.100000 write() = 10\n",
            ][..],
        ),
        (
            "+0 write(4, ..., 10) = 10",
            &[
                "the script ends, and packets have left",
                "got: > P. 1:11(10) ack 1",
            ],
        ),
        (
            "+0 > . 1:1(0) ack 1",
            &[
                "no packet left",
                "got: nothing until 0.101000",
                "has no timer running",
            ],
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+2 > P. 1:11(10) ack 1",
            &[
                "the packet left too early",
                "expected: at 2.100000",
                "got: at 1.100000",
            ],
        ),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+.5 > P. 1:11(10) ack 1",
            &[
                "no packet left",
                "the connection's next timer is at 1.100000",
            ],
        ),
        (
            "+0 read(4, ..., 10) = 5",
            &[
                "read() blocks, the script expects it to return at once",
                "O_NONBLOCK",
            ],
        ),
        (
            "+0 write(4, ..., 10) = 9\n+0 > P. 1:11(10) ack 1",
            &[
                "write() returned something else",
                "expected: 9\n",
                "got: 10\n",
            ],
        ),
        (
            "+0...1 read(4, ..., 10) = 10\n+.5 < P. 1:11(10) ack 1 win 65535",
            &[
                "read() returned at the wrong time",
                "at 1.100000",
                "at 0.600000",
            ],
        ),
        (
            "+0 %{ assert tcpi_snd_cwnd == 3, 'window' }%",
            &[
                "an assertion does not hold: window",
                "expected: assert tcpi_snd_cwnd == 3, 'window'",
                "got: tcpi_snd_cwnd = 10",
            ],
        ),
        (
            "+0 %{ assert tcpi_busy_time == 3 }%",
            &["nothing is known of `tcpi_busy_time`"],
        ),
        (
            "+0 `sysctl net.ipv4.tcp_thin_dupack=1`",
            &["setting `net.ipv4.tcp_thin_dupack` is not known"],
        ),
        (
            "+0 epoll_create(1) = 5",
            &["no system call `epoll_create`", "setsockopt"],
        ),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_DEFER_ACCEPT, [1], 4) = 0",
            &["no option `TCP_DEFER_ACCEPT`"],
        ),
        (
            "0.05 < . 1:1(0) ack 1 win 5",
            &["time does not run backwards"],
        ),
        ("+0 close(9) = 0", &["no socket has the descriptor 9"]),
    ] {
        let text = error(rest);
        for part in parts {
            assert!(
                text.contains(part),
                "{rest}\nshould say {part:?}, says\n{text}"
            );
        }
    }
}

#[test]
fn a_folder_gives_the_same_reports_on_any_number_of_threads() {
    assert_eq!(
        reports(folder().join("rto"), 1),
        reports(folder().join("rto"), 4)
    );
}

fn connects(rest: &str) -> Report {
    let opening = "0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0 fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0 connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
";
    let source = format!("{opening}{rest}\n");
    run("connects.pkt", &source, &Options::default())
}

/// SYNs carry their numbers, whatever they are; everything else counts from them.
#[test]
fn packets_count_from_the_initial_sequence_numbers() {
    let report = connects(
        "+0 > S 700:700(0) <...>
+.1 < S. 123:123(0) ack 701 win 65535 <mss 1000,nop,nop,sackOK>
+0 > . 1:1(0) ack 1
+0 < P. 501:1001(500) ack 1 win 65535
+0 > . 1:1(0) ack 1 <nop,nop,sack 501:1001>
+0 < P. 1:501(500) ack 1 win 65535
+0 > . 1:1(0) ack 1001
+0 read(3, ..., 1000) = 1000
+0 write(3, ..., 2000) = 2000
+0 > P. 1:2001(2000) ack 1001
+.1 < . 1001:1001(0) ack 1 win 65535 <nop,nop,sack 1001:2001>
+.1 < R. 1001:1001(0) ack 2001 win 0
+0 write(3, ..., 10) = -1 ECONNRESET (Connection reset by peer)",
    );
    assert!(report.passed(), "{}", report.text());
}

/// A SYN that comes again is the same one, and so is its number.
#[test]
fn a_repeated_syn_is_compared() {
    let report = connects("+0 > S 0:0(0) <...>\n+1 > S 0:0(0) <...>");
    assert!(report.passed(), "{}", report.text());
    let report = connects("+0 > S 0:0(0) <...>\n+1 > S 7:7(0) <...>");
    let text = report.text();
    assert!(
        text.contains("another packet left: sequence number"),
        "{text}"
    );
    // Of a new connection between the same ports the script says anew what its SYN is called.
    for isn in [0, 9] {
        let again = format!(
            "+.1 < R 1:1(0) win 0\n+0 < S {isn}:{isn}(0) win 65535\n\
             +0 > S. 0:0(0) ack {} <mss 1460>\n+.1 < . 1:1(0)",
            isn + 1
        );
        let listens = OPEN.replace("+.1  < . 1:1(0)", &again);
        let report = run("again.pkt", &listens, &Options::default());
        assert!(report.passed(), "{}", report.text());
    }
}

#[test]
fn exact_looks_at_order_and_padding() {
    let loose = OPEN.replace("<mss 1000>", "<mss 1000,nop,wscale 2>");
    let source = loose.replace("<mss 1460>", "<wscale 3,mss 1460>");
    let mut options = Options::default();
    assert!(run("sets", &source, &options).passed());
    options.exact = true;
    let text = run("order", &source, &options).text();
    assert!(text.contains("another packet left: options"), "{text}");
    let source = loose.replace("<mss 1460>", "<mss 1460,nop,wscale 3>");
    assert!(run("as it is", &source, &options).passed());
}

#[test]
fn profiles_differ_where_stacks_do() {
    let source = "\
0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0   fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0   connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
#ifdef LINUX
+0   > S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 8>
#else
#ifdef FREEBSD
+0   > S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 6>
#else
+0   > S 0:0(0) win 65535 <mss 1460,sackOK,TS val 1 ecr 0,nop,wscale 3>
#endif
#endif
+.1  < S. 0:0(0) ack 1 win 65535 <mss 1000>
+0   > . 1:1(0) ack 1
+0   write(3, ..., 1000) = 1000
+0   > P. 1:1001(1000) ack 1
#ifdef LINUX
+.3  > P. 1:1001(1000) ack 1
#endif
#ifdef FREEBSD
+.5  > P. 1:1001(1000) ack 1
#endif
#ifdef RFC
+1   > P. 1:1001(1000) ack 1
#endif
";
    for profile in Profile::ALL {
        let options = Options {
            profile,
            ..Options::default()
        };
        let report = run("profiles", source, &options);
        assert!(report.passed(), "{profile}: {}", report.text());
    }
}

#[test]
fn scripts_of_other_stacks_need_not_look_at_what_their_last_close_sends() {
    let source = format!("{OPEN}+0 close(4) = 0\n+0 close(3) = 0\n`sysctl narrows.sack=1`\n");
    for profile in Profile::ALL {
        let options = Options {
            profile,
            ..Options::default()
        };
        let report = run("tidy", &source, &options);
        assert_eq!(
            report.passed(),
            profile != Profile::Rfc,
            "{}",
            report.text()
        );
        let waiting = source.replace("+0 close(4)", "+0 write(4, ..., 5) = 5\n+0 close(4)");
        let text = run("untidy", &waiting, &options).text();
        assert!(text.contains("does not speak of"), "{profile}: {text}");
    }
}
