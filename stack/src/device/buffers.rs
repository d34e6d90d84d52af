//! Buffers for frames, each used again once whoever kept it lets go of it.

use bytes::{Bytes, BytesMut};

/// Buffers of one size, one of which is written at a time.
///
/// A device that reads each frame into [`buffer`](Self::buffer) and shows what
/// [`share`](Self::share) gives as the frame's [buffer](crate::interface::RxFrame::buffer) lets the
/// user take payload over without a copy. A buffer that nobody keeps any more is used again, the
/// first one first, so that a user who lets go of each batch has few, which stay in the
/// processor's cache.
#[derive(Debug)]
pub struct Buffers {
    /// Bytes of each.
    size: usize,
    /// As many are known once they are shared.
    most: usize,
    known: Vec<Known>,
    /// Which of them is the next one, where there is one; it is looked for when it is asked for.
    next: usize,
}

static NONE: Bytes = Bytes::new();

#[derive(Debug)]
enum Known {
    /// Ours to write.
    Own(BytesMut),
    /// Others may keep it.
    Shared(Bytes),
}

impl Known {
    /// Has it for writing, if nobody else has it.
    #[inline]
    fn reclaim(&mut self) -> bool {
        if let Self::Shared(bytes) = self {
            match std::mem::take(bytes).try_into_mut() {
                Ok(own) => *self = Self::Own(own),
                Err(kept) => {
                    *bytes = kept;
                    return false;
                }
            }
        }
        true
    }
}

impl Buffers {
    /// Buffers of `size` bytes, of which `most` at most (one at least) are kept to be used again.
    pub fn new(size: usize, most: usize) -> Self {
        Self {
            size,
            most: most.max(1),
            known: Vec::new(),
            next: 0,
        }
    }

    /// The buffer for the next frame, with whatever bytes; the same one until it is shared.
    #[inline]
    pub fn buffer(&mut self) -> &mut [u8] {
        if !matches!(self.known.get(self.next), Some(Known::Own(_))) {
            self.find();
        }
        match self.known.get_mut(self.next) {
            Some(Known::Own(bytes)) => bytes,
            // One was found.
            Some(Known::Shared(_)) | None => &mut [],
        }
    }

    /// The same buffer, to be looked at and kept by anyone.
    #[inline]
    pub fn share(&mut self) -> &Bytes {
        self.buffer();
        let at = self.next;
        self.next = match at + 1 < self.most {
            true => at + 1,
            false => 0,
        };
        let known = &mut self.known[at];
        if let Known::Own(bytes) = known {
            *known = Known::Shared(std::mem::take(bytes).freeze());
        }
        match known {
            Known::Shared(bytes) => bytes,
            // It has just become one.
            Known::Own(_) => &NONE,
        }
    }

    /// Sets `next` to one that is ours: the first one if nobody keeps it, else the next, else a new one in
    /// its place.
    fn find(&mut self) {
        if self.known.first_mut().is_some_and(Known::reclaim) {
            self.next = 0;
            return;
        }
        match self.known.get_mut(self.next) {
            None => {
                let new = self.make();
                self.known.push(new);
            }
            Some(known) => {
                if !known.reclaim() {
                    let new = self.make();
                    self.known[self.next] = new;
                }
            }
        }
    }

    #[cold]
    fn make(&self) -> Known {
        let mut new = BytesMut::zeroed(self.size);
        // From the first split on its count lies beside it, and sharing it allocates nothing.
        drop(new.split_to(0));
        Known::Own(new)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_nobody_keeps_it() {
        let mut buffers = Buffers::new(100, 2);
        buffers.buffer()[0] = 7;
        let first = buffers.share().clone();
        let at = first.as_ptr();
        let kept = first.slice(..1);
        drop(first);
        let second = buffers.buffer().as_ptr();
        assert_ne!(second, at);
        assert_eq!(buffers.share().as_ptr(), second);
        assert_eq!(kept[0], 7);
        drop(kept);
        assert_eq!(buffers.buffer().as_ptr(), at);
        assert_eq!(buffers.buffer().len(), 100);
    }

    #[test]
    fn what_is_kept_is_nobody_elses_to_write_and_no_more_are_kept_than_asked_for() {
        let mut buffers = Buffers::new(100, 3);
        let kept: Vec<Bytes> = (0..10)
            .map(|n| {
                buffers.buffer().fill(n);
                buffers.share().clone()
            })
            .collect();
        for (n, bytes) in kept.iter().enumerate() {
            assert_eq!(bytes[..], [n as u8; 100]);
        }
        assert_eq!(buffers.known.len(), 3);
        // The last nine are kept: the ring is at its second place.
        drop(kept);
        let used: Vec<_> = (0..3)
            .map(|_| {
                buffers.buffer();
                buffers.share().clone().as_ptr()
            })
            .collect();
        assert_eq!(used[0], used[1], "the first one serves all when it is free");
    }
}
