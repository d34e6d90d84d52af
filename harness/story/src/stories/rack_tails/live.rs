//! The twin of `rack tails` on wires of this machine's kernel.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Played, Scenery};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_experiment::stats;
use narrows_lab::LiveError;
use narrows_lab::tails::{BUFFER_FRAMES, TailsRun, TailsSpec, run, run_ours};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Four hosts of the kernel's, or of ours at TAPs: three call the fourth through a tbf port of 200 \
            Mb/s with 1 MB, which marks from 65 packets (a program in the hook before its queue), 1 MB over \
            three connections each and 10 kB over six. Both ends have CUBIC without ECN, or DCTCP. The \
            kernel's DCTCP is its receiver of today, where the kernel has it (tcp_dctcp); that of 2015 and \
            that of RFC 8257 are ours. The kernel's senders have no tail loss probes, as ours, and links of \
            200 Mb/s, as the simulated ones; what ours send is at the port at once. With CUBIC a call waits \
            40 ms in the full port. Times of calls have in them what a busy machine adds, so the verdicts are \
            about queues, timeouts and shares.",
    scenes: &[SIMULATED],
    run: twin,
};

/// The same simulated.
const SIMULATED: Scene = Scene::new("simulated", "rack-tails")
    .with(&[
        ("sweep.congestion", "cubic,dctcp:floor=1"),
        ("sweep.receiver", "linux-2015,rfc8257,linux"),
        ("network.link.rate", "200Mb/s"),
        ("traffic.large.connections", "3"),
        ("traffic.small.connections", "6"),
        ("probe.port.kind", "queue"),
        ("probe.port.on", "s0->h0"),
        ("run.warm_up", "1s"),
        ("run.duration", "5s"),
    ])
    .keeping_outcomes();

/// What a large call and a small one ask with.
const LARGE_REQUEST: ByteCount = ByteCount::new(1_000_000);
const SMALL_REQUEST: ByteCount = ByteCount::new(10_000);
/// Packets in the port.
const MARKED_FROM: u32 = 65;

/// What hosts have.
struct Variant {
    name: &'static str,
    congestion: &'static str,
    receiver: &'static str,
    /// The same of the kernel's.
    kernel: Option<&'static str>,
}

const CUBIC: Variant = Variant {
    name: "CUBIC",
    congestion: "cubic",
    receiver: "linux",
    kernel: Some("cubic"),
};
const OLD: Variant = Variant {
    name: "DCTCP, receiver of 2015",
    congestion: super::DCTCP,
    receiver: "linux-2015",
    kernel: None,
};
const RFC: Variant = Variant {
    name: "DCTCP, RFC 8257",
    congestion: super::DCTCP,
    receiver: "rfc8257",
    kernel: None,
};
const TODAY: Variant = Variant {
    name: "DCTCP, receiver of today",
    congestion: super::DCTCP,
    receiver: "linux",
    kernel: Some("dctcp"),
};

impl Variant {
    /// Its point.
    fn at(&self) -> [(&'static str, &'static str); 2] {
        [("congestion", self.congestion), ("receiver", self.receiver)]
    }
}

/// What three places showed of a variant.
struct Shown {
    simulated: Calls,
    /// `None` where the kernel has no such.
    kernel: Option<Calls>,
    ours: Calls,
}

impl Shown {
    /// Whose hosts, and what they showed.
    fn live(&self) -> impl Iterator<Item = (&'static str, &Calls)> {
        let kernel = self.kernel.as_ref().map(|calls| ("kernel", calls));
        kernel.into_iter().chain([("ours", &self.ours)])
    }
}

/// What was seen of calls, whose times are in ms.
#[derive(Clone)]
struct Calls {
    /// For how long.
    span: Duration,
    large: Vec<f64>,
    small: Vec<f64>,
    mean_queue: f64,
    timeouts: f64,
    drops: f64,
}

/// Runs as long as the simulated one.
fn spec(simulated: &Scenery) -> TailsSpec {
    let run = &simulated.experiment().run;
    TailsSpec {
        rate: Rate::from_mbps(200),
        mark_above: MARKED_FROM,
        clients: 3,
        calls: vec![(LARGE_REQUEST, 3), (SMALL_REQUEST, 6)],
        warm_up: run.warm_up.into(),
        span: run.duration.saturating_sub(run.warm_up).into(),
    }
}

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let spec = spec(simulated);
    let (mut rows, mut notes) = (Vec::new(), Vec::new());
    let mut show = |variant: &Variant| -> Result<Shown, String> {
        let shown = Shown {
            simulated: Calls::simulated(simulated, variant)?,
            kernel: match variant.kernel {
                Some(congestion) => of_kernel(&spec, congestion, stage)?,
                None => None,
            },
            ours: {
                let tcp = stage.tcp(&SIMULATED, &variant.at())?;
                let ran = run_ours(&spec, &tcp, stage.cancel);
                Calls::live(&spec, &ran.map_err(|e| e.to_string())?)
            },
        };
        let named = |place: &str| format!("{}, {place}", variant.name);
        rows.push((named("simulated"), shown.simulated.clone()));
        match (&shown.kernel, variant.kernel) {
            (Some(calls), _) => rows.push((named("live, kernel"), calls.clone())),
            (None, Some(lacks)) => {
                let why = format!("live, kernel: not run, it has no tcp_{lacks}");
                notes.push(named(&why));
            }
            (None, None) => {}
        }
        rows.push((named("live, ours"), shown.ours.clone()));
        Ok(shown)
    };
    let (cubic, old) = (show(&CUBIC)?, show(&OLD)?);
    show(&RFC)?;
    let today = show(&TODAY)?;
    let found = found(&cubic, &old, &today);
    Ok(Seen {
        tables: tables(&rows),
        notes,
        found,
    })
}

/// Times of calls, and what else was seen.
fn tables(rows: &[(String, Calls)]) -> Vec<Grid> {
    let times = [
        "",
        "10 kB median",
        "p99",
        "p99.9",
        "from 38 ms",
        "1 MB median",
        "p99",
    ];
    let rest = [
        "",
        "goodput",
        "of it in 10 kB",
        "packets queued",
        "timeouts",
        "drops",
    ];
    let (mut times, mut rest) = (Grid::new(times, 1), Grid::new(rest, 1));
    for (name, calls) in rows {
        let named = |cells: Vec<String>| [name.clone()].into_iter().chain(cells).collect();
        times.rows.push(named(calls.times()));
        rest.rows.push(named(calls.rest()));
    }
    vec![times, rest]
}

/// `None` where the kernel has no such congestion control.
fn of_kernel(
    spec: &TailsSpec,
    congestion: &str,
    stage: &Stage<'_>,
) -> Result<Option<Calls>, String> {
    match run(spec, congestion, stage.cancel) {
        Ok(run) => Ok(Some(Calls::live(spec, &run))),
        Err(LiveError::NoCongestion { .. }) => Ok(None),
        Err(other) => Err(other.to_string()),
    }
}

impl Calls {
    fn simulated(told: &Scenery, variant: &Variant) -> Result<Self, String> {
        let at = variant.at();
        let value = |metric: &str| told.value(&at, metric);
        Ok(Self {
            span: spec(told).span,
            large: super::calls_in(told, &at, super::LARGE)?,
            small: super::calls_in(told, &at, super::SMALL)?,
            mean_queue: value("port.s0->h0.mean_packets")?,
            timeouts: value("timeouts")?,
            drops: value("drops")?,
        })
    }

    fn live(spec: &TailsSpec, run: &TailsRun) -> Self {
        let times = |nth: usize| {
            let all = run.took.get(nth).map_or(&[][..], Vec::as_slice);
            all.iter().map(|took| took.as_secs_f64() * 1e3).collect()
        };
        Self {
            span: spec.span,
            large: times(0),
            small: times(1),
            mean_queue: run.mean_queue,
            timeouts: run.counts.timeouts as f64,
            drops: run.counts.drops as f64,
        }
    }

    fn times(&self) -> Vec<String> {
        let time = |times: &[f64], permille| {
            quantile(times, permille).map_or("-".to_owned(), |ms| number(ms * 1e6, "ns"))
        };
        vec![
            time(&self.small, 500),
            time(&self.small, 990),
            time(&self.small, 999),
            format!("{:.3} %", self.late()),
            time(&self.large, 500),
            time(&self.large, 990),
        ]
    }

    fn rest(&self) -> Vec<String> {
        vec![
            number(self.goodput(), "bit/s"),
            format!("{:.1} %", self.share_of_small()),
            number(self.mean_queue, ""),
            number(self.timeouts, ""),
            number(self.drops, ""),
        ]
    }

    /// Percent of the calls of 10 kB that waited for a timer.
    fn late(&self) -> f64 {
        super::share(&self.small, super::LATE)
    }

    /// Bytes of calls that ended, by size.
    fn bytes(&self) -> [f64; 2] {
        [
            self.large.len() as f64 * LARGE_REQUEST.get() as f64,
            self.small.len() as f64 * SMALL_REQUEST.get() as f64,
        ]
    }

    /// Bits a second.
    fn goodput(&self) -> f64 {
        self.bytes().iter().sum::<f64>() * 8.0 / self.span.as_secs_f64()
    }

    /// Percent of the bytes that were in calls of 10 kB.
    fn share_of_small(&self) -> f64 {
        let [large, small] = self.bytes();
        small / (large + small).max(1.0) * 100.0
    }
}

/// By nearest rank.
fn quantile(times: &[f64], permille: usize) -> Option<f64> {
    let mut times = times.to_vec();
    times.sort_by(f64::total_cmp);
    stats::quantile(&times, permille)
}

/// What moves times of calls.
const LATE_MACHINE: &str = "calls that a machine is late with take as long as those that wait for a timer, with \
    either receiver, and so there are fewer of them";

fn found(cubic: &Shown, old: &Shown, today: &Shown) -> Vec<Found> {
    let fewer = old.simulated.late() / today.simulated.late();
    let stands = |(whose, calls): (&str, &Calls)| {
        let what =
            format!("hosts {whose}: CUBIC's mean queue, of {BUFFER_FRAMES} packets that fit,");
        Finding::at_least(&what, calls.mean_queue, BUFFER_FRAMES as f64 / 2.0, "")
    };
    let at_threshold = |(whose, calls): (&str, &Calls)| {
        let what = format!("hosts {whose}: DCTCP's mean queue, marked from {MARKED_FROM} packets,");
        // A machine that is late leaves it emptier.
        let most = f64::from(MARKED_FROM) * 1.25;
        Finding::at_most(&what, calls.mean_queue, most, "")
    };
    let fairer = |(whose, [cubic, today]): (&str, [&Calls; 2])| {
        let [cubic, today] = [cubic, today].map(Calls::share_of_small);
        Finding::is(
            format!(
                "hosts {whose}: {today:.1} % of the bytes are in calls of 10 kB with DCTCP, {cubic:.1} % \
                 with CUBIC"
            ),
            today > cubic,
        )
    };
    let both = cubic.kernel.as_ref().zip(today.kernel.as_ref());
    let kernels = both.map(|(cubic, today)| ("kernel", [cubic, today]));
    let ours = ("ours", [&cubic.ours, &today.ours]);
    vec![
        Found {
            claim: "D1",
            finding: Finding::all(cubic.live().map(stands)),
            because: "senders that wait for a processor leave the port's queue to empty",
        },
        Found {
            claim: "D3",
            finding: Finding::all(today.live().map(at_threshold)),
            because: "what a late machine sends at once is longer than what is marked",
        },
        Found {
            claim: "D25",
            finding: Finding::all(kernels.into_iter().chain([ours]).map(fairer)),
            because: LATE_MACHINE,
        },
        Found {
            claim: "D15",
            finding: Finding::is(
                format!(
                    "{} timeouts and {} drops with the receiver of 2015 (wanted some, and none)",
                    old.ours.timeouts, old.ours.drops
                ),
                old.ours.timeouts > 0.0 && old.ours.drops == 0.0,
            ),
            because: "it takes a call whose last packet finds marks to have just changed, which hangs \
                      on when this machine lets calls begin",
        },
        Found {
            claim: "D17",
            finding: Finding::is(
                format!(
                    "{:.3} % of calls take 38 ms or more with the receiver of 2015, {:.3} % with that \
                     of today (wanted more than .1, and at least half as many times fewer as the {fewer:.1} \
                     of the simulation)",
                    old.ours.late(),
                    today.ours.late()
                ),
                old.ours.late() > 0.1 && today.ours.late() * fewer <= old.ours.late() * 2.0,
            ),
            because: LATE_MACHINE,
        },
    ]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;
    use crate::text::PAGE;
    use narrows_report::table::Colour;

    fn calls(mean_queue: f64, small: usize, timeouts: f64) -> Calls {
        let late = small / 50 * timeouts.min(1.0) as usize;
        Calls {
            span: Duration::from_secs(4),
            large: vec![400.0; 60],
            small: [vec![50.0; late + 1], vec![12.0; small - late]].concat(),
            mean_queue,
            timeouts,
            drops: 0.0,
        }
    }

    /// What hosts show, with the kernel's or without.
    fn shown(kernel: Option<Calls>, of: impl Fn() -> Calls) -> Shown {
        Shown {
            simulated: of(),
            kernel,
            ours: of(),
        }
    }

    #[test]
    fn tables_fit_a_page_and_have_a_row_of_each() {
        let calls = calls(599.55, 6_001, 24.0);
        let name = format!("{}, live, kernel", TODAY.name);
        for table in tables(&[(name.clone(), calls.clone()), (name, calls)]) {
            assert_eq!(table.rows.len(), 2);
            assert!(table.rows.iter().all(|row| row.len() == table.head.len()));
            let text = crate::text::table(&table, Colour::Plain);
            assert!(text.lines().all(|line| line.len() <= PAGE), "{text}");
        }
    }

    #[test]
    fn hosts_that_are_there_are_judged_and_a_kernel_without_dctcp_is_not() {
        let judged = |cubic: &Shown, old: &Shown, today: &Shown| {
            let found = found(cubic, old, today);
            let of = |f: Found| (f.claim, f.finding.judged, f.finding.measured);
            found.into_iter().map(of).collect::<Vec<_>>()
        };
        let standing = || calls(590.0, 1_800, 0.0);
        let cubic = shown(Some(standing()), standing);
        let old = shown(None, || calls(63.0, 6_000, 24.0));
        let fine = || calls(63.0, 6_000, 0.0);
        let without = judged(&cubic, &old, &shown(None, fine));
        assert!(without.iter().all(|f| f.1 == Judged::Holds), "{without:?}");
        let claims: Vec<&str> = without.iter().map(|f| f.0).collect();
        assert_eq!(claims, ["D1", "D3", "D25", "D15", "D17"]);
        assert!(without[0].2.contains("hosts kernel"), "{without:?}");
        assert!(!without[1].2.contains("hosts kernel"), "{without:?}");

        // As CUBIC's.
        let with = judged(&cubic, &old, &shown(Some(standing()), fine));
        let differs: Vec<_> = with.iter().filter(|f| f.1 == Judged::Differs).collect();
        let claims: Vec<&str> = differs.iter().map(|f| f.0).collect();
        assert_eq!(claims, ["D3", "D25"], "{with:?}");
    }
}
