//! Other values for single ports, or for those of a tier or a group.

use std::sync::Arc;

use narrows_congestion::Rate;

use super::{Graph, PortProblem, TopologyError};
use crate::net::buffer::{Capacity, InService};
use crate::net::discipline::DisciplineSpec;
use crate::net::impair::ImpairSpec;
use crate::net::link::Framing;
use crate::net::packet::PortId;
use crate::net::port::PoolId;
use crate::sim::time::SimTime;

/// What is different at some ports; a field that is `None` leaves them as they are.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct Override {
    /// Which ports, as [`Graph::select`] takes them: `leaf1->h3`, `leaf<->spine`, `h0..h7`.
    pub on: String,
    /// The wire's rate.
    pub rate: Option<Rate>,
    /// The wire's propagation delay.
    pub delay: Option<SimTime>,
    /// The wire's framing.
    pub framing: Option<Framing>,
    /// What goes wrong on the wire.
    pub impair: Option<ImpairSpec>,
    /// What the queue holds.
    pub capacity: Option<Capacity>,
    /// Whether the packet on the wire counts.
    pub in_service: Option<InService>,
    /// Greatest send overhead; of NICs only.
    pub overhead: Option<SimTime>,
    /// The queue's discipline; of switch ports only.
    pub discipline: Option<DisciplineSpec>,
    /// The pool of its switch that the queue takes room from as well; of switch ports only.
    pub pool: Option<PoolId>,
}

impl Override {
    /// An override of nothing yet.
    pub fn on(ports: impl Into<String>) -> Self {
        Self {
            on: ports.into(),
            ..Self::default()
        }
    }
}

/// Puts a value in place, if there is one.
fn put<T: Clone>(into: &mut T, value: &Option<T>) {
    if let Some(value) = value {
        into.clone_from(value);
    }
}

impl Graph {
    /// Applies overrides one after the other: of two that name one port the later holds.
    ///
    /// # Errors
    /// If one names no port, or sets what a port does not have. Those before it hold then.
    pub fn apply(&mut self, overrides: &[Override]) -> Result<(), TopologyError> {
        overrides.iter().try_for_each(|each| self.apply_one(each))
    }

    fn apply_one(&mut self, it: &Override) -> Result<(), TopologyError> {
        let ports = self.select(&it.on)?;
        self.apply_to(&ports, it)
    }

    /// Applies an override to these ports, whatever it says that it is on.
    ///
    /// # Errors
    /// If it sets what one of them does not have. All are as they were then.
    pub fn apply_to(&mut self, ports: &[PortId], it: &Override) -> Result<(), TopologyError> {
        // All before any, so that an error leaves the graph as it was.
        for &port in ports {
            if let Some(problem) = it.problem(port.index() < self.hosts.len()) {
                return Err(TopologyError::Port {
                    port: self.port_name(port),
                    problem,
                });
            }
        }
        for &port in ports {
            self.set(port, it);
        }
        Ok(())
    }

    fn set(&mut self, port: PortId, it: &Override) {
        let link = match port.index().checked_sub(self.hosts.len()) {
            None => {
                let host = self.hosts.get_mut(port.index());
                let Some(cable) = host.and_then(|host| host.cable.as_mut()) else {
                    return;
                };
                let egress = Arc::make_mut(&mut cable.egress);
                put(&mut egress.nic.capacity, &it.capacity);
                put(&mut egress.nic.in_service, &it.in_service);
                put(&mut egress.nic.overhead, &it.overhead);
                &mut egress.link
            }
            Some(output) => {
                let Some(output) = self.outputs.get_mut(output) else {
                    return;
                };
                let egress = Arc::make_mut(&mut output.egress);
                put(&mut egress.port.capacity, &it.capacity);
                put(&mut egress.port.in_service, &it.in_service);
                put(&mut egress.port.discipline, &it.discipline);
                if it.pool.is_some() {
                    egress.port.pool = it.pool;
                }
                &mut egress.link
            }
        };
        put(&mut link.rate, &it.rate);
        put(&mut link.delay, &it.delay);
        put(&mut link.framing, &it.framing);
        put(&mut link.impair, &it.impair);
    }
}

impl Override {
    /// What of this a NIC or a switch port does not have.
    fn problem(&self, is_nic: bool) -> Option<PortProblem> {
        if !is_nic {
            let field = "send overhead";
            return (self.overhead.is_some()).then_some(PortProblem::IsSwitchPort { field });
        }
        let field = match (&self.discipline, self.pool) {
            (Some(_), _) => "queue discipline",
            (_, Some(_)) => "buffer pool",
            (None, None) => return None,
        };
        Some(PortProblem::IsNic { field })
    }
}
