//! A frame leaves.

use super::{ByteTcp, Interface, InterfaceConfig, Last, MAX_HEAD, OwnFrame, Refusal};
use super::{Capabilities, Medium, Offload, PartialChecksum, Segmentation, TxFrame};
use crate::buffer::BytesView;
use crate::conn::{Output, Packet};
use crate::endpoint::NextOutput;
use crate::endpoint::demux::FourTuple;
use crate::neighbor::{Resolution, Solicitation};
use crate::siphash::SipKey;
use crate::wire::arp::{ArpOperation, ArpPacket};
use crate::wire::checksum::Sum;
use crate::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use crate::wire::icmp::Unreachable;
use crate::wire::ipv6::set_flow_label;
use crate::wire::ndp::{NdpMessage, group_mac, solicited_node};
use crate::wire::{
    EmitError, HeadChecksum, Headers, IcmpError, IcmpErrorKind, IpHeader, QuotedSegment, TcpHeader,
};
use narrows_congestion::{ByteCount, Instant};
use std::net::IpAddr;

/// The purpose of the key of flow labels; `Secrets` has the lower ones.
const FLOW_LABELS: u64 = 6;
/// Where the checksum lies in a TCP header.
const TCP_CHECKSUM_AT: u16 = 16;

/// How frames look on this device.
#[derive(Clone, Copy, Debug)]
pub(super) struct Link {
    pub(super) capabilities: Capabilities,
    pub(super) mac: MacAddr,
    pub(super) vlan: Option<u16>,
    /// Payload bytes of a packet at most.
    max_burst: u64,
    /// What flow labels hang on besides addresses and ports.
    flow_labels: SipKey,
}

impl Link {
    pub(super) fn new(
        config: &InterfaceConfig,
        capabilities: Capabilities,
        secret: &[u8; 16],
    ) -> Self {
        let largest = capabilities
            .max_super_frame
            .min(config.max_super_frame)
            .min(65_535);
        Self {
            capabilities,
            mac: config.mac,
            vlan: config.vlan.map(|tag| tag & 0xfff),
            // The largest headers; an IPv4 total length is 65,535 at most.
            max_burst: largest.saturating_sub(40 + 60) as u64,
            flow_labels: SipKey::from_bytes(secret).derive(FLOW_LABELS),
        }
    }

    /// The MSS that the MTU leaves (RFC 9293 section 3.7.1).
    pub(super) fn largest_mss(&self, ipv6: bool) -> u16 {
        let headers = if ipv6 { 60 } else { 40 };
        let mss = self.capabilities.mtu.saturating_sub(headers);
        u16::try_from(mss).unwrap_or(u16::MAX).clamp(64, 65_495)
    }

    /// Bytes before the IP header.
    pub(super) fn header_len(&self) -> usize {
        match (self.capabilities.medium, self.vlan) {
            (Medium::Ip, _) => 0,
            (Medium::Ethernet, None) => 14,
            (Medium::Ethernet, Some(_)) => 18,
        }
    }

    /// Write what is before the IP header.
    pub(super) fn emit(
        &self,
        dst: MacAddr,
        ether_type: EtherType,
        buf: &mut [u8],
    ) -> Result<usize, EmitError> {
        match self.capabilities.medium {
            Medium::Ip => Ok(0),
            Medium::Ethernet => EthernetHeader {
                dst,
                src: self.mac,
                tag: self.vlan,
                ether_type,
            }
            .emit(buf),
        }
    }

    /// Write the headers of a segment, to be cut into segments of `size`.
    fn head(
        &self,
        dst: MacAddr,
        headers: Headers<'_>,
        body: &BytesView<'_>,
        size: ByteCount,
        buf: &mut [u8; MAX_HEAD],
    ) -> Result<(usize, Offload), EmitError> {
        let ipv6 = headers.dst().is_ipv6();
        let kind = if ipv6 {
            EtherType::Ipv6
        } else {
            EtherType::Ipv4
        };
        let at = self.emit(dst, kind, buf)?;
        let checksum = if self.capabilities.checksum {
            HeadChecksum::Partial
        } else {
            HeadChecksum::Full(Sum::of_parts(body.slices()))
        };
        let len = at + headers.emit_head(body.len(), checksum, &mut buf[at..])?;
        if let Headers::Any(ip, tcp) = headers
            && let Some(label) = self.flow_label(ip, tcp)
        {
            set_flow_label(&mut buf[at..], label);
        }
        if !self.capabilities.checksum {
            return Ok((len, Offload::NONE));
        }
        // MAX_HEAD is far below 65,536, and so is a segment.
        let offload = Offload {
            checksum: Some(PartialChecksum {
                start: (at + headers.ip_len()) as u16,
                offset: TCP_CHECKSUM_AT,
            }),
            segment: (body.len() as u64 > size.get()).then_some(Segmentation {
                size: size.get() as u16,
                header_len: len as u16,
                ipv6,
            }),
        };
        Ok((len, offload))
    }

    /// The flow label of an IPv6 packet, the same for each of a connection (RFC 6437 section 3): a
    /// keyed hash, so that labels are spread evenly and nobody else can tell the next one. Never 0,
    /// which is none.
    fn flow_label(&self, ip: &IpHeader, tcp: &TcpHeader) -> Option<u32> {
        if ip.dst.is_ipv4() {
            return None;
        }
        let to = FourTuple::of(ip, tcp);
        let hash = self
            .flow_labels
            .sip24(FourTuple::new(to.remote, to.local).words());
        Some((hash % 0xf_ffff) as u32 + 1)
    }
}

/// Where a packet goes.
enum Way {
    To(MacAddr),
    /// To this neighbour, whose address is being asked for.
    Asked(IpAddr),
    Nowhere,
}

impl<T: ByteTcp> Interface<T> {
    /// The next frame to send.
    pub fn poll_frame(&mut self, now: Instant) -> Option<TxFrame<'_>> {
        self.solicit(now);
        if let Some(frame) = self.own.pop_front() {
            let done = std::mem::replace(&mut self.current, frame);
            self.recycle(done.bytes);
            self.last = Last::Own;
            self.stats.frames_out += 1;
            self.stats.bytes_out += self.current.bytes.len() as u64;
            return Some(TxFrame {
                head: &self.current.bytes,
                body: BytesView::default(),
                offload: self.current.offload,
            });
        }
        let mut out = Output::default();
        let (next, mac) = loop {
            let max = self.link.max_burst;
            let next = self.endpoint.next_output(now, max, &mut out)?;
            match self.way_of(next, now) {
                Way::To(mac) => break (next, mac),
                Way::Asked(neighbor) => {
                    if let Some(frame) =
                        self.detach(next, std::mem::take(&mut out), MacAddr::default())
                        && let Some(over) = self.neighbors.hold(neighbor, frame)
                    {
                        self.recycle(over.bytes);
                        self.stats.unroutable += 1;
                    }
                    self.solicit(now);
                    if !self.own.is_empty() {
                        return self.poll_frame(now);
                    }
                }
                Way::Nowhere => {
                    self.stats.unroutable += 1;
                    if let Some(frame) =
                        self.detach(next, std::mem::take(&mut out), MacAddr::default())
                    {
                        self.tell_unreachable(&frame, Unreachable::Network, now);
                    }
                }
            }
        };
        let (link, buf) = (&self.link, &mut self.head);
        let mut any = |(ip, tcp, body, size): Packet<_>| {
            let head = link.head(mac, Headers::Any(&ip, &tcp), &body, size, buf);
            (head, body, Last::Segment(ip, tcp, body.len()))
        };
        let (head, body, last) = match next {
            NextOutput::Stray => any(self.endpoint.next_stray()?),
            NextOutput::Conn(slot) => {
                let conn = self.endpoint.connection_in(slot)?;
                match conn.plain(&out) {
                    None => any(conn.packet(out)),
                    Some(segment) => {
                        let (size, body) = (conn.cut_at(&out), conn.leaving(out.payload));
                        let head = link.head(mac, Headers::Plain(&segment), &body, size, buf);
                        (head, body, Last::Plain(segment, body.len()))
                    }
                }
            }
        };
        let Ok((len, offload)) = head else {
            debug_assert!(false, "a segment of ours that cannot be written: {head:?}");
            return None;
        };
        self.stats.frames_out += 1;
        self.stats.bytes_out += (len + body.len()) as u64;
        self.last = last;
        Some(TxFrame {
            head: &self.head[..len],
            body,
            offload,
        })
    }

    /// The device refused the frame that [`poll_frame`](Self::poll_frame) gave last: it never
    /// left. Poll again when the device has room.
    pub fn handle_refused(&mut self, now: Instant) {
        self.stats.refused += 1;
        match std::mem::take(&mut self.last) {
            Last::Nothing => {}
            Last::Plain(segment, len) => {
                let (ip, tcp) = Headers::Plain(&segment).whole();
                self.endpoint.handle_local_drop(now, &ip, &tcp, len);
            }
            Last::Segment(ip, tcp, len) => self.endpoint.handle_local_drop(now, &ip, &tcp, len),
            Last::Own => {
                let frame = std::mem::take(&mut self.current);
                match frame.refused {
                    Refusal::Forget => self.recycle(frame.bytes),
                    Refusal::Later => self.own.push_front(frame),
                }
            }
        }
    }

    /// A duplicate acknowledgement must not wait for the end of a batch of received frames: the
    /// peer counts them (RFC 5681 section 4.2).
    pub(super) fn acknowledge_disorder(&mut self, now: Instant) {
        if self.own.len() >= MAX_DUPLICATE_ACKS {
            return;
        }
        let mut out = Output::default();
        let Some(next) = self.endpoint.disorder_ack(now, &mut out) else {
            return;
        };
        match self.way_of(next, now) {
            Way::To(mac) => {
                if let Some(frame) = self.detach(next, out, mac) {
                    self.own.push_back(frame);
                }
            }
            // It has been heard from, so this is rare; the next acknowledgement says the same.
            Way::Asked(_) | Way::Nowhere => self.stats.unroutable += 1,
        }
    }

    #[inline]
    fn way_of(&mut self, next: NextOutput, now: Instant) -> Way {
        if self.link.capabilities.medium == Medium::Ip {
            return Way::To(MacAddr::default());
        }
        let Some(hop) = self
            .endpoint
            .destination_of(next)
            .and_then(|dst| self.addresses.next_hop(dst))
        else {
            return Way::Nowhere;
        };
        match self.neighbors.resolve(hop, now) {
            Resolution::Known(mac) => Way::To(mac),
            Resolution::Asked => Way::Asked(hop),
        }
    }

    /// A packet as a frame of our own.
    fn detach(&mut self, next: NextOutput, out: Output, mac: MacAddr) -> Option<OwnFrame> {
        let mut bytes = self.buffer();
        let (ip, tcp, body, size) = self.endpoint.packet(next, out)?;
        let mut head = [0; MAX_HEAD];
        let (len, offload) = self
            .link
            .head(mac, Headers::Any(&ip, &tcp), &body, size, &mut head)
            .ok()?;
        let frame = TxFrame {
            head: &head[..len],
            body,
            offload,
        };
        frame.append_to(&mut bytes);
        Some(OwnFrame {
            bytes,
            offload,
            refused: Refusal::Later,
        })
    }

    /// Ask for neighbours, send what waited for them, give up those that do not answer.
    #[inline]
    fn solicit(&mut self, now: Instant) {
        if self.neighbors.has_news(now) {
            self.hear_of_neighbors(now);
        }
    }

    #[cold]
    fn hear_of_neighbors(&mut self, now: Instant) {
        while let Some(question) = self.neighbors.poll_solicitation(now) {
            self.ask(question);
        }
        while let Some((mac, mut frame)) = self.neighbors.poll_released() {
            if let Some(dst) = frame.bytes.get_mut(..6) {
                dst.copy_from_slice(&mac.0);
            }
            self.own.push_back(frame);
        }
        while let Some((_, frame)) = self.neighbors.poll_failed() {
            self.stats.unroutable += 1;
            self.tell_unreachable(&frame, Unreachable::Host, now);
            self.recycle(frame.bytes);
        }
    }

    /// What a router would say of a packet that has nowhere to go (RFC 1122 section 4.2.3.9).
    fn tell_unreachable(&mut self, frame: &OwnFrame, why: Unreachable, now: Instant) {
        let packet = frame.bytes.get(self.link.header_len()..);
        if let Some(segment) = packet.and_then(|p| QuotedSegment::parse(p).ok()) {
            let kind = IcmpErrorKind::Unreachable(why);
            self.endpoint.handle_icmp(now, &IcmpError { kind, segment });
        }
    }

    fn ask(&mut self, question: Solicitation) {
        let Some(source) = self.addresses.source_for(question.target) else {
            return;
        };
        let everyone = match question.target {
            IpAddr::V4(_) => MacAddr::BROADCAST,
            IpAddr::V6(target) => group_mac(solicited_node(target)),
        };
        let dst = question.last_known.unwrap_or(everyone);
        self.stats.neighbor_out += 1;
        match (source, question.target) {
            (IpAddr::V4(sender_ip), IpAddr::V4(target_ip)) => {
                let request = ArpPacket {
                    operation: ArpOperation::Request,
                    sender_mac: self.link.mac,
                    sender_ip,
                    target_mac: MacAddr::default(),
                    target_ip,
                };
                self.send_own(dst, EtherType::Arp, ArpPacket::WIRE_LEN, |buf| {
                    request.emit(buf)
                });
            }
            (IpAddr::V6(source), IpAddr::V6(target)) => {
                let message = NdpMessage::Solicitation {
                    target,
                    source_mac: Some(self.link.mac),
                };
                let to = match question.last_known {
                    Some(_) => target,
                    None => solicited_node(target),
                };
                self.send_own(dst, EtherType::Ipv6, NdpMessage::WIRE_LEN, |buf| {
                    message.emit(source, to, buf)
                });
            }
            // The source is of the target's family.
            _ => {}
        }
    }

    /// Queue a frame of our own with at most `len` bytes behind the link header.
    pub(super) fn send_own(
        &mut self,
        dst: MacAddr,
        ether_type: EtherType,
        len: usize,
        emit: impl FnOnce(&mut [u8]) -> Result<usize, EmitError>,
    ) {
        let mut bytes = self.buffer();
        bytes.resize(self.link.header_len() + len, 0);
        let written = self
            .link
            .emit(dst, ether_type, &mut bytes)
            .and_then(|at| Ok(at + emit(&mut bytes[at..])?));
        match written {
            Ok(len) => {
                bytes.truncate(len);
                self.answer(bytes);
            }
            Err(_) => {
                self.stats.answers_dropped += 1;
                self.recycle(bytes);
            }
        }
    }
}

/// Duplicate acknowledgements do not fill the queue.
const MAX_DUPLICATE_ACKS: usize = 256;
