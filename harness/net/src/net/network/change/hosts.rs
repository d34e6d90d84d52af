//! Hosts that pause, whose packets wait in a ring, and NICs that are reset.

use std::collections::VecDeque;

use super::Due;
use crate::net::network::Network;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::port::Node;
use crate::net::stats::DropReason;
use crate::sim::tap::Tap;
use crate::sim::time::SimTime;

/// A host that pauses.
#[derive(Debug)]
pub(super) struct Pause {
    until: SimTime,
    ring: u32,
    /// Slots of the packets that have come.
    waiting: VecDeque<u32>,
}

impl<P: Packet> Network<P> {
    /// A host pauses; until when.
    pub(super) fn pause(&mut self, host: HostId, until: SimTime, ring: u32) -> SimTime {
        let pauses = &mut self.changes_mut().pauses;
        let pause = pauses.get_or_insert_with(host.0, || Pause {
            until,
            ring,
            waiting: VecDeque::new(),
        });
        pause.ring = ring;
        pause.until = pause.until.max(until);
        let until = pause.until;
        self.changes_mut().due.put(until, Due::Wakes(host));
        self.tell_link_to(host);
        until
    }

    pub(super) fn reset_nic<T: Tap<P>>(
        &mut self,
        host: HostId,
        now: SimTime,
        until: SimTime,
        tap: &mut T,
    ) {
        let changes = self.changes_mut();
        let end = changes.resets.get_or_insert_with(host.0, || until);
        *end = until.max(*end);
        let end = *end;
        changes.due.put(end, Due::NicWorks(host));
        self.tell_link_to(host);
        let mut lost = self.lose_rings(host);
        self.change_port(PortId(host.0), now, tap, &mut |network| {
            network.detach_wire(host.0);
            let nic = &mut network.ports[host.0];
            lost.extend(nic.stop(now, &mut network.slab));
            lost.extend(nic.flush(now, &mut network.slab));
        });
        for slot in lost {
            self.discard(now, host.0, slot, DropReason::NicReset, tap);
        }
    }

    /// The link to a host learns whether the host takes what arrives as it does.
    pub(in super::super) fn tell_link_to(&mut self, host: HostId) {
        let Some(at) = self.port_to(host) else { return };
        let mut deaf = self.has_receiver(host);
        if let Some(changes) = &self.changes {
            deaf |= changes.pauses.contains_key(&host.0) || changes.resets.contains_key(&host.0);
        }
        let seed = self.seed;
        self.ports[at.0].set_deaf(deaf, seed, at.0.into());
    }

    /// Whether the host at the end of port `at`'s link does not take the packet in slot `i`, which
    /// then waits in its ring or is lost.
    #[cold]
    pub(in super::super) fn is_kept_from_host<T: Tap<P>>(
        &mut self,
        now: SimTime,
        at: u32,
        i: u32,
        tap: &mut T,
    ) -> bool {
        let port = &mut self.ports[at];
        let deaf = port.impair_mut().is_some_and(|impair| impair.deaf);
        let (Node::Host(host), true) = (port.to, deaf) else {
            return false;
        };
        let has_receiver = self.has_receiver(HostId(host));
        let reset = self.is_reset(HostId(host));
        let pause = self
            .changes
            .as_mut()
            .and_then(|changes| changes.pauses.get_mut(&host));
        match pause {
            _ if reset => self.discard(now, at, i, DropReason::NicReset, tap),
            None if has_receiver => {
                self.reach_ring(now, at, HostId(host), i, tap);
            }
            None => return false,
            Some(pause) if pause.waiting.len() < pause.ring as usize => pause.waiting.push_back(i),
            Some(_) => self.discard(now, at, i, DropReason::RingFull, tap),
        }
        true
    }

    /// Whether what reaches the host is lost, because its NIC is reset.
    pub(in super::super) fn is_reset(&self, host: HostId) -> bool {
        let changes = self.changes.as_ref();
        changes.is_some_and(|changes| changes.resets.contains_key(&host.0))
    }

    /// When a NIC's stopped transmitter goes on, if that is known.
    pub(in super::super) fn nic_works_at(&self, host: HostId) -> Option<SimTime> {
        let changes = self.changes.as_ref()?;
        let end = changes.resets.get(&host.0).copied();
        end.filter(|_| !changes.down.contains_key(&host.0))
    }

    /// A host takes the next packet that waits for it, or goes on.
    pub(super) fn wake<T: Tap<P>>(
        &mut self,
        now: SimTime,
        host: HostId,
        tap: &mut T,
    ) -> Option<(HostId, u32)> {
        let at = self.port_to(host)?;
        let changes = self.changes_mut();
        let pause = changes.pauses.get_mut(&host.0)?;
        if pause.until > now {
            return None; // It has been told to pause for longer.
        }
        if let Some(slot) = pause.waiting.pop_front() {
            changes.due.put(now, Due::Wakes(host));
            if self.has_receiver(host) {
                self.reach_ring(now, at.0, host, slot, tap);
                return None;
            }
            return self.arrive(now, at.0, Node::Host(host.0), slot, tap);
        }
        changes.pauses.remove(&host.0);
        self.tell_link_to(host);
        self.arm_receiver(host, now);
        None
    }
}
