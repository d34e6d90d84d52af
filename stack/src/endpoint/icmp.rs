//! ICMP errors find the connection that they are about (RFC 9293 MUST-54).

use super::chunks::Slot;
use super::demux::FourTuple;
use super::metrics::PathMetrics;
use super::paths::News;
use super::{Cold, Endpoint};
use crate::conn::TcpTypes;
use crate::conn::icmp::IcmpOutcome;
use crate::wire::IcmpError;
use crate::wire::icmp::IcmpErrorKind;
use narrows_congestion::Instant;

impl<T: TcpTypes> Endpoint<T> {
    /// An ICMP error about a segment of this host arrived:
    /// [`IcmpPacket::tcp_error`](crate::wire::IcmpPacket::tcp_error) gives it. Poll the endpoint
    /// afterwards.
    pub fn handle_icmp(&mut self, now: Instant, error: &IcmpError) -> IcmpOutcome {
        self.cold.stats.change().icmp_errors += 1;
        let tuple = FourTuple::new(error.segment.src, error.segment.dst);
        let Some(slot) = self.cold.demux.lookup(&tuple) else {
            return IcmpOutcome::Ignored;
        };
        let host = tuple.remote.ip();
        if matches!(error.kind, IcmpErrorKind::PacketTooBig { .. })
            && !self.cold.paths.may_believe(host, now)
        {
            self.cold.stats.change().path_mtu_refused += 1;
            return IcmpOutcome::Ignored;
        }
        let Some(conn) = self.connection_in(slot) else {
            return IcmpOutcome::Ignored;
        };
        let outcome = conn.handle_icmp(now, error);
        if let IcmpOutcome::PathMtu(mtu) = outcome {
            // The others to that host believe it when they next have something to do, and so do those to
            // come (RFC 1191 section 6.2, RFC 8201 section 5.2).
            if let Some(peers) = &mut self.cold.peers {
                let learned = PathMetrics {
                    path_mtu: Some(mtu),
                    ..PathMetrics::default()
                };
                peers.update(host, &learned, now);
            }
            self.cold.paths.learn(host, mtu, &mut self.news, now);
        }
        self.after_input(slot, now);
        outcome
    }
}

impl<T: TcpTypes> Cold<T> {
    /// What routers have said since the connection in `slot` last heard of it; `news` is the last
    /// that there is.
    #[cold]
    pub(super) fn tell_news(&self, slot: &mut Slot<T>, news: News, now: Instant) {
        let heard = std::mem::replace(&mut slot.news, news);
        if let Some(conn) = slot.conn.as_mut()
            && let Some(mtu) = self.paths.since(conn.remote().ip(), heard, now)
        {
            conn.share_path_mtu(now, mtu);
        }
    }
}
