//! Several segments as one packet: what a host hands a NIC with segmentation offload, and what receive
//! offload hands a host.

use super::{Rare, Rarer, SimPacket};
use crate::net::packet::{Merge, Packet};
use narrows::wire::{Flags, SackBlocks};

/// What only the last segment of several may carry.
const LAST: Flags = Flags::from_bits(Flags::FIN.bits() | Flags::PSH.bits());

/// What ends an aggregate: nothing is merged behind a segment with one of these.
const ENDS: Flags = Flags::from_bits(
    Flags::URG.bits()
        | Flags::PSH.bits()
        | Flags::RST.bits()
        | Flags::SYN.bits()
        | Flags::FIN.bits(),
);

impl SimPacket {
    /// The same, to be cut into segments with `segment` bytes of payload by the NIC, if it has more;
    /// zero for one that leaves as it is.
    #[must_use]
    pub fn cut_at(mut self, segment: u32) -> Self {
        let segment = if self.payload > segment { segment } else { 0 };
        if segment == self.segment() {
            return self;
        }
        let mut rare = match self.rare.take() {
            Some(rare) => *rare,
            None => Rare {
                sack: SackBlocks::EMPTY,
                header_len: self.header_len(),
                rarer: None,
            },
        };
        let rarer = Rarer {
            segment,
            ..rare.rarer.map_or_else(Rarer::default, |rarer| *rarer)
        };
        rare.rarer = rarer.unless_nothing();
        let any = rare.rarer.is_some() || !rare.sack.is_empty();
        self.rare = any.then(|| Box::new(rare));
        self
    }

    fn segment(&self) -> u32 {
        self.rarer().map_or(0, |rarer| rarer.segment)
    }

    pub(super) fn count_frames(&self) -> u32 {
        match self.segment() {
            0 => 1,
            segment => self.payload.div_ceil(segment).max(1),
        }
    }

    /// The first of its segments, without what only the last may carry.
    pub(super) fn split_first(&mut self) -> Option<Self> {
        let segment = self.segment();
        if segment == 0 {
            return None;
        }
        let mut first = self.clone();
        first.payload = segment;
        first.plain.tcp.flags = Flags::from_bits(first.plain.tcp.flags.bits() & !LAST.bits());
        let mut rest = self.clone();
        rest.payload -= segment;
        rest.offset += u64::from(segment);
        rest.plain.tcp.seq += segment;
        *self = rest.cut_at(segment);
        Some(first.cut_at(0))
    }

    /// Data that ends nothing.
    pub(super) fn may_lead(&self) -> bool {
        self.is_intact() && self.payload > 0 && !self.plain.tcp.flags.intersects(ENDS)
    }

    /// By the rules of Linux (`inet_gro_receive`, `tcp_gro_receive`, `skb_gro_receive`): same flow,
    /// time to live and type of service (so one congestion mark), same acknowledgement, window and
    /// options (so one timestamp), same flags but for PSH and FIN, no CWR; next in sequence, not
    /// empty, not longer than the first. One that is shorter, or has PSH, FIN, RST, SYN or URG, is
    /// the last.
    pub(super) fn merge_next(&mut self, next: &Self, segment: u32, most: u32) -> Merge {
        let free = Flags::CWR.bits() | LAST.bits();
        let same = self.is_intact()
            && next.is_intact()
            && (self.plain.src, self.plain.dst) == (next.plain.src, next.plain.dst)
            && (self.plain.tcp.src_port, self.plain.tcp.dst_port)
                == (next.plain.tcp.src_port, next.plain.tcp.dst_port)
            && (self.plain.ecn, self.plain.dscp, self.plain.hop_limit)
                == (next.plain.ecn, next.plain.dscp, next.plain.hop_limit)
            && (self.plain.tcp.ack, self.plain.tcp.window)
                == (next.plain.tcp.ack, next.plain.tcp.window)
            && (self.plain.tcp.flags.bits() ^ next.plain.tcp.flags.bits()) & !free == 0
            && !next.plain.tcp.flags.intersects(Flags::CWR)
            && self.plain.tcp.timestamps == next.plain.tcp.timestamps
            && self.rare == next.rare;
        let follows = self.plain.tcp.seq + self.payload == next.plain.tcp.seq
            && self.offset + u64::from(self.payload) == next.offset;
        let fits = (1..=segment).contains(&next.payload)
            && self.wire_len().saturating_add(next.payload) <= most;
        if !(same && follows && fits) {
            return Merge::No;
        }
        self.payload += next.payload;
        self.plain.tcp.flags = Flags::from_bits(
            self.plain.tcp.flags.bits() | next.plain.tcp.flags.bits() & LAST.bits(),
        );
        if next.payload < segment || next.plain.tcp.flags.intersects(ENDS) {
            Merge::Last
        } else {
            Merge::Yes
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::address_of;
    use crate::net::packet::HostId;
    use crate::sim::rng::{Component, Probability, Stream};
    use narrows::buffer::Synthetic;
    use narrows::wire::{Ecn, IpHeader, Seq, TcpHeader, TcpOptions, Timestamps};

    const MSS: u32 = 1_448;

    fn data(n: u32) -> SimPacket {
        let ip = IpHeader {
            src: address_of(HostId(1)),
            dst: address_of(HostId(0)),
            ecn: Ecn::Ect0,
            dscp: 0,
            hop_limit: 64,
        };
        let tcp = TcpHeader {
            src_port: 5_001,
            dst_port: 40_000,
            seq: Seq(7) + n * MSS,
            ack: Seq(1),
            flags: Flags::ACK,
            window: 500,
            options: TcpOptions {
                timestamps: Some(Timestamps { val: 3, ecr: 2 }),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        };
        let payload = Synthetic {
            offset: u64::from(n * MSS),
            len: MSS,
        };
        SimPacket::new(&ip, &tcp, payload)
    }

    /// The segments in each aggregate that a poll of `packets`, all of one flow, gives.
    fn aggregates(packets: &[SimPacket]) -> Vec<u32> {
        let mut sizes = Vec::new();
        let mut open: Option<SimPacket> = None;
        let close = |open: &mut Option<SimPacket>, sizes: &mut Vec<u32>| {
            sizes.extend(open.take().map(|p| p.payload.div_ceil(MSS)));
        };
        for packet in packets {
            if let Some(head) = &mut open {
                match head.merge(packet, MSS, 65_535) {
                    Merge::No => close(&mut open, &mut sizes),
                    Merge::Yes => continue,
                    Merge::Last => {
                        close(&mut open, &mut sizes);
                        continue;
                    }
                }
            }
            if packet.leads() {
                open = Some(packet.clone());
            } else {
                sizes.push(1);
            }
        }
        close(&mut open, &mut sizes);
        sizes
    }

    /// Segments that differ in what the kernel compares are not merged; each of these is a line of its
    /// `tcp_gro_receive` or `inet_gro_receive`.
    #[test]
    fn what_the_kernel_compares_keeps_segments_apart() {
        let apart = |change: fn(&mut SimPacket)| {
            let mut next = data(1);
            change(&mut next);
            let mut head = data(0);
            assert_eq!(head.merge(&next, MSS, 65_535), Merge::No);
            assert_eq!(head, data(0), "it is as it was");
        };
        apart(|p| p.plain.ecn = Ecn::Ce);
        apart(|p| p.plain.dscp = 8);
        apart(|p| p.plain.hop_limit = 63);
        apart(|p| p.plain.tcp.ack = Seq(2));
        apart(|p| p.plain.tcp.window = 501);
        apart(|p| p.plain.tcp.timestamps = Some(Timestamps { val: 4, ecr: 2 }));
        apart(|p| p.plain.tcp.timestamps = None);
        apart(|p| p.plain.tcp.flags = Flags::from_bits(Flags::ACK.bits() | Flags::CWR.bits()));
        apart(|p| p.plain.tcp.flags = Flags::from_bits(Flags::ACK.bits() | Flags::ECE.bits()));
        apart(|p| p.plain.tcp.src_port = 5_002);
        apart(|p| p.payload = 0);
        apart(|p| p.payload = MSS + 1);
        apart(|p| p.plain.tcp.seq += 1);
        apart(|p| crate::net::packet::Packet::corrupt(p, 0));
    }

    #[test]
    fn a_short_segment_or_a_push_is_the_last_and_its_flags_are_kept() {
        let mut head = data(0);
        assert_eq!(head.merge(&data(1), MSS, 65_535), Merge::Yes);
        let mut short = data(2);
        short.payload = 10;
        assert_eq!(head.clone().merge(&short, MSS, 65_535), Merge::Last);
        let mut push = data(2);
        push.plain.tcp.flags = Flags::from_bits(Flags::ACK.bits() | Flags::PSH.bits());
        assert_eq!(head.merge(&push, MSS, 65_535), Merge::Last);
        assert!(head.plain.tcp.flags.intersects(Flags::PSH) && head.payload == 3 * MSS);
        assert!(!push.leads() && data(0).leads());
        // No longer than the largest packet of IP: 45 segments of 1448 are 65,160 bytes.
        let all: Vec<SimPacket> = (0..64).map(data).collect();
        assert_eq!(aggregates(&all), [45, 19]);
    }

    /// Of n segments whose marks are independent with share m, the aggregates are the runs of equal
    /// marks: 1 + 2 m (1 - m) (n - 1) of them on average (each of the n - 1 borders divides with
    /// probability 2 m (1 - m)). Alternating marks leave nothing to merge.
    #[test]
    fn marks_make_as_many_aggregates_as_runs_are_expected() {
        let (n, polls) = (40_u32, 2_000_u32);
        let mut random = Stream::new(1, Component::Aqm, 0);
        for percent in [0_u64, 10, 50, 90] {
            let mut all = 0;
            for _ in 0..polls {
                let poll: Vec<SimPacket> = (0..n)
                    .map(|i| {
                        let mut packet = data(i);
                        if random.chance(Probability::ratio(percent, 100)) {
                            packet.mark_ce();
                        }
                        packet
                    })
                    .collect();
                all += aggregates(&poll).len() as u32;
            }
            let m = percent as f64 / 100.0;
            let expected = 1.0 + 2.0 * m * (1.0 - m) * f64::from(n - 1);
            let mean = f64::from(all) / f64::from(polls);
            assert!(
                (mean / expected - 1.0).abs() < 0.02,
                "{m}: {mean}, {expected}"
            );
        }
        let alternating: Vec<SimPacket> = (0..n)
            .map(|i| {
                let mut packet = data(i);
                if i % 2 == 1 {
                    packet.mark_ce();
                }
                packet
            })
            .collect();
        assert_eq!(aggregates(&alternating), vec![1; n as usize]);
    }

    #[test]
    fn what_a_nic_cuts_receive_offload_puts_together_again() {
        let mut whole = data(0);
        whole.payload = 5 * MSS + 100;
        whole.plain.tcp.flags = Flags::from_bits(Flags::ACK.bits() | Flags::PSH.bits());
        let plain = whole.clone();
        let mut left = whole.cut_at(MSS);
        assert_eq!((left.frames(), left.wire_len()), (6, plain.wire_len()));
        let mut frames = Vec::new();
        while let Some(first) = left.split() {
            frames.push(first);
        }
        frames.push(left);
        assert!(frames.iter().all(|f| f.rare.is_none()), "as others are");
        assert!(
            frames[..5]
                .iter()
                .all(|f| f.wire_len() == 1_500 && f.leads())
        );
        let mut again = frames[0].clone();
        for (n, frame) in frames.iter().enumerate().skip(1) {
            let last = if n == 5 { Merge::Last } else { Merge::Yes };
            assert_eq!(again.merge(frame, MSS, 65_535), last);
        }
        assert_eq!(again, plain);
        // A packet that fits is one frame.
        assert_eq!(data(0).cut_at(MSS), data(0));
    }
}
