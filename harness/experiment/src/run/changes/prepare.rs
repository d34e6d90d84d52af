//! What a `[[change]]` is to the network, and how it is undone.

use crate::knob::Section;
use crate::model::change::What;
use crate::model::link::IMPAIRMENTS;
use crate::model::pause::Flow;
use crate::model::{Change as Asked, Experiment, Invalid, Nic};
use crate::net::change::{Change, RECEIVE_RING};
use crate::net::graph::{Graph, NodeId};
use crate::net::nic::MOST_OFFLOAD;
use crate::net::packet::{HostId, PortId};
use crate::registry::Registry;
use crate::sim::time::SimTime;
use narrows::congestion::order::OrderedMap;
use narrows_run::changes::{Planned, Toggle};

/// What happens to a NIC that is set up anew, in words.
const RING_LOSS: &str = "ring loss";
/// The key of receive offload in a change.
const GRO: &str = "nic.gro";

/// The receive offload of hosts, with what earlier changes left.
pub(super) struct Offloads<'g> {
    graph: &'g Graph,
    changed: OrderedMap<HostId, u32>,
}

impl<'g> Offloads<'g> {
    pub(super) const fn new(graph: &'g Graph) -> Self {
        Self {
            graph,
            changed: OrderedMap::new(),
        }
    }

    /// A change leaves hosts with these.
    pub(super) fn change(&mut self, left: impl Iterator<Item = (HostId, u32)>) {
        for (host, offload) in left {
            self.changed.insert(host, offload);
        }
    }

    fn of(&self, host: HostId) -> u32 {
        let first = || self.graph.host_egress(host).map(|e| e.nic.receive.offload);
        let changed = self.changed.get(&host).copied();
        changed.or_else(first).unwrap_or(0)
    }
}

/// The key that says what a change does.
pub(super) fn key_of(asked: &Asked) -> String {
    match (asked.when.what, asked.set.iter().next()) {
        (What::Set, Some((key, _))) => key.to_owned(),
        _ => "what".to_owned(),
    }
}

/// The change number `n` of an experiment.
///
/// # Errors
/// Which of its keys is wrong, and why.
pub(super) fn prepare(
    n: usize,
    asked: &Asked,
    experiment: &Experiment,
    registry: &Registry,
    offloads: &Offloads<'_>,
) -> Result<Planned, Invalid> {
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
    let stray = |key: &str| match (when.what, key) {
        (What::Set, GRO) | (What::Toggle, GRO) => None,
        (What::Set, _) if asked.set.has(GRO) => {
            Some("is of ports, and nic.gro of hosts: make two changes of it")
        }
        (What::Set, _) => None,
        (_, GRO) => Some("is set by what = \"set\" or \"toggle\" only"),
        _ => Some("is set by what = \"set\" only"),
    };
    let mut set = asked.set.iter().map(|(key, _)| key);
    if let Some((key, why)) = set.find_map(|key| Some((key, stray(key)?))) {
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
    let (mut make, mut undo, mut toggle) = (Vec::new(), Vec::new(), None);
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
            let toggled = toggled(asked, hosts()?, span, offloads);
            let (there, what, way_back) = toggled.map_err(|why| invalid(GRO, why))?;
            make = there;
            toggle = Some(way_back);
            what
        }
    };
    Ok(Planned {
        at: SimTime::from_duration(when.at),
        make,
        undo,
        during: span,
        every,
        what: format!("{what} at {}", when.on),
        toggle,
    })
}

/// What a toggle of the receive offload of hosts makes first, in words, too, and the way back; or why there
/// is nothing to toggle.
fn toggled(
    asked: &Asked,
    hosts: Vec<HostId>,
    span: SimTime,
    offloads: &Offloads<'_>,
) -> Result<(Vec<Change>, String, Toggle), String> {
    let given = given_offload(asked);
    let (mut make, mut back, mut ways) = (Vec::new(), Vec::new(), Vec::new());
    for host in hosts {
        let was = offloads.of(host);
        let other = if was == 0 { MOST_OFFLOAD } else { 0 };
        let most = given.unwrap_or(other);
        if most == was {
            let name = offloads.graph.node_name(NodeId::Host(host));
            return Err(format!("{} at {name} already", offload_is(was)));
        }
        let reset = Change::NicReset { host, span };
        make.extend([Change::Offload { host, most }, reset.clone()]);
        back.extend([Change::Offload { host, most: was }, reset]);
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
    let on = &asked.when.on;
    let toggle = Toggle {
        back,
        back_is: format!("{from} at {on}"),
        ends: format!("{RING_LOSS} at {on}"),
    };
    Ok((make, to, toggle))
}

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
