//! The ledger: gaps summed by cause, by connection, by pair of hosts, by time.

use crate::gap::{Cause, Confidence, Gap};
use narrows::congestion::order::{OrderedMap, sort_by_key};
use narrows::{Duration, Instant};
use std::net::{IpAddr, SocketAddr};

/// The kind of the probe that keeps the ledger of a simulated run, and its name where nobody gives
/// one.
pub const LEDGER: &str = "ledger";

/// A number of gaps and the time in them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// Gaps.
    pub count: u64,
    /// Their lengths together.
    pub time: Duration,
    /// The longest.
    pub longest: Duration,
}

impl Sum {
    pub(crate) fn add(&mut self, length: Duration) {
        self.count += 1;
        self.time += length;
        self.longest = self.longest.max(length);
    }
}

/// The gaps of a capture. Gaps beyond a limit are summed and not kept.
#[derive(Clone, Debug)]
pub struct Ledger {
    /// The longest gaps that were kept, in no order.
    gaps: Vec<Gap>,
    most: usize,
    /// Gaps that were summed and not kept.
    pub forgotten: u64,
    /// By cause.
    pub causes: OrderedMap<Cause, Sum>,
    /// By confidence.
    pub confidence: OrderedMap<Confidence, Sum>,
    /// By cause and floor of the timeout.
    pub floors: OrderedMap<(Cause, Duration), Sum>,
    /// By cause, in slices of [`slice`](Self::slice) from the first gap on.
    pub times: OrderedMap<(u64, Cause), Sum>,
    slice: Duration,
}

/// Slices of time that sums are kept for.
const SLICES: u64 = 1_000;

impl Ledger {
    /// A ledger that keeps up to `most` gaps.
    pub fn new(most: usize) -> Self {
        Self {
            gaps: Vec::new(),
            most: most.max(2),
            forgotten: 0,
            causes: OrderedMap::new(),
            confidence: OrderedMap::new(),
            floors: OrderedMap::new(),
            times: OrderedMap::new(),
            slice: Duration::from_millis(1),
        }
    }

    pub(crate) const fn most(&self) -> usize {
        self.most
    }

    /// Enters a gap.
    pub fn add(&mut self, gap: &Gap) {
        let length = gap.length();
        self.causes.get_or_default(gap.cause).add(length);
        self.confidence.get_or_default(gap.confidence).add(length);
        if let Some(floor) = gap.evidence.floor {
            self.floors.get_or_default((gap.cause, floor)).add(length);
        }
        let mut slice = self.slice_of(gap.start.at);
        let first = self.times.first().map_or(slice, |((first, _), _)| *first);
        let last = self.times.last().map_or(slice, |((last, _), _)| *last);
        let mut span = last.max(slice) - first.min(slice);
        while span >= SLICES {
            self.slice = self.slice * 2;
            let old = std::mem::take(&mut self.times);
            for ((at, cause), sum) in old {
                let joined = self.times.get_or_default((at / 2, cause));
                joined.count += sum.count;
                joined.time += sum.time;
                joined.longest = joined.longest.max(sum.longest);
            }
            slice /= 2;
            span /= 2;
        }
        self.times.get_or_default((slice, gap.cause)).add(length);
        self.gaps.push(*gap);
        if self.gaps.len() >= self.most * 2 {
            self.forget();
        }
    }

    /// Of twice as many as are kept the shorter half goes.
    fn forget(&mut self) {
        let nth = self.gaps.len() - self.most;
        self.gaps.select_nth_unstable_by_key(nth, Gap::length);
        self.gaps.drain(..nth);
        self.forgotten += nth as u64;
    }

    fn slice_of(&self, at: Instant) -> u64 {
        at.as_nanos() / self.slice.as_nanos().max(1)
    }

    /// The length of a slice of time.
    pub const fn slice(&self) -> Duration {
        self.slice
    }

    /// The gaps that were kept, in the order of time.
    pub fn gaps(&self) -> Vec<Gap> {
        let mut gaps = self.gaps.clone();
        sort_by_key(&mut gaps, |gap| {
            (gap.start.at, gap.connection, gap.start.packet)
        });
        gaps
    }

    /// Causes by the time in them, most first.
    pub fn by_time(&self) -> Vec<(Cause, Sum)> {
        let mut all = self.causes.to_vec();
        sort_by_key(&mut all, |(cause, sum)| {
            (std::cmp::Reverse(sum.time), *cause)
        });
        all
    }

    /// The time lost to transport and network.
    pub fn lost(&self) -> Sum {
        self.sum_of(Cause::is_lost_time)
    }

    /// The sum of the causes that `which` picks.
    pub fn sum_of(&self, which: impl Fn(Cause) -> bool) -> Sum {
        let mut all = Sum::default();
        for (_, sum) in self.causes.iter().filter(|(cause, _)| which(*cause)) {
            all.count += sum.count;
            all.time += sum.time;
            all.longest = all.longest.max(sum.longest);
        }
        all
    }

    /// What it comes to, in sentences; the first says the most.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn story(&self) -> Vec<String> {
        let lost = self.lost();
        let mut story = Vec::new();
        if lost.count == 0 {
            story.push(
                "No time was lost in gaps: nothing waited for transport or network.".to_owned(),
            );
        }
        for (cause, sum) in self
            .by_time()
            .into_iter()
            .filter(|(c, _)| c.is_lost_time())
            .take(3)
        {
            let share = percent(sum.time, lost.time);
            let plural = if sum.count == 1 { "" } else { "s" };
            let typical = self.typical(cause, &sum);
            story.push(format!(
                "{share} % of the lost time ({} of {}) is {} gap{plural} {typical}: {}.",
                sum.time,
                lost.time,
                sum.count,
                cause.text()
            ));
        }
        let idle = self.sum_of(|cause| !cause.is_lost_time());
        if idle.count > 0 {
            story.push(format!(
                "Beside that, applications wrote nothing for {} in {} gaps; nobody but they can shorten that.",
                idle.time, idle.count
            ));
        }
        story
    }

    /// How long gaps of a cause are.
    fn typical(&self, cause: Cause, sum: &Sum) -> String {
        let floors = self.floors.iter().filter(|((c, _), _)| *c == cause);
        let most = floors.max_by_key(|(_, sum)| sum.count);
        match most {
            Some(((_, floor), of)) if of.count * 2 > sum.count => {
                format!("of {floor} (the floor of the timeout)")
            }
            _ if sum.count > 1 => format!(
                "of {} on average, {} at most",
                sum.time / sum.count,
                sum.longest
            ),
            _ => format!("of {}", sum.longest),
        }
    }
}

/// Whole percent.
fn percent(part: Duration, whole: Duration) -> u64 {
    (u128::from(part.as_nanos()) * 100 / u128::from(whole.as_nanos().max(1))) as u64
}

/// The hosts of a connection, the lesser first.
pub fn pair(ends: [SocketAddr; 2]) -> [IpAddr; 2] {
    let [a, b] = ends.map(|end| end.ip());
    [a.min(b), a.max(b)]
}
