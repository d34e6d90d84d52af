//! Looking ahead: what a packet or a timer will touch is asked for before it comes.

use super::Endpoint;
use super::chunks::{Slot, Slots};
use super::demux::FourTuple;
use crate::conn::{Connection, TcpTypes};
use crate::prefetch::prefetch_part;
use std::mem::offset_of;

impl<T: TcpTypes> Endpoint<T> {
    /// Where the first connection's slot is.
    const FIRST: usize = offset_of!(Self, slots) + Slots::<T>::BEFORE_FIRST;

    /// A packet will be given to [`handle_packet`](Self::handle_packet) soon, if nothing comes
    /// between: a hint, which has the cache lines that it will touch come from memory meanwhile, as
    /// far as they can be told without reading what may not be there either.
    /// [`prepare_packet`](Self::prepare_packet) asks for the others.
    #[inline]
    pub fn expect_packet(&self) {
        let [any, ..] = Slot::<T>::TOUCHED;
        prefetch_part(self, 0..Self::FIRST + any.end);
    }

    /// The same of an endpoint that was told so a moment ago already, and so is at hand: it is a
    /// packet of the connection `tuple`, which is asked for if there are several.
    #[inline]
    pub fn expect_packet_of(&self, tuple: impl FnOnce() -> FourTuple) {
        if self.slots.len() > 1 {
            self.cold.demux.expect(&tuple());
        }
    }

    /// The packet of [`expect_packet`](Self::expect_packet), some hundred nanoseconds later: it is
    /// of the connection `tuple`, which is asked for if there are several, and has so much payload.
    #[inline]
    pub fn prepare_packet(&self, tuple: impl FnOnce() -> FourTuple, payload_len: usize) {
        if self.slots.len() == 1 {
            if payload_len == 0 {
                self.prefetch_first_sender();
                if let Some(conn) = self.first() {
                    conn.sender().prefetch_records();
                }
            }
            return;
        }
        let Some(number) = self.cold.demux.lookup(&tuple()) else {
            return;
        };
        self.wheel.expect(number);
        let [any, others @ ..] = &Slot::<T>::TOUCHED;
        if let Some(slot) = self.slots.other(number as usize) {
            slot.prefetch(any);
            if payload_len == 0 {
                others.iter().for_each(|part| slot.prefetch(part));
            }
        }
    }

    /// As [`expect_packet`](Self::expect_packet), of a call of
    /// [`handle_timeout`](Self::handle_timeout).
    #[inline]
    pub fn expect_timeout(&self) {
        self.expect_packet();
        self.prefetch_first_sender();
    }

    /// The timer of [`expect_timeout`](Self::expect_timeout), some hundred nanoseconds later.
    #[inline]
    pub fn prepare_timeout(&self) {
        if let Some(conn) = self.first() {
            conn.sender().prefetch_losses();
        }
    }

    #[inline]
    fn first(&self) -> Option<&Connection<T>> {
        self.slots.first().conn.as_ref()
    }

    /// Asks for what a segment without data touches of the first connection's sender.
    #[inline]
    fn prefetch_first_sender(&self) {
        let [_, others @ ..] = &Slot::<T>::TOUCHED;
        for part in others {
            prefetch_part(self, Self::FIRST + part.start..Self::FIRST + part.end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::{RecvRing, SendRing};
    use crate::conn::Boxed;

    /// What comes before the first slot is two cache lines, and the slot begins the third.
    #[test]
    fn the_first_slot_begins_a_cache_line() {
        type Ring = Endpoint<Boxed<SendRing, RecvRing>>;
        assert_eq!((Ring::FIRST, align_of::<Ring>()), (128, 64));
    }
}
