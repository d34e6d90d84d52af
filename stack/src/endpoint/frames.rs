//! What a driver asks of the endpoint beyond packets: of its listeners, of all connections at once,
//! and which of them the last packet was for.

use super::{Endpoint, ListenerId};
use crate::buffer::RecvRing;
use crate::conn::state::State;
use crate::conn::{Connection, TcpTypes};
use crate::wire::{IpHeader, TcpHeader};
use narrows_congestion::Instant;

impl<T: TcpTypes> Endpoint<T> {
    /// Admit no more connections (`true`) while the user does not keep up with those accepted, or
    /// go on admitting. A peer's SYN is dropped meanwhile and comes again.
    pub fn pause_listener(&mut self, listener: ListenerId, paused: bool) {
        if let Some(listener) = self.few.listeners.get_mut(&listener.0) {
            listener.set_paused(paused);
        }
    }

    /// Time to live, or hop limit, with which connections to `listener` begin; `None`: there is no
    /// such listener.
    pub fn listener_hop_limit(&self, listener: ListenerId) -> Option<u8> {
        self.few.listeners.get(&listener.0).map(|l| l.hop_limit())
    }

    /// Change it for connections opened from now on; 0 counts as 1.
    pub fn set_listener_hop_limit(&mut self, listener: ListenerId, hop_limit: u8) {
        if let Some(listener) = self.few.listeners.get_mut(&listener.0) {
            listener.set_hop_limit(hop_limit);
        }
    }

    /// Reset every connection, and let go of it.
    pub fn abort_all(&mut self, now: Instant) {
        for slot in 0..self.slots.len() as u32 {
            let s = &mut self.slots[slot as usize];
            s.released = true;
            if let Some(conn) = s.conn.as_mut() {
                conn.abort(now);
                self.touch(slot);
            }
        }
    }

    /// The states of all connections.
    pub fn connection_states(&self) -> impl Iterator<Item = State> {
        self.slots
            .iter()
            .filter_map(|slot| slot.conn.as_ref().map(Connection::state))
    }
}

impl<T: TcpTypes<Recv = RecvRing>> Endpoint<T> {
    /// The connection that the last packet was given to.
    pub(crate) fn last_input(&self) -> Option<u32> {
        self.last_input.get()
    }

    /// Where the next payload of the connection in `slot` goes, with room for `len` bytes, and the
    /// length of the headers before it.
    pub(crate) fn landing(&mut self, slot: u32, len: usize) -> Option<(usize, [&mut [u8]; 2])> {
        let conn = self.slots.get_mut(slot as usize)?.conn.as_mut()?;
        conn.landing(len)
    }

    /// As [`handle_packet`](Self::handle_packet), where the `len` bytes of payload lie where
    /// [`landing`](Self::landing) said; `payload` is as long and has other bytes. `None`: they
    /// should not lie there, and nothing was done.
    pub(crate) fn handle_landed(
        &mut self,
        now: Instant,
        slot: u32,
        ip: &IpHeader,
        tcp: &TcpHeader,
        payload: &[u8],
    ) -> Option<()> {
        let conn = self.slots.get_mut(slot as usize)?.conn.as_mut()?;
        let (local, remote) = (conn.local(), conn.remote());
        let expected = (local.ip(), local.port()) == (ip.dst, tcp.dst_port)
            && (remote.ip(), remote.port()) == (ip.src, tcp.src_port);
        if !expected || !conn.has_landed(tcp, payload.len()) {
            return None;
        }
        self.handle_packet(now, ip, tcp, payload);
        if let Some(conn) = self
            .slots
            .get_mut(slot as usize)
            .and_then(|s| s.conn.as_mut())
        {
            conn.forget_landed();
        }
        Some(())
    }
}
