//! Two captures of the same packets: whether they are, and both explained together.

use super::super::{Console, Stop, output};
use narrows_explain::Explanation;
use narrows_explain::capture;
use narrows_explain::two::{Log, Path, Unaligned};
use std::fs::File;
use std::io::{self, Read};

/// Packets of each capture that are followed, some 50 bytes each.
pub(super) const FOLLOWED: usize = 8_000_000;
/// Packets of a second capture that are looked at to know whether it has the first one's.
const LOOK: u64 = 50_000;

/// Whether the capture at `path` has packets of `log`: whatever its times say, it was taken at another
/// place then.
pub(super) fn is_elsewhere(path: &std::path::Path, log: &Log) -> bool {
    let Ok(file) = File::open(path) else {
        return false;
    };
    let mut other = Log::new(LOOK as usize);
    let looked = std::cell::Cell::new(0);
    let source = Until {
        source: file,
        over: || looked.get() >= LOOK,
    };
    let read = capture::read(source, |frame, _| {
        other.handle_packet(frame);
        looked.set(frame.number);
    });
    read.is_ok() && other.is_of_the_same_packets(log)
}

/// Ends where it was looked at long enough.
struct Until<R, F> {
    source: R,
    over: F,
}

impl<R: Read, F: Fn() -> bool> Read for Until<R, F> {
    fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
        if (self.over)() {
            return Ok(0);
        }
        self.source.read(out)
    }
}

/// What two places tell together; each by itself if they are not of the same packets, or the clocks
/// cannot be aligned, which is told.
pub(super) fn joined(
    places: Vec<Explanation>,
    logs: &[Log],
    console: &mut Console<'_>,
) -> Result<Vec<Explanation>, Stop> {
    let ([one, other], [first, second]) = (&places[..], logs) else {
        return Ok(places);
    };
    match Path::between(first, second) {
        Ok(path) => Ok(vec![path.explain(one, other)]),
        Err(Unaligned::NothingShared) => Ok(places),
        Err(why) => {
            let text =
                format!("The captures cannot be aligned, and are explained one by one: {why}.\n");
            output::print(console.stderr, &text)?;
            Ok(places)
        }
    }
}
