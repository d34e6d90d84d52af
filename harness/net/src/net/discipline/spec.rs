//! Every queue discipline by name, with its values.

use std::any::Any;
use std::fmt;
use std::sync::Arc;

use super::Discipline;
use super::codel::CodelSpec;
use super::drr::DrrSpec;
use super::error::DisciplineError;
use super::fq_codel::FqCodelSpec;
use super::red::RedSpec;
use super::split::SplitSpec;
use super::strict_priority::StrictPrioritySpec;
use super::tail::{NotCapable, Threshold};
use super::trimming::TrimmingSpec;
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
    pub(super) factory: Arc<dyn DisciplineFactory>,
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

    /// The values of the discipline, each kind's as a type of its own: what
    /// [`Discipline::retune`] takes.
    pub(crate) fn values(&self) -> &dyn Any {
        match self {
            // Nothing that decides in turn is of their kind.
            Self::DropTail | Self::EcnStep { .. } => &(),
            Self::Red(spec) => spec,
            Self::Codel(spec) => spec,
            Self::FqCodel(spec) => spec,
            Self::Drr(spec) => spec,
            Self::StrictPriority(spec) => spec,
            Self::Trimming(spec) => spec,
            Self::Split(spec) => spec,
            Self::Own(own) => own,
        }
    }
}
