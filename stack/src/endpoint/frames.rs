//! What a driver asks of the endpoint beyond packets: of its listeners, of all connections at once,
//! and that payload may stay where it is.

use super::demux::FourTuple;
use super::{Endpoint, ListenerId};
use crate::buffer::{Bytes, RecvRing};
use crate::conn::state::State;
use crate::conn::{Connection, TcpTypes};
use crate::wire::{Headers, IpHeader, TcpHeader};
use narrows_congestion::Instant;
use std::net::SocketAddr;
use std::sync::Arc;

impl<T: TcpTypes> Endpoint<T> {
    /// Admit no more connections (`true`) while the user does not keep up with those accepted, or
    /// go on admitting. A peer's SYN is dropped meanwhile and comes again.
    pub fn pause_listener(&mut self, listener: ListenerId, paused: bool) {
        if let Some(listener) = self.cold.listeners.get_mut(&listener.0) {
            listener.paused = paused;
        }
    }

    /// Time to live, or hop limit, with which connections to `listener` begin; `None`: there is no
    /// such listener.
    pub fn listener_hop_limit(&self, listener: ListenerId) -> Option<u8> {
        let listener = self.cold.listeners.get(&listener.0);
        listener.map(|l| l.tcp.hop_limit)
    }

    /// Change it for connections opened from now on; 0 counts as 1.
    pub fn set_listener_hop_limit(&mut self, listener: ListenerId, hop_limit: u8) {
        if let Some(listener) = self.cold.listeners.get_mut(&listener.0) {
            Arc::make_mut(&mut listener.tcp).hop_limit = hop_limit.max(1);
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
    /// As [`handle_packet`](Self::handle_packet), where `payload` lies in `buffer` and may stay there
    /// until the user has taken it over ([`Connection::recv_chunk`]) or read it; whether it does.
    pub fn handle_shared(
        &mut self,
        now: Instant,
        headers: Headers<'_>,
        payload: &[u8],
        buffer: &Bytes,
    ) -> bool {
        let slot = self.offer_buffer(headers, payload, buffer);
        self.handle_headers(now, headers, payload);
        self.settle_buffer(slot, || buffer.clone())
    }

    /// As [`handle_shared`](Self::handle_shared), where all of the buffer is `payload`, which the
    /// connection takes over or drops.
    pub fn handle_bytes(&mut self, now: Instant, headers: Headers<'_>, payload: Bytes) -> bool {
        let slot = self.offer_buffer(headers, &payload, &payload);
        self.handle_headers(now, headers, &payload);
        self.settle_buffer(slot, || payload)
    }

    /// The next packet's payload lies in `buffer`: its connection, if it has one.
    #[inline]
    fn offer_buffer(&mut self, headers: Headers<'_>, text: &[u8], buffer: &[u8]) -> Option<u32> {
        if text.is_empty() {
            return None;
        }
        let (slot, seq, flags) = match headers {
            Headers::Plain(segment) | Headers::Sack(segment, _) => {
                let slot = self.last_found.look_up_plain(&self.cold.demux, segment);
                (slot, segment.tcp.seq, segment.tcp.flags)
            }
            Headers::Any(ip, tcp) => (self.slot_of(ip, tcp), tcp.seq, tcp.flags),
        };
        let conn = self.connection_in(slot?)?;
        conn.offer_buffer(seq, flags, buffer);
        slot
    }

    /// The slot of the connection to which a packet belongs.
    #[inline(never)] // Nearly all packets are plain.
    fn slot_of(&mut self, ip: &IpHeader, tcp: &TcpHeader) -> Option<u32> {
        let tuple = FourTuple {
            local: SocketAddr::new(ip.dst, tcp.dst_port),
            remote: SocketAddr::new(ip.src, tcp.src_port),
        };
        self.last_found.look_up(&self.cold.demux, &tuple)
    }

    /// The packet whose buffer was offered to the connection in `slot` was taken in.
    #[inline]
    fn settle_buffer(&mut self, slot: Option<u32>, buffer: impl FnOnce() -> Bytes) -> bool {
        slot.and_then(|slot| self.connection_in(slot))
            .is_some_and(|conn| conn.settle_buffer(buffer))
    }
}
