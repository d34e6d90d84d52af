//! The twin of `rack coalesce` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::{Keys, Scene};
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{HoldRun, HoldSpec, hold, hold_ours};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Two flows of one sender, the kernel's, or ours at a TAP, over 1 Gb/s (tbf, a quarter of a \
            millisecond of queue, where the kernel's sender is refused and ours is dropped) to a host of the \
            kernel's whose veth polls and merges (GRO), and whose aggregates wait for more until \
            gro_flush_timeout has passed (napi_defer_hard_irqs 1). The second has a receive buffer of 16 kB, \
            and gets what that carries in a round trip, which the timer makes a millisecond. Each such run \
            stands below the same simulated, where interrupts wait for as long instead, since veth has \
            none; without a timer there each frame has its own and nothing is merged. Neither has rx-frames \
            or marks: the small window is given, while that of the text is kept small by marks; so the \
            first flow waits, too, and the ratio is not that of the text, which the first two rows have. Frames are those of an aggregate. \
            Judged is the second flow's round trip by the timer, against the simulated one.",
    scenes: &[SIMULATED, KERNEL, OURS],
    run: twin,
};

/// As in the text.
const SIMULATED: Scene = Scene::new("simulated", "rack-coalesce").with(&[
    ("sweep.usecs", "1us,1ms"),
    ("run.repetitions", "1"),
    ("run.warm_up", "100ms"),
    ("run.duration", "300ms"),
]);

/// The live set-up but for where the sender's packets wait for 1 Gb/s.
const LIVE: Keys = &[
    ("network.hosts", "2"),
    ("network.link.rate", "10Gb/s"),
    ("cc", "cubic"),
    ("host.tcp.delayed_ack", "2/40ms"),
    ("host.tcp.ack_count", "bytes"),
    ("queues", "1"),
    ("frames", "0"),
    ("sweep.usecs", "1us,1ms,3ms"),
    ("traffic.second.from", "h1"),
    ("traffic.second.start", "0s"),
    ("traffic.second.tcp.receive_window", "16kB"),
    ("probe.rtt.on", "h1"),
    ("probe.rtt.traffic", "second"),
    ("run.repetitions", "1"),
    ("run.warm_up", "200ms"),
    ("run.duration", "2200ms"),
];

/// With a queue of the sender's own, which refuses.
const KERNEL: Scene = Scene::new("kernel", "rack-coalesce")
    .sharing(&[LIVE])
    .with(&[
        ("group.h1.nic.shaper_rate", "1Gb/s"),
        ("group.h1.nic.shaper_burst", "24224B"),
        ("group.h1.nic.tx_queue", "32KiB"),
        ("host.tcp.local_drop", "congestion"),
    ]);

/// With a queue of the switch's, which drops and does not mark. Ports of the simulated switch have no
/// bucket: of what follows a pause it holds less than tbf's.
const OURS: Scene = Scene::new("ours", "rack-coalesce").sharing(&[LIVE]).with(&[
    ("network.port.s0->h0.link.rate", "1Gb/s"),
    ("network.port.s0->h0.queue.limit", "32KiB"),
    ("network.port.s0->h0.queue.threshold", "1000p"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let head = [
        "",
        "first",
        "second",
        "ratio",
        "frames merged",
        "second's 16 kB",
        "round trip",
    ];
    let mut grid = Grid::new(head, 1);
    for usecs in ["1us", "1ms"] {
        let value = |metric| simulated.value(&[("usecs", usecs)], metric);
        let (a, b) = (value("first.goodput")?, value("second.goodput")?);
        let slow = if a < b { "rtt.h1.p50" } else { "rtt.h2.p50" };
        grid.rows.push(vec![
            format!("simulated, 25 Gb/s, rx_usecs {usecs}"),
            number(a.max(b), "bit/s"),
            number(a.min(b), "bit/s"),
            number(a.max(b) / a.min(b).max(1.0), ""),
            number(value("frames_per_aggregate")?, ""),
            String::new(),
            number(value(slow)?, "ns"),
        ]);
    }
    let mut found = Vec::new();
    for (whose, senders) in [("kernel", Senders::Kernel), ("ours", Senders::Ours)] {
        let scene = played.scene(senders.scene().name)?;
        let mut trips = Vec::new();
        for (hold_us, usecs) in HOLDS {
            let value = |metric| scene.value(&[("usecs", usecs)], metric);
            let expected = HoldRun {
                wide: value("first.goodput")?,
                narrow: value("second.goodput")?,
                segments_per_packet: value("frames_per_aggregate")?,
                round_trip: Some(Duration::from_nanos(value("rtt.h1.p50")? as u64)),
            };
            let run = senders.run(hold_us, stage)?;
            let named = format!("{whose}, timer {hold_us} us");
            grid.rows
                .push(row(format!("simulated, {named}"), &expected));
            grid.rows.push(row(format!("live, {named}"), &run));
            trips.push([round_trip(&expected), round_trip(&run)]);
        }
        found.push((whose, trips));
    }
    Ok(Seen {
        tables: vec![grid],
        notes: Vec::new(),
        found: judged(&found),
    })
}

fn row(named: String, run: &HoldRun) -> Vec<String> {
    let time = |ns: f64| number(ns, "ns");
    vec![
        named,
        number(run.wide, "bit/s"),
        number(run.narrow, "bit/s"),
        number(run.wide / run.narrow.max(1.0), ""),
        number(run.segments_per_packet, ""),
        time(of_a_window(run)),
        run.round_trip
            .map_or(String::new(), |rtt| time(rtt.as_nanos() as f64)),
    ]
}

/// For how long aggregates wait, in microseconds: not at all, and for two times that are longer than what a
/// busy machine adds; and the interrupts of the simulated one.
const HOLDS: [(u64, &str); 3] = [(0, "1us"), (1_000, "1ms"), (3_000, "3ms")];
/// The receive buffer of the second flow.
const NARROW: ByteCount = ByteCount::new(16_000);

/// Whose TCP sends.
#[derive(Clone, Copy)]
enum Senders {
    Kernel,
    Ours,
}

impl Senders {
    /// The same simulated.
    fn scene(self) -> Scene {
        match self {
            Self::Kernel => KERNEL,
            Self::Ours => OURS,
        }
    }

    fn run(self, hold_us: u64, stage: &Stage<'_>) -> Result<HoldRun, String> {
        let spec = HoldSpec {
            rate: Rate::from_gbps(1),
            hold: Duration::from_micros(hold_us),
            narrow: NARROW,
            span: Duration::from_secs(2),
        };
        let run = match self {
            Self::Kernel => hold(&spec, stage.cancel),
            Self::Ours => hold_ours(&spec, stage.tcp(&OURS, &[])?, stage.cancel),
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

/// By senders the second flow's round trip with each of [`HOLDS`], simulated and live.
fn judged(all: &[(&str, Vec<[f64; 2]>)]) -> Vec<Found> {
    let finding = |judge: fn(&str, &[[f64; 2]]) -> Finding| {
        let each = all.iter().map(|(whose, trips)| judge(whose, trips));
        Finding::all(each)
    };
    vec![
        Found {
            claim: "D11",
            finding: finding(|whose, trips| {
                let [simulated, live] = [0, 1].map(|of| trips[2][of] / trips[0][of]);
                Finding::at_least(
                    &format!(
                        "senders {whose}: the slow round trip, with 3 ms, over the fast one, where a quarter \
                         of {} simulated is wanted,",
                        number(simulated, "")
                    ),
                    live,
                    simulated / 4.0,
                    "",
                )
            }),
            because: LATE,
        },
        Found {
            claim: "D13",
            finding: finding(|whose, trips| {
                let [simulated, live] = [0, 1].map(|of| trips[2][of] - trips[1][of]);
                Finding::between(
                    &format!(
                        "senders {whose}: that with 3 ms less the one with 1 ms, over {} simulated, where an \
                         aggregate waits for the timer's next end or for the one after,",
                        number(simulated, "ns")
                    ),
                    live / simulated,
                    (0.5, 3.0),
                    "",
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
        let simulated = [260.0, 1_050.0, 3_050.0];
        let of = |live: [f64; 3]| {
            let trips = simulated.into_iter().zip(live);
            let trips = trips.map(|(simulated, live)| [simulated, live].map(|us| us * 1e3));
            let found = judged(&[("kernel", trips.collect())]);
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
