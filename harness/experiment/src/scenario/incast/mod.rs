//! An incast as an experiment: a client, servers, a star, and synchronised reads.
//!
//! Everything is packets of the TCP under study: handshakes, requests and data travel on the
//! same connections. Models hosts without CPU time and an application that reads at once.

mod model;

use super::spec::IncastSpec;
use super::{
    DropCounts, IncastRun, IncastRunner, NicRefusals, QueuePeak, RunContext, ScenarioError,
    TimeoutCounts, tcp,
};
use crate::host::SimPacket;
use crate::net::stats::DropReason;
use crate::registry::Registry;
use crate::run::RunOutcome;
use crate::sim::tap::Tap;
use narrows::{ByteCount, Rate};

/// Runs incasts with the algorithms of a registry.
#[derive(Clone, Debug, Default)]
pub struct Incast {
    /// Congestion controls, RTO policies and loss detectors by name.
    pub registry: Registry,
}

impl IncastRunner for Incast {
    fn run(&self, spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
        self.check(spec)?;
        let outcome = spec.experiment().run(&self.registry, ctx)?;
        Ok(collect(&outcome))
    }
}

impl Incast {
    /// Whether `spec` can be run, in the words of its options.
    fn check(&self, spec: &IncastSpec) -> Result<(), ScenarioError> {
        spec.validate()?;
        tcp::config(&spec.tcp, spec.net.mtu, &self.registry).map(drop)
    }

    /// Runs `spec` with a tap of the caller's, which sees each packet at the hosts and at the
    /// switch. A capture in `ctx` is left alone.
    ///
    /// # Errors
    /// Those of [`IncastRunner::run`].
    pub fn watch<T: Tap<SimPacket>>(
        &self,
        spec: &IncastSpec,
        ctx: RunContext<'_>,
        tap: T,
    ) -> Result<(IncastRun, T), ScenarioError> {
        self.check(spec)?;
        let (outcome, tap) = spec.experiment().watch(&self.registry, ctx, tap)?;
        Ok((collect(&outcome), tap))
    }
}

/// The client, by number.
const CLIENT: u32 = 0;

/// A run of the experiment in the words of an incast.
fn collect(run: &RunOutcome) -> IncastRun {
    let mut result = IncastRun {
        outcome: run.outcome,
        payload: run.delivered(),
        simulated: run.measured,
        goodput: Rate::of(run.delivered(), run.measured).unwrap_or_default(),
        block_times: run.transfers.iter().map(|t| t.took).collect(),
        events: run.events,
        unrecorded: run.unrecorded.clone(),
        ..IncastRun::default()
    };
    let mut timeouts = TimeoutCounts {
        handshake: run.hosts.iter().map(|h| h.handshake_timeouts).sum(),
        ..TimeoutCounts::default()
    };
    for flow in &run.flows {
        let s = &flow.sender;
        if flow.from == CLIENT {
            timeouts.other += s.timeouts;
            continue;
        }
        timeouts.full_window += s.timeouts_full_window;
        timeouts.tail += s.timeouts_tail;
        timeouts.retransmission_lost += s.timeouts_retransmission;
        result.fast_retransmits += s.fast_recoveries;
        result.data_packets += s.segments;
        result.retransmitted_packets += s.retransmits;
    }
    result.timeouts = timeouts;
    let (mut drops, mut refused) = (DropCounts::default(), NicRefusals::default());
    // NICs by number of their hosts, then the switch's ports likewise.
    let (nics, ports) = run.ports.split_at(run.hosts.len().min(run.ports.len()));
    for (host, nic) in (0..).zip(nics) {
        let refusals = match host {
            CLIENT => &mut refused.client,
            _ => &mut refused.server,
        };
        *refusals += nic.dropped_for_room();
    }
    for (host, port) in (0..).zip(ports) {
        let full = port.dropped_for_room();
        if host == CLIENT {
            drops.port_full += full;
            result.max_queue = QueuePeak {
                packets: u64::from(port.max_packets),
                bytes: ByteCount::new(port.max_bytes),
            };
        } else {
            drops.port_server += full;
        }
    }
    for port in &run.ports {
        drops.impaired += port.dropped(DropReason::Lost);
        drops.port_early += port.dropped(DropReason::Early);
        result.marks += port.marks;
    }
    // The receiver's checksum drops what a link damaged.
    drops.impaired += run.hosts.iter().map(|h| h.damaged).sum::<u64>();
    result.drops = drops;
    result.refused = refused;
    result
}
