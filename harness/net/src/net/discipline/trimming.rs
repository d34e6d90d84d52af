//! Packet trimming, as the switches of NDP do it (Handley et al., SIGCOMM 2017, section 3.1).
//!
//! Two queues: a short one for packets with payload, and one for headers. A packet that finds the
//! data queue full loses its payload instead of being dropped, or the one at the queue's tail loses
//! its own, by the toss of a coin, so that no sender is always the one who is hit (phase effects).
//! What is left, a header, goes into the header queue, which is served first, but after
//! `header_weight` headers comes a data packet that waits: a collapse into headers alone cannot
//! happen. Packets without payload (an acknowledgement, a SYN; NDP's control packets) go into the
//! header queue as they are.
//!
//! The port's limit is that of the data queue and counts what waits there, whatever is in service.
//!
//! A trimmed packet is not dropped: it reaches its destination, which learns at once what was lost.
//! A TCP can make nothing of it, since its checksum and length are those of the whole
//! segment; a host with a TCP counts it and goes on without, so that to TCP it is a loss.
//! Left out: returning a header to its sender when there is no room for it either (it is dropped),
//! and a DSCP of its own for what was trimmed.

use super::error::DisciplineError;
use super::packet_queue::PacketQueue;
use super::{Discipline, Effects, Queued, Room, Verdict};
use crate::net::buffer::{Capacity, Depth, Limit};
use crate::net::stats::DropReason;
use crate::sim::rng::{Probability, Stream};
use crate::sim::time::SimTime;

/// Parameters of trimming.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrimmingSpec {
    /// What the header queue holds. The paper: as many bytes as the data queue.
    pub headers: Capacity,
    /// Headers that may go before a data packet that waits: 1 to 65,536. The paper: 10.
    pub header_weight: u32,
    /// How often it is the packet at the tail of the data queue whose payload is cut, and not the
    /// one that arrives. The paper: half the time.
    pub trim_tail: Probability,
    /// Where packets without payload go.
    pub control: Control,
}

/// Where packets without payload go.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Control {
    /// With the headers, as NDP's: they overtake data, of their own flow too.
    #[default]
    Headers,
    /// With the data, in order; trimming does nothing for them, and when the queue is full they go
    /// with the headers all the same.
    Data,
}

impl TrimmingSpec {
    /// The values of the paper, with a header queue of `headers`.
    pub const fn new(headers: Capacity) -> Self {
        Self {
            headers,
            header_weight: 10,
            trim_tail: Probability::ratio(1, 2),
            control: Control::Headers,
        }
    }

    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        DisciplineError::within("header_weight", self.header_weight.into(), 1, 1 << 16)
    }
}

/// Trimming at work.
#[derive(Debug)]
pub(crate) struct Trimming {
    spec: TrimmingSpec,
    header_limit: Limit,
    coin: Stream,
    data: PacketQueue,
    headers: PacketQueue,
    /// Headers sent since the last data packet while one waited.
    run: u32,
}

impl Trimming {
    /// The coin is `stream`.
    pub(crate) fn new(spec: TrimmingSpec, stream: Stream) -> Self {
        Self {
            spec,
            header_limit: Limit::new(spec.headers),
            coin: stream,
            data: PacketQueue::new(),
            headers: PacketQueue::new(),
            run: 0,
        }
    }

    /// Whether the data queue takes `len` more bytes once `freed` of what waits there has gone; the
    /// pool gets back `cut` of these.
    fn data_admits(&self, room: &Room<'_>, len: u32, freed: Depth, cut: u64) -> bool {
        let depth = self.data.depth();
        let depth = Depth {
            packets: depth.packets - freed.packets,
            bytes: depth.bytes - freed.bytes,
        };
        (room.passes || room.limit.admits(depth, len)) && room.check_pool(len, cut).is_ok()
    }

    /// Cuts the packet at the tail of the data queue, if that makes room for `len`; whether it did.
    fn trim_tail(&mut self, len: u32, room: &Room<'_>, effects: &mut Effects) -> bool {
        let Some(tail) = self.data.tail().filter(|t| t.has_payload()) else {
            return false;
        };
        let freed = Depth {
            packets: 1,
            bytes: tail.len.into(),
        };
        let cut = u64::from(tail.len - tail.header_len);
        if !self.data_admits(room, len, freed, cut) {
            return false;
        }
        if let Some(mut tail) = self.data.pop_tail() {
            if self
                .header_limit
                .admits(self.headers.depth(), tail.header_len)
            {
                effects.trim(&mut tail);
                self.headers.push(tail);
            } else {
                effects.drop(tail, DropReason::HeaderQueueFull);
            }
        }
        true
    }
}

impl Discipline for Trimming {
    fn enqueue(&mut self, mut packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        let data = packet.has_payload() || self.spec.control == Control::Data;
        if data && !packet.trimmed {
            if self.data_admits(room, packet.len, Depth::default(), 0) {
                self.data.push(packet);
                return Verdict::Queue;
            }
            if packet.has_payload()
                && self.coin.chance(self.spec.trim_tail)
                && self.trim_tail(packet.len, room, effects)
            {
                self.data.push(packet);
                return Verdict::Queue;
            }
        }
        if !self
            .header_limit
            .admits(self.headers.depth(), packet.header_len)
        {
            return Verdict::Drop(DropReason::HeaderQueueFull);
        }
        if let Err(reason) = room.check_pool(packet.header_len, 0) {
            return Verdict::Drop(reason);
        }
        effects.trim(&mut packet);
        self.headers.push(packet);
        Verdict::Queue
    }

    fn dequeue(&mut self, _: SimTime, _: &mut Effects) -> Option<Queued> {
        let contended = !self.data.is_empty() && !self.headers.is_empty();
        let headers_first = !contended || self.run < self.spec.header_weight;
        if headers_first && let Some(header) = self.headers.pop_head() {
            self.run = if contended { self.run + 1 } else { 0 };
            return Some(header);
        }
        self.run = 0;
        self.data.pop_head()
    }

    fn depth(&self) -> Depth {
        let (data, headers) = (self.data.depth(), self.headers.depth());
        Depth {
            packets: data.packets + headers.packets,
            bytes: data.bytes + headers.bytes,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::Effect;
    use super::super::testing::{arrive, bytes, packet, serve};
    use super::*;
    use crate::sim::rng::Component;

    /// Eight data packets of 9000 bytes, as in the paper, and as many bytes of headers.
    const DATA: Capacity = Capacity::Packets(8);

    fn trimming(trim_tail: Probability) -> Trimming {
        let spec = TrimmingSpec {
            trim_tail,
            ..TrimmingSpec::new(bytes(72_000))
        };
        Trimming::new(spec, Stream::new(1, Component::Aqm, 0))
    }

    fn full(trim_tail: Probability) -> Trimming {
        let mut q = trimming(trim_tail);
        for n in 0..8 {
            let taken = arrive(&mut q, packet(n, 9_000), DATA);
            assert_eq!(taken, (Verdict::Queue, vec![]));
        }
        q
    }

    fn header(n: u32) -> Queued {
        Queued {
            len: 64,
            trimmed: true,
            ..packet(n, 9_000)
        }
    }

    /// The ninth packet is cut, or the eighth and the ninth takes its place; the header goes first.
    #[test]
    fn ndp_3_1_a_full_queue_cuts_the_packet_that_arrives_or_the_one_at_its_tail() {
        for (trim_tail, cut, kept) in [(Probability::NEVER, 8, 7), (Probability::ALWAYS, 7, 8)] {
            let mut q = full(trim_tail);
            let found = arrive(&mut q, packet(8, 9_000), DATA);
            let trimmed = Effect::Trim(header(cut), 8_936);
            assert_eq!(found, (Verdict::Queue, vec![trimmed]));
            assert_eq!(q.depth().bytes, 8 * 9_000 + 64);
            let served = serve(&mut q, SimTime::ZERO, 9);
            assert_eq!(served, [cut, 0, 1, 2, 3, 4, 5, 6, kept]);
        }
    }

    #[test]
    fn ndp_3_1_the_coin_is_fair() {
        let mut q = full(Probability::ratio(1, 2));
        let mut arriving = 0;
        for n in 8..1_008 {
            let (_, effects) = arrive(&mut q, packet(n, 9_000), DATA);
            arriving += u32::from(effects == [Effect::Trim(header(n), 8_936)]);
        }
        // 3 sigma of a binomial with p = 1/2.
        assert!((453..=547).contains(&arriving), "{arriving}");
    }

    /// Ten headers for each data packet while both wait; what waits alone goes at once.
    #[test]
    fn ndp_3_1_ten_headers_go_before_a_data_packet() {
        let mut q = full(Probability::NEVER);
        for n in 100..125 {
            arrive(&mut q, packet(n, 9_000), DATA);
        }
        let served = serve(&mut q, SimTime::ZERO, 99);
        let kinds: String = served
            .iter()
            .map(|&n| if n < 8 { 'D' } else { 'H' })
            .collect();
        assert_eq!(kinds, "HHHHHHHHHHDHHHHHHHHHHDHHHHHDDDDDD");
    }

    /// 72,000 bytes of headers are 1125 of 64 bytes; the next is dropped, and so is the packet at
    /// the tail when its header finds no room.
    #[test]
    fn ndp_3_1_a_full_header_queue_drops() {
        let mut q = full(Probability::NEVER);
        for n in 100..1_225 {
            let (verdict, _) = arrive(&mut q, packet(n, 9_000), DATA);
            assert_eq!(verdict, Verdict::Queue);
        }
        let dropped = (Verdict::Drop(DropReason::HeaderQueueFull), vec![]);
        assert_eq!(arrive(&mut q, packet(9, 9_000), DATA), dropped);
        q.spec.trim_tail = Probability::ALWAYS;
        let (verdict, effects) = arrive(&mut q, packet(10, 9_000), DATA);
        let out = Effect::Drop(packet(7, 9_000), DropReason::HeaderQueueFull);
        assert_eq!((verdict, effects), (Verdict::Queue, vec![out]));
        // A packet without payload is not cut, and has no other place.
        assert_eq!(arrive(&mut q, packet(11, 64), DATA), dropped);
    }

    /// Packets without payload overtake data or stay behind it; those cut elsewhere are headers.
    #[test]
    fn ndp_3_1_control_packets_go_with_the_headers_unless_told_otherwise() {
        for (control, served) in [(Control::Headers, [2, 3, 1]), (Control::Data, [3, 1, 2])] {
            let mut q = trimming(Probability::NEVER);
            q.spec.control = control;
            for p in [packet(1, 9_000), packet(2, 64), header(3)] {
                assert_eq!(arrive(&mut q, p, DATA).0, Verdict::Queue);
            }
            assert_eq!(serve(&mut q, SimTime::ZERO, 9), served);
        }
    }
}
