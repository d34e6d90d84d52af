//! The body of a response.

use hyper::body::{Body, Bytes, Frame, SizeHint};
use rustix::io::{Errno, ReadWriteFlags, preadv2};
use std::fs::File;
use std::future::Future;
use std::io::{self, IoSliceMut};
use std::os::unix::fs::FileExt;
use std::pin::Pin;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Bytes of a file that are read first. No more than the connection has taken already is read in
/// one go: what waits for one that takes nothing, which no limit of the endpoint's memory counts,
/// is little.
const FIRST: u64 = 16 << 10;
/// ... and at most.
const CHUNK: u64 = 256 << 10;

/// What is sent.
#[derive(Debug)]
pub(crate) enum Content {
    /// These bytes.
    Text(Bytes),
    /// Nothing, or nothing more.
    Nothing,
    /// A part of a file.
    File(Piece),
    /// The same, while a chunk is read on another thread.
    Reading(JoinHandle<io::Result<(File, Bytes)>>, Extent),
}

/// Bytes of a file.
#[derive(Debug)]
pub(crate) struct Piece {
    pub(super) file: File,
    pub(super) extent: Extent,
}

/// Which bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Extent {
    /// The first.
    pub(super) at: u64,
    /// How many.
    pub(super) left: u64,
    /// How many of them have been given already.
    pub(super) given: u64,
}

impl Extent {
    pub(super) fn new(at: u64, left: u64) -> Self {
        Self { at, left, given: 0 }
    }

    fn skip(self, count: u64) -> Self {
        Self {
            at: self.at + count,
            left: self.left - count,
            given: self.given + count,
        }
    }

    /// How many are read next.
    fn chunk(self) -> usize {
        self.left.min(self.given.clamp(FIRST, CHUNK)) as usize
    }
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            let (file, bytes, extent) = match std::mem::replace(&mut *self, Self::Nothing) {
                Self::Nothing => return Poll::Ready(None),
                Self::File(Piece { extent, .. }) if extent.left == 0 => return Poll::Ready(None),
                Self::Text(text) => return Poll::Ready(Some(Ok(Frame::data(text)))),
                Self::File(Piece { file, extent }) => match read_at_once(&file, extent)? {
                    Some(bytes) => (file, bytes, extent),
                    None => {
                        // The disk may take its time, and everything else is on this thread.
                        let reading = tokio::task::spawn_blocking(move || read(file, extent));
                        *self = Self::Reading(reading, extent);
                        continue;
                    }
                },
                Self::Reading(mut reading, extent) => {
                    let Poll::Ready(done) = Pin::new(&mut reading).poll(cx) else {
                        *self = Self::Reading(reading, extent);
                        return Poll::Pending;
                    };
                    let (file, bytes) = done.map_err(io::Error::other).and_then(|r| r)?;
                    (file, bytes, extent)
                }
            };
            let extent = extent.skip(bytes.len() as u64);
            *self = Self::File(Piece { file, extent });
            return Poll::Ready(Some(Ok(Frame::data(bytes))));
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            Self::Nothing => true,
            Self::File(piece) => piece.extent.left == 0,
            Self::Text(_) | Self::Reading(..) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Nothing => 0,
            Self::Text(text) => text.len() as u64,
            Self::File(Piece { extent, .. }) | Self::Reading(_, extent) => extent.left,
        })
    }
}

/// The next chunk, as much of it as is in memory; `None`: nothing is, or nobody knows.
fn read_at_once(file: &File, extent: Extent) -> io::Result<Option<Bytes>> {
    let mut bytes = vec![0; extent.chunk()];
    let pieces = &mut [IoSliceMut::new(&mut bytes)];
    match preadv2(file, pieces, extent.at, ReadWriteFlags::NOWAIT) {
        Ok(0) => Err(cut_short()),
        Ok(count) => {
            bytes.truncate(count);
            Ok(Some(bytes.into()))
        }
        Err(Errno::AGAIN | Errno::INTR | Errno::OPNOTSUPP | Errno::NOSYS | Errno::INVAL) => {
            Ok(None)
        }
        Err(e) => Err(e.into()),
    }
}

/// The next chunk, whatever it takes.
fn read(file: File, extent: Extent) -> io::Result<(File, Bytes)> {
    let mut bytes = vec![0; extent.chunk()];
    let read = file.read_exact_at(&mut bytes, extent.at);
    read.map_err(|e| match e.kind() {
        io::ErrorKind::UnexpectedEof => cut_short(),
        _ => e,
    })?;
    Ok((file, bytes.into()))
}

/// The length has been promised.
fn cut_short() -> io::Error {
    io::Error::new(
        io::ErrorKind::UnexpectedEof,
        "the file has become shorter while it was sent",
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What waits for one that takes nothing is what he has taken, or [`FIRST`].
    #[test]
    fn no_more_is_read_ahead_than_was_taken() {
        let mut extent = Extent::new(7, 3 << 20);
        let mut chunks = Vec::new();
        while extent.left > 0 {
            let chunk = extent.chunk() as u64;
            assert!(chunk <= extent.given.max(FIRST) && chunk <= CHUNK);
            chunks.push(chunk >> 10);
            extent = extent.skip(chunk);
        }
        assert_eq!(chunks[..7], [16, 16, 32, 64, 128, 256, 256]);
        assert_eq!(extent.at, 7 + (3 << 20));
    }
}
