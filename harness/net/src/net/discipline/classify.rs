//! Which of a discipline's queues a packet goes to: by its DSCP, or by a keyed hash of its flow.

use narrows::siphash::SipKey;

use crate::sim::rng::Stream;

/// Number of traffic classes, as IEEE 802.1Q has them.
pub const CLASSES: usize = 8;

/// The traffic class of each DSCP, as switches map it: 0 to 7, a higher number a higher class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DscpMap([u8; 64]);

impl Default for DscpMap {
    /// The upper three bits: class selectors CS0 to CS7 are classes 0 to 7, and AFxy is class x
    /// (RFC 2474 section 4.2.2, RFC 4594). What switches do unless they are told otherwise.
    fn default() -> Self {
        let mut map = [0; 64];
        for (dscp, class) in (0u8..).zip(&mut map) {
            *class = dscp >> 3;
        }
        Self(map)
    }
}

impl DscpMap {
    /// All in one class; more than 7 is 7.
    pub const fn all(class: u8) -> Self {
        Self([Self::class(class); 64])
    }

    /// The same with `dscp` (its lower six bits) in `class`; more than 7 is 7.
    #[must_use]
    pub const fn with(mut self, dscp: u8, class: u8) -> Self {
        self.0[(dscp & 63) as usize] = Self::class(class);
        self
    }

    const fn class(class: u8) -> u8 {
        if class < CLASSES as u8 {
            class
        } else {
            CLASSES as u8 - 1
        }
    }

    /// The class of `dscp` (its lower six bits), below [`CLASSES`].
    pub const fn class_of(&self, dscp: u8) -> usize {
        self.0[(dscp & 63) as usize] as usize
    }
}

/// Queues of flows by a keyed hash, each made when the first packet comes that belongs there.
///
/// Two flows with different [`flow_hash`](crate::net::Packet::flow_hash) share one of n queues with
/// probability 1/n, and which do is another matter for each port and seed (RFC 8290 section 4.1.1
/// perturbs its hash for that). Flows of one `flow_hash` always do.
#[derive(Debug)]
pub struct FlowQueues<Q> {
    key: SipKey,
    /// By bucket: which of `queues`, or [`NONE`].
    buckets: Box<[u32]>,
    queues: Vec<Q>,
}

const NONE: u32 = u32::MAX;

impl<Q: Default> FlowQueues<Q> {
    /// For `count` queues, at least one; the key is drawn from `stream`.
    pub fn new(count: u32, stream: &mut Stream) -> Self {
        Self {
            key: SipKey::new(stream.next_u64(), stream.next_u64()),
            buckets: vec![NONE; count.max(1) as usize].into(),
            queues: Vec::new(),
        }
    }

    /// The bucket of a flow.
    pub fn bucket(&self, flow: u32) -> usize {
        let hash = self.key.sip13([flow.into()]) >> 32;
        ((hash * self.buckets.len() as u64) >> 32) as usize
    }

    /// The number of a flow's queue, for [`Self::get`].
    pub fn of(&mut self, flow: u32) -> u32 {
        let bucket = self.bucket(flow);
        let queue = &mut self.buckets[bucket];
        if *queue == NONE {
            *queue = self.queues.len() as u32;
            self.queues.push(Q::default());
        }
        *queue
    }

    /// A queue by its number.
    ///
    /// # Panics
    /// If [`Self::of`] never gave that number.
    pub fn get(&mut self, queue: u32) -> &mut Q {
        &mut self.queues[queue as usize]
    }

    /// All queues that were ever used, by number.
    pub fn iter(&self) -> impl Iterator<Item = (u32, &Q)> {
        (0..).zip(&self.queues)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Component;

    #[test]
    fn rfc2474_4_2_2_class_selectors_are_classes_unless_told_otherwise() {
        let map = DscpMap::default();
        let selectors: Vec<_> = (0..8u8).map(|cs| map.class_of(cs << 3)).collect();
        assert_eq!(selectors, [0, 1, 2, 3, 4, 5, 6, 7]);
        // AF11, AF23, EF.
        assert_eq!([10, 22, 46].map(|d| map.class_of(d)), [1, 2, 5]);
        let map = map.with(46, 200).with(64, 3);
        assert_eq!([46, 0, 64].map(|d| map.class_of(d)), [7, 3, 3]);
        assert_eq!(DscpMap::all(9).class_of(63), 7);
    }

    /// A thousand flows over 1024 queues: about 1024 (1 - e^(-1000/1024)) = 639 are used, and
    /// another key shares other ones.
    #[test]
    fn the_key_decides_who_shares_a_queue() {
        let table = |seed| {
            let mut stream = Stream::new(seed, Component::Aqm, 0);
            FlowQueues::<u8>::new(1_024, &mut stream)
        };
        let used = |t: &FlowQueues<u8>| {
            let buckets = (0..1_000u32).map(|f| t.bucket(f.wrapping_mul(0x9e37_79b9)));
            buckets.collect::<std::collections::BTreeSet<_>>().len()
        };
        let shares = |t: &FlowQueues<u8>| (1..10_000).find(|&f| t.bucket(f) == t.bucket(0));
        let (a, b) = (table(1), table(2));
        for t in [&a, &b] {
            assert!((560..720).contains(&used(t)), "{}", used(t));
        }
        assert_ne!(shares(&a), shares(&b));
        let mut a = a;
        let (first, second) = (a.of(7), a.of(7));
        assert_eq!((first, second, a.iter().count()), (0, 0, 1));
    }
}
