//! RFC 9293 sections 3.7.4 to 3.8.6 and 3.9.1.2: sending, windows, acknowledging, urgent data. Each
//! test is named for its requirement.

use crate::pair::lone::{IRS, Lone, Out, Seg, ack, plain, seg, syn_ack, text};
use crate::pair::{Fate, Pair, bytes};
use narrows::config::{AckPolicy, Lifetimes, TcpConfig};
use narrows::conn::Event;
use narrows::conn::flow_window::ReceiveWindow;
use narrows::conn::state::State;
use narrows::wire::{Flags, SackBlock};
use narrows::{ByteCount, Duration, Instant};
use std::sync::Arc;

const FIN: Flags = Flags::FIN;
const PSH: Flags = Flags::PSH;
const RST: Flags = Flags::RST;
const URG: Flags = Flags::URG;
const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn sent(out: &[Out]) -> usize {
    out.iter().map(|o| o.data.len()).sum()
}

fn edge(out: &Out) -> i64 {
    out.ack + i64::from(out.tcp.window)
}

fn with_window(window: u16) -> Lone {
    Lone::established_by(plain(), syn_ack().mss(1_000).win(window))
}

/// The receive buffer of 20,000 bytes full and unread.
fn full(config: TcpConfig) -> Lone {
    let mut l = Lone::established(config);
    for i in 0..20 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    assert_eq!(l.conn.readable(), 20_000);
    l
}

// ---- Nagle.

#[test]
fn shld_7_nagle_holds_a_small_segment_while_data_is_outstanding() {
    let mut l = Lone::established(plain());
    assert_eq!(sent(&l.send(b"x")), 1);
    assert!(l.send(&bytes(999)).is_empty());
    assert_eq!(sent(&l.send(b"y")), 1_000, "a full one leaves");
    assert!(l.send(b"z").is_empty());
    assert_eq!(sent(&l.recv(ack(0, 1_001))), 1);
}

#[test]
fn must_17_nagle_can_be_turned_off_for_one_connection() {
    let (mut one, mut other) = (Lone::established(plain()), Lone::established(plain()));
    one.conn.set_nodelay(true);
    for l in [&mut one, &mut other] {
        l.send(b"x");
    }
    assert_eq!(sent(&one.send(b"y")), 1);
    assert!(other.send(b"y").is_empty());
    // From the beginning, too.
    let config = TcpConfig {
        nagle: false,
        ..plain()
    };
    let mut l = Lone::established(config);
    l.send(b"x");
    assert_eq!(sent(&l.send(b"y")), 1);
}

// ---- Windows that shrink.

/// The right edge we offer stays, whatever arrives and however little is read.
#[test]
fn shld_14_the_offered_window_never_shrinks() {
    let mut l = Lone::established(plain());
    let mut highest = 20_000;
    let (mut at, mut read) = (0, 0);
    for i in 0..400 {
        let len = (i * 37) % 900 + 1;
        for out in l.recv(text(at, 0, &bytes(len as usize))) {
            assert!(edge(&out) >= highest, "{out:?}");
            highest = edge(&out);
            at = out.ack;
        }
        if i % 3 == 0 && l.conn.readable() > 0 {
            let n = l.conn.readable().min(700);
            read += n;
            for out in l.read_n(n).1 {
                assert!(edge(&out) >= highest);
                highest = edge(&out);
            }
        }
    }
    assert!(read > 10_000 && highest as u64 <= read + 20_000);
}

/// Not even where a policy of the user's own would have it so: what was offered is let run out.
#[test]
fn shld_14_what_was_offered_is_not_taken_back() {
    #[derive(Debug)]
    struct Less(u64);
    impl ReceiveWindow for Less {
        fn limit(&mut self, _: ByteCount, _: Instant) -> ByteCount {
            ByteCount::new(self.0)
        }
        fn on_data(&mut self, bytes: ByteCount, _: Instant) {
            self.0 = self.0.saturating_sub(2 * bytes.get());
        }
    }
    let mut l = Lone::established(TcpConfig {
        receive_window: Some(Arc::new(|| Box::new(Less(20_000)))),
        ..plain()
    });
    for at in 0..20 {
        let out = Lone::one(l.recv(text(at * 1_000, 0, &[1; 1_000])));
        assert_eq!(edge(&out), 20_000);
        let (_, update) = l.read();
        assert!(update.is_empty(), "{at}");
    }
    assert_eq!(l.conn.readable_end(), 20_000, "and all of it is taken");
}

/// 10 full segments outstanding, 10 more queued, the window shrunk to 2,500 bytes.
fn shrunken() -> Lone {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 9,
            data_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).win(10_000));
    assert_eq!(sent(&l.send(&bytes(20_000))), 10_000);
    assert!(l.recv(ack(0, 0).win(2_500)).is_empty());
    l
}

#[test]
fn must_34_a_window_that_shrinks_is_survived() {
    let mut l = shrunken();
    // A usable window below zero.
    l.recv(ack(0, 1_000).win(0));
    l.recv(ack(0, 2_000).win(1));
    for _ in 0..3 {
        l.next_timer();
    }
    assert_eq!(l.state(), State::Established);
    let out = l.recv(ack(0, 10_000).win(10_000));
    assert_eq!((out[0].seq, sent(&out)), (10_000, 10_000));
}

#[test]
fn shld_15_nothing_new_is_sent_into_a_shrunken_window() {
    let mut l = shrunken();
    for _ in 0..9 {
        for out in l.next_timer() {
            assert!(out.seq + out.data.len() as i64 <= 10_000, "{out:?}");
        }
        l.recv(ack(0, 0).win(2_500));
    }
}

#[test]
fn shld_16_what_the_shrunken_window_holds_is_retransmitted() {
    let mut l = shrunken();
    let out = l.next_timer();
    assert_eq!((out[0].seq, out[0].data.len()), (0, 1_000));
    let out = l.recv(ack(0, 1_000).win(1_500));
    assert_eq!(out[0].seq, 1_000);
}

/// As long as the peer answers.
#[test]
fn shld_17_data_beyond_the_right_edge_does_not_time_out() {
    let mut l = shrunken();
    l.recv(ack(0, 2_000).win(500));
    for i in 0..100 {
        assert!(sent(&l.next_timer()) > 0);
        l.recv(ack(0, 2_000).win(500));
        assert_eq!(l.state(), State::Established, "{i}");
    }
}

#[test]
fn must_35_a_window_that_shrinks_to_zero_is_probed() {
    let mut l = shrunken();
    l.recv(ack(0, 0).win(0));
    for i in 0..100 {
        assert!(sent(&l.next_timer()) > 0, "{i}");
        l.recv(ack(0, 0).win(0));
    }
    // It is found open.
    let out = l.recv(ack(0, 10_000).win(10_000));
    assert_eq!(sent(&out), 10_000);
}

// ---- Zero windows.

#[test]
fn must_36_a_zero_window_is_probed() {
    let mut l = with_window(0);
    assert!(l.send(&bytes(100)).is_empty());
    let out = Lone::one(l.next_timer());
    assert_eq!((out.seq, out.data.len()), (0, 1), "one octet at least");
    l.recv(ack(0, 0).win(0));
    assert!(!l.next_timer().is_empty());
}

#[test]
fn must_37_an_answered_probe_keeps_the_connection_open() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 2,
            data_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).win(0));
    l.send(&bytes(100));
    let begin = l.now;
    while l.now.since(begin) < SEC * 86_400 {
        l.next_timer();
        l.recv(ack(0, 0).win(0));
    }
    assert_eq!(l.state(), State::Established);
}

/// Our own window may stay closed for as long as the user likes.
#[test]
fn may_8_our_window_may_stay_closed() {
    let mut l = full(plain());
    for _ in 0..1_000 {
        l.wait(SEC * 60);
        let out = Lone::one(l.recv(text(20_000, 0, b"?")));
        assert_eq!((out.ack, out.tcp.window), (20_000, 0));
    }
    assert_eq!(l.state(), State::Established);
}

#[test]
fn shld_29_the_first_probe_leaves_after_the_retransmission_timeout() {
    let mut l = with_window(0);
    l.send(&bytes(100));
    let (begin, rto) = (l.now, l.conn.sender().current_rto());
    l.next_timer();
    assert_eq!(l.now.since(begin), rto);
}

#[test]
fn shld_30_probes_back_off_exponentially() {
    let mut l = with_window(0);
    l.send(&bytes(100));
    let mut last = Duration::ZERO;
    for i in 0..6 {
        let begin = l.now;
        l.next_timer();
        let wait = l.now.since(begin);
        assert!(
            i < 2 || wait >= last * 2 - MS,
            "{i}: {wait:?} after {last:?}"
        );
        last = wait;
        l.recv(ack(0, 0).win(0));
    }
}

/// With a closed window ACK, RST and URG count, and nothing else does.
#[test]
fn must_66_rst_urg_and_ack_are_processed_with_a_zero_window() {
    let mut l = full(plain());
    l.send(&bytes(500));
    l.events.clear();
    l.recv(text(20_000, 500, b"!").urgent(1));
    assert_eq!(l.conn.unacknowledged(), 0, "ACK");
    assert_eq!(l.events, [Event::Urgent], "URG");
    assert_eq!(l.conn.urgent_offset(), Some(20_001));
    assert_eq!(l.conn.readable(), 20_000, "no text");
    l.recv(seg(RST, 20_000, 0));
    assert!(matches!(l.state(), State::Closed(_)), "RST");
}

/// Where the ACKs of a peer stand that has filled the window and lost some of it.
#[test]
fn section_3_10_7_4_an_ack_at_the_right_edge_is_processed() {
    let mut l = Lone::established(plain());
    l.send(&bytes(500));
    assert!(l.recv(ack(20_000, 500)).is_empty());
    assert_eq!(l.conn.unacknowledged(), 0);
    l.send(&bytes(500));
    l.recv(ack(20_001, 1_000));
    assert_eq!(l.conn.unacknowledged(), 500, "beyond it");
}

// ---- Silly windows.

/// Whatever the peer offers in driblets, no small segment follows another.
#[test]
fn must_38_the_sender_avoids_silly_windows() {
    let mut l = with_window(10_000);
    l.conn.set_nodelay(true);
    assert_eq!(sent(&l.send(&bytes(60_000))), 10_000);
    let mut all = 10_000;
    for i in 1..300_i64 {
        // The edge moves by 100 bytes at a time.
        let acked = (i * 100).min(all);
        let out = l.recv(ack(0, acked).win((10_000 + i * 100 - acked) as u16));
        for o in &out {
            assert!(o.data.len() >= 1_000, "{}", o.data.len());
            all += o.data.len() as i64;
        }
    }
    assert!(all > 30_000);
}

/// However slowly the user reads, the window opens by a segment or half the buffer.
#[test]
fn must_39_the_receiver_avoids_silly_windows() {
    let mut l = full(plain());
    let mut last = 20_000;
    for _ in 0..20_000 {
        for out in l.read_n(1).1 {
            assert!(edge(&out) - last >= 1_000, "{}", edge(&out) - last);
            last = edge(&out);
        }
    }
    assert!(last >= 30_000, "{last}");
    // In answers to the peer's segments neither.
    let mut l = full(plain());
    l.read_n(300);
    let out = Lone::one(l.recv(text(20_000, 0, b"?")));
    assert_eq!(out.tcp.window, 0);
}

// ---- Acknowledging.

fn delayed(delay: Duration) -> TcpConfig {
    let ack = AckPolicy {
        delay,
        every: 2,
        quick_acks: 0,
    };
    TcpConfig { ack, ..plain() }
}

#[test]
fn shld_18_acks_are_delayed() {
    let mut l = Lone::established(delayed(MS * 200));
    assert!(l.recv(text(0, 0, &[1; 500])).is_empty());
    let out = l.send(b"reply");
    assert_eq!(Lone::one(out).ack, 500, "it rides on data");
    assert!(l.wait(SEC).iter().all(|o| !o.data.is_empty()));
}

#[test]
fn must_40_the_ack_delay_is_below_half_a_second() {
    for delay in [0, 40, 200, 499] {
        let config = delayed(MS * delay);
        assert_eq!(config.validate(), Ok(()));
        let mut l = Lone::established(config);
        let begin = l.now;
        let out = l.recv(text(0, 0, &[1; 500]));
        if out.is_empty() {
            assert_eq!(Lone::one(l.next_timer()).ack, 500);
        }
        assert_eq!(l.now.since(begin), MS * delay);
        assert!(l.now.since(begin) < MS * 500);
    }
    for delay in [500, 501, 10_000] {
        let error = delayed(MS * delay).validate().unwrap_err();
        assert_eq!(error.name, "ack.delay");
    }
}

#[test]
fn shld_19_every_second_full_segment_is_acknowledged() {
    let mut l = Lone::established(delayed(MS * 400));
    for i in 0..10 {
        assert!(l.recv(text(i * 2_000, 0, &[1; 1_000])).is_empty());
        let out = Lone::one(l.recv(text(i * 2_000 + 1_000, 0, &[1; 1_000])));
        assert_eq!(out.ack, i * 2_000 + 2_000);
        l.read();
    }
}

fn arrive(l: &mut Lone, seg: &Seg) {
    l.conn.handle_segment(l.now, seg.ecn, &seg.tcp, &seg.data);
}

#[test]
fn must_58_acknowledgements_are_aggregated() {
    let mut l = Lone::established(delayed(MS * 40));
    for i in 0..9 {
        arrive(&mut l, &text(i * 1_000, 0, &[1; 1_000]));
    }
    let out = l.settle();
    assert_eq!(Lone::one(out).ack, 9_000);
}

/// Segments that have arrived are all processed before an ACK is sent, even where each would be
/// acknowledged at once, and out of order.
#[test]
fn must_59_all_that_has_arrived_is_processed_before_an_ack() {
    let mut l = Lone::established(plain());
    for i in [3, 1, 0, 2, 4, 4] {
        arrive(&mut l, &text(i * 1_000, 0, &[1; 1_000]));
    }
    let out = l.settle();
    assert_eq!(Lone::one(out).ack, 5_000);
    assert_eq!(l.conn.readable(), 5_000);
}

#[test]
fn shld_31_text_beyond_a_gap_is_kept() {
    let mut l = Lone::established(plain());
    let data = bytes(5_000);
    for i in [4, 2, 1, 3] {
        let part = &data[i * 1_000..][..1_000];
        l.recv(text(i as i64 * 1_000, 0, part));
    }
    assert_eq!(l.conn.readable(), 0);
    let out = Lone::one(l.recv(text(0, 0, &data[..1_000])));
    assert_eq!(out.ack, 5_000);
    assert_eq!(l.read().0, data);
}

#[test]
fn may_13_out_of_order_text_is_acknowledged_at_once() {
    let config = TcpConfig {
        sack: true,
        ..delayed(MS * 200)
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).sack_ok());
    let out = Lone::one(l.recv(text(1_000, 0, &[1; 1_000])));
    assert_eq!(out.ack, 0);
    let block = SackBlock {
        start: IRS + 1_001,
        end: IRS + 2_001,
    };
    assert_eq!(out.tcp.options.sack.as_slice(), [block]);
}

// ---- Push.

/// Without a PUSH flag of the user's: nothing waits for ever.
#[test]
fn must_60_data_is_not_buffered_indefinitely() {
    let mut l = Lone::established(plain());
    assert_eq!(sent(&l.send(b"a")), 1);
    assert!(l.send(b"b").is_empty());
    // Held back by Nagle until the ACK.
    assert_eq!(sent(&l.recv(ack(0, 1))), 1);
    // A window too small for it, and nothing outstanding: until a timer.
    let mut l = with_window(300);
    l.send(&bytes(700));
    let mut all = 0;
    for _ in 0..20 {
        if all == 700 || l.conn.poll_timeout().is_none() {
            break;
        }
        all += sent(&l.next_timer());
        all += sent(&l.recv(ack(0, all as i64).win(300)));
    }
    assert!(all >= 600, "{all}");
}

#[test]
fn must_61_psh_is_on_the_last_segment_of_what_is_queued() {
    let mut l = Lone::established(plain());
    l.conn.set_nodelay(true);
    let out = l.send(&bytes(3_500));
    let psh: Vec<bool> = out.iter().map(|o| o.has(PSH)).collect();
    assert_eq!(psh, [false, false, false, true]);
    // As it is when sent again.
    let out = l.wait(SEC);
    for o in &out {
        assert_eq!(o.has(PSH), o.seq + o.data.len() as i64 == 3_500, "{o:?}");
    }
    l.recv(ack(0, 3_000));
    let last = Lone::one(l.next_timer());
    assert_eq!((last.seq, last.has(PSH)), (3_000, true));
}

/// What several calls gave leaves as one segment, pushed once.
#[test]
fn shld_27_successive_pushes_are_collapsed() {
    let mut l = Lone::established(plain());
    l.send(b"x");
    for _ in 0..9 {
        assert!(l.send(&bytes(100)).is_empty());
    }
    let out = Lone::one(l.recv(ack(0, 1)));
    assert_eq!(out.data.len(), 900);
    assert!(out.has(PSH));
}

#[test]
fn may_16_data_not_pushed_is_aggregated() {
    let mut l = Lone::established(plain());
    l.send(b"x");
    for _ in 0..30 {
        l.conn.send(&bytes(100), 100).unwrap();
    }
    let lens: Vec<usize> = l.settle().iter().map(|o| o.data.len()).collect();
    assert_eq!(lens, [1_000, 1_000, 1_000]);
}

#[test]
fn shld_28_segments_are_as_large_as_possible() {
    let mut l = Lone::established(plain());
    for n in [1, 2, 9] {
        l.conn.send(&bytes(n * 333), n * 333).unwrap();
    }
    let lens: Vec<usize> = l.settle().iter().map(|o| o.data.len()).collect();
    assert_eq!(lens, [1_000, 1_000, 1_000], "the rest waits");
}

// ---- Urgent data.

#[test]
fn must_30_urgent_data_is_supported_from_end_to_end() {
    let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
    p.client.send(&bytes(100), 100).unwrap();
    p.client.send_urgent(b"!", 1).unwrap();
    p.run_for(MS * 10);
    assert!(p.log.iter().any(|s| s.tcp.flags.contains(URG)));
    assert!(p.server_events.contains(&Event::Urgent));
    assert_eq!(p.server().urgent_offset(), Some(101));
    assert_eq!(p.server_got.len(), 101, "in line");
}

/// Longer than the pointer's 16 bits, and over many segments.
#[test]
fn must_31_urgent_data_may_be_of_any_length() {
    let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
    let data = bytes(200_000);
    p.client.send_urgent(&data, data.len()).unwrap();
    p.run_for(SEC);
    assert_eq!(p.server_got, data);
    assert_eq!(p.server().urgent_offset(), Some(200_000));
    for seen in p.log.iter().filter(|s| s.len > 0) {
        assert!(seen.tcp.flags.contains(URG), "{seen:?}");
    }
    // And over loss.
    let mut p = Pair::connected(TcpConfig::default(), TcpConfig::default());
    p.path = Box::new(|_, n| if n % 7 == 3 { Fate::Drop } else { Fate::Pass });
    p.client.send_urgent(&data, data.len()).unwrap();
    p.run_for(SEC * 60);
    assert_eq!(p.server_got, data);
    assert_eq!(p.server().urgent_offset(), Some(200_000));
}

/// At the first announcement, and whenever the pointer moves on; before the data is there.
#[test]
fn must_32_the_user_is_told_of_urgent_data_at_once() {
    let mut l = Lone::established(plain());
    l.recv(ack(0, 0).urgent(500));
    assert_eq!(l.events, [Event::Urgent], "no data has come yet");
    l.recv(ack(0, 0).urgent(500));
    assert_eq!(l.events.len(), 1, "the same pointer is no news");
    l.recv(ack(0, 0).urgent(600));
    assert_eq!(l.events, [Event::Urgent, Event::Urgent]);
    // Before what comes with it.
    let mut l = Lone::established(plain());
    l.recv(text(0, 0, b"!").urgent(1));
    assert_eq!(l.events, [Event::Urgent, Event::Readable]);
}

#[test]
fn must_33_the_user_can_learn_how_much_urgent_data_is_left() {
    let mut l = Lone::established(plain());
    assert_eq!(l.conn.urgent_offset(), None);
    l.recv(text(0, 0, &bytes(300)).urgent(500));
    let left = |l: &Lone| {
        let read = l.conn.readable_end() - l.conn.readable();
        l.conn.urgent_offset().unwrap().saturating_sub(read)
    };
    assert_eq!(left(&l), 500);
    l.read_n(200);
    assert_eq!(left(&l), 300);
    l.recv(text(300, 0, &bytes(300)));
    l.read();
    assert_eq!(left(&l), 0);
    // The pointer counts from where its segment begins, not from what has arrived before it.
    l.recv(text(1_600, 0, &bytes(100)).urgent(500));
    assert_eq!(left(&l), 1_500);
}

/// The pointer is the octet after the urgent data (RFC 6093 section 3.1).
#[test]
fn must_62_the_urgent_pointer_points_behind_the_urgent_data() {
    let mut l = Lone::established(plain());
    l.conn.send(&bytes(10), 10).unwrap();
    l.conn.send_urgent(b"!", 1).unwrap();
    let out = Lone::one(l.settle());
    assert!(out.has(URG));
    assert_eq!(out.seq + i64::from(out.tcp.urgent), 11);
}

/// Nothing in the stack sets URG on its own.
#[test]
fn shld_13_urg_is_set_only_where_the_user_asks() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.path = Box::new(|_, n| if n % 9 == 5 { Fate::Drop } else { Fate::Pass });
    p.run_for(SEC * 5);
    p.transfer(&bytes(50_000), SEC * 60);
    let now: Instant = p.now;
    p.client.close(now);
    p.server().close(now);
    p.run_for(SEC * 5);
    assert!(p.log.iter().any(|s| s.tcp.flags.contains(FIN)));
    assert!(p.log.iter().all(|s| !s.tcp.flags.contains(URG)));
}
