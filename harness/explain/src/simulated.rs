//! Simulated runs, explained from what a capture would show, with the truth beside it.

mod ends;
mod grid;
mod ledger;
mod page;
mod rebuilt;

pub use ends::{Ends, Skew, observe_ends};
pub use grid::{Case, grid, held_out, spent};
pub use ledger::{LedgerProbe, kind as ledger_probe};
pub use page::page;
pub use rebuilt::{Losses, rebuilt};

use crate::analyzer::{Analyzer, Config, Finding};
use crate::gap::{Cause, Gap, Vantage};
use crate::half::Sighting;
use crate::ledger::Sum;
use crate::score::{Found, Score, Told};
use crate::segment::Segment;
use crate::truth::{Question, Threshold, TrueGap, ends_of};
use ledger::{Questions, SharedTruth};
use narrows::congestion::order::OrderedMap;
use narrows::{Duration, Instant};
use narrows_experiment::file::Loaded;
use narrows_experiment::host::SimPacket;
use narrows_experiment::model::Experiment;
use narrows_experiment::net::stats::DropReason;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunError;
use narrows_experiment::scenario::{RunContext, parallel};
use narrows_experiment::sim::tap::{Tap, TapEvent};
use narrows_experiment::sim::time::SimTime;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// What experiments can name: what narrows brings along, and the probe of the ledger.
pub fn registry() -> Registry {
    let mut registry = Registry::default();
    registry.probes.register(ledger_probe());
    registry
}

/// A run: what was true and what was found.
#[derive(Clone, Debug)]
pub struct Observed {
    /// The gaps as they were.
    pub truth: Vec<TrueGap>,
    /// Questions that were in queues.
    pub questions: Vec<Question>,
    /// The gaps found in captures at the sender, in the middle and at the receiver.
    pub found: Vec<Found>,
}

impl Observed {
    /// By cause what there was in truth, and what captures at each place tell of it.
    pub fn ledgers(&self) -> Vec<(&'static str, OrderedMap<Cause, Sum>)> {
        let mut truth: OrderedMap<Cause, Sum> = OrderedMap::new();
        for gap in &self.truth {
            truth.get_or_default(gap.cause).add(gap.length());
        }
        let mut all = vec![("truth", truth)];
        for place in PLACES {
            let mut ledger: OrderedMap<Cause, Sum> = OrderedMap::new();
            for found in self.found.iter().filter(|found| found.place == place) {
                let sum = ledger.get_or_default(found.gap.cause);
                sum.add(found.gap.length());
            }
            all.push((place.name(), ledger));
        }
        all
    }
}

/// Where captures are taken.
pub const PLACES: [Vantage; 3] = [Vantage::Sender, Vantage::Middle, Vantage::Receiver];

/// A capture: the packets of one place.
#[derive(Debug)]
struct Place {
    analyzer: Analyzer,
    packets: u64,
}

impl Place {
    fn new() -> Self {
        Self {
            analyzer: Analyzer::new(Config::default()),
            packets: 0,
        }
    }

    fn see(&mut self, at: Instant, interface: u32, packet: &SimPacket) {
        self.packets += 1;
        let segment = segment_of(packet);
        let packet = self.packets;
        self.analyzer
            .handle_segment(Sighting { at, packet }, interface, &segment);
    }

    /// The gaps, with the ends of their connections.
    #[inline] // Called once, or by nobody here: compiled where it is.
    fn gaps(mut self) -> Vec<(Gap, [SocketAddr; 2])> {
        self.analyzer.finish();
        let mut gaps = Vec::new();
        // In the order in which they were over, which is no order of their numbers.
        let mut ends = Vec::new();
        while let Some(finding) = self.analyzer.poll_finding() {
            match finding {
                Finding::Gap(gap) => gaps.push(gap),
                Finding::Connection(c) => ends.push((c.id, c.ends)),
            }
        }
        let ends: OrderedMap<u64, [SocketAddr; 2]> = ends.into_iter().collect();
        let with_ends = gaps
            .into_iter()
            .filter_map(|gap| Some((gap, *ends.get(&gap.connection)?)));
        with_ends.collect()
    }
}

/// A simulated packet as a capture shows it.
fn segment_of(packet: &SimPacket) -> Segment {
    let (ip, tcp, payload) = packet.parts();
    Segment {
        src: SocketAddr::new(ip.src, tcp.src_port),
        dst: SocketAddr::new(ip.dst, tcp.dst_port),
        ecn: ip.ecn,
        identification: 0,
        hop_limit: ip.hop_limit,
        seq: tcp.seq,
        ack: tcp.ack,
        flags: tcp.flags,
        window: tcp.window,
        options: tcp.options,
        len: payload.len,
    }
}

/// Captures at every host and at the switches' ports. A switch's is taken where a packet reaches a
/// queue, before it is dropped there; a host's where its card hands packets over.
#[derive(Debug)]
struct Places {
    hosts: Vec<Place>,
    middle: Place,
}

impl Places {
    fn host(&mut self, host: usize) -> &mut Place {
        while self.hosts.len() <= host {
            self.hosts.push(Place::new());
        }
        &mut self.hosts[host]
    }
}

impl Tap<SimPacket> for Places {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let at = at.to_instant();
        match event {
            TapEvent::NicSent { host, .. } => self.host(host.index()).see(at, 0, packet),
            TapEvent::Received { host } if packet.is_intact() => {
                self.host(host.index()).see(at, 0, packet);
            }
            TapEvent::PortQueued { port, .. } => self.middle.see(at, port.0, packet),
            TapEvent::Dropped {
                port,
                reason:
                    DropReason::Full
                    | DropReason::OverThreshold
                    | DropReason::PoolExhausted
                    | DropReason::Early
                    | DropReason::PacketLimit,
            } => self.middle.see(at, port.0, packet),
            _ => {}
        }
    }
}

/// Runs `experiment` and explains it from captures alone, until `cancel` is set.
///
/// # Errors
/// Those of [`Experiment::run`].
#[inline] // Called once, or by nobody here: compiled where it is.
pub fn observe(
    experiment: &Experiment,
    registry: &Registry,
    threshold: Threshold,
    cancel: Option<&AtomicBool>,
) -> Result<Observed, RunError> {
    let told = SharedTruth::new(threshold, Questions::Kept);
    let mut experiment = experiment.clone();
    experiment.probes.push(told.probe());
    let places = Places {
        hosts: Vec::new(),
        middle: Place::new(),
    };
    let context = RunContext {
        cancel,
        ..RunContext::default()
    };
    let (_, places) = experiment.watch(registry, context, places)?;
    let told = told.take();
    let (truth, questions) = (told.gaps().to_vec(), told.questions().to_vec());
    let mut found = Vec::new();
    let addresses: Vec<_> = (0..places.hosts.len())
        .map(|n| {
            let host = narrows_experiment::net::packet::HostId(n as u32);
            experiment.network.common.ip.address_of(host)
        })
        .collect();
    for (host, place) in places.hosts.into_iter().enumerate() {
        for (gap, [client, server]) in place.gaps() {
            let ends = ends_of(&gap, client, server);
            let own = ends[0].ip() == addresses[host];
            let place = if own {
                Vantage::Sender
            } else {
                Vantage::Receiver
            };
            found.push(Found { ends, place, gap });
        }
    }
    for (gap, [client, server]) in places.middle.gaps() {
        let ends = ends_of(&gap, client, server);
        found.push(Found {
            ends,
            place: Vantage::Middle,
            gap,
        });
    }
    Ok(Observed {
        truth,
        questions,
        found,
    })
}

/// Runs `cases` on `threads` threads and holds what is found against the truth. `done` is told the
/// number of runs that have ended.
///
/// # Errors
/// The first case that could not be run, and why.
pub fn score(
    cases: &[Case],
    registry: &Registry,
    threads: usize,
    cancel: &AtomicBool,
    done: impl Fn(usize) + Sync,
) -> Result<Score, String> {
    let ended = AtomicUsize::new(0);
    let total = Mutex::new((Score::default(), None));
    parallel::each(cases.len(), threads, |n| {
        if cancel.load(Ordering::Relaxed) {
            return;
        }
        let score = score_of(&cases[n], registry);
        let mut total = total.lock().unwrap_or_else(|e| e.into_inner());
        match score {
            Ok(score) => total.0.join(&score),
            Err(why) => {
                total.1.get_or_insert(why);
            }
        }
        drop(total);
        done(ended.fetch_add(1, Ordering::Relaxed) + 1);
    });
    let (score, failed) = total.into_inner().unwrap_or_else(|e| e.into_inner());
    failed.map_or(Ok(score), Err)
}

/// One run.
///
/// # Errors
/// If it could not be run, and why.
pub fn observed(case: &Case, registry: &Registry) -> Result<Observed, String> {
    let loaded = Loaded::parse(&case.name, &case.text, registry)
        .map_err(|e| format!("{}: {e}", case.name))?;
    let threshold = Threshold {
        floor: case.rtt,
        share_percent: 0,
    };
    observe(&loaded.experiment, registry, threshold, None)
        .map_err(|e| format!("{}: {e}", case.name))
}

/// One run's score.
fn score_of(case: &Case, registry: &Registry) -> Result<Score, String> {
    let observed = observed(case, registry)?;
    let mut score = Score {
        runs: 1,
        ..Score::default()
    };
    let counted = case.rtt * 5 / 2 + Duration::from_micros(200);
    for place in PLACES {
        score.add(
            place,
            Told {
                gaps: &observed.truth,
                questions: &observed.questions,
            },
            &observed.found,
            case.rtt / 2,
            counted,
        );
    }
    Ok(score)
}
