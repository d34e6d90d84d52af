//! The network of an incast: a star whose port to the client is what is studied.

use super::CLIENT;
use crate::net::buffer::Capacity;
use crate::net::nic::NicSpec;
use crate::net::port::PortSpec;
use crate::net::topology::{Attachment, StarSpec, TieOrder};
use crate::scenario::network::{aqm, capacity, in_service, link};
use crate::scenario::spec::IncastSpec;
use crate::sim::time::SimTime;

/// The star that the spec describes.
pub(super) fn star(spec: &IncastSpec) -> StarSpec {
    let net = &spec.net;
    let link = link(net.link_rate, net.link_delay, net.framing);
    let in_service = in_service(net.queue_counting);
    // The port to a server carries requests and ACKs only; it is never what is studied.
    let wide = PortSpec {
        in_service,
        ..PortSpec::new(Capacity::Packets(1_000))
    };
    let server = Attachment {
        nic: NicSpec {
            overhead: SimTime::from_duration(net.nic_overhead),
            ..NicSpec::new(capacity(net.server_nic))
        },
        up: link.clone(),
        port: wide,
        down: link.clone(),
    };
    let client = Attachment {
        nic: NicSpec::new(capacity(net.client_nic)),
        up: link.clone(),
        port: PortSpec {
            aqm: aqm(net.aqm, net.link_rate, net.mtu),
            in_service,
            ..PortSpec::new(capacity(net.port_buffer))
        },
        down: link,
    };
    let mut hosts = vec![server; spec.servers as usize + 1];
    hosts[CLIENT.index()] = client;
    StarSpec {
        hosts,
        pools: Vec::new(),
        seed: spec.seed,
        ties: TieOrder::Shuffled,
    }
}
