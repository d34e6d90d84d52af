//! `rack tails`: a receiver that forgets an acknowledgement, and calls that wait for timers.

#[cfg(target_os = "linux")]
mod live;
mod percentiles;
mod queues;

use crate::grid::Column;
use crate::judge::{Finding, median};
use crate::played::{Answer, NoAnswer, Played, Scenery, missing};
use crate::scene::Scene;
use crate::story::{Figure, Live, Next, Row, Story, Table};
use narrows_experiment::run::RunOutcome;
use narrows_report::chart::{Axis, Chart, Draw, Rule, RuleAt, Scale, Series};
use narrows_report::points::number;

/// The story.
pub const STORY: Story = Story {
    name: "rack tails",
    about: "A DCTCP receiver that forgets an ACK gives tails of 40 and 200 ms.",
    scenes: &[
        Scene::new("tails", "rack-tails").keeping_outcomes(),
        percentiles::SENDERS,
        queues::STANDING,
        queues::HALVING,
        queues::FRACTION,
        queues::BEGINNING,
        queues::ALL_MARKED,
    ],
    tables: &[
        Table::points(
            "Calls of 10 kB and of 1 MB, by congestion control and receiver",
            "tails",
            &[
                Column::new("10 kB median", "small.latency.p50"),
                Column::new("10 kB p99", "small.latency.p99"),
                Column::new("10 kB p99.9", "small.latency.p999"),
                Column::new("1 MB p99", "large.latency.p99"),
                Column::new("1 MB p99.9", "large.latency.p999"),
                Column::new("timeouts", "timeouts"),
                Column::new("drops", "drops"),
            ],
        ),
        Table::own(
            "What the text has, and ours of two hosts that send to a third, each a stream without an end and \
             one call of each size after the other, in ms",
            percentiles::table,
        ),
        Table::points(
            "Calls a second, marks, and what was sent again",
            "tails",
            &[
                Column::new("calls of 10 kB", "small.transfers_per_s"),
                Column::new("calls of 1 MB", "large.transfers_per_s"),
                Column::new("marks", "marks"),
                Column::new("sent again", "retransmits"),
            ],
        ),
        Table::points(
            "Three flows without an end: the queue of their port",
            "standing",
            &[
                Column::new("goodput", "goodput"),
                Column::new("mean queue, packets", "port.s0->h0.mean_packets"),
                Column::new("longest queue", "max_queue"),
                Column::new("drops", "drops"),
            ],
        ),
        Table::own(
            "Two flows by marking threshold: a mark halves the window, or DCTCP cuts it by alpha / 2",
            queues::table,
        ),
    ],
    phenomenon,
    rows: &[
        Row::new("D1", queues::loss_keeps_a_standing_queue),
        Row::new("D2", small_calls_are_penalised),
        Row::new("D3", queues::marks_keep_the_queue_at_the_threshold),
        Row::new("D4", queues::halving_leaves_the_line_idle),
        Row::new("D5", queues::the_cut_is_as_deep_as_the_marks_are_many),
        Row::new("D6", one_run_reports_all_of_it),
        Row::new("D14", percentiles::tails_have_quanta).because(percentiles::TIMEOUTS),
        Row::new("D15", a_lost_acknowledgement_is_a_timeout),
        Row::new("D16", a_window_of_one_meets_the_delayed_ack),
        Row::new("D17", the_patches_cure),
        Row::new("D25", small_calls_get_more_of_the_bytes),
    ],
    figures: &[Figure::first(figure), Figure::named("alpha", queues::alpha)],
    next: &[
        Next::new(
            "narrows run rack-tails",
            "the experiment, with all percentiles",
        ),
        Next::new(
            "narrows run rack-tails --set network.hosts=3 --set traffic.large.clients=h1..h2 --set traffic.small.clients=h1..h2 --set traffic.large.connections=1 --set traffic.small.connections=1 --set traffic.small.request=10KiB --set traffic.stream.kind=bulk --set traffic.stream.from=h1..h2 --set traffic.stream.to=h0 --set host.tcp.prr=linux-4.3 --sweep congestion=cubic,dctcp -r 3 --set run.duration=3s",
            "D14's senders; with host.tcp.prr=on no call begins with one segment for a mark before, and \
             the receiver of 2015 has no tail",
        ),
        Next::new("narrows keys dctcp_receiver", "the receivers"),
    ],
    #[cfg(target_os = "linux")]
    live: Live::Twin(live::TWIN),
    #[cfg(not(target_os = "linux"))]
    live: Live::Cannot("it takes Linux's network namespaces"),
};

const DCTCP: &str = "dctcp:floor=1";

/// The first traffic: calls of 1 MB.
#[cfg(target_os = "linux")]
const LARGE: u16 = 0;
/// The second traffic: calls of 10 kB.
const SMALL: u16 = 1;

/// The times of calls of 10 kB, in ms.
fn calls(played: &Played, congestion: &str, receiver: &str) -> Answer<Vec<f64>> {
    let at = [("congestion", congestion), ("receiver", receiver)];
    calls_in(played.scene("tails")?, &at, SMALL)
}

/// The times of calls of a traffic, in ms.
fn calls_in(scene: &Scenery, at: &[(&str, &str)], traffic: u16) -> Answer<Vec<f64>> {
    let runs = scene.outcomes(at)?;
    let of = |run: &&RunOutcome| -> Vec<f64> {
        let calls = run.transfers.iter().filter(|t| t.traffic == traffic);
        let measured = calls.filter(|t| t.began >= run.measured_from);
        measured.map(|t| t.took.as_nanos() as f64 / 1e6).collect()
    };
    let times: Vec<f64> = runs.iter().flat_map(of).collect();
    if times.is_empty() {
        return Err(missing("call"));
    }
    Ok(times)
}

fn share(times: &[f64], (from, to): (f64, f64)) -> f64 {
    let within = times.iter().filter(|t| (from..to).contains(*t)).count();
    within as f64 / times.len() as f64 * 100.0
}

/// The least that a timeout takes, in ms.
const RTO: f64 = 200.0;
/// Calls that waited for a timer.
const LATE: (f64, f64) = (38.0, f64::INFINITY);
/// D16's: how much longer than the median call takes one that waited for a delayed acknowledgement, and
/// for nothing else, in ms.
const WAIT: (f64, f64) = (39.0, 41.0);

fn phenomenon(played: &Played) -> Answer<String> {
    let tails = played.scene("tails")?;
    let p999 = |receiver| -> Answer<f64> {
        let at = [("congestion", DCTCP), ("receiver", receiver)];
        Ok(tails.value(&at, "small.latency.p999")? / 1e6)
    };
    let (old, today) = (p999("linux-2015")?, p999("linux")?);
    Ok(format!(
        "With the DCTCP receiver of 2015 one call of 10 kB in a thousand takes {old:.1} ms or more, \
         with that of today {today:.2} ms."
    ))
}

fn a_lost_acknowledgement_is_a_timeout(played: &Played) -> Answer<Finding> {
    let tails = played.scene("tails")?;
    let at = |metric| tails.value(&[("congestion", DCTCP), ("receiver", "linux-2015")], metric);
    let (timeouts, drops) = (at("timeouts")?, at("drops")?);
    let waits = |receiver| -> Answer<usize> {
        let times = calls(played, DCTCP, receiver)?;
        Ok(times.iter().filter(|ms| **ms >= RTO).count())
    };
    let (old, today) = (waits("linux-2015")?, waits("linux")?);
    Ok(Finding::is(
        format!(
            "{timeouts:.0} timeouts and {drops:.0} drops with the receiver of 2015; {old} calls of 10 kB take {RTO} \
             ms or more, {today} with that of today"
        ),
        timeouts > 0.0 && drops == 0.0 && old > 0 && today == 0,
    ))
}

fn a_window_of_one_meets_the_delayed_ack(played: &Played) -> Answer<Finding> {
    let (rfc, today) = (
        calls(played, DCTCP, "rfc8257")?,
        calls(played, DCTCP, "linux")?,
    );
    // Beyond the undisturbed call, which the median is.
    let waiting = |times: &[f64]| -> Answer<f64> {
        let usual = median(times).ok_or_else(|| missing("call"))?;
        Ok(share(times, (usual + WAIT.0, usual + WAIT.1)))
    };
    let (waits, cured) = (waiting(&rfc)?, waiting(&today)?);
    Ok(Finding::is(
        format!(
            "{waits:.3} % of calls take {} to {} ms more than the median one, for the delayed ACK of a \
             window of one, where CWR is not acknowledged at once, {cured:.3} % where it is",
            WAIT.0, WAIT.1
        ),
        waits > 0.1 && cured * 2.0 <= waits,
    ))
}

fn the_patches_cure(played: &Played) -> Answer<Finding> {
    let (old, today) = (
        calls(played, DCTCP, "linux-2015")?,
        calls(played, DCTCP, "linux")?,
    );
    Ok(Finding::is(
        format!(
            "{:.3} % of calls take more than 38 ms with the receiver of 2015, {:.3} % with that of today",
            share(&old, LATE),
            share(&today, LATE)
        ),
        // The text has no number; its p99.9 of calls with the fix is far below either quantum.
        share(&old, LATE) > 0.1 && share(&today, LATE) * 10.0 <= share(&old, LATE),
    ))
}

/// How many times larger p99 of small calls is with CUBIC than with DCTCP, at the least: ours. The text has
/// 7.5 (1.1 ms, .146), and .45 of calls of 1 MB (2.6, 5.8).
const PENALTY: f64 = 2.0;

fn small_calls_are_penalised(played: &Played) -> Answer<Finding> {
    let tails = played.scene("tails")?;
    let p99 = |congestion: &str, size: &str| -> Answer<f64> {
        let at = [("congestion", congestion), ("receiver", "linux")];
        Ok(tails.value(&at, &format!("{size}.latency.p99"))? / 1e6)
    };
    let both = |size: &str| Ok::<_, NoAnswer>((p99("cubic", size)?, p99(DCTCP, size)?));
    let (small, large) = (both("small")?, both("large")?);
    let times = |(cubic, dctcp): (f64, f64)| cubic / dctcp;
    Ok(Finding::all([
        Finding::at_least(
            "p99 of calls of 10 kB with CUBIC over that with DCTCP",
            times(small),
            PENALTY,
            "",
        )
        .and_words(format_args!(
            ", {:.2} ms and {:.2}; the text 7.5; the {PENALTY} are ours",
            small.0, small.1
        )),
        Finding::is(
            format!(
                "of 1 MB {:.2}, {:.1} ms and {:.1} (wanted less than that of 10 kB; the text .45)",
                times(large),
                large.0,
                large.1
            ),
            times(large) < times(small),
        ),
    ]))
}

/// Payload of a full segment, with timestamps, and the bytes that it takes on the wire.
const SEGMENT: [f64; 2] = [1_448.0, 1_538.0];

/// A report whose numbers, of which each is counted by itself, are those of one run.
fn one_run_reports_all_of_it(played: &Played) -> Answer<Finding> {
    let tails = played.scene("tails")?;
    let at = |metric: &str| tails.value(&[("congestion", DCTCP), ("receiver", "linux")], metric);
    let (mut calls, mut asked) = (0.0, 0.0);
    let mut sorted = true;
    for (size, bytes) in [("small", 10e3), ("large", 1e6)] {
        let rate = at(&format!("{size}.transfers_per_s"))?;
        calls += rate;
        asked += rate * bytes * 8.0;
        let all = ["p50", "p99", "p999"].map(|which| at(&format!("{size}.latency.{which}")));
        let all: Vec<f64> = all.into_iter().collect::<Answer<_>>()?;
        sorted &= all[0] > 0.0 && all.is_sorted();
    }
    let goodput = at("goodput")?;
    let line = 25e9 * SEGMENT[0] / SEGMENT[1];
    let (marks, segments) = (at("marks")?, at("segments")?);
    Ok(Finding::all([
        Finding::near(
            "in the report of one run (`narrows run rack-tails`) goodput, which is of replies, against calls of 100 \
             bytes",
            goodput,
            calls * 800.0,
            0.02,
            "bit/s",
        ),
        Finding::near(
            "requests by calls against how busy the port is",
            asked,
            at("utilisation")? * line,
            0.03,
            "bit/s",
        ),
        Finding::is("percentiles of both sizes rise", sorted),
        Finding::is(
            format!(
                "{marks:.0} marks of {segments:.0} segments, {:.0} drops, {:.0} sent again and {:.0} timeouts \
                 (wanted marks, fewer than segments, and nothing sent again of what was not dropped)",
                at("drops")?,
                at("retransmits")?,
                at("timeouts")?
            ),
            marks > 0.0 && marks < segments && (at("drops")? > 0.0) == (at("retransmits")? > 0.0),
        ),
        Finding::is(
            format!(
                "longest queue {} (wanted from K on, 65 packets)",
                number(at("max_queue")?, "bytes")
            ),
            at("max_queue")? >= 65.0 * SEGMENT[0],
        ),
    ]))
}

fn small_calls_get_more_of_the_bytes(played: &Played) -> Answer<Finding> {
    let tails = played.scene("tails")?;
    let share = |congestion| -> Answer<f64> {
        let at = [("congestion", congestion), ("receiver", "linux")];
        let calls = |metric| tails.value(&at, metric);
        let small = calls("small.transfers_per_s")? * 10e3;
        Ok(small / (calls("large.transfers_per_s")? * 1e6) * 100.0)
    };
    let (cubic, dctcp) = (share("cubic")?, share(DCTCP)?);
    let off = |percent: f64| (percent / 100.0).ln().abs();
    Ok(Finding::is(
        format!(
            "as many connections with calls of 10 kB move {dctcp:.1} % of the bytes of those with \
             1 MB with DCTCP, {cubic:.1} % with CUBIC, where 100 is as much"
        ),
        off(dctcp) < off(cubic),
    ))
}

/// The share of calls that take longer, over time.
fn figure(played: &Played) -> Answer<Chart> {
    let mut series = Vec::new();
    let lines = [
        ("CUBIC", "cubic", "linux"),
        ("DCTCP, receiver of 2015", DCTCP, "linux-2015"),
        ("DCTCP, RFC 8257", DCTCP, "rfc8257"),
        ("DCTCP, receiver of today", DCTCP, "linux"),
    ];
    for (group, (name, congestion, receiver)) in lines.into_iter().enumerate() {
        let mut times = calls(played, congestion, receiver)?;
        times.sort_by(f64::total_cmp);
        let n = times.len() as f64;
        let points = times
            .into_iter()
            .zip(0..)
            .map(|(t, k)| (t, (n - f64::from(k)) / n * 100.0));
        series.push(Series {
            name: name.to_owned(),
            draw: Draw::Line,
            group,
            points: points.collect(),
            ..Series::default()
        });
    }
    Ok(Chart {
        title: "Share of calls that take longer, by congestion control and receiver".to_owned(),
        x: Axis {
            label: "Time of a call (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        y: Axis {
            label: "Calls that take longer (%)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        series,
        rules: vec![
            Rule {
                at: RuleAt::X(40.0),
                label: "40 ms".to_owned(),
            },
            Rule {
                at: RuleAt::X(200.0),
                label: "200 ms".to_owned(),
            },
        ],
        ..Chart::default()
    })
}
