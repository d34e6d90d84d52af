//! RFC 9293 sections 3.8.1 to 3.8.4 and 3.9.1.8 to 3.9.2: retransmission, giving up, keep-alives,
//! what the user can set. Each test is named for its requirement.

use crate::lab;
use crate::lab::{Lab, MSS, congestion, segments, textbook};
use crate::pair;
use crate::pair::lone::{Lone, Out, ack, in_state, plain, syn, text};
use crate::pair::{Pair, bytes};
use narrows::config::{EcnMode, InitialWindow, Keepalive, Lifetimes, RecoverySending, TcpConfig};
use narrows::congestion::CongestionControl;
use narrows::congestion::registry::CongestionRegistry;
use narrows::conn::Event;
use narrows::conn::icmp::{IcmpOutcome, SoftError};
use narrows::conn::state::{CloseReason, State};
use narrows::endpoint::{Endpoint, EndpointConfig};
use narrows::wire::icmp::{IcmpError, IcmpErrorKind, QuotedSegment};
use narrows::wire::{Flags, IpHeader, Seq, TcpHeader};
use narrows::{Duration, Instant};
use std::sync::Arc;

const MS: Duration = Duration::from_millis(1);
const SEC: Duration = Duration::from_secs(1);
const WARNED: Event = Event::SoftError(SoftError::Retransmitting);

/// Gives up by the count alone.
fn counting(data_retries: u32) -> TcpConfig {
    TcpConfig {
        lifetimes: Lifetimes {
            data_retries,
            data_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    }
}

fn times(out: &[Out], begin: Instant) -> Vec<Duration> {
    out.iter().map(|o| o.at.since(begin)).collect()
}

// ---- Retransmission.

/// Karn's algorithm: what was sent twice measures nothing, and the backed-off timeout stays until
/// something sent once is acknowledged.
#[test]
fn must_18_no_rtt_is_measured_with_a_retransmitted_segment() {
    let mut lab = Lab::connected(textbook("newreno"), MS * 100);
    let srtt = lab.conn.sender().rtt().srtt();
    let rto = lab.conn.sender().current_rto();
    lab.write(1);
    assert_eq!(segments(&lab.timer()), [0]);
    lab.wait(MS * 10);
    lab.ack(1);
    assert_eq!(lab.conn.sender().rtt().srtt(), srtt, "ambiguous");
    assert_eq!(lab.conn.sender().current_rto(), rto * 2, "still backed off");
    lab.write(1);
    lab.wait(MS * 100);
    lab.ack(2);
    assert_eq!(lab.conn.sender().rtt().srtt(), srtt);
    assert!(lab.conn.sender().current_rto() < rto * 2, "measured again");
}

#[test]
fn must_19_slow_start_congestion_avoidance_and_exponential_backoff() {
    let mut lab = Lab::connected(textbook("newreno"), MS * 100);
    let begin = lab.cwnd();
    // Slow start: one more segment for each acknowledged.
    lab.write(400);
    lab.wait(MS * 100);
    for i in 1..=begin {
        lab.ack(i);
    }
    assert_eq!(lab.cwnd(), 2 * begin);
    // Three timeouts in a row, each twice as long as the one before.
    let at = |lab: &mut Lab| {
        lab.timer();
        lab.now
    };
    let (a, b, c) = (at(&mut lab), at(&mut lab), at(&mut lab));
    assert_eq!(c.since(b), b.since(a) * 2);
    assert_eq!(lab.cwnd(), 1);
    let ssthresh = lab.ssthresh();
    assert_eq!(ssthresh, begin, "half of what was in flight");
    // Back in slow start, up to ssthresh; from there one segment a round trip.
    let mut acked = begin;
    while lab.cwnd() < ssthresh {
        acked += 1;
        lab.ack(acked);
    }
    let window = lab.cwnd();
    for _ in 0..window {
        acked += 1;
        lab.ack(acked);
    }
    let grown = lab.cwnd();
    assert!(
        (window..=window + 1).contains(&grown),
        "{window} to {grown}"
    );
}

/// R1 warns, R2 ends it.
#[test]
fn must_20_excessive_retransmission_warns_and_then_closes() {
    let mut l = Lone::established(counting(5));
    l.send(b"x");
    for n in 1..=5 {
        assert_eq!(l.next_timer().len(), 1);
        assert_eq!(l.events.contains(&WARNED), n >= 3, "{n}");
        assert_eq!(l.state(), State::Established);
    }
    l.next_timer();
    assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
    let end = Event::Closed(CloseReason::TimedOut);
    assert_eq!(l.events, [WARNED, end]);
}

/// A small segment leaves and arrives, as all behind the one of `first..end` do. That does not.
fn small_ones_pass(lab: &mut Lab, first: u64, end: u64) {
    lab.conn.send(&[7; 100], 100).unwrap();
    lab.pump();
    lab.wait(MS * 100);
    let sent = lab.conn.sender().nxt() - 1;
    if sent > end {
        lab.ack_now(first, &[(end, sent)], Flags::NONE);
    }
}

/// A segment that never passes while small ones behind it do: what RACK sends again for as long as
/// they are SACKed counts like the timeouts that there are none of.
#[test]
fn must_20_retransmissions_found_lost_count_without_timeouts() {
    for detector in ["rack", "rack-notlp"] {
        let config = TcpConfig {
            lifetimes: Lifetimes {
                data_retries: 5,
                data_retry_time: SEC * 10,
                ..congestion(textbook(detector), "fixed").lifetimes
            },
            recovery: RecoverySending::Pipe,
            ..congestion(textbook(detector), "fixed")
        };
        let mut lab = Lab::connected(config, MS * 100);
        lab.write(1);
        lab.wait(MS * 100);
        lab.ack(1);
        lab.write(1);
        let begin = lab.now;
        let mut warned = None;
        let mut attempts = 0;
        while !matches!(lab.conn.state(), State::Closed(_)) {
            assert!(lab.now.since(begin) < SEC * 20, "{detector}: no end");
            small_ones_pass(&mut lab, MSS, 2 * MSS);
            attempts = lab.log.iter().filter(|o| o.offset == MSS).count();
            while let Some(event) = lab.conn.poll_event() {
                if event == WARNED {
                    warned.get_or_insert(attempts);
                }
            }
        }
        assert_eq!(lab.conn.state(), State::Closed(CloseReason::TimedOut));
        assert!(lab.now.since(begin) > SEC * 10, "both bounds");
        assert!(lab.timeouts().is_empty() && attempts > 20, "{attempts}");
        // The original, and as many copies as R1 says: the last of them is not known to be lost.
        assert!(warned.is_some_and(|n| (4..7).contains(&n)), "{warned:?}");
    }
}

/// Progress begins the count anew, and so does another segment that does not pass.
#[test]
fn must_20_progress_ends_the_count_of_lost_retransmissions() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            data_retries: 5,
            data_retry_time: Duration::ZERO,
            ..congestion(textbook("rack-notlp"), "fixed").lifetimes
        },
        recovery: RecoverySending::Pipe,
        ..congestion(textbook("rack-notlp"), "fixed")
    };
    let mut lab = Lab::connected(config, MS * 100);
    lab.write(1);
    lab.wait(MS * 100);
    lab.ack(1);
    // Each passes at the fifth attempt.
    let mut passed = MSS;
    for _ in 0..10 {
        lab.write(1);
        let first = passed;
        passed += MSS;
        for _ in 0..5 {
            small_ones_pass(&mut lab, first, passed);
        }
        assert!(lab.conn.sender().fruitless() > 2);
        lab.wait(MS * 100);
        passed = lab.conn.sender().nxt() - 1;
        lab.ack_now(passed, &[], Flags::NONE);
        assert_eq!(lab.conn.sender().fruitless(), 0);
        assert_eq!(lab.conn.state(), State::Established);
    }
    assert!(lab.conn.sender_stats().lost_again > 10);
}

/// R1 is not passed over where two timers that are late find a retransmission lost together.
#[test]
fn must_20_the_warning_comes_however_the_count_grows() {
    let config = TcpConfig {
        lifetimes: Lifetimes {
            retries_before_report: 1,
            ..textbook("rack-notlp").lifetimes
        },
        initial_window: InitialWindow::Segments(20),
        ..textbook("rack-notlp")
    };
    for late in [Duration::ZERO, SEC * 20] {
        let mut lab = Lab::connected(config.clone(), MS * 100);
        lab.write(200);
        lab.wait(MS * 100);
        // Reordering: RACK is patient.
        lab.sack(0, &[(2, 3)]);
        lab.sack(0, &[(1, 3)]);
        for n in 4..=20 {
            lab.wait(MS / 10);
            lab.sack(0, &[(1, n)]);
        }
        lab.wait(MS * 40);
        // The retransmission of 0 is lost, what left after it is not.
        lab.sack(0, &[(1, 36)]);
        let nxt = lab.conn.sender().nxt() / MSS;
        lab.wait(MS * 95);
        lab.sack(0, &[(1, nxt)]);
        let due = lab.conn.sender().reorder_deadline().unwrap();
        assert_eq!(lab.conn.sender().fruitless(), 0);
        lab.now = due + late;
        lab.conn.handle_timeout(lab.now);
        let expected = if late.is_zero() { 1 } else { 2 };
        assert_eq!(lab.conn.sender().fruitless(), expected);
        assert!(lab.conn.last_error().is_some());
    }
}

/// A claim about the path that was doubted is believed when the segment it is about was sent in
/// vain, and no timeout is needed for that (RFC 5927 section 7.2).
#[test]
fn must_20_a_retransmission_found_lost_settles_the_path_mtu() {
    let config = TcpConfig {
        recovery: RecoverySending::Pipe,
        ..congestion(textbook("rack-notlp"), "fixed")
    };
    let mut lab = Lab::connected(config, MS * 100);
    lab.write(1);
    lab.wait(MS * 100);
    lab.ack(1);
    let big = lab.write(1);
    let opening = lab::opening();
    let error = IcmpError {
        kind: IcmpErrorKind::PacketTooBig { mtu: 540 },
        segment: QuotedSegment {
            src: opening.local,
            dst: opening.remote,
            seq: big[0].tcp.seq,
        },
    };
    let outcome = lab.conn.handle_icmp(lab.now, &error);
    assert_eq!(outcome, IcmpOutcome::PathMtuPending);
    for _ in 0..6 {
        small_ones_pass(&mut lab, MSS, 2 * MSS);
    }
    assert!(lab.timeouts().is_empty());
    let last = lab.log.iter().rev().find(|o| o.offset == MSS).unwrap();
    assert_eq!(last.len, 500);
}

#[test]
fn must_21_r2_can_be_set_for_one_connection() {
    for r2 in [1, 4, 9] {
        let mut l = Lone::established(counting(r2));
        l.send(b"x");
        let out = l.wait(SEC * 100_000);
        assert_eq!(out.len() as u32, r2);
    }
    // Infinity.
    let mut l = Lone::established(counting(u32::MAX));
    l.send(b"x");
    for _ in 0..2_000 {
        l.next_timer();
    }
    assert_eq!(l.state(), State::Established);
    // On one host, a connection of its own.
    let host = EndpointConfig::new(Arc::new(counting(9)), [1; 16]);
    let mut h = Endpoint::<narrows::conn::Boxed<_, narrows::buffer::RecvRing>>::new(host).unwrap();
    let (local, remote) = (
        "10.0.0.1:0".parse().unwrap(),
        "10.0.0.2:80".parse().unwrap(),
    );
    let own = Some(Arc::new(counting(2)));
    let id = h.connect(Lone::start(), local, remote, own).unwrap();
    let conn: &narrows::conn::Connection<
        narrows::conn::Boxed<narrows::buffer::SendRing, narrows::buffer::RecvRing>,
    > = h.connection(id).unwrap();
    assert_eq!(conn.config().lifetimes.data_retries, 2);
}

/// Warned, and given up, like data.
#[test]
fn must_22_syns_are_retransmitted_the_same_way() {
    let config = || TcpConfig {
        lifetimes: Lifetimes {
            syn_retries: 4,
            syn_retry_time: Duration::ZERO,
            ..plain().lifetimes
        },
        ..plain()
    };
    let (mut l, _) = Lone::syn_sent(config());
    let begin = l.now;
    let out = l.wait(SEC * 1_000);
    assert_eq!(times(&out, begin), [SEC, SEC * 3, SEC * 7, SEC * 15]);
    let end = Event::Closed(CloseReason::TimedOut);
    assert_eq!(l.events, [WARNED, end]);
    let (mut l, _) = Lone::syn_received(config(), &syn().mss(1_000));
    let begin = l.now;
    let out = l.wait(SEC * 1_000);
    assert_eq!(times(&out, begin), [SEC, SEC * 3, SEC * 7, SEC * 15]);
    assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
}

/// By default; even where the timeouts are microseconds.
#[test]
fn must_23_a_syn_is_retransmitted_for_three_minutes() {
    let defaults = TcpConfig::default();
    let mut quick = defaults.clone();
    quick.rto = narrows::congestion::registry::RtoRegistry::standard()
        .get("fine:initial=1ms")
        .unwrap();
    for config in [defaults, quick] {
        let (mut l, _) = Lone::syn_sent(config);
        let out = l.wait(SEC * 180 - MS);
        assert!(out.len() >= 7, "{}", out.len());
        assert_eq!(l.state(), State::SynSent);
    }
}

#[test]
fn shld_9_the_user_is_told_between_r1_and_r2() {
    for r1 in [1, 3, 6] {
        let config = TcpConfig {
            lifetimes: Lifetimes {
                retries_before_report: r1,
                ..counting(8).lifetimes
            },
            ..counting(8)
        };
        let mut l = Lone::established(config);
        l.send(b"x");
        for n in 1..=8 {
            l.next_timer();
            let told = l.events.iter().filter(|e| **e == WARNED).count();
            assert_eq!(told, usize::from(n >= r1), "{n}");
        }
        // It recovers; the next trouble is told again.
        l.recv(ack(0, 1));
        l.send(b"y");
        l.events.clear();
        for _ in 0..r1 {
            l.next_timer();
        }
        assert_eq!(l.events, [WARNED]);
    }
}

#[test]
fn shld_10_r1_is_three_retransmissions_by_default() {
    assert!(TcpConfig::default().lifetimes.retries_before_report >= 3);
    let mut l = Lone::established(plain());
    l.send(b"x");
    for n in 1..=3 {
        assert!(l.events.is_empty(), "{n}");
        l.next_timer();
    }
    assert_eq!(l.events, [WARNED]);
}

#[test]
fn shld_11_r2_is_a_hundred_seconds_at_least_by_default() {
    let mut quick = plain();
    quick.rto = narrows::congestion::registry::RtoRegistry::standard()
        .get("fine")
        .unwrap();
    for config in [plain(), quick] {
        // However few retransmissions are enough.
        let mut l = Lone::established(TcpConfig {
            lifetimes: Lifetimes {
                data_retries: 3,
                ..config.lifetimes
            },
            ..config
        });
        l.send(b"x");
        l.wait(SEC * 100 - MS);
        assert_eq!(l.state(), State::Established);
        l.wait(SEC * 10_000);
        assert_eq!(l.state(), State::Closed(CloseReason::TimedOut));
    }
}

// ---- Congestion control and ECN.

#[test]
fn shld_8_ecn_is_there() {
    let classic = TcpConfig {
        ecn: EcnMode::Classic,
        ..TcpConfig::default()
    };
    let p = Pair::connected(classic, TcpConfig::default());
    assert!(p.client.ecn_in_use());
}

#[test]
fn may_18_other_congestion_controls_are_there() {
    let all = CongestionRegistry::standard();
    for name in ["reno", "cubic", "dctcp"] {
        let config = TcpConfig {
            congestion: all.get(name).unwrap(),
            ..TcpConfig::default()
        };
        let mut p = Pair::connected(config, TcpConfig::default());
        p.transfer(&bytes(100_000), SEC * 10);
        assert_eq!(p.server_got.len(), 100_000);
        assert_eq!(p.client.sender().congestion().name(), name);
    }
}

// ---- Keep-alives.

fn keepalive(probes: u32) -> TcpConfig {
    TcpConfig {
        lifetimes: Lifetimes {
            keepalive: Some(Keepalive {
                idle: SEC * 100,
                interval: SEC * 10,
                probes,
            }),
            ..plain().lifetimes
        },
        ..plain()
    }
}

/// MAY-5 too: keep-alives exist.
#[test]
fn must_24_keepalive_is_on_or_off_for_each_connection() {
    let mut on = Lone::established(keepalive(3));
    let mut off = Lone::established(plain());
    assert_eq!(on.wait(SEC * 100).len(), 1);
    assert!(off.wait(SEC * 10_000).is_empty());
}

/// While it is open, too.
#[test]
fn must_24_keepalive_can_be_turned_on_and_off() {
    let mut l = Lone::established(plain());
    assert!(l.wait(SEC * 10_000).is_empty());
    l.conn
        .set_keepalive(keepalive(3).lifetimes.keepalive, l.now);
    assert_eq!(l.wait(SEC * 100).len(), 1);
    l.recv(ack(0, 0));
    l.conn.set_keepalive(None, l.now);
    assert!(l.wait(SEC * 10_000).is_empty());
    assert_eq!(l.state(), State::Established);
}

#[test]
fn must_25_keepalive_is_off_by_default() {
    assert_eq!(TcpConfig::default().lifetimes.keepalive, None);
    let mut l = Lone::established(plain());
    assert_eq!(l.conn.poll_timeout(), None);
    assert!(l.wait(SEC * 1_000_000).is_empty());
}

/// Nothing outstanding, and nothing received within the interval: data, or bare ACKs.
#[test]
fn must_26_keepalives_are_sent_only_when_idle() {
    let mut l = Lone::established(keepalive(3));
    for i in 0..5 {
        assert!(l.wait(SEC * 99).is_empty());
        l.recv(text(i, 0, b"x"));
        assert!(l.wait(SEC * 99).is_empty());
        l.recv(ack(i + 1, 0));
    }
    // Data outstanding.
    l.wait(SEC * 99);
    l.send(b"x");
    let out = l.wait(SEC * 90);
    assert!(out.iter().all(|o| o.data == b"x"), "{out:?}");
}

#[test]
fn must_27_the_keepalive_interval_can_be_set() {
    for secs in [1, 7_200, 86_400] {
        let config = TcpConfig {
            lifetimes: Lifetimes {
                keepalive: Some(Keepalive {
                    idle: SEC * secs,
                    ..Keepalive::default()
                }),
                ..plain().lifetimes
            },
            ..plain()
        };
        let mut l = Lone::established(config);
        assert!(l.wait(SEC * secs - MS).is_empty());
        assert_eq!(l.wait(MS).len(), 1);
    }
}

#[test]
fn must_28_the_keepalive_interval_is_two_hours_by_default() {
    assert!(Keepalive::default().idle >= SEC * 7_200);
    let config = TcpConfig {
        lifetimes: Lifetimes {
            keepalive: Some(Keepalive::default()),
            ..plain().lifetimes
        },
        ..plain()
    };
    let mut l = Lone::established(config);
    assert!(l.wait(SEC * 7_200 - MS).is_empty());
}

/// Answers may get lost: one that comes late, after any number of probes that had none, is
/// enough.
#[test]
fn must_29_no_single_unanswered_probe_ends_a_connection() {
    assert!(Keepalive::default().probes > 1);
    let mut l = Lone::established(keepalive(5));
    for _ in 0..20 {
        let out = l.wait(SEC * 141);
        assert_eq!(out.len(), 5, "all of them unanswered");
        assert_eq!(l.state(), State::Established);
        l.recv(ack(0, 0));
    }
}

#[test]
fn shld_12_a_keepalive_has_no_data() {
    let mut l = Lone::established(keepalive(3));
    l.send(&bytes(10));
    l.recv(ack(0, 10));
    let out = Lone::one(l.wait(SEC * 100));
    assert!(out.is_pure_ack());
    assert_eq!(out.seq, 9, "SND.NXT - 1");
}

// ---- What the user can set.

/// On every kind of segment, both ways of opening.
#[test]
fn must_48_the_user_sets_the_diffserv_field() {
    for dscp in [0, 10, 46, 63] {
        let config = TcpConfig { dscp, ..plain() };
        let (mut l, syn_out) = Lone::syn_sent(config.clone());
        assert_eq!(syn_out.ip.dscp, dscp);
        let mut all = vec![syn_out];
        all.extend(l.next_timer());
        let (mut l, answer) = Lone::syn_received(config.clone(), &syn().mss(1_000));
        all.push(answer);
        l.recv(ack(0, 0));
        all.extend(l.send(&bytes(2_000)));
        all.extend(l.recv(text(0, 0, b"x")));
        all.extend(l.wait(SEC * 5));
        all.extend(l.close());
        l.conn.abort(l.now);
        all.extend(l.settle());
        assert!(all.len() > 6);
        assert!(all.iter().all(|o| o.ip.dscp == dscp), "{all:?}");
    }
    let config = TcpConfig {
        dscp: 64,
        ..plain()
    };
    assert_eq!(config.validate().map_err(|e| e.name), Err("dscp"));
}

#[test]
fn shld_21_the_diffserv_field_can_change_during_a_connection() {
    let mut l = Lone::established(plain());
    assert_eq!(Lone::one(l.send(b"x")).ip.dscp, 0);
    l.conn.set_dscp(46);
    l.recv(ack(0, 1));
    assert_eq!(Lone::one(l.send(b"y")).ip.dscp, 46);
    assert_eq!(Lone::one(l.recv(text(0, 2, b"z"))).ip.dscp, 46);
}

/// All six bits, and no neighbours.
#[test]
fn shld_22_the_diffserv_field_goes_to_ip_unchanged() {
    for v6 in [false, true] {
        let (src, dst) = if v6 {
            ("fe80::1", "fe80::2")
        } else {
            ("10.0.0.1", "10.0.0.2")
        };
        for dscp in 0..64 {
            let ip = IpHeader {
                src: src.parse().unwrap(),
                dst: dst.parse().unwrap(),
                ecn: narrows::wire::Ecn::Ect0,
                dscp,
                hop_limit: 1,
            };
            let mut buf = [0; 60];
            ip.emit(20, &mut buf).unwrap();
            let class = if v6 {
                buf[0] << 4 | buf[1] >> 4
            } else {
                buf[1]
            };
            assert_eq!(class, dscp << 2 | 0b10);
        }
    }
}

/// Nothing the stack does changes it, retransmission and recovery included.
#[test]
fn shld_23_the_diffserv_field_stays_as_it_was_set() {
    let config = TcpConfig {
        dscp: 10,
        ..TcpConfig::default()
    };
    let mut p = Pair::new(config.clone(), config);
    p.path = Box::new(|_, n| {
        if n % 5 == 3 {
            pair::Fate::Drop
        } else {
            pair::Fate::Pass
        }
    });
    p.run_for(SEC * 5);
    p.transfer(&bytes(50_000), SEC * 60);
    assert!(p.log.len() > 50);
    assert!(p.log.iter().all(|s| s.ip.dscp == 10));
}

/// While it is open, too.
#[test]
fn must_49_the_time_to_live_can_be_changed() {
    let mut l = Lone::established(plain());
    assert_eq!(Lone::one(l.send(b"x")).ip.hop_limit, 64);
    for (set, sent) in [(1, 1), (255, 255), (0, 1)] {
        l.conn.set_hop_limit(set);
        let again = Lone::one(l.next_timer());
        assert_eq!(again.ip.hop_limit, sent);
    }
}

#[test]
fn must_49_the_time_to_live_can_be_set() {
    for hop_limit in [1, 64, 255] {
        let config = TcpConfig {
            hop_limit,
            ..plain()
        };
        let (_, syn_out) = Lone::syn_sent(config.clone());
        assert_eq!(syn_out.ip.hop_limit, hop_limit);
        let mut l = in_state(State::Established, config.clone());
        assert_eq!(Lone::one(l.send(b"x")).ip.hop_limit, hop_limit);
        assert_eq!(Lone::one(l.recv(text(0, 0, b"x"))).ip.hop_limit, hop_limit);
        // A RST to a stranger.
        let host = EndpointConfig::new(Arc::new(config), [1; 16]);
        let mut h: Endpoint<
            narrows::conn::Boxed<narrows::buffer::SendRing, narrows::buffer::RecvRing>,
        > = Endpoint::new(host).unwrap();
        let ip = IpHeader {
            src: "10.0.0.1".parse().unwrap(),
            dst: "10.0.0.2".parse().unwrap(),
            ecn: Default::default(),
            dscp: 0,
            hop_limit: 9,
        };
        let tcp = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: Seq(1),
            flags: Flags::SYN,
            ..TcpHeader::default()
        };
        h.handle_packet(Lone::start(), &ip, &tcp, &[]);
        let (ip, tcp, _) = h.poll_transmit(Lone::start()).unwrap();
        assert!(tcp.flags.contains(Flags::RST));
        assert_eq!(ip.hop_limit, hop_limit);
    }
    let config = TcpConfig {
        hop_limit: 0,
        ..plain()
    };
    assert_eq!(config.validate().map_err(|e| e.name), Err("hop_limit"));
}

/// The rig counts in full segments.
#[test]
fn the_rig_sends_full_segments() {
    let mut lab = Lab::connected(textbook("newreno"), MS * 100);
    assert!(lab.write(3).iter().all(|o| o.len == MSS));
}
