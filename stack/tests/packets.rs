//! A window that counts packets (Linux), and one that counts bytes (RFC 5681), with small segments
//! and with full ones.

use crate::lab::{Lab, MSS, congestion, ms, textbook};
use narrows::config::{
    Buffers, IdleRestart, InitialWindow, RecoverySending, TcpConfig, WindowCount,
};
use narrows::congestion::CaState;
use narrows::wire::Flags;
use proptest::prelude::*;

fn config(count: WindowCount) -> TcpConfig {
    TcpConfig {
        window_count: count,
        initial_window: InitialWindow::Segments(3),
        idle_restart: IdleRestart::Rfc5681,
        ..textbook("sack")
    }
}

/// Lengths of the segments that leave when `sizes` are written one after the other.
fn writes(lab: &mut Lab, sizes: &[usize]) -> Vec<u64> {
    let mut left = Vec::new();
    for size in sizes {
        assert_eq!(lab.conn.send(&vec![7; *size], *size), Ok(*size));
        left.extend(lab.pump().iter().map(|o| o.len));
    }
    left
}

/// Four small writes and one larger: three leave, and the rest is one segment when an
/// acknowledgement comes. A window of bytes has room for all of them.
#[test]
fn a_window_of_three_is_full_with_three_segments_of_a_byte() {
    let mut lab = Lab::connected(config(WindowCount::Packets), ms(10));
    assert_eq!(writes(&mut lab, &[1, 1, 1, 1, 100]), [1, 1, 1]);
    assert_eq!(lab.cwnd(), 3);
    lab.wait(ms(40));
    let rest: Vec<u64> = lab
        .ack_now(3, &[], Flags::NONE)
        .iter()
        .map(|o| o.len)
        .collect();
    assert_eq!(rest, [101]);
    let mut lab = Lab::connected(config(WindowCount::Bytes), ms(10));
    assert_eq!(
        writes(&mut lab, &[1, 1, 1, 1, 100]),
        [1, 1, 1, 1, 100],
        "RFC 5681 counts bytes"
    );
}

/// Linux `tcp_slow_start`: a packet more for each that is acknowledged, where the window was full.
#[test]
fn small_segments_that_fill_the_window_let_it_grow_as_full_ones_do() {
    for (count, grown) in [(WindowCount::Packets, 6), (WindowCount::Bytes, 3)] {
        let mut lab = Lab::connected(config(count), ms(10));
        let left = writes(&mut lab, &[1; 6]).len();
        assert_eq!(left, if count == WindowCount::Packets { 3 } else { 6 });
        lab.wait(ms(10));
        for to in 1..=3 {
            lab.ack_now(to, &[], Flags::NONE);
        }
        assert_eq!(lab.cwnd(), grown, "{count:?}");
    }
}

/// RFC 5681 section 4.1, Linux `tcp_cwnd_restart`: after an idle RTO the initial window, counted in
/// packets; before it what had grown.
#[test]
fn an_idle_rto_leaves_three_packets_again() {
    for (idle, admitted) in [(ms(900), 8), (ms(1_100), 3)] {
        let mut lab = Lab::connected(config(WindowCount::Packets), ms(10));
        for _ in 0..3 {
            lab.write(12);
            lab.wait(ms(10));
            while !lab.conn.sender().is_idle() {
                let nxt = (lab.conn.sender().nxt() - 1) / MSS;
                lab.ack(nxt);
            }
        }
        assert!(lab.cwnd() >= 8, "{}", lab.cwnd());
        lab.wait(idle);
        assert_eq!(writes(&mut lab, &[1; 8]).len(), admitted, "{idle:?}");
    }
}

/// A timeout leaves one packet, and each acknowledged one doubles it.
#[test]
fn a_timeout_leaves_a_window_of_one_packet() {
    let mut lab = Lab::connected(config(WindowCount::Packets), ms(10));
    assert_eq!(writes(&mut lab, &[1; 3]).len(), 3);
    lab.timer();
    assert_eq!(lab.conn.sender().ca_state(), CaState::Loss);
    assert_eq!(lab.cwnd(), 1);
    assert!(writes(&mut lab, &[1; 3]).is_empty());
    let threshold = lab.ssthresh();
    assert_eq!(threshold, 2, "half of the packets, and two at least");
}

/// What a script does to both senders.
#[derive(Clone, Debug)]
enum Step {
    Write(u64),
    Wait(u64),
    /// Acknowledge so many segments.
    Ack(u64),
    /// SACK so many beyond a hole of one.
    Sack(u64),
    Timer,
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        3 => (1_u64..30).prop_map(Step::Write),
        2 => (1_u64..400).prop_map(Step::Wait),
        6 => (1_u64..6).prop_map(Step::Ack),
        2 => (1_u64..8).prop_map(Step::Sack),
        1 => Just(Step::Timer),
    ]
}

fn play(count: WindowCount, cc: &str, steps: &[Step]) -> (Vec<(u64, u64, u64)>, u64) {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        buffers: Buffers {
            send: 1 << 28,
            ..congestion(config(count), cc).buffers
        },
        ..congestion(config(count), cc)
    };
    let mut lab = Lab::connected(config, ms(10));
    lab.write(3);
    for step in steps {
        let una = (lab.conn.sender().una() - 1) / MSS;
        let nxt = (lab.conn.sender().nxt() - 1) / MSS;
        match *step {
            Step::Write(n) => drop(lab.write(n)),
            Step::Wait(n) => drop(lab.wait(ms(n))),
            Step::Ack(n) => drop(lab.ack((una + n).min(nxt))),
            Step::Sack(n) if nxt > una + 1 => {
                drop(lab.sack(una, &[(una + 1, (una + 1 + n).min(nxt))]));
            }
            Step::Timer if lab.conn.poll_timeout().is_some() => drop(lab.timer()),
            Step::Sack(_) | Step::Timer => {}
        }
    }
    let sent = lab.log.iter().filter(|o| o.len > 0);
    let sent = sent.map(|o| (o.at.as_nanos(), o.offset, o.len)).collect();
    (sent, lab.conn.sender().congestion().cwnd().get())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Of full segments it is all the same what is counted.
    #[test]
    fn with_full_segments_both_send_the_same_at_the_same_time(
        steps in prop::collection::vec(step(), 1..60),
        cc in prop::sample::select(vec!["reno", "cubic", "dctcp"]),
    ) {
        let bytes = play(WindowCount::Bytes, cc, &steps);
        prop_assert_eq!(bytes, play(WindowCount::Packets, cc, &steps));
    }
}
