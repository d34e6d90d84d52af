//! An incast in the words of an experiment.

use crate::model::link::{Hold, Link};
use crate::model::queue::{Discipline, Queue};
use crate::model::{
    Clock, Experiment, Group, Members, NamedTraffic, Network, Nic, Run, Settings, network,
};
use crate::scenario::spec::{Aqm, Impair, ImpairedWay, IncastSpec, Length, QueueLimit, Share};
use crate::traffic::SynchronisedRead;
use narrows::Duration;

impl IncastSpec {
    /// The experiment that it is: one run of a star whose port to the client is what is studied.
    pub fn experiment(&self) -> Experiment {
        let net = &self.net;
        let (blocks, duration) = match self.length {
            Length::Blocks { blocks, time_limit } => (Some(blocks), time_limit),
            Length::Time(time) => (None, time),
        };
        let read = SynchronisedRead {
            client: "client".to_owned(),
            servers: "*".to_owned(),
            block: self.block,
            blocks,
            request: self.request.size,
            order: self.request.order,
            jitter: self.start_jitter,
            ..SynchronisedRead::default()
        };
        let mut client = Settings::default();
        client.set_quantity("nic.tx_queue", &net.client_nic);
        client.set_quantity("nic.overhead", &Duration::ZERO);
        let d = Experiment::default();
        Experiment {
            network: self.network(d.network),
            host: crate::model::Host {
                nic: Nic {
                    tx_queue: net.server_nic,
                    overhead: net.nic_overhead,
                    ..Nic::default()
                },
                cpu: d.host.cpu,
                tcp: self.tcp.clone(),
            },
            groups: vec![Group {
                name: "client".to_owned(),
                members: Members::Named(vec!["h0".to_owned()]),
                settings: client,
            }],
            traffic: vec![NamedTraffic {
                name: "read".to_owned(),
                kind: "synchronised-read".to_owned(),
                start: Duration::ZERO,
                tcp: Settings::default(),
                spec: Box::new(read),
            }],
            run: Run {
                duration,
                clock: Clock::FirstSend,
                seed: self.seed,
                wire: self.wire,
                ..Run::default()
            },
            ..d
        }
    }

    fn network(&self, d: Network) -> Network {
        let net = &self.net;
        // The ports to servers carry requests and ACKs only; they are never what is studied.
        let wide = Queue {
            limit: QueueLimit::Packets(1_000),
            counting: net.queue_counting,
            ..Queue::default()
        };
        let studied = Queue {
            limit: net.port_buffer,
            ..wide.clone().with_aqm(net.aqm)
        };
        let mut down = Settings::default();
        down.set_section("queue", &studied);
        let mut up = Settings::default();
        let link = Link {
            rate: net.link_rate,
            delay: net.link_delay,
            framing: net.framing,
            ..Link::default()
        };
        let impaired = link.with_impairments(net.impair);
        for (settings, other_way) in [(&mut down, ImpairedWay::Acks), (&mut up, ImpairedWay::Data)]
        {
            if net.impair.on != other_way {
                settings.set_section("link", &impaired);
            }
        }
        Network {
            common: network::Common {
                mtu: net.mtu,
                shared_buffer: net.shared_buffer,
                ties: net.ties,
                ..d.common
            },
            sizes: vec![("hosts".to_owned(), self.servers + 1)],
            link,
            queue: wide,
            ports: vec![("s0->h0".to_owned(), down), ("h0->s0".to_owned(), up)],
            ..d
        }
    }
}

impl Queue {
    /// The same with queue management.
    pub(crate) fn with_aqm(self, aqm: Aqm) -> Self {
        match aqm {
            Aqm::None => Self {
                discipline: Discipline::DropTail,
                ..self
            },
            Aqm::EcnStep(threshold) => Self {
                discipline: Discipline::EcnStep,
                threshold: Some(threshold),
                ..self
            },
            Aqm::Red(red) => Self {
                discipline: Discipline::Red,
                min: Some(red.min),
                max: Some(red.max),
                probability: Some(Share(red.max_permille * (Share::ALL.0 / 1_000))),
                weight: Some(red.weight_shift),
                ..self
            },
            Aqm::Codel(codel) => Self {
                discipline: Discipline::Codel,
                target: Some(codel.target),
                interval: Some(codel.interval),
                ce_threshold: codel.ce_threshold,
                ..self
            },
        }
    }
}

impl Link {
    /// The same with what goes wrong on it.
    pub(crate) fn with_impairments(self, impair: Impair) -> Self {
        Self {
            loss: impair.loss,
            corrupt: impair.corrupt,
            duplicate: impair.duplicate,
            reorder: impair.reorder,
            hold: Hold {
                least: impair.hold.0,
                most: impair.hold.1,
            },
            ..self
        }
    }
}
