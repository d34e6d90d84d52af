//! `enobufs`: a send that the NIC refuses resets the window, and no packet is lost.

#[cfg(target_os = "linux")]
mod live;
mod sawtooth;

use crate::grid::Column;
use crate::judge::Finding;
use crate::played::{Answer, NoAnswer, Played, Scenery, Waited, column, missing, series_of};
use crate::scene::{Keys, Scene};
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_experiment::probe;
use narrows_report::chart::{Axis, Band, Chart, Draw, Role, Series};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "enobufs",
    about: "A refused send resets the window of a storage server, to a fifth of its speed.",
    scenes: &[
        Scene::new("answers", "enobufs")
            .sharing(&[WINDOW])
            .usually(&[("run.duration", "1s"), ("run.warm_up", "700ms")]),
        Scene::new("course", "enobufs")
            .sharing(&[WINDOW])
            .with(&[
                ("probe.ledger.kind", "ledger"),
                ("sweep.answer", "reset,minus-segment"),
                ("sweep.toggle", "300ms,100s"),
                ("run.duration", "1s"),
                ("run.warm_up", "0s"),
            ])
            .keeping_outcomes(),
        Scene::new("nothing-lost", "enobufs").with(&[
            ("answer", "reset"),
            ("toggle", "300ms"),
            ("change.0.what", "set"),
            ("change.0.nic.gro", "off"),
            ("change.0.for", "off"),
            ("change.0.every", "off"),
            ("run.duration", "1s"),
            ("run.warm_up", "700ms"),
        ]),
        Scene::new("mtu", "enobufs")
            .sharing(&[WINDOW, UNCURED])
            .with(&[("answer", "reset"), ("sweep.mtu", "1500,9000")])
            .keeping_outcomes(),
        Scene::new("moments", "enobufs")
            .sharing(&[WINDOW, UNCURED])
            .with(&[
                ("sweep.answer", "reset,minus-segment"),
                ("buffers", "off"),
                ("sweep.group.h1.nic.refuse", "0.5%,1%,2%"),
                ("sweep.group.h1.nic.refuse_for", "10us,32us"),
            ])
            .keeping_outcomes(),
        Scene::new("every second", "enobufs")
            .sharing(&[WINDOW, UNCURED])
            .with(&[
                ("answer", "reset"),
                ("buffers", "off"),
                ("group.h1.nic.refuse", "1%"),
                ("group.h1.nic.refuse_for", "10us"),
                ("group.h0.nic.rx_frames", "2"),
            ]),
        Scene::new("second", "enobufs").with(&[
            ("answer", "reset"),
            ("toggle", "300ms"),
            ("change.0.every", "off"),
            ("traffic.read.size", "250MB"),
            ("traffic.read.close", "on"),
            ("traffic.again.kind", "bulk"),
            ("traffic.again.from", "h1"),
            ("traffic.again.to", "h0"),
            ("traffic.again.start", "1s"),
            ("sweep.host.tcp.metrics_cache", "off,100s"),
            ("run.duration", "1400ms"),
            ("run.warm_up", "1s"),
        ])
        .keeping_outcomes(),
    ],
    tables: &[
        Table::points(
            "What the TCP answers to a refusal, and whether a loss came before",
            "answers",
            &[
                Column::new("goodput", "goodput"),
                Column::new("refused", "refused.buffers"),
                Column::new("in a row", "refused.in_a_row"),
                Column::new("resends", "retransmits"),
                Column::new("timeouts", "timeouts"),
            ],
        ),
        Table::points(
            "With large packets",
            "mtu",
            &[
                Column::new("goodput", "goodput"),
                Column::new("refused", "refused.buffers"),
            ],
        ),
        Table::points(
            "With buffers that are missing at moments",
            "moments",
            &[
                Column::new("goodput", "goodput"),
                Column::new("refused", "refused.buffers"),
                Column::new("in a row", "refused.in_a_row"),
            ],
        ),
        Table::points(
            "A second connection, after one that had its loss and was closed",
            "second",
            &[
                Column::new("goodput", "again.goodput"),
                Column::new("refused", "refused.buffers"),
            ],
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("E1", slow_is_less_than_half),
        Row::new("E2", sawtooth::large_packets_do_not_help),
        Row::new("E3", a_lost_ring_cures),
        Row::new("E4", sawtooth::the_window_goes_from_one_segment_up_and_back),
        Row::new("E5", the_loss_sets_the_threshold),
        Row::new("E6", the_threshold_is_inherited),
        Row::new("E7", sawtooth::without_a_loss_the_window_doubles),
        Row::new("E8", sawtooth::each_reset_is_a_refusal),
        Row::new("E9", sawtooth::moments_do_the_same),
        Row::new("E10", a_segment_less_is_faster),
        Row::new("E11", the_next_try_succeeds).because(
            "the text assumes it, and does not know why there is no buffer (E12). Where a dozen are used up it \
             is so for who resets its window, which waits for acknowledgements, a round trip of 200 us, before \
             it tries again. In moments without a buffer it is so only for who waits longer than they last, and \
             both times are ours: with one segment less the next try is at once, and with a window that is reset \
             each frame's time where nothing is under way",
        ),
        Row::new("E12", sawtooth::the_window_tells_the_mode),
        Row::new("E13", the_ledger_names_refusals),
    ],
    figures: &[Figure::first(figure), Figure::named("cure", cure)],
    next: &[
        Next::new(
            "narrows run enobufs --sweep answer=reset,minus-segment --sweep buffers=12,24,64,256",
            "two answers by how many buffers there are",
        ),
        Next::new(
            "narrows keys refuse",
            "what can refuse a send, and what TCP can answer",
        ),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

/// What lowers the sender's window, and how that grows.
const WINDOW: Keys = &[("probe.window.kind", "window"), ("probe.window.on", "h1")];
/// A short run in which nobody toggles.
const UNCURED: Keys = &[
    ("toggle", "100s"),
    ("run.duration", "600ms"),
    ("run.warm_up", "300ms"),
];

const SLOW: [(&str, &str); 2] = [("answer", "reset"), ("toggle", "100s")];
const FAST: [(&str, &str); 2] = [("answer", "reset"), ("toggle", "300ms")];
const MINUS: [(&str, &str); 2] = [("answer", "minus-segment"), ("toggle", "100s")];

fn goodput(played: &Played, at: &[(&str, &str)]) -> Answer<f64> {
    played.scene("answers")?.value(at, "goodput")
}

fn phenomenon(played: &Played) -> Answer<String> {
    let megabytes = |at| Ok::<_, NoAnswer>(goodput(played, at)? / 8e6);
    let refused = played.scene("answers")?.value(&SLOW, "refused.buffers")?;
    Ok(format!(
        "{:.0} MB/s instead of {:.0}, without a packet lost: {refused:.0} refused sends have reset \
         the window; one real loss cures it, and an answer of one segment less ({:.0} MB/s) needs none.",
        megabytes(&SLOW)?,
        megabytes(&FAST)?,
        megabytes(&MINUS)?,
    ))
}

fn slow_is_less_than_half(played: &Played) -> Answer<Finding> {
    let share = goodput(played, &SLOW)? / goodput(played, &FAST)?;
    Ok(Finding::at_most("slow over fast", share, 0.5, ""))
}

/// When, window and threshold of the flow.
fn course(scene: &Scenery, toggle: &str) -> Answer<Vec<(f64, f64, f64)>> {
    course_at(scene, &[("answer", "reset"), ("toggle", toggle)])
}

/// The same where keys have these values.
fn course_at(scene: &Scenery, at: &[(&str, &str)]) -> Answer<Vec<(f64, f64, f64)>> {
    let series = scene.series(at, "flow")?;
    let column = |name: &str| column(series, name);
    let (time, cwnd, ssthresh) = (
        column("time_ns")?,
        column("cwnd_bytes")?,
        column("ssthresh_bytes")?,
    );
    let rows = series.rows.iter().filter_map(|row| {
        Some((
            row[time]?,
            row[cwnd]?,
            row[ssthresh].unwrap_or(f64::INFINITY),
        ))
    });
    Ok(rows.collect())
}

/// The same in milliseconds of the run.
fn between(course: &[(f64, f64, f64)], from: f64, to: f64) -> Vec<(f64, f64, f64)> {
    let within = |(t, ..): &&(f64, f64, f64)| (from * 1e6..to * 1e6).contains(t);
    course.iter().filter(within).copied().collect()
}

fn mean_window(course: &[(f64, f64, f64)]) -> f64 {
    course.iter().map(|(_, cwnd, _)| cwnd).sum::<f64>() / course.len().max(1) as f64
}

fn a_lost_ring_cures(played: &Played) -> Answer<Finding> {
    let course = course(played.scene("course")?, "300ms")?;
    let (before, after) = (
        mean_window(&between(&course, 100.0, 300.0)),
        mean_window(&between(&course, 700.0, 1_000.0)),
    );
    let scene = played.scene("nothing-lost")?;
    let set = scene.value(&[], "goodput")? / goodput(played, &FAST)?;
    let merged = scene.value(&[], "frames_per_aggregate")?;
    Ok(Finding::all([
        Finding::at_least(
            "mean window 0.4 s after receive offload is toggled, which loses the ring for 10 ms, over that before",
            after / before,
            2.0,
            "",
        ),
        Finding::at_most(
            &format!(
                "goodput where offload is turned off then and no ring is lost ({} frames an aggregate), over that \
                 of the toggle",
                number(merged, "")
            ),
            set,
            0.5,
            "",
        ),
    ]))
}

/// Segments of 1460 bytes.
const MSS: f64 = 1_460.0;

fn the_loss_sets_the_threshold(played: &Played) -> Answer<Finding> {
    let course = course(played.scene("course")?, "300ms")?;
    let after = between(&course, 700.0, 1_000.0);
    let finite = after
        .iter()
        .filter(|p| p.2.is_finite() && p.2 < 1e9)
        .count();
    let threshold = after.first().map_or(f64::INFINITY, |p| p.2 / MSS);
    let before = between(&course, 0.0, 300.0);
    let none = before.iter().all(|p| p.2.is_infinite());
    let resends = |at: &[(&str, &str)]| played.scene("course")?.value(at, "retransmits");
    let (lost, not) = (resends(&FAST)?, resends(&SLOW)?);
    Ok(Finding::all([
        Finding::is("until the toggle ssthresh is infinite", none),
        Finding::is(
            format!("after it {threshold:.0} segments, at all times"),
            finite == after.len() && finite > 0,
        ),
        Finding::is(
            format!("for {lost:.0} segments that are sent again; without a toggle {not:.0} are"),
            lost > 0.0 && not == 0.0,
        ),
    ]))
}

/// How many sends begin a moment without a buffer.
const BEGUN_BY: [&str; 3] = ["0.5%", "1%", "2%"];
/// How long moments are on the mean: eight frames on the wire, and what ixgbe's interrupts, which give
/// buffers back, are apart at the least (31,250 a second).
const LENGTHS: [&str; 2] = ["10us", "32us"];

/// Moments without a buffer: the answer to them, how many sends begin them, and how long they are.
const fn moments(
    answer: &'static str,
    begun_by: &'static str,
    long: &'static str,
) -> [(&'static str, &'static str); 3] {
    [
        ("answer", answer),
        ("group.h1.nic.refuse", begun_by),
        ("group.h1.nic.refuse_for", long),
    ]
}

fn the_ledger_names_refusals(played: &Played) -> Answer<Finding> {
    let course = played.scene("course")?;
    let slow = course.ledger(&SLOW)?;
    let cause = narrows_explain::Cause::LocalDrop.name();
    let refusals = slow.iter().find(|waited| waited.cause == cause);
    let Waited { gaps, ms, .. } = refusals.ok_or_else(|| missing("refusal in the ledger"))?;
    let sum = |all: &[Waited]| all.iter().fold(0.0, |sum, waited| sum + waited.ms);
    let (all, cured) = (sum(&slow), sum(&course.ledger(&MINUS)?));
    let measured = course.measured();
    let of_measured = ms * 1e6 / measured * 100.0;
    let measured = number(measured, "ns");
    let scene = played.scene("answers")?;
    let others = [
        ("drops", "drops of ports"),
        ("drops.link", "losses on links"),
        ("drops.ring", "drops of rings"),
        ("pauses", "pause frames"),
        ("retransmits", "resends"),
        ("timeouts", "timeouts"),
        ("marks", "marks"),
    ];
    let mut none = true;
    for (metric, _) in others {
        none &= scene.value(&SLOW, metric)? == 0.0;
    }
    let names = others.map(|(_, name)| name).join(", ");
    Ok(Finding::all([
        Finding::at_least(
            &format!(
                "the ledger of {measured} has {all:.0} ms of waiting, {ms:.0} of them {gaps:.0} gaps for what its \
                 own host refused: percent of what is waited for"
            ),
            ms / all * 100.0,
            95.0,
            "",
        ),
        Finding::at_least(&format!("percent of the {measured}"), of_measured, 50.0, ""),
        Finding::at_most(
            "in ms, of waiting with the answer that needs no cure",
            cured,
            // A hundredth of that.
            ms / 100.0,
            "",
        ),
        Finding::is(format!("the run counts no {names}"), none),
    ]))
}

fn a_segment_less_is_faster(played: &Played) -> Answer<Finding> {
    let share = goodput(played, &MINUS)? / goodput(played, &FAST)?;
    Ok(Finding::at_least(
        "minus a segment over fast",
        share,
        1.05,
        "",
    ))
}

fn the_threshold_is_inherited(played: &Played) -> Answer<Finding> {
    let scene = played.scene("second")?;
    let of = |cache| scene.value(&[("host.tcp.metrics_cache", cache)], "again.goodput");
    let (with, without) = (of("100s")? / 8e6, of("off")? / 8e6);
    let cache = |value| [("host.tcp.metrics_cache", value)];
    let (left, begun) = thresholds(scene, &cache("100s"))?;
    let (_, forgotten) = thresholds(scene, &cache("off"))?;
    let segments = |threshold: Option<f64>| match threshold {
        Some(bytes) => format!("{} segments", number(bytes / MSS, "")),
        None => "none".to_owned(),
    };
    Ok(Finding::all([
        Finding::is(
            format!(
                "a second connection has {with:.0} MB/s with the metrics cache, {without:.0} MB/s where \
                 it was cleared"
            ),
            with >= 2.0 * without,
        ),
        Finding::is(
            format!(
                "the first leaves an ssthresh of {}, the second begins with {}, and where it was cleared {}",
                segments(left),
                segments(begun),
                segments(forgotten)
            ),
            left.is_some() && left == begun && forgotten.is_none(),
        ),
    ]))
}

/// The last threshold of the first connection, and the first of the second.
fn thresholds(scene: &Scenery, at: &[(&str, &str)]) -> Answer<(Option<f64>, Option<f64>)> {
    let run = scene.run(at)?;
    let all: Vec<&probe::Series> = series_of(run, "flow").collect();
    let [first, second] = all[..] else {
        return Err(missing("course of two connections"));
    };
    let threshold = "ssthresh_bytes";
    let (of_first, of_second) = (column(first, threshold)?, column(second, threshold)?);
    let last = first.rows.last().and_then(|row| row[of_first]);
    let begun = second.rows.first().and_then(|row| row[of_second]);
    Ok((last, begun))
}

fn the_next_try_succeeds(played: &Played) -> Answer<Finding> {
    let percent = |scene: &str, at: &[(&str, &str)]| -> Answer<f64> {
        let value = |metric| played.scene(scene)?.value(at, metric);
        Ok(value("refused.in_a_row")? / value("refused.buffers")? * 100.0)
    };
    let mut findings = Vec::new();
    for (answer, in_words, used_up) in [
        ("reset", "a window that is reset", SLOW),
        ("minus-segment", "one segment less", MINUS),
    ] {
        findings.push(Finding::at_most(
            &format!(
                "percent of refusals right after another one, with {in_words} where a dozen buffers are used up"
            ),
            percent("answers", &used_up)?,
            1.0,
            "",
        ));
        for long in LENGTHS {
            for begun_by in BEGUN_BY {
                findings.push(Finding::at_most(
                    &format!("in moments of {long} that {begun_by} of sends begin"),
                    percent("moments", &moments(answer, begun_by, long))?,
                    10.0,
                    "",
                ));
            }
        }
    }
    Ok(Finding::all(findings))
}

/// A course as a line in the figure, in segments.
fn line(name: &str, group: usize, course: &[(f64, f64, f64)]) -> Series {
    Series {
        name: name.to_owned(),
        group,
        draw: Draw::Line,
        points: course.iter().map(|(t, w, _)| (t / 1e6, w / MSS)).collect(),
        ..Series::default()
    }
}

/// The threshold of a course where it has one, as a broken line.
fn threshold(name: &str, group: usize, course: &[(f64, f64, f64)]) -> Series {
    let finite = course.iter().filter(|(.., ssthresh)| ssthresh.is_finite());
    Series {
        name: name.to_owned(),
        group,
        draw: Draw::Line,
        role: Role::Reference,
        points: finite.map(|(t, _, s)| (t / 1e6, s / MSS)).collect(),
        ..Series::default()
    }
}

/// A chart of windows in segments over time.
fn windows(title: &str, series: Vec<Series>) -> Chart {
    Chart {
        title: title.to_owned(),
        x: Axis {
            label: "Time (ms)".to_owned(),
            ..Axis::default()
        },
        y: Axis {
            label: "Congestion window (segments)".to_owned(),
            ..Axis::default()
        },
        series,
        ..Chart::default()
    }
}

fn figure(played: &Played) -> Answer<Chart> {
    let scene = played.scene("course")?;
    let course = |at| Ok::<_, NoAnswer>(between(&course_at(scene, at)?, 550.0, 600.0));
    let fast = course(&FAST)?;
    let series = vec![
        line("reset", 0, &course(&SLOW)?),
        line("reset, after a loss", 1, &fast),
        threshold("its ssthresh; the others have none", 1, &fast),
        line("a segment less", 2, &course(&MINUS)?),
    ];
    Ok(windows("The window of a sender whose NIC refuses", series))
}

/// The loss that cures: window and threshold around it.
fn cure(played: &Played) -> Answer<Chart> {
    let course = between(&course(played.scene("course")?, "300ms")?, 250.0, 650.0);
    let series = vec![
        line("window", 0, &course),
        threshold("ssthresh; none before", 0, &course),
    ];
    Ok(Chart {
        bands: vec![Band {
            from: 300.0,
            to: 310.0,
            label: "the receiver's ring is lost".to_owned(),
            group: 1,
        }],
        ..windows("Window and threshold around the loss that cures", series)
    })
}
