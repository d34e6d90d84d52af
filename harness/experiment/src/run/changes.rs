//! The changes of a run: when each comes and is undone, and which of them cannot be in force at once.

mod prepare;

use crate::host::SimPacket;
use crate::host::trace::Lines;
use crate::model::{Change as Asked, Experiment, Invalid};
use crate::net::change::Change;
use crate::net::graph::{Graph, NodeId};
use crate::net::network::Network;
use crate::net::packet::{HostId, PortId};
use crate::registry::Registry;
use crate::sim::time::SimTime;
use narrows::congestion::order::sort_by_key;
use prepare::{Offloads, key_of, prepare};
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// The changes of a run, by time.
#[derive(Debug, Default)]
pub(super) struct Changes {
    asked: Vec<Prepared>,
    /// When something comes, whether it is undone then, and which of them; the next one on top.
    due: BinaryHeap<Reverse<(SimTime, Way, usize)>>,
    made: Vec<(SimTime, String)>,
    told: Option<Lines>,
}

/// Whether a change comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Way {
    // A change that ends when another begins ends first.
    Undo,
    Make,
}

#[derive(Debug)]
struct Prepared {
    /// Its number in the experiment.
    number: usize,
    at: SimTime,
    make: Vec<Change>,
    undo: Vec<Change>,
    during: Option<SimTime>,
    every: Option<SimTime>,
    what: String,
    toggle: Option<Toggle>,
}

/// What a change that goes there and back has beside the way that is next.
#[derive(Debug)]
struct Toggle {
    /// The other way, and what it is in words.
    back: Vec<Change>,
    back_is: String,
    /// What ends when it ends: not what it makes.
    ends: String,
}

impl Prepared {
    /// Until when another of the same must not come, because this is undone, or comes again.
    fn end(&self) -> SimTime {
        match (self.every, self.during) {
            (None, Some(during)) => self.at + during,
            (None, None) if self.offloads().next().is_some() => {
                // Two at one instant are two things at once.
                self.at + SimTime::from_picos(1)
            }
            _ => SimTime::MAX,
        }
    }

    /// The receive offload that it gives hosts.
    fn offloads(&self) -> impl Iterator<Item = (HostId, u32)> {
        self.make.iter().filter_map(|change| match change {
            Change::Offload { host, most } => Some((*host, *most)),
            _ => None,
        })
    }

    /// Whether what it makes stays: a toggle ends with its ring alone.
    fn stays(&self) -> bool {
        self.during.is_none() || self.toggle.is_some()
    }
}

impl Changes {
    /// Those of `experiment`, tried on `scratch`, a network of its own.
    ///
    /// # Errors
    /// Which of them is impossible, and why.
    pub(super) fn new(
        experiment: &Experiment,
        registry: &Registry,
        graph: &Graph,
        scratch: impl FnOnce() -> Result<Network<SimPacket>, Invalid>,
    ) -> Result<Self, Invalid> {
        let mut all = Self::default();
        if experiment.changes.is_empty() {
            return Ok(all);
        }
        let mut scratch = scratch()?;
        let mut offloads = Offloads::new(graph);
        let mut in_order: Vec<(usize, &Asked)> = experiment.changes.iter().enumerate().collect();
        sort_by_key(&mut in_order, |(_, asked)| asked.when.at);
        for (n, asked) in in_order {
            let prepared = prepare(n, asked, experiment, registry, &offloads)?;
            let back = prepared.toggle.iter().flat_map(|toggle| &toggle.back);
            for change in prepared.make.iter().chain(back).chain(&prepared.undo) {
                scratch.try_change(change).map_err(|e| {
                    let at = format!("change.{n}.{}", key_of(asked));
                    Invalid::new(at, e.to_string())
                })?;
            }
            if let Some((other, aspect)) = all.overlapping(&prepared) {
                let (place, why) = match aspect {
                    Aspect::Offload(host) => (
                        graph.node_name(NodeId::Host(host)).to_owned(),
                        "receive offload is to be two things at once",
                    ),
                    Aspect::Port(port, _) => (
                        graph.port_name(port),
                        "what is undone first would undo the other, too",
                    ),
                };
                let why = format!("overlaps change.{other} at {place}: {why}");
                return Err(Invalid::new(format!("change.{n}.at"), why));
            }
            if prepared.stays() {
                offloads.change(prepared.offloads());
            }
            all.due
                .push(Reverse((prepared.at, Way::Make, all.asked.len())));
            all.asked.push(prepared);
        }
        Ok(all)
    }

    /// An earlier one that is about the same at the same time, where one of the two is undone.
    fn overlapping(&self, new: &Prepared) -> Option<(usize, Aspect)> {
        let aspects = |p: &Prepared| -> Vec<Aspect> { p.make.iter().filter_map(aspect).collect() };
        let mine = aspects(new);
        self.asked.iter().find_map(|other| {
            let meet = new.at < other.end() && other.at < new.end();
            if !meet || (new.during.is_none() && other.during.is_none()) {
                return None;
            }
            let theirs = aspects(other);
            let both = mine.iter().find(|a| theirs.contains(a))?;
            Some((other.number, *both))
        })
    }

    /// Has a trace told of each.
    pub(super) fn trace(&mut self, lines: Lines) {
        self.told = Some(lines);
    }

    /// When the next one comes.
    pub(super) fn next(&self) -> Option<SimTime> {
        self.due.peek().map(|Reverse((at, ..))| *at)
    }

    /// What is to be changed now.
    pub(super) fn take_due(&mut self, now: SimTime) -> Vec<Change> {
        let mut changes = Vec::new();
        while let Some(&Reverse((at, way, n))) = self.due.peek()
            && at <= now
        {
            self.due.pop();
            let asked = &mut self.asked[n];
            match way {
                Way::Undo => {
                    changes.extend(asked.undo.iter().cloned());
                    let ends = asked.toggle.as_ref().map(|toggle| &toggle.ends);
                    let what = ends.unwrap_or(&asked.what);
                    self.made.push((at, format!("end of {what}")));
                    super::trace::change(self.told.as_ref(), at, "undo", what);
                }
                Way::Make => {
                    changes.extend(asked.make.iter().cloned());
                    self.made.push((at, asked.what.clone()));
                    super::trace::change(self.told.as_ref(), at, "make", &asked.what);
                    if let Some(during) = asked.during {
                        self.due.push(Reverse((at + during, Way::Undo, n)));
                    }
                    if let Some(every) = asked.every {
                        self.due.push(Reverse((at + every, Way::Make, n)));
                    }
                    if let Some(toggle) = &mut asked.toggle {
                        std::mem::swap(&mut toggle.back, &mut asked.make);
                        std::mem::swap(&mut toggle.back_is, &mut asked.what);
                    }
                }
            }
        }
        changes
    }

    /// What was changed, and when.
    pub(super) fn made(self) -> Vec<(SimTime, String)> {
        self.made
    }
}

/// What a change is about: two of one cannot be in force at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Aspect {
    /// Something of a port.
    Port(PortId, &'static str),
    /// A host's receive offload.
    Offload(HostId),
}

/// What a change is about that may be undone.
fn aspect(change: &Change) -> Option<Aspect> {
    let of_port = match change {
        Change::Offload { host, .. } => return Some(Aspect::Offload(*host)),
        Change::Rate { .. } => "rate",
        Change::Delay { .. } => "delay",
        Change::Faults { .. } => "faults",
        Change::LinkDown { .. } | Change::LinkUp { .. } => "link",
        Change::Withdraw { .. } | Change::Advertise { .. } => "route",
        _ => "queue",
    };
    Some(Aspect::Port(change.port()?, of_port))
}
