//! Payload that stays in the device's buffers: as long as it is in order and most of its buffer, and
//! until the user has read it or has taken it over.

use narrows::buffer::{Bytes, RecvRing, SendRing};
use narrows::config::{Buffers, TcpConfig};
use narrows::conn::{Boxed, Event};
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxChecksum, RxFrame};
use narrows::wire::checksum::Sum;
use narrows::wire::ethernet::MacAddr;
use narrows::wire::{ChecksumPolicy, HeadChecksum, packet};
use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::Arc;

type Host = Interface<Boxed<SendRing, RecvRing>>;

/// Bytes of each connection.
const TOTAL: usize = 4_000_000;

/// The byte at `at` of connection `k`.
fn pattern(k: usize, at: usize) -> u8 {
    ((at ^ (at >> 8) ^ (at >> 16)) as u8 ^ k as u8) & 0x7f
}
/// Of a device.
const BUFFER: usize = 65_600;

fn host(n: u8, tcp: TcpConfig, medium: Medium) -> Host {
    let addresses = vec![
        format!("10.0.0.{n}/24").parse().unwrap(),
        format!("fd00::{n}/64").parse().unwrap(),
    ];
    let config = InterfaceConfig::new(MacAddr([2, 0, 0, 0, 0, n]), addresses);
    let endpoint = EndpointConfig::new(Arc::new(tcp), [n; 16]);
    Host::new(config, endpoint, Capabilities::offload(medium, 1500)).unwrap()
}

/// What happens on the way.
#[derive(Clone, Copy, PartialEq)]
enum Fate {
    Pass,
    Drop,
    Twice,
    /// After the next one.
    Late,
    /// After a copy of it from another port, of which nobody knows.
    Mimicked,
}

/// Where the source port is, in Ethernet and IPv4 without options.
const PORT: std::ops::Range<usize> = 34..36;

struct Cable {
    frames: VecDeque<(Vec<u8>, RxChecksum)>,
    sent: usize,
    late: Option<(Vec<u8>, RxChecksum)>,
}

impl Cable {
    fn send(&mut self, from: &mut Host, now: Instant, fate: &dyn Fn(usize) -> Fate) {
        while let Some(frame) = from.poll_frame(now) {
            let mut bytes = Vec::new();
            frame.append_to(&mut bytes);
            let checksum = frame.offload.checksum;
            let checksum = checksum.map_or(RxChecksum::Unknown, RxChecksum::Partial);
            self.sent += 1;
            let frame = (bytes, checksum);
            match fate(self.sent) {
                Fate::Pass => self.frames.push_back(frame),
                Fate::Drop => {}
                Fate::Twice => self.frames.extend([frame.clone(), frame]),
                Fate::Mimicked => {
                    let mut mimic = frame.clone();
                    mimic.0[PORT].copy_from_slice(&9_u16.to_be_bytes());
                    self.frames.extend([mimic, frame]);
                }
                Fate::Late => {
                    self.late = Some(frame);
                    continue;
                }
            }
            self.frames.extend(self.late.take());
        }
        self.frames.extend(self.late.take());
    }

    /// As a device does that receives each frame into a buffer of its own.
    fn deliver(&mut self, to: &mut Host, now: Instant) {
        while let Some((mut bytes, checksum)) = self.frames.pop_front() {
            let len = bytes.len();
            bytes.resize(BUFFER, 0xee);
            let buffer = Bytes::from(bytes);
            let frame = RxFrame {
                bytes: &buffer[..len],
                checksum,
                segment_size: None,
                buffer: Some(&buffer),
            };
            to.handle_frame(now, &frame);
        }
    }
}

/// `a` sends over `conns` connections at once to `b`, who reads everything and sends bytes of its
/// own now and then; `b` afterwards.
fn transfer(
    conns: usize,
    to: &str,
    tcp: TcpConfig,
    medium: Medium,
    fate: &dyn Fn(usize) -> Fate,
) -> Host {
    let mut a = host(1, tcp.clone(), medium);
    let mut b = host(2, tcp, medium);
    let mut now = Instant::from_nanos(1_000_000_000);
    let to = to.parse().unwrap();
    b.listen(to, 8, None).unwrap();
    let clients: Vec<ConnId> = (0..conns)
        .map(|_| a.connect(now, None, to, None).unwrap())
        .collect();
    let data: Vec<Vec<u8>> = (0..conns)
        .map(|k| (0..TOTAL).map(|at| pattern(k, at)).collect())
        .collect();
    let (mut queued, mut got) = (vec![0; conns], vec![0; conns]);
    let mut servers: Vec<(ConnId, usize)> = Vec::new();
    let cable = || Cable {
        frames: VecDeque::new(),
        sent: 0,
        late: None,
    };
    let (mut there, mut back) = (cable(), cable());
    for round in 0..50_000 {
        if got.iter().all(|&n| n == TOTAL) {
            return b;
        }
        for (k, &id) in clients.iter().enumerate() {
            let conn = a.endpoint_mut().connection_mut(id).unwrap();
            // In turns, so that each is in the midst when the other one comes.
            let n = (TOTAL - queued[k]).min(100_000 + 50_000 * k);
            queued[k] += conn.send(&data[k][queued[k]..queued[k] + n], n).unwrap();
            let n = conn.readable();
            conn.consume(n, now);
        }
        there.send(&mut a, now, fate);
        there.deliver(&mut b, now);
        while let Some(event) = b.poll_event() {
            let (id, accepted) = match event {
                EndpointEvent::Accepted { conn, .. } => (conn, true),
                EndpointEvent::Conn { conn, event } => {
                    assert_eq!(event, Event::Readable);
                    (conn, false)
                }
            };
            let conn = b.endpoint_mut().connection_mut(id).unwrap();
            if accepted {
                let local = conn.remote();
                let is_it = |c: &&ConnId| a.endpoint().connection(**c).unwrap().local() == local;
                let client = clients.iter().find(is_it).unwrap();
                let k = clients.iter().position(|c| c == client).unwrap();
                servers.push((id, k));
            }
        }
        for &(id, k) in &servers {
            let conn = b.endpoint_mut().connection_mut(id).unwrap();
            let readable = conn.readable() as usize;
            // Leave some of it now and then: what arrives comes after what is held.
            let most = match round % 3 {
                0 => readable * 2 / 3,
                _ => readable,
            };
            let mut bytes: Vec<u8> = Vec::new();
            while round % 2 == 0 && bytes.len() < most {
                let chunk = conn.recv_chunk(most - bytes.len(), now);
                bytes.extend_from_slice(&chunk);
            }
            let left = most - bytes.len();
            let all = conn.recv_buffer().slices(conn.readable_end()).flatten();
            bytes.extend(all.take(left));
            conn.consume(left as u64, now);
            for byte in bytes {
                assert_eq!(
                    byte,
                    pattern(k, got[k]),
                    "byte {} of connection {k}",
                    got[k]
                );
                got[k] += 1;
            }
            if round % 5 == 0 {
                let _ = conn.send(&[1; 10], 10);
            }
        }
        back.send(&mut b, now, &|_| Fate::Pass);
        back.deliver(&mut a, now);
        now = now + Duration::from_micros(100);
        for host in [&mut a, &mut b] {
            if host.poll_timeout().is_some_and(|at| at <= now) {
                host.handle_timeout(now);
            }
        }
    }
    panic!("{got:?} of {TOTAL} bytes after all rounds");
}

#[test]
fn most_of_a_bulk_transfer_stays_in_the_devices_buffers() {
    for to in ["10.0.0.2:80", "[fd00::2]:80"] {
        for medium in [Medium::Ethernet, Medium::Ip] {
            let b = transfer(1, to, TcpConfig::default(), medium, &|_| Fate::Pass);
            let stats = b.stats();
            assert!(stats.shared > 40, "{stats:?}");
            // In super-frames, once the window is open.
            assert!(stats.shared * 10 > stats.frames_in * 5, "{stats:?}");
        }
    }
}

#[test]
fn of_several_connections_in_turn_as_well() {
    let to = "10.0.0.2:80";
    let tcp = TcpConfig::default();
    let b = transfer(3, to, tcp, Medium::Ethernet, &|_| Fate::Pass);
    assert!(b.stats().shared > 120, "{:?}", b.stats());
}

/// The sequence number is right, the port is not.
#[test]
fn a_strangers_buffers_are_not_kept() {
    let tcp = TcpConfig::default();
    let b = transfer(1, "10.0.0.2:80", tcp, Medium::Ethernet, &|_| Fate::Mimicked);
    assert!(b.endpoint().stats().strangers > 50);
}

#[test]
fn losses_and_disorder_are_survived() {
    for (nth, fate) in [
        (7, Fate::Drop),
        (5, Fate::Twice),
        (6, Fate::Late),
        (3, Fate::Late),
    ] {
        let pick = move |n: usize| match n > 20 && n.is_multiple_of(nth) {
            true => fate,
            false => Fate::Pass,
        };
        let tcp = TcpConfig::default();
        let b = transfer(2, "10.0.0.2:80", tcp, Medium::Ethernet, &pick);
        assert!(b.stats().shared > 0, "{:?}", b.stats());
    }
}

#[test]
fn a_small_receive_buffer_with_a_slow_reader() {
    for recv_buffer in [40_000, 70_000, 150_000] {
        let tcp = TcpConfig {
            buffers: Buffers {
                recv: recv_buffer,
                ..Buffers::default()
            },
            ..TcpConfig::default()
        };
        transfer(1, "10.0.0.2:80", tcp, Medium::Ethernet, &|_| Fate::Pass);
    }
}

type Tcp = Endpoint<Boxed<SendRing, RecvRing>>;

/// A frame in parts, as a device keeps it that gathers.
struct Parts {
    head: Vec<u8>,
    body: Bytes,
}

/// All that `from` has to send.
fn gather(from: &mut Tcp, now: Instant) -> Vec<Parts> {
    let next = || {
        from.transmit(now, |headers, payload| {
            let sum = HeadChecksum::Full(Sum::of_parts(payload.slices()));
            let mut head = vec![0; 120];
            let len = headers.emit_head(payload.len(), sum, &mut head).unwrap();
            head.truncate(len);
            let body = payload.to_bytes();
            Parts { head, body }
        })
    };
    std::iter::from_fn(next).collect()
}

/// What was handed over arrives by reference, each `lost`th frame but for the first few excepted: the bytes
/// are those that were sent, and `in_place` of 100 of them lie where they lay at the sender.
fn by_reference(to: &str, lost: usize, in_place: usize) {
    let to: std::net::SocketAddr = to.parse().unwrap();
    let tcp = |n: u8| {
        let config = EndpointConfig::new(Arc::new(TcpConfig::default()), [n; 16]);
        Tcp::new(config).unwrap()
    };
    let (mut a, mut b) = (tcp(1), tcp(2));
    let mut now = Instant::from_nanos(1_000_000_000);
    b.listen(to, 8, None).unwrap();
    let from = match to.is_ipv4() {
        true => "10.0.0.1:40000",
        false => "[fd00::1]:40000",
    };
    let client = a.connect(now, from.parse().unwrap(), to, None).unwrap();
    let whole = Bytes::from_iter((0..TOTAL).map(|at| pattern(0, at)));
    let memory = whole.as_ptr_range();
    let (mut unsent, mut server) = (whole.clone(), None);
    let (mut got, mut shared, mut frames) = (0, 0, 0);
    for _ in 0..50_000 {
        if got == TOTAL {
            assert!(
                shared * 100 >= TOTAL * in_place,
                "{shared} of {TOTAL} in place"
            );
            return;
        }
        let conn = a.connection_mut(client).unwrap();
        while conn.send_chunk(&mut unsent).unwrap() > 0 {}
        for frame in gather(&mut a, now) {
            frames += 1;
            if frames > 10 && frames % lost == 0 {
                continue;
            }
            let policy = ChecksumPolicy::Verify;
            packet::read_apart(&frame.head, frame.body, policy, |headers, payload| {
                b.handle_bytes(now, headers, payload);
            })
            .unwrap();
        }
        while let Some(event) = b.poll_event() {
            if let EndpointEvent::Accepted { conn, .. } = event {
                server = Some(conn);
            }
        }
        if let Some(conn) = server.and_then(|id| b.connection_mut(id)) {
            conn.recv_chunks(usize::MAX, now, |chunk| {
                assert!(
                    chunk
                        .iter()
                        .zip(got..)
                        .all(|(&byte, at)| byte == pattern(0, at))
                );
                got += chunk.len();
                shared += match memory.contains(&chunk.as_ptr()) {
                    true => chunk.len(),
                    false => 0,
                };
            });
        }
        for frame in gather(&mut b, now) {
            let policy = ChecksumPolicy::Verify;
            packet::read_apart(&frame.head, frame.body, policy, |headers, payload| {
                a.handle_bytes(now, headers, payload);
            })
            .unwrap();
        }
        now = now + Duration::from_micros(100);
        for host in [&mut a, &mut b] {
            if host.poll_timeout().is_some_and(|at| at <= now) {
                host.handle_timeout(now);
            }
        }
    }
    panic!("{got} of {TOTAL} bytes after all rounds");
}

#[test]
fn what_is_handed_over_can_reach_the_peers_user_without_a_copy() {
    for to in ["10.0.0.2:80", "[fd00::2]:80"] {
        // Each packet but those that end in another chunk.
        by_reference(to, usize::MAX, 97);
        by_reference(to, 97, 20);
    }
}
