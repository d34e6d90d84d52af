//! What became of a sender's window: what its connection says of it, against when the device refused.

use narrows::driver::tokio::TraceStream;
use narrows::trace::TraceEvent;
use narrows::{ByteCount, Duration, Instant};
use std::collections::HashSet;
use std::sync::{Arc, Mutex, PoisonError};

/// A window, each time that the connection said what it is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Course(pub Vec<Turn>);

/// What a window became.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// Since the flow began.
    pub at: Duration,
    /// The congestion window.
    pub cwnd: ByteCount,
    /// The slow-start threshold, once there is one.
    pub ssthresh: Option<ByteCount>,
}

impl Course {
    /// What was said from one time until before another one.
    pub fn between(&self, from: Duration, until: Duration) -> impl Iterator<Item = &Turn> {
        let within = move |turn: &&Turn| (from..until).contains(&turn.at);
        self.0.iter().filter(within)
    }

    /// The mean window of that time in bytes, by how long each was what it was.
    pub fn mean(&self, from: Duration, until: Duration) -> f64 {
        let mut sum = 0.0;
        for (nth, turn) in self.0.iter().enumerate() {
            let next = self.0.get(nth + 1).map_or(until, |next| next.at);
            let (begin, end) = (turn.at.max(from), next.min(until));
            let lasted = end.as_nanos().saturating_sub(begin.as_nanos());
            sum += turn.cwnd.get() as f64 * lasted as f64;
        }
        sum / until.saturating_sub(from).as_nanos().max(1) as f64
    }
}

/// How often a window came down.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Falls {
    /// All times.
    pub all: u64,
    /// Those at the instant at which the device refused a frame.
    pub at_refusal: u64,
}

/// When the device refused, which it keeps itself, whatever the connection says.
#[derive(Clone, Debug, Default)]
pub(super) struct Refusals(Arc<Mutex<HashSet<Instant>>>);

impl Refusals {
    /// Keeps when `refuses` says so.
    pub(super) fn keep<F: FnMut(Instant, usize) -> bool + Send>(
        &self,
        mut refuses: F,
    ) -> impl FnMut(Instant, usize) -> bool + Send + use<F> {
        let kept = Arc::clone(&self.0);
        move |now, len| {
            let refused = refuses(now, len);
            if refused {
                let mut kept = kept.lock().unwrap_or_else(PoisonError::into_inner);
                kept.insert(now);
            }
            refused
        }
    }

    fn has(&self, at: Instant) -> bool {
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        kept.contains(&at)
    }
}

/// What a connection told.
#[derive(Debug, Default)]
pub(super) struct Told {
    pub(super) course: Course,
    pub(super) falls: Falls,
    /// Segments sent again.
    pub(super) again: u64,
}

/// Reads what it told since it began; falls and what was sent again are counted from then on.
pub(super) fn read(
    events: &mut TraceStream,
    begin: Instant,
    counts_from: Instant,
    refusals: &Refusals,
) -> Told {
    let all = std::iter::from_fn(|| events.try_recv());
    of(all, begin, counts_from, refusals)
}

fn of(
    events: impl Iterator<Item = (Instant, TraceEvent)>,
    begin: Instant,
    counts_from: Instant,
    refusals: &Refusals,
) -> Told {
    let mut told = Told::default();
    for (at, event) in events {
        let counts = at >= counts_from;
        match event {
            TraceEvent::Window { cwnd, ssthresh, .. } => {
                let before = told.course.0.last();
                if counts && before.is_some_and(|before| cwnd < before.cwnd) {
                    told.falls.all += 1;
                    told.falls.at_refusal += u64::from(refusals.has(at));
                }
                told.course.0.push(Turn {
                    at: at.since(begin),
                    cwnd,
                    ssthresh: (ssthresh < ByteCount::MAX).then_some(ssthresh),
                });
            }
            TraceEvent::Retransmit { .. } if counts => told.again += 1,
            _ => {}
        }
    }
    told
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_window_that_comes_down_where_nothing_was_refused_is_another_fall() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let window = |ms, cwnd, ssthresh| {
            let event = TraceEvent::Window {
                cwnd: ByteCount::new(cwnd),
                ssthresh,
                in_flight: ByteCount::ZERO,
                snd_wnd: ByteCount::ZERO,
                srtt: None,
                rto: Duration::ZERO,
            };
            (at(ms), event)
        };
        let refusals = Refusals::default();
        let mut refuses = refusals.keep(|_, len| len > 1_000);
        assert!(refuses(at(40), 1_514) && refuses(at(50), 1_514) && !refuses(at(60), 60));
        let events = [
            window(20, 10_000, ByteCount::MAX),
            window(30, 20_000, ByteCount::MAX),
            window(40, 1_000, ByteCount::MAX),
            window(45, 4_000, ByteCount::MAX),
            window(50, 1_000, ByteCount::MAX),
            window(60, 500, ByteCount::new(2_000)),
        ];
        let told = of(events.into_iter(), at(10), at(45), &refusals);
        // The first one was before.
        let falls = Falls {
            all: 2,
            at_refusal: 1,
        };
        assert_eq!(told.falls, falls);
        let last = told.course.0.last().unwrap();
        assert_eq!(last.at, Duration::from_millis(50));
        assert_eq!(last.ssthresh, Some(ByteCount::new(2_000)));
        assert_eq!(told.course.0[0].ssthresh, None);
        let ms = Duration::from_millis;
        let mean = told.course.mean(ms(15), ms(25));
        assert!((mean - 15_000.0).abs() < 1.0, "{mean}");
        assert_eq!(told.course.between(ms(20), ms(35)).count(), 2);
    }
}
