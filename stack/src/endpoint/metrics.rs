//! What is remembered of a peer between connections (RFC 9040, temporal sharing).
//!
//! Optional, bounded, and by remote address: the next connection to the same host starts with
//! the round-trip time, slow-start threshold and path MTU of the last.

use super::clock::Clock;
use narrows_congestion::{ByteCount, Duration, Instant};
use std::net::IpAddr;

/// What a connection learned, or what the next one starts with. `None`: nothing known.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathMetrics {
    /// Smoothed round-trip time.
    pub srtt: Option<Duration>,
    /// Round-trip time variation.
    pub rttvar: Option<Duration>,
    /// Slow-start threshold. A connection that never left its first slow start has none.
    pub ssthresh: Option<ByteCount>,
    /// Path MTU in bytes, IP header included.
    pub path_mtu: Option<u32>,
}

/// How much is remembered, and for how long.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MetricsConfig {
    /// Hosts remembered; 0 remembers nothing.
    pub capacity: u32,
    /// An entry not renewed for this long is forgotten.
    pub max_age: Duration,
    /// A path MTU not renewed for this long is forgotten: RFC 8201 section 4 wants at least
    /// 5 minutes and recommends 10.
    pub path_mtu_max_age: Duration,
}

impl Default for MetricsConfig {
    /// 1,024 hosts, an hour, and 10 minutes for the path MTU.
    fn default() -> Self {
        Self {
            capacity: 1_024,
            max_age: Duration::from_secs(3_600),
            path_mtu_max_age: Duration::from_secs(600),
        }
    }
}

/// Metrics by remote address. When full, the entry not used for longest, or nearly so, makes
/// room (the clock algorithm).
pub(super) struct MetricsCache {
    config: MetricsConfig,
    entries: Clock<IpAddr, Entry>,
}

#[derive(Clone, Copy)]
struct Entry {
    metrics: PathMetrics,
    updated: Instant,
    path_mtu_updated: Instant,
}

impl MetricsCache {
    /// An empty cache.
    pub(super) fn new(config: MetricsConfig) -> Box<Self> {
        let entries = Clock::new(config.capacity);
        Box::new(Self { config, entries })
    }

    /// What a new connection to `addr` may start with.
    pub(super) fn get(&mut self, addr: IpAddr, now: Instant) -> PathMetrics {
        let entry = self.entries.get(&addr);
        entry.map_or_else(PathMetrics::default, |entry| entry.fresh(&self.config, now))
    }

    /// A connection to `addr` ended, or tells while it runs: merge what it learned.
    ///
    /// SRTT and RTTVAR rise to a higher value at once and fall to a lower one by an eighth of
    /// the difference: a timeout too short costs more than one too long. `ssthresh` becomes the
    /// mean of old and new. The path MTU is replaced.
    pub(super) fn update(&mut self, addr: IpAddr, learned: &PathMetrics, now: Instant) {
        let config = self.config;
        if *learned == PathMetrics::default() {
            return;
        }
        let nothing = Entry {
            metrics: PathMetrics::default(),
            updated: now,
            path_mtu_updated: now,
        };
        let is_stale = |entry: &Entry| now.since(entry.updated) > config.max_age;
        let Some(entry) = self.entries.get_or_insert(addr, nothing, is_stale) else {
            return;
        };
        let old = entry.fresh(&config, now);
        // As for differences, what is less than nothing is nothing.
        let slow_fall = |old: Duration, new: Duration| new.max(old - (old - new) / 8);
        entry.metrics = PathMetrics {
            srtt: merge(old.srtt, learned.srtt, slow_fall),
            rttvar: merge(old.rttvar, learned.rttvar, slow_fall),
            ssthresh: merge(old.ssthresh, learned.ssthresh, |old, new| old / 2 + new / 2),
            path_mtu: learned.path_mtu.or(old.path_mtu),
        };
        entry.updated = now;
        if learned.path_mtu.is_some() {
            entry.path_mtu_updated = now;
        }
    }
}

impl Entry {
    /// What of it is not out of date.
    fn fresh(&self, config: &MetricsConfig, now: Instant) -> PathMetrics {
        if now.since(self.updated) > config.max_age {
            return PathMetrics::default();
        }
        let mut metrics = self.metrics;
        if now.since(self.path_mtu_updated) > config.path_mtu_max_age {
            metrics.path_mtu = None;
        }
        metrics
    }
}

fn merge<T: Copy>(old: Option<T>, new: Option<T>, with: impl FnOnce(T, T) -> T) -> Option<T> {
    let both = old.zip(new).map(|(old, new)| with(old, new));
    both.or(new).or(old)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cache(capacity: u32) -> Box<MetricsCache> {
        let config = MetricsConfig {
            capacity,
            ..MetricsConfig::default()
        };
        MetricsCache::new(config)
    }

    fn host(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    fn rtt(us: u64) -> PathMetrics {
        PathMetrics {
            srtt: Some(Duration::from_micros(us)),
            ..PathMetrics::default()
        }
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn values_are_merged_and_missing_ones_kept() {
        let mut c = cache(4);
        let first = PathMetrics {
            srtt: Some(Duration::from_micros(800)),
            rttvar: Some(Duration::from_micros(80)),
            ssthresh: Some(ByteCount::new(10_000)),
            path_mtu: Some(1_500),
        };
        c.update(host(1), &first, at(0));
        assert_eq!(c.get(host(1), at(0)), first);
        let second = PathMetrics {
            srtt: Some(Duration::from_micros(400)),
            rttvar: Some(Duration::from_micros(160)),
            ssthresh: Some(ByteCount::new(20_000)),
            path_mtu: None,
        };
        c.update(host(1), &second, at(1));
        let merged = PathMetrics {
            srtt: Some(Duration::from_micros(750)),
            rttvar: Some(Duration::from_micros(160)),
            ssthresh: Some(ByteCount::new(15_000)),
            path_mtu: Some(1_500),
        };
        assert_eq!(c.get(host(1), at(1)), merged);
        assert_eq!(c.get(host(2), at(1)), PathMetrics::default());
    }

    #[test]
    fn entries_age_and_the_path_mtu_sooner() {
        let mut c = cache(4);
        c.update(
            host(1),
            &PathMetrics {
                path_mtu: Some(9_000),
                ..rtt(100)
            },
            at(0),
        );
        assert_eq!(c.get(host(1), at(600)).path_mtu, Some(9_000));
        // Renewing the RTT does not renew the MTU.
        c.update(host(1), &rtt(100), at(600));
        assert_eq!(c.get(host(1), at(601)), rtt(100));
        c.update(host(1), &rtt(100), at(602));
        assert_eq!(c.get(host(1), at(602 + 3_600)), rtt(100));
        assert_eq!(c.get(host(1), at(602 + 3_601)), PathMetrics::default());
        // And a stale value takes no part in the merge.
        c.update(host(1), &rtt(10), at(9_000));
        assert_eq!(c.get(host(1), at(9_000)), rtt(10));
    }

    /// RFC 8201 section 4: a path MTU that is told anew is ten minutes old ten minutes later.
    #[test]
    fn rfc8201_4_a_renewed_path_mtu_begins_anew() {
        let mut c = cache(1_024);
        let learned = PathMetrics {
            path_mtu: Some(1_400),
            ..PathMetrics::default()
        };
        c.update(host(9), &learned, at(0));
        c.update(host(9), &learned, at(8 * 60));
        assert_eq!(c.get(host(9), at(15 * 60)).path_mtu, Some(1_400));
        assert_eq!(c.get(host(9), at(19 * 60)).path_mtu, None);
    }

    #[test]
    fn memory_is_bounded_and_what_is_used_stays() {
        let mut c = cache(8);
        c.update(host(0), &rtt(7), at(0));
        for n in 1..1_000 {
            assert_eq!(c.get(host(0), at(1)), rtt(7));
            c.update(host(n), &rtt(u64::from(n)), at(1));
            assert!(c.entries.holds(&host(n)));
            assert!(c.entries.len() <= 8);
        }
        let held = (0..1_000).filter(|&n| c.entries.holds(&host(n)));
        assert_eq!(held.count(), 8);
        // When all are in use, one still makes room.
        for n in 0..1_000 {
            c.get(host(n), at(1));
        }
        c.update(host(2_000), &rtt(1), at(1));
        assert_eq!(c.get(host(2_000), at(1)), rtt(1));
    }

    #[test]
    fn nothing_learned_and_no_capacity_take_no_room() {
        let mut c = cache(0);
        c.update(host(1), &rtt(1), at(0));
        assert!(c.entries.len() == 0);
        let mut c = cache(1);
        c.update(host(1), &PathMetrics::default(), at(0));
        assert!(c.entries.len() == 0);
        c.update(host(1), &rtt(1), at(0));
        c.update(host(2), &rtt(2), at(0));
        assert_eq!(c.get(host(2), at(0)), rtt(2));
        assert_eq!(c.entries.len(), 1);
    }
}
