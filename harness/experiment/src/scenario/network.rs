//! A scenario's words about queues as the simulator's.

use super::spec::{QueueCounting, QueueLimit, SharedBuffer};
use crate::net::buffer::{Capacity, InService, PoolSpec};

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
