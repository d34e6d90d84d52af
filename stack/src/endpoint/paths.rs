//! What routers said of the path to a host, for all connections to it (RFC 8201 section 5.2).
//!
//! A connection takes it up when it next has something to do: telling them all at once is work that
//! one small packet from anybody who sees one of ours could ask for again and again.

use narrows_congestion::order::OrderedMap;
use narrows_congestion::{Duration, Instant};
use std::net::IpAddr;

/// Hosts remembered; the one of longest ago makes room.
const CAPACITY: usize = 1_024;
/// So many claims about the path to a host are believed in a row: more than there are links with
/// different limits on a path.
const BURST: u32 = 16;
/// After those, one more each time this has passed. Routers repeat themselves with each packet that
/// does not fit.
const REFILL: Duration = Duration::from_secs(1);
/// Nothing older is taken up (RFC 8201 section 4: ten minutes).
const MAX_AGE: Duration = Duration::from_secs(600);

/// How many claims have been believed so far; later ones are greater, on a circle. Who has missed
/// half of it may miss one more, and hears it from a router.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct News(u16);

impl News {
    pub(super) const NONE: Self = Self(0);

    fn after(self, other: Self) -> bool {
        (self.0.wrapping_sub(other.0) as i16) > 0
    }
}

/// Path MTUs by remote address, and how many more claims about each are believed.
#[derive(Debug, Default)]
pub(super) struct Paths {
    hosts: OrderedMap<IpAddr, Path>,
}

#[derive(Clone, Copy, Debug)]
struct Path {
    mtu: u32,
    told: News,
    at: Instant,
    /// Claims that are believed yet, as of `refilled`.
    left: u32,
    refilled: Instant,
}

impl Paths {
    /// Whether one more claim about the path to `host` may be believed.
    pub(super) fn may_believe(&self, host: IpAddr, now: Instant) -> bool {
        self.hosts.get(&host).is_none_or(|path| path.left(now) > 0)
    }

    /// A connection believes that packets to `host` must not be larger than `mtu`; it is the news
    /// after `last`.
    pub(super) fn learn(&mut self, host: IpAddr, mtu: u32, last: &mut News, now: Instant) {
        last.0 = last.0.wrapping_add(1);
        let told = *last;
        let left = self.hosts.get(&host).map_or(BURST, |path| path.left(now));
        if self.hosts.len() >= CAPACITY && !self.hosts.contains_key(&host) {
            let oldest = self.hosts.iter().min_by_key(|(_, path)| path.at);
            if let Some(&(oldest, _)) = oldest {
                self.hosts.remove(&oldest);
            }
        }
        let path = Path {
            mtu,
            told,
            at: now,
            left: left.saturating_sub(1),
            refilled: now,
        };
        self.hosts.insert(host, path);
    }

    /// What is news of the path to `host` for who has heard all up to `heard`.
    pub(super) fn since(&self, host: IpAddr, heard: News, now: Instant) -> Option<u32> {
        let path = self.hosts.get(&host)?;
        (path.told.after(heard) && now.since(path.at) < MAX_AGE).then_some(path.mtu)
    }
}

impl Path {
    fn left(&self, now: Instant) -> u32 {
        let more = now.since(self.refilled).as_nanos() / REFILL.as_nanos();
        let more = u32::try_from(more).unwrap_or(u32::MAX);
        self.left.saturating_add(more).min(BURST)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(n: u16) -> IpAddr {
        let [high, low] = n.to_be_bytes();
        IpAddr::from([10, 0, high, low])
    }

    fn at(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    #[test]
    fn news_are_told_once_and_not_when_old() {
        let (mut paths, mut last) = (Paths::default(), News(u16::MAX - 1));
        let before = last;
        paths.learn(host(1), 1_400, &mut last, at(0));
        paths.learn(host(2), 1_300, &mut last, at(0));
        assert_eq!(paths.since(host(1), before, at(1)), Some(1_400));
        assert_eq!(paths.since(host(2), before, at(1)), Some(1_300));
        assert_eq!(paths.since(host(3), before, at(1)), None);
        assert_eq!(paths.since(host(2), last, at(1)), None);
        assert_eq!(paths.since(host(1), before, at(600)), None);
        paths.learn(host(1), 1_200, &mut last, at(600));
        assert_eq!(paths.since(host(1), before, at(601)), Some(1_200));
    }

    #[test]
    fn claims_about_a_path_are_budgeted_and_hosts_bounded() {
        let (mut paths, mut last) = (Paths::default(), News::default());
        let mut believed = |paths: &mut Paths, now| {
            let mut n = 0;
            while paths.may_believe(host(1), now) {
                paths.learn(host(1), 1_000, &mut last, now);
                n += 1;
            }
            n
        };
        assert_eq!(believed(&mut paths, at(0)), BURST);
        assert_eq!(believed(&mut paths, at(0)), 0);
        assert_eq!(believed(&mut paths, at(1)), 1);
        assert_eq!(believed(&mut paths, at(1_000)), BURST);
        assert!(paths.may_believe(host(2), at(0)), "each path by itself");
        let mut last = News::default();
        for n in 2..5_000 {
            paths.learn(host(n), 1_000, &mut last, at(2_000 + u64::from(n)));
            assert!(paths.hosts.len() <= CAPACITY);
            assert!(paths.hosts.contains_key(&host(n)));
        }
        assert!(!paths.hosts.contains_key(&host(1)));
    }
}
