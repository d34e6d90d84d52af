//! A lone flow that loses each n-th packet, looked at from reduction to reduction.

use crate::Bench;
use crate::flows::{FlowSample, Flows, FlowsRun, Record};
use crate::set_up::{long_lived, put};
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::{Outcome, ScenarioError};

/// Payload of a segment.
pub(super) const MSS: u32 = 1_000;
/// On the way to the receiver.
const LOSE_EACH: &str = r#"network.port."s0->h0".link.lose_each"#;

/// What is run.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lossy<'a> {
    /// Congestion control by name.
    pub(super) congestion: &'a str,
    /// Without any queue: the link is as fast as the simulator has it.
    pub(super) rtt: Duration,
    /// Each packet whose number is a multiple of this is lost.
    pub(super) each: u64,
    /// About what the mean window will be, in segments.
    pub(super) window: f64,
    /// For how many cycles it runs, from loss to loss.
    pub(super) cycles: u64,
}

/// What came out.
#[derive(Clone, Debug)]
pub(super) struct Cycles {
    /// In segments, over whole cycles of the last third of the run.
    pub(super) mean_window: f64,
    /// How many cycles those are.
    pub(super) cycles: usize,
    /// Looks at the flow, ten in a round trip.
    pub(super) samples: Vec<FlowSample>,
    /// Fast recoveries of the whole run.
    pub(super) recoveries: u64,
    /// Timeouts of the whole run.
    pub(super) timeouts: u64,
}

impl Lossy<'_> {
    /// Runs it.
    ///
    /// # Errors
    /// Those of the run.
    pub(super) fn run(&self, bench: &Bench<'_>) -> Result<Cycles, ScenarioError> {
        let run = bench.flows(&self.spec())?;
        self.cycles(&run)
    }

    fn spec(&self) -> Flows {
        // Slow start would end at the first loss only, hundreds of times above where the law
        // has the window. The receiver's window stops it well above it, and above
        // the highest peak, Reno's: 4/3.
        let room = (1.7 * self.window).max(64.0) as u64 * u64::from(MSS);
        let cycle = self.rtt.as_nanos() as f64 * self.each as f64 / self.window;
        let mut flow = long_lived(1, Rate::from_gbps(400), self.rtt);
        put(&mut flow, "network.mtu", MSS + 40);
        put(&mut flow, "host.nic.overhead", "0ns");
        put(&mut flow, LOSE_EACH, self.each);
        put(&mut flow, "host.tcp.congestion", self.congestion);
        put(&mut flow, "host.tcp.timestamps", "off");
        put(&mut flow, "host.tcp.receive_window", ByteCount::new(room));
        flow.run.duration = Duration::from_nanos((cycle * self.cycles as f64) as u64);
        Flows {
            record: Record {
                samples: Some(self.rtt / 10),
                queue: false,
            },
            ..Flows::new(flow)
        }
    }

    fn cycles(&self, run: &FlowsRun) -> Result<Cycles, ScenarioError> {
        let flow = &run.flows[0];
        if run.outcome != Outcome::Completed {
            let how = format!("a lossy flow ended as {}", run.outcome.name());
            return Err(ScenarioError::Internal(how));
        }
        let cuts = cuts(&flow.samples);
        let late = &cuts[cuts.len() * 2 / 3..];
        let (Some(&first), Some(&last)) = (late.first(), late.last()) else {
            let what = "a lossy flow was never cut".to_owned();
            return Err(ScenarioError::Internal(what));
        };
        // From cut to cut the flow sends 1/p packets: as many in a round trip are its window.
        let cycles = late.len() - 1;
        let sent = (cycles as u64 * self.each) as f64;
        let took = flow.samples[last].at.since(flow.samples[first].at);
        let round_trips = took.as_nanos() as f64 / self.rtt.as_nanos() as f64;
        Ok(Cycles {
            mean_window: sent / round_trips,
            cycles,
            samples: flow.samples.clone(),
            recoveries: flow.at_end.fast_recoveries,
            timeouts: flow.at_end.timeouts,
        })
    }
}

/// Where the window was cut: the first sample after each.
pub(super) fn cuts(samples: &[FlowSample]) -> Vec<usize> {
    let smaller = |i: &usize| samples[*i].cwnd < samples[i - 1].cwnd;
    (1..samples.len()).filter(smaller).collect()
}

/// A window in segments.
pub(super) fn segments(window: ByteCount) -> f64 {
    window.get() as f64 / f64::from(MSS)
}
