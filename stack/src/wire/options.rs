//! TCP options: MSS, window scale, SACK (RFC 2018), timestamps (RFC 7323), and whatever else came.

use super::seq::Seq;
use std::boxed::Box;

/// The options of one segment.
#[derive(Clone, Debug, PartialEq, Eq, Default)]
pub struct TcpOptions {
    /// Maximum segment size (kind 2).
    pub mss: Option<u16>,
    /// Window scale shift (kind 3), as sent; RFC 7323 section 2.3 caps its use at 14.
    pub window_scale: Option<u8>,
    /// SACK permitted (kind 4).
    pub sack_permitted: bool,
    /// Timestamps (kind 8).
    pub timestamps: Option<Timestamps>,
    /// SACK blocks (kind 5).
    pub sack: SackBlocks,
    /// Options of other kinds, as they came: kind, length and data of each, one after another.
    pub unknown: Option<Box<[u8]>>,
}

/// The timestamps option: TSval and TSecr.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timestamps {
    /// The sender's clock.
    pub val: u32,
    /// The echo of the peer's clock; meaningful with ACK.
    pub ecr: u32,
}

/// One SACK block: `start` up to but not including `end`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SackBlock {
    /// Left edge.
    pub start: Seq,
    /// Right edge: the sequence number after the last byte of the block.
    pub end: Seq,
}

/// Up to four SACK blocks, in the order sent.
#[derive(Clone, Copy, Debug, Default)]
pub struct SackBlocks {
    len: u8,
    blocks: [SackBlock; 4],
}

impl SackBlocks {
    /// No block.
    pub const EMPTY: Self =
        Self { len: 0, blocks: [SackBlock { start: Seq(0), end: Seq(0) }; 4] };

    /// Append a block; `false` (and nothing done) when there are four already.
    pub fn push(&mut self, block: SackBlock) -> bool {
        let Some(slot) = self.blocks.get_mut(usize::from(self.len)) else {
            return false;
        };
        *slot = block;
        self.len += 1;
        true
    }

    /// The blocks in order.
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// How many there are.
    pub const fn len(&self) -> usize {
        self.len as usize
    }
}

impl PartialEq for SackBlocks {
    fn eq(&self, other: &Self) -> bool {
        self.as_slice() == other.as_slice()
    }
}
impl Eq for SackBlocks {}

impl TcpOptions {
    /// Bytes these options take in a header, padded to a multiple of four.
    pub fn wire_len(&self) -> usize {
        let mut n = 0;
        if self.mss.is_some() {
            n += 4;
        }
        if self.sack_permitted {
            n += 2;
        }
        if self.timestamps.is_some() {
            n += 10;
        }
        if self.window_scale.is_some() {
            n += 3;
        }
        if !self.sack.is_empty() {
            n += 2 + 8 * self.sack.len();
        }
        n += self.unknown.as_ref().map_or(0, |u| u.len());
        n.next_multiple_of(4)
    }
}
