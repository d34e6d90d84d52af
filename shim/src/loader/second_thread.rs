//! The second thread, which makes the calls that block.

use super::Table;
use narrows_harness::script::sockets::{Answer, Call, CallId, Stuck};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// A call that blocks, on its way through the second thread.
#[derive(Debug)]
pub(super) enum Work {
    Idle,
    /// To be taken up.
    Asked(CallId, Call),
    /// The call is being made.
    Running,
    /// It has returned, at this time of the object's clock.
    Done(CallId, i64, Result<Answer, Stuck>),
    /// The thread is to end.
    Ending,
}

/// Where the two threads meet.
#[derive(Debug)]
pub(super) struct Desk {
    pub(super) work: Mutex<Work>,
    pub(super) changed: Condvar,
    /// The call has returned; it is not said yet what came of it.
    pub(super) returning: AtomicBool,
}

impl Desk {
    pub(super) fn lock(&self) -> MutexGuard<'_, Work> {
        self.work.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn wait<'d>(&self, work: MutexGuard<'d, Work>) -> MutexGuard<'d, Work> {
        let waited = self.changed.wait(work);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn put(&self, work: Work) {
        *self.lock() = work;
        self.changed.notify_all();
    }
}

/// The second thread: makes the calls that block.
pub(super) fn second_thread(table: Table, desk: &Desk, tid: &Mutex<i32>) {
    // SAFETY: asks for a number.
    let own = unsafe { libc::gettid() };
    *tid.lock().unwrap_or_else(PoisonError::into_inner) = own;
    loop {
        let mut work = desk.lock();
        let (id, call) = loop {
            match mem::replace(&mut *work, Work::Running) {
                Work::Asked(id, call) => break (id, call),
                Work::Ending => return,
                other => {
                    *work = other;
                    work = desk.wait(work);
                }
            }
        };
        drop(work);
        desk.changed.notify_all();
        let answer = table.call(&call);
        desk.returning.store(true, Ordering::SeqCst);
        // As packetdrill's second thread does, before anything else.
        let at = table.look().unwrap_or(i64::MAX);
        desk.put(Work::Done(id, at, answer));
    }
}

/// Whether a thread of ours sleeps, as `/proc` tells it.
pub(super) fn sleeps(tid: i32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/self/task/{tid}/stat"));
    // The state follows the name, which stands in parentheses.
    let stat = stat.unwrap_or_default();
    let state = stat.rsplit(") ").next().and_then(|s| s.chars().next());
    state == Some('S')
}
