//! The memory that frames lie in, shared with the kernel: who has which frame.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::ring::{Descriptor, broken};
use super::sys::Mapping;
use std::io;
use std::ops::Range;

/// Who may touch a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Owner {
    Us,
    Kernel,
}

/// Frames of one size. The first are for receiving, the others for sending.
///
/// The kernel touches a frame only between the moment we put it into the fill or transmit ring and
/// the moment it comes back in the receive or completion ring. In between it is
/// [lent](Owner::Kernel), and nothing here gives access to it.
#[derive(Debug)]
pub(super) struct Umem {
    memory: Mapping,
    frame_size: u32,
    receiving: u32,
    owner: Vec<Owner>,
    /// Frames for sending that hold nothing, the one used last on top: it may still be in a cache.
    free: Vec<u32>,
}

/// A received frame that we have.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Received {
    frame: u32,
    bytes: Range<usize>,
}

impl Umem {
    /// `frame_size` is a power of two.
    pub(super) fn new(frame_size: u32, receiving: u32, sending: u32) -> io::Result<Self> {
        debug_assert!(frame_size.is_power_of_two());
        let frames = receiving + sending;
        Ok(Self {
            memory: Mapping::anonymous(frames as usize * frame_size as usize)?,
            frame_size,
            receiving,
            owner: vec![Owner::Us; frames as usize],
            free: (receiving..frames).rev().collect(),
        })
    }

    /// What to tell the kernel of it.
    pub(super) fn registration(&self) -> libc::xdp_umem_reg {
        libc::xdp_umem_reg {
            addr: self.memory.start().as_ptr() as u64,
            len: self.memory.len() as u64,
            chunk_size: self.frame_size,
            headroom: 0,
            flags: 0,
            tx_metadata_len: 0,
        }
    }

    /// Largest frame that can be sent.
    pub(super) fn frame_size(&self) -> usize {
        self.frame_size as usize
    }

    /// All frames for receiving, to be put into the fill ring.
    pub(super) fn lend_all_receiving(&mut self) -> impl Iterator<Item = u64> {
        let size = u64::from(self.frame_size);
        let receiving = self.owner.iter_mut().take(self.receiving as usize);
        receiving.zip(0_u64..).map(move |(owner, frame)| {
            *owner = Owner::Kernel;
            frame * size
        })
    }

    /// What the kernel says it has received.
    pub(super) fn received(&mut self, said: Descriptor) -> io::Result<Received> {
        let wrong = || broken("the kernel says that it received what it cannot have");
        let frame = said.addr / u64::from(self.frame_size);
        let end = said.addr.checked_add(said.len.into()).ok_or_else(wrong)?;
        if frame >= self.receiving.into() || end > (frame + 1) * u64::from(self.frame_size) {
            return Err(wrong());
        }
        match self.owner.get_mut(frame as usize) {
            Some(owner @ Owner::Kernel) => *owner = Owner::Us,
            _ => return Err(wrong()),
        }
        Ok(Received {
            // Below `receiving`, as is the end below the length of the memory.
            frame: frame as u32,
            bytes: said.addr as usize..end as usize,
        })
    }

    /// Its bytes.
    pub(super) fn bytes(&self, received: &Received) -> &[u8] {
        let Range { start, end } = received.bytes;
        assert_eq!(self.owner[received.frame as usize], Owner::Us);
        // SAFETY: `received` made it, after it found the bytes to be in that frame of the memory;
        // the frame is ours, as just found, and to lend it again needs `self` mutably: while the
        // slice lives nobody writes there.
        unsafe {
            let first = self.memory.start().add(start);
            std::slice::from_raw_parts(first.as_ptr(), end - start)
        }
    }

    /// Lend the frame to the kernel again; what to put into the fill ring.
    pub(super) fn lend(&mut self, received: Received) -> u64 {
        self.owner[received.frame as usize] = Owner::Kernel;
        u64::from(received.frame) * u64::from(self.frame_size)
    }

    /// Whether there is a frame to send in.
    pub(super) fn has_free(&self) -> bool {
        !self.free.is_empty()
    }

    /// Lend the kernel a frame made of `pieces`; what to put into the transmit ring. `None`: there
    /// is no frame, or they are too long for one.
    pub(super) fn send(&mut self, pieces: [&[u8]; 3]) -> Option<Descriptor> {
        let len: usize = pieces.iter().map(|p| p.len()).sum();
        if len > self.frame_size() {
            return None;
        }
        let frame = self.free.pop()?;
        let start = frame as usize * self.frame_size();
        let mut at = start;
        for piece in pieces {
            // SAFETY: the frame was free, so the kernel does not touch it, and `self` is borrowed
            // mutably, so nobody else does. All pieces together are no longer than it, and it is
            // in the memory. A slice that is borrowed elsewhere is not in there, for `bytes`
            // borrows `self`.
            unsafe {
                let to = self.memory.start().add(at);
                to.as_ptr()
                    .copy_from_nonoverlapping(piece.as_ptr(), piece.len());
            }
            at += piece.len();
        }
        self.owner[frame as usize] = Owner::Kernel;
        Some(Descriptor {
            addr: start as u64,
            len: len as u32,
            options: 0,
        })
    }

    /// The kernel says that it has sent the frame at `addr`: it is free.
    pub(super) fn sent(&mut self, addr: u64) -> io::Result<()> {
        let frame = addr / u64::from(self.frame_size);
        let owner = usize::try_from(frame)
            .ok()
            .filter(|_| frame >= self.receiving.into())
            .and_then(|frame| self.owner.get_mut(frame));
        match owner {
            Some(owner @ Owner::Kernel) => {
                *owner = Owner::Us;
                self.free.push(frame as u32);
                Ok(())
            }
            _ => Err(broken("the kernel says that it sent what it was not given")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SIZE: u32 = 2048;

    fn said(addr: u64, len: u32) -> Descriptor {
        Descriptor {
            addr,
            len,
            options: 0,
        }
    }

    #[test]
    fn frames_for_sending_come_back() {
        let mut umem = Umem::new(SIZE, 4, 3).unwrap();
        let mut sent: Vec<_> = (0..3)
            .map(|i| umem.send([&[i], b"ab", b"c"]).unwrap())
            .collect();
        assert!(!umem.has_free());
        assert_eq!(umem.send([b"", b"", b""]), None);
        assert!(sent.iter().all(|d| d.len == 4 && d.addr >= 4 * 2048));
        sent.sort_by_key(|d| d.addr);
        sent.dedup();
        assert_eq!(sent.len(), 3);
        umem.sent(sent[1].addr).unwrap();
        // Twice is once too often.
        assert!(umem.sent(sent[1].addr).is_err());
        assert_eq!(umem.send([b"", b"", b"x"]).unwrap().addr, sent[1].addr);
    }

    #[test]
    fn what_was_sent_is_what_was_given() {
        let mut umem = Umem::new(SIZE, 0, 1).unwrap();
        let sent = umem.send([b"he", b"", b"llo"]).unwrap();
        umem.sent(sent.addr).unwrap();
        let read = Received {
            frame: 0,
            bytes: 0..5,
        };
        assert_eq!(umem.bytes(&read), b"hello");
        let all = [7; SIZE as usize];
        assert_eq!(umem.send([&all, b"", b"!"]), None);
        assert!(umem.send([&all, b"", b""]).is_some());
    }

    #[test]
    fn completions_of_what_was_not_sent_are_errors() {
        let mut umem = Umem::new(SIZE, 4, 2).unwrap();
        assert_eq!(umem.lend_all_receiving().count(), 4);
        for addr in [0, 3 * 2048, 4 * 2048, 6 * 2048, u64::MAX] {
            assert!(umem.sent(addr).is_err(), "{addr}");
        }
        assert_eq!(umem.free.len(), 2);
    }

    #[test]
    fn received_frames_are_checked() {
        let mut umem = Umem::new(SIZE, 4, 2).unwrap();
        // Nothing was lent.
        assert!(umem.received(said(0, 60)).is_err());
        let lent: Vec<_> = umem.lend_all_receiving().collect();
        assert_eq!(lent, [0, 2048, 4096, 6144]);
        // Over the end of the frame, of the frames, of everything.
        assert!(umem.received(said(256, 1793)).is_err());
        assert!(umem.received(said(4 * 2048, 60)).is_err());
        assert!(umem.received(said(u64::MAX - 10, 60)).is_err());
        let got = umem.received(said(2048 + 256, 1792)).unwrap();
        assert_eq!(umem.bytes(&got).len(), 1792);
        // It is ours until it is lent again.
        assert!(umem.received(said(2048 + 256, 60)).is_err());
        assert_eq!(umem.lend(got), 2048);
        assert!(umem.received(said(2048 + 256, 60)).is_ok());
    }
}
