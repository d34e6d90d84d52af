//! What a packet will touch at its next hop is asked for, where there are too many hosts for the cache.

use super::Network;
use crate::net::packet::{HostId, Packet};
use crate::net::port::Node;
use narrows::prefetch::prefetch;

impl<P: Packet> Network<P> {
    /// Asks for what the packet behind the one that has just arrived from port `at` will touch.
    #[inline(never)]
    pub(super) fn look_behind(&mut self, at: u32, to: Node) {
        let port = &self.ports[at];
        if let Some(next) = port.head() {
            if let Some(second) = port.expect_behind(&self.slab)
                && matches!(to, Node::Switch(_))
                && let Some(home) = self.homes.get(self.slab.hop(second).dst as usize)
            {
                prefetch(home);
            }
            self.expect(to, next);
        }
    }

    /// The packet in slot `i` is now the next one of a link to `to`: asks for what its arrival
    /// will touch, so that it comes from memory while other events are handled.
    #[inline(never)] // Of networks with many hosts only.
    pub(super) fn expect(&mut self, to: Node, i: u32) {
        match to {
            Node::Host(host) => {
                prefetch(self.slab.body(i));
                if self.known_heads.is_news(host) {
                    self.heads.push(HostId(host));
                    self.attends = true;
                }
            }
            Node::Switch(switch) => {
                let hop = self.slab.hop(i);
                let port = match self.homes.get(hop.dst as usize) {
                    None => None,
                    Some(home) if home.switch == switch => Some(home.port),
                    Some(home) => {
                        let flow = || self.slab.body(i).flow_hash();
                        self.switches[switch as usize].foresee(home.edge, flow)
                    }
                };
                if let Some(port) = port.and_then(|p| self.ports.get(p as usize)) {
                    port.prefetch();
                }
            }
        }
    }

    /// Asks for what a host's NIC will touch when the host sends.
    #[inline]
    pub(crate) fn expect_nic(&self, host: HostId) {
        if let Some(port) = self.ports.get(host.index()) {
            port.prefetch_nic();
        }
    }
}
