//! Flow control, text and acknowledgements: RFC 9293 sections 3.4, 3.7.4, 3.8 and 3.10.7.4.

use crate::pair::lone::{Lone, Out, ack, plain, seg, syn_ack, text};
use crate::pair::{Fate, Pair, bytes};
use narrows::config::{AckPolicy, Buffers, Lifetimes, SendBufferUse, TcpConfig};
use narrows::conn::Event;
use narrows::conn::flow_window::ReceiveWindow;
use narrows::conn::state::State;
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use narrows_congestion::ByteCount;
use std::sync::Arc;

const FIN: Flags = Flags::FIN;
const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);

fn with_window(field: u16) -> Lone {
    Lone::established_by(plain(), syn_ack().mss(1_000).win(field))
}
fn edge(out: &Out) -> i64 {
    out.ack + i64::from(out.tcp.window)
}
fn sent(out: &[Out]) -> usize {
    out.iter().map(|o| o.data.len()).sum()
}
fn unlimited() -> TcpConfig {
    TcpConfig {
        initial_window: narrows::config::InitialWindow::Segments(1_000),
        ..plain()
    }
}

// ---- The window we offer.

#[test]
fn the_window_closes_as_the_buffer_fills_and_opens_as_it_is_read() {
    let mut l = with_window(u16::MAX);
    for i in 0..20 {
        let out = Lone::one(l.recv(text(i * 1_000, 0, &[1; 1_000])));
        assert_eq!(edge(&out), 20_000);
    }
    // Closed: what comes is not taken, and answered.
    let out = Lone::one(l.recv(text(20_000, 0, b"x")));
    assert_eq!((out.ack, out.tcp.window), (20_000, 0));
    assert_eq!(l.conn.readable(), 20_000);
    let (got, out) = l.read();
    assert_eq!(got.len(), 20_000);
    let out = Lone::one(out);
    assert_eq!((out.ack, out.tcp.window), (20_000, 20_000), "the update");
}

/// RFC 9293 section 3.8.6.2.2.
#[test]
fn must_39_no_silly_windows_are_offered() {
    let mut l = with_window(u16::MAX);
    for i in 0..20 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    assert!(l.read_n(999).1.is_empty(), "less than a segment");
    let out = Lone::one(l.read_n(1).1);
    assert_eq!(out.tcp.window, 1_000);
    // Byte by byte, no more than an update a segment.
    let mut updates = 0;
    for _ in 0..19_000 {
        updates += l.read_n(1).1.len();
    }
    assert!((1..=19).contains(&updates), "{updates}");
}

#[test]
fn a_buffer_smaller_than_a_segment_works() {
    for size in [1, 2, 10, 999] {
        let config = TcpConfig {
            buffers: Buffers {
                recv: size,
                ..plain().buffers
            },
            ..plain()
        };
        let mut l = Lone::established(config);
        let mut at = 0;
        for _ in 0..10 {
            let data = bytes(size);
            let out = Lone::one(l.recv(text(at, 0, &data)));
            at += size as i64;
            assert_eq!((out.ack, edge(&out)), (at, at));
            let (got, out) = l.read();
            assert_eq!(got, data);
            assert_eq!(edge(out.last().expect("a window update")), at + size as i64);
        }
    }
}

#[test]
fn a_clamp_smaller_than_a_segment_does_not_wedge() {
    for clamp in [1, 400, 900, 1_500] {
        let config = TcpConfig {
            buffers: Buffers {
                window_clamp: Some(ByteCount::new(clamp)),
                ..plain().buffers
            },
            ..plain()
        };
        let mut p = Pair::connected(plain(), config);
        let data = bytes(5_000);
        p.transfer(&data, SEC * 300);
        assert!(p.server_got == data, "{clamp}: {}", p.server_got.len());
    }
}

/// RFC 7323 section 2.2: the scale is that of the largest window there will be, so that a clamp far
/// below the buffer can still be told. Below the unit of the buffer's own scale it was told as 0.
#[test]
fn rfc7323_2_2_a_clamp_below_a_unit_of_the_buffers_scale_does_not_wedge() {
    for (buffer, clamp) in [
        (1 << 20, 1),
        (1 << 20, 15),
        (1 << 20, 500),
        (1 << 28, 3_000),
    ] {
        let config = TcpConfig {
            buffers: Buffers {
                recv: buffer,
                window_clamp: Some(ByteCount::new(clamp)),
                ..Buffers::default()
            },
            ..TcpConfig::default()
        };
        assert_eq!(config.validate(), Ok(()));
        let mut p = Pair::connected(TcpConfig::default(), config);
        let data = bytes(200);
        p.transfer(&data, SEC * 300);
        assert!(p.server_got == data, "{clamp}: {}", p.server_got.len());
    }
}

/// The same of a policy that would offer less than can be told; zero is zero.
#[test]
fn a_policy_below_a_unit_of_the_scale_does_not_wedge() {
    #[derive(Debug)]
    struct Little(u64);
    impl ReceiveWindow for Little {
        fn limit(&mut self, _free: ByteCount, _now: Instant) -> ByteCount {
            ByteCount::new(self.0)
        }
    }
    for (limit, arrives) in [(1, true), (31, true), (100, true), (0, false)] {
        let config = TcpConfig {
            receive_window: Some(Arc::new(move || Box::new(Little(limit)))),
            ..TcpConfig::default()
        };
        let mut p = Pair::connected(TcpConfig::default(), config);
        let data = bytes(200);
        p.transfer(&data, SEC * 100);
        // Bytes that probe a closed window are taken by nobody.
        assert_eq!(
            p.server_got == data,
            arrives,
            "{limit}: {}",
            p.server_got.len()
        );
    }
}

/// Without scaling a buffer above 65,535 bytes cannot be offered whole; that is no reason for
/// updates.
#[test]
fn a_buffer_too_large_for_the_field_gives_no_updates() {
    let mut l = Lone::established(TcpConfig {
        buffers: Buffers {
            recv: 1 << 20,
            ..plain().buffers
        },
        ..plain()
    });
    for i in 0..10 {
        let out = Lone::one(l.recv(text(i * 100, 0, &[1; 100])));
        assert!(out.tcp.window > u16::MAX - 1_000);
        assert!(l.read().1.is_empty());
    }
}

#[test]
fn the_clamp_holds() {
    let config = TcpConfig {
        buffers: Buffers {
            window_clamp: Some(ByteCount::new(5_000)),
            ..plain().buffers
        },
        ..plain()
    };
    let (mut l, s) = Lone::syn_sent(config);
    assert_eq!(s.tcp.window, 5_000);
    l.recv(syn_ack());
    for i in 0..50 {
        let out = l.recv(text(i * 1_000, 0, &[1; 1_000]));
        assert!(out.iter().all(|o| o.tcp.window <= 5_000));
        l.read();
    }
}

/// A peer that sends odd bytes to a user who does not read must not be able to fill any amount
/// of memory through the rounding of the scaled window.
#[test]
fn rounding_of_a_scaled_window_does_not_grow_the_buffer() {
    let config = TcpConfig {
        window_scaling: true,
        buffers: Buffers {
            recv: 1 << 20,
            ..plain().buffers
        },
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).scale(0));
    let mut at = 0_i64;
    while at < (1 << 20) + 200 {
        let n = if at < (1 << 20) - 3_000 { 1_001 } else { 1 };
        l.recv(text(at, 0, &vec![1; n]));
        at = l.conn.readable_end() as i64;
        if l.conn.readable() >= 1 << 20 && l.recv(text(at, 0, b"x"))[0].tcp.window == 0 {
            break;
        }
    }
    assert!(l.conn.readable() < (1 << 20) + 32, "{}", l.conn.readable());
}

/// Where rounding up would go beyond the buffer, the window on the wire is rounded down and its edge
/// moves left by less than a granule. What was offered before is taken all the same.
#[test]
fn rfc7323_2_4_what_rounding_takes_back_is_still_accepted() {
    let config = TcpConfig {
        window_scaling: true,
        buffers: Buffers {
            recv: 100_000,
            ..plain().buffers
        },
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).scale(0));
    let edge = |out: &Out| out.ack + (i64::from(out.tcp.window) << 1);
    let offered = edge(&Lone::one(l.recv(text(0, 0, b"x"))));
    assert_eq!(offered, 100_001);
    assert_eq!(edge(&Lone::one(l.recv(text(1, 0, b"x")))), offered - 1);
    l.recv(text(offered - 1, 0, b"x"));
    assert_eq!(l.conn.stats().out_of_order_in, 1);
    // Beyond it nothing is.
    l.recv(text(offered, 0, b"x"));
    assert_eq!(l.conn.stats().out_of_order_in, 1);
    assert_eq!(l.conn.stats().unacceptable_in, 1);
}

/// What leaves for the first time lies in the window that was announced last, however large the
/// windows before it were.
#[test]
fn rfc7323_2_4_new_data_lies_in_the_window_announced_last() {
    for (window, new) in [
        (10_000, 10_000),
        (4_500, 4_000),
        (2_500, 2_000),
        (1_000, 1_000),
    ] {
        let mut l = Lone::established_by(unlimited(), syn_ack().mss(1_000).win(10_000));
        assert_eq!(sent(&l.send(&bytes(4_000))), 4_000);
        assert!(l.recv(ack(0, 0).win(window)).is_empty());
        // What is in flight may fill it.
        let room = (usize::from(window) / 1_000 * 1_000).saturating_sub(4_000);
        assert_eq!(sent(&l.send(&bytes(50_000))), room, "{window}");
        let out = l.recv(ack(0, 4_000 + room as i64).win(window));
        assert_eq!(sent(&out), new, "{window}");
        let edge = 4_000 + room as i64 + i64::from(window);
        assert!(out.iter().all(|o| o.seq + o.data.len() as i64 <= edge));
    }
}

#[test]
fn text_beyond_the_right_edge_is_cut() {
    let mut l = with_window(u16::MAX);
    for i in 0..19 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    let out = Lone::one(l.recv(text(19_000, 0, &[1; 1_500]).and(FIN)));
    assert_eq!((out.ack, out.tcp.window), (20_000, 0));
    assert_eq!(l.state(), State::Established, "the FIN lay beyond");
    // Wholly beyond: not acceptable.
    let out = Lone::one(l.recv(text(20_001, 0, b"x")));
    assert_eq!(out.ack, 20_000);
}

#[test]
fn must_66_acks_are_processed_with_a_closed_window() {
    let mut l = with_window(u16::MAX);
    for i in 0..20 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    l.send(&bytes(500));
    l.recv(ack(20_000, 500));
    assert_eq!(l.conn.unacknowledged(), 0);
    l.send(&bytes(500));
    let out = Lone::one(l.recv(text(20_000, 1_000, b"no room")));
    assert_eq!((out.ack, out.tcp.window), (20_000, 0));
    assert_eq!(l.conn.unacknowledged(), 0);
    assert_eq!(l.conn.readable(), 20_000);
}

#[test]
fn a_fin_is_taken_with_a_closed_window() {
    let mut l = with_window(u16::MAX);
    for i in 0..20 {
        l.recv(text(i * 1_000, 0, &[1; 1_000]));
    }
    assert_eq!(Lone::one(l.recv(ack(20_000, 0).and(FIN))).ack, 20_001);
    assert_eq!(l.state(), State::CloseWait);
}

// ---- Text.

#[test]
fn overlapping_and_repeated_text_in_every_order() {
    let data = bytes(60);
    let pieces: [(usize, usize); 7] = [
        (40, 60),
        (10, 30),
        (25, 45),
        (10, 30),
        (0, 5),
        (3, 12),
        (0, 60),
    ];
    // All rotations of the pieces, each ending with the whole.
    for turn in 0..6 {
        let mut l = with_window(u16::MAX);
        for i in 0..6 {
            let (a, b) = pieces[(i + turn) % 6];
            let out = Lone::one(l.recv(text(a as i64, 0, &data[a..b])));
            assert!(out.ack <= 60);
        }
        assert_eq!(Lone::one(l.recv(text(0, 0, &data))).ack, 60);
        assert_eq!(l.read().0, data);
    }
}

#[test]
fn the_first_copy_of_a_byte_counts() {
    let mut l = with_window(u16::MAX);
    l.recv(text(3, 0, b"def"));
    l.recv(text(0, 0, b"abcXYZ"));
    assert_eq!(l.read().0, b"abcdef");
    l.recv(text(0, 0, b"QQQQQQgh"));
    assert_eq!(l.read().0, b"gh");
}

#[test]
fn text_from_before_the_stream_is_trimmed() {
    let mut l = with_window(u16::MAX);
    assert_eq!(Lone::one(l.recv(text(-10, 0, b"0123456789hello"))).ack, 5);
    assert_eq!(l.read().0, b"hello");
    assert_eq!(Lone::one(l.recv(text(-1_000_000, 0, b"ancient"))).ack, 5);
    assert_eq!(Lone::one(l.recv(text(i64::from(i32::MIN), 0, b"x"))).ack, 5);
    assert_eq!(Lone::one(l.recv(text(i64::from(i32::MAX), 0, b"x"))).ack, 5);
    assert_eq!(l.conn.readable(), 0);
}

#[test]
fn out_of_order_text_is_acknowledged_at_once() {
    let delayed = AckPolicy {
        delay: MS * 40,
        every: 2,
        quick_acks: 0,
    };
    let mut l = Lone::established(TcpConfig {
        ack: delayed,
        ..plain()
    });
    assert_eq!(Lone::one(l.recv(text(5, 0, b"x"))).ack, 0);
    assert_eq!(Lone::one(l.recv(text(0, 0, b"x"))).ack, 1);
    assert_eq!(
        Lone::one(l.recv(text(1, 0, b"xxxx"))).ack,
        6,
        "filling a gap"
    );
    assert_eq!(Lone::one(l.recv(text(0, 0, b"x"))).ack, 6, "a duplicate");
}

#[test]
fn out_of_order_ranges_are_bounded() {
    let config = TcpConfig {
        buffers: Buffers {
            max_out_of_order_ranges: Some(4),
            ..plain().buffers
        },
        ..plain()
    };
    let mut l = Lone::established(config);
    for i in 1..=10 {
        assert_eq!(Lone::one(l.recv(text(i * 10, 0, b"x"))).ack, 0);
    }
    assert_eq!(l.conn.stats().out_of_order_dropped, 6);
    // Nothing is wrong with the stream when the peer sends it all again.
    assert_eq!(Lone::one(l.recv(text(0, 0, &bytes(200)))).ack, 200);
    let mut want = bytes(200);
    for i in 1..=4 {
        want[i * 10] = b'x';
    }
    assert_eq!(l.read().0, want);
}

/// Reading and writing across 2^32, which lies 20 bytes into the peer's stream and 5,000 into
/// ours.
#[test]
fn the_streams_cross_the_wrap() {
    let mut l = with_window(u16::MAX);
    let data = bytes(12_000);
    let (mut una, mut got) = (0, Vec::new());
    l.conn.send(&data, data.len()).unwrap();
    let mut out = l.settle();
    let mut all: Vec<u8> = Vec::new();
    while una < 12_000 {
        for o in &out {
            assert_eq!(o.seq as usize, all.len());
            all.extend_from_slice(&o.data);
        }
        una = all.len() as i64;
        let at = got.len();
        out = l.recv(text(at as i64, una, &data[at..at + 7]));
        got.extend(l.read().0);
        out.retain(|o| !o.data.is_empty());
    }
    assert!(all == data);
    assert!(got == data[..got.len()]);
}

// ---- Acknowledgements.

#[test]
fn must_40_delayed_acks() {
    let delayed = AckPolicy {
        delay: MS * 40,
        every: 2,
        quick_acks: 0,
    };
    let mut l = Lone::established(TcpConfig {
        ack: delayed,
        ..plain()
    });
    assert!(l.recv(text(0, 0, &[1; 1_000])).is_empty());
    assert!(l.wait(MS * 39).is_empty());
    assert_eq!(Lone::one(l.wait(MS)).ack, 1_000, "the timer");
    assert_eq!(l.conn.poll_timeout(), None);
    for i in 0..10 {
        assert!(l.recv(text(1_000 + i * 2_000, 0, &[1; 1_000])).is_empty());
        assert_eq!(
            Lone::one(l.recv(text(2_000 + i * 2_000, 0, &[1; 1_000]))).ack,
            3_000 + i * 2_000
        );
        l.read();
    }
    assert_eq!(l.conn.poll_timeout(), None, "the timer does not run on");
}

#[test]
fn a_delayed_ack_rides_on_data() {
    let delayed = AckPolicy {
        delay: MS * 40,
        every: 2,
        quick_acks: 0,
    };
    let mut l = Lone::established(TcpConfig {
        ack: delayed,
        ..plain()
    });
    assert!(l.recv(text(0, 0, b"ask")).is_empty());
    let out = Lone::one(l.send(b"answer"));
    assert_eq!((out.ack, out.data.len()), (3, 6));
    l.recv(ack(3, 6));
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn quick_acks_at_the_start() {
    let policy = AckPolicy {
        delay: MS * 40,
        every: 2,
        quick_acks: 3,
    };
    let mut l = Lone::established(TcpConfig {
        ack: policy,
        ..plain()
    });
    for i in 0..3 {
        assert_eq!(l.recv(text(i, 0, b"x")).len(), 1);
    }
    assert!(l.recv(text(3, 0, b"x")).is_empty());
    l.wait(SEC);
    assert_eq!(l.recv(text(4, 0, b"x")).len(), 1, "and after idling");
}

#[test]
fn a_fin_is_acknowledged_at_once() {
    let delayed = AckPolicy {
        delay: MS * 40,
        every: 2,
        quick_acks: 0,
    };
    let mut l = Lone::established(TcpConfig {
        ack: delayed,
        ..plain()
    });
    assert_eq!(Lone::one(l.recv(text(0, 0, b"x").and(FIN))).ack, 2);
}

#[test]
fn an_old_ack_does_nothing_but_its_text_counts() {
    let mut l = with_window(10_000);
    l.send(&bytes(3_000));
    l.recv(ack(0, 3_000).win(9_000));
    let out = Lone::one(l.recv(text(0, 1_000, b"late").win(5)));
    assert_eq!(out.ack, 4);
    assert_eq!(l.conn.peer_window(), 9_000, "its window is old too");
    assert!(l.conn.sender().is_idle());
}

#[test]
fn an_ack_of_unsent_data_is_challenged() {
    let mut l = with_window(10_000);
    l.send(&bytes(100));
    let out = Lone::one(l.recv(ack(0, 101)));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, l.conn.unacknowledged()), (100, 100));
}

// ---- The window we are offered.

#[test]
fn nothing_leaves_beyond_the_peers_window() {
    for w in [1, 2, 999, 1_000, 1_001, 2_500, 10_000] {
        let mut l = Lone::established_by(unlimited(), syn_ack().mss(1_000).win(w));
        let mut out = l.send(&bytes(50_000));
        out.extend(l.wait(MS * 100));
        assert!(
            out.iter()
                .all(|o| o.seq + o.data.len() as i64 <= i64::from(w)),
            "{w}"
        );
        if w >= 1_000 {
            assert_eq!(
                sent(&out),
                usize::from(w) / 1_000 * 1_000,
                "{w}: whole segments"
            );
        }
    }
}

#[test]
fn a_window_of_one_byte_moves_the_stream() {
    let mut l = Lone::established_by(plain(), syn_ack().mss(1_000).win(1));
    let data = bytes(20);
    let mut got = l
        .send(&data)
        .iter()
        .flat_map(|o| o.data.clone())
        .collect::<Vec<_>>();
    for _ in 0..100 {
        let out = l.recv(ack(0, got.len() as i64).win(1));
        got.extend(out.iter().flat_map(|o| o.data.clone()));
        if out.is_empty() && got.len() < data.len() {
            for o in l.wait(SEC * 5) {
                if o.seq as usize == got.len() {
                    got.extend(o.data);
                }
            }
        }
    }
    assert_eq!(got, data);
}

#[test]
fn the_window_update_takes_the_newest_segment() {
    let mut l = with_window(10_000);
    l.recv(text(0, 0, b"x").win(8_000));
    // Reordered: older by sequence number.
    l.recv(ack(0, 0).win(3_000));
    assert_eq!(l.conn.peer_window(), 8_000);
    l.recv(ack(1, 0).win(2_000));
    assert_eq!(
        l.conn.peer_window(),
        2_000,
        "same place: the later one counts"
    );
}

#[test]
fn must_34_a_shrunken_window_is_survived() {
    let mut l = Lone::established_by(unlimited(), syn_ack().mss(1_000).win(10_000));
    assert_eq!(sent(&l.send(&bytes(20_000))), 10_000);
    // The right edge moves left, over what is in flight.
    assert!(l.recv(ack(0, 2_000).win(3_000)).is_empty());
    assert!(l.recv(ack(0, 5_000).win(0)).is_empty());
    // What is outstanding may be sent again; nothing new.
    let out = l.wait(SEC * 20);
    assert!(!out.is_empty());
    assert!(
        out.iter().all(|o| o.seq + o.data.len() as i64 <= 10_000),
        "{out:#?}"
    );
    assert_eq!(l.state(), State::Established);
    // It opens again.
    let out = l.recv(ack(0, 10_000).win(10_000));
    assert_eq!((out[0].seq, sent(&out)), (10_000, 10_000));
}

// ---- Zero window.

#[test]
fn must_35_a_closed_window_is_probed_with_backoff() {
    let config = TcpConfig {
        sack: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).win(2_000).sack_ok());
    let data = bytes(5_000);
    assert_eq!(sent(&l.send(&data)), 2_000);
    assert!(l.recv(ack(0, 2_000).win(0)).is_empty());
    let begin = l.now;
    let mut at = Vec::new();
    for _ in 0..8 {
        let out = Lone::one(l.next_timer());
        assert_eq!(
            (out.seq, &out.data[..]),
            (2_000, &data[2_000..2_001]),
            "one byte of new data"
        );
        at.push(l.now.since(begin));
        assert!(l.recv(ack(0, 2_000).win(0)).is_empty());
    }
    assert!(at[0] >= MS * 100 && at[0] <= SEC, "{at:?}");
    for w in at.windows(3) {
        let (a, b) = (w[1] - w[0], w[2] - w[1]);
        assert!(b > a + a / 2 || b >= SEC * 60, "exponential: {at:?}");
    }
    // The window opens.
    let out = l.recv(ack(0, 2_000).win(10_000));
    assert!(sent(&out) >= 2_000, "{out:#?}");
}

/// When the window opens the byte that probed it does not wait for its backed-off timer, nor
/// the rest for the byte, whatever was said and done before.
#[test]
fn an_opening_window_is_used_at_once() {
    for sack in [false, true] {
        for timeouts in 0..8 {
            let mut l = Lone::established_by(
                TcpConfig { sack, ..plain() },
                if sack {
                    syn_ack().mss(1_000).win(0).sack_ok()
                } else {
                    syn_ack().mss(1_000).win(0)
                },
            );
            let data = bytes(300);
            l.send(&data);
            for _ in 0..timeouts {
                l.next_timer();
                if timeouts % 2 == 1 {
                    l.recv(ack(0, 0).win(0));
                }
            }
            let mut got: Vec<u8> = Vec::new();
            let mut out = l.recv(ack(0, 0).win(5_000));
            for _ in 0..3 {
                for o in out {
                    assert!(o.seq as usize <= got.len());
                    got.extend(&o.data[got.len() - o.seq as usize..]);
                }
                out = l.recv(ack(0, got.len() as i64).win(5_000));
            }
            assert_eq!(got, data, "sack {sack}, {timeouts} timeouts");
            assert_eq!(l.conn.poll_timeout(), None);
        }
    }
}

/// RFC 9293 MUST-37: as long as the probes are answered, for days.
#[test]
fn must_37_an_answered_probe_keeps_the_connection() {
    let mut l = Lone::established_by(
        TcpConfig {
            lifetimes: Lifetimes {
                data_retries: 3,
                data_retry_time: Duration::ZERO,
                ..plain().lifetimes
            },
            ..plain()
        },
        syn_ack().mss(1_000).win(0),
    );
    l.send(&bytes(10));
    for i in 0..200 {
        let out = l.next_timer();
        assert_eq!(sent(&out), 1, "{i}");
        l.recv(ack(0, 0).win(0));
        assert_eq!(l.state(), State::Established, "{i}");
    }
    let out = l.recv(ack(0, 1).win(100));
    assert_eq!(sent(&out), 9);
}

#[test]
fn unanswered_probes_end_it() {
    let mut l = Lone::established_by(
        TcpConfig {
            lifetimes: Lifetimes {
                data_retries: 3,
                data_retry_time: Duration::ZERO,
                ..plain().lifetimes
            },
            ..plain()
        },
        syn_ack().mss(1_000).win(0),
    );
    l.send(&bytes(10));
    let out = l.wait(SEC * 1_000);
    assert!((3..=5).contains(&out.len()), "{}", out.len());
    assert!(matches!(l.state(), State::Closed(_)));
}

#[test]
fn the_probe_byte_that_was_taken_is_acknowledged() {
    let mut l = Lone::established_by(plain(), syn_ack().mss(1_000).win(0));
    l.send(b"hello");
    assert_eq!(sent(&l.next_timer()), 1);
    assert!(l.recv(ack(0, 1).win(0)).is_empty());
    let out = Lone::one(l.next_timer());
    assert_eq!((out.seq, &out.data[..]), (1, &b"e"[..]));
}

/// The update that opens the window is lost; the probe finds out.
#[test]
fn a_lost_window_update_is_made_up_for() {
    let slow = TcpConfig {
        buffers: Buffers {
            recv: 10_000,
            ..Buffers::default()
        },
        ..TcpConfig::default()
    };
    let mut p = Pair::connected(TcpConfig::default(), slow);
    p.reads = false;
    let data = bytes(30_000);
    p.client.send(&data, data.len()).unwrap();
    p.run_for(SEC * 10);
    assert_eq!(p.server().readable(), 10_000);
    // All that the server says for the next moment is lost, then it reads.
    let until = p.now + MS * 10;
    p.path = Box::new(move |s, _| {
        if !s.from_client && s.at < until {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    p.reads = true;
    p.run_for(SEC * 200);
    assert!(p.server_got == data, "{}", p.server_got.len());
}

/// A reader slower than the sender, on every kind of connection: the stream arrives.
#[test]
fn a_slow_reader_gets_everything() {
    for (scaling, buffer) in [
        (true, 100_000),
        (false, 3_000),
        (false, 1_460),
        (false, 500),
        (true, 1),
    ] {
        let slow = TcpConfig {
            window_scaling: scaling,
            buffers: Buffers {
                recv: buffer,
                ..Buffers::default()
            },
            ..TcpConfig::default()
        };
        let mut p = Pair::connected(TcpConfig::default(), slow);
        p.reads = false;
        let data = bytes(if buffer < 100 { 50 } else { 20_000 });
        p.client.send(&data, data.len()).unwrap();
        for _ in 0..3_000 {
            p.run_for(MS * 100);
            let now = p.now;
            let server = p.server();
            let n = server.readable().min(900);
            let start = server.readable_end() - server.readable();
            let view: Vec<u8> = server.recv_buffer().peek(start + n).iter().collect();
            server.consume(n, now);
            p.server_got.extend(view);
            if p.server_got.len() == data.len() {
                break;
            }
        }
        assert!(p.server_got == data, "{buffer}: {}", p.server_got.len());
    }
}

// ---- Nagle and silly windows at the sender.

#[test]
fn nagle_holds_back_while_something_is_outstanding() {
    let mut l = with_window(u16::MAX);
    assert_eq!(sent(&l.send(&bytes(10))), 10, "nothing outstanding");
    assert!(l.send(&bytes(10)).is_empty());
    assert!(l.send(&bytes(500)).is_empty());
    let out = l.send(&bytes(800));
    assert_eq!(sent(&out), 1_000, "a full segment is not held back");
    assert_eq!(sent(&l.recv(ack(0, 1_010))), 310);
}

#[test]
fn without_nagle_everything_leaves() {
    let mut l = with_window(u16::MAX);
    l.conn.set_nodelay(true);
    for _ in 0..5 {
        assert_eq!(sent(&l.send(&bytes(10))), 10);
    }
    l.conn.set_nodelay(false);
    assert!(l.send(&bytes(10)).is_empty());
    l.conn.set_nodelay(true);
    assert_eq!(sent(&l.settle()), 10);
}

#[test]
fn nagle_does_not_hold_back_the_fin() {
    let mut l = with_window(u16::MAX);
    l.send(&bytes(10));
    assert!(l.send(&bytes(10)).is_empty());
    let out = Lone::one(l.close());
    assert!(out.has(FIN) && out.data.len() == 10);
}

/// RFC 9293 section 3.8.6.2.1.
#[test]
fn must_38_no_silly_segments_are_sent() {
    let mut l = with_window(10_000);
    l.send(&bytes(20_000));
    // All acknowledged, 300 bytes of window: less than a segment and than half the largest.
    assert!(l.recv(ack(0, 10_000).win(300)).is_empty());
    // Not for ever.
    let out = l.wait(SEC);
    assert_eq!(sent(&out[..1]), 300, "the override timeout");
}

#[test]
fn half_the_largest_window_is_not_silly() {
    let mut l = with_window(800);
    let out = l.send(&bytes(5_000));
    assert_eq!(sent(&out), 800);
    assert_eq!(sent(&l.recv(ack(0, 800).win(400))), 400);
    assert_eq!(sent(&l.recv(ack(0, 1_200).win(399))), 0);
}

// ---- PSH and urgent data.

#[test]
fn must_60_psh_on_the_last_segment() {
    let mut l = with_window(u16::MAX);
    let out = l.send(&bytes(2_500));
    let psh: Vec<bool> = out.iter().map(|o| o.has(Flags::PSH)).collect();
    assert_eq!(psh, [false, false], "Nagle holds back the rest");
    assert!(Lone::one(l.recv(ack(0, 2_000))).has(Flags::PSH));
}

#[test]
fn urgent_data_sent() {
    let mut l = with_window(u16::MAX);
    l.conn.send(&bytes(1_500), 1_500).unwrap();
    l.conn.send_urgent(b"!", 1).unwrap();
    let out = l.settle();
    assert_eq!(out.len(), 2);
    for o in &out {
        assert!(o.has(Flags::URG));
        assert_eq!(
            o.seq + i64::from(o.tcp.urgent),
            1_501,
            "what follows the urgent data"
        );
    }
    l.recv(ack(0, 1_501));
    assert!(!Lone::one(l.send(b"calm")).has(Flags::URG));
}

#[test]
fn urgent_data_is_not_held_back() {
    let mut l = with_window(u16::MAX);
    l.send(b"x");
    l.conn.send_urgent(b"!", 1).unwrap();
    assert_eq!(sent(&l.settle()), 1);
}

#[test]
fn must_30_urgent_data_received() {
    let mut l = with_window(u16::MAX);
    l.recv(text(0, 0, b"abc").urgent(10));
    assert_eq!(l.events, [Event::Urgent, Event::Readable]);
    assert_eq!(l.conn.urgent_offset(), Some(10));
    // Only further ahead counts.
    l.events.clear();
    l.recv(text(3, 0, b"def").urgent(2));
    l.recv(text(6, 0, b"ghi").urgent(4));
    assert_eq!(
        (l.conn.urgent_offset(), &l.events[..]),
        (Some(10), &[Event::Readable, Event::Readable][..])
    );
    l.recv(text(9, 0, b"j").urgent(u16::MAX));
    assert_eq!(l.conn.urgent_offset(), Some(9 + 65_535));
    l.recv(text(10, 0, b"k").urgent(0));
    assert_eq!(
        l.read().0,
        b"abcdefghijk",
        "urgent data stays in line (RFC 6093)"
    );
}

#[test]
fn hostile_urgent_pointers() {
    let mut l = with_window(u16::MAX);
    l.recv(text(-5, 0, b"x").urgent(u16::MAX));
    l.recv(ack(0, 0).urgent(0));
    l.recv(seg(Flags::ACK | FIN, 0, 0).urgent(u16::MAX));
    l.recv(ack(1, 0).urgent(7));
    assert_eq!(l.state(), State::CloseWait);
}

// ---- The user's side.

#[test]
fn a_full_send_buffer_says_when_there_is_room() {
    let config = TcpConfig {
        buffers: Buffers {
            send: 3_000,
            ..plain().buffers
        },
        ..plain()
    };
    let mut l = Lone::established(config);
    assert_eq!(l.conn.send(&bytes(5_000), 5_000), Ok(3_000));
    assert_eq!(l.conn.send(b"x", 1), Ok(0));
    l.settle();
    assert!(l.events.is_empty());
    l.recv(ack(0, 1_000));
    assert_eq!(l.events, [Event::Writable]);
    assert_eq!(l.conn.send_room(), 1_000);
    l.recv(ack(0, 3_000));
    assert_eq!(l.events, [Event::Writable], "once");
}

/// What is written far ahead of the window would only wait. The whole arrives nevertheless, the
/// user being told of room each time; and all of the buffer is used once somebody sets its size.
#[test]
fn a_send_buffer_used_by_flight_holds_little_that_is_unsent() {
    const ALL: usize = 3_000_000;
    let config = TcpConfig {
        buffers: Buffers {
            send_use: SendBufferUse::ByFlight,
            ..plain().buffers
        },
        window_scaling: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).scale(7));
    let (mut written, mut acked, mut most) = (0, 0, 0);
    l.events.push(Event::Writable);
    while acked < ALL as u64 {
        if std::mem::take(&mut l.events).contains(&Event::Writable) {
            let left = ALL - written;
            written += l.conn.send(&bytes(left), left).unwrap();
            l.settle();
        }
        let unsent = l.conn.unsent();
        let flight = l.conn.unacknowledged() - unsent;
        assert!(
            flight > 0,
            "{written} written, {acked} acknowledged: nothing leaves"
        );
        assert!(unsent <= 128 << 10 || unsent <= flight);
        most = most.max(flight);
        acked += flight.min(2_000);
        l.recv(ack(0, acked as i64).win(u16::MAX));
    }
    assert!(most > 300_000, "the window opened to {most} only");
    l.conn.set_send_buffer(1 << 20);
    assert_eq!(l.conn.send(&bytes(ALL), ALL), Ok(1 << 20));
}

#[test]
fn consuming_more_than_there_is_takes_what_there_is() {
    let mut l = with_window(u16::MAX);
    l.recv(text(0, 0, b"abc"));
    l.conn.consume(u64::MAX, l.now);
    assert_eq!(l.conn.readable(), 0);
    assert_eq!(Lone::one(l.recv(text(3, 0, b"d"))).ack, 4);
}
