//! What a run of flows gave.

use narrows::congestion::Variable;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_experiment::scenario::Outcome;

/// The result of one run. The same spec gives the same value, bit for bit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlowsRun {
    /// How it ended: [`Outcome::Completed`] if the asked-for time was simulated or all transfers
    /// are done.
    pub(crate) outcome: Outcome,
    /// ... after the warm-up.
    pub(crate) measured: Duration,
    /// By flow.
    pub(crate) flows: Vec<FlowOutcome>,
    /// The port that is studied.
    pub(crate) bottleneck: PortOutcome,
    /// Packets that all switch ports dropped, from the start.
    pub(crate) switch_drops: u64,
}

/// What one flow did.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlowOutcome {
    /// Bytes that reached the receiver's application, from the start of the run.
    pub(crate) delivered: ByteCount,
    /// Bytes that reached the receiver after the warm-up, each counted when it came first: also
    /// those that wait there for others before them. Counted when the application gets them, what
    /// came before the warm-up ended could count after it, and be more than the line carries.
    pub(crate) received: ByteCount,
    /// What was received after the warm-up, over all of that time.
    pub(crate) goodput: Rate,
    /// Its transfers, as they were completed.
    pub(crate) transfers: Vec<Transfer>,
    /// The sender's counters at the end of the warm-up.
    pub(crate) at_warm_up: SenderStats,
    /// The sender's counters at the end.
    pub(crate) at_end: SenderStats,
    /// SYNs and SYN-ACKs of both ends that went unanswered after the warm-up.
    pub(crate) handshake_timeouts: u64,
    /// What it looked like on the way, if that was asked for.
    pub(crate) samples: Vec<FlowSample>,
}

/// A completed transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Transfer {
    /// When it was asked for, or its connection opened.
    pub(crate) began: Instant,
    /// Until its last byte reached the application.
    pub(crate) took: Duration,
    /// Timeouts of the sender meanwhile, those of its handshake included where the transfer began
    /// with it.
    pub(crate) timeouts: u64,
}

/// A flow at one instant.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct FlowSample {
    /// When.
    pub(crate) at: Instant,
    /// Congestion window.
    pub(crate) cwnd: ByteCount,
    /// Slow-start threshold; [`ByteCount::MAX`] if there is none yet.
    pub(crate) ssthresh: ByteCount,
    /// `pipe` of RFC 6675.
    pub(crate) in_flight: ByteCount,
    /// Smoothed RTT, if measured.
    pub(crate) srtt: Option<Duration>,
    /// Bytes that have reached the receiver's application.
    pub(crate) delivered: ByteCount,
    /// Bytes that have reached the receiver, also those that wait for others before them.
    pub(crate) received: ByteCount,
    /// What the congestion control shows of its own: `("alpha", Fraction(..))`.
    pub(crate) variables: Vec<(&'static str, Variable)>,
}

/// What a switch port did after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct PortOutcome {
    /// Share of the time that its link was busy, in millionths; give or take a frame, since the
    /// frame on the wire at either end of the time counts whole or not at all.
    pub(crate) utilisation_ppm: u64,
    /// Time-weighted mean queue, in thousandths of a packet. As the port counts: without the
    /// packet in service if the spec says so.
    pub(crate) mean_queue_millipackets: u64,
    /// The queue after each change, if that was asked for.
    pub(crate) queue: Vec<QueueSample>,
}

/// A queue after a change, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct QueueSample {
    /// When, in picoseconds.
    pub(crate) at_picos: u64,
    /// In packets.
    pub(crate) packets: u32,
}

impl FlowsRun {
    /// All flows' goodput: what they received over the time that was measured.
    pub(crate) fn goodput(&self) -> Rate {
        let sum = self.flows.iter().map(|f| f.received).sum();
        Rate::of(sum, self.measured).unwrap_or_default()
    }
}

impl FlowSample {
    /// A variable that the congestion control shows as a pure number.
    pub(crate) fn fraction(&self, name: &str) -> Option<f64> {
        self.variables.iter().find_map(|(n, v)| match v {
            Variable::Fraction(bits) if *n == name => Some(*bits as f64 / (1u64 << 32) as f64),
            _ => None,
        })
    }
}
