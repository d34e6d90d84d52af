//! The twin of `enobufs` on this machine's kernel.

use super::sawtooth::counted;
use super::{MSS, WINDOW, between, course_at, mean_window};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::{Keys, Scene};
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::{LocalDropSpec, local_drop};
use narrows_lab::refusing::{self, Before, Losses, RefusingRun, RefusingSpec};
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "A sender of the kernel's behind a tbf of its own of 100 Mb/s, whose queue refuses what does \
            not fit. Linux answers a refusal with a window reduction as for a mark (CWR) and sends \
            the same packet later: nothing is sent again, and no window is reset, so the text's \
            fault cannot be had with it. How often it is refused is the machine's: one flow has at \
            most a millisecond's worth below it (TCP small queues). Super-frames are off: of one that \
            does not fit tbf queues a part and loses the rest without a refusal. The text's fault is \
            had with a sender of ours, which answers as FreeBSD does: its TAP has a dozen buffers, \
            one of which is free again for each frame that a tbf port of 20 Mb/s has carried, and \
            refuses when there is none; what comes back to it is 25 ms late. From the first second \
            on it loses a frame each second, in the midst of twenty others, as by somebody who toggles the \
            receiver's ring. It tries \
            again after 50 us to 1 ms and with each frame that arrives, and each try counts and has its \
            answer, where the simulated one waits for a buffer: an answer that takes a segment is not \
            judged. A second connection comes after one of 3 MB that had one such loss and was closed, with \
            and without what its host remembers of the peer. When the TAP refuses the TAP says, and what \
            became of the window the connection.",
    scenes: &[SIMULATED, OURS, COURSE, SECOND],
    run: twin,
};

/// A sender of ours at a round trip of 25 ms, whose receiver's ring is lost for the time of a few frames: where
/// all of a round trip is lost only a timeout tells, and the window is as slow to grow as it was.
const FAR: Keys = &[
    ("network.link.rate", "20Mb/s"),
    ("network.link.delay", "6250us"),
    ("change.0.for", "2ms"),
];
const OURS: Scene = Scene::new("ours", "enobufs")
    .sharing(&[FAR, WINDOW])
    .with(&[
        ("sweep.answer", "reset,minus-segment"),
        ("sweep.toggle", "1s,100s"),
        ("run.warm_up", "2s"),
        ("run.duration", "6s"),
    ]);
/// Around the first loss.
const COURSE: Scene = Scene::new("course", "enobufs")
    .sharing(&[FAR])
    .with(&[
        ("answer", "reset"),
        ("toggle", "1s"),
        ("run.warm_up", "0s"),
        ("run.duration", "2s"),
    ])
    .keeping_outcomes();
const SECOND: Scene = Scene::new("second", "enobufs").sharing(&[FAR]).with(&[
    ("answer", "reset"),
    ("toggle", "500ms"),
    ("change.0.every", "off"),
    ("traffic.read.size", "3MB"),
    ("traffic.read.close", "on"),
    ("traffic.again.kind", "bulk"),
    ("traffic.again.from", "h1"),
    ("traffic.again.to", "h0"),
    ("traffic.again.start", "4s"),
    ("sweep.host.tcp.metrics_cache", "off,100s"),
    ("run.warm_up", "5s"),
    ("run.duration", "8s"),
]);
/// Answers of ours, with the time of the first simulated loss.
const ANSWERS: [(&str, &str, &str); 3] = [
    ("reset, no loss", "reset", "100s"),
    ("reset, a loss each second", "reset", "1s"),
    ("a segment less, no loss", "minus-segment", "100s"),
];
/// Whether the second connection's host remembers, and the same simulated.
const MEMORIES: [(&str, bool, &str); 2] = [
    ("second connection, peer forgotten", false, "off"),
    ("second connection, peer remembered", true, "100s"),
];
/// When somebody toggles for the first time, and from then on.
const TOGGLES: Losses = Losses {
    at: narrows::Duration::from_millis(1_000),
    every: Some(narrows::Duration::from_millis(1_000)),
    under_way: 20,
};

const SIMULATED: Scene = Scene::new("simulated", "enobufs").with(&[
    ("network.link.rate", "100Mb/s"),
    ("sweep.answer", "reset,congestion"),
    ("toggle", "100s"),
    ("sweep.buffers", "12,1000"),
    ("run.warm_up", "500ms"),
    ("run.duration", "1500ms"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let mut grid = Grid::new(["", "goodput", "refused a second", "sent again"], 1);
    for (name, answer, buffers) in [
        ("simulated, reset, 12 buffers", "reset", "12"),
        ("simulated, congestion, 12 buffers", "congestion", "12"),
        ("simulated, congestion, 1000 buffers", "congestion", "1000"),
    ] {
        let at = [("answer", answer), ("buffers", buffers)];
        let value = |metric| simulated.value(&at, metric);
        grid.rows.push(vec![
            name.to_owned(),
            number(value("goodput")?, "bit/s"),
            number(value("refused.buffers")?, ""),
            number(value("retransmits")?, ""),
        ]);
    }
    let span = Duration::from_secs(2);
    for packets in [12, 1_000] {
        let spec = LocalDropSpec {
            rate: Rate::from_mbps(100),
            limit: ByteCount::new(packets * 1_514),
            span,
        };
        let run = local_drop(&spec, stage.cancel).map_err(|e| e.to_string())?;
        grid.rows.push(vec![
            format!("live, a queue of {packets} packets"),
            number(run.goodput, "bit/s"),
            number(run.refused as f64 / span.as_secs_f64(), ""),
            number(run.again as f64, ""),
        ]);
    }
    let ours = ours(stage, played, &mut grid)?;
    Ok(Seen {
        grid,
        found: found(&ours),
    })
}

/// What senders of ours show, and the simulated ones.
struct Ours {
    /// Goodputs without a loss, with one each second, of a second connection whose peer is forgotten and
    /// of one whose peer is remembered.
    simulated: [f64; 4],
    live: [f64; 4],
    /// How often the simulated window came down without a loss.
    falls: f64,
    /// The simulated mean window after the first loss over that before.
    step: f64,
    /// Without a loss, and with one each second.
    slow: RefusingRun,
    fast: RefusingRun,
}

fn ours(stage: &Stage<'_>, played: &Played, grid: &mut Grid) -> Result<Ours, String> {
    let mut row = |named: String, goodput: f64, refused: f64, again: f64| {
        let cells = [(goodput, "bit/s"), (refused, ""), (again, "")];
        let cells = cells.map(|(value, unit)| number(value, unit));
        grid.rows.push([named].into_iter().chain(cells).collect());
    };
    let mut both = |named: &str, scene: &Scene, at: &[(&str, &str)], spec: RefusingSpec| {
        let told = played.scene(scene.name)?;
        let value = |metric| told.value(at, metric);
        let goodput = value("goodput")?;
        let seconds = spec.span.as_secs_f64();
        let (refused, again) = (value("refused.buffers")?, value("retransmits")?);
        row(
            format!("simulated, 25 ms, {named}"),
            goodput,
            refused / seconds,
            again,
        );
        let run = refusing::run(&spec, stage.cancel).map_err(|e| e.to_string())?;
        row(
            format!("live, ours, 25 ms, {named}"),
            run.goodput,
            run.refused as f64 / seconds,
            run.again as f64,
        );
        Ok::<_, String>((goodput, run))
    };
    let mut runs = Vec::new();
    for (named, answer, toggle) in ANSWERS {
        let spec = RefusingSpec {
            losses: (toggle == "1s").then_some(TOGGLES),
            ..refused(stage, answer)?
        };
        runs.push(both(
            named,
            &OURS,
            &[("answer", answer), ("toggle", toggle)],
            spec,
        )?);
    }
    for (named, remembers, cache) in MEMORIES {
        let spec = RefusingSpec {
            losses: Some(Losses {
                at: narrows::Duration::from_millis(500),
                every: None,
                ..TOGGLES
            }),
            before: Some(Before {
                size: ByteCount::new(3_000_000),
                remembers,
            }),
            warm_up: Duration::from_secs(1),
            span: Duration::from_secs(3),
            ..refused(stage, "reset")?
        };
        runs.push(both(
            named,
            &SECOND,
            &[("host.tcp.metrics_cache", cache)],
            spec,
        )?);
    }
    let course = course_at(played.scene(COURSE.name)?, &[])?;
    let [before, after] = BEFORE_AND_AFTER.map(|(from, until)| {
        let [from, until] = [from, until].map(|ms| ms as f64);
        mean_window(&between(&course, from, until))
    });
    let falls = counted(
        played.scene(OURS.name)?,
        &[("answer", "reset"), ("toggle", "100s")],
        "falls",
    )?;
    let [slow, fast, _, forgotten, remembered] = &runs[..] else {
        return Err("five runs".to_owned());
    };
    let of = [slow, fast, forgotten, remembered];
    Ok(Ours {
        simulated: of.map(|run| run.0),
        live: of.map(|run| run.1.goodput),
        falls,
        step: after / before,
        slow: slow.1.clone(),
        fast: fast.1.clone(),
    })
}

/// In milliseconds: before the first loss, with the sawtooth at work, and within a second after it.
const BEFORE_AND_AFTER: [(u64, u64); 2] = [(200, 1_000), (1_400, 2_000)];

/// A sender of ours with that answer, and nothing lost.
fn refused(stage: &Stage<'_>, answer: &str) -> Result<RefusingSpec, String> {
    Ok(RefusingSpec {
        tcp: stage.tcp(&COURSE, &[("answer", answer)])?,
        rate: Rate::from_mbps(20),
        buffers: 12,
        delay: Duration::from_millis(25),
        losses: None,
        before: None,
        warm_up: Duration::from_secs(2),
        span: Duration::from_secs(4),
    })
}

/// What was found with senders of ours, against what is simulated: with a window of fifty segments, which
/// doubles six times, a reset costs less than in the text, and its cure gives less.
fn found(ours: &Ours) -> Vec<Found> {
    let ([slow, fast, forgotten, remembered], of_slow) = (ours.live, ours.simulated[0]);
    let [_, of_fast, of_forgotten, of_remembered] = ours.simulated;
    let (without, with) = (&ours.slow, &ours.fast);
    let ms = narrows::Duration::from_millis;
    let [before, after] =
        BEFORE_AND_AFTER.map(|(from, until)| with.course.mean(ms(from), ms(until)));
    let until = TOGGLES.at;
    let settled = || with.course.between(ms(1_400), narrows::Duration::MAX);
    let threshold = settled().next().and_then(|turn| turn.ssthresh);
    let falls = without.falls;
    vec![
        Found {
            claim: "E1",
            finding: Finding::at_most(
                "slow over fast, where half of what the simulated one is below 1 is wanted",
                slow / fast,
                f64::midpoint(1.0, of_slow / of_fast),
                "",
            ),
            because: FREE,
        },
        Found {
            claim: "E3",
            finding: Finding::at_least(
                "mean window from 0.4 s after the first loss over that before, where half of what the simulated \
                 one is above 1 is wanted",
                after / before,
                f64::midpoint(1.0, ours.step),
                "",
            ),
            because: FREE,
        },
        Found {
            claim: "E5",
            finding: Finding::all([
                Finding::is(
                    "until the first loss ssthresh is infinite",
                    with.course
                        .between(narrows::Duration::ZERO, until)
                        .all(|turn| turn.ssthresh.is_none()),
                ),
                Finding::is(
                    format!(
                        "from 0.4 s after it it is finite at all times, at first {} segments",
                        threshold.map_or("infinitely many".to_owned(), |t| number(
                            t.get() as f64 / MSS,
                            ""
                        )),
                    ),
                    threshold.is_some() && settled().all(|turn| turn.ssthresh.is_some()),
                ),
                Finding::is(
                    format!(
                        "{} segments are sent again; without a loss {} are",
                        with.again, without.again
                    ),
                    with.again > 0 && without.again == 0,
                ),
            ]),
            because: TIMEOUT,
        },
        Found {
            claim: "E6",
            finding: Finding::at_least(
                "a second connection whose peer is remembered over one whose peer is forgotten, where half of \
                 what the simulated one is above 1 is wanted",
                remembered / forgotten,
                f64::midpoint(1.0, of_remembered / of_forgotten),
                "",
            ),
            because: FREE,
        },
        Found {
            claim: "E8",
            finding: Finding::is(
                format!(
                    "without a loss the window came down {} times ({:.0} simulated), {} of them at the instant \
                     at which the TAP refused a frame",
                    falls.all, ours.falls, falls.at_refusal
                ),
                falls.all as f64 >= ours.falls / 4.0 && falls.at_refusal == falls.all,
            ),
            because: TIMEOUT,
        },
    ]
}

/// What a late sender does.
const FREE: &str = "a sender that waits for a processor finds its buffers free, and is refused less often; it \
    sends less meanwhile, too";
/// What else lowers a window.
const TIMEOUT: &str = "a host that waits for a processor for longer than an RTO has a timeout, which lowers the \
    window, sets ssthresh and sends again, and a sender that waits is refused less often";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;
    use narrows_lab::refusing::{Course, Falls, Turn};

    fn run(goodput: f64, falls: [u64; 2], again: u64, turns: &[(u64, u64, u64)]) -> RefusingRun {
        let turn = |(ms, cwnd, ssthresh): &(u64, u64, u64)| Turn {
            at: narrows::Duration::from_millis(*ms),
            cwnd: ByteCount::new(*cwnd),
            ssthresh: (*ssthresh > 0).then(|| ByteCount::new(*ssthresh)),
        };
        RefusingRun {
            goodput,
            refused: falls[0],
            again,
            falls: Falls {
                all: falls[0],
                at_refusal: falls[1],
            },
            course: Course(turns.iter().map(turn).collect()),
        }
    }

    fn judged(ours: &Ours) -> Vec<(&'static str, Judged)> {
        let found = found(ours).into_iter();
        found.map(|f| (f.claim, f.finding.judged)).collect()
    }

    #[test]
    fn a_cure_that_is_none_differs() {
        let cured = [
            (100, 10_000, 0),
            (1_010, 40_000, 20_000),
            (1_900, 41_000, 20_000),
        ];
        let ours = Ours {
            simulated: [8e6, 14e6, 8e6, 14e6],
            live: [8e6, 14e6, 8e6, 14e6],
            falls: 100.0,
            step: 3.0,
            slow: run(8e6, [90, 90], 0, &[]),
            fast: run(14e6, [2, 2], 4, &cured),
        };
        use Judged::{Differs, Holds};
        let all = |of| ["E1", "E3", "E5", "E6", "E8"].map(|claim| (claim, of));
        assert_eq!(judged(&ours), all(Holds));
        let reset = [(100, 10_000, 0), (1_010, 10_000, 0), (1_900, 9_000, 0)];
        let not = Ours {
            live: [8e6; 4],
            slow: run(8e6, [90, 89], 0, &[]),
            fast: run(8e6, [2, 2], 4, &reset),
            ..ours
        };
        assert_eq!(judged(&not), all(Differs));
    }
}
