//! The network of an incast: a star whose port to the client is what is studied.

use super::CLIENT;
use crate::host::SimPacket;
use crate::net::buffer::Capacity;
use crate::net::graph::{Attachment, TieOrder, TopologyError};
use crate::net::impair::ImpairSpec;
use crate::net::link::LinkSpec;
use crate::net::network::Network;
use crate::net::nic::NicSpec;
use crate::net::port::{PoolId, PortSpec};
use crate::net::topology::Star;
use crate::scenario::network::{self, capacity, discipline, impairments, in_service, link};
use crate::scenario::spec::{ImpairedWay, IncastSpec, Ties};
use crate::sim::time::SimTime;

/// The network that the spec describes.
pub(super) fn network(spec: &IncastSpec) -> Result<Network<SimPacket>, TopologyError> {
    let net = &spec.net;
    let link = link(net.link_rate, net.link_delay, net.framing);
    let in_service = in_service(net.queue_counting);
    let pool = net.shared_buffer.map(|_| PoolId(0));
    let pools = net.shared_buffer.map(network::pool);
    let impaired = |ways: [ImpairedWay; 2]| LinkSpec {
        impair: if ways.contains(&net.impair.on) {
            impairments(net.impair)
        } else {
            ImpairSpec::default()
        },
        ..link.clone()
    };
    // The port to a server carries requests and ACKs only; it is never what is studied.
    let wide = PortSpec {
        in_service,
        pool,
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
        up: impaired([ImpairedWay::Both, ImpairedWay::Acks]),
        port: PortSpec {
            discipline: discipline(net.aqm, net.link_rate, net.mtu),
            in_service,
            pool,
            ..PortSpec::new(network::port_capacity(net.port_buffer, net.queue_counting))
        },
        down: impaired([ImpairedWay::Both, ImpairedWay::Data]),
    };
    let mut hosts = vec![server; spec.servers as usize + 1];
    hosts[CLIENT.index()] = client;
    Star {
        hosts,
        pools: pools.into_iter().collect(),
    }
    .graph()?
    .build(
        spec.seed,
        match net.ties {
            Ties::Shuffled => TieOrder::Shuffled,
            Ties::WaitedLast => TieOrder::WaitedLast,
        },
    )
}
