//! The twin of `writes` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::{Finding, median};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows_lab::writes::{Reads, WritesSpec, run};
use narrows_report::points::number;
use std::thread;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A server of the kernel's with an initcwnd on its route answers another host's requests \
            over a veth, 400 bytes each, after pauses of 1.5 s in which its window halves each RTO \
            (tcp_slow_start_after_idle). A kernel of today hides the wait twice: the sender's tail \
            loss probe ends it after some milliseconds, and a client that reads what comes \
            acknowledges by reading. Without both it is the 40 ms of the text.",
    run: twin,
};

/// A variant.
struct Variant {
    name: &'static str,
    /// The same as the simulation's: written byte by byte, idle restart, delayed ACK.
    simulated: (&'static str, &'static str, &'static str),
    live: fn(&mut WritesSpec),
}

const WRITTEN: &str = "1+1+1+1+n";
const DELAYED: &str = "2/40ms";

const VARIANTS: &[Variant] = &[
    Variant {
        name: "1+1+1+1+n, window of 3 after a pause, delayed ACK",
        simulated: (WRITTEN, "rfc5681", DELAYED),
        live: |_| {},
    },
    Variant {
        name: "... with tail loss probes",
        simulated: (WRITTEN, "rfc5681", DELAYED),
        live: |spec| spec.probes = true,
    },
    Variant {
        name: "... read as it comes",
        simulated: (WRITTEN, "rfc5681", DELAYED),
        live: |spec| spec.reads = Reads::Parts,
    },
    Variant {
        name: "... without delayed ACK",
        simulated: (WRITTEN, "rfc5681", "off"),
        live: |spec| spec.delayed_ack = false,
    },
    Variant {
        name: "... with the window kept",
        simulated: (WRITTEN, "keep", DELAYED),
        live: |spec| spec.idle_restart = false,
    },
    Variant {
        name: "written at once",
        simulated: ("n", "rfc5681", DELAYED),
        live: |spec| spec.writes = vec![400],
    },
];

const SIMULATED: Scene = Scene::new("simulated", "packet-window").with(&[
    ("window", "packets"),
    ("pause", "1500ms"),
    ("calls", "6"),
]);

/// What moves times.
const LATE: &str = "each time has in it how long both hosts waited for a processor";

fn twin(stage: &Stage<'_>) -> Result<Seen, String> {
    let simulated = stage.scenery(&SIMULATED).map_err(|e| e.to_string())?;
    // Each variant has hosts of its own, and waits most of the time.
    let live = thread::scope(|scope| {
        let runs: Vec<_> = VARIANTS
            .iter()
            .map(|variant| {
                let mut spec = WritesSpec::default();
                (variant.live)(&mut spec);
                scope.spawn(move || run(&spec, stage.cancel))
            })
            .collect();
        let joined = runs.into_iter().map(|run| match run.join() {
            Ok(times) => times.map_err(|e| e.to_string()),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect::<Result<Vec<_>, _>>()
    })?;
    let mut grid = Grid::new(
        ["", "simulated, median", "live, median", "live, longest"],
        1,
    );
    let ms = |times: &[Duration]| {
        let all: Vec<f64> = times.iter().map(|t| t.as_nanos() as f64 / 1e6).collect();
        median(&all).unwrap_or(f64::NAN)
    };
    let found = vec![
        Found {
            claim: "S6",
            finding: Finding::between(
                "the wait only: its median, in ms, of which a tick of the kernel's may be 4",
                ms(&live[0]),
                (39.0, 45.0),
                "",
            ),
            because: LATE,
        },
        Found {
            claim: "S5",
            finding: Finding::at_most("median of one write, ms", ms(&live[5]), 1.0, ""),
            because: LATE,
        },
    ];
    for (variant, times) in VARIANTS.iter().zip(live) {
        let (writes, idle, delayed) = variant.simulated;
        let at = [
            ("writes", writes),
            ("idle-restart", idle),
            ("delayed-ack", delayed),
        ];
        let ours = simulated.value(&at, "latency.p50");
        let ours = ours.map_err(|e| e.to_string())?;
        let ns: Vec<f64> = times.iter().map(|t| t.as_nanos() as f64).collect();
        let time = |ns: Option<f64>| ns.map_or("-".to_owned(), |ns| number(ns, "ns"));
        grid.rows.push(vec![
            variant.name.to_owned(),
            number(ours, "ns"),
            time(median(&ns)),
            time(ns.iter().copied().reduce(f64::max)),
        ]);
    }
    Ok(Seen { grid, found })
}
