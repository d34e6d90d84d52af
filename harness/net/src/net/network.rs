//! The network at work: ports, switches and pools, and the packets among them.
//!
//! Knows nothing of hosts but their number; [`crate::sim::World`] drives it.

mod agenda;
mod ahead;
mod arrival;
mod change;
mod in_turn;
mod pause;
mod questions;
mod receive;
mod send;

use narrows_congestion::hint::cold_path;
use std::cmp::Reverse;
use std::collections::binary_heap::PeekMut;

use crate::sim::numbered::Numbered;
use crate::sim::queue::{Event, EventQueue};
use crate::sim::slab::{Hop, NIL, Slab};
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

use super::buffer::Pool;
use super::nic::NicRoom;
use super::nic::receive::Receiver;
use super::packet::{HostId, Packet};
use super::port::{NO_POOL, Node, Port};
use super::routes::Fabric;
use super::stats::DropReason;
use super::switch::{Home, Switch};
use arrival::Arrival;
pub(crate) use change::Concerns;
use change::{CHANGES, Changes};
pub(crate) use pause::{IngressParts, PausingHost};
use pause::{PAUSES, Pausing};
use receive::RECEIVES;
pub(crate) use send::Sent;

/// Set in the id of an event that is a packet held back, not the head of a link.
const HELD: u32 = 1 << 31;

/// What so many hosts touch stays in the cache (some 4 KB each), and asking for it would be work
/// for nothing.
const FEW_HOSTS: u32 = 1_024;

/// Default of [`Network::set_packet_limit`].
const DEFAULT_PACKET_LIMIT: usize = 1 << 26;

/// Ports, switches, pools, and the packets among them.
#[derive(Debug)]
pub struct Network<P> {
    slab: Slab<P>,
    ports: Numbered<Port>,
    switches: Vec<Switch>,
    pools: Vec<Pool>,
    /// By host.
    homes: Vec<Home>,
    pub(crate) events: EventQueue,
    held: u64,
    /// Whether what the next event will touch is asked for before.
    pub(crate) looks_ahead: bool,
    /// To which host a packet has become the first one on its link, for [`crate::sim::World`] to ask for it.
    pub(crate) expected: Option<HostId>,
    /// Set once a packet was refused because of the packet limit.
    pub(crate) overflowed: bool,
    totals: Totals,
    /// What has become different since it was built; `None` before anything has.
    changes: Option<Box<Changes>>,
    /// By host, as far as one has a receive side.
    receivers: Vec<Option<Box<Receiver>>>,
    /// What switches that pause know; `None` where none does.
    pausing: Option<Box<Pausing>>,
    /// By port that leads to a switch: which of the switch's ports that is, from 0.
    ingress: Box<[u32]>,
    /// Hosts whose NICs have more room sooner or later than was said, for [`crate::sim::World`].
    nics_moved: Vec<HostId>,
    /// Whether the world has to look here after an event: for what is next, or for NICs.
    pub(crate) attends: bool,
    fabric: Fabric,
    seed: u64,
}

/// What became of all packets so far.
///
/// `sent + duplicated == delivered + dropped + in_network`, always.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Totals {
    /// Taken by the hosts' NICs.
    pub sent: u64,
    /// Copies made by links.
    pub duplicated: u64,
    /// Handed to hosts.
    pub delivered: u64,
    /// Dropped by switch ports and links. What a NIC refuses was never sent.
    pub dropped: u64,
    /// Queued or on a link now.
    pub in_network: u64,
}

impl<P: Packet> Network<P> {
    /// Host `h`'s NIC is port `h`. What is drawn later is drawn for `seed`.
    pub(crate) fn new(
        homes: Vec<Home>,
        ports: Vec<Port>,
        switches: Vec<Switch>,
        pools: Vec<Pool>,
        fabric: Fabric,
        seed: u64,
    ) -> Self {
        let hosts = homes.len() as u32;
        let events = calendar_of(&ports);
        Self {
            slab: Slab::new(DEFAULT_PACKET_LIMIT),
            ports: ports.into(),
            switches,
            pools,
            homes,
            events,
            held: 0,
            looks_ahead: hosts > FEW_HOSTS,
            expected: None,
            overflowed: false,
            totals: Totals::default(),
            changes: None,
            receivers: Vec::new(),
            pausing: None,
            ingress: Box::default(),
            nics_moved: Vec::new(),
            attends: false,
            fabric,
            seed,
        }
    }

    /// Numbers the ports of each switch by which packets come in.
    pub(crate) fn set_ingress(&mut self, ingress: Vec<u32>) {
        self.ingress = ingress.into();
    }

    /// The departures of a host's NIC have been computed anew.
    fn nic_moved(&mut self, host: HostId) {
        self.nics_moved.push(host);
        self.attends = true;
    }

    /// Whether what the next event will touch is asked for before: for tests, which see that nothing
    /// hangs on it.
    #[cfg(test)]
    pub(crate) fn set_look_ahead(&mut self, looks_ahead: bool) {
        self.looks_ahead = looks_ahead;
    }

    /// Whether there are such NICs.
    #[inline]
    pub(crate) fn has_moved(&self) -> bool {
        !self.nics_moved.is_empty()
    }

    /// The hosts whose NICs have more room at another time than they were told.
    pub(crate) fn take_moved(&mut self) -> Vec<HostId> {
        std::mem::take(&mut self.nics_moved)
    }

    /// Number of hosts.
    pub fn hosts(&self) -> u32 {
        self.homes.len() as u32
    }

    /// Refuses packets at the NICs while the network holds `limit` of them (less than 7 * 2^28); the
    /// run then ends with [`crate::sim::Halt::PacketLimit`].
    pub fn set_packet_limit(&mut self, limit: usize) {
        // The last numbers are those of other events.
        self.slab = Slab::new(limit.min((RECEIVES & !HELD) as usize - 1));
    }

    /// A host gives a packet to its NIC. `Err`: refused, and here it is again.
    #[inline]
    pub fn send<T: Tap<P>>(
        &mut self,
        now: SimTime,
        host: HostId,
        packet: P,
        tap: &mut T,
    ) -> Result<(), P> {
        self.settle(host.0, now);
        let hop = Hop::of(&packet);
        *self.draft(host).1 = Some(packet);
        match self.send_settled(now, host, hop, tap) {
            Sent::Taken => Ok(()),
            Sent::Refused => self.withdraw().map_or(Ok(()), Err),
        }
    }

    /// Where a host makes the next packet, and the room in its NIC, which has been looked at at this
    /// instant. What is there before means nothing.
    #[inline(always)]
    pub(crate) fn draft(
        &mut self,
        host: HostId,
    ) -> (impl FnOnce() -> NicRoom + '_, &mut Option<P>) {
        let ports = &self.ports;
        let (hops, place) = self.slab.draft();
        (move || ports[host.0].room(hops), place)
    }

    /// Gives back the packet that was refused.
    pub(crate) fn withdraw(&mut self) -> Option<P> {
        self.slab.draft().1.take()
    }

    /// A host gives the packet that it has made in [`Self::draft`], of which hops need `hop`, to its NIC,
    /// which has been looked at at this instant. What is refused stays there.
    #[inline(always)]
    pub(crate) fn send_settled<T: Tap<P>>(
        &mut self,
        now: SimTime,
        host: HostId,
        mut hop: Hop,
        tap: &mut T,
    ) -> Sent {
        let at = host.0;
        let port = &mut self.ports[at];
        let len = port.buffer_len(hop.l3_len);
        let depth = port.depth(&self.slab);
        let admitted = port.admits(depth, len);
        if !admitted || self.slab.is_full() {
            cold_path();
            if port.is_asked() {
                return self.send_asked(now, host, tap);
            }
            let reason = if admitted {
                DropReason::PacketLimit
            } else {
                DropReason::Full
            };
            self.overflowed |= admitted;
            port.stats.count_drop(reason, len);
            if T::ACTIVE
                && let Some(packet) = self.slab.draft().1
            {
                tap.event(now, TapEvent::NicRefused { host }, packet);
            }
            return Sent::Refused;
        }
        let schedule = port.schedule(now, len);
        hop.depart = schedule.depart;
        hop.buffered = len;
        hop.waited = schedule.waits(now);
        let i = self.slab.take_in(hop);
        self.totals.sent += 1;
        if let Some(time) = port.join(now, &schedule, i, len, depth, &mut self.slab) {
            let (rank, to) = (port.head_rank(&self.slab), port.to);
            self.first_event(at, i, time, rank, to);
        }
        if T::ACTIVE {
            let departs = schedule.depart;
            tap.event(now, TapEvent::NicSent { host, departs }, self.slab.body(i));
        }
        Sent::Taken
    }

    /// The room in a host's NIC.
    #[inline]
    pub fn nic_room(&mut self, now: SimTime, host: HostId) -> NicRoom {
        self.settle(host.0, now);
        self.ports[host.0].room(self.slab.hops())
    }

    /// When a host's NIC next has more room, or may have: while its link is down nobody knows.
    pub fn nic_next_departure(&mut self, now: SimTime, host: HostId) -> Option<SimTime> {
        self.settle(host.0, now);
        let port = &self.ports[host.0];
        let next = if port.is_asked() {
            port.retry_at(now, &self.slab)
        } else {
            port.next_departure(&self.slab)
        };
        match next {
            Some(SimTime::MAX) => self.nic_works_at(host),
            next => next,
        }
    }

    /// Does what `event` is about. If a packet reaches a host: which host, and the packet's slot,
    /// for [`Self::packet`] and then [`Self::release`].
    #[inline]
    pub(crate) fn handle<T: Tap<P>>(&mut self, event: Event, tap: &mut T) -> Option<(HostId, u32)> {
        let now = event.time;
        if event.id & HELD != 0 {
            return self.handle_other(now, event.id, tap).get();
        }
        let at = event.id;
        let port = &mut self.ports[at];
        let (i, hop) = port.head_hop(&self.slab)?;
        if hop.depart + port.delay != now {
            return None; // Stale: the link's head is due at another time.
        }
        if port.is_simple() {
            let behind = hop.next;
            if port.head_is_queued() {
                let freed = port.settle(now, &self.slab);
                give_back(&mut self.pools, port.pool, port.held().bytes, freed);
            }
            if let Some((time, rank)) = port.pop_simple(behind, &self.slab) {
                self.events.push(Event { time, rank, id: at });
            }
            let to = port.to;
            if self.looks_ahead && behind != NIL {
                cold_path();
                self.look_behind(now, at, to, behind);
            }
            return self.arrive(now, at, to, i, tap);
        }
        self.handle_rare(now, at, tap).get()
    }

    /// The same of an event that is not of a link.
    #[cold]
    fn handle_other<T: Tap<P>>(&mut self, now: SimTime, id: u32, tap: &mut T) -> Arrival {
        if id == CHANGES {
            return self.handle_due(now, tap).into();
        }
        if id == PAUSES {
            self.handle_pauses(now, tap);
            return Arrival::NONE;
        }
        if id >= RECEIVES {
            return self.handle_receiver(now, HostId(id - RECEIVES), tap).into();
        }
        // A packet that was held back has arrived.
        let i = id & !HELD;
        self.held -= 1;
        // While held back, a packet's link is where the next packet's slot would be.
        let port = self.slab.hop(i).next;
        if self.is_kept_from_host(now, port, i, tap) {
            return Arrival::NONE;
        }
        let to = self.ports[port].to;
        self.arrive_elsewhere(now, (port, to), i, tap).into()
    }

    /// The first packet on port `at`'s link has arrived, and the port is more than simple.
    #[inline(never)]
    fn handle_rare<T: Tap<P>>(&mut self, now: SimTime, at: u32, tap: &mut T) -> Arrival {
        let port = &mut self.ports[at];
        if port.decides_in_turn() {
            self.settle_in_turn(at, now, tap);
        } else if port.head_is_queued() {
            self.settle(at, now);
        }
        let port = &mut self.ports[at];
        let Some(i) = port.pop(&self.slab) else {
            return Arrival::NONE;
        };
        if let Some(next) = port.head_arrival(&self.slab) {
            self.events.push(Event {
                time: next,
                rank: port.head_rank(&self.slab),
                id: at,
            });
        }
        let to = port.to;
        if self.looks_ahead
            && let Some(next) = port.head()
        {
            self.look_behind(now, at, to, next);
        }
        let port = &mut self.ports[at];
        if port.impair_mut().is_some() && self.impair(now, at, i, tap) {
            return Arrival::NONE;
        }
        self.arrive_elsewhere(now, (at, to), i, tap).into()
    }

    /// The packet in slot `i`, which is on no chain, reaches the end of port `at`'s link.
    #[cold]
    fn reach_end<T: Tap<P>>(
        &mut self,
        now: SimTime,
        at: u32,
        i: u32,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        let port = &mut self.ports[at];
        let to = port.to;
        if port.impair_mut().is_some() && self.impair(now, at, i, tap) {
            return None;
        }
        self.arrive_elsewhere(now, (at, to), i, tap)
    }

    /// As [`Self::arrive`], from where few packets come.
    #[inline(never)]
    fn arrive_elsewhere<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, to): (u32, Node),
        i: u32,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        self.arrive(now, from, to, i, tap)
    }

    /// The packet in slot `i` is at the end of port `from`'s link.
    #[inline(always)]
    fn arrive<T: Tap<P>>(
        &mut self,
        now: SimTime,
        from: u32,
        to: Node,
        i: u32,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        match to {
            Node::Host(h) => {
                self.totals.delivered += 1;
                let host = HostId(h);
                if T::ACTIVE {
                    tap.event(now, TapEvent::Received { host }, self.slab.body(i));
                }
                Some((host, i))
            }
            Node::Switch(s) => {
                let hop = self.slab.hop(i);
                let port = match self.homes.get(hop.dst as usize) {
                    None => {
                        cold_path();
                        None
                    }
                    Some(home) if home.switch == s => Some(home.port),
                    Some(home) => {
                        let slab = &self.slab;
                        let flow = move || slab.body(i).flow_hash();
                        self.switches[s as usize].route(now, home.edge, flow)
                    }
                };
                match port {
                    Some(port) => self.enqueue(now, (from, port), i, tap),
                    None => {
                        cold_path();
                        self.discard(now, from, i, DropReason::NoRoute, tap);
                    }
                }
                None
            }
        }
    }

    /// Applies a link's impairments to the packet in slot `i`; true if it is gone or held back.
    #[cold]
    fn impair<T: Tap<P>>(&mut self, now: SimTime, at: u32, i: u32, tap: &mut T) -> bool {
        let port = &mut self.ports[at];
        let l3_len = self.slab.hop(i).l3_len;
        let Some((fate, too_long)) = port
            .impair_mut()
            .map(|impair| (impair.next(), l3_len > impair.mtu))
        else {
            return false;
        };
        if too_long {
            self.discard(now, at, i, DropReason::TooLong, tap);
            return true;
        }
        if fate.lost {
            self.discard(now, at, i, DropReason::Lost, tap);
            return true;
        }
        if let Some(noise) = fate.corrupt {
            port.stats.rare().corrupted += 1;
            self.slab.body_mut(i).corrupt(noise);
        }
        if fate.marked && self.slab.body(i).is_ecn_capable() {
            self.slab.body_mut(i).mark_ce();
        }
        if fate.duplicate && !self.slab.is_full() {
            let copy = self.slab.body(i).clone();
            port.stats.rare().duplicated += 1;
            self.totals.duplicated += 1;
            let hop = *self.slab.hop(i);
            let copy = self.slab.insert(hop, copy);
            self.hold(at, copy, now);
        }
        let Some(extra) = fate.hold else {
            return self.is_kept_from_host(now, at, i, tap);
        };
        self.ports[at].stats.rare().held += 1;
        self.hold(at, i, now + extra);
        true
    }

    /// Lets the packet in slot `i` arrive at the end of port `at`'s link at `until`.
    fn hold(&mut self, at: u32, i: u32, until: SimTime) {
        self.held += 1;
        self.slab.hop_mut(i).next = at;
        let rank = self.ports[at].rank;
        self.events.push(Event {
            time: until,
            rank,
            id: HELD | i,
        });
    }

    /// The packet in slot `i`, which [`Self::handle`] has told of.
    #[inline]
    pub(crate) fn packet(&self, i: u32) -> &P {
        self.slab.body(i)
    }

    /// The host has taken the packet in slot `i` in.
    #[inline]
    pub(crate) fn release(&mut self, i: u32) {
        self.slab.free(i);
    }

    /// Brings a port up to `now`, and what it frees back to its pool.
    #[inline(always)]
    pub(crate) fn settle(&mut self, at: u32, now: SimTime) {
        let port = &mut self.ports[at];
        let freed = port.settle(now, &self.slab);
        give_back(&mut self.pools, port.pool, port.held().bytes, freed);
    }

    /// Brings a host's NIC up to `now`, which has no pool.
    #[inline(always)]
    pub(crate) fn settle_nic(&mut self, host: HostId, now: SimTime) {
        self.ports[host.0].settle(now, &self.slab);
    }

    /// Brings all ports of a pool up to `now`, looking only at those that something leaves.
    fn settle_pool(&mut self, pool: u32, now: SimTime) {
        let pool = &mut self.pools[pool as usize];
        while let Some(&Reverse((time, at))) = pool.departures.peek() {
            if time > now {
                break;
            }
            let port = &mut self.ports[at];
            let freed = if port.decides_in_turn() {
                port.settle_in_turn(now, &mut self.slab)
            } else {
                port.settle(now, &self.slab)
            };
            pool.give_back(port.held().bytes, freed);
            let next = port.next_departure(&self.slab);
            if let Some(mut first) = pool.departures.peek_mut() {
                match next {
                    Some(next) => *first = Reverse((next, at)),
                    None => {
                        PeekMut::pop(first);
                        port.pool_knows = false;
                    }
                }
            }
        }
    }
}

/// Gives bytes that have left a port, which holds `held` now, back to its pool, if it has one.
#[inline(always)]
fn give_back(pools: &mut [Pool], pool: u32, held: u64, bytes: u64) {
    if pool != NO_POOL
        && let Some(pool) = pools.get_mut(pool as usize)
    {
        cold_path();
        pool.give_back(held, bytes);
    }
}

/// A queue for arrivals from `ports`, of which half send at once at most.
fn calendar_of(ports: &[Port]) -> EventQueue {
    const SECOND: u64 = SimTime::from_secs(1).as_picos();
    let ways = ports.iter().map(Port::longest_way);
    let frames = ports
        .iter()
        .map(|port| SECOND / port.full_frame().as_picos().max(1));
    let apart = 2 * SECOND / frames.sum::<u64>().max(1);
    EventQueue::spanning(ways.max().unwrap_or_default(), SimTime::from_picos(apart))
}
