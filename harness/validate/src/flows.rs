//! Flows to one receiver, looked at closely: each flow as often as is wanted, and every change of
//! the queue before the receiver. The experiment is the model's; what is looked at, and queries
//! that are asked together, are a probe and a traffic of this crate.

pub(crate) mod outcome;
mod queries;
mod watch;

pub(crate) use outcome::{FlowOutcome, FlowSample, FlowsRun, PortOutcome, QueueSample, Transfer};
pub(crate) use queries::Asked;

use narrows::{Duration, Rate};
use narrows_experiment::model::{Experiment, NamedProbe, NamedTraffic, Settings};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{Outcome, RunContext, ScenarioError};
use narrows_net::net::packet::HostId;
use queries::{AskedTraffic, Together};
use std::sync::{Arc, Mutex};
use watch::{FlowsProbe, Watched};

/// What is recorded on the way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Record {
    /// Look at each flow this often, from the start of the run; not at all if `None`.
    pub(crate) samples: Option<Duration>,
    /// Each change of the bottleneck's queue after the warm-up.
    pub(crate) queue: bool,
}

/// An experiment whose traffic is one connection each, and what is looked at.
#[derive(Clone, Debug)]
pub(crate) struct Flows {
    /// Its traffic is of one connection each, by numbers of hosts: `h3`.
    pub(crate) experiment: Experiment,
    /// Queries on more connections, after those.
    pub(crate) queries: Vec<Query>,
    pub(crate) record: Record,
}

/// A connection over which the receiver asks for data, again and again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Query {
    /// Who answers.
    pub(crate) from: u32,
    /// Who asks.
    pub(crate) to: u32,
    /// When the connection is opened.
    pub(crate) start: Duration,
    pub(crate) asked: Asked,
}

impl Flows {
    /// Of an experiment, without records.
    pub(crate) fn new(experiment: Experiment) -> Self {
        Self {
            experiment,
            queries: Vec::new(),
            record: Record::default(),
        }
    }

    /// The warm-up.
    pub(crate) fn warm_up(&self) -> Duration {
        self.experiment.run.warm_up
    }

    /// Runs it with what `registry` knows. What a capture in `ctx` has is the receiver's link.
    ///
    /// # Errors
    /// When it cannot be run, or was cancelled.
    pub(crate) fn run(
        &self,
        registry: &Registry,
        ctx: RunContext<'_>,
    ) -> Result<FlowsRun, ScenarioError> {
        let (watched, mut experiment) = (Watched::default(), self.experiment.clone());
        let mut ends: Vec<(u32, u32)> = experiment.traffic.iter().map(ends).collect();
        let together = Arc::new(Mutex::new(Together::default()));
        for query in &self.queries {
            let flow = ends.len();
            ends.push((query.from, query.to));
            experiment.traffic.push(NamedTraffic {
                name: format!("query-{flow}"),
                kind: "query".to_owned(),
                start: query.start,
                tcp: Settings::default(),
                spec: Box::new(AskedTraffic {
                    flow,
                    from: HostId(query.from),
                    to: HostId(query.to),
                    asked: query.asked,
                    together: Arc::clone(&together),
                    watched: watched.clone(),
                }),
            });
        }
        experiment.probes.push(NamedProbe {
            name: "flows".to_owned(),
            kind: "flows".to_owned(),
            spec: Box::new(FlowsProbe {
                ends,
                record: self.record,
                duration: experiment.run.duration,
                watched: watched.clone(),
            }),
        });
        let run = experiment.run(registry, ctx)?;
        let seen = watched.take();
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
        for (number, flow) in flows.iter_mut().enumerate() {
            count_timeouts(flow, seen.timeouts_before.get(&number));
            flow.goodput = Rate::of(flow.received, run.measured).unwrap_or_default();
        }
        Ok(FlowsRun {
            // The asked-for time was simulated.
            outcome: match run.outcome {
                Outcome::TimeLimit => Outcome::Completed,
                other => other,
            },
            measured: run.measured,
            flows,
            bottleneck: PortOutcome {
                utilisation_ppm: run.ports[run.hosts.len()].utilisation_ppm,
                ..seen.bottleneck
            },
            switch_drops: seen.switch_drops,
        })
    }
}

/// Who sends, and who receives.
///
/// # Panics
/// If it is not by number.
fn ends(traffic: &NamedTraffic) -> (u32, u32) {
    let end = |key| {
        let name = traffic.spec.get(key).unwrap_or_default();
        let number = name.strip_prefix('h').and_then(|n| n.parse().ok());
        number.unwrap_or_else(|| panic!("{}.{key}: {name}", traffic.name))
    };
    (end("from"), end("to"))
}

/// The timeouts of each answer, from those that the sender had had before each.
fn count_timeouts(flow: &mut FlowOutcome, before: Option<&Vec<u64>>) {
    let Some(before) = before else {
        return;
    };
    let all = flow.at_end.timeouts;
    for (k, transfer) in flow.transfers.iter_mut().enumerate() {
        let after = before.get(k + 1).copied().unwrap_or(all);
        transfer.timeouts = after.saturating_sub(before.get(k).copied().unwrap_or(0));
    }
}

#[cfg(test)]
mod tests;
