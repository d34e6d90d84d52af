//! Which differences are explained: those of today, by row and value.
//!
//! An explanation is about a value. Should a row that is explained move, or one that agreed leave
//! its tolerance, the old words do not hold for it, and it counts as different until somebody has
//! looked. The list is `harness/validate/reference/explained.tsv`: check, row and value, separated by
//! tabs.

use super::{Measured, Row, Verdict};

const LIST: &str = include_str!("../reference/explained.tsv");

/// How far an explained value may move.
const HAIR: f64 = 0.02;

/// Let explanations stand only for what they were written about.
pub(super) fn hold_to_the_list(check: &str, rows: &mut [Row]) {
    hold(LIST, check, rows);
}

fn hold(list: &str, check: &str, rows: &mut [Row]) {
    for row in rows
        .iter_mut()
        .filter(|r| r.verdict() == Verdict::Explained)
    {
        let why = match listed(list, check, &row.what) {
            None => "its explanation is of other rows",
            Some(value) if !same(value, &row.ours) => "its explanation is of another value",
            Some(_) => continue,
        };
        row.explained = None;
        let note = row.note.take().map_or(String::new(), |n| format!("{n}; "));
        row.note = Some(format!(
            "{note}{why}, see harness/validate/reference/explained.tsv"
        ));
    }
}

fn listed<'a>(list: &'a str, check: &str, what: &str) -> Option<&'a str> {
    list.lines()
        .filter(|line| !line.starts_with('#'))
        .filter_map(|line| {
            let mut cells = line.split('\t');
            Some((cells.next()?, cells.next()?, cells.next()?))
        })
        .find(|(c, w, _)| *c == check && *w == what)
        .map(|(_, _, value)| value)
}

fn same(value: &str, ours: &Measured) -> bool {
    match (ours, ours.value(), value.parse::<f64>()) {
        (_, Some(ours), Ok(then)) => (ours - then).abs() <= then.abs() * HAIR,
        (Measured::Text(text), _, _) => text == value,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Expected, Tolerance};
    use super::*;

    fn row(what: &str, ours: f64) -> Row {
        Row::new(
            what,
            "",
            Expected::Value(10.0),
            Measured::Value(ours),
            "",
            Tolerance::Relative(0.1),
        )
        .explained("why")
    }

    #[test]
    fn an_explanation_holds_for_its_row_and_value_only() {
        let list = "# check, row, ours\na/b\tmean, N = 1\t12.5\n";
        let verdict = |check: &str, what: &str, ours: f64| {
            let mut rows = [row(what, ours)];
            hold(list, check, &mut rows);
            (rows[0].verdict(), rows[0].note.is_some())
        };
        let (explained, differs) = ((Verdict::Explained, false), (Verdict::Differs, true));
        assert_eq!(verdict("a/b", "mean, N = 1", 12.5), explained);
        assert_eq!(verdict("a/b", "mean, N = 1", 12.7), explained);
        assert_eq!(verdict("a/b", "mean, N = 1", 13.0), differs);
        assert_eq!(verdict("a/b", "mean, N = 2", 12.5), differs);
        assert_eq!(verdict("a/c", "mean, N = 1", 12.5), differs);
        assert_eq!(verdict("a/c", "mean, N = 1", 10.5).0, Verdict::Agrees);
    }

    #[test]
    fn the_list_names_checks_that_exist() {
        let mut names: Vec<&str> = super::super::checks().iter().map(|c| c.name).collect();
        names.extend(super::super::full_checks().iter().map(|c| c.name));
        names.extend(super::super::local_checks().iter().map(|c| c.name));
        for line in LIST.lines().filter(|l| !l.starts_with('#')) {
            let cells: Vec<&str> = line.split('\t').collect();
            assert_eq!(cells.len(), 3, "{line}");
            assert!(names.contains(&cells[0]), "no check is called {}", cells[0]);
        }
    }
}
