//! Is the packet that left the one the script says?

use super::ast::{Body, EcnField, Options, Packet, Segment, TcpOption};
use narrows::wire::{Ecn, Flags};

/// How closely to look.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Rules {
    /// Options in order, padding and all, and segments cut as the script cuts them.
    pub(super) exact: bool,
    /// The push flag counts.
    pub(super) push: bool,
    /// How far, in bytes, a window may be from what is expected. When to move the right edge by
    /// less than a segment is a stack's own choice.
    pub(super) window_slack: u32,
}

/// A packet that left, in the script's numbering.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Left {
    /// As the script would write it, every field given.
    pub(super) packet: Packet,
    /// Its traffic class.
    pub(super) tos: u8,
    /// Its time to live.
    pub(super) ttl: u8,
    /// By how much its window is scaled.
    pub(super) shift: u8,
}

/// What a comparison found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Match {
    /// It is the packet.
    Whole,
    /// It is the first so many bytes of it: the rest is to follow.
    Part(usize),
    /// It is not, because of these.
    Differs(Vec<&'static str>),
}

/// Compare. `taken` is how many bytes of the expected text have left already.
pub(super) fn compare(expected: &Packet, taken: usize, got: &Left, rules: Rules) -> Match {
    let (Body::Tcp(want), Body::Tcp(have)) = (&expected.body, &got.packet.body) else {
        return Match::Differs(vec!["protocol"]);
    };
    let left = want.len - taken.min(want.len);
    let part = have.len > 0 && have.len < left && !rules.exact;
    let mut wrong = Vec::new();
    let mut check = |ok: bool, what| {
        if !ok {
            wrong.push(what);
        }
    };
    if let Some(ports) = expected.ports {
        check(got.packet.ports == Some(ports), "ports");
    }
    check(
        flags_match(want.flags, have.flags, taken, part, rules),
        "flags",
    );
    check(
        have.seq == want.seq.wrapping_add(taken as u32),
        "sequence number",
    );
    check(part || have.len == left, "length");
    if want.flags.contains(Flags::ACK) {
        check(have.ack == Some(want.ack.unwrap_or(0)), "ack");
    }
    if let Some(window) = want.window {
        let off = have.window.map_or(u16::MAX, |w| w.abs_diff(window));
        let slack = rules.window_slack >> got.shift;
        check(part || u32::from(off) <= slack, "window");
    }
    if want.flags.contains(Flags::URG) {
        check(
            have.urgent == Some(want.urgent.unwrap_or(0)),
            "urgent pointer",
        );
    }
    check(ecn_matches(expected, got), "ECN field");
    if let Some(tos) = expected.ip.tos {
        check(got.tos == tos, "traffic class");
    }
    if let Some(ttl) = expected.ip.ttl {
        check(got.ttl == ttl, "time to live");
    }
    check(options_match(want, have, rules.exact), "options");
    match (wrong.is_empty(), part) {
        (false, _) => Match::Differs(wrong),
        (true, true) => Match::Part(taken + have.len),
        (true, false) => Match::Whole,
    }
}

fn flags_match(want: Flags, have: Flags, taken: usize, part: bool, rules: Rules) -> bool {
    let mut ignored = Flags::NONE;
    if part {
        ignored |= Flags::PSH | Flags::FIN;
    }
    // The reduction is told once, by the first of the segments.
    if taken > 0 {
        ignored |= Flags::CWR;
    }
    if !rules.push {
        ignored |= Flags::PSH;
    }
    if part && have.intersects(Flags::FIN) {
        return false;
    }
    want.without(ignored) == have.without(ignored)
}

fn ecn_matches(expected: &Packet, got: &Left) -> bool {
    match (expected.ip.ecn, got.packet.ip.ecn) {
        (None, _) => true,
        (Some(EcnField::Ect01), Some(EcnField::Is(ecn))) => {
            matches!(ecn, Ecn::Ect0 | Ecn::Ect1)
        }
        (want, have) => want == have,
    }
}

/// TSval counts by its own rule, see the flow.
fn options_match(want: &Segment, have: &Segment, exact: bool) -> bool {
    let (Options::List(want), Options::List(have)) = (&want.options, &have.options) else {
        return want.options == Options::Any;
    };
    let plain = |o: &&TcpOption| exact || !matches!(o, TcpOption::Nop | TcpOption::Eol);
    let mut want: Vec<Vec<u8>> = want.iter().filter(plain).map(comparable).collect();
    let mut have: Vec<Vec<u8>> = have.iter().filter(plain).map(comparable).collect();
    if !exact {
        want.sort();
        have.sort();
    }
    want == have
}

fn comparable(option: &TcpOption) -> Vec<u8> {
    match option {
        TcpOption::Timestamps { ecr, .. } => {
            super::segment::encoded(&TcpOption::Timestamps { val: 0, ecr: *ecr })
        }
        other => super::segment::encoded(other),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Action;
    use crate::parse::{Defines, parse};

    fn packet(line: &str) -> Packet {
        let script = parse(&format!("0 {line}"), &Defines::new()).unwrap();
        match script.events.into_iter().next().unwrap().action {
            Action::Packet(p) => p,
            other => panic!("{other:?}"),
        }
    }
    fn left(line: &str) -> Left {
        Left {
            packet: packet(line),
            tos: 0,
            ttl: 64,
            shift: 0,
        }
    }
    const SETS: Rules = Rules {
        exact: false,
        push: true,
        window_slack: 0,
    };
    const EXACT: Rules = Rules {
        exact: true,
        push: true,
        window_slack: 0,
    };

    #[test]
    fn options_are_sets_unless_exact() {
        let want = packet("> S. 0:0(0) ack 1 <mss 1460,nop,wscale 3>");
        let have = left("> S. 0:0(0) ack 1 win 9 <wscale 3,mss 1460>");
        assert_eq!(compare(&want, 0, &have, SETS), Match::Whole);
        assert_eq!(
            compare(&want, 0, &have, EXACT),
            Match::Differs(vec!["options"])
        );
        let any = packet("> S. 0:0(0) ack 1 <...>");
        assert_eq!(compare(&any, 0, &have, EXACT), Match::Whole);
    }

    #[test]
    fn several_segments_make_one_expected() {
        let want = packet("> P. 1:2001(2000) ack 1");
        let first = left("> . 1:1001(1000) ack 1 win 9");
        let second = left("> P. 1001:2001(1000) ack 1 win 9");
        assert_eq!(compare(&want, 0, &first, SETS), Match::Part(1000));
        assert_eq!(compare(&want, 1000, &second, SETS), Match::Whole);
        assert_eq!(
            compare(&want, 0, &second, SETS),
            Match::Differs(vec!["sequence number"])
        );
        assert_eq!(
            compare(&want, 0, &first, EXACT),
            Match::Differs(vec!["flags", "length"])
        );
        let fin = left("> F. 1:1001(1000) ack 1 win 9");
        assert_eq!(compare(&want, 0, &fin, SETS), Match::Differs(vec!["flags"]));
    }

    #[test]
    fn a_window_may_be_off_by_less_than_a_segment_where_stacks_choose() {
        let want = packet("> . 1:1(0) ack 1 win 1035");
        let mut have = left("> . 1:1(0) ack 1 win 1024");
        have.shift = 6;
        let loose = Rules {
            window_slack: 1_459,
            ..SETS
        };
        assert_eq!(compare(&want, 0, &have, loose), Match::Whole);
        have.shift = 8;
        let wrong = Match::Differs(vec!["window"]);
        assert_eq!(compare(&want, 0, &have, loose), wrong);
        assert_eq!(compare(&want, 0, &have, SETS), wrong);
    }

    #[test]
    fn each_field_is_named() {
        let want = packet("> [ect0] 80 > 9 PU. 1:11(10) ack 5 win 7 urg 3 <TS val 1 ecr 2>");
        let have = left("> [ce] 80 > 8 . 2:14(12) ack 6 win 8 urg 4 <TS val 1 ecr 3>");
        assert_eq!(
            compare(&want, 0, &have, SETS),
            Match::Differs(vec![
                "ports",
                "flags",
                "sequence number",
                "length",
                "ack",
                "window",
                "urgent pointer",
                "ECN field",
                "options",
            ])
        );
    }
}
