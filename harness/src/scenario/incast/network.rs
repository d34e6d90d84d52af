//! The network of an incast: a star whose port to the client is what is studied.

use super::CLIENT;
use crate::net::aqm::{AboveMax, AqmSpec, NotCapable, RedSpec, Threshold};
use crate::net::buffer::{Capacity, InService};
use crate::net::link::{self, LinkSpec};
use crate::net::nic::NicSpec;
use crate::net::port::PortSpec;
use crate::net::topology::{Attachment, StarSpec, TieOrder};
use crate::scenario::spec::{Aqm, Framing, IncastSpec, QueueCounting, QueueLimit};
use crate::sim::rng::Probability;
use crate::sim::time::SimTime;
use narrows::ByteCount;

/// The star that the spec describes.
pub(super) fn star(spec: &IncastSpec) -> StarSpec {
    let net = &spec.net;
    let mut link = LinkSpec::new(net.link_rate, SimTime::from_duration(net.link_delay));
    link.framing = match net.framing {
        Framing::None => link::Framing::None,
        Framing::Ethernet => link::Framing::Ethernet,
    };
    let in_service = match net.queue_counting {
        QueueCounting::Waiting => InService::NotCounted,
        QueueCounting::WithInService => InService::Counted,
    };
    let capacity = |limit| match limit {
        QueueLimit::Bytes(b) => Capacity::Bytes(b),
        QueueLimit::Packets(p) => Capacity::Packets(p),
    };
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
            aqm: aqm(spec),
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

fn aqm(spec: &IncastSpec) -> AqmSpec {
    let threshold = |limit| match limit {
        QueueLimit::Bytes(b) => Threshold::Bytes(b.get()),
        QueueLimit::Packets(p) => Threshold::Packets(p),
    };
    match spec.net.aqm {
        Aqm::None => AqmSpec::None,
        Aqm::EcnStep(k) => AqmSpec::Step {
            threshold: threshold(k),
            not_capable: NotCapable::Pass,
        },
        Aqm::Red(red) => AqmSpec::Red(RedSpec {
            min: threshold(red.min),
            max: threshold(red.max),
            max_p: Probability::ratio(u64::from(red.max_permille), 1_000),
            weight_log2: red.weight_shift,
            gentle: false,
            idle_step: SimTime::from_duration(
                spec.net.link_rate.time_for(ByteCount::from(spec.net.mtu)),
            ),
            above_max: AboveMax::Drop,
            not_capable: NotCapable::Drop,
        }),
    }
}
