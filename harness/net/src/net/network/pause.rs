//! Pause frames at work ([`crate::net::pause`]): what the ports of switches that pause hold, whom
//! they tell, and who obeys.
//!
//! All this is cold. A network without pause has one empty pointer for it. In one with it the ports
//! of its switches decide in turn, each packet is written down by its slot when it comes into a
//! switch and crossed off when it has left, and while somebody is told to pause the switch is looked
//! at whenever a packet leaves it, so that the pause ends exactly where it is to.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use super::{HELD, Network};
use crate::net::discipline::classify::CLASSES;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::pause::{
    Held, Obeys, PauseKind, PauseSignal, PauseSpec, PauseStats, Thresholds, class_of, pause_bytes,
};
use crate::sim::queue::Event;
use crate::sim::tap::{PauseEvent, Tap};
use crate::sim::time::SimTime;

/// The id of the event of what is to come of pauses. No packet held back has it.
pub(super) const PAUSES: u32 = u32::MAX - 1;
const _: () = assert!(PAUSES & HELD != 0);

/// Nothing.
const NONE: u32 = u32::MAX;

/// A port of a switch that pauses, as the network is built: what comes in by it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct IngressParts {
    /// The port at the other end of the link, which sends.
    pub(crate) from: u32,
    /// The switch's port on that link.
    pub(crate) back: u32,
    pub(crate) switch: u32,
    pub(crate) spec: PauseSpec,
    pub(crate) thresholds: Thresholds,
}

/// What the switches of a network that pause know.
#[derive(Debug)]
pub(super) struct Pausing {
    ingresses: Vec<Ingress>,
    /// By port: its ingress, if it sends to such a switch.
    by_sender: Vec<u32>,
    /// By port: the switch that pauses, and that it is an output of.
    outputs: Vec<u32>,
    switches: BTreeMap<u32, PausingSwitch>,
    /// By slot.
    accounts: Vec<Account>,
    /// By port, of those that a pause frame reached.
    obeys: BTreeMap<u32, Sender>,
    /// By time, then in the order in which it was put here.
    due: BTreeMap<(SimTime, u64), Due>,
    sequence: u64,
    /// Time of the event; [`SimTime::MAX`] for none. Another one is stale.
    armed: SimTime,
}

/// What comes in by a port of a switch.
#[derive(Debug)]
struct Ingress {
    parts: IngressParts,
    held: [Held; CLASSES],
    xoff_sent: u64,
    xon_sent: u64,
}

/// A switch that pauses.
#[derive(Debug)]
struct PausingSwitch {
    /// Its ports that something leaves, by when; may name a time that has passed.
    departures: BinaryHeap<Reverse<(SimTime, u32)>>,
    /// Whom it has told to pause.
    told: u32,
    /// When it is looked at next; [`SimTime::MAX`] for never.
    look: SimTime,
}

/// Where a packet is counted.
#[derive(Clone, Copy, Debug)]
struct Account {
    ingress: u32,
    class: u8,
    len: u32,
}

impl Account {
    const NONE: Self = Self {
        ingress: NONE,
        class: 0,
        len: 0,
    };
}

/// A port that obeys.
#[derive(Debug, Default)]
struct Sender {
    obeys: Obeys,
    /// Until when each traffic class is held.
    until: [SimTime; CLASSES],
}

/// What is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Due {
    /// A pause frame reaches the port that is to obey: of all classes or of this one, for so long.
    Frame { to: u32, classes: u8, quanta: u16 },
    /// A port may go on.
    Wake { port: u32 },
    /// Who sends to a port is to be told again.
    Again { ingress: u32, class: u8 },
    /// Something leaves a switch that has told somebody to pause.
    Look { switch: u32 },
}

impl Pausing {
    fn new(ports: usize, outputs: Vec<u32>, parts: Vec<IngressParts>) -> Self {
        debug_assert_eq!(outputs.len(), ports);
        let switch = |parts: &IngressParts| {
            let switch = PausingSwitch {
                departures: BinaryHeap::new(),
                told: 0,
                look: SimTime::MAX,
            };
            (parts.switch, switch)
        };
        let mut by_sender = vec![NONE; ports];
        for (parts, at) in parts.iter().zip(0..) {
            by_sender[parts.from as usize] = at;
        }
        Self {
            switches: parts.iter().map(switch).collect(),
            by_sender,
            ingresses: parts.into_iter().map(Ingress::new).collect(),
            outputs,
            accounts: Vec::new(),
            obeys: BTreeMap::new(),
            due: BTreeMap::new(),
            sequence: 0,
            armed: SimTime::MAX,
        }
    }

    fn put(&mut self, time: SimTime, due: Due) {
        // What comes at the end of time never does.
        if time != SimTime::MAX {
            self.due.insert((time, self.sequence), due);
            self.sequence += 1;
        }
    }

    /// The switch that pauses, and that port `at` is an output of.
    fn switch_of(&self, at: u32) -> Option<u32> {
        let switch = self.outputs.get(at as usize).copied();
        switch.filter(|&switch| switch != NONE)
    }

    /// The ingress of what port `from` sends, if that is at a switch that pauses.
    fn ingress_of(&self, from: u32) -> Option<u32> {
        let at = self.by_sender.get(from as usize).copied();
        at.filter(|&at| at != NONE)
    }

    /// Whether a packet that comes in has room; of an ingress that counts nothing it has.
    fn has_room(&self, from: u32, dscp: u8, len: u32) -> bool {
        let Some(at) = self.ingress_of(from) else {
            return true;
        };
        let ingress = &self.ingresses[at as usize];
        let held = &ingress.held[ingress.part_of(dscp)];
        held.has_room(len, &ingress.parts.thresholds)
    }

    /// Counts a packet that has come in; what is to be told the other end, of which class.
    fn count(
        &mut self,
        from: u32,
        slot: u32,
        dscp: u8,
        len: u32,
    ) -> Option<(u32, u8, PauseSignal)> {
        let at = self.ingress_of(from)?;
        let ingress = &mut self.ingresses[at as usize];
        let class = ingress.part_of(dscp);
        if self.accounts.len() <= slot as usize {
            self.accounts.resize(slot as usize + 1, Account::NONE);
        }
        let class = class as u8;
        self.accounts[slot as usize] = Account {
            ingress: at,
            class,
            len,
        };
        let held = &mut ingress.held[usize::from(class)];
        let signal = held.add(len, &ingress.parts.thresholds)?;
        let pauses = ingress.parts.spec.pausing() >> class & 1 == 1;
        pauses.then_some((at, class, signal))
    }

    /// Crosses off a packet that has left or was dropped; what is to be told.
    fn cross_off(&mut self, slot: u32) -> Option<(u32, u8, PauseSignal)> {
        let account = self.accounts.get_mut(slot as usize)?;
        let Account {
            ingress: at,
            class,
            len,
        } = std::mem::replace(account, Account::NONE);
        let ingress = self.ingresses.get_mut(at as usize)?;
        let held = &mut ingress.held[usize::from(class)];
        let signal = held.take(len, &ingress.parts.thresholds)?;
        Some((at, class, signal))
    }
}

impl Ingress {
    fn new(parts: IngressParts) -> Self {
        Self {
            parts,
            held: [Held::default(); CLASSES],
            xoff_sent: 0,
            xon_sent: 0,
        }
    }

    /// Which part of the memory a packet takes: its class's, or that of all classes that do not
    /// pause, which goes by the number of the first of them.
    fn part_of(&self, dscp: u8) -> usize {
        let class = class_of(self.parts.spec.kind, dscp);
        match self.parts.spec.kind {
            PauseKind::Priority { classes } if classes >> class & 1 == 0 => {
                classes.trailing_ones() as usize
            }
            _ => class,
        }
    }
}

impl<P: Packet> Network<P> {
    /// Lets switches pause; `outputs` is by port the switch, if it pauses.
    pub(crate) fn set_pausing(&mut self, outputs: Vec<u32>, parts: Vec<IngressParts>) {
        for (at, _) in outputs.iter().enumerate().filter(|(_, s)| **s != NONE) {
            self.ports[at].tell_left();
        }
        let pausing = Pausing::new(self.ports.len(), outputs, parts);
        self.pausing = Some(Box::new(pausing));
    }

    /// Brings all ports of a switch that pauses up to `now`, and crosses off what has left.
    fn settle_switch<T: Tap<P>>(&mut self, switch: u32, now: SimTime, tap: &mut T) {
        let mut gone = Vec::new();
        loop {
            let Some(pausing) = &mut self.pausing else {
                return;
            };
            let Some(of) = pausing.switches.get_mut(&switch) else {
                return;
            };
            let Some(&Reverse((time, at))) = of.departures.peek() else {
                break;
            };
            if time > now {
                break;
            }
            of.departures.pop();
            self.bring_up(at, now);
            let port = &mut self.ports[at as usize];
            gone.append(&mut port.take_left());
            let next = port.next_departure(&self.slab);
            let next = next.filter(|&next| next != SimTime::MAX);
            port.pool_knows = next.is_some();
            let of = self
                .pausing
                .as_mut()
                .and_then(|p| p.switches.get_mut(&switch));
            if let (Some(next), Some(of)) = (next, of) {
                of.departures.push(Reverse((next, at)));
            }
        }
        for slot in gone {
            self.cross_off(slot, now, tap);
        }
    }

    /// The packet in slot `slot` is no longer in the switch.
    pub(super) fn cross_off<T: Tap<P>>(&mut self, slot: u32, now: SimTime, tap: &mut T) {
        let told = self.pausing.as_mut().and_then(|p| p.cross_off(slot));
        if let Some((ingress, class, signal)) = told {
            self.signal(ingress, class, signal, now, tap);
        }
    }

    /// A packet of `len` bytes has come in from port `from` and is to go to port `at`: brings the
    /// switch up to `now` if it pauses; whether there is room.
    pub(super) fn comes_in<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        i: u32,
        tap: &mut T,
    ) -> bool {
        let Some(switch) = self.pausing.as_ref().and_then(|p| p.switch_of(at)) else {
            return true;
        };
        self.settle_switch(switch, now, tap);
        let len = self.ports[at as usize].buffer_len(self.slab.hop(i).l3_len);
        let dscp = self.slab.body(i).dscp();
        let pausing = self.pausing.as_ref();
        pausing.is_none_or(|pausing| pausing.has_room(from, dscp, len))
    }

    /// The packet has been taken.
    pub(super) fn has_come_in<T: Tap<P>>(
        &mut self,
        now: SimTime,
        (from, at): (u32, u32),
        (i, len): (u32, u32),
        tap: &mut T,
    ) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        if pausing.switch_of(at).is_some() {
            let dscp = self.slab.body(i).dscp();
            let told = pausing.count(from, i, dscp, len);
            if let Some((ingress, class, signal)) = told {
                self.signal(ingress, class, signal, now, tap);
            }
        }
    }

    /// Port `at` may have begun a packet: when that leaves is known to its switch if it pauses.
    pub(super) fn departure_known(&mut self, at: u32) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        let Some(switch) = pausing.switch_of(at) else {
            return;
        };
        let port = &mut self.ports[at as usize];
        let next = port.next_departure(&self.slab);
        if let Some(next) = next.filter(|&next| next != SimTime::MAX)
            && let Some(of) = pausing.switches.get_mut(&switch)
            && !port.pool_knows
        {
            port.pool_knows = true;
            of.departures.push(Reverse((next, at)));
        }
        self.arm_look(switch);
    }

    /// What leaves port `at` next has been computed anew.
    pub(super) fn departure_moved(&mut self, at: u32) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        if let Some(switch) = pausing.switch_of(at)
            && let Some(of) = pausing.switches.get_mut(&switch)
        {
            of.departures.retain(|entry| entry.0.1 != at);
            self.ports[at as usize].pool_knows = false;
            self.departure_known(at);
            self.arm_pauses();
        }
    }

    /// Looks at a switch when something leaves it next, while it has told somebody to pause.
    fn arm_look(&mut self, switch: u32) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        if let Some(of) = pausing.switches.get_mut(&switch)
            && of.told > 0
            && let Some(&Reverse((time, _))) = of.departures.peek()
            && time < of.look
        {
            of.look = time;
            pausing.put(time, Due::Look { switch });
        }
    }

    /// Tells who sends to an ingress to pause or to go on.
    fn signal<T: Tap<P>>(
        &mut self,
        at: u32,
        class: u8,
        signal: PauseSignal,
        now: SimTime,
        tap: &mut T,
    ) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        let ingress = &mut pausing.ingresses[at as usize];
        let IngressParts {
            from,
            back,
            switch,
            spec,
            ..
        } = ingress.parts;
        let quanta = match signal {
            PauseSignal::Xoff => spec.quanta,
            PauseSignal::Xon => 0,
        };
        let held = &mut ingress.held[usize::from(class)];
        let was_told = held.again.is_some();
        held.again = match signal {
            PauseSignal::Xoff => {
                ingress.xoff_sent += 1;
                let half = self.ports[from as usize].span_of(pause_bytes(quanta) / 2);
                Some(now + half.max(SimTime::from_picos(1)))
            }
            PauseSignal::Xon => {
                ingress.xon_sent += 1;
                None
            }
        };
        let again = held.again;
        if let Some(of) = pausing.switches.get_mut(&switch) {
            of.told = of.told + u32::from(again.is_some()) - u32::from(was_told);
        }
        if let Some(again) = again {
            let ingress = at;
            pausing.put(again, Due::Again { ingress, class });
        }
        let classes = match spec.kind {
            PauseKind::Link => u8::MAX,
            PauseKind::Priority { .. } => 1 << class,
        };
        // Ahead of what waits on the way back, behind what is being sent.
        self.settle_in_turn(back, now, tap);
        let port = &mut self.ports[back as usize];
        let sent = port.send_pause(now);
        let reaches = if sent == SimTime::MAX {
            sent
        } else {
            sent + port.delay
        };
        if T::ACTIVE {
            let port = PortId(back);
            tap.pause(
                now,
                PauseEvent::Sent {
                    port,
                    signal,
                    classes,
                },
            );
        }
        if let Some(pausing) = &mut self.pausing {
            pausing.put(
                reaches,
                Due::Frame {
                    to: from,
                    classes,
                    quanta,
                },
            );
            pausing.put(sent, Due::Wake { port: back });
        }
        self.arm_look(switch);
    }

    /// A pause frame has reached port `at`.
    fn obey<T: Tap<P>>(&mut self, at: u32, classes: u8, quanta: u16, now: SimTime, tap: &mut T) {
        let span = self.ports[at as usize].span_of(pause_bytes(quanta));
        let until = now + span;
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        let sender = pausing.obeys.entry(at).or_default();
        for (class, held) in sender.until.iter_mut().enumerate() {
            if classes >> class & 1 == 1 {
                *held = until;
            }
        }
        let held = sender.until;
        let longest = held.iter().copied().max().unwrap_or_default().max(now);
        if T::ACTIVE {
            let port = PortId(at);
            tap.pause(
                now,
                PauseEvent::Obeyed {
                    port,
                    span,
                    classes,
                },
            );
        }
        let from = if self.ports[at as usize].decides_in_turn() {
            self.settle_in_turn(at, now, tap);
            let port = &mut self.ports[at as usize];
            let from = port.next_departure(&self.slab).unwrap_or(now);
            port.hold_in_turn(held);
            self.wake_port(at, now, tap);
            from
        } else {
            let mut from = now;
            self.change_port(PortId(at), now, tap, |network| {
                let port = &mut network.ports[at as usize];
                from = port.hold(now, longest, &mut network.slab);
            });
            if at < self.hosts() {
                self.nic_moved(HostId(at));
            }
            from
        };
        if let Some(pausing) = &mut self.pausing {
            if let Some(sender) = pausing.obeys.get_mut(&at) {
                sender.obeys.obey(now, from.max(now), longest);
            }
            if until > now {
                pausing.put(until, Due::Wake { port: at });
            }
        }
    }

    /// Port `at` may begin a packet that it held.
    fn wake_port<T: Tap<P>>(&mut self, at: u32, now: SimTime, tap: &mut T) {
        if !self.ports[at as usize].decides_in_turn() {
            return; // Its departures are computed.
        }
        self.settle_in_turn(at, now, tap);
        let port = &self.ports[at as usize];
        // What has begun just now has no event; a second one would be stale.
        if port.head_is_queued()
            && let Some(time) = port.head_arrival(&self.slab)
            && time != SimTime::MAX
        {
            let rank = port.head_rank(&self.slab);
            self.events.push(Event { time, rank, id: at });
        }
        self.departure_known(at);
    }

    /// Does what has come due of pauses.
    #[cold]
    pub(super) fn handle_pauses<T: Tap<P>>(&mut self, now: SimTime, tap: &mut T) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        if pausing.armed != now {
            return; // Stale.
        }
        pausing.armed = SimTime::MAX;
        while let Some(pausing) = &mut self.pausing
            && let Some(entry) = pausing.due.first_entry()
            && entry.key().0 <= now
        {
            match entry.remove() {
                Due::Frame {
                    to,
                    classes,
                    quanta,
                } => self.obey(to, classes, quanta, now, tap),
                Due::Wake { port } => self.wake_port(port, now, tap),
                Due::Again { ingress, class } => {
                    let held = &pausing.ingresses[ingress as usize].held[usize::from(class)];
                    if held.again == Some(now) {
                        let switch = pausing.ingresses[ingress as usize].parts.switch;
                        self.settle_switch(switch, now, tap);
                        self.tell_again(ingress, class, now, tap);
                    }
                }
                Due::Look { switch } => {
                    if let Some(of) = pausing.switches.get_mut(&switch)
                        && of.look == now
                    {
                        of.look = SimTime::MAX;
                        self.settle_switch(switch, now, tap);
                        self.arm_look(switch);
                    }
                }
            }
        }
        self.arm_pauses();
    }

    /// Half of a pause is over, and there is no room yet.
    fn tell_again<T: Tap<P>>(&mut self, ingress: u32, class: u8, now: SimTime, tap: &mut T) {
        let told = self.pausing.as_ref().is_some_and(|pausing| {
            let held = &pausing.ingresses[ingress as usize].held[usize::from(class)];
            held.again == Some(now)
        });
        if told {
            self.signal(ingress, class, PauseSignal::Xoff, now, tap);
        }
    }

    /// Has an event for what comes first.
    pub(super) fn arm_pauses(&mut self) {
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        if let Some((&(time, _), _)) = pausing.due.first_key_value()
            && time < pausing.armed
        {
            pausing.armed = time;
            // After all else of its instant.
            self.events.push(Event {
                time,
                rank: u32::MAX,
                id: PAUSES,
            });
        }
    }

    /// What pause frames a port has sent and received until `now`, and for how long it was paused.
    pub fn pause_stats(&self, now: SimTime, port: PortId) -> PauseStats {
        let Some(pausing) = &self.pausing else {
            return PauseStats::default();
        };
        let mut stats = PauseStats::default();
        if let Some(sender) = pausing.obeys.get(&port.0) {
            stats.received = sender.obeys.received;
            stats.paused = sender.obeys.paused(now);
        }
        // What comes back on the link of this port.
        let from = self.other_end(port).and_then(|p| pausing.ingress_of(p.0));
        if let Some(ingress) = from.and_then(|at| pausing.ingresses.get(at as usize)) {
            stats.xoff_sent = ingress.xoff_sent;
            stats.xon_sent = ingress.xon_sent;
            let most = ingress.held.iter().map(Held::most).max();
            stats.max_held = most.unwrap_or_default();
        }
        stats
    }
}

#[cfg(test)]
mod tests;
