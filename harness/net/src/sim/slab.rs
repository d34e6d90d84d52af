//! Packets in flight: one slot each, chained by index.
//!
//! A packet keeps its slot from the NIC of the sender to the receiver; queues and links hold
//! indices. What every hop needs is kept apart from the packet in 32 bytes, two to a cache
//! line, so that a switch never touches the packet itself unless it marks it or has several paths
//! to choose from. Freed slots are reused last in, first out, so a steady flow stays in cache and
//! allocates nothing. A packet is made in the slot that it is to have (`Slab::draft`).

use super::numbered::Numbered;
use super::time::SimTime;
use crate::net::packet::Packet;
use narrows::prefetch::prefetch;

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// Of each slot that is asked for its packet.
const IN_USE: &str = "a slot in use holds a packet";

/// What a hop needs of a packet.
#[derive(Clone, Copy, Debug, Default)]
#[repr(align(32))] // In one cache line, not in parts of two.
pub(crate) struct Hop {
    /// When its last bit leaves the port that holds it.
    pub(crate) depart: SimTime,
    /// The packet behind it on the same port and link; of a free slot the one freed before.
    pub(crate) next: u32,
    /// Destination host.
    pub(crate) dst: u32,
    /// Length at the network layer.
    pub(crate) l3_len: u32,
    /// Length in the buffer of the port that holds it.
    pub(crate) buffered: u32,
    /// Whether a switch may mark it.
    pub(crate) ecn_capable: bool,
    /// Whether it found another packet before it at the port that holds it.
    pub(crate) waited: bool,
}

impl Hop {
    /// Of a packet that no port holds yet.
    #[inline(always)]
    pub(crate) fn of(packet: &impl Packet) -> Self {
        Self {
            depart: SimTime::ZERO,
            next: NIL,
            dst: packet.destination().0,
            l3_len: packet.wire_len(),
            buffered: 0,
            ecn_capable: packet.is_ecn_capable(),
            waited: false,
        }
    }
}

/// The packets in flight.
#[derive(Debug)]
pub(crate) struct Slab<P> {
    hops: Numbered<Hop>,
    /// That of a free slot means nothing: what it held last, or a draft.
    bodies: Numbered<Option<P>>,
    /// The slot freed last.
    free: u32,
    held: usize,
    limit: usize,
}

impl<P> Slab<P> {
    /// For at most `limit` packets at once.
    pub(crate) fn new(limit: usize) -> Self {
        // One more is for the draft of what is refused.
        let limit = limit.min(NIL as usize - 1);
        Self {
            hops: Numbered::new(),
            bodies: Numbered::new(),
            free: NIL,
            held: 0,
            limit,
        }
    }

    /// Packets held now.
    pub(crate) fn len(&self) -> usize {
        self.held
    }

    /// Whether an insertion would be refused.
    pub(crate) fn is_full(&self) -> bool {
        self.held >= self.limit
    }

    /// Packets that it would still take in.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.len().min(self.limit)
    }

    /// Takes a packet in; the caller has seen to it that there is room.
    pub(crate) fn insert(&mut self, hop: Hop, body: P) -> u32 {
        *self.draft().1 = Some(body);
        self.take_in(hop)
    }

    /// Where the next packet is made, so that it need not be moved, beside what hops need of the others.
    /// What is there before means nothing.
    #[inline(always)]
    pub(crate) fn draft(&mut self) -> (&Numbered<Hop>, &mut Option<P>) {
        if self.free as usize >= self.bodies.len() {
            self.grow();
        }
        (&self.hops, &mut self.bodies[self.free])
    }

    /// Takes in what has been put into [`Self::draft`]: its slot.
    #[inline(always)]
    pub(crate) fn take_in(&mut self, hop: Hop) -> u32 {
        let i = self.free;
        let place = &mut self.hops[i];
        self.free = place.next;
        *place = hop;
        self.held += 1;
        i
    }

    /// One more slot, which is the only free one.
    #[cold]
    fn grow(&mut self) {
        self.free = self.hops.len() as u32;
        if self.hops.len() == self.hops.capacity() {
            // Of a vector that doubles, up to half would never be needed.
            let more = (self.hops.len() / 8).max(64);
            self.hops.reserve_exact(more);
            self.bodies.reserve_exact(more);
        }
        self.hops.push(Hop {
            next: NIL,
            ..Hop::default()
        });
        self.bodies.push(None);
    }

    /// Frees slot `i`.
    #[inline]
    pub(crate) fn free(&mut self, i: u32) {
        debug_assert_ne!(self.free, i, "freed twice");
        self.hops[i].next = self.free;
        self.free = i;
        self.held -= 1;
    }

    /// What hops need of all packets, by slot.
    #[inline]
    pub(crate) fn hops(&self) -> &Numbered<Hop> {
        &self.hops
    }

    /// What hops need of the packet in slot `i`, which may be [`NIL`]: one look for both.
    #[inline]
    pub(crate) fn hop_if_any(&self, i: u32) -> Option<&Hop> {
        self.hops.get(i as usize)
    }

    #[inline]
    pub(crate) fn hop(&self, i: u32) -> &Hop {
        &self.hops[i]
    }

    #[inline]
    pub(crate) fn hop_mut(&mut self, i: u32) -> &mut Hop {
        &mut self.hops[i]
    }

    /// Asks for the packet in slot `i`, which may be [`NIL`].
    #[inline]
    pub(crate) fn ask_for_body(&self, i: u32) {
        if let Some(body) = self.bodies.get(i as usize) {
            prefetch(body);
        }
    }

    #[inline]
    pub(crate) fn body(&self, i: u32) -> &P {
        self.bodies[i].as_ref().expect(IN_USE)
    }

    #[inline]
    pub(crate) fn body_mut(&mut self, i: u32) -> &mut P {
        self.bodies[i].as_mut().expect(IN_USE)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of so many bytes.
    #[derive(Debug, PartialEq, Eq)]
    struct Bytes(u32);

    #[test]
    fn slots_are_reused_and_bounded() {
        let mut slab = Slab::new(2);
        let a = slab.insert(Hop::default(), Bytes(1));
        let b = slab.insert(Hop::default(), Bytes(2));
        assert!(slab.is_full());
        assert_eq!(*slab.body(a), Bytes(1));
        slab.free(a);
        assert_eq!((slab.len(), slab.is_full()), (1, false));
        assert_eq!(slab.insert(Hop::default(), Bytes(3)), a);
        assert_eq!(*slab.body(b), Bytes(2));
        assert_eq!(size_of::<Hop>(), 32);
    }
}
