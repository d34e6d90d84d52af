//! A write at one end of a connection that is read at the other, by one thread: a veth hands packets
//! over within the call that sends them, so the time of a round is the work of both hosts.

use narrows::driver::Clock;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};

/// Payload of a full segment over an MTU of 1500 with timestamps.
pub(crate) const SEGMENT: usize = 1_448;
/// Segments of a large write.
pub(crate) const MANY: usize = 32;

/// How a round is written, sent and read.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Round {
    /// Bytes.
    pub(crate) size: usize,
    /// How many reads take them.
    pub(crate) reads: usize,
}

impl Round {
    /// A write of full segments that is read at once.
    pub(crate) const LARGE: Self = Self {
        size: SEGMENT * MANY,
        reads: 1,
    };

    /// So many rounds; `took` has the nanoseconds of each.
    pub(crate) fn repeat(
        self,
        mut from: &TcpStream,
        mut to: &TcpStream,
        count: u32,
        cancel: &AtomicBool,
        took: &mut dyn FnMut(u64),
    ) -> io::Result<()> {
        let data = vec![0; self.size];
        let mut buf = vec![0; self.size.div_ceil(self.reads)];
        for _ in 0..count {
            if cancel.load(Ordering::Relaxed) {
                return Err(io::ErrorKind::Interrupted.into());
            }
            let begin = Clock.now();
            from.write_all(&data)?;
            let mut left = self.size;
            while left > 0 {
                let most = left.min(buf.len());
                match to.read(&mut buf[..most])? {
                    0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                    n => left -= n,
                }
            }
            took(Clock.now().since(begin).as_nanos());
        }
        Ok(())
    }
}
