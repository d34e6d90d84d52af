//! A frame arrives.

use super::{ByteTcp, Interface, Medium, RxChecksum, RxFrame};
use crate::buffer::Bytes;
use crate::buffer::recv::is_worth_it;
use crate::neighbor::Heard;
use crate::wire::arp::{ArpOperation, ArpPacket};
use crate::wire::ethernet::{EtherType, EthernetHeader, MacAddr};
use crate::wire::ip::{PROTOCOL_ICMP, PROTOCOL_ICMPV6};
use crate::wire::ndp::{NdpMessage, group_mac, solicited_node};
use crate::wire::{ChecksumPolicy, IcmpMessage, IcmpPacket, ParseError, packet};
use narrows_congestion::Instant;
use std::net::{IpAddr, Ipv6Addr};

const ALL_NODES: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 1);

impl<T: ByteTcp> Interface<T> {
    /// The device received `frame`.
    pub fn handle_frame(&mut self, now: Instant, frame: &RxFrame<'_>) {
        self.stats.frames_in += 1;
        self.stats.bytes_in += frame.bytes.len() as u64;
        let policy = match frame.checksum {
            RxChecksum::Unknown => ChecksumPolicy::Verify,
            RxChecksum::Good | RxChecksum::Partial(_) => ChecksumPolicy::Trust,
        };
        if self.link.capabilities.medium == Medium::Ip {
            let kind = match frame.bytes.first().map(|b| b >> 4) {
                Some(6) => EtherType::Ipv6,
                _ => EtherType::Ipv4,
            };
            self.on_packet(now, kind, frame.bytes, policy, frame.buffer, None);
            return;
        }
        let Ok((ethernet, packet)) = EthernetHeader::parse(frame.bytes) else {
            self.stats.malformed += 1;
            return;
        };
        if ethernet.dst != self.link.mac && !ethernet.dst.is_multicast() {
            self.stats.other_mac += 1;
            return;
        }
        // A tag with VLAN 0 says a priority only (IEEE 802.1Q).
        let vlan = ethernet.tag.map(|t| t & 0xfff).filter(|&v| v != 0);
        if vlan != self.link.vlan {
            self.stats.vlan += 1;
            return;
        }
        match ethernet.ether_type {
            EtherType::Ipv4 | EtherType::Ipv6 => {
                let kind = ethernet.ether_type;
                self.on_packet(now, kind, packet, policy, frame.buffer, Some(&ethernet));
            }
            EtherType::Arp => self.on_arp(now, packet),
            EtherType::Other(_) => self.stats.other_ether_type += 1,
        }
    }

    fn on_packet(
        &mut self,
        now: Instant,
        kind: EtherType,
        bytes: &[u8],
        policy: ChecksumPolicy,
        buffer: Option<&Bytes>,
        ethernet: Option<&EthernetHeader>,
    ) {
        // The EtherType and the packet must agree.
        let version = bytes.first().map(|b| b >> 4);
        let expected = if kind == EtherType::Ipv6 { 6 } else { 4 };
        if version != Some(expected) {
            self.stats.malformed += 1;
            return;
        }
        let to_group = ethernet.is_some_and(|e| e.dst.is_multicast());
        let taken = packet::read(bytes, policy, |headers, payload| {
            if to_group || !self.addresses.is_own(headers.dst()) {
                self.stats.other_address += 1;
                return;
            }
            match buffer.filter(|buffer| is_worth_it(payload.len(), buffer.len())) {
                None => self.endpoint.handle_headers(now, headers, payload),
                Some(buffer) => {
                    let shared = self.endpoint.handle_shared(now, headers, payload, buffer);
                    self.stats.shared += u64::from(shared);
                }
            }
            self.acknowledge_disorder(now);
        });
        match taken {
            Ok(()) => {}
            Err(ParseError::Protocol(p))
                if p == (if expected == 6 {
                    PROTOCOL_ICMPV6
                } else {
                    PROTOCOL_ICMP
                }) =>
            {
                // A device that has looked at TCP's checksum has not looked at this one.
                match IcmpPacket::parse(bytes, ChecksumPolicy::Verify) {
                    Ok(icmp) => self.on_icmp(now, &icmp, ethernet.map(|e| e.src)),
                    Err(e) => self.refuse(e),
                }
            }
            Err(e) => self.refuse(e),
        }
    }

    fn refuse(&mut self, why: ParseError) {
        let counter = match why {
            ParseError::Checksum(_) => &mut self.stats.bad_checksum,
            ParseError::Fragment => &mut self.stats.fragments,
            ParseError::Protocol(_) => &mut self.stats.other_protocol,
            _ => &mut self.stats.malformed,
        };
        *counter += 1;
    }

    fn on_icmp(&mut self, now: Instant, icmp: &IcmpPacket<'_>, from: Option<MacAddr>) {
        if let Some(message) = NdpMessage::from_icmp(icmp) {
            self.on_ndp(now, icmp, message, from);
            return;
        }
        if !self.addresses.is_own(icmp.ip.dst) {
            self.stats.other_address += 1;
            return;
        }
        match icmp.message {
            IcmpMessage::EchoRequest(_) if self.echo => {
                let Some(reply) = icmp.echo_reply() else {
                    self.stats.icmp_ignored += 1;
                    return;
                };
                let kind = match icmp.ip.src {
                    IpAddr::V4(_) => EtherType::Ipv4,
                    IpAddr::V6(_) => EtherType::Ipv6,
                };
                self.stats.echoes += 1;
                let dst = from.unwrap_or_default();
                self.send_own(dst, kind, reply.wire_len(), |buf| reply.emit(buf));
            }
            IcmpMessage::Error { .. } => match icmp.tcp_error() {
                Some(error) => {
                    self.stats.icmp_errors += 1;
                    self.endpoint.handle_icmp(now, &error);
                }
                None => self.stats.icmp_ignored += 1,
            },
            _ => self.stats.icmp_ignored += 1,
        }
    }

    /// RFC 826, packet reception.
    fn on_arp(&mut self, now: Instant, bytes: &[u8]) {
        let Ok(arp) = ArpPacket::parse(bytes) else {
            self.stats.malformed += 1;
            return;
        };
        let for_us = self.addresses.is_own(arp.target_ip.into());
        if !for_us || arp.sender_mac.is_multicast() {
            self.stats.other_address += 1;
            return;
        }
        self.stats.neighbor_in += 1;
        // An address probe has no sender (RFC 5227 section 1.1).
        let sender = IpAddr::V4(arp.sender_ip);
        if !sender.is_unspecified() && !self.addresses.is_own(sender) {
            let heard = match arp.operation {
                ArpOperation::Reply => Heard::Answer,
                ArpOperation::Request => Heard::Claim,
            };
            self.neighbors.learn(sender, arp.sender_mac, heard, now);
        }
        if arp.operation == ArpOperation::Request {
            let reply = ArpPacket {
                operation: ArpOperation::Reply,
                sender_mac: self.link.mac,
                sender_ip: arp.target_ip,
                target_mac: arp.sender_mac,
                target_ip: arp.sender_ip,
            };
            self.stats.neighbor_out += 1;
            self.send_own(arp.sender_mac, EtherType::Arp, ArpPacket::WIRE_LEN, |buf| {
                reply.emit(buf)
            });
        }
    }

    fn on_ndp(
        &mut self,
        now: Instant,
        icmp: &IcmpPacket<'_>,
        message: NdpMessage,
        from: Option<MacAddr>,
    ) {
        if self.link.capabilities.medium == Medium::Ip {
            self.stats.icmp_ignored += 1;
            return;
        }
        match message {
            NdpMessage::Solicitation { target, source_mac } => {
                let asked_right = icmp.ip.dst == IpAddr::V6(solicited_node(target))
                    || icmp.ip.dst == IpAddr::V6(target);
                if !self.addresses.is_own(target.into()) || !asked_right {
                    self.stats.other_address += 1;
                    return;
                }
                self.stats.neighbor_in += 1;
                let (to, mac) = match (icmp.ip.src, source_mac, from) {
                    (IpAddr::V6(src), Some(mac), _) => {
                        self.neighbors.learn(src.into(), mac, Heard::Claim, now);
                        (src, mac)
                    }
                    // It makes sure that its address is free: it is not, all shall know
                    // (RFC 4861 section 7.2.4).
                    (IpAddr::V6(src), None, _) if src.is_unspecified() => {
                        (ALL_NODES, group_mac(ALL_NODES))
                    }
                    // One who asks by unicast need not say where it is (RFC 4861 section 4.3), but
                    // is to be answered all the same.
                    (IpAddr::V6(src), None, Some(mac)) => (src, mac),
                    _ => return,
                };
                let answer = NdpMessage::Advertisement {
                    target,
                    target_mac: Some(self.link.mac),
                    solicited: to != ALL_NODES,
                    overrides: true,
                };
                self.stats.neighbor_out += 1;
                self.send_own(mac, EtherType::Ipv6, NdpMessage::WIRE_LEN, |buf| {
                    answer.emit(target, to, buf)
                });
            }
            NdpMessage::Advertisement {
                target,
                target_mac: Some(mac),
                solicited,
                overrides,
            } => {
                self.stats.neighbor_in += 1;
                let heard = match (solicited, overrides) {
                    (_, false) => Heard::Hint,
                    (true, true) => Heard::Answer,
                    (false, true) => Heard::Moved,
                };
                self.neighbors.learn(target.into(), mac, heard, now);
            }
            NdpMessage::Advertisement { .. } => self.stats.icmp_ignored += 1,
        }
    }
}
