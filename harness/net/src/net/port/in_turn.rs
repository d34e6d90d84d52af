//! Ports whose discipline decides in turn.
//!
//! What waits is the discipline's; the port's chain holds the packet in service and what is on the
//! link. A turn is taken when somebody looks, at the instant when the transmitter became free.
//!
//! # That it is computed late changes nothing
//! A turn at t depends on the discipline as arrivals before t have left it. All that lets a packet
//! arrive settles the port first, so the turns until then have been taken, in order, and none of
//! them can have seen it; a turn that is due at the instant of an arrival comes before it, as a
//! departure does. And nobody can miss a turn: a packet waits only while another is in service, that
//! one is in the chain, and the first of the chain has an event at its arrival at the far end, when
//! the port is settled: so the next packet joins the chain before the last one has left it. A hop is
//! one event, as elsewhere; what it costs more is two calls through a table and the discipline's
//! own queue.
//!
//! # While it is held
//! A port that is [paused](crate::net::pause), or whose wire a pause frame takes, begins no packet
//! though some wait: then the network has an event for the end of that, and the turn is taken there.

use crate::net::buffer::{InService, Pool};
use crate::net::discipline::classify::CLASSES;
use crate::net::discipline::{
    Classes, Discipline, DisciplineSpec, Effect, Effects, Queued, Retuned, Room, Verdict,
};
use crate::net::packet::Packet;
use crate::net::pause::pause_frame;
use crate::net::stats::{DropReason, QueueArea};
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;

use super::Port;

/// A discipline and what its port knows of it.
#[derive(Debug)]
pub(super) struct InTurn {
    discipline: Box<dyn Discipline>,
    /// Empty between calls.
    effects: Effects,
    /// What was done to packets that whoever listens has not been told.
    untold: Vec<(u32, Done)>,
    /// When the queue last changed.
    changed: SimTime,
    /// Until when traffic classes are held, if any ever were.
    held: Option<Box<[SimTime; CLASSES]>>,
    /// Slots that have left since the last question, of a port that is to tell.
    left: Option<Vec<u32>>,
}

/// What was done to a packet that had been taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Done {
    Dropped(DropReason),
    Marked,
    Trimmed,
}

/// What became of a packet that arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Arrival {
    /// It waits, `len` bytes long.
    Waits {
        len: u32,
        marked: bool,
        trimmed: bool,
    },
    Dropped(DropReason),
}

impl InTurn {
    pub(super) fn new(discipline: Box<dyn Discipline>) -> Box<Self> {
        Box::new(Self {
            discipline,
            effects: Effects::default(),
            untold: Vec::new(),
            changed: SimTime::ZERO,
            held: None,
            left: None,
        })
    }

    /// The traffic classes that may be sent at `at`.
    fn allowed(&self, at: SimTime) -> Classes {
        let Some(held) = &self.held else {
            return Classes::ALL;
        };
        let free = held.iter().zip(0..).filter(|(until, _)| **until <= at);
        Classes(free.fold(0, |bits, (_, class)| bits | 1 << class))
    }
}

impl Port {
    /// Whether its discipline decides in turn.
    #[inline]
    pub(crate) fn decides_in_turn(&self) -> bool {
        self.rare
            .as_ref()
            .is_some_and(|rare| rare.in_turn.is_some())
    }

    /// Lets leave what leaves until `now`, and gives the next ones their turn; returns the bytes
    /// that frees.
    pub(crate) fn settle_in_turn<P: Packet>(&mut self, now: SimTime, slab: &mut Slab<P>) -> u64 {
        let before = self.queued_bytes;
        let Some(mut turn) = self.rare.as_mut().and_then(|rare| rare.in_turn.take()) else {
            return 0;
        };
        let mut free = now;
        loop {
            if self.cursor != NIL {
                let hop = *slab.hop(self.cursor);
                if hop.depart > now {
                    break;
                }
                free = hop.depart;
                self.integrate(free, &mut turn, slab);
                if let Some(left) = &mut turn.left {
                    left.push(self.cursor);
                }
                self.cursor = NIL;
                self.queued_packets -= 1;
                self.queued_bytes -= u64::from(hop.buffered);
                self.record(free);
            }
            // A pause frame may have the wire.
            if !self.is_stopped() {
                free = free.max(self.tx.free_at());
            }
            let waits = self.queued_packets > 0 && free <= now;
            if !waits || !self.take_turn(free, &mut turn, slab) {
                break;
            }
        }
        if let Some(rare) = &mut self.rare {
            rare.in_turn = Some(turn);
        }
        before - self.queued_bytes
    }

    /// The transmitter is free at `at` and something waits; whether it has a packet to send.
    fn take_turn<P: Packet>(&mut self, at: SimTime, turn: &mut InTurn, slab: &mut Slab<P>) -> bool {
        let allowed = turn.allowed(at);
        let next = match allowed {
            Classes::ALL => turn.discipline.dequeue(at, &mut turn.effects),
            some => turn.discipline.dequeue_of(some, at, &mut turn.effects),
        };
        self.integrate(at, turn, slab);
        self.apply(at, None, turn, slab);
        debug_assert_eq!(
            turn.discipline.depth().packets + u32::from(next.is_some()),
            self.queued_packets,
            "the discipline has lost or made a packet"
        );
        let Some(Queued { slot, len, .. }) = next else {
            debug_assert!(
                self.queued_packets == 0 || allowed != Classes::ALL,
                "the discipline is not work conserving"
            );
            return false;
        };
        let depart = self.tx.send(at, self.framing.wire_len(len));
        let hop = slab.hop_mut(slot);
        hop.depart = depart;
        hop.waited = next.is_some_and(|p| p.arrived < at);
        hop.next = NIL;
        if self.head == NIL {
            self.head = slot;
        } else {
            slab.hop_mut(self.tail).next = slot;
        }
        self.tail = slot;
        self.cursor = slot;
        true
    }

    /// Shows the packet in slot `i`, which came in by that port of the switch, to the discipline; the
    /// port is settled. If it waits and nothing
    /// is in service its turn comes when the port is settled again. Returns what became of it, and
    /// the bytes that others have freed.
    pub(crate) fn offer<P: Packet>(
        &mut self,
        now: SimTime,
        (i, ingress): (u32, u32),
        pool: Option<&Pool>,
        slab: &mut Slab<P>,
    ) -> (Arrival, u64) {
        let Some(mut turn) = self.rare.as_mut().and_then(|rare| rare.in_turn.take()) else {
            return (Arrival::Dropped(DropReason::Full), 0);
        };
        let (hop, body) = (slab.hop(i), slab.body(i));
        let packet = Queued {
            slot: i,
            len: self.buffer_len(hop.l3_len),
            header_len: self.buffer_len(body.header_len()),
            flow: body.flow_hash(),
            dscp: body.dscp(),
            ecn_capable: hop.ecn_capable,
            trimmed: body.is_trimmed(),
            ingress,
            arrived: now,
        };
        let room = Room {
            limit: self.limit,
            depth: self.depth(slab),
            passes: self.in_service == InService::NotCounted
                && self.cursor == NIL
                && self.queued_packets == 0,
            held: self.queued_bytes,
            pool,
        };
        let verdict = turn.discipline.enqueue(packet, &room, &mut turn.effects);
        let before = self.queued_bytes;
        self.integrate(now, &mut turn, slab);
        let mut arrival = match verdict {
            Verdict::Queue => Arrival::Waits {
                len: packet.len,
                marked: false,
                trimmed: false,
            },
            Verdict::Drop(reason) => Arrival::Dropped(reason),
        };
        self.apply(now, Some((i, &mut arrival)), &mut turn, slab);
        let freed = before - self.queued_bytes;
        if let Arrival::Waits { len, .. } = arrival {
            let hop = slab.hop_mut(i);
            hop.depart = SimTime::MAX;
            hop.buffered = len;
            self.count(len);
            // It goes into service at once where none is, and may not count there.
            if self.in_service == InService::Counted || self.cursor != NIL {
                let depth = self.depth(slab);
                self.note_depth(depth);
            }
            self.record(now);
        }
        if let Some(rare) = &mut self.rare {
            rare.in_turn = Some(turn);
        }
        (arrival, freed)
    }

    /// Does to packets at `at` what the discipline says; what it does to the one that arrives, which
    /// is not counted yet, goes into its `Arrival`.
    fn apply<P: Packet>(
        &mut self,
        at: SimTime,
        mut arriving: Option<(u32, &mut Arrival)>,
        turn: &mut InTurn,
        slab: &mut Slab<P>,
    ) {
        for effect in turn.effects.list.drain(..) {
            let (Effect::Drop(packet, _) | Effect::Mark(packet) | Effect::Trim(packet, _)) = effect;
            let slot = packet.slot;
            let mut new = match &mut arriving {
                Some((i, arrival)) if *i == slot => Some(&mut **arrival),
                _ => None,
            };
            match effect {
                Effect::Drop(_, reason) => {
                    if let Some(arrival) = new {
                        *arrival = Arrival::Dropped(reason);
                        continue;
                    }
                    self.stats.packets -= 1;
                    self.stats.bytes -= u64::from(packet.len);
                    self.stats.count_drop(reason, packet.len);
                    self.queued_packets -= 1;
                    self.queued_bytes -= u64::from(packet.len);
                    turn.untold.push((slot, Done::Dropped(reason)));
                    self.record(at);
                }
                Effect::Mark(_) => {
                    self.mark(slot, slab);
                    match &mut new {
                        Some(Arrival::Waits { marked, .. }) => *marked = true,
                        Some(Arrival::Dropped(_)) => {}
                        None => turn.untold.push((slot, Done::Marked)),
                    }
                }
                Effect::Trim(_, cut) => {
                    self.stats.rare().trimmed += 1;
                    let body = slab.body_mut(slot);
                    body.trim();
                    let l3_len = body.wire_len();
                    slab.hop_mut(slot).l3_len = l3_len;
                    if let Some(arrival) = new {
                        if let Arrival::Waits { len, trimmed, .. } = arrival {
                            *len = packet.len;
                            *trimmed = true;
                        }
                        continue;
                    }
                    slab.hop_mut(slot).buffered = packet.len;
                    self.stats.bytes -= u64::from(cut);
                    self.queued_bytes -= u64::from(cut);
                    turn.untold.push((slot, Done::Trimmed));
                    self.record(at);
                }
            }
        }
    }

    /// What was done to packets since the last question.
    pub(crate) fn take_done(&mut self) -> Vec<(u32, Done)> {
        let turn = self.rare.as_mut().and_then(|rare| rare.in_turn.as_mut());
        turn.map(|turn| std::mem::take(&mut turn.untold))
            .unwrap_or_default()
    }

    /// Holds traffic classes until a time each, from now on; the port is settled.
    pub(crate) fn hold_in_turn(&mut self, until: [SimTime; CLASSES]) {
        if let Some(turn) = self.rare.as_mut().and_then(|rare| rare.in_turn.as_mut()) {
            turn.held = Some(Box::new(until));
        }
    }

    /// Puts a pause frame on the wire behind the packet in service; when its last bit leaves. The
    /// port is settled.
    pub(crate) fn send_pause(&mut self, now: SimTime) -> SimTime {
        self.tx.send(now, pause_frame(self.framing))
    }

    /// Remembers from now on what leaves, for [`Self::take_left`].
    pub(crate) fn tell_left(&mut self) {
        if let Some(turn) = self.rare.as_mut().and_then(|rare| rare.in_turn.as_mut()) {
            turn.left = Some(Vec::new());
        }
    }

    /// The slots of the packets that have left since the last question.
    pub(crate) fn take_left(&mut self) -> Vec<u32> {
        let turn = self.rare.as_mut().and_then(|rare| rare.in_turn.as_mut());
        let left = turn.and_then(|turn| turn.left.as_mut());
        left.map(std::mem::take).unwrap_or_default()
    }

    /// The queue has been what it is, and somebody is about to change it.
    pub(super) fn integrate_until<P>(&mut self, now: SimTime, slab: &Slab<P>) {
        let turn = self.rare.as_mut().and_then(|rare| rare.in_turn.take());
        if let Some(mut turn) = turn {
            self.integrate(now, &mut turn, slab);
            if let Some(rare) = &mut self.rare {
                rare.in_turn = Some(turn);
            }
        }
    }

    /// Gives the discipline other values, if it takes them.
    pub(super) fn retune_in_turn(&mut self, spec: &DisciplineSpec) -> Retuned {
        match self.rare.as_mut().and_then(|rare| rare.in_turn.as_mut()) {
            Some(turn) => turn.discipline.retune(spec.values()),
            None => Retuned::No,
        }
    }

    /// The queue has been what it is since it last changed, and changes at `at`.
    fn integrate<P>(&mut self, at: SimTime, turn: &mut InTurn, slab: &Slab<P>) {
        let span = at - turn.changed;
        turn.changed = at;
        let depth = self.depth(slab);
        if let Some(credit) = self.rare.as_mut().and_then(|rare| rare.credit.as_mut()) {
            credit.add_queue(span, depth);
        }
    }

    /// The queue is so long from `at` on, if that is recorded.
    fn record(&mut self, at: SimTime) {
        let queued = self.held();
        if let Some(rare) = &mut self.rare {
            rare.record(at, queued);
        }
    }

    /// The integral until the queue last changed, and on to `now`. Settle first.
    pub(super) fn area_in_turn<P>(&self, now: SimTime, slab: &Slab<P>) -> Option<QueueArea> {
        let rare = self.rare.as_ref()?;
        let (turn, mut credit) = (rare.in_turn.as_ref()?, rare.credit?);
        credit.add_queue(now - turn.changed, self.depth(slab));
        Some(QueueArea {
            packets: credit.packets,
            bytes: credit.bytes,
            until: now,
        })
    }
}
