//! What packets touch of a port is asked for.

use super::Port;
use crate::sim::slab::Slab;
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

    /// Asks for what is looked at first when the queue is settled next: who does lets its first packet leave
    /// and looks at the second, and in a long queue that has lain untouched for long.
    #[inline]
    pub(crate) fn expect_departure<P>(&self, slab: &Slab<P>) {
        if let Some(first) = slab.hop_if_any(self.cursor)
            && let Some(second) = slab.hop_if_any(first.next)
        {
            prefetch(second);
        }
    }
}
