//! `host.nic`: the interface between a host and its link.

use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::net::nic::NicSpec;
use crate::scenario::network::capacity;
use crate::scenario::spec::QueueLimit;
use crate::sim::time::SimTime;
use narrows::Duration;

/// A host's NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nic {
    /// Its transmit queue; a full one refuses packets, and their TCP sends them later.
    pub tx_queue: QueueLimit,
    /// A packet enters an idle link up to this late, at random.
    pub overhead: Duration,
}

impl Default for Nic {
    fn default() -> Self {
        Self {
            tx_queue: QueueLimit::Packets(1_000),
            overhead: Duration::from_micros(5),
        }
    }
}

impl Knobs for Nic {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { tx_queue: "tx_queue", "transmit queue", Kind::Queue { least: 1 },
        "Queue between a host and its link; a full one refuses packets, which their TCP sends later (ENOBUFS)." },
        knob! { overhead: "overhead", "send overhead", Kind::Time { least: 0, most: 10_000_000_000 },
        "A packet enters an idle link up to this late, at random: hosts are never as punctual as a simulator, and equal ones would march in step." },
    ];
}

impl Nic {
    /// As the network takes it.
    pub fn spec(&self) -> NicSpec {
        NicSpec {
            overhead: SimTime::from_duration(self.overhead),
            ..NicSpec::new(capacity(self.tx_queue))
        }
    }
}
