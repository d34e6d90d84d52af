//! What the kernel remembers of peers (`linux/tcp_metrics.h`; what `ip tcp_metrics` shows and flushes).

use super::Netlink;
use netlink_bindings::tcp_metrics::{IterableTcpMetrics, Request};
use std::io;
use std::net::Ipv4Addr;

impl Netlink {
    /// The slow-start threshold that is remembered of a peer, in segments, in a socket of
    /// [`open_generic`](Self::open_generic); `None` if nothing is, or no threshold.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the kernel remembers nothing of peers.
    pub(crate) fn remembered_threshold(&mut self, peer: Ipv4Addr) -> io::Result<Option<u32>> {
        let found = self.ask(&Request::new().op_get_dump(), |of| threshold(&of, peer))?;
        Ok(found.into_iter().flatten().next())
    }

    /// Lets the namespace forget all peers.
    ///
    /// # Errors
    /// As [`remembered_threshold`](Self::remembered_threshold).
    pub(crate) fn forget_peers(&mut self) -> io::Result<()> {
        // Without an address: of all of them.
        self.tell(&Request::new().op_del_do())
    }
}

fn threshold(remembered: &IterableTcpMetrics<'_>, peer: Ipv4Addr) -> Option<u32> {
    let of = remembered.get_addr_ipv4().ok()?;
    let values = remembered.get_vals().ok()?;
    (of == peer).then_some(values.get_ssthresh().ok()?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_bindings::tcp_metrics::{PushTcpMetrics, TcpMetrics};

    #[test]
    fn a_threshold_is_that_of_the_peer_and_may_be_missing() {
        let of = |host: u8, ssthresh: Option<u32>| {
            let address = |host| Ipv4Addr::new(10, 77, 0, host);
            let mut bytes = Vec::new();
            let out = PushTcpMetrics::new(&mut bytes).push_addr_ipv4(address(host));
            let values = out.nested_vals().push_rtt(40);
            match ssthresh {
                Some(segments) => drop(values.push_ssthresh(segments)),
                None => drop(values),
            }
            threshold(&TcpMetrics::new(&bytes), address(2))
        };
        assert_eq!(of(1, Some(7)), None);
        assert_eq!(of(2, Some(9)), Some(9));
        assert_eq!(of(2, None), None);
        assert_eq!(threshold(&TcpMetrics::new(&[]), Ipv4Addr::LOCALHOST), None);
    }
}
