//! Studies: all runs of an experiment in memory, and what they say.

use crate::execute::outcome_of;
use crate::metric::Metrics;
use crate::model::{Experiment, Invalid};
use crate::plan::{Plan, PlannedRun, Shard};
use crate::registry::Registry;
use crate::results::Record;
use crate::run::{RunError, RunOutcome};
use crate::scenario::RunContext;
use crate::scenario::parallel;
use crate::stats::Estimate;
use crate::summary::{self, Summary};
use narrows::congestion::order::sort_by_key;
use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// All runs of an experiment, each of which ended.
#[derive(Clone, Debug)]
pub struct Study {
    plan: Plan,
    metrics: Metrics,
    /// By point, then by repetition.
    records: Vec<Record>,
}

/// Why there is no study.
#[derive(Debug)]
pub enum StudyError {
    /// The experiment is impossible.
    Invalid(Invalid),
    /// It was interrupted before all runs had ended.
    Interrupted,
    /// A run gave no result.
    Run {
        /// Where in the sweep, in keys and values.
        point: String,
        /// Its seed.
        seed: u64,
        /// Why.
        error: RunError,
    },
}

impl From<Invalid> for StudyError {
    fn from(e: Invalid) -> Self {
        Self::Invalid(e)
    }
}

impl fmt::Display for StudyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Invalid(e) => e.fmt(f),
            Self::Interrupted => f.write_str("interrupted"),
            Self::Run { point, seed, error } if point.is_empty() => {
                write!(f, "the run with seed {seed}: {error}")
            }
            Self::Run { point, seed, error } => {
                write!(f, "the run with {point} and seed {seed}: {error}")
            }
        }
    }
}

impl std::error::Error for StudyError {}

impl Study {
    /// Runs `experiment` with its sweep and repetitions on `threads` threads, whose number changes
    /// no result.
    ///
    /// # Errors
    /// Before anything runs, if a point is impossible, or what is shown or expected cannot be measured;
    /// and if a run gives no result, the first such.
    pub fn run(
        experiment: &Experiment,
        registry: &Registry,
        threads: usize,
    ) -> Result<Self, StudyError> {
        let never = AtomicBool::new(false);
        let studies = Self::run_all(&[experiment], registry, threads, &never, &|_, _, _| {});
        let mut studies = studies.map_err(|(_, e)| e)?;
        // There is one for each experiment.
        Ok(studies.remove(0))
    }

    /// Runs several experiments on the same threads, until `cancel` is set: a run begins when a thread
    /// is free, whichever experiment it is of. `heard` is told of each run that ended, with all that it
    /// gave and the index of its experiment, never twice at once.
    ///
    /// # Errors
    /// As [`Self::run`], and if it was cancelled before all runs had ended; with the index of its
    /// experiment. Of several that fail the first is told.
    pub fn run_all(
        experiments: &[&Experiment],
        registry: &Registry,
        threads: usize,
        cancel: &AtomicBool,
        heard: &(dyn Fn(usize, PlannedRun, RunOutcome) + Sync),
    ) -> Result<Vec<Self>, (usize, StudyError)> {
        let plans = experiments.iter().enumerate().map(|(nth, experiment)| {
            let plan = || {
                let plan = Plan::new(experiment, registry)?;
                Summary::check(&plan, registry)?;
                plan.check(registry)?;
                Ok::<_, Invalid>(plan)
            };
            plan().map_err(|e| (nth, e.into()))
        });
        let plans: Vec<Plan> = plans.collect::<Result<_, (usize, StudyError)>>()?;
        let runs = plans.iter().enumerate();
        let runs = runs.flat_map(|(nth, plan)| plan.part(Shard::WHOLE).map(move |run| (nth, run)));
        let runs: Vec<(usize, PlannedRun)> = runs.collect();
        // What comes before a run that failed is still done, so that the first is told.
        let first_failed = AtomicUsize::new(usize::MAX);
        let ended = Mutex::new((vec![Vec::new(); plans.len()], None));
        parallel::each(runs.len(), threads.max(1), |index| {
            let after = index > first_failed.load(Ordering::Relaxed);
            if after || cancel.load(Ordering::Relaxed) {
                return;
            }
            let (nth, run) = runs[index];
            let ctx = RunContext {
                cancel: Some(cancel),
                ..RunContext::default()
            };
            let outcome = outcome_of(&plans[nth], registry, run, ctx);
            let mut ended = ended.lock().unwrap_or_else(PoisonError::into_inner);
            let (records, failed) = &mut *ended;
            match outcome {
                Ok(outcome) => {
                    records[nth].push(Record::of(&plans[nth], run, &outcome, registry));
                    heard(nth, run, outcome);
                }
                Err(error) if index < first_failed.fetch_min(index, Ordering::Relaxed) => {
                    *failed = Some((index, error));
                }
                Err(_) => {}
            }
        });
        let (records, failed) = ended.into_inner().unwrap_or_else(PoisonError::into_inner);
        let unfinished = |(plan, records): (&Plan, &Vec<Record>)| records.len() < plan.runs();
        if cancel.load(Ordering::Relaxed)
            && let Some(nth) = plans.iter().zip(&records).position(unfinished)
        {
            return Err((nth, StudyError::Interrupted));
        }
        if let Some((index, error)) = failed {
            let (nth, run) = runs[index];
            let error = StudyError::Run {
                point: plans[nth].label(run.point),
                seed: plans[nth].seed(run),
                error,
            };
            return Err((nth, error));
        }
        let studies = plans.into_iter().zip(records).map(|(plan, mut records)| {
            sort_by_key(&mut records, |r| (r.run.point, r.run.repetition));
            Self {
                plan,
                metrics: registry.metrics.clone(),
                records,
            }
        });
        Ok(studies.collect())
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The metrics that its runs have.
    pub fn metrics(&self) -> &Metrics {
        &self.metrics
    }

    /// The runs, by point, then by repetition.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The same by point, with what was expected.
    pub fn summary(&self) -> Summary<'_> {
        Summary::new(&self.plan, &self.records)
    }

    /// The points of the sweep; the first axis varies slowest. One without a sweep.
    pub fn points(&self) -> impl ExactSizeIterator<Item = Point<'_>> {
        (0..self.plan.points()).map(|number| Point {
            study: self,
            number,
        })
    }

    /// The one point with these values, as keys and values of the sweep.
    ///
    /// # Errors
    /// If a key is not varied or never that, or there are several such points.
    pub fn at(&self, values: &[(&str, &str)]) -> Result<Point<'_>, Invalid> {
        let axes = &self.plan.base().sweep;
        for (key, value) in values {
            let Some(axis) = axes.iter().find(|axis| axis.key == *key) else {
                let known: Vec<&str> = axes.iter().map(|a| a.key.as_str()).collect();
                let why = format!("it is not varied; what is: {}", known.join(", "));
                return Err(Invalid::new(*key, why));
            };
            if !axis.values.iter().any(|known| known == value) {
                let why = format!("it is never '{value}': it is {}", axis.values.join(", "));
                return Err(Invalid::new(*key, why));
            }
        }
        let here = |p: &Point<'_>| values.iter().all(|(k, v)| p.value(k) == Some(*v));
        let mut found = self.points().filter(here);
        match (found.next(), found.next()) {
            (Some(point), None) => Ok(point),
            _ => {
                let given = |key: &str| values.iter().any(|(k, _)| *k == key);
                let open = axes.iter().filter(|a| !given(&a.key));
                let open: Vec<&str> = open.map(|a| a.key.as_str()).collect();
                let why = format!(
                    "several points are there: give a value of {}",
                    open.join(", ")
                );
                Err(Invalid::new("sweep", why))
            }
        }
    }
}

/// A point of the sweep with its runs.
#[derive(Clone, Copy, Debug)]
pub struct Point<'a> {
    study: &'a Study,
    number: usize,
}

impl<'a> Point<'a> {
    /// Its number in the plan.
    pub fn number(&self) -> usize {
        self.number
    }

    /// What it is, in keys and values; nothing without a sweep.
    pub fn label(&self) -> String {
        self.study.plan.label(self.number)
    }

    /// The value here of a key that is varied.
    pub fn value(&self, key: &str) -> Option<&'a str> {
        let plan = &self.study.plan;
        let at = plan.base().sweep.iter().position(|axis| axis.key == key)?;
        plan.values(self.number).get(at).copied()
    }

    /// Its runs, by repetition.
    pub fn runs(&self) -> &'a [Record] {
        let records = &self.study.records;
        let begin = records.partition_point(|r| r.run.point < self.number);
        let end = records.partition_point(|r| r.run.point <= self.number);
        &records[begin..end]
    }

    /// A metric here, in its base unit (bit/s, bytes, ns): the mean of the repetitions with its
    /// 95 % interval. `goodput`; `copy.goodput` of one traffic of several;
    /// `port.s0->h0.mean_bytes` of a probe.
    ///
    /// # Errors
    /// If there is no such metric, or no run here has a value of it.
    pub fn metric(&self, name: &str) -> Result<Estimate, Invalid> {
        let Study {
            plan,
            metrics,
            records,
        } = self.study;
        let named = summary::metric_name(metrics, plan.base(), name);
        let named = named.map_err(|why| Invalid::new(name, why))?;
        let column = summary::column_of(metrics, records.iter(), &named);
        let values: Vec<f64> = column.map_or_else(Vec::new, |column| {
            let runs = self.runs().iter();
            runs.filter_map(|r| r.metric(&column)).collect()
        });
        Estimate::of(&values).ok_or_else(|| {
            let at = self.label();
            let at = if at.is_empty() {
                at
            } else {
                format!(" with {at}")
            };
            Invalid::new(name, format!("no run{at} has a value of it"))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::congestion::FlowStart;
    use narrows::congestion::Reno;

    fn study(threads: usize) -> Study {
        let registry = Registry::default();
        let experiment = Experiment::builder(&registry)
            .set("network.hosts", 3)
            .traffic("copy", "bulk", |t| {
                t.set("from", "h1..h2").set("size", "200kB")
            })
            .probe("port", "queue", |p| p.set("on", "s0->h0"))
            .vary("host.tcp.congestion", ["reno", "cubic"])
            .vary("network.queue.limit", ["32KiB", "256KiB"])
            .repetitions(3)
            .build()
            .unwrap();
        Study::run(&experiment, &registry, threads).unwrap()
    }

    #[test]
    fn the_number_of_threads_changes_no_result() {
        let one = study(1);
        assert_eq!(one.records(), study(3).records());
        assert_eq!(one.records().len(), 12);
        for (n, point) in one.points().enumerate() {
            assert_eq!(point.number(), n);
            assert_eq!(point.runs().len(), 3);
            assert!(point.runs().iter().all(|r| r.run.point == n));
        }
    }

    #[test]
    fn a_metric_is_read_by_its_name_where_keys_have_values() {
        let study = study(2);
        let at = [
            ("network.queue.limit", "32KiB"),
            ("host.tcp.congestion", "cubic"),
        ];
        let point = study.at(&at).unwrap();
        assert_eq!(point.value("host.tcp.congestion"), Some("cubic"));
        let goodput = point.metric("goodput").unwrap();
        assert_eq!(goodput.samples, 3);
        assert_eq!(
            Some(goodput),
            study.summary().estimate(point.number(), "goodput_bps")
        );
        assert!(point.metric("port.s0->h0.max_bytes").unwrap().mean <= 32.0 * 1_024.0);
        let error = point.metric("godput").unwrap_err();
        assert!(error.why.contains("did you mean 'goodput'?"), "{error}");
        for (at, says) in [
            (("host.tcp.congestion", "reno"), "network.queue.limit"),
            (("host.tcp.congestion", "dctcp"), "never 'dctcp'"),
            (("host.tcp.rto", "1ms"), "not varied"),
        ] {
            let error = study.at(&[at]).unwrap_err();
            assert!(error.why.contains(says), "{error}");
        }
    }

    #[test]
    fn of_several_experiments_that_fail_the_first_is_told_and_with_none_each_has_its_runs() {
        let mut registry = Registry::default();
        // The check before all runs makes one for a window of one segment.
        let breaks = |start: &FlowStart| {
            assert_eq!(start.initial_window, start.mss, "it broke");
            Reno::new(start)
        };
        registry
            .congestion_mut()
            .register("breaks", "no run ends", breaks);
        let of = |congestion: &str, size: &str| {
            let built = Experiment::builder(&registry)
                .set("network.hosts", 2)
                .set("host.tcp.congestion", congestion)
                .traffic("copy", "bulk", |t| t.set("from", "h1").set("size", size))
                .repetitions(2)
                .build();
            built.unwrap()
        };
        let (long, short) = (of("reno", "20MB"), of("reno", "10kB"));
        let broken = of("breaks", "10kB");
        let run = |all: &[&Experiment], threads| {
            let heard = Mutex::new(vec![0; all.len()]);
            let studies = Study::run_all(
                all,
                &registry,
                threads,
                &AtomicBool::new(false),
                &|nth, _, _| heard.lock().unwrap()[nth] += 1,
            );
            (studies, heard.into_inner().unwrap())
        };
        for threads in [1, 3] {
            let (failed, heard) = run(&[&long, &broken, &broken, &short], threads);
            let (nth, error) = failed.unwrap_err();
            assert_eq!((nth, heard[0]), (1, 2), "{error}");
            assert!(matches!(error, StudyError::Run { .. }), "{error}");
            let (studies, heard) = run(&[&long, &short], threads);
            assert_eq!(heard, [2, 2]);
            for (study, alone) in studies.unwrap().iter().zip([&long, &short]) {
                let alone = Study::run(alone, &registry, 1).unwrap();
                assert_eq!(study.records(), alone.records());
            }
        }
    }

    #[test]
    fn an_impossible_point_is_told_before_anything_runs() {
        let registry = Registry::default();
        let experiment = Experiment::builder(&registry)
            .traffic("copy", "bulk", |t| t.set("size", "1kB"))
            .vary("traffic.copy.from", ["h1", "h7"])
            .build()
            .unwrap();
        let error = Study::run(&experiment, &registry, 1).unwrap_err();
        assert!(
            matches!(&error, StudyError::Invalid(e) if e.key == "traffic.copy.from"),
            "{error}"
        );
    }

    #[test]
    fn what_is_shown_or_expected_and_cannot_be_measured_is_told_before_anything_runs() {
        let registry = Registry::default();
        let built = Experiment::builder(&registry)
            .traffic("copy", "bulk", |t| t.set("from", "h1").set("size", "1kB"))
            .build();
        let mut shown = built.unwrap();
        let mut expected = shown.clone();
        shown.show.y = vec!["godput".to_owned()];
        for (key, value) in [("expect.0.that", "godput"), ("expect.0.is", ">= 1Mb/s")] {
            expected.set(&registry, key, value).unwrap();
        }
        for (experiment, key) in [(shown, "show.y"), (expected, "expect.0.that")] {
            let never = AtomicBool::new(false);
            let heard = |_, _, _| panic!("something ran");
            let told = Study::run_all(&[&experiment], &registry, 1, &never, &heard);
            let (nth, error) = told.unwrap_err();
            assert!(
                matches!(&error, StudyError::Invalid(e) if e.key == key && nth == 0),
                "{error}"
            );
        }
    }
}
