//! The parts of a run.

use crate::changes::Changes;
use crate::context::RunContext;
use crate::ended::{Recording, Unrecorded};
use crate::error::RunError;
use crate::host::SimPacket;
use crate::host::capture::{Capture, Link};
use crate::knob::Choice;
use crate::net::graph::{Graph, NodeId};
use crate::net::network::Network;
use crate::outcome::RunOutcome;
use crate::probe::Instrument;
use crate::sim::tap::Tap;
use crate::simulate::{AnyTap, simulate_heard};
use crate::traffic::{Family, HostApp, Log};
use narrows::Duration;
use narrows::config::TcpConfig;
use std::io;
use std::sync::Arc;

/// The parts of a run, whole and possible.
#[derive(Debug)]
pub struct Parts {
    /// Its network by names.
    pub graph: Graph,
    /// ... and at work.
    pub network: Network<SimPacket>,
    /// Which addresses hosts have.
    pub family: Family,
    /// By number: its application, the TCP of connections that no traffic asks for, and how long
    /// it remembers what they learn.
    pub hosts: Vec<(HostApp, Arc<TcpConfig>, Option<Duration>)>,
    /// With the names of their probes.
    pub instruments: Vec<(String, Box<dyn Instrument>)>,
    /// What becomes another on the way.
    pub changes: Changes,
    /// What applications tell.
    pub log: Log,
    /// The names of the traffics, by number.
    pub traffic: Vec<String>,
    /// How long it takes.
    pub time: Time,
    /// Seed of everything random.
    pub seed: u64,
    /// Serialise and parse every packet on its way.
    pub wire: bool,
    /// Version and commit of what runs it, for what is recorded.
    pub version: (&'static str, Option<&'static str>),
}

/// How long a run takes, and what of that counts.
#[derive(Clone, Copy, Debug)]
pub struct Time {
    /// Simulated time at most.
    pub duration: Duration,
    /// What comes before is not measured.
    pub warm_up: Duration,
    /// From when both count.
    pub clock: Clock,
}

/// From when the time of a run counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// From the start of the run.
    #[default]
    Start,
    /// From when an application sends for the first time, so that the handshakes before take none
    /// of it.
    FirstSend,
}

impl Choice for Clock {
    const ALL: &'static [(Self, &'static str)] =
        &[(Self::Start, "start"), (Self::FirstSend, "first-send")];
}

impl Parts {
    /// Runs, and captures if `ctx` says so.
    ///
    /// # Errors
    /// If it was cancelled, or broke a rule of the simulator's own.
    pub fn run(self, mut ctx: RunContext<'_>) -> Result<RunOutcome, RunError> {
        let capture = ctx.capture.take();
        let capture = capture.map(|out| {
            let host = ctx.capture_at;
            let address = self.family.address_of(host);
            let link = Link::of(&self.graph, host, address).ok_or_else(|| {
                let name = self.graph.node_name(NodeId::Host(host));
                io::Error::other(format!("{name} has no link to capture on"))
            });
            Capture::new(out, link?, ctx.capture_side, ctx.snap_length)
        });
        // A capture that cannot begin is none, and the run goes on.
        let (mut capture, failed) = match capture.transpose() {
            Ok(capture) => (capture, Ok(())),
            Err(e) => (None, Err(e)),
        };
        let tap = capture.as_mut().map(|capture| capture as &mut dyn AnyTap);
        let mut outcome = simulate_heard(self, ctx, tap)?;
        let written = failed.and_then(|()| capture.map_or(Ok(()), Capture::finish));
        let failed = written.err();
        let failed = failed.map(|e| Unrecorded::new(Recording::Capture, &e));
        outcome.unrecorded.extend(failed);
        Ok(outcome)
    }

    /// Runs, heard by a tap; what `ctx` says of a capture is not done.
    ///
    /// # Errors
    /// As [`Self::run`].
    pub fn watch<T: Tap<SimPacket>>(
        self,
        ctx: RunContext<'_>,
        tap: &mut T,
    ) -> Result<RunOutcome, RunError> {
        simulate_heard(self, ctx, Some(tap))
    }
}
