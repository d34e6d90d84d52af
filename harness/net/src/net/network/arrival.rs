//! A packet at the queue of a switch's port: whether there is room, whether it is marked, when it leaves.

use narrows_congestion::hint::cold_path;
use std::cmp::Reverse;

use super::{Network, give_back};
use crate::net::buffer::PoolVerdict;
use crate::net::discipline::tail::TailVerdict;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::port::Node;
use crate::net::stats::DropReason;
use crate::sim::queue::Event;
use crate::sim::slab::NIL;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

/// Which packet has reached which host, if one has: an `Option` in two words, which fit into registers where
/// calls of what is rare return to the way of each packet.
#[derive(Clone, Copy)]
pub(super) struct Arrival {
    host: u32,
    slot: u32,
}

impl Arrival {
    pub(super) const NONE: Self = Self {
        host: NIL,
        slot: NIL,
    };

    #[inline]
    pub(super) fn get(self) -> Option<(HostId, u32)> {
        (self.slot != NIL).then_some((HostId(self.host), self.slot))
    }
}

impl From<Option<(HostId, u32)>> for Arrival {
    #[inline]
    fn from(arrival: Option<(HostId, u32)>) -> Self {
        arrival.map_or(Self::NONE, |(host, slot)| Self { host: host.0, slot })
    }
}

impl<P: Packet> Network<P> {
    /// The packet in slot `i` arrives from port `from`'s link at the queue of switch port `at`.
    #[inline(always)]
    pub(super) fn enqueue<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) {
        if !self.ports[at].is_plain() {
            return self.enqueue_at_other(now, (from, at), i, tap);
        }
        self.enqueue_simple::<T, false>(now, at, i, tap);
    }

    /// The same where the port is simple, `POOLED` or by itself: one without a pool executes nothing for pools.
    #[inline(always)]
    fn enqueue_simple<T: Tap<P>, const POOLED: bool>(
        &mut self,
        now: SimTime,
        at: u32,
        i: u32,
        tap: &mut T,
    ) {
        let mut port = &mut self.ports[at];
        let (number, freed) = (port.pool, port.settle(now, &self.slab));
        let held = port.held().bytes;
        if POOLED {
            give_back(&mut self.pools, number, held, freed);
        }
        let depth = port.depth(&self.slab);
        let hop = self.slab.hop(i);
        let (len, ecn_capable) = (port.buffer_len(hop.l3_len), hop.ecn_capable);
        if !port.admits(depth, len) {
            return self.discard(now, at, i, DropReason::Full, tap);
        }
        if POOLED && !self.pools[number as usize].admits_unsettled(held, len) {
            if let Some(reason) = self.pool_refuses(now, number, held, len) {
                return self.discard(now, at, i, reason, tap);
            }
            port = &mut self.ports[at];
        }
        let marked = match port.at_step(depth, ecn_capable) {
            TailVerdict::Pass => false,
            TailVerdict::Drop => return self.discard(now, at, i, DropReason::Early, tap),
            TailVerdict::Mark => port.mark(i, &mut self.slab),
        };
        let (departs, arrives) = port.push_simple(now, i, len, depth, &mut self.slab);
        if POOLED {
            let pool = &mut self.pools[number as usize];
            pool.take(held, len);
            if !port.pool_knows {
                port.pool_knows = true;
                pool.departures.push(Reverse((departs, at)));
            }
        }
        if let Some(time) = arrives {
            let (rank, to) = (port.head_rank(&self.slab), port.to);
            self.first_event(at, i, time, rank, to);
        }
        if T::ACTIVE && tap.hears_ports() {
            self.tell_queued(now, at, i, (marked, false), tap);
        }
    }

    /// The same where the port is more than plain: one place to go to, so that the way of plain ones is
    /// short.
    #[inline(never)]
    fn enqueue_at_other<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) {
        match self.ports[at].is_simple() {
            true => self.enqueue_pooled(now, at, i, tap),
            false => self.enqueue_rare(now, (from, at), i, tap),
        }
    }

    /// The same where ports share a pool.
    #[inline(never)]
    fn enqueue_pooled<T: Tap<P>>(&mut self, now: SimTime, at: u32, i: u32, tap: &mut T) {
        self.enqueue_simple::<T, true>(now, at, i, tap);
    }

    /// Why pool `number` does not take `len` bytes of a port that holds `held`, all of its ports looked
    /// at, if it does not.
    #[inline(never)]
    fn pool_refuses(
        &mut self,
        now: SimTime,
        number: u32,
        held: u64,
        len: u32,
    ) -> Option<DropReason> {
        self.settle_pool(number, now);
        match self.pools[number as usize].verdict(held, len) {
            PoolVerdict::Admit => None,
            PoolVerdict::OverThreshold => Some(DropReason::OverThreshold),
            PoolVerdict::Exhausted => Some(DropReason::PoolExhausted),
        }
    }

    /// The same where the port is more than that.
    #[inline(never)]
    pub(super) fn enqueue_rare<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) {
        if self.ports[at].decides_in_turn() {
            return self.enqueue_in_turn(now, (from, at), i, tap);
        }
        self.settle(at, now);
        let mut port = &mut self.ports[at];
        let number = port.pool as usize;
        let mut pool = self.pools.get_mut(number);
        let hop = self.slab.hop(i);
        let (len, ecn_capable) = (port.buffer_len(hop.l3_len), hop.ecn_capable);
        let depth = port.depth(&self.slab);
        if !port.admits(depth, len) {
            return self.discard(now, at, i, DropReason::Full, tap);
        }
        let held = port.held().bytes;
        // What the pool's ports have sent since they were looked at counts as held, until something hangs on it.
        if pool
            .as_ref()
            .is_some_and(|pool| !pool.admits_unsettled(held, len))
        {
            if let Some(reason) = self.pool_refuses(now, number as u32, held, len) {
                return self.discard(now, at, i, reason, tap);
            }
            port = &mut self.ports[at];
            pool = self.pools.get_mut(number);
        }
        let idle_since = port.idle_since();
        let verdict = match port.tail_rule_mut() {
            None => TailVerdict::Pass,
            Some(rule) => rule.on_arrival(now, depth, idle_since, ecn_capable),
        };
        let marked = match verdict {
            TailVerdict::Pass => false,
            TailVerdict::Drop => return self.discard(now, at, i, DropReason::Early, tap),
            TailVerdict::Mark => port.mark(i, &mut self.slab),
        };
        let (departs, arrives) = port.push(now, i, len, depth, &mut self.slab);
        if let Some(pool) = pool {
            pool.take(held, len);
            if !port.pool_knows {
                port.pool_knows = true;
                pool.departures.push(Reverse((departs, at)));
            }
        }
        if let Some(time) = arrives {
            self.first_on_link(at, i, time);
        }
        if T::ACTIVE && tap.hears_ports() {
            self.tell_queued(now, at, i, (marked, false), tap);
        }
    }

    /// Port `at` has taken the packet in slot `i`, and marked it, or cut its payload.
    #[cold]
    pub(super) fn tell_queued<T: Tap<P>>(
        &self,
        now: SimTime,
        at: u32,
        i: u32,
        (marked, trimmed): (bool, bool),
        tap: &mut T,
    ) {
        let event = TapEvent::PortQueued {
            port: PortId(at),
            marked,
            trimmed,
            departs: self.slab.hop(i).depart,
        };
        tap.event(now, event, self.slab.body(i));
    }

    /// The packet in slot `i` is the first on port `at`'s link and arrives at `time`.
    #[inline(always)]
    pub(super) fn first_on_link(&mut self, at: u32, i: u32, time: SimTime) {
        let port = &self.ports[at];
        let (rank, to) = (port.head_rank(&self.slab), port.to);
        self.first_event(at, i, time, rank, to);
    }

    /// The event of that.
    #[inline(always)]
    pub(super) fn first_event(&mut self, at: u32, i: u32, time: SimTime, rank: u32, to: Node) {
        self.events.push(Event { time, rank, id: at });
        if self.looks_ahead {
            cold_path();
            self.expect(to, i);
        }
    }

    #[cold]
    pub(super) fn discard<T: Tap<P>>(
        &mut self,
        now: SimTime,
        at: u32,
        i: u32,
        reason: DropReason,
        tap: &mut T,
    ) {
        let port = &mut self.ports[at];
        let len = port.buffer_len(self.slab.hop(i).l3_len);
        port.stats.count_drop(reason, len);
        self.forget(now, at, i, reason, tap);
    }

    /// The packet in slot `i`, which port `at` has dropped and counted, is gone.
    pub(super) fn forget<T: Tap<P>>(
        &mut self,
        now: SimTime,
        at: u32,
        i: u32,
        reason: DropReason,
        tap: &mut T,
    ) {
        self.totals.dropped += 1;
        if T::ACTIVE {
            tap.event(
                now,
                TapEvent::Dropped {
                    port: PortId(at),
                    reason,
                },
                self.slab.body(i),
            );
        }
        self.slab.free(i);
    }
}
