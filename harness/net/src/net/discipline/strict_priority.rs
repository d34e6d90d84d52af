//! Strict priority: at each turn the highest traffic class that waits.
//!
//! Classes come from the DSCP; within a class it is first in, first out. A packet in service is not
//! interrupted. What a lower class gets is what the higher ones leave: one that never pauses starves
//! it, which is the point of the discipline and not mended here. Left out: preemption (IEEE
//! 802.1Qbu), rate limits of a class.

use super::classify::{CLASSES, DscpMap};
use super::packet_queue::PacketQueue;
use super::{Classes, Discipline, Effects, Queued, Room, Verdict};
use crate::net::buffer::Depth;
use crate::net::stats::DropReason;
use crate::sim::time::SimTime;

/// Parameters of strict priority.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct StrictPrioritySpec {
    /// The class of each DSCP; 7 goes first.
    pub map: DscpMap,
    /// What happens at the port's limit, which all classes share.
    pub at_limit: AtLimit,
}

/// What happens to a packet that finds no room.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AtLimit {
    /// Packets of the lowest class below its own are dropped from the tail to make room (as
    /// pFabric, SIGCOMM 2013 section 4.3, does by flow): lower classes cannot take a higher one's
    /// buffer.
    #[default]
    PushOut,
    /// It is dropped, whatever its class. One buffer for all: a lower class that fills it locks a
    /// higher one out.
    DropArriving,
}

/// Strict priority at work.
#[derive(Debug)]
pub(crate) struct StrictPriority {
    spec: StrictPrioritySpec,
    classes: [PacketQueue; CLASSES],
    depth: Depth,
}

impl StrictPriority {
    pub(crate) fn new(spec: StrictPrioritySpec) -> Self {
        Self {
            spec,
            classes: [const { PacketQueue::new() }; CLASSES],
            depth: Depth::default(),
        }
    }

    /// Drops the packet at the tail of the lowest class below `class`; what that frees.
    fn push_out(&mut self, class: usize, effects: &mut Effects) -> Option<Depth> {
        let mut lower = self.classes[..class].iter_mut();
        let packet = lower.find_map(PacketQueue::pop_tail)?;
        effects.drop(packet, DropReason::PushOut);
        Some(self.leave(&packet))
    }

    /// What waits in lower classes, if that gives way.
    fn may_be_pushed_out_by(&self, class: usize) -> Depth {
        let lower = match self.spec.at_limit {
            AtLimit::DropArriving => 0,
            AtLimit::PushOut => class,
        };
        let mut sum = Depth::default();
        for depth in self.classes[..lower].iter().map(PacketQueue::depth) {
            sum.packets += depth.packets;
            sum.bytes += depth.bytes;
        }
        sum
    }

    /// `packet` no longer waits; what it took.
    fn leave(&mut self, packet: &Queued) -> Depth {
        let bytes = u64::from(packet.len);
        self.depth.packets -= 1;
        self.depth.bytes -= bytes;
        Depth { packets: 1, bytes }
    }
}

impl Discipline for StrictPriority {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        let class = self.spec.map.class_of(packet.dscp);
        // What does not fit though all below it went drives nothing out.
        if let Err(reason) = room.check(packet.len, self.may_be_pushed_out_by(class)) {
            return Verdict::Drop(reason);
        }
        let mut freed = Depth::default();
        while let Err(reason) = room.check(packet.len, freed) {
            let Some(pushed) = self.push_out(class, effects) else {
                return Verdict::Drop(reason);
            };
            freed.packets += pushed.packets;
            freed.bytes += pushed.bytes;
        }
        self.classes[class].push(packet);
        self.depth.packets += 1;
        self.depth.bytes += u64::from(packet.len);
        Verdict::Queue
    }

    fn dequeue(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued> {
        self.dequeue_of(Classes::ALL, now, effects)
    }

    fn dequeue_of(&mut self, classes: Classes, _: SimTime, _: &mut Effects) -> Option<Queued> {
        let queues = self.classes.iter_mut().enumerate().rev();
        let mut free = queues.filter(|(class, _)| classes.has(*class));
        let packet = free.find_map(|(_, queue)| queue.pop_head())?;
        self.leave(&packet);
        Some(packet)
    }

    fn depth(&self) -> Depth {
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::super::Effect;
    use super::super::testing::{arrive, packet, room};
    use super::*;
    use crate::net::buffer::Capacity;
    use proptest::prelude::*;

    fn of(class: u8, slot: u32) -> Queued {
        Queued {
            dscp: class << 3,
            ..packet(slot, 1_000)
        }
    }

    /// Four low ones fill the port. A high one is dropped, or pushes out the last of the lowest.
    #[test]
    fn at_the_limit_the_setting_decides() {
        for at_limit in [AtLimit::DropArriving, AtLimit::PushOut] {
            let spec = StrictPrioritySpec {
                at_limit,
                ..StrictPrioritySpec::default()
            };
            let mut q = StrictPriority::new(spec);
            for (class, slot) in [(1, 0), (0, 1), (0, 2), (1, 3)] {
                arrive(&mut q, of(class, slot), Capacity::Packets(4));
            }
            let found = arrive(&mut q, of(7, 9), Capacity::Packets(4));
            let expected = match at_limit {
                AtLimit::DropArriving => (Verdict::Drop(DropReason::Full), vec![]),
                AtLimit::PushOut => {
                    let out = Effect::Drop(of(0, 2), DropReason::PushOut);
                    (Verdict::Queue, vec![out])
                }
            };
            assert_eq!(found, expected);
            // The lowest finds nothing below itself.
            let lowest = arrive(&mut q, of(0, 8), Capacity::Packets(4));
            assert_eq!(lowest, (Verdict::Drop(DropReason::Full), vec![]));
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// Against a sorted list: what is served is of the highest class that waits and of these
        /// the first that came; what is pushed out is of the lowest and of these the last.
        #[test]
        fn no_lower_class_leaves_while_a_higher_waits(
            steps in proptest::collection::vec(proptest::option::of(0u8..8), 1..400),
            push_out in any::<bool>(),
        ) {
            let at_limit = if push_out { AtLimit::PushOut } else { AtLimit::DropArriving };
            let mut q = StrictPriority::new(StrictPrioritySpec {
                at_limit,
                ..StrictPrioritySpec::default()
            });
            let mut model: Vec<(u8, u32)> = Vec::new();
            for (slot, step) in (0..).zip(steps) {
                let mut effects = Effects::default();
                if let Some(class) = step {
                    let room = room(Capacity::Packets(20), &q);
                    let verdict = q.enqueue(of(class, slot), &room, &mut effects);
                    let full = model.len() == 20;
                    let lowest = model.iter().map(|m| m.0).min();
                    let out = lowest.filter(|&l| full && push_out && l < class);
                    if let Some(low) = out {
                        let last = model.iter().rposition(|m| m.0 == low).unwrap();
                        let (class, slot) = model.remove(last);
                        let dropped = Effect::Drop(of(class, slot), DropReason::PushOut);
                        prop_assert_eq!(effects.list, vec![dropped]);
                    }
                    let taken = !full || out.is_some();
                    prop_assert_eq!(verdict == Verdict::Queue, taken);
                    if taken {
                        model.push((class, slot));
                    }
                } else {
                    let best = model.iter().map(|m| m.0).max();
                    let first = model.iter().position(|m| Some(m.0) == best);
                    let expected = first.map(|i| model.remove(i)).map(|(c, s)| of(c, s));
                    prop_assert_eq!(q.dequeue(SimTime::ZERO, &mut effects), expected);
                }
                prop_assert_eq!(q.depth().packets as usize, model.len());
            }
        }
    }
}
