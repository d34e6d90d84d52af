//! A file that a run writes as it goes, a capture or a trace: if it breaks off, the run does not.

use super::output::{OutputError, OutputFile, Wanted};
use super::words::{Word, one_of};
use super::{Stop, usage, values};
use clap::Args;
use narrows::ByteCount;
use narrows_experiment::host::capture::Side;
use narrows_experiment::scenario::RunContext;
use std::io::{self, Write};
use std::path::PathBuf;

/// What is recorded of a run.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct RecordArgs {
    /// Capture every packet of a single run as pcapng with nanosecond times.
    #[arg(long, value_name = "FILE")]
    pub(super) pcap: Option<PathBuf>,
    /// Keep the first so many bytes of each packet in the capture [default: all].
    #[arg(long, value_name = "SIZE", value_parser = values::snap_length, requires = "pcap")]
    snaplen: Option<ByteCount>,
    /// The host at whose link the capture is taken [default: the first].
    #[arg(long, value_name = "HOST", requires = "pcap")]
    pcap_at: Option<String>,
    /// Which end of that link the capture is taken at [default: switch].
    #[arg(long, value_name = "END", value_parser = one_of(SIDES), requires = "pcap")]
    pcap_side: Option<Side>,
    /// Write what every connection of a single run decides as JSON lines: windows, losses,
    /// timeouts with their cause.
    #[arg(long, value_name = "FILE")]
    pub(super) trace: Option<PathBuf>,
}

/// The ends of a link.
const SIDES: &[Word<Side>] = &[
    (
        "switch",
        "on the wire, each packet with what becomes of it",
        Side::Switch,
    ),
    (
        "host",
        "above the host's offloads, as its own tcpdump sees it",
        Side::Host,
    ),
];

impl RecordArgs {
    /// The files that are wanted.
    pub(super) fn wanted(&self) -> [Wanted<'_>; 2] {
        [
            Wanted::file("pcap", self.pcap.as_deref()),
            Wanted::file("trace", self.trace.as_deref()),
        ]
    }

    /// The capture that is wanted, and how much of each packet, which is then no more.
    pub(super) fn take_capture(&mut self) -> Option<(PathBuf, Option<ByteCount>)> {
        let snap_length = self.snaplen.take();
        self.pcap.take().map(|path| (path, snap_length))
    }

    /// The host at whose link the capture is taken, if one is named.
    pub(super) fn capture_host(&self) -> Option<&str> {
        self.pcap_at.as_deref()
    }

    /// The option that says where the capture is taken, if any does.
    pub(super) const fn capture_place(&self) -> Option<&'static str> {
        match (&self.pcap_at, self.pcap_side) {
            (Some(_), _) => Some("pcap-at"),
            (None, Some(_)) => Some("pcap-side"),
            (None, None) => None,
        }
    }

    /// Whether anything is.
    pub(super) const fn is_any(&self) -> bool {
        self.pcap.is_some() || self.trace.is_some()
    }

    /// Of `runs` runs one is recorded, if it is the only one; `how` says what makes it so.
    ///
    /// # Errors
    /// If it is not.
    pub(super) fn check(&self, runs: usize, how: &str) -> Result<(), Stop> {
        for (option, what, path) in [
            ("pcap", "a capture", &self.pcap),
            ("trace", "a trace", &self.trace),
        ] {
            if let (Some(path), true) = (path, runs > 1) {
                let why = format!("{what} is of one run, and this is {runs}: {how}");
                return Err(usage(option, &path.display().to_string(), &why));
            }
        }
        Ok(())
    }

    /// Opens the files.
    ///
    /// # Errors
    /// If that cannot be done.
    pub(super) fn open(&self) -> Result<Recorders, Stop> {
        let open = |what, unit, path: &Option<PathBuf>| {
            let path = path.as_deref();
            let file = path.map(|p| OutputFile::create(what, p)).transpose()?;
            Ok::<_, Stop>(file.map(|file| Recorder::of(unit, file)))
        };
        Ok(Recorders {
            capture: open("capture", Unit::Block, &self.pcap)?,
            trace: open("trace", Unit::Line, &self.trace)?,
            snap_length: self.snaplen,
            capture_side: self.pcap_side.unwrap_or_default(),
        })
    }
}

/// What a file consists of: it may end after any one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    /// Blocks of pcapng.
    Block,
    /// Lines.
    Line,
}

impl Unit {
    /// How many bytes at the beginning of `bytes`, which begin with a unit, are whole units.
    fn whole(self, bytes: &[u8]) -> usize {
        match self {
            Self::Line => bytes.iter().rposition(|b| *b == b'\n').map_or(0, |i| i + 1),
            Self::Block => {
                let mut end = 0;
                // A block's kind is followed by its length, in our order of bytes.
                while let Some([_, _, _, _, a, b, c, d]) = bytes.get(end..end + 8) {
                    let next = end + u32::from_le_bytes([*a, *b, *c, *d]) as usize;
                    if next <= end || next > bytes.len() {
                        break;
                    }
                    end = next;
                }
                end
            }
        }
    }
}

/// Takes whatever a run writes. The first error is kept for the end, and nothing is written after
/// it. Each call of `write` brings whole units, as captures and traces do it.
#[derive(Debug)]
pub(super) struct Recorder<W> {
    out: W,
    unit: Unit,
    /// Bytes of whole units that were written.
    whole: u64,
    failed: Option<io::Error>,
}

impl<W: Write> Recorder<W> {
    /// Write to `out`, which must not hold anything back.
    const fn new(unit: Unit, out: W) -> Self {
        Self {
            out,
            unit,
            whole: 0,
            failed: None,
        }
    }
}

impl<W: Write> Write for Recorder<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut written = 0;
        while written < bytes.len() && self.failed.is_none() {
            match self.out.write(&bytes[written..]) {
                Ok(0) => self.failed = Some(io::ErrorKind::WriteZero.into()),
                Ok(n) => written += n,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => self.failed = Some(e),
            }
        }
        self.whole += self.unit.whole(&bytes[..written]) as u64;
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A file, and nothing between it and who writes.
#[derive(Debug)]
pub(super) struct Direct(OutputFile);

impl Write for Direct {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.write_unbuffered(bytes)
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Recorder<Direct> {
    /// Record in `file`.
    const fn of(unit: Unit, file: OutputFile) -> Self {
        Self::new(unit, Direct(file))
    }

    /// Nothing more comes.
    ///
    /// # Errors
    /// The first that occurred; what was whole by then stays.
    pub(super) fn finish(self) -> Result<(), OutputError> {
        match self.failed {
            None => self.out.0.finish(),
            Some(error) => Err(self.out.0.broke_off(self.whole, error)),
        }
    }
}

/// The files that a run writes.
#[derive(Debug, Default)]
pub(super) struct Recorders {
    capture: Option<Recorder<Direct>>,
    trace: Option<Recorder<Direct>>,
    snap_length: Option<ByteCount>,
    capture_side: Side,
}

impl Recorders {
    /// The context of a run that is recorded.
    pub(super) fn context(&mut self) -> RunContext<'_> {
        RunContext {
            capture: self.capture.as_mut().map(|file| file as _),
            snap_length: self.snap_length,
            capture_side: self.capture_side,
            trace: self.trace.as_mut().map(|file| file as _),
            ..RunContext::default()
        }
    }

    /// The run is over; what went wrong.
    pub(super) fn finish(self) -> Vec<OutputError> {
        let both = [self.capture, self.trace];
        let ends = both.into_iter().flatten().map(Recorder::finish);
        ends.filter_map(Result::err).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::pcapng::{Direction, Record, Writer};

    /// Takes `room` bytes, a few at a time, then says that the disk is full.
    struct Disk {
        room: usize,
        written: Vec<u8>,
    }

    impl Write for Disk {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let n = bytes.len().min(7).min(self.room - self.written.len());
            if n == 0 {
                return Err(io::ErrorKind::StorageFull.into());
            }
            self.written.extend_from_slice(&bytes[..n]);
            Ok(n)
        }
        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    /// A capture of three packets, and where its blocks end.
    fn capture(out: &mut (dyn Write + Send)) {
        let mut file = Writer::new(out, "a", "b", "c").unwrap();
        let interface = file.interface("i", "");
        for len in [40, 41, 1_500] {
            file.packet(&Record {
                interface,
                nanos: 1,
                direction: Direction::Inbound,
                comment: None,
                bytes: &vec![7; len],
            });
        }
        file.finish().unwrap();
    }

    #[test]
    fn what_was_whole_when_the_disk_was_full_is_known() {
        let mut all = Vec::new();
        capture(&mut all);
        let mut ends = vec![0];
        while let Some(len) = all[*ends.last().unwrap()..].get(4..8) {
            let len = u32::from_le_bytes(len.try_into().unwrap());
            ends.push(ends.last().unwrap() + len as usize);
        }
        assert_eq!((ends.len(), ends.last()), (6, Some(&all.len())));
        for room in 0..=all.len() {
            let written = Vec::new();
            let mut recorder = Recorder::new(Unit::Block, Disk { room, written });
            capture(&mut recorder);
            assert_eq!(recorder.failed.is_none(), room == all.len(), "{room}");
            assert_eq!(recorder.out.written, all[..room]);
            let whole = ends.iter().rfind(|end| **end <= room).unwrap();
            assert_eq!(recorder.whole, *whole as u64, "{room}");
        }
    }

    #[test]
    fn lines_end_with_their_ends_and_nothing_follows_an_error() {
        for (room, whole) in [(0, 0), (3, 0), (4, 4), (6, 4), (8, 8)] {
            let written = Vec::new();
            let mut recorder = Recorder::new(Unit::Line, Disk { room, written });
            for line in [b"abc\n", b"def\n"] {
                recorder.write_all(line).unwrap();
            }
            assert_eq!((recorder.out.written.len(), recorder.whole), (room, whole));
        }
    }
}
