//! Opening a connection, held against RFC 9293 sections 3.5 and 3.10.7.2 to 3.10.7.4.

use crate::pair::lone::{IRS, ISS, Lone, ack, plain, seg, syn, syn_ack, text};
use crate::pair::{Fate, Pair, bytes};
use narrows::config::{LostSyn, TcpConfig};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::wire::{Flags, Seq};
use narrows::{Duration, Instant};

const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;
const RST: Flags = Flags::RST;
const FIN: Flags = Flags::FIN;

#[test]
fn active_open_sends_a_syn_and_nothing_else() {
    let (mut l, out) = Lone::syn_sent(plain());
    assert!(out.is(SYN));
    assert_eq!(out.tcp.seq, ISS);
    assert_eq!(out.tcp.ack, Seq(0));
    assert_eq!((out.tcp.src_port, out.tcp.dst_port), (40_000, 80));
    assert_eq!(out.tcp.options.mss, Some(1_000));
    assert_eq!(out.tcp.window, 20_000);
    assert!(l.settle().is_empty());
    assert_eq!(l.state(), State::SynSent);
}

#[test]
fn active_open_completes_on_the_syn_ack() {
    let (mut l, _) = Lone::syn_sent(plain());
    let out = Lone::one(l.recv(syn_ack().win(7_000)));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, out.ack), (0, 0));
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.events, [Event::Connected]);
    assert_eq!(l.conn.peer_window(), 7_000);
    assert_eq!(
        l.conn.poll_timeout(),
        None,
        "an idle connection needs no timer"
    );
}

#[test]
fn passive_open_completes_on_the_ack() {
    let (mut l, out) = Lone::syn_received(plain(), &syn().mss(500));
    assert!(out.is(SYN | ACK));
    assert_eq!((out.seq, out.ack), (-1, 0));
    assert!(l.events.is_empty());
    assert!(l.recv(ack(0, 0).win(9_000)).is_empty());
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.events, [Event::Connected]);
    assert_eq!(l.conn.peer_window(), 9_000);
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn the_handshake_ack_may_carry_data_and_fin() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    let out = Lone::one(l.recv(text(0, 0, b"hello").and(FIN)));
    assert_eq!(out.ack, 6);
    assert_eq!(l.state(), State::CloseWait);
    assert_eq!(
        l.events,
        [Event::Connected, Event::Readable, Event::PeerClosed]
    );
    assert_eq!(l.read().0, b"hello");
}

#[test]
fn data_queued_before_the_handshake_leaves_with_its_end() {
    let (mut l, _) = Lone::syn_sent(plain());
    assert!(l.send(b"early").is_empty());
    let out = Lone::one(l.recv(syn_ack()));
    assert_eq!((out.seq, out.ack, &out.data[..]), (0, 0, &b"early"[..]));
}

#[test]
fn data_on_a_syn_is_left_to_its_retransmission() {
    let (mut l, out) = Lone::syn_received(plain(), &syn().data(b"early"));
    assert_eq!(out.ack, 0, "the SYN is acknowledged, the text is not");
    l.recv(ack(0, 0));
    let out = Lone::one(l.recv(text(0, 0, b"early")));
    assert_eq!(out.ack, 5);
}

#[test]
fn data_on_a_syn_ack_is_taken() {
    let (mut l, _) = Lone::syn_sent(plain());
    let out = Lone::one(l.recv(syn_ack().data(b"banner").and(FIN)));
    assert_eq!(out.ack, 7);
    assert_eq!(l.state(), State::CloseWait);
    assert_eq!(l.read().0, b"banner");
}

#[test]
fn rfc9293_3_10_7_3_first_check_the_ack() {
    for (bad, why) in [
        (-1, "SEG.ACK =< ISS"),
        (1, "SEG.ACK > SND.NXT"),
        (1 << 30, "far off"),
    ] {
        let (mut l, _) = Lone::syn_sent(plain());
        let out = Lone::one(l.recv(seg(SYN | ACK, -1, bad)));
        assert!(out.is(RST), "{why}: {out:?}");
        assert_eq!(out.seq, bad, "<SEQ=SEG.ACK><CTL=RST>");
        assert_eq!(l.state(), State::SynSent);
        assert!(
            l.recv(seg(RST | ACK, -1, bad)).is_empty(),
            "unless it has RST"
        );
        assert_eq!(l.state(), State::SynSent);
        // The real answer is still good.
        l.recv(syn_ack());
        assert_eq!(l.state(), State::Established);
    }
}

#[test]
fn rfc9293_3_10_7_3_second_check_the_rst() {
    let (mut l, _) = Lone::syn_sent(plain());
    assert!(
        l.recv(seg(RST, -1, 0)).is_empty(),
        "without an ACK it proves nothing"
    );
    assert_eq!(l.state(), State::SynSent);
    assert!(l.recv(seg(RST | ACK, -1, 0)).is_empty());
    assert_eq!(l.state(), State::Closed(CloseReason::Refused));
    assert_eq!(l.events, [Event::Closed(CloseReason::Refused)]);
    assert_eq!(l.conn.poll_timeout(), None);
}

#[test]
fn rfc9293_3_10_7_3_fifth_neither_syn_nor_rst_is_dropped() {
    let (mut l, _) = Lone::syn_sent(plain());
    for s in [
        ack(0, 0),
        text(0, 0, b"x"),
        seg(FIN | ACK, 0, 0),
        seg(Flags::NONE, 0, 0),
        seg(FIN, 3, 0),
    ] {
        assert!(l.recv(s).is_empty());
        assert_eq!(l.state(), State::SynSent);
    }
}

/// RFC 9293 figure 8 seen from one side.
#[test]
fn simultaneous_open_by_hand() {
    let (mut l, _) = Lone::syn_sent(plain());
    let out = Lone::one(l.recv(syn().mss(700)));
    assert!(out.is(SYN | ACK), "{out:?}");
    assert_eq!((out.seq, out.ack), (-1, 0));
    assert_eq!(l.state(), State::SynReceived(Origin::Active));
    // The peer's SYN-ACK.
    let out = l.recv(syn_ack());
    assert!(out.iter().all(|o| !o.has(RST)), "{out:?}");
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.events, [Event::Connected]);
    assert_eq!(l.send(&bytes(2_000))[0].data.len(), 700);
}

/// RFC 9293 section 3.10.7.3: text and FIN of a SYN wait until the connection is established.
#[test]
fn rfc9293_3_10_7_3_text_of_a_syn_is_queued() {
    let (mut l, _) = Lone::syn_sent(plain());
    let out = Lone::one(l.recv(syn().and(FIN).data(b"early")));
    assert_eq!((out.seq, out.ack), (-1, 0), "not acknowledged yet");
    assert_eq!(l.conn.readable(), 0);
    let out = Lone::one(l.recv(syn_ack()));
    assert_eq!(out.ack, 6);
    assert_eq!(l.state(), State::CloseWait);
    assert_eq!(l.conn.readable(), 5);
    let view = l.conn.recv_buffer().peek(l.conn.readable_end());
    assert!(view == b"early"[..]);
}

/// The SYN-ACK of a simultaneous open alone completes it, as figure 8 draws it.
#[test]
fn simultaneous_open_completes_on_the_peers_syn_ack() {
    let (mut l, _) = Lone::syn_sent(plain());
    l.recv(syn());
    let out = l.recv(syn_ack());
    assert_eq!(l.state(), State::Established);
    assert!(out.len() <= 1 && out.iter().all(|o| o.is_pure_ack()));
}

#[test]
fn simultaneous_open_with_the_syn_ack_lost() {
    let (mut l, _) = Lone::syn_sent(plain());
    l.recv(syn());
    // The peer repeats its SYN: it has nothing of ours.
    let out = l.recv(syn());
    assert!(out.iter().all(|o| o.has(ACK) && o.ack == 0), "{out:?}");
    let out = l.wait(Duration::from_secs(4));
    assert!(out.iter().any(|o| o.is(SYN | ACK)), "{out:?}");
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
}

/// Two of ours, whose SYNs cross, under every pattern of loss of the first six packets.
#[test]
fn simultaneous_open_of_two_with_any_loss() {
    for lost in 0..64_u32 {
        let mut p = Pair::crossing(TcpConfig::default(), TcpConfig::default());
        let mut n = 0;
        p.path = Box::new(move |_, _| {
            n += 1;
            if n <= 6 && lost & (1 << (n - 1)) != 0 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        p.run_for(Duration::from_secs(20));
        assert_eq!(
            p.client.state(),
            State::Established,
            "{lost:06b} {:#?}",
            p.log
        );
        assert_eq!(p.server().state(), State::Established, "{lost:06b}");
        let data = bytes(50_000);
        p.transfer(&data, Duration::from_secs(60));
        assert!(p.server_got == data, "{lost:06b}");
        // Nor do they go on talking.
        p.run_for(Duration::from_secs(5));
        let before = p.log.len();
        p.run_for(Duration::from_secs(60));
        assert_eq!(p.log.len(), before);
    }
}

#[test]
fn handshake_with_any_loss() {
    for lost in 0..64_u32 {
        let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
        let mut n = 0;
        p.path = Box::new(move |_, _| {
            n += 1;
            if n <= 6 && lost & (1 << (n - 1)) != 0 {
                Fate::Drop
            } else {
                Fate::Pass
            }
        });
        let data = bytes(10_000);
        p.transfer(&data, Duration::from_secs(200));
        assert!(p.server_got == data, "{lost:06b}");
        assert_eq!(p.server().state(), State::Established, "{lost:06b}");
    }
}

#[test]
fn duplicated_handshake_packets_do_no_harm() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.path = Box::new(|_, _| Fate::Duplicate);
    let data = bytes(100_000);
    p.transfer(&data, Duration::from_secs(5));
    assert!(p.server_got == data);
    assert_eq!(p.client.sender_stats().timeouts, 0);
}

/// RFC 9293 figure 9: an old SYN reaches the listener before the new one.
#[test]
fn an_old_duplicate_syn_is_recovered_from() {
    let (mut l, out) = Lone::syn_received(plain(), &seg(SYN, -1 - 90_000, 0));
    assert_eq!(out.ack, -90_000);
    // The peer, in SYN-SENT, resets what it did not ask for.
    let mut rst = seg(RST, 0, 0);
    rst.tcp.seq = out.tcp.ack;
    assert!(l.recv(rst).is_empty());
    assert!(matches!(l.state(), State::Closed(_)));
}

/// RFC 9293 section 3.5.1: the peer lost its state; our SYN finds it half open.
#[test]
fn a_half_open_peer_is_discovered() {
    let (mut l, _) = Lone::syn_sent(plain());
    // It answers the SYN with what it thinks is the state of things.
    let out = Lone::one(l.recv(ack(5_000, 77_777)));
    assert!(out.is(RST));
    assert_eq!(out.seq, 77_777);
    assert_eq!(l.state(), State::SynSent);
    let out = l.wait(Duration::from_secs(2));
    assert!(out.iter().any(|o| o.is(SYN)), "the SYN is sent again");
}

#[test]
fn a_repeated_syn_gets_the_syn_ack_again() {
    let (mut l, first) = Lone::syn_received(plain(), &syn());
    let again = Lone::one(l.recv(syn()));
    assert!(again.is(SYN | ACK));
    assert_eq!(
        (again.tcp.seq, again.tcp.ack),
        (first.tcp.seq, first.tcp.ack)
    );
}

#[test]
fn rfc9293_3_10_7_4_syn_received_an_unacceptable_ack_is_reset() {
    for bad in [-1, 1, -2_000, 1 << 29] {
        let (mut l, _) = Lone::syn_received(plain(), &syn());
        let out = Lone::one(l.recv(ack(0, bad)));
        assert!(out.is(RST), "<SEQ=SEG.ACK><CTL=RST>: {out:?}");
        assert_eq!(out.seq, bad);
        assert_eq!(l.state(), State::SynReceived(Origin::Passive));
        l.recv(ack(0, 0));
        assert_eq!(l.state(), State::Established);
    }
}

#[test]
fn syn_received_ignores_what_has_no_ack() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    assert!(l.recv(seg(Flags::NONE, 0, 0).data(b"x")).is_empty());
    assert!(l.recv(seg(FIN, 0, 0)).is_empty());
    assert_eq!(l.state(), State::SynReceived(Origin::Passive));
}

#[test]
fn syn_received_answers_a_segment_out_of_the_window() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    let out = Lone::one(l.recv(text(50_000, 0, b"x")));
    assert!(out.is_pure_ack());
    assert_eq!((out.seq, out.ack), (0, 0));
    assert_eq!(l.state(), State::SynReceived(Origin::Passive));
}

#[test]
fn a_lost_handshake_ack_is_made_up_for_by_data() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    let out = Lone::one(l.recv(text(0, 0, b"hello")));
    assert_eq!(out.ack, 5);
    assert_eq!(l.state(), State::Established);
}

/// Even data beyond a gap completes the handshake.
#[test]
fn out_of_order_data_completes_the_handshake() {
    let (mut l, _) = Lone::syn_received(plain(), &syn());
    let out = Lone::one(l.recv(text(5, 0, b"world")));
    assert_eq!(out.ack, 0);
    assert_eq!(l.state(), State::Established);
    assert_eq!(Lone::one(l.recv(text(0, 0, b"hello"))).ack, 10);
}

#[test]
fn rtt_is_not_measured_over_a_retransmitted_syn() {
    let (mut l, _) = Lone::syn_sent(plain());
    l.next_timer();
    l.wait(Duration::from_millis(3));
    l.recv(syn_ack());
    assert_eq!(l.conn.sender().rtt().samples(), 0, "Karn's rule");

    let (mut l, _) = Lone::syn_sent(plain());
    l.wait(Duration::from_millis(3));
    l.recv(syn_ack());
    assert_eq!(l.conn.sender().rtt().srtt(), Some(Duration::from_millis(3)));

    // Nor when the SYNs crossed afterwards.
    let (mut l, _) = Lone::syn_sent(plain());
    l.next_timer();
    l.recv(syn());
    l.wait(Duration::from_millis(3));
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
    assert!(
        l.conn
            .sender()
            .rtt()
            .srtt()
            .is_none_or(|r| r < Duration::from_millis(500)),
        "{:?}",
        l.conn.sender().rtt().srtt()
    );
}

/// RFC 5681 section 3.1: one segment after a lost SYN.
#[test]
fn initial_window_is_one_segment_after_a_lost_syn() {
    let (mut l, _) = Lone::syn_sent(plain());
    l.next_timer();
    l.conn.send(&bytes(10_000), 10_000).unwrap();
    let out = l.recv(syn_ack().mss(1_000));
    assert_eq!(out.len(), 1, "{out:?}");
    assert_eq!(out[0].data.len(), 1_000);

    let (mut l, _) = Lone::syn_sent(plain());
    l.conn.send(&bytes(20_000), 20_000).unwrap();
    assert_eq!(l.recv(syn_ack().mss(1_000)).len(), 10, "IW10 otherwise");
}

/// RFC 6928 section 2, where it is asked for: the loss of one SYN, or a timeout too early, costs
/// nothing; a second one does.
#[test]
fn rfc6928_2_one_lost_syn_keeps_the_initial_window() {
    let config = TcpConfig {
        lost_syn: LostSyn::Rfc6928,
        ..plain()
    };
    for (lost, segments) in [(0, 10), (1, 10), (2, 1), (3, 1)] {
        let (mut l, _) = Lone::syn_sent(config.clone());
        for _ in 0..lost {
            l.next_timer();
        }
        l.conn.send(&bytes(20_000), 20_000).unwrap();
        assert_eq!(l.recv(syn_ack().mss(1_000)).len(), segments, "{lost} lost");
    }
    // On the side that answers, too.
    for (lost, segments) in [(1, 10), (2, 1)] {
        let (mut l, _) = Lone::syn_received(config.clone(), &syn().mss(1_000));
        for _ in 0..lost {
            l.next_timer();
        }
        l.recv(ack(0, 0));
        assert_eq!(l.send(&bytes(20_000)).len(), segments, "{lost} lost");
    }
}

/// The sequence numbers pass 2^32 during the handshake itself.
#[test]
fn the_syn_may_be_the_last_sequence_number() {
    for iss in [u32::MAX, u32::MAX - 1, 0] {
        let mut p = Pair::crossing_at(iss, u32::MAX);
        p.run_for(Duration::from_millis(10));
        let data = bytes(10_000);
        p.transfer(&data, Duration::from_secs(5));
        assert!(p.server_got == data);
    }
    let _ = (IRS, Instant::ZERO);
}

/// RFC 6298 section 3: whatever made the SYN-ACK leave a second time, its answer measures nothing;
/// and RFC 5681 section 3.1: it was lost.
#[test]
fn rfc6298_3_a_syn_ack_sent_again_for_a_repeated_syn_measures_nothing() {
    let (mut l, _) = Lone::syn_received(plain(), &syn().mss(1_000));
    l.wait(Duration::from_millis(875));
    let again = Lone::one(l.recv(syn().mss(1_000)));
    assert!(again.is(SYN | ACK), "{again:?}");
    l.wait(Duration::from_micros(100));
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.conn.handshake_timeouts(), 0, "our own timer did not fire");
    assert_eq!(l.conn.sender().rtt().samples(), 0, "Karn's rule");
    l.conn.send(&bytes(10_000), 10_000).unwrap();
    assert_eq!(l.settle().len(), 1, "the initial window after a loss");

    let (mut l, _) = Lone::syn_received(plain(), &syn());
    l.wait(Duration::from_micros(100));
    l.recv(ack(0, 0));
    let rtt = l.conn.sender().rtt().srtt();
    assert_eq!(rtt, Some(Duration::from_micros(100)));
}

/// SYNs that cross: what answers may be the answer to our SYN or to our SYN-ACK.
#[test]
fn rfc6298_3_a_simultaneous_open_measures_nothing_and_has_lost_nothing() {
    let (mut l, _) = Lone::syn_sent(plain());
    l.wait(Duration::from_millis(900));
    Lone::one(l.recv(syn().mss(1_000)));
    l.wait(Duration::from_millis(3));
    l.recv(ack(0, 0));
    assert_eq!(l.state(), State::Established);
    assert_eq!(l.conn.sender().rtt().samples(), 0);
    l.conn.send(&bytes(20_000), 20_000).unwrap();
    assert_eq!(l.settle().len(), 10);
}

/// The round trip begins when the SYN leaves, not when the device refused it.
#[test]
fn a_syn_that_the_device_refused_measures_from_when_it_left() {
    for refused in 1..4 {
        let (mut l, out) = Lone::syn_sent(plain());
        let mut tcp = out.tcp;
        for _ in 0..refused {
            l.conn.handle_local_drop(l.now, &tcp, 0);
            l.now = l.now + Duration::from_millis(20);
            tcp = Lone::one(l.settle()).tcp;
        }
        l.wait(Duration::from_millis(3));
        l.recv(syn_ack());
        let rtt = l.conn.sender().rtt().srtt();
        assert_eq!(
            rtt,
            Some(Duration::from_millis(3)),
            "refused {refused} times"
        );
    }
}
