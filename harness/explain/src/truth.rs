//! The truth about gaps: what connections, told from inside, waited for.
//!
//! A simulated connection tells what it decides ([`TraceEvent`]). From that, and from nothing that
//! is captured, come the gaps that a capture's explanation is held against.

use crate::gap::{Cause, Gap, Side};
mod way;

pub use way::Passing;

use narrows::congestion::Spurious;
use narrows::endpoint::Tracer;
use narrows::trace::{Held, TimeoutCause, TraceEvent, TraceSink};
use narrows::{Duration, Instant};
use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

/// A gap as it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TrueGap {
    /// Whose: the end that stood still first.
    pub ends: [SocketAddr; 2],
    /// From when.
    pub start: Instant,
    /// Until when.
    pub end: Instant,
    /// Why.
    pub cause: Cause,
    /// Whether an explanation that lacks it has missed something.
    pub counts: bool,
}

impl TrueGap {
    /// How long it was.
    pub fn length(&self) -> Duration {
        self.end.since(self.start)
    }
}

/// What is a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Threshold {
    /// Longer than this,
    pub floor: Duration,
    /// and than so many percent of the least smoothed RTT that the connection knew by then.
    pub share_percent: u32,
}

/// One end of a connection.
#[derive(Debug, Default)]
struct End {
    /// Why nothing leaves, and since when.
    held: Option<(Held, Instant)>,
    /// When something arrived last, and when something without data did.
    arrived: Instant,
    acknowledged: Instant,
    /// The last timeout, as a number of a gap.
    timeout: Option<usize>,
    /// When a gap of it ended last.
    last: Instant,
    /// The least smoothed RTT.
    rtt: Option<Duration>,
    /// The last gap that a delayed acknowledgement ended, which has not arrived yet.
    delayed: Option<usize>,
    /// The window was another one after an idle time, and no acknowledgement has come since.
    restarted: bool,
    /// What its packets and their network tell.
    way: way::Way,
}

/// Gathers what the ends of connections tell, and knows their gaps.
#[derive(Debug)]
pub struct Truth {
    threshold: Threshold,
    ends: HashMap<[SocketAddr; 2], End>,
    gaps: Vec<TrueGap>,
    pauses: way::Pauses,
}

impl Truth {
    /// Knows gaps that are longer than `threshold`.
    pub fn new(threshold: Threshold) -> Self {
        Self {
            threshold,
            ends: HashMap::new(),
            gaps: Vec::new(),
            pauses: way::Pauses::default(),
        }
    }

    /// The gaps until now, in the order in which they ended.
    pub fn gaps(&self) -> &[TrueGap] {
        &self.gaps
    }

    /// What listens to every connection of a host, and tells `truth`.
    pub fn tracer(truth: &Arc<Mutex<Self>>) -> Tracer {
        let truth = Arc::clone(truth);
        Box::new(move |_, _, tuple| {
            let sink = Sink {
                truth: Arc::clone(&truth),
                ends: [tuple.local, tuple.remote],
                held: None,
                rtt: None,
                heard: Instant::ZERO,
                restarted: false,
            };
            Some(Box::new(sink) as Box<dyn TraceSink>)
        })
    }

    /// A gap until `end`, if it is one; its number.
    fn add(
        &mut self,
        ends: [SocketAddr; 2],
        start: Instant,
        end: Instant,
        cause: Cause,
    ) -> Option<usize> {
        let gap = TrueGap {
            ends,
            start,
            end,
            cause,
            counts: true,
        };
        if gap.length() <= self.threshold.floor {
            return None;
        }
        let rtts = [ends, [ends[1], ends[0]]].map(|e| self.ends.get(&e).and_then(|end| end.rtt));
        let rtt = rtts.into_iter().flatten().min().unwrap_or_default();
        let share = u64::from(self.threshold.share_percent);
        (gap.length() > rtt.mul_ratio(share, 100)).then(|| {
            self.gaps.push(gap);
            self.gaps.len() - 1
        })
    }

    /// The retransmission timer fired after `rto`; news of the flight had come at `heard` last.
    fn timeout(
        &mut self,
        at: Instant,
        ends: [SocketAddr; 2],
        cause: TimeoutCause,
        rto: Duration,
        heard: Instant,
    ) {
        if cause == TimeoutCause::ZeroWindow {
            self.shut(at, ends);
            self.ends.entry(ends).or_default().last = at;
            return;
        }
        let me = self.ends.entry(ends).or_default();
        let start = (at - rto).max(me.last).max(heard).max(me.acknowledged);
        me.last = at;
        let refusal = me.way.refusal();
        let passes = me.way.passes();
        let delayed = me.delayed.take();
        let cause = match cause {
            TimeoutCause::Handshake => Cause::SynRetried,
            _ if refusal != way::Refused::No => Cause::LocalDrop,
            _ if std::mem::take(&mut me.way.swallowed) => Cause::BlackHole,
            TimeoutCause::FullWindow | TimeoutCause::ZeroWindow => Cause::TimeoutWholeWindow,
            TimeoutCause::Tail => Cause::TimeoutTail,
            TimeoutCause::RetransmissionLost => Cause::TimeoutRetransmissionLost,
        };
        let gap = match delayed.and_then(|n| Some((n, self.gaps.get_mut(n)?))) {
            // The acknowledgement left too late to stop the timer.
            Some((n, gap)) => {
                (gap.end, gap.cause) = (at, cause);
                Some(n)
            }
            None => self.add(ends, start, at, cause),
        };
        // Where all of a flight is too long for the path it vanishes as in an outage.
        let hidden = refusal == way::Refused::Hidden || cause == Cause::BlackHole && !passes;
        if hidden && let Some(gap) = gap.and_then(|n| self.gaps.get_mut(n)) {
            gap.counts = false;
        }
        self.ends.entry(ends).or_default().timeout = gap;
    }

    /// The last timeout was spurious.
    fn undo(&mut self, ends: [SocketAddr; 2]) {
        let gap = self.ends.entry(ends).or_default().timeout.take();
        if let Some(gap) = gap.and_then(|gap| self.gaps.get_mut(gap)) {
            gap.cause = Cause::TimeoutSpurious;
        }
    }

    /// A tail loss probe left.
    fn probe(&mut self, at: Instant, ends: [SocketAddr; 2], heard: Instant) {
        let me = self.ends.entry(ends).or_default();
        let since = me.held.map_or(at, |(_, since)| since);
        let since = since.max(me.last).max(heard).max(me.acknowledged);
        me.last = at;
        self.add(ends, since, at, Cause::TailLossProbe);
    }

    /// The peer of `waits` put its acknowledgement off until now.
    fn delayed_ack(&mut self, at: Instant, waits: [SocketAddr; 2]) {
        let Some(end) = self.ends.get_mut(&waits) else {
            return;
        };
        let Some((held, since)) = end.held else {
            return;
        };
        let cause = match held {
            Held::Nagle => Cause::NagleDelayedAck,
            Held::PacketWindow => Cause::PacketWindow,
            Held::CongestionWindow if end.restarted => Cause::IdleRestart,
            Held::CongestionWindow => Cause::DelayedAck,
            _ => return,
        };
        let start = since.max(end.last);
        end.last = at;
        let gap = self.add(waits, start, at, cause);
        self.ends.entry(waits).or_default().delayed = gap;
    }

    /// Nothing leaves for another reason than before.
    fn held(&mut self, at: Instant, ends: [SocketAddr; 2], held: Held) {
        let me = self.ends.entry(ends).or_default();
        let Some((before, since)) = me.held.replace((held, at)) else {
            return;
        };
        // It wrote. If the other waits for something, that is what the connection waits for as well.
        if before == Held::Idle {
            let since = since.max(me.last).max(me.arrived);
            me.last = at;
            let other = self.ends.get(&[ends[1], ends[0]]);
            let waits = other.is_some_and(|end| match end.held {
                Some((Held::Idle, _)) => false,
                Some((Held::Sent, _)) => end.way.lost,
                _ => true,
            });
            let gap = self.add(ends, since, at, Cause::AppWroteNothing);
            if let Some(gap) = gap.and_then(|n| self.gaps.get_mut(n)) {
                gap.counts = !waits;
            }
        }
    }
}

/// Listens to one end of a connection, and passes on what is new.
struct Sink {
    truth: Arc<Mutex<Truth>>,
    ends: [SocketAddr; 2],
    /// Why nothing leaves.
    held: Option<Held>,
    rtt: Option<Duration>,
    /// When something was acknowledged last.
    heard: Instant,
    restarted: bool,
}

impl Sink {
    fn tell(&self, tell: impl FnOnce(&mut Truth)) {
        tell(&mut self.truth.lock().unwrap_or_else(PoisonError::into_inner));
    }

    fn end(&self, change: impl FnOnce(&mut End)) {
        self.tell(|truth| change(truth.ends.entry(self.ends).or_default()));
    }
}

impl TraceSink for Sink {
    fn wants_held(&self) -> bool {
        true
    }

    fn event(&mut self, now: Instant, event: &TraceEvent) {
        let (ends, heard) = (self.ends, self.heard);
        match event {
            TraceEvent::Window { srtt, .. } => {
                self.heard = now;
                if std::mem::take(&mut self.restarted) {
                    self.end(|end| end.restarted = false);
                }
                if srtt.is_some_and(|srtt| self.rtt.is_none_or(|least| srtt < least)) {
                    self.rtt = *srtt;
                    self.end(|end| end.rtt = *srtt);
                }
            }
            TraceEvent::Timeout { cause, rto, .. } => {
                self.tell(|truth| truth.timeout(now, ends, *cause, *rto, heard));
            }
            TraceEvent::Undo(Spurious::Timeout) => self.tell(|truth| truth.undo(ends)),
            TraceEvent::TailLossProbe => self.tell(|truth| truth.probe(now, ends, heard)),
            TraceEvent::IdleRestart { .. } => {
                self.restarted = true;
                self.end(|end| end.restarted = true);
            }
            TraceEvent::DelayedAck => {
                self.tell(|truth| truth.delayed_ack(now, [ends[1], ends[0]]));
            }
            // It comes each time that the connection is asked for a segment and has none.
            TraceEvent::Held(held) if self.held.replace(*held) != Some(*held) => {
                self.tell(|truth| truth.held(now, ends, *held));
            }
            _ => {}
        }
    }
}

/// Whose gap it is, as a true gap names it.
pub fn ends_of(gap: &Gap, client: SocketAddr, server: SocketAddr) -> [SocketAddr; 2] {
    match gap.side {
        Side::Client => [client, server],
        Side::Server => [server, client],
    }
}
