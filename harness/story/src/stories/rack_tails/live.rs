//! The twin of `rack tails` on wires of this machine's kernel, all hosts ours.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_experiment::stats;
use narrows_lab::tails::{TailsRun, TailsSpec, run};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Four hosts of ours at TAPs: three call the fourth through a tbf port of 200 Mb/s that marks \
            from 65 packets (a program in the hook before its queue), 1 MB over three connections each \
            and 10 kB over six. DCTCP is ours at both ends: a kernel need not have it, and none has \
            the receiver of 2015 any more. Times of calls have in them what a busy machine adds, so \
            the verdicts are about timeouts and shares.",
    scenes: &[SIMULATED],
    run: twin,
};

/// The same simulated.
const SIMULATED: Scene = Scene::new("simulated", "rack-tails")
    .with(&[
        ("congestion", super::DCTCP),
        ("sweep.receiver", "linux-2015,rfc8257,linux"),
        ("network.link.rate", "200Mb/s"),
        ("traffic.large.connections", "3"),
        ("traffic.small.connections", "6"),
        ("run.warm_up", "1s"),
        ("run.duration", "7s"),
    ])
    .keeping_outcomes();

/// Of receivers: the old one, the RFC's, and today's.
const RECEIVERS: [&str; 3] = ["linux-2015", "rfc8257", "linux"];

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let told = played.scene(SIMULATED.name)?;
    let mut simulated = Vec::new();
    for receiver in RECEIVERS {
        let calls = super::calls_in(told, &[("receiver", receiver)], super::SMALL)?;
        simulated.push(super::share(&calls, super::LATE));
    }
    let mut runs = Vec::new();
    for receiver in RECEIVERS {
        let spec = TailsSpec {
            tcp: stage.tcp(&SIMULATED, &[("receiver", receiver)])?,
            rate: Rate::from_mbps(200),
            mark_above: 65,
            clients: 3,
            calls: vec![(ByteCount::new(1_000_000), 3), (ByteCount::new(10_000), 6)],
            warm_up: Duration::from_secs(1),
            span: Duration::from_secs(6),
        };
        runs.push(run(&spec, stage.cancel).map_err(|e| e.to_string())?);
    }
    let mut grid = Grid::new(["", "simulated", "live"], 1);
    let mut row = |what: String, simulated: String, live: String| {
        grid.rows.push(vec![what, simulated, live]);
    };
    for ((receiver, live), waited) in RECEIVERS.iter().zip(&runs).zip(&simulated) {
        let value = |metric: &str| told.value(&[("receiver", *receiver)], metric);
        for (what, metric, permille) in [
            ("10 kB median", "small.latency.p50", 500),
            ("10 kB p99", "small.latency.p99", 990),
            ("10 kB p99.9", "small.latency.p999", 999),
        ] {
            let took = quantile(small(live), permille);
            row(
                format!("{receiver}: {what}"),
                number(value(metric)?, "ns"),
                took.map_or("-".to_owned(), |t| number(t.as_nanos() as f64, "ns")),
            );
        }
        row(
            format!("{receiver}: timeouts"),
            number(value("timeouts")?, ""),
            number(live.timeouts as f64, ""),
        );
        row(
            format!("{receiver}: drops"),
            number(value("drops")?, ""),
            number(live.drops as f64, ""),
        );
        row(
            format!("{receiver}: percent of calls of 10 kB that took 38 ms or more"),
            format!("{waited:.3}"),
            format!("{:.3}", late(live)),
        );
    }
    let (old, today) = (&runs[0], &runs[2]);
    let fewer = simulated[0] / simulated[2];
    let found = vec![
        Found {
            claim: "D15",
            finding: Finding::is(
                format!(
                    "{} timeouts and {} drops with the receiver of 2015 (wanted some, and none)",
                    old.timeouts, old.drops
                ),
                old.timeouts > 0 && old.drops == 0,
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
                    late(old),
                    late(today)
                ),
                late(old) > 0.1 && late(today) * fewer <= late(old) * 2.0,
            ),
            because: "calls that a machine is late with take as long as those that wait for a timer, \
                      with either receiver",
        },
    ];
    Ok(Seen { grid, found })
}

/// The times of the calls of 10 kB.
fn small(run: &TailsRun) -> &[Duration] {
    run.took.get(1).map_or(&[], Vec::as_slice)
}

/// Percent of them that waited for a timer.
fn late(run: &TailsRun) -> f64 {
    let times = small(run).iter().map(|took| took.as_secs_f64() * 1e3);
    super::share(&times.collect::<Vec<_>>(), super::LATE)
}

/// By nearest rank.
fn quantile(times: &[Duration], permille: usize) -> Option<Duration> {
    let mut times = times.to_vec();
    times.sort_unstable();
    stats::quantile(&times, permille)
}
