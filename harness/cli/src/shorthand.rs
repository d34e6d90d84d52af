//! Commands whose options are short names for keys of an experiment that ships: what an option
//! means, what it may be and what it is without being given is what the table of knobs and the file
//! say.

pub(super) mod flows;
pub(super) mod incast;
pub(super) mod port;

use super::run::{Applied, Options, Prepared, perform};
use super::{App, Console, Stop, usage};
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use narrows_experiment::file::{Loaded, Source};
use narrows_experiment::knob::{Kind, KnobError};
use narrows_experiment::model::{Entry, Experiment, quoted};
use narrows_experiment::registry::Registry;
use narrows_experiment::shipped::Shipped;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::marker::PhantomData;
use std::sync::OnceLock;

/// A command of this kind.
pub(super) trait Shorthand: Send + Sync + 'static {
    /// The experiment whose short names are the options.
    const EXPERIMENT: &'static str;
    /// Options that cannot be used with others.
    const APART: &'static [(&'static str, &'static [&'static str])];
    /// Options that are more than a key.
    const COMPOSITE: &'static [Composite];
    /// Whether each flow of a single run is told.
    const EACH_FLOW: bool;
    /// The table of its options.
    fn table() -> &'static OnceLock<Vec<Opt>>;
}

/// Values for keys.
pub(super) type Pairs = Vec<(&'static str, String)>;

/// An option that sets several keys, or one in words of its own.
pub(super) struct Composite {
    pub(super) name: &'static str,
    pub(super) value: &'static str,
    pub(super) help: &'static str,
    pub(super) heading: &'static str,
    /// What it is where only its name is given.
    pub(super) missing: Option<&'static str>,
    /// Options that it cannot be used with.
    pub(super) conflicts: &'static [&'static str],
    /// What it sets in an experiment.
    pub(super) pairs: fn(&str, &Experiment) -> Result<Pairs, String>,
}

/// An option.
pub(super) struct Opt {
    name: &'static str,
    letter: Option<char>,
    alias: Option<&'static str>,
    value: String,
    help: String,
    heading: &'static str,
    missing: Option<&'static str>,
    conflicts: &'static [&'static str],
    what: What,
}

enum What {
    /// A key.
    Key(String),
    Composite(fn(&str, &Experiment) -> Result<Pairs, String>),
}

/// The options of a command as they were given.
#[derive(Debug)]
pub(super) struct Short<S> {
    given: Vec<(&'static str, String)>,
    command: PhantomData<S>,
}

/// The experiment `name` that ships.
fn shipped(name: &str, registry: &Registry) -> Result<Loaded, Stop> {
    let found = Shipped::get(name).map_err(|_| Stop::Failed(format!("no experiment '{name}'")))?;
    let loaded = Loaded::parse(&format!("<{name}>"), found.text, registry);
    loaded.map_err(|e| Stop::Failed(e.to_string()))
}

/// The part of the network or of its users that a key belongs to, for the help.
fn heading(key: &str) -> &'static str {
    match key.split('.').next() {
        Some("traffic") => "Traffic",
        Some("group") if key.ends_with(".size") => "Traffic",
        Some("host") if key.starts_with("host.tcp") => "TCP",
        Some("run") => "What runs",
        _ => "Network",
    }
}

/// What stands for a value.
fn placeholder(kind: &Kind) -> String {
    match kind {
        Kind::Size { .. } => "SIZE".to_owned(),
        Kind::Time { .. } => "TIME".to_owned(),
        Kind::Rate => "RATE".to_owned(),
        Kind::Queue { .. } => "QUEUE".to_owned(),
        Kind::Whole { .. } => "N".to_owned(),
        Kind::Share => "SHARE".to_owned(),
        Kind::Switch => "on|off".to_owned(),
        Kind::Choice(words) => words.join("|"),
        Kind::Or(_, kind) | Kind::List(kind) => placeholder(kind),
        Kind::Name(_) => "NAME".to_owned(),
        _ => "VALUE".to_owned(),
    }
}

fn made<S: Shorthand>() -> Vec<Opt> {
    let registry = Registry::default();
    // What ships can be read: its tests do.
    let Ok(Loaded { experiment, .. }) = shipped(S::EXPERIMENT, &registry) else {
        return Vec::new();
    };
    let set = experiment.entries();
    let leak = |name: &str| -> &'static str { Box::leak(name.to_owned().into_boxed_str()) };
    let mut all: Vec<Opt> = Vec::new();
    for composite in S::COMPOSITE {
        all.push(Opt {
            name: composite.name,
            letter: None,
            alias: None,
            value: composite.value.to_owned(),
            help: composite.help.to_owned(),
            heading: composite.heading,
            missing: composite.missing,
            conflicts: composite.conflicts,
            what: What::Composite(composite.pairs),
        });
    }
    for (name, key) in experiment.short.iter() {
        if all.iter().any(|known| known.name == name) {
            continue;
        }
        let same = |known: &&mut Opt| matches!(&known.what, What::Key(k) if k == key);
        if let Some(known) = all.iter_mut().find(same) {
            match name.chars().next().filter(|_| name.chars().count() == 1) {
                Some(letter) => known.letter = Some(letter),
                None => known.alias = Some(leak(name)),
            }
            continue;
        }
        let Some(about) = registry.about(&experiment, key) else {
            // A number of hosts, which the topology has and not the table.
            let default = default_of(&experiment, &set, key);
            all.push(Opt {
                name: leak(name),
                letter: None,
                alias: None,
                value: "N LIST".to_owned(),
                help: format!("How many {name} there are{default}."),
                heading: heading(key),
                missing: None,
                conflicts: &[],
                what: What::Key(key.to_owned()),
            });
            continue;
        };
        let meaning = about.meaning.trim_end_matches('.');
        let switch = about.kind == Kind::Switch;
        all.push(Opt {
            name: leak(name),
            letter: None,
            alias: None,
            value: format!("{} LIST", placeholder(&about.kind)),
            help: format!("{meaning}{}.", default_of(&experiment, &set, key)),
            heading: heading(key),
            missing: switch.then_some("on"),
            conflicts: S::APART
                .iter()
                .find(|(n, _)| *n == name)
                .map_or(&[], |(_, c)| c),
            what: What::Key(key.to_owned()),
        });
    }
    all
}

/// What a key is in an experiment, of which this is `set`, for the help.
fn default_of(experiment: &Experiment, set: &[Entry], key: &str) -> String {
    let axis = experiment.sweep.iter().find(|axis| axis.key == key);
    let value = match axis {
        Some(axis) => Some(axis.values.join(",")),
        None => {
            let found = set.iter().find(|entry| entry.key == key);
            found.map(|entry| entry.value.to_string())
        }
    };
    value.map_or_else(String::new, |value| format!(" [default: {value}]"))
}

impl<S: Shorthand> Short<S> {
    fn table() -> &'static [Opt] {
        S::table().get_or_init(made::<S>)
    }

    /// The option of this name as it was given.
    pub(super) fn of(&self, name: &str) -> Option<&str> {
        let found = self.given.iter().find(|(known, _)| *known == name);
        found.map(|(_, text)| text.as_str())
    }

    /// The option that sets a key, or what a group has in place of it, and its own key.
    fn option_of(key: &str) -> Option<(&'static str, String)> {
        let of = |key: &str| {
            let is = |opt: &&Opt| matches!(&opt.what, What::Key(k) if k == key);
            let found = Self::table().iter().find(is);
            found.map(|opt| (opt.name, key.to_owned()))
        };
        let of_group = || {
            let (group, rest) = key.strip_prefix("group.")?.split_once('.')?;
            of(&format!("host.{rest}")).filter(|_| !group.is_empty())
        };
        of(key).or_else(of_group)
    }

    /// Puts what was given into the experiment, options of several keys first.
    fn apply(&self, experiment: &mut Experiment, registry: &Registry) -> Result<(), Stop> {
        for opt in Self::table() {
            let Some(text) = self.of(opt.name) else {
                continue;
            };
            let wrong = |why: String| usage(opt.name, text, &why);
            match &opt.what {
                What::Key(key) => {
                    give(experiment, registry, key, text).map_err(|(value, why)| {
                        usage(opt.name, value.as_deref().unwrap_or(text), &why)
                    })?;
                }
                What::Composite(pairs) => {
                    for (key, value) in pairs(text, experiment).map_err(wrong)? {
                        give(experiment, registry, key, &value).map_err(|(_, why)| wrong(why))?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// Gives a key the values of a list: one is set, several are varied.
///
/// # Errors
/// The value that cannot be, if it is one, and why.
fn give(
    experiment: &mut Experiment,
    registry: &Registry,
    key: &str,
    text: &str,
) -> Result<(), (Option<String>, String)> {
    let why = |e: &KnobError| match e {
        KnobError::Unknown { .. } => e.to_string(),
        KnobError::Value { why } => why.clone(),
    };
    let axis = experiment.axis_name(key);
    let sweep = format!("sweep.{}", quoted(key));
    experiment
        .set(registry, &sweep, text)
        .map_err(|e| (None, why(&e)))?;
    let found = experiment.sweep.iter().find(|known| known.key == axis);
    let values = found.map_or_else(Vec::new, |found| found.values.to_vec());
    let mut with = experiment.clone();
    with.sweep.clear();
    for value in &values {
        with.set(registry, key, value)
            .map_err(|e| (Some(value.clone()), why(&e)))?;
    }
    if let [value] = &values[..] {
        experiment.settle(registry, &axis, value);
        experiment
            .set(registry, key, value)
            .map_err(|e| (Some(value.clone()), why(&e)))?;
    }
    Ok(())
}

impl<S: Shorthand> FromArgMatches for Short<S> {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let given = Self::table().iter().filter_map(|opt| {
            let text = matches.get_one::<String>(opt.name)?;
            Some((opt.name, text.clone()))
        });
        Ok(Self {
            given: given.collect(),
            command: PhantomData,
        })
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        *self = Self::from_arg_matches(matches)?;
        Ok(())
    }
}

impl<S: Shorthand> Args for Short<S> {
    fn augment_args(mut command: Command) -> Command {
        for opt in Self::table() {
            let mut arg = Arg::new(opt.name)
                .long(opt.name)
                .value_name(opt.value.as_str())
                .help(opt.help.as_str())
                .help_heading(opt.heading)
                .conflicts_with_all(opt.conflicts);
            if let Some(letter) = opt.letter {
                arg = arg.short(letter);
            }
            if let Some(alias) = opt.alias {
                arg = arg.visible_alias(alias);
            }
            if let Some(missing) = opt.missing {
                arg = arg.num_args(0..=1).default_missing_value(missing);
            }
            command = command.arg(arg);
        }
        command
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// What a command makes of an experiment beyond what its options set.
pub(super) type Settle<'a> = dyn Fn(&mut Experiment, &Registry) -> Result<(), Stop> + 'a;

/// The experiment that the options of a command and those of any run ask for.
pub(super) fn prepared<S: Shorthand>(
    short: &Short<S>,
    loaded: Loaded,
    options: &Options,
    settle: &Settle<'_>,
    registry: &Registry,
) -> Result<(Experiment, Applied, Source), Stop> {
    let Loaded {
        mut experiment,
        source,
    } = loaded;
    // What the file expects is of its own values.
    experiment.expect.clear();
    let x = experiment.show.x.clone();
    short.apply(&mut experiment, registry)?;
    settle(&mut experiment, registry)?;
    let applied = options.apply(&mut experiment, registry)?;
    if options.repetitions.is_none() && options.record.is_any() {
        experiment.run.repetitions = 1;
    }
    // What is on the x axis varies fastest.
    if let Some(at) = x.and_then(|x| experiment.sweep.iter().position(|axis| axis.key == x)) {
        let axis = experiment.sweep.remove(at);
        experiment.sweep.push(axis);
    }
    Ok((experiment, applied, source))
}

/// Runs what a command asks for; the exit code.
pub(super) fn run<S: Shorthand>(
    app: &App,
    experiment: &str,
    short: &Short<S>,
    options: &Options,
    settle: &Settle<'_>,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let registry = &app.catalog.registry;
    let loaded = shipped(experiment, registry)?;
    let (experiment, applied, source) = prepared(short, loaded, options, settle, registry)?;
    let option_of = |key: &str| Short::<S>::option_of(key);
    let asked: BTreeSet<&str> = short.given.iter().map(|(name, _)| *name).collect();
    let prepared = Prepared {
        experiment,
        applied,
        source,
        short: Some(&option_of),
        asked: &asked,
        each_flow: S::EACH_FLOW,
    };
    perform(app, prepared, options, command, console)
}
