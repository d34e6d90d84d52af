//! The formats of captures, block by block: pcap and pcapng, in either byte order
//! (draft-ietf-opsawg-pcap, draft-ietf-opsawg-pcapng).
//!
//! [`Blocks::next`] gives one block after another, or how the capture ended. Blocks that tell
//! nothing of packets are passed over by their lengths alone.

use super::{CaptureError, End};
use std::io::{self, Read};

/// Bytes that are asked for at once.
const BUFFER: usize = 1 << 18;
/// The longest block that is read: super-frames have 64 KiB, and big TCP not much more than that.
const LONGEST_BLOCK: usize = 16 << 20;

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
/// Obsolete, and as the enhanced one but for the interface, of which it has 16 bits.
const PACKET: u32 = 2;
const SIMPLE_PACKET: u32 = 3;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;
/// The last of a block's options.
const OPT_ENDOFOPT: u16 = 0;
/// Options of an interface: the units of its times, and what is added to them.
const IF_TSRESOL: u16 = 9;
const IF_TSOFFSET: u16 = 14;

/// What a block says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Block<'a> {
    /// Interfaces are counted anew.
    Section,
    /// The next interface.
    Interface(Described),
    /// A packet.
    Packet {
        /// Of which interface.
        interface: u32,
        /// When, in the units of its interface.
        units: u64,
        /// What was kept of it.
        bytes: &'a [u8],
        /// How long it was.
        original: u32,
    },
    /// A packet without a time.
    Untimed,
    /// Nothing of packets.
    Other,
}

/// An interface, as the file has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Described {
    /// LINKTYPE of what its packets begin with.
    pub(super) link: u32,
    /// Units of time in a second.
    pub(super) resolution: u64,
    /// Seconds to add.
    pub(super) offset: i64,
}

/// The blocks of a capture.
pub(super) struct Blocks<R> {
    source: R,
    buffer: Vec<u8>,
    /// What is in the buffer and was not given out.
    start: usize,
    end: usize,
    /// Bytes of the block that was given out last: it begins at `start`.
    given: usize,
    format: Format,
}

#[derive(Clone, Copy, Debug)]
enum Format {
    /// Before the header of the file, which is its only interface.
    PcapHeader(Pcap),
    Pcap(Pcap),
    Pcapng(Order),
}

#[derive(Clone, Copy, Debug)]
struct Pcap {
    order: Order,
    /// Units of time in a second.
    resolution: u64,
    /// Bytes before each packet: 16, and 24 with Kuznetzov's patch.
    head: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    #[inline]
    fn u16(self, bytes: &[u8], at: usize) -> u16 {
        let bytes = word(bytes, at);
        match self {
            Self::Little => u16::from_le_bytes(bytes),
            Self::Big => u16::from_be_bytes(bytes),
        }
    }

    #[inline]
    fn u32(self, bytes: &[u8], at: usize) -> u32 {
        let bytes = word(bytes, at);
        match self {
            Self::Little => u32::from_le_bytes(bytes),
            Self::Big => u32::from_be_bytes(bytes),
        }
    }

    fn i64(self, bytes: &[u8]) -> i64 {
        let (first, second) = (self.u32(bytes, 0).into(), self.u32(bytes, 4).into());
        let (high, low): (u64, u64) = match self {
            Self::Little => (second, first),
            Self::Big => (first, second),
        };
        (high << 32 | low).cast_signed()
    }
}

impl Format {
    /// The format of a file that begins so; `None` if it is neither.
    fn of(begin: &[u8]) -> Option<Self> {
        const MICROS: u64 = 1_000_000;
        const NANOS: u64 = 1_000_000_000;
        let magic = begin.first_chunk()?;
        let pcap = |order, resolution, head| {
            Some(Self::PcapHeader(Pcap {
                order,
                resolution,
                head,
            }))
        };
        match u32::from_le_bytes(*magic) {
            SECTION_HEADER if begin.len() < 12 => Some(Self::Pcapng(Order::Little)),
            SECTION_HEADER => order_of_section(begin).map(Self::Pcapng),
            0xa1b2_c3d4 => pcap(Order::Little, MICROS, 16),
            0xa1b2_3c4d => pcap(Order::Little, NANOS, 16),
            0xa1b2_cd34 => pcap(Order::Little, MICROS, 24),
            0xd4c3_b2a1 => pcap(Order::Big, MICROS, 16),
            0x4d3c_b2a1 => pcap(Order::Big, NANOS, 16),
            0x34cd_b2a1 => pcap(Order::Big, MICROS, 24),
            _ => None,
        }
    }

    /// How much of a block says how long it is.
    fn head(self) -> usize {
        match self {
            Self::PcapHeader(_) => 24,
            Self::Pcap(pcap) => pcap.head,
            Self::Pcapng(_) => 12,
        }
    }

    /// Bytes of the block with this head, and the format of what follows it.
    #[inline]
    fn length(self, head: &[u8]) -> Result<(usize, Self), &'static str> {
        match self {
            Self::PcapHeader(pcap) => Ok((24, Self::Pcap(pcap))),
            Self::Pcap(pcap) => {
                let kept = pcap.order.u32(head, 8) as usize;
                Ok((pcap.head.saturating_add(kept), self))
            }
            Self::Pcapng(order) => {
                let section = order.u32(head, 0) == SECTION_HEADER;
                let order = if section {
                    order_of_section(head).ok_or("a section in no order of bytes")?
                } else {
                    order
                };
                let length = order.u32(head, 4) as usize;
                if length < 12 {
                    return Err("a block that is shorter than its own head");
                }
                Ok((length, Self::Pcapng(order)))
            }
        }
    }

    /// What a whole block says, of which `self` is the format.
    #[inline]
    fn block(self, block: &[u8]) -> Result<Block<'_>, &'static str> {
        match self {
            Self::PcapHeader(pcap) => Ok(Block::Interface(Described {
                // The upper bits tell of a frame check sequence.
                link: pcap.order.u32(block, 20) & 0x0fff_ffff,
                resolution: pcap.resolution,
                offset: 0,
            })),
            Self::Pcap(pcap) => {
                let word = |at| pcap.order.u32(block, at);
                Ok(Block::Packet {
                    interface: 0,
                    units: u64::from(word(0)) * pcap.resolution + u64::from(word(4)),
                    bytes: &block[pcap.head..],
                    original: word(12),
                })
            }
            Self::Pcapng(order) => order.pcapng(block),
        }
    }
}

impl Order {
    fn pcapng(self, block: &[u8]) -> Result<Block<'_>, &'static str> {
        const SHORT: &str = "a block that is too short for what it is";
        let (body, length) = block.split_at(block.len() - 4);
        if self.u32(length, 0) as usize != block.len() {
            return Err("a block that ends with another length than it begins with");
        }
        match self.u32(body, 0) {
            SECTION_HEADER if body.len() < 24 => Err(SHORT),
            SECTION_HEADER => Ok(Block::Section),
            INTERFACE_DESCRIPTION if body.len() < 16 => Err(SHORT),
            INTERFACE_DESCRIPTION => Ok(Block::Interface(self.described(body))),
            SIMPLE_PACKET if body.len() < 12 => Err(SHORT),
            SIMPLE_PACKET => Ok(Block::Untimed),
            PACKET | ENHANCED_PACKET if body.len() < 28 => Err(SHORT),
            kind @ (PACKET | ENHANCED_PACKET) => {
                let word = |at| self.u32(body, at);
                let kept = body[28..].get(..word(20) as usize);
                Ok(Block::Packet {
                    interface: match kind {
                        PACKET => self.u16(body, 8).into(),
                        _ => word(8),
                    },
                    units: u64::from(word(12)) << 32 | u64::from(word(16)),
                    bytes: kept.ok_or("a packet that is longer than its block")?,
                    original: word(24),
                })
            }
            _ => Ok(Block::Other),
        }
    }

    fn described(self, body: &[u8]) -> Described {
        let mut described = Described {
            link: self.u16(body, 8).into(),
            resolution: 1_000_000,
            offset: 0,
        };
        let mut options = &body[16..];
        while options.len() >= 4 {
            let (code, length) = (self.u16(options, 0), self.u16(options, 2));
            let length = usize::from(length);
            let Some(value) = options[4..].get(..length) else {
                break;
            };
            match (code, value) {
                (OPT_ENDOFOPT, _) => break,
                (IF_TSRESOL, [resolution, ..]) => described.resolution = per_second(*resolution),
                (IF_TSOFFSET, [_, _, _, _, _, _, _, _]) => described.offset = self.i64(value),
                _ => {}
            }
            let padded = 4 + length.next_multiple_of(4);
            options = options.get(padded..).unwrap_or_default();
        }
        described
    }
}

/// The bytes at `at`, which the caller has seen to be there.
#[inline]
fn word<const N: usize>(bytes: &[u8], at: usize) -> [u8; N] {
    bytes[at..]
        .first_chunk()
        .copied()
        .expect("a head or a block is whole")
}

/// In which order the bytes of a section are that begins so, if it is one.
fn order_of_section(head: &[u8]) -> Option<Order> {
    let of = |order: &Order| order.u32(head, 8) == BYTE_ORDER_MAGIC;
    [Order::Little, Order::Big].into_iter().find(of)
}

/// Units of time in a second by `if_tsresol`: a negative power of ten, or with the upper bit of two.
/// Finer than 64 bits can say is taken for microseconds.
fn per_second(resolution: u8) -> u64 {
    let power = u32::from(resolution & 0x7f);
    let units = match resolution & 0x80 {
        0 => 10_u64.checked_pow(power),
        _ => 1_u64.checked_shl(power),
    };
    units.unwrap_or(1_000_000)
}

impl<R: Read> Blocks<R> {
    /// The blocks of what `source` has.
    pub(super) fn new(source: R) -> Result<Self, CaptureError> {
        let mut blocks = Self {
            source,
            buffer: vec![0; BUFFER],
            start: 0,
            end: 0,
            given: 0,
            format: Format::Pcapng(Order::Little),
        };
        blocks.fill(12)?;
        let begin = blocks.rest();
        if begin.is_empty() {
            return Err(CaptureError::Empty);
        }
        match Format::of(begin) {
            Some(format) => blocks.format = format,
            None => {
                let magic = begin[..begin.len().min(4)].to_vec();
                return Err(CaptureError::Unknown { magic });
            }
        }
        Ok(blocks)
    }

    /// The next block, and how many bytes of the file it takes; or how the capture ended.
    pub(super) fn next(&mut self) -> Result<(usize, Block<'_>), End> {
        self.start += self.given;
        self.given = 0;
        let format = self.format;
        if !self.whole(format.head())? {
            return Err(match self.rest() {
                [] => End::Complete,
                _ => End::Truncated,
            });
        }
        let (length, then) = format.length(self.rest()).map_err(garbled)?;
        if length > LONGEST_BLOCK {
            let why = format!("a block of more than {} MiB", LONGEST_BLOCK >> 20);
            return Err(End::Garbled { why });
        }
        if !self.whole(length)? {
            return Err(End::Truncated);
        }
        // A section's order of bytes is its header's, too.
        let format = match then {
            Format::Pcapng(_) => then,
            _ => format,
        };
        let block = &self.buffer[self.start..self.start + length];
        let block = format.block(block).map_err(garbled)?;
        self.given = length;
        self.format = then;
        Ok((length, block))
    }

    /// What comes `ahead` bytes behind the block that was given out last, if it is here already.
    pub(super) fn soon(&self, ahead: usize) -> Option<&u8> {
        self.rest().get(self.given + ahead)
    }

    fn rest(&self) -> &[u8] {
        &self.buffer[self.start..self.end]
    }

    /// Whether so many bytes are left, all of which are then here.
    #[inline]
    fn whole(&mut self, bytes: usize) -> Result<bool, End> {
        if self.end - self.start >= bytes {
            return Ok(true);
        }
        let filled = self.fill(bytes);
        filled.map_err(|error| End::Failed {
            why: error.to_string(),
        })
    }

    #[cold]
    fn fill(&mut self, bytes: usize) -> io::Result<bool> {
        self.buffer.copy_within(self.start..self.end, 0);
        self.end -= self.start;
        self.start = 0;
        if self.buffer.len() < bytes {
            self.buffer.resize(bytes, 0);
        }
        while self.end < bytes {
            match self.source.read(&mut self.buffer[self.end..]) {
                Ok(0) => return Ok(false),
                Ok(more) => self.end += more,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

fn garbled(why: &str) -> End {
    let why = why.to_owned();
    End::Garbled { why }
}

#[cfg(test)]
mod tests;
