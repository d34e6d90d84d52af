//! The name that was meant, for what has none.

use alloc::vec::Vec;

/// The most similar of `names`, if it is at most a third of its letters away or starts with
/// what was given. The first of equals.
pub fn nearest<'a>(given: &str, mut names: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    nearest_of(given, &mut names)
}

/// Compiled once, not for each kind of iterator: names are asked for in a hundred places.
fn nearest_of<'a>(given: &str, names: &mut dyn Iterator<Item = &'a str>) -> Option<&'a str> {
    let given = given.to_lowercase();
    names
        .filter_map(|name| {
            let lower = name.to_lowercase();
            let distance = distance(&given, &lower);
            let length = given.chars().count().max(lower.chars().count());
            let starts = given.len() >= 2 && lower.starts_with(&given);
            (starts || distance * 3 <= length.max(3)).then_some((distance, name))
        })
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many characters to insert, delete, replace or swap with their neighbour to make `b` of
/// `a` (optimal string alignment).
fn distance(a: &str, b: &str) -> usize {
    let b: Vec<char> = b.chars().collect();
    let mut row: Vec<usize> = (0..=b.len()).collect();
    let mut row_before = row.clone();
    let mut before = None;
    for (i, ca) in a.chars().enumerate() {
        let mut next = Vec::with_capacity(row.len());
        next.push(i + 1);
        for (j, cb) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX / 2);
            let replaced = at(&row, j) + usize::from(ca != *cb);
            let mut best = replaced.min(at(&row, j + 1) + 1).min(at(&next, j) + 1);
            let pair = j.checked_sub(1).and_then(|j| Some((j, *b.get(j)?)));
            if let Some((j, left)) = pair
                && before == Some(*cb)
                && left == ca
            {
                best = best.min(at(&row_before, j) + 1);
            }
            next.push(best);
        }
        before = Some(ca);
        row_before = core::mem::replace(&mut row, next);
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_matches() {
        let names = ["reno", "newreno", "sack", "rack"];
        for (given, expected) in [
            ("neqreno", Some("newreno")),
            ("SACK", Some("sack")),
            ("new", Some("newreno")),
            ("rakc", Some("rack")),
            ("remo", Some("reno")),
            ("fack", Some("sack")),
            ("bbr", None),
            ("", None),
            ("x", None),
        ] {
            assert_eq!(nearest(given, names.into_iter()), expected, "{given}");
        }
    }
}
