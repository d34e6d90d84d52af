//! Metrics: what is measured of a run, one table entry each.
//!
//! A metric has a name, a unit and a function of the run: the column of a result, the y axis of a
//! picture and what `[[expect]]` can name are made of that entry. Metrics that make sense for one
//! traffic alone are there for each, as `NAME.metric`, when an experiment has several.

mod standard;

use crate::registry::unknown;
use crate::run::{FlowOutcome, Opening, RunOutcome};
use crate::traffic::{AppSpan, Transfer};
use std::fmt;
use std::sync::Arc;

/// A number that was measured.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Measured {
    /// A whole number of the unit.
    Count(u64),
    /// A quotient.
    Ratio(f64),
}

impl Measured {
    /// As a real number.
    pub fn value(self) -> f64 {
        match self {
            Self::Count(n) => n as f64,
            Self::Ratio(x) => x,
        }
    }
}

impl fmt::Display for Measured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(n) => write!(f, "{n}"),
            Self::Ratio(x) => write!(f, "{x}"),
        }
    }
}

/// What of a run is looked at.
#[derive(Clone, Copy, Debug)]
pub struct Scope<'a> {
    /// The run.
    pub run: &'a RunOutcome,
    /// Of one traffic, by its number; of all if `None`.
    pub traffic: Option<u16>,
}

impl<'a> Scope<'a> {
    /// Transfers of the scope that began after the warm-up.
    pub fn transfers(&self) -> impl Iterator<Item = &'a Transfer> + use<'a> {
        let Self { run, traffic } = *self;
        let of = move |t: &&Transfer| traffic.is_none_or(|n| n == t.traffic);
        let transfers = run.transfers.iter().filter(of);
        transfers.filter(move |t| t.began >= run.measured_from)
    }

    /// Payload that applications of the scope have read after the warm-up.
    pub fn delivered(&self) -> narrows::ByteCount {
        let all = self.run.delivered.iter().zip(0_u16..);
        let of = all.filter(|(_, n)| self.traffic.is_none_or(|wanted| wanted == *n));
        of.map(|(delivered, _)| *delivered).sum()
    }

    /// Times of the scope in which something of an application stood still, which began after the
    /// warm-up.
    pub fn spans(&self) -> impl Iterator<Item = &'a AppSpan> + use<'a> {
        let Self { run, traffic } = *self;
        let of = move |s: &&AppSpan| traffic.is_none_or(|n| n == s.traffic);
        let spans = run.spans.iter().filter(of);
        spans.filter(move |s| s.began >= run.measured_from)
    }

    /// Connections of the scope that were opening.
    pub fn opening(&self) -> impl Iterator<Item = &'a Opening> + use<'a> {
        let Self { run, traffic } = *self;
        let of = move |n: u16| traffic.is_none_or(|wanted| wanted == n);
        let all = run.opening.iter().zip(0_u16..);
        all.filter(move |(_, n)| of(*n)).map(|(opening, _)| opening)
    }

    /// Flows of the scope.
    pub fn flows(&self) -> impl Iterator<Item = &'a FlowOutcome> + use<'a> {
        let Self { run, traffic } = *self;
        let of = move |f: &&FlowOutcome| traffic.is_none_or(|n| n == f.traffic);
        run.flows.iter().filter(of)
    }
}

/// What is better.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Better {
    /// More.
    Higher,
    /// Less.
    Lower,
    /// Neither.
    Neither,
}

/// Of what a metric can be told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Of a run, and of each of its traffics.
    Traffic,
    /// Of a run only: its traffics share the ports, and the time.
    Run,
}

type Get = dyn Fn(&Scope<'_>) -> Option<Measured> + Send + Sync;

/// Something that is measured.
#[derive(Clone)]
pub struct Metric {
    /// Its name in columns and keys: `latency.p99`.
    pub name: &'static str,
    /// Its name for people.
    pub title: &'static str,
    /// Its unit, as a column has it: `ns`, `bytes`, `bit/s`; empty for a number or a share.
    pub unit: &'static str,
    /// What is better.
    pub better: Better,
    /// What it is, in a sentence.
    pub meaning: &'static str,
    /// Of what it can be told.
    pub whose: Whose,
    get: Arc<Get>,
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Metric").field(&self.name).finish()
    }
}

impl Metric {
    /// A metric that `get` takes of a run; `None` where there is nothing to measure.
    pub fn new(
        (name, title, unit): (&'static str, &'static str, &'static str),
        better: Better,
        meaning: &'static str,
        get: impl Fn(&Scope<'_>) -> Option<Measured> + Send + Sync + 'static,
    ) -> Self {
        Self {
            name,
            title,
            unit,
            better,
            meaning,
            whose: Whose::Traffic,
            get: Arc::new(get),
        }
    }

    /// The same of the run alone.
    #[must_use]
    pub fn of_run(self) -> Self {
        Self {
            whose: Whose::Run,
            ..self
        }
    }

    /// Its value.
    pub fn of(&self, scope: &Scope<'_>) -> Option<Measured> {
        if self.whose == Whose::Run && scope.traffic.is_some() {
            return None;
        }
        (self.get)(scope)
    }
}

/// Metrics by name.
#[derive(Clone, Debug)]
pub struct Metrics(Vec<Metric>);

impl Default for Metrics {
    fn default() -> Self {
        Self::standard()
    }
}

/// A number of a run with its name.
#[derive(Clone, Debug, PartialEq)]
pub struct Named {
    /// The column: a metric, `TRAFFIC.metric`, or `PROBE.port.value`.
    pub name: String,
    /// Its unit.
    pub unit: &'static str,
    /// Its value.
    pub value: Measured,
}

impl Metrics {
    /// What narrows brings along.
    pub fn standard() -> Self {
        Self(standard::all())
    }

    /// Adds a metric; one of the same name is replaced.
    pub fn register(&mut self, metric: Metric) {
        match self.0.iter_mut().find(|m| m.name == metric.name) {
            Some(old) => *old = metric,
            None => self.0.push(metric),
        }
    }

    /// All metrics, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &Metric> {
        self.0.iter()
    }

    /// Everything that was measured of a run: metrics of the whole run, then of each traffic where
    /// there are several, then what the probes say.
    pub fn of_run(&self, run: &RunOutcome) -> Vec<Named> {
        let named = |prefix: &str, scope: Scope<'_>| -> Vec<Named> {
            let of = |m: &Metric| {
                Some(Named {
                    name: format!("{prefix}{}", m.name),
                    unit: m.unit,
                    value: m.of(&scope)?,
                })
            };
            self.0.iter().filter_map(of).collect()
        };
        let mut all = named("", Scope { run, traffic: None });
        if run.traffic.len() > 1 {
            for (number, name) in run.traffic.iter().enumerate() {
                let traffic = Some(number as u16);
                all.extend(named(&format!("{name}."), Scope { run, traffic }));
            }
        }
        for (probe, reading) in &run.readings {
            for (name, unit, value) in &reading.values {
                all.push(Named {
                    name: format!("{probe}.{}.{name}", reading.of),
                    unit,
                    value: *value,
                });
            }
        }
        all
    }

    /// The metric of a name, as columns have it: with or without the name of a traffic before it.
    pub fn get(&self, name: &str) -> Option<&Metric> {
        let of = |name: &str| self.0.iter().find(|m| m.name == name);
        of(name).or_else(|| name.split_once('.').and_then(|(_, rest)| of(rest)))
    }

    /// A metric of an experiment with these traffics and probes, as columns have it: `traffic.`
    /// before the name of a traffic may be left out, and that of the only one, too.
    ///
    /// # Errors
    /// A sentence with the near match, if it is none.
    pub fn named(&self, name: &str, traffic: &[&str], probes: &[&str]) -> Result<String, String> {
        let find = |name: &str| self.0.iter().find(|m| m.name == name);
        let short = name.strip_prefix("traffic.").unwrap_or(name);
        let (first, rest) = short.split_once('.').unwrap_or((short, ""));
        if find(name).is_some() {
            return Ok(name.to_owned());
        }
        match find(rest).filter(|_| traffic.contains(&first)) {
            Some(_) if traffic.len() == 1 => return Ok(rest.to_owned()),
            Some(metric) if metric.whose == Whose::Run => {
                return Err(format!(
                    "'{rest}' is of the whole run, in which the traffics share ports and time: \
                     there is none of '{first}' alone"
                ));
            }
            Some(_) => return Ok(short.to_owned()),
            None => {}
        }
        if probes.contains(&first) {
            return Ok(name.to_owned());
        }
        let of = if traffic.contains(&first) { rest } else { name };
        Err(unknown("metric", of, self.0.iter().map(|m| m.name)))
    }
}
