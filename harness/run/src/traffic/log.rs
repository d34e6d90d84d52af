//! What the roles of a run tell of it: transfers, and whether they are done.

use crate::net::packet::HostId;
use narrows::{ByteCount, Duration, Instant};
use std::cell::{Cell, Ref, RefCell};
use std::fmt;
use std::rc::Rc;

/// A completed transfer: a block, an answer, a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transfer {
    /// Which traffic of the experiment, from 0.
    pub traffic: u16,
    /// The host that it was for.
    pub to: HostId,
    /// The host that it came from; `None` if from several.
    pub from: Option<HostId>,
    /// When it was asked for, or its connection opened.
    pub began: Instant,
    /// Until its last byte reached the application.
    pub took: Duration,
    /// Payload.
    pub size: ByteCount,
}

/// A time in which something of an application stood still.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppSpan {
    /// Which traffic of the experiment, from 0.
    pub traffic: u16,
    /// Where.
    pub host: HostId,
    /// Towards whom, if towards one.
    pub peer: Option<HostId>,
    /// What it is.
    pub kind: SpanKind,
    /// When it began.
    pub began: Instant,
    /// How long it took; `None` if the run was over before.
    pub took: Option<Duration>,
}

impl AppSpan {
    /// It begins.
    pub(super) fn new(
        traffic: u16,
        host: HostId,
        peer: Option<HostId>,
        kind: SpanKind,
        began: Instant,
    ) -> Self {
        Self {
            traffic,
            host,
            peer,
            kind,
            began,
            took: None,
        }
    }

    /// Until when it went on, in a run that ended then.
    pub fn until(&self, end: Instant) -> Instant {
        self.took.map_or(end, |took| self.began + took)
    }
}

/// What stands still. The names are those of the messages of Erlang's system monitor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SpanKind {
    /// A port has more in its queue than its limit.
    BusyPort,
    /// A process is suspended by a busy port.
    BusyDistPort(Process),
}

impl SpanKind {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::BusyPort => "busy_port",
            Self::BusyDistPort(_) => "busy_dist_port",
        }
    }
}

/// A process of a node.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Process {
    /// The one that answers requests.
    Server,
    /// One that puts a request.
    Client,
    /// One that sends in the place of others.
    Relay,
}

impl Process {
    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
            Self::Relay => "relay",
        }
    }
}

/// What a host held of memory for a traffic, over time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gauge {
    /// Which traffic of the experiment, from 0.
    pub traffic: u16,
    /// The host.
    pub host: HostId,
    /// When it changed, and the most that it was within [`Gauge::STEP`] from then.
    pub course: Vec<(Instant, ByteCount)>,
    /// What it is now.
    pub now: ByteCount,
}

impl Gauge {
    /// Changes within this time are one.
    pub const STEP: Duration = Duration::from_millis(1);

    fn set(&mut self, now: Instant, bytes: ByteCount) {
        self.now = bytes;
        match self.course.last_mut() {
            Some((at, most)) if now.since(*at) < Self::STEP => *most = (*most).max(bytes),
            Some((_, most)) if *most == bytes => {}
            _ => self.course.push((now, bytes)),
        }
    }
}

/// What all roles of a run write to.
#[derive(Clone, Debug, Default)]
pub struct Log(Rc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// What [`Written::goes_on`] says, which each event of a host asks for.
    goes_on: Cell<bool>,
    written: RefCell<Written>,
}

/// Payload that applications have read of a traffic, without requests and the like. By itself, because
/// each segment adds to it.
#[derive(Clone, Debug, Default)]
pub(super) struct Delivered(Rc<Cell<ByteCount>>);

impl Delivered {
    #[inline]
    pub(super) fn add(&self, bytes: u64) {
        self.0.set(self.0.get() + ByteCount::new(bytes));
    }
}

#[derive(Debug, Default)]
struct Written {
    transfers: Vec<Transfer>,
    /// By traffic.
    delivered: Vec<Delivered>,
    /// By traffic: calls of `finish` that are missing; `None` without end.
    unfinished: Vec<Option<usize>>,
    /// By traffic: transfers that an application gave up on.
    failed: Vec<u64>,
    /// Calls of `finish` that counted.
    finished: u64,
    spans: Vec<AppSpan>,
    gauges: Vec<Gauge>,
    /// How many traffics are not over.
    going: usize,
    /// When an application sent for the first time.
    first_send: Option<Instant>,
    /// Something went wrong: nothing goes on.
    broken: bool,
    listener: Listener,
}

/// What an application has done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppEvent {
    /// A transfer is complete.
    Transfer(Transfer),
    /// Something of an application stands still from now on.
    Began(AppSpan),
    /// It goes on.
    Ended(AppSpan),
    /// A host gave up on a transfer.
    Failed {
        /// Which traffic of the experiment, from 0.
        traffic: u16,
        /// The host that it was for.
        to: HostId,
    },
}

/// Who hears of what applications did.
#[derive(Default)]
struct Listener(Option<Box<dyn FnMut(Instant, AppEvent)>>);

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Listener").field(&self.0.is_some()).finish()
    }
}

impl Written {
    /// Whether there is a traffic that is not over, and nothing went wrong.
    fn goes_on(&self) -> bool {
        self.going > 0 && !self.broken
    }

    fn tell(&mut self, now: Instant, event: AppEvent) {
        if let Some(listener) = &mut self.listener.0 {
            listener(now, event);
        }
    }
}

impl Log {
    /// A traffic is added, the next one, over after so many calls of [`super::Io::finish`].
    pub fn add(&self, calls: Option<usize>) {
        let mut log = self.0.written.borrow_mut();
        log.unfinished.push(calls);
        log.failed.push(0);
        log.delivered.push(Delivered::default());
        log.going += usize::from(calls != Some(0));
        self.0.goes_on.set(log.goes_on());
    }

    /// A part of a traffic is done.
    pub(crate) fn finish(&self, traffic: u16) {
        let mut log = self.0.written.borrow_mut();
        let left = log.unfinished.get_mut(usize::from(traffic));
        if let Some(Some(calls)) = left
            && *calls > 0
        {
            *calls -= 1;
            let over = *calls == 0;
            log.finished += 1;
            log.going -= usize::from(over);
            self.0.goes_on.set(log.goes_on());
        }
    }

    pub(crate) fn fail(&self, traffic: u16, to: HostId, now: Instant) {
        let mut log = self.0.written.borrow_mut();
        if let Some(failed) = log.failed.get_mut(usize::from(traffic)) {
            *failed += 1;
        }
        log.tell(now, AppEvent::Failed { traffic, to });
    }

    pub(super) fn begin_span(&self, span: AppSpan) -> usize {
        let mut log = self.0.written.borrow_mut();
        log.spans.push(span);
        log.tell(span.began, AppEvent::Began(span));
        log.spans.len() - 1
    }

    pub(super) fn end_span(&self, span: usize, now: Instant) {
        let mut log = self.0.written.borrow_mut();
        if let Some(span) = log.spans.get_mut(span) {
            span.took = Some(now.since(span.began));
            let span = *span;
            log.tell(now, AppEvent::Ended(span));
        }
    }

    pub(super) fn gauge(&self, traffic: u16, host: HostId, now: Instant, bytes: u64) {
        let mut log = self.0.written.borrow_mut();
        let bytes = ByteCount::new(bytes);
        let of = |g: &Gauge| (g.traffic, g.host) == (traffic, host);
        match log.gauges.iter_mut().find(|g| of(g)) {
            Some(gauge) => gauge.set(now, bytes),
            None => log.gauges.push(Gauge {
                traffic,
                host,
                course: vec![(now, bytes)],
                now: bytes,
            }),
        }
    }

    pub(crate) fn record(&self, transfer: Transfer) {
        let mut log = self.0.written.borrow_mut();
        log.transfers.push(transfer);
        log.tell(transfer.began + transfer.took, AppEvent::Transfer(transfer));
    }

    /// Has `listener` told of what applications do from now on.
    pub fn listen(&self, listener: impl FnMut(Instant, AppEvent) + 'static) {
        self.0.written.borrow_mut().listener = Listener(Some(Box::new(listener)));
    }

    /// Where what is read of a traffic is added up, if there is such a traffic.
    pub(super) fn delivered_of(&self, traffic: u16) -> Option<Delivered> {
        let log = self.0.written.borrow();
        log.delivered.get(usize::from(traffic)).cloned()
    }

    /// How many parts of the traffics are done, of how many; an endless one counts as one that is
    /// not.
    pub fn progress(&self) -> (u64, u64) {
        let log = self.0.written.borrow();
        let left = |u: &Option<usize>| u.map_or(1, |calls| calls as u64);
        let unfinished = log.unfinished.iter().map(left);
        let left = unfinished.fold(0, u64::saturating_add);
        (log.finished, log.finished.saturating_add(left))
    }

    /// Whether there is a traffic that is not over, and nothing went wrong.
    #[inline]
    pub fn goes_on(&self) -> bool {
        self.0.goes_on.get()
    }

    /// Nothing goes on after what went wrong.
    pub(super) fn break_off(&self) {
        self.0.written.borrow_mut().broken = true;
        self.0.goes_on.set(false);
    }

    /// An application sends.
    pub(super) fn send(&self, now: Instant) {
        self.0.written.borrow_mut().first_send.get_or_insert(now);
    }

    /// When an application sent for the first time.
    pub fn first_send(&self) -> Option<Instant> {
        self.0.written.borrow().first_send
    }

    /// Whether there is a traffic without end.
    pub fn is_endless(&self) -> bool {
        self.0.written.borrow().unfinished.contains(&None)
    }

    /// Transfers of a traffic that an application gave up on so far.
    pub fn failed(&self, traffic: u16) -> u64 {
        let log = self.0.written.borrow();
        log.failed.get(usize::from(traffic)).copied().unwrap_or(0)
    }

    /// The same of all traffics, in their order.
    pub fn all_failed(&self) -> Vec<u64> {
        self.0.written.borrow().failed.clone()
    }

    /// Payload that applications have read so far, without requests and the like.
    pub fn delivered(&self) -> ByteCount {
        let log = self.0.written.borrow();
        log.delivered.iter().map(|d| d.0.get()).sum()
    }

    /// The same by traffic, in their order.
    pub fn all_delivered(&self) -> Vec<ByteCount> {
        let log = self.0.written.borrow();
        log.delivered.iter().map(|d| d.0.get()).collect()
    }

    /// The transfers so far, as they were completed.
    pub fn transfers(&self) -> Ref<'_, [Transfer]> {
        Ref::map(self.0.written.borrow(), |log| log.transfers.as_slice())
    }

    /// Takes out the times in which something stood still, in the order in which they began.
    pub fn take_spans(&self) -> Vec<AppSpan> {
        std::mem::take(&mut self.0.written.borrow_mut().spans)
    }

    /// Takes out what hosts held.
    pub fn take_gauges(&self) -> Vec<Gauge> {
        std::mem::take(&mut self.0.written.borrow_mut().gauges)
    }

    /// Takes the transfers out.
    pub fn take_transfers(&self) -> Vec<Transfer> {
        std::mem::take(&mut self.0.written.borrow_mut().transfers)
    }
}
