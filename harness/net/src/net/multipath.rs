//! Which of several equal paths a packet takes.
//!
//! - **By flow** (ECMP, RFC 2992): a hash of addresses and ports, with a salt of the switch.
//! - **By flowlet** (Vanini et al., "Let It Flow", NSDI 2017; the table of CONGA, SIGCOMM 2014,
//!   section 3.4): a flow that has been silent for longer than a gap takes a path drawn anew. If
//!   the gap is longer than the paths' delays differ, no packet overtakes another of its flow.
//! - **By packet** (random packet spraying, Dixit et al., INFOCOM 2013): each packet takes a path
//!   drawn for it. Not round robin, which falls in step with traffic: where data and ACKs
//!   alternate, all data would take one of two paths.
//!
//! With one salt for all switches a switch sees only flows that were hashed alike before it, and
//! chooses alike: in three tiers all traffic polarises on a few of the links.
//!
//! Leaves out: weights, congestion-aware choices (CONGA's own, DRILL), resilient hashing, and the
//! age bits by which hardware measures the gap (here it is exact).

use crate::sim::rng::{Component, Stream, mix};
use crate::sim::time::SimTime;

/// How a switch chooses among equal paths.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Multipath {
    /// For what the choice is made.
    pub per: PathChoice,
    /// What goes into the hash beside the flow.
    pub salt: Salt,
}

/// For what a path is chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum PathChoice {
    /// Once for each flow, by its hash.
    #[default]
    Flow,
    /// For each burst of a flow, at random.
    Flowlet {
        /// A flow that is silent for longer begins another flowlet.
        gap: SimTime,
        /// Entries of the switch's table, 16 bytes each; flows that share an entry are one flow.
        /// [`FLOWLET_ENTRIES`] in hardware. At least one, at most [`MOST_ENTRIES`].
        entries: u32,
    },
    /// For each packet, at random.
    Packet,
}

/// Entries of the flowlet table of CONGA's leaf switches (SIGCOMM 2014, section 3.4).
pub const FLOWLET_ENTRIES: u32 = 1 << 16;

/// Most entries of a flowlet table: 256 MiB a switch.
pub const MOST_ENTRIES: u32 = 1 << 24;

/// What goes into the hash beside the flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Salt {
    /// A number of each switch's own, drawn from the seed of the run.
    #[default]
    PerSwitch,
    /// One number for all switches, drawn from the seed: what polarises.
    Common,
}

impl Multipath {
    /// Whether it can be: a flowlet table has 1 to [`MOST_ENTRIES`] entries.
    pub const fn is_possible(&self) -> bool {
        match self.per {
            PathChoice::Flowlet { entries, .. } => 1 <= entries && entries <= MOST_ENTRIES,
            PathChoice::Flow | PathChoice::Packet => true,
        }
    }
}

/// A switch's choice at work.
#[derive(Debug)]
pub(crate) struct Chooser {
    salt: u64,
    state: State,
}

#[derive(Debug)]
enum State {
    Flow,
    Flowlet(Box<Flowlets>),
    Packet(Stream),
}

/// What a switch remembers of flowlets.
#[derive(Debug)]
struct Flowlets {
    gap: SimTime,
    entries: u32,
    /// Empty until the first packet that has a choice.
    table: Vec<Flowlet>,
    random: Stream,
}

#[derive(Clone, Copy, Debug)]
struct Flowlet {
    /// When its last packet came.
    last: SimTime,
    /// What it drew; `None` of an entry without a flowlet.
    draw: Option<u32>,
}

impl Chooser {
    /// Of switch `switch` in the run with `seed`.
    pub(crate) fn new(spec: Multipath, seed: u64, switch: u32) -> Self {
        let own = match spec.salt {
            Salt::PerSwitch => u64::from(switch) + 1,
            Salt::Common => 0,
        };
        let random = || Stream::new(seed, Component::Path, u64::from(switch));
        Self {
            salt: Stream::new(seed, Component::PathSalt, own).next_u64(),
            state: match spec.per {
                PathChoice::Flow => State::Flow,
                PathChoice::Flowlet { gap, entries } => State::Flowlet(Box::new(Flowlets {
                    gap,
                    entries: entries.max(1),
                    table: Vec::new(),
                    random: random(),
                })),
                PathChoice::Packet => State::Packet(random()),
            },
        }
    }

    /// Which of `count` paths a packet takes that comes at `now`, of a flow with this hash.
    pub(crate) fn choose(&mut self, now: SimTime, flow: u32, count: u32) -> u32 {
        let draw = match &mut self.state {
            State::Flow => salted(self.salt, flow),
            State::Flowlet(flowlets) => flowlets.draw(now, salted(self.salt, flow)),
            State::Packet(random) => random.next_u32(),
        };
        scale(draw, count)
    }

    /// The same of the next packet of a flow, if it is certain.
    pub(crate) fn foresee(&self, flow: u32, count: u32) -> Option<u32> {
        match &self.state {
            State::Flow => Some(scale(salted(self.salt, flow), count)),
            State::Flowlet(_) | State::Packet(_) => None,
        }
    }
}

impl Flowlets {
    fn draw(&mut self, now: SimTime, hash: u32) -> u32 {
        if self.table.is_empty() {
            let none = Flowlet {
                last: SimTime::ZERO,
                draw: None,
            };
            self.table = vec![none; self.entries as usize];
        }
        let entry = &mut self.table[scale(hash, self.entries) as usize];
        let going = entry.draw.filter(|_| now - entry.last <= self.gap);
        let draw = going.unwrap_or_else(|| self.random.next_u32());
        *entry = Flowlet {
            last: now,
            draw: Some(draw),
        };
        draw
    }
}

/// The hash of a flow at a switch with this salt.
fn salted(salt: u64, flow: u32) -> u32 {
    (mix(salt ^ u64::from(flow)) >> 32) as u32
}

/// A number below `count` from 32 even bits: unbiased enough, and no division.
const fn scale(bits: u32, count: u32) -> u32 {
    ((bits as u64 * count as u64) >> 32) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn chooser(per: PathChoice, switch: u32) -> Chooser {
        let salt = Salt::PerSwitch;
        Chooser::new(Multipath { per, salt }, 1, switch)
    }

    fn us(us: u64) -> SimTime {
        SimTime::from_micros(us)
    }

    /// Counts of `choices` below four, each within four standard deviations of a quarter.
    fn assert_even(choices: impl Iterator<Item = u32>) {
        let mut counts = [0u32; 4];
        choices.for_each(|c| counts[c as usize] += 1);
        let n: u32 = counts.iter().sum();
        let four_sigma = 4.0 * (f64::from(n) * 3.0 / 16.0).sqrt();
        for count in counts {
            assert!(
                (f64::from(count) - f64::from(n) / 4.0).abs() < four_sigma,
                "{counts:?}"
            );
        }
    }

    #[test]
    fn flows_spread_evenly_and_each_keeps_its_path() {
        let mut c = chooser(PathChoice::Flow, 0);
        assert_even((0..40_000).map(|flow| c.choose(us(0), flow, 4)));
        for flow in 0..100 {
            let path = c.choose(us(0), flow, 4);
            assert_eq!(c.choose(us(999), flow, 4), path);
            assert_eq!(c.foresee(flow, 4), Some(path));
        }
    }

    /// Of the flows that one switch sends one way, another sends a quarter each way; with one salt
    /// for both it sends them all one way.
    #[test]
    fn salts_make_switches_choose_independently() {
        for (salt, ways) in [(Salt::PerSwitch, 4), (Salt::Common, 1)] {
            let spec = Multipath {
                per: PathChoice::Flow,
                salt,
            };
            let mut first = Chooser::new(spec, 7, 0);
            let mut second = Chooser::new(spec, 7, 1);
            let same = (0..40_000).filter(|&flow| first.choose(us(0), flow, 4) == 2);
            let then: Vec<u32> = same.map(|flow| second.choose(us(0), flow, 4)).collect();
            assert_eq!(then.iter().collect::<BTreeSet<_>>().len(), ways);
            if ways == 4 {
                assert_even(then.into_iter());
            }
        }
    }

    #[test]
    fn another_seed_is_another_salt() {
        let path = |seed, flow| {
            Chooser::new(Multipath::default(), seed, 0)
                .foresee(flow, 1 << 20)
                .unwrap()
        };
        assert!(
            (0..20).all(|flow| path(1, flow) == path(1, flow) && path(1, flow) != path(2, flow))
        );
    }

    #[test]
    fn a_flowlet_ends_after_a_gap_and_not_before() {
        let gap = us(100);
        let mut c = chooser(PathChoice::Flowlet { gap, entries: 64 }, 0);
        let mut now = SimTime::ZERO;
        let (first, count) = (c.choose(now, 5, 1 << 20), 1 << 20);
        for _ in 0..50 {
            now += gap;
            assert_eq!(c.choose(now, 5, count), first, "silent for the gap only");
        }
        now += gap + SimTime::from_picos(1);
        assert_ne!(c.choose(now, 5, count), first);
        assert_eq!(c.foresee(5, count), None);
        // Each flowlet draws anew, and evenly.
        assert_even((0..40_000).map(|_| {
            now += us(101);
            c.choose(now, 5, 4)
        }));
    }

    /// Flows without number leave the table as it is; those that share an entry share a path.
    #[test]
    fn the_flowlet_table_is_bounded() {
        let gap = us(100);
        let mut c = chooser(PathChoice::Flowlet { gap, entries: 8 }, 0);
        let paths: BTreeSet<u32> = (0..10_000).map(|f| c.choose(us(1), f, 1 << 30)).collect();
        assert_eq!(paths.len(), 8);
        let State::Flowlet(flowlets) = &c.state else {
            panic!("a flowlet table");
        };
        assert_eq!((flowlets.table.len(), flowlets.table.capacity()), (8, 8));
    }

    #[test]
    fn packets_are_sprayed_evenly_whatever_their_flow() {
        let mut c = chooser(PathChoice::Packet, 0);
        assert_even((0..40_000).map(|_| c.choose(us(0), 1, 4)));
    }
}
