//! A poller of the kernel's counters of interfaces, in any network namespace.
//!
//! It looks at each period's instants, at all periods at once: it sleeps while there is time, and
//! waits busily for the rest, since a sleep ends when the scheduler likes. How late each look came
//! is kept beside what it saw. Counters are the 64-bit ones of rtnetlink (`RTM_GETSTATS`,
//! `IFLA_STATS_LINK_64`); a look takes some microseconds.
//!
//! What it leaves out: how often a driver brings its counters up to date. Those of veth, bridges and
//! TAP move with each packet; a NIC may copy its own once in a while, and then readings below that
//! are of nothing and of a lot.

#![allow(
    clippy::disallowed_methods,
    reason = "a poller waits for the time of its next look"
)]

use crate::LiveError;
use crate::netlink::Netlink;
use crate::netns::{self, Named, Namespace};
use narrows::Instant;
use narrows::driver::Clock;
use narrows_experiment::polling::Readings;
use narrows_experiment::stats::quantile;
use netlink_bindings::rt_link::{IfStatsMsg, Request, RtnlLinkStats64};
use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const IFLA_STATS_LINK_64: u32 = 1;
/// A sleep may end so late.
const SPIN: Duration = Duration::from_micros(300);
/// How often Ctrl-C is looked for in a long sleep.
const LOOK: Duration = Duration::from_millis(50);
/// Most looks of a measurement: more would take more than some hundred megabytes.
pub const MOST_LOOKS: u64 = 4_000_000;
/// The shortest period.
pub const LEAST_PERIOD: Duration = Duration::from_micros(100);

/// Counters of an interface.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Bytes that came in, of frames without check sequence.
    pub rx_bytes: u64,
    /// Bytes that left.
    pub tx_bytes: u64,
    /// Packets that left: one for a super-frame.
    pub tx_packets: u64,
}

impl From<RtnlLinkStats64> for Counts {
    fn from(stats: RtnlLinkStats64) -> Self {
        Self {
            rx_bytes: stats.rx_bytes,
            tx_bytes: stats.tx_bytes,
            tx_packets: stats.tx_packets,
        }
    }
}

/// An interface whose counters can be read.
#[derive(Debug)]
pub struct Interface {
    name: String,
    index: u32,
    netlink: Netlink,
}

impl Interface {
    /// `INTERFACE`, or `NAMESPACE:INTERFACE`, where the namespace is a name as `ip netns` has them,
    /// or the number of a process.
    ///
    /// # Errors
    /// If there is no such namespace or interface.
    pub fn open(name: &str) -> Result<Self, LiveError> {
        let failed = |e| LiveError::io(format!("open the interface {name}"), e);
        let (netlink, own) = match name.split_once(':') {
            None => (Netlink::open().map_err(failed)?, name),
            Some((space, own)) => {
                let space = namespace(space).map_err(failed)?;
                let opened = space.run(Netlink::open).and_then(|opened| opened);
                (opened.map_err(failed)?, own)
            }
        };
        Self::of(netlink, name, own).map_err(failed)
    }

    fn of(mut netlink: Netlink, name: &str, own: &str) -> io::Result<Self> {
        let index = netlink.link(own)?.index;
        Ok(Self {
            name: name.to_owned(),
            index,
            netlink,
        })
    }

    /// An interface in a namespace of ours.
    pub(crate) fn within(space: &Namespace, own: &str) -> io::Result<Self> {
        let netlink = space.run(Netlink::open)??;
        Self::of(netlink, own, own)
    }

    /// Its name, as it was given.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its counters now.
    ///
    /// # Errors
    /// If it is gone.
    pub fn read(&mut self) -> io::Result<Counts> {
        let header = IfStatsMsg {
            ifindex: self.index,
            filter_mask: 1 << (IFLA_STATS_LINK_64 - 1),
            ..Default::default()
        };
        let request = Request::new().op_getstats_do(&header);
        self.netlink
            .ask_one(&request, |(_, stats)| stats.get_link_64().map(Counts::from))
    }
}

/// What is called so, or that of a process.
pub(crate) fn namespace(name: &str) -> io::Result<Namespace> {
    if let Ok(process) = name.parse::<u32>() {
        return Namespace::of_process(process);
    }
    match netns::look(name)? {
        Named::Namespace(space) => Ok(space),
        _ => {
            let why = format!("there is no network namespace '{name}' (`ip netns` lists them)");
            Err(io::Error::new(io::ErrorKind::NotFound, why))
        }
    }
}

/// What was seen at one period.
#[derive(Clone, Debug, Default)]
pub struct Track {
    /// The period.
    pub every: Duration,
    /// The looks, in order; the first is where it begins.
    pub looks: Vec<Look>,
}

impl Track {
    /// What a counter of the interface `nth` moved from look to look: bits per second, over the time
    /// that really passed.
    pub fn readings(&self, nth: usize, counter: impl Fn(Counts) -> u64) -> Readings {
        let rates = self.looks.windows(2).map(|pair| {
            let bits = moved(pair, nth, &counter) as f64 * 8.0;
            bits / (pair[1].at - pair[0].at).as_secs_f64().max(1e-9)
        });
        Readings {
            every: self.every.as_nanos() as u64,
            rates: rates.collect(),
        }
    }

    /// What the counter moved in all, in bits per second of the whole time: looks that were left out
    /// make some readings longer than others, and a mean of readings is another.
    pub fn mean(&self, nth: usize, counter: impl Fn(Counts) -> u64) -> Option<f64> {
        let ends = [self.looks.first()?.clone(), self.looks.last()?.clone()];
        let time = (ends[1].at - ends[0].at).as_secs_f64();
        (time > 0.0).then(|| moved(&ends, nth, &counter) as f64 * 8.0 / time)
    }

    /// The greatest of these, in bits per second, for who divides by the period and does not look at
    /// the clock.
    pub fn greatest_by_period(&self, nth: usize, counter: impl Fn(Counts) -> u64) -> f64 {
        let moved = self.looks.windows(2).map(|pair| moved(pair, nth, &counter));
        moved.max().unwrap_or(0) as f64 * 8.0 / self.every.as_secs_f64()
    }

    /// How late the looks came, by nearest rank: of `permille` of them not later.
    pub fn lateness(&self, permille: usize) -> Option<Duration> {
        let mut late: Vec<Duration> = self.looks.iter().map(|look| look.late).collect();
        late.sort_unstable();
        quantile(&late, permille)
    }

    /// Looks that were left out, because they would have come a period late.
    pub fn left_out(&self) -> u64 {
        let ends = self.looks.first().zip(self.looks.last());
        let due = |look: &Look| (look.at - look.late).as_nanos() / self.every.as_nanos().max(1);
        let wanted = ends.map_or(0, |(first, last)| due(last) - due(first) + 1);
        (wanted as u64).saturating_sub(self.looks.len() as u64)
    }
}

/// What a counter moved between two looks.
fn moved(pair: &[Look], nth: usize, counter: &impl Fn(Counts) -> u64) -> u64 {
    let at = |look: &Look| look.counts.get(nth).map_or(0, |counts| counter(*counts));
    at(&pair[1]).saturating_sub(at(&pair[0]))
}

/// One look.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Look {
    /// When it was, from the begin.
    pub at: Duration,
    /// How late that was.
    pub late: Duration,
    /// What each interface's counters said.
    pub counts: Vec<Counts>,
}

/// What a poller saw.
#[derive(Debug, Default)]
pub struct Polled {
    /// At each period.
    pub tracks: Vec<Track>,
    /// Which interface went away, and how: then the tracks are of the time before.
    pub gone: Option<(usize, io::Error)>,
}

impl Polled {
    /// The tracks of all the time.
    ///
    /// # Errors
    /// If an interface went away.
    pub fn whole(self) -> io::Result<Vec<Track>> {
        match self.gone {
            None => Ok(self.tracks),
            Some((_, why)) => Err(why),
        }
    }
}

/// Looks at the counters of `interfaces` at each of `periods` for `span`, or until `cancel` is set or
/// an interface goes away.
pub fn poll(
    interfaces: &mut [Interface],
    periods: &[Duration],
    span: Duration,
    cancel: &AtomicBool,
) -> Polled {
    let begin = Clock.now();
    let mut due: Vec<Duration> = vec![Duration::ZERO; periods.len()];
    let mut tracks: Vec<Track> = periods
        .iter()
        .map(|every| Track {
            every: *every,
            looks: Vec::new(),
        })
        .collect();
    while let Some((nth, next)) = due.iter().copied().enumerate().min_by_key(|(_, due)| *due) {
        if next > span || !wait(begin, next, cancel) {
            break;
        }
        let at = since(begin);
        let mut counts = Vec::with_capacity(interfaces.len());
        for (nth, interface) in interfaces.iter_mut().enumerate() {
            match interface.read() {
                Ok(count) => counts.push(count),
                Err(why) => {
                    let gone = Some((nth, why));
                    return Polled { tracks, gone };
                }
            }
        }
        tracks[nth].looks.push(Look {
            at,
            late: at.saturating_sub(next),
            counts,
        });
        due[nth] = next + periods[nth];
        // A look that is a whole period late is left out: the next one counts for both.
        while due[nth] + periods[nth] <= since(begin) {
            due[nth] += periods[nth];
        }
    }
    Polled { tracks, gone: None }
}

fn since(begin: Instant) -> Duration {
    Duration::from_nanos(Clock.now().since(begin).as_nanos())
}

/// Until so long after `begin`; whether to go on.
fn wait(begin: Instant, until: Duration, cancel: &AtomicBool) -> bool {
    loop {
        let now = since(begin);
        if now >= until {
            return !cancel.load(Ordering::Relaxed);
        }
        match (until - now).checked_sub(SPIN) {
            Some(sleep) if !sleep.is_zero() => {
                if cancel.load(Ordering::Relaxed) {
                    return false;
                }
                std::thread::sleep(sleep.min(LOOK));
            }
            _ => std::hint::spin_loop(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interface_is_named() {
        let error = Interface::open("nothing-is-called-so")
            .unwrap_err()
            .to_string();
        assert!(error.contains("nothing-is-called-so"), "{error}");
    }

    #[test]
    fn readings_are_over_the_time_that_passed_and_by_period_is_not() {
        let ms = Duration::from_millis;
        let look = |at: u64, late: u64, rx_bytes: u64| Look {
            at: ms(at + late),
            late: ms(late),
            counts: vec![Counts {
                rx_bytes,
                tx_bytes: 0,
                ..Counts::default()
            }],
        };
        let track = Track {
            every: ms(10),
            looks: vec![look(0, 0, 1_000), look(10, 10, 3_000), look(40, 0, 3_000)],
        };
        let rx = |counts: Counts| counts.rx_bytes;
        let readings = track.readings(0, rx);
        assert_eq!(readings.rates, [800_000.0, 0.0]);
        // 2,000 bytes in 40 ms, whatever the readings' mean.
        assert_eq!(track.mean(0, rx), Some(400_000.0));
        assert_eq!(track.greatest_by_period(0, rx), 1_600_000.0);
        assert_eq!(track.lateness(1_000), Some(ms(10)));
        assert_eq!(track.lateness(500), Some(ms(0)));
        // Those at 20 and at 30.
        assert_eq!(track.left_out(), 2);
    }

    /// Each period has its looks, in order; the loopback's counters never go back.
    #[test]
    fn each_period_is_looked_at_in_order() {
        let mut lo = [Interface::open("lo").unwrap()];
        let periods = [Duration::from_millis(5), Duration::from_millis(1)];
        let never = AtomicBool::new(false);
        let tracks = poll(&mut lo, &periods, Duration::from_millis(20), &never)
            .whole()
            .unwrap();
        for (track, every) in tracks.iter().zip(periods) {
            assert_eq!(track.every, every);
            assert!(!track.looks.is_empty());
            assert!(track.looks.is_sorted_by(|a, b| a.at < b.at));
            let bytes = |look: &Look| look.counts[0].rx_bytes;
            assert!(track.looks.is_sorted_by(|a, b| bytes(a) <= bytes(b)));
        }
        let cancelled = AtomicBool::new(true);
        let tracks = poll(&mut lo, &periods, Duration::from_secs(9), &cancelled)
            .whole()
            .unwrap();
        assert!(tracks.iter().all(|t| t.looks.is_empty()));
    }
    /// What was seen before an interface went away is kept, and which one it was is told.
    #[test]
    fn an_interface_that_goes_away_ends_the_measurement_and_keeps_what_was_seen() {
        let mut gone = Interface::open("lo").unwrap();
        gone.index = u32::MAX >> 1;
        let mut both = [Interface::open("lo").unwrap(), gone];
        let never = AtomicBool::new(false);
        let ms = Duration::from_millis;
        let polled = poll(&mut both, &[ms(1)], ms(5), &never);
        assert_eq!(polled.gone.as_ref().map(|(nth, _)| *nth), Some(1));
        assert!(polled.tracks.iter().all(|track| track.looks.is_empty()));
        assert!(polled.whole().is_err());
    }
}
