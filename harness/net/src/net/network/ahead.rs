//! What a packet will touch at its next hop is asked for, where there are too many hosts for the cache.

use super::Network;
use crate::net::packet::{HostId, Packet};
use crate::net::port::Node;
use crate::sim::time::SimTime;
use narrows::prefetch::prefetch_span;

impl<P: Packet> Network<P> {
    /// A packet has arrived from port `at`, of which that in slot `next` is the next one now: asks for what
    /// that will touch, and the one behind it. A host is not asked for, which is handed the first now.
    #[inline(never)] // Of networks with many hosts only.
    pub(super) fn look_behind(&mut self, now: SimTime, at: u32, to: Node, next: u32) {
        self.ports[at].expect_departure(now, &self.slab);
        let second = self.slab.hop(next).next;
        self.slab.ask_for_body(second);
        if let Node::Switch(switch) = to {
            if let Some(hop) = self.slab.hop_if_any(second)
                && let Some(home) = self.homes.get(hop.dst as usize)
            {
                // Its line, or the first of two.
                prefetch_span(home, 1);
            }
            self.expect_port(switch, next);
        }
    }

    /// The packet in slot `i` is now the first one on a link to `to`: asks for what its arrival
    /// will touch, so that it comes from memory while other events are handled.
    #[inline(never)]
    pub(super) fn expect(&mut self, to: Node, i: u32) {
        match to {
            Node::Host(host) => {
                self.slab.ask_for_body(i);
                self.expected = Some(HostId(host));
                self.attends = true;
            }
            Node::Switch(switch) => self.expect_port(switch, i),
        }
    }

    /// Asks for the port by which the packet in slot `i` will leave a switch.
    #[inline]
    fn expect_port(&self, switch: u32, i: u32) {
        let home = self.homes.get(self.slab.hop(i).dst as usize);
        let port = match home {
            Some(home) if home.switch != switch => self.foresee(switch, home.edge, i),
            home => home.map(|home| home.port),
        };
        if let Some(port) = port.and_then(|p| self.ports.get(p as usize)) {
            port.prefetch();
        }
    }

    /// Which one it is where there may be several.
    #[inline(never)]
    fn foresee(&self, switch: u32, edge: u32, i: u32) -> Option<u32> {
        let flow = || self.slab.body(i).flow_hash();
        self.switches[switch as usize].foresee(edge, flow)
    }

    /// Asks for what a host's NIC will touch when the host sends.
    #[inline]
    pub(crate) fn expect_nic(&self, host: HostId) {
        if let Some(port) = self.ports.get(host.index()) {
            port.prefetch_nic();
        }
    }
}
