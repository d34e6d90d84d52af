//! Ports whose discipline decides at the head of the queue.
//!
//! When a packet leaves such a port is known only when its turn comes, since those before it may
//! be dropped. Until then its departure is [`SimTime::MAX`]. Turns are taken when somebody looks,
//! each at its own time: what arrived later is behind in the queue, so a look from later changes
//! nothing. Whoever settles such a port has to do it here; then the first packet in the queue is
//! the one in service.

use crate::net::aqm::Aqm;
use crate::net::buffer::InService;
use crate::net::codel::{Codel, Fate, Head};
use crate::net::packet::Packet;
use crate::net::stats::{DropReason, QueueArea};
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;

use super::Port;

impl Port {
    /// Whether its discipline decides at the head.
    #[inline]
    pub(crate) fn decides_at_head(&self) -> bool {
        matches!(self.aqm(), Some(Aqm::Codel(_)))
    }

    fn codel(&self) -> Option<&Codel> {
        match self.aqm() {
            Some(Aqm::Codel(codel)) => Some(codel),
            _ => None,
        }
    }

    fn codel_mut(&mut self) -> Option<&mut Codel> {
        match self.aqm_mut() {
            Some(Aqm::Codel(codel)) => Some(codel),
            _ => None,
        }
    }

    /// Lets leave what leaves until `now`, and gives the next ones their turn; returns the bytes
    /// that frees.
    pub(crate) fn settle_at_head<P: Packet>(&mut self, now: SimTime, slab: &mut Slab<P>) -> u64 {
        let mut freed = 0;
        loop {
            freed += self.settle(now, slab);
            if self.cursor == NIL || slab.hop(self.cursor).depart != SimTime::MAX {
                return freed;
            }
            freed += self.serve(slab);
        }
    }

    /// The first packet waits and the transmitter is free: sends it, or drops it and returns its
    /// bytes.
    fn serve<P: Packet>(&mut self, slab: &mut Slab<P>) -> u64 {
        let i = self.cursor;
        let hop = *slab.hop(i);
        let (free, behind) = (
            self.tx.free_at(),
            self.queued_bytes - u64::from(hop.buffered),
        );
        let Some(codel) = self.codel_mut() else {
            return 0;
        };
        let arrived = codel.arrivals.pop_front().unwrap_or(free);
        let at = free.max(arrived);
        let head = Head {
            sojourn: at - arrived,
            behind,
            ecn_capable: hop.ecn_capable,
        };
        let fate = codel.at_head(at, head);
        let before = codel.sent;
        match fate {
            Fate::Drop => codel.dropped.push(i),
            Fate::Send | Fate::Mark => codel.sent = i,
        }
        if fate == Fate::Drop {
            self.cursor = hop.next;
            if self.head == i {
                self.head = hop.next;
            } else {
                slab.hop_mut(before).next = hop.next;
            }
            if self.tail == i {
                self.tail = before;
            }
            self.queued_packets -= 1;
            self.queued_bytes = behind;
            self.stats.packets -= 1;
            self.stats.bytes -= u64::from(hop.buffered);
            self.stats.count_drop(DropReason::Early);
            let queued = self.held();
            if let Some(rare) = &mut self.rare {
                rare.credit(at - arrived, hop.buffered);
                rare.record(at, queued);
            }
            return u64::from(hop.buffered);
        }
        let depart = self.tx.send(at, self.framing.wire_len(hop.buffered));
        let until = match self.in_service {
            InService::Counted => depart,
            InService::NotCounted => at,
        };
        if let Some(rare) = &mut self.rare {
            rare.credit(until - arrived, hop.buffered);
        }
        let hop = slab.hop_mut(i);
        hop.depart = depart;
        hop.waited = at > arrived;
        if fate == Fate::Mark {
            self.stats.marks += 1;
            slab.body_mut(i).mark_ce();
        }
        0
    }

    /// Takes the packet in slot `i`, of `len` bytes in the buffer; the port is settled. Returns when
    /// its last bit leaves, if it is its turn, and when it arrives if it is now first on the link
    /// and so needs an event.
    pub(crate) fn push_at_head<P: Packet>(
        &mut self,
        now: SimTime,
        i: u32,
        len: u32,
        slab: &mut Slab<P>,
    ) -> (SimTime, Option<SimTime>) {
        slab.hop_mut(i).depart = SimTime::MAX;
        if let Some(codel) = self.codel_mut() {
            codel.arrivals.push_back(now);
        }
        let first = self.append(i, len, slab);
        let queued = self.held();
        if let Some(rare) = &mut self.rare {
            rare.record(now, queued);
        }
        // It has its turn if nothing was there, and is not dropped then: it has not waited.
        self.settle_at_head(now, slab);
        let arrives = self.head_arrival(slab).filter(|_| first);
        (slab.hop(i).depart, arrives)
    }

    /// Packets dropped since the last question.
    pub(crate) fn take_dropped(&mut self) -> Vec<u32> {
        self.codel_mut()
            .map(|codel| std::mem::take(&mut codel.dropped))
            .unwrap_or_default()
    }

    /// Adds to `area` what packets that wait have waited until `now`, and takes back what the one
    /// in service has been credited with for after it.
    pub(super) fn area_at_head<P>(
        &self,
        now: SimTime,
        slab: &Slab<P>,
        mut area: QueueArea,
    ) -> QueueArea {
        if self.cursor == NIL {
            return area;
        }
        let first = slab.hop(self.cursor);
        if self.in_service == InService::Counted {
            let after = u128::from((first.depart - now).as_picos());
            area.packets -= after;
            area.bytes -= after * u128::from(first.buffered);
        }
        let mut i = first.next;
        for arrived in self.codel().iter().flat_map(|c| &c.arrivals) {
            let hop = slab.hop(i);
            let waited = u128::from((now - *arrived).as_picos());
            area.packets += waited;
            area.bytes += waited * u128::from(hop.buffered);
            i = hop.next;
        }
        area
    }
}
