//! What a run of flows gave.

use crate::scenario::{Outcome, Unrecorded};
use narrows::congestion::Variable;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Instant, Rate};

/// The result of one run. The same spec gives the same value, bit for bit.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowsRun {
    /// How it ended: [`Outcome::Completed`] if the asked-for time was simulated or all transfers
    /// are done.
    pub outcome: Outcome,
    /// Simulated time.
    pub simulated: Duration,
    /// ... after the warm-up.
    pub measured: Duration,
    /// By flow.
    pub flows: Vec<FlowOutcome>,
    /// The port that is studied.
    pub bottleneck: PortOutcome,
    /// Packets that all switch ports dropped, from the start.
    pub switch_drops: u64,
    /// Packets that all switch ports marked, from the start.
    pub marks: u64,
    /// Simulator events handled.
    pub events: u64,
    /// What could not be written of capture and trace. The numbers are whole all the same.
    pub unrecorded: Vec<Unrecorded>,
}

/// What one flow did.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowOutcome {
    /// Bytes that reached the receiver's application, from the start of the run.
    pub delivered: ByteCount,
    /// Bytes that reached the receiver after the warm-up, each counted when it came first: also
    /// those that wait there for others before them. Counted when the application gets them, what
    /// came before the warm-up ended could count after it, and be more than the line carries.
    pub received: ByteCount,
    /// The time after the warm-up in which the flow had something to do: from its start to the
    /// completion of its last transfer.
    pub active: Duration,
    /// What was received over that time.
    pub goodput: Rate,
    /// Its transfers, as they were completed.
    pub transfers: Vec<Transfer>,
    /// The sender's counters at the end of the warm-up.
    pub at_warm_up: SenderStats,
    /// The sender's counters at the end.
    pub at_end: SenderStats,
    /// SYNs and SYN-ACKs of both ends that went unanswered after the warm-up.
    pub handshake_timeouts: u64,
    /// Segments that the receiver discarded after the warm-up, since they lay in more pieces than
    /// it remembers (`max_out_of_order_ranges`); they were sent again.
    pub out_of_order_dropped: u64,
    /// What it looked like on the way, if that was asked for.
    pub samples: Vec<FlowSample>,
}

/// A completed transfer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// When it was asked for, or its connection opened.
    pub began: Instant,
    /// Until its last byte reached the application.
    pub took: Duration,
    /// Timeouts of the sender meanwhile, those of its handshake included where the transfer began
    /// with it.
    pub timeouts: u64,
}

/// A flow at one instant.
#[derive(Clone, Debug, PartialEq)]
pub struct FlowSample {
    /// When.
    pub at: Instant,
    /// Congestion window.
    pub cwnd: ByteCount,
    /// Slow-start threshold; [`ByteCount::MAX`] if there is none yet.
    pub ssthresh: ByteCount,
    /// `pipe` of RFC 6675.
    pub in_flight: ByteCount,
    /// Smoothed RTT, if measured.
    pub srtt: Option<Duration>,
    /// Bytes that have reached the receiver's application.
    pub delivered: ByteCount,
    /// Bytes that have reached the receiver, also those that wait for others before them.
    pub received: ByteCount,
    /// Timeouts so far, without the handshake's.
    pub timeouts: u64,
    /// What the congestion control shows of its own: `("alpha", Fraction(..))`.
    pub variables: Vec<(&'static str, Variable)>,
}

/// What a switch port did after the warm-up.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PortOutcome {
    /// Share of the time that its link was busy, in millionths; give or take a frame, since the
    /// frame on the wire at either end of the time counts whole or not at all.
    pub utilisation_ppm: u64,
    /// Time-weighted mean queue, in thousandths of a packet. As the port counts: without the
    /// packet in service if the spec says so.
    pub mean_queue_millipackets: u64,
    /// The same in bytes.
    pub mean_queue_bytes: u64,
    /// The longest queue after the warm-up, in packets.
    pub max_queue_packets: u32,
    /// Packets taken.
    pub packets: u64,
    /// Packets marked.
    pub marks: u64,
    /// Packets dropped because there was no room.
    pub full: u64,
    /// Packets dropped early.
    pub early: u64,
    /// Packets that the link lost.
    pub lost: u64,
    /// The queue after each change, if that was asked for.
    pub queue: Vec<QueueSample>,
}

/// A queue after a change, the packet in service included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueueSample {
    /// When, in picoseconds.
    pub at_picos: u64,
    /// In packets.
    pub packets: u32,
    /// In bytes.
    pub bytes: u64,
}

impl FlowsRun {
    /// All flows' goodput: what they received over the time that was measured.
    pub fn goodput(&self) -> Rate {
        let sum = self.flows.iter().map(|f| f.received).sum();
        Rate::of(sum, self.measured).unwrap_or_default()
    }

    /// Timeouts of all flows after the warm-up, handshakes included.
    pub fn timeouts(&self) -> u64 {
        self.flows.iter().map(FlowOutcome::timeouts).sum()
    }
}

impl FlowOutcome {
    /// Timeouts after the warm-up, those of the handshake included.
    pub fn timeouts(&self) -> u64 {
        self.counted(|s| s.timeouts) + self.handshake_timeouts
    }

    /// What a counter of the sender counted after the warm-up.
    pub fn counted(&self, counter: impl Fn(&SenderStats) -> u64) -> u64 {
        counter(&self.at_end).saturating_sub(counter(&self.at_warm_up))
    }
}

impl FlowSample {
    /// A variable that the congestion control shows as a pure number.
    pub fn fraction(&self, name: &str) -> Option<f64> {
        self.variables.iter().find_map(|(n, v)| match v {
            Variable::Fraction(bits) if *n == name => Some(*bits as f64 / (1u64 << 32) as f64),
            _ => None,
        })
    }
}
