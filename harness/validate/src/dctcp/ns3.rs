//! ns-3's validation of its DCTCP: one flow over 50 Mb/s.

use super::go;
use super::measure::{mean, samples};
use crate::flows::{Flows, Record};
use crate::reference::Table;
use crate::set_up::{self, put, receiver_rate};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::{Duration, Instant, Rate};
use narrows_experiment::scenario::ScenarioError;

/// What a packet finds when it waits for a millisecond in CoDel at 50 Mb/s: 4 packets there, 3 in
/// the device's queue behind it and one on the wire.
const K: u32 = 8;
/// How far the marks are spread in the second set-up, in packets.
const RAMP: u32 = 8;

/// How the port marks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Marks {
    /// All above K.
    Step,
    /// From none at K to all at K and the ramp.
    Ramp,
    /// What waited longer than a millisecond, CoDel's CE threshold.
    Codel,
}

/// One flow: 1448 bytes in a packet of 1500, hosts at 1 Gb/s.
fn set_up(rtt_ms: u64, marks: Marks) -> Flows {
    let rate = Rate::from_mbps(50);
    let mut flow = set_up::long_lived(1, Rate::from_gbps(1), Duration::from_millis(rtt_ms));
    receiver_rate(&mut flow, rate);
    for (key, value) in [
        ("host.tcp.congestion", "dctcp"),
        ("host.tcp.rto", "floor:1s"),
        ("host.tcp.delayed_ack", "2/200ms"),
        ("network.link.framing", "none"),
        ("host.nic.overhead", "0ns"),
    ] {
        put(&mut flow, key, value);
    }
    let (first, last) = (format!("{K}p"), format!("{}p", K + RAMP));
    let queue: &[(&str, &str)] = match marks {
        Marks::Step => &[("discipline", "ecn-step"), ("threshold", &first)],
        Marks::Ramp => &[
            ("discipline", "red"),
            ("min", &first),
            ("max", &last),
            ("probability", "100%"),
            ("weight", "0"),
        ],
        Marks::Codel => &[
            ("discipline", "codel"),
            ("target", "5ms"),
            ("interval", "100ms"),
            ("ce_threshold", "1ms"),
        ],
    };
    for (key, value) in queue {
        put(&mut flow, &format!("network.queue.{key}"), *value);
    }
    flow.run.duration = Duration::from_secs(35);
    Flows {
        record: Record {
            samples: Some(Duration::from_millis(200)),
            queue: false,
        },
        ..Flows::new(flow)
    }
}

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(include_str!("../../reference/dctcp_ns3.csv"));
    for (rtt_ms, marks) in [
        (10, Marks::Step),
        (10, Marks::Ramp),
        (10, Marks::Codel),
        (80, Marks::Step),
        (80, Marks::Ramp),
        (80, Marks::Codel),
    ] {
        let spec = set_up(u64::from(rtt_ms), marks);
        let run = go(bench, &spec)?;
        let how = match marks {
            Marks::Step => format!("marks above {K} packets"),
            Marks::Ramp => format!("marks spread over {RAMP} packets"),
            Marks::Codel => "CoDel, marks above 1 ms".to_owned(),
        };
        for line in table.lines().filter(|l| l.whole("rtt_ms") == rtt_ms) {
            let number = |column| line.number(column).expect("a number in each cell");
            let from = Instant::ZERO + Duration::from_micros((number("from_s") * 1e6) as u64);
            let seen: Vec<_> = samples(&spec, &run).filter(|s| s.at >= from).collect();
            let (values, unit): (Vec<f64>, _) = match line.text("quantity") {
                "alpha" => (
                    seen.iter().filter_map(|s| s.fraction("alpha")).collect(),
                    "",
                ),
                _ => {
                    let rates = seen.windows(2).map(|w| {
                        let bytes = w[1].delivered - w[0].delivered;
                        bytes.get() as f64 * 8.0 / w[1].at.since(w[0].at).as_micros() as f64
                    });
                    (rates.collect(), "Mb/s")
                }
            };
            bench.row(
                Row::new(
                    format!("50 Mb/s, {rtt_ms} ms, {how}: {}", line.text("quantity")),
                    table.source.clone(),
                    Expected::Range(number("low"), number("high")),
                    Measured::Value(mean(values.iter().copied())),
                    unit,
                    // It has no device's queue behind it, which the reference has.
                    if marks == Marks::Codel {
                        Tolerance::Shown
                    } else {
                        Tolerance::Exact
                    },
                )
                .note(format!(
                    "mean of samples each 200 ms, {:.3} to {:.3}",
                    values.iter().copied().fold(f64::INFINITY, f64::min),
                    values.iter().copied().fold(0.0, f64::max),
                ))
                .explained("dctcp-and-ns-3"),
            );
        }
    }
    Ok(())
}
