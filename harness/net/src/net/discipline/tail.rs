//! First in, first out: what happens to a packet at the tail of the queue.
//!
//! Decided when a packet arrives, on the queue that it finds (itself not counted; the packet in
//! service as the port counts it):
//! - drop-tail: it is taken while there is room;
//! - ECN step: above K it is marked (DCTCP, SIGCOMM 2010 section 3.1: "if the queue occupancy is
//!   greater than K upon its arrival");
//! - [RED](super::red).

use crate::net::buffer::Depth;

/// A queue length to compare with.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Threshold {
    /// In packets.
    Packets(u32),
    /// In bytes.
    Bytes(u64),
}

impl Threshold {
    /// The length of the queue in the unit of the threshold.
    #[inline]
    pub(super) const fn measure(self, depth: Depth) -> u64 {
        match self {
            Self::Packets(_) => depth.packets as u64,
            Self::Bytes(_) => depth.bytes,
        }
    }
    #[inline]
    pub(super) const fn value(self) -> u64 {
        match self {
            Self::Packets(n) => n as u64,
            Self::Bytes(n) => n,
        }
    }
}

/// What happens to a packet that would be marked but is not ECN-capable.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum NotCapable {
    /// It is dropped (RFC 3168 section 5, and what switches do).
    #[default]
    Drop,
    /// It passes unmarked.
    Pass,
}

impl NotCapable {
    pub(super) const fn verdict(self) -> TailVerdict {
        match self {
            Self::Drop => TailVerdict::Drop,
            Self::Pass => TailVerdict::Pass,
        }
    }
}

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum TailVerdict {
    Pass,
    Mark,
    Drop,
}

/// Above a threshold all is marked.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Step {
    pub(crate) threshold: Threshold,
    pub(crate) not_capable: NotCapable,
}

impl Step {
    /// A packet arrives and finds `depth`.
    #[inline]
    pub(crate) fn on_arrival(&self, depth: Depth, ecn_capable: bool) -> TailVerdict {
        if self.threshold.measure(depth) <= self.threshold.value() {
            TailVerdict::Pass
        } else if ecn_capable {
            TailVerdict::Mark
        } else {
            self.not_capable.verdict()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packets(n: u32) -> Depth {
        Depth {
            packets: n,
            bytes: u64::from(n) * 1_500,
        }
    }

    #[test]
    fn the_step_marks_strictly_above_its_threshold() {
        let step = Step {
            threshold: Threshold::Packets(20),
            not_capable: NotCapable::Drop,
        };
        let at = |n, ecn| step.on_arrival(packets(n), ecn);
        assert_eq!(at(20, true), TailVerdict::Pass);
        assert_eq!(at(21, true), TailVerdict::Mark);
        assert_eq!(at(21, false), TailVerdict::Drop);
        let step = Step {
            threshold: Threshold::Bytes(30_000),
            not_capable: NotCapable::Pass,
        };
        let at = |n, ecn| step.on_arrival(packets(n), ecn);
        assert_eq!(
            [at(20, true), at(21, true), at(21, false)],
            [TailVerdict::Pass, TailVerdict::Mark, TailVerdict::Pass]
        );
    }
}
