//! Attacks, one after the other: what the attacker can do, and where the limit lies.
//! docs/RELIABILITY.md lists them all, with the tests of other files.

use crate::hosts;
use crate::hosts::{addr, config, drain, give, packet, read, shake, start, write};
use crate::lab::{Lab, MSS, congestion, ms, textbook};
use crate::pair::bytes;
use crate::pair::lone::{Lone, ack, plain, seg, syn_ack, text};
use narrows::Duration;
use narrows::config::{Buffers, Lifetimes, TcpConfig, TimestampMode};
use narrows::congestion::CongestionControl;
use narrows::conn::state::{CloseReason, State};
use narrows::endpoint::EndpointEvent;
use narrows::rng::Rng;
use narrows::wire::Flags;
use std::collections::BTreeSet;

const ACK: Flags = Flags::ACK;
const FIN: Flags = Flags::FIN;
const RST: Flags = Flags::RST;
const SYN: Flags = Flags::SYN;

// ---- Blind injection (RFC 4953, RFC 5961).

/// A hundred thousand guesses by somebody who knows both addresses and ports: the connection
/// stands and no forged byte is taken. What occupies sequence space is answered with an ACK each,
/// as it may be a retransmission; everything else is challenged ten times at most.
#[test]
fn rfc4953_a_blind_attacker_gains_nothing_by_guessing() {
    let (mut host, _) = hosts::server();
    let nxt = shake(&mut host, start(), hosts::C, 1_000_000);
    let Some(EndpointEvent::Accepted { conn: id, .. }) = host.poll_event() else {
        panic!("not accepted");
    };
    let mut rng = Rng::new(7);
    let mut challenges = 0;
    for i in 0..100_000_u32 {
        // Not the right ones: those that stand for the one in 2^32 are tested in `reset`.
        let guess = |n: u64, right: u32| {
            if n as u32 == right {
                right + 1
            } else {
                n as u32
            }
        };
        let seq = guess(rng.next_u64(), 1_000_001);
        let flags = [RST, RST | ACK, SYN, SYN | ACK, ACK, ACK | FIN][i as usize % 6];
        let mut forged = packet(hosts::C, hosts::S, flags, seq, rng.next_u64() as u32);
        if flags == ACK {
            forged.2 = vec![b'!'; 1_400];
        }
        // The window's RSTs and ACKs of what was sent are guessed right at times.
        let at = start() + Duration::from_micros(u64::from(i));
        let out = give(&mut host, at, &forged);
        assert!(out.iter().all(|p| p.1.flags == ACK && p.2.is_empty()));
        let occupies = flags == ACK || flags == ACK | FIN;
        assert!(out.len() <= 1);
        challenges += if occupies { 0 } else { out.len() };
    }
    assert!(challenges <= 10, "{challenges} in a tenth of a second");
    let conn = host.connection(id).unwrap();
    assert_eq!((conn.state(), conn.readable()), (State::Established, 0));
    let now = start() + Duration::from_secs(1);
    let mut genuine = packet(hosts::C, hosts::S, ACK, 1_000_001, nxt);
    genuine.2 = b"genuine".to_vec();
    give(&mut host, now, &genuine);
    assert_eq!(read(&mut host, id, now), b"genuine");
}

/// A SYN that says it comes from the very port that it goes to (the "land" attack).
#[test]
fn a_syn_from_our_own_port_starts_no_loop() {
    let (mut host, _) = hosts::server();
    let mut packets = vec![packet(hosts::S, hosts::S, SYN, 1, 0)];
    for round in 0..100 {
        let p = packets.pop();
        let Some(p) = p else {
            break;
        };
        packets.extend(give(&mut host, start(), &p));
        assert!(round < 20 && packets.len() < 10, "{packets:?}");
    }
    assert!(host.connections() <= 1);
}

// ---- Acknowledgements that lie.

/// RFC 5961 section 5.2: queued is not sent.
#[test]
fn an_ack_of_queued_but_unsent_data_is_challenged_and_frees_nothing() {
    let mut l = Lone::established_by(plain(), syn_ack().mss(1_000).win(3_000));
    let sent = l.send(&bytes(20_000));
    assert_eq!(sent.len(), 3);
    let room = l.conn.send_room();
    for lie in [3_001, 4_000, 20_000, 20_001] {
        let out = Lone::one(l.recv(ack(0, lie)));
        assert!(out.is_pure_ack(), "{lie}");
        assert_eq!(l.conn.sender().una(), 1, "{lie}");
        assert_eq!(l.conn.send_room(), room, "{lie}");
    }
    // What is true counts as ever.
    l.recv(ack(0, 3_000).win(3_000));
    assert_eq!(l.conn.sender().una(), 3_001);
}

/// What the acknowledgements of `n` segments in pieces of `piece` bytes make of cwnd.
fn grown(control: &str, piece: u64) -> u64 {
    let config = TcpConfig {
        buffers: Buffers {
            send: 1 << 28,
            ..congestion(textbook("sack"), control).buffers
        },
        ..congestion(textbook("sack"), control)
    };
    let mut lab = Lab::connected(config, ms(100));
    lab.write(100);
    lab.wait(ms(100));
    let begin = lab.conn.sender().congestion().cwnd().get();
    let mut at = 0;
    while at < 10 * MSS {
        at = (at + piece).min(10 * MSS);
        // There is always more to send: the window is used.
        lab.ack_now(at, &[], Flags::NONE);
    }
    lab.conn.sender().congestion().cwnd().get() - begin
}

/// RFC 3465 section 2.1: growth counts bytes, so a thousand ACKs of a byte each are worth one of
/// a thousand bytes.
#[test]
fn rfc3465_ack_division_gains_nothing() {
    for control in ["reno", "cubic:slow-start=standard", "dctcp"] {
        let honest = grown(control, MSS);
        assert!(honest > 0 && honest <= 10 * MSS, "{control}: {honest}");
        for piece in [1, 7, 100, MSS / 2] {
            let gained = grown(control, piece);
            assert!(
                gained <= honest + MSS,
                "{control}: {gained} by pieces of {piece}, {honest} honestly"
            );
        }
    }
}

/// ACKs of what is still on its way cannot be told from those of what has arrived. What they gain
/// is bounded: two segments an ACK (RFC 3465), the peer's own window, and never by a number that
/// was not sent.
#[test]
fn optimistic_acks_gain_what_was_sent_and_no_more() {
    let mut lab = Lab::connected(textbook("sack"), ms(100));
    lab.window = 100 * MSS;
    lab.write(400);
    let mut acks = 0;
    let begin = lab.cwnd();
    loop {
        let sender = lab.conn.sender();
        let (una, nxt) = (sender.una() - 1, sender.nxt() - 1);
        if una == nxt {
            break;
        }
        assert!(nxt - una <= lab.window, "beyond the peer's window");
        let before = lab.cwnd();
        // A guess beyond what was sent gains nothing at all.
        lab.ack_now(nxt + MSS, &[], Flags::NONE);
        assert_eq!((lab.cwnd(), lab.conn.sender().una() - 1), (before, una));
        // All that was sent, without a round trip.
        lab.ack_now(nxt, &[], Flags::NONE);
        acks += 1;
        assert!(lab.cwnd() <= before + 2, "{} -> {}", before, lab.cwnd());
    }
    assert!(lab.cwnd() <= begin + 2 * acks);
}

/// With SACK duplicate ACKs say nothing. Without it each stands for a segment that has left
/// (RFC 5681 section 3.2): one leaves for each, within the peer's own window, and the congestion
/// window does not grow.
#[test]
fn spoofed_duplicate_acks_let_out_a_segment_each_at_most() {
    for detector in ["sack", "rack", "newreno"] {
        let mut lab = Lab::connected(textbook(detector), ms(100));
        lab.window = 100 * MSS;
        lab.ack(0);
        lab.write(200);
        let begin = lab.conn.sender().nxt();
        let mut acks = 0;
        for _ in 0..10_000 {
            let before = lab.conn.sender().nxt();
            lab.ack(0);
            acks += 1;
            // Limited transmit and the third one let out two.
            let now = lab.conn.sender().nxt();
            assert!(
                now - before <= 2 * MSS,
                "{detector}: {} at once",
                now - before
            );
            assert!(now - begin <= acks * MSS + 2 * MSS, "{detector}");
        }
        let outstanding = lab.conn.sender().nxt() - lab.conn.sender().una();
        let most = match detector {
            "newreno" => 100 * MSS,
            _ => 12 * MSS,
        };
        assert!(outstanding <= most, "{detector}: {outstanding}");
        assert!(lab.cwnd() <= 12, "{detector}: {}", lab.cwnd());
    }
}

// ---- SACK that lies.

/// All is SACKed and nothing is acknowledged: data is kept, retransmitted after timeouts, and
/// given up when it is time.
#[test]
fn a_peer_that_sacks_all_and_acknowledges_nothing_is_given_up() {
    for detector in ["sack", "rack"] {
        let mut lab = Lab::connected(textbook(detector), ms(100));
        lab.write(20);
        let mut packets = 0;
        let begin = lab.now;
        for _ in 0..5_000 {
            let nxt = (lab.conn.sender().nxt() - 1) / MSS;
            packets += lab.sack(0, &[(1, nxt.max(2))]).len();
            packets += lab.wait(ms(500)).len();
            if matches!(lab.conn.state(), State::Closed(_)) {
                break;
            }
        }
        assert_eq!(
            lab.conn.state(),
            State::Closed(CloseReason::TimedOut),
            "{detector}"
        );
        assert!(lab.now.since(begin) > Duration::from_secs(100));
        assert!(packets < 200, "{detector}: {packets} packets");
    }
}

/// Ten thousand SACK options with four made-up ranges each cost no memory: a range that is not of
/// what was sent is not kept, and one that is marks segments that are kept anyway.
#[test]
fn a_storm_of_sack_ranges_keeps_the_scoreboard_as_long_as_what_was_sent() {
    let mut lab = Lab::connected(textbook("rack"), ms(100));
    lab.write(10);
    let segments = lab.conn.sender().scoreboard().len();
    let mut rng = Rng::new(3);
    let (una, nxt) = (lab.conn.sender().una() - 1, lab.conn.sender().nxt() - 1);
    for _ in 0..10_000 {
        let mut block = || {
            let a = una + rng.next_u64() % (2 * (nxt - una));
            (a, a + 1 + rng.next_u64() % 5_000)
        };
        let blocks = [block(), block(), block(), block()];
        lab.ack_now(0, &blocks, Flags::NONE);
        lab.conn.sender().scoreboard().check_invariants();
    }
    // A range that ends inside a segment does not cut it.
    let more = (lab.conn.sender().nxt() - 1 - nxt) / MSS;
    let now = lab.conn.sender().scoreboard().len();
    assert_eq!(now, segments + more as usize);
}

// ---- Windows.

/// A peer that takes nothing and answers each probe may keep us for ever by RFC 9293, unless the
/// user says for how long (RFC 5482; RFC 9293 section 3.9.1).
#[test]
fn a_zero_window_that_stays_is_ended_by_the_user_timeout() {
    let limit = Duration::from_secs(60);
    let mut l = Lone::established_by(
        TcpConfig {
            lifetimes: Lifetimes {
                user_timeout: Some(limit),
                ..plain().lifetimes
            },
            ..plain()
        },
        syn_ack().mss(1_000).win(2_000),
    );
    l.send(&bytes(10_000));
    l.recv(ack(0, 2_000).win(0));
    let begin = l.now;
    while l.state() == State::Established && l.now.since(begin) < limit * 10 {
        let out = l.next_timer();
        if out.iter().any(|o| !o.has(RST)) {
            l.recv(ack(0, 2_000).win(0));
        }
    }
    assert_eq!(l.state(), State::Closed(CloseReason::UserTimeout));
    let lasted = l.now.since(begin);
    assert!(lasted >= limit && lasted < limit * 2, "{lasted:?}");
}

/// The same where the peer lets a byte through now and then: that is progress, and is waited for.
#[test]
fn a_trickle_is_progress() {
    let limit = Duration::from_secs(60);
    let mut l = Lone::established_by(
        TcpConfig {
            lifetimes: Lifetimes {
                user_timeout: Some(limit),
                ..plain().lifetimes
            },
            ..plain()
        },
        syn_ack().mss(1_000).win(2_000),
    );
    l.send(&bytes(10_000));
    l.recv(ack(0, 2_000).win(0));
    let begin = l.now;
    let mut at = 2_000;
    while l.now.since(begin) < limit * 5 {
        for o in l.next_timer() {
            if !o.data.is_empty() {
                at = at.max(o.seq + 1);
            }
        }
        l.recv(ack(0, at).win(0));
        assert_eq!(l.state(), State::Established);
    }
    assert!(at > 2_005);
}

// ---- Memory.

/// One byte in every other place of the window, again and again: memory is the window, rounded up
/// to a power of two, and the ranges admitted.
#[test]
fn out_of_order_bytes_take_the_window_and_no_more() {
    for (buffer, ranges) in [(20_000, 4), (60_000, 256), (60_000, 65_536)] {
        let mut l = Lone::established(TcpConfig {
            buffers: Buffers {
                recv: buffer,
                max_out_of_order_ranges: Some(ranges),
                ..plain().buffers
            },
            ..plain()
        });
        let mut worst = 0;
        for round in 0..2 {
            let mut at = 1 + round;
            while at < buffer as i64 + 5_000 {
                l.recv(text(at, 0, b"x"));
                worst = worst.max(l.conn.recv_buffer().memory());
                at += 2;
            }
        }
        assert!(worst <= buffer.next_power_of_two(), "{worst} of {buffer}");
        // The rest closes the gaps, and all is read.
        let mut next = 0;
        while next < buffer as i64 {
            let step = 1_000.min(buffer as i64 - next);
            next = Lone::one(l.recv(text(next, 0, &vec![b'x'; step as usize]))).ack;
        }
        let dropped = l.conn.stats().out_of_order_dropped;
        assert!(ranges >= buffer || dropped > 0, "{ranges} ranges");
        assert_eq!(l.read().0, vec![b'x'; buffer]);
    }
}

/// A window filled byte by byte costs a window: segments are not kept, bytes are.
#[test]
fn tiny_segments_cost_their_bytes_only() {
    let mut l = Lone::established(plain());
    for at in 0..20_000 {
        let out = l.recv(text(at, 0, b"x"));
        assert!(out.len() <= 1);
    }
    assert_eq!(l.conn.readable(), 20_000);
    assert_eq!(l.conn.recv_buffer().memory(), 32_768);
}

// ---- Rewriting.

/// Whatever overlaps with whatever: the first copy of each byte is the one that is read.
#[test]
fn overlapping_rewrites_never_change_what_was_taken() {
    let mut rng = Rng::new(11);
    for _ in 0..200 {
        const LEN: usize = 400;
        let mut l = Lone::established(TcpConfig {
            buffers: Buffers {
                max_out_of_order_ranges: Some(LEN),
                ..plain().buffers
            },
            ..plain()
        });
        let mut model = [None; LEN];
        let mut got: Vec<u8> = Vec::new();
        let mut version = 0;
        while got.len() < LEN {
            version += 1;
            let from = (rng.next_u64() % LEN as u64) as usize;
            let len = 1 + (rng.next_u64() % 60) as usize;
            let to = (from + len).min(LEN);
            for byte in &mut model[from..to] {
                byte.get_or_insert(version as u8);
            }
            l.recv(text(from as i64, 0, &vec![version as u8; to - from]));
            if rng.next_u64().is_multiple_of(4) {
                got.extend(l.read().0);
            }
        }
        let taken: Vec<u8> = model.iter().map(|b| b.unwrap()).collect();
        assert!(got == taken);
    }
}

// ---- Timestamps.

/// A forged segment with a TSval of the future would have everything genuine refused by PAWS. It
/// counts only if it begins at or before what was acknowledged last, lies in the window, and
/// acknowledges what may be (RFC 7323 section 4.3, RFC 5961 section 5).
#[test]
fn paws_cannot_be_poisoned_blindly() {
    let stamped = TcpConfig {
        timestamps: TimestampMode::Micros,
        ..plain()
    };
    let mut l = Lone::established_by(stamped, syn_ack().mss(1_000).ts(1_000, 0));
    l.send(&bytes(500));
    let future = 1_000 + (1 << 30);
    let forgeries = [
        // Beyond a gap, in the window.
        text(5_000, 0, b"forged").ts(future, 0),
        ack(5_000, 0).ts(future, 0),
        // Outside the window, on either side.
        text(-10, 0, b"forged").ts(future, 0),
        text(30_000, 0, b"forged").ts(future, 0),
        ack(-1, 0).ts(future, 0),
        // The right place and a wrong acknowledgement.
        text(0, 501, b"forged").ts(future, 0),
        text(0, -70_000, b"forged").ts(future, 0),
        // A RST that is challenged.
        seg(RST, 5, 0).ts(future, 0),
        // No acknowledgement at all, and SYNs.
        seg(Flags::PSH, 0, 0).data(b"forged").ts(future, 0),
        seg(SYN, 0, 0).ts(future, 0),
        seg(SYN | ACK, -1, 0).ts(future, 0),
    ];
    for (i, forged) in forgeries.into_iter().enumerate() {
        l.recv(forged);
        let next = l.conn.readable_end() as i64;
        let out = l.recv(text(next, 0, b"g").ts(1_001, 0));
        assert_eq!(Lone::one(out).ack, next + 1, "forgery {i}");
    }
    assert_eq!(l.state(), State::Established);
}

// ---- Prediction.

/// Who opens connections of his own learns nothing of the next one of others: neither from initial
/// sequence numbers (RFC 6528) nor from ports (RFC 6056) nor from timestamps.
#[test]
fn numbers_seen_by_one_peer_tell_nothing_of_anothers() {
    let mut host = hosts::Host::new(config(TcpConfig::default(), 9)).unwrap();
    let mut now = start();
    let mut near = [0; 3];
    let mut ports = BTreeSet::new();
    for _ in 0..500 {
        let mut open = |to: &str| {
            host.connect(now, addr("10.0.0.1:0"), addr(to), None)
                .unwrap();
            let p = drain(&mut host, now).remove(0);
            let stamp = p.1.options.timestamps.unwrap().val;
            (p.1.seq.0, p.1.src_port, stamp)
        };
        let mine = open("10.6.6.6:80");
        let theirs = open("10.0.0.2:80");
        // A guess is good if it is within a window.
        let close = |a: u32, b: u32| (a.wrapping_sub(b) as i32).unsigned_abs() < 1 << 20;
        near[0] += usize::from(close(mine.0, theirs.0));
        near[1] += usize::from(mine.1.abs_diff(theirs.1) < 8);
        near[2] += usize::from(close(mine.2, theirs.2));
        ports.insert(theirs.1.abs_diff(mine.1) / 1_024);
        now = now + Duration::from_micros(500);
    }
    // By chance: 500 in 2,048 or so.
    assert!(near[0] <= 3, "{} initial sequence numbers", near[0]);
    assert!(near[2] <= 3, "{} timestamps", near[2]);
    assert!(near[1] <= 10, "{} ports", near[1]);
}

// ---- The stream itself.

/// With all of it at once the stream arrives: forged segments of every kind between genuine ones.
#[test]
fn a_transfer_among_forgeries_arrives_whole() {
    let mut n = hosts::Net::plain();
    n.b.listen(addr("10.0.0.2:80"), 4, None).unwrap();
    let c = n.connect();
    n.run(hosts::MS);
    let s = n.accepted()[0];
    let from = n.a.connection(c).unwrap().local().to_string();
    let data = bytes(500_000);
    let (mut sent, mut got) = (0, Vec::new());
    let mut rng = Rng::new(5);
    for _ in 0..2_000 {
        sent += write(&mut n.a, c, &data[sent..]);
        for i in 0..10 {
            let flags = [RST, SYN, ACK, ACK | FIN, RST | ACK][i % 5];
            let (seq, a) = (rng.next_u64() as u32, rng.next_u64() as u32);
            let mut forged = packet(&from, "10.0.0.2:80", flags, seq, a);
            forged.2 = vec![b'!'; if flags == ACK { 1_000 } else { 0 }];
            n.b.handle_packet(n.now, &forged.0, &forged.1, &forged.2);
        }
        n.run(Duration::from_micros(100));
        got.extend(read(&mut n.b, s, n.now));
    }
    assert!(got == data, "{} of {}", got.len(), data.len());
}
