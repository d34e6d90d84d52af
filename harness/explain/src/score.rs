//! How often an explanation is right: found gaps against true ones.

use crate::gap::{Cause, Confidence, Gap, Vantage};
use crate::truth::{Question, TrueGap};
use narrows::congestion::order::{OrderedMap, sort_by_key};
use narrows::{Duration, Instant};
use std::net::SocketAddr;

/// A gap that was found, with whose it is.
#[derive(Clone, Copy, Debug)]
pub struct Found {
    /// Whose: the end that stood still first.
    pub ends: [SocketAddr; 2],
    /// Where the capture was taken, seen from that end.
    pub place: Vantage,
    /// The gap.
    pub gap: Gap,
}

/// What became of gaps of one cause, found or true.
pub type Row = OrderedMap<Option<Cause>, u64>;

/// The confusion matrices, by place of the capture.
#[derive(Clone, Debug, Default)]
pub struct Score {
    /// By place and true cause: what was found instead; `None` is nothing.
    pub truth: OrderedMap<(Vantage, Cause), Row>,
    /// By place and found cause: what was true; `None` is nothing.
    pub found: OrderedMap<(Vantage, Cause), Row>,
    /// By place and found cause: those where nothing was, and which no capture there could have told from right
    /// ones, as a test shows.
    pub unseen: OrderedMap<(Vantage, Cause), u64>,
    /// By place and confidence: gaps that were found, and of these the right ones.
    pub confidence: OrderedMap<(Vantage, Confidence), (u64, u64)>,
    /// Runs.
    pub runs: u64,
}

/// Right, and all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Share {
    /// Right ones.
    pub right: u64,
    /// All.
    pub all: u64,
}

impl Share {
    /// In thousandths; `None` of nothing.
    pub fn per_mille(self) -> Option<u64> {
        (self.right * 1_000).checked_div(self.all)
    }
}

/// Whether two names mean the same here: what delayed packets no capture tells.
fn same(found: Cause, truth: Cause) -> bool {
    let plain = |cause| match cause {
        Cause::Coalescing | Cause::Pause => Cause::PacketDelay,
        other => other,
    };
    found == truth || found == plain(truth)
}

/// What was true of a run.
#[derive(Clone, Copy, Debug)]
pub struct Told<'t> {
    /// The gaps.
    pub gaps: &'t [TrueGap],
    /// Questions that were in queues, each end's in the order of their answers.
    pub questions: &'t [Question],
}

impl Score {
    /// Enters a run: what was true of it, and what was found at one place. `slack` is how far times
    /// of the place may be from those of the end, a round trip.
    pub fn add(
        &mut self,
        place: Vantage,
        told: Told<'_>,
        found: &[Found],
        slack: Duration,
        counted: Duration,
    ) {
        let truth = told.gaps;
        let mut asked: Vec<&Question> = told.questions.iter().collect();
        sort_by_key(&mut asked, |question| question.ends);
        let mut explained: Vec<Option<Cause>> = vec![None; truth.len()];
        for (one, best) in meant(place, truth, found, slack) {
            let truly = best.map(|n| truth[n].cause);
            let right = truly.is_some_and(|t| same(one.gap.cause, t));
            if let Some(n) = best
                && !explained[n].is_some_and(|before| same(before, truth[n].cause))
            {
                explained[n] = Some(one.gap.cause);
            }
            // When a window opened and nobody heard of it shows only at the receiver: elsewhere it is
            // one wait, named by one of two names.
            let window = |c| matches!(c, Cause::WindowClosed | Cause::WindowUpdateLate);
            if let Some(n) = best.filter(|n| right && window(truth[*n].cause)) {
                for m in [n.wrapping_sub(1), n + 1] {
                    if let Some(next) = truth.get(m)
                        && next.ends == one.ends
                        && window(next.cause)
                        && common(next, &one.gap) * 2 >= next.length()
                    {
                        explained[m] = Some(next.cause);
                    }
                }
            }
            let row = self.found.get_or_default((place, one.gap.cause));
            *row.get_or_default(truly) += 1;
            let questions = of(&asked, |question| question.ends, one.ends);
            if best.is_none() && is_question(one, questions) {
                *self.unseen.get_or_default((place, one.gap.cause)) += 1;
            }
            let key = (place, one.gap.confidence);
            let (all, of_these) = self.confidence.get_or_default(key);
            *all += 1;
            *of_these += u64::from(right);
        }
        for (t, cause) in truth
            .iter()
            .zip(explained)
            .filter(|(t, _)| t.counts && t.length() > counted)
        {
            let row = self.truth.get_or_default((place, t.cause));
            *row.get_or_default(cause) += 1;
        }
    }

    /// Joins the score of other runs.
    pub fn join(&mut self, other: &Self) {
        self.runs += other.runs;
        for (mine, theirs) in [
            (&mut self.truth, &other.truth),
            (&mut self.found, &other.found),
        ] {
            for (key, row) in theirs {
                let sums = mine.get_or_default(*key);
                for (cause, n) in row {
                    *sums.get_or_default(*cause) += n;
                }
            }
        }
        for (key, n) in &other.unseen {
            *self.unseen.get_or_default(*key) += n;
        }
        for (key, (all, right)) in &other.confidence {
            let sums = self.confidence.get_or_default(*key);
            sums.0 += all;
            sums.1 += right;
        }
    }

    /// Of the true gaps of `cause` those that were found as such.
    pub fn recall(&self, place: Vantage, cause: Cause) -> Share {
        share(self.truth.get(&(place, cause)), |found| same(found, cause))
    }

    /// Of the gaps found as `cause` those that are.
    pub fn precision(&self, place: Vantage, cause: Cause) -> Share {
        share(self.found.get(&(place, cause)), |truth| same(cause, truth))
    }

    /// The same without those that cannot be told from right ones.
    pub fn precision_of_seen(&self, place: Vantage, cause: Cause) -> Share {
        let share = self.precision(place, cause);
        Share {
            all: share.all - self.unseen(place, cause),
            ..share
        }
    }

    /// Recall and precision where no other name is right.
    pub fn by_name(&self, place: Vantage, cause: Cause) -> [Share; 2] {
        [&self.truth, &self.found].map(|rows| share(rows.get(&(place, cause)), |c| c == cause))
    }

    /// The gaps wrongly found as `cause` that cannot be told from right ones.
    pub fn unseen(&self, place: Vantage, cause: Cause) -> u64 {
        self.unseen
            .get(&(place, cause))
            .copied()
            .unwrap_or_default()
    }
}

/// Whether what looks like an application of who is asked is, for half of it, a question that was in queues on
/// its way there: at the place of who asks both look alike.
fn is_question(one: &Found, questions: &[&Question]) -> bool {
    let gap = &one.gap;
    let from = questions.partition_point(|question| question.answered <= gap.start.at);
    let asked = questions[from..].iter();
    one.place == Vantage::Receiver
        && gap.cause == Cause::AppWroteNothing
        && asked
            .take_while(|question| question.asked < gap.end.at)
            .any(|question| question.waited * 2 >= gap.length())
}

/// What was found at one place, each with the number of the true gap that is meant, if there is one:
/// of several that overlap the one of the same cause, or the one with the longest common part.
/// `slack` is as for [`Score::add`].
pub fn meant<'f>(
    place: Vantage,
    truth: &[TrueGap],
    found: &'f [Found],
    slack: Duration,
) -> Vec<(&'f Found, Option<usize>)> {
    let mut by_end: Vec<(usize, &TrueGap)> = truth.iter().enumerate().collect();
    sort_by_key(&mut by_end, |(_, gap)| gap.ends);
    let of = |one: &'f Found| {
        let all = of(&by_end, |(_, gap)| gap.ends, one.ends);
        let fitting = all.iter().filter(|(_, t)| overlap(t, &one.gap, slack));
        let best = fitting.max_by_key(|(_, t)| (same(one.gap.cause, t.cause), common(t, &one.gap)));
        (one, best.map(|(n, _)| *n))
    };
    found
        .iter()
        .filter(|one| one.place == place)
        .map(of)
        .collect()
}

/// Of `all` in the order of ends those of `ends`.
fn of<T>(all: &[T], key: impl Fn(&T) -> [SocketAddr; 2], ends: [SocketAddr; 2]) -> &[T] {
    let from = all.partition_point(|one| key(one) < ends);
    let to = all.partition_point(|one| key(one) <= ends);
    &all[from..to]
}

fn share(row: Option<&Row>, right: impl Fn(Cause) -> bool) -> Share {
    let mut share = Share::default();
    for (other, n) in row.into_iter().flatten() {
        share.all += n;
        share.right += if other.is_some_and(&right) { *n } else { 0 };
    }
    share
}

/// Whether they share at least half of the shorter one, give or take `slack`, and some of it in any
/// case.
fn overlap(truth: &TrueGap, gap: &Gap, slack: Duration) -> bool {
    let common = common(truth, gap);
    let shorter = truth.length().min(gap.length());
    !common.is_zero() && (common + slack).as_nanos() * 2 >= shorter.as_nanos()
}

fn common(truth: &TrueGap, gap: &Gap) -> Duration {
    let start: Instant = truth.start.max(gap.start.at);
    truth.end.min(gap.end.at).since(start)
}
