//! What is looked at in a run of flows: each flow, and the bottleneck's queue.

use super::{FlowOutcome, FlowSample, PortOutcome, QueueSample, Record};
use narrows::conn::Connection;
use narrows::recovery::SenderStats;
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::knob::{Knob, Knobs};
use narrows_experiment::model::Invalid;
use narrows_experiment::probe::{Instrument, Probe, Reading, Site, View};
use narrows_net::host::SimTypes;
use narrows_net::net::packet::PortId;
use narrows_net::net::stats::{DropReason, QueueArea};
use narrows_net::sim::time::SimTime;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// What was seen, as a run and its caller share it.
#[derive(Clone, Debug, Default)]
pub(super) struct Watched(Arc<Mutex<Seen>>);

/// What was seen of a run.
#[derive(Debug, Default)]
pub(super) struct Seen {
    /// All but transfers and what follows from them.
    pub(super) flows: Vec<FlowOutcome>,
    /// By flow: the sender's timeouts at the beginning of each answer.
    pub(super) timeouts_before: BTreeMap<usize, Vec<u64>>,
    /// All but the utilisation.
    pub(super) bottleneck: PortOutcome,
    /// Packets that all switch ports dropped, from the start.
    pub(super) switch_drops: u64,
}

impl Watched {
    fn with(&self, change: impl FnOnce(&mut Seen)) {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner));
    }

    /// The sender of `flow` begins an answer, after so many timeouts.
    pub(super) fn note_answer(&self, flow: usize, timeouts: u64) {
        self.with(|seen| seen.timeouts_before.entry(flow).or_default().push(timeouts));
    }

    /// What was seen.
    pub(super) fn take(&self) -> Seen {
        let mut taken = Seen::default();
        self.with(|seen| taken = std::mem::take(seen));
        taken
    }
}

/// Looks at all flows.
#[derive(Clone, Debug)]
pub(super) struct FlowsProbe {
    /// By flow: who sends, who receives.
    pub(super) ends: Vec<(u32, u32)>,
    pub(super) record: Record,
    /// Of the run, if nothing ends it before.
    pub(super) duration: Duration,
    pub(super) watched: Watched,
}

impl Knobs for FlowsProbe {
    const TABLE: &'static [Knob<Self>] = &[];
}

impl Probe for FlowsProbe {
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let [port] = on.ports("bottleneck", "s0->h0")?[..] else {
            return Err(Invalid::new("bottleneck", "it has no port"));
        };
        Ok(vec![Box::new(Look {
            port,
            sampled: vec![Vec::new(); self.ends.len()],
            next_sample: self.record.samples.map(|_| SimTime::ZERO),
            begun: None,
            probe: self.clone(),
        })])
    }
}

#[derive(Debug)]
struct Look {
    probe: FlowsProbe,
    port: PortId,
    next_sample: Option<SimTime>,
    /// By flow.
    sampled: Vec<Vec<FlowSample>>,
    /// The counters at the end of the warm-up.
    begun: Option<Snapshot>,
}

/// The counters at one instant.
#[derive(Debug)]
struct Snapshot {
    /// By flow.
    flows: Vec<Counters>,
    area: Option<QueueArea>,
}

/// The counters of a flow.
#[derive(Clone, Copy, Debug, Default)]
struct Counters {
    /// Bytes that the application has.
    delivered: ByteCount,
    /// Bytes that have arrived.
    received: ByteCount,
    sender: SenderStats,
    /// SYNs or SYN-ACKs that went unanswered at the sender, and at the receiver.
    handshakes: (u64, u64),
}

/// An end of a flow.
enum End<'a> {
    Sender(&'a Connection<SimTypes>),
    Receiver(&'a Connection<SimTypes>),
}

/// Calls `look` with each end of each flow that has a connection.
fn each_end<'a>(ends: &[(u32, u32)], view: &View<'a>, mut look: impl FnMut(usize, End<'a>)) {
    for (host, is) in (0..).zip(view.hosts) {
        for opened in is.app.opened() {
            // Each flow is a traffic.
            let flow = usize::from(opened.traffic);
            let Some(conn) = is.tcp().connection(opened.conn) else {
                continue;
            };
            let end = if ends[flow].0 == host {
                End::Sender(conn)
            } else {
                End::Receiver(conn)
            };
            look(flow, end);
        }
    }
}

/// Bytes that the receiver's application has, and that have arrived: also those that wait for
/// others before them.
fn received(conn: &Connection<SimTypes>) -> (ByteCount, ByteCount) {
    let arrived = conn.stats().bytes_in;
    (
        ByteCount::new(arrived - conn.readable()),
        ByteCount::new(arrived + conn.out_of_order()),
    )
}

impl Look {
    fn sample(&mut self, view: &View<'_>) {
        let at = view.now.to_instant();
        let mut of_receivers = vec![None; self.sampled.len()];
        let sampled = &mut self.sampled;
        each_end(&self.probe.ends, view, |flow, end| {
            let conn = match end {
                End::Sender(conn) => conn,
                End::Receiver(conn) => {
                    of_receivers[flow] = Some(received(conn));
                    return;
                }
            };
            let sender = conn.sender();
            let mut variables = Vec::new();
            let congestion = sender.congestion();
            congestion.variables(&mut |name, value| variables.push((name, value)));
            sampled[flow].push(FlowSample {
                at,
                cwnd: congestion.cwnd(),
                ssthresh: congestion.ssthresh(),
                in_flight: sender.scoreboard().pipe(),
                srtt: sender.rtt().srtt(),
                delivered: ByteCount::ZERO,
                received: ByteCount::ZERO,
                variables,
            });
        });
        for (samples, receiver) in self.sampled.iter_mut().zip(of_receivers) {
            if let (Some(sample), Some((delivered, received))) = (samples.last_mut(), receiver)
                && sample.at == at
            {
                sample.delivered = delivered;
                sample.received = received;
            }
        }
    }

    fn snapshot(&self, view: &mut View<'_>) -> Snapshot {
        let mut flows = vec![Counters::default(); self.probe.ends.len()];
        each_end(&self.probe.ends, view, |flow, end| {
            let counters = &mut flows[flow];
            match end {
                End::Sender(conn) => {
                    counters.sender = conn.sender_stats();
                    counters.handshakes.0 = conn.handshake_timeouts().into();
                }
                End::Receiver(conn) => {
                    (counters.delivered, counters.received) = received(conn);
                    counters.handshakes.1 = conn.handshake_timeouts().into();
                }
            }
        });
        Snapshot {
            flows,
            area: view.network.queue_area(view.now, self.port),
        }
    }

    fn bottleneck(&self, view: &mut View<'_>, warm: &Snapshot, end: &Snapshot) -> PortOutcome {
        let trace = view.network.take_queue_trace(view.now, self.port);
        let samples = trace.unwrap_or_default();
        let samples = samples.samples().iter().map(|(at, depth)| QueueSample {
            at_picos: at.as_picos(),
            packets: depth.packets,
        });
        let mut mean_queue_millipackets = 0;
        if let (Some(from), Some(to)) = (&warm.area, &end.area) {
            mean_queue_millipackets = to.mean_millipackets_since(from);
        }
        PortOutcome {
            utilisation_ppm: 0,
            mean_queue_millipackets,
            queue: samples.collect(),
        }
    }
}

impl Instrument for Look {
    fn prepare(&mut self, view: &mut View<'_>) {
        view.network.measure_queue(self.port);
    }

    fn begin(&mut self, view: &mut View<'_>) {
        self.begun = Some(self.snapshot(view));
        if self.probe.record.queue {
            view.network.trace_queue(self.port);
        }
    }

    fn next(&self) -> Option<SimTime> {
        self.next_sample
    }

    fn look(&mut self, view: &mut View<'_>) {
        self.sample(view);
        let every = self.probe.record.samples;
        self.next_sample = every.map(|every| view.now + SimTime::from_duration(every));
    }

    fn finish(&mut self, view: &mut View<'_>) -> Reading {
        // A run that is over before its time has its end sampled, too.
        if self.next_sample.is_some() && view.now.to_duration() < self.probe.duration {
            self.sample(view);
        }
        let end = self.snapshot(view);
        let warm = self.begun.take();
        let warm = warm.unwrap_or_else(|| self.snapshot(view));
        let bottleneck = self.bottleneck(view, &warm, &end);
        let pairs = warm.flows.iter().zip(&end.flows);
        let flows = pairs.zip(std::mem::take(&mut self.sampled));
        let flows = flows.map(|((warm, end), samples)| FlowOutcome {
            delivered: end.delivered,
            received: end.received.saturating_sub(warm.received),
            goodput: Rate::default(),
            transfers: Vec::new(),
            at_warm_up: warm.sender,
            at_end: end.sender,
            handshake_timeouts: (end.handshakes.0 + end.handshakes.1)
                .saturating_sub(warm.handshakes.0 + warm.handshakes.1),
            samples,
        });
        let flows = flows.collect();
        let network = &view.network;
        let switch = (view.hosts.len() as u32..network.ports()).map(PortId);
        let mut switch_drops = 0;
        for stats in switch.map(|p| network.stats(p)) {
            switch_drops += stats.dropped_total() - stats.dropped(DropReason::Lost);
        }
        self.probe.watched.with(|seen| {
            seen.flows = flows;
            seen.bottleneck = bottleneck;
            seen.switch_drops = switch_drops;
        });
        Reading::default()
    }
}
