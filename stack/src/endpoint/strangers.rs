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

/// A segment that may open a connection.
pub(super) struct Knock<'h, 'p, T: TcpTypes> {
    pub(super) now: Instant,
    pub(super) tuple: FourTuple,
    pub(super) listener: ListenerId,
    pub(super) ecn: Ecn,
    pub(super) tcp: &'h TcpHeader,
    pub(super) payload: Text<'p, T>,
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
            let left = (self.cold.strangers).map(|left| left.saturating_add(limit.per_batch));
            self.cold.strangers = Some(left.unwrap_or(limit.burst).min(limit.burst));
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
        if !tcp.flags.contains(Flags::RST)
            && let Some(left) = &mut self.cold.strangers
        {
            let Some(less) = left.checked_sub(1) else {
                self.cold.stats.change().strangers_dropped += 1;
                return;
            };
            *left = less;
        }
        let len = payload.len();
        if sane_source(&tuple)
            && let Some(id) = self.cold.demux.listener(tuple.local)
            && let Some(listener) = self.cold.listeners.get_mut(&id)
        {
            let admission = listener.admit(tcp, self.cold.config.syn_cookies, now);
            let config = listener.tcp.clone();
            let knock = Knock {
                now,
                tuple,
                listener: id,
                ecn: ip.ecn,
                tcp,
                payload,
            };
            match admission {
                Admission::Open if self.has_memory() => {
                    let opening = self.opening(tuple, now);
                    return self.open_for(knock, config, opening);
                }
                Admission::Cookie if self.cold.strays() < MAX_STRAY && self.has_memory() => {
                    return self.send_cookie(knock, config);
                }
                Admission::Open | Admission::Cookie | Admission::Full => {
                    return self.drop_opening(id);
                }
                Admission::MaybeCookie => {
                    if let Some(syn) = self.cold.cookies.open(&tuple, tcp, &config, now) {
                        // The peer tries again: it comes with its data.
                        if self.has_memory() {
                            self.open_cookie(knock, config, &syn);
                        }
                        return;
                    }
                    self.cold.stats.change().cookies_failed += 1;
                    // What comes later than the answer to a cookie, which was lost or found no
                    // room: that comes again, unless a RST ended it.
                    if len > 0 {
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
        let answer = IpHeader {
            src: ip.dst,
            dst: ip.src,
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: self.cold.config.tcp.hop_limit,
        };
        self.answer(answer, reset_for(tcp, len));
    }

    /// A SYN for `listener` is not answered: it comes again.
    fn drop_opening(&mut self, listener: ListenerId) {
        self.cold.stats.change().backlog_drops += 1;
        if let Some(listener) = self.cold.listeners.get_mut(&listener) {
            listener.stats.dropped += 1;
        }
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
    pub(super) fn on_new_incarnation(&mut self, slot: u32, knock: Knock<'_, '_, T>) {
        let (cookies, has_memory) = (self.cold.config.syn_cookies, self.has_memory());
        let admitted = (self.cold.listeners.get(&knock.listener))
            .filter(|listener| has_memory && listener.admits_again(cookies));
        let Some(config) = admitted.map(|listener| listener.tcp.clone()) else {
            return self.drop_opening(knock.listener);
        };
        self.cold.stats.change().time_wait_reuses += 1;
        let mut opening = self.opening(knock.tuple, knock.now);
        if let Some(conn) = self.slots.at(slot).conn.as_ref() {
            opening.iss = conn.next_incarnation_iss();
        }
        self.remove(slot);
        self.open_for(knock, config, opening);
    }

    /// Open a connection for a SYN that was admitted.
    fn open_for(&mut self, knock: Knock<'_, '_, T>, config: Arc<TcpConfig>, opening: Opening) {
        self.cold.opens.passive += 1;
        let how = self.judge_fast_open(&knock, &config);
        let Knock { now, tcp, .. } = knock;
        let mut conn = Connection::accept(config, opening, tcp, now);
        match how {
            FastOpening::Ordinary(answer) => {
                conn.queue_syn_text(tcp, knock.payload);
                if let Some(answer) = answer {
                    conn.answer_fast_open(answer, now);
                }
            }
            FastOpening::Early(answer) => conn.accept_early(tcp, knock.payload, answer, now),
        }
        let slot = self.add(knock.tuple, conn, Some(knock.listener), now);
        self.after_input(slot, now);
    }

    /// Answer a SYN with a cookie. The answer is that of a connection made for the purpose, so
    /// that it agrees with the one that will be.
    fn send_cookie(&mut self, knock: Knock<'_, '_, T>, config: Arc<TcpConfig>) {
        let Knock { now, tuple, .. } = knock;
        self.cold.stats.change().cookies_sent += 1;
        let syn = cookies::reduce(knock.tcp, &config, default_mss(tuple.remote.ip()));
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

    /// The connection whose SYN-ACK was a cookie, which has come back, begins.
    fn open_cookie(&mut self, knock: Knock<'_, '_, T>, config: Arc<TcpConfig>, syn: &TcpHeader) {
        let Knock { now, tuple, .. } = knock;
        self.cold.opens.passive += 1;
        self.cold.stats.change().cookies_accepted += 1;
        let mut opening = self.opening(tuple, now);
        opening.iss = knock.tcp.ack - 1;
        let mut conn = Connection::accept(config, opening, syn, now);
        // It went out before the connection was made; this only brings it up to date.
        conn.poll_transmit(now);
        conn.forget_when_syn_ack_was_sent();
        let slot = self.add(tuple, conn, Some(knock.listener), now);
        if let Some(conn) = self.connection_in(slot) {
            conn.handle_segment(now, knock.ecn, knock.tcp, knock.payload);
        }
        self.after_input(slot, now);
    }
}

/// The RST that answers a segment for which there is no connection (RFC 9293 section 3.10.7.1).
fn reset_for(tcp: &TcpHeader, payload_len: usize) -> TcpHeader {
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
    reset
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
