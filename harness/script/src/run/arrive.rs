//! Packets that the script's peer sends.

use super::Machine;
use crate::ast::{Body, EcnField, Icmp, Options, Packet, Segment, TcpOption};
use crate::diagnostic::Diagnostic;
use crate::flow::peer_byte;
use crate::segment;
use narrows::wire::icmp::{IcmpErrorKind, TimeExceeded, Unreachable};
use narrows::wire::{
    Ecn, EmitError, Flags, IcmpMessage, IcmpPacket, IpHeader, OptionPolicy, Seq, TcpHeader,
    TcpOptions,
};

/// Remote ports of connections that the script's peer opens.
const FIRST_REMOTE_PORT: u16 = 40_001;

impl Machine<'_> {
    pub(super) fn arrive(&mut self, packet: &Packet) -> Result<(), Diagnostic> {
        self.note_packet(self.now, packet);
        let bytes = match &packet.body {
            Body::Tcp(segment) => self.segment(packet, segment)?,
            Body::Icmp(icmp) => self.icmp(packet, icmp)?,
        };
        self.stack.packet_in(&bytes).map_err(Self::stuck)?;
        self.after()
    }

    /// The flow of a packet without ports.
    fn current_flow(&mut self) -> usize {
        if let Some(flow) = self.current {
            return flow;
        }
        let listening = self.descriptors.values().find_map(|d| d.listening);
        let local = listening.unwrap_or(self.settings.bind_port);
        let remote = FIRST_REMOTE_PORT + self.flows.len() as u16;
        let flow = self.flow_of(local, remote);
        self.current = Some(flow);
        flow
    }

    fn segment(&mut self, packet: &Packet, s: &Segment) -> Result<Vec<u8>, Diagnostic> {
        let flow = match packet.ports {
            Some((from, to)) => self.flow_of(to, from),
            None => self.current_flow(),
        };
        let flow = &mut self.flows[flow];
        let Options::List(list) = &s.options else {
            return Err(Diagnostic::syntax(packet.span, "<...> arrives nowhere"));
        };
        let mut options = Vec::new();
        for option in list {
            let live = match option {
                TcpOption::Sack(blocks) => TcpOption::Sack(
                    blocks
                        .iter()
                        .map(|(a, b)| (flow.live(*a, s.flags), flow.live(*b, s.flags)))
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
            options.extend(segment::encoded(&live));
        }
        if s.flags.contains(Flags::SYN) {
            flow.on_peer_syn(s.seq);
            flow.peer = TcpOptions::parse(&options, OptionPolicy::KeepValid).unwrap_or_default();
        }
        if s.flags.contains(Flags::RST) {
            flow.on_end_of_opening();
        }
        let seq = s.seq.wrapping_add(flow.peer_shift(s.flags));
        // The SYN takes a number, and the text stands behind it.
        let first = seq.wrapping_add(u32::from(s.flags.contains(Flags::SYN)));
        let text: Vec<u8> = (0..s.len as u32)
            .map(|i| peer_byte(first.wrapping_add(i)))
            .collect();
        let tcp = TcpHeader {
            src_port: flow.remote,
            dst_port: flow.local,
            seq: Seq(seq),
            ack: Seq(s.ack.map_or(0, |ack| flow.live(ack, s.flags))),
            flags: s.flags,
            window: s.window.unwrap_or(u16::MAX),
            urgent: s.urgent.unwrap_or(0),
            options: TcpOptions::default(),
        };
        let ip = self.header(packet);
        segment::packet_bytes(&ip, &tcp, &options, &text)
            .map_err(|why| Diagnostic::unsupported(packet.span, why.to_string()))
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

    fn icmp(&mut self, packet: &Packet, icmp: &Icmp) -> Result<Vec<u8>, Diagnostic> {
        let unknown = || {
            Diagnostic::unsupported(
                packet.span,
                format!(
                    "no ICMP error `{} {}` is known",
                    icmp.kind,
                    icmp.code.as_deref().unwrap_or_default()
                ),
            )
        };
        let kind = error_kind(icmp).ok_or_else(unknown)?;
        let flow = self.current_flow();
        let flow = &self.flows[flow];
        // The start of the packet that it is about.
        let seq = icmp.quoted.map_or(0, |(seq, _)| seq);
        let about = TcpHeader {
            src_port: flow.local,
            dst_port: flow.remote,
            seq: Seq(flow.live(seq, Flags::NONE)),
            ..TcpHeader::default()
        };
        let from_us = IpHeader {
            src: self.settings.local,
            dst: self.settings.remote,
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 64,
        };
        let emit = || -> Result<Vec<u8>, EmitError> {
            let original = segment::packet_bytes(&from_us, &about, &[], &[])?;
            let error = IcmpPacket {
                ip: self.header(packet),
                message: IcmpMessage::Error {
                    kind,
                    original: &original,
                },
            };
            let mut out = vec![0; error.wire_len()];
            error.emit(&mut out)?;
            Ok(out)
        };
        emit().map_err(|_| unknown())
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
