//! The incast collapse: the set-up of the FAST 2008 study against ns-2, against formulas, and
//! beside a TCP of today.

mod blocks;
mod buffers;
mod fine;
mod habits;
mod modern;
mod onset;
mod sequence;
mod sweeps;
mod waits;

use super::{Bench, Check, Expected, Measured, Row, Tolerance};
use crate::set_up::{put, seeded, shipped};
use narrows::Duration;
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::{IncastRun, Outcome, ScenarioError};

/// The checks of this module.
pub(super) const CHECKS: [Check; 13] = [
    Check {
        name: "incast/fast08/loss-free",
        what: "goodput of the FAST 2008 set-up where nothing is lost",
        seconds: 8,
        run: buffers::loss_free,
    },
    Check {
        name: "incast/fast08/onset",
        what: "from how many servers on a buffer overflows",
        seconds: 10,
        run: onset::run,
    },
    Check {
        name: "incast/fast08/buffers",
        what: "goodput against servers for four buffers, as ns-2 has it",
        seconds: 45,
        run: buffers::collapsed,
    },
    Check {
        name: "incast/fast08/variants",
        what: "the collapse with one thing about TCP changed",
        seconds: 10,
        run: sweeps::variants,
    },
    Check {
        name: "incast/fast08/sru",
        what: "the collapse against the size of a server's share",
        seconds: 15,
        run: sweeps::sru,
    },
    Check {
        name: "incast/fast08/rtomin",
        what: "the collapse against the minimum timeout",
        seconds: 40,
        run: sweeps::rto_min,
    },
    Check {
        name: "incast/fast08/fixed-block",
        what: "blocks of 1 MB: goodput, and times in steps of the minimum timeout",
        seconds: 25,
        run: blocks::run,
    },
    Check {
        name: "incast/fast08/time-sequence",
        what: "one server through a block that collapses",
        seconds: 1,
        run: sequence::run,
    },
    Check {
        name: "incast/fast08/habits",
        what: "the preset with each habit of ns-2 taken from it",
        seconds: 30,
        run: habits::habits,
    },
    Check {
        name: "incast/fast08/knobs",
        what: "ns-2, with a script that is here, and ours with the same thing changed",
        seconds: 20,
        run: habits::knobs,
    },
    Check {
        name: "incast/fine",
        what: "how many servers a fine timeout bears, and what delayed ACKs do to it",
        seconds: 5,
        run: fine::run,
    },
    Check {
        name: "incast/modern/curves",
        what: "the same curves with a TCP of today",
        seconds: 45,
        run: modern::curves,
    },
    Check {
        name: "incast/modern/ceiling",
        what: "goodput of one server against what framing leaves of the link",
        seconds: 2,
        run: modern::ceiling,
    },
];

/// The seeds of a cell that depends on them.
const SEEDS: std::ops::RangeInclusive<u64> = 1..=3;

/// Where goodput is made of timeouts.
const COLLAPSED: Tolerance = Tolerance::Factor(2.0);
/// Where nothing is lost.
const LOSS_FREE: Tolerance = Tolerance::Relative(0.01);

/// Theirs: `servers` servers and a buffer of `buffer` packets for `secs` simulated seconds.
fn fast08(servers: u32, buffer: u32, secs: u64) -> Experiment {
    let mut spec = shipped("fast08");
    put(&mut spec, "servers", servers);
    put(&mut spec, "buffer", format!("{buffer}p"));
    spec.run.duration = Duration::from_secs(secs);
    spec
}

/// The goodput of that cell of the set-up as it is, which several tables have.
fn stock(servers: u32, buffer: u32) -> String {
    format!("fast08, B = {buffer}, N = {servers}: goodput")
}

/// RFC 6298 with that floor, initially as in ns-2.
fn floor(rto: Duration) -> String {
    format!("floor:{rto},initial=3s")
}

/// The runs of `spec` with each of `seeds`.
fn runs(
    bench: &Bench<'_>,
    spec: &Experiment,
    seeds: impl IntoIterator<Item = u64>,
) -> Result<Vec<IncastRun>, ScenarioError> {
    let run = |seed| {
        bench.checkpoint()?;
        let run = bench.incast(&seeded(spec, seed))?;
        match run.outcome {
            Outcome::Completed | Outcome::TimeLimit => Ok(run),
            other => Err(ScenarioError::Internal(format!(
                "an incast ended as {}",
                other.name()
            ))),
        }
    };
    seeds.into_iter().map(run).collect()
}

/// A TCP of today in a rack of today, as `narrows incast` has it, for so long.
fn rack(servers: u32, time: Duration) -> Experiment {
    let mut spec = shipped("incast");
    put(&mut spec, "servers", servers);
    put(&mut spec, "blocks", "off");
    spec.run.duration = time;
    spec
}

/// Goodput in Mb/s.
fn goodput(runs: &[IncastRun]) -> Vec<f64> {
    runs.iter()
        .map(|r| r.goodput.bits_per_sec() as f64 / 1e6)
        .collect()
}

/// Timeouts a block; the last block, which the end of the run cuts, counts.
fn timeouts(runs: &[IncastRun]) -> Vec<f64> {
    let of = |r: &IncastRun| r.timeouts.established() as f64 / (r.block_times.len() + 1) as f64;
    runs.iter().map(of).collect()
}

/// Mean, least and greatest, for a chart.
fn band(values: &[f64]) -> (f64, (f64, f64)) {
    match Measured::spread(values) {
        Measured::Spread { mean, min, max, .. } => (mean, (min, max)),
        _ => (f64::NAN, (f64::NAN, f64::NAN)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use std::sync::atomic::AtomicBool;

    fn rows(check: fn(&mut Bench<'_>) -> Result<(), ScenarioError>) -> Vec<Row> {
        let cancel = AtomicBool::new(false);
        let mut bench = Bench::new(&cancel, &|_| {});
        check(&mut bench).unwrap();
        bench.into_findings().0
    }

    #[test]
    fn goodput_without_loss_is_that_of_ns2() {
        let rows = rows(|bench| buffers::loss_free_for(bench, 64, 4, 100));
        assert_eq!(rows.len(), 4);
        for row in rows {
            assert_eq!(row.verdict(), Verdict::Agrees, "{row:?}");
        }
    }

    #[test]
    fn loss_sets_in_where_the_formula_says() {
        let rows = rows(|bench| onset::of(bench, 64));
        assert_eq!(rows[0].verdict(), Verdict::Agrees, "{:?}", rows[0]);
    }
}
