//! Writes pcapng files (draft-ietf-opsawg-pcapng): the three block types that a capture needs.
//!
//! Little-endian, one section, times in nanoseconds.

use narrows_congestion::ByteCount;
use std::io::{self, Write};

const SECTION_HEADER: u32 = 0x0a0d_0d0a;
const INTERFACE_DESCRIPTION: u32 = 1;
const ENHANCED_PACKET: u32 = 6;
const BYTE_ORDER_MAGIC: u32 = 0x1a2b_3c4d;

/// What the packets of an interface begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum LinkType {
    /// LINKTYPE_ETHERNET: an Ethernet header.
    Ethernet = 1,
    /// LINKTYPE_RAW: an IPv4 or IPv6 header.
    Raw = 101,
}

const OPT_END: u16 = 0;
const OPT_COMMENT: u16 = 1;
const SHB_OS: u16 = 3;
const SHB_USERAPPL: u16 = 4;
const IF_NAME: u16 = 2;
const IF_DESCRIPTION: u16 = 3;
const IF_TSRESOL: u16 = 9;
const EPB_FLAGS: u16 = 2;

/// The time resolution: a negative power of ten.
const NANOSECONDS: u8 = 9;
/// What is kept back before the file is written to.
const BUFFER: usize = 64 << 10;

/// An interface that was described in the file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interface(u32);

/// Which way a packet went, seen from its interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Towards the one who captures.
    Inbound,
    /// Away from the one who captures.
    Outbound,
}

/// One packet of a capture.
#[derive(Clone, Copy, Debug)]
pub struct Record<'a> {
    /// Where it was seen.
    pub interface: Interface,
    /// When, in nanoseconds since the epoch of the file.
    pub nanos: u64,
    /// Which way it went.
    pub direction: Direction,
    /// A remark, shown by readers beside the packet.
    pub comment: Option<&'a str>,
    /// The packet, from the header of the interface's link type on.
    pub bytes: &'a [u8],
}

/// A pcapng file being written.
///
/// The first error ends the writing; it is kept for [`Writer::finish`], so that what produces
/// packets need not look after each. Dropping the writer writes out what it holds back.
pub struct Writer<W: Write> {
    out: W,
    /// Blocks not yet written, all whole.
    pending: Vec<u8>,
    interfaces: u32,
    /// Bytes kept of a packet; 0 is all, as in the file.
    snap_length: u32,
    failed: Option<io::Error>,
}

impl<W: Write> Writer<W> {
    /// Begin a file that says `application` wrote it on `system`, with a remark about all of it.
    ///
    /// # Errors
    /// When the header cannot be written: `out` takes nothing.
    pub fn new(out: W, application: &str, system: &str, comment: &str) -> io::Result<Self> {
        let mut writer = Self {
            out,
            pending: Vec::with_capacity(BUFFER + 4096),
            interfaces: 0,
            snap_length: 0,
            failed: None,
        };
        writer.block(SECTION_HEADER, |b| {
            u32_to(b, BYTE_ORDER_MAGIC);
            u16_to(b, 1); // Version 1.0.
            u16_to(b, 0);
            b.extend_from_slice(&u64::MAX.to_le_bytes()); // Section length not given.
            option(b, OPT_COMMENT, comment.as_bytes());
            option(b, SHB_OS, system.as_bytes());
            option(b, SHB_USERAPPL, application.as_bytes());
            option(b, OPT_END, &[]);
        });
        writer.write_out();
        match writer.failed.take() {
            Some(error) => Err(error),
            None => Ok(writer),
        }
    }

    /// Keep of each packet no more than its first `bytes` (at least one), or all: the snap length.
    /// To be called before the first interface is described, since libpcap reads only files whose
    /// interfaces have one.
    pub fn set_snap_length(&mut self, bytes: Option<ByteCount>) {
        let bytes = bytes.map_or(0, |n| n.get().max(1));
        self.snap_length = u32::try_from(bytes).unwrap_or(u32::MAX);
    }

    /// Describe an interface of IP packets; they can be captured there from now on.
    ///
    /// libpcap 1.10 and what is built on it (tcpdump, tcptrace) refuse files with a second
    /// interface of this kind.
    pub fn interface(&mut self, name: &str, description: &str) -> Interface {
        self.interface_of(LinkType::Raw, name, description)
    }

    /// Describe an interface; packets can be captured there from now on.
    pub fn interface_of(&mut self, link: LinkType, name: &str, description: &str) -> Interface {
        let snap_length = self.snap_length;
        self.block(INTERFACE_DESCRIPTION, |b| {
            u16_to(b, link as u16);
            u16_to(b, 0);
            u32_to(b, snap_length);
            option(b, IF_NAME, name.as_bytes());
            option(b, IF_DESCRIPTION, description.as_bytes());
            option(b, IF_TSRESOL, &[NANOSECONDS]);
            option(b, OPT_END, &[]);
        });
        let id = Interface(self.interfaces);
        self.interfaces += 1;
        id
    }

    /// Add a packet.
    #[inline]
    pub fn packet(&mut self, record: &Record<'_>) {
        if self.failed.is_some() {
            return;
        }
        let len = u32::try_from(record.bytes.len()).unwrap_or(u32::MAX);
        let kept = match self.snap_length {
            0 => record.bytes,
            most => &record.bytes[..record.bytes.len().min(most as usize)],
        };
        self.block(ENHANCED_PACKET, |b| {
            u32_to(b, record.interface.0);
            u32_to(b, (record.nanos >> 32) as u32);
            u32_to(b, record.nanos as u32);
            u32_to(b, kept.len() as u32); // Captured.
            u32_to(b, len); // On the wire.
            padded(b, kept);
            let flags: u32 = match record.direction {
                Direction::Inbound => 0b01,
                Direction::Outbound => 0b10,
            };
            option(b, EPB_FLAGS, &flags.to_le_bytes());
            if let Some(comment) = record.comment {
                option(b, OPT_COMMENT, comment.as_bytes());
            }
            option(b, OPT_END, &[]);
        });
        if self.pending.len() >= BUFFER {
            self.write_out();
        }
    }

    /// Write what is held back.
    ///
    /// # Errors
    /// The first error since the beginning.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_out();
        match self.failed.take() {
            Some(error) => Err(error),
            None => self.out.flush(),
        }
    }

    /// A block of `kind` around what `body` appends.
    fn block(&mut self, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
        let b = &mut self.pending;
        let start = b.len();
        u32_to(b, kind);
        u32_to(b, 0);
        body(b);
        let len = (b.len() + 4 - start) as u32;
        u32_to(b, len);
        b[start + 4..start + 8].copy_from_slice(&len.to_le_bytes());
    }

    fn write_out(&mut self) {
        if self.failed.is_none() && !self.pending.is_empty() {
            self.failed = self.out.write_all(&self.pending).err();
        }
        self.pending.clear();
    }
}

impl<W: Write> Drop for Writer<W> {
    fn drop(&mut self) {
        self.write_out();
        if self.failed.is_none() {
            // Nobody is left to tell; who wants to know calls `finish`.
            let _ = self.out.flush();
        }
    }
}

fn u16_to(b: &mut Vec<u8>, value: u16) {
    b.extend_from_slice(&value.to_le_bytes());
}

fn u32_to(b: &mut Vec<u8>, value: u32) {
    b.extend_from_slice(&value.to_le_bytes());
}

/// `bytes` and zeros up to a multiple of four.
fn padded(b: &mut Vec<u8>, bytes: &[u8]) {
    b.extend_from_slice(bytes);
    let padding = bytes.len().next_multiple_of(4) - bytes.len();
    b.extend_from_slice(&[0; 3][..padding]);
}

/// An option of a block; what is longer than an option can be is cut off.
fn option(b: &mut Vec<u8>, code: u16, value: &[u8]) {
    let value = &value[..value.len().min(usize::from(u16::MAX))];
    u16_to(b, code);
    u16_to(b, value.len() as u16);
    padded(b, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Takes `room` bytes, then says that the disk is full.
    struct Disk {
        room: usize,
        written: Vec<u8>,
        flushed: bool,
    }

    impl Disk {
        fn with_room(room: usize) -> Self {
            Self {
                room,
                written: Vec::new(),
                flushed: false,
            }
        }
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(self.room - self.written.len());
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            self.flushed = true;
            Ok(())
        }
    }

    fn write(disk: &mut Disk, packets: usize) -> io::Result<()> {
        let mut w = Writer::new(disk, "a", "s", "c")?;
        let interface = w.interface("i", "d");
        for _ in 0..packets {
            w.packet(&Record {
                interface,
                nanos: 0x1_0000_0002,
                direction: Direction::Outbound,
                comment: Some("hello"),
                bytes: &[0x45, 1, 2, 3, 4],
            });
        }
        w.finish()
    }

    #[test]
    fn bytes_are_those_of_the_format() {
        let mut disk = Disk::with_room(1000);
        write(&mut disk, 1).unwrap();
        assert!(disk.flushed);
        #[rustfmt::skip]
        let expected: &[u8] = &[
            // Section header: type, length, magic, version, section length, options, length.
            0x0a, 0x0d, 0x0d, 0x0a, 56, 0, 0, 0, 0x4d, 0x3c, 0x2b, 0x1a, 1, 0, 0, 0,
            255, 255, 255, 255, 255, 255, 255, 255,
            1, 0, 1, 0, b'c', 0, 0, 0, 3, 0, 1, 0, b's', 0, 0, 0, 4, 0, 1, 0, b'a', 0, 0, 0,
            0, 0, 0, 0, 56, 0, 0, 0,
            // Interface: link type, snap length, name, description, resolution.
            1, 0, 0, 0, 48, 0, 0, 0, 101, 0, 0, 0, 0, 0, 0, 0,
            2, 0, 1, 0, b'i', 0, 0, 0, 3, 0, 1, 0, b'd', 0, 0, 0, 9, 0, 1, 0, 9, 0, 0, 0,
            0, 0, 0, 0, 48, 0, 0, 0,
            // Packet: interface, time (high, low), lengths, data, flags, comment.
            6, 0, 0, 0, 64, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2, 0, 0, 0, 5, 0, 0, 0, 5, 0, 0, 0,
            0x45, 1, 2, 3, 4, 0, 0, 0,
            2, 0, 4, 0, 2, 0, 0, 0, 1, 0, 5, 0, b'h', b'e', b'l', b'l', b'o', 0, 0, 0,
            0, 0, 0, 0, 64, 0, 0, 0,
        ];
        assert_eq!(disk.written, expected);
    }

    #[test]
    fn a_snap_length_cuts_what_is_kept_and_not_what_is_said_of_the_wire() {
        for (snap, kept) in [(None, 5), (Some(3), 3), (Some(5), 5), (Some(0), 1)] {
            let mut file = Vec::new();
            let mut w = Writer::new(&mut file, "", "", "").unwrap();
            w.set_snap_length(snap.map(ByteCount::new));
            let interface = w.interface("", "");
            w.packet(&Record {
                interface,
                nanos: 0,
                direction: Direction::Inbound,
                comment: None,
                bytes: &[1, 2, 3, 4, 5],
            });
            w.finish().unwrap();
            let word = |at: usize| u32::from_le_bytes(file[at..at + 4].try_into().unwrap());
            let interface = word(4) as usize;
            let packet = interface + word(interface + 4) as usize;
            let limit = snap.map_or(0, |n| n.max(1)) as u32;
            assert_eq!(word(interface + 12), limit, "the interface's snap length");
            assert_eq!(
                (word(packet + 20), word(packet + 24)),
                (kept, 5),
                "{snap:?}"
            );
            let end = packet + word(packet + 4) as usize;
            assert_eq!(end, file.len());
            assert_eq!(word(end - 4) as usize, end - packet);
        }
    }

    #[test]
    fn a_full_disk_is_told_at_the_end_and_nothing_is_written_after_it() {
        for room in [0, 50] {
            let error = write(&mut Disk::with_room(room), 1).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
        }
        for room in [60, 110, 70_000, 130_000] {
            let mut disk = Disk::with_room(room);
            let error = write(&mut disk, 5_000).unwrap_err();
            assert_eq!(error.kind(), io::ErrorKind::StorageFull, "{room}");
            assert_eq!(disk.written.len(), room);
        }
    }

    #[test]
    fn dropping_it_keeps_what_was_captured() {
        let mut whole = Disk::with_room(1000);
        write(&mut whole, 1).unwrap();
        let mut disk = Disk::with_room(1000);
        {
            let mut w = Writer::new(&mut disk, "a", "s", "c").unwrap();
            let _ = w.interface("i", "d");
        }
        assert!(whole.written.starts_with(&disk.written));
        assert_eq!(disk.written.len(), 56 + 48);
        assert!(disk.flushed);
    }
}
