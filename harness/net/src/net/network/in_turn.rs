//! Ports whose discipline decides in turn, among the others. Apart from the rest, because most
//! networks have none.

use std::cmp::Reverse;

use super::{Network, give_back};
use crate::net::packet::{Packet, PortId};
use crate::net::port::NO_POOL;
use crate::net::port::in_turn::{Arrival, Done};
use crate::net::stats::DropReason;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

impl<P: Packet> Network<P> {
    /// The packet in slot `i` arrives from port `from`'s link at the queue of switch port `at`, which
    /// decides in turn.
    #[cold]
    pub(super) fn enqueue_in_turn<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) {
        let pool = self.ports[at].pool;
        if pool != NO_POOL {
            self.settle_pool(pool, now);
        }
        let has_room = self.comes_in(now, (from, at), i, tap);
        self.settle_in_turn(at, now, tap);
        if !has_room {
            self.discard(now, at, i, DropReason::Full, tap);
            return self.arm_pauses();
        }
        let ingress = self.ingress.get(from as usize).copied().unwrap_or(0);
        let port = &mut self.ports[at];
        let idle = port.head().is_none();
        let shared = self.pools.get(pool as usize);
        let (arrival, freed) = port.offer(now, (i, ingress), shared, &mut self.slab);
        let taken = match arrival {
            Arrival::Waits { len, .. } => len.into(),
            Arrival::Dropped(_) => 0,
        };
        let held = port.held().bytes - taken;
        give_back(&mut self.pools, pool, held, freed);
        self.tell_done(at, now, tap);
        let (len, marked, trimmed) = match arrival {
            Arrival::Dropped(reason) => {
                self.discard(now, at, i, reason, tap);
                return self.arm_pauses();
            }
            Arrival::Waits {
                len,
                marked,
                trimmed,
            } => (len, marked, trimmed),
        };
        if let Some(pool) = self.pools.get_mut(pool as usize) {
            pool.take(held, len);
        }
        // Where nothing was in service it has its turn at once.
        self.bring_up(at, now);
        let port = &mut self.ports[at];
        if let Some(departs) = port.next_departure(&self.slab)
            && let Some(pool) = self.pools.get_mut(pool as usize)
            && !port.pool_knows
        {
            port.pool_knows = true;
            pool.departures.push(Reverse((departs, at)));
        }
        let due = port.head_arrival(&self.slab);
        let due = due.filter(|&time| idle && time != SimTime::MAX);
        if let (Some(first), Some(time)) = (port.head(), due) {
            self.first_on_link(at, first, time);
        }
        if T::ACTIVE && tap.hears_ports() {
            self.tell_queued(now, at, i, (marked, trimmed), tap);
        }
        self.tell_done(at, now, tap);
        if self.pausing.is_some() {
            self.departure_known(at);
            self.has_come_in(now, (from, at), (i, len), tap);
            self.arm_pauses();
        }
    }

    /// Brings a port that decides in turn up to `now`, and tells what was done to packets there:
    /// now, so that whoever listens hears all in order.
    #[cold]
    pub(super) fn settle_in_turn<T: Tap<P>>(&mut self, at: u32, now: SimTime, tap: &mut T) {
        self.bring_up(at, now);
        self.tell_done(at, now, tap);
        if self.pausing.is_some() {
            // Before any of it arrives elsewhere and is counted there.
            for slot in self.ports[at].take_left() {
                self.cross_off(slot, now, tap);
            }
        }
    }

    /// Tells what was done to packets of port `at`, and forgets those that were dropped.
    fn tell_done<T: Tap<P>>(&mut self, at: u32, now: SimTime, tap: &mut T) {
        for (i, done) in self.ports[at].take_done() {
            match done {
                Done::Dropped(reason) => {
                    self.cross_off(i, now, tap);
                    self.forget(now, at, i, reason, tap);
                }
                Done::Trimmed if T::ACTIVE => {
                    let event = TapEvent::Trimmed { port: PortId(at) };
                    tap.event(now, event, self.slab.body(i));
                }
                Done::Marked if T::ACTIVE => {
                    let event = TapEvent::Marked { port: PortId(at) };
                    tap.event(now, event, self.slab.body(i));
                }
                Done::Trimmed | Done::Marked => {}
            }
        }
    }

    /// Brings a port of either kind up to `now`, and what it frees back to its pool.
    pub(super) fn bring_up(&mut self, at: u32, now: SimTime) {
        let port = &mut self.ports[at];
        if !port.decides_in_turn() {
            return self.settle(at, now);
        }
        let pool = port.pool;
        let freed = port.settle_in_turn(now, &mut self.slab);
        let held = port.held().bytes;
        give_back(&mut self.pools, pool, held, freed);
    }
}
