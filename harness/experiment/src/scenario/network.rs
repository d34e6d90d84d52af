//! A scenario's words about links and queues as the simulator's.

use super::spec::{Aqm, Framing, Impair, QueueCounting, QueueLimit, Share, SharedBuffer};
use crate::net::buffer::{Capacity, InService, PoolSpec};
use crate::net::discipline::DisciplineSpec;
use crate::net::discipline::codel::CodelSpec;
use crate::net::discipline::red::{AboveMax, RedSpec};
use crate::net::discipline::tail::{NotCapable, Threshold};
use crate::net::impair::{ImpairSpec, When};
use crate::net::link::{self, LinkSpec};
use crate::sim::rng::Probability;
use crate::sim::time::SimTime;
use narrows::{ByteCount, Duration, Rate};

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

/// What goes wrong on a link.
pub(crate) fn impairments(spec: Impair) -> ImpairSpec {
    let when = |share: Share| match share.0 {
        0 => When::Never,
        n => When::Chance(Probability::ratio(u64::from(n), u64::from(Share::ALL.0))),
    };
    ImpairSpec {
        loss: when(spec.loss),
        corrupt: when(spec.corrupt),
        duplicate: when(spec.duplicate),
        reorder: when(spec.reorder),
        reorder_min: SimTime::from_duration(spec.hold.0),
        reorder_max: SimTime::from_duration(spec.hold.1),
    }
}

/// The discipline of a port of `rate` for packets of `mtu`.
pub(crate) fn discipline(aqm: Aqm, rate: Rate, mtu: u32) -> DisciplineSpec {
    let threshold = |limit| match limit {
        QueueLimit::Bytes(b) => Threshold::Bytes(b.get()),
        QueueLimit::Packets(p) => Threshold::Packets(p),
    };
    match aqm {
        Aqm::None => DisciplineSpec::DropTail,
        Aqm::EcnStep(k) => DisciplineSpec::EcnStep {
            threshold: threshold(k),
            not_capable: NotCapable::Pass,
        },
        Aqm::Red(red) => DisciplineSpec::Red(RedSpec {
            min: threshold(red.min),
            max: threshold(red.max),
            max_p: Probability::ratio(u64::from(red.max_permille), 1_000),
            weight_log2: red.weight_shift,
            gentle: false,
            idle_step: SimTime::from_duration(rate.time_for(ByteCount::from(mtu))),
            above_max: AboveMax::Drop,
            not_capable: NotCapable::Drop,
        }),
        Aqm::Codel(codel) => DisciplineSpec::Codel(CodelSpec {
            target: SimTime::from_duration(codel.target),
            interval: SimTime::from_duration(codel.interval),
            // With or without framing: one packet.
            max_packet: link::Framing::Ethernet.buffer_len(mtu).into(),
            ce_threshold: codel.ce_threshold.map(SimTime::from_duration),
        }),
    }
}
