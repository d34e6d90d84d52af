//! A plan: the runs of an experiment, in a fixed order, with derived seeds.

mod check;
mod files;
mod idle;

use crate::knob::{KnobError, Meaning, Quantity};
use crate::model::{Experiment, Invalid};
use crate::registry::Registry;
use crate::traffic::SizeDistribution;
pub(crate) use files::{Files, SweptFile};
use narrows::congestion::order::sort_by;
use std::fmt;
use std::sync::Arc;

/// Most runs of a sweep: their plan takes some hundred bytes each.
pub const MAX_RUNS: u32 = 1_000_000;

/// The seed of a repetition.
///
/// The first has the sweep's own seed, so that one run can be had again by its seed alone. All
/// variants and server counts share the seed of a repetition: what differs between two lines
/// of a plot is then the variant and not the dice.
pub const fn derive_seed(base: u64, repetition: u32) -> u64 {
    if repetition == 0 {
        return base;
    }
    // SplitMix64 (Steele, Lea and Flood 2014): consecutive inputs give unrelated outputs.
    let mut z = base.wrapping_add(0x9e37_79b9_7f4a_7c15_u64.wrapping_mul(repetition as u64));
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

/// The runs of an experiment: the product of its sweep, and repetitions of each point.
///
/// A file that a value of the sweep names is read when the plan is made, and its value is then its
/// name without the folder, `file:sizes.cdf`: a plan is the same wherever the file lies.
#[derive(Clone, Debug)]
pub struct Plan {
    base: Experiment,
    /// How many values each axis has.
    lengths: Vec<usize>,
    points: usize,
    /// What its values name.
    files: Files,
}

/// One run of a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PlannedRun {
    /// Which repetition, from 0.
    pub repetition: u32,
    /// Which point of the sweep, from 0; the first axis varies slowest.
    pub point: usize,
}

/// A part of a plan: of N equal ones, the I-th from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shard {
    /// Which.
    pub number: u32,
    /// Of how many.
    pub of: u32,
}

impl Shard {
    /// All of it.
    pub const WHOLE: Self = Self { number: 1, of: 1 };

    /// Whether the run that comes `nth` in the plan is in this part.
    pub const fn has(self, nth: usize) -> bool {
        nth % self.of as usize == self.number as usize - 1
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const HELP: &str = "expected I/N, the I-th of N parts, such as 1/8";
        let (number, of) = text.split_once('/').ok_or(HELP)?;
        let number = number.trim().parse().map_err(|_| HELP)?;
        let of = of.trim().parse().map_err(|_| HELP)?;
        if of == 0 || of > MAX_RUNS || !(1..=of).contains(&number) {
            return Err(format!("{HELP}: I is from 1 to N"));
        }
        Ok(Self { number, of })
    }
}

impl fmt::Display for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.number, self.of)
    }
}

impl Plan {
    /// The plan of `experiment`. Every point is set; [`Self::check`] looks whether each can run.
    ///
    /// # Errors
    /// The key that cannot be varied, or cannot be that, and if there are more than a million runs.
    pub fn new(experiment: &Experiment, registry: &Registry) -> Result<Self, Invalid> {
        for axis in &experiment.sweep {
            let part = axis.key.split('.').next().unwrap_or_default();
            let parts = [
                "network", "host", "group", "traffic", "probe", "change", "run",
            ];
            let kind = axis.key.ends_with(".kind");
            if !parts.contains(&part) || axis.key == "run.repetitions" || kind {
                let why = "it cannot be varied: it changes no run, or has other keys each time";
                return Err(Invalid::new(sweep_key(&axis.key), why));
            }
        }
        let lengths: Vec<usize> = experiment.sweep.iter().map(|a| a.values.len()).collect();
        let points = lengths
            .iter()
            .try_fold(1_usize, |n, len| n.checked_mul(*len));
        let repetitions = experiment.run.repetitions as usize;
        let runs = points.and_then(|n| n.checked_mul(repetitions));
        let Some(points) = points.filter(|_| runs.is_some_and(|n| n <= MAX_RUNS as usize)) else {
            let runs = runs.map_or("too many to count".to_owned(), |n| n.to_string());
            let why = format!(
                "the sweep and {repetitions} repetitions make {runs} runs, and at most {MAX_RUNS} \
                 are possible: give fewer values"
            );
            return Err(Invalid::new("sweep", why));
        };
        let mut base = experiment.clone();
        let files = settle_values(&mut base, registry)?;
        let plan = Self {
            base,
            lengths,
            points,
            files,
        };
        // Each value alone, so that an error names it.
        for axis in &plan.base.sweep {
            for value in axis.values.iter() {
                let mut tried = plan.base.clone();
                plan.set(&mut tried, registry, &axis.key, value)?;
            }
        }
        Ok(plan)
    }

    /// The experiment.
    pub fn base(&self) -> &Experiment {
        &self.base
    }

    /// How many points the sweep has.
    pub fn points(&self) -> usize {
        self.points
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.points * self.base.run.repetitions as usize
    }

    /// The runs of a part: by repetition first, so that what is done covers the whole sweep.
    pub fn part(&self, shard: Shard) -> impl Iterator<Item = PlannedRun> {
        let points = self.points;
        let all = (0..self.base.run.repetitions).flat_map(move |repetition| {
            (0..points).map(move |point| PlannedRun { repetition, point })
        });
        all.enumerate()
            .filter_map(move |(nth, run)| shard.has(nth).then_some(run))
    }

    /// The values of a point, one of each axis.
    pub fn values(&self, point: usize) -> Vec<&str> {
        let mut rest = point;
        let mut values: Vec<&str> = self
            .base
            .sweep
            .iter()
            .zip(&self.lengths)
            .rev()
            .map(|(axis, len)| {
                let value = axis.values[rest % len].as_str();
                rest /= len;
                value
            })
            .collect();
        values.reverse();
        values
    }

    /// The experiment at a point.
    ///
    /// # Errors
    /// Values that do not go together.
    pub fn at(&self, point: usize, registry: &Registry) -> Result<Experiment, Invalid> {
        let mut experiment = self.base.clone();
        for (axis, value) in self.base.sweep.iter().zip(self.values(point)) {
            self.set(&mut experiment, registry, &axis.key, value)?;
        }
        Ok(experiment)
    }

    fn set(
        &self,
        experiment: &mut Experiment,
        registry: &Registry,
        key: &str,
        value: &str,
    ) -> Result<(), Invalid> {
        let set = experiment.set(registry, key, self.files.meaning(value));
        set.map_err(|e| {
            let why = match &e {
                KnobError::Unknown { .. } => e.to_string(),
                KnobError::Value { why } => format!("'{value}': {why}"),
            };
            Invalid::new(sweep_key(key), why)
        })
    }

    /// The files that its values name.
    pub(crate) fn files(&self) -> &Files {
        &self.files
    }

    /// The same with at least so many repetitions.
    pub(crate) fn at_least(mut self, repetitions: u32) -> Self {
        let run = &mut self.base.run;
        run.repetitions = run.repetitions.max(repetitions);
        self
    }

    /// The seed of a run: all points share that of a repetition, unless the seed itself is varied,
    /// so that what differs between two of them is not the dice.
    pub fn seed(&self, run: PlannedRun) -> u64 {
        let mut axes = self.base.sweep.iter().zip(self.values(run.point));
        let varied = axes.find(|(axis, _)| axis.key == "run.seed");
        let seed = varied.and_then(|(_, value)| u64::read(value).ok());
        derive_seed(seed.unwrap_or(self.base.run.seed), run.repetition)
    }

    /// The experiment of a run.
    ///
    /// # Errors
    /// As [`Self::at`].
    pub fn experiment(&self, run: PlannedRun, registry: &Registry) -> Result<Experiment, Invalid> {
        let mut experiment = self.at(run.point, registry)?;
        experiment.run.seed = self.seed(run);
        if run.repetition > 0 {
            experiment.probes.retain(|probe| probe.spec.repeats());
        }
        Ok(experiment)
    }

    /// What a point is, in keys and values; nothing without a sweep.
    pub fn label(&self, point: usize) -> String {
        let pairs = self.base.sweep.iter().zip(self.values(point));
        let pairs: Vec<String> = pairs
            .map(|(axis, v)| format!("{} = {v}", axis.key))
            .collect();
        pairs.join(", ")
    }
}

/// Makes each value of the sweep mean the same wherever it is read, and each `where` one of them;
/// the files that they name.
fn settle_values(base: &mut Experiment, registry: &Registry) -> Result<Files, Invalid> {
    let path = |experiment: &Experiment, key: &str, value: &str| {
        let sizes = registry.about(experiment, key);
        let sizes = sizes.is_some_and(|about| SizeDistribution::is_kind(&about.kind));
        let path = SizeDistribution::file(value).filter(|_| sizes);
        path.map(std::path::Path::to_owned)
    };
    let mut files = Files::default();
    let mut sweep = base.sweep.clone();
    for axis in &mut sweep {
        let asked = axis.values.clone();
        for value in Arc::make_mut(&mut axis.values) {
            if let Some(path) = path(base, &axis.key, value) {
                let taken = files.take(value, &path);
                *value = taken.map_err(|why| Invalid::new(sweep_key(&axis.key), why))?;
            }
        }
        let kind = registry.about(base, &axis.key).map(|about| about.kind);
        let mut known: Vec<(Meaning<'_>, usize)> = Vec::new();
        for (value, n) in axis.values.iter().zip(0..) {
            let text = files.meaning(value);
            let meaning = kind.map_or(Meaning::Text(text), |kind| kind.meaning(text));
            known.push((meaning, n));
        }
        sort_by(&mut known, |(a, _), (b, _)| a.cmp(b));
        let alike = known.windows(2).filter(|two| two[0].0 == two[1].0);
        let first = alike.map(|two| (two[1].1, two[0].1)).min();
        let twice = first.map(|(again, before)| (&asked[before], &asked[again]));
        if let Some((a, b)) = twice {
            let why = format!("'{a}' and '{b}' are one value");
            return Err(Invalid::new(sweep_key(&axis.key), why));
        }
    }
    let mut expects = base.expect.clone();
    for (n, expect) in expects.iter_mut().enumerate() {
        let places: Vec<(String, String)> = expect
            .place
            .iter()
            .map(|(k, v)| (k.to_owned(), v.to_owned()))
            .collect();
        for (key, value) in places {
            let axis = sweep.iter().find(|axis| axis.key == key);
            let values = axis.map_or(&[][..], |axis| &axis.values[..]);
            let known = match path(base, &key, &value) {
                Some(path) => files
                    .like(&value, &path, values)
                    .map_err(|why| Invalid::new(format!("expect.{n}.where"), why))?,
                None => values
                    .iter()
                    .find(|v| registry.same_value(base, &key, v, &value)),
            };
            if let Some(known) = known {
                expect.place.set(&key, known);
            }
        }
    }
    base.sweep = sweep;
    base.expect = expects;
    Ok(files)
}

/// The key of an axis.
fn sweep_key(key: &str) -> String {
    format!("sweep.{}", crate::model::quoted(key))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan(repetitions: u32) -> Plan {
        let registry = Registry::default();
        let mut e = Experiment::default();
        for (key, value) in [
            ("traffic.copy.kind", "bulk"),
            ("traffic.copy.size", "20kB"),
            ("network.hosts", "3"),
        ] {
            e.set(&registry, key, value).unwrap();
        }
        e.run.repetitions = repetitions;
        for (key, values) in [
            ("host.tcp.congestion", "reno,cubic"),
            ("network.hosts", "2-4"),
        ] {
            e.set(&registry, &format!("sweep.\"{key}\""), values)
                .unwrap();
        }
        Plan::new(&e, &registry).unwrap()
    }

    /// A point is no more to make with many values than with few.
    #[test]
    fn points_share_the_values_of_the_sweep() {
        let registry = Registry::default();
        let mut experiment = plan(1).base().clone();
        experiment.sweep.clear();
        let hosts = (2..2_000_u32).map(|n| n.to_string()).collect();
        experiment.vary("network.hosts", hosts).unwrap();
        let plan = Plan::new(&experiment, &registry).unwrap();
        let at = plan.at(1_234, &registry).unwrap();
        let [mine, all] = [&at, plan.base()].map(|e| &e.sweep[0].values);
        assert!(Arc::ptr_eq(mine, all));
        assert_eq!(plan.values(1_234), ["1236"]);
    }

    #[test]
    fn the_first_axis_varies_slowest_and_repetitions_go_round() {
        let plan = plan(2);
        assert_eq!((plan.points(), plan.runs()), (6, 12));
        assert_eq!(plan.values(0), ["reno", "2"]);
        assert_eq!(plan.values(2), ["reno", "4"]);
        assert_eq!(plan.values(3), ["cubic", "2"]);
        let runs: Vec<PlannedRun> = plan.part(Shard::WHOLE).collect();
        assert!(runs.is_sorted());
        assert_eq!(
            runs[6],
            PlannedRun {
                repetition: 1,
                point: 0
            }
        );
        let registry = Registry::default();
        let of = |n: usize| plan.experiment(runs[n], &registry).unwrap();
        assert_eq!(of(4).host.tcp.congestion, "cubic");
        assert_eq!((of(0).run.seed, of(5).run.seed), (1, 1));
        assert_eq!(of(6).run.seed, derive_seed(1, 1));
        plan.check(&registry).unwrap();
    }

    #[test]
    fn shards_are_the_whole_and_do_not_overlap() {
        let plan = plan(3);
        for of in [1, 2, 5, 18, 40] {
            let mut all: Vec<PlannedRun> = (1..=of)
                .flat_map(|number| plan.part(Shard { number, of }))
                .collect();
            all.sort();
            let whole: Vec<PlannedRun> = plan.part(Shard::WHOLE).collect();
            assert_eq!(all, whole, "{of}");
        }
        for (text, ok) in [
            ("1/8", true),
            ("8/8", true),
            ("9/8", false),
            ("0/8", false),
            ("1", false),
        ] {
            assert_eq!(text.parse::<Shard>().is_ok(), ok, "{text}");
        }
    }

    #[test]
    fn one_impossible_point_is_found_before_anything_runs() {
        let registry = Registry::default();
        let mut e = plan(1).base;
        e.vary(
            "network.mtu",
            (0..300).map(|n| (200 + n).to_string()).collect(),
        )
        .unwrap();
        e.set(&registry, "host.tcp.mss", "300").unwrap();
        let plan = Plan::new(&e, &registry).unwrap();
        let error = plan.check(&registry).unwrap_err();
        assert_eq!(error.key, "host.tcp.mss");
        assert!(error.why.contains("network.mtu = 200"), "{error}");
        e.vary("network.mtu", vec!["1500".into(), "15OO".into()])
            .unwrap();
        let error = Plan::new(&e, &registry).unwrap_err();
        assert!(error.to_string().contains("15OO"), "{error}");
    }

    /// One value in two spellings runs once; the last bit of a seed is another.
    #[test]
    fn a_value_is_known_in_another_spelling() {
        let registry = Registry::default();
        let planned = |key: &str, values: [&str; 2]| {
            let mut e = plan(1).base;
            e.vary(key, values.map(str::to_owned).to_vec()).unwrap();
            Plan::new(&e, &registry).map(|plan| plan.points())
        };
        let delay = planned("network.link.delay", ["1ms", "1000us"]).unwrap_err();
        assert!(delay.why.contains("'1ms' and '1000us' are one value"));
        let limit = planned("network.queue.limit", ["64KiB", "65536B"]).unwrap_err();
        assert!(limit.why.contains("are one value"), "{limit}");
        for (key, values) in [
            ("run.seed", ["9007199254740992", "9007199254740993"]),
            ("network.queue.limit", ["2000p", "2000B"]),
        ] {
            assert_eq!(planned(key, values), Ok(12), "{key}");
        }
    }

    /// Pinned: a published seed must mean the same run in every version.
    #[test]
    fn derived_seeds_are_pinned() {
        assert_eq!(derive_seed(1, 0), 1);
        assert_eq!(derive_seed(1, 1), 0x910a_2dec_8902_5cc1);
        assert_ne!(derive_seed(1, 2), derive_seed(2, 1));
    }
}
