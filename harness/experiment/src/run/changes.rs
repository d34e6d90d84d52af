//! The changes of a run: when each comes, what it is to the network, and how it is undone.

use crate::host::SimPacket;
use crate::host::trace::Lines;
use crate::knob::Section;
use crate::model::change::What;
use crate::model::link::IMPAIRMENTS;
use crate::model::pause::Flow;
use crate::model::{Change as Asked, Experiment, Invalid, Nic};
use crate::net::change::{Change, RECEIVE_RING};
use crate::net::graph::{Graph, NodeId};
use crate::net::network::Network;
use crate::net::packet::{HostId, PortId};
use crate::registry::Registry;
use crate::sim::time::SimTime;
use narrows::Duration;
use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

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
    /// What it makes each second time, if that is something else.
    back: Option<(Vec<Change>, String)>,
    undo: Vec<Change>,
    during: Option<SimTime>,
    every: Option<SimTime>,
    what: String,
    /// What ends when it ends, if that is not what it makes.
    ends: Option<String>,
}

impl Prepared {
    /// Until when another of the same must not come, because this is undone, or comes again.
    fn end(&self) -> SimTime {
        match (self.every, self.during) {
            (None, Some(during)) => self.at + during,
            (None, None) if self.offloads().next().is_some() => {
                // Those that come later know of it.
                self.at + SimTime::from_duration(Duration::from_nanos(1))
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
        self.during.is_none() || self.back.is_some()
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
        let mut offloads = Offloads {
            graph,
            changed: BTreeMap::new(),
        };
        let mut in_order: Vec<(usize, &Asked)> = experiment.changes.iter().enumerate().collect();
        in_order.sort_by_key(|(_, asked)| asked.when.at);
        for (n, asked) in in_order {
            let prepared = prepare(n, asked, experiment, registry, &offloads)?;
            let back = prepared.back.iter().flat_map(|(back, _)| back);
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
                offloads.changed.extend(prepared.offloads());
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
                    let what = asked.ends.as_ref().unwrap_or(&asked.what);
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
                    if let Some((make, what)) = &mut asked.back {
                        std::mem::swap(make, &mut asked.make);
                        std::mem::swap(what, &mut asked.what);
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

/// The receive offload of hosts, with what earlier changes left.
struct Offloads<'g> {
    graph: &'g Graph,
    changed: BTreeMap<HostId, u32>,
}

impl Offloads<'_> {
    fn of(&self, host: HostId) -> u32 {
        let first = || self.graph.host_egress(host).map(|e| e.nic.receive.offload);
        let changed = self.changed.get(&host).copied();
        changed.or_else(first).unwrap_or(0)
    }
}

/// The key that says what a change does.
fn key_of(asked: &Asked) -> String {
    match (asked.when.what, asked.set.iter().next()) {
        (What::Set, Some((key, _))) => key.to_owned(),
        _ => "what".to_owned(),
    }
}

fn prepare(
    n: usize,
    asked: &Asked,
    experiment: &Experiment,
    registry: &Registry,
    offloads: &Offloads<'_>,
) -> Result<Prepared, Invalid> {
    let graph = offloads.graph;
    let when = &asked.when;
    let invalid = |key: &str, why: String| Invalid::new(format!("change.{n}.{key}"), why);
    if when.on.is_empty() {
        return Err(invalid("on", "where is it? Name ports or hosts".to_owned()));
    }
    let span = when.during.map(SimTime::from_duration);
    let every = when.every.map(SimTime::from_duration);
    if let (Some(during), Some(every)) = (when.during, when.every)
        && during >= every
    {
        let why =
            format!("it lasts {during} and comes again after {every}: it must be over by then");
        return Err(invalid("for", why));
    }
    if every.is_some() && span.is_none() {
        let why = "it comes again and again: for how long each time? Give 'for'".to_owned();
        return Err(invalid("for", why));
    }
    let mut set = asked.set.iter().map(|(key, _)| key);
    let refused = match when.what {
        What::Set if asked.set.has(GRO) => set.find(|key| *key != GRO).map(|key| {
            (
                key,
                "is of ports, and nic.gro of hosts: make two changes of it",
            )
        }),
        What::Set => None,
        What::Toggle => set
            .find(|key| *key != GRO)
            .map(|key| (key, "is set by what = \"set\" only")),
        _ => set.next().map(|key| match key {
            GRO => (key, "is set by what = \"set\" or \"toggle\" only"),
            key => (key, "is set by what = \"set\" only"),
        }),
    };
    if let Some((key, why)) = refused {
        return Err(invalid(key, why.to_owned()));
    }
    let ports = || {
        let ports = graph.select(&when.on);
        ports.map_err(|e| invalid("on", e.to_string()))
    };
    let hosts = || {
        let hosts = graph.resolve_hosts(&when.on);
        hosts.map_err(|e| invalid("on", e.to_string()))
    };
    let needs_span = || {
        let why = "for how long? Give 'for'".to_owned();
        span.ok_or_else(|| invalid("for", why))
    };
    let (mut make, mut undo, mut back, mut ends) = (Vec::new(), Vec::new(), None, None);
    let what = match when.what {
        What::Set if asked.set.has(GRO) => {
            let most = given_offload(asked).unwrap_or_default();
            for host in hosts()? {
                let was = offloads.of(host);
                make.push(Change::Offload { host, most });
                undo.push(Change::Offload { host, most: was });
            }
            offload_is(most)
        }
        What::Set => {
            if asked.set.is_empty() {
                let why = "nothing is set: give keys of link or queue, as link.rate".to_owned();
                return Err(invalid("what", why));
            }
            for port in ports()? {
                let (there, back) = of_port(n, asked, experiment, registry, graph, port)?;
                make.extend(there);
                undo.extend(back);
            }
            let set: Vec<String> = asked
                .set
                .iter()
                .map(|(k, v)| format!("{k} = {v}"))
                .collect();
            set.join(", ")
        }
        What::LinkDown => {
            for port in ports()? {
                make.push(Change::LinkDown { port });
                undo.push(Change::LinkUp { port });
            }
            "link down".to_owned()
        }
        What::Withdraw => {
            for port in ports()? {
                make.push(Change::Withdraw { port });
                undo.push(Change::Advertise { port });
            }
            "route withdrawn".to_owned()
        }
        What::Pause => {
            let span = needs_span()?;
            let ring = RECEIVE_RING;
            let pause = |host| Change::Pause { host, span, ring };
            make.extend(hosts()?.into_iter().map(pause));
            "pause".to_owned()
        }
        What::RingLoss => {
            let span = needs_span()?;
            let reset = |host| Change::NicReset { host, span };
            make.extend(hosts()?.into_iter().map(reset));
            RING_LOSS.to_owned()
        }
        What::Toggle => {
            let span = needs_span()?;
            let given = given_offload(asked);
            let mut again = Vec::new();
            let mut ways = Vec::new();
            for host in hosts()? {
                let was = offloads.of(host);
                let other = if was == 0 { MOST_OFFLOAD } else { 0 };
                let most = given.unwrap_or(other);
                if most == was {
                    let is = offload_is(was);
                    let why = format!("{is} at {} already", graph.node_name(NodeId::Host(host)));
                    return Err(invalid(GRO, why));
                }
                let reset = Change::NicReset { host, span };
                make.extend([Change::Offload { host, most }, reset.clone()]);
                again.extend([Change::Offload { host, most: was }, reset]);
                ways.push((offload_is(most), offload_is(was)));
            }
            ways.dedup();
            let (to, from) = match &ways[..] {
                [(to, from)] => (to.clone(), from.clone()),
                _ => (
                    "receive offload is toggled".to_owned(),
                    "receive offload is as it was".to_owned(),
                ),
            };
            back = Some((again, format!("{from} at {}", when.on)));
            ends = Some(format!("{RING_LOSS} at {}", when.on));
            to
        }
    };
    Ok(Prepared {
        number: n,
        at: SimTime::from_duration(when.at),
        make,
        back,
        undo,
        during: span,
        every,
        what: format!("{what} at {}", when.on),
        ends,
    })
}

/// What happens to a NIC that is set up anew, in words.
const RING_LOSS: &str = "ring loss";
/// The key of receive offload in a change.
const GRO: &str = "nic.gro";
/// Bytes of the largest packet there is.
const MOST_OFFLOAD: u32 = 65_535;

/// The receive offload that a change gives, if it does.
fn given_offload(asked: &Asked) -> Option<u32> {
    let mut nic = Nic::default();
    // It was read where it was set.
    nic.set("gro", asked.set.get(GRO)?).ok()?;
    Some(nic.offload())
}

/// Receive offload in words.
fn offload_is(most: u32) -> String {
    match most {
        0 => "receive offload is off".to_owned(),
        most => format!("receive offload is {most} bytes"),
    }
}

/// What the settings of a change are at one port, and what is there now.
fn of_port(
    n: usize,
    asked: &Asked,
    experiment: &Experiment,
    registry: &Registry,
    graph: &Graph,
    port: PortId,
) -> Result<(Vec<Change>, Vec<Change>), Invalid> {
    let invalid = |key: &str, why: String| Invalid::new(format!("change.{n}.{key}"), why);
    if matches!(graph.ends(port), Some((NodeId::Host(_), _))) && asked.set.has_any("queue.") {
        let why = "a NIC's queue cannot change while a network runs".to_owned();
        return Err(invalid("queue", why));
    }
    if experiment.network.pause.mode != Flow::Off && asked.set.has_any("queue.") {
        let why =
            "queues of switches that pause stay as they are: leave network.pause off".to_owned();
        return Err(invalid("queue", why));
    }
    let was = experiment.network.port_at(graph, port)?;
    let is = was.clone().with(&asked.set);
    is.check().map_err(|(key, why)| invalid(&key, why))?;
    let mtu = experiment.network.common.mtu;
    let of = |p: &crate::model::network::Port| -> Result<Vec<Change>, Invalid> {
        let mut all = Vec::new();
        let link = p.link.spec();
        if asked.set.has("link.rate") {
            let rate = link.rate;
            all.push(Change::Rate { port, rate });
        }
        if asked.set.has("link.delay") {
            let delay = link.delay;
            all.push(Change::Delay { port, delay });
        }
        if IMPAIRMENTS
            .iter()
            .any(|key| asked.set.has(&format!("link.{key}")))
        {
            let impair = link.impair;
            all.push(Change::Faults { port, impair });
        }
        if asked.set.has_any("queue.") {
            let spec = p.queue.spec(&p.link, mtu, None, &registry.disciplines);
            let spec = spec.map_err(|(key, why)| invalid(&format!("queue.{key}"), why))?;
            let (capacity, discipline) = (spec.capacity, spec.discipline);
            all.push(Change::Capacity { port, capacity });
            let only_the_limit = asked
                .set
                .iter()
                .all(|(key, _)| !key.starts_with("queue.") || key == "queue.limit");
            if !only_the_limit {
                all.push(Change::Discipline { port, discipline });
            }
        }
        Ok(all)
    };
    for key in ["link.framing", "queue.counting"] {
        if asked.set.has(key) {
            return Err(invalid(
                key,
                "cannot change while a network runs".to_owned(),
            ));
        }
    }
    Ok((of(&is)?, of(&was)?))
}
