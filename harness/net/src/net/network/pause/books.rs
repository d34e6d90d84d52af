//! What switches that pause keep of packets, and of whom they have told what.

use narrows_congestion::order::OrderedMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::net::discipline::classify::CLASSES;
use crate::net::network::agenda::Agenda;
use crate::net::packet::{HostId, PortId};
use crate::net::pause::{Held, Obeys, PauseKind, PauseSignal, PauseSpec, Thresholds, class_of};
use crate::sim::time::SimTime;

/// Nothing.
pub(super) const NONE: u32 = u32::MAX;

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

/// A host that pauses, as the network is built.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PausingHost {
    pub(crate) host: HostId,
    /// The port of the switch that leads to it.
    pub(crate) from: u32,
    /// The time that a pause frame names.
    pub(crate) quanta: u16,
    /// Frames of a ring from which on it pauses, and at which it ends the pause.
    pub(crate) xoff: u32,
    pub(crate) xon: u32,
}

/// What the switches of a network that pause know.
#[derive(Debug)]
pub(in crate::net::network) struct Pausing {
    pub(super) ingresses: Vec<Ingress>,
    /// By port: its ingress, if it sends to such a switch.
    pub(super) by_sender: Vec<u32>,
    /// By port: the switch that pauses, and that it is an output of.
    pub(super) outputs: Vec<u32>,
    pub(super) switches: OrderedMap<u32, PausingSwitch>,
    /// Those that pause who sends to them, by number.
    pub(super) hosts: OrderedMap<u32, HostPause>,
    /// By slot.
    pub(super) accounts: Vec<Account>,
    /// By port, of those that a pause frame reached.
    pub(super) obeys: OrderedMap<u32, Sender>,
    pub(super) due: Agenda<Due>,
    /// Time of the event; [`SimTime::MAX`] for none. Another one is stale.
    pub(super) armed: SimTime,
}

/// What comes in by a port of a switch.
#[derive(Debug)]
pub(super) struct Ingress {
    pub(super) parts: IngressParts,
    pub(super) held: [Held; CLASSES],
    pub(super) sent: Signals,
}

/// Pause frames that were sent.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    pub(super) xoff: u64,
    pub(super) xon: u64,
}

impl Signals {
    /// Those that say this.
    pub(super) fn of(&mut self, signal: PauseSignal) -> &mut u64 {
        match signal {
            PauseSignal::Xoff => &mut self.xoff,
            PauseSignal::Xon => &mut self.xon,
        }
    }
}

/// A host that pauses, at work.
#[derive(Clone, Copy, Debug)]
pub(in crate::net::network) struct HostPause {
    pub(super) parts: PausingHost,
    /// While the switch is told to pause: when it is to be told again.
    pub(super) again: Option<SimTime>,
    pub(super) sent: Signals,
}

impl HostPause {
    pub(super) fn new(parts: PausingHost) -> Self {
        Self {
            parts,
            again: None,
            sent: Signals::default(),
        }
    }
}

/// A switch that pauses.
#[derive(Debug)]
pub(in crate::net::network) struct PausingSwitch {
    /// Its ports that something leaves, by when; may name a time that has passed.
    pub(super) departures: BinaryHeap<Reverse<(SimTime, u32)>>,
    /// Whom it has told to pause.
    pub(super) told: u32,
    /// When it is looked at next; [`SimTime::MAX`] for never.
    pub(super) look: SimTime,
}

/// Where a packet is counted.
#[derive(Clone, Copy, Debug)]
pub(super) struct Account {
    pub(super) ingress: u32,
    pub(super) class: u8,
    pub(super) len: u32,
}

impl Account {
    pub(super) const NONE: Self = Self {
        ingress: NONE,
        class: 0,
        len: 0,
    };
}

/// A port that obeys.
#[derive(Debug, Default)]
pub(super) struct Sender {
    pub(super) obeys: Obeys,
    /// Until when each traffic class is held.
    pub(super) until: [SimTime; CLASSES],
}

/// A pause frame on its way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Frame {
    /// The port that is to obey.
    pub(super) to: u32,
    /// Of all classes or of this one.
    pub(super) classes: u8,
    /// For so long.
    pub(super) quanta: u16,
}

/// What is to come.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Due {
    /// A pause frame reaches the port that is to obey.
    Frame(Frame),
    /// A port may go on.
    Wake { port: u32 },
    /// Who sends to a port is to be told again.
    Renew { ingress: u32, class: u8 },
    /// The switch that sends to a host is to be told again.
    HostAgain { host: HostId },
    /// Something leaves a switch that has told somebody to pause.
    Look { switch: u32 },
}

impl Pausing {
    #[inline] // Once for a run: compiled where a network is built.
    pub(super) fn new(
        ports: usize,
        outputs: Vec<u32>,
        parts: Vec<IngressParts>,
        hosts: Vec<PausingHost>,
    ) -> Self {
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
            hosts: hosts
                .into_iter()
                .map(|parts| (parts.host.0, HostPause::new(parts)))
                .collect(),
            accounts: Vec::new(),
            obeys: OrderedMap::new(),
            due: Agenda::new(),
            armed: SimTime::MAX,
        }
    }

    /// The pause frames on their way to this port are lost with the link.
    pub(in crate::net::network) fn lose_frames_to(&mut self, port: PortId) {
        let is_lost = |due: &Due| matches!(due, Due::Frame(frame) if frame.to == port.0);
        self.due.take(is_lost);
    }

    /// The switch that pauses, and that port `at` is an output of.
    pub(super) fn switch_of(&self, at: u32) -> Option<u32> {
        let switch = self.outputs.get(at as usize).copied();
        switch.filter(|&switch| switch != NONE)
    }

    /// The ingress of what port `from` sends, if that is at a switch that pauses.
    pub(super) fn ingress_of(&self, from: u32) -> Option<u32> {
        let at = self.by_sender.get(from as usize).copied();
        at.filter(|&at| at != NONE)
    }

    /// Whether a packet that comes in has room; of an ingress that counts nothing it has.
    pub(super) fn has_room(&self, from: u32, dscp: u8, len: u32) -> bool {
        let Some(at) = self.ingress_of(from) else {
            return true;
        };
        let ingress = &self.ingresses[at as usize];
        let held = &ingress.held[ingress.part_of(dscp)];
        held.has_room(len, &ingress.parts.thresholds)
    }

    /// Counts a packet that has come in; what is to be told the other end, of which class.
    pub(super) fn count(
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
    pub(super) fn cross_off(&mut self, slot: u32) -> Option<(u32, u8, PauseSignal)> {
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
    pub(super) fn new(parts: IngressParts) -> Self {
        Self {
            parts,
            held: [Held::default(); CLASSES],
            sent: Signals::default(),
        }
    }

    /// Which part of the memory a packet takes: its class's, or that of all classes that do not
    /// pause, which goes by the number of the first of them.
    pub(super) fn part_of(&self, dscp: u8) -> usize {
        let class = class_of(self.parts.spec.kind, dscp);
        match self.parts.spec.kind {
            PauseKind::Priority { classes } if classes >> class & 1 == 0 => {
                classes.trailing_ones() as usize
            }
            _ => class,
        }
    }
}
