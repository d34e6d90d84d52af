//! What streams, listeners and the driver's task share: one lock around the TCP and its device.

use super::super::busy_poll::BusyPoll;
use super::super::engine::{Engine, Sent};
use super::super::{Clock, LiveTcp};
use crate::conn::icmp::SoftError;
use crate::conn::state::{CloseReason, State};
use crate::conn::{Connection, Event};
use crate::device::{Device, DeviceStats, Refused, sys};
use crate::endpoint::{ConnId, EndpointEvent, ListenerId};
use crate::interface::{Capabilities, RxFrame, TxFrame};
use crate::wire::IcmpErrorKind;
use narrows_congestion::order::OrderedMap;
use narrows_congestion::{Duration, Instant};
use std::collections::VecDeque;
use std::io;
use std::ops::RangeInclusive;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::{Context, Waker};

/// The driver's task is woken this long before a timer is due, and yields to others until it is:
/// a wake-up takes 5 to 50 us.
const EARLY: Duration = Duration::from_micros(60);

/// The tasks that wait for one thing. A task that waits no more is woken once for nothing.
#[derive(Debug, Default)]
pub(super) struct WakerSet(Vec<Waker>);

impl WakerSet {
    pub(super) fn register(&mut self, cx: &Context<'_>) {
        let waker = cx.waker();
        if !self.0.iter().any(|known| known.will_wake(waker)) {
            self.0.push(waker.clone());
        }
    }
}

/// What the driver keeps for a connection that has a user.
#[derive(Debug)]
pub(super) struct Sock {
    id: ConnId,
    pub(super) readers: WakerSet,
    pub(super) writers: WakerSet,
    /// The handshake is complete.
    pub(super) connected: bool,
    pub(super) peer_closed: bool,
    /// It is over, and the user has not been told.
    pub(super) closed: Option<CloseReason>,
}

/// What the driver keeps for a listener.
#[derive(Debug)]
pub(super) struct Accepting {
    pub(super) queue: VecDeque<ConnId>,
    backlog: usize,
    pub(super) wakers: WakerSet,
}

/// Whether the driver runs.
#[derive(Debug)]
pub(super) enum Phase {
    Running,
    /// No new connections; those that are left are reset at `until`.
    Closing {
        until: Option<Instant>,
    },
    /// It has ended; what failed, if anything.
    Ended(Option<Arc<io::Error>>),
}

/// What is behind the lock.
pub(super) struct Core {
    pub(super) engine: Engine<LiveTcp, Box<dyn Device>>,
    socks: Vec<Option<Sock>>,
    pub(super) listeners: OrderedMap<ListenerId, Accepting>,
    pub(super) phase: Phase,
    timer: Arc<sys::TimerFd>,
    /// What the timer is set to.
    armed: Option<Instant>,
    /// The driver's task is to look, and not to wait.
    pub(super) kicked: bool,
    /// The driver's task, while it waits.
    pub(super) driver: Option<Waker>,
    /// Whether it looks for frames before it waits.
    pub(super) busy_poll: BusyPoll,
    /// Tasks to wake when the lock is released.
    wakes: Vec<Waker>,
    /// Tasks that wait for the driver to end.
    pub(super) ending: WakerSet,
    port: u16,
}

/// The lock.
pub(super) struct Shared {
    core: Mutex<Core>,
}

impl Shared {
    pub(super) fn new(engine: Engine<LiveTcp, Box<dyn Device>>, timer: Arc<sys::TimerFd>) -> Self {
        let core = Core {
            engine,
            socks: Vec::new(),
            listeners: OrderedMap::new(),
            phase: Phase::Running,
            timer,
            armed: None,
            kicked: false,
            driver: None,
            busy_poll: BusyPoll::new(EARLY),
            wakes: Vec::new(),
            ending: WakerSet::default(),
            port: Clock.now().as_nanos() as u16,
        };
        Self {
            core: Mutex::new(core),
        }
    }

    /// The lock, for a look or for the driver's task; others use [`with`](Self::with).
    pub(super) fn lock(&self) -> MutexGuard<'_, Core> {
        // A panic while it was held came from a user's policy; the data is whole.
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Do something for a user: what comes of it leaves at once, from the user's task.
    pub(super) fn with<R>(&self, f: impl FnOnce(&mut Core, Instant) -> R) -> R {
        let mut core = self.lock();
        let now = Clock.now();
        let result = f(&mut core, now);
        match core.send(now) {
            Ok(Sent::All) if !core.engine.wants_room() => {}
            // The driver's task goes on with it, or waits for room.
            Ok(_) => core.kick(),
            Err(e) => core.fail(Some(e)),
        }
        let armed = core.arm();
        if armed.is_err() {
            core.kick();
        }
        core.release();
        result
    }
}

/// Whether tasks were woken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Woken {
    None,
    Some,
}

/// Wakes everyone, the lock released.
pub(super) trait Release {
    fn release(self) -> Woken;
}

impl Release for MutexGuard<'_, Core> {
    fn release(mut self) -> Woken {
        if self.wakes.is_empty() {
            return Woken::None;
        }
        let wakes = std::mem::take(&mut self.wakes);
        drop(self);
        for waker in wakes {
            waker.wake();
        }
        Woken::Some
    }
}

impl Core {
    /// Send what there is, and tell the users what came of it.
    pub(super) fn send(&mut self, now: Instant) -> io::Result<Sent> {
        if let Phase::Ended(_) = self.phase {
            return Ok(Sent::All);
        }
        self.tell();
        let sent = self.engine.transmit(now)?;
        self.tell();
        Ok(sent)
    }

    /// What is due first.
    fn due(&self) -> Option<Instant> {
        let closing = match self.phase {
            Phase::Closing { until } => until,
            _ => None,
        };
        let due = [self.engine.poll_timeout(), closing];
        due.into_iter().flatten().min()
    }

    /// Something is due so soon that a wake-up would come too late.
    pub(super) fn is_due_soon(&self, now: Instant) -> bool {
        self.due().is_some_and(|due| due.since(now) <= EARLY)
    }

    /// Set the timer to shortly before what is due first. A deadline that recedes is left to fire
    /// early.
    pub(super) fn arm(&mut self) -> io::Result<()> {
        let due = self.due();
        let sooner = match (due, self.armed) {
            (Some(due), Some(armed)) => due < armed,
            (Some(_), None) => true,
            (None, _) => false,
        };
        if sooner {
            self.timer.set(due.map(|due| due - EARLY))?;
            self.armed = due;
        }
        Ok(())
    }

    /// The timer has fired.
    pub(super) fn disarm(&mut self) {
        self.timer.clear();
        self.armed = None;
    }

    /// The driver's task is to run.
    pub(super) fn kick(&mut self) {
        self.kicked = true;
        self.wakes.extend(self.driver.take());
    }

    fn wake(wakes: &mut Vec<Waker>, set: &mut WakerSet) {
        wakes.append(&mut set.0);
    }

    /// Hand the TCP's events to those who wait for them.
    fn tell(&mut self) {
        while let Some(event) = self.engine.interface.poll_event() {
            match event {
                EndpointEvent::Accepted { listener, conn } => self.on_accepted(listener, conn),
                EndpointEvent::Conn { conn, event } => self.on_event(conn, event),
            }
        }
    }

    fn on_accepted(&mut self, listener: ListenerId, conn: ConnId) {
        self.adopt(conn, true);
        let Some(accepting) = self.listeners.get_mut(&listener) else {
            let now = Clock.now();
            self.abandon(conn, true, now);
            return;
        };
        accepting.queue.push_back(conn);
        if accepting.queue.len() >= accepting.backlog {
            let tcp = self.engine.interface.endpoint_mut();
            tcp.pause_listener(listener, true);
        }
        Self::wake(&mut self.wakes, &mut accepting.wakers);
    }

    fn on_event(&mut self, conn: ConnId, event: Event) {
        let wakes = &mut self.wakes;
        let Some(Some(sock)) = self.socks.get_mut(conn.index()) else {
            return;
        };
        if sock.id != conn {
            return;
        }
        match event {
            Event::Connected => {
                sock.connected = true;
                Self::wake(wakes, &mut sock.writers);
            }
            Event::Readable => Self::wake(wakes, &mut sock.readers),
            Event::Writable => Self::wake(wakes, &mut sock.writers),
            Event::PeerClosed => {
                sock.peer_closed = true;
                Self::wake(wakes, &mut sock.readers);
            }
            // An open connection outlives a gap in its route; an attempt does not wait for one, as
            // with the kernel.
            Event::SoftError(SoftError::Icmp(IcmpErrorKind::Unreachable(why)))
                if !sock.connected =>
            {
                sock.closed = Some(CloseReason::Unreachable(why));
                Self::wake(wakes, &mut sock.writers);
            }
            Event::Closed(reason) => {
                sock.closed = Some(reason);
                Self::wake(wakes, &mut sock.readers);
                Self::wake(wakes, &mut sock.writers);
            }
            _ => {}
        }
    }

    /// The next accepted connection of a listener.
    pub(super) fn next_accepted(&mut self, listener: ListenerId) -> Option<ConnId> {
        let accepting = self.listeners.get_mut(&listener)?;
        let conn = accepting.queue.pop_front()?;
        if accepting.queue.len() < accepting.backlog {
            let tcp = self.engine.interface.endpoint_mut();
            tcp.pause_listener(listener, false);
        }
        Some(conn)
    }

    pub(super) fn add_listener(&mut self, id: ListenerId, backlog: usize) {
        let accepting = Accepting {
            queue: VecDeque::new(),
            backlog: backlog.max(1),
            wakers: WakerSet::default(),
        };
        self.listeners.insert(id, accepting);
    }

    /// A port of `ports` to begin a search with; another one each time.
    pub(super) fn next_port(&mut self, ports: &RangeInclusive<u16>) -> u16 {
        self.port = self.port.wrapping_add(1);
        let span = ports.end().saturating_sub(*ports.start());
        ports.start() + self.port.checked_rem(span).unwrap_or(0)
    }

    /// Those who wait to accept see that no more will come.
    pub(super) fn wake_listeners(&mut self) {
        for (_, accepting) in self.listeners.iter_mut() {
            Self::wake(&mut self.wakes, &mut accepting.wakers);
        }
    }

    /// The listener is gone, and what nobody has accepted is reset.
    pub(super) fn remove_listener(&mut self, id: ListenerId, now: Instant) {
        self.engine.interface.endpoint_mut().unlisten(id, now);
        if let Some(mut accepting) = self.listeners.remove(&id) {
            for conn in accepting.queue.drain(..) {
                self.abandon(conn, true, now);
            }
            Self::wake(&mut self.wakes, &mut accepting.wakers);
        }
    }

    /// A connection has a user from now on.
    pub(super) fn adopt(&mut self, id: ConnId, connected: bool) {
        let at = id.index();
        if self.socks.len() <= at {
            self.socks.resize_with(at + 1, || None);
        }
        self.socks[at] = Some(Sock {
            id,
            readers: WakerSet::default(),
            writers: WakerSet::default(),
            connected,
            peer_closed: false,
            closed: None,
        });
    }

    /// The user is gone; `reset`: the peer is to know at once.
    pub(super) fn abandon(&mut self, id: ConnId, reset: bool, now: Instant) {
        if let Some(slot) = self.socks.get_mut(id.index())
            && slot.as_ref().is_some_and(|s| s.id == id)
        {
            *slot = None;
        }
        let tcp = self.engine.interface.endpoint_mut();
        if reset && let Some(conn) = tcp.connection_mut(id) {
            conn.abort(now);
        }
        tcp.release(id, now);
        if !matches!(self.phase, Phase::Running) {
            self.kick();
        }
    }

    /// The driver runs: something may still come.
    pub(super) fn alive(&self) -> io::Result<()> {
        match &self.phase {
            Phase::Ended(why) => Err(ended(why.as_deref())),
            _ => Ok(()),
        }
    }

    /// The connection and what is kept for it.
    pub(super) fn sock(&mut self, id: ConnId) -> io::Result<(&mut Sock, &mut Connection<LiveTcp>)> {
        let sock = self
            .socks
            .get_mut(id.index())
            .and_then(Option::as_mut)
            .filter(|s| s.id == id);
        let conn = self.engine.interface.endpoint_mut().connection_mut(id);
        // A stream holds both until it is dropped.
        sock.zip(conn)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Connections that are not waiting out old segments only.
    pub(super) fn live_connections(&self) -> usize {
        let tcp = self.engine.interface.endpoint();
        tcp.connection_states()
            .filter(|s| !matches!(s, State::TimeWait | State::Closed(_)))
            .count()
    }

    /// The driver ends.
    pub(super) fn fail(&mut self, why: Option<io::Error>) {
        if let Phase::Ended(_) = self.phase {
            return;
        }
        self.phase = Phase::Ended(why.map(Arc::new));
        // The device is let go of at once, though streams may be held for longer.
        if let Ok(fd) = sys::EventFd::new() {
            let device = &mut self.engine.device;
            let (capabilities, stats) = (device.capabilities(), device.stats());
            *device = Box::new(NoDevice {
                capabilities,
                stats,
                fd,
            });
        }
        for sock in self.socks.iter_mut().flatten() {
            Self::wake(&mut self.wakes, &mut sock.readers);
            Self::wake(&mut self.wakes, &mut sock.writers);
        }
        self.wake_listeners();
        Self::wake(&mut self.wakes, &mut self.ending);
        self.kick();
    }

    /// Whether new connections may be made.
    pub(super) fn check_open(&self) -> io::Result<()> {
        match &self.phase {
            Phase::Running => Ok(()),
            Phase::Closing { .. } => Err(ended(None)),
            Phase::Ended(why) => Err(ended(why.as_deref())),
        }
    }
}

/// In the place of a device that was let go of.
struct NoDevice {
    capabilities: Capabilities,
    stats: DeviceStats,
    fd: sys::EventFd,
}

impl Device for NoDevice {
    fn capabilities(&self) -> Capabilities {
        self.capabilities
    }
    fn receive(
        &mut self,
        _: Instant,
        _: usize,
        _: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        Err(io::ErrorKind::NotConnected.into())
    }
    fn transmit(&mut self, _: Instant, _: &TxFrame<'_>) -> Result<(), Refused> {
        Err(Refused::Gone(io::ErrorKind::NotConnected.into()))
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }
    fn stats(&self) -> DeviceStats {
        self.stats
    }
}

/// The error of everything when the driver runs no more.
pub(super) fn ended(why: Option<&io::Error>) -> io::Error {
    match why {
        Some(e) => io::Error::new(e.kind(), format!("the stack's device is gone: {e}")),
        None => io::Error::new(io::ErrorKind::NotConnected, "the stack was shut down"),
    }
}

/// A close reason as the error that the standard library would give.
pub(super) fn error_of(reason: CloseReason) -> io::Error {
    use crate::wire::icmp::Unreachable;
    let kind = match reason {
        CloseReason::Reset => io::ErrorKind::ConnectionReset,
        CloseReason::Refused => io::ErrorKind::ConnectionRefused,
        CloseReason::Aborted => io::ErrorKind::ConnectionAborted,
        CloseReason::TimedOut | CloseReason::UserTimeout | CloseReason::KeepaliveTimeout => {
            io::ErrorKind::TimedOut
        }
        CloseReason::Unreachable(Unreachable::Network) => io::ErrorKind::NetworkUnreachable,
        CloseReason::Unreachable(Unreachable::Port | Unreachable::Protocol) => {
            io::ErrorKind::ConnectionRefused
        }
        CloseReason::Unreachable(_) => io::ErrorKind::HostUnreachable,
        CloseReason::Finished => io::ErrorKind::NotConnected,
    };
    io::Error::new(kind, reason.to_string())
}
