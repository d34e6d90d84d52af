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
    /// The NIC has refused it.
    fn refused(&mut self, _at: SimTime, _ends: FourTuple, _packet: &SimPacket) {}
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
                self.flows.left(at, packet.for_sender(), packet);
            }
            TapEvent::NicRefused { host } if host == self.host => {
                self.flows.refused(at, packet.for_sender(), packet);
            }
            TapEvent::Received { host } if host == self.host => {
                self.flows.came(at, packet.for_receiver(), packet);
            }
            _ => {}
        }
    }
}

/// What a reading calls a flow between two hosts: with the port of the opener.
pub(super) fn flow_name(from: &str, to: &str, port: u16) -> String {
    format!("{from}->{to}:{port}")
}

/// The port of the opener, which is ephemeral, above those that listen.
pub(super) fn opener_port(ends: &FourTuple) -> u16 {
    ends.local.port().max(ends.remote.port())
}

#[cfg(test)]
pub(super) mod testing {
    use super::*;
    use crate::host::address_of;
    use narrows::buffer::Synthetic;
    use narrows::wire::{Ecn, Flags, IpHeader, Seq, TcpHeader};

    /// From the first host to the second: `len` bytes from `offset` on.
    pub(in crate::probe) fn segment(flags: Flags, offset: u32, len: u32) -> SimPacket {
        let ip = IpHeader {
            src: address_of(HostId(0)),
            dst: address_of(HostId(1)),
            ecn: Ecn::NotEct,
            dscp: 0,
            hop_limit: 64,
        };
        let tcp = TcpHeader {
            src_port: 40_000,
            dst_port: 80,
            seq: Seq(offset),
            flags,
            ..TcpHeader::default()
        };
        let payload = Synthetic {
            offset: offset.into(),
            len,
        };
        SimPacket::new(&ip, &tcp, payload)
    }
}
