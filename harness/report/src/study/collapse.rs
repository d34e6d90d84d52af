//! Where goodput breaks down along the x axis, in words that hold for what was measured.

use crate::points;
use narrows_experiment::model::quoted;
use narrows_experiment::registry::Registry;
use narrows_experiment::summary::Summary;

/// Most points that a sentence names.
pub(super) const MOST_NAMED: usize = 3;

/// Goodput below this share of the best without loss is a collapse.
const SHARE: f64 = 0.5;

/// The goodput of a line of the figure at one value of the x axis.
struct At {
    /// Which value.
    nth: usize,
    goodput: f64,
    /// Nothing was dropped or lost, and no timer ran out.
    whole: bool,
}

/// The points that differ in the value of the x axis alone.
struct Line {
    /// The values of the others.
    name: String,
    points: Vec<At>,
}

/// A sentence on where goodput is less than half of the best that was measured without loss, along
/// the x axis, and where it never is; nothing where it is not shown, the axis has no numbers, or it
/// never is.
pub(super) fn collapse(summary: &Summary<'_>, registry: &Registry) -> Option<String> {
    let base = summary.plan().base();
    let shown = points::shown(summary, registry);
    shown.iter().find(|(name, _)| name == "goodput")?;
    let first = || base.sweep.first().map(|axis| axis.key.clone());
    let x = base.show.x.clone().or_else(first)?;
    let at = base.sweep.iter().position(|axis| axis.key == x)?;
    let values = &base.sweep[at].values;
    let digits = |v: &String| v.starts_with(|c: char| c.is_ascii_digit());
    if values.len() < 2 || !values.iter().all(digits) {
        return None;
    }
    let lines = lines(summary, at);
    let anywhere = best(lines.iter().flat_map(|line| &line.points))?;
    let title = base.title_of(registry, &x);
    let counted = x.starts_with("group.") && x == format!("group.{}.size", quoted(&title));
    let value = |nth: usize| match counted {
        true => format!("{} {title}", values[nth]),
        false => format!("{title} {}", values[nth]),
    };
    let (mut places, mut nowhere): (Vec<(String, Vec<String>)>, _) = (Vec::new(), Vec::new());
    for line in &lines {
        let least = SHARE * best(&line.points).unwrap_or(anywhere);
        let below = |p: &&At| !p.whole && p.goodput < least;
        let low: Vec<usize> = line.points.iter().filter(below).map(|p| p.nth).collect();
        let Some(place) = place(&low, &line.points, &value) else {
            nowhere.push(line.name.clone());
            continue;
        };
        match places.iter_mut().find(|(known, _)| *known == place) {
            Some((_, names)) => names.push(line.name.clone()),
            None => places.push((place, vec![line.name.clone()])),
        }
    }
    if places.is_empty() {
        return None;
    }
    let with = |names: &[String]| match named(names) {
        all if all.is_empty() => String::new(),
        all => format!(" with {all}"),
    };
    let places = places
        .iter()
        .map(|(place, names)| format!("{place}{}", with(names)));
    let places: Vec<String> = places.collect();
    let nowhere = match nowhere.is_empty() {
        true => String::new(),
        false => format!("; nowhere{}", with(&nowhere)),
    };
    Some(format!(
        "Mean goodput is less than half of the best that was measured without loss: {}{nowhere}.",
        places.join("; ")
    ))
}

/// The best goodput without loss.
fn best<'a>(points: impl IntoIterator<Item = &'a At>) -> Option<f64> {
    let whole = points.into_iter().filter(|p| p.whole);
    whole.map(|p| p.goodput).reduce(f64::max)
}

/// `from 8 servers on`, for the values of the axis that are `low`, of those that were measured.
fn place(low: &[usize], points: &[At], value: &dyn Fn(usize) -> String) -> Option<String> {
    let (first, last) = (*low.first()?, *low.last()?);
    let all: Vec<usize> = points.iter().map(|p| p.nth).collect();
    let together = all.iter().filter(|n| (first..=last).contains(n)).count() == low.len();
    let (begins, ends) = (all.first() == Some(&first), all.last() == Some(&last));
    Some(match (together, begins, ends) {
        (true, true, true) => "everywhere".to_owned(),
        (_, _, _) if low.len() == 1 => format!("at {}", value(first)),
        (true, false, true) => format!("from {} on", value(first)),
        (true, true, false) => format!("up to {}", value(last)),
        _ => {
            let values: Vec<String> = low.iter().map(|n| value(*n)).collect();
            format!("at {}", named(&values))
        }
    })
}

/// `a, b and c`; of many the first and how many more.
fn named(names: &[String]) -> String {
    let shown = &names[..names.len().min(MOST_NAMED)];
    match (shown, names.len() - shown.len()) {
        ([all @ .., last], 0) if !all.is_empty() => format!("{} and {last}", all.join(", ")),
        (shown, 0) => shown.concat(),
        (shown, more) => format!("{} and {more} more", shown.join(", ")),
    }
}

/// The lines of the figure over the axis `at`.
fn lines(summary: &Summary<'_>, at: usize) -> Vec<Line> {
    let plan = summary.plan();
    let mut lines: Vec<Line> = Vec::new();
    for point in 0..plan.points() {
        let values = plan.values(point);
        let axis = &plan.base().sweep[at].values;
        let nth = axis.iter().position(|v| v == values[at]);
        let mean = |name: &str| summary.estimate(point, name).map(|e| e.mean);
        let (Some(nth), Some(goodput)) = (nth, mean("goodput_bps")) else {
            continue;
        };
        let others = values.iter().enumerate().filter(|(n, _)| *n != at);
        let name = others.map(|(_, v)| *v).collect::<Vec<_>>().join(" / ");
        let none = |name| mean(name).is_none_or(|mean| mean == 0.0);
        let here = At {
            nth,
            goodput,
            whole: none("drops") && none("drops.link") && none("timeouts"),
        };
        match lines.iter_mut().find(|line| line.name == name) {
            Some(line) => line.points.push(here),
            None => lines.push(Line {
                name,
                points: vec![here],
            }),
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_say_what_was_measured_and_no_more() {
        let points: Vec<At> = [0, 1, 2, 4]
            .map(|nth| At {
                nth,
                goodput: 1.0,
                whole: false,
            })
            .into();
        let value = |n: usize| format!("{n} servers");
        for (low, says) in [
            (&[][..], None),
            (&[0, 1, 2, 4], Some("everywhere")),
            (&[2, 4], Some("from 2 servers on")),
            (&[4], Some("at 4 servers")),
            (&[0], Some("at 0 servers")),
            (&[0, 1], Some("up to 1 servers")),
            (&[1, 2], Some("at 1 servers and 2 servers")),
            (&[0, 4], Some("at 0 servers and 4 servers")),
        ] {
            assert_eq!(place(low, &points, &value).as_deref(), says, "{low:?}");
        }
    }

    #[test]
    fn names_in_a_sentence_are_few() {
        let names = |n: usize| -> Vec<String> { (1..=n).map(|n| n.to_string()).collect() };
        let all = [0, 1, 2, 3, 5].map(|n| named(&names(n)));
        assert_eq!(
            all,
            ["", "1", "1 and 2", "1, 2 and 3", "1, 2, 3 and 2 more"]
        );
    }
}
