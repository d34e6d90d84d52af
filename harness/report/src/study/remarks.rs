//! What can be said of runs in sentences.

use super::collapse::{MOST_NAMED, collapse};
use super::differences::{Differences, differences};
use crate::points;
use narrows::ByteCount;
use narrows::congestion::{EcnNeed, FlowStart};
use narrows_experiment::plan::Plan;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::spec::EcnUse;
use narrows_experiment::summary::{Holds, Summary, Verdict};

/// How many runs a plan has, and what they are of.
pub fn runs_in_words(plan: &Plan) -> String {
    let runs = plan.runs();
    match (plan.points(), plan.base().run.repetitions) {
        (1, 1) => "One run".to_owned(),
        (1, _) => format!("{runs} runs, which differ in their seed alone"),
        (_, 1) => format!("{runs} runs, one at each point of the sweep"),
        (points, each) => format!("{runs} runs: {points} points of the sweep, {each} at each"),
    }
}

/// What can be said in words of runs whose table is shown: what differs, and what was asked for and
/// did not come.
pub fn said(summary: &Summary<'_>, registry: &Registry) -> Vec<String> {
    remarks(summary, registry, &differences(summary, registry))
}

pub(super) fn remarks(
    summary: &Summary<'_>,
    registry: &Registry,
    differences: &Differences,
) -> Vec<String> {
    let mut all: Vec<String> = unmeasured(summary).into_iter().collect();
    all.extend(opening(summary));
    all.extend(unmarked(summary, registry));
    all.extend(collapse(summary, registry));
    all.extend(differences.summary.clone());
    all
}

/// Where connections were not open yet when the measuring began or ended.
fn opening(summary: &Summary<'_>) -> Vec<String> {
    let plan = summary.plan();
    let sentence = |(column, when): (&str, &str)| {
        let mean = |p| summary.estimate(p, column).map_or(0.0, |e| e.mean);
        let points = (0..plan.points()).filter(|p| mean(*p) > 0.0);
        let most = points
            .clone()
            .max_by(|a, b| mean(*a).total_cmp(&mean(*b)))?;
        let of = match plan.points() {
            1 => String::new(),
            all => format!(" at {} of {all} points", points.count()),
        };
        let at = match plan.label(most) {
            label if label.is_empty() => String::new(),
            label => format!(" with {label}"),
        };
        let count = points::number(mean(most), "");
        Some(format!(
            "When the {when}, connections were still opening{of}, at most {count}{at}: what they \
             would have carried is in no number."
        ))
    };
    let times = [("opening.begin", "warm-up ended"), ("opening", "run ended")];
    times.into_iter().filter_map(sentence).collect()
}

/// Points in a sentence: ` with A; B and at 3 more points`; nothing if there is one of all.
fn places(summary: &Summary<'_>, points: &[usize]) -> String {
    let names: Vec<String> = points
        .iter()
        .take(MOST_NAMED)
        .map(|p| summary.plan().label(*p))
        .filter(|label| !label.is_empty())
        .collect();
    let at = match names.join("; ") {
        names if names.is_empty() => String::new(),
        names => format!(" with {names}"),
    };
    let more = match points.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        1 => " and at one more point".to_owned(),
        n => format!(" and at {n} more points"),
    };
    at + &more
}

/// Where all was over before the warm-up was.
fn unmeasured(summary: &Summary<'_>) -> Option<String> {
    let over = |point: &usize| {
        let measured = summary.estimate(*point, "measured_ns");
        measured.is_some_and(|e| e.mean == 0.0)
    };
    let points: Vec<usize> = (0..summary.plan().points()).filter(over).collect();
    let warm_up = summary.plan().base().run.warm_up;
    (!points.is_empty()).then(|| {
        format!(
            "All was over before the warm-up of {warm_up}, and nothing is counted{}: give a shorter \
             run.warm_up.",
            places(summary, &points)
        )
    })
}

/// Where connections negotiate ECN, packets were dropped, and none was marked.
fn unmarked(summary: &Summary<'_>, registry: &Registry) -> Option<String> {
    let plan = summary.plan();
    let none = |point, name| summary.estimate(point, name).is_some_and(|e| e.mean == 0.0);
    let asks = |point| {
        let tcp = plan.at(point, registry).ok()?.host.tcp;
        let congestion = registry.congestion.get(&tcp.congestion).ok()?;
        let segment = ByteCount::new(1_460);
        let need = congestion.build(&FlowStart::new(segment, segment)).needs();
        Some(tcp.ecn == EcnUse::Classic || need.ecn != EcnNeed::Configured)
    };
    let points: Vec<usize> = (0..plan.points())
        .filter(|p| none(*p, "marks") && !none(*p, "drops") && asks(*p) == Some(true))
        .collect();
    (!points.is_empty()).then(|| {
        format!(
            "Where ECN was asked for, packets were dropped and none was marked{}: what lowers \
             the window there is loss alone.",
            places(summary, &points)
        )
    })
}

/// What can be said of what was measured, and no more.
pub(super) fn sentences(summary: &Summary<'_>, verdicts: &[Verdict]) -> Vec<String> {
    let plan = summary.plan();
    let done: usize = (0..plan.points()).map(|p| summary.runs(p).len()).sum();
    let mut all = vec![match (done, plan.runs()) {
        (done, runs) if done < runs => {
            format!("Partial: {done} of {runs} runs. What is missing is in no figure and no mean.")
        }
        _ => format!("{}.", runs_in_words(plan)),
    }];
    let unwell = (0..plan.points())
        .flat_map(|p| summary.runs(p).iter())
        .filter(|r| r.outcome != "completed")
        .count();
    all.extend(match (unwell, done) {
        (0, _) => None,
        (1, 1) => Some("It did not complete what it was to do; the table says why.".to_owned()),
        _ => Some(format!(
            "{unwell} of them did not complete what they were to do; the table says which."
        )),
    });
    let unmet = verdicts.iter().filter(|v| v.holds != Holds::Yes).count();
    if !verdicts.is_empty() {
        all.push(match (unmet, verdicts.len()) {
            (0, 1) => "What is expected holds.".to_owned(),
            (_, 1) => "What is expected does not hold.".to_owned(),
            (0, n) => format!("All {n} expectations hold."),
            (1, n) => format!("One of {n} expectations does not hold."),
            (unmet, n) => format!("{unmet} of {n} expectations do not hold."),
        });
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_experiment::model::Experiment;

    #[test]
    fn runs_are_counted_as_one_would_say_it() {
        let registry = Registry::default();
        for (servers, repetitions, words) in [
            ("8", 1, "One run"),
            ("8", 3, "3 runs, which differ in their seed alone"),
            ("8,16", 1, "2 runs, one at each point of the sweep"),
            ("8,16", 3, "6 runs: 2 points of the sweep, 3 at each"),
        ] {
            let incast = Experiment::shipped(&registry, "incast")
                .set("servers", 8)
                .build();
            let mut incast = incast.unwrap();
            let values = servers.split(',').map(str::to_owned).collect();
            incast.sweep.clear();
            incast.vary("servers", values).unwrap();
            incast.run.repetitions = repetitions;
            let plan = Plan::new(&incast, &registry).unwrap();
            assert_eq!(runs_in_words(&plan), words);
        }
    }
}
