//! What connections tell of themselves, until the truth hears it.
//!
//! A connection may be on any thread, so what it tells is behind a lock. Who tells the truth of packets has
//! it hear that first, which costs a look where nothing is told, as before most packets.

use super::{EndId, Truth};
use narrows::endpoint::Tracer;
use narrows::trace::{Held, TimeoutCause, TraceEvent, TraceSink};
use narrows::{ByteCount, Duration, Instant};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// What has been told and not been heard.
#[derive(Debug, Default)]
pub(super) struct Feed {
    /// There is something.
    any: AtomicBool,
    told: Mutex<Told>,
}

#[derive(Debug, Default)]
struct Told {
    /// Connections that began to tell, each its own address first.
    new: Vec<[SocketAddr; 2]>,
    /// How many did in all.
    tellers: u32,
    news: Vec<News>,
}

/// What one of those who tell has told.
#[derive(Debug)]
pub(super) struct News {
    at: Instant,
    teller: u32,
    what: What,
}

#[derive(Debug)]
enum What {
    /// The window is another one after an idle time, until something is acknowledged.
    Restarted(bool),
    /// The smoothed RTT is less than ever.
    Rtt(Option<Duration>),
    /// The window came down for a segment that the host refused, until it is back where it was.
    Lowered(bool),
    /// The retransmission timer fired; something was acknowledged at `heard` last.
    Timeout {
        cause: TimeoutCause,
        rto: Duration,
        heard: Instant,
    },
    /// A tail loss probe left; something was acknowledged at `heard` last.
    Probe {
        heard: Instant,
    },
    DelayedAck,
    Held(Held),
}

impl Feed {
    fn lock(&self) -> MutexGuard<'_, Told> {
        self.told.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Those who tell, by number, and room for what they tell.
#[derive(Debug, Default)]
pub(super) struct Tellers {
    feed: Arc<Feed>,
    ends: Vec<EndId>,
    news: Vec<News>,
}

impl Truth {
    /// What listens to the connections of a host, whose news are to be [heard](Self::hear).
    pub fn tracer(&self) -> Tracer {
        let feed = Arc::clone(&self.tellers.feed);
        Box::new(move |_, _, tuple| {
            let sink = Sink::new(&feed, [tuple.local, tuple.remote]);
            Some(Box::new(sink) as Box<dyn TraceSink>)
        })
    }

    /// What listens to one connection.
    #[cfg(test)]
    pub(super) fn sink(&self, addresses: [SocketAddr; 2]) -> Sink {
        Sink::new(&self.tellers.feed, addresses)
    }

    /// Hears what connections have told. To be called before what happens to packets after that is told,
    /// and in the end.
    #[inline]
    pub fn hear(&mut self) {
        if self.tellers.feed.any.load(Ordering::Acquire) {
            self.hear_all();
        }
    }

    #[inline(never)]
    fn hear_all(&mut self) {
        let feed = Arc::clone(&self.tellers.feed);
        let mut news = std::mem::take(&mut self.tellers.news);
        let mut told = feed.lock();
        feed.any.store(false, Ordering::Release);
        std::mem::swap(&mut told.news, &mut news);
        for name in told.new.drain(..) {
            let end = self.ends.number(name);
            self.tellers.ends.push(end);
        }
        drop(told);
        for News { at, teller, what } in news.drain(..) {
            let end = self.tellers.ends[teller as usize];
            match what {
                What::Restarted(restarted) => self.ends[end].restarted = restarted,
                What::Rtt(rtt) => self.ends[end].rtt = rtt,
                What::Lowered(lowered) => self.ends[end].lowered = lowered,
                What::Timeout { cause, rto, heard } => self.timeout(at, end, cause, rto, heard),
                What::Probe { heard } => self.probe(at, end, heard),
                What::DelayedAck => self.delayed_ack(at, end.peer()),
                What::Held(held) => self.held(at, end, held),
            }
        }
        self.tellers.news = news;
    }
}

/// Listens to one end of a connection, and passes on what is new.
pub(super) struct Sink {
    feed: Arc<Feed>,
    teller: u32,
    /// Why nothing leaves.
    held: Option<Held>,
    rtt: Option<Duration>,
    /// When something was acknowledged last.
    heard: Instant,
    restarted: bool,
    cwnd: ByteCount,
    /// When its host refused a segment last.
    refused: Option<Instant>,
    /// From where the window came down for that, until it is there again or comes down for something
    /// else.
    lowered: Option<ByteCount>,
}

impl Sink {
    fn new(feed: &Arc<Feed>, addresses: [SocketAddr; 2]) -> Self {
        let mut told = feed.lock();
        let teller = told.tellers;
        told.tellers += 1;
        told.new.push(addresses);
        feed.any.store(true, Ordering::Release);
        drop(told);
        Self {
            feed: Arc::clone(feed),
            teller,
            held: None,
            rtt: None,
            heard: Instant::ZERO,
            restarted: false,
            cwnd: ByteCount::ZERO,
            refused: None,
            lowered: None,
        }
    }

    #[inline(never)]
    fn tell(&self, at: Instant, what: What) {
        let mut told = self.feed.lock();
        let teller = self.teller;
        told.news.push(News { at, teller, what });
        self.feed.any.store(true, Ordering::Release);
    }

    /// The window is this now.
    fn window(&mut self, now: Instant, cwnd: ByteCount) {
        let before = std::mem::replace(&mut self.cwnd, cwnd);
        if cwnd < before && self.refused == Some(now) {
            self.lower(
                now,
                Some(self.lowered.map_or(before, |from| from.max(before))),
            );
        } else if self.lowered.is_some_and(|from| cwnd >= from) {
            self.lower(now, None);
        }
    }

    fn lower(&mut self, now: Instant, from: Option<ByteCount>) {
        if from.is_some() != self.lowered.is_some() {
            self.tell(now, What::Lowered(from.is_some()));
        }
        self.lowered = from;
    }
}

impl TraceSink for Sink {
    fn wants_held(&self) -> bool {
        true
    }

    fn event(&mut self, now: Instant, event: &TraceEvent) {
        let heard = self.heard;
        match event {
            TraceEvent::Window { srtt, cwnd, .. } => {
                self.heard = now;
                self.window(now, *cwnd);
                if std::mem::take(&mut self.restarted) {
                    self.tell(now, What::Restarted(false));
                }
                if srtt.is_some_and(|srtt| self.rtt.is_none_or(|least| srtt < least)) {
                    self.rtt = *srtt;
                    self.tell(now, What::Rtt(*srtt));
                }
            }
            TraceEvent::LocalDrop { .. } => self.refused = Some(now),
            TraceEvent::Congestion(_) => self.lower(now, None),
            TraceEvent::Timeout { cause, rto, .. } => {
                self.lower(now, None);
                let (cause, rto) = (*cause, *rto);
                self.tell(now, What::Timeout { cause, rto, heard });
            }
            TraceEvent::TailLossProbe => self.tell(now, What::Probe { heard }),
            TraceEvent::IdleRestart { .. } => {
                self.restarted = true;
                self.tell(now, What::Restarted(true));
            }
            TraceEvent::DelayedAck => self.tell(now, What::DelayedAck),
            // It comes each time that the connection is asked for a segment and has none.
            TraceEvent::Held(held) if self.held.replace(*held) != Some(*held) => {
                self.tell(now, What::Held(*held));
            }
            _ => {}
        }
    }
}
