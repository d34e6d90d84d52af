//! An interface on Ethernet that gets any frames: raw ones, and valid ones made from the bytes,
//! to a listener, an established connection, and the interface's own protocols.

use super::input::Input;
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{Buffers, TcpConfig};
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig, Medium, RxFrame};
use narrows::wire::arp::{ArpOperation, ArpPacket};
use narrows::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use narrows::wire::icmp::{Echo, TimeExceeded, Unreachable};
use narrows::wire::{
    ChecksumPolicy, Ecn, Flags, IcmpErrorKind, IcmpMessage, IcmpPacket, IpHeader, NdpMessage,
    Packet, SackBlock, Seq, TcpHeader, Timestamps,
};
use narrows::{Duration, Instant};
use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

type Host = Interface<Boxed<SendRing, RecvRing>>;

const OURS: MacAddr = MacAddr([2, 0, 0, 0, 0, 1]);
const PEERS: MacAddr = MacAddr([2, 0, 0, 0, 0, 2]);
const IP4: [Ipv4Addr; 2] = [Ipv4Addr::new(10, 0, 0, 1), Ipv4Addr::new(10, 0, 0, 2)];
const IP6: [Ipv6Addr; 2] = [
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 1),
    Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, 2),
];
const PEER_ISS: u32 = u32::MAX - 100;
/// Both sides of the established connection.
const PORTS: [u16; 2] = [80, 5_000];
const BACKLOG: usize = 4;
const MAX_STEPS: usize = 100;
/// Active opens by the user at most.
const MAX_OPENS: usize = 4;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let mut lab = Lab::new(input.u8());
    lab.shake();
    let mut steps = 0;
    while !input.is_empty() && steps < MAX_STEPS {
        lab.step(&mut input);
        steps += 1;
    }
    lab.leave();
}

struct Lab {
    host: Host,
    now: Instant,
    /// What the last segments of the host to the peer said.
    seq: Seq,
    ack: Seq,
    stamp: u32,
    conns: BTreeSet<ConnId>,
    opens: usize,
}

impl Lab {
    fn new(bits: u8) -> Self {
        let addresses = ["10.0.0.1/24", "fd00::1/64"];
        let addresses = addresses.iter().map(|a| a.parse().expect("valid"));
        let mut config = InterfaceConfig::new(OURS, addresses.collect());
        config.fixed_neighbors = vec![(IP4[1].into(), PEERS)];
        let tcp = TcpConfig {
            sack: bits & 1 == 0,
            window_scaling: bits & 2 == 0,
            buffers: Buffers {
                recv: if bits & 4 == 0 { 20_000 } else { 200_000 },
                send: 20_000,
                max_out_of_order_ranges: Some(4),
                ..Buffers::default()
            },
            ..TcpConfig::default()
        };
        let endpoint = EndpointConfig::new(Arc::new(tcp), [bits; 16]);
        let capabilities = Capabilities::plain(Medium::Ethernet, 1_500);
        let mut host = Host::new(config, endpoint, capabilities).expect("valid");
        let any = (Ipv4Addr::UNSPECIFIED, PORTS[0]).into();
        host.listen(any, BACKLOG, None).expect("free");
        let any = (Ipv6Addr::UNSPECIFIED, PORTS[0] + 1).into();
        host.listen(any, BACKLOG, None).expect("free");
        Self {
            host,
            now: Instant::ZERO + Duration::from_secs(10),
            seq: Seq(0),
            ack: Seq(0),
            stamp: 0,
            conns: BTreeSet::new(),
            opens: 0,
        }
    }

    /// The handshake of the established connection.
    fn shake(&mut self) {
        let mut syn = segment(Flags::SYN, Seq(PEER_ISS), Seq(0));
        syn.options.mss = Some(1_460);
        syn.options.sack_permitted = true;
        syn.options.window_scale = Some(7);
        syn.options.timestamps = Some(Timestamps { val: 0, ecr: 0 });
        self.tcp(&syn, &[], 4);
        let mut ack = segment(Flags::ACK, self.ack, self.seq + 1);
        ack.options.timestamps = Some(self.stamps(0));
        self.tcp(&ack, &[], 4);
        assert_eq!(self.conns.len(), 1, "the handshake is complete");
    }

    fn stamps(&self, ahead: i64) -> Timestamps {
        Timestamps {
            val: ((self.now.as_nanos() / 1_000_000) as u32).wrapping_add(ahead as u32),
            ecr: self.stamp,
        }
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.below(16) {
            0 => {
                let len = usize::from(input.u8());
                let frame = input.take(len).to_vec();
                self.frame(&frame);
            }
            1 => {
                let ether_type = [EtherType::Ipv4, EtherType::Ipv6, EtherType::Arp];
                let ether_type = ether_type[usize::from(input.below(3))];
                let len = usize::from(input.u8());
                let body = input.take(len).to_vec();
                self.ethernet(ether_type, &body);
            }
            2 => self.arp(input),
            3 => self.icmp(input),
            4 => self.icmp6(input),
            5 => {
                let ms = Duration::from_millis(u64::from(input.u16()));
                self.now = self.now + ms;
                self.settle();
            }
            6 => {
                if let Some(at) = self.host.poll_timeout() {
                    self.now = self.now.max(at);
                }
                self.settle();
            }
            7 | 8 => self.user(input),
            9 => self.stranger(input),
            _ => self.segment(input),
        }
    }

    fn segment(&mut self, input: &mut Input<'_>) {
        let kind = input.u8();
        let flags = match kind % 8 {
            0..=4 => Flags::ACK,
            5 => Flags::ACK | Flags::FIN,
            6 => Flags::RST,
            _ => Flags::from_bits(input.u16()),
        };
        // Most say just what continues.
        let (seq, ack) = match kind >> 3 & 3 {
            0 => (0, 0),
            1 => (input.offset(), 0),
            2 => (0, input.offset()),
            _ => (input.offset(), input.offset()),
        };
        let mut tcp = segment(flags, self.ack + seq as u32, self.seq + ack as u32);
        tcp.window = input.u16();
        if kind & 32 == 0 {
            tcp.options.timestamps = Some(self.stamps(0));
        } else {
            tcp.options.timestamps = input.flag().then(|| self.stamps(input.offset()));
            for _ in 0..input.below(4) {
                tcp.options.sack.push(SackBlock {
                    start: self.seq + input.offset() as u32,
                    end: self.seq + input.offset() as u32,
                });
            }
            tcp.urgent = input.u16();
        }
        let len = if kind & 64 == 0 {
            0
        } else {
            input.u16() % 1_461
        };
        let text = vec![kind; usize::from(len)];
        self.tcp(&tcp, &text, 4);
    }

    /// From another port, or over IPv6.
    fn stranger(&mut self, input: &mut Input<'_>) {
        let kind = input.u8();
        let flags = match kind % 4 {
            0 | 1 => Flags::SYN,
            2 => Flags::ACK,
            _ => Flags::from_bits(input.u16()),
        };
        let mut tcp = segment(flags, Seq(input.u32()), Seq(input.u32()));
        tcp.src_port = 6_000 + u16::from(input.u8());
        let family = if kind & 4 == 0 { 4 } else { 6 };
        tcp.dst_port = PORTS[0] + u16::from(family == 6) + u16::from(kind & 8 != 0);
        tcp.options.mss = Some(input.u16());
        tcp.options.sack_permitted = true;
        self.tcp(&tcp, &[], family);
    }

    fn user(&mut self, input: &mut Input<'_>) {
        let what = input.below(6);
        let Some(&id) = self.conns.iter().nth(usize::from(input.below(4))) else {
            return;
        };
        let now = self.now;
        if what == 5 {
            if self.opens < MAX_OPENS {
                self.opens += 1;
                let to = match input.flag() {
                    true => IpAddr::V4(IP4[1]),
                    false => IpAddr::V6(IP6[1]),
                };
                let conn = self.host.connect(now, None, (to, 9).into(), None);
                self.conns.extend(conn);
            }
        } else if let Some(conn) = self.host.endpoint_mut().connection_mut(id) {
            match what {
                0 | 1 => {
                    let data = vec![what; usize::from(input.u16())];
                    let _ = conn.send(&data, data.len());
                }
                2 => conn.consume(conn.readable(), now),
                3 => conn.close(now),
                _ => conn.abort(now),
            }
        }
        self.settle();
    }

    fn arp(&mut self, input: &mut Input<'_>) {
        let request = input.flag();
        let packet = ArpPacket {
            operation: match request {
                true => ArpOperation::Request,
                false => ArpOperation::Reply,
            },
            sender_mac: PEERS,
            sender_ip: Ipv4Addr::new(10, 0, 0, input.u8()),
            target_mac: OURS,
            target_ip: Ipv4Addr::new(10, 0, 0, input.below(3)),
        };
        let mut wire = [0; ArpPacket::WIRE_LEN];
        packet.emit(&mut wire).expect("there is room");
        self.ethernet(EtherType::Arp, &wire);
    }

    fn icmp(&mut self, input: &mut Input<'_>) {
        let kind = match input.below(8) {
            0 => IcmpErrorKind::Unreachable(Unreachable::Port),
            1 => IcmpErrorKind::Unreachable(Unreachable::Host),
            2 | 3 => IcmpErrorKind::PacketTooBig {
                mtu: u32::from(input.u16()),
            },
            4 => IcmpErrorKind::TimeExceeded(TimeExceeded::HopLimit),
            5 => IcmpErrorKind::ParameterProblem {
                code: input.u8(),
                pointer: u32::from(input.u8()),
            },
            6 => IcmpErrorKind::SourceQuench,
            _ => {
                let message = IcmpMessage::EchoRequest(Echo {
                    ident: 1,
                    sequence: input.u16(),
                    data: input.take(40),
                });
                return self.message(message, ip(4, 64));
            }
        };
        // Said to be about one of ours.
        let tcp = TcpHeader {
            src_port: PORTS[0],
            dst_port: PORTS[1],
            seq: self.seq + input.offset() as u32,
            ..TcpHeader::default()
        };
        let mut original = [0; 40];
        let quoted = Packet {
            ip: IpHeader {
                src: IP4[0].into(),
                dst: IP4[1].into(),
                ..ip(4, 64)
            },
            tcp,
            payload: &[][..],
        };
        let len = quoted.emit(&mut original).expect("there is room");
        let original = &original[..len];
        self.message(IcmpMessage::Error { kind, original }, ip(4, 64));
    }

    fn icmp6(&mut self, input: &mut Input<'_>) {
        let kind = input.u8();
        let mac = (kind & 2 == 0).then_some(PEERS);
        let message = match kind & 1 == 0 {
            true => NdpMessage::Solicitation {
                target: IP6[usize::from(kind >> 2 & 1)],
                source_mac: mac,
            },
            false => NdpMessage::Advertisement {
                target: IP6[usize::from(kind >> 2 & 1)],
                target_mac: mac,
                solicited: kind & 8 != 0,
                overrides: kind & 16 != 0,
            },
        };
        if kind & 32 == 0 {
            let mut wire = [0; NdpMessage::WIRE_LEN];
            let len = message
                .emit(IP6[1], IP6[0], &mut wire)
                .expect("there is room");
            self.ethernet(EtherType::Ipv6, &wire[..len]);
        } else {
            let body = input.take(60);
            let kind = [133, 134, 135, 136, 128, 2][usize::from(input.below(6))];
            let code = input.below(2);
            self.message(IcmpMessage::Other { kind, code, body }, ip(6, 255));
        }
    }

    fn message(&mut self, message: IcmpMessage<'_>, ip: IpHeader) {
        let packet = IcmpPacket { ip, message };
        let mut wire = vec![0; packet.wire_len()];
        if packet.emit(&mut wire).is_ok() {
            self.ethernet(ether_type(&ip), &wire);
        }
    }

    fn tcp(&mut self, tcp: &TcpHeader, text: &[u8], family: u8) {
        let packet = Packet {
            ip: ip(family, 64),
            tcp: tcp.clone(),
            payload: text,
        };
        let mut wire = vec![0; packet.wire_len()];
        if packet.emit(&mut wire).is_ok() {
            self.ethernet(ether_type(&packet.ip), &wire);
        }
    }

    fn ethernet(&mut self, ether_type: EtherType, body: &[u8]) {
        let header = EthernetHeader {
            dst: OURS,
            src: PEERS,
            tag: None,
            ether_type,
        };
        let mut frame = vec![0; header.wire_len()];
        header.emit(&mut frame).expect("there is room");
        frame.extend_from_slice(body);
        self.frame(&frame);
    }

    fn frame(&mut self, frame: &[u8]) {
        self.host.handle_frame(self.now, &RxFrame::plain(frame));
        self.settle();
    }

    /// All that is due now; what leaves must be valid, and must end.
    fn settle(&mut self) {
        self.host.handle_timeout(self.now);
        let mut frames = 0;
        while let Some(frame) = self.host.poll_frame(self.now) {
            let mut bytes = Vec::new();
            frame.append_to(&mut bytes);
            frames += 1;
            assert!(frames < 2_000, "never stops sending");
            let (header, body) = EthernetHeader::parse(&bytes).expect("our own are valid");
            assert!(bytes.len() <= 1_514);
            match header.ether_type {
                EtherType::Arp => {
                    ArpPacket::parse(body).expect("our own are valid");
                }
                _ => match Packet::parse(body, ChecksumPolicy::Verify) {
                    Ok(p) => {
                        if p.tcp.dst_port == PORTS[1] && !p.tcp.flags.contains(Flags::RST) {
                            self.seq = p.tcp.seq;
                            self.ack = p.tcp.ack;
                            self.stamp = p.tcp.options.timestamps.map_or(0, |t| t.val);
                        }
                    }
                    Err(_) => {
                        IcmpPacket::parse(body, ChecksumPolicy::Verify).expect("our own are valid");
                    }
                },
            }
        }
        while let Some(event) = self.host.poll_event() {
            if let EndpointEvent::Accepted { conn, .. } = event {
                self.conns.insert(conn);
            }
        }
        if let Some(at) = self.host.poll_timeout() {
            assert!(at > self.now, "a timer in the past: {at:?}");
        }
        let endpoint = self.host.endpoint();
        assert!(endpoint.connections() <= self.conns.len() + 2 * BACKLOG);
    }

    /// The user lets go of everything: some hours later nothing is left.
    fn leave(mut self) {
        // Embryonic connections that complete meanwhile come to be the user's.
        for _ in 0..3 {
            for id in std::mem::take(&mut self.conns) {
                if let Some(conn) = self.host.endpoint_mut().connection_mut(id) {
                    conn.abort(self.now);
                }
                self.host.endpoint_mut().release(id, self.now);
            }
            while self.host.poll_frame(self.now).is_some() {}
            let end = self.now + Duration::from_secs(3_600);
            let mut timers = 0;
            while let Some(at) = self.host.poll_timeout().filter(|at| *at <= end) {
                self.now = self.now.max(at);
                self.host.handle_timeout(self.now);
                while self.host.poll_frame(self.now).is_some() {}
                timers += 1;
                assert!(timers < 10_000, "timers without end");
            }
            self.now = end;
            while let Some(event) = self.host.poll_event() {
                if let EndpointEvent::Accepted { conn, .. } = event {
                    self.conns.insert(conn);
                }
            }
        }
        let left: Vec<_> = self.host.endpoint().connection_states().collect();
        assert!(left.is_empty(), "connections leak: {left:?}");
    }
}

/// The family of `ip` as an Ethernet frame names it.
fn ether_type(ip: &IpHeader) -> EtherType {
    match ip.src {
        IpAddr::V4(_) => EtherType::Ipv4,
        IpAddr::V6(_) => EtherType::Ipv6,
    }
}

/// From the peer to the host.
fn ip(family: u8, hop_limit: u8) -> IpHeader {
    let (dst, src) = match family {
        4 => (IP4[0].into(), IP4[1].into()),
        _ => (IP6[0].into(), IP6[1].into()),
    };
    IpHeader {
        src,
        dst,
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit,
    }
}

fn segment(flags: Flags, seq: Seq, ack: Seq) -> TcpHeader {
    TcpHeader {
        src_port: PORTS[1],
        dst_port: PORTS[0],
        seq,
        ack,
        flags,
        window: u16::MAX,
        ..TcpHeader::default()
    }
}
