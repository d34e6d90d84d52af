//! ICMP errors find the connection that they are about (RFC 9293 MUST-54).

use super::Endpoint;
use super::demux::FourTuple;
use super::metrics::PathMetrics;
use crate::conn::TcpTypes;
use crate::conn::icmp::IcmpOutcome;
use crate::wire::IcmpError;
use narrows_congestion::Instant;

impl<T: TcpTypes> Endpoint<T> {
    /// An ICMP error about a segment of this host arrived:
    /// [`IcmpPacket::tcp_error`](crate::wire::IcmpPacket::tcp_error) gives it. Poll the endpoint
    /// afterwards.
    pub fn handle_icmp(&mut self, now: Instant, error: &IcmpError) -> IcmpOutcome {
        self.stats.icmp_errors += 1;
        let tuple = FourTuple {
            local: error.segment.src,
            remote: error.segment.dst,
        };
        let Some(slot) = self.demux.lookup(&tuple) else {
            return IcmpOutcome::Ignored;
        };
        let Some(conn) = self
            .slots
            .get_mut(slot as usize)
            .and_then(|s| s.conn.as_deref_mut())
        else {
            return IcmpOutcome::Ignored;
        };
        let outcome = conn.handle_icmp(now, error);
        if let (IcmpOutcome::PathMtu(mtu), Some(metrics)) = (outcome, &mut self.metrics) {
            let learned = PathMetrics {
                path_mtu: Some(mtu),
                ..PathMetrics::default()
            };
            metrics.update(tuple.remote.ip(), &learned, now);
        }
        self.after_input(slot);
        outcome
    }
}
