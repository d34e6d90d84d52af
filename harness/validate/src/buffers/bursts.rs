//! Bursts of a port as Zhang et al. counted them in racks of a data center ("High-resolution
//! measurement of data center microbursts", IMC 2017): the shape of what fan-out gives.

use super::super::{Bench, Expected, Measured, Row, Tolerance};
use super::{parsed, run};
use narrows_experiment::polling::{Bursts, Readings};
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::ScenarioError;

const SOURCE: &str = "Zhang et al., IMC 2017: bursts of ports at 25 us, hot above half of the line";
/// Bits a second above which a reading is hot: half of 10 Gb/s.
const HOT: f64 = 5e9;
/// The paper's period, in ns.
const PERIOD: u64 = 25_000;

/// Queries to two servers of a rack with links of 10 Gb/s, at utilisations that links to servers have there
/// on the average. Two things are as in such racks, by which bursts follow each other closely: a host has so
/// many connections that each is idle for longer than an RTO between two queries, and begins with the initial
/// window (RFC 5681 section 4.1); and a round trip is 100 us (Alizadeh et al., SIGCOMM 2010). Then a reply
/// of 30 kB takes two windows, a round trip apart. Sizes and fan-out are ours, so only the shape is held
/// against the paper: most bursts last a period, nearly all tens of microseconds, and many follow each
/// other closely, with long silences between. How many follow closely is sensitive to a reply's size and to
/// the round trip, since queries that come independently make no clusters of their own: the row holds for
/// replies of two windows, and says nothing of others.
pub(in super::super) fn bursts(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (load, percent) in [("500Mb/s", 5), ("1Gb/s", 10)] {
        let file = format!(
            "title = \"Bursts of a rack\"\n\
             [network]\ntopology = \"star\"\nhosts = 16\n\
             link = {{ rate = \"10Gb/s\", delay = \"25us\" }}\nqueue = {{ limit = \"1MB\" }}\n\
             [host.tcp]\ncongestion = \"cubic\"\ndelayed_ack = \"2/40ms\"\n\
             [[traffic]]\nname = \"get\"\nkind = \"fan-out\"\nload = \"{load}\"\nk = 2\n\
             size = \"30kB\"\nconnections = 100\n\
             [[probe]]\nname = \"port\"\nkind = \"rate\"\non = \"s0->host\"\nevery = [\"25us\"]\n\
             [run]\nduration = \"200ms\"\nwarm_up = \"20ms\"\n",
        );
        let ports = count(&run(bench, &parsed("bursts", &file)?)?);
        let lengths: Vec<u64> = ports.iter().flat_map(|p| p.lengths.clone()).collect();
        let gaps: Vec<u64> = ports.iter().flat_map(|p| p.gaps.clone()).collect();
        if lengths.is_empty() || gaps.is_empty() {
            return Err(ScenarioError::Internal("no burst was seen".to_owned()));
        }
        let mut row = |what: &str, expected, measured, unit, tolerance| {
            bench.row(Row::new(
                format!("at {percent} %, {what}"),
                SOURCE,
                expected,
                Measured::Value(measured),
                unit,
                tolerance,
            ));
        };
        let one = share(&lengths, |length| length <= PERIOD);
        let exact = Tolerance::Exact;
        row(
            "bursts of one period",
            Expected::AtLeast(60.0),
            one,
            "%",
            exact,
        );
        let tens = share(&lengths, |length| length < 100_000);
        row(
            "bursts of tens of us",
            Expected::AtLeast(70.0),
            tens,
            "%",
            exact,
        );
        let p90 = quantile(&lengths, 9, 10) as f64 / 1e3;
        row(
            "the longest of nine bursts in ten",
            Expected::AtMost(200.0),
            p90,
            "us",
            exact,
        );
        let close = share(&gaps, |gap| gap < 100_000);
        row(
            "gaps below 100 us",
            Expected::Value(40.0),
            close,
            "%",
            Tolerance::Relative(0.3),
        );
        let spread = quantile(&gaps, 99, 100) as f64 / quantile(&gaps, 1, 2) as f64;
        row(
            "the 99th percentile of gaps over the median (of exponential ones 6.6)",
            Expected::AtLeast(10.0),
            spread,
            "",
            exact,
        );
    }
    Ok(())
}

/// The bursts of each port that was polled.
fn count(ran: &RunOutcome) -> Vec<Bursts> {
    let series = ran.readings.iter().filter_map(|(_, r)| r.series.as_ref());
    series
        .map(|s| {
            let rates = s.rows.iter().filter_map(|r| r.get(1).copied().flatten());
            let readings = Readings {
                every: PERIOD,
                rates: rates.collect(),
            };
            readings.bursts(HOT)
        })
        .collect()
}

/// In percent.
fn share(all: &[u64], is: impl Fn(u64) -> bool) -> f64 {
    all.iter().filter(|x| is(**x)).count() as f64 / all.len() as f64 * 100.0
}

fn quantile(all: &[u64], of: usize, parts: usize) -> u64 {
    let mut sorted = all.to_vec();
    sorted.sort_unstable();
    let at = (sorted.len() * of).div_ceil(parts).saturating_sub(1);
    sorted.get(at).copied().unwrap_or_default()
}
