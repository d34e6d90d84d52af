//! Looking ahead: with many hosts the world tells each of what will soon happen to it, so that what
//! it will touch comes from memory while other events are handled. Nothing that happens hangs on it.
//!
//! When a packet becomes the next one of a link to a host, the host hears of it, and two events later,
//! when what it asked for has come, once more. So it is with the timers that are next.

use narrows::prefetch::prefetch;

use super::host::{Coming, Host};
use super::recent::Recent;
use super::slot::Slot;
use super::timers::Timers;
use crate::net::network::Network;
use crate::net::packet::HostId;

/// Whom was told of what.
#[derive(Debug)]
pub(super) struct Ahead {
    /// Packets that hosts were told of after the last event and after the one before, those of the
    /// older first.
    packets: [Vec<(HostId, u32)>; 2],
    /// Hosts whose lines were asked for.
    asked: Recent,
    /// Those told of their timer, and of them those told after the last one fired.
    timers: Recent,
    timers_told: Vec<HostId>,
}

impl Ahead {
    pub(super) const fn new() -> Self {
        Self {
            packets: [Vec::new(), Vec::new()],
            asked: Recent::new(),
            timers: Recent::new(),
            timers_told: Vec::new(),
        }
    }

    /// Tells the hosts of the packets that are next on the links to them, and once more those that
    /// were told two events ago.
    #[inline]
    pub(super) fn tell_of_packets<H: Host>(
        &mut self,
        hosts: &[H],
        slots: &[Slot],
        network: &mut Network<H::Packet>,
    ) {
        let [older, newer] = &mut self.packets;
        for &(host, slot) in older.iter() {
            hosts[host.index()].ask_ahead(Coming::PacketAtHand(network.packet(slot)));
        }
        if !older.is_empty() || !newer.is_empty() {
            older.clear();
            std::mem::swap(older, newer);
        }
        if network.heads.is_empty() {
            return;
        }
        std::mem::swap(newer, &mut network.heads);
        for &(host, slot) in newer.iter() {
            let packet = network.packet(slot);
            prefetch(packet);
            if self.asked.is_news(host.0) {
                hosts[host.index()].ask_ahead(Coming::Packet);
                prefetch(&slots[host.index()]);
                network.expect_nic(host);
            } else {
                hosts[host.index()].ask_ahead(Coming::Another(packet));
            }
        }
    }

    /// Tells the hosts whose timers are next. Many may fire one after the other with no packet
    /// between: so the third one hears of it already, and the second one once more.
    #[inline]
    pub(super) fn tell_of_timers<H: Host>(
        &mut self,
        hosts: &[H],
        slots: &[Slot],
        timers: &Timers,
        network: &Network<H::Packet>,
    ) {
        for host in self.timers_told.drain(..) {
            hosts[host.index()].ask_ahead(Coming::TimeoutAtHand);
        }
        for host in timers.next_three() {
            if self.timers.is_news(host) {
                let host = HostId(host);
                hosts[host.index()].ask_ahead(Coming::Timeout);
                prefetch(&slots[host.index()]);
                network.expect_nic(host);
                self.timers_told.push(host);
            }
        }
    }
}
