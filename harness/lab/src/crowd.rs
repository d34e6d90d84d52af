//! When many connections have gone, what they took goes back to the system.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// Those who are served at the moment.
#[derive(Clone, Debug, Default)]
pub(super) struct Crowd(Arc<Mutex<Count>>);

impl Crowd {
    /// One comes.
    pub(super) fn comes(&self) {
        self.with(Count::comes);
    }

    /// One goes. If with him half of a crowd has gone this takes a while.
    pub(super) async fn goes(&self) {
        if self.with(Count::goes) {
            tokio::time::sleep(AFTER).await;
            self.with(Count::back);
            narrows::driver::return_free_memory();
        }
    }

    fn with<R>(&self, f: impl FnOnce(&mut Count) -> R) -> R {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// When a crowd has gone: when half of them have, of this many at least.
const CROWD: usize = 128;
/// How long what they leave behind may take to be free: the stack shrinks buffers within two seconds.
const AFTER: Duration = Duration::from_secs(5);

/// Tells when what many connections took is to go back to the system.
#[derive(Debug, Default)]
struct Count {
    now: usize,
    /// The most since memory went back last.
    most: usize,
    /// Memory is about to go back.
    due: bool,
}

impl Count {
    fn comes(&mut self) {
        self.now += 1;
        self.most = self.most.max(self.now);
    }

    /// One goes; whether memory is to go back in a while, and `back` to be called then.
    fn goes(&mut self) -> bool {
        self.now -= 1;
        let gone = self.most >= CROWD && self.now <= self.most / 2 && !self.due;
        self.due |= gone;
        gone
    }

    fn back(&mut self) {
        (self.most, self.due) = (self.now, false);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Once for each half of a crowd, while it goes; not for few, and not for a steady coming and
    /// going.
    #[test]
    fn memory_goes_back_after_a_crowd() {
        let mut crowd = Count::default();
        (0..1_000).for_each(|_| crowd.comes());
        for _ in 0..10_000 {
            crowd.comes();
            assert!(!crowd.goes());
        }
        let back = (0..1_000).filter(|_| {
            let gone = crowd.goes();
            if gone {
                crowd.back();
            }
            gone
        });
        assert_eq!(back.count(), 3);
        (0..CROWD - 63).for_each(|_| crowd.comes());
        assert!((0..CROWD - 63).all(|_| !crowd.goes()));
    }

    #[test]
    fn what_goes_meanwhile_goes_back_with_the_rest() {
        let mut crowd = Count::default();
        (0..1_000).for_each(|_| crowd.comes());
        assert_eq!((0..1_000).filter(|_| crowd.goes()).count(), 1);
        crowd.back();
        assert_eq!((crowd.now, crowd.most), (0, 0));
    }
}
