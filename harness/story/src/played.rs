//! What the scenes of a story gave, kept for its tables and rows.

use crate::grid::{Column, Grid};
use crate::scene::{Extent, Scene};
use narrows_experiment::model::expect::number_in_base_unit;
use narrows_experiment::model::{Experiment, Invalid};
use narrows_experiment::plan::PlannedRun;
use narrows_experiment::probe::Series;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::study::{Point, Study};
use narrows_explain::LEDGER;
use narrows_report::points;
use std::fmt;

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

impl From<NoAnswer> for String {
    fn from(e: NoAnswer) -> Self {
        e.to_string()
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

/// What a probe saw over time in a run, at each of its places.
pub fn series_of<'r>(run: &'r RunOutcome, probe: &str) -> impl Iterator<Item = &'r Series> {
    let readings = run.readings.iter().filter(move |(name, _)| name == probe);
    readings.filter_map(|(_, reading)| reading.series.as_ref())
}

/// Where in the rows of a series a column is.
///
/// # Errors
/// If there is no such column.
pub fn column(series: &Series, name: &str) -> Answer<usize> {
    let found = series.column(name);
    found.ok_or_else(|| missing(&format!("column '{name}'")))
}

/// What the scenes of a story gave.
#[derive(Debug)]
pub struct Played {
    scenes: Vec<(Scene, Scenery)>,
    /// The names of those that did not run.
    left_out: Vec<&'static str>,
    extent: Extent,
}

impl Played {
    pub(crate) fn new(
        scenes: Vec<(Scene, Scenery)>,
        left_out: Vec<&'static str>,
        extent: Extent,
    ) -> Self {
        Self {
            scenes,
            left_out,
            extent,
        }
    }

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
        match found {
            Some((_, scenery)) => Ok(scenery),
            None if self.left_out.contains(&name) => Err(NoAnswer::NeedsFull),
            None => Err(missing(&format!("scene '{name}'"))),
        }
    }
}

/// What connections waited for: a cause of the ledger.
#[derive(Clone, Debug, PartialEq)]
pub struct Waited {
    /// Its name, as [`narrows_explain::Cause::name`] has it.
    pub cause: String,
    /// How often.
    pub gaps: f64,
    /// For how long together, in ms.
    pub ms: f64,
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
    pub(crate) fn new(
        study: Study,
        outcomes: Vec<(PlannedRun, RunOutcome)>,
        titles: Vec<String>,
    ) -> Self {
        Self {
            study,
            outcomes,
            titles,
        }
    }

    /// All its runs.
    pub fn study(&self) -> &Study {
        &self.study
    }

    /// The experiment, with its sweep.
    pub fn experiment(&self) -> &Experiment {
        self.study.plan().base()
    }

    /// How much of a run is measured in ns, unless it ends before: what is left of it after the warm-up.
    pub fn measured(&self) -> f64 {
        let run = &self.experiment().run;
        run.duration.saturating_sub(run.warm_up).as_nanos() as f64
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

    /// The first run where keys have these values; of a scene that keeps outcomes.
    ///
    /// # Errors
    /// If there is none.
    pub fn run(&self, at: &[(&str, &str)]) -> Answer<&RunOutcome> {
        let outcomes = self.outcomes(at)?;
        outcomes.into_iter().next().ok_or_else(|| missing("run"))
    }

    /// What a probe saw over time in that run, at the first of its places.
    ///
    /// # Errors
    /// If there is no such run, or no such probe that has one.
    pub fn series(&self, at: &[(&str, &str)], probe: &str) -> Answer<&Series> {
        let found = series_of(self.run(at)?, probe).next();
        found.ok_or_else(|| missing(&format!("series of the probe '{probe}'")))
    }

    /// What connections waited for in the first run where keys have these values, as a probe of the kind
    /// [`LEDGER`] tells it; of a scene that keeps outcomes.
    ///
    /// # Errors
    /// If there is no such point, or no such probe.
    pub fn ledger(&self, at: &[(&str, &str)]) -> Answer<Vec<Waited>> {
        let run = self.run(at)?;
        let probe = run.readings.iter().find(|(name, _)| name == LEDGER);
        let table = probe.and_then(|(_, reading)| reading.table.as_ref());
        let table = table.ok_or_else(|| missing("ledger"))?;
        let column = |name: &str| {
            let found = table.columns.iter().position(|c| *c == name);
            found.ok_or_else(|| missing(name))
        };
        let (cause, gaps, time) = (column("cause")?, column("gaps")?, column("time_ns")?);
        let row = |row: &Vec<String>| {
            let value = |at: usize| row.get(at)?.parse::<f64>().ok();
            Some(Waited {
                cause: row.get(cause)?.clone(),
                gaps: value(gaps)?,
                ms: value(time)? / 1e6,
            })
        };
        Ok(table.rows.iter().filter_map(row).collect())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_scene_that_nobody_has_does_not_wait_for_all_rows() {
        let played = Played::new(Vec::new(), vec!["rare"], Extent::Usual);
        assert_eq!(played.scene("rare").unwrap_err(), NoAnswer::NeedsFull);
        let misspelt = played.scene("rear").unwrap_err();
        assert!(matches!(misspelt, NoAnswer::Missing(_)), "{misspelt}");
    }
}
