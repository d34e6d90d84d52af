//! Payload that may stay in the buffer that it arrived in, against payload that is copied: two hosts
//! get the same frames, the one as from a device that gives away its buffers. They must say, send
//! and deliver the same, whatever arrives and however it is read.

use super::input::Input;
use narrows::buffer::{Bytes, RecvRing, SendRing};
use narrows::config::{Buffers, TcpConfig};
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{
    Capabilities, Interface, InterfaceConfig, Medium, PartialChecksum, RxChecksum, RxFrame,
};
use narrows::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use narrows::wire::{ChecksumPolicy, Ecn, Flags, IpHeader, Packet, Seq, TcpHeader, Timestamps};
use narrows::{Duration, Instant};
use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

type Host = Interface<Boxed<SendRing, RecvRing>>;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEERS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const IP: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const PORT: u16 = 80;
/// The peer's port of the first connection.
const FIRST: u16 = 5_000;
/// Connections that send at once.
const CONNS: usize = 2;
const PEER_ISS: u32 = u32::MAX - 30_000;
const MAX_STEPS: usize = 60;
/// What stands in a buffer before the frame, and behind it.
const AROUND: [usize; 2] = [10, 100];
/// How soon after its use a large buffer is looked at.
const LATELY: Duration = Duration::from_secs(1);

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut lab = Lab::new(input.u8());
    lab.shake();
    let mut steps = 0;
    while !input.is_empty() && steps < MAX_STEPS {
        lab.step(&mut input);
        steps += 1;
    }
    lab.read(0, usize::MAX);
    lab.read(1, usize::MAX);
}

/// What the hosts have said last to one of the peer's ports.
#[derive(Clone, Copy, Debug)]
struct Heard {
    seq: Seq,
    ack: Seq,
    stamp: u32,
    conn: Option<ConnId>,
}

struct Lab {
    medium: Medium,
    /// Copies; keeps buffers.
    hosts: [Host; 2],
    now: Instant,
    told: [Heard; CONNS],
}

impl Lab {
    fn new(bits: u8) -> Self {
        let medium = match bits & 1 {
            0 => Medium::Ethernet,
            _ => Medium::Ip,
        };
        let host = || {
            let address = "10.0.0.1/24".parse().expect("valid");
            let mut config = InterfaceConfig::new(OURS, vec![address]);
            config.fixed_neighbors = vec![(IP[1].into(), PEERS)];
            let tcp = TcpConfig {
                buffers: Buffers {
                    recv: [30_000, 150_000, 400_000, 70_000][usize::from(bits >> 1 & 3)],
                    max_out_of_order_ranges: Some(4),
                    ..Buffers::default()
                },
                timestamps: match bits & 8 {
                    0 => TcpConfig::default().timestamps,
                    _ => narrows::config::TimestampMode::Off,
                },
                ..TcpConfig::default()
            };
            let endpoint = EndpointConfig::new(Arc::new(tcp), [bits; 16]);
            let capabilities = Capabilities::offload(medium, 1_500);
            let mut host = Host::new(config, endpoint, capabilities).expect("valid");
            let any = (Ipv4Addr::UNSPECIFIED, PORT).into();
            host.listen(any, CONNS, None).expect("free");
            host
        };
        let told = Heard {
            seq: Seq(0),
            ack: Seq(0),
            stamp: 0,
            conn: None,
        };
        Self {
            medium,
            hosts: [host(), host()],
            now: Instant::ZERO + Duration::from_secs(10),
            told: [told; CONNS],
        }
    }

    fn shake(&mut self) {
        for k in 0..CONNS {
            let mut syn = self.segment(k, Flags::SYN);
            (syn.seq, syn.ack) = (Seq(PEER_ISS), Seq(0));
            syn.options.mss = Some(1_460);
            syn.options.sack_permitted = true;
            syn.options.window_scale = Some(7);
            self.packet(&syn, &[], Checksum::Good);
            let mut ack = self.segment(k, Flags::ACK);
            ack.seq = self.told[k].ack;
            ack.ack = self.told[k].seq + 1;
            self.packet(&ack, &[], Checksum::Good);
            assert!(self.told[k].conn.is_some(), "the handshake is complete");
            self.told[k].seq += 1;
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        let what = input.u8();
        let k = usize::from(what >> 7) % CONNS;
        match what % 16 {
            0 => {
                let len = usize::from(input.u16() % 2_000);
                self.read(k, len);
            }
            1 => self.read(k, usize::MAX),
            2 => {
                self.now = self.now + Duration::from_millis(u64::from(input.u16()));
                self.settle();
            }
            3 => {
                let text = vec![what; usize::from(input.u16())];
                for host in &mut self.hosts {
                    let conn = self.told[k].conn;
                    let conn = conn.and_then(|id| host.endpoint_mut().connection_mut(id));
                    if let Some(conn) = conn {
                        let _ = conn.send(&text, text.len());
                    }
                }
                self.settle();
            }
            4 => {
                // Whatever follows, of any length, behind a header that is right.
                let mut frame = self.head();
                let len = usize::from(input.u8());
                frame.extend_from_slice(input.take(len));
                self.frame(&frame, Checksum::Good);
            }
            5 => {
                for host in &mut self.hosts {
                    let conn = self.told[k].conn;
                    let conn = conn.and_then(|id| host.endpoint_mut().connection_mut(id));
                    if let Some(conn) = conn {
                        conn.close(self.now);
                    }
                }
                self.settle();
            }
            _ => self.data(k, what, input),
        }
    }

    /// A segment of connection `k`, most of them the next one, long, and right.
    fn data(&mut self, k: usize, what: u8, input: &mut Input<'_>) {
        let kind = input.u8();
        let mut tcp = self.segment(k, Flags::ACK | Flags::PSH);
        match kind & 7 {
            0 => tcp.seq += input.offset() as u32,
            1 => tcp.ack += input.offset() as u32,
            2 => tcp.flags = Flags::from_bits(input.u16()),
            3 => {
                tcp.options.timestamps = input.flag().then(|| Timestamps {
                    val: input.u32(),
                    ecr: input.u32(),
                });
            }
            4 if input.flag() => tcp.src_port = input.u16(),
            _ => {}
        }
        let len = match what >> 4 & 3 {
            0 => usize::from(input.u8()),
            1 => 8_192,
            2 => usize::from(input.u16() % 20_000),
            _ => usize::from(input.u16()).min(65_000),
        };
        let first = input.u8();
        let mut text: Vec<u8> = (0..len)
            .map(|n| (n as u8).wrapping_add(first) & 0x7f)
            .collect();
        let checksum = match kind >> 3 & 3 {
            0 => Checksum::Unknown,
            1 => Checksum::Partial,
            _ => Checksum::Good,
        };
        if kind & 32 != 0 {
            text.truncate(len.saturating_sub(usize::from(first)));
        }
        let mut frame = self.bytes(&tcp, &text);
        match kind >> 6 {
            1 => frame.extend_from_slice(&[0x55; 7]),
            2 => {
                let at = usize::from(input.u8()) % frame.len().max(1);
                frame[at] ^= input.u8();
            }
            3 => frame.truncate(frame.len().saturating_sub(usize::from(first))),
            _ => {}
        }
        self.frame(&frame, checksum);
    }

    fn segment(&self, k: usize, flags: Flags) -> TcpHeader {
        let told = self.told[k];
        let mut tcp = TcpHeader {
            src_port: FIRST + k as u16,
            dst_port: PORT,
            seq: told.ack,
            ack: told.seq,
            flags,
            window: u16::MAX,
            ..TcpHeader::default()
        };
        tcp.options.timestamps = Some(Timestamps {
            val: (self.now.as_nanos() / 1_000_000) as u32,
            ecr: told.stamp,
        });
        tcp
    }

    /// What stands before the IP header.
    fn head(&self) -> Vec<u8> {
        if self.medium == Medium::Ip {
            return Vec::new();
        }
        let header = EthernetHeader {
            dst: OURS,
            src: PEERS,
            tag: None,
            ether_type: EtherType::Ipv4,
        };
        let mut frame = vec![0; header.wire_len()];
        header.emit(&mut frame).expect("there is room");
        frame
    }

    fn bytes(&self, tcp: &TcpHeader, text: &[u8]) -> Vec<u8> {
        let packet = Packet {
            ip: IpHeader {
                src: IpAddr::V4(IP[1]),
                dst: IpAddr::V4(IP[0]),
                ecn: Ecn::NotEct,
                dscp: 0,
                hop_limit: 64,
            },
            tcp: tcp.clone(),
            payload: text,
        };
        let mut wire = vec![0; packet.wire_len()];
        let mut frame = self.head();
        if packet.emit(&mut wire).is_ok() {
            frame.extend(wire);
        }
        frame
    }

    fn packet(&mut self, tcp: &TcpHeader, text: &[u8], checksum: Checksum) {
        let frame = self.bytes(tcp, text);
        self.frame(&frame, checksum);
    }

    /// Both get it, each in its way.
    fn frame(&mut self, bytes: &[u8], checksum: Checksum) {
        let checksum = match checksum {
            Checksum::Unknown => RxChecksum::Unknown,
            Checksum::Good => RxChecksum::Good,
            Checksum::Partial => RxChecksum::Partial(PartialChecksum {
                start: self.head().len() as u16 + 20,
                offset: 16,
            }),
        };
        let frame = |bytes, buffer| RxFrame {
            bytes,
            checksum,
            segment_size: None,
            buffer,
        };
        let [plain, shared] = &mut self.hosts;
        plain.handle_frame(self.now, &frame(bytes, None));
        let [before, behind] = AROUND.map(|len| vec![0xee; len]);
        let buffer = Bytes::from([&before, bytes, &behind].concat());
        let bytes = &buffer[before.len()..before.len() + bytes.len()];
        shared.handle_frame(self.now, &frame(bytes, Some(&buffer)));
        self.settle();
    }

    /// The user takes `most` bytes of connection `k`.
    fn read(&mut self, k: usize, most: usize) {
        let Some(id) = self.told[k].conn else { return };
        let [plain, shared] = &mut self.hosts;
        let mut copied = None;
        if let Some(conn) = plain.endpoint_mut().connection_mut(id) {
            let bytes = conn.recv_buffer().slices(conn.readable_end()).flatten();
            let bytes: Vec<u8> = bytes.copied().take(most).collect();
            // Nothing that was read is no look at the window.
            if !bytes.is_empty() {
                conn.consume(bytes.len() as u64, self.now);
            }
            copied = Some(bytes);
        }
        let mut kept = None;
        if let Some(conn) = shared.endpoint_mut().connection_mut(id) {
            let mut bytes: Vec<u8> = Vec::new();
            if most.is_multiple_of(2) && conn.readable() > 0 && most > 0 {
                let all = conn.recv_buffer().slices(conn.readable_end()).flatten();
                bytes.extend(all.take(most));
                conn.consume(bytes.len() as u64, self.now);
            }
            while bytes.len() < most {
                let chunk = conn.recv_chunk(most - bytes.len(), self.now);
                if chunk.is_empty() {
                    break;
                }
                bytes.extend_from_slice(&chunk);
            }
            kept = Some(bytes);
        }
        assert!(copied == kept, "other bytes were delivered");
        self.settle();
    }

    /// All that is due now: the same from both.
    fn settle(&mut self) {
        let now = self.now;
        let skip = self.head().len();
        let all = self.hosts.each_mut().map(|host| {
            host.handle_timeout(now);
            let mut frames: Vec<Vec<u8>> = Vec::new();
            while let Some(frame) = host.poll_frame(now) {
                let mut bytes = Vec::new();
                frame.append_to(&mut bytes);
                frames.push(bytes);
                assert!(frames.len() < 4_000, "never stops sending");
            }
            let mut events = Vec::new();
            while let Some(event) = host.poll_event() {
                events.push(event);
            }
            // Timers that are due at once run in the order of what woke them, and a look at a buffer
            // is due on one host only: what is of one connection is in order, not what is of both.
            frames.sort_by_key(|frame| port(skip, frame));
            events.sort_by_key(|event| match event {
                EndpointEvent::Accepted { conn, .. } | EndpointEvent::Conn { conn, .. } => *conn,
            });
            let timers = self.told.map(|told| {
                let conn = told.conn.and_then(|id| host.endpoint().connection(id));
                conn.and_then(|conn| conn.poll_timeout())
            });
            (frames, events, timers)
        });
        let [(frames, events, timers), shared] = all;
        assert_eq!(frames, shared.0, "other frames are sent");
        assert_eq!(events, shared.1, "other things happen");
        // A ring does not grow where payload stays elsewhere, and large ones are looked at a second
        // after they were used. When a host wants to be called is not compared: that look has it
        // forget a call which it would have had for nothing.
        let looked_at = |at: Option<Instant>| at.is_some_and(|at| at.since(now) <= LATELY);
        for (plain, shared) in timers.into_iter().zip(shared.2) {
            assert!(
                plain == shared || looked_at(plain) || looked_at(shared),
                "another timer is set: {plain:?} and {shared:?}"
            );
        }
        for event in events {
            if let EndpointEvent::Accepted { conn, .. } = event {
                let host = &self.hosts[0];
                let port = host.endpoint().connection(conn).map(|c| c.remote().port());
                let k = port.map_or(0, |p| usize::from(p.saturating_sub(FIRST)));
                if let Some(told) = self.told.get_mut(k) {
                    told.conn = Some(conn);
                }
            }
        }
        for frame in &frames {
            let Ok(p) = Packet::parse(&frame[skip.min(frame.len())..], ChecksumPolicy::Trust)
            else {
                continue;
            };
            let k = usize::from(p.tcp.dst_port.saturating_sub(FIRST));
            if let Some(told) = self.told.get_mut(k)
                && !p.tcp.flags.contains(Flags::RST)
            {
                told.seq = p.tcp.seq + p.payload.len() as u32;
                told.ack = p.tcp.ack;
                told.stamp = p.tcp.options.timestamps.map_or(0, |t| t.val);
            }
        }
    }
}

/// The peer's port a frame goes to, `skip` bytes of it standing before the IP header.
fn port(skip: usize, frame: &[u8]) -> Option<u16> {
    let packet = frame.get(skip..)?;
    let packet = Packet::parse(packet, ChecksumPolicy::Trust).ok()?;
    Some(packet.tcp.dst_port)
}

/// What the device says.
#[derive(Clone, Copy, Debug)]
enum Checksum {
    Unknown,
    Good,
    Partial,
}
