//! What packets touch of a port is asked for.

use super::Port;
use crate::sim::slab::Slab;
use crate::sim::time::SimTime;
use narrows::prefetch::{prefetch, prefetch_part, prefetch_span};
use std::mem::offset_of;

impl Port {
    /// Asks for what every packet touches: all but the last counters.
    #[inline]
    pub(crate) fn prefetch(&self) {
        prefetch_span(self, 2 * 64);
    }

    /// The same of a NIC, which may have a send overhead.
    #[inline]
    pub(crate) fn prefetch_nic(&self) {
        self.prefetch();
        prefetch_part(self, offset_of!(Self, overhead)..size_of::<Self>());
    }

    /// Asks for what is looked at first when the queue is settled next: the first packet that has not left at
    /// `now` and, because it may have left by then, the one behind it, which in a long queue has lain untouched
    /// for long.
    #[inline]
    pub(crate) fn expect_departure<P>(&self, now: SimTime, slab: &Slab<P>) {
        let mut at = self.cursor;
        while let Some(hop) = slab.hop_if_any(at) {
            at = hop.next;
            if hop.depart > now {
                break;
            }
        }
        if let Some(behind) = slab.hop_if_any(at) {
            prefetch(behind);
        }
    }
}
