//! An instance of the object as the stack that a script runs against.

use super::Table;
use super::second_thread::{Desk, Work, second_thread};
use crate::tcp_info;
use crate::threads;
use narrows::{Duration, Instant};
use narrows_script::sockets::{
    Answer, BEGIN, Call, CallId, Errno, Fd, Finished, Gave, Outcome, Stuck,
};
use narrows_script::stack::{Departed, Stack, Takes};
use std::mem;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};

/// How close to a step's time `usleep` goes.
const SPIN: Duration = Duration::from_micros(20);

/// An instance that a script is played against.
pub(super) struct Instance {
    table: Table,
    setup: Vec<String>,
    begun: bool,
    /// The object's time when ours began.
    start: i64,
    now: Instant,
    calls: u64,
    desk: Arc<Desk>,
    tid: Arc<Mutex<i32>>,
    thread: Option<JoinHandle<()>>,
    finished: Option<Finished>,
    open: Vec<Fd>,
}

impl Instance {
    pub(super) fn new(table: Table, setup: Vec<String>) -> Result<Self, Stuck> {
        let start = table.look().map_err(|e| failed("gettimeofday", e))?;
        let desk = Arc::new(Desk {
            work: Mutex::new(Work::Idle),
            changed: Condvar::new(),
            returning: AtomicBool::new(false),
        });
        let tid = Arc::new(Mutex::new(0));
        let theirs = (desk.clone(), tid.clone());
        let thread = thread::Builder::new()
            .name("blocking calls".to_owned())
            .spawn(move || second_thread(table, &theirs.0, &theirs.1))
            .map_err(|e| Stuck::Refused(format!("no second thread: {e}")))?;
        Ok(Self {
            table,
            setup,
            begun: false,
            start,
            now: BEGIN,
            calls: 0,
            desk,
            tid,
            thread: Some(thread),
            finished: None,
            open: Vec::new(),
        })
    }

    /// A time of the object's clock as the script has it.
    fn ours(&self, micros: i64) -> Instant {
        let since = u64::try_from(micros.saturating_sub(self.start)).unwrap_or(0);
        BEGIN + Duration::from_micros(since)
    }

    fn look(&mut self) -> Result<Instant, Stuck> {
        let micros = self.table.look().map_err(|e| failed("gettimeofday", e))?;
        self.now = self.now.max(self.ours(micros));
        Ok(self.now)
    }

    fn sleep(&self, time: Duration) -> Result<(), Stuck> {
        let micros = u32::try_from(time.as_micros()).unwrap_or(u32::MAX);
        self.table.sleep(micros).map_err(|e| failed("usleep", e))
    }

    /// If the call that blocked has returned, what came of it.
    fn collect(&mut self) -> Result<(), Stuck> {
        let desk = self.desk.clone();
        if !desk.returning.load(Ordering::SeqCst) {
            return Ok(());
        }
        let mut work = desk.lock();
        let (id, at, answer) = loop {
            match mem::replace(&mut *work, Work::Idle) {
                Work::Done(id, at, answer) => break (id, at, answer),
                other => {
                    *work = other;
                    work = desk.wait(work);
                }
            }
        };
        drop(work);
        desk.returning.store(false, Ordering::SeqCst);
        let answer = answer?;
        self.made(&answer);
        self.finished = Some(Finished {
            id,
            at: self.ours(at),
            answer,
        });
        Ok(())
    }

    /// Remember what a call opened.
    fn made(&mut self, answer: &Answer) {
        if let (Ok(fd), Gave::Peer(_)) = (answer.result, &answer.gave) {
            self.open.push(fd as Fd);
        }
    }

    /// Have the second thread make a call, and go on when it has returned or sleeps.
    fn hand_over(&mut self, call: Call) -> Result<Outcome, Stuck> {
        self.calls += 1;
        let id = CallId(self.calls);
        self.desk.put(Work::Asked(id, call));
        let mut work = self.desk.lock();
        while matches!(*work, Work::Asked(..)) {
            work = self.desk.wait(work);
        }
        drop(work);
        loop {
            thread::yield_now();
            let tid = *self.tid.lock().unwrap_or_else(PoisonError::into_inner);
            let sleeps = threads::sleeps(tid);
            if matches!(*self.desk.lock(), Work::Done(..)) {
                self.collect()?;
                if let Some(finished) = self.finished.take() {
                    return Ok(Outcome::Done(finished.answer));
                }
            }
            if sleeps {
                return Ok(Outcome::Blocks(id));
            }
        }
    }
}

impl Stack for Instance {
    fn setup(&mut self, line: &str) -> Result<(), String> {
        match !self.begun && self.setup.iter().any(|l| l == line) {
            true => Ok(()),
            false => Err("the C interface takes set-up before the first step only".to_owned()),
        }
    }

    fn wait_until(&mut self, to: Instant) -> Result<Instant, Stuck> {
        // Where relative times count from.
        self.look()?;
        loop {
            let now = self.look()?;
            if now >= to {
                break;
            }
            let wait = to.since(now);
            if wait > SPIN {
                self.sleep(wait.saturating_sub(SPIN))?;
            }
        }
        // Whether it is the time that the script says.
        let now = self.look()?;
        self.collect()?;
        Ok(now)
    }

    fn wait_for_return(&mut self, limit: Instant) -> Result<Instant, Stuck> {
        // A look waits for a call that has returned to be told of.
        let mut now = self.look()?;
        self.collect()?;
        while self.finished.is_none() && now < limit {
            self.sleep(limit.since(now))?;
            now = self.look()?;
            self.collect()?;
        }
        Ok(self.now)
    }

    fn packet_in(&mut self, packet: &[u8]) -> Result<(), Stuck> {
        self.begun = true;
        let sent = self.table.inject(packet);
        sent.map_err(|e| failed("netdev_send", e))
    }

    fn departed(&mut self) -> Option<Departed> {
        None
    }

    fn wait_for_packet(&mut self, _latest: Instant) -> Result<Option<Departed>, Stuck> {
        let sniffed = self.table.sniff();
        let Some((at, bytes)) = sniffed.map_err(|e| failed("netdev_receive", e))? else {
            return Ok(None);
        };
        let at = self.ours(at);
        self.now = self.now.max(at);
        let packet = Departed::parse(at, &bytes);
        let packet = packet.map_err(|e| Stuck::Refused(format!("a packet left: {e}")))?;
        Ok(Some(packet))
    }

    fn now(&self) -> Instant {
        self.now
    }

    fn call(&mut self, call: Call, takes: Takes) -> Result<Outcome, Stuck> {
        self.begun = true;
        if takes == Takes::Time {
            return self.hand_over(call);
        }
        let answer = self.table.call(&call)?;
        match (&call, answer.result) {
            (Call::Socket { .. }, Ok(fd)) => self.open.push(fd as Fd),
            (Call::Close { fd }, Ok(_)) => self.open.retain(|open| open != fd),
            _ => self.made(&answer),
        }
        Ok(Outcome::Done(answer))
    }

    fn finished(&mut self) -> Option<Finished> {
        self.finished.take()
    }

    fn tcp_info(&self, fd: Fd, field: &str) -> Option<i128> {
        let (n, bytes) = self
            .table
            .option(fd, libc::IPPROTO_TCP, libc::TCP_INFO, tcp_info::LEN);
        match n {
            0 => tcp_info::decode(&bytes, field),
            _ => None,
        }
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        for fd in &self.open {
            // SAFETY: by the interface, what the object hands out are descriptors that whoever got
            // them closes.
            unsafe { libc::close(*fd) };
        }
        if let Some(free) = self.table.raw().free {
            // SAFETY: `userdata` is the object's own, and nothing is called after this but by the
            // second thread, whose call, if it still blocks, this ends.
            unsafe { free(self.table.raw().userdata) };
        }
        let mut work = self.desk.lock();
        while matches!(*work, Work::Running) {
            work = self.desk.wait(work);
        }
        *work = Work::Ending;
        drop(work);
        self.desk.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            // A panic there has been told on standard error.
            let _ = thread.join();
        }
    }
}

fn failed(function: &str, errno: Errno) -> Stuck {
    Stuck::Refused(format!("{function}() fails with {errno}"))
}
