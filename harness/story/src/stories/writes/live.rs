//! The twin of `writes` on this machine's kernel.

use super::{DELAYED, PACKETS, WRITTEN};
use crate::grid::Grid;
use crate::judge::{Finding, median};
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows_lab::writes::{Reads, WritesSpec, run, run_ours};
use narrows_report::points::number;
use std::thread;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A server answers requests of a host of the kernel's, 400 bytes each, after pauses of 1.5 s: \
            the kernel's over a veth, with an initcwnd on its route and a window that halves each RTO of a \
            pause (tcp_slow_start_after_idle), or ours at a TAP, with the simulated one's TCP. A kernel of \
            today hides the wait twice: the sender's tail loss probe ends it after some milliseconds, and a \
            client that reads what comes acknowledges by reading, which the simulated one does not. Without \
            both it is the 40 ms of the text.",
    scenes: &[SIMULATED],
    run: twin,
};

/// A variant.
struct Variant {
    name: &'static str,
    /// What the simulation varies, and a server of ours: how it writes, what a pause makes of its window,
    /// the client's acknowledgements, and what finds losses.
    simulated: [&'static str; 4],
    live: fn(&mut WritesSpec),
}

/// What waits, with nothing that ends it.
const WAITING: Variant = Variant {
    name: "1+1+1+1+n, window of 3 after a pause, delayed ACK",
    simulated: [WRITTEN, "rfc5681", DELAYED, "rack-notlp"],
    live: |_| {},
};

/// It cures the wait that the window is what it was.
const KEPT: Variant = Variant {
    name: "... with the window kept",
    simulated: [WRITTEN, "keep", DELAYED, "rack-notlp"],
    live: |spec| spec.idle_restart = false,
};

/// And so does one write.
const AT_ONCE: Variant = Variant {
    name: "written at once",
    simulated: ["n", "rfc5681", DELAYED, "rack-notlp"],
    live: |spec| spec.writes = vec![400],
};

const VARIANTS: &[Variant] = &[
    WAITING,
    Variant {
        name: "... with tail loss probes",
        simulated: [WRITTEN, "rfc5681", DELAYED, "rack"],
        live: |spec| spec.probes = true,
    },
    Variant {
        name: "... read as it comes",
        simulated: [WRITTEN, "rfc5681", DELAYED, "rack-notlp"],
        live: |spec| spec.reads = Reads::Parts,
    },
    Variant {
        name: "... without delayed ACK",
        simulated: [WRITTEN, "rfc5681", "off", "rack-notlp"],
        live: |spec| spec.delayed_ack = false,
    },
    KEPT,
    AT_ONCE,
];

impl Variant {
    fn spec(&self) -> WritesSpec {
        let mut spec = WritesSpec::default();
        (self.live)(&mut spec);
        spec
    }

    /// Its point.
    fn at(&self) -> [(&'static str, &'static str); 4] {
        let [writes, idle, delayed, losses] = self.simulated;
        [
            ("writes", writes),
            ("idle-restart", idle),
            ("delayed-ack", delayed),
            ("host.tcp.loss_detection", losses),
        ]
    }
}

const SIMULATED: Scene = Scene::new("simulated", "packet-window")
    .sharing(&[PACKETS])
    .with(&[
        ("sweep.host.tcp.loss_detection", "rack-notlp,rack"),
        ("pause", "1500ms"),
        ("calls", "6"),
    ]);

/// What moves times.
const LATE: &str = "each time has in it how long both hosts waited for a processor";

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let kernels = all(|variant| run(&variant.spec(), stage.cancel).map_err(|e| e.to_string()))?;
    let ours = all(|variant| {
        let tcp = stage.tcp(&SIMULATED, &variant.at())?;
        run_ours(&variant.spec(), tcp, stage.cancel).map_err(|e| e.to_string())
    })?;
    let head = [
        "median and longest of an answer",
        "simulated",
        "longest",
        "kernel",
        "longest",
        "ours",
        "longest",
    ];
    let mut grid = Grid::new(head, 1);
    for ((variant, kernels), ours) in VARIANTS.iter().zip(&kernels).zip(&ours) {
        let value = |metric| simulated.value(&variant.at(), metric);
        let mut row = vec![
            variant.name.to_owned(),
            number(value("latency.p50")?, "ns"),
            number(value("latency.max")?, "ns"),
        ];
        for live in [kernels, ours] {
            let longest = live.iter().copied().fold(0.0, f64::max);
            row.extend([number(middle(live), "ns"), number(longest, "ns")]);
        }
        grid.rows.push(row);
    }
    let of = |variant: &Variant| {
        let at = VARIANTS.iter().position(|v| v.name == variant.name);
        let times = at.and_then(|at| Some((kernels.get(at)?, ours.get(at)?)));
        times.ok_or_else(|| format!("nothing ran '{}'", variant.name))
    };
    let (waiting, kept, at_once) = (of(&WAITING)?, of(&KEPT)?, of(&AT_ONCE)?);
    let found = vec![
        Found {
            claim: "S6",
            finding: Finding::all([wait("the kernel's", waiting.0), wait("ours", waiting.1)]),
            because: LATE,
        },
        Found {
            claim: "S5",
            finding: Finding::all([
                cured("median of one write of the kernel's", at_once.0),
                cured("of ours", at_once.1),
            ]),
            because: LATE,
        },
        Found {
            claim: "S9",
            finding: Finding::all([
                cured("median with the kernel's window kept", kept.0),
                cured("with ours kept", kept.1),
            ]),
            because: LATE,
        },
    ];
    Ok(Seen {
        tables: vec![grid],
        notes: Vec::new(),
        found,
    })
}

/// The times of all variants in nanoseconds, each with hosts of its own, all at once: they wait most of the
/// time.
fn all(
    run: impl Fn(&Variant) -> Result<Vec<Duration>, String> + Sync,
) -> Result<Vec<Vec<f64>>, String> {
    let run = &run;
    thread::scope(|scope| {
        let runs = VARIANTS
            .iter()
            .map(|variant| scope.spawn(move || run(variant)));
        let runs: Vec<_> = runs.collect();
        let joined = runs.into_iter().map(|run| match run.join() {
            Ok(times) => times.map(|all| all.iter().map(|t| t.as_nanos() as f64).collect()),
            Err(panic) => std::panic::resume_unwind(panic),
        });
        joined.collect()
    })
}

fn middle(times: &[f64]) -> f64 {
    median(times).unwrap_or(f64::NAN)
}

/// What waits for the client's delayed acknowledgement and nothing else, on a machine that is late by half
/// of that at the most.
fn wait(whose: &str, times: &[f64]) -> Finding {
    let what = format!("the wait of {whose}: its median, with ticks of the client's kernel,");
    Finding::between(&what, middle(times), (39e6, 60e6), "ns")
}

/// What does not wait, on a machine that is late by an eighth of the wait at the most.
fn cured(what: &str, times: &[f64]) -> Finding {
    Finding::at_most(what, middle(times), 5e6, "ns")
}
