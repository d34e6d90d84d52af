//! Work on several threads.
//!
//! Workers take what comes next from a shared counter, in order, which a work-stealing pool would
//! not.

use std::any::Any;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Tells how far one of many runs is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    /// Index of the run.
    pub index: usize,
    /// What is done of its cost; all once it ended.
    pub cost: u64,
    /// How far it is.
    pub phase: Phase,
}

/// How far a run is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Phase {
    /// Under way.
    Running,
    /// It ended, well or not.
    Ended,
}

/// Does `work` for each number below `count`, on so many threads: each takes the next one that is
/// left.
pub fn each(count: usize, threads: usize, work: impl Fn(usize) + Sync) {
    let next = AtomicUsize::new(0);
    let worker = || {
        loop {
            let nth = next.fetch_add(1, Ordering::Relaxed);
            if nth >= count {
                break;
            }
            work(nth);
        }
    };
    std::thread::scope(|scope| {
        for _ in 1..threads.min(count) {
            scope.spawn(worker);
        }
        worker();
    });
}

/// What a thread said when it panicked.
pub fn panic_text(panic: &(dyn Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|s| (*s).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "panic".to_owned())
}

/// Of `cost`, what `done` of `all` is.
pub fn part(cost: u64, done: u64, all: u64) -> u64 {
    let (done, all) = (u128::from(done.min(all)), u128::from(all.max(1)));
    (u128::from(cost) * done / all) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    #[test]
    fn each_is_done_once_on_any_number_of_threads() {
        for threads in [0, 1, 2, 7, 1_000] {
            let done = Mutex::new(Vec::new());
            each(40, threads, |n| done.lock().unwrap().push(n));
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, (0..40).collect::<Vec<_>>(), "{threads}");
        }
    }

    #[test]
    fn a_part_is_no_more_than_the_whole() {
        assert_eq!(
            [part(100, 2, 4), part(100, 9, 4), part(7, 0, 0)],
            [50, 100, 0]
        );
    }
}
