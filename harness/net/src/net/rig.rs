//! Packets sent at given times through a network without hosts, and where each went.

use std::collections::BTreeMap;

use narrows_congestion::Rate;

use super::buffer::Capacity;
use super::graph::{Attachment, Egress};
use super::link::LinkSpec;
use super::network::Network;
use super::nic::NicSpec;
use super::packet::{HostId, Packet, PortId};
use super::port::PortSpec;
use super::stats::DropReason;
use super::topology::Defaults;
use crate::net::multipath::Multipath;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

/// A packet with a number of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Probe {
    pub(super) number: u64,
    pub(super) to: HostId,
    pub(super) flow: u32,
}

impl Packet for Probe {
    fn wire_len(&self) -> u32 {
        1_000
    }
    fn destination(&self) -> HostId {
        self.to
    }
    fn flow_hash(&self) -> u32 {
        self.flow
    }
    fn is_ecn_capable(&self) -> bool {
        true
    }
    fn mark_ce(&mut self) {}
    fn corrupt(&mut self, _: u64) {}
}

/// What became of the packets, by number.
#[derive(Default)]
pub(super) struct Journey {
    /// The switch ports that each entered, in order.
    pub(super) ports: BTreeMap<u64, Vec<PortId>>,
    /// Who got which packet, in order.
    pub(super) received: Vec<(HostId, Probe)>,
    pub(super) refused: u64,
    pub(super) drops: Vec<(PortId, DropReason)>,
}

impl Tap<Probe> for Journey {
    fn event(&mut self, _: SimTime, event: TapEvent, packet: &Probe) {
        match event {
            TapEvent::PortQueued { port, .. } => {
                self.ports.entry(packet.number).or_default().push(port);
            }
            TapEvent::Received { host } => self.received.push((host, *packet)),
            TapEvent::NicRefused { .. } => self.refused += 1,
            TapEvent::Dropped { port, reason } => self.drops.push((port, reason)),
            TapEvent::NicSent { .. }
            | TapEvent::Reached { .. }
            | TapEvent::Marked { .. }
            | TapEvent::Trimmed { .. } => {}
        }
    }
}

/// Sends the packets, which are in order of time, and lets all arrive.
pub(super) fn send(
    network: &mut Network<Probe>,
    packets: impl IntoIterator<Item = (SimTime, HostId, Probe)>,
) -> Journey {
    let mut journey = Journey::default();
    let until = |network: &mut Network<Probe>, journey: &mut Journey, time| {
        while let Some(event) = network.events.pop_until(time) {
            if let Some((_, slot)) = network.handle(event, journey) {
                network.release(slot);
            }
            let t = network.totals();
            assert_eq!(
                t.sent + t.duplicated,
                t.delivered + t.dropped + t.in_network
            );
        }
    };
    for (time, from, packet) in packets {
        until(network, &mut journey, time);
        // A NIC that refuses has been told, too.
        let _ = network.send(time, from, packet, &mut journey);
    }
    until(network, &mut journey, SimTime::MAX);
    assert_eq!(network.totals().in_network, 0);
    journey
}

pub(super) fn gigabit() -> LinkSpec {
    LinkSpec::new(Rate::from_gbps(1), SimTime::from_micros(5))
}

pub(super) fn attachment() -> Attachment {
    Attachment {
        nic: NicSpec::new(Capacity::Unlimited),
        up: gigabit(),
        port: PortSpec::new(Capacity::Unlimited),
        down: gigabit(),
    }
}

pub(super) fn egress() -> Egress {
    Egress {
        port: PortSpec::new(Capacity::Unlimited),
        link: gigabit(),
    }
}

pub(super) fn defaults() -> Defaults {
    Defaults {
        host: attachment(),
        trunk: egress(),
        pools: Vec::new(),
        multipath: Multipath::default(),
    }
}
