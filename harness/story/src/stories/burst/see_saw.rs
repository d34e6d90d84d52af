//! The see-saw: what nodes send each second where writers wait for each other.

use super::scenes::LINE;
use crate::grid::Grid;
use crate::judge::Finding;
use crate::played::{Answer, NoAnswer, Played, missing, series_of};
use narrows_experiment::run::RunOutcome;
use narrows_report::points::number;

/// Seventeen seconds of the text, in Mb/s.
const TEXT: [f64; 17] = [
    916.0, 951.0, 952.0, 491.0, 415.0, 267.0, 269.0, 191.0, 8.0, 246.0, 246.0, 194.0, 699.0, 952.0,
    951.0, 949.0, 396.0,
];
/// Looks a second.
const TENTHS: usize = 10;

/// Scenes: the set-up, and the same with timestamps; a mesh with ports of 64 KiB at 560 Mb/s; queries and copies.
const USUAL: &str = "see-saw";
const TIMESTAMPS: &str = "timestamps";
const EQUAL: &str = "equal-replies";
const COPIES: &str = "copies";

/// Of each run, of each of its nodes the rates at which it sent, by tenths of a second.
fn by_run(played: &Played, scene: &str) -> Answer<Vec<Vec<Vec<f64>>>> {
    let runs = played.scene(scene)?.outcomes(&[])?;
    match runs.is_empty() {
        true => Err(missing("run")),
        false => runs.iter().map(|run| tenths_of(run)).collect(),
    }
}

/// The same of all runs.
fn tenths(played: &Played, scene: &str) -> Answer<Vec<Vec<f64>>> {
    Ok(by_run(played, scene)?.concat())
}

fn tenths_of(run: &RunOutcome) -> Answer<Vec<Vec<f64>>> {
    let nodes: Vec<Vec<f64>> = series_of(run, "out")
        .map(|s| {
            let rates = s.rows.iter();
            let rates = rates.filter_map(|row| row.get(1).copied().flatten());
            rates.collect()
        })
        .collect();
    match nodes.is_empty() {
        true => Err(missing("rate of a node")),
        false => Ok(nodes),
    }
}

/// What somebody sees who looks each second, and begins at a tenth.
fn seconds(node: &[f64], from: usize) -> Vec<f64> {
    let whole = node.get(from..).unwrap_or_default().chunks_exact(TENTHS);
    whole
        .map(|tenths| tenths.iter().sum::<f64>() / tenths.len() as f64)
        .collect()
}

/// What each would see who looks at a node each second, from each tenth on.
fn watched(nodes: &[Vec<f64>]) -> impl Iterator<Item = Vec<f64>> {
    let from = |node| (0..TENTHS).map(move |tenth| seconds(node, tenth));
    nodes.iter().flat_map(move |node: &Vec<f64>| from(node))
}

/// A second of almost nothing, and three below half of the line behind it.
fn is_lost(w: &[f64]) -> bool {
    w.len() >= 4 && w[0] < 0.02 * LINE && w[1..4].iter().all(|r| *r < LINE / 2.0)
}

/// The course with the least second that is lost, of those whose seconds begin with the run before
/// others; without any, that with the least second.
fn lowest(nodes: &[Vec<f64>]) -> Option<Vec<f64>> {
    let least = |course: &Vec<f64>| course.iter().copied().fold(LINE, f64::min);
    let own: Vec<_> = nodes.iter().map(|node| seconds(node, 0)).collect();
    let lost = |all: Vec<Vec<f64>>| -> Vec<_> {
        let all = all.into_iter();
        all.filter(|course| has_a_lost_second(course)).collect()
    };
    let candidates = [lost(own.clone()), lost(watched(nodes).collect()), own];
    let all = candidates.into_iter().find(|all| !all.is_empty())?;
    all.into_iter().min_by(|a, b| least(a).total_cmp(&least(b)))
}

/// Where the seconds of nodes lie.
struct Modes {
    mean: f64,
    /// Percent of them below 300 Mb/s, between, and from 600 Mb/s on.
    low: f64,
    middle: f64,
    high: f64,
}

impl Modes {
    fn of(nodes: &[Vec<f64>]) -> Self {
        let rates: Vec<f64> = nodes.iter().flat_map(|node| seconds(node, 0)).collect();
        let share = |of: &dyn Fn(f64) -> bool| {
            rates.iter().filter(|r| of(**r)).count() as f64 / rates.len() as f64 * 100.0
        };
        let (low, high) = (share(&|r| r < 300e6), share(&|r| r >= 600e6));
        Self {
            mean: rates.iter().sum::<f64>() / rates.len() as f64,
            low,
            middle: 100.0 - low - high,
            high,
        }
    }

    fn are_two(&self) -> bool {
        self.middle < self.low && self.middle < self.high
    }

    fn number(&self) -> &'static str {
        if self.are_two() {
            "two modes"
        } else {
            "one mode"
        }
    }

    fn words(&self) -> String {
        let Self {
            mean,
            low,
            middle,
            high,
        } = self;
        format!(
            "nodes send {} on the mean; of their seconds {low:.0} % are below 300 Mb/s, {middle:.0} % \
             between, {high:.0} % from 600 Mb/s on",
            number(*mean, "bit/s")
        )
    }
}

/// Why one run does not tell.
pub(super) const TAKES: &str = "(`narrows story burst --full`). Copies of 600 MB take seconds each, so that of 24 s \
    and 20 nodes a run has some 50: in one of four the upper mode is the oftener";

pub(super) fn two_modes(played: &Played) -> Answer<Finding> {
    let runs = by_run(played, COPIES)?;
    let copies = Modes::of(&runs.concat());
    let two = runs.iter().filter(|run| Modes::of(run).are_two()).count();
    let equal = Modes::of(&tenths(played, EQUAL)?);
    let usual = Modes::of(&tenths(played, USUAL)?);
    Ok(Finding::is(
        format!(
            "queries at 200 Mb/s and copies of 600 MB at 350, which take seconds each: {} (wanted two), in {two} \
             of {} runs: {} (wanted more than half of the line, and most below 300). The copies are chosen, as in \
             M8: without, in a mesh of equal replies of 1 MB, {}: {}; in that of M13 {}: {}",
            copies.number(),
            runs.len(),
            copies.words(),
            equal.number(),
            equal.words(),
            usual.number(),
            usual.words(),
        ),
        copies.are_two() && copies.low > copies.high && copies.mean > LINE / 2.0,
    ))
}

fn has_a_lost_second(course: &[f64]) -> bool {
    course.windows(4).any(is_lost)
}

/// Nodes with a lost second, if seconds begin with the run.
fn losers(nodes: &[Vec<f64>]) -> usize {
    let lost = |node: &&Vec<f64>| has_a_lost_second(&seconds(node, 0));
    nodes.iter().filter(lost).count()
}

/// Courses with one, if seconds begin at any tenth.
fn losers_at_any_tenth(nodes: &[Vec<f64>]) -> usize {
    watched(nodes).filter(|c| has_a_lost_second(c)).count()
}

/// Of so many courses one at least is to have a lost second, so that the row does not hang on one of them. The
/// text has one course; how many there were it does not tell.
const ONE_OF: usize = 12;

pub(super) fn one_second_is_lost(played: &Played) -> Answer<Finding> {
    let runs = by_run(played, USUAL)?;
    let nodes = runs.concat();
    let course = lowest(&nodes).ok_or_else(|| missing("second of a node"))?;
    let words: Vec<String> = course.iter().map(|r| format!("{:.0}", r / 1e6)).collect();
    let at_once = losers(&nodes);
    let with = runs.iter().filter(|run| losers(run) > 0).count();
    let own: Vec<f64> = nodes.iter().flat_map(|node| seconds(node, 0)).collect();
    let least = own.iter().copied().fold(LINE, f64::min);
    let count = |rates: &[f64], of: &dyn Fn(f64) -> bool| rates.iter().filter(|r| of(**r)).count();
    let is_full = |rate: f64| rate > 900e6;
    let seconds_of_all = own.len();
    let equal = tenths(played, EQUAL)?;
    Ok(Finding::is(
        format!(
            "of {} courses of 18 s, a node's each, whose seconds begin with the run, {at_once} have such a \
             second (wanted one in {ONE_OF} at least, which is ours){}, and {}: {}; the least of all \
             is {}. Where seconds begin at any tenth, {} of {} have one. The connections have neither SACK \
             nor timestamps, which is chosen, since the text does not tell{}. Through ports of 64 KiB, asked for \
             560 Mb/s, {} of {}. Only the lost second is the text's: it has 7 of 17 seconds above 900 Mb/s, the \
             course here {} of {}, and at the most {}; all courses have {} of {seconds_of_all}, and {} of them below \
             half of the line anyway, so that the 3 s after it say little",
            nodes.len(),
            one_in(at_once, nodes.len()),
            runs_with_one(with, runs.len()),
            words.join(" "),
            number(least, "bit/s"),
            losers_at_any_tenth(&nodes),
            nodes.len() * TENTHS,
            with_timestamps(played)?,
            losers(&equal),
            equal.len(),
            count(&course, &is_full),
            course.len(),
            number(course.iter().copied().fold(0.0, f64::max), "bit/s"),
            count(&own, &is_full),
            count(&own, &|rate| rate < LINE / 2.0),
        ),
        at_once * ONE_OF >= nodes.len(),
    ))
}

/// In how many runs it is, in words.
fn runs_with_one(with: usize, all: usize) -> String {
    match with {
        0 => format!("none of the {all} runs of 12 nodes has one"),
        _ if with == all => format!("each of the {all} runs of 12 nodes has one"),
        _ => format!("{with} of the {all} runs of 12 nodes have one"),
    }
}

/// How seldom that is, in words; nothing where it never is.
fn one_in(some: usize, all: usize) -> String {
    let one = all.checked_div(some);
    one.map_or_else(String::new, |one| format!(", one in some {one}"))
}

/// What the same runs give with timestamps, in words.
fn with_timestamps(played: &Played) -> Answer<String> {
    let nodes = match tenths(played, TIMESTAMPS) {
        Err(NoAnswer::NeedsFull) => {
            return Ok(
                ": `narrows story burst --full` counts those of three runs with timestamps".into(),
            );
        }
        nodes => nodes?,
    };
    Ok(format!(
        ": with timestamps {} of {} have such a second, and at any tenth {} of {}",
        losers(&nodes),
        nodes.len(),
        losers_at_any_tenth(&nodes),
        nodes.len() * TENTHS
    ))
}

/// Seventeen seconds of the text beside those of the node that loses the most of one.
pub(super) fn table(played: &Played) -> Answer<Grid> {
    let nodes = tenths(played, USUAL)?;
    let course = lowest(&nodes).ok_or_else(|| missing("second of a node"))?;
    let mut grid = Grid::new(["second", "the text, Mb/s", "ours, Mb/s"], 0);
    for (at, (text, ours)) in TEXT.iter().zip(&course).enumerate() {
        let cells = [at as f64 + 1.0, *text, ours / 1e6];
        let cells = cells.map(|cell| format!("{cell:.0}"));
        grid.rows.push(cells.to_vec());
    }
    Ok(grid)
}
