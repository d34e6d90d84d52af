//! Our scripts (harness/script/scripts), played against the shared object through its C interface.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]

mod common;

use narrows_packetdrill::loader::{Given, Library};
use narrows_script::ast::{Action, Direction};
use narrows_script::{Defines, Options, Profile, Report, parse, run_on, suite};
use std::path::PathBuf;

/// Scripts that cannot pass through the interface, and why.
const CANNOT: &[(&str, &str)] = &[
    ("fast-open/client-errors.pkt", LATER),
    ("rto/from-the-estimate.pkt", RTT),
    ("rto/karn.pkt", RTT),
    ("rto/second-sample.pkt", RTT),
];
/// It sets the host up anew in its course.
const LATER: &str = "the C interface takes set-up before the first step only";
/// It asserts an RTT to the microsecond, and here each look at the clock takes one.
const RTT: &str = "got: tcpi_rtt =";

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../harness/script/scripts")
}

/// Time goes on by itself only when the script's thread is slow; here it never is to.
const EXTRA: &str = "idle_ms=0; quiet=1";

fn play(library: Library, name: &str, source: &str, options: &Options) -> Report {
    let given = Given::Wanted(EXTRA.to_owned());
    let mut make = |wanted: &_| library.stack(wanted, &given);
    run_on(name, source, options, &mut make)
}

/// The same for a script that is to fail, and may block where it should not.
fn play_wrong(library: Library, name: &str, source: &str) -> Report {
    let given = Given::Wanted(format!("{EXTRA}; give_up_ms=100"));
    let mut make = |wanted: &_| library.stack(wanted, &given);
    run_on(name, source, &Options::default(), &mut make)
}

#[test]
fn scripts_pass_through_the_interface() {
    let library = Library::load(&common::object()).unwrap();
    let files = suite::find(&[folder()]).unwrap();
    assert!(files.len() >= 250);
    let mut wrong = String::new();
    let mut passed = 0;
    for path in &files {
        let name = path.strip_prefix(folder()).unwrap().display().to_string();
        let source = std::fs::read_to_string(path).unwrap();
        let report = play(library, &name, &source, &Options::default());
        let cannot = CANNOT.iter().find(|(file, _)| *file == name);
        match (report.passed(), cannot) {
            (true, None) => passed += 1,
            (false, Some((_, why))) if report.text().contains(why) => {}
            (true, Some(_)) => wrong.push_str(&format!("{name} passes now\n")),
            (false, _) => wrong.push_str(&report.text()),
        }
    }
    assert!(wrong.is_empty(), "\n{wrong}");
    assert_eq!(passed, files.len() - CANNOT.len());
}

/// Without any one of the packets that it expects a script must fail here too.
#[test]
fn expected_packets_count_through_the_interface() {
    let library = Library::load(&common::object()).unwrap();
    let mut tried = 0;
    for topic in ["fast-retransmit", "half-close", "sack"] {
        for path in suite::find(&[folder().join(topic)]).unwrap() {
            let source = std::fs::read_to_string(&path).unwrap();
            for event in parse(&source, &Defines::new()).unwrap().events {
                let Action::Packet(packet) = &event.action else {
                    continue;
                };
                if packet.direction != Direction::Out {
                    continue;
                }
                let mut changed = source.clone();
                changed.replace_range(packet.span.start..packet.span.end, "%{ }%");
                let report = play_wrong(library, "changed", &changed);
                let line = source[..event.span.start].lines().count();
                assert!(!report.passed(), "{}: line {line}", path.display());
                tried += 1;
            }
        }
    }
    assert!(tried > 100, "{tried}");
}

const OPEN: &str = include_str!("../../harness/script/tests/opening.pkt");

/// Scripts that are wrong on purpose, and what is said of them.
#[test]
fn wrong_scripts_fail_with_a_message_that_says_why() {
    let library = Library::load(&common::object()).unwrap();
    for (rest, part) in [
        ("+0 > . 1:1(0) ack 1", "no packet left"),
        ("+0 write(4, ..., 10) = 10", "the script ends, and packets"),
        (
            "+0 write(4, ..., 10) = 10\n+0 > P. 1:11(10) ack 1\n+.5 > P. 1:11(10) ack 1",
            "the packet left too late",
        ),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_DEFER_ACCEPT, [1], 4) = 0",
            "got: -1 ENOPROTOOPT",
        ),
        (
            "+0 setsockopt(4, SOL_TCP, TCP_NONSENSE, [1], 4) = 0",
            "no number of `TCP_NONSENSE` is known",
        ),
        (
            "+0...0.1 accept(3, ..., ...) = 5",
            "accept() still blocks at",
        ),
        (
            "+0 accept4(3, ..., ..., SOCK_NONBLOCK) = 5",
            "the interface has no accept4()",
        ),
        (
            "+0 setsockopt(3, SOL_TCP, TCP_MAXSEG, [700], 4) = 0\n+0 `sysctl narrows.sack=0`",
            "set-up before the first step only",
        ),
        (
            "+0...0.2 read(4, ..., 10) = 10\n+.5 < P. 1:11(10) ack 1 win 65535",
            "read() returned at the wrong time",
        ),
        (
            "+0...0.2 read(4, ..., 10) = 10\n+0 write(4, ..., 1) = 1",
            "read() still blocks at",
        ),
    ] {
        let source = format!("{OPEN}{rest}\n");
        let report = play_wrong(library, "bad.pkt", &source);
        assert!(!report.passed(), "{rest}");
        let text = report.text();
        assert!(
            text.contains(part),
            "{rest}\nshould say {part}, says\n{text}"
        );
    }
}

/// Flags that the object does not understand make every call fail, and do not hang.
#[test]
fn unknown_flags_fail_the_script() {
    let library = Library::load(&common::object()).unwrap();
    let given = Given::Wanted("colour=blue".to_owned());
    let mut make = |wanted: &_| library.stack(wanted, &given);
    let report = run_on("flags.pkt", OPEN, &Options::default(), &mut make);
    assert!(
        report.text().contains("gettimeofday() fails with EINVAL"),
        "{}",
        report.text()
    );
}

#[test]
fn profiles_and_addresses_go_through_the_flags() {
    let library = Library::load(&common::object()).unwrap();
    let source = "\
--ip_version=ipv6
--mtu=1400
0    socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
+0   fcntl(3, F_SETFL, O_RDWR|O_NONBLOCK) = 0
+0   connect(3, ..., ...) = -1 EINPROGRESS (Operation now in progress)
#ifdef LINUX
+0   > S 0:0(0) win 65535 <mss 1340,sackOK,TS val 1 ecr 0,nop,wscale 8>
#else
#ifdef FREEBSD
+0   > S 0:0(0) <mss 1340,sackOK,TS val 1 ecr 0,nop,wscale 6>
#else
+0   > S 0:0(0) win 65535 <mss 1340,sackOK,TS val 1 ecr 0,nop,wscale 3>
#endif
#endif
";
    for profile in Profile::ALL {
        let options = Options {
            profile,
            ..Options::default()
        };
        let report = play(library, "profiles", source, &options);
        assert!(report.passed(), "{profile}: {}", report.text());
    }
}
