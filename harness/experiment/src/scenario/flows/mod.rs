//! Flows over one switch: long-lived ones, single transfers, and transfers that are asked for
//! again and again, with a bottleneck that is looked at closely.
//!
//! Where [`incast`](super::incast) is one experiment with many knobs, this is the ground for
//! experiments with few flows: a congestion control's sawtooth, two algorithms on one link,
//! short transfers behind long ones, all hosts asking all others.

mod asked;
mod model;
pub mod outcome;
pub mod spec;
mod validate;
mod watch;

pub use outcome::{FlowOutcome, FlowSample, FlowsRun, PortOutcome, QueueSample, Transfer};
pub use spec::{Asked, FlowNet, FlowSpec, FlowsSpec, HostSpec, Load, Loss, PortBuffer, Record};
pub use validate::MAX_FLOWS;

use super::{Outcome, RunContext, ScenarioError, tcp};
use crate::net::packet::HostId;
use crate::registry::Registry;
use crate::run::RunOutcome;
use narrows::{Duration, Instant, Rate};
use std::collections::BTreeSet;
use watch::Seen;

/// Runs flows with the algorithms of a registry.
#[derive(Clone, Debug, Default)]
pub struct Flows {
    /// Congestion controls, RTO policies and loss detectors by name.
    pub registry: Registry,
}

impl Flows {
    /// Simulate `spec` to its end.
    ///
    /// # Errors
    /// When the spec cannot be run, or the run was cancelled.
    pub fn run(&self, spec: &FlowsSpec, ctx: RunContext<'_>) -> Result<FlowsRun, ScenarioError> {
        spec.validate()?;
        self.check_names(spec)?;
        let (experiment, seen) = spec.experiment();
        let ctx = RunContext {
            capture_at: HostId(spec.bottleneck),
            ..ctx
        };
        let outcome = experiment.run(&self.registry, ctx)?;
        Ok(collect(spec, outcome, seen.take()))
    }

    /// Names, in the words of the options.
    fn check_names(&self, spec: &FlowsSpec) -> Result<(), ScenarioError> {
        let mut words = spec.tcp.clone();
        let names: BTreeSet<&String> = spec.flows.iter().map(|f| f.congestion_in(spec)).collect();
        for name in names {
            words.congestion.clone_from(name);
            tcp::config(&words, spec.net.mtu, &self.registry)?;
        }
        Ok(())
    }
}

/// A run of the experiment in the words of flows.
fn collect(spec: &FlowsSpec, run: RunOutcome, seen: Seen) -> FlowsRun {
    let mut flows = seen.flows;
    for transfer in &run.transfers {
        if let Some(flow) = flows.get_mut(usize::from(transfer.traffic)) {
            flow.transfers.push(Transfer {
                began: transfer.began,
                took: transfer.took,
                timeouts: 0,
            });
        }
    }
    let end = Instant::ZERO + run.simulated;
    let span = (run.measured_from, end);
    for (number, (flow, spec)) in flows.iter_mut().zip(&spec.flows).enumerate() {
        let before = seen.timeouts_before.get(&number);
        count_timeouts(spec, flow, before.map_or(&[0], Vec::as_slice));
        if let (Load::Bytes(_), Some(first)) = (spec.load, flow.transfers.first_mut()) {
            // A transfer that nobody asks for begins with its SYN.
            first.timeouts += seen.sender_handshakes[number];
        }
        flow.active = active(spec, flow, span);
        flow.goodput = Rate::of(flow.received, flow.active).unwrap_or_default();
    }
    FlowsRun {
        // The asked-for time was simulated.
        outcome: match run.outcome {
            Outcome::TimeLimit => Outcome::Completed,
            other => other,
        },
        simulated: run.simulated,
        measured: run.measured,
        flows,
        bottleneck: PortOutcome {
            utilisation_ppm: run.ports[spec.hosts.len() + spec.bottleneck as usize].utilisation_ppm,
            ..seen.bottleneck
        },
        switch_drops: seen.switch_drops,
        marks: seen.marks,
        events: run.events,
        unrecorded: run.unrecorded,
    }
}

/// The timeouts of each transfer, from those that the sender had had before each.
fn count_timeouts(spec: &FlowSpec, flow: &mut FlowOutcome, before: &[u64]) {
    if spec.load == Load::Unlimited {
        return;
    }
    let all = flow.at_end.timeouts;
    for (k, transfer) in flow.transfers.iter_mut().enumerate() {
        let after = before.get(k + 1).copied().unwrap_or(all);
        transfer.timeouts = after.saturating_sub(before.get(k).copied().unwrap_or(0));
    }
}

/// For how much of the time from `from` to `to` a flow had something to do: from its start on, and
/// until its last transfer was complete.
fn active(spec: &FlowSpec, flow: &FlowOutcome, (from, to): (Instant, Instant)) -> Duration {
    let all = match spec.load {
        Load::Unlimited => usize::MAX,
        Load::Bytes(_) => 1,
        Load::Asked(asked) => asked.times as usize,
    };
    let last = flow
        .transfers
        .last()
        .filter(|_| flow.transfers.len() >= all);
    let done = last.map_or(to, |t| to.min(t.began + t.took));
    let start = from.max(Instant::ZERO + spec.start);
    if start < done {
        done.since(start)
    } else {
        Duration::ZERO
    }
}

#[cfg(test)]
mod tests;
