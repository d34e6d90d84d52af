//! The twin of `enobufs` on this machine's kernel.

use super::sawtooth::counted;
use super::{MSS, WINDOW, between, course_at, mean_window, thresholds};
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::Played;
use crate::scene::{Keys, Scene};
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_lab::bulk::remembering::{RememberingSpec, Thresholds, remembering};
use narrows_lab::bulk::{LocalDropRun, LocalDropSpec, local_drop};
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
            and without what its host remembers of the peer: ours with a metrics cache and with none, and \
            the kernel's at its queue of a dozen packets, where it is the first refusal that sets a threshold, with \
            tcp_no_ssthresh_metrics_save = 0, and flushed (`ip tcp_metrics flush`). When the TAP refuses the TAP says, and what \
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
const SECOND: Scene = Scene::new("second", "enobufs")
    .sharing(&[FAR])
    .with(&[
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
    ])
    .keeping_outcomes();
/// Answers of ours, with the time of the first simulated loss.
const ANSWERS: [(&str, &str, &str); 3] = [
    ("reset, no loss", "reset", "100s"),
    ("reset, a loss each second", "reset", "1s"),
    ("a segment less, no loss", "minus-segment", "100s"),
];
/// Whether the second connection's host remembers, and the same simulated.
const MEMORIES: [(&str, bool, &str); 2] = [
    ("second, peer forgotten", false, "off"),
    ("second, peer remembered", true, "100s"),
];
/// What the first connection carries.
const BEFORE: ByteCount = ByteCount::new(3_000_000);
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
    let head = [
        "",
        "goodput",
        "refused a second",
        "sent again",
        "ssthresh left, got",
    ];
    let mut grid = Grid::new(head, 1);
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
            String::new(),
        ]);
    }
    for packets in [FEW, 1_000] {
        let run = local_drop(&queue(packets), stage.cancel).map_err(|e| e.to_string())?;
        let name = format!("live, Linux, a queue of {packets} packets");
        grid.rows.push(of_linux(name, &run, String::new()));
    }
    let mut linux = Vec::new();
    for (named, remembers, _) in MEMORIES {
        let spec = RememberingSpec {
            queue: queue(FEW),
            before: BEFORE,
            remembers,
        };
        let run = remembering(&spec, stage.cancel).map_err(|e| e.to_string())?;
        let name = format!("live, Linux, {FEW} packets, {named}");
        grid.rows
            .push(of_linux(name, &run.second, both(&run.thresholds)));
        linux.push(run.thresholds);
    }
    let ours = ours(stage, played, &mut grid)?;
    Ok(Seen {
        tables: vec![grid],
        notes: Vec::new(),
        found: found(&ours, &linux),
    })
}

/// Packets in the kernel's queue that refuses.
const FEW: u64 = 12;

fn queue(packets: u64) -> LocalDropSpec {
    LocalDropSpec {
        rate: Rate::from_mbps(100),
        limit: ByteCount::new(packets * 1_514),
        span: Duration::from_secs(2),
    }
}

/// A row of the kernel's.
fn of_linux(name: String, run: &LocalDropRun, thresholds: String) -> Vec<String> {
    vec![
        name,
        number(run.goodput, "bit/s"),
        number(run.refused as f64 / queue(FEW).span.as_secs_f64(), ""),
        number(run.again as f64, ""),
        thresholds,
    ]
}

fn segments(threshold: Option<f64>) -> String {
    threshold.map_or("none".to_owned(), |segments| number(segments, ""))
}

/// What the first connection left and the second began with.
fn both(thresholds: &Thresholds) -> String {
    let [left, begun] = [thresholds.left, thresholds.begun].map(|t| segments(t.map(f64::from)));
    format!("{left}, {begun}")
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
    /// Of second connections whose peer is forgotten, and remembered.
    thresholds: [Thresholds; 2],
}

fn ours(stage: &Stage<'_>, played: &Played, grid: &mut Grid) -> Result<Ours, String> {
    let mut row = |named: String, [goodput, refused, again]: [f64; 3], thresholds: String| {
        let cells = [(goodput, "bit/s"), (refused, ""), (again, "")];
        let cells = cells.map(|(value, unit)| number(value, unit));
        let cells = [named].into_iter().chain(cells);
        grid.rows.push(cells.chain([thresholds]).collect());
    };
    let mut ran = |named: &str, scene: &Scene, at: &[(&str, &str)], spec: RefusingSpec| {
        let told = played.scene(scene.name)?;
        let value = |metric| told.value(at, metric);
        let goodput = value("goodput")?;
        let seconds = spec.span.as_secs_f64();
        let (refused, again) = (value("refused.buffers")?, value("retransmits")?);
        let of_simulated = match spec.before {
            None => String::new(),
            Some(_) => {
                let (left, begun) = thresholds(told, at)?;
                let [left, begun] = [left, begun].map(|t| segments(t.map(|bytes| bytes / MSS)));
                format!("{left}, {begun}")
            }
        };
        row(
            format!("simulated, 25 ms, {named}"),
            [goodput, refused / seconds, again],
            of_simulated,
        );
        let run = refusing::run(&spec, stage.cancel).map_err(|e| e.to_string())?;
        let of_ours = match spec.before {
            None => String::new(),
            Some(_) => both(&run.thresholds),
        };
        row(
            format!("live, ours, 25 ms, {named}"),
            [run.goodput, run.refused as f64 / seconds, run.again as f64],
            of_ours,
        );
        Ok::<_, String>((goodput, run))
    };
    let mut runs = Vec::new();
    for (named, answer, toggle) in ANSWERS {
        let spec = RefusingSpec {
            losses: (toggle == "1s").then_some(TOGGLES),
            ..refused(stage, answer)?
        };
        runs.push(ran(
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
                size: BEFORE,
                remembers,
            }),
            warm_up: Duration::from_secs(1),
            span: Duration::from_secs(3),
            ..refused(stage, "reset")?
        };
        runs.push(ran(
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
        thresholds: [forgotten, remembered].map(|run| run.1.thresholds),
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
fn found(ours: &Ours, linux: &[Thresholds]) -> Vec<Found> {
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
            finding: Finding::all([
                Finding::at_least(
                    "a second connection whose peer is remembered over one whose peer is forgotten, where half of \
                     what the simulated one is above 1 is wanted",
                    remembered / forgotten,
                    f64::midpoint(1.0, of_remembered / of_forgotten),
                    "",
                ),
                inherited("ours", &ours.thresholds),
                inherited("Linux", linux),
            ]),
            because: INHERITED,
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

/// Whether a second connection begins with what the first left, and with nothing where the peer is forgotten.
fn inherited(whose: &str, thresholds: &[Thresholds]) -> Finding {
    let [forgotten, remembered] = thresholds else {
        return Finding::is(format!("of {whose} not seen"), false);
    };
    let [left, begun, without] = [remembered.left, remembered.begun, forgotten.begun]
        .map(|threshold| segments(threshold.map(f64::from)));
    let stored = match remembered.stored {
        Some(stored) => format!(", tcp_metrics has {stored}"),
        None => String::new(),
    };
    let kept = remembered.stored.or(remembered.left);
    Finding::is(
        format!(
            "of {whose} the first leaves an ssthresh of {left} segments{stored}, the second begins with {begun}, \
             and where the peer is forgotten with {without}"
        ),
        kept.is_some()
            && kept >= remembered.left
            && kept == remembered.begun
            && forgotten.left.is_some()
            && forgotten.begun.is_none(),
    )
}

/// What a late sender does.
const FREE: &str = "a sender that waits for a processor finds its buffers free, and is refused less often; it \
    sends less meanwhile, too";
/// What makes a second connection no faster, or leaves nothing to it.
const INHERITED: &str = "a sender that waits for a processor finds its buffers free, and is refused less often; a \
    flow of Linux's that is late may never be refused, and one that ends in slow start leaves no threshold";
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
            thresholds: Thresholds::default(),
        }
    }

    fn left(stored: Option<u32>, begun: Option<u32>) -> Thresholds {
        Thresholds {
            left: Some(7),
            stored,
            begun,
        }
    }

    fn judged(ours: &Ours) -> Vec<(&'static str, Judged)> {
        let linux = [left(None, None), left(Some(8), Some(8))];
        let found = found(ours, &linux).into_iter();
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
            thresholds: [left(None, None), left(None, Some(7))],
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

    #[test]
    fn a_threshold_is_inherited_only_if_it_is_what_was_left_and_gone_where_the_peer_is_forgotten() {
        let judged = |forgotten, remembered| inherited("", &[forgotten, remembered]).judged;
        let (without, none) = (left(None, None), Thresholds::default());
        assert_eq!(judged(without, left(None, Some(7))), Judged::Holds);
        assert_eq!(judged(without, left(Some(8), Some(8))), Judged::Holds);
        for (forgotten, remembered) in [
            (without, left(None, Some(6))),
            (without, left(None, None)),
            (without, left(Some(8), Some(7))),
            (without, left(Some(6), Some(6))),
            (without, none),
            (left(None, Some(7)), left(None, Some(7))),
            (none, left(None, Some(7))),
        ] {
            assert_eq!(judged(forgotten, remembered), Judged::Differs);
        }
        assert_eq!(inherited("", &[]).judged, Judged::Differs);
    }
}
