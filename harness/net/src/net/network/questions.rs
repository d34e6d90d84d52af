//! What a network tells of its ports, pools and packets.

use super::{Network, Totals};
use crate::net::buffer::Depth;
use crate::net::nic::WithoutBuffer;
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::port::PoolId;
use crate::net::stats::{PortStats, QueueArea, QueueTrace};
use crate::sim::time::SimTime;

impl<P: Packet> Network<P> {
    /// The port by which the network reaches a host last: its switch port, in a star.
    pub fn port_to(&self, host: HostId) -> Option<PortId> {
        self.homes.get(host.index()).map(|home| PortId(home.port))
    }

    /// A host's NIC.
    pub const fn nic(&self, host: HostId) -> PortId {
        PortId(host.0)
    }

    /// Number of ports, NICs included.
    pub fn ports(&self) -> u32 {
        self.ports.len() as u32
    }

    /// The counters of a port.
    ///
    /// # Panics
    /// If there is no such port; so do the other questions about a port.
    pub fn stats(&self, port: PortId) -> PortStats {
        self.ports[port.0].stats()
    }

    /// What a port holds at `now`, the packet in service included.
    pub fn queued(&mut self, now: SimTime, port: PortId) -> Depth {
        self.bring_up(port.0, now);
        self.ports[port.0].held()
    }

    /// Integrates a port's queue over time, for [`Self::queue_area`]. To be called before the run.
    ///
    /// # Panics
    /// If the port has taken a packet.
    pub fn measure_queue(&mut self, port: PortId) {
        self.ports[port.0].measure();
    }

    /// The integral of a port's queue from the start to `now`; `None` without
    /// [`Self::measure_queue`].
    pub fn queue_area(&mut self, now: SimTime, port: PortId) -> Option<QueueArea> {
        self.bring_up(port.0, now);
        self.ports[port.0].area(now, &self.slab)
    }

    /// Forgets the longest queue that a port has had until `now`: what it counts from here on.
    pub fn restart_peak(&mut self, now: SimTime, port: PortId) {
        self.bring_up(port.0, now);
        let port = &mut self.ports[port.0];
        let depth = port.depth(&self.slab);
        port.max_packets = depth.packets;
        port.stats.max_bytes = depth.bytes;
    }

    /// Starts to record a port's queue.
    pub fn trace_queue(&mut self, port: PortId) {
        self.ports[port.0].trace();
    }

    /// Hands out what was recorded of a port's queue until `now`; recording ends.
    pub fn take_queue_trace(&mut self, now: SimTime, port: PortId) -> Option<QueueTrace> {
        self.bring_up(port.0, now);
        self.ports[port.0].take_trace()
    }

    /// Bytes in use in a pool at `now`, and the most there were: those beyond the reserves of its ports.
    pub fn pool_used(&mut self, now: SimTime, pool: PoolId) -> (u64, u64) {
        self.settle_pool(pool.0, now);
        let pool = &self.pools[pool.0 as usize];
        (pool.used(), pool.max_used())
    }

    /// Sends that a host's NIC refused for want of a buffer
    /// ([`TransmitBuffers`](crate::net::nic::TransmitBuffers)), not for a full queue; `None` if there
    /// are always enough.
    pub fn without_buffer(&self, host: HostId) -> Option<WithoutBuffer> {
        self.ports[host.0].without_buffer()
    }

    /// What became of all packets.
    pub fn totals(&self) -> Totals {
        Totals {
            in_network: self.slab.len() as u64,
            ..self.totals
        }
    }

    /// Packets that links hold back now.
    pub fn held_back(&self) -> u64 {
        self.held
    }
}
