//! The changes of a run: when each comes and is undone, and which of them cannot be in force at once.

mod prepare;

use crate::host::SimPacket;
use crate::model::{Change as Asked, Experiment, Invalid};
use crate::net::change::Change;
use crate::net::graph::{Graph, NodeId};
use crate::net::network::Network;
use crate::net::packet::{HostId, PortId};
use crate::registry::Registry;
use crate::sim::time::SimTime;
use narrows::congestion::order::sort_by_key;
use narrows_run::changes::{Changes, Planned};
use prepare::{Offloads, key_of, prepare};

/// Until when another of the same must not come, because this is undone, or comes again.
fn end(change: &Planned) -> SimTime {
    match (change.every, change.during) {
        (None, Some(during)) => change.at + during,
        (None, None) if offloads(change).next().is_some() => {
            // Two at one instant are two things at once.
            change.at + SimTime::from_picos(1)
        }
        _ => SimTime::MAX,
    }
}

/// The receive offload that it gives hosts.
fn offloads(change: &Planned) -> impl Iterator<Item = (HostId, u32)> {
    change.make.iter().filter_map(|change| match change {
        Change::Offload { host, most } => Some((*host, *most)),
        _ => None,
    })
}

/// Those of `experiment`, tried on `scratch`, a network of its own.
///
/// # Errors
/// Which of them is impossible, and why.
pub(super) fn planned(
    experiment: &Experiment,
    registry: &Registry,
    graph: &Graph,
    scratch: impl FnOnce() -> Result<Network<SimPacket>, Invalid>,
) -> Result<Changes, Invalid> {
    if experiment.changes.is_empty() {
        return Ok(Changes::default());
    }
    // With their numbers in the experiment.
    let mut all: Vec<(usize, Planned)> = Vec::new();
    let mut scratch = scratch()?;
    let mut in_force = Offloads::new(graph);
    let mut in_order: Vec<(usize, &Asked)> = experiment.changes.iter().enumerate().collect();
    sort_by_key(&mut in_order, |(_, asked)| asked.when.at);
    for (n, asked) in in_order {
        let new = prepare(n, asked, experiment, registry, &in_force)?;
        let back = new.toggle.iter().flat_map(|toggle| &toggle.back);
        for change in new.make.iter().chain(back).chain(&new.undo) {
            scratch.try_change(change).map_err(|e| {
                let at = format!("change.{n}.{}", key_of(asked));
                Invalid::new(at, e.to_string())
            })?;
        }
        if let Some((other, aspect)) = overlapping(&all, &new) {
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
        // What it makes stays: a toggle ends with its ring alone.
        if new.during.is_none() || new.toggle.is_some() {
            in_force.change(offloads(&new));
        }
        all.push((n, new));
    }
    let mut changes = Changes::default();
    for (_, change) in all {
        changes.add(change);
    }
    Ok(changes)
}

/// An earlier one that is about the same at the same time, where one of the two is undone.
fn overlapping(all: &[(usize, Planned)], new: &Planned) -> Option<(usize, Aspect)> {
    let aspects = |p: &Planned| -> Vec<Aspect> { p.make.iter().filter_map(aspect).collect() };
    let mine = aspects(new);
    all.iter().find_map(|(number, other)| {
        let meet = new.at < end(other) && other.at < end(new);
        if !meet || (new.during.is_none() && other.during.is_none()) {
            return None;
        }
        let theirs = aspects(other);
        let both = mine.iter().find(|a| theirs.contains(a))?;
        Some((*number, *both))
    })
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
