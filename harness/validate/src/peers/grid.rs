//! The cells of the incast that several simulators have run, in ours.

use super::habits;
use crate::set_up::{put, seeded, shipped};
use crate::{Bench, Tolerance};
use narrows::Duration;
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::spec::{DelayedAck, EcnUse, PrrUse, SackUse};
use narrows_experiment::scenario::{Outcome, ScenarioError};

const SEEDS: u64 = 3;
/// The queue before the client.
const PORT: &str = r#"network.port."s0->h0".queue"#;
/// What the blocks' time may be off by where timeouts do not make it.
const CLOSE: Tolerance = Tolerance::Relative(0.1);
/// Where timeouts make it, and of timeouts.
const COLLAPSED: Tolerance = Tolerance::Factor(2.0);

/// Which of our TCPs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Variant {
    /// NewReno with SACK, as ns-3 is set.
    Sack,
    /// The same with timestamps, with which any new ACK ends a backoff, as it does in the others
    /// without.
    Timestamps,
    /// The same with a timer that a fast retransmission leaves alone, as ns-3's does.
    Ns3,
    /// As htsim's abstract TCP: no SACK, limited transmit, PRR or undo, a backoff that any new ACK
    /// ends, a timer that every partial ACK restarts, and hosts without jitter.
    Htsim,
    /// The same with timers that are looked at each millisecond.
    HtsimTicks,
    /// As [`Variant::Sack`] with a receiver that acknowledges two segments, or one after 200 ms.
    DelayedAcks,
    /// The same with ns-3's end of a timeout.
    DelayedAcksNs3,
}

impl Variant {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Sack => "",
            Self::Timestamps => ", timestamps",
            Self::Ns3 => ", timestamps, ns-3's timer",
            Self::Htsim => ", with htsim's rules",
            Self::HtsimTicks => ", with htsim's rules and a tick of 1 ms",
            Self::DelayedAcks => ", delayed ACKs",
            Self::DelayedAcksNs3 => ", delayed ACKs, ns-3's end of a timeout",
        }
    }
}

/// A cell of the grid.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cell {
    pub(super) rate_gbps: u32,
    pub(super) servers: u32,
    pub(super) rto_min_ms: u32,
    pub(super) variant: Variant,
}

/// Goodput in Mb/s and timeouts, for each seed.
#[derive(Clone, Debug, Default)]
pub(super) struct Found {
    pub(super) goodput: Vec<f64>,
    pub(super) timeouts: Vec<f64>,
}

impl Cell {
    /// No framing, as ns-3's point-to-point links have it but for two bytes. The random overhead
    /// of our NICs stays: without it equal hosts keep their phase, and one of two flows loses
    /// all of its packets to the other.
    pub(super) fn spec(self) -> Experiment {
        let mut spec = shipped("incast");
        put(&mut spec, "servers", self.servers);
        put(&mut spec, "rate", format!("{}Gb/s", self.rate_gbps));
        put(&mut spec, "framing", "none");
        for (key, value) in [("discipline", "drop-tail"), ("threshold", "off")] {
            put(&mut spec, &format!("{PORT}.{key}"), value);
        }
        put(&mut spec, "group.servers.nic.tx_queue", "100000p");
        put(&mut spec, "group.client.nic.tx_queue", "100000p");
        spec.host.tcp.congestion = "reno".to_owned();
        spec.host.tcp.loss_detector = "sack".to_owned();
        spec.host.tcp.rto = format!("floor:{}ms", self.rto_min_ms);
        spec.host.tcp.timestamps = matches!(
            self.variant,
            Variant::Timestamps | Variant::Ns3 | Variant::Htsim | Variant::HtsimTicks
        );
        if spec.host.tcp.timestamps {
            // The same payload in each packet.
            spec.network.common.mtu += 12;
            spec.host.tcp.mss = Some(1_472);
        }
        spec.host.tcp.ecn = EcnUse::Off;
        spec.host.tcp.delayed_ack = DelayedAck::Off;
        match self.variant {
            Variant::Sack | Variant::Timestamps => {}
            Variant::Ns3 => spec.host.tcp.loss_detector = habits::RUNS_ON.to_owned(),
            Variant::Htsim | Variant::HtsimTicks => {
                spec.host.tcp.sack = SackUse::Off;
                spec.host.tcp.loss_detector = habits::STEADY.to_owned();
                spec.host.tcp.limited_transmit = false;
                spec.host.tcp.prr = PrrUse::Off;
                spec.host.tcp.undo_spurious = false;
                put(&mut spec, "queue-counting", "with-in-service");
                put(&mut spec, "nic-overhead", "0ns");
                put(&mut spec, "jitter", "0ns");
            }
            Variant::DelayedAcks | Variant::DelayedAcksNs3 => {
                spec.host.tcp.delayed_ack = DelayedAck::On {
                    segments: 2,
                    timeout: Duration::from_millis(200),
                };
            }
        }
        match self.variant {
            Variant::HtsimTicks => spec.host.tcp.timer_tick = Duration::from_millis(1),
            Variant::DelayedAcksNs3 => spec.host.tcp.congestion = habits::UNCOUNTED_END.to_owned(),
            _ => {}
        }
        spec
    }

    /// Ours.
    ///
    /// # Errors
    /// Those of the runner, and an incast that did not end.
    pub(super) fn ours(self, bench: &Bench<'_>) -> Result<Found, ScenarioError> {
        let mut found = Found::default();
        for seed in 1..=SEEDS {
            bench.checkpoint()?;
            let run = habits::incast(bench, &seeded(&self.spec(), seed))?;
            if !matches!(run.outcome, Outcome::Completed | Outcome::TimeLimit) {
                let how = format!("an incast ended as {}", run.outcome.name());
                return Err(ScenarioError::Internal(how));
            }
            found.goodput.push(run.goodput.bits_per_sec() as f64 / 1e6);
            found.timeouts.push(run.timeouts.established() as f64);
        }
        Ok(found)
    }

    /// For goodput and for timeouts. Up to three times the N from which an initial window of
    /// each fills the port, which is 5, the outcome hangs on single packets: shown only.
    pub(super) fn tolerances(self) -> (Tolerance, Tolerance) {
        let delayed = matches!(self.variant, Variant::DelayedAcks | Variant::DelayedAcksNs3);
        match (self.rto_min_ms, self.servers) {
            // There a timeout makes each segment of ns-3's.
            _ if delayed => (COLLAPSED, COLLAPSED),
            (200, ..16) => (Tolerance::Shown, Tolerance::Shown),
            (200, _) => (COLLAPSED, COLLAPSED),
            _ => (CLOSE, COLLAPSED),
        }
    }

    /// In words, without the variant.
    pub(super) fn place(self) -> String {
        let (n, floor) = (self.servers, self.rto_min_ms);
        let rate = match self.rate_gbps {
            1 => String::new(),
            other => format!("{other} Gb/s, "),
        };
        format!("incast, {rate}N = {n}, RTOmin {floor} ms")
    }

    /// In words.
    pub(super) fn name(self) -> String {
        format!("{}{}", self.place(), self.variant.name())
    }
}

/// Mean, least and greatest.
pub(super) fn range(values: &[f64]) -> (f64, f64, f64) {
    let mean = values.iter().sum::<f64>() / values.len().max(1) as f64;
    let least = values.iter().copied().fold(f64::INFINITY, f64::min);
    let most = values.iter().copied().fold(0.0, f64::max);
    (mean, least, most)
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_experiment::registry::Registry;

    #[test]
    fn every_variant_can_be_run() {
        for variant in [
            Variant::Sack,
            Variant::Timestamps,
            Variant::Htsim,
            Variant::HtsimTicks,
            Variant::DelayedAcks,
            Variant::DelayedAcksNs3,
        ] {
            for rate_gbps in [1, 10] {
                let cell = Cell {
                    rate_gbps,
                    servers: 8,
                    rto_min_ms: 1,
                    variant,
                };
                let mut spec = cell.spec();
                // Its own are known to the runner alone.
                spec.host.tcp.congestion = "reno".to_owned();
                spec.host.tcp.loss_detector = "newreno".to_owned();
                spec.check(&Registry::default()).unwrap();
                assert_eq!(cell.name().contains("10 Gb/s"), rate_gbps == 10);
            }
        }
    }

    #[test]
    fn the_range_of_values() {
        assert_eq!(range(&[3.0, 1.0, 2.0]), (2.0, 1.0, 3.0));
    }
}
