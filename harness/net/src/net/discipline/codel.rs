//! Controlled delay (CoDel, RFC 8289): drops or marks at the head of a queue, by how long packets
//! have waited in it.
//!
//! The least time that packets have waited stays above `target` for an `interval`: then one packet
//! is dropped, and another after `interval / sqrt(count)` each time, until a packet has waited less
//! than the target. What is ECN-capable is marked instead of dropped and goes on.
//!
//! `ControlLaw::at_head` is the pseudocode of RFC 8289 sections 5.3 to 5.6 turned inside out: it
//! is asked for one packet at a time, and after a drop for the next one at the same instant.
//! Variables have its names. [`super::fq_codel`] has one of these queues for each flow.

use std::any::Any;

use super::error::DisciplineError;
use super::packet_queue::PacketQueue;
use super::{Discipline, Effects, Queued, Retuned, Room, Verdict};
use crate::net::buffer::Depth;
use crate::net::stats::DropReason;
use crate::sim::time::SimTime;

/// Parameters of CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CodelSpec {
    /// TARGET: the waiting time that may stand.
    pub target: SimTime,
    /// INTERVAL: how long it may stand above; not zero.
    pub interval: SimTime,
    /// MAXPACKET: with no more bytes than this behind a packet nothing is dropped.
    pub max_packet: u64,
    /// ECN-capable packets that waited longer than this are marked, whatever the control law says
    /// (the CE threshold of Linux and ns-3).
    pub ce_threshold: Option<SimTime>,
}

impl CodelSpec {
    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        if self.interval == SimTime::ZERO {
            return Err(DisciplineError::CodelInterval);
        }
        Ok(())
    }
}

/// A queue under the control of CoDel.
#[derive(Debug)]
pub(crate) struct CodelQueue {
    pub(super) packets: PacketQueue,
    law: ControlLaw,
}

impl CodelQueue {
    pub(crate) fn new(spec: CodelSpec) -> Self {
        Self {
            packets: PacketQueue::new(),
            law: ControlLaw::new(spec),
        }
    }

    /// The control law goes on from where it is with other values.
    pub(super) fn set_spec(&mut self, spec: CodelSpec) {
        self.law.spec = spec;
    }

    /// The next packet to send, after those that are dropped before it; `None` if none waits.
    pub(super) fn pop(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued> {
        loop {
            let packet = self.packets.pop_head()?;
            let head = Head {
                sojourn: now - packet.arrived,
                behind: self.packets.depth().bytes,
                ecn_capable: packet.ecn_capable,
            };
            match self.law.at_head(now, head) {
                Fate::Drop => effects.drop(packet, DropReason::Early),
                Fate::Mark => {
                    effects.mark(packet);
                    return Some(packet);
                }
                Fate::Send => return Some(packet),
            }
        }
    }
}

impl Discipline for CodelQueue {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, _: &mut Effects) -> Verdict {
        match room.check(packet.len, Depth::default()) {
            Ok(()) => {
                self.packets.push(packet);
                Verdict::Queue
            }
            Err(reason) => Verdict::Drop(reason),
        }
    }

    fn dequeue(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued> {
        self.pop(now, effects)
    }

    fn depth(&self) -> Depth {
        self.packets.depth()
    }

    fn retune(&mut self, values: &dyn Any) -> Retuned {
        let Some(spec) = values.downcast_ref() else {
            return Retuned::No;
        };
        self.set_spec(*spec);
        Retuned::Yes
    }
}

/// What becomes of a packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// It goes on the wire.
    Send,
    /// It goes on the wire with Congestion Experienced.
    Mark,
    /// It is gone; ask for the next one, at the same instant.
    Drop,
}

/// The packet at the head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Head {
    /// How long it has waited.
    sojourn: SimTime,
    /// Bytes queued behind it.
    behind: u64,
    ecn_capable: bool,
}

/// Whether packets are being dropped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Passing,
    Dropping,
}

/// Which packets the control law hits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Hit {
    None,
    /// The one that begins a dropping state.
    First,
    /// One whose time has come since.
    Repeated,
}

/// CoDel's state.
#[derive(Debug)]
struct ControlLaw {
    spec: CodelSpec,
    state: State,
    /// Why the packet before was dropped, if that was at this instant.
    dropped_for: Hit,
    /// When a waiting time above the target will have stood for an interval.
    first_above_time: Option<SimTime>,
    drop_next: SimTime,
    count: u64,
    lastcount: u64,
}

impl ControlLaw {
    fn new(spec: CodelSpec) -> Self {
        Self {
            spec,
            state: State::Passing,
            dropped_for: Hit::None,
            first_above_time: None,
            drop_next: SimTime::ZERO,
            count: 0,
            lastcount: 0,
        }
    }

    /// The transmitter is free at `now`, and `head` is next.
    fn at_head(&mut self, now: SimTime, head: Head) -> Fate {
        let ok_to_drop = self.ok_to_drop(now, head);
        let before = std::mem::replace(&mut self.dropped_for, Hit::None);
        let hit = match (self.state, ok_to_drop) {
            // The drop that began it has been made; this one goes whatever it waited.
            (State::Dropping, _) if before == Hit::First => Hit::None,
            (State::Passing, true) => {
                self.enter(now);
                Hit::First
            }
            (State::Passing, false) => Hit::None,
            (State::Dropping, false) => {
                self.state = State::Passing;
                Hit::None
            }
            (State::Dropping, true) => {
                if before == Hit::Repeated {
                    self.drop_next = self.control_law(self.drop_next);
                }
                if now >= self.drop_next {
                    self.count += 1;
                    Hit::Repeated
                } else {
                    Hit::None
                }
            }
        };
        if hit != Hit::None && !head.ecn_capable {
            self.dropped_for = hit;
            return Fate::Drop;
        }
        if hit == Hit::Repeated {
            self.drop_next = self.control_law(self.drop_next);
        }
        let over = |threshold| head.sojourn > threshold;
        let marked = hit != Hit::None || self.spec.ce_threshold.is_some_and(over);
        if marked && head.ecn_capable {
            Fate::Mark
        } else {
            Fate::Send
        }
    }

    /// `dodequeue`: whether the waiting time has stood above the target for an interval.
    fn ok_to_drop(&mut self, now: SimTime, head: Head) -> bool {
        if head.sojourn < self.spec.target || head.behind <= self.spec.max_packet {
            self.first_above_time = None;
            return false;
        }
        match self.first_above_time {
            None => {
                self.first_above_time = Some(now + self.spec.interval);
                false
            }
            Some(at) => now >= at,
        }
    }

    /// Enters the dropping state, at the rate of the last one if that was not long ago.
    fn enter(&mut self, now: SimTime) {
        self.state = State::Dropping;
        let delta = self.count - self.lastcount;
        let since = now.saturating_sub(self.drop_next).as_picos();
        let recent = self.spec.interval.as_picos().saturating_mul(16);
        self.count = if delta > 1 && since < recent {
            delta
        } else {
            1
        };
        self.drop_next = self.control_law(now);
        self.lastcount = self.count;
    }

    /// `t + INTERVAL / sqrt(count)`, rounded down to a picosecond.
    fn control_law(&self, t: SimTime) -> SimTime {
        let interval = u128::from(self.spec.interval.as_picos());
        let step = (interval * interval / u128::from(self.count.max(1))).isqrt();
        t + SimTime::from_picos(step as u64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TARGET: SimTime = SimTime::from_millis(5);
    const INTERVAL: SimTime = SimTime::from_millis(100);

    fn codel() -> ControlLaw {
        ControlLaw::new(CodelSpec {
            target: TARGET,
            interval: INTERVAL,
            max_packet: 1_500,
            ce_threshold: None,
        })
    }

    fn head(sojourn: SimTime, behind: u64) -> Head {
        Head {
            sojourn,
            behind,
            ecn_capable: false,
        }
    }

    /// Packets that all waited `sojourn`, one each 100 us from `from` to `to`; when those that
    /// were hit left, in microseconds.
    fn hits(
        codel: &mut ControlLaw,
        sojourn: SimTime,
        from: u64,
        to: u64,
        ecn_capable: bool,
    ) -> Vec<u64> {
        let mut hits = Vec::new();
        for us in (from..to).step_by(100) {
            let packet = Head {
                ecn_capable,
                ..head(sojourn, 100_000)
            };
            loop {
                match codel.at_head(SimTime::from_micros(us), packet) {
                    Fate::Send => break,
                    Fate::Mark => {
                        hits.push(us);
                        break;
                    }
                    Fate::Drop => hits.push(us),
                }
            }
        }
        hits
    }

    /// First after an interval above the target, then 100 / sqrt(1), 100 / sqrt(2), ... ms later:
    /// 100, 200, 270.7, 328.4, 378.4, 423.2, 464.0 ms, each at the next packet.
    #[test]
    fn drops_follow_the_inverse_square_root() {
        let expected = [
            100_000, 200_000, 270_800, 328_500, 378_500, 423_200, 464_000,
        ];
        let above = TARGET + SimTime::from_picos(1);
        assert_eq!(hits(&mut codel(), above, 0, 480_000, false), expected);
        assert_eq!(hits(&mut codel(), TARGET, 0, 480_000, false), expected);
        let below = TARGET.saturating_sub(SimTime::from_picos(1));
        assert!(hits(&mut codel(), below, 0, 480_000, false).is_empty());
    }

    #[test]
    fn what_is_ecn_capable_is_marked_at_the_same_times() {
        let above = SimTime::from_millis(6);
        let (drops, marks) = (
            hits(&mut codel(), above, 0, 900_000, false),
            hits(&mut codel(), above, 0, 900_000, true),
        );
        assert_eq!(drops, marks);
    }

    #[test]
    fn the_control_law_is_exact_to_a_picosecond() {
        let mut c = codel();
        for (count, step) in [
            (1, 100_000_000_000),
            (2, 70_710_678_118),
            (3, 57_735_026_918),
            (4, 50_000_000_000),
            (100, 10_000_000_000),
            (1 << 32, 1_525_878),
        ] {
            c.count = count;
            let at = c.control_law(SimTime::from_millis(1));
            assert_eq!(at, SimTime::from_millis(1) + SimTime::from_picos(step));
        }
    }

    /// A single packet below the target, or an almost empty queue, starts the interval anew.
    #[test]
    fn the_waiting_time_must_stand_for_an_interval() {
        for short in [head(SimTime::ZERO, 100_000), head(TARGET, 1_500)] {
            let mut c = codel();
            assert!(hits(&mut c, TARGET, 0, 100_000, false).is_empty());
            assert_eq!(c.at_head(SimTime::from_millis(100), short), Fate::Send);
            let next = hits(&mut c, TARGET, 100_100, 300_000, false);
            assert_eq!(next, [200_100]);
        }
    }

    /// A short time in the dropping state: eight drops. Back soon, it goes on with the rate that
    /// they had reached; back after 16 intervals, from the start.
    #[test]
    fn the_rate_is_remembered_for_sixteen_intervals() {
        for (pause_ms, count) in [(200, 7), (1_700, 1)] {
            let mut c = codel();
            let first = hits(&mut c, TARGET, 0, 510_000, false);
            assert_eq!((first.len(), c.count, c.lastcount), (8, 8, 1));
            let from = 510_000;
            assert_eq!(
                c.at_head(SimTime::from_micros(from), head(SimTime::ZERO, 9_000)),
                Fate::Send
            );
            assert_eq!(c.state, State::Passing);
            let back = from + pause_ms * 1_000;
            let again = hits(&mut c, TARGET, back, back + 100_100, false);
            assert_eq!(again, [back + 100_000]);
            assert_eq!(c.count, count, "{pause_ms} ms");
        }
    }

    /// The packet after the first drop goes, whatever it waited; a backlog that is due is dropped
    /// at once, packet by packet.
    #[test]
    fn a_backlog_is_dropped_at_one_instant() {
        let mut c = codel();
        let at = SimTime::from_micros;
        assert_eq!(c.at_head(at(0), head(TARGET, 9_000)), Fate::Send);
        assert_eq!(c.at_head(at(100_000), head(TARGET, 9_000)), Fate::Drop);
        assert_eq!(c.at_head(at(100_000), head(TARGET, 9_000)), Fate::Send);
        // Nothing left until 300 ms: the drops of 200 and 270.7 ms are due together.
        let late: Vec<_> = (0..3)
            .map(|_| c.at_head(at(300_000), head(TARGET, 9_000)))
            .collect();
        assert_eq!(late, [Fate::Drop, Fate::Drop, Fate::Send]);
        // ... and where the queue ends, dropping ends.
        assert_eq!(c.at_head(at(400_000), head(TARGET, 9_000)), Fate::Drop);
        assert_eq!(c.at_head(at(400_000), head(TARGET, 1_500)), Fate::Send);
        assert_eq!(c.state, State::Passing);
    }

    #[test]
    fn the_ce_threshold_marks_without_an_interval() {
        let mut c = codel();
        c.spec.ce_threshold = Some(SimTime::from_millis(1));
        let mut fate = |us, ecn_capable| {
            let packet = Head {
                ecn_capable,
                ..head(SimTime::from_micros(us), 9_000)
            };
            c.at_head(SimTime::from_micros(us), packet)
        };
        assert_eq!(
            [fate(1_000, true), fate(1_001, true), fate(1_002, false)],
            [Fate::Send, Fate::Mark, Fate::Send]
        );
    }
}
