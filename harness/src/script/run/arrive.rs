//! Packets that the script's peer sends.

use super::Machine;
use crate::script::ast::{Body, EcnField, Icmp, Options, Packet, Segment, TcpOption};
use crate::script::diagnostic::Diagnostic;
use crate::script::flow::peer_byte;
use crate::script::segment;
use narrows::wire::icmp::{IcmpError, IcmpErrorKind, QuotedSegment, TimeExceeded, Unreachable};
use narrows::wire::options::OptionPolicy;
use narrows::wire::{Ecn, Flags, IpHeader, Seq, TcpHeader, TcpOptions};
use std::net::SocketAddr;

/// Remote ports of connections that the script's peer opens.
const FIRST_REMOTE_PORT: u16 = 40_001;

impl Machine<'_> {
    pub(super) fn arrive(&mut self, packet: &Packet) -> Result<(), Diagnostic> {
        self.note_packet(self.now, packet);
        match &packet.body {
            Body::Tcp(segment) => self.segment(packet, segment)?,
            Body::Icmp(icmp) => self.icmp(packet, icmp)?,
        }
        self.settle()
    }

    /// The flow of a packet without ports.
    fn current_flow(&mut self) -> usize {
        if let Some(flow) = self.current {
            return flow;
        }
        let listening = self.sockets.values().find_map(|s| s.listening_port());
        let local = listening.unwrap_or(self.settings.bind_port);
        let remote = FIRST_REMOTE_PORT + self.flows.len() as u16;
        let flow = self.flow_of(local, remote);
        self.current = Some(flow);
        flow
    }

    fn segment(&mut self, packet: &Packet, s: &Segment) -> Result<(), Diagnostic> {
        let flow = match packet.ports {
            Some((from, to)) => self.flow_of(to, from),
            None => self.current_flow(),
        };
        let text: Vec<u8> = (0..s.len as u32)
            .map(|i| peer_byte(s.seq.wrapping_add(i)))
            .collect();
        let flow = &mut self.flows[flow];
        let Options::List(list) = &s.options else {
            return Err(Diagnostic::syntax(packet.span, "<...> arrives nowhere"));
        };
        let mut bytes = Vec::new();
        for option in list {
            let live = match option {
                TcpOption::Sack(blocks) => TcpOption::Sack(
                    blocks
                        .iter()
                        .map(|(a, b)| (flow.live(*a), flow.live(*b)))
                        .collect(),
                ),
                TcpOption::Timestamps { val, ecr } if s.flags.contains(Flags::ACK) => {
                    TcpOption::Timestamps {
                        val: *val,
                        ecr: flow.live_echo(*ecr),
                    }
                }
                other => other.clone(),
            };
            bytes.extend(segment::encoded(&live));
        }
        bytes.resize(bytes.len().next_multiple_of(4), 0);
        let options = TcpOptions::parse(&bytes, OptionPolicy::KeepValid).unwrap_or_default();
        if s.flags.contains(Flags::SYN) {
            if !flow.peer_isns.contains(&s.seq) {
                flow.peer_isns.push(s.seq);
            }
            flow.peer.clone_from(&options);
        }
        if s.len > 0 {
            flow.data_in += 1;
        }
        let ack = s.ack.map_or(0, |ack| flow.live(ack));
        let tcp = TcpHeader {
            src_port: flow.remote,
            dst_port: flow.local,
            seq: Seq(s.seq),
            ack: Seq(ack),
            flags: s.flags,
            window: s.window.unwrap_or(u16::MAX),
            urgent: s.urgent.unwrap_or(0),
            options,
        };
        let ip = self.header(packet);
        self.host.handle_packet(self.now, &ip, &tcp, &text[..]);
        Ok(())
    }

    fn header(&self, packet: &Packet) -> IpHeader {
        let tos = packet.ip.tos.unwrap_or(0);
        let ecn = match packet.ip.ecn {
            Some(EcnField::Is(ecn)) => ecn,
            _ => Ecn::from_bits(tos),
        };
        IpHeader {
            src: self.settings.remote,
            dst: self.settings.local,
            ecn,
            dscp: tos >> 2,
            hop_limit: packet.ip.ttl.unwrap_or(64),
        }
    }

    fn icmp(&mut self, packet: &Packet, icmp: &Icmp) -> Result<(), Diagnostic> {
        let Some(kind) = error_kind(icmp) else {
            return Err(Diagnostic::unsupported(
                packet.span,
                format!(
                    "no ICMP error `{} {}` is known",
                    icmp.kind,
                    icmp.code.as_deref().unwrap_or_default()
                ),
            ));
        };
        let flow = self.current_flow();
        let flow = &self.flows[flow];
        let seq = icmp.quoted.map_or(0, |(seq, _)| seq);
        let error = IcmpError {
            kind,
            segment: QuotedSegment {
                src: SocketAddr::new(self.settings.local, flow.local),
                dst: SocketAddr::new(self.settings.remote, flow.remote),
                seq: Seq(flow.live(seq)),
            },
        };
        self.host.handle_icmp(self.now, &error);
        Ok(())
    }
}

fn error_kind(icmp: &Icmp) -> Option<IcmpErrorKind> {
    let code = icmp.code.as_deref().unwrap_or_default();
    let mtu = icmp.mtu.map_or(0, |m| m.get() as u32);
    let unreachable = |why| Some(IcmpErrorKind::Unreachable(why));
    match (icmp.kind.as_str(), code) {
        ("unreachable", "frag_needed") | ("packet_too_big", _) => {
            Some(IcmpErrorKind::PacketTooBig { mtu })
        }
        ("unreachable", "net_unreachable" | "no_route") => unreachable(Unreachable::Network),
        ("unreachable", "host_unreachable" | "addr_unreachable" | "") => {
            unreachable(Unreachable::Host)
        }
        ("unreachable", "protocol_unreachable") => unreachable(Unreachable::Protocol),
        ("unreachable", "port_unreachable") => unreachable(Unreachable::Port),
        ("unreachable", "source_route_failed") => unreachable(Unreachable::SourceRoute),
        ("unreachable", "packet_filtered" | "net_prohibited" | "host_prohibited") => {
            unreachable(Unreachable::Prohibited)
        }
        ("time_exceeded", "" | "ttl_exceeded" | "ttl") => {
            Some(IcmpErrorKind::TimeExceeded(TimeExceeded::HopLimit))
        }
        ("time_exceeded", "frag_time_exceeded") => {
            Some(IcmpErrorKind::TimeExceeded(TimeExceeded::Reassembly))
        }
        ("parameter_problem", _) => Some(IcmpErrorKind::ParameterProblem {
            code: 0,
            pointer: 0,
        }),
        ("source_quench", _) => Some(IcmpErrorKind::SourceQuench),
        _ => None,
    }
}
