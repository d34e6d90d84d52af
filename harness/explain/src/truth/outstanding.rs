//! What left an end and is not acknowledged.

use narrows::Instant;
use std::collections::VecDeque;

/// Whether `a` comes before `b` (RFC 9293 section 3.4).
pub(super) const fn before(a: u32, b: u32) -> bool {
    (a.wrapping_sub(b) as i32) < 0
}

/// Text that is outstanding.
#[derive(Clone, Copy, Debug)]
pub(super) struct Out {
    /// Its first number.
    pub(super) seq: u32,
    /// The number after it.
    pub(super) end: u32,
    /// When it left; nothing is known of when what was sent again did.
    pub(super) left: Option<Instant>,
    /// Copies of it that were not dropped.
    pub(super) copies: u32,
    pub(super) sacked: bool,
}

/// All of it, by its numbers.
#[derive(Debug, Default)]
pub(super) struct Outstanding(VecDeque<Out>);

impl Outstanding {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn first(&self) -> Option<&Out> {
        self.0.front()
    }

    /// The number after all of it.
    pub(super) fn end(&self) -> Option<u32> {
        self.0.back().map(|last| last.end)
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &Out> {
        self.0.iter()
    }

    /// Another copy of these numbers has left.
    pub(super) fn leaves_again(&mut self, (seq, end): (u32, u32)) {
        self.split(seq);
        self.split(end);
        // Which copy is acknowledged nobody knows (Karn).
        for out in self.within((seq, end)) {
            out.left = None;
            out.copies += 1;
        }
    }

    /// What is new of these numbers has left, of which those before `una` are acknowledged.
    pub(super) fn leaves(&mut self, at: Instant, una: u32, (seq, end): (u32, u32)) {
        let mut from = if before(seq, una) { una } else { seq };
        let new = |(seq, end)| Out {
            seq,
            end,
            left: Some(at),
            copies: 1,
            sacked: false,
        };
        // Where some of it is out already, the new is between that.
        while before(from, end) && self.end().is_some_and(|last| before(from, last)) {
            let place = self.0.partition_point(|out| !before(from, out.end));
            let (next, after) = (self.0[place].seq, self.0[place].end);
            if before(from, next) {
                let to = if before(next, end) { next } else { end };
                self.0.insert(place, new((from, to)));
                from = to;
            } else {
                from = after;
            }
        }
        if before(from, end) {
            self.0.push_back(new((from, end)));
        }
    }

    /// That which ends at `end` or holds it.
    pub(super) fn holding(&self, end: u32) -> Option<&Out> {
        let place = self.0.partition_point(|out| before(out.end, end));
        self.0.get(place).filter(|out| before(out.seq, end))
    }

    /// What begins at the first of these numbers or later and ends with the last or before.
    pub(super) fn within(&mut self, (seq, end): (u32, u32)) -> impl Iterator<Item = &mut Out> {
        let first = self.0.partition_point(|out| !before(seq, out.end));
        let out = self.0.range_mut(first..);
        out.take_while(move |out| !before(end, out.end))
    }

    /// The first, if all of it is acknowledged by `ack`: it is out no more.
    #[inline]
    pub(super) fn take_acknowledged(&mut self, ack: u32) -> Option<Out> {
        let first = self.0.front().copied();
        let first = first.filter(|out| !before(ack, out.end))?;
        self.0.pop_front();
        Some(first)
    }

    /// What is out has a boundary at `at`.
    fn split(&mut self, at: u32) {
        let place = self.0.partition_point(|out| !before(at, out.end));
        if let Some(out) = self.0.get_mut(place)
            && before(out.seq, at)
        {
            let first = Out { end: at, ..*out };
            out.seq = at;
            self.0.insert(place, first);
        }
    }
}
