//! What is recorded of a port's queue: its course, its integral. Of most nothing is.

use super::{Kind, Port};
use crate::net::buffer::InService;
use crate::net::stats::{Credit, QueueArea, QueueTrace};
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;

impl Port {
    /// [`Self::settle`] where the queue is recorded.
    #[inline(never)]
    pub(super) fn settle_recording<P>(&mut self, now: SimTime, slab: &Slab<P>) -> u64 {
        self.settle_with(now, slab, |port, at| {
            let queued = port.held();
            if let Some(rare) = port.rare.as_deref_mut() {
                rare.record(at, queued);
            }
        })
    }

    /// Records that slot `i` has joined the queue.
    #[inline(never)]
    pub(super) fn note_push(
        &mut self,
        now: SimTime,
        head_of_line: SimTime,
        i: u32,
        len: u32,
        depart: SimTime,
    ) {
        let queued = self.held();
        let (in_service, cursor) = (self.in_service, self.cursor);
        if let Some(rare) = self.rare.as_deref_mut() {
            let until = match in_service {
                InService::Counted => depart,
                InService::NotCounted if cursor == i => now,
                InService::NotCounted => head_of_line,
            };
            rare.credit(until - now, len);
            rare.record(now, queued);
        }
    }

    /// Records the queue from now on.
    pub(crate) fn trace(&mut self) {
        self.kind = Kind::Recorded;
        self.rare_mut().trace.get_or_insert_default();
    }

    /// What was recorded.
    pub(crate) fn take_trace(&mut self) -> Option<QueueTrace> {
        self.rare.as_mut()?.trace.take()
    }

    /// Integrates the queue from now on, before the port has taken anything.
    pub(crate) fn measure(&mut self) {
        assert_eq!(self.stats.packets, 0, "from the first packet on");
        self.kind = Kind::Recorded;
        self.rare_mut().credit = Some(Credit::default());
    }

    /// The integral of the queue until `now`, if it is measured. Settle first.
    pub(crate) fn area<P>(&self, now: SimTime, slab: &Slab<P>) -> Option<QueueArea> {
        if self.decides_in_turn() {
            return self.area_in_turn(now, slab);
        }
        let credit = self.rare.as_ref()?.credit?;
        let ahead = self.credit_ahead(now, slab);
        Some(QueueArea {
            packets: credit.packets - ahead.packets,
            bytes: credit.bytes - ahead.bytes,
            until: now,
        })
    }

    /// What the packets still queued have been credited with for after `now`, first in, first out.
    pub(super) fn credit_ahead<P>(&self, now: SimTime, slab: &Slab<P>) -> Credit {
        let mut ahead = Credit::default();
        let mut previous = SimTime::ZERO;
        let mut i = self.cursor;
        while i != NIL {
            let hop = slab.hop(i);
            let until = match self.in_service {
                InService::Counted => hop.depart,
                InService::NotCounted => previous,
            };
            ahead.add(until - now, hop.buffered);
            previous = hop.depart;
            i = hop.next;
        }
        ahead
    }
}
