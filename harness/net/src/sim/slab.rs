//! Packets in flight: one slot each, chained by index.
//!
//! A packet keeps its slot from the NIC of the sender to the receiver; queues and links hold
//! indices. What every hop needs is kept apart from the packet in 32 bytes, two to a cache
//! line, so that a switch never touches the packet itself unless it marks it or has several paths
//! to choose from. Freed slots are reused last in, first out, so a steady flow stays in cache and
//! allocates nothing.

use super::time::SimTime;
use crate::net::packet::Packet;
use core::mem;

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

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

/// The packets in flight.
#[derive(Debug)]
pub(crate) struct Slab<P> {
    hops: Vec<Hop>,
    /// That of a free slot is what it held last.
    bodies: Vec<P>,
    /// The slot freed last.
    free: u32,
    held: usize,
    limit: usize,
}

impl<P> Slab<P> {
    /// For at most `limit` packets at once.
    pub(crate) fn new(limit: usize) -> Self {
        let limit = limit.min(NIL as usize);
        Self {
            hops: Vec::new(),
            bodies: Vec::new(),
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
        self.free == NIL && self.hops.len() >= self.limit
    }

    /// Packets that it would still take in.
    pub(crate) fn room(&self) -> usize {
        self.limit - self.len().min(self.limit)
    }

    /// Takes a packet in; the caller has seen to it that there is room.
    pub(crate) fn insert(&mut self, hop: Hop, mut body: P) -> u32
    where
        P: Packet,
    {
        self.insert_from(hop, &mut body)
    }

    /// The same out of the place where it is ([`Packet::take`]): of each packet, which a call would copy
    /// once more.
    #[inline(always)]
    pub(crate) fn insert_from(&mut self, hop: Hop, body: &mut P) -> u32
    where
        P: Packet,
    {
        if self.free == NIL {
            self.grow(body);
        }
        let i = self.free;
        // The one before is let go of once it is replaced, so that nothing waits for that.
        drop(mem::replace(&mut self.bodies[i as usize], body.take()));
        self.held += 1;
        let place = &mut self.hops[i as usize];
        self.free = place.next;
        *place = hop;
        i
    }

    /// One more slot, which is the only free one, and what it held before it is used.
    #[cold]
    fn grow(&mut self, body: &P)
    where
        P: Clone,
    {
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
        self.bodies.push(body.clone());
    }

    /// Frees slot `i`.
    #[inline]
    pub(crate) fn free(&mut self, i: u32) {
        debug_assert_ne!(self.free, i, "freed twice");
        self.hops[i as usize].next = self.free;
        self.free = i;
        self.held -= 1;
    }

    #[inline]
    pub(crate) fn hop(&self, i: u32) -> &Hop {
        &self.hops[i as usize]
    }

    #[inline]
    pub(crate) fn hop_mut(&mut self, i: u32) -> &mut Hop {
        &mut self.hops[i as usize]
    }

    #[inline]
    pub(crate) fn body(&self, i: u32) -> &P {
        &self.bodies[i as usize]
    }

    #[inline]
    pub(crate) fn body_mut(&mut self, i: u32) -> &mut P {
        &mut self.bodies[i as usize]
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::net::packet::HostId;

    /// Of so many bytes.
    #[derive(Clone, Debug, PartialEq, Eq)]
    struct Bytes(u32);

    impl Packet for Bytes {
        fn wire_len(&self) -> u32 {
            self.0
        }
        fn destination(&self) -> HostId {
            HostId(0)
        }
        fn flow_hash(&self) -> u32 {
            0
        }
        fn is_ecn_capable(&self) -> bool {
            false
        }
        fn mark_ce(&mut self) {}
        fn corrupt(&mut self, _: u64) {}
    }

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
