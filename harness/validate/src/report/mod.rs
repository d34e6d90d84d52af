//! What `narrows validate` found: counted, and as a table, an HTML page, the documentation (an
//! overview and its chapters) and a record.

pub mod chapter;
pub mod markdown;
pub mod overview;
pub mod page;
pub mod records;
pub mod score;
pub mod table;

use crate::{CheckReport, Measured, Row, Verdict};
use narrows_experiment::scenario::ScenarioError;
use std::collections::BTreeMap;

/// How many results there are of each verdict, and what is not there.
///
/// A result that several rows hold against several references counts once, by the worst of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Within their tolerance.
    pub agree: usize,
    /// Outside, and explained.
    pub explained: usize,
    /// Outside.
    pub differ: usize,
    /// Rows that compare a result which another row has counted.
    pub repeated: usize,
    /// Shown without a judgement.
    pub shown: usize,
    /// Could not be had; each reason with the number of rows, in the order of the table.
    pub missing: Vec<(String, usize)>,
    /// Checks that failed, with the reason.
    pub failed: Vec<(&'static str, String)>,
    /// Checks that an interruption cut short or kept from starting.
    pub unreached: usize,
}

impl Tally {
    /// Over the reports of `planned` checks.
    pub fn of(reports: &[CheckReport], planned: usize) -> Self {
        let mut tally = Self {
            unreached: planned.saturating_sub(reports.len()),
            ..Self::default()
        };
        let mut shared: BTreeMap<&str, Verdict> = BTreeMap::new();
        for report in reports {
            for row in &report.rows {
                match (&row.result, row.verdict()) {
                    (Some(result), verdict) if verdict.severity().is_some() => {
                        match shared.get_mut(result.as_str()) {
                            None => {
                                shared.insert(result, verdict);
                            }
                            Some(worst) => {
                                tally.repeated += 1;
                                if verdict.severity() > worst.severity() {
                                    *worst = verdict;
                                }
                            }
                        }
                    }
                    (_, verdict) => tally.count(verdict, &row.ours),
                }
            }
            match &report.failure {
                None => {}
                Some(ScenarioError::Cancelled) => tally.unreached += 1,
                Some(e) => tally.failed.push((report.check.name, e.to_string())),
            }
        }
        for verdict in shared.into_values() {
            tally.count(verdict, &Measured::Text(String::new()));
        }
        tally
    }

    fn count(&mut self, verdict: Verdict, ours: &Measured) {
        match (verdict, ours) {
            (Verdict::Agrees, _) => self.agree += 1,
            (Verdict::Explained, _) => self.explained += 1,
            (Verdict::Differs, _) => self.differ += 1,
            (Verdict::Shown, _) => self.shown += 1,
            (Verdict::Missing, ours) => {
                let why = match ours {
                    Measured::Missing(why) => why.as_str(),
                    _ => "",
                };
                match self.missing.iter_mut().find(|(w, _)| w == why) {
                    Some((_, n)) => *n += 1,
                    None => self.missing.push((why.to_owned(), 1)),
                }
            }
        }
    }

    /// Nothing differs without an explanation, and nothing failed.
    pub fn holds(&self) -> bool {
        self.differ == 0 && self.failed.is_empty()
    }

    /// The closing sentences: what agrees, what does not, what is missing and why.
    pub fn sentences(&self) -> Vec<String> {
        let missing: usize = self.missing.iter().map(|(_, n)| n).sum();
        let rows = self.agree + self.explained + self.differ + missing;
        let repeated = match self.repeated {
            0 => String::new(),
            n => format!(
                " (in {} rows: a result that is held against several references counts once, by \
                 the worst)",
                rows + n
            ),
        };
        let mut text = format!(
            "Of {} {}{repeated} {}, {} and {}",
            rows,
            plural(rows, "comparison", "comparisons"),
            verb(self.agree, "agrees", "agree"),
            verb(self.explained, "is explained", "are explained"),
            verb(self.differ, "differs", "differ"),
        );
        if missing > 0 {
            let reasons: Vec<String> = self
                .missing
                .iter()
                .map(|(why, n)| match self.missing.len() {
                    1 => why.clone(),
                    _ => format!("{n}: {why}"),
                })
                .collect();
            text += &format!(
                "; {} ({})",
                verb(missing, "is missing", "are missing"),
                reasons.join("; ")
            );
        }
        if self.shown > 0 {
            text += &format!("; {} more shown for the reader", self.shown);
        }
        let mut sentences = vec![text + "."];
        for (check, why) in &self.failed {
            sentences.push(format!("{check} failed: {why}."));
        }
        if self.unreached > 0 {
            sentences.push(format!(
                "Interrupted: {} not finished.",
                verb(self.unreached, "check was", "checks were")
            ));
        }
        sentences
    }
}

fn plural(n: usize, one: &'static str, many: &'static str) -> &'static str {
    if n == 1 { one } else { many }
}

fn verb(n: usize, one: &'static str, many: &'static str) -> String {
    format!("{n} {}", plural(n, one, many))
}

/// Ours with its unit.
fn ours(row: &Row) -> String {
    match (&row.ours, row.unit) {
        (Measured::Value(_) | Measured::Spread { .. }, unit) if !unit.is_empty() => {
            format!("{} {unit}", row.ours)
        }
        (Measured::Missing(_), _) => "–".to_owned(),
        (ours, _) => ours.to_string(),
    }
}

/// What else is to be said of a row: why it is missing, and its remark.
fn remark(row: &Row) -> Option<String> {
    let why = match &row.ours {
        Measured::Missing(why) => Some(format!("missing: {why}")),
        Measured::Spread {
            seeds, min, max, ..
        } if min != max => Some(format!("mean (least to greatest) of {seeds} seeds")),
        _ => None,
    };
    match (why, &row.note) {
        (Some(why), Some(note)) => Some(format!("{why}; {note}")),
        (why, note) => why.or_else(|| note.clone()),
    }
}

#[cfg(test)]
mod tests;
