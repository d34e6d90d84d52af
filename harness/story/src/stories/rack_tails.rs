//! `rack tails`: a receiver that forgets an acknowledgement, and calls that wait for timers.

use crate::judge::Finding;
use crate::stage::{Played, Told, missing};
use crate::story::{Column, Live, Row, Scene, Story, Table};
use narrows_experiment::run::RunOutcome;
use narrows_report::chart::{Axis, Chart, Draw, Rule, RuleAt, Scale, Series};

/// The story.
pub const STORY: Story = Story {
    name: "rack tails",
    about: "A DCTCP receiver that forgets an ACK gives tails of 40 and 200 ms.",
    scenes: &[Scene::new("tails", "rack-tails").keeping_outcomes()],
    tables: &[Table::points(
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
    )],
    phenomenon,
    rows: &[
        Row::new("D14", tails_have_quanta),
        Row::new("D15", a_lost_acknowledgement_is_a_timeout),
        Row::new("D16", a_window_of_one_meets_the_delayed_ack),
        Row::new("D17", the_patches_cure),
    ],
    figure: Some(figure),
    next: &["narrows run rack-tails"],
    live: Live::Open("our DCTCP on namespaces, with the receiver of 2015 and that of today"),
};

const DCTCP: &str = "dctcp:floor=1";

/// The second traffic: calls of 10 kB.
const SMALL: u16 = 1;

/// The times of calls of 10 kB, in ms.
fn calls(played: &Played, congestion: &str, receiver: &str) -> Told<Vec<f64>> {
    let at = [("congestion", congestion), ("receiver", receiver)];
    let runs = played.scene("tails")?.outcomes(&at)?;
    let of = |run: &&RunOutcome| -> Vec<f64> {
        let small = run.transfers.iter().filter(|t| t.traffic == SMALL);
        let measured = small.filter(|t| t.began >= run.measured_from);
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

/// Calls that met a delayed acknowledgement, or a timeout, and nothing else.
const DELAYED: (f64, f64) = (38.0, 55.0);
const TIMEOUT: (f64, f64) = (185.0, 260.0);

fn phenomenon(played: &Played) -> Told<String> {
    let tails = played.scene("tails")?;
    let p999 = |receiver| -> Told<f64> {
        let at = [("congestion", DCTCP), ("receiver", receiver)];
        Ok(tails.value(&at, "small.latency.p999")? / 1e6)
    };
    let (old, today) = (p999("linux-2015")?, p999("linux")?);
    Ok(format!(
        "With the DCTCP receiver of 2015 one call of 10 kB in a thousand takes {old:.1} ms or more, \
         with that of today {today:.2} ms."
    ))
}

fn tails_have_quanta(played: &Played) -> Told<Finding> {
    let tails = played.scene("tails")?;
    let old = calls(played, DCTCP, "linux-2015")?;
    let p99 = |congestion, receiver| -> Told<f64> {
        let at = [("congestion", congestion), ("receiver", receiver)];
        Ok(tails.value(&at, "small.latency.p99")? / 1e6)
    };
    let (fixed, cubic) = (p99(DCTCP, "linux")?, p99("cubic", "linux")?);
    Ok(Finding::all([
        Finding::is(
            format!(
                "receiver of 2015: {:.3} % of calls take 38 to 55 ms, {:.3} % 185 to 260 ms",
                share(&old, DELAYED),
                share(&old, TIMEOUT)
            ),
            share(&old, DELAYED) > 0.0 && share(&old, TIMEOUT) > 0.0,
        ),
        Finding::is(
            format!("10 kB p99 today {fixed:.3} ms, CUBIC {cubic:.3} ms"),
            fixed < cubic,
        ),
    ]))
}

fn a_lost_acknowledgement_is_a_timeout(played: &Played) -> Told<Finding> {
    let tails = played.scene("tails")?;
    let at = |metric| tails.value(&[("congestion", DCTCP), ("receiver", "linux-2015")], metric);
    let (timeouts, drops) = (at("timeouts")?, at("drops")?);
    Ok(Finding::is(
        format!("{timeouts:.0} timeouts and {drops:.0} drops with the receiver of 2015"),
        timeouts > 0.0 && drops == 0.0,
    ))
}

fn a_window_of_one_meets_the_delayed_ack(played: &Played) -> Told<Finding> {
    let (rfc, today) = (
        calls(played, DCTCP, "rfc8257")?,
        calls(played, DCTCP, "linux")?,
    );
    let (waits, cured) = (share(&rfc, DELAYED), share(&today, DELAYED));
    Ok(Finding::is(
        format!(
            "{waits:.3} % of calls wait for the delayed ACK of a window of one where CWR is not \
             acknowledged at once, {cured:.3} % where it is"
        ),
        waits > 0.0 && cured < waits,
    ))
}

fn the_patches_cure(played: &Played) -> Told<Finding> {
    let (old, today) = (
        calls(played, DCTCP, "linux-2015")?,
        calls(played, DCTCP, "linux")?,
    );
    let late = (38.0, f64::INFINITY);
    Ok(Finding::is(
        format!(
            "{:.3} % of calls take more than 38 ms with the receiver of 2015, {:.3} % with that of today",
            share(&old, late),
            share(&today, late)
        ),
        // The text has no number; its p99.9 of calls with the fix is far below either quantum.
        share(&old, late) > 0.1 && share(&today, late) * 10.0 <= share(&old, late),
    ))
}

/// The share of calls that take longer, over time.
fn figure(played: &Played) -> Told<Chart> {
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
