//! Places for connections, which hardly ever move.
//!
//! The first place is in the endpoint itself: most hosts of a simulation have one connection, and
//! then host, slot and connection are one piece of memory, found without following a pointer. Those
//! of the next [`FEW`] are in one list. All others are in chunks, each twice as large as the one before,
//! which are made whole, so that however many connections there are, one more never moves more than
//! those of the list, and many lie side by side, in large pages where there are any.

use super::listen::ListenerId;
use super::paths::News;
use crate::conn::{Connection, TcpTypes};
use crate::prefetch::prefetch_span;
use narrows_congestion::hint::cold_path;
use std::mem::offset_of;

/// A place, and what the endpoint remembers of the connection in it.
#[repr(C)] // The connection last: it begins with what each packet touches.
pub(super) struct Slot<T: TcpTypes> {
    pub(super) generation: u32,
    /// The queue of connections that may have something to send runs through the slots: the next
    /// one, [`LAST`], or [`NOT_QUEUED`].
    pub(super) next_dirty: u32,
    /// The user has let go of it: it is removed when it is closed.
    pub(super) released: bool,
    /// The wheel may know a deadline of it: if not, the wheel's entry, which is elsewhere, is not looked at.
    pub(super) timed: bool,
    /// What the connection has heard of paths.
    pub(super) news: News,
    pub(super) listener: Option<ListenerId>,
    pub(super) conn: Cell<T>,
}

/// A connection or none. The tag comes first, beside what each packet touches: that of an `Option`
/// is where the compiler finds room for it, which is a cache line that few packets need.
#[repr(C)]
#[allow(clippy::large_enum_variant)] // It is what a slot is for.
pub(super) enum Cell<T: TcpTypes> {
    /// The first, before there is any connection.
    Unused,
    Free,
    Taken(Connection<T>),
}

impl<T: TcpTypes> Cell<T> {
    #[inline]
    pub(super) const fn as_ref(&self) -> Option<&Connection<T>> {
        match self {
            Self::Unused | Self::Free => None,
            Self::Taken(conn) => Some(conn),
        }
    }

    #[inline]
    pub(super) const fn as_mut(&mut self) -> Option<&mut Connection<T>> {
        match self {
            Self::Unused | Self::Free => None,
            Self::Taken(conn) => Some(conn),
        }
    }
}

/// In [`Slot::next_dirty`]: no other follows. As a slot: there is none.
pub(super) const LAST: u32 = u32::MAX;
/// In [`Slot::next_dirty`]: not in the queue.
pub(super) const NOT_QUEUED: u32 = u32::MAX - 1;

impl<T: TcpTypes> Slot<T> {
    /// Bytes of which segments touch some that bring nothing for the sender.
    const OF_RECEIVER: usize =
        offset_of!(Self, conn) + align_of::<Connection<T>>() + Connection::<T>::OF_RECEIVER;

    const EMPTY: Self = Self {
        generation: 0,
        next_dirty: NOT_QUEUED,
        released: false,
        timed: false,
        news: News::NONE,
        listener: None,
        conn: Cell::Unused,
    };
}

/// Beginning on a cache line.
#[repr(align(64))]
pub(super) struct Aligned<T: TcpTypes>(Slot<T>);

/// Slots in the list behind the first, at most.
const FEW: usize = 1_024;

/// The slots of an endpoint. There are only more with time.
#[repr(C)] // The first last: see `Endpoint`.
pub(super) struct Slots<T: TcpTypes> {
    few: Vec<Aligned<T>>,
    /// The first for [`FEW`], each for twice as many as the one before; in a box, since most endpoints have none.
    #[allow(clippy::box_collection)]
    chunks: Option<Box<Vec<Vec<Aligned<T>>>>>,
    first: Slot<T>,
}

impl<T: TcpTypes> Slots<T> {
    pub(super) const fn new() -> Self {
        Self {
            few: Vec::new(),
            chunks: None,
            first: Slot::EMPTY,
        }
    }

    pub(super) fn len(&self) -> usize {
        if matches!(self.first.conn, Cell::Unused) {
            return 0;
        }
        let chunks = self.chunks.iter().flat_map(|chunks| chunks.iter());
        1 + self.few.len() + chunks.map(Vec::len).sum::<usize>()
    }

    /// Whether each one is out of the cache when its next packet comes: there are more than a thousand.
    #[inline]
    pub(super) fn are_many(&self) -> bool {
        self.chunks.is_some()
    }

    /// One more place, for a connection that is put there at once: its index.
    pub(super) fn add(&mut self) -> u32 {
        let index = self.len();
        let slot = Aligned(Slot::EMPTY);
        if (1..=FEW).contains(&index) {
            self.few.push(slot);
        } else if index > FEW {
            let (chunk, _) = place_of(index);
            let chunks = self.chunks.get_or_insert_default();
            if chunk == chunks.len() {
                chunks.push(Vec::with_capacity(FEW << chunk));
            }
            chunks[chunk].push(slot);
        }
        index as u32
    }

    /// That of index 0 is there from the beginning, without a connection.
    #[inline]
    pub(super) fn get(&self, index: usize) -> Option<&Slot<T>> {
        if index == 0 {
            return Some(&self.first);
        }
        let slot = self.few.get(index - 1).or_else(|| {
            cold_path();
            self.get_of_many(index)
        })?;
        Some(&slot.0)
    }

    #[inline(never)] // Most endpoints have few.
    fn get_of_many(&self, index: usize) -> Option<&Aligned<T>> {
        let (chunk, place) = place_of(index);
        self.chunks.as_ref()?.get(chunk)?.get(place)
    }

    #[inline]
    pub(super) fn get_mut(&mut self, index: usize) -> Option<&mut Slot<T>> {
        if index == 0 {
            return Some(&mut self.first);
        }
        // Asked before, so that what is found is of one borrow.
        if index > self.few.len() {
            cold_path();
            return self.get_mut_of_many(index);
        }
        Some(&mut self.few.get_mut(index - 1)?.0)
    }

    #[inline(never)]
    fn get_mut_of_many(&mut self, index: usize) -> Option<&mut Slot<T>> {
        let (chunk, place) = place_of(index);
        Some(&mut self.chunks.as_mut()?.get_mut(chunk)?.get_mut(place)?.0)
    }

    /// One that was handed out.
    #[inline]
    pub(super) fn at(&mut self, slot: u32) -> &mut Slot<T> {
        self.get_mut(slot as usize).expect("it was handed out")
    }

    /// Asks for what segments touch of a slot that bring nothing for its sender. Not of the first, which
    /// lies with what each segment touches.
    #[inline]
    pub(super) fn ask_for(&self, index: usize) {
        let few = || self.few.get(index.wrapping_sub(1));
        if let Some(slot) = self.get_of_many(index).or_else(few) {
            // Of what is aligned, so that which lines these are is known here.
            prefetch_span(slot, Slot::<T>::OF_RECEIVER);
        }
    }
}

/// Chunk and place in it of a slot behind those of the list; of any other, none that exists.
#[inline]
const fn place_of(index: usize) -> (usize, usize) {
    // The chunks begin where this is a power of two.
    let at = index.wrapping_sub(1);
    let log2 = (at | FEW).ilog2();
    ((log2 - FEW.ilog2()) as usize, at ^ 1 << log2)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{RecvRing, SendRing};
    use crate::conn::Boxed;
    use crate::endpoint::Endpoint;

    /// What comes before the first slot is two cache lines, and the slot begins the third.
    #[test]
    fn the_first_slot_begins_a_cache_line() {
        type Ring = Boxed<SendRing, RecvRing>;
        let first = offset_of!(Endpoint<Ring>, slots) + offset_of!(Slots<Ring>, first);
        assert_eq!((first, align_of::<Endpoint<Ring>>()), (128, 64));
    }

    /// The chunks are filled one after the other, and nothing moves that is not in the first.
    #[test]
    fn places_follow_each_other_and_stay() {
        let mut slots = Slots::<Boxed<SendRing, RecvRing>>::new();
        assert!(slots.get(0).is_some_and(|s| s.conn.as_ref().is_none()));
        assert!(slots.get(1).is_none() && slots.get(usize::MAX).is_none());
        let mut at = Vec::new();
        for generation in 0..3_500 {
            assert_eq!(slots.add(), generation);
            let slot = slots.at(generation);
            (slot.generation, slot.conn) = (generation, Cell::Free);
            assert_eq!(slots.are_many(), generation >= 1_025, "{generation}");
            at.push(std::ptr::from_ref(slots.at(generation)));
        }
        assert_eq!(slots.len(), 3_500);
        assert!(slots.get(3_500).is_none());
        for (index, &address) in at.iter().enumerate() {
            assert_eq!(slots.at(index as u32).generation as usize, index);
            let moved = !std::ptr::eq(slots.at(index as u32), address);
            assert!(!moved || (1..=FEW).contains(&index), "{index} moved");
        }
        assert!(
            (0..slots.len())
                .filter_map(|index| Some(slots.get(index)?.generation))
                .eq(0..3_500)
        );
        assert_eq!(slots.few.len(), 1_024);
        let lens: Vec<_> = slots
            .chunks
            .iter()
            .flat_map(|c| c.iter().map(Vec::len))
            .collect();
        assert_eq!(lens, [1_024, 1_451]);
        assert_eq!(place_of(1_025), (0, 0));
        assert_eq!(place_of(2_048), (0, 1_023));
        assert_eq!(place_of(2_049), (1, 0));
        assert_eq!(place_of(4_096), (1, 2_047));
        assert_eq!(place_of(4_097), (2, 0));
    }
}
