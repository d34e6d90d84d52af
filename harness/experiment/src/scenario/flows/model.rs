//! Flows in the words of an experiment.

use super::asked::{AskedTraffic, Together};
use super::spec::{FlowSpec, FlowsSpec, HostSpec, Load, Loss, PortBuffer};
use super::watch::{FlowsProbe, Watched};
use crate::model::link::Link;
use crate::model::queue::Queue;
use crate::model::{
    Experiment, Host, NamedProbe, NamedTraffic, Network, Nic, Run, Settings, network,
};
use crate::net::packet::HostId;
use crate::scenario::spec::{ImpairedWay, QueueLimit, Share};
use crate::traffic::{Bulk, Traffic};
use std::sync::{Arc, Mutex};

impl FlowsSpec {
    /// The experiment that it is, and what its probe will have seen.
    pub(super) fn experiment(&self) -> (Experiment, Watched) {
        let watched = Watched::default();
        let together = Arc::new(Mutex::new(Together::default()));
        let traffic = self.flows.iter().enumerate().map(|(number, flow)| {
            let mut tcp = Settings::default();
            if let Some(own) = &flow.congestion {
                tcp.set("congestion", own);
            }
            NamedTraffic {
                name: format!("flow-{number}"),
                kind: "flow".to_owned(),
                start: flow.start,
                tcp,
                spec: self.traffic(number, flow, &together, &watched),
            }
        });
        let d = Experiment::default();
        let experiment = Experiment {
            network: self.network(d.network),
            host: Host {
                nic: Nic {
                    tx_queue: self.net.nic,
                    overhead: self.net.nic_overhead,
                    ..Nic::default()
                },
                cpu: d.host.cpu,
                tcp: self.tcp.clone(),
            },
            traffic: traffic.collect(),
            probes: vec![NamedProbe {
                name: "flows".to_owned(),
                kind: "flows".to_owned(),
                spec: Box::new(FlowsProbe {
                    ends: self.flows.iter().map(|f| (f.from, f.to)).collect(),
                    bottleneck: HostId(self.bottleneck),
                    record: self.record,
                    duration: self.duration,
                    watched: watched.clone(),
                }),
            }],
            run: Run {
                duration: self.duration,
                warm_up: self.warm_up,
                seed: self.seed,
                wire: self.wire,
                ..Run::default()
            },
            ..d
        };
        (experiment, watched)
    }

    fn traffic(
        &self,
        number: usize,
        flow: &FlowSpec,
        together: &Arc<Mutex<Together>>,
        watched: &Watched,
    ) -> Box<dyn Traffic> {
        let size = match flow.load {
            Load::Unlimited => None,
            Load::Bytes(size) => Some(size),
            Load::Asked(asked) => {
                return Box::new(AskedTraffic {
                    flow: number,
                    from: HostId(flow.from),
                    to: HostId(flow.to),
                    asked,
                    jitter: self.jitter,
                    seed: self.seed,
                    together: Arc::clone(together),
                    watched: watched.clone(),
                });
            }
        };
        Box::new(Bulk {
            from: format!("h{}", flow.from),
            to: format!("h{}", flow.to),
            size,
            ..Bulk::default()
        })
    }

    fn network(&self, d: Network) -> Network {
        let net = &self.net;
        let (limit, shared_buffer) = match net.buffer {
            PortBuffer::Own(limit) => (limit, None),
            // A port's own limit is then that of the pool.
            PortBuffer::Shared(pool) => (QueueLimit::Bytes(pool.size), Some(pool)),
        };
        // Senders are alike as a rule, and a receiver may be different.
        let usual = self.hosts[self.hosts.len() - 1];
        let link = |host: &HostSpec| Link {
            rate: host.rate,
            delay: host.delay,
            framing: net.framing,
            ..Link::default()
        };
        let mut ports = Vec::new();
        for (h, host) in self.hosts.iter().enumerate() {
            let clean = link(host);
            let (mut up, mut down) = (clean, clean);
            if h == self.bottleneck as usize {
                let impaired = clean.with_impairments(net.impair);
                if net.impair.on != ImpairedWay::Data {
                    up = impaired;
                }
                if net.impair.on != ImpairedWay::Acks {
                    down = impaired;
                }
                match net.loss {
                    Loss::None => {}
                    Loss::EachNth(n) => (down.lose_each, down.loss) = (Some(n), Share(0)),
                    Loss::Random(ppb) => down.loss = Share(ppb),
                }
            }
            for (name, is) in [(format!("h{h}->s0"), up), (format!("s0->h{h}"), down)] {
                if is != link(&usual) {
                    let mut settings = Settings::default();
                    settings.set_section("link", &is);
                    ports.push((name, settings));
                }
            }
        }
        Network {
            common: network::Common {
                mtu: net.mtu,
                shared_buffer,
                ..d.common
            },
            sizes: vec![("hosts".to_owned(), self.hosts.len() as u32)],
            link: link(&usual),
            queue: Queue {
                limit,
                counting: net.queue_counting,
                ..Queue::default()
            }
            .with_aqm(net.aqm),
            ports,
            ..d
        }
    }
}
