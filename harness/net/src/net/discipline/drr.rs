//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995).
//!
//! Queues that hold something are served in turn. Each gets its quantum of bytes when its turn
//! begins and sends while the packet at its head is covered; what is left over it keeps, unless it
//! is empty. Variables have the paper's names. When there is no room, packets are dropped from the
//! tail of the queue with the most bytes (the paper's buffer stealing, after McKenney).
//!
//! Left out: a packet at the head counts as sent when its service begins; the DRR+ of the paper for
//! latency-critical flows (see [`super::fq_codel`]).

use std::collections::VecDeque;

use super::classify::{CLASSES, DscpMap, FlowQueues};
use super::error::DisciplineError;
use super::packet_queue::PacketQueue;
use super::{Discipline, Effects, Queued, Room, Verdict};
use crate::net::buffer::Depth;
use crate::net::stats::DropReason;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;

/// Parameters of DRR: what its queues are, and their quanta in bytes, 256 to 2^20. With a quantum of
/// at least the longest packet a turn takes constant time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DrrSpec {
    /// Flows by a keyed hash, as in the paper.
    Flows {
        /// Number of queues: 1 to 65,536.
        queues: u32,
        /// Of each.
        quantum: u32,
    },
    /// Traffic classes with weights, as switches have them (DWRR, the enhanced transmission
    /// selection of IEEE 802.1Qaz).
    Classes {
        /// The class of each packet.
        map: DscpMap,
        /// Of each class.
        quanta: [u32; CLASSES],
    },
}

impl DrrSpec {
    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        let quantum = |q: u32| DisciplineError::within("quantum", q.into(), 256, 1 << 20);
        match self {
            Self::Flows { queues, quantum: q } => {
                DisciplineError::within("queues", (*queues).into(), 1, 1 << 16)?;
                quantum(*q)
            }
            Self::Classes { quanta, .. } => quanta.iter().try_for_each(|&q| quantum(q)),
        }
    }
}

/// DRR at work.
#[derive(Debug)]
pub(crate) struct Drr {
    queues: Queues,
    /// ActiveList: the queues that hold something, by number; the first has the turn.
    active: VecDeque<u32>,
    /// Whether the first has had its quantum for this turn.
    turn: Turn,
    depth: Depth,
}

/// How queues are told apart.
#[derive(Debug)]
enum Queues {
    Flows {
        table: FlowQueues<Flow>,
        quantum: u32,
    },
    Classes {
        map: DscpMap,
        quanta: [u32; CLASSES],
        queues: Box<[Flow; CLASSES]>,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Turn {
    /// The quantum is to be given.
    Begins,
    GoesOn,
}

/// A queue and its deficit counter, DC.
#[derive(Debug, Default)]
struct Flow {
    packets: PacketQueue,
    deficit: u64,
}

impl Queues {
    fn of(&mut self, packet: &Queued) -> u32 {
        match self {
            Self::Flows { table, .. } => table.of(packet.flow),
            Self::Classes { map, .. } => map.class_of(packet.dscp) as u32,
        }
    }

    fn get(&mut self, number: u32) -> &mut Flow {
        match self {
            Self::Flows { table, .. } => table.get(number),
            Self::Classes { queues, .. } => &mut queues[number as usize],
        }
    }

    fn quantum(&self, number: u32) -> u64 {
        match self {
            Self::Flows { quantum, .. } => (*quantum).into(),
            Self::Classes { quanta, .. } => quanta[number as usize].into(),
        }
    }
}

impl Drr {
    /// The key of the hash is drawn from `stream`.
    pub(crate) fn new(spec: &DrrSpec, mut stream: Stream) -> Self {
        Self {
            queues: match *spec {
                DrrSpec::Flows { queues, quantum } => Queues::Flows {
                    table: FlowQueues::new(queues, &mut stream),
                    quantum,
                },
                DrrSpec::Classes { map, quanta } => Queues::Classes {
                    map,
                    quanta,
                    queues: Default::default(),
                },
            },
            active: VecDeque::new(),
            turn: Turn::Begins,
            depth: Depth::default(),
        }
    }

    /// Drops the packet at the tail of the queue with the most bytes, of equal ones the next to be
    /// served; what that frees.
    fn steal(&mut self, effects: &mut Effects) -> Option<Depth> {
        let mut longest: Option<(u64, u32)> = None;
        for &number in &self.active {
            let bytes = self.queues.get(number).packets.depth().bytes;
            if longest.is_none_or(|(most, _)| bytes > most) {
                longest = Some((bytes, number));
            }
        }
        let (_, number) = longest?;
        let flow = self.queues.get(number);
        let packet = flow.packets.pop_tail()?;
        if flow.packets.is_empty() {
            self.retire(number);
        }
        effects.drop(packet, DropReason::PushOut);
        self.depth.packets -= 1;
        self.depth.bytes -= u64::from(packet.len);
        Some(Depth {
            packets: 1,
            bytes: packet.len.into(),
        })
    }

    /// An empty queue leaves the list, and its deficit is void.
    fn retire(&mut self, number: u32) {
        self.queues.get(number).deficit = 0;
        if self.active.front() == Some(&number) {
            self.active.pop_front();
            self.turn = Turn::Begins;
        } else {
            self.active.retain(|&n| n != number);
        }
    }
}

impl Discipline for Drr {
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        // What does not fit though all went steals nothing.
        if let Err(reason) = room.check(packet.len, self.depth) {
            return Verdict::Drop(reason);
        }
        let mut freed = Depth::default();
        while let Err(reason) = room.check(packet.len, freed) {
            let Some(stolen) = self.steal(effects) else {
                return Verdict::Drop(reason);
            };
            freed.packets += stolen.packets;
            freed.bytes += stolen.bytes;
        }
        let number = self.queues.of(&packet);
        let flow = self.queues.get(number);
        if flow.packets.is_empty() {
            self.active.push_back(number);
        }
        flow.packets.push(packet);
        self.depth.packets += 1;
        self.depth.bytes += u64::from(packet.len);
        Verdict::Queue
    }

    fn dequeue(&mut self, _: SimTime, _: &mut Effects) -> Option<Queued> {
        loop {
            let number = *self.active.front()?;
            let quantum = self.queues.quantum(number);
            let flow = self.queues.get(number);
            if self.turn == Turn::Begins {
                flow.deficit += quantum;
                self.turn = Turn::GoesOn;
            }
            let covered = |head: &Queued| u64::from(head.len) <= flow.deficit;
            if !flow.packets.head().is_some_and(covered) {
                self.active.rotate_left(1);
                self.turn = Turn::Begins;
                continue;
            }
            let packet = flow.packets.pop_head()?;
            flow.deficit -= u64::from(packet.len);
            if flow.packets.is_empty() {
                self.retire(number);
            }
            self.depth.packets -= 1;
            self.depth.bytes -= u64::from(packet.len);
            return Some(packet);
        }
    }

    fn depth(&self) -> Depth {
        self.depth
    }
}

#[cfg(test)]
mod tests {
    use super::super::Effect;
    use super::super::testing::{arrive, bytes, packet, serve};
    use super::*;
    use crate::net::buffer::Capacity;
    use crate::sim::rng::Component;
    use proptest::prelude::*;

    /// A queue for each of the flows 0 to 7, which are classes: no two share one.
    fn drr(quanta: [u32; CLASSES]) -> Drr {
        let mut map = DscpMap::default();
        for flow in 0..CLASSES as u8 {
            map = map.with(flow, flow);
        }
        let spec = DrrSpec::Classes { map, quanta };
        Drr::new(&spec, Stream::new(1, Component::Aqm, 0))
    }

    fn of(flow: u8, slot: u32, len: u32) -> Queued {
        Queued {
            dscp: flow,
            ..packet(slot, len)
        }
    }

    fn takes(drr: &mut Drr, flow: u8, slot: u32, len: u32) {
        let taken = arrive(drr, of(flow, slot, len), Capacity::Unlimited);
        assert_eq!(taken, (Verdict::Queue, vec![]));
    }

    /// The example of the paper's figures 2 and 3, with a quantum of 500: the first queue sends its
    /// 200 bytes, keeps 300, and with 800 sends the 750 in the next round.
    #[test]
    fn drr_figure_3_the_example_of_the_paper() {
        let mut drr = drr([500; CLASSES]);
        let queues: [&[u32]; 4] = [
            &[200, 750, 20],
            &[500, 500],
            &[200, 600, 100],
            &[50, 700, 180],
        ];
        for (flow, queue) in (0..).zip(queues) {
            for &len in queue {
                // The slot says what it is.
                takes(&mut drr, flow, u32::from(flow) * 1_000 + len, len);
            }
        }
        assert_eq!(serve(&mut drr, SimTime::ZERO, 1), [200]);
        // 300 are left; the next packet does not fit, which is seen when the next turn comes.
        assert_eq!(drr.queues.get(0).deficit, 300);
        assert_eq!(serve(&mut drr, SimTime::ZERO, 3), [1_500, 2_200, 3_050]);
        let deficits = [0, 1, 2, 3].map(|f| drr.queues.get(f).deficit);
        assert_eq!(deficits, [300, 0, 300, 450]);
        assert_eq!(
            serve(&mut drr, SimTime::ZERO, 9),
            [750, 20, 1_500, 2_600, 2_100, 3_700, 3_180]
        );
        let deficits = [0, 1, 2, 3].map(|f| drr.queues.get(f).deficit);
        assert_eq!((deficits, drr.active.len()), ([0; 4], 0));
    }

    /// A packet finds no room: the longest queue gives up the packet at its tail.
    #[test]
    fn drr_3_buffer_stealing_takes_from_the_longest_queue() {
        let mut drr = drr([1_500; CLASSES]);
        for n in 0..4 {
            takes(&mut drr, 0, n, 1_000);
        }
        let (verdict, effects) = arrive(&mut drr, of(1, 9, 500), bytes(4_000));
        assert_eq!(verdict, Verdict::Queue);
        let stolen = Effect::Drop(of(0, 3, 1_000), DropReason::PushOut);
        assert_eq!(effects, [stolen]);
        assert_eq!(serve(&mut drr, SimTime::ZERO, 9), [0, 9, 1, 2]);
        // Where nothing waits there is nothing to steal.
        let refused = arrive(&mut drr, of(0, 1, 500), bytes(499));
        assert_eq!(refused, (Verdict::Drop(DropReason::Full), vec![]));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(128))]

        /// Theorem of section 4: over any interval in which two flows have a backlog, what they are
        /// served, each over its weight, differs by no more than the quantum and twice the longest
        /// packet: three of these with a quantum of one. One of the flows has tiny packets only.
        #[test]
        fn drr_4_the_fairness_measure_is_bounded(
            lens in proptest::collection::vec(64u32..=1_500, 2_000),
            weights in (1u32..4, 1u32..4),
        ) {
            const MAX: u32 = 1_500;
            let quanta = [MAX * weights.0, MAX * weights.1, MAX, 0, 0, 0, 0, 0];
            let mut drr = drr(quanta.map(|q| q.max(256)));
            let mut sent = [0i64; 3];
            let mut extremes = [(0i64, 0i64); 3];
            let mut lens = lens.into_iter().cycle();
            let mut len_of = |flow| if flow == 2 { 64 } else { lens.next().unwrap() };
            for flow in (0..3).cycle().take(30) {
                takes(&mut drr, flow, flow.into(), len_of(flow));
            }
            let weights = [weights.0.into(), weights.1.into(), 1i64];
            for _ in 0..5_000 {
                let packet = drr.dequeue(SimTime::ZERO, &mut Effects::default()).unwrap();
                takes(&mut drr, packet.dscp, packet.slot, len_of(packet.dscp));
                sent[packet.dscp as usize] += i64::from(packet.len);
                for (i, (a, b)) in [(0, 1), (0, 2), (1, 2)].into_iter().enumerate() {
                    // Both times their weights' product.
                    let (w, v) = (weights[a], weights[b]);
                    let d = sent[a] * v - sent[b] * w;
                    let (least, most) = &mut extremes[i];
                    (*least, *most) = ((*least).min(d), (*most).max(d));
                    let bound = i64::from(3 * MAX) * w * v;
                    prop_assert!(*most - *least <= bound, "{a} and {b}: {least} {most}");
                }
            }
        }
    }
}
