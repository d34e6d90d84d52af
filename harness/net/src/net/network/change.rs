//! What changes of a network while it runs ([`Change`]), and what comes of it later: packets that
//! were on a link whose delay became another, hosts that wake, routes that become known.
//!
//! All this is cold. A network in which nothing has changed has one empty pointer for it: what is
//! to come is one more source of events, and packets for a host that takes none are caught where
//! links do harm.

mod hosts;

use narrows_congestion::order::OrderedMap;

use super::agenda::Agenda;
use super::{HELD, Network};
use crate::net::change::{Change, ChangeError};
use crate::net::discipline::Retuned;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::port::{NO_POOL, Node};
use crate::net::routes::Ports;
use crate::net::stats::DropReason;
use crate::sim::queue::Event;
use crate::sim::rng::{Component, Stream};
use crate::sim::tap::{NoTap, Tap};
use crate::sim::time::SimTime;
use hosts::Pause;

/// The id of the event of what is to come. No packet held back has it: slots end before.
pub(super) const CHANGES: u32 = u32::MAX;
const _: () = assert!(CHANGES & HELD != 0);

/// What is different from how the network was built, and what is to come of it.
#[derive(Debug)]
pub(super) struct Changes {
    due: Agenda<Due>,
    /// Time of the event; [`SimTime::MAX`] for none. Another one is stale.
    armed: SimTime,
    /// How long until all switches know of a link.
    convergence: SimTime,
    /// Ports whose link is down.
    down: Ports,
    /// Ports whose link routes leave out though it works.
    withdrawn: Ports,
    /// Those of either kind that all switches know of.
    known: Ports,
    tables_are_old: bool,
    pauses: OrderedMap<u32, Pause>,
    /// Until when the NICs of hosts are being reset.
    resets: OrderedMap<u32, SimTime>,
}

impl Default for Changes {
    fn default() -> Self {
        Self {
            due: Agenda::new(),
            armed: SimTime::MAX,
            convergence: SimTime::ZERO,
            down: Ports::new(),
            withdrawn: Ports::new(),
            known: Ports::new(),
            tables_are_old: false,
            pauses: OrderedMap::new(),
            resets: OrderedMap::new(),
        }
    }
}

/// What is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// The packet in slot `slot` reaches the far end of port `port`'s link.
    Arrives { port: u32, slot: u32 },
    /// A host goes on, or takes the next of the packets that waited for it.
    Wakes(HostId),
    /// A NIC works again.
    NicWorks(HostId),
    /// The switches forward by tables that are new.
    Tables,
    /// All switches know whether the link of a port is out.
    Known { port: u32, out: bool },
}

/// What [`crate::sim::World`] has to do after a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Concerns {
    /// Nothing.
    Network,
    /// A host's NIC may have room sooner, or later.
    Nic(HostId),
    /// The host does nothing until then.
    Pause(HostId, SimTime),
}

impl Changes {
    /// Whether a port's link is no route.
    fn is_out(&self, port: PortId) -> bool {
        self.down.contains_key(&port.0) || self.withdrawn.contains_key(&port.0)
    }

    /// The ports whose links are no route.
    fn out(&self) -> Ports {
        let mut out = self.down.clone();
        for &(port, ()) in self.withdrawn.iter() {
            out.insert(port, ());
        }
        out
    }
}

impl Change {
    /// The same at the other end of the port's link, which is the other direction; `None` if it is
    /// about no port or there is none. A cable is pulled by a [`Change::LinkDown`] and this of it.
    #[must_use]
    pub fn other_way<P: Packet>(&self, network: &Network<P>) -> Option<Self> {
        self.at(network.other_end(self.port()?)?)
    }
}

impl<P: Packet> Network<P> {
    /// Sets how long it takes until all switches know that a link between switches went down or
    /// came up; none unless set. With [`SimTime::MAX`] they never know by themselves
    /// ([`Change::Routes`]). For links that change from now on.
    pub fn set_convergence(&mut self, after: SimTime) {
        self.changes_mut().convergence = after;
    }

    /// The port that sends the other way on a port's link; `None` if there is no such port.
    pub fn other_end(&self, port: PortId) -> Option<PortId> {
        if let Some(home) = self.homes.get(port.index()) {
            return Some(PortId(home.port));
        }
        match self.ports.get(port.index())?.to {
            Node::Host(host) => Some(PortId(host)),
            Node::Switch(_) => self.fabric.twin(port.0).map(PortId),
        }
    }

    /// Whether a port's link is up.
    ///
    /// # Panics
    /// If there is no such port.
    pub fn link_is_up(&self, port: PortId) -> bool {
        assert!(port.index() < self.ports.len(), "no port {}", port.0);
        let changes = self.changes.as_ref();
        !changes.is_some_and(|changes| changes.down.contains_key(&port.0))
    }

    /// Whether a host pauses.
    pub fn is_paused(&self, host: HostId) -> bool {
        let changes = self.changes.as_ref();
        changes.is_some_and(|changes| changes.pauses.contains_key(&host.0))
    }

    fn changes_mut(&mut self) -> &mut Changes {
        self.changes.get_or_insert_default()
    }

    /// Makes a change to a network that nothing has been sent through: to see whether it can be.
    ///
    /// # Errors
    /// As [`World::apply`](crate::sim::World::apply).
    pub fn try_change(&mut self, change: &Change) -> Result<(), ChangeError> {
        self.apply(SimTime::ZERO, change, &mut NoTap).map(drop)
    }

    /// Makes a change; what [`crate::sim::World`] has to do then.
    pub(crate) fn apply<T: Tap<P>>(
        &mut self,
        now: SimTime,
        change: &Change,
        tap: &mut T,
    ) -> Result<Concerns, ChangeError> {
        if let Some(port) = change.port()
            && port.index() >= self.ports.len()
        {
            let ports = self.ports.len() as u32;
            return Err(ChangeError::NoPort { port, ports });
        }
        let concerns = match *change {
            Change::Rate { port, rate } => {
                let mut changed = None;
                self.change_port(port, now, tap, &mut |network| {
                    let port = &mut network.ports[port.0];
                    changed = port.set_rate(now, rate, &mut network.slab);
                });
                changed.ok_or(ChangeError::Rate { rate })?;
                self.concerns(port)
            }
            Change::Delay { port, delay } => {
                self.change_port(port, now, tap, &mut |network| {
                    network.detach_wire(port.0);
                    network.ports[port.0].set_delay(delay);
                });
                Concerns::Network
            }
            Change::Faults { port, ref impair } => {
                if impair.reorder_min > impair.reorder_max {
                    return Err(ChangeError::Reorder);
                }
                let seed = self.seed;
                self.ports[port.0].set_impairments(impair, seed, port.0.into());
                Concerns::Network
            }
            Change::LinkDown { port } => {
                let was_out = self.changes_mut().is_out(port);
                let down = &mut self.changes_mut().down;
                if !down.contains_key(&port.0) {
                    down.insert(port.0, ());
                    self.link_down(port, now, tap);
                    self.route_changed(port, now, was_out);
                }
                self.concerns(port)
            }
            Change::LinkUp { port } => {
                let was_out = self.changes_mut().is_out(port);
                if self.changes_mut().down.remove(&port.0).is_some() {
                    self.resume(port, now, tap);
                    self.route_changed(port, now, was_out);
                }
                self.concerns(port)
            }
            Change::Capacity { port, capacity } => {
                self.bring_up(port.0, now);
                self.ports[port.0].set_capacity(capacity);
                self.concerns(port)
            }
            Change::Discipline {
                port,
                ref discipline,
            } => {
                if port.0 < self.hosts() {
                    return Err(ChangeError::NicHasNone { port });
                }
                discipline.check().map_err(ChangeError::Discipline)?;
                // What was due has its turn by the old values.
                if self.ports[port.0].decides_in_turn() {
                    self.settle_in_turn(port.0, now, tap);
                }
                let stream = Stream::new(self.seed, Component::Aqm, port.0.into());
                let port_at_work = &mut self.ports[port.0];
                match port_at_work.set_discipline(discipline, || stream) {
                    Retuned::Yes => Concerns::Network,
                    Retuned::No => {
                        let to = discipline.name().to_owned();
                        return Err(ChangeError::OtherDiscipline { port, to });
                    }
                }
            }
            Change::Pause { host, span, ring } => {
                self.known_host(host)?;
                let until = self.pause(host, now + span, ring);
                Concerns::Pause(host, until)
            }
            Change::NicReset { host, span } => {
                self.known_host(host)?;
                self.reset_nic(host, now, now + span, tap);
                Concerns::Nic(host)
            }
            Change::Offload { host, most } => {
                self.known_host(host)?;
                self.set_offload(host, most);
                Concerns::Network
            }
            Change::Withdraw { port } | Change::Advertise { port } => {
                if self.fabric.twin(port.0).is_none() {
                    return Err(ChangeError::NoRoute { port });
                }
                let changes = self.changes_mut();
                let was_out = changes.is_out(port);
                match change {
                    Change::Withdraw { .. } => changes.withdrawn.insert(port.0, ()),
                    _ => drop(changes.withdrawn.remove(&port.0)),
                }
                self.route_changed(port, now, was_out);
                Concerns::Network
            }
            Change::Routes => {
                let changes = self.changes_mut();
                changes.known = changes.out();
                changes.tables_are_old = true;
                self.renew_tables();
                Concerns::Network
            }
        };
        self.arm_changes();
        Ok(concerns)
    }

    fn known_host(&self, host: HostId) -> Result<(), ChangeError> {
        let hosts = self.hosts();
        if host.0 < hosts {
            Ok(())
        } else {
            Err(ChangeError::NoHost { host, hosts })
        }
    }

    /// Whom a change of a port's queue concerns.
    fn concerns(&self, port: PortId) -> Concerns {
        if port.0 < self.hosts() {
            Concerns::Nic(HostId(port.0))
        } else {
            Concerns::Network
        }
    }

    /// Does something to a port that moves departures: before, it is brought up to now; after, its
    /// pool has what has become free and knows when the next packet leaves, and there is an event
    /// for the first packet on the link.
    pub(super) fn change_port<T: Tap<P>>(
        &mut self,
        port: PortId,
        now: SimTime,
        tap: &mut T,
        change: &mut dyn FnMut(&mut Self),
    ) {
        let at = port.0;
        self.settle_either(at, now, tap);
        let before = &self.ports[port.0];
        let (arrival, held) = (before.head_arrival(&self.slab), before.held().bytes);
        change(self);
        let after = &self.ports[port.0];
        let (pool, held_now) = (after.pool, after.held().bytes);
        if pool != NO_POOL
            && let Some(pool) = self.pools.get_mut(pool as usize)
        {
            pool.give_back(held_now, held - held_now);
        }
        // The next one has its turn, if the one in service is gone.
        self.settle_either(at, now, tap);
        let Self {
            ports, pools, slab, ..
        } = self;
        let all = ports.len();
        let port = &mut ports[port.0];
        if let Some(pool) = pools.get_mut(port.pool as usize) {
            pool.departures.retain(|entry| entry.0.1 != at);
            let next = port.next_departure(slab);
            port.pool_knows = next.is_some();
            pool.departures
                .extend(next.map(|next| std::cmp::Reverse((next, at))));
            debug_assert!(pool.departures.len() <= all, "one entry a port");
        }
        let due = port.head_arrival(slab);
        if due != arrival
            && let Some(time) = due.filter(|&time| time != SimTime::MAX)
        {
            let rank = port.head_rank(slab);
            self.events.push(Event { time, rank, id: at });
        }
        self.departure_moved(at);
    }

    /// Brings a port of either kind up to `now` and tells what was done to packets there.
    fn settle_either<T: Tap<P>>(&mut self, at: u32, now: SimTime, tap: &mut T) {
        if self.ports[at].decides_in_turn() {
            self.settle_in_turn(at, now, tap);
        } else {
            self.settle(at, now);
        }
    }

    /// What is on a port's wire arrives each for itself from now on. The port is settled.
    fn detach_wire(&mut self, at: u32) {
        let wire = self.ports[at].detach_wire(&self.slab);
        let changes = self.changes_mut();
        for (time, slot) in wire {
            changes.due.put(time, Due::Arrives { port: at, slot });
        }
    }

    fn link_down<T: Tap<P>>(&mut self, port: PortId, now: SimTime, tap: &mut T) {
        let mut lost = Vec::new();
        self.change_port(port, now, tap, &mut |network| {
            network.detach_wire(port.0);
            let on_wire = |due: &Due| matches!(due, Due::Arrives { port: at, .. } if *at == port.0);
            for due in network.changes_mut().due.take(on_wire) {
                if let Due::Arrives { slot, .. } = due {
                    lost.push(slot);
                }
            }
            let port = &mut network.ports[port.0];
            lost.extend(port.stop(now, &mut network.slab));
        });
        for slot in lost {
            self.cross_off(slot, now, tap);
            self.discard(now, port.0, slot, DropReason::LinkDown, tap);
        }
        let far = self.other_end(port);
        if let (Some(pausing), Some(far)) = (&mut self.pausing, far) {
            pausing.lose_frames_to(far);
        }
        self.arm_pauses();
    }

    /// A port's transmitter goes on, unless something else stops it.
    fn resume<T: Tap<P>>(&mut self, port: PortId, now: SimTime, tap: &mut T) {
        let changes = self.changes_mut();
        if !changes.down.contains_key(&port.0) && !changes.resets.contains_key(&port.0) {
            self.change_port(port, now, tap, &mut |network| {
                network.ports[port.0].resume(now, &mut network.slab);
            });
        }
    }

    /// A link between switches may have become a route or none: its own switch knows at once.
    fn route_changed(&mut self, port: PortId, now: SimTime, was_out: bool) {
        let between = self.fabric.twin(port.0).is_some();
        let changes = self.changes_mut();
        let out = changes.is_out(port);
        if between && out != was_out {
            changes.due.put(now, Due::Tables);
            let known = now + changes.convergence;
            let port = port.0;
            changes.due.put(known, Due::Known { port, out });
        }
    }

    /// Does what has come due of changes. If a packet reaches a host: as [`Network::handle`].
    #[cold]
    pub(super) fn handle_due<T: Tap<P>>(
        &mut self,
        now: SimTime,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        let changes = self.changes_mut();
        if changes.armed != now {
            return None; // Stale.
        }
        changes.armed = SimTime::MAX;
        let mut arrived = None;
        while arrived.is_none()
            && let Some(due) = self.changes_mut().due.take_due(now)
        {
            match due {
                Due::Arrives { port, slot } => {
                    self.renew_tables();
                    arrived = self.reach_end(now, port, slot, tap);
                }
                Due::Wakes(host) => arrived = self.wake(now, host, tap),
                Due::NicWorks(host) => {
                    let resets = &mut self.changes_mut().resets;
                    if resets.get(&host.0).is_some_and(|&end| end <= now) {
                        resets.remove(&host.0);
                        self.tell_link_to(host);
                        self.resume(PortId(host.0), now, tap);
                    }
                }
                Due::Tables => self.changes_mut().tables_are_old = true,
                Due::Known { port, out } => {
                    let changes = self.changes_mut();
                    if out {
                        changes.known.insert(port, ());
                    } else {
                        changes.known.remove(&port);
                    }
                    changes.tables_are_old = true;
                }
            }
        }
        self.renew_tables();
        self.arm_changes();
        arrived
    }

    /// Has an event for what comes first.
    fn arm_changes(&mut self) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        if let Some(time) = changes.due.next()
            && time < changes.armed
        {
            changes.armed = time;
            // After all else of its instant.
            self.events.push(Event {
                time,
                rank: u32::MAX,
                id: CHANGES,
            });
        }
    }

    /// Computes the switches' tables anew if links have changed.
    fn renew_tables(&mut self) {
        let Some(changes) = &mut self.changes else {
            return;
        };
        if !std::mem::replace(&mut changes.tables_are_old, false) {
            return;
        }
        let tables = self.fabric.tables(&changes.known, &changes.out());
        for (switch, table) in self.switches.iter_mut().zip(tables) {
            switch.set_table(table);
        }
    }
}
