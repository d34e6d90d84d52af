//! A network that changes while it runs: links whose rate, delay or faults become others, links
//! that go down and come up, queues with another limit or rule, hosts that pause, NICs that reset.
//!
//! A [`Change`] is a value; [`World::apply`](crate::sim::World::apply) makes it happen at the
//! world's present time, between two calls of its `run`. A change comes after everything that
//! happened at that instant and before everything later. What has already been decided stays: a
//! packet that was marked, dropped or sent is not looked at again.
//!
//! # What each does to packets under way
//! - **Rate** ([`Change::Rate`]): the packet on the wire keeps the rate that it began with; those
//!   behind it leave at the new one, without a gap. A packet that waits in an idle NIC for its
//!   random overhead ([`NicSpec::overhead`](super::NicSpec::overhead)) has not begun; those that
//!   were to wait behind others have no overhead then.
//! - **Delay** ([`Change::Delay`]): packets that have left keep theirs, the packet being sent has
//!   the new one. If it is shorter they are overtaken, as when light takes another fibre: on a link
//!   whose delay never changes no packet overtakes another. They come after all others that arrive
//!   at the same instant.
//! - **Faults** ([`Change::Faults`]): hold for packets that reach the far end from now on, those on
//!   the wire too. [`When::Packets`](super::When::Packets) and `EachNth` count from the change on;
//!   the random streams go on where they were.
//! - **Link down** ([`Change::LinkDown`]): one direction of a cable that is pulled. What is on the
//!   wire is lost, the packet being sent too, all counted at its port as
//!   [`DropReason::LinkDown`](super::DropReason::LinkDown). What waits stays, and what arrives
//!   joins it until the queue is full. Where a discipline decides in turn, the next packet is chosen
//!   and then waits in the transmitter. What a link holds back
//!   ([`ImpairSpec::reorder`](super::ImpairSpec::reorder)) had reached its end and arrives.
//! - **Link up** ([`Change::LinkUp`]): what waits is sent.
//! - **Limit** ([`Change::Capacity`]): what is over it stays until it leaves.
//! - **Discipline** ([`Change::Discipline`]): a threshold or RED's values hold for packets that
//!   arrive; RED's average goes on if its unit stays. Any first-in, first-out rule can take the
//!   place of another. Of those that decide in turn CoDel and FQ-CoDel take other values while
//!   packets wait, and nothing else can: packets cannot move between two disciplines.
//! - **Pause** ([`Change::Pause`]): the host's processor does nothing for a time. What its NIC
//!   holds is sent, what arrives waits in its receive ring (packets beyond that are dropped,
//!   [`DropReason::RingFull`](super::DropReason::RingFull)), its timers are late. Then it takes what
//!   waits in order, all at that instant, and after that its timers.
//! - **NIC reset** ([`Change::NicReset`]): what the NIC holds to send is lost, and what reaches the
//!   host for a time ([`DropReason::NicReset`](super::DropReason::NicReset)); meanwhile it sends
//!   nothing, and what the host gives it waits. What has left arrives.
//! - **Receive offload** ([`Change::Offload`]): of frames that polls take from now on; aggregates that
//!   wait for the processor stay what they are. By itself it loses nothing: NICs that are reset by
//!   it lose what a NIC reset of the same instant says.
//!
//! # Routes
//! A switch leaves a dead link of its own out of its equal paths at once, and drops what has no
//! other ([`DropReason::NoRoute`](super::DropReason::NoRoute)). All others know after
//! [`Network::set_convergence`](super::Network::set_convergence) (at once unless set): then all
//! tables are computed anew over the links that work, each direction on its own. A link that comes
//! up is used as soon as the switches know of it. Flows choose among the paths that are left by
//! their hash as ever, so that flows whose own path is well may change it, too. The link to a host
//! is no route: packets for it wait at its port.
//!
//! Left out: resilient hashing, fast reroute to longer paths before the routes are known, flushing
//! of a switch port's queue when its link goes down, auto-negotiation, pools that change, switches
//! that fail (take their links down).

use std::fmt;

use narrows_congestion::Rate;

use super::buffer::Capacity;
use super::discipline::{DisciplineError, DisciplineSpec};
use super::impair::ImpairSpec;
use super::packet::{HostId, PortId};
use crate::sim::time::SimTime;

/// Packets that a host's receive ring holds unless told otherwise: what NICs for datacenters have
/// at most.
pub const RECEIVE_RING: u32 = 4_096;

/// Something about a network that becomes something else. A port stands for one direction of a
/// link, with the queue before it.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Change {
    /// A link's rate.
    Rate {
        /// The port that sends.
        port: PortId,
        /// From 1 b/s to 8 Tb/s.
        rate: Rate,
    },
    /// A link's propagation delay, one way.
    Delay {
        /// The port that sends.
        port: PortId,
        /// From now on.
        delay: SimTime,
    },
    /// What goes wrong on a link; [`ImpairSpec::default`] for nothing.
    Faults {
        /// The port that sends.
        port: PortId,
        /// From now on.
        impair: ImpairSpec,
    },
    /// A link goes down, one way. Nothing if it is.
    LinkDown {
        /// The port that sends.
        port: PortId,
    },
    /// A link comes up, one way. Nothing if it is.
    LinkUp {
        /// The port that sends.
        port: PortId,
    },
    /// The limit of a queue, of a switch port or a NIC.
    Capacity {
        /// The port.
        port: PortId,
        /// From now on.
        capacity: Capacity,
    },
    /// The discipline of a switch port's queue, or its values.
    Discipline {
        /// The port.
        port: PortId,
        /// From now on.
        discipline: DisciplineSpec,
    },
    /// A host pauses. One that pauses already does so until the later end.
    Pause {
        /// The host.
        host: HostId,
        /// For so long; [`SimTime::MAX`] for ever.
        span: SimTime,
        /// Packets that wait for it meanwhile; usually [`RECEIVE_RING`].
        ring: u32,
    },
    /// A host's NIC is reset. One that is being reset is so until the later end.
    NicReset {
        /// The host.
        host: HostId,
        /// For so long; [`SimTime::MAX`] for ever.
        span: SimTime,
    },
    /// A host's receive offload.
    Offload {
        /// The host.
        host: HostId,
        /// Bytes of the largest aggregate with its headers, at most
        /// [`MOST_OFFLOAD`](crate::net::nic::MOST_OFFLOAD); zero for none.
        most: u32,
    },
    /// Routes leave a link between switches out, one way, though it works. Nothing if they do.
    Withdraw {
        /// The port that sends.
        port: PortId,
    },
    /// Routes may use a link again, one way. Nothing if they may.
    Advertise {
        /// The port that sends.
        port: PortId,
    },
    /// All switches know now which links work, whatever the convergence time.
    Routes,
}

impl Change {
    /// The port that it is about, if it is about one.
    pub const fn port(&self) -> Option<PortId> {
        match *self {
            Self::Rate { port, .. }
            | Self::Delay { port, .. }
            | Self::Faults { port, .. }
            | Self::LinkDown { port }
            | Self::LinkUp { port }
            | Self::Capacity { port, .. }
            | Self::Discipline { port, .. }
            | Self::Withdraw { port }
            | Self::Advertise { port } => Some(port),
            Self::Pause { .. } | Self::NicReset { .. } | Self::Offload { .. } | Self::Routes => {
                None
            }
        }
    }

    /// The same at another port; `None` if it is about no port.
    pub(super) fn at(&self, other: PortId) -> Option<Self> {
        let mut change = self.clone();
        match &mut change {
            Self::Rate { port, .. }
            | Self::Delay { port, .. }
            | Self::Faults { port, .. }
            | Self::LinkDown { port }
            | Self::LinkUp { port }
            | Self::Capacity { port, .. }
            | Self::Discipline { port, .. }
            | Self::Withdraw { port }
            | Self::Advertise { port } => *port = other,
            Self::Pause { .. } | Self::NicReset { .. } | Self::Offload { .. } | Self::Routes => {
                return None;
            }
        }
        Some(change)
    }
}

/// Why a change cannot be made. Nothing has changed then.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ChangeError {
    /// There is no such port.
    NoPort {
        /// What was named.
        port: PortId,
        /// Ports that there are.
        ports: u32,
    },
    /// There is no such host.
    NoHost {
        /// What was named.
        host: HostId,
        /// Hosts that there are.
        hosts: u32,
    },
    /// The rate is zero or above 8 Tb/s.
    Rate {
        /// What it was to be.
        rate: Rate,
    },
    /// The least extra delay of reordering is above the greatest.
    Reorder,
    /// The port is a host's NIC, and has no discipline.
    NicHasNone {
        /// The port.
        port: PortId,
    },
    /// The link is one to a host, which is no route.
    NoRoute {
        /// The port.
        port: PortId,
    },
    /// A value of the discipline is out of range.
    Discipline(DisciplineError),
    /// The port's discipline cannot become this one while the network runs.
    OtherDiscipline {
        /// The port.
        port: PortId,
        /// What it was to be.
        to: String,
    },
}

impl fmt::Display for ChangeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoPort { port, ports } => {
                write!(
                    f,
                    "there is no port {}: they are 0 to {}",
                    port.0,
                    ports - 1
                )
            }
            Self::NoHost { host, hosts } => {
                write!(
                    f,
                    "there is no host {}: they are 0 to {}",
                    host.0,
                    hosts - 1
                )
            }
            Self::Rate { rate } => write!(
                f,
                "a link's rate is from 1 b/s to 8 Tb/s, not {} b/s",
                rate.bits_per_sec()
            ),
            Self::Reorder => write!(f, "the least delay of reordering is above the greatest"),
            Self::NicHasNone { port } => write!(
                f,
                "port {} is a host's NIC, which has no queue discipline",
                port.0
            ),
            Self::NoRoute { port } => write!(
                f,
                "port {} is at the link of a host, which is no route: name a link between switches",
                port.0
            ),
            Self::Discipline(error) => error.fmt(f),
            Self::OtherDiscipline { port, to } => write!(
                f,
                "the queue discipline of port {} cannot become {to} while packets wait: \
                 first-in, first-out rules replace each other, codel and fq-codel (with as many \
                 queues) take other values",
                port.0
            ),
        }
    }
}

impl std::error::Error for ChangeError {}

#[cfg(test)]
mod tests;
