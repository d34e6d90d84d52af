//! The packets of the simulated network: parsed headers, payload without bytes.

mod offload;

use crate::net::nic::rss::toeplitz;
use crate::net::packet::{HostId, Merge, Packet};
use narrows::buffer::Synthetic;
use narrows::buffer::synthetic::check_pattern;
use narrows::endpoint::demux::FourTuple;
use narrows::wire::{
    self, ChecksumPolicy, Ecn, Headers, IpHeader, PlainHeader, PlainSegment, SackBlocks, TcpHeader,
    TcpOptions,
};
use narrows_congestion::hint::cold_path;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV4};

/// The IPv4 address of a host: 10.0.0.1 for host 0, and so on.
pub fn address_of(host: HostId) -> IpAddr {
    IpAddr::V4(Ipv4Addr::from_bits(FIRST + host.0))
}

/// The IPv6 address of a host, with the IPv4 address at its end: `fd00::a00:1` for host 0, and so
/// on (a unique local address, RFC 4193). A host answers to both.
pub fn ipv6_address_of(host: HostId) -> IpAddr {
    IpAddr::V6(Ipv6Addr::from_bits(
        0xfd00 << 112 | u128::from(FIRST + host.0),
    ))
}

const FIRST: u32 = 0x0a00_0001;

/// Headers of IPv4 and TCP without options, and what timestamps take, aligned.
const PLAIN: u32 = 40;
const TIMESTAMPS: u32 = 12;

/// A TCP segment in its IP packet.
///
/// Of ten thousand senders each packet has long left the cache when it reaches its next hop, so what
/// nearly all are is one cache line: IPv4, no option but timestamps.
#[derive(Clone, Debug, PartialEq, Eq)]
#[repr(align(64))]
pub struct SimPacket {
    plain: PlainSegment,
    payload: u32,
    offset: u64,
    damage: Damage,
    rare: Option<Box<Rare>>,
}

const _: () = assert!(size_of::<SimPacket>() == 64, "one cache line");

/// What the network has done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Damage {
    None,
    /// A link has damaged it.
    Corrupt,
    /// A switch has cut its payload.
    Trimmed,
    /// Both.
    TrimmedAndCorrupt,
}

/// What few packets have.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Rare {
    /// SACK blocks, which acknowledgements have while something is missing.
    sack: SackBlocks,
    /// Of both headers, which do not change.
    header_len: u32,
    /// What hardly any have.
    rarer: Option<Box<Rarer>>,
}

/// What hardly any packets have.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Rarer {
    /// Source and destination.
    v6: Option<(IpAddr, IpAddr)>,
    urgent: u16,
    /// The options of SYNs, and unknown ones.
    mss: Option<u16>,
    window_scale: Option<u8>,
    sack_permitted: bool,
    unknown: Option<Box<[u8]>>,
    /// Payload of the segments that a NIC is to make of it; zero if it is one.
    segment: u32,
}

impl Rare {
    /// What of the packet is rare, if anything is.
    fn of(v6: Option<(IpAddr, IpAddr)>, ip: &IpHeader, tcp: &TcpHeader) -> Option<Box<Self>> {
        let TcpOptions {
            mss,
            window_scale,
            sack_permitted,
            timestamps: _,
            sack,
            ref unknown,
        } = tcp.options;
        let rarer = Rarer {
            v6,
            urgent: tcp.urgent,
            mss,
            window_scale,
            sack_permitted,
            unknown: unknown.clone(),
            segment: 0,
        };
        let rarer = rarer.unless_nothing();
        (rarer.is_some() || !sack.is_empty()).then(|| {
            Box::new(Self {
                sack,
                header_len: (ip.wire_len() + tcp.wire_len()) as u32,
                rarer,
            })
        })
    }

    /// Of IPv4 with `sack` and, if so, timestamps.
    #[inline(never)] // So that what makes packets is small enough to be in line.
    fn of_sack(sack: &SackBlocks, timestamps: bool) -> Box<Self> {
        Box::new(Self {
            sack: *sack,
            header_len: plain_len(timestamps) + sack.wire_len() as u32,
            rarer: None,
        })
    }
}

impl Rarer {
    /// In its box, if there is any of it.
    fn unless_nothing(self) -> Option<Box<Self>> {
        (self != Self::default()).then(|| Box::new(self))
    }
}

/// Bytes of both headers where nothing is rare.
#[inline]
const fn plain_len(timestamps: bool) -> u32 {
    PLAIN + if timestamps { TIMESTAMPS } else { 0 }
}

impl SimPacket {
    /// From what an endpoint's `transmit` gives.
    #[inline(always)] // Where it is made, so that its parts go right to their places.
    pub fn of(headers: Headers<'_>, payload: Synthetic) -> Self {
        match headers {
            Headers::Plain(&plain) => Self {
                plain,
                payload: payload.len,
                offset: payload.offset,
                damage: Damage::None,
                rare: None,
            },
            Headers::Sack(&plain, sack) => Self {
                plain,
                payload: payload.len,
                offset: payload.offset,
                damage: Damage::None,
                rare: Some(Rare::of_sack(sack, plain.tcp.timestamps.is_some())),
            },
            Headers::Any(ip, tcp) => Self::new(ip, tcp, payload),
        }
    }

    /// From what an endpoint's `poll_transmit` gives.
    #[cold]
    pub fn new(ip: &IpHeader, tcp: &TcpHeader, payload: Synthetic) -> Self {
        let none = Ipv4Addr::UNSPECIFIED;
        let (src, dst, v6) = match (ip.src, ip.dst) {
            (IpAddr::V4(src), IpAddr::V4(dst)) => (src, dst, None),
            ends => (none, none, Some(ends)),
        };
        Self {
            plain: PlainSegment {
                src,
                dst,
                tcp: PlainHeader::of(tcp),
                ecn: ip.ecn,
                dscp: ip.dscp,
                hop_limit: ip.hop_limit,
            },
            payload: payload.len,
            offset: payload.offset,
            damage: Damage::None,
            rare: Rare::of(v6, ip, tcp),
        }
    }

    /// Headers and payload.
    pub fn parts(&self) -> (IpHeader, TcpHeader, Synthetic) {
        let mut ip = self.plain.ip_header();
        (ip.src, ip.dst) = self.ends();
        let mut tcp = self.plain.tcp.header();
        if let Some(rarer) = self.rarer() {
            tcp.urgent = rarer.urgent;
            tcp.options.mss = rarer.mss;
            tcp.options.window_scale = rarer.window_scale;
            tcp.options.sack_permitted = rarer.sack_permitted;
            tcp.options.unknown.clone_from(&rarer.unknown);
        }
        tcp.options.sack = *self.sack();
        (ip, tcp, self.payload())
    }

    /// The headers, if nothing in them is rare.
    #[inline]
    pub fn plain(&self) -> Option<&PlainSegment> {
        self.rare.is_none().then_some(&self.plain)
    }

    /// The headers and their SACK blocks, if nothing else in them is rare.
    #[inline]
    pub fn with_sack(&self) -> Option<(&PlainSegment, &SackBlocks)> {
        match self.rare.as_deref() {
            None => Some((&self.plain, &SackBlocks::EMPTY)),
            Some(rare) if rare.rarer.is_none() => Some((&self.plain, &rare.sack)),
            Some(_) => None,
        }
    }

    #[inline]
    fn rarer(&self) -> Option<&Rarer> {
        self.rare.as_ref()?.rarer.as_deref()
    }

    /// What every TCP header has, and timestamps.
    #[inline]
    pub fn header(&self) -> &PlainHeader {
        &self.plain.tcp
    }

    /// Its SACK blocks.
    #[inline]
    pub fn sack(&self) -> &SackBlocks {
        match &self.rare {
            None => &SackBlocks::EMPTY,
            Some(rare) => &rare.sack,
        }
    }

    /// The window scale option, which only a SYN has.
    #[inline]
    pub fn window_scale(&self) -> Option<u8> {
        self.rarer()?.window_scale
    }

    /// Addresses and ports of source and destination, if they are of IPv4.
    #[inline]
    pub fn ends_v4(&self) -> Option<[SocketAddrV4; 2]> {
        if self.rarer().is_some_and(|rarer| rarer.v6.is_some()) {
            return None;
        }
        let PlainSegment { src, dst, tcp, .. } = &self.plain;
        Some([
            SocketAddrV4::new(*src, tcp.src_port),
            SocketAddrV4::new(*dst, tcp.dst_port),
        ])
    }

    /// The payload.
    #[inline]
    pub fn payload(&self) -> Synthetic {
        Synthetic {
            offset: self.offset,
            len: self.payload,
        }
    }

    /// Addresses and ports, as its receiver names them.
    #[inline]
    pub fn for_receiver(&self) -> FourTuple {
        let (src, dst) = self.ends();
        FourTuple {
            local: SocketAddr::new(dst, self.plain.tcp.dst_port),
            remote: SocketAddr::new(src, self.plain.tcp.src_port),
        }
    }

    /// Addresses and ports, as its sender names them.
    #[inline]
    pub fn for_sender(&self) -> FourTuple {
        let FourTuple { local, remote } = self.for_receiver();
        FourTuple {
            local: remote,
            remote: local,
        }
    }

    /// Bytes of payload.
    #[inline]
    pub fn payload_len(&self) -> usize {
        self.payload as usize
    }

    /// Source and destination.
    #[inline]
    fn ends(&self) -> (IpAddr, IpAddr) {
        match self.rarer().and_then(|rarer| rarer.v6) {
            Some(ends) => ends,
            None => (self.plain.src.into(), self.plain.dst.into()),
        }
    }

    /// It carries Congestion Experienced.
    pub fn is_ce(&self) -> bool {
        self.plain.ecn == Ecn::Ce
    }

    /// A link damaged it.
    pub fn is_corrupt(&self) -> bool {
        matches!(self.damage, Damage::Corrupt | Damage::TrimmedAndCorrupt)
    }

    /// It came through whole.
    #[inline]
    pub fn is_intact(&self) -> bool {
        self.damage == Damage::None
    }

    /// As it was before a switch cut its payload.
    pub(super) fn untrimmed(mut self) -> Self {
        self.damage = match self.damage {
            Damage::None | Damage::Trimmed => Damage::None,
            Damage::Corrupt | Damage::TrimmedAndCorrupt => Damage::Corrupt,
        };
        self
    }

    /// The packet as bytes, from the IP header on, into `buf`. Of one that was trimmed its headers,
    /// which still speak of the whole.
    pub fn write(&self, buf: &mut Vec<u8>) {
        let (ip, tcp, payload) = self.parts();
        let len = (self.header_len() + self.payload) as usize;
        buf.resize(len, 0);
        let written = wire::packet::emit(&ip, &tcp, &payload, buf)
            .expect("a packet of our own stack fits its own length");
        debug_assert_eq!(written, len);
        buf.truncate(self.wire_len() as usize);
        if self.is_corrupt()
            && let Some(last) = buf.last_mut()
        {
            *last ^= 1;
        }
    }

    /// Serialised and parsed again.
    ///
    /// # Panics
    /// If that changes anything: the wire format is wrong.
    pub fn through_bytes(&self, buf: &mut Vec<u8>) -> Self {
        self.write(buf);
        let parsed = wire::Packet::parse(buf, ChecksumPolicy::Verify)
            .unwrap_or_else(|e| panic!("our own packet does not parse: {e:?}: {self:?}"));
        assert_eq!(
            check_pattern(self.offset, parsed.payload),
            None,
            "the payload came out changed"
        );
        let payload = Synthetic {
            offset: self.offset,
            len: parsed.payload.len() as u32,
        };
        let again = Self::new(&parsed.ip, &parsed.tcp, payload);
        assert_eq!(&again, self, "the packet came out changed");
        again
    }
}

impl Packet for SimPacket {
    #[inline]
    fn wire_len(&self) -> u32 {
        let payload = if self.is_trimmed() { 0 } else { self.payload };
        self.header_len() + payload
    }
    #[inline]
    fn header_len(&self) -> u32 {
        match &self.rare {
            None => plain_len(self.plain.tcp.timestamps.is_some()),
            Some(rare) => rare.header_len,
        }
    }
    #[inline]
    fn destination(&self) -> HostId {
        if self.rare.is_none() {
            return HostId(self.plain.dst.to_bits().wrapping_sub(FIRST));
        }
        cold_path();
        match self.ends().1 {
            IpAddr::V4(v4) => HostId(v4.to_bits().wrapping_sub(FIRST)),
            IpAddr::V6(v6) => HostId((v6.to_bits() as u32).wrapping_sub(FIRST)),
        }
    }
    /// Of addresses and ports, all their bits, IPv4 and IPv6 alike.
    #[inline]
    fn flow_hash(&self) -> u32 {
        // Multiplied with odd numbers that have no pattern, and the high half folded in.
        let mix = |h: u64, word: u64| {
            let h = (h ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15);
            h ^ h >> 32
        };
        let hosts = match self.ends() {
            (IpAddr::V4(s), IpAddr::V4(d)) => {
                mix(0, u64::from(s.to_bits()) << 32 | u64::from(d.to_bits()))
            }
            (s, d) => [s, d].into_iter().fold(0, |h, address| {
                let bits = match address {
                    IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
                    IpAddr::V6(v6) => v6.to_bits(),
                };
                mix(mix(h, (bits >> 64) as u64), bits as u64)
            }),
        };
        let ports = u64::from(self.plain.tcp.src_port) << 16 | u64::from(self.plain.tcp.dst_port);
        (mix(hosts, ports) >> 32) as u32
    }
    fn rss_hash(&self) -> u32 {
        let (src, dst) = self.ends();
        let tcp = &self.plain.tcp;
        toeplitz((src, tcp.src_port), (dst, tcp.dst_port))
    }
    #[inline]
    fn is_ecn_capable(&self) -> bool {
        self.plain.ecn.is_capable()
    }
    #[inline]
    fn mark_ce(&mut self) {
        self.plain.ecn = Ecn::Ce;
    }
    fn corrupt(&mut self, _noise: u64) {
        self.damage = if self.is_trimmed() {
            Damage::TrimmedAndCorrupt
        } else {
            Damage::Corrupt
        };
    }
    fn dscp(&self) -> u8 {
        self.plain.dscp
    }
    fn trim(&mut self) {
        self.damage = if self.is_corrupt() {
            Damage::TrimmedAndCorrupt
        } else {
            Damage::Trimmed
        };
    }
    #[inline]
    fn is_trimmed(&self) -> bool {
        matches!(self.damage, Damage::Trimmed | Damage::TrimmedAndCorrupt)
    }
    fn frames(&self) -> u32 {
        self.count_frames()
    }
    fn split(&mut self) -> Option<Self> {
        self.split_first()
    }
    fn leads(&self) -> bool {
        self.may_lead()
    }
    fn merge(&mut self, next: &Self, segment: u32, most: u32) -> Merge {
        self.merge_next(next, segment, most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::wire::{Flags, SackBlock, Seq, Timestamps};

    /// Whatever a header says comes out again, and the length is that of the headers.
    #[test]
    fn nothing_is_lost_in_a_packet() {
        let v4 = |n| address_of(HostId(n));
        let v6 = |n: u16| IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0x0a00, n]);
        let timestamps = Some(Timestamps { val: 7, ecr: 8 });
        let mut sack = SackBlocks::EMPTY;
        sack.push(SackBlock {
            start: Seq(1),
            end: Seq(2),
        });
        let plain = TcpOptions::default();
        let options = [
            TcpOptions {
                sack,
                ..plain.clone()
            },
            TcpOptions {
                mss: Some(9),
                ..plain.clone()
            },
            TcpOptions {
                window_scale: Some(0),
                ..plain.clone()
            },
            TcpOptions {
                sack_permitted: true,
                ..plain.clone()
            },
            TcpOptions {
                unknown: Some(Box::new([254, 2])),
                ..plain.clone()
            },
            plain,
        ];
        for (n, options) in options.into_iter().enumerate() {
            for (src, dst) in [(v4(3), v4(4)), (v6(3), v6(4))] {
                for (timestamps, urgent) in [(None, 0), (timestamps, 0), (timestamps, 5)] {
                    let ip = IpHeader {
                        src,
                        dst,
                        ecn: Ecn::Ect0,
                        dscp: 1,
                        hop_limit: 2,
                    };
                    let tcp = TcpHeader {
                        src_port: 10,
                        dst_port: 11,
                        seq: Seq(12),
                        ack: Seq(13),
                        flags: Flags::ACK,
                        window: 14,
                        urgent,
                        options: TcpOptions {
                            timestamps,
                            ..options.clone()
                        },
                    };
                    let payload = Synthetic {
                        offset: 15,
                        len: 16,
                    };
                    let packet = SimPacket::new(&ip, &tcp, payload);
                    assert_eq!(packet.parts(), (ip, tcp.clone(), payload), "options {n}");
                    assert_eq!(
                        packet.wire_len() as usize,
                        ip.wire_len() + tcp.wire_len() + 16
                    );
                }
            }
        }
    }

    fn of_flow(src: IpAddr, dst: IpAddr, ports: (u16, u16)) -> SimPacket {
        let ip = IpHeader {
            src,
            dst,
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 64,
        };
        let tcp = TcpHeader {
            src_port: ports.0,
            dst_port: ports.1,
            ..TcpHeader::default()
        };
        SimPacket::new(&ip, &tcp, Synthetic { offset: 0, len: 0 })
    }

    /// Neighbours in address and port, as racks have them, spread over equal paths; no two of them
    /// have one hash, and each field counts. IPv4 and IPv6 alike.
    #[test]
    fn flows_hash_by_all_of_their_addresses_and_ports() {
        for address in [address_of, ipv6_address_of] {
            let mut hashes = std::collections::BTreeSet::new();
            let mut sixteenths = [0u32; 16];
            for src in 0..64 {
                for port in 0..64 {
                    let (src, dst) = (address(HostId(src)), address(HostId(100 + src % 8)));
                    let packet = of_flow(src, dst, (49_152 + port, 80));
                    assert_eq!(packet.destination().0, 100 + src_of(&packet) % 8);
                    let hash = packet.flow_hash();
                    assert_eq!(hash, packet.through_bytes(&mut Vec::new()).flow_hash());
                    sixteenths[(hash >> 28) as usize] += 1;
                    assert!(hashes.insert(hash), "two flows with one hash");
                }
            }
            // 256 each; five standard deviations.
            assert!(
                sixteenths.iter().all(|n| n.abs_diff(256) < 78),
                "{sixteenths:?}"
            );
            let [a, b, c] = [1, 2, 3].map(|h| address(HostId(h)));
            let hash = |src, dst, ports| of_flow(src, dst, ports).flow_hash();
            let hashes = [
                hash(a, b, (1, 2)),
                hash(c, b, (1, 2)),
                hash(a, c, (1, 2)),
                hash(a, b, (3, 2)),
                hash(a, b, (1, 3)),
                hash(b, a, (2, 1)),
            ];
            let distinct: std::collections::BTreeSet<_> = hashes.into_iter().collect();
            assert_eq!(distinct.len(), hashes.len());
        }
    }

    fn src_of(packet: &SimPacket) -> u32 {
        match packet.ends().0 {
            IpAddr::V4(v4) => v4.to_bits() - FIRST,
            IpAddr::V6(v6) => v6.to_bits() as u32 - FIRST,
        }
    }
}
