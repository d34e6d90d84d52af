//! Payload that a device puts into the receive buffer itself.

use super::state::State;
use super::{Connection, TcpTypes};
use crate::buffer::RecvRing;
use crate::wire::{Flags, TcpHeader};

/// A TCP header, and the timestamps option as everyone writes it (RFC 7323 appendix A).
const HEADER: usize = 20;
const TIMESTAMPS: usize = 12;

impl<T: TcpTypes<Recv = RecvRing>> Connection<T> {
    /// Where the text of the next segment goes if it is the one in order, with room for `len`
    /// bytes, and the bytes of IP and TCP headers before it. `None` while it takes more than
    /// writing it there.
    pub(crate) fn landing(&mut self, len: usize) -> Option<(usize, [&mut [u8]; 2])> {
        let simple = matches!(
            self.state,
            State::Established | State::FinWait1 | State::FinWait2
        ) && self.ooo.is_empty()
            && self.peer_fin.is_none()
            && !self.orphan;
        if !simple || self.readable() as usize + len > self.config.recv_buffer {
            return None;
        }
        let options = match self.ts.in_use() {
            true => TIMESTAMPS,
            false => 0,
        };
        let ip = match self.ends.local.is_ipv4() {
            true => 20,
            false => 40,
        };
        let room = self.recv_buf.landing(self.rcv_nxt, len)?;
        Some((ip + HEADER + options, room))
    }

    /// Whether `len` bytes of text with the header `tcp` belong where [`landing`](Self::landing)
    /// said. If so they are taken to lie there until [`forget_landed`](Self::forget_landed).
    pub(crate) fn has_landed(&mut self, tcp: &TcpHeader, len: usize) -> bool {
        let plain = tcp.flags.without(Flags::PSH | Flags::ECE | Flags::CWR) == Flags::ACK;
        let expected = plain && self.ooo.is_empty() && tcp.seq == self.rcv_nxt_seq();
        if expected {
            self.recv_buf.set_landed(self.rcv_nxt, len);
        }
        expected
    }

    /// What has landed has been taken, or never will be.
    pub(crate) fn forget_landed(&mut self) {
        self.recv_buf.forget_landed();
    }
}
