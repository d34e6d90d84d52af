//! Segmentation offload: several segments leave as one packet, arrive as one, and are still
//! segments to loss recovery.

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{AckPolicy, Buffers, IdleRestart, InitialWindow, TcpConfig};
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::wire::Flags;
use narrows::{Duration, Instant};
use std::sync::Arc;

type Host = Endpoint<Boxed<SendRing, RecvRing>>;

const MAX: u64 = 60_000;

fn pattern(at: usize) -> u8 {
    (at ^ (at >> 8) ^ (at >> 16)) as u8
}

struct Outcome {
    got: Vec<u8>,
    /// Payload lengths of what the client's device took.
    taken: Vec<usize>,
    refused: usize,
    /// Acknowledgements without data.
    acks: usize,
    client: Host,
    conn: ConnId,
}

/// The client sends `total` bytes, its device refuses every `refuse`-th packet with data.
fn transfer(tcp: TcpConfig, total: usize, refuse: usize) -> Outcome {
    let tcp = Arc::new(tcp);
    let mut client = Host::new(EndpointConfig::new(tcp.clone(), [1; 16])).unwrap();
    let mut server = Host::new(EndpointConfig::new(tcp, [2; 16])).unwrap();
    let to = "10.0.0.2:80".parse().unwrap();
    server.listen(to, 4, None).unwrap();
    let mut now = Instant::ZERO;
    let from = "10.0.0.1:0".parse().unwrap();
    let conn = client.connect(now, from, to, None).unwrap();
    let mut out = Outcome {
        got: Vec::new(),
        taken: Vec::new(),
        refused: 0,
        acks: 0,
        client,
        conn,
    };
    let data: Vec<u8> = (0..total).map(pattern).collect();
    let mut queued = 0;
    let mut packets = 0_usize;
    for _ in 0..100_000 {
        if out.got.len() == total {
            return out;
        }
        let c = out.client.connection_mut(conn).unwrap();
        queued += c.send(&data[queued..], total - queued).unwrap();
        while let Some((ip, tcp, view, size)) = out.client.poll_transmit_burst(now, MAX) {
            let bytes: Vec<u8> = view.iter().collect();
            assert!(bytes.len() as u64 <= MAX.max(size.get()));
            let c = out.client.connection(conn).unwrap();
            let outstanding = c.sender().nxt() - c.sender().una();
            assert!(
                outstanding <= c.peer_window().max(1),
                "{outstanding} of {}",
                c.peer_window()
            );
            packets += usize::from(!bytes.is_empty());
            if refuse > 0 && !bytes.is_empty() && packets.is_multiple_of(refuse) {
                out.refused += 1;
                out.client.handle_local_drop(now, &ip, &tcp, bytes.len());
                break;
            }
            out.taken.extend((!bytes.is_empty()).then_some(bytes.len()));
            server.handle_packet(now, &ip, &tcp, &bytes);
            while let Some((ip, tcp, view)) = server.poll_transmit(now) {
                assert!(view.is_empty());
                out.acks += 1;
                out.client.handle_packet(now, &ip, &tcp, &[]);
            }
        }
        while let Some(event) = server.poll_event() {
            let (EndpointEvent::Accepted { conn, .. } | EndpointEvent::Conn { conn, .. }) = event;
            let conn = server.connection_mut(conn).unwrap();
            out.got
                .extend(conn.recv_buffer().peek(conn.readable_end()).iter());
            conn.consume(conn.readable(), now);
        }
        while out.client.poll_event().is_some() {}
        now = now + Duration::from_micros(50);
        for host in [&mut out.client, &mut server] {
            if host.poll_timeout().is_some_and(|at| at <= now) {
                host.handle_timeout(now);
            }
        }
    }
    panic!("{} of {total} bytes after all rounds", out.got.len());
}

fn wide() -> TcpConfig {
    TcpConfig {
        initial_window: InitialWindow::Segments(100),
        ..TcpConfig::default()
    }
}

#[test]
fn a_burst_is_one_packet_and_many_segments() {
    const TOTAL: usize = 3_000_000;
    let out = transfer(wide(), TOTAL, 0);
    assert!((0..TOTAL).all(|i| out.got[i] == pattern(i)));
    // With timestamps a full segment is 1,448 bytes.
    let largest = *out.taken.iter().max().unwrap();
    assert_eq!(largest, MAX as usize / 1_448 * 1_448);
    assert!(
        out.taken.len() < TOTAL / 20_000,
        "{} packets",
        out.taken.len()
    );
    let conn = out.client.connection(out.conn).unwrap();
    let stats = conn.sender_stats();
    assert_eq!(
        (stats.retransmits, stats.timeouts),
        (stats.tail_loss_probes, 0)
    );
    assert!(stats.segments >= (TOTAL / 1_448) as u64);
    assert!(conn.stats().segments_out >= stats.segments);
}

/// What arrives as one segment counts as all those that it was.
#[test]
fn a_merged_segment_is_acknowledged_as_what_it_was() {
    let tcp = TcpConfig {
        ack: AckPolicy {
            delay: Duration::from_millis(499),
            every: 4,
            quick_acks: 0,
        },
        ..wide()
    };
    // Delays would take half a second each, and there are 5 s in all.
    let out = transfer(tcp, 2_000_000, 0);
    assert!(out.acks >= out.taken.iter().filter(|&&n| n > 4 * 1_448).count());
}

#[test]
fn a_refused_burst_goes_back_whole() {
    for refuse in [2, 3, 5] {
        let out = transfer(wide(), 3_000_000, refuse);
        assert!((0..3_000_000).all(|i| out.got[i] == pattern(i)));
        assert!(out.refused > 5);
        let stats = out.client.connection(out.conn).unwrap().sender_stats();
        let repeated = (stats.retransmits, stats.timeouts);
        assert_eq!(repeated, (stats.tail_loss_probes, 0), "{refuse}");
        assert!(stats.local_drops > out.refused as u64);
    }
}

#[test]
fn without_room_for_two_segments_nothing_changes() {
    let out = transfer(wide(), 100_000, 0);
    let tiny = TcpConfig {
        initial_window: InitialWindow::Segments(1),
        ..TcpConfig::default()
    };
    let first = transfer(tiny, 100_000, 0).taken[0];
    assert_eq!(
        first, 1_448,
        "the window holds a burst back as it does a segment"
    );
    assert!(out.taken[0] > 1_448);
}

/// A burst ends where the peer's window does.
#[test]
fn the_peers_window_bounds_a_burst() {
    let tcp = TcpConfig {
        buffers: Buffers {
            recv: 30_000,
            ..wide().buffers
        },
        ..wide()
    };
    let out = transfer(tcp, 300_000, 0);
    assert!((0..300_000).all(|i| out.got[i] == pattern(i)));
    let largest = *out.taken.iter().max().unwrap();
    assert!((20_000..=30_000).contains(&largest), "{largest}");
}

/// A client with five full segments to send, which it may all send at once; what its device takes,
/// in segments, and the flags.
fn five_segments(close: bool) -> Vec<(usize, Flags)> {
    const SEGMENTS: usize = 5;
    let tcp = Arc::new(wide());
    let mut client = Host::new(EndpointConfig::new(tcp.clone(), [1; 16])).unwrap();
    let mut server = Host::new(EndpointConfig::new(tcp, [2; 16])).unwrap();
    let to = "10.0.0.2:80".parse().unwrap();
    server.listen(to, 4, None).unwrap();
    let now = Instant::ZERO;
    let from = "10.0.0.1:0".parse().unwrap();
    let conn = client.connect(now, from, to, None).unwrap();
    for _ in 0..2 {
        while let Some((ip, tcp, _, _)) = client.poll_transmit_burst(now, MAX) {
            server.handle_packet(now, &ip, &tcp, &[]);
        }
        while let Some((ip, tcp, _)) = server.poll_transmit(now) {
            client.handle_packet(now, &ip, &tcp, &[]);
        }
    }
    let c = client.connection_mut(conn).unwrap();
    let mss = c.sender().mss().get() as usize;
    let data = vec![7; SEGMENTS * mss];
    assert_eq!(c.send(&data, data.len()).unwrap(), data.len());
    if close {
        c.close(now);
    }
    let mut packets = Vec::new();
    while let Some((_, tcp, view, _)) = client.poll_transmit_burst(now, MAX) {
        packets.push((view.len() / mss, tcp.flags));
    }
    packets
}

/// Several segments are looked at as one, and still the last of them takes the FIN along, as it
/// would have on its own: the FIN is no packet of its own.
#[test]
fn the_last_segment_of_a_burst_keeps_its_fin() {
    let packets = five_segments(true);
    let fins: Vec<_> = packets
        .iter()
        .map(|p| (p.0, p.1.contains(Flags::FIN)))
        .collect();
    assert_eq!(fins, [(4, false), (1, true)]);
}

/// RFC 9293 MUST-61: it is the last that is queued.
#[test]
fn must_61_a_burst_of_all_there_is_has_psh() {
    assert_eq!(five_segments(false), [(5, Flags::ACK | Flags::PSH)]);
}

/// RFC 2861 section 3.2: what a burst fills was used, and is kept when there is nothing more to send.
#[test]
fn rfc2861_3_2_a_window_that_a_burst_fills_is_kept() {
    let tcp = Arc::new(TcpConfig {
        idle_restart: IdleRestart::Rfc2861,
        initial_window: InitialWindow::Segments(10),
        ..TcpConfig::default()
    });
    let mut client = Host::new(EndpointConfig::new(tcp.clone(), [1; 16])).unwrap();
    let mut server = Host::new(EndpointConfig::new(tcp, [2; 16])).unwrap();
    let to = "10.0.0.2:80".parse().unwrap();
    server.listen(to, 4, None).unwrap();
    let mut now = Instant::ZERO + Duration::from_secs(1);
    let from = "10.0.0.1:0".parse().unwrap();
    let conn = client.connect(now, from, to, None).unwrap();
    // Until there is nothing more to say.
    let mut talk = |client: &mut Host, now: Instant| {
        for _ in 0..4 {
            while let Some((ip, tcp, view, _)) = client.poll_transmit_burst(now, MAX) {
                let bytes: Vec<u8> = view.iter().collect();
                server.handle_packet(now, &ip, &tcp, &bytes);
            }
            while let Some((ip, tcp, _)) = server.poll_transmit(now) {
                client.handle_packet(now, &ip, &tcp, &[]);
            }
        }
    };
    let write = |client: &mut Host, segments: u64| {
        let c = client.connection_mut(conn).unwrap();
        let data = vec![0; (c.sender().mss() * segments).get() as usize];
        assert_eq!(c.send(&data, data.len()).unwrap(), data.len());
        data.len()
    };
    let window = |client: &Host| {
        let sender = client.connection(conn).unwrap().sender();
        sender.congestion().cwnd().get() / sender.mss().get()
    };
    talk(&mut client, now);
    let rto = client.connection(conn).unwrap().sender().current_rto();
    // For more than an RTO the window is not full, though no pause is as long.
    now = now + rto * 3 / 5;
    write(&mut client, 1);
    talk(&mut client, now);
    now = now + rto * 3 / 5;
    let before = window(&client);
    let bytes = write(&mut client, before);
    let packet = client.poll_transmit_burst(now, MAX).unwrap();
    assert_eq!(packet.2.iter().count(), bytes);
    assert!(client.poll_transmit_burst(now, MAX).is_none());
    assert_eq!(window(&client), before);
}
