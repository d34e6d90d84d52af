//! A metric: its name, its unit, and what it takes of a run.

use super::measured::Measured;
use crate::outcome::{FlowOutcome, Opening, RunOutcome};
use crate::traffic::{AppSpan, Transfer};
use std::fmt;
use std::sync::Arc;

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
