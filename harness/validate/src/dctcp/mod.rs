//! DCTCP: the sawtooth against its model, the experiments of the SIGCOMM 2010 paper, RFC 8257's
//! rules, and the set-ups of ns-3's own validation.

mod incast;
pub(super) mod measure;
mod model;
mod ns3;
mod rules;
mod sawtooth;
mod senders;
mod simulators;
mod testbed;

use super::reference::Table;
use super::{Bench, Check, Expected, Measured, Row, Tolerance};
use crate::flows::{Flows, FlowsRun};
use crate::set_up::{self, fast_edges, put};
use narrows::{Duration, Rate};
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::ScenarioError;

/// The checks of this module.
pub(super) const CHECKS: [Check; 12] = [
    Check {
        name: "dctcp/sawtooth",
        what: "queue and alpha of long flows against the paper's model",
        seconds: 6,
        run: sawtooth::against_the_model,
    },
    Check {
        name: "dctcp/threshold",
        what: "throughput against the marking threshold K",
        seconds: 12,
        run: sawtooth::thresholds,
    },
    Check {
        name: "dctcp/long",
        what: "two long flows, and the queue of drop-tail TCP",
        seconds: 4,
        run: testbed::long_flows,
    },
    Check {
        name: "dctcp/incast-static",
        what: "1 MB from n servers, 100 packets of buffer",
        seconds: 30,
        run: incast::static_buffer,
    },
    Check {
        name: "dctcp/incast-shared",
        what: "the same with a buffer that all ports share",
        seconds: 2,
        run: incast::shared_pool,
    },
    Check {
        name: "dctcp/incast-simulators",
        what: "an incast beside what htsim and ns-3 gave for DCTCP",
        seconds: 4,
        run: simulators::dctcp,
    },
    Check {
        name: "dctcp/incast-marks",
        what: "the FAST 2008 incast with queue management and with ECN, but not DCTCP",
        seconds: 6,
        run: simulators::managed,
    },
    Check {
        name: "dctcp/all-to-all",
        what: "41 hosts that each ask all others for 25 KB",
        seconds: 5,
        run: incast::all_to_all,
    },
    Check {
        name: "dctcp/short",
        what: "20 KB transfers behind two long flows",
        seconds: 4,
        run: testbed::short_transfers,
    },
    Check {
        name: "dctcp/convergence",
        what: "how soon a second flow has its share",
        seconds: 10,
        run: testbed::convergence,
    },
    Check {
        name: "dctcp/rfc8257",
        what: "the rules of RFC 8257",
        seconds: 1,
        run: rules::run,
    },
    Check {
        name: "dctcp/ns3",
        what: "ns-3's validation of its DCTCP: 50 Mb/s, 10 and 80 ms",
        seconds: 2,
        run: ns3::run,
    },
];

/// `senders` long flows of `congestion` to one host with a step of `k` packets; the senders'
/// own links are ten times as fast, so that the queue is in the switch.
fn long_lived(senders: u32, rate: Rate, rtt: Duration, k: u32, congestion: &str) -> Flows {
    let mut flows = set_up::long_lived(senders, rate, rtt);
    put(&mut flows, "host.tcp.congestion", congestion);
    step(&mut flows, k);
    fast_edges(&mut flows, rate);
    Flows::new(flows)
}

/// The ports mark above `k` packets.
fn step(flows: &mut Experiment, k: u32) {
    put(flows, "network.queue.discipline", "ecn-step");
    put(flows, "network.queue.threshold", format!("{k}p"));
}

/// The hosts of the paper: a TCP of 2010 with SACK, initial window 2, an ACK for two segments.
fn hosts_of_2010(flows: &mut Experiment) {
    for (key, value) in [
        ("prr", "off"),
        ("initial_window", "2"),
        ("rto", "10ms"),
        ("delayed_ack", "2/1ms"),
    ] {
        put(flows, &format!("host.tcp.{key}"), value);
    }
}

/// A line of the table of the paper's results, and how to judge against it.
struct Published {
    source: String,
    expected: Expected,
    tolerance: Tolerance,
}

impl Published {
    /// The result `key`.
    ///
    /// # Panics
    /// If there is none, or it is written wrongly; a test reads them all.
    fn get(key: &str) -> Self {
        let table = Table::parse(include_str!("../../reference/dctcp_sigcomm2010.csv"));
        let line = table
            .lines()
            .find(|l| l.text("key") == key)
            .unwrap_or_else(|| panic!("no published result {key}"));
        let value = line.number("value").expect("a value");
        let expected = match (line.text("relation"), line.number("high")) {
            ("at least", _) => Expected::AtLeast(value),
            ("at most", _) => Expected::AtMost(value),
            (_, Some(high)) => Expected::Range(value, high),
            (_, None) => Expected::Value(value),
        };
        Self {
            source: table
                .source
                .split(':')
                .next()
                .unwrap_or_default()
                .to_owned(),
            expected,
            tolerance: tolerance(line.text("tolerance")),
        }
    }

    /// The row of our result.
    fn row(self, what: impl Into<String>, ours: Measured, unit: &'static str) -> Row {
        Row::new(what, self.source, self.expected, ours, unit, self.tolerance)
    }
}

/// `2%`, `x2`, `2` or `exact`.
fn tolerance(text: &str) -> Tolerance {
    let number = |t: &str| t.parse::<f64>().expect("a number in a tolerance");
    match (text.strip_suffix('%'), text.strip_prefix('x')) {
        _ if text == "exact" => Tolerance::Exact,
        (Some(share), _) => Tolerance::Relative(number(share) / 100.0),
        (_, Some(factor)) => Tolerance::Factor(number(factor)),
        _ => Tolerance::Absolute(number(text)),
    }
}

/// Megabits a second.
fn mbps(rate: Rate) -> f64 {
    rate.bits_per_sec() as f64 / 1e6
}

/// Milliseconds.
fn millis(time: Duration) -> f64 {
    time.as_nanos() as f64 / 1e6
}

/// A pool as the paper's switch has it: 4 MB for all ports, of which one alone gets 700 KB.
fn shared_buffer(flows: &mut Experiment) {
    // alpha / (1 + alpha) = 700 / 4000.
    put(flows, "network.shared_buffer", "4MB:7/33");
    put(flows, "network.queue.limit", "4MB");
}

/// Runs `spec`.
fn go(bench: &Bench<'_>, spec: &Flows) -> Result<FlowsRun, ScenarioError> {
    bench.checkpoint()?;
    bench.flows(spec)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::atomic::AtomicBool;

    #[test]
    fn all_published_results_can_be_read() {
        let table = Table::parse(include_str!("../../reference/dctcp_sigcomm2010.csv"));
        for line in table.lines() {
            let _ = Published::get(line.text("key"));
        }
        assert_eq!(tolerance("2%"), Tolerance::Relative(0.02));
        assert_eq!(tolerance("x2"), Tolerance::Factor(2.0));
        assert_eq!(tolerance("exact"), Tolerance::Exact);
    }

    /// The quick ones run as tests too.
    #[test]
    fn quick_checks_hold() {
        for check in CHECKS.iter().filter(|c| c.seconds <= 2) {
            let (never, ignore) = (AtomicBool::new(false), |_: &mut Row| {});
            let mut bench = Bench::new(&never, &ignore);
            (check.run)(&mut bench).unwrap();
            let (rows, _) = bench.into_findings();
            assert!(!rows.is_empty(), "{check:?}");
            for row in rows {
                let verdict = row.verdict();
                assert_ne!(verdict, super::super::Verdict::Differs, "{row:?}");
            }
        }
    }
}
