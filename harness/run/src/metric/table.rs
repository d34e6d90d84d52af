//! Metrics by name, and what they make of a run.

use super::entry::{Metric, Scope, Whose};
use super::measured::Measured;
use crate::outcome::RunOutcome;
use crate::unknown::unknown;

/// Metrics by name.
#[derive(Clone, Debug)]
pub struct Metrics(pub(super) Vec<Metric>);

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
