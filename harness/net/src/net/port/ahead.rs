//! What packets touch of a port is asked for.

use super::Port;
use crate::sim::slab::{NIL, Slab};
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

    /// Asks for the packet behind the first, and for those after it of which something is asked first: in a
    /// long queue they have lain untouched for long. Which one is behind the first.
    #[inline]
    pub(crate) fn expect_behind<P>(&self, slab: &Slab<P>) -> Option<u32> {
        let second = slab.hop(self.head).next;
        if second != NIL {
            prefetch(slab.body(second));
            let third = slab.hop(second).next;
            if third != NIL {
                prefetch(slab.hop(third));
            }
        }
        // Who settles the queue next lets the first one leave and looks at the second.
        if self.cursor != NIL {
            let behind = slab.hop(self.cursor).next;
            if behind != NIL {
                prefetch(slab.hop(behind));
            }
        }
        (second != NIL).then_some(second)
    }
}
