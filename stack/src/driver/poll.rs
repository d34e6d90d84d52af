//! A driver that is a thread: it polls the device, the timers and an [`Application`], and waits by
//! sleeping or by spinning.

use super::engine::{Engine, Received, Sent};
use super::{Clock, RealTime};
use crate::device::{Device, sys};
use crate::endpoint::EndpointEvent;
use crate::interface::{ByteTcp, Interface};
use narrows_congestion::{Duration, Instant};
use std::fmt;
use std::io;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

/// What runs on the TCP, on the driver's thread.
pub trait Application<T: ByteTcp>: Send {
    /// The driver starts: listen, connect.
    ///
    /// # Errors
    /// Ends the driver.
    fn start(&mut self, tcp: &mut Interface<T>, now: Instant) -> io::Result<()>;

    /// The TCP tells something.
    fn event(&mut self, tcp: &mut Interface<T>, now: Instant, event: EndpointEvent);

    /// The application's own timer is due, or another thread called [`PollHandle::wake`].
    fn wake(&mut self, tcp: &mut Interface<T>, now: Instant) {
        let _ = (tcp, now);
    }

    /// When the application's own timer is due.
    fn poll_timeout(&self) -> Option<Instant> {
        None
    }

    /// Whether the application is done: the driver ends. Asked after each event and wake-up.
    fn is_done(&self) -> bool {
        false
    }
}

/// How the thread waits for the next frame or timer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waiting {
    /// Sleep, and wake up this long before a timer to spin until it is due: a sleep ends 5 to 60 us
    /// late. Zero: take timers as the sleep ends.
    Sleep {
        /// How long before.
        spin: Duration,
    },
    /// Never sleep: a core is taken whole, and nothing waits for a wake-up.
    Spin,
}

impl Default for Waiting {
    fn default() -> Self {
        Self::Sleep {
            spin: Duration::from_micros(60),
        }
    }
}

/// Values of a poll-loop driver.
#[derive(Clone, Debug, Default)]
pub struct PollConfig {
    /// How to wait.
    pub waiting: Waiting,
    /// Keep the thread on this core.
    pub core: Option<usize>,
    /// The thread's name; `None`: `narrows`.
    pub name: Option<String>,
    /// Schedule the thread in real time.
    pub real_time: Option<RealTime>,
}

/// What other threads can do to the driver's thread.
#[derive(Debug)]
struct Control {
    wake: sys::EventFd,
    woken: AtomicBool,
    stop: AtomicBool,
}

/// A running driver. Dropping it stops the driver and waits for its thread.
pub struct PollHandle<A, T: ByteTcp, D> {
    control: Arc<Control>,
    thread: Option<JoinHandle<Ended<A, T, D>>>,
}

/// What a driver leaves behind.
pub struct Ended<A, T: ByteTcp, D> {
    /// The application.
    pub app: A,
    /// The interface with the TCP.
    pub interface: Interface<T>,
    /// The device.
    pub device: D,
    /// Whether it was stopped, or what ended it.
    pub outcome: io::Result<()>,
}

impl<A, T: ByteTcp, D> fmt::Debug for PollHandle<A, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PollHandle").finish_non_exhaustive()
    }
}

impl<A, T: ByteTcp, D> fmt::Debug for Ended<A, T, D> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Ended")
            .field("outcome", &self.outcome)
            .finish_non_exhaustive()
    }
}

/// Run `app` on `interface` and `device` in a thread of its own.
///
/// # Errors
/// When there are no more threads or file descriptors, or `config.core` does not exist.
pub fn spawn<A, T, D>(
    config: PollConfig,
    interface: Interface<T>,
    device: D,
    app: A,
) -> io::Result<PollHandle<A, T, D>>
where
    A: Application<T> + 'static,
    T: ByteTcp,
    D: Device + 'static,
{
    let control = Arc::new(Control {
        wake: sys::EventFd::new()?,
        woken: AtomicBool::new(false),
        stop: AtomicBool::new(false),
    });
    let shared = control.clone();
    let name = config.name.clone().unwrap_or_else(|| "narrows".to_owned());
    let thread = thread::Builder::new().name(name).spawn(move || {
        let mut engine = Engine::new(interface, device);
        let mut app = app;
        let outcome = prepare(&config).and_then(|()| {
            let waiting = config.waiting;
            run(waiting, &mut engine, &mut app, &shared)
        });
        Ended {
            app,
            interface: engine.interface,
            device: engine.device,
            outcome,
        }
    })?;
    Ok(PollHandle {
        control,
        thread: Some(thread),
    })
}

impl<A, T: ByteTcp, D> PollHandle<A, T, D> {
    /// Call [`Application::wake`] soon.
    pub fn wake(&self) {
        self.control.woken.store(true, Ordering::Release);
        self.control.wake.set();
    }

    /// The driver has ended by itself.
    pub fn is_finished(&self) -> bool {
        self.thread.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Stop the driver after what it is doing; what it leaves behind.
    ///
    /// # Panics
    /// If the application panicked.
    pub fn stop(mut self) -> Ended<A, T, D> {
        self.ask_to_stop();
        self.take()
    }

    /// Wait until the application [is done](Application::is_done) or the device is gone.
    ///
    /// # Panics
    /// If the application panicked.
    pub fn join(mut self) -> Ended<A, T, D> {
        self.take()
    }

    fn ask_to_stop(&self) {
        self.control.stop.store(true, Ordering::Release);
        self.control.wake.set();
    }

    fn take(&mut self) -> Ended<A, T, D> {
        let thread = self.thread.take().expect("taken once, by value");
        match thread.join() {
            Ok(ended) => ended,
            Err(panic) => std::panic::resume_unwind(panic),
        }
    }
}

impl<A, T: ByteTcp, D> Drop for PollHandle<A, T, D> {
    fn drop(&mut self) {
        if let Some(thread) = self.thread.take() {
            self.ask_to_stop();
            // A panic of the application has been reported by its thread.
            let _ = thread.join();
        }
    }
}

fn prepare(config: &PollConfig) -> io::Result<()> {
    sys::exact_sleeps();
    if let Some(priority) = config.real_time {
        priority.apply()?;
    }
    match config.core {
        Some(core) => sys::pin_to(core),
        None => Ok(()),
    }
}

fn run<A: Application<T>, T: ByteTcp, D: Device>(
    waiting: Waiting,
    engine: &mut Engine<T, D>,
    app: &mut A,
    control: &Control,
) -> io::Result<()> {
    let clock = Clock;
    app.start(&mut engine.interface, clock.now())?;
    while !control.stop.load(Ordering::Acquire) {
        let now = clock.now();
        let received = engine.receive(now)?;
        engine.timers(now);
        let woken =
            control.woken.load(Ordering::Relaxed) && control.woken.swap(false, Ordering::Acquire);
        if woken || app.poll_timeout().is_some_and(|at| at <= now) {
            app.wake(&mut engine.interface, now);
        }
        tell(engine, app, now);
        let sent = engine.transmit(now)?;
        // Sending may have closed a connection or made room.
        tell(engine, app, now);
        if app.is_done() {
            // What it said last still leaves.
            while engine.transmit(clock.now())? == Sent::Some {}
            return Ok(());
        }
        if received == Received::Some || sent == Sent::Some {
            continue;
        }
        wait(waiting, engine, app.poll_timeout(), control)?;
    }
    Ok(())
}

fn tell<A: Application<T>, T: ByteTcp, D: Device>(
    engine: &mut Engine<T, D>,
    app: &mut A,
    now: Instant,
) {
    while let Some(event) = engine.interface.poll_event() {
        app.event(&mut engine.interface, now, event);
    }
}

/// Until a frame, a timer or a wake-up.
fn wait<T: ByteTcp, D: Device>(
    waiting: Waiting,
    engine: &mut Engine<T, D>,
    of_app: Option<Instant>,
    control: &Control,
) -> io::Result<()> {
    let clock = Clock;
    let due = [engine.poll_timeout(), of_app].into_iter().flatten().min();
    let spin = match waiting {
        Waiting::Spin => {
            std::hint::spin_loop();
            // Whether there is room is found out by trying.
            engine.on_writable();
            return Ok(());
        }
        Waiting::Sleep { spin } => spin,
    };
    let left = due.map(|at| at.since(clock.now()));
    if left.is_some_and(|left| left <= spin) {
        std::hint::spin_loop();
        engine.on_writable();
        return Ok(());
    }
    let device = sys::Interest {
        fd: engine.device.fd(),
        writable: engine.wants_room(),
    };
    let wake = sys::Interest {
        fd: control.wake.as_fd(),
        writable: false,
    };
    let [_, woken] = sys::wait([device, wake], left.map(|left| left - spin))?;
    if woken {
        control.wake.clear();
    }
    engine.on_writable();
    Ok(())
}
