//! Switches that pause: what comes in by each of their ports, and the queues that their ports have.

use super::{Graph, NodeId, PortProblem, SwitchId, TopologyError};
use crate::net::buffer::Capacity;
use crate::net::discipline::DisciplineSpec;
use crate::net::discipline::classify::{CLASSES, DscpMap};
use crate::net::discipline::split::{SplitBy, SplitSpec};
use crate::net::network::{IngressParts, Network, PausingHost};
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::pause::{PauseKind, PauseSpec};
use crate::net::port::PortSpec;

/// The shortest packet: an ACK over IPv4 without options.
const SHORTEST: u32 = 40;

impl Graph {
    /// How the switch with a port pauses, if it does.
    fn pause_at(&self, port: PortId) -> Option<PauseSpec> {
        let output = self
            .outputs
            .get(port.index().checked_sub(self.hosts.len())?)?;
        self.switches.get(output.from.index())?.pause
    }

    /// That each port of a switch that pauses can do so.
    pub(super) fn check_pause(&self) -> Result<(), TopologyError> {
        self.ingresses()?;
        self.pausing_hosts().map(drop)
    }

    /// Tells a network which port of a switch packets come in by, and what pauses there.
    pub(super) fn set_ingress<P: Packet>(
        &self,
        network: &mut Network<P>,
    ) -> Result<(), TopologyError> {
        let mut next = vec![0; self.switches.len()];
        let number = self.ports().map(|port| match self.ends(port) {
            Some((_, NodeId::Switch(to))) => {
                next[to.index()] += 1;
                next[to.index()] - 1
            }
            _ => 0,
        });
        network.set_ingress(number.collect());
        let hosts = self.pausing_hosts()?;
        if hosts.is_empty() && self.switches.iter().all(|switch| switch.pause.is_none()) {
            return Ok(());
        }
        let outputs = self.ports().map(|port| match self.ends(port) {
            Some((NodeId::Switch(from), _)) if self.pause_at(port).is_some() => from.0,
            _ => u32::MAX,
        });
        network.set_pausing(outputs.collect(), self.ingresses()?, hosts);
        Ok(())
    }

    /// What comes in by each port of the switches that pause.
    fn ingresses(&self) -> Result<Vec<IngressParts>, TopologyError> {
        let mut all = Vec::new();
        for from in self.ports() {
            let Some((_, NodeId::Switch(switch))) = self.ends(from) else {
                continue;
            };
            let Some(spec) = self.switches[switch.index()].pause else {
                continue;
            };
            let parts = self.ingress(from, switch, spec);
            all.extend(parts?);
        }
        Ok(all)
    }

    /// The hosts whose NICs pause their switch.
    fn pausing_hosts(&self) -> Result<Vec<PausingHost>, TopologyError> {
        let mut all = Vec::new();
        for (host, number) in self.hosts.iter().zip(0..) {
            let Some(cable) = &host.cable else { continue };
            let receive = cable.egress.nic.receive;
            let Some(spec) = receive.pause.filter(|_| !receive.is_direct()) else {
                continue;
            };
            let from = self.port_of_output(cable.back);
            let Some(down) = self.switch_egress(from).map(|e| &e.link) else {
                continue;
            };
            let problem = |problem| TopologyError::Port {
                port: self.port_name(from),
                problem,
            };
            spec.check_quanta(down, &cable.egress.link)
                .map_err(|e| problem(PortProblem::Pauses(e)))?;
            // As many of the shortest frames as may still come.
            let shortest = down.framing.wire_len(down.framing.buffer_len(SHORTEST));
            let headroom = spec.headroom(down, &cable.egress.link).get();
            let headroom = headroom.div_ceil(u64::from(shortest));
            let (ring, needed) = (u64::from(receive.ring), headroom + 2);
            if ring < needed {
                return Err(problem(PortProblem::Ring { ring, needed }));
            }
            let xoff = (ring - headroom) as u32;
            all.push(PausingHost {
                host: HostId(number),
                from: from.0,
                quanta: spec.quanta,
                xoff,
                xon: xoff / 2,
            });
        }
        Ok(all)
    }

    fn ingress(
        &self,
        from: PortId,
        switch: SwitchId,
        spec: PauseSpec,
    ) -> Result<Option<IngressParts>, TopologyError> {
        let Some(back) = self.back_of(from, switch) else {
            return Ok(None);
        };
        let problem = |problem| TopologyError::Port {
            port: self.port_name(back),
            problem,
        };
        let Some(way_back) = self.switch_egress(back) else {
            return Ok(None);
        };
        let link = match self.ends(from) {
            Some((NodeId::Host(host), _)) => self.host_egress(host).map(|e| &e.link),
            _ => self.switch_egress(from).map(|e| &e.link),
        };
        let Some(link) = link else { return Ok(None) };
        let pauses = |e| problem(PortProblem::Pauses(e));
        spec.check_quanta(link, &way_back.link).map_err(pauses)?;
        let _ = queue_of(&way_back.port, spec).map_err(problem)?;
        let frame = link.framing.buffer_len(spec.max_packet);
        let memory = match way_back.port.capacity {
            Capacity::Bytes(bytes) => bytes,
            Capacity::Packets(n) => narrows_congestion::ByteCount::from(frame) * u64::from(n),
            Capacity::Unlimited => {
                let why = "a port without a limit never fills up: give its queue a limit";
                return Err(problem(PortProblem::Pause { why }));
            }
        };
        let thresholds = spec.thresholds(memory, link, &way_back.link);
        let thresholds = thresholds.map_err(pauses)?;
        Ok(Some(IngressParts {
            from: from.0,
            back: back.0,
            switch: switch.0,
            spec,
            thresholds,
        }))
    }

    /// The port of `switch` on the link that `from` sends to it by.
    fn back_of(&self, from: PortId, switch: SwitchId) -> Option<PortId> {
        let Some(output) = from.index().checked_sub(self.hosts.len()) else {
            let cable = self.hosts.get(HostId(from.0).index())?.cable.as_ref()?;
            return Some(self.port_of_output(cable.back));
        };
        let output = self.outputs.get(output)?;
        let twin = self.trunks.get(&(switch, output.from, output.nth))?;
        Some(self.port_of_output(*twin))
    }
}

/// The queue of a port whose switch pauses: in turn, without a limit of its own.
pub(super) fn queue_of(port: &PortSpec, pause: PauseSpec) -> Result<PortSpec, PortProblem> {
    let why = |why| Err(PortProblem::Pause { why });
    if port.pool.is_some() {
        return why("it counts memory where packets come in, which a shared buffer does not");
    }
    let split = |step| {
        let queues = match pause.kind {
            PauseKind::Link => SplitSpec::new(1),
            PauseKind::Priority { .. } => SplitSpec {
                by: SplitBy::Class(DscpMap::default()),
                ..SplitSpec::new(CLASSES as u32)
            },
        };
        DisciplineSpec::Split(SplitSpec { step, ..queues })
    };
    let discipline = match &port.discipline {
        DisciplineSpec::DropTail => split(None),
        &DisciplineSpec::EcnStep {
            threshold,
            not_capable,
        } => split(Some((threshold, not_capable))),
        DisciplineSpec::Red(_) => {
            return why("red does not go with it: take ecn-step or drop-tail");
        }
        DisciplineSpec::Trimming(_) => {
            return why("trimming is for networks that lose: take drop-tail");
        }
        other => other.clone(),
    };
    Ok(PortSpec {
        capacity: Capacity::Unlimited,
        in_service: port.in_service,
        discipline,
        pool: None,
    })
}
