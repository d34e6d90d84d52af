//! The twin of `rack coalesce` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::config::TcpConfig;
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{HoldRun, HoldSpec, hold, hold_ours};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Two flows of the kernel's, or of ours at a TAP, over 1 Gb/s (tbf, a quarter of a millisecond of \
            queue) to a host of the kernel's whose veth polls and merges (GRO), and whose aggregates wait for \
            more until gro_flush_timeout has passed (napi_defer_hard_irqs 1). The second has a receive buffer \
            of 16 kB, and gets what that carries in a round trip, which the timer makes a millisecond. veth \
            has no interrupts to hold back, no rx-frames, and here no marks: the small window is given, while \
            the simulated one is kept small by marks; so the first flow waits, too, and the ratio is not that \
            of the text. Judged is the second flow's smoothed round trip.",
    scenes: &[SIMULATED],
    run: twin,
};

const SIMULATED: Scene = Scene::new("simulated", "rack-coalesce").with(&[
    ("sweep.usecs", "1us,1ms"),
    ("run.repetitions", "1"),
    ("run.warm_up", "100ms"),
    ("run.duration", "300ms"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let head = [
        "",
        "first flow",
        "second",
        "ratio",
        "frames an aggregate",
        "16 kB of the second take",
        "its smoothed round trip",
    ];
    let mut grid = Grid::new(head, 1);
    let time = |ns: f64| number(ns, "ns");
    for usecs in ["1us", "1ms"] {
        let value = |metric| simulated.value(&[("usecs", usecs)], metric);
        let (a, b) = (value("first.goodput")?, value("second.goodput")?);
        let slow = if a < b { "rtt.h1.p50" } else { "rtt.h2.p50" };
        grid.rows.push(vec![
            format!("simulated at 25 Gb/s, rx_usecs {usecs}"),
            number(a.max(b), "bit/s"),
            number(a.min(b), "bit/s"),
            number(a.max(b) / a.min(b).max(1.0), ""),
            number(value("frames_per_aggregate")?, ""),
            String::new(),
            time(value(slow)?),
        ]);
    }
    let mut found = Vec::new();
    for (whose, senders) in [("kernel", Senders::Kernel), ("ours", Senders::Ours)] {
        let mut took = Vec::new();
        for hold_us in HOLDS_US {
            let run = senders.run(hold_us, stage)?;
            grid.rows.push(vec![
                format!("live, {whose}, at 1 Gb/s, gro_flush_timeout {hold_us} us"),
                number(run.wide, "bit/s"),
                number(run.narrow, "bit/s"),
                number(run.wide / run.narrow.max(1.0), ""),
                number(run.segments_per_packet, ""),
                time(of_a_window(&run)),
                run.round_trip
                    .map_or(String::new(), |rtt| time(rtt.as_nanos() as f64)),
            ]);
            took.push(round_trip(&run));
        }
        found.push((whose, took));
    }
    Ok(Seen {
        grid,
        found: judged(&found),
    })
}

/// For how long aggregates wait: not at all, and for two times that are longer than what a busy machine adds.
const HOLDS_US: [u64; 3] = [0, 1_000, 3_000];
/// The receive buffer of the second flow.
const NARROW: ByteCount = ByteCount::new(16_000);

/// Whose TCP sends.
#[derive(Clone, Copy)]
enum Senders {
    Kernel,
    Ours,
}

impl Senders {
    fn run(self, hold_us: u64, stage: &Stage<'_>) -> Result<HoldRun, String> {
        let spec = HoldSpec {
            rate: Rate::from_gbps(1),
            hold: Duration::from_micros(hold_us),
            narrow: NARROW,
            span: Duration::from_secs(2),
        };
        let run = match self {
            Self::Kernel => hold(&spec, stage.cancel),
            Self::Ours => hold_ours(&spec, TcpConfig::default(), stage.cancel),
        };
        run.map_err(|e| e.to_string())
    }
}

/// What a window of the second flow takes at its rate, in ns: its round trip, if that is what keeps it.
fn of_a_window(run: &HoldRun) -> f64 {
    NARROW.get() as f64 * 8e9 / run.narrow.max(1.0)
}

/// The second flow's round trip, in ns: as its sender measured it; if that does not tell, what a window
/// takes.
fn round_trip(run: &HoldRun) -> f64 {
    let measured = run.round_trip.map(|rtt| rtt.as_nanos() as f64);
    measured.unwrap_or_else(|| of_a_window(run))
}

/// By senders the second flow's round trip with each of [`HOLDS_US`].
fn judged(all: &[(&str, Vec<f64>)]) -> Vec<Found> {
    let finding = |judge: fn(&str, &[f64]) -> Finding| {
        let each = all.iter().map(|(whose, took)| judge(whose, took));
        Finding::all(each)
    };
    vec![
        Found {
            claim: "D11",
            finding: finding(|whose, took| {
                Finding::at_least(
                    &format!("senders {whose}: the slow round trip, with 3 ms, over the fast one,"),
                    took[2] / took[0],
                    3.0,
                    "",
                )
            }),
            because: LATE,
        },
        Found {
            claim: "D13",
            finding: finding(|whose, took| {
                // An aggregate waits for the timer's next end, or for the one after.
                Finding::between(
                    &format!("senders {whose}: that with 3 ms less the one with 1 ms"),
                    took[2] - took[1],
                    (1e6, 6e6),
                    "ns",
                )
            }),
            because: LATE,
        },
    ]
}

/// What moves round trips.
const LATE: &str = "each round trip has in it how long both hosts waited for a processor, and the timer of \
    aggregates is served when the machine finds the time";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;

    #[test]
    fn a_mode_that_does_not_move_with_the_timer_differs() {
        let of = |took: [f64; 3]| {
            let found = judged(&[("kernel", took.map(|us| us * 1e3).to_vec())]);
            found
                .into_iter()
                .map(|f| f.finding.judged)
                .collect::<Vec<_>>()
        };
        use Judged::{Differs, Holds};
        assert_eq!(of([300.0, 1_100.0, 3_100.0]), [Holds, Holds]);
        assert_eq!(of([500.0, 2_400.0, 6_500.0]), [Holds, Holds]);
        assert_eq!(of([900.0, 1_000.0, 1_150.0]), [Differs, Differs]);
        assert_eq!(of([300.0, 1_100.0, 9_000.0]), [Holds, Differs]);
    }
}
