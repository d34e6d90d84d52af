//! The connection between the same ends that comes after one in TIME-WAIT.

use super::{Connection, TcpTypes};
use crate::wire::{Seq, TcpHeader};
use std::cmp::Ordering;

impl<T: TcpTypes> Connection<T> {
    /// A new SYN may take the place of this connection in TIME-WAIT (RFC 6191 section 2,
    /// RFC 9293 MAY-2).
    pub(crate) fn time_wait_yields_to(&self, syn: &TcpHeader) -> bool {
        // As Linux and FreeBSD have it: at RCV.NXT it may be what the old incarnation sent last.
        let beyond = syn.seq.after(self.rcv_nxt_seq());
        match syn.options.timestamps.filter(|_| self.ts.wanted()) {
            // The new incarnation will have timestamps, the old one had none.
            Some(_) if !self.ts.in_use() => true,
            Some(option) => match self.ts.compare(option) {
                Ordering::Greater => true,
                Ordering::Equal => beyond,
                Ordering::Less => false,
            },
            None => beyond,
        }
    }

    /// An initial sequence number beyond everything this connection used.
    pub(crate) fn next_incarnation_iss(&self) -> Seq {
        self.iss + self.snd.nxt() as u32 + 65_535 + 2
    }
}
