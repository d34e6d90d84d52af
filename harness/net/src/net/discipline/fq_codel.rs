//! Flow queues with controlled delay (FQ-CoDel, RFC 8290).
//!
//! A keyed hash spreads flows over queues, each under [CoDel](super::codel). The scheduler is a
//! deficit round robin in bytes that serves queues which have just become active first, once, for a
//! quantum: a flow that sends less than a quantum in a round never waits behind those that do not.
//!
//! At the port's limit packets are dropped from the head of the queue with the most bytes (section
//! 4.1): half its bytes, in at most `drop_batch` packets. (RFC 8290's limit of 10,240 packets is
//! [`Capacity::Packets`](crate::net::Capacity::Packets) of the port.) That makes room for the packet
//! that arrives, which counts among the others then and may be dropped itself.
//!
//! Left out: Linux's memory limit beside that of packets; that it raises CoDel's `count` by what
//! overload dropped; that it compares MAXPACKET with the bytes of all queues (here, as RFC 8289
//! section 5.4 for one queue, with those of the flow's); set-associative hashing.

use std::any::Any;
use std::collections::VecDeque;

use super::classify::FlowQueues;
use super::codel::{CodelQueue, CodelSpec};
use super::error::DisciplineError;
use super::{Discipline, Effect, Effects, Queued, Retuned, Room, Verdict};
use crate::net::buffer::Depth;
use crate::net::stats::DropReason;
use crate::sim::rng::Stream;
use crate::sim::time::SimTime;

/// Parameters of FQ-CoDel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FqCodelSpec {
    /// Of each flow queue (section 5.2.1 and 5.2.2: 5 ms and 100 ms on the Internet).
    pub codel: CodelSpec,
    /// Bytes that a queue may send in a round: 256 to 2^20. Section 5.2.4: the MTU with its
    /// framing, 1514.
    pub quantum: u32,
    /// Number of flow queues: 1 to 65,536. Section 5.2.6: 1024.
    pub queues: u32,
    /// Packets dropped at once at the limit: 1 to 65,536. Section 4.1: 64.
    pub drop_batch: u32,
}

impl FqCodelSpec {
    /// The values of RFC 8290 with CoDel's given.
    pub const fn new(codel: CodelSpec) -> Self {
        Self {
            codel,
            quantum: 1_514,
            queues: 1_024,
            drop_batch: 64,
        }
    }

    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        self.codel.check()?;
        DisciplineError::within("quantum", self.quantum.into(), 256, 1 << 20)?;
        DisciplineError::within("queues", self.queues.into(), 1, 1 << 16)?;
        DisciplineError::within("drop_batch", self.drop_batch.into(), 1, 1 << 16)
    }
}

/// FQ-CoDel at work.
#[derive(Debug)]
pub(crate) struct FqCodel {
    spec: FqCodelSpec,
    flows: FlowQueues<Flow>,
    /// Queues by number: those that have become active, and those that have had a quantum since.
    new: VecDeque<u32>,
    old: VecDeque<u32>,
    depth: Depth,
}

/// One flow queue.
#[derive(Debug, Default)]
struct Flow {
    /// Made with the first packet.
    queue: Option<CodelQueue>,
    credits: i64,
    /// Whether it is in one of the lists.
    active: bool,
}

impl Flow {
    fn depth(&self) -> Depth {
        self.queue
            .as_ref()
            .map_or_else(Depth::default, |q| q.packets.depth())
    }
}

/// Which list a queue is served from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum List {
    New,
    Old,
}

impl FqCodel {
    pub(crate) fn new(spec: FqCodelSpec, mut stream: Stream) -> Self {
        Self {
            spec,
            flows: FlowQueues::new(spec.queues, &mut stream),
            new: VecDeque::new(),
            old: VecDeque::new(),
            depth: Depth::default(),
        }
    }

    /// The queue with the most bytes; of equal ones that which was used first.
    fn fattest(&self) -> Option<u32> {
        let bytes = self.flows.iter().map(|(n, flow)| (flow.depth().bytes, n));
        let (bytes, n) = bytes.max_by_key(|&(bytes, n)| (bytes, std::cmp::Reverse(n)))?;
        (bytes > 0).then_some(n)
    }

    /// Drops half of the fattest queue from its head, a batch at most; what that frees.
    fn drop_fattest(&mut self, effects: &mut Effects) -> Depth {
        let mut freed = Depth::default();
        let Some(queue) = self.fattest() else {
            return freed;
        };
        let flow = self.flows.get(queue);
        let half = flow.depth().bytes / 2;
        while let Some(packet) = flow.queue.as_mut().and_then(|q| q.packets.pop_head()) {
            freed.packets += 1;
            freed.bytes += u64::from(packet.len);
            effects.drop(packet, DropReason::PushOut);
            if freed.packets >= self.spec.drop_batch || freed.bytes >= half {
                break;
            }
        }
        self.depth.packets -= freed.packets;
        self.depth.bytes -= freed.bytes;
        freed
    }
}

impl Discipline for FqCodel {
    /// Section 4.1.
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict {
        // What does not fit though all went drives nothing out.
        if let Err(reason) = room.check(packet.len, self.depth) {
            return Verdict::Drop(reason);
        }
        let number = self.flows.of(packet.flow);
        let flow = self.flows.get(number);
        let codel = self.spec.codel;
        let queue = flow.queue.get_or_insert_with(|| CodelQueue::new(codel));
        queue.packets.push(packet);
        self.depth.packets += 1;
        self.depth.bytes += u64::from(packet.len);
        if !flow.active {
            flow.active = true;
            flow.credits = i64::from(self.spec.quantum);
            self.new.push_back(number);
        }
        let mut freed = Depth::default();
        let dropped = Effect::Drop(packet, DropReason::PushOut);
        // It is the last of its queue, and waits until it has room or is dropped itself.
        while effects.list.last() != Some(&dropped) && room.check(packet.len, freed).is_err() {
            let batch = self.drop_fattest(effects);
            freed.packets += batch.packets;
            freed.bytes += batch.bytes;
        }
        Verdict::Queue
    }

    /// Section 4.2.
    fn dequeue(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued> {
        loop {
            let (list, number) = match (self.new.front(), self.old.front()) {
                (Some(&number), _) => (List::New, number),
                (None, Some(&number)) => (List::Old, number),
                (None, None) => return None,
            };
            let flow = self.flows.get(number);
            let credits = flow.credits;
            let mut next = None;
            if credits > 0 {
                let before = flow.depth();
                next = flow.queue.as_mut().and_then(|q| q.pop(now, effects));
                let after = flow.depth();
                self.depth.packets -= before.packets - after.packets;
                self.depth.bytes -= before.bytes - after.bytes;
            } else {
                flow.credits += i64::from(self.spec.quantum);
            }
            if let Some(packet) = next {
                flow.credits -= i64::from(packet.len);
                return Some(packet);
            }
            // It has spent its credits, or it is empty; a new one that is empty goes through the
            // old ones before it may be new again.
            match list {
                List::New => self.new.pop_front(),
                List::Old => self.old.pop_front(),
            };
            if credits <= 0 || list == List::New {
                self.old.push_back(number);
            } else {
                flow.active = false;
            }
        }
    }

    fn depth(&self) -> Depth {
        self.depth
    }

    /// Not with another number of queues: flows would change theirs.
    fn retune(&mut self, values: &dyn Any) -> Retuned {
        let spec = match values.downcast_ref::<FqCodelSpec>() {
            Some(spec) if spec.queues == self.spec.queues => *spec,
            _ => return Retuned::No,
        };
        self.spec = spec;
        let known: Vec<u32> = self.flows.iter().map(|(n, _)| n).collect();
        for n in known {
            if let Some(queue) = &mut self.flows.get(n).queue {
                queue.set_spec(spec.codel);
            }
        }
        Retuned::Yes
    }
}

#[cfg(test)]
mod tests {
    use super::super::testing::{arrive, bytes, packet, serve};
    use super::*;
    use crate::net::buffer::Capacity;
    use crate::sim::rng::Component;

    fn spec() -> FqCodelSpec {
        FqCodelSpec::new(CodelSpec {
            target: SimTime::from_millis(5),
            interval: SimTime::from_millis(100),
            max_packet: 1_514,
            ce_threshold: None,
        })
    }

    fn fq(spec: FqCodelSpec) -> FqCodel {
        FqCodel::new(spec, Stream::new(1, Component::Aqm, 0))
    }

    /// The `n`th packet of `flow`.
    fn of(flow: u32, n: u32, len: u32) -> Queued {
        Queued {
            flow,
            slot: flow * 100 + n,
            ..packet(0, len)
        }
    }

    fn takes(fq: &mut FqCodel, packets: impl IntoIterator<Item = Queued>) {
        for packet in packets {
            let taken = arrive(fq, packet, Capacity::Unlimited);
            assert_eq!(taken, (Verdict::Queue, vec![]));
        }
    }

    const NOW: SimTime = SimTime::ZERO;

    /// Quantum 1514, packets of 1000. Flow 1: 1514 -> 514 -> -486, one more quantum (1028) as an old
    /// queue -> 28. Flow 2 is new and goes first; then, empty, it passes through the old ones.
    #[test]
    fn rfc8290_4_2_credits_are_those_counted_by_hand() {
        let mut fq = fq(spec());
        takes(&mut fq, (1..=4).map(|n| of(1, n, 1_000)));
        assert_eq!(serve(&mut fq, NOW, 3), [101, 102, 103]);
        assert_eq!((fq.new.len(), fq.old.len()), (0, 1));
        takes(&mut fq, [of(2, 1, 1_000)]);
        assert_eq!(serve(&mut fq, NOW, 1), [201]);
        assert_eq!((fq.new.len(), fq.old.len()), (1, 1));
        assert_eq!(serve(&mut fq, NOW, 2), [104]);
        assert!(fq.new.is_empty() && fq.old.is_empty());
        assert_eq!(fq.depth(), Depth::default());
    }

    /// Three flows with a backlog, one packet of a quantum each in turn, and one that sends little.
    /// Its first packet goes next. Its second comes while its queue, empty, is on its way through the
    /// old ones, and waits for its turn there: else flows that come and go would starve the others.
    /// Its third comes when it has left them, and goes next again.
    #[test]
    fn rfc8290_4_2_a_sparse_flow_goes_first_and_cannot_starve_the_others() {
        let mut fq = fq(spec());
        for flow in 1..=3 {
            takes(&mut fq, (1..=5).map(|n| of(flow, n, 1_514)));
        }
        assert_eq!(serve(&mut fq, NOW, 6), [101, 201, 301, 102, 202, 302]);
        takes(&mut fq, [of(4, 1, 100)]);
        assert_eq!(serve(&mut fq, NOW, 2), [401, 103]);
        takes(&mut fq, [of(4, 2, 100)]);
        assert_eq!(serve(&mut fq, NOW, 3), [203, 402, 303]);
        takes(&mut fq, [of(4, 3, 100)]);
        let rest = [403, 104, 204, 304, 105, 205, 305];
        assert_eq!(serve(&mut fq, NOW, 99), rest);
    }

    /// At 5000 bytes: the 500 that come push out half of the 4000 of flow 1, from its head.
    #[test]
    fn rfc8290_4_1_overload_drops_half_of_the_fattest_queue_from_its_head() {
        for (drop_batch, pushed_out) in [(64, vec![101, 102]), (1, vec![101])] {
            let mut fq = fq(FqCodelSpec {
                drop_batch,
                ..spec()
            });
            takes(&mut fq, (1..=4).map(|n| of(1, n, 1_000)));
            takes(&mut fq, [of(2, 1, 500), of(2, 2, 500)]);
            let (verdict, effects) = arrive(&mut fq, of(2, 3, 500), bytes(5_000));
            assert_eq!(verdict, Verdict::Queue);
            let dropped = pushed_out.iter().map(|n| of(1, n - 100, 1_000));
            let dropped: Vec<_> = dropped
                .map(|p| Effect::Drop(p, DropReason::PushOut))
                .collect();
            assert_eq!(effects, dropped);
            let left = 5_500 - 1_000 * pushed_out.len() as u64;
            assert_eq!(fq.depth().bytes, left);
        }
    }

    /// What arrives makes the fattest flow give way, unless it would not fit though all gave way.
    #[test]
    fn rfc8290_4_1_the_fattest_flow_gives_way_where_that_helps() {
        let mut fq = fq(spec());
        takes(&mut fq, [of(1, 0, 1_000)]);
        let (verdict, effects) = arrive(&mut fq, of(1, 1, 1_000), Capacity::Packets(0));
        assert_eq!(verdict, Verdict::Drop(DropReason::Full));
        assert!(effects.is_empty());
        assert_eq!(serve(&mut fq, NOW, 9).len(), 1);
        // A thin flow that arrives where a fat one fills the port stays.
        takes(&mut fq, (1..=9).map(|n| of(1, n, 1_000)));
        let (_, effects) = arrive(&mut fq, of(2, 1, 1_000), Capacity::Packets(9));
        let thin = |e: &Effect| matches!(e, Effect::Drop(p, _) if p.flow == 2);
        assert!(effects.len() == 5 && !effects.iter().any(thin));
    }

    /// A flow whose packets wait for long is under CoDel's control; one whose packets do not wait
    /// is not, in the same port at the same time. Above the target from 10 ms on, the first drop is at
    /// 110 ms, the next at 210, 280.7, 338.4, 388.4, 433.2, 474.0, 511.8, 547.1 and 580.5 ms, each
    /// when the flow is served.
    #[test]
    fn rfc8290_4_2_each_queue_has_its_own_control_law() {
        let mut fq = fq(spec());
        takes(&mut fq, (0..90).map(|n| of(1, n, 1_514)));
        let mut effects = Effects::default();
        let mut thin = 0;
        for ms in 0..60 {
            let now = SimTime::from_millis(10 * ms);
            takes(
                &mut fq,
                [Queued {
                    arrived: now,
                    ..of(2, ms as u32, 100)
                }],
            );
            for _ in 0..2 {
                let served = fq.dequeue(now, &mut effects).unwrap();
                thin += u32::from(served.flow == 2);
            }
        }
        assert_eq!(thin, 60);
        let early = |e: &Effect| matches!(e, Effect::Drop(p, DropReason::Early) if p.flow == 1);
        assert!(effects.list.len() == 10 && effects.list.iter().all(early));
    }

    /// Fifty flows that were chosen to share one queue have the service of one flow: another gets
    /// half of the bytes, whatever they send.
    #[test]
    fn flows_that_collide_share_the_service_of_one() {
        let mut fq = fq(spec());
        let victim = 7;
        let bucket = fq.flows.bucket(1);
        assert_ne!(bucket, fq.flows.bucket(victim));
        let colliding = (1..).filter(|&f| fq.flows.bucket(f) == bucket);
        let colliding: Vec<u32> = colliding.take(50).collect();
        let mut effects = Effects::default();
        let mut served = [0u64; 2];
        for n in 0..2_000 {
            for &flow in &colliding {
                let packet = of(flow, 0, 1_514);
                let room = super::super::testing::room(Capacity::Packets(1_000), &fq);
                fq.enqueue(packet, &room, &mut effects);
            }
            let room = super::super::testing::room(Capacity::Packets(1_000), &fq);
            fq.enqueue(of(victim, 1, 700), &room, &mut effects);
            effects.list.clear();
            if n >= 100 {
                let packet = fq.dequeue(NOW, &mut effects).unwrap();
                served[usize::from(packet.flow == victim)] += u64::from(packet.len);
            }
        }
        let difference = served[0].abs_diff(served[1]);
        assert!(difference <= 2 * 1_514, "{served:?}");
    }
}
