//! What a run leaves behind, to be held against another.

use super::promise::Violation;
use crate::units::{ByteCount, Rate};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// What a run left behind.
#[derive(Default)]
pub(super) struct Run {
    pub(super) violations: Vec<Violation>,
    /// After each call: cwnd, ssthresh, pacing rate.
    pub(super) trace: Vec<(ByteCount, ByteCount, Option<Rate>)>,
    /// `cwnd` at the end of each round trip.
    pub(super) rounds: Vec<u64>,
}

impl Run {
    /// The first call, from 1, whose answers differ.
    #[inline]
    pub(super) fn differs_from(&self, other: &Self) -> Option<usize> {
        let differing = self
            .trace
            .iter()
            .zip(&other.trace)
            .position(|(a, b)| a != b);
        let lengths = self.trace.len().min(other.trace.len());
        let shorter = (self.trace.len() != other.trace.len()).then_some(lengths);
        differing.or(shorter).map(|i| i + 1)
    }

    #[inline]
    pub(super) fn both(&self, other: &Self, step: usize) -> String {
        let at = |run: &Self| match run.trace.get(step.wrapping_sub(1)) {
            Some((cwnd, ssthresh, _)) => format!("cwnd {cwnd}, ssthresh {ssthresh}"),
            None => String::from("nothing"),
        };
        format!("first {}, then {}", at(self), at(other))
    }

    /// Whether `doubled`, the same flow with segments twice as large, did not double the window.
    #[inline]
    pub(super) fn scaling_error(
        &self,
        doubled: &Self,
        mss: u64,
        tolerance: Tolerance,
    ) -> Option<String> {
        for (round, (&one, &two)) in self.rounds.iter().zip(&doubled.rounds).enumerate() {
            let allowed = match tolerance {
                Tolerance::Exact => mss / 16,
                Tolerance::Loose => (one / 8).saturating_add(4 * mss),
            };
            if two.abs_diff(one.saturating_mul(2)) > allowed {
                return Some(format!(
                    "after {} round trips cwnd is {one} B, and {two} B with segments twice as \
                     large",
                    round + 1
                ));
            }
        }
        None
    }
}

/// How far two windows may be apart after scaling.
#[derive(Clone, Copy, Debug)]
pub(super) enum Tolerance {
    /// A sixteenth of a segment: nothing was divided yet.
    Exact,
    /// An eighth and four segments: roundings may have shifted an ACK across a boundary.
    Loose,
}
