//! What marks do to a receiver's merging and to its processor: claims D23 and D24.

use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, Played, Scenery};
use crate::scene::Scene;
use narrows_experiment::run::RunOutcome;
use narrows_report::chart::{Axis, Chart, Series};
use narrows_report::points::number;

/// Shares of packets that are marked.
const SHARES: &str = "0%,5%,10%,25%,50%,75%,90%,95%,100%";

/// Marks drawn packet by packet.
pub(super) const DRAWN: Scene = Scene::new("drawn", "gro-marks")
    .with(&[("sweep.marked", SHARES)])
    .usually(&[("run.duration", "20ms")])
    .keeping_outcomes();

/// A mark on every second packet.
pub(super) const ALTERNATING: Scene = Scene::new("alternating", "gro-marks")
    .with(&[("marked", "0%"), ("each", "2")])
    .usually(&[("run.duration", "20ms")])
    .keeping_outcomes();

/// What a receiver did, a poll with data.
pub(super) struct Poll {
    /// Frames with data.
    pub(super) frames: f64,
    /// What they were merged to.
    pub(super) aggregates: f64,
    /// ACKs that it sent, over those for aggregates of a run without marks: what the sender got.
    acks: f64,
    /// Load of the busiest core, in percent.
    cpu: f64,
}

pub(super) fn poll(scene: &Scenery, at: &[(&str, &str)]) -> Answer<Poll> {
    let runs = scene.outcomes(at)?;
    let work = |run: &&RunOutcome, host: usize| run.hosts.get(host).and_then(|h| h.work);
    let sum = |host: usize, of: &dyn Fn(&narrows_experiment::net::nic::HostStats) -> u64| -> f64 {
        let all = runs.iter().filter_map(|run| work(run, host));
        all.map(|w| of(&w) as f64).sum()
    };
    // The receiver gets data only, so that each of its polls has some.
    let polls = sum(0, &|w| w.polls);
    Ok(Poll {
        frames: sum(0, &|w| w.data_frames) / polls,
        aggregates: sum(0, &|w| w.aggregates) / polls,
        acks: sum(0, &|w| w.aggregates) / sum(0, &|w| w.data_frames),
        cpu: scene.value(at, "cpu")? * 100.0,
    })
}

/// Each share with what the receiver did.
fn polls(played: &Played) -> Answer<Vec<(f64, Poll)>> {
    let scene = played.scene("drawn")?;
    let each = SHARES.split(',').map(|text| {
        let percent: f64 = text.trim_end_matches('%').parse().unwrap_or(f64::NAN);
        Ok((percent / 100.0, poll(scene, &[("marked", text)])?))
    });
    each.collect()
}

/// Aggregates of a poll of `n` frames of one flow if each is marked with probability `m`: one more
/// for each neighbour that differs.
pub(super) fn expected(n: f64, m: f64) -> f64 {
    1.0 + 2.0 * m * (1.0 - m) * (n - 1.0)
}

pub(super) fn aggregates_are_as_expected(played: &Played) -> Answer<Finding> {
    let mut worst: (f64, f64) = (0.0, 0.0);
    for (m, poll) in polls(played)? {
        let wanted = expected(poll.frames, m);
        let off = (poll.aggregates / wanted - 1.0).abs() * 100.0;
        if off > worst.0 {
            worst = (off, m * 100.0);
        }
    }
    let alternating = poll(played.scene("alternating")?, &[])?;
    let half = poll(played.scene("drawn")?, &[("marked", "50%")])?;
    Ok(Finding::all([
        Finding::at_most(
            "percent that aggregates a poll are off 1 + 2m(1-m)(n-1), at the most",
            worst.0,
            5.0,
            "",
        ),
        Finding::near(
            "frames an aggregate with alternating marks",
            alternating.frames / alternating.aggregates,
            1.0,
            0.02,
            "",
        ),
        Finding::near(
            "with half of the packets marked at random",
            half.frames / half.aggregates,
            2.0,
            0.1,
            "",
        ),
    ]))
}

pub(super) fn processors_work_most_at_half(played: &Played) -> Answer<Finding> {
    let polls = polls(played)?;
    let peak = polls.iter().max_by(|a, b| a.1.cpu.total_cmp(&b.1.cpu));
    let peak = peak.map_or(0.0, |(m, _)| m * 100.0);
    let all: Vec<String> = polls
        .iter()
        .map(|(m, poll)| format!("{} %: {}", m * 100.0, number(poll.cpu.round(), "")))
        .collect();
    let rises = polls.iter().take_while(|(m, _)| *m <= 0.5);
    let falls = polls.iter().skip_while(|(m, _)| *m < 0.5);
    let so = rises.map(|(_, p)| p.cpu).is_sorted()
        && falls.map(|(_, p)| -p.cpu).is_sorted()
        && (25.0..=75.0).contains(&peak);
    Ok(Finding::is(
        format!(
            "load of the receiver's core in percent by packets marked: {}; the peak is at {peak} %",
            all.join(", ")
        ),
        so,
    ))
}

/// Frames, aggregates and load by share.
pub(super) fn table(played: &Played) -> Answer<Grid> {
    let head = [
        "packets marked",
        "frames a poll",
        "aggregates a poll",
        "1 + 2m(1-m)(n-1)",
        "frames an aggregate",
        "ACKs a segment",
        "load of the core",
    ];
    let row = |name: String, poll: &Poll, wanted: String| {
        vec![
            name,
            number(poll.frames, ""),
            number(poll.aggregates, ""),
            wanted,
            number(poll.frames / poll.aggregates, ""),
            number(poll.acks, ""),
            format!("{:.1} %", poll.cpu),
        ]
    };
    let mut rows: Vec<Vec<String>> = polls(played)?
        .iter()
        .map(|(m, poll)| {
            let wanted = number(expected(poll.frames, *m), "");
            row(format!("{} %", m * 100.0), poll, wanted)
        })
        .collect();
    let alternating = poll(played.scene("alternating")?, &[])?;
    rows.push(row("every second".to_owned(), &alternating, String::new()));
    Ok(Grid {
        head: head.map(str::to_owned).to_vec(),
        words: 1,
        rows,
    })
}

/// Load and ACKs by share.
pub(super) fn figure(played: &Played) -> Answer<Chart> {
    let polls = polls(played)?;
    let of = |name: &str, group: usize, of: &dyn Fn(&Poll) -> f64| Series {
        name: name.to_owned(),
        group,
        points: polls.iter().map(|(m, p)| (m * 100.0, of(p))).collect(),
        ..Series::default()
    };
    Ok(Chart {
        title: "A receiver's processor, by the share of packets that are marked".to_owned(),
        x: Axis {
            label: "Packets marked (%)".to_owned(),
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        y: Axis {
            label: "Percent".to_owned(),
            range: Some((0.0, 100.0)),
            ..Axis::default()
        },
        series: vec![
            of("load of the core", 0, &|poll| poll.cpu),
            of("ACKs per 100 segments", 1, &|poll| poll.acks * 100.0),
        ],
        ..Chart::default()
    })
}
