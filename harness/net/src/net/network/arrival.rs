//! A packet at the queue of a switch's port: whether there is room, whether it is marked, when it leaves.

use std::cmp::Reverse;

use super::Network;
use crate::net::buffer::PoolVerdict;
use crate::net::discipline::tail::TailVerdict;
use crate::net::packet::{Packet, PortId};
use crate::net::port::{NO_POOL, Node};
use crate::net::stats::DropReason;
use crate::sim::queue::Event;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

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
        let port = &mut self.ports[at as usize];
        if !port.is_plain() {
            return self.enqueue_rare(now, (from, at), i, tap);
        }
        port.settle(now, &self.slab);
        let hop = self.slab.hop(i);
        let (len, ecn_capable) = (port.buffer_len(hop.l3_len), hop.ecn_capable);
        let depth = port.depth(&self.slab);
        if !port.admits(depth, len) {
            return self.discard(now, at, i, DropReason::Full, tap);
        }
        let marked = match port.at_step(depth, ecn_capable) {
            TailVerdict::Pass => false,
            TailVerdict::Drop => return self.discard(now, at, i, DropReason::Early, tap),
            TailVerdict::Mark => port.mark(i, &mut self.slab),
        };
        let (departs, arrives) = port.push_now(now, i, len, depth, &mut self.slab);
        if let Some(time) = arrives {
            let (rank, to) = (port.head_rank(&self.slab), port.to);
            self.first_event(at, i, time, rank, to);
        }
        if T::ACTIVE {
            let event = TapEvent::PortQueued {
                port: PortId(at),
                marked,
                trimmed: false,
                departs,
            };
            tap.event(now, event, self.slab.body(i));
        }
    }

    /// The same where the port is more than plain.
    #[inline(never)]
    pub(super) fn enqueue_rare<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) {
        if self.ports[at as usize].decides_in_turn() {
            return self.enqueue_in_turn(now, (from, at), i, tap);
        }
        let hop = *self.slab.hop(i);
        let pool = self.ports[at as usize].pool;
        self.settle(at, now);
        let port = &mut self.ports[at as usize];
        let len = port.buffer_len(hop.l3_len);
        let depth = port.depth(&self.slab);
        if !port.admits(depth, len) {
            return self.discard(now, at, i, DropReason::Full, tap);
        }
        if pool != NO_POOL {
            let held = port.held().bytes;
            match self.pool_verdict(pool, now, held, len) {
                PoolVerdict::Admit => {}
                PoolVerdict::OverThreshold => {
                    return self.discard(now, at, i, DropReason::OverThreshold, tap);
                }
                PoolVerdict::Exhausted => {
                    return self.discard(now, at, i, DropReason::PoolExhausted, tap);
                }
            }
        }
        let port = &mut self.ports[at as usize];
        let idle_since = port.idle_since();
        let verdict = match port.tail_rule_mut() {
            None => TailVerdict::Pass,
            Some(rule) => rule.on_arrival(now, depth, idle_since, hop.ecn_capable),
        };
        let marked = match verdict {
            TailVerdict::Pass => false,
            TailVerdict::Drop => return self.discard(now, at, i, DropReason::Early, tap),
            TailVerdict::Mark => port.mark(i, &mut self.slab),
        };
        let (departs, arrives) = port.push(now, i, len, depth, &mut self.slab);
        if let Some(time) = arrives {
            self.first_on_link(at, i, time);
        }
        if pool != NO_POOL
            && let Some(pool) = self.pools.get_mut(pool as usize)
        {
            let port = &mut self.ports[at as usize];
            pool.take(port.held().bytes - u64::from(len), len);
            if !port.pool_knows {
                port.pool_knows = true;
                pool.departures.push(Reverse((departs, at)));
            }
        }
        if T::ACTIVE {
            tap.event(
                now,
                TapEvent::PortQueued {
                    port: PortId(at),
                    marked,
                    trimmed: false,
                    departs,
                },
                self.slab.body(i),
            );
        }
    }

    /// Whether a pool takes `len` bytes of a port that holds `held` at `now`. What its ports have sent since
    /// they were looked at counts as held, until something hangs on it.
    #[inline(always)]
    fn pool_verdict(&mut self, pool: u32, now: SimTime, held: u64, len: u32) -> PoolVerdict {
        if self.pools[pool as usize].admits_unsettled(held, len) {
            return PoolVerdict::Admit;
        }
        self.settle_pool(pool, now);
        self.pools[pool as usize].verdict(held, len)
    }

    /// The packet in slot `i` is the first on port `at`'s link and arrives at `time`.
    #[inline(always)]
    pub(super) fn first_on_link(&mut self, at: u32, i: u32, time: SimTime) {
        let port = &self.ports[at as usize];
        let (rank, to) = (port.head_rank(&self.slab), port.to);
        self.first_event(at, i, time, rank, to);
    }

    /// The event of that.
    #[inline(always)]
    pub(super) fn first_event(&mut self, at: u32, i: u32, time: SimTime, rank: u32, to: Node) {
        self.events.push(Event { time, rank, id: at });
        if self.looks_ahead {
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
        let port = &mut self.ports[at as usize];
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
