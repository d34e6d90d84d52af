//! What changes of a port while it works: rate, delay, link, queue. Apart from the rest, because
//! most ports stay as they are.
//!
//! First in, first out, the departures that were computed on arrival are computed again, from the
//! first packet that is not on the wire. While the transmitter is stopped they are
//! [`SimTime::MAX`], and no event names them. The chain then holds no packet that has left: those
//! are taken off it first ([`Port::detach_wire`]), so that the first of the chain is never due.
//!
//! The port is settled before each of these.

use narrows_congestion::Rate;

use super::Port;
use crate::net::buffer::{Capacity, Limit};
use crate::net::discipline::red::Red;
use crate::net::discipline::tail::Step;
use crate::net::discipline::{DisciplineSpec, Retuned, TailRule};
use crate::net::impair::{ImpairSpec, Impairments};
use crate::net::link::Transmitter;
use crate::net::pause::pause_frame;
use crate::sim::rng::Stream;
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;

impl Port {
    /// Whether the transmitter has stopped.
    pub(super) fn is_stopped(&self) -> bool {
        self.tx.free_at() == SimTime::MAX
    }

    /// Whether the first queued packet is on the wire. Of a NIC it may wait for its overhead, and
    /// of a port that was paused for the end of that.
    fn is_in_service<P>(&self, now: SimTime, tx: &Transmitter, slab: &Slab<P>) -> bool {
        if self.cursor == NIL || tx.free_at() == SimTime::MAX {
            return false;
        }
        let hop = slab.hop(self.cursor);
        let waits = self.delays || self.held_until() != SimTime::ZERO;
        // What is below a picosecond may have been carried over from the packet before.
        let start = hop.depart - tx.span(self.framing.wire_len(hop.buffered));
        !waits || start <= now + SimTime::from_picos(1)
    }

    /// When a pause frame has left that goes ahead of all that waits, first in, first out, and takes
    /// nothing of the link; [`SimTime::MAX`] while the transmitter is stopped.
    pub(crate) fn ahead_of_all<P>(&self, now: SimTime, slab: &Slab<P>) -> SimTime {
        if self.is_stopped() {
            return SimTime::MAX;
        }
        let begins = match self.is_in_service(now, &self.tx, slab) {
            true => slab.hop(self.cursor).depart.max(now),
            false => now,
        };
        begins + self.tx.span(pause_frame(self.framing))
    }

    /// Until when a pause holds it, first in, first out; zero if none ever did.
    pub(super) fn held_until(&self) -> SimTime {
        let rare = self.rare.as_ref();
        rare.map_or(SimTime::ZERO, |rare| rare.held_until)
    }

    /// Begins no packet before `until`, first in, first out, which may end what held it before; from
    /// when on it begins none.
    pub(crate) fn hold<P>(&mut self, now: SimTime, until: SimTime, slab: &mut Slab<P>) -> SimTime {
        debug_assert!(!self.decides_in_turn());
        let busy = self.is_in_service(now, &self.tx, slab);
        let from = if busy {
            slab.hop(self.cursor).depart
        } else {
            now
        };
        let was_held = self.held_until() > now;
        self.rare_mut().held_until = until;
        if !self.is_stopped() {
            let old = (!was_held).then(|| self.tx.clone());
            self.recredited(now, slab, |port, slab| {
                port.reschedule(now, busy, old.as_ref(), slab);
            });
        }
        from
    }

    /// Sends at `rate` from now on; the packet on the wire keeps the rate that it began with.
    /// `None` if there is no such rate.
    pub(crate) fn set_rate<P>(
        &mut self,
        now: SimTime,
        rate: Rate,
        slab: &mut Slab<P>,
    ) -> Option<()> {
        let new = self.tx.at_rate(rate)?;
        let old = std::mem::replace(&mut self.tx, new);
        let waits = self.cursor != NIL && !self.is_stopped() && !self.decides_in_turn();
        if waits {
            let busy = self.is_in_service(now, &old, slab);
            let old = (self.held_until() <= now).then_some(&old);
            self.recredited(now, slab, |port, slab| {
                port.reschedule(now, busy, old, slab);
            });
        }
        Some(())
    }

    /// Computes the departures behind the packet on the wire anew, if one is there. A packet that was
    /// to wait for its overhead with the wire free, as `old` says if nothing else held it, still does.
    fn reschedule<P>(
        &mut self,
        now: SimTime,
        busy: bool,
        old: Option<&Transmitter>,
        slab: &mut Slab<P>,
    ) {
        let mut i = self.cursor;
        let mut previous = now;
        let ready = now.max(self.held_until());
        if busy {
            let hop = slab.hop(i);
            previous = hop.depart;
            i = hop.next;
        }
        self.tx.restart(ready.max(previous));
        while i != NIL {
            let hop = slab.hop_mut(i);
            let wire = self.framing.wire_len(hop.buffered);
            let start = old.map_or(SimTime::ZERO, |old| hop.depart - old.span(wire));
            // Less is the remainder of the packets before.
            let idle = self.delays && start > previous + SimTime::from_picos(1);
            previous = hop.depart;
            hop.depart = self.tx.send(if idle { start } else { ready }, wire);
            i = hop.next;
        }
    }

    /// Stops the transmitter. What is on the wire has been detached; returns the packet that was
    /// being sent, which is lost.
    pub(crate) fn stop<P>(&mut self, now: SimTime, slab: &mut Slab<P>) -> Option<u32> {
        debug_assert_eq!(self.head, self.cursor, "a packet is on the wire");
        let busy = self.is_in_service(now, &self.tx, slab);
        let mut lost = None;
        self.recredited(now, slab, |port, slab| {
            if busy {
                lost = port.take_first(slab);
            }
            port.tx.restart(SimTime::MAX);
            let mut i = port.cursor;
            while i != NIL {
                let hop = slab.hop_mut(i);
                hop.depart = SimTime::MAX;
                i = hop.next;
            }
        });
        if lost.is_some() {
            self.record_now(now);
        }
        lost
    }

    /// A transmitter that was stopped goes on.
    pub(crate) fn resume<P>(&mut self, now: SimTime, slab: &mut Slab<P>) {
        debug_assert!(self.is_stopped(), "it has not been stopped");
        let ready = now.max(self.held_until());
        self.recredited(now, slab, |port, slab| {
            port.tx.restart(ready);
            port.restart_shaper(now);
            let mut i = port.cursor;
            while i != NIL {
                let hop = slab.hop_mut(i);
                let ready = ready.max(port.shaped(now, hop.buffered));
                hop.depart = port.tx.send(ready, port.framing.wire_len(hop.buffered));
                i = hop.next;
            }
        });
    }

    /// Empties the queue of a NIC whose transmitter has stopped; returns what was in it.
    pub(crate) fn flush<P>(&mut self, now: SimTime, slab: &mut Slab<P>) -> Vec<u32> {
        debug_assert!(self.is_stopped() && !self.decides_in_turn());
        let mut flushed = Vec::new();
        self.recredited(now, slab, |port, slab| {
            while let Some(i) = port.take_first(slab) {
                port.stats.packets -= 1;
                port.stats.bytes -= u64::from(slab.hop(i).buffered);
                flushed.push(i);
            }
        });
        if !flushed.is_empty() {
            self.record_now(now);
        }
        flushed
    }

    /// Takes the first queued packet out of queue and chain.
    fn take_first<P>(&mut self, slab: &Slab<P>) -> Option<u32> {
        if self.cursor == NIL {
            return None;
        }
        let i = self.cursor;
        let hop = slab.hop(i);
        self.queued_packets -= 1;
        self.queued_bytes -= u64::from(hop.buffered);
        self.cursor = hop.next;
        self.head = hop.next;
        Some(i)
    }

    /// Takes the packets on the wire off the chain; when each reaches the far end.
    pub(crate) fn detach_wire<P>(&mut self, slab: &Slab<P>) -> Vec<(SimTime, u32)> {
        let mut wire = Vec::new();
        while self.head != self.cursor {
            let hop = slab.hop(self.head);
            wire.push((hop.depart + self.delay, self.head));
            self.head = hop.next;
        }
        wire
    }

    /// Sets the propagation delay. What is on the wire has been detached.
    pub(crate) fn set_delay(&mut self, delay: SimTime) {
        debug_assert_eq!(self.head, self.cursor, "a packet is on the wire");
        self.delay = delay;
    }

    /// Sets the port's own limit.
    pub(crate) fn set_capacity(&mut self, capacity: Capacity) {
        let limit = Limit::new(capacity);
        match self.transmit_mut() {
            Some(transmit) => transmit.limit = limit,
            None => self.limit = limit,
        }
    }

    /// Sets what the link, number `link` of the run with `seed`, does to packets.
    pub(crate) fn set_impairments(&mut self, spec: &ImpairSpec, seed: u64, link: u64) {
        match self.impair_mut() {
            Some(impair) => impair.retune(spec),
            None if spec.is_clean() => {}
            None => {
                self.rare_mut().impair = Some(Impairments::of(spec, seed, link));
            }
        }
    }

    /// Sets whether the host at the far end takes what arrives.
    pub(crate) fn set_deaf(&mut self, deaf: bool, seed: u64, link: u64) {
        let rare = self.rare_mut();
        let clean = || Impairments::of(&ImpairSpec::default(), seed, link);
        rare.impair.get_or_insert_with(clean).deaf = deaf;
    }

    /// Sets the queue discipline, whose values are in range: another rule at the tail, or other
    /// values of the same that decides in turn.
    pub(crate) fn set_discipline(
        &mut self,
        spec: &DisciplineSpec,
        stream: impl FnOnce() -> Stream,
    ) -> Retuned {
        if self.decides_in_turn() {
            return self.retune_in_turn(spec);
        }
        let rare = self.rare_mut();
        match (spec, rare.tail_rule.as_mut()) {
            (DisciplineSpec::DropTail, _) => rare.tail_rule = None,
            (DisciplineSpec::Red(spec), Some(TailRule::Red(red))) => red.retune(*spec),
            (DisciplineSpec::Red(spec), _) => {
                rare.tail_rule = Some(TailRule::Red(Red::new(*spec, stream())));
            }
            (
                &DisciplineSpec::EcnStep {
                    threshold,
                    not_capable,
                },
                _,
            ) => {
                rare.tail_rule = Some(TailRule::EcnStep(Step {
                    threshold,
                    not_capable,
                }));
            }
            _ => return Retuned::No,
        }
        Retuned::Yes
    }

    /// The queue is so long from now on, if that is recorded.
    fn record_now(&mut self, now: SimTime) {
        let queued = self.held();
        if let Some(rare) = &mut self.rare {
            rare.record(now, queued);
        }
    }

    /// Does `change` to what is queued, and keeps the integral of the queue exact: what packets
    /// have been credited with for after now is taken back and given anew.
    fn recredited<P>(
        &mut self,
        now: SimTime,
        slab: &mut Slab<P>,
        change: impl FnOnce(&mut Self, &mut Slab<P>),
    ) {
        if self.decides_in_turn() {
            self.integrate_until(now, slab);
            return change(self, slab);
        }
        let before = self.credit_ahead(now, slab);
        change(self, slab);
        let after = self.credit_ahead(now, slab);
        if let Some(credit) = self.rare.as_mut().and_then(|rare| rare.credit.as_mut()) {
            credit.packets = credit.packets + after.packets - before.packets;
            credit.bytes = credit.bytes + after.bytes - before.bytes;
        }
    }
}
