//! Waits for many devices or sockets and for a time, to the microsecond.

use narrows::driver::Clock;
use narrows::{Duration, Instant};
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::time::TimeSpec;
use nix::sys::timerfd::{ClockId, Expiration, TimerFd, TimerFlags, TimerSetTimeFlags};
use std::io;
use std::os::fd::AsFd;

/// A sleep ends late by so much; the rest is spun.
const SPIN: Duration = Duration::from_micros(60);
/// The longest sleep: flags that other threads set are seen after it.
const LONGEST_MS: u8 = 20;
/// The timer's own token.
const TIMER: u64 = u64::MAX;

/// What is waited for, each with a token.
#[derive(Debug)]
pub(crate) struct Waiter {
    epoll: Epoll,
    timer: TimerFd,
    events: Vec<EpollEvent>,
    ready: usize,
}

impl Waiter {
    /// For `n` things.
    pub(crate) fn new(n: usize) -> io::Result<Self> {
        let epoll = Epoll::new(EpollCreateFlags::EPOLL_CLOEXEC)?;
        let timer = TimerFd::new(ClockId::CLOCK_MONOTONIC, TimerFlags::TFD_CLOEXEC)?;
        // Once for each time that it is set.
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLET;
        epoll.add(&timer, EpollEvent::new(flags, TIMER))?;
        Ok(Self {
            epoll,
            timer,
            events: vec![EpollEvent::empty(); n + 1],
            ready: 0,
        })
    }

    /// Wait for `fd` to be readable, too.
    pub(crate) fn add(&self, fd: impl AsFd, token: u64) -> io::Result<()> {
        let event = EpollEvent::new(EpollFlags::EPOLLIN, token);
        Ok(self.epoll.add(fd, event)?)
    }

    /// Also say when there is room for writing, or no longer.
    pub(crate) fn set_writable(&self, fd: impl AsFd, token: u64, on: bool) -> io::Result<()> {
        let mut flags = EpollFlags::EPOLLIN;
        flags.set(EpollFlags::EPOLLOUT, on);
        Ok(self.epoll.modify(fd, &mut EpollEvent::new(flags, token))?)
    }

    /// Until something is ready, or a little before `until`, or a while.
    pub(crate) fn wait(&mut self, until: Option<Instant>) -> io::Result<()> {
        let left = until.map(|at| at.since(Clock.now()));
        let timeout = match left {
            Some(left) if left <= SPIN => EpollTimeout::ZERO,
            Some(left) => {
                let sleep = std::time::Duration::from_nanos((left - SPIN).as_nanos());
                let once = Expiration::OneShot(TimeSpec::from_duration(sleep));
                self.timer.set(once, TimerSetTimeFlags::empty())?;
                LONGEST_MS.into()
            }
            None => LONGEST_MS.into(),
        };
        self.ready = match self.epoll.wait(&mut self.events, timeout) {
            Err(nix::errno::Errno::EINTR) => 0,
            other => other?,
        };
        Ok(())
    }

    /// The tokens of what is ready.
    pub(crate) fn ready(&self) -> impl Iterator<Item = u64> + '_ {
        let events = self.events.iter().take(self.ready);
        events.map(EpollEvent::data).filter(|token| *token != TIMER)
    }
}
