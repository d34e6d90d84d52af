//! Runs gathered into points: one for each variant and number of servers.

use narrows::{Duration, Rate};
use narrows_experiment::scenario::{IncastRun, Outcome, SweepSpec, Variant};
use narrows_experiment::stats::{Estimate, quantile};

/// A sweep as far as it was run.
#[derive(Clone, Debug)]
pub struct Summary {
    /// One for each line of the plot, in the order of the sweep.
    pub variants: Vec<VariantSummary>,
    /// Runs that gave a result.
    pub finished: usize,
    /// Runs that were planned.
    pub planned: usize,
    /// Runs of each point.
    pub repetitions: u32,
}

/// One line of the plot.
#[derive(Clone, Debug)]
pub struct VariantSummary {
    /// Which values of the axes, and the label.
    pub variant: Variant,
    /// The rate of its links, which shares refer to.
    pub link_rate: Rate,
    /// Its points with at least one finished run, by ascending number of servers.
    pub points: Vec<Point>,
}

/// All repetitions of one variant at one number of servers. Counts are means over the
/// repetitions.
#[derive(Clone, Debug)]
pub struct Point {
    /// Number of servers.
    pub servers: u32,
    /// Goodput in bits per second.
    pub goodput: Estimate,
    /// The mean goodput as a share of the link rate, 0 to 1.
    pub share: f64,
    /// The share that the goodput would be without the slowest tenth of the blocks: what is
    /// usual, where [`share`](Self::share) lets one timeout in twenty blocks decide.
    pub usual_share: f64,
    /// Timeouts.
    pub timeouts: f64,
    /// Timeouts for each completed block, without those of handshakes, which come before the
    /// first; `None` if no block was completed.
    pub timeouts_per_block: Option<f64>,
    /// Dropped packets.
    pub drops: f64,
    /// CE marks.
    pub marks: f64,
    /// Share of the data packets that were retransmissions, 0 to 1.
    pub retransmitted: f64,
    /// Longest queue in packets, over all repetitions.
    pub max_queue: u64,
    /// Median time of a block, over the blocks of all repetitions.
    pub block_median: Option<Duration>,
    /// 99th percentile of the time of a block, over the blocks of all repetitions.
    pub block_p99: Option<Duration>,
    /// Runs that did not end as planned.
    pub incomplete: usize,
}

impl Point {
    fn of(servers: u32, link_rate: Rate, runs: &[&IncastRun]) -> Option<Self> {
        let goodputs: Vec<f64> = runs
            .iter()
            .map(|r| r.goodput.bits_per_sec() as f64)
            .collect();
        let goodput = Estimate::of(&goodputs)?;
        let n = runs.len() as f64;
        let sum = |of: fn(&IncastRun) -> u64| runs.iter().map(|r| of(r) as f64).sum::<f64>();
        let mut times: Vec<Duration> = runs
            .iter()
            .flat_map(|r| r.block_times.iter().copied())
            .collect();
        times.sort_unstable();
        let timeouts = sum(|r| r.timeouts.total());
        // No block waits for a handshake.
        let waited = sum(|r| r.timeouts.established());
        let data = sum(|r| r.data_packets);
        let again = sum(|r| r.retransmitted_packets);
        Some(Self {
            servers,
            goodput,
            share: goodput.mean / link_rate.bits_per_sec().max(1) as f64,
            usual_share: over_block_time(runs).unwrap_or(goodput.mean)
                / link_rate.bits_per_sec().max(1) as f64
                * slowest_tenth(&times),
            timeouts: timeouts / n,
            timeouts_per_block: (!times.is_empty()).then(|| waited / times.len() as f64),
            drops: sum(|r| r.drops.total()) / n,
            marks: sum(|r| r.marks) / n,
            retransmitted: if data > 0.0 { again / data } else { 0.0 },
            max_queue: runs.iter().map(|r| r.max_queue.packets).max().unwrap_or(0),
            block_median: quantile(&times, 50),
            block_p99: quantile(&times, 99),
            incomplete: runs
                .iter()
                .filter(|r| r.outcome != Outcome::Completed)
                .count(),
        })
    }

    /// Nothing was lost and no timer fired.
    pub fn loss_free(&self) -> bool {
        self.drops == 0.0 && self.timeouts == 0.0
    }
}

/// Goodput of all runs together, in bits per second: what they delivered over the time they took.
/// The mean of their goodputs is more, since a fast run counts in it as much as a slow one.
fn over_block_time(runs: &[&IncastRun]) -> Option<f64> {
    let (mut sum, mut nanos) = (0.0, 0.0);
    for run in runs {
        let time: Duration = run.block_times.iter().copied().sum();
        sum += run.goodput.bits_per_sec() as f64 * time.as_nanos() as f64;
        nanos += time.as_nanos() as f64;
    }
    (nanos > 0.0).then(|| sum / nanos)
}

/// How many times shorter the mean of the ascending `times` is without the last tenth of them.
fn slowest_tenth(times: &[Duration]) -> f64 {
    let mean = |times: &[Duration]| {
        let sum: Duration = times.iter().copied().sum();
        sum.as_nanos() as f64 / times.len().max(1) as f64
    };
    let usual = mean(&times[..times.len() - times.len() / 10]);
    if usual > 0.0 {
        mean(times) / usual
    } else {
        1.0
    }
}

impl Summary {
    /// Gather `results`, which stand in the order of [`SweepSpec::expand`]; `None` where a run
    /// did not finish.
    pub fn of(sweep: &SweepSpec, results: &[Option<IncastRun>]) -> Self {
        let repetitions = sweep.repetitions.max(1) as usize;
        let mut points = results.chunks(repetitions);
        let variants = sweep
            .variants()
            .into_iter()
            .map(|variant| {
                let link_rate = sweep.variant_spec(&variant).net.link_rate;
                let points = sweep
                    .servers
                    .iter()
                    .zip(points.by_ref())
                    .filter_map(|(&servers, runs)| {
                        let runs: Vec<&IncastRun> = runs.iter().flatten().collect();
                        Point::of(servers, link_rate, &runs)
                    })
                    .collect();
                VariantSummary {
                    variant,
                    link_rate,
                    points,
                }
            })
            .collect();
        Self {
            variants,
            finished: results.iter().flatten().count(),
            planned: results.len(),
            repetitions: sweep.repetitions,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_experiment::scenario::IncastSpec;

    /// A run with a timeout takes eleven times as long as one without.
    #[test]
    fn the_usual_goodput_of_unequal_runs_stays_within_the_link() {
        let run = |mbps, slowest| {
            let mut block_times = vec![Duration::from_millis(5); 10];
            block_times[9] = Duration::from_millis(slowest);
            Some(IncastRun {
                goodput: Rate::from_mbps(mbps),
                block_times,
                ..IncastRun::default()
            })
        };
        let sweep = SweepSpec {
            base: IncastSpec::default(),
            servers: vec![2],
            axes: Vec::new(),
            repetitions: 2,
        };
        let summary = Summary::of(&sweep, &[run(900, 5), run(90, 455)]);
        let point = &summary.variants[0].points[0];
        assert!((point.share - 0.495).abs() < 1e-9);
        assert!(
            (point.usual_share - 0.9).abs() < 1e-9,
            "{}",
            point.usual_share
        );
    }
}
