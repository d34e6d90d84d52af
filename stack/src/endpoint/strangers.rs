//! Packets that belong to no connection: a listener opens one, or the sender is told that there is
//! nothing here (RFC 9293 sections 3.10.7.1 and 3.10.7.2).

use super::Endpoint;
use super::cookies;
use super::demux::FourTuple;
use super::fast_open::Opening as FastOpening;
use super::listen::{Admission, ListenerId};
use crate::buffer::Payload;
use crate::config::TcpConfig;
use crate::conn::{Connection, Opening, TcpTypes, Text, default_mss, echo_only};
use crate::wire::{Ecn, Flags, IpHeader, TcpHeader};
use narrows_congestion::Instant;
use std::net::IpAddr;
use std::sync::Arc;

/// How much is done for strangers, as against established connections: only a driver that takes
/// packets in batches ([`Endpoint::begin_batch`]) can tell that it is too much.
///
/// Under a flood the batches are full, and a batch serves [`per_batch`](Self::per_batch) strangers;
/// the others cost no more than looking them up. While there is time to spare batches are many and
/// small, and whoever comes is served; a crowd may come at once, as many as
/// [`burst`](Self::burst).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StrangerLimit {
    /// Packets of strangers served for each batch.
    pub per_batch: u32,
    /// ... and how many that were not can be made up for later.
    pub burst: u32,
}

impl Default for StrangerLimit {
    fn default() -> Self {
        Self {
            per_batch: 8,
            burst: 1_024,
        }
    }
}

/// How many strangers are served yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum StrangerBudget {
    /// Nobody takes packets in batches.
    Unlimited,
    Left(u32),
}

impl StrangerBudget {
    fn refill(&mut self, limit: StrangerLimit) {
        let left = match *self {
            Self::Unlimited => limit.burst,
            Self::Left(left) => left.saturating_add(limit.per_batch).min(limit.burst),
        };
        *self = Self::Left(left);
    }

    fn take(&mut self) -> bool {
        match self {
            Self::Unlimited => true,
            Self::Left(left) => {
                let served = *left > 0;
                *left = left.saturating_sub(1);
                served
            }
        }
    }
}

/// Resets and other answers to strangers waiting to be sent; more are not answered.
const MAX_STRAY: usize = 64;

impl<T: TcpTypes> Endpoint<T> {
    /// The driver begins to hand over a batch of packets: so many of strangers are served with it
    /// as [`EndpointConfig::strangers`](super::EndpointConfig::strangers) says. Without a call all
    /// are.
    pub fn begin_batch(&mut self) {
        self.cold.stats.change().batches += 1;
        if let Some(limit) = self.cold.config.strangers {
            self.cold.strangers.refill(limit);
        }
    }

    /// A packet for no connection (RFC 9293 sections 3.10.7.1 and 3.10.7.2).
    pub(super) fn on_stranger(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        ip: &IpHeader,
        tcp: &TcpHeader,
        payload: Text<'_, T>,
    ) {
        // A RST asks for nothing.
        if !tcp.flags.contains(Flags::RST) && !self.cold.strangers.take() {
            self.cold.stats.change().strangers_dropped += 1;
            return;
        }
        if sane_source(&tuple)
            && let Some(id) = self.cold.demux.listener(tuple.local)
            && let Some(listener) = self.cold.listeners.get_mut(&id)
        {
            match listener.admit(tcp, self.cold.config.syn_cookies, now) {
                // The peer tries again; an answer to a cookie comes with its data.
                Admission::Open(_) if !self.has_memory() => {
                    if let Some(listener) = self.cold.listeners.get_mut(&id) {
                        listener.on_no_memory();
                    }
                    return self.drop_opening();
                }
                Admission::Cookie(_) if !self.has_memory() => return self.drop_opening(),
                Admission::Open(config) => {
                    let opening = self.opening(tuple, now);
                    return self.open_for(now, opening, config, ListenerId(id), tcp, payload);
                }
                Admission::Full => return self.drop_opening(),
                Admission::Cookie(config) => return self.send_cookie(now, tuple, config, tcp),
                Admission::MaybeCookie(config) => {
                    if let Some(syn) = self.cold.cookies.open(&tuple, tcp, &config, now) {
                        if self.has_memory() {
                            let slot = self.open_cookie(now, tuple, config, id, tcp, &syn);
                            if let Some(conn) = self.connection_in(slot) {
                                conn.handle_segment(now, ip.ecn, tcp, payload);
                            }
                            self.after_input(slot);
                        }
                        return;
                    }
                    self.cold.stats.change().cookies_failed += 1;
                    // What comes later than the answer to a cookie, which was lost or found no
                    // room: that comes again, unless a RST ended it.
                    if payload.len() > 0 {
                        return;
                    }
                }
                Admission::Ignore => return,
                Admission::Reset => {}
            }
        }
        self.cold.stats.change().strangers += 1;
        if tcp.flags.contains(Flags::RST)
            || !self.cold.config.reset_strangers
            || !sane_source(&tuple)
            || self.cold.strays() >= MAX_STRAY
        {
            return;
        }
        self.cold.stats.change().resets_sent += 1;
        let (mut answer, reset) = reset_for(ip, tcp, payload.len());
        answer.hop_limit = self.cold.config.tcp.hop_limit;
        self.answer(answer, reset);
    }

    /// A SYN is not answered: it comes again.
    fn drop_opening(&mut self) {
        self.cold.stats.change().backlog_drops += 1;
    }

    /// What answers a stranger leaves next, behind such answers before.
    fn answer(&mut self, ip: IpHeader, tcp: TcpHeader) {
        self.cold.stray.get_or_insert_default().push_back((ip, tcp));
        self.has_strays = true;
    }

    /// A SYN that may take the place of the connection in `slot`, which is in TIME-WAIT
    /// (RFC 9293 MAY-2, RFC 6191): it does if `listener` admits it, with state of its own and an
    /// initial sequence number beyond the old connection's, which a cookie does not have.
    /// Otherwise nothing happens. An answer would be worse than none: the peer would reset what it
    /// does not know, and end TIME-WAIT by that (RFC 1337); its SYN comes again.
    pub(super) fn on_new_incarnation(
        &mut self,
        now: Instant,
        slot: u32,
        tuple: FourTuple,
        listener: ListenerId,
        syn: &TcpHeader,
        payload: Text<'_, T>,
    ) {
        let cookies = self.cold.config.syn_cookies;
        let has_memory = self.has_memory();
        let admitted = (self.cold.listeners.get_mut(&listener.0))
            .filter(|_| has_memory)
            .and_then(|listener| listener.admit_again(cookies));
        let Some(config) = admitted else {
            return self.drop_opening();
        };
        self.cold.stats.change().time_wait_reuses += 1;
        let mut opening = self.opening(tuple, now);
        if let Some(conn) = self.slots[slot as usize].conn.as_ref() {
            opening.iss = conn.next_incarnation_iss();
        }
        self.remove(slot);
        self.open_for(now, opening, config, listener, syn, payload);
    }

    /// Open a connection for a SYN that `listener` admitted.
    fn open_for(
        &mut self,
        now: Instant,
        opening: Opening,
        config: Arc<TcpConfig>,
        listener: ListenerId,
        syn: &TcpHeader,
        payload: Text<'_, T>,
    ) {
        self.cold.opens.passive += 1;
        let tuple = FourTuple::new(opening.local, opening.remote);
        let how = self.judge_fast_open(listener.0, &tuple, syn, payload.len(), &config, now);
        let mut conn = Connection::accept(config, opening, syn, now);
        match how {
            FastOpening::Ordinary(answer) => {
                conn.queue_syn_text(syn, payload);
                if let Some(answer) = answer {
                    conn.answer_fast_open(answer, now);
                }
            }
            FastOpening::Early(answer) => conn.accept_early(syn, payload, answer, now),
        }
        let slot = self.add(tuple, conn, Some(listener), now);
        self.after_input(slot);
    }

    /// Answer a SYN with a cookie. The answer is that of a connection made for the purpose, so
    /// that it agrees with the one that will be.
    fn send_cookie(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        config: Arc<TcpConfig>,
        syn: &TcpHeader,
    ) {
        if self.cold.strays() >= MAX_STRAY {
            return self.drop_opening();
        }
        self.cold.stats.change().cookies_sent += 1;
        let syn = cookies::reduce(syn, &config, default_mss(tuple.remote.ip()));
        let mut opening = self.opening(tuple, now);
        opening.iss = self.cold.cookies.make(&tuple, &syn, now);
        let mut conn = Connection::<T>::accept(config, opening, &syn, now);
        let Some((ip, mut answer, _)) = conn.poll_transmit(now) else {
            return;
        };
        if let Some(ts) = &mut answer.options.timestamps {
            ts.val = cookies::stamp(ts.val, &syn);
        }
        self.answer(ip, answer);
    }

    /// The connection whose SYN-ACK was a cookie: its slot.
    fn open_cookie(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        config: Arc<TcpConfig>,
        listener: u32,
        ack: &TcpHeader,
        syn: &TcpHeader,
    ) -> u32 {
        self.cold.opens.passive += 1;
        self.cold.stats.change().cookies_accepted += 1;
        if let Some(listener) = self.cold.listeners.get_mut(&listener) {
            listener.on_cookie();
        }
        let mut opening = self.opening(tuple, now);
        opening.iss = ack.ack - 1;
        let mut conn = Connection::accept(config, opening, syn, now);
        // It went out before the connection was made; this only brings it up to date.
        conn.poll_transmit(now);
        conn.forget_when_syn_ack_was_sent();
        self.add(tuple, conn, Some(ListenerId(listener)), now)
    }
}

/// The RST that answers a segment for which there is no connection (RFC 9293 section 3.10.7.1).
fn reset_for(ip: &IpHeader, tcp: &TcpHeader, payload_len: usize) -> (IpHeader, TcpHeader) {
    let mut reset = TcpHeader {
        src_port: tcp.dst_port,
        dst_port: tcp.src_port,
        flags: Flags::RST,
        ..TcpHeader::default()
    };
    if tcp.flags.contains(Flags::ACK) {
        reset.seq = tcp.ack;
    } else {
        let fin = u32::from(tcp.flags.contains(Flags::FIN));
        let syn = u32::from(tcp.flags.contains(Flags::SYN));
        reset.flags |= Flags::ACK;
        reset.ack = tcp.seq + payload_len as u32 + syn + fin;
    }
    reset.options.timestamps = tcp.options.timestamps.map(|t| echo_only(t.val));
    let answer = IpHeader {
        src: ip.dst,
        dst: ip.src,
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    (answer, reset)
}

/// What comes from a multicast, broadcast or unspecified address, or goes to one, is dropped
/// (RFC 9293 MUST-57 and MUST-63).
pub(super) fn sane_source(tuple: &FourTuple) -> bool {
    let bad = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.is_multicast() || v4.is_broadcast() || v4.is_unspecified(),
        IpAddr::V6(v6) => v6.is_multicast() || v6.is_unspecified(),
    };
    !bad(tuple.remote.ip()) && !bad(tuple.local.ip()) && tuple.remote.port() != 0
}
