//! What happened, in sentences.
//!
//! A variant has **collapsed** at the smallest number of servers where something is lost and its
//! usual goodput, that of all blocks but the slowest tenth, is below half of the best it reaches
//! without loss. (One timeout of 200 ms in twenty blocks of 5 ms takes two thirds of the mean, but
//! is no collapse.) "Without loss" means points without drops and timeouts; a variant that has
//! none is compared with the best loss-free point of the sweep, and if there is none at all, with
//! the link rate.
//!
//! A sentence says what was measured: that collapse sets in somewhere takes a point below that has
//! not collapsed, and that a variant held takes every point of the sweep. A sweep of which not all
//! was run says so first.

use super::summary::{Point, Summary, VariantSummary};
use narrows_experiment::scenario::{Axis, SweepSpec};
use std::collections::{BTreeMap, BTreeSet};

/// Goodput below this share of the loss-free goodput is called collapse.
pub const COLLAPSE_SHARE: f64 = 0.5;

/// A sentence names no more than this: the variants of the default sweep.
pub(super) const MOST_NAMED: usize = 9;
/// Of more, it names so many and says how many others there are.
const SOME_NAMED: usize = 3;

/// Where each variant of a sweep collapses.
#[derive(Clone, Debug)]
pub struct Story {
    /// For each variant, the index of the first collapsed point, if any.
    pub onset: Vec<Option<usize>>,
    /// Sentences for people.
    pub sentences: Vec<String>,
}

impl Story {
    /// Read the story out of a summary of `sweep`.
    pub fn of(sweep: &SweepSpec, summary: &Summary) -> Self {
        let anywhere = best(summary.variants.iter().flat_map(|v| &v.points)).unwrap_or(1.0);
        let onset: Vec<Option<usize>> = summary
            .variants
            .iter()
            .map(|v| {
                let reference = best(&v.points).unwrap_or(anywhere);
                v.points
                    .iter()
                    .position(|p| !p.loss_free() && p.usual_share < COLLAPSE_SHARE * reference)
            })
            .collect();
        let mut sentences = Vec::new();
        if summary.finished < summary.planned {
            sentences.push(format!(
                "Only {} of {} runs were finished; this is what they say.",
                summary.finished, summary.planned
            ));
        }
        if summary.finished == 0 {
            sentences.push("No run was finished, so there is nothing to tell.".to_owned());
        } else {
            tell_collapse(sweep, summary, &onset, &mut sentences);
            tell_cures(sweep, summary, &onset, &mut sentences);
            tell_survivors(sweep, summary, &onset, &mut sentences);
            tell_unfinished(sweep, summary, &onset, &mut sentences);
        }
        tell_incomplete(summary, &mut sentences);
        Self { onset, sentences }
    }
}

/// What is known of where a collapse sets in.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Onset {
    /// At so many servers: the next fewer of the sweep have not collapsed, or there can be none.
    At(u32),
    /// Above the first number and no later than at the second; what is between was not run.
    Between(u32, u32),
    /// At so many servers or before: fewer were not run.
    By(u32),
}

impl Onset {
    /// That of `v`, whose point `index` is the first that has collapsed.
    fn of(sweep: &SweepSpec, v: &VariantSummary, index: usize) -> Self {
        let servers = v.points[index].servers;
        let next_fewer = sweep.servers.iter().rfind(|n| **n < servers);
        match index.checked_sub(1).map(|i| v.points[i].servers) {
            None if servers == 1 => Self::At(servers),
            None => Self::By(servers),
            Some(below) if next_fewer == Some(&below) => Self::At(servers),
            Some(below) => Self::Between(below, servers),
        }
    }

    /// `at 8 servers`.
    fn text(self) -> String {
        match self {
            Self::At(n) => format!("at {}", servers(n)),
            Self::Between(a, b) => format!("between {a} and {}", servers(b)),
            Self::By(n) => format!("at {} or before", servers(n)),
        }
    }

    const fn servers(self) -> u32 {
        match self {
            Self::At(n) | Self::Between(_, n) | Self::By(n) => n,
        }
    }
}

fn best<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<f64> {
    points
        .into_iter()
        .filter(|p| p.loss_free())
        .map(|p| p.share)
        .reduce(f64::max)
}

fn tell_collapse(
    sweep: &SweepSpec,
    summary: &Summary,
    onset: &[Option<usize>],
    out: &mut Vec<String>,
) {
    let collapsed: Vec<(&VariantSummary, usize)> = summary
        .variants
        .iter()
        .zip(onset)
        .filter_map(|(v, o)| o.map(|o| (v, o)))
        .collect();
    if collapsed.is_empty() {
        return;
    }
    let (mut known, mut seen) = (Grouped::new(), Grouped::new());
    for (v, o) in &collapsed {
        let onset = Onset::of(sweep, v, *o);
        let group = match onset {
            Onset::At(_) | Onset::Between(..) => &mut known,
            Onset::By(_) => &mut seen,
        };
        group.entry(onset).or_default().push(&v.variant.label);
    }
    let whole = Whole {
        variants: summary
            .variants
            .iter()
            .filter(|v| !v.points.is_empty())
            .count(),
        value: value_of_all(sweep, summary, onset),
    };
    let mut told = Vec::new();
    if !known.is_empty() {
        told.push(format!(
            "Incast collapse sets in {}.",
            wheres(&known, &whole)
        ));
    }
    if !seen.is_empty() {
        let n: Vec<u32> = seen.keys().map(|o| o.servers()).collect();
        let fewest = if n.len() == 1 {
            "which is"
        } else {
            "which are"
        };
        told.push(format!(
            "Incast has collapsed {}, {fewest} the fewest that were run: where it sets in is not \
             known.",
            at_fewest(&seen, &whole)
        ));
    }
    let mut text = told.join(" ");
    let points = || {
        collapsed
            .iter()
            .flat_map(|(v, _)| v.points.iter().map(move |p| (v, p)))
    };
    let worst = points().min_by(|a, b| a.1.share.total_cmp(&b.1.share));
    if let Some((v, p)) = worst {
        let why = match p.timeouts_per_block {
            Some(t) if t > 0.0 => format!(", with {} timeouts a block", short(t)),
            _ => String::new(),
        };
        let who = match points().count() {
            1 => "Goodput is".to_owned(),
            _ => format!(
                "The worst is {} with {}:",
                v.variant.label,
                servers(p.servers)
            ),
        };
        text += &format!(" {who} {} of the link{why}.", percent(p.share));
    }
    if best(summary.variants.iter().flat_map(|v| &v.points)).is_none() {
        text += " No run was without loss, so that the link is the measure of what collapsed.";
    }
    let early: Vec<String> = collapsed
        .iter()
        .filter_map(|(v, o)| Some((v, v.points[..*o].iter().find(|p| few_slow_blocks(p))?)))
        .map(|(v, p)| format!("{} from {} on", v.variant.label, servers(p.servers)))
        .collect();
    if !early.is_empty() {
        text += &format!(
            " Before that, a few slow blocks already take more than half of the mean goodput: {}.",
            named(&early)
        );
    }
    out.push(text);
}

/// Variants by where they collapse.
type Grouped<'a> = BTreeMap<Onset, Vec<&'a str>>;

/// All variants of which something is known.
struct Whole {
    variants: usize,
    /// The value that those and only those have which collapse.
    value: Option<String>,
}

/// Where collapse sets in: `at 8 servers for reno / linux; at 64 servers for dctcp / linux`.
fn wheres(known: &Grouped<'_>, whole: &Whole) -> String {
    let collapsed: usize = known.values().map(Vec::len).sum();
    if collapsed > MOST_NAMED {
        return many(known, collapsed, whole);
    }
    let at = |(onset, labels): (&Onset, &Vec<&str>)| at(*onset, &list(labels));
    known.iter().map(at).collect::<Vec<_>>().join("; ")
}

/// The same where the fewest servers have collapsed.
fn at_fewest(seen: &Grouped<'_>, whole: &Whole) -> String {
    let exact = seen
        .iter()
        .map(|(o, who)| (Onset::At(o.servers()), who.clone()));
    wheres(&exact.collect(), whole)
}

fn at(onset: Onset, who: &str) -> String {
    format!("{} for {who}", onset.text())
}

/// The value of the one axis that makes all those and only those collapse that have it.
fn value_of_all(sweep: &SweepSpec, summary: &Summary, onset: &[Option<usize>]) -> Option<String> {
    if summary.finished < summary.planned {
        return None;
    }
    let of_axis = |(a, axis): (usize, &Axis)| {
        let mut values = (0..axis.values.len()).filter(|value| {
            let has = |v: &VariantSummary| v.variant.picks[a] == *value;
            let pairs = summary.variants.iter().zip(onset);
            pairs.clone().all(|(v, o)| o.is_some() == has(v))
        });
        Some(axis.values[values.next()?].label())
    };
    sweep.axes.iter().enumerate().find_map(of_axis)
}

/// How many variants collapse, which they are if one value makes them so, and the first and the
/// last of them.
fn many(by_onset: &Grouped<'_>, collapsed: usize, whole: &Whole) -> String {
    let mut text = format!("for {collapsed} of {} variants", whole.variants);
    if let Some(value) = whole.value.as_ref().filter(|_| collapsed < whole.variants) {
        text += &format!(", all those with {value}");
    }
    let some = |labels: &[&str]| shortened(labels, SOME_NAMED, "and", "more");
    match (by_onset.first_key_value(), by_onset.last_key_value()) {
        (Some(first), Some(last)) if first.0 < last.0 => {
            let (first, last) = (at(*first.0, &some(first.1)), at(*last.0, &some(last.1)));
            text += &format!(": first {first}; last {last}");
        }
        (Some((onset, labels)), _) => text += &format!(", {}", at(*onset, &some(labels))),
        (None, _) => {}
    }
    text
}

/// The slowest tenth of the blocks takes more than half of the goodput.
fn few_slow_blocks(p: &Point) -> bool {
    p.share < COLLAPSE_SHARE * p.usual_share
}

/// Which single change makes a collapsed variant hold.
fn tell_cures(
    sweep: &SweepSpec,
    summary: &Summary,
    onset: &[Option<usize>],
    out: &mut Vec<String>,
) {
    // (axis, new value) -> the collapsed variants it cures, of those it could cure.
    let mut cured: BTreeMap<(usize, usize), (BTreeSet<usize>, usize)> = BTreeMap::new();
    for (i, v) in summary.variants.iter().enumerate() {
        if onset[i].is_none() {
            continue;
        }
        for (j, w) in summary.variants.iter().enumerate() {
            let differ: Vec<usize> = (0..sweep.axes.len())
                .filter(|&a| v.variant.picks[a] != w.variant.picks[a])
                .collect();
            if let [axis] = differ[..] {
                // What was not run was not tried.
                if !same_range(v, w) {
                    continue;
                }
                let entry = cured.entry((axis, w.variant.picks[axis])).or_default();
                entry.1 += 1;
                if onset[j].is_none() && complete(w) {
                    entry.0.insert(i);
                }
            }
        }
    }
    for (axis_index, axis) in sweep.axes.iter().enumerate() {
        let mut always = Vec::new();
        let mut sometimes = Vec::new();
        for ((a, value), (who, of)) in &cured {
            if *a != axis_index || who.is_empty() {
                continue;
            }
            let label = axis.values[*value].label();
            if who.len() == *of {
                always.push(label);
            } else {
                sometimes.push((label, who, *of));
            }
        }
        let names: usize = sometimes.iter().map(|(_, who, _)| who.len()).sum();
        let sometimes: Vec<String> = sometimes
            .into_iter()
            .map(|(label, who, of)| {
                let whom = if names > MOST_NAMED {
                    format!("{} of the {of} variants that it was tried for", who.len())
                } else {
                    let variants = who.iter().map(|i| &summary.variants[*i].variant);
                    list(&variants.map(|v| v.label.as_str()).collect::<Vec<_>>())
                };
                format!("{label} cured it only for {whom}")
            })
            .collect();
        if !always.is_empty() {
            let which = shortened(&always, MOST_NAMED, "or", "others");
            out.push(format!(
                "Changing nothing but the {} to {which} cured it wherever it was tried.",
                axis.title
            ));
        }
        if !sometimes.is_empty() {
            out.push(format!(
                "Of the other choices of {}, {}.",
                axis.title,
                shortened(
                    &sometimes,
                    MOST_NAMED,
                    "and",
                    "others cured it only for some"
                )
            ));
        }
    }
}

/// Both variants have the same points, so that "held" means held as far.
fn same_range(v: &VariantSummary, w: &VariantSummary) -> bool {
    v.points
        .iter()
        .map(|p| p.servers)
        .eq(w.points.iter().map(|p| p.servers))
}

/// Has points, and every run of them came to its end.
fn complete(v: &VariantSummary) -> bool {
    !v.points.is_empty() && v.points.iter().all(|p| p.incomplete == 0)
}

/// Whether every number of servers of the sweep was run.
fn covers(sweep: &SweepSpec, v: &VariantSummary) -> bool {
    v.points.iter().map(|p| &p.servers).eq(&sweep.servers)
}

/// Variants that were not run to the end of the sweep, and have not collapsed so far.
fn tell_unfinished(
    sweep: &SweepSpec,
    summary: &Summary,
    onset: &[Option<usize>],
    out: &mut Vec<String>,
) {
    let so_far = |(v, onset): (&VariantSummary, &Option<usize>)| {
        let held = onset.is_none() && complete(v) && !covers(sweep, v);
        held.then(|| {
            let run: Vec<String> = v.points.iter().map(|p| p.servers.to_string()).collect();
            let run = shortened(&run, MOST_NAMED, "and", "other numbers");
            let noun = if run == "1" { "server" } else { "servers" };
            format!("{} with {run} {noun}", v.variant.label)
        })
    };
    let some: Vec<String> = summary
        .variants
        .iter()
        .zip(onset)
        .filter_map(so_far)
        .collect();
    if !some.is_empty() {
        let who = named(&some);
        out.push(format!("No collapse as far as it was run: {who}."));
    }
}

fn tell_survivors(
    sweep: &SweepSpec,
    summary: &Summary,
    onset: &[Option<usize>],
    out: &mut Vec<String>,
) {
    let held: Vec<&VariantSummary> = summary
        .variants
        .iter()
        .zip(onset)
        .filter(|(v, o)| o.is_none() && complete(v) && covers(sweep, v))
        .map(|(v, _)| v)
        .collect();
    let Some(most) = held.iter().flat_map(|v| &v.points).map(|p| p.servers).max() else {
        return;
    };
    let lowest = held
        .iter()
        .flat_map(|v| v.points.iter().map(move |p| (v, p)))
        .min_by(|a, b| a.1.share.total_cmp(&b.1.share));
    let Some((v, p)) = lowest else { return };
    let single = held.iter().all(|v| v.points.len() == 1);
    let range = format!(
        "{} {}",
        if single { "with" } else { "up to" },
        servers(most)
    );
    let only = held.len() == 1 && v.points.len() == 1;
    let mut who = Vec::new();
    if !only {
        who.push(format!("{} with {}", v.variant.label, servers(p.servers)));
    }
    // A share of the link that looks like a collapse and is none has its reason told.
    let slow = few_slow_blocks(p);
    if slow {
        let usual = percent(p.usual_share);
        who.push(format!("{usual} without the slowest tenth of the blocks"));
    } else if p.share < COLLAPSE_SHARE && p.loss_free() {
        who.push("nothing is lost there".to_owned());
    } else if let Some(free) = best(&v.points).filter(|_| p.share < COLLAPSE_SHARE) {
        who.push(format!("its best without loss is {}", percent(free)));
    }
    let never = if only { "at" } else { "never below" };
    let mut floor = format!("{never} {} of the link", percent(p.share));
    if !who.is_empty() {
        floor += &format!(" ({})", who.join("; "));
    }
    let labels: Vec<&str> = held.iter().map(|v| v.variant.label.as_str()).collect();
    let collapsed = onset.iter().flatten().count();
    let but = if slow {
        ", but a few slow blocks take more than half of the goodput"
    } else {
        ""
    };
    out.push(
        if collapsed == 0 && labels.len() == summary.variants.len() {
            let is = if slow { ", which is" } else { ": goodput is" };
            format!("No collapse {range}{but}{is} {floor}.")
        } else if labels.len() > 3 && labels.len() + collapsed == summary.variants.len() {
            format!(
                "The other {} variants held {range}{but}: {floor}.",
                labels.len()
            )
        } else {
            format!("{} held {range}{but}: {floor}.", named(&labels))
        },
    );
}

fn tell_incomplete(summary: &Summary, out: &mut Vec<String>) {
    let cut: Vec<String> = summary
        .variants
        .iter()
        .filter_map(|v| {
            let at: Vec<String> = v
                .points
                .iter()
                .filter(|p| p.incomplete > 0)
                .map(|p| p.servers.to_string())
                .collect();
            let at = shortened(&at, MOST_NAMED, "and", "other numbers of servers");
            (!at.is_empty()).then(|| format!("{} at {at}", v.variant.label))
        })
        .collect();
    if !cut.is_empty() {
        out.push(format!(
            "Not every run came to its end (time limit, stall or lost connection): {}.",
            named(&cut)
        ));
    }
}

fn servers(n: u32) -> String {
    if n == 1 {
        "1 server".to_owned()
    } else {
        format!("{n} servers")
    }
}

fn percent(share: f64) -> String {
    if share >= 0.0995 {
        format!("{:.0} %", share * 100.0)
    } else {
        format!("{:.1} %", share * 100.0)
    }
}

fn short(x: f64) -> String {
    if x >= 10.0 {
        format!("{x:.0}")
    } else {
        format!("{x:.1}")
    }
}

fn list<S: AsRef<str>>(items: &[S]) -> String {
    joined(items, "and")
}

/// All of `items` if they are few, else the first of them and how many more there are.
pub fn named<S: AsRef<str>>(items: &[S]) -> String {
    shortened(items, MOST_NAMED, "and", "more")
}

/// As a list whose last member comes after `word`; of more than `most`, what is left out are so many
/// `rest`.
pub(super) fn shortened<S: AsRef<str>>(items: &[S], most: usize, word: &str, rest: &str) -> String {
    if items.len() <= most {
        return joined(items, word);
    }
    let (some, others) = items.split_at(SOME_NAMED);
    let mut words: Vec<String> = some.iter().map(|i| i.as_ref().to_owned()).collect();
    words.push(format!("{} {rest}", others.len()));
    joined(&words, word)
}

fn joined<S: AsRef<str>>(items: &[S], word: &str) -> String {
    match items {
        [] => String::new(),
        [one] => one.as_ref().to_owned(),
        [init @ .., last] => {
            let init: Vec<&str> = init.iter().map(AsRef::as_ref).collect();
            format!("{} {word} {}", init.join(", "), last.as_ref())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::{Duration, Rate};
    use narrows_experiment::scenario::{IncastRun, IncastSpec, Setting, TimeoutCounts};

    /// Goodput in Mb/s by variant and servers 1, 8, 64; below 900 with timeouts.
    fn story(cc: &[&str], rto: &[&str], goodput: &[[u64; 3]]) -> Story {
        let names = |list: &[&str], make: fn(String) -> Setting| {
            Axis::new(list.iter().map(|n| make((*n).to_owned())).collect())
        };
        let sweep = SweepSpec {
            base: IncastSpec::default(),
            servers: vec![1, 8, 64],
            axes: vec![names(cc, Setting::Congestion), names(rto, Setting::Rto)],
            repetitions: 1,
        };
        assert_eq!(sweep.expand().unwrap().len(), goodput.len() * 3);
        let runs: Vec<Option<IncastRun>> = goodput
            .iter()
            .flatten()
            .map(|&mbps| {
                (mbps > 0).then(|| IncastRun {
                    goodput: Rate::from_mbps(mbps),
                    block_times: vec![Duration::from_millis(2); 4],
                    timeouts: TimeoutCounts {
                        tail: if mbps < 900 { 10 } else { 0 },
                        ..TimeoutCounts::default()
                    },
                    ..IncastRun::default()
                })
            })
            .collect();
        Story::of(&sweep, &Summary::of(&sweep, &runs))
    }

    #[test]
    fn tells_onset_and_cure() {
        let s = story(
            &["reno", "dctcp"],
            &["linux", "1ms"],
            &[
                [950, 130, 140],
                [950, 940, 880],
                [950, 950, 300],
                [950, 950, 880],
            ],
        );
        assert_eq!(s.onset, [Some(1), None, Some(2), None]);
        let text = s.sentences.join(" ");
        for part in [
            "sets in at 8 servers for reno / linux; at 64 servers for dctcp / linux.",
            "The worst is reno / linux with 8 servers: 13 % of the link, with 2.5 timeouts a block.",
            "nothing but the RTO policy to 1ms cured it wherever it was tried.",
            "reno / 1ms and dctcp / 1ms held up to 64 servers: never below 88 % of the link",
        ] {
            assert!(text.contains(part), "{part}\nin {text}");
        }
        assert!(!text.contains("congestion control"), "{text}");
    }

    #[test]
    fn tells_a_partial_cure() {
        let s = story(
            &["reno", "dctcp"],
            &["linux", "1ms"],
            &[
                [950, 130, 140],
                [950, 300, 300],
                [950, 950, 940],
                [950, 400, 400],
            ],
        );
        let text = s.sentences.join(" ");
        assert!(
            text.contains("dctcp cured it only for reno / linux"),
            "{text}"
        );
    }

    /// However large the sweep, what is told can be read; and the numbers are right.
    #[test]
    fn many_variants_are_counted_and_some_named() {
        let cc: Vec<String> = (0..20).map(|i| format!("c{i:02}")).collect();
        let cc: Vec<&str> = cc.iter().map(String::as_str).collect();
        let goodput: Vec<[u64; 3]> = (0..20)
            .flat_map(|i| {
                let linux = if i < 5 {
                    [950, 130, 140]
                } else {
                    [950, 940, 90 + i]
                };
                let fine = if i < 8 {
                    [950, 950, 300]
                } else {
                    [950, 950, 880]
                };
                [linux, fine]
            })
            .collect();
        let s = story(&cc, &["linux", "1ms"], &goodput);
        assert_eq!(s.onset.iter().flatten().count(), 28);
        let text = s.sentences.join(" ");
        for part in [
            "Incast collapse sets in for 28 of 40 variants: first at 8 servers for c00 / linux, \
             c01 / linux, c02 / linux and 2 more; last at 64 servers for \
             c00 / 1ms, c01 / 1ms, c02 / 1ms and 20 more. The worst is c05 / linux with 64 \
             servers: 9.5 % of the link",
            "Of the other choices of RTO policy, 1ms cured it only for 12 of the 20 variants that \
             it was tried for.",
            "Of the other choices of congestion control, c08 cured it only for 8 of the 27 \
             variants that it was tried for, c09 ",
            "it was tried for and 9 others cured it only for some.",
            "The other 12 variants held up to 64 servers: never below 88 % of the link",
        ] {
            assert!(text.contains(part), "{part}\nin {text}");
        }
        assert!(text.len() < 1_000, "{} {text}", text.len());
        let one: Vec<[u64; 3]> = (0..20).flat_map(|_| [[950, 940, 100], [950; 3]]).collect();
        let s = story(&cc, &["linux", "1ms"], &one);
        let with = "sets in for 20 of 40 variants, all those with linux, at 64 servers for c00";
        assert!(s.sentences[0].contains(with), "{:?}", s.sentences);
        // One of all, by itself: nothing is first and last.
        let s = story(&cc, &["linux", "1ms"], &[[950, 100, 100]; 40]);
        let alone = "sets in for 40 of 40 variants, at 8 servers for c00 / linux, c00 / 1ms, \
                     c01 / linux and 37 more.";
        assert!(s.sentences[0].contains(alone), "{:?}", s.sentences);
    }

    #[test]
    fn a_list_is_whole_or_says_what_it_leaves_out() {
        let all: Vec<String> = (0..12).map(|i| i.to_string()).collect();
        assert_eq!(named(&all[..9]), "0, 1, 2, 3, 4, 5, 6, 7 and 8");
        assert_eq!(named(&all[..10]), "0, 1, 2 and 7 more");
        assert_eq!(
            shortened(&all, MOST_NAMED, "or", "others"),
            "0, 1, 2 or 9 others"
        );
    }

    #[test]
    fn half_is_no_collapse_and_less_is() {
        let s = story(
            &["a", "b"],
            &["x", "y"],
            &[[950, 475, 475], [950, 474, 940], [950; 3], [950; 3]],
        );
        assert_eq!(s.onset, [None, Some(1), None, None]);
    }

    #[test]
    fn without_a_loss_free_point_the_rest_of_the_sweep_is_the_measure() {
        let s = story(
            &["a", "b"],
            &["x", "y"],
            &[[400; 3], [950; 3], [500; 3], [950; 3]],
        );
        assert_eq!(s.onset, [Some(0), None, None, None]);
    }

    /// Goodput of 0: not run.
    fn told(goodput: &[[u64; 3]]) -> String {
        story(&["a", "b"], &["x", "y"], goodput).sentences.join(" ")
    }

    /// Where nothing clean was run below, or not next to it, nobody knows where collapse sets in.
    #[test]
    fn collapse_sets_in_only_above_what_has_not_collapsed() {
        let text = told(&[[950, 940, 300], [950; 3], [950; 3], [950; 3]]);
        assert!(
            text.starts_with("Incast collapse sets in at 64 servers for a / x."),
            "{text}"
        );
        // The point at 8 is missing.
        let text = told(&[[950, 0, 300], [950; 3], [950; 3], [950; 3]]);
        assert!(
            text.starts_with("Only 11 of 12 runs were finished"),
            "{text}"
        );
        assert!(
            text.contains("sets in between 1 and 64 servers for a / x."),
            "{text}"
        );
        // Nothing below was run.
        let text = told(&[[0, 0, 300], [950; 3], [950; 3], [950; 3]]);
        let first = "Incast has collapsed at 64 servers for a / x, which is the fewest that were \
                     run: where it sets in is not known.";
        assert!(
            text.contains(first) && !text.contains("collapse sets in"),
            "{text}"
        );
        // One server collapses: there are no fewer.
        let text = told(&[[300, 0, 0], [950; 3], [950; 3], [950; 3]]);
        assert!(
            text.contains("collapse sets in at 1 server for a / x."),
            "{text}"
        );
        // Both kinds.
        let text = told(&[[950, 300, 300], [0, 300, 300], [950; 3], [950; 3]]);
        assert!(
            text.contains(
                "sets in at 8 servers for a / x. Incast has collapsed at 8 servers for a / y, which"
            ),
            "{text}"
        );
    }

    #[test]
    fn what_was_not_run_has_not_held_and_is_no_cure() {
        let text = told(&[[950, 940, 300], [950, 950, 0], [950; 3], [950; 3]]);
        assert!(!text.contains("to y cured"), "{text}");
        assert!(
            text.contains("No collapse as far as it was run: a / y with 1 and 8 servers."),
            "{text}"
        );
        assert!(
            text.contains("congestion control to b cured it wherever it was tried"),
            "{text}"
        );
        assert!(
            text.contains("b / x and b / y held up to 64 servers"),
            "{text}"
        );
        // Nothing collapsed, but not all was run.
        let text = told(&[[950; 3], [950, 0, 0], [950; 3], [950; 3]]);
        assert!(!text.contains("No collapse up to"), "{text}");
        assert!(
            text.contains("a / x, b / x and b / y held up to 64 servers"),
            "{text}"
        );
        assert!(
            text.contains("as far as it was run: a / y with 1 server."),
            "{text}"
        );
    }

    #[test]
    fn one_point_says_what_it_is_and_against_what() {
        let sweep = SweepSpec {
            base: IncastSpec::default(),
            servers: vec![24],
            axes: Vec::new(),
            repetitions: 1,
        };
        let runs = [run(125, [410; 10], 15)];
        let s = Story::of(&sweep, &Summary::of(&sweep, &runs));
        assert_eq!(s.onset, [Some(0)]);
        assert_eq!(
            s.sentences,
            [
                "Incast has collapsed at 24 servers for reno / linux, which is the fewest that were \
              run: where it sets in is not known. Goodput is 12 % of the link, with 1.5 timeouts a \
              block. No run was without loss, so that the link is the measure of what collapsed."
            ]
        );
    }

    fn one_variant(runs: Vec<Option<IncastRun>>) -> Story {
        let sweep = SweepSpec {
            base: IncastSpec::default(),
            servers: (0..runs.len() as u32).map(|i| 1 << i).collect(),
            axes: Vec::new(),
            repetitions: 1,
        };
        Story::of(&sweep, &Summary::of(&sweep, &runs))
    }

    fn run(mbps: u64, millis: [u64; 10], timeouts: u64) -> Option<IncastRun> {
        Some(IncastRun {
            goodput: Rate::from_mbps(mbps),
            block_times: millis.map(Duration::from_millis).to_vec(),
            timeouts: TimeoutCounts {
                tail: timeouts,
                ..TimeoutCounts::default()
            },
            ..IncastRun::default()
        })
    }

    #[test]
    fn low_goodput_without_loss_is_no_collapse() {
        let s = one_variant(vec![run(20, [2; 10], 0), run(900, [2; 10], 0)]);
        assert_eq!(s.onset, [None]);
    }

    #[test]
    fn a_few_slow_blocks_are_named_and_are_no_collapse() {
        let mut slow = [5; 10];
        slow[9] = 205;
        let s = one_variant(vec![run(900, [5; 10], 0), run(180, slow, 1)]);
        assert_eq!(s.onset, [None]);
        assert!(
            s.sentences[0].starts_with(
                "No collapse up to 2 servers, but a few slow blocks take more than half of the \
                 goodput, which is never below 18 % of the link ("
            ) && s.sentences[0]
                .ends_with("with 2 servers; 90 % without the slowest tenth of the blocks)."),
            "{:?}",
            s.sentences
        );
        let s = one_variant(vec![
            run(900, [5; 10], 0),
            run(180, slow, 1),
            run(20, [205; 10], 10),
        ]);
        assert_eq!(s.onset, [Some(2)]);
        assert!(
            s.sentences[0].contains("Before that, a few slow blocks already take more than half")
        );
    }

    /// A low share that is no collapse says why it is none.
    #[test]
    fn a_low_share_without_collapse_has_a_reason() {
        for (runs, sentence) in [
            (
                vec![run(290, [5; 10], 0)],
                "No collapse with 1 server: goodput is at 29 % of the link (nothing is lost there).",
            ),
            (
                vec![run(400, [5; 10], 0), run(290, [7; 10], 3)],
                "its best without loss is 40 %).",
            ),
            (
                vec![run(900, [5; 10], 0), run(600, [7; 10], 3)],
                "No collapse up to 2 servers: goodput is never below 60 % of the link (",
            ),
        ] {
            let s = one_variant(runs);
            assert_eq!(s.onset.iter().flatten().count(), 0);
            assert!(s.sentences[0].contains(sentence), "{:?}", s.sentences);
            assert!(!s.sentences[0].contains("slow blocks"), "{:?}", s.sentences);
        }
    }

    #[test]
    fn a_single_point_has_no_never() {
        let s = one_variant(vec![run(900, [5; 10], 0)]);
        assert_eq!(
            s.sentences,
            ["No collapse with 1 server: goodput is at 90 % of the link."]
        );
    }

    #[test]
    fn who_did_not_finish_did_not_hold() {
        let cut = run(0, [5; 10], 0).map(|r| IncastRun {
            outcome: narrows_experiment::scenario::Outcome::TimeLimit,
            ..r
        });
        let s = one_variant(vec![cut]);
        assert!(
            s.sentences[0].starts_with("Not every run came to its end"),
            "{:?}",
            s.sentences
        );
    }

    #[test]
    fn no_collapse_and_no_run() {
        let s = story(&["a", "b"], &["x", "y"], &[[950; 3]; 4]);
        assert!(
            s.sentences[0].starts_with("No collapse up to 64 servers: goodput is never below 95 %")
        );
        let s = story(&["a", "b"], &["x", "y"], &[[0; 3]; 4]);
        assert!(
            s.sentences[1].starts_with("No run was finished"),
            "{:?}",
            s.sentences
        );
        let s = story(
            &["a", "b"],
            &["x", "y"],
            &[[950, 950, 0], [0; 3], [950; 3], [950; 3]],
        );
        assert!(s.sentences[0].contains("Only 8 of 12 runs"));
    }
}
