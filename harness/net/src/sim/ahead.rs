//! Looking ahead: with many hosts each is out of the cache when its next event comes. When a packet
//! becomes the first one on a link to a host, or a timer the next one, the cache lines of that host
//! are asked for, so that they come from memory while other events are handled. Hosts know nothing
//! of it, and nothing that happens hangs on it.

use narrows::prefetch::prefetch;

use super::slot::Slot;
use super::timers::Timers;
use crate::net::network::Network;
use crate::net::packet::{HostId, Packet};

/// What was asked for last.
#[derive(Debug, Default)]
pub(super) struct Ahead {
    /// The host whose timer is next.
    timer: Option<u32>,
}

impl Ahead {
    /// Asks for the host to which a packet goes that is the first on its link.
    #[inline]
    pub(super) fn of_packets<H, P: Packet>(hosts: &[H], slots: &[Slot], network: &mut Network<P>) {
        if let Some(host) = network.expected.take() {
            ask_for(host, hosts, slots, network);
        }
    }

    /// Asks for the host whose timer is next.
    #[inline]
    pub(super) fn of_timers<H, P: Packet>(
        &mut self,
        hosts: &[H],
        slots: &[Slot],
        timers: &Timers,
        network: &Network<P>,
    ) {
        let next = timers.next_id();
        if next != self.timer
            && let Some(host) = next
        {
            timers.ask_for(host);
            ask_for(HostId(host), hosts, slots, network);
        }
        self.timer = next;
    }
}

#[inline]
fn ask_for<H, P: Packet>(host: HostId, hosts: &[H], slots: &[Slot], network: &Network<P>) {
    prefetch(&hosts[host.index()]);
    prefetch(&slots[host.index()]);
    network.expect_nic(host);
}
