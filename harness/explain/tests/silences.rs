//! What a silence is called, where something that looks alike is near.

use narrows::wire::{Flags, Seq, Timestamps};
use narrows::{Duration, Instant};
use narrows_explain::segment::Segment;
use narrows_explain::{Analyzer, Cause, Config, Finding, Gap, Side, Sighting};
use std::net::SocketAddr;

/// A connection as it is captured.
struct Capture {
    analyzer: Analyzer,
    packets: u64,
}

impl Capture {
    /// One that is opened; the client is so far away, and the server.
    fn opened(client_ns: u64, server_ns: u64) -> Self {
        let mut capture = Self {
            analyzer: Analyzer::new(Config::default()),
            packets: 0,
        };
        capture.pass(0, Side::Client, (0, 0, 0), 60_000, Flags::SYN);
        capture.pass(
            server_ns,
            Side::Server,
            (0, 0, 1),
            60_000,
            Flags::SYN | Flags::ACK,
        );
        let at = server_ns + client_ns;
        capture.pass(at, Side::Client, (1, 0, 1), 60_000, Flags::ACK);
        capture
    }

    /// A segment passes, with its number, its length and what it acknowledges.
    fn pass(
        &mut self,
        ns: u64,
        from: Side,
        (seq, len, ack): (u32, u32, u32),
        window: u16,
        flags: Flags,
    ) {
        self.stamped(ns, from, (seq, len, ack), window, flags, None);
    }

    /// The same with its timestamp and what it echoes.
    fn stamped(
        &mut self,
        ns: u64,
        from: Side,
        (seq, len, ack): (u32, u32, u32),
        window: u16,
        flags: Flags,
        stamps: Option<(u32, u32)>,
    ) {
        let ends: [SocketAddr; 2] = [([10, 0, 0, 1], 50_000).into(), ([10, 0, 0, 2], 80).into()];
        let [src, dst] = match from {
            Side::Client => ends,
            Side::Server => [ends[1], ends[0]],
        };
        self.packets += 1;
        let mut segment = Segment {
            seq: Seq(seq),
            ack: Seq(ack),
            flags,
            window,
            len,
            ..Segment::between(src, dst)
        };
        segment.options.sack_permitted = flags.contains(Flags::SYN);
        segment.options.timestamps = stamps.map(|(val, ecr)| Timestamps { val, ecr });
        let now = Sighting {
            at: Instant::ZERO + Duration::from_nanos(ns),
            packet: self.packets,
        };
        self.analyzer.handle_segment(now, 0, &segment);
    }

    fn gaps(mut self) -> Vec<Gap> {
        self.analyzer.finish();
        let found = std::iter::from_fn(|| self.analyzer.poll_finding());
        found
            .filter_map(|finding| match finding {
                Finding::Gap(gap) => Some(gap),
                Finding::Connection(_) => None,
            })
            .collect()
    }
}

const S: u64 = 1_000_000_000;

#[test]
fn who_types_after_a_window_opened_waits_for_nobody() {
    let mut capture = Capture::opened(1_000_000, 10_000);
    capture.pass(
        2_000_000,
        Side::Client,
        (1, 1_000, 1),
        60_000,
        Flags::ACK | Flags::PSH,
    );
    capture.pass(2_010_000, Side::Server, (1, 0, 1_001), 0, Flags::ACK);
    capture.pass(S, Side::Server, (1, 0, 1_001), 60_000, Flags::ACK);
    for n in 0..4 {
        let (at, seq) = (S + 1_100_000 + u64::from(n) * S, 1_001 + n);
        capture.pass(
            at,
            Side::Client,
            (seq, 1, 1),
            60_000,
            Flags::ACK | Flags::PSH,
        );
        capture.pass(
            at + 10_000,
            Side::Server,
            (1, 0, seq + 1),
            60_000,
            Flags::ACK,
        );
    }
    let gaps = capture.gaps();
    let long: Vec<_> = gaps
        .iter()
        .filter(|gap| gap.start.at > Instant::ZERO + Duration::from_nanos(S))
        .collect();
    assert_eq!(long.len(), 3, "{gaps:?}");
    assert!(
        long.iter().all(|gap| gap.cause == Cause::AppWroteNothing),
        "{gaps:?}"
    );
}

#[test]
fn rfc9293_3_8_4_who_keeps_a_connection_alive_asks_for_no_window() {
    // The capture is at the receiver.
    let mut capture = Capture::opened(1_000_000, 10_000);
    let data = Flags::ACK | Flags::PSH;
    capture.pass(2_000_000, Side::Client, (1, 1_000, 1), 60_000, data);
    capture.pass(2_010_000, Side::Server, (1, 0, 1_001), 0, Flags::ACK);
    capture.pass(S, Side::Server, (1, 0, 1_001), 60_000, Flags::ACK);
    // One byte that is acknowledged, and its answer.
    let at = S + 500_000_000;
    capture.pass(at, Side::Client, (1_000, 1, 1), 60_000, Flags::ACK);
    capture.pass(at + 10_000, Side::Server, (1, 0, 1_001), 60_000, Flags::ACK);
    capture.pass(3 * S, Side::Client, (1_001, 1_000, 1), 60_000, data);
    capture.pass(
        3 * S + 10_000,
        Side::Server,
        (1, 0, 2_001),
        60_000,
        Flags::ACK,
    );
    let gaps = capture.gaps();
    let after = |gap: &&Gap| gap.end.at > Instant::ZERO + Duration::from_nanos(S);
    let after: Vec<_> = gaps.iter().filter(after).collect();
    // From when the window opened.
    let told: Vec<_> = after
        .iter()
        .map(|gap| (gap.cause, gap.start.packet, gap.end.packet))
        .collect();
    assert_eq!(told, [(Cause::AppWroteNothing, 6, 9)], "{gaps:?}");
}

#[test]
fn who_has_never_said_anything_may_keep_a_connection_alive() {
    let mut capture = Capture::opened(1_000_000, 10_000);
    let data = Flags::ACK | Flags::PSH;
    capture.pass(2_000_000, Side::Client, (1, 1_000, 1), 60_000, data);
    capture.pass(2_010_000, Side::Server, (1, 0, 1_001), 60_000, Flags::ACK);
    let at = 45 * S;
    capture.pass(at, Side::Server, (0, 1, 1_001), 60_000, Flags::ACK);
    capture.pass(
        at + 990_000,
        Side::Client,
        (1_001, 0, 1),
        60_000,
        Flags::ACK,
    );
    let gaps = capture.gaps();
    assert!(gaps.iter().all(|gap| !gap.cause.is_timeout()), "{gaps:?}");
}

#[test]
fn who_sends_again_what_had_arrived_asks_for_no_window() {
    // The capture is at the receiver, and what it says of its window is lost.
    let mut capture = Capture::opened(1_000_000, 10_000);
    let data = Flags::ACK | Flags::PSH;
    capture.pass(2_000_000, Side::Client, (1, 1_000, 1), 60_000, data);
    capture.pass(2_010_000, Side::Server, (1, 0, 1_001), 0, Flags::ACK);
    capture.pass(S, Side::Server, (1, 0, 1_001), 60_000, Flags::ACK);
    capture.pass(S + 300_000_000, Side::Client, (1, 1_000, 1), 60_000, data);
    let gaps = capture.gaps();
    let last = gaps
        .iter()
        .max_by_key(|gap| gap.end.at)
        .expect("there is one");
    assert_eq!(last.cause, Cause::TimeoutSpurious, "{gaps:?}");
}

/// What is sent again after a timeout is in order where all was lost: its acknowledgement may be put off, and
/// what else is to be sent again waits for it.
#[test]
fn rfc5681_4_2_the_acknowledgement_of_what_was_sent_again_may_be_put_off() {
    let mut capture = Capture::opened(10_000, 1_000_000);
    let ms = 1_000_000;
    for n in 0..4 {
        capture.pass(
            2 * ms + n,
            Side::Client,
            (1 + n as u32 * 1_000, 1_000, 1),
            60_000,
            Flags::ACK,
        );
    }
    for n in 1..3 {
        let acked = 1 + n as u32 * 2_000;
        capture.pass(3 * ms + n, Side::Server, (1, 0, acked), 60_000, Flags::ACK);
    }
    for n in 0..6 {
        let seq = 4_001 + n as u32 * 1_000;
        capture.pass(
            3 * ms + 10 + n,
            Side::Client,
            (seq, 1_000, 1),
            60_000,
            Flags::ACK,
        );
    }
    capture.pass(
        203 * ms,
        Side::Client,
        (4_001, 1_000, 1),
        60_000,
        Flags::ACK,
    );
    capture.pass(244 * ms, Side::Server, (1, 0, 5_001), 60_000, Flags::ACK);
    for n in 1..3 {
        let seq = 4_001 + n as u32 * 1_000;
        capture.pass(
            244 * ms + n,
            Side::Client,
            (seq, 1_000, 1),
            60_000,
            Flags::ACK,
        );
    }
    capture.pass(245 * ms, Side::Server, (1, 0, 7_001), 60_000, Flags::ACK);
    let gaps = capture.gaps();
    let told: Vec<_> = gaps
        .iter()
        .map(|gap| (gap.cause, gap.length().as_nanos() / ms))
        .collect();
    let lost = (Cause::TimeoutWholeWindow, 199);
    assert_eq!(told, [lost, (Cause::DelayedAck, 41)], "{gaps:?}");
}

#[test]
fn what_comes_between_acknowledgements_does_not_make_them_one_interrupt_s() {
    for (between, cause) in [(0, Cause::Coalescing), (500, Cause::PacketDelay)] {
        let mut capture = Capture::opened(0, 200_000);
        for n in 0..6 {
            let at = 300_000 + u64::from(n) * 20_000;
            capture.pass(
                at,
                Side::Client,
                (1 + n * 1_448, 1_448, 1),
                60_000,
                Flags::ACK,
            );
        }
        let mut at = 4_000_000;
        for n in 0..5 {
            let acked = 1 + (n + 1) * 1_448;
            capture.pass(at, Side::Server, (1, 0, acked), 60_000, Flags::ACK);
            let seq = 1 + (6 + n) * 1_448;
            capture.pass(
                at + between,
                Side::Client,
                (seq, 1_448, 1),
                60_000,
                Flags::ACK,
            );
            at += between + 400;
        }
        let gaps = capture.gaps();
        let longest = gaps
            .iter()
            .max_by_key(|gap| gap.length())
            .expect("there is one");
        assert_eq!(longest.cause, cause, "{gaps:?}");
    }
}

/// Three duplicate acknowledgements pass in the middle while a copy is under way: whether they asked for it tells
/// what it echoes.
#[test]
fn rfc7323_4_3_what_echoes_nothing_new_was_asked_for_by_nothing_new() {
    let us = 1_000;
    let data = Flags::ACK | Flags::PSH;
    let timers = |copy: (u64, u32), text: u32| {
        let mut capture = Capture::opened(500 * us, 500 * us);
        let mut pass = |at: u64, from, numbers, echo: u32| {
            let stamps = Some((at as u32, echo));
            capture.stamped(at * us, from, numbers, 60_000, data, stamps);
        };
        for n in 0..3 {
            pass(
                2_000 + n,
                Side::Client,
                (1 + n as u32 * 1_000, 1_000, 1),
                500,
            );
        }
        pass(2_500, Side::Server, (1, 0, 1_001), 2_000);
        pass(3_000, Side::Client, (3_001, 1_000, 1), 2_500);
        // Text of the server that is lost behind here, or none.
        if text > 0 {
            pass(3_100, Side::Server, (1, text, 1_001), 2_000);
        }
        for n in 0..3 {
            pass(12_900 + n, Side::Server, (1 + text, 0, 1_001), 2_000);
        }
        let (at, echo) = copy;
        pass(at, Side::Client, (1_001, 1_000, 1), echo);
        pass(at + 500, Side::Server, (1 + text, 0, 4_001), at as u32);
        let gaps = capture.gaps().into_iter();
        gaps.filter(|gap| gap.cause.is_timeout())
            .map(|gap| (gap.start.at.as_nanos() / us, gap.end.at.as_nanos() / us))
            .collect::<Vec<_>>()
    };
    // It had left before they came, or was sent because of them.
    assert_eq!(timers((13_000, 2_500), 0), [(3_000, 13_000)]);
    assert_eq!(timers((13_500, 12_902), 0), []);
    // What comes out of order is heard and not echoed.
    assert_eq!(timers((13_500, 2_500), 100), []);
}

/// What is sent again begins before what its receiver has acknowledged: a probe is of the last segment alone.
#[test]
fn rfc8985_7_3_what_begins_before_the_last_segment_is_no_probe() {
    let ms = 1_000_000;
    let data = Flags::ACK | Flags::PSH;
    for (from, cause) in [(1, Cause::TimeoutSpurious), (65, Cause::TailLossProbe)] {
        let mut capture = Capture::opened(ms / 2, ms / 2);
        capture.pass(2 * ms, Side::Client, (1, 64, 1), 60_000, data);
        capture.pass(
            2 * ms + ms / 2,
            Side::Server,
            (1, 0, 65),
            60_000,
            Flags::ACK,
        );
        capture.pass(6 * ms, Side::Client, (65, 64, 1), 60_000, data);
        let copy = (from, 129 - from, 1);
        capture.pass(8 * ms + ms / 20, Side::Client, copy, 60_000, data);
        capture.pass(9 * ms, Side::Server, (1, 0, 129), 60_000, Flags::ACK);
        let gaps = capture.gaps();
        let last = gaps.iter().max_by_key(|gap| gap.end.at).expect("one");
        assert_eq!(last.cause, cause, "{gaps:?}");
    }
}

/// Linux asks for a window with a segment without text whose number is acknowledged: that its answer says that
/// the window is open shows that what had said so was lost.
#[test]
fn rfc9293_3_8_6_1_who_asks_without_text_for_a_window_asks() {
    let ms = 1_000_000;
    let data = Flags::ACK | Flags::PSH;
    let told = |asks: bool| {
        let mut capture = Capture::opened(10_000, ms);
        capture.pass(2 * ms, Side::Client, (1, 1_000, 1), 60_000, data);
        capture.pass(3 * ms, Side::Server, (1, 0, 1_001), 0, Flags::ACK);
        let mut at = 3 * ms;
        for (wait, window) in [(200, 0), (400, 60_000)] {
            at += wait * ms;
            if asks {
                capture.pass(at, Side::Client, (1_000, 0, 1), 60_000, Flags::ACK);
                at += ms;
            }
            capture.pass(at, Side::Server, (1, 0, 1_001), window, Flags::ACK);
        }
        capture.pass(at + 10_000, Side::Client, (1_001, 1_000, 1), 60_000, data);
        let gaps = capture.gaps().into_iter();
        let lengths = gaps.map(|gap| (gap.cause, gap.length().as_nanos() / ms));
        lengths
            .filter(|(_, length)| *length > 10)
            .collect::<Vec<_>>()
    };
    let closed = Cause::WindowClosed;
    assert_eq!(told(true), [(closed, 200), (Cause::WindowUpdateLate, 401)]);
    assert_eq!(told(false), [(closed, 600)]);
}

/// Three probes, of which the last is answered: the window was open for the copy whose byte was taken, and for
/// those after it.
#[test]
fn rfc7323_5_3_the_copy_of_a_probe_that_is_echoed_was_taken() {
    let ms = 1_000_000;
    let data = Flags::ACK | Flags::PSH;
    let told = |window: u16, ack: u32, echo: Option<u32>| {
        let mut capture = Capture::opened(10_000, ms);
        let mut pass = |at: u64, from, numbers, window, echo: Option<u32>| {
            let stamps = echo.map(|echo| (at as u32, echo));
            let flags = if from == Side::Client {
                data
            } else {
                Flags::ACK
            };
            capture.stamped(at * ms, from, numbers, window, flags, stamps);
        };
        pass(2, Side::Client, (1, 1_000, 1), 60_000, echo.and(Some(0)));
        pass(3, Side::Server, (1, 0, 1_001), window, echo.and(Some(2)));
        for at in [203, 603, 1_403] {
            pass(at, Side::Client, (1_001, 1, 1), 60_000, echo.and(Some(3)));
        }
        pass(1_404, Side::Server, (1, 0, ack), 60_000, echo);
        let gaps = capture.gaps().into_iter();
        gaps.map(|gap| (gap.cause, gap.length().as_nanos() / ms))
            .collect::<Vec<_>>()
    };
    let gaps = |late: usize| {
        let cause = |n| match n >= 3 - late {
            true => Cause::WindowUpdateLate,
            false => Cause::WindowClosed,
        };
        [(cause(0), 200), (cause(1), 400), (cause(2), 800)]
    };
    assert_eq!(told(0, 1_002, Some(203)), gaps(3));
    assert_eq!(told(0, 1_002, Some(603)), gaps(2));
    assert_eq!(told(0, 1_002, Some(1_403)), gaps(1));
    // Which copy it was nobody tells, or none was taken.
    assert_eq!(told(0, 1_002, None), gaps(1));
    assert_eq!(told(0, 1_001, Some(203)), gaps(1));
    // The window was as small before.
    assert_eq!(told(1, 1_002, Some(203)), gaps(1));
}

/// A window is full, and duplicate acknowledgements pass just before what leaves next.
#[test]
fn rfc7323_4_3_new_data_that_echoes_nothing_new_left_before_what_passed_was_heard() {
    let us = 1_000;
    let told = |lost: bool, window: u16, last: u32| {
        let mut capture = Capture::opened(500 * us, 500 * us);
        let mut pass = |at: u64, from, numbers, echo: u32, window: u16| {
            let stamps = Some((at as u32, echo));
            capture.stamped(at * us, from, numbers, window, Flags::ACK, stamps);
        };
        for n in 0..5_u32 {
            let numbers = (1 + n * 1_000, 1_000, 1);
            pass(2_000 + u64::from(n), Side::Client, numbers, 500, 60_000);
        }
        pass(2_504, Side::Server, (1, 0, 1_001), 2_000, 60_000);
        let mut heard = 2_504;
        if lost {
            pass(2_505, Side::Server, (1, 0, 1_001), 2_000, 60_000);
            heard = 2_505;
        }
        pass(3_004, Side::Client, (5_001, 1_000, 1), heard, 60_000);
        pass(3_050, Side::Server, (1, 0, 1_001), 2_000, window);
        pass(3_104, Side::Client, (6_001, 1_000, 1), heard, 60_000);
        for at in [5_480, 5_490] {
            pass(at, Side::Server, (1, 0, 1_001), 2_000, window);
        }
        let echo = if last == 0 { heard } else { last };
        pass(5_605, Side::Client, (7_001, 1_000, 1), echo, 60_000);
        let gaps = capture.gaps().into_iter();
        gaps.filter(|gap| gap.cause == Cause::TailLossProbe)
            .map(|gap| (gap.start.at.as_nanos() / us, gap.end.at.as_nanos() / us))
            .collect::<Vec<_>>()
    };
    assert_eq!(told(false, 60_000, 0), [(3_104, 5_605)]);
    // It had not heard that the window is closed.
    assert_eq!(told(false, 0, 0), [(3_104, 5_605)]);
    assert_eq!(told(false, 60_000, 5_490), []);
    // Who has heard of a loss sends no probe (RFC 8985 section 7.2).
    assert_eq!(told(true, 60_000, 0), []);
}
