//! TCP options: MSS, window scale, SACK (RFC 2018), timestamps (RFC 7323), and whatever else came.

use super::error::{EmitError, OptionError, room};
use super::seq::Seq;

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
    pub const EMPTY: Self = Self {
        len: 0,
        blocks: [SackBlock {
            start: Seq(0),
            end: Seq(0),
        }; 4],
    };

    /// How many fit beside timestamps, if any, and nothing else.
    #[inline]
    pub const fn most_beside(timestamps: Option<Timestamps>) -> usize {
        most_behind(match timestamps {
            Some(_) => TIMESTAMPS_LEN,
            None => 0,
        })
    }

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
    #[inline]
    pub fn as_slice(&self) -> &[SackBlock] {
        &self.blocks[..usize::from(self.len)]
    }

    /// Whether there is none.
    pub const fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Bytes of them as an option, aligned, where there is room for all.
    #[inline]
    pub const fn wire_len(&self) -> usize {
        sack_len(self.len as usize)
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

/// The most bytes a TCP header has for options (RFC 9293 section 3.1).
pub const MAX_OPTIONS_LEN: usize = 40;

/// Bytes of the timestamps option, aligned.
const TIMESTAMPS_LEN: usize = 12;

/// Bytes of so many SACK blocks as an option, aligned.
const fn sack_len(blocks: usize) -> usize {
    match blocks {
        0 => 0,
        n => 4 + 8 * n,
    }
}

/// How many SACK blocks fit behind so many bytes of options.
const fn most_behind(taken: usize) -> usize {
    let most = MAX_OPTIONS_LEN.saturating_sub(taken + 4) / 8;
    if most < 4 { most } else { 4 }
}

/// What to do when an option's length is 0, 1 or beyond the end, so that nothing after it can be
/// made sense of (RFC 9293 MUST-7 demands only to be prepared).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum OptionPolicy {
    /// Keep the options before it and drop the rest, as deployed stacks do.
    #[default]
    KeepValid,
    /// Refuse the segment.
    Reject,
}

const END: u8 = 0;
const NOP: u8 = 1;
const MSS: u8 = 2;
const WINDOW_SCALE: u8 = 3;
const SACK_PERMITTED: u8 = 4;
const SACK: u8 = 5;
const TIMESTAMPS: u8 = 8;

/// NOP, NOP, timestamps: what nearly every segment of an established connection carries.
pub(super) const ALIGNED_TIMESTAMPS: [u8; 4] = [NOP, NOP, TIMESTAMPS, 10];

impl TcpOptions {
    /// Bytes these options take in a header, exactly as [`emit`](Self::emit) writes them: aligned
    /// with NOPs, SACK blocks cut to what fits, padded to a multiple of four. More than 40 if the
    /// options other than SACK alone are too long, which `emit` refuses.
    #[inline]
    pub fn wire_len(&self) -> usize {
        let sack = sack_len(self.sack_blocks_that_fit());
        (self.len_before_sack() + sack + self.unknown_len()).next_multiple_of(4)
    }

    /// How many SACK blocks fit beside the other options.
    pub fn max_sack_blocks(&self) -> usize {
        most_behind(self.len_before_sack() + self.unknown_len())
    }

    #[inline]
    fn sack_blocks_that_fit(&self) -> usize {
        match self.sack.len() {
            0 => 0,
            n => n.min(self.max_sack_blocks()),
        }
    }

    /// The timestamps, where there is nothing else.
    #[inline]
    fn lone_timestamps(&self) -> Option<Timestamps> {
        let others = self.mss.is_some()
            || self.window_scale.is_some()
            || self.sack_permitted
            || !self.sack.is_empty()
            || self.unknown.is_some();
        self.timestamps.filter(|_| !others)
    }

    fn len_before_sack(&self) -> usize {
        let mss = if self.mss.is_some() { 4 } else { 0 };
        let middle = match (self.timestamps, self.sack_permitted) {
            (Some(_), _) => TIMESTAMPS_LEN,
            (None, true) => 4,
            (None, false) => 0,
        };
        let scale = if self.window_scale.is_some() { 4 } else { 0 };
        mss + middle + scale
    }

    fn unknown_len(&self) -> usize {
        self.unknown.as_ref().map_or(0, |u| u.len())
    }

    /// Read the options of a header: the bytes between the fixed part and the data offset.
    ///
    /// Unknown kinds are kept in [`unknown`](Self::unknown) (RFC 9293 MUST-6). A known kind with
    /// a length that is not its own (SACK: not 8 n + 2) is passed over. Of repeated options the
    /// last counts.
    ///
    /// # Errors
    /// Under [`OptionPolicy::Reject`], the first option whose end cannot be found.
    #[inline]
    pub fn parse(bytes: &[u8], policy: OptionPolicy) -> Result<Self, OptionError> {
        if let Ok(&[a, b, c, d, v0, v1, v2, v3, e0, e1, e2, e3]) = <&[u8; 12]>::try_from(bytes)
            && [a, b, c, d] == ALIGNED_TIMESTAMPS
        {
            let timestamps = Timestamps {
                val: u32::from_be_bytes([v0, v1, v2, v3]),
                ecr: u32::from_be_bytes([e0, e1, e2, e3]),
            };
            return Ok(Self {
                timestamps: Some(timestamps),
                ..Self::default()
            });
        }
        if bytes.is_empty() {
            return Ok(Self::default());
        }
        Self::parse_any(bytes, policy)
    }

    fn parse_any(bytes: &[u8], policy: OptionPolicy) -> Result<Self, OptionError> {
        let mut options = Self::default();
        let mut unknown = Vec::new();
        let mut rest = bytes;
        while let [kind, tail @ ..] = rest {
            match *kind {
                END => break,
                NOP => {
                    rest = tail;
                    continue;
                }
                _ => {}
            }
            let len = tail.first().copied();
            let split = len
                .filter(|&n| n >= 2)
                .and_then(|n| rest.split_at_checked(n.into()));
            let Some((option, after)) = split else {
                if policy == OptionPolicy::KeepValid {
                    break;
                }
                return Err(OptionError {
                    kind: *kind,
                    at: bytes.len() - rest.len(),
                    len,
                });
            };
            match (*kind, &option[2..]) {
                (MSS, &[a, b]) => options.mss = Some(u16::from_be_bytes([a, b])),
                (WINDOW_SCALE, &[shift]) => options.window_scale = Some(shift),
                (SACK_PERMITTED, &[]) => options.sack_permitted = true,
                (TIMESTAMPS, data) if data.len() == 8 => {
                    let [val, ecr] = be32_pair(data);
                    options.timestamps = Some(Timestamps { val, ecr });
                }
                (SACK, data) if matches!(data.len(), 8 | 16 | 24 | 32) => {
                    options.sack = SackBlocks::EMPTY;
                    for block in data.chunks_exact(8) {
                        let [start, end] = be32_pair(block);
                        options.sack.push(SackBlock {
                            start: Seq(start),
                            end: Seq(end),
                        });
                    }
                }
                (MSS | WINDOW_SCALE | SACK_PERMITTED | TIMESTAMPS | SACK, _) => {}
                _ => unknown.extend_from_slice(option),
            }
            rest = after;
        }
        if !unknown.is_empty() {
            options.unknown = Some(unknown.into_boxed_slice());
        }
        Ok(options)
    }

    /// Write the options to the front of `buf`; how many bytes, always
    /// [`wire_len`](Self::wire_len).
    ///
    /// The order is that of the common stacks, each part a multiple of four: MSS; SACK permitted
    /// or NOPs, with timestamps; NOP and window scale; NOPs and SACK, as many blocks as fit; then
    /// the unknown ones as they are, and zeros (NOPs after a Fast Open option).
    ///
    /// # Errors
    /// [`EmitError::OptionsTooLong`] and [`EmitError::BufferTooSmall`].
    #[inline]
    pub fn emit(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        if let Some(Timestamps { val, ecr }) = self.lone_timestamps() {
            let out = room(buf, 12)?;
            out[..4].copy_from_slice(&ALIGNED_TIMESTAMPS);
            out[4..8].copy_from_slice(&val.to_be_bytes());
            out[8..].copy_from_slice(&ecr.to_be_bytes());
            return Ok(12);
        }
        self.emit_any(buf)
    }

    fn emit_any(&self, buf: &mut [u8]) -> Result<usize, EmitError> {
        let len = self.wire_len();
        if len > MAX_OPTIONS_LEN {
            return Err(EmitError::OptionsTooLong(len));
        }
        let mut out = Writer {
            rest: room(buf, len)?,
        };
        if let Some(mss) = self.mss {
            let [a, b] = mss.to_be_bytes();
            out.put(&[MSS, 4, a, b]);
        }
        match (self.timestamps, self.sack_permitted) {
            (Some(Timestamps { val, ecr }), permitted) => {
                out.put(&match permitted {
                    true => [SACK_PERMITTED, 2, TIMESTAMPS, 10],
                    false => ALIGNED_TIMESTAMPS,
                });
                out.put(&val.to_be_bytes());
                out.put(&ecr.to_be_bytes());
            }
            (None, true) => out.put(&[NOP, NOP, SACK_PERMITTED, 2]),
            (None, false) => {}
        }
        if let Some(shift) = self.window_scale {
            out.put(&[NOP, WINDOW_SCALE, 3, shift]);
        }
        let blocks = self.sack_blocks_that_fit();
        if blocks > 0 {
            out.put(&[NOP, NOP, SACK, 2 + 8 * blocks as u8]);
            for block in &self.sack.as_slice()[..blocks] {
                out.put(&block.start.0.to_be_bytes());
                out.put(&block.end.0.to_be_bytes());
            }
        }
        if let Some(unknown) = &self.unknown {
            let (head, tail) = out.rest.split_at_mut(unknown.len());
            head.copy_from_slice(unknown);
            out.rest = tail;
        }
        out.rest.fill(self.padding());
        Ok(len)
    }
}

/// Writes to the front of what is left of a buffer known to be long enough.
struct Writer<'a> {
    rest: &'a mut [u8],
}

impl Writer<'_> {
    #[inline(always)]
    fn put(&mut self, word: &[u8; 4]) {
        let rest = core::mem::take(&mut self.rest);
        let (head, tail) = rest.split_first_chunk_mut().expect("wire_len counted it");
        *head = *word;
        self.rest = tail;
    }
}

/// Eight bytes as two 32-bit numbers.
fn be32_pair(data: &[u8]) -> [u32; 2] {
    let word = |at: usize| {
        let bytes = data.get(at..at + 4).and_then(|b| b.try_into().ok());
        u32::from_be_bytes(bytes.unwrap_or([0; 4]))
    };
    [word(0), word(4)]
}

#[cfg(test)]
mod tests {
    use super::*;

    const TS: Timestamps = Timestamps {
        val: 0x0102_0304,
        ecr: 0x0506_0708,
    };

    fn blocks(n: u32) -> SackBlocks {
        let mut out = SackBlocks::EMPTY;
        for i in 0..n {
            assert!(out.push(SackBlock {
                start: Seq(10 * i),
                end: Seq(10 * i + 5)
            }));
        }
        out
    }

    fn emitted(options: &TcpOptions) -> Vec<u8> {
        let mut buf = [0xaa; 40];
        let n = options.emit(&mut buf).unwrap();
        buf[..n].to_vec()
    }

    #[test]
    fn layouts_are_those_peers_send() {
        let ts = TcpOptions {
            timestamps: Some(TS),
            ..TcpOptions::default()
        };
        assert_eq!(emitted(&ts), [1, 1, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8]);
        let mut syn = TcpOptions {
            mss: Some(1460),
            window_scale: Some(7),
            sack_permitted: true,
            ..ts.clone()
        };
        let expected = [
            2, 4, 5, 180, 4, 2, 8, 10, 1, 2, 3, 4, 5, 6, 7, 8, 1, 3, 3, 7,
        ];
        assert_eq!(emitted(&syn), expected);
        assert_eq!(syn.wire_len(), 20);
        syn.timestamps = None;
        assert_eq!(emitted(&syn), [2, 4, 5, 180, 1, 1, 4, 2, 1, 3, 3, 7]);
        let sack = TcpOptions {
            sack: blocks(1),
            ..TcpOptions::default()
        };
        assert_eq!(emitted(&sack), [1, 1, 5, 10, 0, 0, 0, 0, 0, 0, 0, 5]);
        let odd = TcpOptions {
            unknown: Some([34, 3, 9].into()),
            ..TcpOptions::default()
        };
        assert_eq!(emitted(&odd), [34, 3, 9, 0]);
    }

    #[test]
    fn sack_blocks_are_cut_to_what_fits() {
        for n in 1..=4 {
            let sack = TcpOptions {
                sack: blocks(n),
                ..TcpOptions::default()
            };
            assert_eq!(sack.wire_len(), 4 + 8 * n as usize);
            let ts = TcpOptions {
                timestamps: Some(TS),
                ..sack
            };
            assert_eq!(ts.max_sack_blocks(), 3);
            let [lone, beside] = [None, Some(TS)].map(SackBlocks::most_beside);
            assert_eq!((lone, beside), (4, ts.max_sack_blocks()));
            assert_eq!(blocks(n).wire_len(), 4 + 8 * n as usize);
            assert_eq!(ts.wire_len(), 12 + 4 + 8 * n.min(3) as usize);
            assert_eq!(emitted(&ts).len(), ts.wire_len());
        }
        let full = TcpOptions {
            unknown: Some([254, 40].into_iter().chain([0; 38]).collect()),
            ..TcpOptions::default()
        };
        assert_eq!((full.wire_len(), full.max_sack_blocks()), (40, 0));
        let over = TcpOptions {
            window_scale: Some(1),
            ..full
        };
        assert_eq!(over.emit(&mut [0; 60]), Err(EmitError::OptionsTooLong(44)));
    }

    /// Options whose end cannot be found, after a good MSS option.
    #[test]
    fn impossible_lengths_end_the_options() {
        let table: [(&[u8], Option<u8>); 6] = [
            (&[8, 0, 0, 0], Some(0)),
            (&[99, 1, 4, 2], Some(1)),
            (&[5, 11, 0, 0], Some(11)),
            (&[99, 255], Some(255)),
            (&[3], None),
            (&[99], None),
        ];
        for (rest, len) in table {
            let bytes = [&[2, 4, 5, 180], rest].concat();
            let read = TcpOptions::parse(&bytes, OptionPolicy::KeepValid);
            assert_eq!(
                read,
                Ok(TcpOptions {
                    mss: Some(1460),
                    ..TcpOptions::default()
                })
            );
            let error = OptionError {
                kind: rest[0],
                at: 4,
                len,
            };
            assert_eq!(TcpOptions::parse(&bytes, OptionPolicy::Reject), Err(error));
        }
    }

    #[test]
    fn known_kinds_with_the_wrong_length_are_passed_over() {
        for bad in [
            &[2u8, 3, 1][..],
            &[3, 4, 1, 1],
            &[4, 3, 1],
            &[8, 9, 0, 0, 0, 0, 0, 0, 0],
            &[5, 2],
            &[5, 9, 0, 0, 0, 0, 0, 0, 0],
            &[5, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        ] {
            let bytes = [bad, &[3, 3, 9]].concat();
            let expected = TcpOptions {
                window_scale: Some(9),
                ..TcpOptions::default()
            };
            assert_eq!(
                TcpOptions::parse(&bytes, OptionPolicy::Reject),
                Ok(expected),
                "{bad:?}"
            );
        }
    }

    #[test]
    fn the_last_of_repeated_options_counts() {
        let mut bytes = vec![2, 4, 0, 1, 2, 4, 0, 2, 3, 3, 1, 3, 3, 2];
        bytes.extend([5, 10, 0, 0, 0, 1, 0, 0, 0, 2, 5, 10, 0, 0, 0, 3, 0, 0, 0, 4]);
        let read = TcpOptions::parse(&bytes, OptionPolicy::Reject).unwrap();
        assert_eq!((read.mss, read.window_scale), (Some(2), Some(2)));
        assert_eq!(
            read.sack.as_slice(),
            [SackBlock {
                start: Seq(3),
                end: Seq(4)
            }]
        );
    }

    #[test]
    fn unknown_options_are_kept_and_what_follows_the_end_is_not() {
        let bytes = [1, 253, 4, 7, 8, 1, 6, 2, 3, 3, 5, 0, 4, 2];
        let read = TcpOptions::parse(&bytes, OptionPolicy::Reject).unwrap();
        assert_eq!(read.unknown.as_deref(), Some(&[253, 4, 7, 8, 6, 2][..]));
        assert_eq!((read.window_scale, read.sack_permitted), (Some(5), false));
    }
}
