//! ICMP errors find the connection that they are about (RFC 9293 MUST-54).

use super::Endpoint;
use super::demux::FourTuple;
use super::metrics::PathMetrics;
use crate::conn::TcpTypes;
use crate::conn::icmp::IcmpOutcome;
use crate::wire::IcmpError;
use narrows_congestion::Instant;
use std::net::IpAddr;

impl<T: TcpTypes> Endpoint<T> {
    /// An ICMP error about a segment of this host arrived:
    /// [`IcmpPacket::tcp_error`](crate::wire::IcmpPacket::tcp_error) gives it. Poll the endpoint
    /// afterwards.
    pub fn handle_icmp(&mut self, now: Instant, error: &IcmpError) -> IcmpOutcome {
        self.few.stats.icmp_errors += 1;
        let tuple = FourTuple {
            local: error.segment.src,
            remote: error.segment.dst,
        };
        let Some(slot) = self.few.demux.lookup(&tuple) else {
            return IcmpOutcome::Ignored;
        };
        let Some(conn) = self
            .slots
            .get_mut(slot as usize)
            .and_then(|s| s.conn.as_mut())
        else {
            return IcmpOutcome::Ignored;
        };
        let outcome = conn.handle_icmp(now, error);
        if let IcmpOutcome::PathMtu(mtu) = outcome {
            self.share_path_mtu(now, slot, tuple.remote.ip(), mtu);
        }
        self.after_input(slot);
        outcome
    }

    /// The connection in slot `from` believes that packets to `host` must not be larger than `mtu`:
    /// so do the others, and those to come (RFC 1191 section 6.2, RFC 8201 section 5.2). A host
    /// looks through its connections once for each step down, of which there are few.
    fn share_path_mtu(&mut self, now: Instant, from: u32, host: IpAddr, mtu: u32) {
        if let Some(metrics) = &mut self.few.metrics {
            let learned = PathMetrics {
                path_mtu: Some(mtu),
                ..PathMetrics::default()
            };
            metrics.update(host, &learned, now);
        }
        for slot in 0..self.slots.len() as u32 {
            if let Some(conn) = self.slots[slot as usize].conn.as_mut()
                && slot != from
                && conn.remote().ip() == host
            {
                conn.share_path_mtu(now, mtu);
                self.touch(slot);
            }
        }
    }
}
