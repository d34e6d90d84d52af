//! RFC 9293 section 3.1 and 3.2: header, checksum, options; and what they say about segment sizes
//! (section 3.7.1). Each test is named for its requirement.

use crate::pair;
use crate::pair::lone::{Lone, Out, ack, in_state, plain, seg, syn, syn_ack, text};
use crate::pair::{Pair, bytes};
use narrows::config::{TcpConfig, TimestampMode};
use narrows::conn::state::State;
use narrows::wire::packet::emit;
use narrows::wire::{
    ChecksumPolicy, Ecn, Flags, IpHeader, OptionPolicy, Packet, ParseError, SackBlock, Seq,
    TcpHeader, TcpOptions, Timestamps,
};
use narrows::{Duration, Instant};

const SYN: Flags = Flags::SYN;
const ACK: Flags = Flags::ACK;

fn ip(v6: bool) -> IpHeader {
    let (src, dst) = if v6 {
        ("fe80::1", "fe80::2")
    } else {
        ("10.0.0.1", "10.0.0.2")
    };
    IpHeader {
        src: src.parse().unwrap(),
        dst: dst.parse().unwrap(),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    }
}

fn header(options: TcpOptions) -> TcpHeader {
    TcpHeader {
        src_port: 1,
        dst_port: 2,
        seq: Seq(3),
        ack: Seq(4),
        flags: ACK,
        window: 5,
        urgent: 0,
        options,
    }
}

fn written(ip: &IpHeader, tcp: &TcpHeader, data: &[u8]) -> Vec<u8> {
    let mut buf = vec![0xa5; 2_000];
    let len = emit(ip, tcp, &data, &mut buf).unwrap();
    buf.truncate(len);
    buf
}

/// The one's complement sum of pseudo-header and segment, word by word as RFC 9293 section 3.1
/// has it.
fn naive_sum(packet: &[u8]) -> u16 {
    let v6 = packet[0] >> 4 == 6;
    let (addresses, segment) = if v6 {
        (&packet[8..40], &packet[40..])
    } else {
        (&packet[12..20], &packet[20..])
    };
    let mut all = addresses.to_vec();
    all.extend((segment.len() as u32).to_be_bytes());
    all.extend([0, 0, 0, 6]);
    all.extend(segment);
    all.resize(all.len().next_multiple_of(2), 0);
    let sum: u32 = all
        .chunks(2)
        .map(|w| u32::from(u16::from_be_bytes([w[0], w[1]])))
        .sum();
    let sum = (sum >> 16) + (sum & 0xffff);
    ((sum >> 16) + sum) as u16
}

fn sent(out: &[Out]) -> usize {
    out.iter().map(|o| o.data.len()).sum()
}

// ---- Window.

/// Bit 15 of the window is no sign.
#[test]
fn must_1_the_window_is_an_unsigned_number() {
    for window in [0x7fff, 0x8000, 0xffff] {
        let mut l = Lone::established_by(plain(), syn_ack().mss(1_000).win(window));
        assert_eq!(l.conn.peer_window(), u64::from(window));
        l.conn.set_nodelay(true);
        let mut all = 0;
        for _ in 0..100 {
            if all == 0 {
                all += sent(&l.send(&bytes(70_000)));
            }
            // The congestion window opens; the peer's right edge stays.
            let left = window - all.min(usize::from(window)) as u16;
            all += sent(&l.recv(ack(0, all as i64).win(left)));
        }
        // Less than a segment of it may be left: silly windows are not filled.
        let window = usize::from(window);
        assert!(all <= window && all > window - 1_000, "{all} of {window}");
    }
}

/// Windows are computed with 32 bits at least: 2^30 and more do not overflow.
#[test]
fn rec_1_windows_are_computed_with_32_bits_and_more() {
    let config = TcpConfig {
        window_scaling: true,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).scale(14).win(u16::MAX));
    l.recv(ack(0, 0).win(u16::MAX));
    assert_eq!(l.conn.peer_window(), 65_535 << 14);
}

// ---- Checksum.

#[test]
fn must_2_the_sender_computes_the_checksum() {
    for v6 in [false, true] {
        for data in [&b""[..], b"x", b"odd", b"even"] {
            let packet = written(&ip(v6), &header(TcpOptions::default()), data);
            assert_eq!(naive_sum(&packet), 0xffff, "{data:?}");
        }
    }
}

#[test]
fn must_3_the_receiver_checks_the_checksum() {
    for v6 in [false, true] {
        let good = written(&ip(v6), &header(TcpOptions::default()), b"data");
        assert!(Packet::parse(&good, ChecksumPolicy::Verify).is_ok());
        let start = ip(v6).wire_len();
        for byte in start..good.len() {
            let mut bad = good.clone();
            bad[byte] ^= 0x10;
            let error = Packet::parse(&bad, ChecksumPolicy::Verify);
            assert!(matches!(error, Err(ParseError::Checksum(_))), "{byte}");
        }
        // The addresses count too.
        let mut bad = good.clone();
        bad[if v6 { 20 } else { 15 }] ^= 1;
        assert!(Packet::parse(&bad, ChecksumPolicy::Verify).is_err());
    }
}

// ---- Options.

fn parsed(bytes: &[u8]) -> TcpOptions {
    TcpOptions::parse(bytes, OptionPolicy::KeepValid).unwrap()
}

/// End of list, no-operation, maximum segment size.
#[test]
fn must_4_the_mandatory_options_are_understood() {
    assert_eq!(parsed(&[2, 4, 5, 180]).mss, Some(1_460));
    assert_eq!(parsed(&[1, 1, 1, 2, 4, 5, 180, 1]).mss, Some(1_460));
    assert_eq!(parsed(&[1, 0, 2, 4, 5, 180]).mss, None, "after the end");
    let as_if_it_had_a_length = [0, 2, 2, 4, 5, 180, 1, 1];
    assert_eq!(parsed(&as_if_it_had_a_length).mss, None);
    let out = written(&ip(false), &header(parsed(&[2, 4, 5, 180])), b"");
    assert_eq!(out[40..], [2, 4, 5, 180]);
}

/// SYN, data, FIN and RST segments alike, whether the options mean anything there or not.
#[test]
fn must_5_options_are_received_in_any_segment() {
    let timestamps = || TcpConfig {
        timestamps: TimestampMode::Millis,
        ..plain()
    };
    let mut l = Lone::established_by(timestamps(), syn_ack().mss(1_000).ts(7, 0));
    l.peer_ts = None;
    l.recv(text(0, 0, b"data").ts(8, 0).mss(77).scale(3));
    assert_eq!(l.conn.readable(), 4);
    l.recv(ack(4, 0).and(Flags::FIN).ts(9, 0).sack_ok());
    assert_eq!(l.state(), State::CloseWait);
    assert_eq!(
        Lone::one(l.send(b"x")).tcp.options.timestamps.unwrap().ecr,
        9
    );
    l.recv(seg(Flags::RST, 5, 0).ts(10, 0));
    assert!(matches!(l.state(), State::Closed(_)));
}

#[test]
fn must_6_options_not_implemented_are_ignored() {
    let mut l = Lone::established(plain());
    for kind in (0..=255).filter(|k| !matches!(k, 0..=5 | 8)) {
        let at = i64::from(l.conn.readable() as u32);
        let mut segment = text(at, 0, b"x");
        segment.tcp.options = parsed(&[kind, 4, 1, 2]);
        assert_eq!(Lone::one(l.recv(segment)).ack, at + 1, "kind {kind}");
    }
    // What stands behind one is found by its length.
    assert_eq!(parsed(&[200, 5, 9, 9, 9, 2, 4, 5, 180]).mss, Some(1_460));
}

#[test]
fn must_7_illegal_option_lengths_are_survived() {
    let tails: [&[u8]; 6] = [&[2, 0], &[2, 1], &[2], &[8, 255], &[77, 0], &[3, 0, 0, 0]];
    for tail in tails {
        for policy in [OptionPolicy::KeepValid, OptionPolicy::Reject] {
            let mut bytes = vec![1, 3, 3, 7];
            bytes.extend(tail);
            bytes.resize(bytes.len().next_multiple_of(4), 1);
            let read = TcpOptions::parse(&bytes, policy);
            match policy {
                // What stood before it counts.
                OptionPolicy::KeepValid => assert_eq!(read.unwrap().window_scale, Some(7)),
                OptionPolicy::Reject => {
                    // A length that only swallows padding is legal.
                    assert!(read.is_err() || tail == [2], "{tail:?}");
                }
            }
        }
    }
    // As a whole packet.
    let mut packet = written(&ip(false), &header(parsed(&[2, 4, 5, 180])), b"data");
    packet[41] = 0;
    let read = Packet::parse(&packet, ChecksumPolicy::Trust).unwrap();
    assert_eq!((read.tcp.options.mss, read.payload), (None, &b"data"[..]));
}

/// Options begin at any byte.
#[test]
fn must_64_options_need_no_alignment() {
    for pad in 0..8 {
        let mut bytes = vec![1; pad];
        bytes.extend([8, 10, 0, 0, 0, 7, 0, 0, 0, 9, 3, 3, 2, 2, 4, 5, 180]);
        let options = parsed(&bytes);
        assert_eq!(options.timestamps, Some(Timestamps { val: 7, ecr: 9 }));
        assert_eq!((options.window_scale, options.mss), (Some(2), Some(1_460)));
    }
}

fn many_options() -> Vec<TcpOptions> {
    let mut all = Vec::new();
    for bits in 0..64 {
        let has = |bit: u32| bits >> bit & 1 == 1;
        let mut options = TcpOptions {
            mss: has(0).then_some(1_460),
            window_scale: has(1).then_some(7),
            sack_permitted: has(2),
            timestamps: has(3).then_some(Timestamps { val: 1, ecr: 2 }),
            ..TcpOptions::default()
        };
        if has(4) {
            let (start, end) = (Seq(1), Seq(2));
            options.sack.push(SackBlock { start, end });
        }
        if has(5) {
            options.unknown = Some(Box::new([99, 3, 0]));
        }
        if options.wire_len() <= 40 {
            all.push(options);
        }
    }
    all
}

/// Walks the options as a peer that knows none of them must; how many there are, and what is left
/// after the last.
fn walk(mut rest: &[u8]) -> (usize, &[u8]) {
    let mut n = 0;
    loop {
        match rest {
            [] | [0, ..] => return (n, rest),
            [1, after @ ..] => rest = after,
            [_, len, ..] => {
                n += 1;
                assert!(*len >= 2);
                rest = &rest[usize::from(*len)..];
            }
            [_] => panic!("an option without length"),
        }
    }
}

#[test]
fn must_68_every_option_but_end_and_nop_has_a_length() {
    for options in many_options() {
        let count = [
            options.mss.is_some(),
            options.window_scale.is_some(),
            options.sack_permitted,
            options.timestamps.is_some(),
            !options.sack.is_empty(),
            options.unknown.is_some(),
        ];
        let packet = written(&ip(false), &header(options.clone()), b"data");
        let end = 20 + usize::from(packet[32] >> 4) * 4;
        let (found, _) = walk(&packet[40..end]);
        assert_eq!(found, count.iter().filter(|c| **c).count(), "{options:?}");
    }
}

#[test]
fn must_69_the_header_is_padded_with_zeros() {
    let mut padded = 0;
    for options in many_options() {
        let packet = written(&ip(false), &header(options), b"data");
        let end = 20 + usize::from(packet[32] >> 4) * 4;
        assert_eq!(packet.len(), end + 4, "data begins on a word");
        let (_, padding) = walk(&packet[40..end]);
        assert!(padding.len() < 4 && padding.iter().all(|b| *b == 0));
        padded += usize::from(!padding.is_empty());
    }
    assert!(padded > 0);
}

// ---- Maximum segment size.

#[test]
fn must_14_the_mss_option_is_sent_and_received() {
    let config = TcpConfig {
        mss: 1_200,
        ..plain()
    };
    let (_, syn_out) = Lone::syn_sent(config.clone());
    assert_eq!(syn_out.tcp.options.mss, Some(1_200));
    let (_, answer) = Lone::syn_received(config.clone(), &syn().mss(700));
    assert_eq!(answer.tcp.options.mss, Some(1_200));
    let mut l = Lone::established_by(config, syn_ack().mss(700));
    assert!(l.send(&bytes(2_100)).iter().all(|o| o.data.len() == 700));
}

/// Also where it could be left out (MAY-3).
#[test]
fn shld_5_every_syn_has_the_mss_option() {
    for mss in [536, 1_220, 1_460, 8_960] {
        let config = TcpConfig { mss, ..plain() };
        let (mut l, first) = Lone::syn_sent(config.clone());
        assert_eq!(first.tcp.options.mss, Some(mss));
        let again = Lone::one(l.next_timer());
        assert_eq!(again.tcp.options.mss, Some(mss), "retransmitted");
        let (_, answer) = Lone::syn_received(config, &syn());
        assert_eq!(answer.tcp.options.mss, Some(mss), "SYN-ACK");
    }
}

#[test]
fn must_15_without_the_option_536_for_ipv4_and_1220_for_ipv6() {
    let mut l = Lone::established_by(
        TcpConfig {
            mss: 1_460,
            ..plain()
        },
        syn_ack(),
    );
    let out = l.send(&bytes(1_072));
    assert!(out.iter().all(|o| o.data.len() == 536), "{out:?}");

    use narrows::buffer::{RecvRing, SendRing};
    use narrows::conn::{Boxed, Connection, Opening};
    let now = Lone::start();
    let opening = Opening {
        local: "[fe80::1]:40000".parse().unwrap(),
        remote: "[fe80::2]:80".parse().unwrap(),
        ..pair::opening(true, pair::lone::ISS.0)
    };
    let config = std::sync::Arc::new(TcpConfig {
        mss: 1_440,
        ..plain()
    });
    let mut conn = Connection::<Boxed<SendRing, RecvRing>>::connect(config, opening, now);
    conn.poll_transmit(now).unwrap();
    conn.handle_segment(now, Ecn::NotEct, &syn_ack().tcp, &[]);
    conn.send(&bytes(2_440), 2_440).unwrap();
    for _ in 0..2 {
        let (_, _, view) = conn.poll_transmit(now).unwrap();
        assert_eq!(view.len(), 1_220);
    }
}

/// The smaller of what the peer takes and what the path takes, less the options.
#[test]
fn must_16_the_effective_send_mss_is_the_smaller() {
    for (ours, theirs, want) in [(1_000, 1_460, 1_000), (1_460, 1_000, 1_000)] {
        let config = TcpConfig {
            mss: ours,
            ..plain()
        };
        let mut l = Lone::established_by(config, syn_ack().mss(theirs));
        assert_eq!(l.send(&bytes(3_000))[0].data.len(), want);
        // The path.
        l.conn.handle_path_mtu(l.now, 540);
        l.recv(ack(0, 3_000));
        assert_eq!(l.send(&bytes(3_000))[0].data.len(), 500);
    }
    let config = TcpConfig {
        timestamps: TimestampMode::Millis,
        ..plain()
    };
    let mut l = Lone::established_by(config, syn_ack().mss(1_000).ts(1, 0));
    assert_eq!(l.send(&bytes(3_000))[0].data.len(), 988, "less the options");
}

#[test]
fn must_65_the_mss_option_is_on_no_segment_without_syn() {
    let mut p = Pair::new(TcpConfig::default(), TcpConfig::default());
    p.run_for(Duration::from_millis(10));
    p.transfer(&bytes(50_000), Duration::from_secs(5));
    p.client.close(p.now);
    let now: Instant = p.now;
    p.server().close(now);
    p.run_for(Duration::from_secs(1));
    let (mut with, mut without) = (0, 0);
    for seen in &p.log {
        assert_eq!(seen.tcp.options.mss.is_some(), seen.tcp.flags.contains(SYN));
        *(if seen.tcp.flags.contains(SYN) {
            &mut with
        } else {
            &mut without
        }) += 1;
    }
    assert!(with == 2 && without > 30);
    // Nor on what answers strangers and nonsense.
    for state in [State::Established, State::FinWait2, State::TimeWait] {
        let mut l = in_state(state, plain());
        for out in l.recv(seg(SYN, 5, 0)) {
            assert_eq!(out.tcp.options.mss, None);
        }
    }
}

/// No more than IP can reassemble: 65,535 less two headers of 20 bytes.
#[test]
fn must_67_the_mss_offered_is_no_more_than_ip_can_receive() {
    for mss in [64, 1_460, 65_495] {
        let config = TcpConfig { mss, ..plain() };
        assert_eq!(config.validate(), Ok(()));
        let (_, syn_out) = Lone::syn_sent(config);
        assert_eq!(syn_out.tcp.options.mss, Some(mss));
        // What it invites can be received.
        let mut buf = vec![0; 65_535];
        let data = vec![7; usize::from(mss)];
        let plain = TcpOptions::default();
        let len = emit(&ip(false), &header(plain), &&data[..], &mut buf).unwrap();
        assert!(Packet::parse(&buf[..len], ChecksumPolicy::Verify).is_ok());
    }
    for mss in [63, 65_496, u16::MAX] {
        let config = TcpConfig { mss, ..plain() };
        assert_eq!(config.validate().map_err(|e| e.name), Err("mss"));
    }
}

// ---- IP.

/// IP options and extension headers that TCP does not understand are passed over.
#[test]
fn must_50_ip_options_are_ignored() {
    let good = written(&ip(false), &header(TcpOptions::default()), b"data");
    let mut long = good.clone();
    // Record route, timestamp and an unknown one.
    let options = [7, 3, 4, 68, 4, 5, 0, 222, 2, 1, 0, 0];
    long.splice(20..20, options);
    long[0] = 0x48;
    let total = (long.len() as u16).to_be_bytes();
    long[2..4].copy_from_slice(&total);
    let (a, b) = (
        Packet::parse(&good, ChecksumPolicy::Trust).unwrap(),
        Packet::parse(&long, ChecksumPolicy::Trust).unwrap(),
    );
    assert_eq!(a, b);

    let good = written(&ip(true), &header(TcpOptions::default()), b"data");
    let mut long = good.clone();
    // Destination options with padding, and an option nobody knows.
    long.splice(40..40, [6, 0, 1, 2, 0, 0, 30, 0]);
    long[6] = 60;
    let len = (long.len() as u16 - 40).to_be_bytes();
    long[4..6].copy_from_slice(&len);
    let (a, b) = (
        Packet::parse(&good, ChecksumPolicy::Verify).unwrap(),
        Packet::parse(&long, ChecksumPolicy::Verify).unwrap(),
    );
    assert_eq!(a, b);
}
