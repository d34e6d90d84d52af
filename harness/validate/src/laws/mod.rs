//! Laws of congestion control: how large a window becomes under a given loss, along which curve
//! it grows, and how flows share a link.

mod curve;
mod cycles;
mod ns3;
mod pair;
mod response;
mod sharing;

use super::{Bench, Check};
use narrows_experiment::scenario::ScenarioError;
use response::{Law, Rates};

/// The checks of this module.
pub(super) const CHECKS: [Check; 6] = [
    Check {
        name: "laws/response",
        what: "mean window of Reno and CUBIC against the rate of loss",
        seconds: 30,
        run: response,
    },
    Check {
        name: "laws/microsecond",
        what: "CUBIC is Reno at an RTT of 100 µs",
        seconds: 5,
        run: microsecond,
    },
    Check {
        name: "laws/cubic-curve",
        what: "CUBIC's window over time against W_cubic(t)",
        seconds: 2,
        run: curve::run,
    },
    Check {
        name: "laws/ns3",
        what: "ns-3's validation of its CUBIC: 50 Mb/s and 50 ms behind CoDel",
        seconds: 2,
        run: ns3::run,
    },
    Check {
        name: "laws/friendly",
        what: "CUBIC and Reno on one link in the Reno-friendly region",
        seconds: 10,
        run: sharing::friendly,
    },
    Check {
        name: "laws/convergence",
        what: "two flows come to equal shares",
        seconds: 6,
        run: sharing::convergence,
    },
];

/// Checks of rows that take minutes each.
pub(super) const FULL: [Check; 4] = [
    Check {
        name: "laws/rare/1e-7",
        what: "mean windows when one packet in 10 millions is lost",
        seconds: 340,
        run: |bench| rare(bench, &LAWS, 1e-7),
    },
    Check {
        name: "laws/rare/1e-8-reno",
        what: "mean window of Reno when one packet in 100 millions is lost",
        seconds: 930,
        run: |bench| rare(bench, &LAWS[..1], 1e-8),
    },
    Check {
        name: "laws/rare/1e-8-cubic-100ms",
        what: "mean window of CUBIC at 100 ms when one packet in 100 millions is lost",
        seconds: 1_300,
        run: |bench| rare(bench, &LAWS[1..2], 1e-8),
    },
    Check {
        name: "laws/rare/1e-8-cubic-10ms",
        what: "mean window of CUBIC at 10 ms when one packet in 100 millions is lost",
        seconds: 1_300,
        run: |bench| rare(bench, &LAWS[2..], 1e-8),
    },
];

/// The lines of RFC 9438's tables.
const LAWS: [Law; 3] = [
    Law {
        congestion: "reno",
        rtt_ms: 100,
    },
    Law {
        congestion: "cubic",
        rtt_ms: 100,
    },
    Law {
        congestion: "cubic",
        rtt_ms: 10,
    },
];

fn response(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let rates = Rates {
        from: 1e-6,
        to: 1e-2,
    };
    let mut series = response::rows(bench, &LAWS, rates)?;
    response::recorded_rows(bench, &LAWS, rates.from, &mut series);
    bench.figure(response::figure(series));
    Ok(())
}

fn rare(bench: &mut Bench<'_>, laws: &[Law], p: f64) -> Result<(), ScenarioError> {
    let rates = Rates { from: p, to: p };
    response::rows(bench, laws, rates).map(|_| ())
}

/// Far above the loss rate of 6e-13 at which CUBIC's own curve would matter at this RTT.
fn microsecond(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for congestion in ["reno", "cubic"] {
        for each in [1_000, 10_000, 100_000] {
            response::law(bench, congestion, each)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Verdict;
    use std::sync::atomic::AtomicBool;

    /// One of the quick rows, as an ordinary test.
    #[test]
    fn one_loss_in_a_thousand() {
        for congestion in ["reno", "cubic"] {
            let never = AtomicBool::new(false);
            let mut bench = Bench::new(&never, &|_| {});
            response::law(&mut bench, congestion, 1_000).unwrap();
            let (rows, _) = bench.into_findings();
            assert_eq!(rows.len(), 1);
            assert_eq!(rows[0].verdict(), Verdict::Agrees, "{:#?}", rows[0]);
        }
    }
}
