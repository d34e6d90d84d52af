//! What `--set` and its kin give keys, and where in them a mistake stands.

use super::{Applied, Options, Prepared, Stop};
use narrows_experiment::file::underlined;
use narrows_experiment::knob::KnobError;
use narrows_experiment::model::{Experiment, Invalid, Path, quoted};
use narrows_experiment::plan::Plan;
use narrows_experiment::registry::Registry;
use std::ops::Range;

/// Characters of an argument that is told whole.
const LONG: usize = 80;

/// An argument that gives a key its value, or its values.
#[derive(Clone, Debug)]
pub(super) struct Given {
    what: What,
    /// `KEY=VALUE`, or the value alone where the option is of one key.
    text: String,
    key: String,
    /// Where the key begins in the text, if it stands there.
    key_at: usize,
    value: String,
    /// Where the value begins in the text.
    value_at: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum What {
    Set,
    Sweep,
    /// An option of one key.
    Option(&'static str),
}

impl Given {
    /// What `args` give, in the order in which it counts.
    pub(super) fn all(args: &Options) -> Result<Vec<Self>, Stop> {
        let pair = |what: What, text: &String| {
            // `dctcp:g=1/32` has an equals sign of its own, and so may a quoted key: the first
            // one counts.
            let Some((key, value)) = text.split_once('=') else {
                let help = "expected KEY=VALUE; `narrows keys` lists the keys";
                return Err(super::super::usage(what.option(), text, help));
            };
            let blanks = |text: &str| text.len() - text.trim_start().len();
            Ok(Self {
                what,
                text: text.clone(),
                key: key.trim().to_owned(),
                key_at: blanks(key),
                value: value.trim().to_owned(),
                value_at: key.len() + 1 + blanks(value),
            })
        };
        let own = |option, key: &str, value: &Option<String>| {
            value.as_ref().map(|value| {
                Ok(Self {
                    what: What::Option(option),
                    text: value.clone(),
                    key: key.to_owned(),
                    key_at: 0,
                    value: value.clone(),
                    value_at: 0,
                })
            })
        };
        let sets = args.set.iter().map(|text| pair(What::Set, text));
        let repetitions = own("repetitions", "run.repetitions", &args.repetitions);
        let seed = own("seed", "run.seed", &args.seed);
        let sweeps = args.sweep.iter().map(|text| pair(What::Sweep, text));
        sets.chain(repetitions).chain(seed).chain(sweeps).collect()
    }

    /// Puts it into the experiment; what is to be known of that.
    ///
    /// # Errors
    /// If it cannot be that by itself.
    pub(super) fn put(
        &self,
        experiment: &mut Experiment,
        registry: &Registry,
    ) -> Result<Option<String>, Stop> {
        let Self { key, value, .. } = self;
        if self.varies() {
            let set = experiment.set(registry, &format!("sweep.{}", quoted(key)), value);
            return match set {
                Ok(()) => Ok(None),
                Err(e) => Err(self.wrong(self.wrong_at(experiment, registry), &e.to_string())),
            };
        }
        let axis = self.axis(experiment);
        experiment.settle(registry, &axis, value);
        let lost = experiment.lost_by(registry, key, value);
        let set = experiment.set(registry, key, value);
        set.map_err(|e| self.wrong(self.wrong_at(experiment, registry), &e.to_string()))?;
        let lost = (!lost.is_empty()).then(|| lost.join(", "));
        Ok(lost.map(|lost| {
            format!("{axis} is {value}, which has no {lost}: what was set there does not apply")
        }))
    }

    /// Whether it gives several values.
    pub(super) fn varies(&self) -> bool {
        self.what == What::Sweep
    }

    /// The option, as it is given.
    pub(super) fn option(&self) -> String {
        format!("--{}", self.what.option())
    }

    /// The key, or its short name, as it is given.
    pub(super) fn key(&self) -> &str {
        &self.key
    }

    /// The key as an axis of the sweep has it.
    pub(super) fn axis(&self, experiment: &Experiment) -> String {
        experiment.axis_name(&self.key)
    }

    /// That it cannot be, because of `why`, with its text marked at `at`.
    pub(super) fn wrong(&self, at: Range<usize>, why: &str) -> Stop {
        Stop::Wrong(self.marked(at, why))
    }

    fn marked(&self, at: Range<usize>, why: &str) -> String {
        let Self { what, text, .. } = self;
        let option = what.option();
        let before = format!("--{option} ");
        let column = before.chars().count() + text[..at.start].chars().count();
        let width = text[at.clone()].chars().count();
        let marked = underlined("", &(before + text), column + 1, width);
        let named = match text.chars().count() {
            0..=LONG => text,
            _ => &text[at],
        };
        format!("error: invalid value '{named}' for '--{option}': {why}\n{marked}\n")
    }

    /// Where its key stands.
    pub(super) fn key_at(&self) -> Range<usize> {
        match self.what {
            What::Option(_) => 0..0,
            What::Set | What::Sweep => self.key_at..self.key_at + self.key.len(),
        }
    }

    /// Where what is wrong with it by itself stands: a word of the key, a value, or all values.
    fn wrong_at(&self, experiment: &Experiment, registry: &Registry) -> Range<usize> {
        let whole = self.value_at..self.value_at + self.value.len();
        let axis = self.axis(experiment);
        let swept = experiment.sweep.iter().position(|known| known.key == axis);
        let swept = swept.filter(|_| self.varies());
        let values = match swept.map(|axis| &experiment.sweep[axis]) {
            Some(axis) => &axis.values[..],
            None => std::slice::from_ref(&self.value),
        };
        let refused = values.iter().find_map(|value| {
            let e = experiment.clone().set(registry, &self.key, value).err()?;
            Some((value, e))
        });
        match refused {
            Some((_, KnobError::Unknown { key, .. })) => {
                let all = self.key_at();
                let begin = self.text[all.clone()].rfind(&key);
                let begin = begin.map(|begin| all.start + begin);
                begin.map_or(all, |begin| begin..begin + key.len())
            }
            Some((value, KnobError::Value { .. })) => {
                let at = self.items().find(|at| self.text[at.clone()] == **value);
                at.unwrap_or(whole)
            }
            None => {
                let at = swept.and_then(|_| refused_point(experiment, registry));
                let at = at.and_then(|at| at.into_iter().find(|at| at.key == axis));
                let is_it = |item: &Range<usize>| {
                    at.as_ref()
                        .is_some_and(|at| at.value == self.text[item.clone()])
                };
                self.items().find(is_it).unwrap_or(whole)
            }
        }
    }

    /// Where its values stand.
    fn items(&self) -> impl Iterator<Item = Range<usize>> {
        let mut begin = self.value_at;
        self.value.split(',').map(move |item| {
            let start = begin + item.len() - item.trim_start().len();
            begin += item.len() + 1;
            start..start + item.trim().len()
        })
    }
}

/// Keys to which arguments gave what the file has not, each with both.
pub(super) fn departures(
    applied: &Applied,
    experiment: &Experiment,
    registry: &Registry,
) -> Vec<String> {
    let values = |experiment: &Experiment, key: &str| {
        let axis = experiment.sweep.iter().find(|axis| axis.key == key);
        match axis {
            Some(axis) => axis.values.to_vec(),
            None => experiment.get(key).into_iter().collect(),
        }
    };
    let mut said: Vec<String> = Vec::new();
    for given in &applied.given {
        let key = given.axis(experiment);
        let path = Path::parse(&key);
        let words = path.as_ref().map(Path::words).unwrap_or_default();
        // What says how an experiment is shown has no part in what comes out.
        if matches!(words[..], ["title" | "about"] | ["show", _]) {
            continue;
        }
        let (before, now) = (values(&applied.before, &key), values(experiment, &key));
        let typed = typed(&words).unwrap_or_else(|| key.clone());
        // `0.005ms` is 5us.
        let as_shown = |value: &String| {
            let mut one = applied.before.clone();
            let set = one.set(registry, &typed, value);
            let shown = set.ok().and_then(|()| one.get(&typed));
            shown.unwrap_or_else(|| value.clone())
        };
        let known: Vec<String> = before.iter().map(as_shown).collect();
        if now.iter().map(as_shown).all(|value| known.contains(&value)) {
            continue;
        }
        let there = match before.is_empty() {
            true => "not set".to_owned(),
            false => before.join(","),
        };
        let line = format!("{key} is {}, in the file {there}", now.join(","));
        if !said.contains(&line) {
            said.push(line);
        }
    }
    said
}

/// The key of all ports or hosts that reads a value as this one of some does, which is kept as it was
/// typed.
fn typed(words: &[&str]) -> Option<String> {
    let (all, key) = match words {
        ["network", "trunk", section, key]
        | ["network", "port", _, section, key]
        | ["change", _, section @ ("link" | "queue"), key] => (["network", section], key),
        ["group", _, section @ ("tcp" | "nic" | "cpu"), key]
        | ["change", _, section @ "nic", key]
        | ["traffic", _, section @ "tcp", key] => (["host", section], key),
        _ => return None,
    };
    Some(format!("{}.{}", all.join("."), quoted(key)))
}

/// The value of an axis at a point.
struct At {
    key: String,
    value: String,
}

/// The first point that cannot be.
fn refused_point(experiment: &Experiment, registry: &Registry) -> Option<Vec<At>> {
    let plan = Plan::new(experiment, registry).ok()?;
    let point = plan.refused(registry)?;
    let values = experiment.sweep.iter().zip(plan.values(point));
    let values = values.map(|(axis, value)| At {
        key: axis.key.clone(),
        value: value.to_owned(),
    });
    Some(values.collect())
}

/// Whether an experiment can be, at a point, of those of its axes that it has.
fn check_at(experiment: &Experiment, registry: &Registry, at: &[At]) -> Result<(), Invalid> {
    let mut one = experiment.clone();
    for axis in std::mem::take(&mut one.sweep) {
        if let Some(At { value, .. }) = at.iter().find(|at| at.key == axis.key) {
            let set = one.set(registry, &axis.key, value);
            set.map_err(|e| Invalid::new(axis.key, e.to_string()))?;
        }
    }
    one.check(registry)
}

/// What is wrong with an experiment if one of the arguments is to blame that were put into what it
/// was before: that which gives the key, or that with which it became wrong. What a key in the file
/// has to do with it is told, too.
pub(super) fn blamed(prepared: &Prepared<'_>, registry: &Registry, e: &Invalid) -> Option<Stop> {
    let Applied { given, before, .. } = &prepared.applied;
    let experiment = &prepared.experiment;
    let path = Path::parse(&e.key).ok();
    let key = match path.as_ref().map(Path::words).as_deref() {
        Some(["sweep", key]) => (*key).to_owned(),
        _ => e.key.clone(),
    };
    let gives = |given: &&Given| given.axis(experiment) == key;
    if let Some(given) = given.iter().rfind(gives) {
        return Some(given.wrong(given.wrong_at(experiment, registry), &e.why));
    }
    if given.is_empty() {
        return None;
    }
    // One point is tried, or none where it is the sweep that cannot be: there may be a million.
    let point = refused_point(experiment, registry);
    let is_wrong = |experiment: &Experiment| {
        let checked = match &point {
            Some(at) => check_at(experiment, registry, at),
            None => Plan::new(experiment, registry).map(drop),
        };
        checked.is_err_and(|now| now.key == e.key)
    };
    if is_wrong(before) {
        return None;
    }
    let mut experiment = before.clone();
    let given = given.iter().find(|given| {
        let _ = given.put(&mut experiment, registry);
        is_wrong(&experiment)
    })?;
    // What stands below it is wrong with its key.
    let at = match given.axis(&experiment).starts_with(&format!("{}.", e.key)) {
        true => given.key_at(),
        false => given.wrong_at(&experiment, registry),
    };
    let mut text = given.marked(at, &e.to_string());
    let set = Invalid::new(e.key.clone(), "it is set here");
    if let Some(place) = prepared.source.locate_exactly(&set) {
        text += &format!("{place}\n");
    }
    Some(Stop::Wrong(text))
}

impl What {
    fn option(self) -> &'static str {
        match self {
            Self::Set => "set",
            Self::Sweep => "sweep",
            Self::Option(option) => option,
        }
    }
}
