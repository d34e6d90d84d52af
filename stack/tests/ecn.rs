//! Explicit congestion notification: RFC 3168 section 6.1, and DCTCP's use of it (RFC 8257).

use crate::lab;
use crate::lab::{Lab, MSS, congestion, ms, segments, textbook};
use crate::pair;
use crate::pair::{Fate, Pair, bytes};
use narrows::Duration;
use narrows::config::{AckPolicy, EcnMode, InitialWindow, RecoverySending, TcpConfig};
use narrows::congestion::{CaState, CongestionControl, LocalDropRule, Variable};
use narrows::conn::ecn::{EcnFeedback, LinuxDctcp, LinuxDctcp2015};
use narrows::wire::{Ecn, Flags};
use std::sync::Arc;

const DELAYED: AckPolicy = AckPolicy {
    delay: Duration::from_millis(5),
    every: 2,
    quick_acks: 0,
};

fn mode(ecn: EcnMode) -> TcpConfig {
    TcpConfig {
        ecn,
        ..textbook("sack")
    }
}

/// Classic ECN agreed, twenty segments in flight, an RTT later.
fn classic() -> Lab {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..mode(EcnMode::Classic)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(400);
    lab.wait(ms(100));
    lab
}

#[test]
fn rfc3168_6_1_1_negotiation_in_all_combinations() {
    use EcnMode::{Accept, Classic, Dctcp, Off};
    for client in [Off, Accept, Classic, Dctcp] {
        for server in [Off, Accept, Classic, Dctcp] {
            let mut p = Pair::new(mode(client), mode(server));
            p.run_for(Duration::from_millis(10));
            let agreed = matches!(client, Classic | Dctcp) && server != Off;
            assert_eq!(p.client.ecn_in_use(), agreed, "{client:?} {server:?}");
            assert_eq!(p.server().ecn_in_use(), agreed, "{client:?} {server:?}");
            let syn = p.log[0].tcp.flags;
            assert_eq!(
                syn.contains(Flags::ECE | Flags::CWR),
                matches!(client, Classic | Dctcp)
            );
            let syn_ack = p.log[1].tcp.flags;
            assert_eq!(syn_ack.contains(Flags::ECE), agreed);
            assert!(!syn_ack.contains(Flags::CWR));
            p.transfer(&bytes(10_000), Duration::from_secs(1));
            for seen in p.log.iter().filter(|s| s.len > 0) {
                assert_eq!(seen.ip.ecn == Ecn::Ect0, agreed, "{client:?} {server:?}");
            }
        }
    }
}

/// An offer is ECE and CWR on a SYN, and an agreement ECE alone on a SYN-ACK; nothing else is.
#[test]
fn rfc3168_6_1_1_no_other_flags_offer_or_agree() {
    use crate::pair::lone::{Lone, ack, syn, syn_ack};
    const ECE: Flags = Flags::ECE;
    const CWR: Flags = Flags::CWR;
    for (flags, offer, agreement) in [
        (Flags::NONE, false, false),
        (ECE, false, true),
        (CWR, false, false),
        (ECE | CWR, true, false),
    ] {
        let (mut l, answer) = Lone::syn_received(mode(EcnMode::Classic), &syn().and(flags));
        assert_eq!(answer.has(ECE), offer, "{flags:?}");
        l.recv(ack(0, 0));
        let data = Lone::one(l.send(b"x"));
        assert_eq!(data.ip.ecn == Ecn::Ect0, offer, "{flags:?}");
        let mut l = Lone::established_by(mode(EcnMode::Classic), syn_ack().and(flags));
        let data = Lone::one(l.send(b"x"));
        assert_eq!(data.ip.ecn == Ecn::Ect0, agreement, "{flags:?}");
    }
}

#[test]
fn rfc3168_6_1_1_1_only_data_is_ecn_capable() {
    let mut lab = Lab::new(mode(EcnMode::Classic));
    assert_eq!(lab.pump()[0].ecn, Ecn::NotEct, "SYN");
    lab.wait(ms(100));
    assert_eq!(lab.syn_ack(Flags::ECE).len(), 0);
    assert_eq!(lab.log.last().unwrap().ecn, Ecn::NotEct, "pure ACK");
    assert_eq!(lab.write(1)[0].ecn, Ecn::Ect0, "new data");
    assert_eq!(
        lab.timer()[0].ecn,
        Ecn::NotEct,
        "section 6.1.5: retransmission"
    );
}

#[test]
fn rfc3168_6_1_3_ece_on_every_ack_until_cwr() {
    let mut lab = Lab::connected_with(mode(EcnMode::Classic), ms(100), Flags::ECE);
    let mut at = 0;
    let mut feed = |lab: &mut Lab, ecn, flags| {
        let out = lab.data(at, 1000, ecn, flags);
        at += 1000;
        assert_eq!(out.len(), 1);
        out[0].has(Flags::ECE)
    };
    assert!(!feed(&mut lab, Ecn::Ect0, Flags::NONE));
    assert!(feed(&mut lab, Ecn::Ce, Flags::NONE));
    for _ in 0..5 {
        assert!(feed(&mut lab, Ecn::Ect0, Flags::NONE));
    }
    assert!(!feed(&mut lab, Ecn::Ect0, Flags::CWR));
    assert!(!feed(&mut lab, Ecn::Ect0, Flags::NONE));
    assert!(
        feed(&mut lab, Ecn::Ce, Flags::CWR),
        "a mark on the CWR segment is a new one"
    );
    // Our own data carries the echo too.
    assert!(lab.write(1)[0].has(Flags::ECE));
}

#[test]
fn rfc3168_6_1_2_one_reduction_a_window_and_cwr_on_the_next_new_data_once() {
    let mut lab = classic();
    let mut cwr = Vec::new();
    for n in 1..=20 {
        for out in lab.ack_now(n * MSS, &[], Flags::ECE) {
            cwr.push(out.has(Flags::CWR));
        }
    }
    assert_eq!((lab.reductions(), lab.ssthresh()), (1, 10));
    assert!(cwr[0] && cwr[1..].iter().all(|c| !c), "{cwr:?}");
    // The next window, still marked: one more.
    lab.wait(ms(100));
    let una = (lab.conn.sender().una() - 1) / MSS;
    let end = (lab.conn.sender().nxt() - 1) / MSS;
    for n in una + 1..=end {
        lab.ack_now(n * MSS, &[], Flags::ECE);
    }
    assert_eq!(
        (lab.reductions(), lab.conn.sender_stats().ecn_reductions),
        (2, 2)
    );
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
}

#[test]
fn rfc3168_6_1_2_a_loss_in_a_window_reduced_for_a_mark_reduces_no_more() {
    let mut lab = classic();
    lab.ack_now(MSS, &[], Flags::ECE);
    let reduced = lab.ssthresh();
    for n in 3..=6 {
        lab.sack(1, &[(2, n)]);
    }
    assert_eq!(lab.conn.sender().ca_state(), CaState::Recovery);
    assert!(
        segments(&lab.log).iter().filter(|s| **s == 1).count() == 2,
        "it is repaired"
    );
    assert_eq!((lab.reductions(), lab.ssthresh()), (1, reduced));
}

#[test]
fn rfc3168_6_1_2_a_mark_in_a_window_reduced_for_a_loss_reduces_no_more_and_cwr_is_sent() {
    let mut lab = classic();
    let mut cwr = false;
    for n in 2..=20 {
        let out = lab.ack_now(0, &[(MSS, n * MSS)], Flags::ECE);
        for o in &out {
            // Any reduction is announced, on the first new data after it; never on a
            // retransmission.
            assert!(!o.has(Flags::CWR) || o.segment() >= 20);
            cwr |= o.has(Flags::CWR);
        }
    }
    assert!(cwr);
    // The ECE came on the first ACK already: that was the reduction; the loss adds none.
    assert_eq!(lab.reductions(), 1);

    // The loss first.
    let mut lab = classic();
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    let mut cwr = false;
    for n in 5..=20 {
        cwr |= lab
            .ack_now(0, &[(MSS, n * MSS)], Flags::ECE)
            .iter()
            .any(|o| o.has(Flags::CWR));
    }
    assert!(cwr && lab.reductions() == 1);
    // The peer has seen CWR and fallen silent when the episode ends.
    lab.wait(ms(100));
    let point = (lab.conn.sender().nxt() - 1) / MSS;
    lab.ack(point);
    assert_eq!(
        (lab.reductions(), lab.conn.sender().ca_state()),
        (1, CaState::Open)
    );
}

#[test]
fn rfc3168_6_1_2_cwr_after_a_timeout() {
    let mut lab = classic();
    assert!(!lab.timer()[0].has(Flags::CWR), "a retransmission");
    let mut out = Vec::new();
    for n in 1..=20 {
        out.extend(lab.ack(n));
    }
    let new: Vec<_> = out.iter().filter(|o| o.segment() >= 20).collect();
    assert!(new[0].has(Flags::CWR));
    assert_eq!(out.iter().filter(|o| o.has(Flags::CWR)).count(), 1);
}

#[test]
fn ece_without_agreement_is_ignored() {
    let mut lab = Lab::connected(mode(EcnMode::Accept), ms(100));
    lab.write(20);
    for n in 1..=10 {
        lab.ack_now(n * MSS, &[], Flags::ECE);
    }
    assert_eq!(lab.reductions(), 0);
}

#[test]
fn classic_ecn_end_to_end_loses_and_retransmits_nothing() {
    for control in ["reno", "cubic"] {
        let config = congestion(mode(EcnMode::Classic), control);
        let mut p = Pair::connected(config.clone(), config);
        let mut count = 0;
        p.path = Box::new(move |s, _| {
            count += usize::from(s.len > 0);
            if s.len > 0 && count % 50 == 0 {
                Fate::Mark
            } else {
                Fate::Pass
            }
        });
        let data = bytes(1_000_000);
        p.transfer(&data, Duration::from_secs(5));
        assert!(p.server_got == data, "{control}");
        let stats = p.client.sender_stats();
        assert!(stats.ecn_reductions > 5, "{control} {stats:?}");
        assert_eq!((stats.retransmits, stats.timeouts), (0, 0));
        let cwr = p
            .log
            .iter()
            .filter(|s| s.tcp.flags.contains(Flags::CWR))
            .count() as u64;
        assert!(cwr.abs_diff(stats.ecn_reductions) <= 1, "{cwr} {stats:?}");
    }
}

// DCTCP.

fn dctcp(ack: AckPolicy) -> TcpConfig {
    congestion(
        TcpConfig {
            ack,
            ..textbook("sack")
        },
        "dctcp",
    )
}

#[test]
fn rfc8257_3_2_a_change_of_the_mark_splits_the_acknowledgement() {
    let config = TcpConfig {
        ack: DELAYED,
        ..mode(EcnMode::Dctcp)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    let acks = |out: Vec<lab::Out>| -> Vec<(u64, bool)> {
        out.iter()
            .map(|o| (Lab::acked(o), o.has(Flags::ECE)))
            .collect()
    };
    assert_eq!(acks(lab.data(0, 1000, Ecn::Ect0, Flags::NONE)), []);
    // 0 to 1: the ACK of the unmarked one, and at once that of the marked.
    assert_eq!(
        acks(lab.data(1000, 1000, Ecn::Ce, Flags::NONE)),
        [(1000, false), (2000, true)]
    );
    // No change: one ACK for two.
    assert_eq!(acks(lab.data(2000, 1000, Ecn::Ce, Flags::NONE)), []);
    assert_eq!(
        acks(lab.data(3000, 1000, Ecn::Ce, Flags::NONE)),
        [(4000, true)]
    );
    // 1 to 0 with nothing owed: only the new one.
    assert_eq!(
        acks(lab.data(4000, 1000, Ecn::Ect0, Flags::NONE)),
        [(5000, false)]
    );
    assert_eq!(acks(lab.data(5000, 1000, Ecn::Ect0, Flags::NONE)), []);
    assert_eq!(acks(lab.wait(ms(5))), [(6000, false)]);
}

#[test]
fn rfc8257_3_2_marked_bytes_are_echoed_exactly() {
    for every in [1, 2, 3, 8] {
        for pattern in [2u64, 3, 5, 7, 11, 13] {
            let ack = AckPolicy { every, ..DELAYED };
            let mut p = Pair::connected(dctcp(ack), dctcp(ack));
            let marked = std::rc::Rc::new(std::cell::Cell::new(0u64));
            let counter = marked.clone();
            let mut n = 0u64;
            p.path = Box::new(move |s, _| {
                if s.len == 0 {
                    return Fate::Pass;
                }
                n += 1;
                // Runs of various lengths.
                if (n / pattern) % 2 == 1 || n.is_multiple_of(17) {
                    counter.set(counter.get() + s.len as u64);
                    Fate::Mark
                } else {
                    Fate::Pass
                }
            });
            let data = bytes(400_000);
            p.transfer(&data, Duration::from_secs(20));
            p.run_for(Duration::from_millis(20));
            let stats = p.client.sender_stats();
            assert_eq!(
                stats.ce_bytes,
                marked.get(),
                "every {every}, pattern {pattern}"
            );
            assert_eq!((stats.retransmits, stats.timeouts), (0, 0), "{stats:?}");
        }
    }
}

#[test]
fn rfc8257_3_3_the_cut_follows_alpha() {
    // alpha starts at 1: the first marked window is halved, and sparse marks cost less and less.
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..dctcp(AckPolicy::IMMEDIATE)
    };
    let mut lab = Lab::connected_with(config, ms(10), Flags::ECE);
    lab.write(900);
    let mut cuts = Vec::new();
    for _ in 0..40 {
        lab.wait(ms(10));
        let una = (lab.conn.sender().una() - 1) / MSS;
        let end = (lab.conn.sender().nxt() - 1) / MSS;
        for n in una + 1..=end {
            let before = lab.conn.sender().congestion().cwnd().get();
            let reduced = lab.reductions();
            lab.ack_now(
                n * MSS,
                &[],
                if n == una + 1 {
                    Flags::ECE
                } else {
                    Flags::NONE
                },
            );
            if lab.reductions() > reduced {
                let after = lab.conn.sender().congestion().cwnd().get();
                cuts.push((before - after) as f64 / before as f64);
            }
        }
        if lab.conn.sender().nxt() > 890 * MSS {
            break;
        }
    }
    assert!(cuts[0] > 0.45, "{cuts:?}");
    assert!(cuts.last().unwrap() < &0.2, "{cuts:?}");
    assert_eq!(lab.conn.sender_stats().retransmits, 0);
}

fn alpha(lab: &Lab) -> f64 {
    let mut alpha = None;
    lab.conn
        .sender()
        .congestion()
        .variables(&mut |name, value| {
            if let ("alpha", Variable::Fraction(q32)) = (name, value) {
                alpha = Some(q32 as f64 / (1_u64 << 32) as f64);
            }
        });
    alpha.unwrap()
}

/// The estimator counts what is acknowledged, when it is, and nothing that is SACKed only.
#[test]
fn rfc8257_3_3_sacked_bytes_are_not_counted() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..dctcp(AckPolicy::IMMEDIATE)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(100);
    lab.wait(ms(100));
    lab.ack_now(0, &[(MSS, 5 * MSS)], Flags::ECE);
    assert_eq!(lab.conn.sender_stats().ce_bytes, 0);
    // Ten of the twenty marked, and of the marked five had been SACKed.
    lab.ack_now(5 * MSS, &[], Flags::ECE);
    assert_eq!(lab.conn.sender_stats().ce_bytes, 5 * MSS);
    for n in 6..=20 {
        let flags = if n <= 10 { Flags::ECE } else { Flags::NONE };
        lab.ack_now(n * MSS, &[], flags);
    }
    assert_eq!(lab.conn.sender_stats().ce_bytes, 10 * MSS);
    // The first window of observation ended with the retransmission: five of five. The next has 6
    // to 22, the last of which was sent since it began.
    assert_eq!(alpha(&lab), 1.0);
    lab.wait(ms(90));
    lab.ack(21);
    assert_eq!(alpha(&lab), 1.0);
    lab.ack(22);
    let expected = 15.0 / 16.0 + 5.0 / 17.0 / 16.0;
    assert!((alpha(&lab) - expected).abs() < 1e-6, "{}", alpha(&lab));
}

/// A cut is announced by CWR, once, on the first new data after it (RFC 3168 section 6.1.2).
#[test]
fn rfc8257_3_3_cwr_is_set_as_in_rfc_3168() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..dctcp(AckPolicy::IMMEDIATE)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(100);
    lab.wait(ms(100));
    let mut new = Vec::new();
    for n in 1..=20 {
        new.extend(lab.ack_now(n * MSS, &[], Flags::ECE));
    }
    let announced: Vec<bool> = new.iter().map(|o| o.has(Flags::CWR)).collect();
    assert!(announced.len() > 2 && announced[0], "{announced:?}");
    assert!(!announced[1..].contains(&true), "{announced:?}");
}

/// A mark of a packet that opens the connection says nothing of the data that follows.
#[test]
fn rfc8257_3_6_marks_of_syn_and_syn_ack_are_ignored() {
    let mut p = Pair::new(dctcp(DELAYED), dctcp(DELAYED));
    p.path = Box::new(|s, _| {
        if s.tcp.flags.contains(Flags::SYN) {
            Fate::Mark
        } else {
            Fate::Pass
        }
    });
    p.run_for(Duration::from_millis(10));
    assert!(p.client.ecn_in_use() && p.server().ecn_in_use());
    p.transfer(&bytes(50_000), Duration::from_secs(5));
    let opened = |s: &&pair::Seen| !s.tcp.flags.contains(Flags::SYN);
    assert!(
        p.log
            .iter()
            .filter(opened)
            .all(|s| !s.tcp.flags.contains(Flags::ECE))
    );
    assert_eq!(p.client.sender_stats().ecn_reductions, 0);
}

#[test]
fn dctcp_never_stalls_when_everything_is_marked() {
    for control in ["dctcp", "dctcp:floor=1"] {
        for ack in [AckPolicy::IMMEDIATE, DELAYED] {
            let config = congestion(
                TcpConfig {
                    ack,
                    ..textbook("sack")
                },
                control,
            );
            let mut p = Pair::connected(config.clone(), config);
            p.path = Box::new(|s, _| if s.len > 0 { Fate::Mark } else { Fate::Pass });
            let data = bytes(200_000);
            let took = p.transfer(&data, Duration::from_secs(20));
            assert!(p.server_got == data, "{control} {ack:?} took {took}");
            let stats = p.client.sender_stats();
            assert_eq!(
                (stats.retransmits, stats.timeouts),
                (0, 0),
                "{control} {stats:?}"
            );
            let cwnd = p.client.sender().congestion().cwnd().get();
            assert!(cwnd <= 3 * MSS, "{control}: {cwnd}");
        }
    }
}

#[test]
fn rfc8257_3_6_every_packet_of_dctcp_is_ecn_capable() {
    let mut p = Pair::connected(dctcp(DELAYED), dctcp(DELAYED));
    p.path = Box::new(|s, n| {
        if s.from_client && n == 12 {
            Fate::Drop
        } else {
            Fate::Pass
        }
    });
    p.transfer(&bytes(50_000), Duration::from_secs(5));
    assert!(p.client.sender_stats().retransmits > 0);
    assert!(p.log.iter().all(|s| s.ip.ecn == Ecn::Ect0));
}

#[test]
fn rfc8257_3_5_loss_halves_and_a_mark_in_the_same_window_adds_nothing() {
    let config = TcpConfig {
        initial_window: InitialWindow::Segments(20),
        ..dctcp(AckPolicy::IMMEDIATE)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.write(200);
    lab.wait(ms(100));
    for n in 2..=4 {
        lab.sack(0, &[(1, n)]);
    }
    assert_eq!(lab.ssthresh(), 10);
    for n in 5..=20 {
        lab.ack_now(0, &[(MSS, n * MSS)], Flags::ECE);
    }
    assert_eq!((lab.ssthresh(), lab.reductions()), (10, 1));
}

/// What `tcp: ack immediately when a cwr packet arrives` (Linux 4.18) tells of senders of its time: the
/// answer to a request carries the mark of its last segment when nothing is in flight, and the next
/// request begins with one segment. What acknowledges that ends it. A mark of an earlier segment is
/// held as long.
#[test]
fn linux_4_3_after_a_marked_window_the_next_one_begins_with_one_segment() {
    for (recovery, leave) in [
        (RecoverySending::PrrLinux43, 1),
        (RecoverySending::Prr, 7),
        (RecoverySending::Pipe, 7),
    ] {
        for marked in [1, 7] {
            let config = TcpConfig {
                recovery,
                initial_window: InitialWindow::Segments(20),
                ..dctcp(AckPolicy::IMMEDIATE)
            };
            let mut lab = Lab::connected_with(config, ms(10), Flags::ECE);
            assert_eq!(lab.write(7).len(), 7);
            lab.wait(ms(10));
            for n in 1..=7 {
                let mark = if n == marked { Flags::ECE } else { Flags::NONE };
                lab.ack_now(n * MSS, &[], mark);
            }
            let next = lab.write(7);
            assert_eq!(next.len(), leave, "{recovery:?}, {marked}");
            assert!(next[0].has(Flags::CWR), "{recovery:?}, {marked}");
            lab.wait(ms(10));
            assert_eq!(lab.ack(8).len(), 7 - leave, "{recovery:?}, {marked}");
            assert_eq!((lab.cwnd(), lab.reductions()), (lab.ssthresh(), 1));
        }
    }
}

/// What brings no ACK to follow lets out what the window admits: the host's NIC refuses all that there is.
#[test]
fn a_refusal_of_all_that_is_in_flight_stalls_nothing() {
    for recovery in [
        RecoverySending::PrrLinux43,
        RecoverySending::Prr,
        RecoverySending::Pipe,
    ] {
        let config = TcpConfig {
            recovery,
            local_drop: Arc::new(LocalDropRule::Congestion),
            ..dctcp(AckPolicy::IMMEDIATE)
        };
        let mut lab = Lab::connected_with(config, ms(10), Flags::ECE);
        let out = lab.write(1);
        let len = out[0].len as usize;
        lab.conn.handle_local_drop(lab.now, &out[0].tcp, len);
        assert_eq!(segments(&lab.pump()), [0], "{recovery:?}");
        lab.wait(ms(10));
        lab.ack(1);
        assert_eq!(lab.write(2).len(), 2, "{recovery:?}");
    }
}

// DCTCP's receiver as Linux has it, and as it was in 2015.

fn receiver<E: EcnFeedback + 'static>(make: impl Fn() -> E + Send + Sync + 'static) -> Lab {
    let config = TcpConfig {
        ack: DELAYED,
        ecn_feedback: Some(Arc::new(move || Box::new(make()))),
        ..mode(EcnMode::Dctcp)
    };
    Lab::connected_with(config, ms(100), Flags::ECE)
}

/// What is acknowledged, and with which ECE.
fn acks(out: &[lab::Out]) -> Vec<(u64, bool)> {
    out.iter()
        .map(|o| (Lab::acked(o), o.has(Flags::ECE)))
        .collect()
}

/// Linux since 4.18 (`tcp_ecn_accept_cwr`): a sender that says CWR may have a window of one segment.
#[test]
fn linux_acknowledges_what_says_cwr_at_once() {
    let mut lab = receiver(LinuxDctcp::default);
    assert_eq!(
        acks(&lab.data(0, 1000, Ecn::Ect0, Flags::CWR)),
        [(1000, false)]
    );
    assert_eq!(acks(&lab.data(1000, 1000, Ecn::Ect0, Flags::NONE)), []);
    // Otherwise as the RFC says.
    assert_eq!(
        acks(&lab.data(2000, 1000, Ecn::Ce, Flags::CWR)),
        [(2000, false), (3000, true)]
    );
    let config = TcpConfig {
        ack: DELAYED,
        ..mode(EcnMode::Dctcp)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    assert_eq!(
        acks(&lab.data(0, 1000, Ecn::Ect0, Flags::CWR)),
        [],
        "RFC 8257 does not ask for it"
    );
}

/// `tcp: do not cancel delay-AcK on DCTCP special ACK` mended this: the segment that changes the
/// mark is not acknowledged, and no timer runs for it.
#[test]
fn linux_2015_loses_the_acknowledgement_of_the_segment_that_changes_the_mark() {
    let mut lab = receiver(LinuxDctcp2015::default);
    assert_eq!(acks(&lab.data(0, 1000, Ecn::Ect0, Flags::NONE)), []);
    assert_eq!(
        acks(&lab.data(1000, 1000, Ecn::Ce, Flags::NONE)),
        [(1000, false)],
        "of what came before, and of nothing else"
    );
    assert!(lab.wait(ms(5_000)).is_empty(), "no timer");
    // The next one finds two that are not acknowledged.
    assert_eq!(
        acks(&lab.data(2000, 1000, Ecn::Ce, Flags::NONE)),
        [(3000, true)]
    );
}

/// `tcp: fix dctcp delayed ACK schedule` mended this: an acknowledgement that left on data counted
/// as one that is still to leave.
#[test]
fn linux_2015_repeats_an_acknowledgement_that_left_on_data() {
    let mut lab = receiver(LinuxDctcp2015::default);
    assert_eq!(acks(&lab.data(0, 1000, Ecn::Ect0, Flags::NONE)), []);
    // The reply takes it along, and is acknowledged.
    assert_eq!(Lab::acked(&lab.write(1)[0]), 1000);
    lab.ack(1);
    assert_eq!(
        acks(&lab.data(1000, 1000, Ecn::Ce, Flags::NONE)),
        [(1000, false)],
        "a duplicate, and the segment goes without"
    );
    assert!(
        lab.wait(ms(5_000)).is_empty(),
        "a sender of one segment waits for its RTO"
    );
    // RFC 8257 acknowledges the segment, and only that.
    let config = TcpConfig {
        ack: DELAYED,
        ..mode(EcnMode::Dctcp)
    };
    let mut lab = Lab::connected_with(config, ms(100), Flags::ECE);
    lab.data(0, 1000, Ecn::Ect0, Flags::NONE);
    lab.write(1);
    lab.ack(1);
    assert_eq!(
        acks(&lab.data(1000, 1000, Ecn::Ce, Flags::NONE)),
        [(2000, true)]
    );
}

/// `tcp: do not delay ACK in DCTCP upon CE status change` mended this.
#[test]
fn linux_2015_delays_the_acknowledgement_of_a_change_that_nothing_precedes() {
    let mut lab = receiver(LinuxDctcp2015::default);
    assert_eq!(acks(&lab.data(0, 1000, Ecn::Ce, Flags::NONE)), []);
    let late = lab.wait(ms(1_000));
    assert_eq!(acks(&late), [(1000, true)], "after the timer");
    assert_eq!(
        acks(&lab.data(1000, 1000, Ecn::Ce, Flags::CWR)),
        [],
        "CWR waits, too"
    );
}
