//! The second thread, which makes the calls that block.

use super::Table;
use crate::threads;
use narrows_script::sockets::{Answer, Call, CallId, Stuck};
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
    *tid.lock().unwrap_or_else(PoisonError::into_inner) = threads::own();
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
