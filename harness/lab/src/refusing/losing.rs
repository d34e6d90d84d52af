//! Which frames are lost on their way, each at its time.

use narrows::{Duration, Instant};
use std::collections::VecDeque;
use std::sync::{Arc, OnceLock};

/// When a frame is lost: each time the first one that leaves from then on while enough others are under way,
/// so that these tell of it, and no timeout has to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Losses {
    /// For the first time, since the first flow began.
    pub at: Duration,
    /// Each such time again; only once if `None`.
    pub every: Option<Duration>,
    /// So many others have left within [`RefusingSpec::delay`](super::RefusingSpec::delay).
    pub under_way: usize,
}

/// What is still to be lost.
#[derive(Debug)]
struct Due {
    losses: Losses,
    round_trip: Duration,
    next: Option<Duration>,
    /// When those left that may be under way.
    left: VecDeque<Instant>,
}

impl Due {
    fn new(losses: Losses, round_trip: Duration) -> Self {
        Self {
            losses,
            round_trip,
            next: Some(losses.at),
            left: VecDeque::new(),
        }
    }

    /// Whether a frame is lost that leaves now.
    fn loses(&mut self, now: Instant, begun: Instant) -> bool {
        while (self.left.front()).is_some_and(|left| now.since(*left) > self.round_trip) {
            self.left.pop_front();
        }
        let enough = self.left.len() >= self.losses.under_way;
        self.left.push_back(now);
        let since = now.since(begun);
        let lost = enough && self.next.is_some_and(|next| since >= next);
        if lost {
            let every = self.losses.every;
            self.next = self.next.zip(every).map(|(next, every)| next + every);
        }
        lost
    }
}

/// Whether a frame is lost that leaves now: none before it has `begun`.
pub(super) fn loses(
    losses: Option<Losses>,
    round_trip: Duration,
    begun: Arc<OnceLock<Instant>>,
) -> impl FnMut(Instant) -> bool + Send {
    let mut due = losses.map(|losses| Due::new(losses, round_trip));
    move |now| {
        let due = due.as_mut().zip(begun.get());
        due.is_some_and(|(due, begun)| due.loses(now, *begun))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two frames each millisecond, but nothing in the tenth and the eleventh one.
    fn lost(losses: Losses) -> Vec<u64> {
        let mut due = Due::new(losses, Duration::from_millis(2));
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let times = (0..40).filter(|ms| !(10..12).contains(ms));
        let each = times.flat_map(|ms| [ms, ms]);
        each.filter(|ms| due.loses(at(*ms), at(0))).collect()
    }

    #[test]
    fn a_frame_is_lost_when_it_is_time_and_enough_are_under_way() {
        let ms = Duration::from_millis;
        let once = Losses {
            at: ms(10),
            every: None,
            under_way: 4,
        };
        // Beside those of two milliseconds, of which the one before had none.
        assert_eq!(lost(once), [14]);
        let each = Losses {
            every: Some(ms(10)),
            ..once
        };
        assert_eq!(lost(each), [14, 20, 30]);
        let never = Losses {
            under_way: 100,
            ..once
        };
        assert_eq!(lost(never), [0; 0]);
    }
}
