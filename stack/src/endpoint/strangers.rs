//! Packets that belong to no connection: a listener opens one, or the sender is told that there is
//! nothing here (RFC 9293 sections 3.10.7.1 and 3.10.7.2).

use super::Endpoint;
use super::demux::FourTuple;
use super::listen::{Admission, ListenerId};
use crate::buffer::{Payload, RecvBuffer};
use crate::conn::{Connection, TcpTypes};
use crate::wire::{Ecn, Flags, IpHeader, Seq, TcpHeader};
use narrows_congestion::Instant;
use std::net::IpAddr;

/// Resets and other answers to strangers waiting to be sent; more are not answered.
const MAX_STRAY: usize = 64;

impl<T: TcpTypes> Endpoint<T> {
    /// A packet for no connection (RFC 9293 sections 3.10.7.1 and 3.10.7.2).
    pub(super) fn on_stranger(
        &mut self,
        now: Instant,
        tuple: FourTuple,
        ip: &IpHeader,
        tcp: &TcpHeader,
        payload: &<T::Recv as RecvBuffer>::Payload<'_>,
        iss: Option<Seq>,
    ) {
        let listener = self
            .demux
            .listener(tuple.local)
            .filter(|_| sane_source(&tuple));
        if let Some(id) = listener
            && let Some(Some(listener)) = self.listeners.get_mut(id as usize)
        {
            match listener.admit(tcp) {
                Admission::Open(config) => {
                    self.stats.passive_opens += 1;
                    let mut opening = self.opening(tuple, now);
                    opening.iss = iss.unwrap_or(opening.iss);
                    let conn = Connection::accept(config, opening, tcp, now);
                    self.add(tuple, conn, Some(ListenerId(id)));
                    return;
                }
                Admission::Full => {
                    self.stats.backlog_drops += 1;
                    return;
                }
                Admission::Ignore => return,
                Admission::Reset => {}
            }
        }
        self.stats.strangers += 1;
        if tcp.flags.contains(Flags::RST)
            || !self.config.reset_strangers
            || !sane_source(&tuple)
            || self.stray.len() >= MAX_STRAY
        {
            return;
        }
        self.stats.resets_sent += 1;
        self.stray.push_back(reset_for(ip, tcp, payload.len()));
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
