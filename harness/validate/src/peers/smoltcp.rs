//! smoltcp's TCP and ours as sender and as receiver, through the same simulated switch.

use crate::peer::smoltcp::SmoltcpConfig;
use crate::peer::{Close, Flow, FlowEnd, MixedHost, Open, OurFlows, Read, SmoltcpHost};
use narrows::config::{Buffers, TcpConfig};
use narrows::{Duration, Instant, Rate};
use narrows_experiment::scenario::ScenarioError;
use narrows_net::host::{TcpHost, address_of};
use narrows_net::net::buffer::Capacity;
use narrows_net::net::graph::{Attachment, TieOrder};
use narrows_net::net::impair::{ImpairSpec, When};
use narrows_net::net::link::LinkSpec;
use narrows_net::net::nic::NicSpec;
use narrows_net::net::packet::HostId;
use narrows_net::net::port::PortSpec;
use narrows_net::net::topology::Star;
use narrows_net::sim::time::SimTime;
use narrows_net::sim::world::World;
use std::net::SocketAddr;
use std::sync::Arc;

/// Whose TCP a host runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Tcp {
    /// smoltcp's, as it comes, with buffers of 64 KiB.
    Smoltcp,
    /// Ours, as it comes, with a receive buffer of 64 KiB.
    Ours,
}

impl Tcp {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Smoltcp => "smoltcp",
            Self::Ours => "narrows",
        }
    }
}

/// Senders that all send to one receiver at once, over connections of their own.
#[derive(Clone, Debug)]
pub(super) struct Transfer {
    pub(super) sender: Tcp,
    pub(super) receiver: Tcp,
    pub(super) senders: u32,
    /// Bytes that each sends.
    pub(super) bytes: u64,
    pub(super) rate: Rate,
    /// Of every link, one way; a round trip passes four.
    pub(super) delay: Duration,
    /// Of the port to the receiver.
    pub(super) buffer: Capacity,
    /// Packets that the link to the receiver loses, the SYN being the first.
    pub(super) lost: Vec<u64>,
    /// smoltcp delays its ACKs, by 10 ms as it comes.
    pub(super) delays_acks: bool,
}

const PORT: u16 = 5_001;
const RECEIVER: HostId = HostId(0);
/// Longer than a few timeouts of a second.
const LIMIT: SimTime = SimTime::from_secs(120);

impl Transfer {
    /// Until the last byte has been read: since the start of the first connection.
    ///
    /// # Errors
    /// If it never was, or a wrong byte came.
    pub(super) fn run(&self, seed: u64) -> Result<Duration, ScenarioError> {
        let internal = |what: String| ScenarioError::Internal(what);
        let network = self
            .star()
            .graph()
            .and_then(|graph| graph.build(seed, TieOrder::Shuffled))
            .map_err(|e| internal(e.to_string()))?;
        let mut hosts = vec![self.host(RECEIVER, self.receiver, &self.receiving(), seed)?];
        for h in (1..=self.senders).map(HostId) {
            hosts.push(self.host(h, self.sender, &[self.sending(h)], seed)?);
        }
        let mut world = World::new(network, hosts);
        for h in 0..=self.senders {
            world.start_at(HostId(h), SimTime::ZERO);
        }
        loop {
            world.run_until(world.now() + SimTime::from_millis(100));
            let reports = world.hosts()[0].reports();
            let all = reports.iter().all(|r| r.received == self.bytes);
            if let Some(bad) = reports.iter().find(|r| r.wrong > 0) {
                return Err(internal(format!("a byte at the wrong place: {bad:?}")));
            }
            if all {
                let last = reports.iter().map(|r| r.last_byte).max();
                return Ok(last.unwrap_or(Instant::ZERO).since(Instant::ZERO));
            }
            let failed = reports.iter().any(|r| r.end == FlowEnd::Failed);
            if failed || world.now() > LIMIT {
                return Err(internal(format!("a transfer did not end: {reports:?}")));
            }
        }
    }

    fn star(&self) -> Star {
        let link = LinkSpec::new(self.rate, SimTime::from_duration(self.delay));
        let attachment = Attachment {
            nic: NicSpec::new(Capacity::Packets(1_000)),
            up: link.clone(),
            port: PortSpec::new(Capacity::Packets(1_000)),
            down: link,
        };
        let mut star = Star::uniform(self.senders as usize + 1, &attachment);
        let receiver = &mut star.hosts[RECEIVER.index()];
        receiver.port = PortSpec::new(self.buffer);
        if !self.lost.is_empty() {
            receiver.down.impair = ImpairSpec {
                loss: When::Packets(self.lost.clone()),
                ..ImpairSpec::default()
            };
        }
        star
    }

    fn sending(&self, host: HostId) -> Flow {
        Flow {
            open: Open::Active {
                port: 40_000,
                to: SocketAddr::new(address_of(RECEIVER), PORT + host.0 as u16),
            },
            send: self.bytes,
            close: Close::WhenSent,
            read: Read::AtOnce,
        }
    }

    fn receiving(&self) -> Vec<Flow> {
        let flow = |h| Flow {
            open: Open::Passive {
                port: PORT + h as u16,
            },
            send: 0,
            close: Close::AfterPeer,
            read: Read::AtOnce,
        };
        (1..=self.senders).map(flow).collect()
    }

    fn host(
        &self,
        id: HostId,
        tcp: Tcp,
        flows: &[Flow],
        seed: u64,
    ) -> Result<MixedHost<OurFlows>, ScenarioError> {
        Ok(match tcp {
            Tcp::Smoltcp => {
                let config = SmoltcpConfig::default();
                let ack_delay = config.ack_delay.filter(|_| self.delays_acks);
                let config = SmoltcpConfig {
                    ack_delay,
                    ..config
                };
                MixedHost::Smoltcp(SmoltcpHost::new(id, config, flows, seed))
            }
            Tcp::Ours => {
                let config = TcpConfig {
                    buffers: Buffers {
                        recv: 1 << 16,
                        ..Buffers::default()
                    },
                    ..TcpConfig::default()
                };
                let app = OurFlows::new(id, flows);
                let host = TcpHost::new(id, Arc::new(config), app, seed, true);
                MixedHost::Ours(host.map_err(|e| ScenarioError::Internal(e.to_string()))?)
            }
        })
    }
}
