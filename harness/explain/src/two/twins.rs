//! Packets with equal headers: duplicate acknowledgements, copies of one segment within a tick of its time
//! stamps. Which of those that left is which of those that arrived their order tells, or, where that is
//! kept, the identification of the IPv4 header.

use super::log::Record;
use narrows::Instant;
use std::collections::{HashMap, HashSet};

/// Which packet an arrival is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Twin {
    /// Its place among those that left.
    pub(super) left: usize,
    /// Others may have been the one that arrived.
    pub(super) ambiguous: bool,
}

/// Of equal packets so many are looked at for one arrival.
const LOOKED_AT: usize = 4_096;

type Headers = (u32, u32, u32, u32, u32);

const fn headers(record: &Record) -> Headers {
    let r = record;
    (r.seq, r.space, r.ack, r.stamp, r.mark)
}

/// By place among `arrived` which of `left` it is, of acknowledgements without text, and of what has
/// text and left with equal headers more than once. `fits` says whether what left then may have arrived
/// then.
pub(super) fn told_apart(
    left: &[Record],
    arrived: &[Record],
    fits: impl Fn(Instant, Instant) -> bool,
) -> HashMap<usize, Twin> {
    let (mut once, mut more) = (HashSet::new(), HashSet::new());
    for record in left {
        if record.space == 0 || !once.insert(headers(record)) {
            more.insert(headers(record));
        }
    }
    let mut groups: HashMap<Headers, [Vec<usize>; 2]> = HashMap::with_capacity(more.len());
    for (k, records) in [left, arrived].into_iter().enumerate() {
        for (n, record) in records.iter().enumerate() {
            let said = headers(record);
            if more.contains(&said) {
                groups.entry(said).or_default()[k].push(n);
            }
        }
    }
    let mut told = HashMap::new();
    for [mut out, mut into] in groups.into_values() {
        let fits = |n: usize, m: usize| fits(left[n].at, arrived[m].at);
        by_identification(left, arrived, &mut out, &mut into, fits, &mut told);
        by_order(&out, &into, fits, &mut told);
    }
    told
}

/// Those that have the identification of only one that left, which are taken away.
fn by_identification(
    left: &[Record],
    arrived: &[Record],
    out: &mut Vec<usize>,
    into: &mut Vec<usize>,
    fits: impl Fn(usize, usize) -> bool,
    told: &mut HashMap<usize, Twin>,
) {
    if out.len() < 2 || out.iter().any(|n| left[*n].identification == 0) {
        return;
    }
    let mut known: HashMap<u16, usize> = HashMap::new();
    for n in out.iter() {
        if known.insert(left[*n].identification, *n).is_some() {
            return;
        }
    }
    into.retain(|m| {
        let same = known.get(&arrived[*m].identification).copied();
        let Some(n) = same.filter(|n| fits(*n, *m)) else {
            return true;
        };
        known.remove(&arrived[*m].identification);
        out.retain(|other| *other != n);
        told.insert(
            *m,
            Twin {
                left: n,
                ambiguous: false,
            },
        );
        false
    });
}

/// Those that arrived in the order in which they left.
fn by_order(
    out: &[usize],
    into: &[usize],
    fits: impl Fn(usize, usize) -> bool,
    told: &mut HashMap<usize, Twin>,
) {
    let mut same: Vec<(usize, usize)> = Vec::with_capacity(into.len());
    if into.len() > out.len() {
        // Some were captured or made twice on their way.
        let mut next = 0;
        for m in into {
            let fitting = (next..out.len())
                .take(LOOKED_AT)
                .find(|i| fits(out[*i], *m));
            if let Some(i) = fitting {
                same.push((i, *m));
                next = i + 1;
            }
        }
    } else {
        // Of those that may have been it the latest: what is lost is more likely than what is late.
        let mut end = out.len();
        for m in into.iter().rev() {
            let fitting = (0..end).rev().take(LOOKED_AT).find(|i| fits(out[*i], *m));
            if let Some(i) = fitting {
                same.push((i, *m));
                end = i;
            }
        }
        same.reverse();
    }
    let told_of: HashSet<usize> = same.iter().map(|(i, _)| *i).collect();
    let others: Vec<usize> = (0..out.len()).filter(|i| !told_of.contains(i)).collect();
    for (i, m) in same {
        let before = others.partition_point(|other| *other < i).checked_sub(1);
        let twin = Twin {
            left: out[i],
            ambiguous: before.is_some_and(|other| fits(out[others[other]], m)),
        };
        told.insert(m, twin);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::Duration;

    /// Equal packets at these times in microseconds with these identifications.
    fn records(times: &[(u64, u16)]) -> Vec<Record> {
        let record = |(n, (at, identification)): (usize, &(u64, u16))| Record {
            at: Instant::ZERO + Duration::from_micros(*at),
            packet: n as u64 + 1,
            seq: 7,
            space: 0,
            ack: 9,
            stamp: 3,
            mark: 1,
            identification: *identification,
        };
        times.iter().enumerate().map(record).collect()
    }

    /// Who is who, if each is under way for 50 us at least.
    fn told(left: &[(u64, u16)], arrived: &[(u64, u16)]) -> Vec<Option<(usize, bool)>> {
        let (left, arrived) = (records(left), records(arrived));
        let told = told_apart(&left, &arrived, |left, at| {
            left + Duration::from_micros(50) <= at
        });
        let of = |m| told.get(&m).map(|twin: &Twin| (twin.left, twin.ambiguous));
        (0..arrived.len()).map(of).collect()
    }

    #[test]
    fn equal_packets_arrive_in_the_order_in_which_they_left() {
        let left = [(0, 0), (10, 0), (20, 0)];
        let sure = |n| Some((n, false));
        let all = told(&left, &[(300, 0), (310, 0), (320, 0)]);
        assert_eq!(all, [sure(0), sure(1), sure(2)]);
        let late = told(&left, &[(55, 0), (65, 0), (900, 0)]);
        assert_eq!(late, [sure(0), sure(1), sure(2)]);
    }

    #[test]
    fn which_of_equal_packets_was_lost_is_open_unless_another_had_not_left() {
        let left = [(0, 0), (10, 0), (500, 0)];
        let one = told(&left, &[(90, 0), (560, 0)]);
        assert_eq!(one, [Some((1, true)), Some((2, true))]);
        assert_eq!(told(&left[..2], &[(55, 0)]), [Some((0, false))]);
    }

    #[test]
    fn identifications_tell_equal_packets_apart_where_they_are_kept() {
        let left = [(0, 4), (10, 5), (20, 6)];
        let kept = told(&left, &[(90, 6), (95, 4)]);
        assert_eq!(kept, [Some((2, false)), Some((0, false))]);
        let changed = told(&left, &[(90, 1), (95, 2), (99, 3)]);
        assert_eq!(
            changed,
            [Some((0, false)), Some((1, false)), Some((2, false))]
        );
    }
}
