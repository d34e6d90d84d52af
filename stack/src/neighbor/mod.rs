//! Who is at which hardware address: the cache behind ARP (RFC 826, RFC 1122 section 2.3.2) and
//! IPv6 neighbour discovery (RFC 4861 section 7.3), the same for both.
//!
//! Sans-I/O: [`resolve`](NeighborCache::resolve) asks, [`learn`](NeighborCache::learn) tells what
//! was heard, [`poll_solicitation`](NeighborCache::poll_solicitation) gives the questions to
//! send. A neighbour is learned of by its answer to our question, or by its question for us, and
//! by nothing else, though one who is known may say that it has moved; the cache is bounded.

use crate::wire::ethernet::MacAddr;
use narrows_congestion::order::OrderedMap;
use narrows_congestion::{Duration, Instant};
use std::collections::VecDeque;
use std::net::IpAddr;

/// Values of a cache.
#[derive(Clone, Copy, Debug)]
pub struct NeighborConfig {
    /// How long an answer is trusted before the neighbour is asked again, by unicast and while it
    /// is being used (RFC 4861 section 10: 30 s).
    pub reachable: Duration,
    /// Time between questions (RFC 4861 section 10: 1 s).
    pub retransmit: Duration,
    /// Questions before it is given up (RFC 4861 section 10: 3).
    pub questions: u32,
    /// Neighbours remembered; the one unused for longest gives way.
    pub capacity: usize,
    /// Packets kept for one whose address is being asked for (RFC 1122 section 2.3.2.2: at least
    /// one); the oldest gives way.
    pub held: usize,
}

impl Default for NeighborConfig {
    fn default() -> Self {
        Self {
            reachable: Duration::from_secs(30),
            retransmit: Duration::from_secs(1),
            questions: 3,
            capacity: 1024,
            held: 8,
        }
    }
}

/// What the cache says to where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// There.
    Known(MacAddr),
    /// It is being asked for: [`hold`](NeighborCache::hold) the packet.
    Asked,
}

/// How something was heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It answers a question of ours.
    Answer,
    /// It answers, but says not to replace what is known.
    Hint,
    /// The neighbour told it on its own, with a question for us.
    Claim,
    /// It says on its own that it is elsewhere now; of use only where it is known.
    Moved,
}

/// A question to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Solicitation {
    /// Whose hardware address is wanted.
    pub target: IpAddr,
    /// Where it was; `None`: ask everyone.
    pub last_known: Option<MacAddr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Asked for, not known.
    Incomplete { asked: u32, ask_at: Instant },
    /// Known for sure until then.
    Reachable { mac: MacAddr, until: Instant },
    /// Known, to be asked when it is used.
    Stale { mac: MacAddr },
    /// Known, and asked whether it still holds.
    Probe {
        mac: MacAddr,
        asked: u32,
        ask_at: Instant,
    },
    /// Configured.
    Fixed { mac: MacAddr },
}

#[derive(Debug)]
struct Entry<P> {
    state: State,
    used: Instant,
    held: VecDeque<P>,
}

/// The cache; `P` is a packet that waits.
#[derive(Debug)]
pub struct NeighborCache<P> {
    config: NeighborConfig,
    entries: OrderedMap<IpAddr, Entry<P>>,
    /// The answer given last, and until when it may be given again without looking.
    latest: Option<(IpAddr, MacAddr, Instant)>,
    /// No question is due before.
    ask_at: Instant,
    released: VecDeque<(MacAddr, P)>,
    failed: VecDeque<(IpAddr, P)>,
}

impl<P> NeighborCache<P> {
    /// Nobody is known.
    pub fn new(config: NeighborConfig) -> Self {
        Self {
            config,
            entries: OrderedMap::new(),
            latest: None,
            ask_at: Instant::MAX,
            released: VecDeque::new(),
            failed: VecDeque::new(),
        }
    }

    /// `addr` is at `mac`, for good.
    pub fn fix(&mut self, addr: IpAddr, mac: MacAddr, now: Instant) {
        self.latest = None;
        self.enter(addr, State::Fixed { mac }, now);
    }

    /// Where a packet to `addr`, a neighbour, goes.
    #[inline]
    pub fn resolve(&mut self, addr: IpAddr, now: Instant) -> Resolution {
        if let Some((known, mac, until)) = self.latest
            && known == addr
            && now < until
        {
            return Resolution::Known(mac);
        }
        self.look_up(addr, now)
    }

    fn look_up(&mut self, addr: IpAddr, now: Instant) -> Resolution {
        let Some(entry) = self.entries.get_mut(&addr) else {
            let (asked, ask_at) = (0, now);
            self.enter(addr, State::Incomplete { asked, ask_at }, now);
            self.ask_at = self.ask_at.min(now);
            return Resolution::Asked;
        };
        entry.used = now;
        match entry.state {
            State::Fixed { mac } => {
                self.latest = Some((addr, mac, Instant::MAX));
                Resolution::Known(mac)
            }
            State::Reachable { mac, until } if now < until => {
                self.latest = Some((addr, mac, until));
                Resolution::Known(mac)
            }
            State::Reachable { mac, .. } | State::Stale { mac } => {
                let (asked, ask_at) = (0, now);
                entry.state = State::Probe { mac, asked, ask_at };
                self.ask_at = self.ask_at.min(now);
                Resolution::Known(mac)
            }
            State::Probe { mac, .. } => Resolution::Known(mac),
            State::Incomplete { .. } => Resolution::Asked,
        }
    }

    /// Keep `packet` until `addr`, which is [`Asked`](Resolution::Asked) for, is known. Gives
    /// back what had to give way.
    pub fn hold(&mut self, addr: IpAddr, packet: P) -> Option<P> {
        let Some(entry) = self.entries.get_mut(&addr) else {
            return Some(packet);
        };
        entry.held.push_back(packet);
        if entry.held.len() > self.config.held {
            return entry.held.pop_front();
        }
        None
    }

    /// `addr` is said to be at `mac`.
    pub fn learn(&mut self, addr: IpAddr, mac: MacAddr, heard: Heard, now: Instant) {
        if mac.is_multicast() {
            return;
        }
        let state = match heard {
            Heard::Answer => State::Reachable {
                mac,
                until: now + self.config.reachable,
            },
            Heard::Hint | Heard::Claim | Heard::Moved => State::Stale { mac },
        };
        let Some(entry) = self.entries.get_mut(&addr) else {
            if heard == Heard::Claim {
                self.enter(addr, state, now);
            }
            return;
        };
        entry.state = match (entry.state, heard) {
            (State::Fixed { .. }, _) => return,
            (State::Incomplete { .. }, _) | (_, Heard::Answer) => state,
            // What it says is what is known.
            (
                State::Reachable { mac: known, .. }
                | State::Stale { mac: known }
                | State::Probe { mac: known, .. },
                _,
            ) if known == mac => return,
            // It may be elsewhere: it is asked (RFC 4861 section 7.2.5).
            (State::Reachable { mac: known, .. }, Heard::Hint) => State::Stale { mac: known },
            (_, Heard::Hint) => return,
            (_, Heard::Claim | Heard::Moved) => state,
        };
        self.released
            .extend(entry.held.drain(..).map(|packet| (mac, packet)));
        self.latest = None;
    }

    /// A packet that was held, and where it goes.
    #[inline]
    pub fn poll_released(&mut self) -> Option<(MacAddr, P)> {
        self.released.pop_front()
    }

    /// A packet that was held for a neighbour which does not answer.
    pub fn poll_failed(&mut self) -> Option<(IpAddr, P)> {
        self.failed.pop_front()
    }

    /// Whether one of the three that can be polled may have something.
    #[inline]
    pub fn has_news(&self, now: Instant) -> bool {
        now >= self.ask_at || !self.released.is_empty() || !self.failed.is_empty()
    }

    /// A question to send now. Also where neighbours that do not answer are given up.
    #[inline]
    pub fn poll_solicitation(&mut self, now: Instant) -> Option<Solicitation> {
        if now < self.ask_at {
            return None;
        }
        self.due(now)
    }

    fn due(&mut self, now: Instant) -> Option<Solicitation> {
        let mut next = Instant::MAX;
        let mut solicitation = None;
        let mut dead = Vec::new();
        for (&target, entry) in self.entries.iter_mut() {
            let (asked, ask_at, last_known) = match &mut entry.state {
                State::Incomplete { asked, ask_at } => (asked, ask_at, None),
                State::Probe { mac, asked, ask_at } => (asked, ask_at, Some(*mac)),
                _ => continue,
            };
            if *ask_at <= now {
                if *asked >= self.config.questions {
                    dead.push(target);
                    continue;
                }
                if solicitation.is_none() {
                    *asked += 1;
                    *ask_at = now + self.config.retransmit;
                    solicitation = Some(Solicitation { target, last_known });
                }
            }
            next = next.min(*ask_at);
        }
        self.ask_at = next;
        for target in dead {
            self.latest = None;
            if let Some(entry) = self.entries.remove(&target) {
                self.failed
                    .extend(entry.held.into_iter().map(|packet| (target, packet)));
            }
        }
        solicitation
    }

    /// When to call [`poll_solicitation`](Self::poll_solicitation) next.
    pub fn poll_timeout(&self) -> Option<Instant> {
        (self.ask_at != Instant::MAX).then_some(self.ask_at)
    }

    /// Neighbours remembered.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether nobody is known.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    fn enter(&mut self, addr: IpAddr, state: State, now: Instant) {
        if self.entries.len() >= self.config.capacity.max(1)
            && let Some(oldest) = self
                .entries
                .iter()
                .filter(|(_, e)| !matches!(e.state, State::Fixed { .. }))
                .min_by_key(|(_, e)| e.used)
                .map(|&(addr, _)| addr)
            && let Some(gone) = self.entries.remove(&oldest)
        {
            self.latest = None;
            self.failed
                .extend(gone.held.into_iter().map(|packet| (oldest, packet)));
        }
        let entry = Entry {
            state,
            used: now,
            held: VecDeque::new(),
        };
        self.entries.insert(addr, entry);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xa]);
    const B: MacAddr = MacAddr([2, 0, 0, 0, 0, 0xb]);

    fn ip(n: u8) -> IpAddr {
        IpAddr::from([10, 0, 0, n])
    }
    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }
    fn cache() -> NeighborCache<u32> {
        NeighborCache::new(NeighborConfig {
            capacity: 4,
            held: 2,
            ..NeighborConfig::default()
        })
    }

    #[test]
    fn asked_held_released() {
        let mut c = cache();
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Asked);
        assert_eq!(c.hold(ip(1), 1), None);
        assert_eq!(c.hold(ip(1), 2), None);
        assert_eq!(c.hold(ip(1), 3), Some(1), "bounded");
        let asked = c.poll_solicitation(at(0)).unwrap();
        assert_eq!((asked.target, asked.last_known), (ip(1), None));
        assert_eq!(c.poll_solicitation(at(0)), None);
        assert_eq!(c.poll_timeout(), Some(at(1)));
        c.learn(ip(1), A, Heard::Answer, at(0));
        assert_eq!(c.poll_released(), Some((A, 2)));
        assert_eq!(c.poll_released(), Some((A, 3)));
        assert_eq!(c.poll_released(), None);
        assert_eq!(c.resolve(ip(1), at(29)), Resolution::Known(A));
        assert_eq!(c.poll_solicitation(at(29)), None);
    }

    #[test]
    fn the_silent_are_given_up() {
        let mut c = cache();
        c.resolve(ip(1), at(0));
        c.hold(ip(1), 7);
        let mut asked = 0;
        for t in 0..10 {
            while c.poll_solicitation(at(t)).is_some() {
                asked += 1;
            }
        }
        assert_eq!(asked, 3);
        assert_eq!(c.poll_failed(), Some((ip(1), 7)));
        assert!(c.is_empty());
        assert_eq!(c.poll_timeout(), None);
    }

    #[test]
    fn used_while_it_is_asked_again_and_forgotten_if_silent() {
        let mut c = cache();
        c.resolve(ip(1), at(0));
        c.poll_solicitation(at(0));
        c.learn(ip(1), A, Heard::Answer, at(0));
        assert_eq!(c.resolve(ip(1), at(31)), Resolution::Known(A));
        assert_eq!(
            c.poll_solicitation(at(31)),
            Some(Solicitation {
                target: ip(1),
                last_known: Some(A)
            })
        );
        for t in 31..40 {
            while c.poll_solicitation(at(t)).is_some() {}
        }
        assert_eq!(c.resolve(ip(1), at(40)), Resolution::Asked);
    }

    #[test]
    fn only_answers_and_claims_are_believed() {
        let mut c = cache();
        c.learn(ip(1), A, Heard::Answer, at(0));
        assert!(c.is_empty(), "nobody asked");
        c.learn(ip(1), A, Heard::Claim, at(0));
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Known(A));
        c.learn(ip(1), B, Heard::Hint, at(0));
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Known(A));
        c.learn(ip(1), MacAddr::BROADCAST, Heard::Answer, at(0));
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Known(A));
        c.learn(ip(1), B, Heard::Answer, at(0));
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Known(B));
        c.fix(ip(1), A, at(0));
        c.learn(ip(1), B, Heard::Answer, at(0));
        assert_eq!(c.resolve(ip(1), at(1000)), Resolution::Known(A));
        c.learn(ip(2), B, Heard::Claim, at(0));
        assert_eq!(c.resolve(ip(2), at(0)), Resolution::Known(B));
    }

    #[test]
    fn the_longest_unused_gives_way() {
        let mut c = cache();
        c.fix(ip(0), A, at(0));
        for n in 1..=9 {
            c.learn(ip(n), B, Heard::Claim, at(u64::from(n)));
            assert!(c.len() <= 4);
        }
        assert_eq!(c.resolve(ip(0), at(9)), Resolution::Known(A));
        assert_eq!(c.resolve(ip(9), at(9)), Resolution::Known(B));
        assert_eq!(c.resolve(ip(1), at(9)), Resolution::Asked);
    }

    /// RFC 4861 section 7.2.5: an advertisement that nobody asked for changes where a known
    /// neighbour is, if it says so, and makes nobody known.
    #[test]
    fn rfc4861_7_2_5_a_known_neighbour_may_move() {
        let asked = |target, last_known| Some(Solicitation { target, last_known });
        let known = || {
            let mut c = cache();
            c.resolve(ip(1), at(0));
            c.poll_solicitation(at(0));
            c.learn(ip(1), A, Heard::Answer, at(0));
            assert_eq!(c.resolve(ip(1), at(1)), Resolution::Known(A));
            c
        };
        let mut c = known();
        c.learn(ip(1), B, Heard::Moved, at(1));
        c.learn(ip(2), B, Heard::Moved, at(1));
        assert_eq!(c.len(), 1, "nobody asked");
        // Not for sure: it is asked there.
        assert_eq!(c.resolve(ip(1), at(1)), Resolution::Known(B));
        assert_eq!(c.poll_solicitation(at(1)), asked(ip(1), Some(B)));
        // Without the override flag it stays where it is, but is asked.
        let mut c = known();
        c.learn(ip(1), B, Heard::Hint, at(1));
        assert_eq!(c.resolve(ip(1), at(1)), Resolution::Known(A));
        assert_eq!(c.poll_solicitation(at(1)), asked(ip(1), Some(A)));
        // What it says anew changes nothing.
        for heard in [Heard::Moved, Heard::Hint, Heard::Claim] {
            let mut c = known();
            c.learn(ip(1), A, heard, at(1));
            assert_eq!(c.resolve(ip(1), at(1)), Resolution::Known(A));
            assert_eq!(c.poll_solicitation(at(1)), None, "{heard:?}");
        }
        let mut c = cache();
        c.fix(ip(1), A, at(0));
        c.learn(ip(1), B, Heard::Moved, at(0));
        assert_eq!(c.resolve(ip(1), at(0)), Resolution::Known(A));
    }
}
