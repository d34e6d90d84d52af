//! The driver's task: it receives, runs timers, and sends what the users' tasks could not.

use super::super::Clock;
use super::super::busy_poll::Idle;
use super::super::engine::{Received, Sent};
use super::shared::{Core, Phase, Release, Shared, Woken};
use crate::device::sys::TimerFd;
use narrows_congestion::Instant;
use std::future::poll_fn;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::Interest;
use tokio::io::unix::AsyncFd;
use tokio::task::yield_now;

/// Rounds before other tasks have their turn.
const ROUNDS: usize = 16;

/// What the task waits for, besides being kicked.
pub(super) struct Sources {
    /// A second descriptor of the device.
    pub(super) device: AsyncFd<OwnedFd>,
    pub(super) timer: AsyncFd<Arc<TimerFd>>,
}

impl Sources {
    /// Ask the current runtime about them.
    pub(super) fn register(device: OwnedFd, timer: Arc<TimerFd>) -> io::Result<Self> {
        let both = Interest::READABLE | Interest::WRITABLE;
        #[allow(unsafe_code)]
        // SAFETY: an `OwnedFd` owns an open descriptor until it is dropped, and always the same
        // one; so does the one inside the `TimerFd`, which the `Arc` keeps alive and nobody takes
        // out.
        unsafe {
            Ok(Self {
                device: AsyncFd::register_with_interest(device, both)?,
                timer: AsyncFd::register_with_interest(timer, Interest::READABLE)?,
            })
        }
    }
}

/// What a round has come to.
enum Round {
    /// There may be more to do.
    Repeat,
    /// There may be more to do, and others go first: those that were woken, so that whoever reads
    /// does so while the bytes are in the processor's cache, and before the window is full; or
    /// anybody, since there is no more to do than to look for frames.
    Yield,
    /// Everything that could wake the task has been asked to.
    Wait,
    /// The driver has ended.
    Over,
}

/// Drive until the stack is shut down or its device is gone.
pub(super) async fn drive(shared: Arc<Shared>, sources: Sources) {
    let turn = |cx: &mut Context<'_>| {
        for _ in 0..ROUNDS {
            match round(&shared, &sources, cx) {
                Round::Repeat => {}
                Round::Yield => break,
                Round::Wait => return Poll::Pending,
                Round::Over => return Poll::Ready(Turn::Over),
            }
        }
        Poll::Ready(Turn::Others)
    };
    while let Turn::Others = poll_fn(turn).await {
        // Waking the task itself would not do: the future that a runtime of one thread blocks on
        // has its turn after 61 tasks only, unless there are none.
        yield_now().await;
    }
}

/// How the task's turn has ended.
enum Turn {
    /// Others have theirs.
    Others,
    /// For good.
    Over,
}

fn round(shared: &Shared, sources: &Sources, cx: &mut Context<'_>) -> Round {
    let mut core = shared.lock();
    let outcome = match try_round(&mut core, sources, cx) {
        Ok(outcome) => outcome,
        Err(e) => {
            core.fail(Some(e));
            Round::Over
        }
    };
    let over = matches!(core.phase, Phase::Ended(_));
    let woken = core.release();
    match (over, outcome, woken) {
        (true, ..) => Round::Over,
        (false, Round::Repeat, Woken::Some) => Round::Yield,
        (false, outcome, _) => outcome,
    }
}

fn try_round(core: &mut Core, sources: &Sources, cx: &mut Context<'_>) -> io::Result<Round> {
    if let Phase::Ended(_) = core.phase {
        return Ok(Round::Over);
    }
    let mut again = std::mem::take(&mut core.kicked);
    let now = Clock.now();

    // Readiness is asked for before what it is about is tried, and cleared after it failed: what
    // happens in between is not lost.
    match sources.timer.poll_read_ready(cx)? {
        Poll::Ready(mut guard) => {
            core.disarm();
            guard.clear_ready();
            again = true;
        }
        Poll::Pending => {}
    }
    core.engine.timers(now);

    match sources.device.poll_read_ready(cx)? {
        Poll::Ready(mut guard) => {
            again = true;
            match core.engine.receive(now)? {
                Received::Nothing => guard.clear_ready(),
                Received::All | Received::Some => core.busy_poll.on_arrival(now),
            }
        }
        Poll::Pending
            if core
                .engine
                .device
                .poll_timeout()
                .is_some_and(|at| at <= now) =>
        {
            // What the device itself has kept back.
            again |= core.engine.receive(now)? != Received::Nothing;
        }
        Poll::Pending => {}
    }

    let mut room = None;
    if core.engine.wants_room()
        && let Poll::Ready(guard) = sources.device.poll_write_ready(cx)?
    {
        core.engine.on_writable();
        room = Some(guard);
        again = true;
    }
    if core.send(now)? == Sent::Some {
        again = true;
    }
    if core.engine.wants_room() {
        match &mut room {
            Some(guard) => guard.clear_ready(),
            // The next round asks for it.
            None => again |= !is_waiting_for_room(sources, cx)?,
        }
    }
    core.finish_closing(now);
    core.arm()?;
    if again || core.is_due_soon(now) {
        return Ok(Round::Repeat);
    }
    if core.busy_poll.on_idle(now) == Idle::Look {
        return Ok(Round::Yield);
    }
    core.driver = Some(cx.waker().clone());
    Ok(Round::Wait)
}

/// The task will be woken when the device is writable.
fn is_waiting_for_room(sources: &Sources, cx: &mut Context<'_>) -> io::Result<bool> {
    Ok(sources.device.poll_write_ready(cx)?.is_pending())
}

impl Core {
    /// The stack is being shut down: is it done?
    fn finish_closing(&mut self, now: Instant) {
        let Phase::Closing { until } = self.phase else {
            return;
        };
        if until.is_some_and(|until| until <= now) {
            let tcp = self.engine.interface.endpoint_mut();
            tcp.abort_all(now);
            // The resets leave if the device takes them.
            if let Err(e) = self.send(now) {
                self.fail(Some(e));
                return;
            }
        }
        if self.live_connections() == 0 {
            self.fail(None);
        }
    }
}
