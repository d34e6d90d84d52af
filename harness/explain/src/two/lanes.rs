//! Which connections of two captures are the same.
//!
//! Ports are used again, one capture may begin later than the other, and either may lack packets: so
//! connections of the same ends are told apart by the numbers of their packets, and where those are
//! the same each time, by when they were.

use super::log::{Log, Record, Run};
use narrows::congestion::order::sort_by_key;
use narrows::{Duration, Instant};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::SocketAddr;

/// A connection that is in both captures.
#[derive(Clone, Debug)]
pub(super) struct Lane {
    /// Its ends, the lesser first.
    pub(super) ends: [SocketAddr; 2],
    /// By capture: which of the connections of these ends it is.
    pub(super) runs: [usize; 2],
    /// By direction, that from the lesser end first: packets that are in both.
    pub(super) pairs: [Vec<(usize, usize)>; 2],
}

impl Lane {
    fn new(ends: [SocketAddr; 2], runs: [usize; 2], mine: &Run, theirs: &Run) -> Option<Self> {
        let pairs = [0, 1].map(|way| pairs(&mine.records[way], &theirs.records[way]));
        let any = pairs.iter().any(|pairs| !pairs.is_empty());
        any.then_some(Self { ends, runs, pairs })
    }

    /// Its packets in both captures.
    pub(super) fn of<'l>(&self, logs: [&'l Log; 2]) -> [&'l Run; 2] {
        [0, 1].map(|capture: usize| &logs[capture].of(self.ends)[self.runs[capture]])
    }
}

impl Log {
    /// Whether `other` has packets of this capture: at least half of those of connections that are in
    /// both, and by their names no others.
    pub fn is_of_the_same_packets(&self, other: &Self) -> bool {
        let (mut all, mut both) = (0, 0);
        for lane in shared(self, other) {
            let [mine, theirs] = lane.of([self, other]);
            for way in [0, 1] {
                both += lane.pairs[way].len();
                all += mine.records[way].len().min(theirs.records[way].len());
            }
        }
        both > 0 && both * 2 >= all
    }
}

/// The connections that are in both, by the numbers of their packets. Where none are, for numbers are
/// the same each time that ports are used, the clocks are taken to be about the same.
pub(super) fn shared(first: &Log, second: &Log) -> Vec<Lane> {
    let mut lanes = Vec::new();
    for (ends, mine) in &first.runs {
        let theirs = second.of(*ends);
        let same = match (&mine[..], theirs) {
            ([_], [_]) => vec![[0, 0]],
            _ => by_numbers(mine, theirs),
        };
        let lane = |[n, m]: [usize; 2]| Lane::new(*ends, [n, m], &mine[n], &theirs[m]);
        lanes.extend(same.into_iter().filter_map(lane));
    }
    if lanes.is_empty() {
        by_time(&mut lanes, first, second, |at| at);
    }
    lanes
}

/// Of two captures of the same ends the connections that have the most packets in common, by the names
/// that a packet of only one connection of either has.
fn by_numbers(mine: &[Run], theirs: &[Run]) -> Vec<[usize; 2]> {
    let mut votes: Vec<[usize; 2]> = Vec::new();
    for way in [0, 1] {
        let named = |runs: &[Run]| {
            let mut names: HashMap<_, (usize, bool)> = HashMap::new();
            for (run, record) in (0..).zip(runs).flat_map(|(n, run)| {
                let of_it = run.records[way].iter();
                of_it.map(move |record| (n, record))
            }) {
                let (before, only) = names.entry(record.name()).or_insert((run, true));
                *only &= *before == run;
            }
            names
        };
        let theirs = named(theirs);
        for (name, (n, only)) in named(mine) {
            if let Some((m, true)) = theirs.get(&name)
                && only
            {
                votes.push([n, *m]);
            }
        }
    }
    sort_by_key(&mut votes, |runs| *runs);
    let votes = votes.chunk_by(|a, b| a == b);
    let mut votes: Vec<_> = votes.map(|votes| (votes[0], votes.len())).collect();
    sort_by_key(&mut votes, |(runs, votes)| (Reverse(*votes), *runs));
    let mut taken = [mine, theirs].map(|runs| vec![false; runs.len()]);
    let mut same = Vec::new();
    for (runs, _) in votes {
        if (0..2).all(|capture| !taken[capture][runs[capture]]) {
            (0..2).for_each(|capture| taken[capture][runs[capture]] = true);
            same.push(runs);
        }
    }
    same
}

/// Finds the connections that have no lane yet and were at the same time in both captures; `lanes` are in
/// the order of their ends. `to_first` makes times of the second capture those of the first.
pub(super) fn by_time(
    lanes: &mut Vec<Lane>,
    first: &Log,
    second: &Log,
    to_first: impl Fn(Instant) -> Instant,
) {
    let known = lanes.len();
    for (ends, mine) in &first.runs {
        let theirs = second.of(*ends);
        let mut taken = [mine, theirs].map(|runs| vec![false; runs.len()]);
        let from = lanes[..known].partition_point(|lane| lane.ends < *ends);
        let of_them = lanes[from..known]
            .iter()
            .take_while(|lane| lane.ends == *ends);
        for lane in of_them {
            (0..2).for_each(|capture| taken[capture][lane.runs[capture]] = true);
        }
        let spans = |runs: &[Run], taken: &[bool]| {
            let left = (0..).zip(runs).filter(|(n, _)| !taken[*n]);
            let spans = left.filter_map(|(n, run)| Some((n, run.span()?)));
            spans.collect::<Vec<(usize, (Instant, Instant))>>()
        };
        let others = spans(theirs, &taken[1]);
        let mut others: Vec<_> = others
            .into_iter()
            .map(|(m, (from, to))| (m, (to_first(from), to_first(to))))
            .collect();
        sort_by_key(&mut others, |(m, (from, _))| (*from, *m));
        let (mut from, mut used) = (0, vec![false; others.len()]);
        for (n, span) in spans(mine, &taken[0]) {
            // One connection follows the other, so what ended before this one began is over for all.
            let over = |i: usize| used[i] || others[i].1.1 < span.0;
            from += (from..others.len()).take_while(|i| over(*i)).count();
            let near = (from..others.len()).take_while(|i| others[*i].1.0 <= span.1);
            let near = near.filter(|i| !used[*i]);
            let best = near.max_by_key(|i| (common(span, others[*i].1), Reverse(others[*i].0)));
            let Some(best) = best else {
                continue;
            };
            let m = others[best].0;
            if let Some(lane) = Lane::new(*ends, [n, m], &mine[n], &theirs[m]) {
                lanes.push(lane);
                used[best] = true;
            }
        }
    }
    sort_by_key(lanes, |lane| (lane.ends, lane.runs));
}

/// What two stretches of time have in common.
pub(super) fn common(one: (Instant, Instant), other: (Instant, Instant)) -> Duration {
    one.1.min(other.1).since(one.0.max(other.0))
}

/// The packets that are in both, each only once in either: their places in `first` and `second`.
fn pairs(first: &[Record], second: &[Record]) -> Vec<(usize, usize)> {
    let named = |records: &[Record]| {
        let mut names: HashMap<_, (usize, u32)> = HashMap::with_capacity(records.len());
        for (n, record) in records.iter().enumerate() {
            names.entry(record.name()).or_insert((n, 0)).1 += 1;
        }
        names
    };
    let theirs = named(second);
    let mine = named(first);
    let mut both: Vec<_> = mine
        .iter()
        .filter(|(_, (_, times))| *times == 1)
        .filter_map(|(name, (n, _))| match theirs.get(name) {
            Some((m, 1)) => Some((*n, *m)),
            _ => None,
        })
        .collect();
    both.sort_unstable();
    both
}
