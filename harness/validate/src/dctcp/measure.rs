//! What is read off a run: the sawtooth of a queue, means over flows.

use crate::flows::{FlowSample, Flows, FlowsRun};
use narrows::Instant;

/// The sawtooth of a run after its warm-up.
#[derive(Clone, Copy, Debug)]
pub(super) struct Teeth {
    /// The longest and the shortest queue, in packets.
    pub(super) max: f64,
    pub(super) min: f64,
    /// The shortest of each tooth, the middle one.
    pub(super) middle_min: f64,
    /// Mean alpha over flows and time.
    pub(super) alpha: f64,
    /// From one cut of a flow to its next, in round trips.
    pub(super) period_rtts: f64,
    /// Share of the time that the link was busy, in percent.
    pub(super) utilisation: f64,
}

impl Teeth {
    /// Of a run that recorded samples and the queue.
    pub(super) fn of(spec: &Flows, run: &FlowsRun) -> Self {
        let queue = || run.bottleneck.queue.iter().map(|q| f64::from(q.packets));
        let cuts: u64 = run
            .flows
            .iter()
            .map(|f| f.at_end.ecn_reductions - f.at_warm_up.ecn_reductions)
            .sum();
        let rtt = mean(
            samples(spec, run)
                .filter_map(|s| s.srtt)
                .map(|t| t.as_nanos() as f64),
        );
        let period = run.measured.as_nanos() as f64 * run.flows.len() as f64 / cuts.max(1) as f64;
        Self {
            max: queue().fold(0.0, f64::max),
            min: queue().fold(f64::INFINITY, f64::min),
            middle_min: median(valleys(queue())),
            alpha: alpha(spec, run),
            period_rtts: period / rtt,
            utilisation: utilisation(run),
        }
    }
}

/// The shortest queue between each two times that it passes its middle upwards.
fn valleys(queue: impl Iterator<Item = f64> + Clone) -> Vec<f64> {
    let low = queue.clone().fold(f64::INFINITY, f64::min);
    let high = queue.clone().fold(0.0, f64::max);
    let (lower, upper) = (low + (high - low) * 0.4, low + (high - low) * 0.6);
    let (mut valleys, mut valley) = (Vec::new(), f64::INFINITY);
    for q in queue {
        if q <= lower {
            valley = valley.min(q);
        } else if q >= upper && valley.is_finite() {
            valleys.push(valley);
            valley = f64::INFINITY;
        }
    }
    valleys
}

/// The samples of all flows after the warm-up.
pub(super) fn samples<'a>(spec: &Flows, run: &'a FlowsRun) -> impl Iterator<Item = &'a FlowSample> {
    let from = Instant::ZERO + spec.warm_up();
    run.flows
        .iter()
        .flat_map(|f| &f.samples)
        .filter(move |s| s.at >= from)
}

/// Mean alpha over flows and time.
pub(super) fn alpha(spec: &Flows, run: &FlowsRun) -> f64 {
    mean(samples(spec, run).filter_map(|s| s.fraction("alpha")))
}

/// Share of the time that the bottleneck's link was busy, in percent.
pub(super) fn utilisation(run: &FlowsRun) -> f64 {
    run.bottleneck.utilisation_ppm as f64 / 1e4
}

/// Not a number if there are no values.
pub(super) fn mean(values: impl Iterator<Item = f64>) -> f64 {
    let (sum, n) = values.fold((0.0, 0u32), |(sum, n), v| (sum + v, n + 1));
    sum / f64::from(n)
}

/// The middle one, the lower of two; zero if there are none.
pub(in super::super) fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len().saturating_sub(1) / 2;
    values.get(middle).copied().unwrap_or(0.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_valley_for_each_tooth() {
        let queue = [5.0, 9.0, 3.0, 2.0, 8.0, 7.0, 8.0, 1.0, 9.0, 4.0];
        assert_eq!(valleys(queue.into_iter()), [2.0, 1.0]);
        assert!(valleys([4.0, 4.0].into_iter()).is_empty());
    }

    #[test]
    fn middle_values() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.0);
        assert_eq!(median(Vec::new()), 0.0);
        assert_eq!(mean([1.0, 2.0].into_iter()), 1.5);
    }
}
