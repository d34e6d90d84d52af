//! Two captures of connections whose ports are used again: each connection of one capture is held
//! against the same one of the other; and clocks that are set meanwhile.

use narrows::wire::{Flags, Seq};
use narrows::{Duration, Instant};
use narrows_explain::capture::Steady;
use narrows_explain::segment::Segment;
use narrows_explain::two::{Log, Path};
use narrows_explain::{Analyzer, Cause, Config, Explanation, Gap, Side, Sighting};
use std::net::SocketAddr;

/// From one end to the other.
const WAY: u64 = 500;
/// The second clock is ahead by so much, in microseconds: more than all connections take.
const AHEAD: u64 = 90_000_000;

/// A packet: when it leaves in microseconds, whether it is the client's, and whether it is lost.
#[derive(Clone, Debug)]
struct Packet {
    at: u64,
    from_client: bool,
    lost: bool,
    segment: Segment,
}

fn segment(port: u16, from_client: bool, flags: Flags, seq: u32, ack: u32, len: u32) -> Segment {
    let ends: [SocketAddr; 2] = [([10, 0, 0, 1], port).into(), ([10, 0, 0, 2], 80).into()];
    let [src, dst] = match from_client {
        true => ends,
        false => [ends[1], ends[0]],
    };
    Segment {
        seq: Seq(seq),
        ack: Seq(ack),
        flags,
        window: 60_000,
        len,
        ..Segment::between(src, dst)
    }
}

/// A connection: five segments to the server, of which the last is lost and sent again after `rto`
/// microseconds, and five back, the last of which comes again after twice as long.
fn connection(port: u16, begin: u64, isn: [u32; 2], rto: u64) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut at = begin;
    let [c, s] = isn.map(|isn| isn.wrapping_add(1));
    let mut out = |at: u64, from_client, lost, flags, seq: u32, ack: u32, len| {
        let segment = segment(port, from_client, flags, seq, ack, len);
        all.push(Packet {
            at,
            from_client,
            lost,
            segment,
        });
    };
    let both = Flags::SYN | Flags::ACK;
    out(at, true, false, Flags::SYN, isn[0], 0, 0);
    out(at + WAY + 10, false, false, both, isn[1], c, 0);
    at += 2 * WAY + 20;
    out(at, true, false, Flags::ACK, c, s, 0);
    for (from_client, rto) in [(true, rto), (false, 2 * rto)] {
        let (from, to) = if from_client { (c, s) } else { (s, c) };
        let peer = if from_client { to } else { to + 5_000 };
        for n in 0..5 {
            let left = at + 10 + u64::from(n) * 10;
            let seq = from + n * 1_000;
            out(left, from_client, n == 4, Flags::ACK, seq, peer, 1_000);
            if n < 4 {
                let arrived = left + WAY + 5;
                let ack = seq + 1_000;
                out(arrived, !from_client, false, Flags::ACK, peer, ack, 0);
            }
        }
        at += 50 + rto;
        let seq = from + 4_000;
        out(at, from_client, false, Flags::ACK, seq, peer, 1_000);
        let ack = seq + 1_000;
        out(at + WAY + 5, !from_client, false, Flags::ACK, peer, ack, 0);
        at += 2 * WAY + 50;
    }
    let fin = Flags::FIN | Flags::ACK;
    out(at, true, false, fin, c + 5_000, s + 5_000, 0);
    out(at + WAY + 5, false, false, fin, s + 5_000, c + 5_001, 0);
    let last = at + 2 * WAY + 10;
    out(last, true, false, Flags::ACK, c + 5_001, s + 5_001, 0);
    all
}

/// What a capture at the client, or at the server, has of these packets.
fn captured(packets: &[Packet], at_client: bool) -> Vec<(Instant, Segment)> {
    let seen = packets.iter().filter_map(|p| {
        let at = match p.from_client == at_client {
            true => p.at,
            false if p.lost => return None,
            false => p.at + WAY,
        };
        let ahead = if at_client { 0 } else { AHEAD };
        let at = Instant::ZERO + Duration::from_micros(1_000_000 + at + ahead);
        Some((at, p.segment.clone()))
    });
    let mut seen: Vec<_> = seen.collect();
    seen.sort_by_key(|(at, _)| *at);
    seen
}

fn analysed(packets: &[(Instant, Segment)], followed: usize) -> (Log, Explanation) {
    let (mut log, mut analyzer) = (Log::new(followed), Analyzer::new(Config::default()));
    let mut explanation = Explanation::new(100, 100);
    let mut clock = Steady::default();
    for (packet, (at, segment)) in (1..).zip(packets) {
        let at = clock.steady(*at);
        let now = Sighting { at, packet };
        log.handle_segment(now, 0, segment);
        analyzer.handle_segment(now, 0, segment);
    }
    analyzer.finish();
    explanation.take(&mut analyzer);
    explanation.finish();
    (log, explanation)
}

fn together(first: &[(Instant, Segment)], second: &[(Instant, Segment)]) -> Explanation {
    let [(log, one), (other_log, other)] = [first, second].map(|packets| analysed(packets, 10_000));
    let path = Path::between(&log, &other_log).expect("they can be aligned");
    path.explain(&one, &other)
}

/// Each connection waits for two timeouts, both of them lost tails, its client's and its server's.
/// `off` is how many microseconds times may be off.
fn holds(all: &Explanation, rtos: &[(u64, u64)], off: u64) {
    assert_eq!(all.connections.len(), rtos.len(), "{:?}", all.connections);
    for (connection, (begin, rto)) in all.connections.iter().zip(rtos) {
        let about = |at: Instant, us: u64| {
            let at = at.as_nanos() / 1_000;
            assert!(at.abs_diff(1_000_000 + us) <= off, "{at} {us}");
        };
        about(connection.first.at, *begin);
        let gaps = all.ledger.gaps();
        let mut of_it: Vec<&Gap> = gaps
            .iter()
            .filter(|gap| gap.connection == connection.id && gap.cause.is_timeout())
            .collect();
        of_it.sort_by_key(|gap| gap.side);
        let told: Vec<_> = of_it.iter().map(|gap| (gap.side, gap.cause)).collect();
        let tails = [Side::Client, Side::Server].map(|side| (side, Cause::TimeoutTail));
        assert_eq!(told, tails, "{begin}: {gaps:?}");
        for (gap, rto) in of_it.iter().zip([*rto, 2 * rto]) {
            let length = gap.length().as_nanos() / 1_000;
            assert!(length.abs_diff(rto) <= WAY * 2 + off, "{length} {rto}");
            let between = gap.evidence.between.expect("both captures have it");
            assert_eq!((between.lost, between.capture), (1, gap.side as u8));
        }
    }
}

const THREE: [(u64, u64); 3] = [(0, 210_000), (2_000_000, 330_000), (5_000_000, 450_000)];

/// Three connections of the same ends, each with sequence numbers of its own, or all with the same.
fn three(isn: impl Fn(u32) -> u32) -> Vec<Vec<Packet>> {
    let numbered = (0_u32..).zip(THREE);
    let one = |(n, (begin, rto))| {
        let isn = isn(n);
        connection(50_000, begin, [isn, isn ^ 0x5555_5555], rto)
    };
    numbered.map(one).collect()
}

#[test]
fn ports_that_are_used_again_are_other_connections() {
    for isn in [|n: u32| 1_000 + n * 0x2345_6789, |n| 1_000 + n * 6_000] {
        let packets = three(isn).concat();
        let all = together(&captured(&packets, true), &captured(&packets, false));
        holds(&all, &THREE, 300);
        assert_eq!(all.path.expect("aligned").ways.len(), 6);
    }
}

/// The first of one capture is the second of the other.
#[test]
fn a_capture_that_begins_later_lacks_the_first_connections() {
    let connections = three(|n| 7 + n * 0x3456_789a);
    for lacking in 1..3 {
        let (all, later) = (connections.concat(), connections[lacking..].concat());
        let told = together(&captured(&all, true), &captured(&later, false));
        let path = told.path.as_ref().expect("aligned");
        assert_eq!(path.ways.len(), 2 * (3 - lacking));
        assert!(
            path.ways.iter().all(|way| (way.sent, way.lost) == (8, 1)),
            "{:?}",
            path.ways
        );
        let gaps = told.ledger.gaps();
        let both = gaps.iter().filter(|gap| gap.evidence.between.is_some());
        assert!(
            both.clone().all(|gap| gap.connection >= lacking as u64),
            "{gaps:?}"
        );
        let timeouts = both.filter(|gap| gap.cause.is_timeout()).count();
        assert_eq!(timeouts, 2 * (3 - lacking));
        assert_eq!(told.connections.len(), 3);
    }
}

/// What has the same numbers each time is told apart by when it was: by clocks that another connection
/// tells, though they are farther apart than all that is captured.
#[test]
fn connections_with_equal_numbers_are_told_apart_by_time() {
    let mut connections = three(|_| 1_000);
    connections.push(connection(50_001, 7_000_000, [77, 99], 210_000));
    let (all, later) = (connections.concat(), connections[1..].concat());
    let told = together(&captured(&all, true), &captured(&later, false));
    assert_eq!(told.path.as_ref().expect("aligned").ways.len(), 6);
    let gaps = told.ledger.gaps();
    let both = gaps.iter().filter(|gap| gap.evidence.between.is_some());
    let mut of: Vec<u64> = both
        .filter(|gap| gap.cause.is_timeout())
        .map(|gap| gap.connection)
        .collect();
    of.sort_unstable();
    assert_eq!(of, [1, 1, 2, 2, 3, 3], "{gaps:?}");
}

/// Beyond the limit of what is followed a connection is still one, its gaps are told once, and by the
/// first clock.
#[test]
fn gaps_that_nobody_follows_are_told_once_and_by_the_first_clock() {
    let packets = three(|n| 1_000 + n * 0x2345_6789).concat();
    let [(log, one), (other_log, other)] =
        [true, false].map(|at| analysed(&captured(&packets, at), 60));
    assert!(log.unlogged > 0 && other_log.unlogged > 0);
    let path = Path::between(&log, &other_log).expect("they can be aligned");
    let all = path.explain(&one, &other);
    assert_eq!(all.connections.len(), 3);
    for connection in &all.connections {
        let gaps = all.ledger.gaps();
        let of_it = gaps.iter().filter(|gap| gap.connection == connection.id);
        let timeouts: Vec<_> = of_it.filter(|gap| gap.cause.is_timeout()).collect();
        assert_eq!(timeouts.len(), 2, "{timeouts:?}");
        for gap in timeouts {
            assert!(connection.first.at <= gap.start.at, "{gap:?}");
            assert!(gap.end.at <= connection.last.at, "{gap:?}");
        }
    }
}

/// A clock that is set, forth or back, by the one or the other: all is told as if it had not been.
#[test]
fn clocks_that_are_set_meanwhile_are_allowed_for() {
    let connections = three(|n| 1_000 + n * 0x2345_6789).concat();
    let captures = [true, false].map(|at| captured(&connections, at));
    let plain = together(&captures[0], &captures[1]);
    holds(&plain, &THREE, 300);
    for capture in [0, 1] {
        for by in [30_000_000, 400_000, -200_000, -700_000_i64] {
            // While packets are under way both ways: otherwise it may have been either clock.
            for from in [35, 36, 60] {
                let mut set = captures.clone();
                for (at, _) in &mut set[capture][from..] {
                    *at = Instant::from_nanos(at.as_nanos().strict_add_signed(by * 1_000));
                }
                let told = together(&set[0], &set[1]);
                let sets = &told.path.as_ref().expect("aligned").sets;
                // Who reads one capture takes what comes after a clock was set back to come at once.
                if by > 0 {
                    assert_eq!(sets.len(), 1, "{sets:?}");
                    let found = (sets[0].capture, sets[0].by / 1_000);
                    assert!(
                        found.0 == capture && found.1.abs_diff(by) <= 1_000,
                        "{from} {by} {sets:?}"
                    );
                }
                holds(&told, &THREE, if by > 0 { 300 } else { 2 * WAY });
            }
        }
    }
}

/// Connections that were left out of either explanation are told of when they are joined.
#[test]
fn connections_that_were_left_out_are_counted() {
    let packets = three(|n| 1_000 + n * 0x2345_6789).concat();
    let [first, second] = [true, false].map(|at| captured(&packets, at));
    let [(log, mut one), (other_log, mut other)] =
        [&first, &second].map(|packets| analysed(packets, 10_000));
    (one.forgotten, other.forgotten) = (2, 3);
    let path = Path::between(&log, &other_log).expect("they can be aligned");
    assert_eq!(path.explain(&one, &other).forgotten, 5);
}

/// All that was seen ends when it would have if the clock had not been set.
#[test]
fn a_clock_that_was_set_does_not_make_a_capture_longer() {
    let packets = three(|n| 1_000 + n * 0x2345_6789).concat();
    let mut captures = [true, false].map(|at| captured(&packets, at));
    let plain = together(&captures[0], &captures[1]).seen;
    for (at, _) in &mut captures[0][35..] {
        *at = *at + Duration::from_secs(30);
    }
    let set = together(&captures[0], &captures[1]);
    let path = set.path.as_ref().expect("aligned");
    assert_eq!((path.sets.len(), path.sets[0].capture), (1, 0));
    assert_eq!(set.seen.first, plain.first);
    let off = set.seen.last.as_nanos().abs_diff(plain.last.as_nanos());
    assert!(off <= 1_000_000, "{off}");
}
