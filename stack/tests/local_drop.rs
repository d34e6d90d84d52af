//! What a sender makes of a refusal by its own device, as a whole connection shows it over round
//! trips: the answers of systems, and a policy of one's own.

use crate::lab::{Lab, MSS, congestion, ms, segments, textbook};
use narrows::ByteCount;
use narrows::config::{Buffers, InitialWindow, PacingMode, TcpConfig};
use narrows::congestion::local_drop::{LocalDrop, LocalDropAnswer, LocalDropPolicy};
use narrows::congestion::{CaState, LocalDropRule};
use narrows::trace::TraceEvent;
use narrows::wire::{Ecn, Flags};
use std::sync::Arc;

const RTT: u64 = 10;

fn sender(policy: impl LocalDropPolicy + 'static, cc: &str) -> Lab {
    let config = TcpConfig {
        local_drop: Arc::new(policy),
        initial_window: InitialWindow::Segments(10),
        buffers: Buffers {
            send: 4 << 20,
            ..congestion(textbook("sack"), cc).buffers
        },
        ..congestion(textbook("sack"), cc)
    };
    Lab::connected(config, ms(RTT))
}

/// The last segment that left is refused.
fn refuse(lab: &mut Lab) {
    let last = lab.log.pop().unwrap();
    lab.conn
        .handle_local_drop(lab.now, &last.tcp, last.len as usize);
}

/// All that is in flight is acknowledged, segment by segment; the window afterwards.
fn round(lab: &mut Lab) -> u64 {
    lab.wait(ms(RTT));
    let una = (lab.conn.sender().una() - 1) / MSS;
    let nxt = (lab.conn.sender().nxt() - 1) / MSS;
    for n in una + 1..=nxt {
        lab.ack(n);
    }
    lab.cwnd()
}

/// The saw of a sender that has never seen a loss: one segment, and slow start up to the next
/// refusal. FreeBSD's window after `ENOBUFS`, with `snd_ssthresh` as it was.
#[test]
fn a_reset_without_ssthresh_is_a_saw_of_slow_starts() {
    for cc in ["reno", "cubic", "dctcp"] {
        let mut lab = sender(LocalDropRule::Reset, cc);
        lab.write(2_000);
        for _ in 0..2 {
            refuse(&mut lab);
            assert_eq!(lab.cwnd(), 1, "{cc}");
            // What is in flight is acknowledged, nothing is lost: within a round trip the window is
            // as wide as what was in flight, and it doubles from there.
            let windows: Vec<u64> = (0..4).map(|_| round(&mut lab)).collect();
            for pair in windows.windows(2) {
                assert_eq!(pair[1], pair[0] * 2, "{cc}: {windows:?}");
            }
            assert!(lab.ssthresh() > 1 << 30, "{cc}: never lowered");
        }
        let stats = lab.conn.sender_stats();
        assert_eq!(
            (stats.local_drops, stats.retransmits, stats.timeouts),
            (2, 0, 0)
        );
        assert_eq!(lab.conn.sender().ca_state(), CaState::Open);
    }
}

/// A sender to which nothing has come owes nothing, whatever its device refuses: with a window that
/// what is in flight fills nothing is left to offer.
#[test]
fn a_refused_segment_that_acknowledged_nothing_owes_no_acknowledgement() {
    let mut lab = sender(LocalDropRule::Reset, "reno");
    lab.write(10);
    refuse(&mut lab);
    let sent = lab.log.len();
    lab.pump();
    assert_eq!(lab.log.len(), sent);
    round(&mut lab);
    assert!(lab.log[sent..].iter().all(|packet| packet.len > 0));
}

/// A challenge that a segment with data was to answer (RFC 5961) is answered though the device
/// refuses that, by itself where the window has no room for the data.
#[test]
fn a_challenge_is_answered_though_the_segment_that_did_was_refused() {
    let mut lab = sender(LocalDropRule::Reset, "reno");
    lab.write(9);
    let data = [7; MSS as usize];
    assert_eq!(lab.conn.send(&data, data.len()), Ok(data.len()));
    // In the window, but not what is expected next.
    let out = lab.data(100, 0, Ecn::NotEct, Flags::RST);
    assert_eq!(segments(&out), [9], "which answers");
    assert_eq!(out.len(), 1);
    refuse(&mut lab);
    let out = lab.pump();
    assert_eq!(out.iter().map(|o| o.len).collect::<Vec<_>>(), [0]);
    assert_eq!(Lab::acked(&out[0]), 0);
    assert_eq!(lab.conn.stats().challenge_acks, 1);
    // Once.
    assert!(lab.pump().is_empty());
}

/// A FIN acknowledges what was owed and no more: while it waits for its pace nothing leaves in its
/// place.
#[test]
fn a_refused_fin_that_acknowledged_nothing_owes_no_acknowledgement() {
    let config = TcpConfig {
        pacing: PacingMode::On {
            slow_start_gain: 200,
            avoidance_gain: 120,
        },
        ..textbook("sack")
    };
    let mut lab = Lab::connected(config, ms(RTT));
    lab.conn.close(lab.now);
    assert_eq!(lab.pump().len(), 1);
    for _ in 0..3 {
        refuse(&mut lab);
        assert!(lab.pump().is_empty(), "it waits for its pace");
        let out = lab.timer();
        assert_eq!(out.len(), 1);
        assert!(out[0].has(Flags::FIN));
    }
}

/// What the device refused was not sent, whether it is new or a retransmission: it counts when it
/// leaves, once.
#[test]
fn what_was_refused_is_counted_apart_from_what_was_sent() {
    let mut lab = sender(LocalDropRule::Requeue, "reno");
    let counts = |lab: &Lab| {
        let stats = lab.conn.sender_stats();
        (stats.segments, stats.retransmits, stats.local_drops)
    };
    lab.write(10);
    assert_eq!(counts(&lab), (10, 0, 0));
    refuse(&mut lab);
    assert_eq!(counts(&lab), (9, 0, 1));
    lab.pump();
    assert_eq!(counts(&lab), (10, 0, 1));
    // The first is lost.
    lab.wait(ms(RTT));
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(counts(&lab), (11, 1, 1));
    let bytes = lab.conn.sender_stats().retransmitted_bytes;
    refuse(&mut lab);
    assert_eq!(counts(&lab), (10, 0, 2));
    assert_eq!(lab.conn.sender_stats().retransmitted_bytes, bytes - MSS);
    lab.pump();
    assert_eq!(counts(&lab), (11, 1, 2));
}

/// After one loss in the network the threshold is there, and a reset ends below it.
#[test]
fn a_reset_with_ssthresh_slow_starts_up_to_it() {
    let mut lab = sender(LocalDropRule::Reset, "reno");
    lab.write(2_000);
    for _ in 0..2 {
        round(&mut lab);
    }
    // A loss: the threshold is half of the flight.
    let una = (lab.conn.sender().una() - 1) / MSS;
    let nxt = (lab.conn.sender().nxt() - 1) / MSS;
    lab.wait(ms(RTT));
    for n in 2..=nxt - una {
        lab.sack(una, &[(una + 1, una + n)]);
    }
    lab.wait(ms(RTT));
    lab.ack(nxt);
    round(&mut lab);
    let threshold = lab.ssthresh();
    assert!((15..30).contains(&threshold), "{threshold}");
    refuse(&mut lab);
    assert_eq!((lab.cwnd(), lab.ssthresh()), (1, threshold));
    for _ in 0..12 {
        round(&mut lab);
    }
    let cwnd = lab.cwnd();
    assert!(
        (threshold..=threshold + 12).contains(&cwnd),
        "{cwnd} of {threshold}: a segment a round trip beyond it"
    );
}

#[test]
fn minus_a_segment_costs_a_segment_for_each_refusal_and_one_is_the_least() {
    let mut lab = sender(LocalDropRule::MinusSegment, "cubic");
    lab.write(100);
    for left in [9, 8, 7, 6, 5, 4, 3, 2, 1, 1] {
        refuse(&mut lab);
        assert_eq!(lab.cwnd(), left);
        if lab.log.is_empty() {
            break;
        }
    }
    assert!(lab.ssthresh() > 1 << 30);
}

#[test]
fn the_trace_tells_of_the_refusal_and_then_of_the_window_that_answers() {
    let mut lab = sender(LocalDropRule::Reset, "reno");
    lab.write(10);
    let before = lab.events().len();
    refuse(&mut lab);
    let events = lab.events()[before..].to_vec();
    let told: Vec<&TraceEvent> = events.iter().collect();
    assert!(
        matches!(
            told[..],
            [
                TraceEvent::LocalDrop { bytes },
                TraceEvent::Window { cwnd, .. },
            ] if bytes.get() == MSS && cwnd.get() == MSS
        ),
        "{told:?}"
    );
    let mut lab = sender(LocalDropRule::Requeue, "reno");
    lab.write(10);
    let before = lab.events().len();
    refuse(&mut lab);
    assert_eq!(lab.events().len(), before + 1, "no window answers");
}

/// A tenth less, and only of full segments: what anybody may add.
#[derive(Debug)]
struct Tenth;
impl LocalDropPolicy for Tenth {
    fn name(&self) -> &'static str {
        "tenth"
    }
    fn on_local_drop(&self, drop: &LocalDrop) -> LocalDropAnswer {
        if drop.bytes < drop.mss {
            LocalDropAnswer::Ignore
        } else {
            LocalDropAnswer::Window(drop.cwnd.mul_ratio(9, 10))
        }
    }
}

#[test]
fn a_policy_of_ones_own_hears_the_facts_and_decides() {
    let mut lab = sender(Tenth, "cubic");
    lab.write(8);
    refuse(&mut lab);
    let cwnd = lab.conn.sender().congestion().cwnd();
    assert_eq!(cwnd, ByteCount::new(9 * MSS));
    assert_eq!(segments(&lab.pump()), [7], "there is room in the window");
    let small = lab.conn.send(&[7; 10], 10);
    assert_eq!(small, Ok(10));
    lab.ack(8);
    let cwnd = lab.conn.sender().congestion().cwnd();
    refuse(&mut lab);
    assert!(lab.pump().is_empty(), "ignored: it counts as sent");
    assert_eq!(lab.conn.sender().congestion().cwnd(), cwnd);
}
