//! Where stories are played: their scenes run, and what they gave is kept for tables and rows.

use crate::report::Report;
use crate::story::{Column, Contents, Grid, Keep, Scene, Story, Table, When};
use narrows_experiment::file::Loaded;
use narrows_experiment::knob::KnobError;
use narrows_experiment::model::expect::number_in_base_unit;
use narrows_experiment::model::{Experiment, Invalid};
use narrows_experiment::plan::{Plan, PlannedRun};
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::shipped::Shipped;
use narrows_experiment::study::{Point, Study, StudyError};
use narrows_report::points;
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// How much of a story runs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Extent {
    /// What takes less than a minute.
    #[default]
    Usual,
    /// All rows, with all their runs.
    Full,
}

/// Where stories are played.
pub struct Stage<'a> {
    /// What experiments can name.
    pub registry: &'a Registry,
    /// Runs at the same time; changes no result.
    pub threads: usize,
    /// How much runs.
    pub extent: Extent,
    /// Set by who interrupts.
    pub cancel: &'a AtomicBool,
    /// Told when a run of a scene has ended.
    pub ended: &'a (dyn Fn() + Sync),
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("threads", &self.threads)
            .field("extent", &self.extent)
            .finish_non_exhaustive()
    }
}

/// Why a story could not be played.
#[derive(Debug)]
pub enum StageError {
    /// It was interrupted.
    Interrupted,
    /// A scene is impossible, or a run gave no result: the scene, and why.
    Scene(&'static str, String),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Scene(scene, why) => write!(f, "scene '{scene}': {why}"),
        }
    }
}

impl std::error::Error for StageError {}

static NEVER: AtomicBool = AtomicBool::new(false);

impl<'a> Stage<'a> {
    /// A stage with one thread, on which stories are played as usual.
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            threads: 1,
            extent: Extent::Usual,
            cancel: &NEVER,
            ended: &|| {},
        }
    }

    /// Plays a story and judges its rows.
    ///
    /// # Errors
    /// If it was interrupted, or a scene cannot run.
    pub fn report<'s>(&self, story: &'s Story) -> Result<Report<'s>, StageError> {
        Ok(Report::of(story, &self.play(story)?))
    }

    /// The scenes of a story that run here.
    fn scenes<'s>(&self, story: &'s Story) -> impl Iterator<Item = &'s Scene> + use<'s> {
        let extent = self.extent;
        let scenes = story.scenes.iter();
        scenes.filter(move |s| s.when == When::Always || extent == Extent::Full)
    }

    /// How many runs a story has.
    ///
    /// # Errors
    /// If a scene is impossible.
    pub fn runs(&self, story: &Story) -> Result<usize, StageError> {
        let runs = self.scenes(story).map(|scene| {
            let failed = |why| StageError::Scene(scene.name, why);
            let experiment = self.experiment(scene).map_err(failed)?;
            let plan = Plan::new(&experiment, self.registry);
            Ok(plan.map_err(|e| failed(e.to_string()))?.runs())
        });
        runs.sum()
    }

    /// Runs the scenes of a story.
    ///
    /// # Errors
    /// As [`Self::report`].
    pub fn play(&self, story: &Story) -> Result<Played, StageError> {
        let scenes = self.scenes(story);
        let scenes = scenes.map(|scene| Ok((*scene, self.scenery(scene)?)));
        Ok(Played {
            scenes: scenes.collect::<Result<_, _>>()?,
            extent: self.extent,
        })
    }

    /// Runs a scene.
    ///
    /// # Errors
    /// As [`Self::report`].
    pub fn scenery(&self, scene: &Scene) -> Result<Scenery, StageError> {
        let failed = |why: String| StageError::Scene(scene.name, why);
        let experiment = self.experiment(scene).map_err(failed)?;
        let outcomes = Mutex::new(Vec::new());
        let ended = |run: PlannedRun, outcome: RunOutcome| {
            if scene.keep == Keep::Outcomes {
                let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                outcomes.push((run, outcome));
            }
            (self.ended)();
        };
        let (registry, threads) = (self.registry, self.threads);
        let study = Study::run_with(&experiment, registry, threads, self.cancel, &ended);
        let study = study.map_err(|e| match e {
            StudyError::Interrupted => StageError::Interrupted,
            e => failed(e.to_string()),
        })?;
        let mut outcomes = outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        outcomes.sort_by_key(|(run, _)| (run.point, run.repetition));
        let keys = experiment.sweep.iter();
        let titles = keys.map(|axis| experiment.title_of(registry, &axis.key));
        Ok(Scenery {
            titles: titles.collect(),
            study,
            outcomes,
        })
    }

    /// The experiment of a scene.
    ///
    /// # Errors
    /// Why there is none.
    pub fn experiment(&self, scene: &Scene) -> Result<Experiment, String> {
        let registry = self.registry;
        let shipped = Shipped::get(scene.experiment)
            .map_err(|_| format!("no experiment '{}' ships", scene.experiment))?;
        let loaded = Loaded::parse(scene.experiment, shipped.text, registry);
        let mut experiment = loaded.map_err(|e| e.to_string())?.experiment;
        let usual = match self.extent {
            Extent::Usual => scene.usually,
            Extent::Full => &[],
        };
        let keys = scene.common.iter().chain(scene.set);
        for (key, value) in keys.chain(usual) {
            put(&mut experiment, registry, key, value).map_err(|e| format!("{key}: {e}"))?;
        }
        Ok(experiment)
    }
}

/// Sets a key, which then is not varied, or varies one: `sweep.KEY`.
fn put(
    experiment: &mut Experiment,
    registry: &Registry,
    key: &str,
    value: &str,
) -> Result<(), KnobError> {
    let Some(axis) = key.strip_prefix("sweep.") else {
        let axis = experiment.axis_name(key);
        experiment.settle(registry, &axis, value);
        return experiment.set(registry, key, value);
    };
    let axis = experiment.axis_name(axis);
    let key = format!("sweep.{}", narrows_experiment::model::quoted(&axis));
    experiment.set(registry, &key, value)
}

/// Why a number cannot be told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoAnswer {
    /// Its scene runs with all rows only.
    NeedsFull,
    /// It is not there; why.
    Missing(String),
}

impl fmt::Display for NoAnswer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NeedsFull => f.write_str("runs with --full"),
            Self::Missing(why) => f.write_str(why),
        }
    }
}

impl From<Invalid> for NoAnswer {
    fn from(e: Invalid) -> Self {
        Self::Missing(e.to_string())
    }
}

/// Something of what was played, or why it cannot be told.
pub type Answer<T> = Result<T, NoAnswer>;

/// What is missing, for [`Option::ok_or_else`].
pub fn missing(what: &str) -> NoAnswer {
    NoAnswer::Missing(format!("there is no {what}"))
}

/// What the scenes of a story gave.
#[derive(Debug)]
pub struct Played {
    scenes: Vec<(Scene, Scenery)>,
    extent: Extent,
}

impl Played {
    /// How much was played.
    pub fn extent(&self) -> Extent {
        self.extent
    }

    /// What a scene gave.
    ///
    /// # Errors
    /// If it did not run.
    pub fn scene(&self, name: &str) -> Answer<&Scenery> {
        let found = self.scenes.iter().find(|(scene, _)| scene.name == name);
        match (found, self.extent) {
            (Some((_, scenery)), _) => Ok(scenery),
            (None, Extent::Usual) => Err(NoAnswer::NeedsFull),
            (None, Extent::Full) => Err(missing(&format!("scene '{name}'"))),
        }
    }

    /// A table of the story.
    ///
    /// # Errors
    /// If what it shows did not run.
    pub fn grid(&self, table: &Table) -> Answer<Grid> {
        match table.made {
            Contents::Own(make) => make(self),
            Contents::Points { scene, at, columns } => self.scene(scene)?.grid(at, columns),
        }
    }
}

/// What a scene gave.
#[derive(Debug)]
pub struct Scenery {
    study: Study,
    outcomes: Vec<(PlannedRun, RunOutcome)>,
    /// Titles of the axes.
    titles: Vec<String>,
}

impl Scenery {
    /// All its runs.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// The experiment, with its sweep.
    pub fn experiment(&self) -> &Experiment {
        self.study.plan().base()
    }

    /// The points at which keys, or their short names, have these values.
    pub fn points<'s>(&'s self, at: &[(&str, &str)]) -> impl Iterator<Item = Point<'s>> {
        let at: Vec<(String, String)> = at
            .iter()
            .map(|(key, value)| (self.experiment().axis_name(key), (*value).to_owned()))
            .collect();
        let here = move |p: &Point<'_>| at.iter().all(|(k, v)| p.value(k) == Some(v));
        self.study.points().filter(here)
    }

    /// The one point at which keys, or their short names, have these values.
    ///
    /// # Errors
    /// If there is none, or several.
    pub fn at(&self, at: &[(&str, &str)]) -> Answer<Point<'_>> {
        let names: Vec<String> = at
            .iter()
            .map(|(key, _)| self.experiment().axis_name(key))
            .collect();
        let pairs = names
            .iter()
            .zip(at)
            .map(|(name, (_, v))| (name.as_str(), *v));
        let pairs: Vec<(&str, &str)> = pairs.collect();
        Ok(self.study.at(&pairs)?)
    }

    /// The mean of a metric, in its base unit, where keys have these values.
    ///
    /// # Errors
    /// If there is no such point, or no value.
    pub fn value(&self, at: &[(&str, &str)], metric: &str) -> Answer<f64> {
        Ok(self.at(at)?.metric(metric)?.mean)
    }

    /// A metric over the values of an axis, where other keys have these values: the axis as a number
    /// in its base unit (`250Mb/s` is 250e6), or how manieth its value is if it is no number.
    ///
    /// # Errors
    /// If there is no such axis or metric. Points without a value are left out.
    pub fn along(&self, axis: &str, at: &[(&str, &str)], metric: &str) -> Answer<Vec<(f64, f64)>> {
        let key = self.experiment().axis_name(axis);
        let known = self.experiment().sweep.iter().find(|a| a.key == key);
        let known = known.ok_or_else(|| missing(&format!("axis '{axis}'")))?;
        let place = |value: &str| {
            let nth = || known.values.iter().position(|v| v == value).unwrap_or(0) as f64;
            number_in_base_unit(value).unwrap_or_else(nth)
        };
        let points = self.points(at).filter_map(|point| {
            let y = point.metric(metric).ok()?.mean;
            Some((place(point.value(&key)?), y))
        });
        let points: Vec<(f64, f64)> = points.collect();
        match points.is_empty() {
            true => Err(missing(&format!("value of {metric}"))),
            false => Ok(points),
        }
    }

    /// The values of all columns with this beginning and end, of the runs where keys have these
    /// values: `port.` and `.max.1ms_bps` are what a probe on several ports says.
    ///
    /// # Errors
    /// If there is none.
    pub fn matching(&self, at: &[(&str, &str)], begin: &str, end: &str) -> Answer<Vec<f64>> {
        let runs = self.points(at).flat_map(|p| p.runs());
        let columns = runs.flat_map(|r| &r.metrics);
        let fits = columns.filter(|(name, _)| name.starts_with(begin) && name.ends_with(end));
        let values: Vec<f64> = fits.filter_map(|(_, value)| value.parse().ok()).collect();
        match values.is_empty() {
            true => Err(missing(&format!("value of {begin}*{end}"))),
            false => Ok(values),
        }
    }

    /// All that the runs gave where keys have these values, by repetition; of a scene that keeps
    /// outcomes.
    ///
    /// # Errors
    /// If there is none.
    pub fn outcomes(&self, at: &[(&str, &str)]) -> Answer<Vec<&RunOutcome>> {
        let points: Vec<usize> = self.points(at).map(|p| p.number()).collect();
        let kept = self
            .outcomes
            .iter()
            .filter(|(run, _)| points.contains(&run.point));
        let kept: Vec<&RunOutcome> = kept.map(|(_, outcome)| outcome).collect();
        match kept.is_empty() {
            true => Err(missing(
                "outcome: the scene keeps none, or there is no such point",
            )),
            false => Ok(kept),
        }
    }

    /// A row for each point where keys have these values: what else is varied, then the metrics.
    ///
    /// # Errors
    /// If there is no such point.
    pub fn grid(&self, at: &[(&str, &str)], columns: &[Column]) -> Answer<Grid> {
        let fixed: Vec<String> = at
            .iter()
            .map(|(key, _)| self.experiment().axis_name(key))
            .collect();
        let axes = self.experiment().sweep.iter().zip(&self.titles);
        let axes = axes.filter(|(axis, _)| axis.values.len() > 1 && !fixed.contains(&axis.key));
        let axes: Vec<(&str, &String)> = axes.map(|(axis, t)| (axis.key.as_str(), t)).collect();
        let summary = self.study.summary();
        let metrics = self.study.metrics();
        let unit = |metric: &str| {
            let column = summary.column_of(metrics, metric);
            column.map_or("", |column| points::unit_of(&column))
        };
        let units: Vec<&str> = columns.iter().map(|c| unit(c.metric)).collect();
        let row = |point: Point<'_>| {
            let words = axes
                .iter()
                .map(|(key, _)| point.value(key).unwrap_or("").to_owned());
            let cells = columns.iter().zip(&units).map(|(column, unit)| {
                let found = point.metric(column.metric);
                found.map_or_else(|_| "-".to_owned(), |e| points::cell(&e, unit))
            });
            words.chain(cells).collect()
        };
        let rows: Vec<Vec<String>> = self.points(at).map(row).collect();
        if rows.is_empty() {
            return Err(missing("such point"));
        }
        let titles = axes.iter().map(|(_, title)| (*title).clone());
        Ok(Grid {
            head: titles
                .chain(columns.iter().map(|c| c.title.to_owned()))
                .collect(),
            words: axes.len(),
            rows,
        })
    }
}
