//! A scenario's words about links and queues as the simulator's.

use super::spec::{Framing, QueueCounting, QueueLimit, SharedBuffer};
use crate::net::buffer::{Capacity, InService, PoolSpec};
use crate::net::link::{self, LinkSpec};
use crate::sim::time::SimTime;
use narrows::{Duration, Rate};

/// A clean link.
pub(crate) fn link(rate: Rate, delay: Duration, framing: Framing) -> LinkSpec {
    LinkSpec::new(rate, SimTime::from_duration(delay)).with_framing(match framing {
        Framing::None => link::Framing::None,
        Framing::Ethernet => link::Framing::Ethernet,
    })
}

/// A queue's limit.
pub(crate) fn capacity(limit: QueueLimit) -> Capacity {
    match limit {
        QueueLimit::Bytes(b) => Capacity::Bytes(b),
        QueueLimit::Packets(p) => Capacity::Packets(p),
    }
}

/// The limit of a switch port that counts as `counting` says.
pub(crate) fn port_capacity(limit: QueueLimit, counting: QueueCounting) -> Capacity {
    capacity(match counting {
        QueueCounting::Ns2 => limit.one_less(),
        QueueCounting::Waiting | QueueCounting::WithInService => limit,
    })
}

/// A buffer that ports share.
pub(crate) fn pool(shared: SharedBuffer) -> PoolSpec {
    PoolSpec {
        size: shared.size,
        reserve: narrows::ByteCount::ZERO,
        alpha_num: shared.alpha.0,
        alpha_den: shared.alpha.1,
    }
}

/// Whether the packet in service counts.
pub(crate) fn in_service(counting: QueueCounting) -> InService {
    match counting {
        QueueCounting::Waiting | QueueCounting::Ns2 => InService::NotCounted,
        QueueCounting::WithInService => InService::Counted,
    }
}
