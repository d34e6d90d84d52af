//! Looking ahead: what a packet or a timer will touch is asked for before it comes.

use super::Endpoint;
use super::demux::FourTuple;
use super::places::Slots;
use crate::conn::TcpTypes;
use crate::prefetch::prefetch_part;
use std::mem::offset_of;

impl<T: TcpTypes> Endpoint<T> {
    /// A packet will be given to [`handle_packet`](Self::handle_packet) soon, if nothing comes
    /// between: a hint, which has the cache lines that it will touch come from memory meanwhile, as
    /// far as they can be told without reading what may not be there either.
    /// [`prepare_packet`](Self::prepare_packet) asks for the others.
    #[inline]
    pub fn expect_packet(&self) {
        prefetch_part(self, 0..offset_of!(Self, slots) + Slots::<T>::BEFORE_FIRST);
        self.slots.first().prefetch();
    }

    /// The packet of [`expect_packet`](Self::expect_packet), some hundred nanoseconds later: it is
    /// of the connection `tuple` and has so much payload.
    #[inline]
    pub fn prepare_packet(&self, tuple: &FourTuple, payload_len: usize) {
        let slot = if self.slots.len() == 1 {
            self.slots.first()
        } else {
            let Some(number) = self.few.demux.lookup(tuple) else {
                return;
            };
            self.wheel.expect(number);
            let Some(slot) = self.slots.get(number as usize) else {
                return;
            };
            slot.prefetch();
            slot
        };
        if payload_len == 0 {
            slot.prefetch_sender();
            if self.slots.len() == 1 {
                slot.prefetch_records();
            }
        }
    }

    /// As [`expect_packet`](Self::expect_packet), of a call of
    /// [`handle_timeout`](Self::handle_timeout).
    #[inline]
    pub fn expect_timeout(&self) {
        self.expect_packet();
        self.slots.first().prefetch_sender();
    }
}
