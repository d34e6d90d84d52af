//! A packet joins the queue: when it leaves, and when it arrives.

use super::{Kind, Port, Schedule};
use crate::net::buffer::{Depth, InService};
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;
use narrows_congestion::hint::cold_path;

impl Port {
    /// When the first bit of what is given to it `now` leaves at the earliest.
    #[inline(always)]
    fn ready(&mut self, now: SimTime) -> SimTime {
        if self.delays {
            now + self.overhead.random.jitter(self.overhead.most)
        } else {
            now
        }
    }

    /// When the last bit of `len` bytes leaves that come `now`, and whether that is behind others.
    /// They are to [join](Self::join) the queue.
    #[inline(always)]
    pub(crate) fn schedule(&mut self, now: SimTime, len: u32) -> Schedule {
        let ready = self.ready(now);
        self.schedule_ready(ready, len)
    }

    #[inline(always)]
    fn schedule_ready(&mut self, ready: SimTime, len: u32) -> Schedule {
        let head_of_line = self.tx.free_at();
        let depart = self.tx.send(ready, self.framing.wire_len(len));
        Schedule {
            head_of_line,
            depart,
        }
    }

    /// Takes the packet in slot `i`, of `len` bytes in the buffer, behind [`Self::depth`]. Returns
    /// when its last bit leaves, and when it arrives if it is now first on the link and so needs an
    /// event. The port is a switch's, which needs no time before it sends.
    #[inline(always)]
    pub(crate) fn push<P>(
        &mut self,
        now: SimTime,
        i: u32,
        len: u32,
        depth: Depth,
        slab: &mut Slab<P>,
    ) -> (SimTime, Option<SimTime>) {
        debug_assert!(!self.delays, "a NIC's");
        self.push_ready((now, now), i, len, depth, slab)
    }

    /// The same at a [simple](Self::is_simple) port.
    #[inline(always)]
    pub(crate) fn push_simple<P>(
        &mut self,
        now: SimTime,
        i: u32,
        len: u32,
        depth: Depth,
        slab: &mut Slab<P>,
    ) -> (SimTime, Option<SimTime>) {
        let Schedule { depart, .. } = self.schedule_slot((now, now), i, len, slab);
        (depart, self.append(depart, i, len, depth, slab))
    }

    /// As [`Self::push`], of a packet whose first bit leaves at `ready` at the earliest.
    #[inline(always)]
    pub(super) fn push_ready<P>(
        &mut self,
        (now, ready): (SimTime, SimTime),
        i: u32,
        len: u32,
        depth: Depth,
        slab: &mut Slab<P>,
    ) -> (SimTime, Option<SimTime>) {
        let schedule = self.schedule_slot((now, ready), i, len, slab);
        let arrives = self.join(now, &schedule, i, len, depth, slab);
        (schedule.depart, arrives)
    }

    /// When the packet in slot `i` leaves whose first bit does at `ready` at the earliest, which its slot
    /// is told.
    #[inline(always)]
    fn schedule_slot<P>(
        &mut self,
        (now, ready): (SimTime, SimTime),
        i: u32,
        len: u32,
        slab: &mut Slab<P>,
    ) -> Schedule {
        let schedule = self.schedule_ready(ready, len);
        let hop = slab.hop_mut(i);
        hop.depart = schedule.depart;
        hop.waited = schedule.waits(now);
        hop.buffered = len;
        hop.next = NIL;
        schedule
    }

    /// Slot `i`, `len` bytes in the buffer, joins the queue behind [`Self::depth`] as scheduled
    /// `now`: when it arrives if it is first on the link.
    #[inline(always)]
    pub(crate) fn join<P>(
        &mut self,
        now: SimTime,
        schedule: &Schedule,
        i: u32,
        len: u32,
        depth: Depth,
        slab: &mut Slab<P>,
    ) -> Option<SimTime> {
        let Schedule {
            head_of_line,
            depart,
        } = *schedule;
        let arrives = self.append(depart, i, len, depth, slab);
        if self.kind == Kind::Recorded {
            cold_path();
            self.note_push(now, head_of_line, i, len, depart);
        }
        arrives
    }

    /// Puts slot `i`, which leaves at `depart`, at the end of the chain: when it arrives if it is first on the
    /// link.
    #[inline(always)]
    fn append<P>(
        &mut self,
        depart: SimTime,
        i: u32,
        len: u32,
        depth: Depth,
        slab: &mut Slab<P>,
    ) -> Option<SimTime> {
        // What a stopped transmitter is given departs never, and has no event.
        let first = self.chain(i, len, depth, slab) && depart != SimTime::MAX;
        first.then(|| depart + self.delay)
    }

    /// Puts slot `i`, behind which there is nothing, at the end of the chain; whether it is first on
    /// the link.
    #[inline(always)]
    fn chain<P>(&mut self, i: u32, len: u32, mut depth: Depth, slab: &mut Slab<P>) -> bool {
        let in_service = self.cursor == NIL;
        if in_service {
            self.cursor = i;
        }
        if !in_service || self.in_service == InService::Counted {
            depth.packets += 1;
            depth.bytes += u64::from(len);
        }
        self.count(len);
        self.note_depth(depth);
        let first = self.head == NIL;
        if first {
            self.head = i;
        } else {
            slab.hop_mut(self.tail).next = i;
        }
        self.tail = i;
        first
    }

    /// The queue is so long now.
    #[inline(always)]
    pub(super) fn note_depth(&mut self, depth: Depth) {
        if depth.packets > self.max_packets {
            self.max_packets = depth.packets;
        }
        if depth.bytes > self.stats.max_bytes {
            self.stats.max_bytes = depth.bytes;
        }
    }

    /// A packet of `len` bytes is taken.
    #[inline(always)]
    pub(super) fn count(&mut self, len: u32) {
        self.stats.packets += 1;
        self.stats.bytes += u64::from(len);
        self.queued_packets += 1;
        self.queued_bytes += u64::from(len);
    }
}
