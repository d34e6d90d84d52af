//! Every queue discipline by name, with its parameters, and what a port makes of them.

use std::fmt;
use std::sync::Arc;

use super::Discipline;
use super::codel::{CodelQueue, CodelSpec};
use super::drr::{Drr, DrrSpec};
use super::fq_codel::{FqCodel, FqCodelSpec};
use super::red::{Red, RedSpec};
use super::split::{Split, SplitSpec};
use super::strict_priority::{StrictPriority, StrictPrioritySpec};
use super::tail::{NotCapable, Step, TailRule, Threshold};
use super::trimming::{Trimming, TrimmingSpec};
use crate::sim::rng::Stream;
use narrows::congestion::registry::Registry;

/// The queue discipline of a port.
///
/// The port's [`capacity`](crate::net::PortSpec::capacity) is the limit of each; what happens at
/// that limit is the discipline's affair.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum DisciplineSpec {
    /// First in, first out; what does not fit is dropped.
    #[default]
    DropTail,
    /// First in, first out; marks above a threshold of the instantaneous queue.
    EcnStep {
        /// K: a packet that finds more than this is marked.
        threshold: Threshold,
        /// Packets that cannot be marked.
        not_capable: NotCapable,
    },
    /// First in, first out with random early detection.
    Red(RedSpec),
    /// Controlled delay (RFC 8289).
    Codel(CodelSpec),
    /// Flow queues with controlled delay (RFC 8290).
    FqCodel(FqCodelSpec),
    /// Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
    Drr(DrrSpec),
    /// The highest traffic class first.
    StrictPriority(StrictPrioritySpec),
    /// Payloads are cut where there is no room, and headers go first (NDP, SIGCOMM 2017).
    Trimming(TrimmingSpec),
    /// Several first-in, first-out queues by ingress.
    Split(SplitSpec),
    /// One from outside this crate.
    Own(OwnDiscipline),
}

/// Why a discipline cannot be built.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DisciplineError {
    /// RED's thresholds are in different units, or the minimum is not below the maximum.
    RedThresholds,
    /// CoDel's interval is zero.
    CodelInterval,
    /// A field is out of range.
    OutOfRange {
        /// The field.
        field: &'static str,
        /// What it is.
        value: u64,
        /// The least that it may be.
        least: u64,
        /// The most.
        most: u64,
    },
}

impl DisciplineError {
    /// Whether a field is in range.
    pub(super) fn within(
        field: &'static str,
        value: u64,
        least: u64,
        most: u64,
    ) -> Result<(), Self> {
        if (least..=most).contains(&value) {
            return Ok(());
        }
        Err(Self::OutOfRange {
            field,
            value,
            least,
            most,
        })
    }
}

impl fmt::Display for DisciplineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::RedThresholds => write!(f, "RED's thresholds need one unit and min < max"),
            Self::CodelInterval => write!(f, "CoDel's interval is zero"),
            Self::OutOfRange {
                field,
                value,
                least,
                most,
            } => write!(f, "{field} is {value}, not between {least} and {most}"),
        }
    }
}

impl std::error::Error for DisciplineError {}

/// Builds the discipline of each port that has it. A closure is one:
/// `|_: Stream| Mine::new(4)`.
pub trait DisciplineFactory: Send + Sync {
    /// The discipline of one port, which draws from `stream` and from nothing else.
    fn build(&self, stream: Stream) -> Box<dyn Discipline>;
}

impl<F, D> DisciplineFactory for F
where
    F: Fn(Stream) -> D + Send + Sync,
    D: Discipline + 'static,
{
    fn build(&self, stream: Stream) -> Box<dyn Discipline> {
        Box::new(self(stream))
    }
}

/// Disciplines from outside this crate by name; a name may carry parameters: `mine:bands=4`.
pub type DisciplineRegistry = Registry<dyn DisciplineFactory>;

/// A discipline from outside this crate.
#[derive(Clone)]
pub struct OwnDiscipline {
    name: Arc<str>,
    factory: Arc<dyn DisciplineFactory>,
}

impl OwnDiscipline {
    /// What `factory` builds, under a name.
    pub fn new(name: &str, factory: Arc<dyn DisciplineFactory>) -> Self {
        Self {
            name: name.into(),
            factory,
        }
    }

    /// Its name, with its parameters if it was given any.
    pub fn name(&self) -> &str {
        &self.name
    }
}

impl fmt::Debug for OwnDiscipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("OwnDiscipline").field(&self.name).finish()
    }
}

impl PartialEq for OwnDiscipline {
    /// Whether both are built by the same factory.
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.factory, &other.factory)
    }
}

impl Eq for OwnDiscipline {}

/// What a port has of its discipline.
#[derive(Debug)]
pub(crate) enum Queue {
    /// First in, first out; departures are computed on arrival.
    Fifo(Option<Box<TailRule>>),
    /// Turn by turn.
    InTurn(Box<dyn Discipline>),
}

impl DisciplineSpec {
    /// Its name, as in a file: `fq-codel`.
    pub fn name(&self) -> &str {
        match self {
            Self::DropTail => "drop-tail",
            Self::EcnStep { .. } => "ecn-step",
            Self::Red(_) => "red",
            Self::Codel(_) => "codel",
            Self::FqCodel(_) => "fq-codel",
            Self::Drr(_) => "drr",
            Self::StrictPriority(_) => "strict-priority",
            Self::Trimming(_) => "trimming",
            Self::Split(_) => "split",
            Self::Own(own) => own.name(),
        }
    }

    /// Whether its values are in range.
    ///
    /// # Errors
    /// The first that is not.
    pub fn check(&self) -> Result<(), DisciplineError> {
        match self {
            Self::DropTail | Self::EcnStep { .. } | Self::StrictPriority(_) | Self::Own(_) => {
                Ok(())
            }
            Self::Red(spec) => spec.check(),
            Self::Codel(spec) => spec.check(),
            Self::FqCodel(spec) => spec.check(),
            Self::Drr(spec) => spec.check(),
            Self::Trimming(spec) => spec.check(),
            Self::Split(spec) => spec.check(),
        }
    }

    /// The queue of a port whose discipline draws from `stream`.
    pub(crate) fn build(&self, stream: impl FnOnce() -> Stream) -> Result<Queue, DisciplineError> {
        self.check()?;
        let boxed = |rule| Queue::Fifo(Some(Box::new(rule)));
        Ok(match self {
            Self::DropTail => Queue::Fifo(None),
            &Self::EcnStep {
                threshold,
                not_capable,
            } => boxed(TailRule::EcnStep(Step {
                threshold,
                not_capable,
            })),
            Self::Red(spec) => boxed(TailRule::Red(Red::new(*spec, stream()))),
            Self::Codel(spec) => Queue::InTurn(Box::new(CodelQueue::new(*spec))),
            Self::FqCodel(spec) => Queue::InTurn(Box::new(FqCodel::new(*spec, stream()))),
            Self::Drr(spec) => Queue::InTurn(Box::new(Drr::new(spec, stream()))),
            Self::StrictPriority(spec) => Queue::InTurn(Box::new(StrictPriority::new(*spec))),
            Self::Trimming(spec) => Queue::InTurn(Box::new(Trimming::new(*spec, stream()))),
            Self::Split(spec) => Queue::InTurn(Box::new(Split::new(*spec))),
            Self::Own(own) => Queue::InTurn(own.factory.build(stream())),
        })
    }
}
