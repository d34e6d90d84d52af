//! Queue disciplines: which packet of a port leaves next, and which is marked, trimmed or dropped.
//!
//! There are two kinds, and a port chooses once, when it is built:
//! - **First in, first out with a rule at the tail** ([`tail`]: drop-tail, ECN step, [`red`]). All
//!   is decided when a packet arrives, so its departure is computed then.
//! - **In turn**: a boxed [`Discipline`] that is asked for a packet each time the transmitter is
//!   free ([`codel`], [`fq_codel`], [`drr`], [`strict_priority`], [`trimming`], [`split`]). It may
//!   drop at the head, mark, trim, or drop another packet than the one that arrives.
//!
//! [`DisciplineSpec`] names them all. A new one is a file here and a case there; one of your own
//! outside this crate is a [`Discipline`] behind [`DisciplineSpec::Own`], by name in a
//! [`DisciplineRegistry`].
//!
//! # When a discipline is asked
//! Turns are taken when somebody looks at the port, each at its own time and in order, and all that
//! are due are taken before an arrival is shown to the discipline, those of the same instant too.
//! So a turn sees exactly what had arrived before it, whenever it is computed, and a port of this
//! kind needs no event of its own: while something waits, something is in service, and the event of
//! the link's first packet comes no sooner than the end of its service (see `port/in_turn.rs`).

pub mod classify;
pub mod codel;
pub mod drr;
mod error;
pub mod fq_codel;
mod packet_queue;
mod queue;
pub mod red;
mod spec;
pub mod split;
pub mod strict_priority;
pub mod tail;
pub mod trimming;

use std::any::Any;
use std::fmt;

use super::buffer::{Capacity, Depth, Limit, Pool, PoolVerdict};
use super::stats::DropReason;
use crate::sim::time::SimTime;

pub use error::DisciplineError;
pub use packet_queue::PacketQueue;
pub(crate) use queue::{Queue, TailRule};
pub use spec::{DisciplineFactory, DisciplineRegistry, DisciplineSpec, OwnDiscipline};

/// A packet in a queue, as far as a discipline may know it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queued {
    /// Its slot in the network.
    pub(crate) slot: u32,
    /// Bytes that it takes in the buffer, framing included.
    pub len: u32,
    /// Bytes that it would take without its payload; `len` if there is none.
    pub header_len: u32,
    /// Hash of its flow.
    pub flow: u32,
    /// Its DSCP, 0 to 63 (RFC 2474).
    pub dscp: u8,
    /// Whether it may be marked with Congestion Experienced.
    pub ecn_capable: bool,
    /// Whether another port has cut its payload.
    pub trimmed: bool,
    /// The port of the switch that it came in by, from 0 in the order of the switch's links.
    pub ingress: u32,
    /// When it arrived.
    pub arrived: SimTime,
}

impl Queued {
    /// Whether cutting its payload would shorten it.
    pub const fn has_payload(&self) -> bool {
        self.header_len < self.len
    }
}

/// What becomes of a packet that arrives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The discipline keeps it.
    Queue,
    /// It is gone.
    Drop(DropReason),
}

/// A queue discipline that decides in turn.
///
/// It holds the packets that wait; the one in service has left it. The port does the counting, the
/// pool, the trace and the link. What happens to a packet besides waiting goes through [`Effects`].
///
/// # Contract
/// - Each packet that [`Discipline::enqueue`] keeps comes out once: by [`Discipline::dequeue`], or
///   by [`Effects::drop`].
/// - It is work conserving: `dequeue` gives a packet unless none waits. (A shaper would need events
///   of its own.)
/// - It draws from no clock and no randomness but the stream it was built with.
pub trait Discipline: fmt::Debug + Send {
    /// A packet arrives.
    fn enqueue(&mut self, packet: Queued, room: &Room<'_>, effects: &mut Effects) -> Verdict;

    /// The transmitter is free at `now`: the packet that it sends next.
    fn dequeue(&mut self, now: SimTime, effects: &mut Effects) -> Option<Queued>;

    /// The same while a [pause](crate::net::pause) holds all traffic classes but `classes`. One that
    /// has no queue for each class gives nothing then.
    fn dequeue_of(
        &mut self,
        classes: Classes,
        now: SimTime,
        effects: &mut Effects,
    ) -> Option<Queued> {
        if classes == Classes::ALL {
            self.dequeue(now, effects)
        } else {
            None
        }
    }

    /// What waits here.
    fn depth(&self) -> Depth;

    /// Goes on with other values, and with what waits, if they are of its kind and it can. Those of
    /// this crate's disciplines are their specs, as in [`DisciplineSpec`]; those of a discipline from
    /// outside are its [`OwnDiscipline`].
    fn retune(&mut self, values: &dyn Any) -> Retuned {
        let _ = values;
        Retuned::No
    }
}

/// A set of traffic classes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Classes(pub u8);

impl Classes {
    /// All of them.
    pub const ALL: Self = Self(u8::MAX);

    /// Whether a class is among them.
    pub const fn has(self, class: usize) -> bool {
        class < 8 && self.0 >> class & 1 == 1
    }
}

/// Whether a discipline has taken other values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retuned {
    /// They hold from now on.
    Yes,
    /// It is as it was.
    No,
}

/// What a discipline does to packets, in order. The port carries it out when the call returns.
#[derive(Debug, Default)]
pub struct Effects {
    pub(crate) list: Vec<Effect>,
}

/// One thing that is done to a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Effect {
    Drop(Queued, DropReason),
    Mark(Queued),
    /// Now it is so long; it was longer by `cut`.
    Trim(Queued, u32),
}

impl Effects {
    /// Drops a packet that was kept.
    pub fn drop(&mut self, packet: Queued, reason: DropReason) {
        self.list.push(Effect::Drop(packet, reason));
    }

    /// Sets Congestion Experienced on a packet that is ECN-capable; others stay as they are.
    pub fn mark(&mut self, packet: Queued) {
        if packet.ecn_capable {
            self.list.push(Effect::Mark(packet));
        }
    }

    /// Cuts the payload of a packet, whether it arrives or waits.
    pub fn trim(&mut self, packet: &mut Queued) {
        if packet.has_payload() {
            let cut = packet.len - packet.header_len;
            packet.len = packet.header_len;
            packet.trimmed = true;
            self.list.push(Effect::Trim(*packet, cut));
        }
    }
}

/// The room for a packet that arrives: the port's own limit and that of its pool.
#[derive(Debug)]
pub struct Room<'a> {
    pub(crate) limit: Limit,
    /// The queue as the port counts it.
    pub(crate) depth: Depth,
    /// Only what waits counts, and nothing is in service: the limit does not matter.
    pub(crate) passes: bool,
    /// Everything the port holds, which is what a pool counts.
    pub(crate) held: u64,
    pub(crate) pool: Option<&'a Pool>,
}

impl Room<'_> {
    /// The port's own limit.
    pub const fn capacity(&self) -> Capacity {
        self.limit.capacity()
    }

    /// Whether `len` bytes fit within the port's limit and its pool once `freed` of what waits has
    /// gone; why not.
    pub fn check(&self, len: u32, freed: Depth) -> Result<(), DropReason> {
        let depth = Depth {
            packets: self.depth.packets.saturating_sub(freed.packets),
            bytes: self.depth.bytes.saturating_sub(freed.bytes),
        };
        if !self.passes && !self.limit.admits(depth, len) {
            return Err(DropReason::Full);
        }
        self.check_pool(len, freed.bytes)
    }

    /// Whether `len` bytes fit within the pool once `freed` bytes of what waits have gone.
    pub fn check_pool(&self, len: u32, freed: u64) -> Result<(), DropReason> {
        let held = self.held.saturating_sub(freed);
        match self.pool.map(|pool| pool.verdict_after(freed, held, len)) {
            None | Some(PoolVerdict::Admit) => Ok(()),
            Some(PoolVerdict::OverThreshold) => Err(DropReason::OverThreshold),
            Some(PoolVerdict::Exhausted) => Err(DropReason::PoolExhausted),
        }
    }
}

#[cfg(test)]
mod tests;

#[cfg(test)]
pub(crate) mod testing {
    //! What the tests of single disciplines are made of.

    use super::*;
    use narrows_congestion::ByteCount;

    /// A packet of `len` bytes, 64 of them header, of flow and slot `n`.
    pub(crate) fn packet(n: u32, len: u32) -> Queued {
        Queued {
            slot: n,
            len,
            header_len: len.min(64),
            flow: n,
            dscp: 0,
            ecn_capable: false,
            trimmed: false,
            ingress: 0,
            arrived: SimTime::ZERO,
        }
    }

    /// Room of `capacity`, taken by what waits only.
    pub(crate) fn room(capacity: Capacity, discipline: &dyn Discipline) -> Room<'static> {
        Room {
            limit: Limit::new(capacity),
            depth: discipline.depth(),
            passes: false,
            held: discipline.depth().bytes,
            pool: None,
        }
    }

    /// Room for `n` bytes.
    pub(crate) fn bytes(n: u64) -> Capacity {
        Capacity::Bytes(ByteCount::new(n))
    }

    /// Lets a packet arrive; the verdict, and what was done.
    pub(crate) fn arrive(
        discipline: &mut dyn Discipline,
        packet: Queued,
        capacity: Capacity,
    ) -> (Verdict, Vec<Effect>) {
        let mut effects = Effects::default();
        let room = room(capacity, discipline);
        let verdict = discipline.enqueue(packet, &room, &mut effects);
        (verdict, effects.list)
    }

    /// The slots of the next packets, `n` at most, all at `now`; without effects.
    pub(crate) fn serve(discipline: &mut dyn Discipline, now: SimTime, n: usize) -> Vec<u32> {
        let mut effects = Effects::default();
        let next = || discipline.dequeue(now, &mut effects).map(|p| p.slot);
        let served = std::iter::from_fn(next).take(n).collect();
        assert!(effects.list.is_empty(), "{:?}", effects.list);
        served
    }
}
