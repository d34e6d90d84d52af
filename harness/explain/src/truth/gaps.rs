//! The gaps of a run, each by a number.

use super::TrueGap;
use std::num::NonZeroU32;
use std::ops::{Index, IndexMut};

/// One of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct GapId(NonZeroU32);

impl GapId {
    const fn place(self) -> usize {
        self.0.get() as usize - 1
    }
}

/// All of them, in the order in which they ended.
#[derive(Debug, Default)]
pub(super) struct Gaps(Vec<TrueGap>);

impl Gaps {
    pub(super) fn push(&mut self, gap: TrueGap) -> GapId {
        self.0.push(gap);
        let number = u32::try_from(self.0.len()).ok().and_then(NonZeroU32::new);
        GapId(number.expect("they would not fit into memory"))
    }

    pub(super) fn as_slice(&self) -> &[TrueGap] {
        &self.0
    }
}

impl Index<GapId> for Gaps {
    type Output = TrueGap;

    fn index(&self, gap: GapId) -> &TrueGap {
        &self.0[gap.place()]
    }
}

impl IndexMut<GapId> for Gaps {
    fn index_mut(&mut self, gap: GapId) -> &mut TrueGap {
        &mut self.0[gap.place()]
    }
}
