//! Gaps that are over and whose cause later packets decide.

use super::{Tracked, UNKNOWN_RTT};
use crate::classify::{Aftermath, Ended, Facts};
use crate::gap::{Gap, Side, Vantage};
use crate::half::{Acked, Retransmitted, Sighting};
use crate::segment::Segment;
use narrows::{ByteCount, Duration, Instant};
use std::collections::VecDeque;

/// A gap that is over, whose cause later packets decide.
#[derive(Debug)]
pub(super) struct Pending {
    pub(super) facts: Facts,
    pub(super) start: Sighting,
    pub(super) end: Sighting,
    pub(super) wait: Wait,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Wait {
    /// Whether the sender goes on at once: then it had been waiting.
    Release { until: Instant },
    /// Whether the answer to a probe says that the window is open. The timestamp of one that does not fit into the
    /// window, which the answer to a later one may be of as well.
    Answer { until: Instant, stamp: Option<u32> },
    /// What becomes of what was sent again.
    Verify {
        again: Retransmitted,
        stamp: Option<u32>,
        target: u64,
        until: Option<Instant>,
        acked: bool,
    },
}

/// So many gaps of a direction wait for what later packets tell.
const SUSPECTS: usize = 16;

impl Tracked {
    /// How long `side` takes at most to answer an acknowledgement with data, seen from here.
    pub(super) fn release_time(&self, side: Side) -> Duration {
        let turn = self.half[side.index()].turn;
        let other = self.half[side.other().index()].rtt.min();
        let turn = turn.or(other).unwrap_or(self.threshold / 4);
        turn * 2 + Duration::from_micros(100)
    }

    /// `side` had new data at `now`: was a gap waiting for that?
    pub(super) fn released(&mut self, side: Side, now: Sighting, len: u32) {
        if self.pending[side.index()].is_none() {
            return;
        }
        let soon = self.half[side.index()]
            .last
            .is_some_and(|last| now.at.since(last.at) <= self.release_time(side));
        let Some(pending) = &mut self.pending[side.index()] else {
            return;
        };
        match &mut pending.wait {
            Wait::Release { until, .. } if now.at <= *until => {
                let evidence = &mut pending.facts.evidence;
                let before = evidence.released.unwrap_or_default();
                evidence.released = Some(before + ByteCount::from(len));
                pending.facts.released_largest = pending.facts.released_largest.max(len);
            }
            Wait::Verify { acked: true, .. } => pending.facts.more |= soon,
            _ => {}
        }
    }

    /// Another acknowledgement, with this round-trip time: does it come at once after a gap?
    pub(super) fn follows(&mut self, now: Sighting, side: Side, rtt: Duration) {
        let before = self.half[side.index()].answered;
        if let Some(pending) = &mut self.pending[side.index()]
            && let Wait::Release { until } = pending.wait
            && now.at <= until
        {
            let after = before.map_or(Duration::MAX, |before| now.at.since(before));
            pending.facts.burst.add(rtt, after);
        }
    }

    /// An acknowledgement tells of what was sent again.
    pub(super) fn verify(&mut self, now: Sighting, side: Side, acked: &Acked, segment: &Segment) {
        if !self.verifies(side) {
            return;
        }
        let k = side.index();
        let (least, vantage) = (self.half[k].rtt.min(), self.vantage(side));
        let una = self.half[k].una;
        let after = self.path_rtt.unwrap_or(UNKNOWN_RTT) * 2 + Duration::from_micros(200);
        let Some(pending) = &mut self.pending[k] else {
            return;
        };
        let Wait::Verify {
            again,
            stamp,
            target,
            until,
            acked: heard,
        } = &mut pending.wait
        else {
            return;
        };
        if acked
            .dsack
            .is_some_and(|(start, end)| start < again.end && end > again.start)
        {
            pending.facts.aftermath = Aftermath::Needless;
        } else if acked.bytes > 0 && !*heard && again.sends > 0 {
            let echo = segment.options.timestamps.map(|stamps| stamps.ecr);
            let older = matches!((echo, *stamp), (Some(echo), Some(stamp)) if (echo.wrapping_sub(stamp) as i32) < 0);
            let soon = least.is_some_and(|least| now.at.since(pending.end.at) < least / 2);
            if older {
                pending.facts.aftermath = Aftermath::Needless;
            } else if soon && matches!(vantage, Vantage::Sender | Vantage::Middle) {
                pending.facts.aftermath = Aftermath::Early;
            }
        }
        *heard |= acked.bytes > 0;
        if una >= *target && until.is_none() {
            *until = Some(now.at + after);
        }
    }

    /// Whether it is still open what becomes of what `side` sent again.
    pub(super) fn verifies(&self, side: Side) -> bool {
        let pending = self.pending[side.index()].as_deref();
        pending.is_some_and(|pending| matches!(pending.wait, Wait::Verify { .. }))
    }

    /// A gap whose cause later packets decide.
    pub(super) fn wait(
        &mut self,
        side: Side,
        facts: Facts,
        start: Sighting,
        end: Sighting,
        wait: Wait,
        out: &mut VecDeque<Gap>,
    ) {
        self.conclude(side, out);
        self.pending[side.index()] = Some(Box::new(Pending {
            facts,
            start,
            end,
            wait,
        }));
    }

    /// The gap of `side` that is pending has its cause.
    pub(super) fn conclude(&mut self, side: Side, out: &mut VecDeque<Gap>) {
        let Some(pending) = self.pending[side.index()].take() else {
            return;
        };
        // Who has nothing more to send was not held up by the acknowledgement.
        if let Wait::Release { .. } = pending.wait
            && matches!(pending.facts.ended, Ended::Ack | Ended::Answer)
            && pending.facts.evidence.released.is_none()
            && !(pending.facts.unsent && pending.facts.vantage == Vantage::Sender)
        {
            return;
        }
        // One copy that vanished is a loss; whether it is a black hole the next ones tell. So does the answer to a
        // later probe.
        let open = match pending.wait {
            Wait::Verify { acked: false, .. } => {
                pending.facts.too_large && pending.facts.evidence.sends <= 2
            }
            Wait::Answer { stamp, .. } => stamp.is_some(),
            _ => false,
        };
        if open && self.suspects[side.index()].len() < SUSPECTS {
            self.suspects[side.index()].push(*pending);
            return;
        }
        // What it is may tell of the others.
        self.settle(side, pending.start, pending.end, &pending.facts, out);
        self.suspected(side, false, out);
    }

    /// What was suspected to vanish in a black hole did so, or not.
    pub(super) fn suspected(&mut self, side: Side, swallowed: bool, out: &mut VecDeque<Gap>) {
        for pending in std::mem::take(&mut self.suspects[side.index()]) {
            let facts = Facts {
                swallowed,
                ..pending.facts
            };
            self.settle(side, pending.start, pending.end, &facts, out);
        }
    }

    /// A probe of a closed window ended a gap.
    pub(super) fn probes(
        &mut self,
        side: Side,
        facts: Facts,
        (start, end): (Sighting, Sighting),
        segment: &Segment,
        out: &mut VecDeque<Gap>,
    ) {
        let half = &self.half[side.index()];
        let last = half.offset(segment.seq) + u64::from(segment.len);
        // What fits into a window is taken, closed though it is.
        let unfit = half.window.is_some_and(|window| last > half.una + window);
        let stamps = segment.options.timestamps.filter(|_| unfit);
        let stamp = stamps.map(|stamps| stamps.val);
        let until = end.at + self.path_rtt.unwrap_or(UNKNOWN_RTT) * 2 + Duration::from_micros(200);
        let wait = Wait::Answer { until, stamp };
        self.wait(side, facts, start, end, wait, out);
    }

    /// An acknowledgement has come, which may answer a probe of a closed window, and earlier ones.
    pub(super) fn answered(
        &mut self,
        now: Sighting,
        side: Side,
        acked: &Acked,
        segment: &Segment,
        out: &mut VecDeque<Gap>,
    ) {
        let k = side.index();
        let last = match self.pending[k].as_deref().map(|pending| pending.wait) {
            Some(Wait::Answer { until, .. }) => self.pending[k].take().map(|p| (p, until)),
            _ => None,
        };
        let is_probe = |one: &Pending| matches!(one.wait, Wait::Answer { .. });
        if last.is_none() && !self.suspects[k].iter().any(is_probe) {
            return;
        }
        // The byte of a probe is acknowledged if the window was open for it; the copy that was taken is echoed, and
        // those after it came twice (RFC 7323 section 5.3).
        let echo = segment.options.timestamps.map(|stamps| stamps.ecr);
        let echo = echo.filter(|_| acked.opened && acked.bytes > 0);
        let accepted = |stamp: Option<u32>| {
            let late = echo
                .zip(stamp)
                .map(|(echo, stamp)| stamp.wrapping_sub(echo) as i32);
            late.is_some_and(|late| late >= 0)
        };
        for pending in std::mem::take(&mut self.suspects[k]) {
            let Wait::Answer { stamp, .. } = pending.wait else {
                self.suspects[k].push(pending);
                continue;
            };
            let facts = Facts {
                opened: accepted(stamp),
                ..pending.facts
            };
            self.settle(side, pending.start, pending.end, &facts, out);
        }
        if let Some((pending, until)) = last {
            let facts = Facts {
                opened: acked.opened && now.at <= until,
                ..pending.facts
            };
            self.settle(side, pending.start, pending.end, &facts, out);
        }
    }

    /// Gaps that need wait no longer have their cause.
    pub(super) fn expire(&mut self, now: Sighting, out: &mut VecDeque<Gap>) {
        for side in Side::BOTH {
            let over = match self.pending[side.index()].as_deref().map(|p| p.wait) {
                Some(
                    Wait::Release { until, .. }
                    | Wait::Answer { until, .. }
                    | Wait::Verify {
                        until: Some(until), ..
                    },
                ) => now.at > until,
                _ => false,
            };
            if over {
                self.conclude(side, out);
            }
        }
    }
}
