//! Sockets and clock, for the two threads that packetdrill has: one plays the script and moves the
//! clock, one makes the calls that block.
//!
//! **The clock is virtual.** Each look at it moves it by a microsecond, since the script's thread
//! waits by looking; `usleep` moves it by what is asked, `netdev_receive` to the next timer until a
//! packet leaves.
//!
//! **A call that blocks returns at an instant of virtual time**, and the thread that made it then
//! looks at the clock. Until it has, the clock stands: the script's thread, whatever the scheduler
//! gives it, cannot run ahead and make the call seem late. A thread that does not look releases the
//! clock with its next call, or after [`HOLD`]. What it then does with what the call gave it takes
//! real time, and packetdrill's lock, which the script's thread gives away in `usleep`: so `usleep`
//! waits until that thread sleeps.
//!
//! **Nobody waits for ever.** When a call blocks, nobody else has called for a while of real time,
//! and those who ever did are asleep, the thread that moves the clock is waiting itself, so the
//! clock goes on to the next timer. If there is none, the call fails with `EDEADLK`. A thread that
//! is slow, since others have the processor, is not asleep.

use crate::descriptor::Descriptor;
use crate::flags::Flags;
use crate::threads;
use libc::c_int;
use narrows::{Duration as Virtual, Instant};
use narrows_script::sockets::{Answer, Call, CallId, Errno, Fd, Outcome, Sockets, Stuck};
use std::collections::BTreeMap;
use std::io::Write;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::{self, ThreadId};
use std::time::Duration;

/// How long, in real time, a call that has returned holds the clock.
const HOLD: Duration = Duration::from_secs(5);
/// How often those who wait look around.
const SLICE: Duration = Duration::from_millis(20);
/// How often `usleep` looks whether the other thread sleeps.
const SETTLE: Duration = Duration::from_micros(200);
/// For how long it does.
const SETTLED: Duration = Duration::from_secs(1);
/// How far one look moves the clock.
const LOOK: Virtual = Virtual::from_micros(1);

/// Say something to people.
pub(crate) fn report(what: impl std::fmt::Display) {
    // Nothing is to be done where even this fails.
    let _ = writeln!(std::io::stderr(), "narrows-packetdrill: {what}");
}

/// One instance of the interface.
pub(crate) struct Shared {
    state: Mutex<State>,
    changed: Condvar,
    idle: Duration,
    give_up: Duration,
    quiet: bool,
}

struct State {
    sockets: Sockets,
    /// By the caller's numbers.
    descriptors: BTreeMap<c_int, Descriptor>,
    /// Who waits for which call.
    waiting: BTreeMap<CallId, ThreadId>,
    answers: BTreeMap<CallId, Answer>,
    /// Whose calls have returned and who have not looked at the clock since.
    returning: Vec<ThreadId>,
    /// Counts calls of the interface.
    activity: u64,
    /// The threads that have called.
    callers: Vec<i32>,
    closed: bool,
}

type Guard<'s> = MutexGuard<'s, State>;

/// A packet for `netdev_receive`.
pub(crate) struct Sniffed {
    pub(crate) bytes: Vec<u8>,
    pub(crate) at_micros: i64,
}

impl Shared {
    /// What the flags ask for.
    ///
    /// # Errors
    /// Why it cannot be had.
    pub(crate) fn new(flags: &Flags) -> Result<Self, String> {
        let mut sockets = Sockets::new(&flags.config).map_err(|e| e.to_string())?;
        for line in &flags.setup {
            sockets.setup(line)?;
        }
        Ok(Self {
            state: Mutex::new(State {
                sockets,
                descriptors: BTreeMap::new(),
                waiting: BTreeMap::new(),
                answers: BTreeMap::new(),
                returning: Vec::new(),
                activity: 0,
                callers: Vec::new(),
                closed: false,
            }),
            changed: Condvar::new(),
            idle: flags.idle,
            give_up: flags.give_up,
            quiet: flags.quiet,
        })
    }

    /// Tell what goes wrong in a script.
    pub(crate) fn say(&self, what: impl std::fmt::Display) {
        if !self.quiet {
            report(what);
        }
    }

    fn stuck(&self, why: Stuck) -> Errno {
        self.say(why);
        Errno::EIO
    }

    fn lock(&self) -> Guard<'_> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A call of the interface begins.
    fn enter(&self) -> Guard<'_> {
        let mut state = self.lock();
        state.activity += 1;
        let me = threads::own();
        if !state.callers.contains(&me) {
            state.callers.push(me);
        }
        state.reap();
        state
    }

    fn wait<'s>(&self, state: Guard<'s>, time: Duration) -> (Guard<'s>, bool) {
        let waited = self.changed.wait_timeout(state, time);
        let (state, timeout) = waited.unwrap_or_else(PoisonError::into_inner);
        (state, timeout.timed_out())
    }

    /// The end: whoever blocks returns, what is open is closed.
    pub(crate) fn close_all(&self) {
        let mut state = self.lock();
        state.closed = true;
        for (fd, descriptor) in std::mem::take(&mut state.descriptors) {
            descriptor.close(fd);
        }
        self.changed.notify_all();
    }

    // ---- Calls.

    /// Make a call on the socket behind `fd`.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn call_on(
        &self,
        fd: c_int,
        call: impl FnOnce(Fd) -> Call,
    ) -> Result<Answer, Errno> {
        let mut state = self.enter();
        state.released();
        let socket = state.descriptor(fd)?.socket;
        self.make(state, call(socket))
    }

    /// `socket`: the new descriptor.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn socket(&self, v6: bool, nonblocking: bool) -> Result<c_int, Errno> {
        let mut state = self.enter();
        state.released();
        let answer = self.make(state, Call::Socket { nonblocking })?;
        self.publish(answer.result?, v6)
    }

    /// `accept`: the new descriptor, whether its family is IPv6, and what else was given.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn accept(&self, fd: c_int) -> Result<(c_int, bool, Answer), Errno> {
        let v6 = self.is_v6(fd)?;
        let answer = self.call_on(fd, |fd| Call::Accept {
            fd,
            nonblocking: false,
        })?;
        let new = self.publish(answer.result?, v6)?;
        Ok((new, v6, answer))
    }

    /// Give the caller a descriptor for a new socket.
    fn publish(&self, socket: i64, v6: bool) -> Result<c_int, Errno> {
        let socket = Fd::try_from(socket).map_err(|_| Errno::EIO)?;
        let mut state = self.lock();
        let opened = Descriptor::open(socket, v6);
        match opened {
            Ok((fd, descriptor)) => {
                state.descriptors.insert(fd, descriptor);
                Ok(fd)
            }
            Err(e) => {
                let _ = state.sockets.call(Call::Close { fd: socket });
                Err(e)
            }
        }
    }

    /// `close`.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn close(&self, fd: c_int) -> Result<i64, Errno> {
        let answer = self.call_on(fd, |fd| Call::Close { fd })?;
        if let Some(descriptor) = self.lock().descriptors.remove(&fd) {
            descriptor.close(fd);
        }
        answer.result
    }

    /// `poll`: what each descriptor is ready for.
    ///
    /// # Errors
    /// Why it fails.
    pub(crate) fn poll(&self, wanted: &[(c_int, i16)], timeout_ms: i64) -> Result<Answer, Errno> {
        let mut state = self.enter();
        state.released();
        let socket = |fd: c_int| match state.descriptors.get(&fd) {
            Some(descriptor) => descriptor.socket,
            // Below 0: not asked for. Otherwise it is not ours, and `poll` says so.
            None if fd < 0 => -1,
            None => Fd::MAX,
        };
        let wanted = wanted.iter().map(|(fd, e)| (socket(*fd), *e)).collect();
        self.make(state, Call::Poll { wanted, timeout_ms })
    }

    /// Whether the socket was opened for IPv6.
    ///
    /// # Errors
    /// `EBADF`
    pub(crate) fn is_v6(&self, fd: c_int) -> Result<bool, Errno> {
        Ok(self.lock().descriptor(fd)?.v6)
    }

    /// Whether `fd` stands for one of our sockets.
    pub(crate) fn owns(&self, fd: c_int) -> bool {
        let state = self.lock();
        let descriptor = state.descriptors.get(&fd);
        descriptor.is_some_and(|d| d.is_behind(fd))
    }

    /// `TCP_INFO` as bytes.
    ///
    /// # Errors
    /// `EBADF`; `EINVAL` if there is no connection.
    pub(crate) fn tcp_info(&self, fd: c_int) -> Result<[u8; crate::tcp_info::LEN], Errno> {
        let state = self.enter();
        let socket = state.descriptor(fd)?.socket;
        let field = |name: &str| state.sockets.tcp_info(socket, name);
        match field("state") {
            Some(_) => Ok(crate::tcp_info::encode(field)),
            None => Err(Errno::EINVAL),
        }
    }

    /// Make a call and wait until it returns.
    fn make(&self, mut state: Guard<'_>, call: Call) -> Result<Answer, Errno> {
        let option = matches!(call, Call::SetOption { .. } | Call::GetOption { .. });
        let outcome = state.sockets.call(call).map_err(|why| {
            self.say(&why);
            match why {
                Stuck::Refused(_) if option => Errno::ENOPROTOOPT,
                Stuck::Refused(_) => Errno::EOPNOTSUPP,
                _ => Errno::EIO,
            }
        })?;
        self.hand_out(&mut state);
        match outcome {
            Outcome::Done(answer) => Ok(answer),
            Outcome::Blocks(id) => self.block(state, id),
        }
    }

    fn block(&self, mut state: Guard<'_>, id: CallId) -> Result<Answer, Errno> {
        state.waiting.insert(id, thread::current().id());
        // It may have returned before anybody waited.
        self.hand_out(&mut state);
        let mut idle = Duration::ZERO;
        loop {
            if let Some(answer) = state.answers.remove(&id) {
                return Ok(answer);
            }
            if state.closed {
                state.give_up(id);
                return Err(Errno::EBADF);
            }
            let seen = state.activity;
            let alone = !self.idle.is_zero() && idle >= self.idle && state.returning.is_empty();
            if alone && state.sockets.next_timer().is_some() {
                self.fire(&mut state)?;
                self.hand_out(&mut state);
                continue;
            }
            if idle >= self.give_up {
                self.say("a call blocks, no timer is armed, and nobody else calls: given up");
                state.give_up(id);
                return Err(Errno::EDEADLK);
            }
            let timed_out;
            (state, timed_out) = self.wait(state, SLICE);
            idle = match (state.activity == seen, timed_out) {
                (true, true) if !state.others_are_busy() => idle + SLICE,
                (true, false) => idle,
                _ => Duration::ZERO,
            };
        }
    }

    /// Calls that have returned: wake those who made them. Whether there are any.
    fn hand_out(&self, state: &mut State) -> bool {
        let mut any = false;
        while let Some(finished) = state.sockets.finished() {
            any = true;
            if let Some(thread) = state.waiting.remove(&finished.id) {
                state.returning.push(thread);
            }
            state.answers.insert(finished.id, finished.answer);
        }
        if any {
            self.changed.notify_all();
        }
        any
    }

    // ---- The clock.

    /// Until nobody else holds the clock.
    fn until_free<'s>(&self, mut state: Guard<'s>) -> Guard<'s> {
        let me = thread::current().id();
        let mut left = HOLD;
        while state.returning.iter().any(|t| *t != me) {
            let timed_out;
            (state, timed_out) = self.wait(state, SLICE);
            if timed_out {
                left = left.saturating_sub(SLICE);
            }
            if left.is_zero() {
                self.say("a call has returned, and its thread has not looked at the clock since");
                state.returning.retain(|t| *t == me);
            }
        }
        state
    }

    /// Until the other threads that call sleep.
    fn until_others_sleep<'s>(&'s self, mut state: Guard<'s>) -> Guard<'s> {
        let mut left = SETTLED;
        while state.others_are_busy() && !left.is_zero() {
            let timed_out;
            (state, timed_out) = self.wait(state, SETTLE);
            if timed_out {
                left = left.saturating_sub(SETTLE);
            }
        }
        state
    }

    /// The next timer fires; when that is, if one is armed.
    fn fire(&self, state: &mut State) -> Result<Option<Instant>, Errno> {
        state.sockets.fire().map_err(|why| self.stuck(why))
    }

    /// Let time go on to `to`, or until a call has returned.
    fn advance<'s>(&self, state: Guard<'s>, to: Instant) -> Result<Guard<'s>, Errno> {
        let mut state = self.until_free(state);
        while state.sockets.next_timer().is_some_and(|at| at < to) {
            self.fire(&mut state)?;
            if self.hand_out(&mut state) {
                return Ok(state);
            }
        }
        let reached = state.sockets.advance_to(to);
        reached.map_err(|why| self.stuck(why))?;
        Ok(state)
    }

    /// `gettimeofday`, in microseconds. Moves the clock by one.
    ///
    /// # Errors
    /// When the stack can do no more.
    pub(crate) fn look(&self) -> Result<i64, Errno> {
        let mut state = self.enter();
        state.released();
        self.changed.notify_all();
        let to = state.sockets.now() + LOOK;
        let state = self.advance(state, to)?;
        Ok(micros(state.sockets.now()))
    }

    /// `usleep`. Ends early when a call that blocked returns.
    ///
    /// # Errors
    /// When the stack can do no more.
    pub(crate) fn sleep(&self, microseconds: u32) -> Result<(), Errno> {
        let mut state = self.enter();
        state.released();
        self.changed.notify_all();
        let state = self.until_others_sleep(state);
        let to = state.sockets.now() + Virtual::from_micros(microseconds.into());
        self.advance(state, to).map(drop)
    }

    // ---- Packets.

    /// An IP packet arrives.
    ///
    /// # Errors
    /// When the stack can do no more.
    pub(crate) fn inject(&self, packet: &[u8]) -> Result<(), Errno> {
        let mut state = self.enter();
        state.released();
        state
            .sockets
            .packet_in(packet)
            .map_err(|why| self.stuck(why))?;
        self.hand_out(&mut state);
        Ok(())
    }

    /// The next packet that leaves; time goes on for it. None: no timer is armed, so none will.
    ///
    /// # Errors
    /// When the stack can do no more.
    pub(crate) fn sniff(&self) -> Result<Option<Sniffed>, Errno> {
        let mut state = self.enter();
        state.released();
        self.changed.notify_all();
        loop {
            if let Some(sent) = state.sockets.departed() {
                let bytes = sent.bytes().map_err(|e| {
                    self.say(e);
                    Errno::EIO
                })?;
                let at_micros = micros(sent.at);
                return Ok(Some(Sniffed { bytes, at_micros }));
            }
            state = self.until_free(state);
            if self.fire(&mut state)?.is_none() {
                return Ok(None);
            }
            self.hand_out(&mut state);
        }
    }
}

impl State {
    fn descriptor(&self, fd: c_int) -> Result<Descriptor, Errno> {
        self.descriptors.get(&fd).copied().ok_or(Errno::EBADF)
    }

    /// This thread's call has returned to its caller, as it calls again.
    fn released(&mut self) {
        let me = thread::current().id();
        self.returning.retain(|t| *t != me);
    }

    /// Of those who have called, another than this thread has something to do.
    fn others_are_busy(&self) -> bool {
        let me = threads::own();
        let mut others = self.callers.iter().filter(|t| **t != me);
        others.any(|t| threads::is_busy(*t))
    }

    /// Descriptors that were closed through libc are closed.
    fn reap(&mut self) {
        let gone = |(fd, d): (&c_int, &Descriptor)| (!d.is_behind(*fd)).then_some((*fd, d.socket));
        let gone: Vec<_> = self.descriptors.iter().filter_map(gone).collect();
        for (fd, socket) in gone {
            self.descriptors.remove(&fd);
            if let Err(why) = self.sockets.call(Call::Close { fd: socket }) {
                report(why);
            }
        }
    }

    fn give_up(&mut self, id: CallId) {
        self.sockets.forget(id);
        self.waiting.remove(&id);
    }
}

fn micros(at: Instant) -> i64 {
    i64::try_from(at.as_nanos() / 1_000).unwrap_or(i64::MAX)
}
