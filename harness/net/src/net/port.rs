//! An output port: its queue, its transmitter, and the link behind it.
//!
//! Models a queue that is served at the link's rate, with a limit of its own, a share of a pool, and
//! a [queue discipline](super::discipline). A host's NIC is such a port too.
//!
//! The packets whose departure is known, up to the far end of the link, are one chain of slots in
//! that order. The cursor splits it: what is before has left and is on the link, what is from there
//! on is queued. It moves when somebody looks. With a first-in, first-out queue each packet joins
//! the chain when it arrives; with a discipline that decides in turn (`port/in_turn.rs`) when its turn
//! comes, and of what is queued only the packet in service is in the chain.

mod ahead;
mod asked;
mod change;
pub(crate) mod in_turn;
mod push;
mod record;
mod spec;

pub use spec::{PoolId, PortSpec};

use crate::sim::numbered::Numbered;
use crate::sim::rng::Stream;
use crate::sim::slab::{Hop, NIL, Slab};
use crate::sim::time::SimTime;
use narrows_congestion::hint::cold_path;

use std::mem::offset_of;

use super::buffer::{Capacity, Depth, InService, Limit};
use super::discipline::tail::TailVerdict;
use super::discipline::{Queue, TailRule};
use super::impair::Impairments;
use super::link::{FrameSizes, Framing, Transmitter};
use super::nic::NicRoom;
use super::nic::transmit::Transmit;
use super::packet::Packet;
use super::stats::{Credit, PortCounters, PortStats, QueueTrace};
use in_turn::InTurn;

/// No pool.
pub(crate) const NO_POOL: u32 = u32::MAX;

/// Bytes on the wire of what most packets are at most.
const FULL_FRAME: u32 = 1_538;

/// Where a link ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Node {
    Host(u32),
    Switch(u32),
}

/// A port at work. The first cache line is what a packet touches when it reaches the end of the
/// link, that and the next one when it is queued.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Port {
    /// First packet on the link or in the queue.
    head: u32,
    /// Last one.
    tail: u32,
    /// First one in the queue.
    cursor: u32,
    pub(crate) rank: u32,
    pub(crate) to: Node,
    pub(crate) delay: SimTime,
    rare: Option<Box<Rare>>,
    queued_bytes: u64,
    queued_packets: u32,
    pub(crate) pool: u32,
    /// Whether the pool's heap of departures names this port.
    pub(crate) pool_knows: bool,
    framing: FrameSizes,
    in_service: InService,
    /// [`super::graph::TieOrder::WaitedLast`].
    pub(crate) waited_last: bool,
    /// Whether there is an overhead.
    delays: bool,
    kind: Kind,
    tx: Transmitter,
    limit: Limit,
    /// The greatest queue in packets ([`PortStats::max_packets`]).
    pub(crate) max_packets: u32,
    pub(crate) stats: PortCounters,
    overhead: Overhead,
}

const _: () = assert!(
    offset_of!(Port, tx) == 64 && offset_of!(Port, stats) + offset_of!(PortCounters, marks) == 128,
    "what each packet touches is two cache lines"
);

/// How much of what a port may do there is to look for when a packet comes to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    /// First in, first out, and no more: no pool, no rule, nothing that the link does to packets,
    /// nothing recorded.
    Plain,
    /// The same with a step for marks, above which it is as any.
    Step,
    /// Either, with a share of a pool.
    Pooled,
    /// Anything.
    Any,
    /// Anything, and its queue's course or integral is recorded.
    Recorded,
}

/// When a packet leaves.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Schedule {
    /// When all before it have left, which may be over.
    head_of_line: SimTime,
    /// When its last bit has.
    pub(crate) depart: SimTime,
}

impl Schedule {
    /// Whether it is behind another `now`.
    #[inline]
    pub(crate) fn waits(&self, now: SimTime) -> bool {
        self.head_of_line > now
    }
}

/// What most ports have not.
#[derive(Debug, Default)]
struct Rare {
    tail_rule: Option<TailRule>,
    in_turn: Option<Box<InTurn>>,
    impair: Option<Box<Impairments>>,
    trace: Option<QueueTrace>,
    credit: Option<Credit>,
    transmit: Option<Box<Transmit>>,
    /// Until when a [pause](super::pause) holds it, first in, first out.
    held_until: SimTime,
}

/// The random time before the first bit of a packet.
#[derive(Debug)]
struct Overhead {
    most: SimTime,
    random: Stream,
}

impl Rare {
    /// The queue is so long now, if that is to be recorded.
    fn record(&mut self, at: SimTime, queued: Depth) {
        if let Some(trace) = &mut self.trace {
            trace.record(at, queued);
        }
    }

    /// A packet is queued for so long, if that is measured.
    fn credit(&mut self, span: SimTime, len: u32) {
        if let Some(credit) = &mut self.credit {
            credit.add(span, len);
        }
    }
}

/// What a port is made of.
pub(crate) struct PortParts {
    pub(crate) tx: Transmitter,
    pub(crate) delay: SimTime,
    pub(crate) to: Node,
    pub(crate) rank: u32,
    pub(crate) framing: Framing,
    pub(crate) in_service: InService,
    pub(crate) capacity: Capacity,
    pub(crate) pool: u32,
    pub(crate) queue: Queue,
    /// Greatest send overhead; zero for none.
    pub(crate) overhead: SimTime,
    /// Of the overhead.
    pub(crate) random: Stream,
    pub(crate) impair: Option<Box<Impairments>>,
}

impl Port {
    pub(crate) fn new(parts: PortParts) -> Self {
        let (tail_rule, in_turn) = match parts.queue {
            Queue::Fifo(rule) => (rule, None),
            Queue::InTurn(discipline) => (None, Some(InTurn::new(discipline))),
        };
        let rare = tail_rule.is_some() || in_turn.is_some() || parts.impair.is_some();
        let simple = in_turn.is_none() && parts.impair.is_none();
        let kind = match tail_rule.as_deref() {
            None | Some(TailRule::EcnStep(_)) if simple && parts.pool != NO_POOL => Kind::Pooled,
            None if simple => Kind::Plain,
            Some(TailRule::EcnStep(_)) if simple => Kind::Step,
            _ => Kind::Any,
        };
        Self {
            head: NIL,
            tail: NIL,
            cursor: NIL,
            queued_bytes: 0,
            queued_packets: 0,
            tx: parts.tx,
            delay: parts.delay,
            to: parts.to,
            rank: parts.rank,
            framing: parts.framing.sizes(),
            in_service: parts.in_service,
            waited_last: false,
            limit: Limit::new(parts.capacity),
            max_packets: 0,
            pool: parts.pool,
            pool_knows: false,
            delays: parts.overhead != SimTime::ZERO,
            kind,
            rare: rare.then(|| {
                Box::new(Rare {
                    tail_rule: tail_rule.map(|rule| *rule),
                    in_turn,
                    impair: parts.impair,
                    ..Rare::default()
                })
            }),
            overhead: Overhead {
                most: parts.overhead,
                random: parts.random,
            },
            stats: PortCounters::default(),
        }
    }

    /// Lets leave what leaves until `now`; returns the bytes that frees.
    #[inline(always)]
    pub(crate) fn settle<P>(&mut self, now: SimTime, slab: &Slab<P>) -> u64 {
        if self.kind == Kind::Recorded {
            cold_path();
            return self.settle_recording(now, slab);
        }
        self.settle_with(now, slab, |_, _| {})
    }

    /// The same, and `left` hears of each departure.
    #[inline(always)]
    fn settle_with<P>(
        &mut self,
        now: SimTime,
        slab: &Slab<P>,
        mut left: impl FnMut(&mut Self, SimTime),
    ) -> u64 {
        let before = self.queued_bytes;
        while let Some(hop) = slab.hop_if_any(self.cursor)
            && hop.depart <= now
        {
            self.queued_packets -= 1;
            self.queued_bytes -= u64::from(hop.buffered);
            self.cursor = hop.next;
            left(self, hop.depart);
        }
        before - self.queued_bytes
    }

    /// Everything queued, the packet in service included. Settle first.
    #[inline]
    pub(crate) fn held(&self) -> Depth {
        Depth {
            packets: self.queued_packets,
            bytes: self.queued_bytes,
        }
    }

    /// The queue as the port counts it. Settle first.
    #[inline]
    pub(crate) fn depth<P>(&self, slab: &Slab<P>) -> Depth {
        self.depth_among(slab.hops())
    }

    /// The same, given what hops need of packets.
    #[inline]
    fn depth_among(&self, hops: &Numbered<Hop>) -> Depth {
        let held = self.held();
        if self.in_service == InService::Counted {
            return held;
        }
        match hops.get(self.cursor as usize) {
            None => held,
            Some(in_service) => Depth {
                packets: held.packets - 1,
                bytes: held.bytes - u64::from(in_service.buffered),
            },
        }
    }

    /// Whether the port's own limit admits `len` bytes behind `depth`.
    #[inline]
    pub(crate) fn admits(&self, depth: Depth, len: u32) -> bool {
        self.limit.admits(depth, len)
            || (self.in_service == InService::NotCounted && self.cursor == NIL)
    }

    /// Marks the packet in slot `i`: true.
    #[inline(always)]
    pub(crate) fn mark<P: Packet>(&mut self, i: u32, slab: &mut Slab<P>) -> bool {
        cold_path();
        self.stats.marks += 1;
        slab.body_mut(i).mark_ce();
        true
    }

    /// The bytes that a packet takes in this port's buffer.
    #[inline]
    pub(crate) fn buffer_len(&self, l3_len: u32) -> u32 {
        self.framing.buffer_len(l3_len)
    }

    /// The time that so many bytes take on the wire.
    pub(crate) fn span_of(&self, bytes: u32) -> SimTime {
        self.tx.span(bytes)
    }

    /// Since when nothing is queued, if so. Settle first.
    #[inline]
    pub(crate) fn idle_since(&self) -> Option<SimTime> {
        (self.cursor == NIL).then(|| self.tx.free_at())
    }

    /// When the next packet leaves, if one is queued. Settle first.
    pub(crate) fn next_departure<P>(&self, slab: &Slab<P>) -> Option<SimTime> {
        (self.cursor != NIL).then(|| slab.hop(self.cursor).depart)
    }

    /// What it has counted.
    pub(crate) fn stats(&self) -> PortStats {
        self.stats.stats(self.max_packets)
    }

    /// The rank of the first packet's arrival among others of the same instant.
    #[inline]
    pub(crate) fn head_rank<P>(&self, slab: &Slab<P>) -> u32 {
        if !self.waited_last {
            return self.rank;
        }
        cold_path();
        let last = self.head != NIL && slab.hop(self.head).waited;
        self.rank | u32::from(last) << 31
    }

    /// When the first packet reaches the far end.
    #[inline]
    pub(crate) fn head_arrival<P>(&self, slab: &Slab<P>) -> Option<SimTime> {
        (self.head != NIL).then(|| slab.hop(self.head).depart + self.delay)
    }

    /// Takes the first packet off the far end of the link, at its arrival. Settle first if it
    /// may not have left yet ([`Self::head_is_queued`]).
    #[inline]
    pub(crate) fn pop<P>(&mut self, slab: &Slab<P>) -> Option<u32> {
        if self.head == NIL {
            return None;
        }
        let i = self.head;
        self.head = slab.hop(i).next;
        Some(i)
    }

    /// Whether there is nothing to look for but a step.
    #[inline]
    pub(crate) fn is_plain(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Step)
    }

    /// Whether there is nothing to look for at the end of its link, and in its queue but a step and a
    /// pool.
    #[inline]
    pub(crate) fn is_simple(&self) -> bool {
        matches!(self.kind, Kind::Plain | Kind::Step | Kind::Pooled)
    }

    /// What becomes of a packet at a [simple](Self::is_simple) port that holds `depth`.
    #[inline]
    pub(crate) fn at_step(&self, depth: Depth, ecn_capable: bool) -> TailVerdict {
        if self.kind == Kind::Plain {
            return TailVerdict::Pass;
        }
        let rule = self.rare.as_ref().and_then(|rare| rare.tail_rule.as_ref());
        match rule {
            Some(TailRule::EcnStep(step)) => step.on_arrival(depth, ecn_capable),
            _ => TailVerdict::Pass,
        }
    }

    /// What it has that most have not, to be given more of it.
    fn rare_mut(&mut self) -> &mut Rare {
        if self.is_simple() {
            self.kind = Kind::Any;
        }
        self.rare.get_or_insert_default()
    }

    /// The first packet of a [simple](Self::is_simple) port has arrived, `behind` which another may be:
    /// takes it off. When the other arrives, and its rank. Settle first if it may not have left yet
    /// ([`Self::head_is_queued`]).
    #[inline]
    pub(crate) fn pop_simple<P>(&mut self, behind: u32, slab: &Slab<P>) -> Option<(SimTime, u32)> {
        self.head = behind;
        let next = slab.hop_if_any(behind)?;
        let last = self.waited_last && next.waited;
        Some((next.depart + self.delay, self.rank | u32::from(last) << 31))
    }

    /// What it does at the tail besides dropping what does not fit.
    #[inline]
    pub(crate) fn tail_rule_mut(&mut self) -> Option<&mut TailRule> {
        self.rare.as_mut()?.tail_rule.as_mut()
    }

    /// What the link does to packets.
    #[inline]
    pub(crate) fn impair_mut(&mut self) -> Option<&mut Impairments> {
        self.rare.as_mut()?.impair.as_deref_mut()
    }

    /// The first packet on the link or in the queue.
    #[inline]
    pub(crate) fn head(&self) -> Option<u32> {
        (self.head != NIL).then_some(self.head)
    }

    /// The same, and what hops need of it.
    #[inline]
    pub(crate) fn head_hop<'a, P>(&self, slab: &'a Slab<P>) -> Option<(u32, &'a Hop)> {
        Some((self.head, slab.hop_if_any(self.head)?))
    }

    /// Whether nobody has looked since the first packet left.
    #[inline]
    pub(crate) fn head_is_queued(&self) -> bool {
        self.head == self.cursor
    }

    /// How long a full frame that finds it idle is on its way to the far end, at most.
    pub(crate) fn longest_way(&self) -> SimTime {
        self.overhead.most + self.full_frame() + self.delay
    }

    /// The time that a full frame takes on the wire.
    pub(crate) fn full_frame(&self) -> SimTime {
        self.span_of(FULL_FRAME)
    }

    /// The room that a host may count on. Settle first.
    #[inline]
    pub(crate) fn room(&self, hops: &Numbered<Hop>) -> NicRoom {
        NicRoom {
            limit: self.limit,
            depth: self.depth_among(hops),
            queued: self.queued_packets,
        }
    }
}
