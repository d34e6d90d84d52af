//! What the grammar takes and what it says of the rest.

use super::*;
use crate::ast::{Body, Direction, Expr, Options, TcpOption};
use narrows::Duration;
use narrows::wire::Flags;
use proptest::prelude::*;

fn script(source: &str) -> Script {
    parse(source, &Defines::new()).unwrap_or_else(|e| panic!("{}", e.render("t", source, &[])))
}

fn error(source: &str) -> String {
    parse(source, &Defines::new()).unwrap_err().message
}

#[test]
fn a_whole_script() {
    let s = script(
        "--tolerance_usecs=500 --ip_version=ipv6\n`sysctl x=1`\n\
         // comment\n 0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3 /* c */\n\
         +.1~+.2 >[ect0] PE. 1:11(10) ack 5 win 9 urg 2 <nop,nop,TS val 1 ecr 2,sack 1:2 3:4>\n\
         * > R 1:1(0)\n 1.5~2 > F. 0:0(0) ack 1 <...>\n\
         +0...0.25 read(4, \"ab\" \"c\"..., 100) = -1 EAGAIN (Resource unavailable)\n\
         +0 %{ assert 1 }%\n+0 poll([{fd=3, events=POLLIN|POLLERR}], 1, 0) = 0x1 (flags x)",
    );
    assert_eq!(s.options.len(), 2);
    assert_eq!(s.options[0].value.as_deref(), Some("500"));
    assert_eq!(s.events.len(), 8);
    let Action::Packet(p) = &s.events[2].action else {
        panic!("{:?}", s.events[2]);
    };
    let Body::Tcp(t) = &p.body else {
        panic!("{p:?}")
    };
    assert_eq!(t.flags, Flags::PSH | Flags::ECE | Flags::ACK);
    assert_eq!(
        (t.seq, t.len, t.ack, t.window, t.urgent),
        (1, 10, Some(5), Some(9), Some(2))
    );
    let Options::List(options) = &t.options else {
        panic!()
    };
    assert_eq!(options[3], TcpOption::Sack(vec![(1, 2), (3, 4)]));
    assert_eq!(s.events[3].at, When::Any);
    let Action::Call(c) = &s.events[5].action else {
        panic!()
    };
    assert_eq!(c.until, Some(Duration::from_millis(250)));
    assert_eq!(c.errno.as_deref(), Some("EAGAIN"));
    assert_eq!(c.args[1], Expr::Text(b"abc".to_vec()));
    let Action::Call(c) = &s.events[7].action else {
        panic!()
    };
    assert_eq!((&c.result, &c.errno), (&Expr::Int(1), &None));
}

#[test]
fn ports_icmp_and_accurate_ecn() {
    let s = script(
        "0 < [ce, ttl 7] 8080 > 90 S.5 0:0(0) ack 1\n0 < icmp unreachable frag_needed mtu 1400 [1:11(10)]",
    );
    let Action::Packet(p) = &s.events[0].action else {
        panic!()
    };
    assert_eq!(
        (p.ports, p.ip.ttl, p.direction),
        (Some((8080, 90)), Some(7), Direction::In)
    );
    let Body::Tcp(t) = &p.body else { panic!() };
    assert_eq!(t.flags, Flags::SYN | Flags::ACK | Flags::ECE | Flags::AE);
    let Action::Packet(p) = &s.events[1].action else {
        panic!()
    };
    let Body::Icmp(i) = &p.body else { panic!() };
    assert_eq!(
        (i.code.as_deref(), i.quoted),
        (Some("frag_needed"), Some((1, 10)))
    );
}

#[test]
fn conditions_keep_line_numbers() {
    let source = "#ifdef LINUX\n0 bad line here(\n#else\n0 `true`\n#endif\n#ifndef LINUX\n0 < X 0:0(0)\n#endif";
    let e = parse(source, &Defines::new()).unwrap_err();
    assert_eq!(crate::diagnostic::position(source, e.span.start).line, 7);
    let linux = Defines::from([("LINUX".to_owned(), "1".to_owned())]);
    assert!(parse("#ifdef !LINUX\noops\n#endif\n0 `true`", &linux).is_ok());
    assert!(error("#ifdef A\n").contains("#endif"));
    assert!(error("#else\n").contains("#ifdef"));
    assert!(error("#if A && B\n#endif").contains("one name"));
}

#[test]
fn definitions_stand_for_values() {
    let s = script("--define=CC=\"reno\"\n--define=N=0x10\n0 f(CC, N, OTHER) = N");
    let Action::Call(c) = &s.events[0].action else {
        panic!()
    };
    assert_eq!(
        c.args,
        [
            Expr::Text(b"reno".to_vec()),
            Expr::Int(16),
            Expr::Word("OTHER".to_owned())
        ]
    );
    assert_eq!(c.result, Expr::Int(16));
}

#[test]
fn errors_say_what_is_wanted() {
    for (source, message) in [
        ("0 < X 0:0(0)", "no flag `X`"),
        ("0 < S 0:5(4)", "0 and 4 bytes end at 4, not at 5"),
        ("0 < S 0:0(0) <bogus 1>", "no option `bogus`"),
        ("0 < S 0:0(0) <...>", "for packets that leave"),
        ("0 < [ect01] S 0:0(0)", "for packets that leave"),
        ("0 < S 0:0(0) win 70000", "0 to 65535"),
        ("* < S 0:0(0)", "packets that leave"),
        ("+.2~+.1 > S 0:0(0)", "backwards"),
        ("0 < udp (10)", "`udp`"),
        ("0 < S 0:0(0) <mptcp x>", "no option"),
        ("0 socket(1, 2", "expected `)`, found the end"),
        ("0 %{ assert", "without `}%`"),
        ("x", "a time stamp"),
        ("0 < S 0:0(0) <md5 abc>", "even number"),
        (
            "0 < . 1:1(0) ack 1 <TS val 1 ecr 1,sack 1:2 3:4 5:6 7:8>",
            "room for 40",
        ),
        ("9999999999 `x`", "at most"),
        ("0 f([[[[[[[[[[[[[[[[[[[[[[[[[[[[1]) = 0", "deeply"),
    ] {
        let got = error(source);
        assert!(got.contains(message), "{source}: {got}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn nothing_panics(source in "([-+*0-9.<>~ \n(){}\\[\\]%=\"`,:|SFRPE]|ack |win |TS val |sack |\u{e9}|#ifdef |read|//){0,60}") {
        let _ = parse(&source, &Defines::new());
    }

    #[test]
    fn no_mutation_of_a_real_script_panics(at in 0usize..400, byte in any::<u8>()) {
        let mut source = b"--mtu=1500\n0 socket(..., SOCK_STREAM, IPPROTO_TCP) = 3\n+0 bind(3, ..., ...) = 0\n+0 listen(3, 1) = 0\n+0 < S 0:0(0) win 32792 <mss 1000,sackOK,nop,wscale 7>\n+0 > S. 0:0(0) ack 1 <...>\n+.1 < . 1:1(0) ack 1 win 257\n+0 accept(3, ..., ...) = 4\n+0 write(4, ..., 1000) = 1000\n+0 > P. 1:1001(1000) ack 1\n+0 %{ assert tcpi_snd_cwnd == 10 }%\n+0 < icmp unreachable [1:1001(1000)]\n".to_vec();
        let at = at % source.len();
        source[at] = byte;
        let source = String::from_utf8_lossy(&source).into_owned();
        let _ = crate::run("m", &source, &crate::Options::default());
    }
}
