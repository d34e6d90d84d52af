//! What the runs of a plan say together: a mean with its interval for each point and metric, and
//! whether what was expected came out.

use crate::metric::Metrics;
use crate::model::expect::Bound;
use crate::model::{Expect, Experiment, Invalid};
use crate::plan::Plan;
use crate::registry::Registry;
use crate::results::{Record, column};
use crate::stats::Estimate;
use narrows::congestion::order::sort_by_key;
use std::collections::BTreeSet;

/// The runs of a plan that ended, by point.
#[derive(Clone, Debug)]
pub struct Summary<'a> {
    plan: &'a Plan,
    points: Vec<Vec<&'a Record>>,
}

/// What became of an expectation at a point.
#[derive(Clone, Debug, PartialEq)]
pub struct Verdict {
    /// The metric.
    pub metric: String,
    /// Its column, with its unit; none if no run had it.
    pub column: Option<String>,
    /// What it is compared with.
    pub bound: Bound,
    /// The point, in keys and values.
    pub point: String,
    /// What was measured.
    pub found: Option<Estimate>,
    /// Whether it holds.
    pub holds: Holds,
}

/// Whether something holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holds {
    /// It does.
    Yes,
    /// It does not.
    No,
    /// No run of the point ended with a value.
    Unknown,
}

impl<'a> Summary<'a> {
    /// Of these runs.
    pub fn new(plan: &'a Plan, records: &'a [Record]) -> Self {
        let mut points = vec![Vec::new(); plan.points()];
        for record in records {
            if let Some(point) = points.get_mut(record.run.point) {
                point.push(record);
            }
        }
        for point in &mut points {
            sort_by_key(point, |r| r.run.repetition);
        }
        Self { plan, points }
    }

    /// Whether what is shown and expected can be measured, whatever comes out.
    ///
    /// # Errors
    /// What cannot, by its key, and why.
    pub fn check(plan: &'a Plan, registry: &Registry) -> Result<(), Invalid> {
        let base = plan.base();
        let check = |key: String, name: &str| {
            let named = metric_name(&registry.metrics, base, name);
            named.map(|_| ()).map_err(|why| Invalid::new(key, why))
        };
        for name in &base.show.y {
            check("show.y".to_owned(), name)?;
        }
        for (n, expect) in base.expect.iter().enumerate() {
            if let Some(name) = &expect.that {
                check(format!("expect.{n}.that"), name)?;
            }
        }
        Self::new(plan, &[]).verdicts(&registry.metrics)?;
        if let Some(x) = &base.show.x
            && !base.sweep.iter().any(|axis| axis.key == *x)
        {
            let varied: Vec<&str> = base.sweep.iter().map(|a| a.key.as_str()).collect();
            let why = format!("'{x}' is not varied; what is: {}", varied.join(", "));
            return Err(Invalid::new("show.x", why));
        }
        Ok(())
    }

    /// The plan.
    pub fn plan(&self) -> &'a Plan {
        self.plan
    }

    /// The finished runs of a point, by repetition.
    pub fn runs(&self, point: usize) -> &[&'a Record] {
        &self.points[point]
    }

    /// A metric at a point, by its column.
    pub fn estimate(&self, point: usize, column: &str) -> Option<Estimate> {
        let all: Vec<f64> = self.points[point]
            .iter()
            .filter_map(|r| r.metric(column))
            .collect();
        Estimate::of(&all)
    }

    /// The column of a metric or of a probe's value, by its name.
    pub fn column_of(&self, metrics: &Metrics, name: &str) -> Option<String> {
        let name = metric_name(metrics, self.plan.base(), name).ok()?;
        column_of(metrics, self.points.iter().flatten().copied(), &name)
    }

    /// What became of each expectation, at each point that it is about.
    ///
    /// # Errors
    /// An expectation without metric or bound, or about a key that is not varied.
    pub fn verdicts(&self, metrics: &Metrics) -> Result<Vec<Verdict>, Invalid> {
        let mut all = Vec::new();
        for (n, expect) in self.plan.base().expect.iter().enumerate() {
            let missing =
                |key: &str| Invalid::new(format!("expect.{n}"), format!("has no '{key}'"));
            let metric = expect.that.as_ref().ok_or_else(|| missing("that"))?;
            let bound = expect.is.ok_or_else(|| missing("is"))?;
            let column = self.column_of(metrics, metric);
            for point in 0..self.plan.points() {
                if !self.concerns(n, expect, point)? {
                    continue;
                }
                let found = column.as_ref().and_then(|c| self.estimate(point, c));
                all.push(Verdict {
                    metric: metric.clone(),
                    column: column.clone(),
                    bound,
                    point: self.plan.label(point),
                    found,
                    holds: match found {
                        None => Holds::Unknown,
                        Some(e) if bound.holds(e.mean) => Holds::Yes,
                        Some(_) => Holds::No,
                    },
                });
            }
        }
        Ok(all)
    }

    /// Whether an expectation is about a point.
    fn concerns(&self, n: usize, expect: &Expect, point: usize) -> Result<bool, Invalid> {
        let axes = &self.plan.base().sweep;
        let values = self.plan.values(point);
        for (key, value) in expect.place.iter() {
            let Some(at) = axes.iter().position(|axis| axis.key == key) else {
                let known: Vec<&str> = axes.iter().map(|a| a.key.as_str()).collect();
                let why = format!("'{key}' is not varied; what is: {}", known.join(", "));
                return Err(Invalid::new(format!("expect.{n}.where"), why));
            };
            if !axes[at].values.iter().any(|v| v == value) {
                let why = format!(
                    "'{key}' is never '{value}': it is {}",
                    axes[at].values.join(", ")
                );
                return Err(Invalid::new(format!("expect.{n}.where"), why));
            }
            if values[at] != value {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

/// The name of a metric of an experiment, as columns have it.
///
/// # Errors
/// A sentence with the near match, if it is none.
pub fn metric_name(
    metrics: &Metrics,
    experiment: &Experiment,
    name: &str,
) -> Result<String, String> {
    let traffic = experiment.traffic.iter().map(|t| t.name.as_str());
    let probes = experiment.probes.iter().map(|p| p.name.as_str());
    let (traffic, probes): (Vec<_>, Vec<_>) = (traffic.collect(), probes.collect());
    metrics.named(name, &traffic, &probes)
}

/// The column of a metric or of a probe's value, by its name.
pub(crate) fn column_of<'a>(
    metrics: &Metrics,
    records: impl Iterator<Item = &'a Record>,
    name: &str,
) -> Option<String> {
    if let Some(metric) = metrics.get(name) {
        return Some(column(name, metric.unit));
    }
    // Of a probe: its column ends with a unit, of which there are these.
    let columns = records.flat_map(|r| r.metrics.iter().map(|(c, _)| c.as_str()));
    let there: BTreeSet<&str> = columns.filter(|c| c.starts_with(name)).collect();
    let units = ["", "bytes", "packets", "ns", "bit/s", "1/s"];
    let mut columns = units.iter().map(|unit| column(name, unit));
    columns.find(|c| there.contains(c.as_str()))
}
