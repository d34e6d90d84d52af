//! Buffers for frames, each used again once whoever kept it lets go of it.

use crate::buffer::Bytes;
use std::sync::{Arc, Mutex, PoisonError};

/// As many unused buffers are kept for the next frames.
const SPARE: usize = 32;

/// Buffers of one size. What was let go of last is used first: it is in the processor's cache.
pub(super) struct Buffers {
    size: usize,
    spare: Arc<Spare>,
}

type Spare = Mutex<Vec<Box<[u8]>>>;

/// A buffer that goes back to the others.
struct Shared {
    bytes: Box<[u8]>,
    spare: Arc<Spare>,
}

impl AsRef<[u8]> for Shared {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        if spare.len() < SPARE {
            spare.push(std::mem::take(&mut self.bytes));
        }
    }
}

impl Buffers {
    /// Buffers of `size` bytes.
    pub(super) fn new(size: usize) -> Self {
        Self {
            size,
            spare: Arc::default(),
        }
    }

    /// A buffer, with whatever bytes.
    pub(super) fn take(&self) -> Box<[u8]> {
        let mut spare = self.spare.lock().unwrap_or_else(PoisonError::into_inner);
        let spare = spare.pop();
        spare.unwrap_or_else(|| vec![0; self.size].into_boxed_slice())
    }

    /// The same buffer, to be looked at and kept by anyone.
    pub(super) fn share(&self, bytes: Box<[u8]>) -> Bytes {
        let spare = self.spare.clone();
        Bytes::from_owner(Shared { bytes, spare })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_buffer_is_used_again_when_nobody_keeps_it() {
        let buffers = Buffers::new(100);
        let mut first = buffers.take();
        first[0] = 7;
        let first = buffers.share(first);
        let at = first.as_ptr();
        let kept = first.slice(..1);
        drop(first);
        let second = buffers.take();
        assert_ne!(second.as_ptr(), at);
        assert_eq!(kept[0], 7);
        drop(kept);
        let third = buffers.take();
        assert_eq!(third.as_ptr(), at);
    }

    #[test]
    fn no_more_are_kept_than_are_worth_it() {
        let buffers = Buffers::new(100);
        let all: Vec<Bytes> = (0..2 * SPARE)
            .map(|_| buffers.share(vec![0; 100].into()))
            .collect();
        drop(all);
        assert_eq!(buffers.spare.lock().unwrap().len(), SPARE);
    }
}
