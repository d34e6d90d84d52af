//! Figures that RFCs work out by hand, or that follow from their formulas, against the real
//! sender: one connection, and a peer that answers as the example says.

mod hystart;
mod peer;
mod prr;
mod rack;
mod randomized;
mod rto;

use super::Check;
use narrows::Duration;
use narrows_experiment::scenario::ScenarioError;

/// The checks of this module.
pub(super) const CHECKS: [Check; 5] = [
    Check {
        name: "vectors/rfc6298",
        what: "retransmission timeouts by the arithmetic of RFC 6298",
        seconds: 1,
        run: rto::run,
    },
    Check {
        name: "vectors/rfc9937",
        what: "proportional rate reduction, ACK by ACK",
        seconds: 1,
        run: prr::run,
    },
    Check {
        name: "vectors/rfc8985",
        what: "RACK-TLP's probe timeout and reordering window",
        seconds: 1,
        run: rack::run,
    },
    Check {
        name: "vectors/rfc9406",
        what: "the rise of the RTT at which HyStart++ leaves slow start",
        seconds: 1,
        run: hystart::run,
    },
    Check {
        name: "vectors/randomised-timeout",
        what: "the distribution of the randomised timeout of SIGCOMM 2009",
        seconds: 1,
        run: randomized::run,
    },
];

/// In microseconds, for a table.
fn micros(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e3
}

/// In milliseconds, for a table.
fn millis(d: Duration) -> f64 {
    d.as_nanos() as f64 / 1e6
}

/// Numbers in a row.
fn list(values: &[u64]) -> String {
    let words: Vec<_> = values.iter().map(u64::to_string).collect();
    words.join(" ")
}

/// What a check of this module returns.
type Run = Result<(), ScenarioError>;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Bench, Verdict};
    use std::sync::atomic::AtomicBool;

    /// They take milliseconds, so they are ordinary tests too.
    #[test]
    fn every_vector_agrees() {
        for check in CHECKS {
            let never = AtomicBool::new(false);
            let mut bench = Bench::new(&never, &|_| {});
            (check.run)(&mut bench).unwrap();
            let (rows, _) = bench.into_findings();
            assert!(!rows.is_empty(), "{}", check.name);
            for row in rows {
                let fine = matches!(row.verdict(), Verdict::Agrees | Verdict::Shown);
                assert!(fine, "{}: {row:#?}", check.name);
            }
        }
    }
}
