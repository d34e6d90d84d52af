//! What a host's TCP gives to its NIC and gets from it.

use super::instrument::PacketListener;
use crate::host::SimPacket;
use crate::net::packet::HostId;
use crate::sim::tap::TapEvent;
use crate::sim::time::SimTime;
use narrows::endpoint::demux::FourTuple;
use std::fmt::Debug;

/// Who hears of the packets of a host's TCP; `ends` are as this host names them.
pub(super) trait Flows: Debug {
    /// The TCP has given it to the NIC.
    fn left(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket);
    /// The TCP has got it.
    fn came(&mut self, at: SimTime, ends: FourTuple, packet: &SimPacket);
}

/// A listener at a host.
#[derive(Debug)]
pub(super) struct AtHost<F> {
    pub(super) host: HostId,
    pub(super) flows: F,
}

impl<F: Flows> PacketListener for AtHost<F> {
    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        match event {
            TapEvent::NicSent { host, .. } if host == self.host => {
                let ends = packet.for_receiver();
                let ends = FourTuple {
                    local: ends.remote,
                    remote: ends.local,
                };
                self.flows.left(at, ends, packet);
            }
            TapEvent::Received { host } if host == self.host => {
                self.flows.came(at, packet.for_receiver(), packet);
            }
            _ => {}
        }
    }
}

/// What a reading calls a flow between two hosts: with the port of the opener, which is ephemeral, above
/// those that listen.
pub(super) fn flow_name(from: &str, to: &str, ends: &FourTuple) -> String {
    let port = ends.local.port().max(ends.remote.port());
    format!("{from}->{to}:{port}")
}
