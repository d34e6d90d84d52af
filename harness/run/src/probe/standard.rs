//! The kinds of probes that narrows brings along.

use super::counters::CountersProbe;
use super::flow::FlowProbe;
use super::kind::{ProbeKind, ProbeKinds};
use super::pause::PauseProbe;
use super::queue::QueueProbe;
use super::rate::RateProbe;
use super::rtt::RttProbe;
use super::tier::TierProbe;
use super::time_sequence::TimeSequenceProbe;
use super::window::WindowProbe;

impl Default for ProbeKinds {
    #[inline]
    fn default() -> Self {
        Self::standard()
    }
}

impl ProbeKinds {
    /// What narrows brings along.
    // What each kind says of its knobs is needed here first, and that runs once: compiled where it is called, by a
    // crate that is not optimised.
    #[inline]
    pub fn standard() -> Self {
        Self(vec![
            ProbeKind::new::<QueueProbe>(
                "queue",
                "the queue of ports: time-weighted mean, high water, and its course",
            ),
            ProbeKind::new::<RateProbe>(
                "rate",
                "the rate of a counter of ports, polled at several periods as switch pollers do",
            ),
            ProbeKind::new::<TierProbe>(
                "tier",
                "offered, dropped and marked bits and utilisation of all ports between two tiers",
            ),
            ProbeKind::new::<PauseProbe>(
                "pause",
                "for how long pause frames hold ports, and how many there are",
            ),
            ProbeKind::new::<CountersProbe>(
                "counters",
                "packets of hosts as their own counters and tcpdump have them: out, again, in",
            ),
            ProbeKind::new::<FlowProbe>(
                "flow",
                "window, threshold, flight, RTT, RTO and the variables of senders over time",
            ),
            ProbeKind::new::<WindowProbe>(
                "window",
                "what lowers congestion windows, and by how much they grow in a round trip",
            ),
            ProbeKind::new::<RttProbe>(
                "rtt",
                "round-trip times of a host's segments: quantiles, and their course",
            ),
            ProbeKind::new::<TimeSequenceProbe>(
                "time-sequence",
                "each segment and acknowledgement of a flow: sent, sent again, acknowledged, window",
            ),
        ])
    }
}
