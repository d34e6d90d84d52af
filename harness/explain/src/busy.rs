//! Queues at the links of hosts, as far as a capture shows them. What comes when a link has been busy for a
//! while without a pause may have waited before it all the time; and what goes to a host faster than its
//! link carries it waits behind the place of the capture.

use narrows::{Duration, Instant};
use std::net::IpAddr;

/// Hosts that are known at once; of two that fall on one place the later is.
const PLACES: usize = 4_096;
/// Bytes in large packets that tell how fast a link is.
const GROUP: u64 = 6_000;
const LARGE: u64 = 1_000;
/// A link that was silent for longer has not been busy: what is slower than 12 Mb/s is not known.
const PAUSE: Duration = Duration::from_millis(1);
/// Ethernet's own part of a packet, with preamble and gap.
const FRAME: u64 = 38;
/// Times of captures in microseconds are off by one.
const SLACK: Duration = Duration::from_micros(1);

/// The link of a host.
#[derive(Clone, Copy, Debug)]
struct Link {
    host: IpAddr,
    last: Instant,
    /// When it began to be busy.
    since: Instant,
    /// When all that has passed to it is through, if it goes into a queue here.
    through: Instant,
    /// Picoseconds a byte at most, if that is known.
    pace: Option<u64>,
    /// When the bytes began that tell next how fast it is, and how many they are.
    group: (Instant, u64),
}

impl Link {
    const fn new(host: IpAddr, now: Instant) -> Self {
        Self {
            host,
            last: now,
            since: now,
            through: now,
            pace: None,
            group: (now, 0),
        }
    }

    /// A packet of so many bytes passes: for how long it has been busy.
    fn busy(&mut self, now: Instant, bytes: u64) -> Duration {
        let takes = self.pace.map(|pace| takes(pace, bytes));
        let goes_on = takes.is_some_and(|takes| now.since(self.last) <= takes + takes / 4 + SLACK);
        if !goes_on {
            self.since = now;
        }
        if now.since(self.last) > PAUSE {
            self.group = (now, 0);
        }
        self.last = now;
        // Small packets come when there is something to say, not when there is room.
        self.group.1 += bytes;
        if bytes < LARGE || self.group.0 == now {
            self.group = (now, 0);
        } else if self.group.1 >= GROUP {
            let pace = now.since(self.group.0).as_nanos().saturating_mul(1_000) / self.group.1;
            if pace > 0 && self.pace.is_none_or(|known| pace < known) {
                self.pace = Some(pace);
            }
            self.group = (now, 0);
        }
        now.since(self.since)
    }
}

/// How long so many bytes take.
fn takes(pace: u64, bytes: u64) -> Duration {
    let takes = match pace.checked_mul(bytes) {
        Some(takes) => takes / 1_000,
        None => {
            let takes = u128::from(pace) * u128::from(bytes) / 1_000;
            u64::try_from(takes).unwrap_or(u64::MAX)
        }
    };
    Duration::from_nanos(takes)
}

/// What queues a packet may wait in.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Before it came by, at most.
    pub(crate) before: Duration,
    /// After that, at least.
    pub(crate) after: Duration,
}

/// The links of all hosts.
#[derive(Debug)]
pub(crate) struct Queues {
    /// From hosts, and to them.
    links: [Vec<Option<Link>>; 2],
    /// The pace of the fastest that a host has spoken at, and which that of others is taken to be where what
    /// they hear comes from several at once.
    fastest: Option<u64>,
}

impl Default for Queues {
    fn default() -> Self {
        Self {
            links: [vec![None; PLACES], vec![None; PLACES]],
            fastest: None,
        }
    }
}

impl Queues {
    /// A packet of so many bytes comes by from one host to another.
    pub(crate) fn pass(&mut self, [src, dst]: [IpAddr; 2], now: Instant, bytes: u64) -> Waits {
        let bytes = bytes + FRAME;
        let [from, to] = &mut self.links;
        let (from, to) = (link(from, src, now), link(to, dst, now));
        let before = from.busy(now, bytes).max(to.busy(now, bytes));
        if let Some(pace) = from.pace
            && self.fastest.is_none_or(|fastest| pace < fastest)
        {
            self.fastest = Some(pace);
        }
        let after = to.through.since(now);
        let takes = self.fastest.map(|pace| takes(pace, bytes));
        to.through = to.through.max(now) + takes.unwrap_or_default();
        Waits { before, after }
    }
}

/// The link of `host`, which begins now if another's is in its place.
fn link(links: &mut [Option<Link>], host: IpAddr, now: Instant) -> &mut Link {
    let entry = &mut links[place(host)];
    if entry.as_ref().is_some_and(|link| link.host != host) {
        *entry = None;
    }
    entry.get_or_insert_with(|| Link::new(host, now))
}

fn place(host: IpAddr) -> usize {
    let bits = match host {
        IpAddr::V4(host) => u64::from(host.to_bits()),
        IpAddr::V6(host) => (host.to_bits() >> 64) as u64 ^ host.to_bits() as u64,
    };
    // Fibonacci hashing: its upper bits are well mixed.
    (bits.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 52) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_link_is_busy_from_the_first_of_packets_without_a_pause() {
        let mut queues = Queues::default();
        let [a, c] = [1, 3].map(|n| IpAddr::from([10, 0, 0, n]));
        let at = |us: u64| Instant::ZERO + Duration::from_micros(us);
        let mut busy = |us, from| queues.pass([from, c], at(us), 1_500).before;
        // 1 Gb/s: 12.304 us each.
        for n in 0..8 {
            busy(n * 13, a);
        }
        assert_eq!(busy(500, a), Duration::ZERO);
        for n in 1..5 {
            assert_eq!(busy(500 + n * 13, a), Duration::from_micros(n * 13));
        }
    }

    #[test]
    fn a_packet_now_and_then_keeps_no_link_busy() {
        let mut queues = Queues::default();
        let [a, c] = [1, 3].map(|n| IpAddr::from([10, 0, 0, n]));
        for n in 0..30 {
            let now = Instant::ZERO + Duration::from_millis(n * 20);
            assert_eq!(queues.pass([a, c], now, 1_500).before, Duration::ZERO);
        }
    }

    #[test]
    fn what_two_hosts_send_to_a_third_at_once_waits_for_its_link() {
        let mut queues = Queues::default();
        let [a, b, c] = [1, 2, 3].map(|n| IpAddr::from([10, 0, 0, n]));
        let at = |us: u64| Instant::ZERO + Duration::from_micros(us);
        for n in 0..9 {
            assert_eq!(queues.pass([c, a], at(n * 13), 1_500).after, Duration::ZERO);
        }
        let waits =
            |queues: &mut Queues, us: u64, from| queues.pass([from, c], at(us), 1_500).after;
        for n in 0..10 {
            let before = waits(&mut queues, 1_000 + n * 13, a);
            let after = waits(&mut queues, 1_000 + n * 13, b);
            let expected = Duration::from_micros(n * 13);
            assert!(
                before.abs_diff(expected) < Duration::from_micros(4),
                "{before}"
            );
            assert!(after > before);
        }
        assert_eq!(waits(&mut queues, 2_000, a), Duration::ZERO);
    }
}
