//! Which bytes beyond RCV.NXT have come, and the SACK blocks that tell the peer (RFC 2018, with
//! D-SACK of RFC 2883).
//!
//! The bytes themselves lie in the receive buffer; here are only ranges of stream offsets. With
//! nothing out of order every call is a comparison or two.

use super::few::Few;
use crate::prefetch::prefetch_any;
use crate::wire::{SackBlock, SackBlocks, Seq};
use core::ops::Range;
use narrows_congestion::hint::cold_path;

/// What [`Reassembly::insert`] made of a segment's text.
#[must_use]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Inserted {
    /// It continues the stream, and nothing beyond was held: RCV.NXT moves to `rcv_nxt`.
    InOrder {
        /// The new RCV.NXT.
        rcv_nxt: u64,
    },
    /// It continues the stream while data beyond a gap was held, so it fills all or part of a
    /// gap and is to be acknowledged at once (RFC 5681 section 4.2): RCV.NXT moves to `rcv_nxt`.
    FilledGap {
        /// The new RCV.NXT.
        rcv_nxt: u64,
    },
    /// Some or all of it is new, and there is a gap before it. Acknowledge at once.
    OutOfOrder,
    /// No byte of it is new. Acknowledge at once; the next SACK option reports it as D-SACK.
    Duplicate,
    /// It would make one range more than may be kept. Nothing of it was taken; the peer sends it
    /// again.
    TooManyRanges,
    /// There was no byte in it.
    Empty,
}

/// A range, found by its start.
#[derive(Clone, Copy, Debug)]
struct Held {
    end: u64,
    /// When a segment last fell into this range, in insertions; each has another.
    latest: u64,
}

/// The ranges received beyond RCV.NXT, as stream offsets.
///
/// A segment costs the logarithm of how many there are, and what it joins; a SACK option the blocks
/// that it has. A range takes [`RANGE_MEMORY`](Self::RANGE_MEMORY) at most.
#[derive(Clone, Debug, Default)]
pub struct Reassembly {
    /// `None` while there is nothing in it: most connections are mostly in order.
    disorder: Option<Box<Disorder>>,
}

/// What is held beyond RCV.NXT, and what is to be told of it.
#[derive(Clone, Debug, Default)]
struct Disorder {
    /// Disjoint, not touching, all beyond RCV.NXT.
    held: Few<Held>,
    /// Where the ranges begin, by `latest`: the order of the SACK blocks.
    recent: Few<u64>,
    insertions: u64,
    /// The duplicate to report in the next SACK option, once.
    dsack: Option<Range<u64>>,
}

impl Reassembly {
    /// Bytes of memory that a range takes, at most. Of both trees: 24 and 16 bytes, in nodes for 11
    /// of which 5 are in use at least, and the nodes above them.
    pub const RANGE_MEMORY: usize = 128;
    /// What there is beside the ranges: the nodes that are there for the first.
    const FIRST_MEMORY: usize = size_of::<Disorder>() + 512;

    /// Asks for what is held.
    #[inline]
    pub(super) fn ask_for(&self) {
        prefetch_any(self.disorder.as_deref());
    }

    /// Whether nothing beyond RCV.NXT is held.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.disorder.as_ref().is_none_or(|d| d.held.is_empty())
    }

    /// Whether there is anything to report of what came out of order or twice.
    #[inline]
    pub(crate) fn has_disorder(&self) -> bool {
        self.disorder.is_some()
    }

    /// How many bytes beyond RCV.NXT are held.
    pub fn bytes(&self) -> u64 {
        self.ranges().map(|held| held.end - held.start).sum()
    }

    /// Bytes of memory owned, at most.
    pub(crate) fn memory(&self) -> usize {
        self.disorder.as_ref().map_or(0, |d| {
            Self::FIRST_MEMORY + d.held.len() * Self::RANGE_MEMORY
        })
    }

    /// Bytes of memory it takes to hold one more range.
    pub(crate) fn memory_of_another(&self) -> usize {
        let first = self.disorder.is_none();
        Self::RANGE_MEMORY + if first { Self::FIRST_MEMORY } else { 0 }
    }

    /// The ranges held, ascending.
    pub fn ranges(&self) -> impl DoubleEndedIterator<Item = Range<u64>> {
        let held = self.disorder.iter().flat_map(|d| d.held.iter());
        held.map(|(start, held)| start..held.end)
    }

    /// Account for a segment's text `range`, cut to the receive window, while RCV.NXT is
    /// `rcv_nxt` and not more than `max_ranges` separate ranges may be kept. `store` is called for each part that is new, ascending.
    ///
    /// Text before RCV.NXT or held already is noted as a D-SACK block for the next
    /// [`sack_blocks`](Self::sack_blocks): of several separate duplicate parts the first
    /// (RFC 2883 section 4.2.2). If the note of an earlier segment has not been taken yet it is
    /// extended when both touch, and replaced when they do not.
    pub fn insert(
        &mut self,
        range: Range<u64>,
        rcv_nxt: u64,
        max_ranges: usize,
        mut store: impl FnMut(Range<u64>),
    ) -> Inserted {
        let Range { start, end } = range;
        if start >= end {
            return Inserted::Empty;
        }
        if start == rcv_nxt && self.is_empty() {
            store(start..end);
            return Inserted::InOrder { rcv_nxt: end };
        }
        let disorder = self.disorder.get_or_insert_default();
        let inserted = disorder.insert(start..end, rcv_nxt, max_ranges, store);
        self.let_go_of_memory();
        inserted
    }

    /// The blocks for the SACK option of the next acknowledgement, at most `max` (four at most
    /// in any case), with stream offsets turned into sequence numbers by `to_seq`.
    ///
    /// A pending D-SACK block comes first and is forgotten, as it is reported once (RFC 2883
    /// section 4); with `max` 0 it stays. Then the range the latest segment fell into, then the
    /// others by how recently that was true of them, which is how recently they were reported
    /// first (RFC 2018 section 4).
    pub fn sack_blocks(&mut self, to_seq: impl Fn(u64) -> Seq, max: usize) -> SackBlocks {
        let mut blocks = SackBlocks::EMPTY;
        let Some(disorder) = self.disorder.as_mut().filter(|_| max > 0) else {
            return blocks;
        };
        let mut report = |range: Range<u64>| {
            blocks.push(SackBlock {
                start: to_seq(range.start),
                end: to_seq(range.end),
            })
        };
        let mut most = max.min(4);
        if let Some(dsack) = disorder.dsack.take() {
            cold_path();
            most -= usize::from(report(dsack));
        }
        for (_, start) in disorder.recent.iter().rev().take(most) {
            if let Some(held) = disorder.held.get(start) {
                report(start..held.end);
            }
        }
        self.let_go_of_memory();
        blocks
    }

    /// Forget everything beyond RCV.NXT, as RFC 2018 section 8 allows a receiver that runs out
    /// of memory.
    pub fn clear(&mut self) {
        self.disorder = None;
    }

    /// The duplicate that waits to be reported is not.
    pub fn forget_dsack(&mut self) {
        if let Some(d) = &mut self.disorder {
            d.dsack = None;
        }
        self.let_go_of_memory();
    }

    #[inline]
    fn let_go_of_memory(&mut self) {
        if (self.disorder.as_deref()).is_some_and(|d| d.held.is_empty() && d.dsack.is_none()) {
            self.disorder = None;
        }
    }
}

impl Disorder {
    #[inline(never)] // Most segments are in order.
    fn insert(
        &mut self,
        range: Range<u64>,
        rcv_nxt: u64,
        max_ranges: usize,
        mut store: impl FnMut(Range<u64>),
    ) -> Inserted {
        let Range { start, end } = range;
        if start < rcv_nxt {
            self.note_duplicate(start..end.min(rcv_nxt));
            if end <= rcv_nxt {
                return Inserted::Duplicate;
            }
        }
        let from = start.max(rcv_nxt);
        // What it touches or overlaps: a range that begins before it, and those that begin in it.
        let below = (self.held.last_to(from)).filter(|(_, held)| held.end >= from);
        let next_within = |held: &Few<Held>| {
            let next = held.first_from(from + 1);
            next.filter(|(start, _)| *start <= end)
        };
        let mut joined = below.or_else(|| next_within(&self.held));
        if self.held.len() >= max_ranges && start > rcv_nxt && joined.is_none() {
            return Inserted::TooManyRanges;
        }

        let had_gap = !self.held.is_empty();
        let nothing_new = below.is_some_and(|(_, held)| held.end >= end);
        let mut merged = below.map_or(from, |(start, _)| start)..end;
        let mut at = from;
        let mut duplicate = None;
        while let Some((held_start, held)) = joined {
            if at < held_start {
                store(at..held_start);
            }
            let overlap = held_start.max(from)..held.end.min(end);
            if duplicate.is_none() && !overlap.is_empty() {
                duplicate = Some(overlap);
            }
            at = at.max(held.end);
            merged.end = merged.end.max(held.end);
            if held_start > from {
                self.forget(held_start);
            }
            joined = next_within(&self.held);
        }
        if at < end {
            store(at..end);
        }
        if let Some(overlap) = duplicate
            && start >= rcv_nxt
        {
            self.note_duplicate(overlap);
        }

        if start <= rcv_nxt {
            if let Some((start, _)) = below {
                self.forget(start);
            }
            let rcv_nxt = merged.end;
            return match had_gap {
                true => Inserted::FilledGap { rcv_nxt },
                false => Inserted::InOrder { rcv_nxt },
            };
        }
        self.hold(merged, below.map(|(_, held)| held));
        match nothing_new {
            true => Inserted::Duplicate,
            false => Inserted::OutOfOrder,
        }
    }

    /// A segment has fallen into `range`, which is held from now on; it `was` less, or is new.
    fn hold(&mut self, Range { start, end }: Range<u64>, was: Option<Held>) {
        let latest = match was {
            // The latest before, too.
            Some(held) if held.latest + 1 == self.insertions => held.latest,
            _ => {
                let latest = self.insertions;
                self.insertions += 1;
                if let Some(held) = was {
                    self.recent.remove(held.latest);
                }
                self.recent.insert(latest, start);
                latest
            }
        };
        self.held.insert(start, Held { end, latest });
    }

    /// The range that begins at `start` is held no more.
    fn forget(&mut self, start: u64) {
        if let Some(held) = self.held.remove(start) {
            self.recent.remove(held.latest);
        }
    }

    fn note_duplicate(&mut self, range: Range<u64>) {
        self.dsack = Some(match self.dsack.take() {
            Some(d) if d.start <= range.end && range.start <= d.end => {
                d.start.min(range.start)..d.end.max(range.end)
            }
            _ => range,
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::conn::few::tests::SEARCHES;
    use proptest::prelude::*;
    use std::ops::{Deref, DerefMut};

    /// With a number of ranges that may be kept.
    #[derive(Debug)]
    struct Limited {
        r: Reassembly,
        max_ranges: usize,
    }

    impl Limited {
        fn new(max_ranges: usize) -> Self {
            let r = Reassembly::default();
            Self { r, max_ranges }
        }

        fn insert(
            &mut self,
            range: Range<u64>,
            rcv_nxt: u64,
            store: impl FnMut(Range<u64>),
        ) -> Inserted {
            self.r.insert(range, rcv_nxt, self.max_ranges, store)
        }
    }

    impl Deref for Limited {
        type Target = Reassembly;
        fn deref(&self) -> &Reassembly {
            &self.r
        }
    }

    impl DerefMut for Limited {
        fn deref_mut(&mut self) -> &mut Reassembly {
            &mut self.r
        }
    }

    /// A receiver as the RFCs' examples have it: an acknowledgement per segment.
    struct Receiver {
        r: Limited,
        rcv_nxt: u64,
    }

    impl Receiver {
        fn at(rcv_nxt: u64) -> Self {
            Self {
                r: Limited::new(64),
                rcv_nxt,
            }
        }
        /// Takes the bytes `from` to `to`, exclusive; the acknowledgement and its SACK blocks.
        fn take(&mut self, from: u64, to: u64) -> (u64, Vec<(u32, u32)>) {
            if let Inserted::InOrder { rcv_nxt } | Inserted::FilledGap { rcv_nxt } =
                self.r.insert(from..to, self.rcv_nxt, |_| {})
            {
                self.rcv_nxt = rcv_nxt;
            }
            let blocks = self.r.sack_blocks(|o| Seq(o as u32), 4);
            (
                self.rcv_nxt,
                blocks
                    .as_slice()
                    .iter()
                    .map(|b| (b.start.0, b.end.0))
                    .collect(),
            )
        }
    }

    /// One row of an example: a segment, the acknowledgement, its SACK blocks.
    type Row<'a> = ((u64, u64), u64, &'a [(u32, u32)]);

    fn example(name: &str, rcv_nxt: u64, rows: &[Row<'_>]) {
        let mut receiver = Receiver::at(rcv_nxt);
        for (i, &((from, to), ack, blocks)) in rows.iter().enumerate() {
            assert_eq!(
                receiver.take(from, to),
                (ack, blocks.to_vec()),
                "{name}, row {i}"
            );
        }
    }

    #[test]
    fn rfc2018_section_7() {
        example(
            "case 1: the last four are lost",
            5000,
            &[
                ((5000, 5500), 5500, &[]),
                ((5500, 6000), 6000, &[]),
                ((6000, 6500), 6500, &[]),
                ((6500, 7000), 7000, &[]),
            ],
        );
        example(
            "case 2: the first is lost",
            5000,
            &[
                ((5500, 6000), 5000, &[(5500, 6000)]),
                ((6000, 6500), 5000, &[(5500, 6500)]),
                ((6500, 7000), 5000, &[(5500, 7000)]),
                ((7000, 7500), 5000, &[(5500, 7500)]),
                ((7500, 8000), 5000, &[(5500, 8000)]),
                ((8000, 8500), 5000, &[(5500, 8500)]),
                ((8500, 9000), 5000, &[(5500, 9000)]),
            ],
        );
        example(
            "case 3: every other one is lost, then the fourth and the second come",
            5000,
            &[
                ((5000, 5500), 5500, &[]),
                ((6000, 6500), 5500, &[(6000, 6500)]),
                ((7000, 7500), 5500, &[(7000, 7500), (6000, 6500)]),
                (
                    (8000, 8500),
                    5500,
                    &[(8000, 8500), (7000, 7500), (6000, 6500)],
                ),
                ((6500, 7000), 5500, &[(6000, 7500), (8000, 8500)]),
                ((5500, 6000), 7500, &[(8000, 8500)]),
            ],
        );
    }

    #[test]
    fn rfc2883_section_4() {
        example(
            "4.1.1 example 1: a duplicate after two lost acknowledgements",
            3000,
            &[
                ((3000, 3500), 3500, &[]),
                ((3500, 4000), 4000, &[]),
                ((3000, 3500), 4000, &[(3000, 3500)]),
            ],
        );
        example(
            "4.1.2 example 2: with out-of-order segments and a lost one",
            3000,
            &[
                ((3000, 3500), 3500, &[]),
                ((3500, 4000), 4000, &[]),
                ((4500, 5000), 4000, &[(4500, 5000)]),
                ((3000, 3500), 4000, &[(3000, 3500), (4500, 5000)]),
            ],
        );
        example(
            "4.1.3 example 3: a duplicate of an out-of-order segment",
            3500,
            &[
                ((3500, 4000), 4000, &[]),
                ((4500, 5000), 4000, &[(4500, 5000)]),
                ((5000, 5500), 4000, &[(4500, 5500)]),
                ((5000, 5500), 4000, &[(5000, 5500), (4500, 5500)]),
            ],
        );
        example(
            "4.2.1 example 4: a single duplicate subsegment",
            500,
            &[
                ((500, 1000), 1000, &[]),
                ((2000, 2500), 1000, &[(2000, 2500)]),
                ((1000, 1500), 1500, &[(2000, 2500)]),
                ((1000, 2000), 2500, &[(1000, 1500)]),
            ],
        );
        example(
            "4.2.2 example 5: two duplicate subsegments covered by the cumulative acknowledgement",
            500,
            &[
                ((500, 1000), 1000, &[]),
                ((3000, 3500), 1000, &[(3000, 3500)]),
                ((1000, 1500), 1500, &[(3000, 3500)]),
                ((2000, 2500), 1500, &[(2000, 2500), (3000, 3500)]),
                ((1000, 2500), 2500, &[(1000, 1500), (3000, 3500)]),
            ],
        );
        example(
            "4.2.3 example 6: two duplicate subsegments beyond the cumulative acknowledgement",
            500,
            &[
                ((500, 1000), 1000, &[]),
                ((1500, 2000), 1000, &[(1500, 2000)]),
                ((2500, 3000), 1000, &[(2500, 3000), (1500, 2000)]),
                ((1500, 3000), 1000, &[(1500, 2000), (1500, 3000)]),
            ],
        );
    }

    #[test]
    fn a_range_that_grows_is_told_as_it_is() {
        example(
            "two grow in turns until they meet",
            0,
            &[
                ((100, 200), 0, &[(100, 200)]),
                ((400, 500), 0, &[(400, 500), (100, 200)]),
                ((500, 600), 0, &[(400, 600), (100, 200)]),
                ((600, 700), 0, &[(400, 700), (100, 200)]),
                ((200, 300), 0, &[(100, 300), (400, 700)]),
                ((300, 350), 0, &[(100, 350), (400, 700)]),
                ((350, 400), 0, &[(100, 700)]),
                ((700, 800), 0, &[(100, 800)]),
                ((800, 900), 0, &[(100, 900)]),
                ((0, 100), 900, &[]),
                ((1000, 1100), 900, &[(1000, 1100)]),
                ((1100, 1200), 900, &[(1000, 1200)]),
            ],
        );
    }

    #[test]
    fn a_dsack_is_reported_once_and_waits_for_room() {
        let mut r = Limited::new(8);
        assert_eq!(
            r.insert(0..100, 500, |_| panic!("nothing is new")),
            Inserted::Duplicate
        );
        assert!(r.is_empty() && r.has_disorder());
        assert!(r.sack_blocks(|o| Seq(o as u32), 0).is_empty());
        assert_eq!(r.sack_blocks(|o| Seq(o as u32), 1).len(), 1);
        assert!(r.sack_blocks(|o| Seq(o as u32), 1).is_empty());
        // Two duplicates before an acknowledgement: one report when they touch, else the later.
        let _ = r.insert(0..100, 500, |_| {});
        let _ = r.insert(100..200, 500, |_| {});
        let _ = r.insert(300..400, 300, |_| {});
        assert_eq!(
            r.sack_blocks(|o| Seq(o as u32), 4).as_slice(),
            [block(0, 200)]
        );
        let _ = r.insert(0..100, 500, |_| {});
        let _ = r.insert(200..300, 500, |_| {});
        assert_eq!(
            r.sack_blocks(|o| Seq(o as u32), 4).as_slice(),
            [block(200, 300)]
        );
    }

    fn block(start: u32, end: u32) -> SackBlock {
        SackBlock {
            start: Seq(start),
            end: Seq(end),
        }
    }

    #[test]
    fn blocks_cross_the_wrap_and_stop_at_four() {
        let mut r = Limited::new(8);
        let to_seq = |o: u64| Seq(u32::MAX - 15) + o as u32;
        for i in 1..7 {
            assert_eq!(
                r.insert(i * 10..i * 10 + 5, 0, |_| {}),
                Inserted::OutOfOrder
            );
        }
        let blocks = r.sack_blocks(to_seq, 9);
        assert_eq!(blocks.len(), 4);
        assert_eq!(blocks.as_slice()[0], block(44, 49));
        let _ = r.insert(10..17, 0, |_| {});
        let blocks = r.sack_blocks(to_seq, 1);
        assert_eq!(blocks.as_slice(), [block(u32::MAX - 5, u32::MAX)]);
        assert_eq!(
            r.sack_blocks(to_seq, 1).as_slice(),
            [block(u32::MAX - 5, 1)]
        );
        r.clear();
        assert!(r.is_empty() && r.sack_blocks(to_seq, 4).is_empty());
    }

    #[test]
    fn a_full_set_refuses_only_what_is_apart() {
        let mut r = Limited::new(2);
        assert_eq!(r.insert(10..20, 0, |_| {}), Inserted::OutOfOrder);
        assert_eq!(r.insert(30..40, 0, |_| {}), Inserted::OutOfOrder);
        let never = |_| panic!("nothing may be stored");
        assert_eq!(r.insert(50..60, 0, never), Inserted::TooManyRanges);
        assert_eq!(r.insert(22..28, 0, never), Inserted::TooManyRanges);
        assert_eq!(r.insert(12..18, 0, never), Inserted::Duplicate);
        assert_eq!(r.insert(5..5, 0, never), Inserted::Empty);
        assert_eq!(r.insert(40..45, 0, |_| {}), Inserted::OutOfOrder);
        assert_eq!(r.insert(18..32, 0, |_| {}), Inserted::OutOfOrder);
        assert_eq!(r.insert(50..60, 0, |_| {}), Inserted::OutOfOrder);
        assert_eq!(
            r.insert(0..5, 0, |_| {}),
            Inserted::FilledGap { rcv_nxt: 5 }
        );
        assert_eq!(
            r.insert(5..10, 5, |_| {}),
            Inserted::FilledGap { rcv_nxt: 45 }
        );
        assert_eq!(
            r.insert(45..50, 45, |_| {}),
            Inserted::FilledGap { rcv_nxt: 60 }
        );
        assert!(r.is_empty() && r.bytes() == 0);
        let mut none = Limited::new(0);
        assert_eq!(none.insert(10..20, 0, never), Inserted::TooManyRanges);
        assert_eq!(
            none.insert(0..20, 0, |_| {}),
            Inserted::InOrder { rcv_nxt: 20 }
        );
    }

    /// Bit by bit, and the recency list kept the way RFC 2018 words it: the blocks reported first
    /// in the acknowledgements so far, latest first.
    struct Naive {
        has: Vec<bool>,
        reported_first: Vec<u64>,
    }

    impl Naive {
        fn rcv_nxt(&self) -> u64 {
            self.has.iter().position(|&b| !b).unwrap_or(self.has.len()) as u64
        }
        fn block_of(&self, at: u64) -> Option<(u32, u32)> {
            if at < self.rcv_nxt() || !self.has[at as usize] {
                return None;
            }
            let at = at as usize;
            let start = (0..at).rev().find(|&i| !self.has[i]).map_or(0, |i| i + 1);
            let end = (at..self.has.len())
                .find(|&i| !self.has[i])
                .unwrap_or(self.has.len());
            Some((start as u32, end as u32))
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(512))]
        #[test]
        fn agrees_with_a_bitmap(segments in prop::collection::vec((0u64..120, 1u64..30), 1..60)) {
            const SIZE: usize = 160;
            let mut naive = Naive { has: vec![false; SIZE], reported_first: Vec::new() };
            let mut r = Limited::new(64);
            for (start, len) in segments {
                let range = start..start + len;
                let rcv_nxt = naive.rcv_nxt();
                let had_gap = !r.is_empty();
                let was = naive.has.clone();
                let mut last = 0;
                let outcome = r.insert(range.clone(), rcv_nxt, |new| {
                    assert!(new.start < new.end && last <= new.start, "ascending, not empty");
                    assert!(range.start <= new.start && new.end <= range.end);
                    last = new.end;
                    for i in new {
                        assert!(!naive.has[i as usize], "byte {i} stored twice");
                        naive.has[i as usize] = true;
                    }
                });
                prop_assert!(range.clone().all(|i| naive.has[i as usize]), "a new byte was missed");
                let any_new = range.clone().any(|i| !was[i as usize]);
                let next = naive.rcv_nxt();
                let expected = match (any_new, next > rcv_nxt, had_gap) {
                    (false, ..) => Inserted::Duplicate,
                    (true, false, _) => Inserted::OutOfOrder,
                    (true, true, true) => Inserted::FilledGap { rcv_nxt: next },
                    (true, true, false) => Inserted::InOrder { rcv_nxt: next },
                };
                prop_assert_eq!(outcome, expected);
                let mut expected_ranges = Vec::new();
                let mut i = next;
                while i < SIZE as u64 {
                    match naive.block_of(i) {
                        Some((s, e)) => {
                            expected_ranges.push(u64::from(s)..u64::from(e));
                            i = u64::from(e);
                        }
                        None => i += 1,
                    }
                }
                prop_assert_eq!(r.bytes(), expected_ranges.iter().map(|r| r.end - r.start).sum::<u64>());
                prop_assert_eq!(r.ranges().collect::<Vec<_>>(), expected_ranges);

                // The SACK option.
                let mut expected = Vec::new();
                let dup_start = range.clone().find(|&i| was[i as usize]);
                if let Some(s) = dup_start {
                    let e = (s..range.end).find(|&i| !was[i as usize]).unwrap_or(range.end);
                    expected.push((s as u32, e as u32));
                }
                let dsacks = expected.len();
                if naive.block_of(start).is_some() {
                    naive.reported_first.insert(0, start);
                }
                for &at in &naive.reported_first {
                    if let Some(b) = naive.block_of(at)
                        && !expected[dsacks..].contains(&b)
                    {
                        expected.push(b);
                    }
                }
                expected.truncate(4);
                let blocks = r.sack_blocks(|o| Seq(o as u32), 4);
                let blocks: Vec<_> =
                    blocks.as_slice().iter().map(|b| (b.start.0, b.end.0)).collect();
                prop_assert_eq!(blocks, expected);
            }
        }

        #[test]
        fn a_bounded_set_stays_bounded_and_loses_nothing_it_took(
            segments in prop::collection::vec((0u64..400, 1u64..20), 1..80),
            max in 0usize..5,
        ) {
            let mut r = Limited::new(max);
            let mut has = vec![false; 500];
            let mut rcv_nxt = 0;
            for (start, len) in segments {
                let range = start..start + len;
                match r.insert(range.clone(), rcv_nxt, |new| new.for_each(|i| has[i as usize] = true)) {
                    Inserted::InOrder { rcv_nxt: n } | Inserted::FilledGap { rcv_nxt: n } => rcv_nxt = n,
                    Inserted::TooManyRanges => {
                        prop_assert_eq!(r.ranges().count(), max);
                        prop_assert!(range.clone().all(|i| !has[i as usize]));
                    }
                    _ => {}
                }
                prop_assert!(r.ranges().count() <= max);
                for (i, &has) in has.iter().enumerate() {
                    let i = i as u64;
                    let known = i < rcv_nxt || r.ranges().any(|h| h.contains(&i));
                    prop_assert_eq!(known, has);
                }
            }
        }
    }

    /// The ranges as a list that is searched from one end to the other, each with when a segment
    /// last fell into it.
    #[derive(Default)]
    struct List {
        ranges: Vec<(Range<u64>, usize)>,
        now: usize,
    }

    impl List {
        /// Whether it was taken.
        fn insert(&mut self, range: Range<u64>, max: usize) -> bool {
            let touches = |r: &Range<u64>| r.start <= range.end && range.start <= r.end;
            let (joined, mut apart): (Vec<_>, Vec<_>) =
                self.ranges.drain(..).partition(|(r, _)| touches(r));
            let taken = !joined.is_empty() || apart.len() < max;
            if taken {
                let start = joined.iter().map(|(r, _)| r.start).chain([range.start]);
                let end = joined.iter().map(|(r, _)| r.end).chain([range.end]);
                self.now += 1;
                apart.push((start.min().unwrap()..end.max().unwrap(), self.now));
            }
            apart.sort_by_key(|(r, _)| r.start);
            self.ranges = apart;
            taken
        }
        /// RCV.NXT moves over what is held.
        fn advance(&mut self, to: u64) -> u64 {
            let mut next = to;
            self.ranges.retain(|(r, _)| {
                let covered = r.start <= next;
                if covered {
                    next = next.max(r.end);
                }
                !covered
            });
            next
        }
        fn latest(&self, most: usize) -> Vec<(u32, u32)> {
            let mut all = self.ranges.clone();
            all.sort_by_key(|(_, latest)| std::cmp::Reverse(*latest));
            let block = |(r, _): &(Range<u64>, usize)| (r.start as u32, r.end as u32);
            all.iter().take(most).map(block).collect()
        }
    }

    proptest! {
        /// Hundreds of ranges, more than are admitted, and gaps that are filled.
        #[test]
        fn many_ranges_are_as_a_list_has_them(
            steps in prop::collection::vec((0u8..20, 1u64..4_000, 1u64..12), 1..900),
            max in 1usize..400,
        ) {
            let mut r = Limited::new(max);
            let mut list = List::default();
            let mut rcv_nxt = 0;
            for (what, at, len) in steps {
                let range = rcv_nxt + at..rcv_nxt + at + len;
                match what {
                    0 => {
                        let filled = rcv_nxt..rcv_nxt + at % 100 + 1;
                        let had_gap = !list.ranges.is_empty();
                        let next = list.advance(filled.end);
                        let expected = match had_gap {
                            true => Inserted::FilledGap { rcv_nxt: next },
                            false => Inserted::InOrder { rcv_nxt: next },
                        };
                        prop_assert_eq!(r.insert(filled, rcv_nxt, |_| {}), expected);
                        rcv_nxt = next;
                    }
                    _ => {
                        let covers = |(r, _): &(Range<u64>, usize)| r.start <= range.start && range.end <= r.end;
                        let nothing_new = list.ranges.iter().any(covers);
                        let expected = match list.insert(range.clone(), max) {
                            false => Inserted::TooManyRanges,
                            true if nothing_new => Inserted::Duplicate,
                            true => Inserted::OutOfOrder,
                        };
                        prop_assert_eq!(r.insert(range, rcv_nxt, |_| {}), expected);
                    }
                }
                r.forget_dsack();
                let ranges: Vec<_> = list.ranges.iter().map(|(r, _)| r.clone()).collect();
                prop_assert_eq!(r.bytes(), ranges.iter().map(|r| r.end - r.start).sum::<u64>());
                prop_assert_eq!(r.ranges().collect::<Vec<_>>(), ranges);
                let blocks = r.sack_blocks(|o| Seq(o as u32), 3);
                let blocks: Vec<_> = blocks.as_slice().iter().map(|b| (b.start.0, b.end.0)).collect();
                prop_assert_eq!(blocks, list.latest(3));
            }
        }
    }

    /// One byte in every other place, from either end or in no order, an acknowledgement for each,
    /// and then the gaps: no segment costs more than a few searches in a tree of its size, and no
    /// acknowledgement one for each block.
    #[test]
    fn a_window_full_of_holes_costs_its_logarithm() {
        const RANGES: u64 = 65_536;
        let places = |n: u64| [n, RANGES - 1 - n, n * 40_503 % RANGES];
        for order in 0..3 {
            let mut r = Limited::new(RANGES as usize);
            let mut worst = 0;
            let mut cost = |r: &mut Limited, what: &mut dyn FnMut(&mut Limited)| {
                SEARCHES.set(0);
                what(r);
                worst = worst.max(SEARCHES.get());
            };
            for n in 0..RANGES {
                let at = 1 + 2 * places(n)[order];
                cost(&mut r, &mut |r| {
                    let inserted = r.insert(at..at + 1, 0, |_| {});
                    assert_eq!(inserted, Inserted::OutOfOrder);
                });
                cost(&mut r, &mut |r| {
                    assert_eq!(
                        r.sack_blocks(|o| Seq(o as u32), 4).len() as u64,
                        4.min(n + 1)
                    );
                });
            }
            assert_eq!(r.ranges().count() as u64, RANGES);
            cost(&mut r, &mut |r| {
                let beyond = 3 * RANGES..3 * RANGES + 1;
                assert_eq!(r.insert(beyond, 0, |_| {}), Inserted::TooManyRanges);
            });
            // Each joins two.
            for n in 1..RANGES {
                cost(&mut r, &mut |r| {
                    let inserted = r.insert(2 * n..2 * n + 1, 0, |_| {});
                    assert_eq!(inserted, Inserted::OutOfOrder);
                });
            }
            cost(&mut r, &mut |r| {
                let filled = Inserted::FilledGap {
                    rcv_nxt: 2 * RANGES,
                };
                assert_eq!(r.insert(0..1, 0, |_| {}), filled);
            });
            assert!(r.is_empty());
            assert!(worst <= 10, "order {order}: {worst} searches");
            assert!(worst > 4, "nothing was counted");
        }
    }
}
