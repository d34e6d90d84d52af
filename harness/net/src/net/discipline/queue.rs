//! What a port makes of its discipline.

use super::codel::CodelQueue;
use super::drr::Drr;
use super::error::DisciplineError;
use super::fq_codel::FqCodel;
use super::red::Red;
use super::split::Split;
use super::strict_priority::StrictPriority;
use super::tail::{Step, TailVerdict};
use super::trimming::Trimming;
use super::{Discipline, DisciplineSpec};
use crate::net::buffer::Depth;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;

/// What a port has of its discipline.
#[derive(Debug)]
pub(crate) enum Queue {
    /// First in, first out; departures are computed on arrival.
    Fifo(Option<Box<TailRule>>),
    /// Turn by turn.
    InTurn(Box<dyn Discipline>),
}

/// What a port does at its tail besides dropping what does not fit.
#[derive(Debug)]
pub(crate) enum TailRule {
    EcnStep(Step),
    Red(Red),
}

impl TailRule {
    /// A packet arrives and finds `depth`; the port has been idle since `idle_since` if it is.
    #[inline]
    pub(crate) fn on_arrival(
        &mut self,
        now: SimTime,
        depth: Depth,
        idle_since: Option<SimTime>,
        ecn_capable: bool,
    ) -> TailVerdict {
        match self {
            Self::EcnStep(step) => step.on_arrival(depth, ecn_capable),
            Self::Red(red) => red.on_arrival(now, depth, idle_since, ecn_capable),
        }
    }
}

impl DisciplineSpec {
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
