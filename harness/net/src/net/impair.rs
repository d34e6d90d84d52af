//! Links that lose, delay, repeat, damage or mark packets.
//!
//! Acts on packets as they reach the far end of a link, so an impaired packet has taken its
//! time on the wire. Each kind draws from its own stream, once for every packet whatever the
//! others decide, so that switching one on does not change another. Order: a lost packet is
//! gone, and so is one that is longer than the link carries; otherwise it is corrupted, then marked, then duplicated, then held back (the copy is not).
//!
//! A packet that is held back reaches the node later by the extra delay and may be overtaken.
//! Leaves out: bursts of losses other than scripted ones, errors that depend on length.

use crate::sim::rng::{Component, Probability, Stream};
use crate::sim::time::SimTime;

/// Which packets of a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub enum When {
    /// None.
    #[default]
    Never,
    /// Each with this probability, independently.
    Chance(Probability),
    /// Those with these numbers; the first packet of the link is number 1.
    Packets(Vec<u64>),
    /// Those whose number is a multiple of this; zero strikes none.
    EachNth(u64),
}

impl When {
    /// The same with packet numbers in ascending order.
    fn in_order(&self) -> Self {
        let mut when = self.clone();
        if let Self::Packets(numbers) = &mut when {
            numbers.sort_unstable();
        }
        when
    }
}

/// What happens on a link.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct ImpairSpec {
    /// Packets that are lost.
    pub loss: When,
    /// Packets that arrive damaged.
    pub corrupt: When,
    /// Packets that arrive twice.
    pub duplicate: When,
    /// ECN-capable packets that are marked with Congestion Experienced, whatever waits.
    pub mark: When,
    /// Packets that are held back.
    pub reorder: When,
    /// The least extra delay of those.
    pub reorder_min: SimTime,
    /// The greatest; each picosecond between is equally likely.
    pub reorder_max: SimTime,
    /// The longest IP packet that the link carries: longer ones are gone without a word
    /// ([`DropReason::TooLong`](super::stats::DropReason::TooLong)).
    pub mtu: Option<u32>,
}

impl ImpairSpec {
    /// Whether it does nothing.
    pub fn is_clean(&self) -> bool {
        let Self {
            loss,
            corrupt,
            duplicate,
            mark,
            reorder,
            mtu,
            ..
        } = self;
        let all = [loss, corrupt, duplicate, mark, reorder];
        mtu.is_none() && all.iter().all(|when| **when == When::Never)
    }
}

/// What happens to one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Fate {
    pub(crate) lost: bool,
    /// Noise to damage it with.
    pub(crate) corrupt: Option<u64>,
    pub(crate) duplicate: bool,
    pub(crate) marked: bool,
    /// Extra delay.
    pub(crate) hold: Option<SimTime>,
}

/// One kind of impairment: which packets, and its stream.
#[derive(Debug)]
struct Kind {
    when: When,
    stream: Stream,
}

impl Kind {
    fn new(when: &When, seed: u64, component: Component, link: u64) -> Self {
        Self {
            when: when.in_order(),
            stream: Stream::new(seed, component, link),
        }
    }

    fn strikes(&mut self, number: u64) -> bool {
        match &self.when {
            When::Never => false,
            When::Chance(p) => self.stream.chance(*p),
            When::Packets(numbers) => numbers.binary_search(&number).is_ok(),
            When::EachNth(0) => false,
            When::EachNth(n) => number.is_multiple_of(*n),
        }
    }
}

/// The impairments of a link at work.
#[derive(Debug)]
pub(crate) struct Impairments {
    number: u64,
    loss: Kind,
    corrupt: Kind,
    duplicate: Kind,
    mark: Kind,
    reorder: Kind,
    hold_min: SimTime,
    hold_max: SimTime,
    /// What is longer is gone.
    pub(crate) mtu: u32,
    /// Whether the host at the far end takes nothing now.
    pub(crate) deaf: bool,
}

impl Impairments {
    /// `None` if the link is clean.
    pub(crate) fn new(spec: &ImpairSpec, seed: u64, link: u64) -> Option<Box<Self>> {
        (!spec.is_clean()).then(|| Self::of(spec, seed, link))
    }

    /// Also of a clean link.
    pub(crate) fn of(spec: &ImpairSpec, seed: u64, link: u64) -> Box<Self> {
        Box::new(Self {
            deaf: false,
            number: 0,
            loss: Kind::new(&spec.loss, seed, Component::Loss, link),
            corrupt: Kind::new(&spec.corrupt, seed, Component::Corrupt, link),
            duplicate: Kind::new(&spec.duplicate, seed, Component::Duplicate, link),
            mark: Kind::new(&spec.mark, seed, Component::Mark, link),
            reorder: Kind::new(&spec.reorder, seed, Component::Reorder, link),
            hold_min: spec.reorder_min,
            hold_max: spec.reorder_max,
            mtu: spec.mtu.unwrap_or(u32::MAX),
        })
    }

    /// From now on this happens. Packets are counted anew; the streams go on.
    pub(crate) fn retune(&mut self, spec: &ImpairSpec) {
        self.number = 0;
        self.loss.when = spec.loss.in_order();
        self.corrupt.when = spec.corrupt.in_order();
        self.duplicate.when = spec.duplicate.in_order();
        self.mark.when = spec.mark.in_order();
        self.reorder.when = spec.reorder.in_order();
        self.hold_min = spec.reorder_min;
        self.hold_max = spec.reorder_max;
        self.mtu = spec.mtu.unwrap_or(u32::MAX);
    }

    /// The fate of the next packet of the link.
    pub(crate) fn next(&mut self) -> Fate {
        self.number += 1;
        let n = self.number;
        let spread = self.hold_max - self.hold_min;
        Fate {
            lost: self.loss.strikes(n),
            corrupt: self
                .corrupt
                .strikes(n)
                .then(|| self.corrupt.stream.next_u64()),
            duplicate: self.duplicate.strikes(n),
            marked: self.mark.strikes(n),
            hold: self
                .reorder
                .strikes(n)
                .then(|| self.hold_min + self.reorder.stream.jitter(spread)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(spec: &ImpairSpec, n: usize) -> Vec<Fate> {
        let mut i = Impairments::new(spec, 3, 5).unwrap();
        (0..n).map(|_| i.next()).collect()
    }

    #[test]
    fn scripts_hit_the_packets_they_name() {
        let spec = ImpairSpec {
            loss: When::Packets(vec![4, 2]),
            duplicate: When::Packets(vec![1]),
            mark: When::EachNth(2),
            reorder: When::EachNth(2),
            ..ImpairSpec::default()
        };
        let f = fates(&spec, 5);
        let held: Vec<_> = f.iter().map(|f| f.hold.is_some()).collect();
        assert_eq!(held, [false, true, false, true, false]);
        assert_eq!(
            f.iter().map(|f| f.lost).collect::<Vec<_>>(),
            [false, true, false, true, false]
        );
        assert_eq!(f.iter().filter(|f| f.duplicate).count(), 1);
        assert!(f[0].duplicate);
        assert!(f.iter().zip(&held).all(|(f, held)| f.marked == *held));
    }

    #[test]
    fn one_kind_does_not_shift_another() {
        let p = When::Chance(Probability::ratio(1, 5));
        let loss = ImpairSpec {
            loss: p.clone(),
            ..ImpairSpec::default()
        };
        let all = ImpairSpec {
            corrupt: p.clone(),
            duplicate: p.clone(),
            mark: p.clone(),
            reorder: p.clone(),
            reorder_min: SimTime::from_nanos(10),
            reorder_max: SimTime::from_nanos(20),
            ..loss.clone()
        };
        let (a, b) = (fates(&loss, 2_000), fates(&all, 2_000));
        assert!(a.iter().zip(&b).all(|(a, b)| a.lost == b.lost));
        let held: Vec<_> = b.iter().filter_map(|f| f.hold).collect();
        assert!((340..460).contains(&held.len()), "{}", held.len());
        let ends = (SimTime::from_nanos(10), SimTime::from_nanos(20));
        assert!(held.iter().all(|h| *h >= ends.0 && *h <= ends.1));
        assert!(b.iter().any(|f| f.lost != f.duplicate));
        assert!(b.iter().any(|f| f.marked != f.duplicate));
    }

    #[test]
    fn a_clean_link_has_no_state() {
        assert!(Impairments::new(&ImpairSpec::default(), 1, 1).is_none());
    }
}
