//! Capture files: pcap and pcapng in either byte order, plain or compressed, from a file or a pipe.
//!
//! `blocks` reads the formats; here are compression, times, interfaces, and a word for how
//! a capture ended. What could be read before a capture broke off counts.

mod blocks;

use crate::link::Link;
use crate::segment::{self, Content};
use blocks::{Block, Blocks, Described};
use narrows::prefetch::prefetch_part;
use narrows::{ByteCount, Duration, Instant};
use std::fmt;
use std::io::{self, BufReader, Read};

/// Bytes of a compressed file that are read at once.
const BUFFER: usize = 1 << 18;
/// So far ahead of what is read next what comes then is asked for: some packets.
const SOON: usize = 512;
/// Interfaces of a section beyond this are not told apart: a file may declare any number.
const MOST_INTERFACES: usize = 1 << 16;

/// One packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Frame<'a> {
    /// Its place in the file, from 1, as other readers count.
    pub number: u64,
    /// When it was captured, since the epoch of the file.
    pub at: Instant,
    /// On which interface of the file, from 0.
    pub interface: u32,
    /// What it begins with.
    pub link: Link,
    /// What was kept of it.
    pub bytes: &'a [u8],
    /// How long it was.
    pub original: ByteCount,
}

impl Frame<'_> {
    /// What it holds; `None` if that is no IP packet.
    pub fn content(&self) -> Option<Content> {
        let (packet, head) = self.link.network(self.bytes)?;
        let original = self.original.as_usize().saturating_sub(head);
        Some(segment::parse(packet, original))
    }
}

/// How a capture ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// With its last packet.
    Complete,
    /// In the middle of a block: it was cut off, or is still being written.
    Truncated,
    /// With something that is no block of a capture.
    Garbled {
        /// What the reader says of it.
        why: String,
    },
    /// The file could not be read on.
    Failed {
        /// What the operating system or the decompressor says.
        why: String,
    },
}

/// What was read of a capture.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Contents {
    /// Packets.
    pub packets: u64,
    /// Bytes of the file, decompressed.
    pub bytes: u64,
    /// Interfaces that were described.
    pub interfaces: u32,
    /// How far the clock of an interface was set back in all, at most: what came after that is taken to
    /// have come at once.
    pub set_back: Duration,
    /// How it ended.
    pub end: End,
}

impl fmt::Display for Contents {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { packets, bytes, .. } = self;
        if !self.set_back.is_zero() {
            let by = self.set_back;
            write!(f, "its clock was set back by {by}, and goes on here; ")?;
        }
        match &self.end {
            End::Complete => write!(f, "{packets} packets"),
            End::Truncated => write!(
                f,
                "the capture ends in the middle of a packet, after {packets} whole ones and {bytes} bytes"
            ),
            End::Garbled { why } => write!(
                f,
                "after {packets} packets, at byte {bytes}, comes what is no packet ({why}); what follows is not read"
            ),
            End::Failed { why } => {
                write!(
                    f,
                    "after {packets} packets the file cannot be read on: {why}"
                )
            }
        }
    }
}

/// Why a file is no capture.
#[derive(Debug)]
pub enum CaptureError {
    /// It is empty.
    Empty,
    /// It begins like neither format.
    Unknown {
        /// Its first bytes, as many of four as there are.
        magic: Vec<u8>,
    },
    /// It cannot be read.
    Io(io::Error),
}

impl fmt::Display for CaptureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("the file is empty"),
            Self::Unknown { magic } => {
                f.write_str("no capture: it begins with ")?;
                for byte in magic {
                    write!(f, "{byte:02x}")?;
                }
                f.write_str("; pcap, pcapng, and both compressed with gzip or zstd can be read")
            }
            Self::Io(error) => write!(f, "{error}"),
        }
    }
}

impl std::error::Error for CaptureError {}

impl From<io::Error> for CaptureError {
    fn from(error: io::Error) -> Self {
        Self::Io(error)
    }
}

/// The units of an interface's times.
#[derive(Clone, Copy, Debug)]
struct Interface {
    link: Link,
    /// Units a second.
    resolution: u64,
    /// Seconds to add.
    offset: i64,
}

impl From<Described> for Interface {
    fn from(described: Described) -> Self {
        Self {
            link: Link::of(described.link),
            resolution: described.resolution,
            offset: described.offset,
        }
    }
}

impl Interface {
    fn instant(&self, units: u64) -> Instant {
        const SECOND: u64 = 1_000_000_000;
        let nanos = match self.resolution {
            SECOND => units,
            1_000_000 => units.saturating_mul(1_000),
            0 => 0,
            per_second => {
                let wide = u128::from(units) * u128::from(SECOND) / u128::from(per_second);
                u64::try_from(wide).unwrap_or(u64::MAX)
            }
        };
        let shift = self.offset.unsigned_abs().saturating_mul(SECOND);
        Instant::from_nanos(if self.offset < 0 {
            nanos.saturating_sub(shift)
        } else {
            nanos.saturating_add(shift)
        })
    }
}

/// A clock that may be set back, or whose seconds of 32 bits may begin anew, and goes on. One packet with a
/// time too late, or two with one too early, are those packets' and not the clock's.
#[derive(Clone, Copy, Debug, Default)]
pub struct Steady {
    last: Instant,
    /// The latest time before the last packet.
    prior: Instant,
    shift: Shift,
    /// What was before the clock was set back, until it has run by [`JUMP`] since.
    before: Option<Before>,
}

/// What is added to the times of a clock.
#[derive(Clone, Copy, Debug, Default)]
struct Shift {
    added: Duration,
    /// Of that, since its seconds began anew.
    wrapped: Duration,
}

#[derive(Clone, Copy, Debug)]
struct Before {
    shift: Shift,
    last: Instant,
    /// When it was last set.
    since: Instant,
    /// How far.
    by: Duration,
}

/// Packets are not captured out of order by so much, and clocks are set by more, or else slewed (RFC 5905
/// section 11.2.3: 128 ms).
const JUMP: Duration = Duration::from_millis(100);
/// When seconds of 32 bits begin anew.
const WRAP: Duration = Duration::from_secs(1 << 32);
/// The latest time that there is.
const LATEST: Instant = Instant::from_nanos(u64::MAX);

impl Steady {
    /// When something was for which the clock shows this.
    pub fn steady(&mut self, shown: Instant) -> Instant {
        let mut at = shown + self.shift.added;
        // Nearly all: it goes on.
        if self.before.is_none() && at >= self.last && at < LATEST {
            self.prior = self.last;
            self.last = at;
            return at;
        }
        if at == LATEST && self.prior == LATEST {
            // What is added leaves no room for what comes.
            *self = Self::default();
            at = shown;
        }
        let mut last = self.last;
        if at > last + JUMP
            && let Some(before) = self.before.filter(|before| before.goes_on_with(shown))
        {
            self.shift = before.shift;
            self.before = None;
            at = shown + self.shift.added;
            last = before.last;
        } else if at + JUMP < last {
            if last > self.prior + JUMP && at + JUMP >= self.prior {
                // It was the packet before this one that had a wrong time.
                last = self.prior;
            } else {
                let before = self
                    .before
                    .map_or((self.shift, last), |b| (b.shift, b.last));
                let by = last.since(at);
                if by > WRAP / 2 {
                    self.shift.added += WRAP;
                    self.shift.wrapped += WRAP;
                } else {
                    self.shift.added += by;
                }
                at = shown + self.shift.added;
                last = at;
                self.before = Some(Before {
                    shift: before.0,
                    last: before.1,
                    since: at,
                    by,
                });
            }
        }
        self.before = self.before.filter(|before| at <= before.since + JUMP);
        self.prior = last;
        self.last = last.max(at);
        at
    }

    /// How far it was set back in all.
    pub fn set_back(&self) -> Duration {
        self.shift.added.saturating_sub(self.shift.wrapped)
    }
}

impl Before {
    /// Whether `shown` follows what was before so closely that the clock was not set meanwhile.
    fn goes_on_with(&self, shown: Instant) -> bool {
        let at = shown + self.shift.added;
        at + JUMP >= self.last && at.since(self.last) <= JUMP.max(self.by / 16)
    }
}

/// Reads a capture from `source` and hands each packet to `packet`, in the order of the file;
/// `packet` also learns how many bytes have been read by then, decompressed.
///
/// # Errors
/// When `source` is no capture at all. A capture that breaks off is no error: see [`Contents::end`].
pub fn read(
    source: impl Read,
    mut packet: impl FnMut(&Frame<'_>, u64),
) -> Result<Contents, CaptureError> {
    read_from(Box::new(source), &mut packet)
}

/// The same without parameters of type: compiled here, as this crate is.
fn read_from(
    source: Box<dyn Read + '_>,
    packet: &mut dyn FnMut(&Frame<'_>, u64),
) -> Result<Contents, CaptureError> {
    let mut blocks = Blocks::new(decompressed(source)?)?;
    let mut interfaces: Vec<Interface> = Vec::new();
    let mut contents = Contents {
        packets: 0,
        bytes: 0,
        interfaces: 0,
        set_back: Duration::ZERO,
        end: End::Complete,
    };
    // By interface, of which there are no more than are told apart.
    let mut clocks: Vec<Steady> = Vec::new();
    loop {
        let (length, block) = match blocks.next() {
            Ok(next) => next,
            Err(end) => {
                contents.end = end;
                break;
            }
        };
        if let Some(mut frame) = frame_of(&block, &mut interfaces, &mut contents) {
            let interface = frame.interface as usize;
            if clocks.len() <= interface {
                clocks.resize(interface + 1, Steady::default());
            }
            frame.at = clocks[interface].steady(frame.at);
            packet(&frame, contents.bytes);
        }
        contents.bytes += length as u64;
        // What is done with packets between brings in much else.
        if let Some(soon) = blocks.soon(SOON) {
            prefetch_part(soon, 0..128);
        }
    }
    let set_back = clocks.iter().map(Steady::set_back);
    contents.set_back = set_back.max().unwrap_or_default();
    Ok(contents)
}

/// What `block` is: a packet, or something to be noted.
fn frame_of<'a>(
    block: &Block<'a>,
    interfaces: &mut Vec<Interface>,
    contents: &mut Contents,
) -> Option<Frame<'a>> {
    match *block {
        Block::Section => interfaces.clear(),
        Block::Interface(described) => {
            if interfaces.len() < MOST_INTERFACES {
                interfaces.push(Interface::from(described));
                contents.interfaces = contents.interfaces.max(interfaces.len() as u32);
            }
        }
        // It has no time, so nothing can be said of when it was.
        Block::Untimed => contents.packets += 1,
        Block::Packet {
            interface,
            units,
            bytes,
            original,
        } => {
            contents.packets += 1;
            let on = interfaces.get(interface as usize)?;
            return Some(Frame {
                number: contents.packets,
                at: on.instant(units),
                interface,
                link: on.link,
                bytes,
                original: ByteCount::new(original.into()),
            });
        }
        Block::Other => {}
    }
    None
}

/// Up to four bytes from the front; fewer if there are no more.
fn first_bytes(source: &mut impl Read) -> io::Result<Vec<u8>> {
    let mut magic = Vec::with_capacity(4);
    source.take(4).read_to_end(&mut magic)?;
    Ok(magic)
}

/// `source` without its compression, if it has one.
fn decompressed<'a>(mut source: Box<dyn Read + 'a>) -> io::Result<Box<dyn Read + 'a>> {
    let magic = first_bytes(&mut source)?;
    let compressed = match magic[..] {
        [0x1f, 0x8b, ..] => Compression::Gzip,
        [0x28, 0xb5, 0x2f, 0xfd] => Compression::Zstd,
        _ => Compression::None,
    };
    let whole = io::Cursor::new(magic).chain(source);
    Ok(match compressed {
        Compression::None => Box::new(whole),
        Compression::Gzip => Box::new(flate2::bufread::MultiGzDecoder::new(
            BufReader::with_capacity(BUFFER, whole),
        )),
        Compression::Zstd => Box::new(Zstd {
            source: Some(BufReader::with_capacity(BUFFER, Box::new(whole))),
            frame: None,
        }),
    })
}

enum Compression {
    None,
    Gzip,
    Zstd,
}

type Buffered<'a> = BufReader<Box<dyn Read + 'a>>;
type ZstdFrame<'a> =
    ruzstd::decoding::StreamingDecoder<Buffered<'a>, ruzstd::decoding::FrameDecoder>;

/// All frames of a zstd file, one after another: the decoder reads one.
struct Zstd<'a> {
    source: Option<Buffered<'a>>,
    frame: Option<Box<ZstdFrame<'a>>>,
}

impl Read for Zstd<'_> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        use std::io::BufRead;
        loop {
            if let Some(frame) = &mut self.frame {
                let n = frame.read(out)?;
                if n > 0 || out.is_empty() {
                    return Ok(n);
                }
                self.source = self.frame.take().map(|frame| frame.into_inner());
            }
            let Some(mut source) = self.source.take() else {
                return Ok(0);
            };
            if source.fill_buf()?.is_empty() {
                return Ok(0);
            }
            let frame = ZstdFrame::new(source).map_err(io::Error::other)?;
            self.frame = Some(Box::new(frame));
        }
    }
}
