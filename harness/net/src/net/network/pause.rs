//! Pause frames at work ([`crate::net::pause`]): what the ports of switches that pause hold, whom
//! they tell, and who obeys.
//!
//! All this is cold. A network without pause has one empty pointer for it. In one with it the ports
//! of its switches decide in turn, each packet is written down by its slot when it comes into a
//! switch and crossed off when it has left, and while somebody is told to pause the switch is looked
//! at whenever a packet leaves it, so that the pause ends exactly where it is to.

mod books;
mod hosts;

use std::cmp::Reverse;

use super::{HELD, Network};
pub(super) use books::Pausing;
use books::{Due, Frame, NONE};
pub(crate) use books::{IngressParts, PausingHost};

use crate::net::packet::{HostId, Packet, PortId};
use crate::net::pause::{Held, PauseKind, PauseSignal, PauseStats, pause_bytes};
use crate::net::port::Port;
use crate::sim::queue::Event;
use crate::sim::tap::{PauseEvent, Tap};
use crate::sim::time::SimTime;

/// The id of the event of what is to come of pauses. No packet held back has it.
pub(super) const PAUSES: u32 = u32::MAX - 1;
const _: () = assert!(PAUSES & HELD != 0);

/// The classes of a pause frame that holds a link.
const PAUSE_TO_ALL: u8 = u8::MAX;

/// Half the time that `quanta` are to `sender`, after which it is told again; never no time.
fn half_pause(sender: &Port, quanta: u16) -> SimTime {
    let half = sender.span_of(pause_bytes(quanta) / 2);
    half.max(SimTime::from_picos(1))
}

impl<P: Packet> Network<P> {
    /// Lets switches and hosts pause; `outputs` is by port the switch, if it pauses.
    pub(crate) fn set_pausing(
        &mut self,
        outputs: Vec<u32>,
        parts: Vec<IngressParts>,
        hosts: Vec<PausingHost>,
    ) {
        for (at, _) in (0..).zip(&outputs).filter(|(_, s)| **s != NONE) {
            self.ports[at].tell_left();
        }
        let pausing = Pausing::new(self.ports.len(), outputs, parts, hosts);
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
            let port = &mut self.ports[at];
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
        let len = self.ports[at].buffer_len(self.slab.hop(i).l3_len);
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
        let port = &mut self.ports[at];
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
            self.ports[at].pool_knows = false;
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
            pausing.due.put(time, Due::Look { switch });
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
        let quanta = signal.quanta(spec.quanta);
        let held = &mut ingress.held[usize::from(class)];
        let was_told = held.again.is_some();
        held.again = match signal {
            PauseSignal::Xoff => Some(now + half_pause(&self.ports[from], quanta)),
            PauseSignal::Xon => None,
        };
        let again = held.again;
        if let Some(of) = pausing.switches.get_mut(&switch) {
            of.told = of.told + u32::from(again.is_some()) - u32::from(was_told);
        }
        if let Some(again) = again {
            let ingress = at;
            pausing.due.put(again, Due::Renew { ingress, class });
        }
        let classes = match spec.kind {
            PauseKind::Link => PAUSE_TO_ALL,
            PauseKind::Priority { .. } => 1 << class,
        };
        // Ahead of what waits on the way back, behind what is being sent.
        self.settle_in_turn(back, now, tap);
        let port = &mut self.ports[back];
        let sent = port.send_pause(now);
        let frame = Frame {
            to: from,
            classes,
            quanta,
        };
        if self.frame_leaves(back, signal, frame, sent, now, tap)
            && let Some(pausing) = &mut self.pausing
        {
            *pausing.ingresses[at as usize].sent.of(signal) += 1;
            pausing.due.put(sent, Due::Wake { port: back });
        }
        self.arm_look(switch);
    }

    /// Port `at` sends a pause frame, which has left when it is `sent`; whether it does. One that is
    /// stopped sends none: who was told to pause goes on when its time is over.
    fn frame_leaves<T: Tap<P>>(
        &mut self,
        at: u32,
        signal: PauseSignal,
        frame: Frame,
        sent: SimTime,
        now: SimTime,
        tap: &mut T,
    ) -> bool {
        if sent == SimTime::MAX {
            return false;
        }
        let reaches = sent + self.ports[at].delay;
        if T::ACTIVE {
            let sent = PauseEvent::Sent {
                port: PortId(at),
                signal,
                classes: frame.classes,
            };
            tap.pause(now, sent);
        }
        if let Some(pausing) = &mut self.pausing {
            pausing.due.put(reaches, Due::Frame(frame));
        }
        true
    }

    /// A pause frame has reached port `at`.
    fn obey<T: Tap<P>>(&mut self, frame: Frame, now: SimTime, tap: &mut T) {
        let Frame {
            to: at,
            classes,
            quanta,
        } = frame;
        if at < self.hosts() && self.is_reset(HostId(at)) {
            return; // Lost, as all that reaches the host.
        }
        let span = self.ports[at].span_of(pause_bytes(quanta));
        let until = now + span;
        let Some(pausing) = &mut self.pausing else {
            return;
        };
        let sender = pausing.obeys.get_or_default(at);
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
        let from = if self.ports[at].decides_in_turn() {
            self.settle_in_turn(at, now, tap);
            let port = &mut self.ports[at];
            let from = port.next_departure(&self.slab).unwrap_or(now);
            port.hold_in_turn(held);
            self.wake_port(at, now, tap);
            from
        } else {
            let mut from = now;
            self.change_port(PortId(at), now, tap, &mut |network| {
                let port = &mut network.ports[at];
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
                pausing.due.put(until, Due::Wake { port: at });
            }
        }
    }

    /// Port `at` may begin a packet that it held.
    fn wake_port<T: Tap<P>>(&mut self, at: u32, now: SimTime, tap: &mut T) {
        if !self.ports[at].decides_in_turn() {
            return; // Its departures are computed.
        }
        self.settle_in_turn(at, now, tap);
        let port = &self.ports[at];
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
            && let Some(due) = pausing.due.take_due(now)
        {
            match due {
                Due::Frame(frame) => self.obey(frame, now, tap),
                Due::Wake { port } => self.wake_port(port, now, tap),
                Due::Renew { ingress, class } => {
                    let held = &pausing.ingresses[ingress as usize].held[usize::from(class)];
                    if held.again == Some(now) {
                        let switch = pausing.ingresses[ingress as usize].parts.switch;
                        self.settle_switch(switch, now, tap);
                        self.tell_again(ingress, class, now, tap);
                    }
                }
                Due::HostAgain { host } => self.host_tells_again(host, now, tap),
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
        if let Some(time) = pausing.due.next()
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
        if let Some(host) = pausing.hosts.get(&port.0) {
            (stats.xoff_sent, stats.xon_sent) = (host.sent.xoff, host.sent.xon);
        }
        // What comes back on the link of this port.
        let from = self.other_end(port).and_then(|p| pausing.ingress_of(p.0));
        if let Some(ingress) = from.and_then(|at| pausing.ingresses.get(at as usize)) {
            (stats.xoff_sent, stats.xon_sent) = (ingress.sent.xoff, ingress.sent.xon);
            let most = ingress.held.iter().map(Held::most).max();
            stats.max_held = most.unwrap_or_default();
        }
        stats
    }
}

#[cfg(test)]
mod tests;
