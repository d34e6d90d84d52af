//! An output buffer that is split by input: several first-in, first-out queues at one port.
//!
//! The port's limit is divided evenly among the queues; a packet goes to that of its ingress port,
//! counted at the switch in the order of its links, modulo the number of queues. The queues that
//! hold something are served in turn, a packet each or by bytes. So of n flows that keep the port
//! busy one whose ingress shares a queue with n_i - 1 others gets 1/(q n_i) of the rate, whatever
//! their congestion control does: with three senders on two queues 25, 25 and 50 %, which is what a
//! rack of DCTCP hosts measured (L. Brakmo, B. Burkov, G. Leclercq and M. Mugan, "Experiences
//! evaluating DCTCP", LPC 2018). A marking threshold holds for each queue by itself.
//!
//! With one queue it is a first-in, first-out port that decides in turn: what
//! [pause](crate::net::pause) holds back.
//!
//! Left out: how switches map ports to buffers (it is rarely documented); queues of unequal size;
//! room that an idle queue lends to a busy one.

use std::any::Any;
use std::collections::VecDeque;

use super::classify::DscpMap;
use super::error::DisciplineError;
use super::packet_queue::PacketQueue;
use super::tail::{NotCapable, Step, TailVerdict, Threshold};
use super::{Classes, Discipline, Effects, Queued, Retuned, Room, Verdict};
use crate::net::buffer::{Capacity, Depth, Limit};
use crate::net::stats::DropReason;
use crate::sim::time::SimTime;
use narrows_congestion::ByteCount;

/// How the queues that hold something take turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Turns {
    /// A packet each.
    #[default]
    Packet,
    /// Deficit round robin with this quantum in bytes, 256 to 2^20.
    Byte {
        /// What a queue may send in its turn.
        quantum: u32,
    },
}

/// Which of the queues a packet goes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum SplitBy {
    /// That of its ingress port.
    #[default]
    Ingress,
    /// That of its traffic class.
    Class(DscpMap),
}

/// Parameters of a split buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitSpec {
    /// Number of queues: 1 to 64.
    pub queues: u32,
    /// Which of them a packet goes to, modulo their number.
    pub by: SplitBy,
    /// How they take turns.
    pub turns: Turns,
    /// K of each queue, and what becomes of packets above it that cannot be marked; `None` for
    /// drop-tail.
    pub step: Option<(Threshold, NotCapable)>,
}

impl SplitSpec {
    /// Drop-tail queues that take turns by packet.
    pub const fn new(queues: u32) -> Self {
        Self {
            queues,
            by: SplitBy::Ingress,
            turns: Turns::Packet,
            step: None,
        }
    }

    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        DisciplineError::within("queues", self.queues.into(), 1, 64)?;
        match self.turns {
            Turns::Packet => Ok(()),
            Turns::Byte { quantum } => {
                DisciplineError::within("quantum", quantum.into(), 256, 1 << 20)
            }
        }
    }
}

/// One of the queues.
#[derive(Debug, Default)]
struct Input {
    packets: PacketQueue,
    deficit: u64,
}

/// A split buffer at work.
#[derive(Debug)]
pub(crate) struct Split {
    spec: SplitSpec,
    inputs: Vec<Input>,
    /// The queues that hold something; the first has the turn.
    active: VecDeque<u32>,
    /// Whether the first has had its quantum.
    begun: bool,
    depth: Depth,
    /// The queue of the last packet that went into service, and its length.
    in_service: (u32, u32),
}

impl Split {
    pub(crate) fn new(spec: SplitSpec) -> Self {
        Self {
            spec,
            inputs: (0..spec.queues).map(|_| Input::default()).collect(),
            active: VecDeque::new(),
            begun: false,
            depth: Depth::default(),
            in_service: (0, 0),
        }
    }

    /// A queue as the port counts: with the packet in service if that counts and is of this one.
    fn depth_of(&self, queue: u32, room: &Room<'_>) -> Depth {
        let mut depth = self.inputs[queue as usize].packets.depth();
        let (of, len) = self.in_service;
        if room.depth.packets > self.depth.packets && of == queue {
            depth.packets += 1;
            depth.bytes += u64::from(len);
        }
        depth
    }

    /// A queue's part of the port's limit.
    fn limit(&self, room: &Room<'_>) -> Limit {
        let queues = self.spec.queues;
        Limit::new(match room.capacity() {
            Capacity::Unlimited => Capacity::Unlimited,
            Capacity::Packets(n) => Capacity::Packets(n / queues),
            Capacity::Bytes(n) => Capacity::Bytes(ByteCount::new(n.get() / u64::from(queues))),
        })
    }

    /// Whether the queue that has the turn may send a packet of `len` now.
    fn is_covered(&mut self, queue: u32, len: u32) -> bool {
        let Turns::Byte { quantum } = self.spec.turns else {
            return true;
        };
        let input = &mut self.inputs[queue as usize];
        if !self.begun {
            input.deficit += u64::from(quantum);
            self.begun = true;
        }
        if input.deficit < u64::from(len) {
            return false;
        }
        input.deficit -= u64::from(len);
        true
    }
}

impl Discipline for Split {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        let of = match self.spec.by {
            SplitBy::Ingress => packet.ingress,
            SplitBy::Class(map) => map.class_of(packet.dscp) as u32,
        };
        let number = of % self.spec.queues;
        let depth = self.depth_of(number, room);
        if !room.passes && !self.limit(room).admits(depth, packet.len) {
            return Verdict::Drop(DropReason::Full);
        }
        if let Err(reason) = room.check_pool(packet.len, 0) {
            return Verdict::Drop(reason);
        }
        if let Some((threshold, not_capable)) = self.spec.step {
            let step = Step {
                threshold,
                not_capable,
            };
            match step.on_arrival(depth, packet.ecn_capable) {
                TailVerdict::Pass => {}
                TailVerdict::Mark => effects.mark(packet),
                TailVerdict::Drop => return Verdict::Drop(DropReason::Early),
            }
        }
        let input = &mut self.inputs[number as usize];
        if input.packets.is_empty() {
            self.active.push_back(number);
        }
        input.packets.push(packet);
        self.depth.packets += 1;
        self.depth.bytes += u64::from(packet.len);
        Verdict::Queue
    }

    fn dequeue(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued> {
        self.dequeue_of(Classes::ALL, now, effects)
    }

    fn dequeue_of(&mut self, classes: Classes, _: SimTime, _: &mut Effects) -> Option<Queued> {
        let by_class = matches!(self.spec.by, SplitBy::Class(_));
        let held = |&number: &u32| by_class && !classes.has(number as usize);
        if (!by_class && classes != Classes::ALL) || self.active.iter().all(held) {
            return None;
        }
        loop {
            let number = *self.active.front()?;
            if held(&number) {
                self.active.rotate_left(1);
                self.begun = false;
                continue;
            }
            let head = self.inputs[number as usize].packets.head()?.len;
            if !self.is_covered(number, head) {
                self.active.rotate_left(1);
                self.begun = false;
                continue;
            }
            let input = &mut self.inputs[number as usize];
            let packet = input.packets.pop_head()?;
            if input.packets.is_empty() {
                input.deficit = 0;
                self.active.pop_front();
                self.begun = false;
            } else if self.spec.turns == Turns::Packet {
                self.active.rotate_left(1);
            }
            self.depth.packets -= 1;
            self.depth.bytes -= u64::from(packet.len);
            self.in_service = (number, packet.len);
            return Some(packet);
        }
    }

    fn depth(&self) -> Depth {
        self.depth
    }

    fn retune(&mut self, values: &dyn Any) -> Retuned {
        let rule = match values.downcast_ref::<SplitSpec>() {
            Some(spec) if spec.queues == self.spec.queues && spec.by == self.spec.by => *spec,
            _ => return Retuned::No,
        };
        self.spec = rule;
        Retuned::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, bytes, packet, serve};
    use super::super::{Effect, testing};
    use super::*;
    use proptest::prelude::*;

    fn from(ingress: u32, slot: u32, len: u32) -> Queued {
        Queued {
            ingress,
            ..packet(slot, len)
        }
    }

    fn takes(split: &mut Split, packet: Queued) {
        let taken = arrive(split, packet, Capacity::Unlimited);
        assert_eq!(taken, (Verdict::Queue, vec![]));
    }

    #[test]
    fn each_queue_has_its_part_of_the_limit_and_a_turn_for_each_packet() {
        let mut split = Split::new(SplitSpec::new(2));
        let mut verdicts = Vec::new();
        for (ingress, slot) in [(1, 0), (3, 1), (2, 2), (1, 3), (2, 4)] {
            let (verdict, _) = arrive(&mut split, from(ingress, slot, 1_000), bytes(4_999));
            verdicts.push(verdict);
        }
        let full = Verdict::Drop(DropReason::Full);
        // Ingresses 1 and 3 share a queue of 2499 bytes.
        let kept = Verdict::Queue;
        assert_eq!(verdicts, [kept, kept, kept, full, kept]);
        assert_eq!(serve(&mut split, SimTime::ZERO, 9), [0, 2, 1, 4]);
    }

    #[test]
    fn the_packet_in_service_counts_in_its_own_queue_only() {
        let mut split = Split::new(SplitSpec::new(2));
        takes(&mut split, from(0, 0, 1_000));
        assert_eq!(serve(&mut split, SimTime::ZERO, 1), [0]);
        let mut effects = Effects::default();
        let mut offer = |split: &mut Split, packet| {
            let room = Room {
                depth: Depth {
                    packets: 1,
                    bytes: 1_000,
                },
                ..testing::room(bytes(3_998), split)
            };
            split.enqueue(packet, &room, &mut effects)
        };
        let full = Verdict::Drop(DropReason::Full);
        assert_eq!(offer(&mut split, from(2, 1, 1_000)), full);
        assert_eq!(offer(&mut split, from(1, 2, 1_000)), Verdict::Queue);
    }

    #[test]
    fn k_holds_for_each_queue() {
        let step = Some((Threshold::Packets(1), NotCapable::Drop));
        let mut split = Split::new(SplitSpec {
            step,
            ..SplitSpec::new(2)
        });
        let ecn = |ingress, slot| Queued {
            ecn_capable: true,
            ..from(ingress, slot, 1_000)
        };
        for (ingress, slot) in [(0, 0), (0, 1), (1, 2), (1, 3)] {
            takes(&mut split, ecn(ingress, slot));
        }
        let marked = arrive(&mut split, ecn(0, 4), Capacity::Unlimited);
        assert_eq!(marked, (Verdict::Queue, vec![Effect::Mark(ecn(0, 4))]));
        let dropped = arrive(&mut split, from(1, 5, 1_000), Capacity::Unlimited);
        assert_eq!(dropped.0, Verdict::Drop(DropReason::Early));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// 1/(q n_i): of queues that never run empty each is served equally, by packets or by bytes,
        /// to within a turn.
        #[test]
        fn queues_share_evenly_in_what_they_take_turns_by(
            queues in 1u32..6,
            quantum in 1_500u32..6_000,
            by_byte: bool,
            lens in proptest::collection::vec(64u32..=1_500, 6),
        ) {
            let turns = if by_byte { Turns::Byte { quantum } } else { Turns::Packet };
            let mut split = Split::new(SplitSpec { turns, ..SplitSpec::new(queues) });
            for input in 0..queues {
                for _ in 0..3 {
                    takes(&mut split, from(input, input, lens[input as usize]));
                }
            }
            let mut served = vec![(0u64, 0u64); queues as usize];
            for _ in 0..2_000 {
                let packet = split.dequeue(SimTime::ZERO, &mut Effects::default()).unwrap();
                takes(&mut split, packet);
                let (packets, bytes) = &mut served[packet.ingress as usize];
                *packets += 1;
                *bytes += u64::from(packet.len);
            }
            let of = |served: &(u64, u64)| if by_byte { served.1 } else { served.0 };
            let (least, most) = (served.iter().map(of).min(), served.iter().map(of).max());
            let turn = if by_byte { u64::from(quantum) + 1_500 } else { 1 };
            prop_assert!(most.unwrap() - least.unwrap() <= turn, "{served:?}");
        }
    }
}
