//! A simulated run captured at every host, each with a clock of its own, and explained from the
//! captures of both ends of each connection.

use super::ledger::{Questions, SharedTruth};
use super::segment_of;
use crate::analyzer::{Analyzer, Config};
use crate::explanation::Explanation;
use crate::gap::{Gap, Side, Vantage};
use crate::half::Sighting;
use crate::score::Found;
use crate::truth::{Threshold, TrueGap};
use crate::two::{Clock, Log, Path, Unaligned};
use narrows::Instant;
use narrows_experiment::host::SimPacket;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunError;
use narrows_experiment::scenario::RunContext;
use narrows_experiment::sim::tap::{Tap, TapEvent};
use narrows_experiment::sim::time::SimTime;
use std::net::IpAddr;

/// Clocks that are wrong: host `n`'s is ahead by `n` times this.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// At the beginning, in nanoseconds.
    pub offset: i64,
    /// What is gained, in parts per billion.
    pub drift: i64,
}

impl Skew {
    /// Times begin here, so that no clock shows less than nothing.
    const BASE: u64 = 1_000_000_000_000;

    /// What host `n`'s clock shows more than the true one at a true time.
    fn ahead(self, n: usize, at: Instant) -> i64 {
        let gained = i128::from(self.drift) * i128::from(at.as_nanos()) / 1_000_000_000;
        (i128::from(self.offset) + gained) as i64 * n as i64
    }

    /// What host `n`'s clock shows.
    pub fn shown(self, n: usize, at: Instant) -> Instant {
        let shown = (at.as_nanos() + Self::BASE).saturating_add_signed(self.ahead(n, at));
        Instant::from_nanos(shown)
    }

    /// The true time when host `n`'s clock shows `at`.
    pub fn truly(self, n: usize, at: Instant) -> Instant {
        let shown = i128::from(at.as_nanos()) - i128::from(Self::BASE);
        let since = shown - i128::from(self.offset) * n as i128;
        let per = 1_000_000_000 + i128::from(self.drift) * n as i128;
        let nanos = (since * 1_000_000_000).div_euclid(per);
        Instant::from_nanos(u64::try_from(nanos).unwrap_or_default())
    }
}

/// A run, explained from both ends.
#[derive(Debug)]
pub struct Ends {
    /// The gaps as they were.
    pub truth: Vec<TrueGap>,
    /// What captures of both ends together tell; places say "sender".
    pub both: Vec<Found>,
    /// What each capture tells alone, those at senders and those at receivers.
    pub alone: Vec<Found>,
    /// By pair of hosts: the clocks, or why they could not be aligned.
    pub clocks: Vec<([usize; 2], Result<Clock, Unaligned>)>,
    /// When the last packet was captured.
    pub last: Instant,
}

#[derive(Debug)]
struct Capture {
    log: Log,
    analyzer: Analyzer,
    packets: u64,
}

impl Capture {
    fn new() -> Self {
        Self {
            log: Log::new(usize::MAX),
            analyzer: Analyzer::new(Config::default()),
            packets: 0,
        }
    }
}

#[derive(Debug)]
struct Captures {
    skew: Skew,
    hosts: Vec<Capture>,
    last: Instant,
}

impl Tap<SimPacket> for Captures {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let host = match event {
            TapEvent::NicSent { host, .. } => host.index(),
            TapEvent::Received { host } if packet.is_intact() => host.index(),
            _ => return,
        };
        self.last = at.to_instant();
        let segment = segment_of(packet);
        let at = self.skew.shown(host, at.to_instant());
        self.hosts
            .resize_with(self.hosts.len().max(host + 1), Capture::new);
        let capture = &mut self.hosts[host];
        capture.packets += 1;
        let now = Sighting {
            at,
            packet: capture.packets,
        };
        capture.log.handle_segment(now, 0, &segment);
        capture.analyzer.handle_segment(now, 0, &segment);
    }
}

/// Runs `experiment` with captures at its hosts and explains each pair of them.
///
/// # Errors
/// Those of [`Experiment::run`].
#[inline] // Called once, or by nobody here: compiled where it is.
pub fn observe_ends(
    experiment: &Experiment,
    registry: &Registry,
    threshold: Threshold,
    skew: Skew,
) -> Result<Ends, RunError> {
    let told = SharedTruth::new(threshold, Questions::Left);
    let mut experiment = experiment.clone();
    experiment.probes.push(told.probe());
    let captures = Captures {
        skew,
        hosts: Vec::new(),
        last: Instant::ZERO,
    };
    let (_, captures) = experiment.watch(registry, RunContext::default(), captures)?;
    let truth = told.take().gaps().to_vec();
    let mut ends = Ends {
        truth,
        both: Vec::new(),
        alone: Vec::new(),
        clocks: Vec::new(),
        last: captures.last,
    };
    let address = |n: usize| {
        let host = narrows_experiment::net::packet::HostId(n as u32);
        experiment.network.common.ip.address_of(host)
    };
    let mut places = Vec::new();
    for (n, mut capture) in captures.hosts.into_iter().enumerate() {
        let mut explanation = Explanation::new(usize::MAX / 4, usize::MAX / 4);
        capture.analyzer.finish();
        explanation.take(&mut capture.analyzer);
        explanation.finish();
        for gap in explanation.ledger.gaps() {
            let found = found(&explanation, gap, |at| skew.truly(n, at), address(n));
            ends.alone.extend(found);
        }
        places.push((capture.log, explanation));
    }
    for a in 0..places.len() {
        for b in a + 1..places.len() {
            let ((first, one), (second, other)) = (&places[a], &places[b]);
            let path = match Path::between(first, second) {
                Ok(path) => path,
                Err(Unaligned::NothingShared) => continue,
                Err(why) => {
                    ends.clocks.push(([a, b], Err(why)));
                    continue;
                }
            };
            ends.clocks.push(([a, b], Ok(path.clock)));
            let pair = [address(a), address(b)];
            let together = path.explain(one, other);
            for gap in together.ledger.gaps() {
                let found = found(&together, gap, |at| skew.truly(a, at), pair[0]);
                let found = found.filter(|f| f.ends.iter().all(|end| pair.contains(&end.ip())));
                ends.both.extend(found.map(|found| Found {
                    place: Vantage::Sender,
                    ..found
                }));
            }
        }
    }
    Ok(ends)
}

fn found(
    explanation: &Explanation,
    mut gap: Gap,
    truly: impl Fn(Instant) -> Instant,
    own: IpAddr,
) -> Option<Found> {
    let connection = explanation
        .connections
        .iter()
        .find(|c| c.id == gap.connection)?;
    let [client, server] = connection.ends;
    let ends = match gap.side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    };
    for sighting in [&mut gap.start, &mut gap.end] {
        sighting.at = truly(sighting.at);
    }
    let place = if ends[0].ip() == own {
        Vantage::Sender
    } else {
        Vantage::Receiver
    };
    Some(Found { ends, place, gap })
}
