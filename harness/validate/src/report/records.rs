//! The findings as JSON.

use super::Tally;
use crate::{CheckReport, Expected, Measured, Row, Tolerance};
use narrows_experiment::version;
use serde::Serialize;
use serde_json::{Value, json};

/// Version of the format: another where a field is gone or means something else.
pub const FORMAT_VERSION: u32 = 2;

/// All of `narrows validate`.
#[derive(Clone, Debug, Serialize)]
pub struct ValidationRecord {
    /// Always `narrows-validation`.
    pub format: &'static str,
    /// [`FORMAT_VERSION`].
    pub format_version: u32,
    /// Version of narrows that ran it.
    pub narrows_version: String,
    /// The commit that it was built from, see [`version::COMMIT`].
    pub narrows_commit: Option<&'static str>,
    /// The command line.
    pub command: String,
    /// The closing sentences.
    pub summary: Vec<String>,
    /// Results that agree with all they are held against.
    pub agree: usize,
    /// Results outside a tolerance, explained.
    pub explained: usize,
    /// Results outside a tolerance.
    pub differ: usize,
    /// Rows about a result that another row has counted.
    pub repeated: usize,
    /// Rows that could not be had.
    pub missing: usize,
    /// Rows without a judgement.
    pub shown: usize,
    /// Every check that ran, in the order of the table.
    pub checks: Vec<CheckRecord>,
}

/// One check.
#[derive(Clone, Debug, Serialize)]
pub struct CheckRecord {
    /// Its name.
    pub name: &'static str,
    /// What is compared.
    pub what: &'static str,
    /// How long it took.
    pub seconds: f64,
    /// Why it ended early.
    pub failure: Option<String>,
    /// Its rows.
    pub rows: Vec<RowRecord>,
    /// Name and caption of its figures.
    pub figures: Vec<(&'static str, String)>,
}

/// One row. Numbers are in the row's unit.
#[derive(Clone, Debug, Serialize)]
pub struct RowRecord {
    /// What is compared.
    pub what: String,
    /// Where the reference comes from.
    pub source: String,
    /// `value`, `min` and `max`, or `text`; `null` if there is none.
    pub reference: Value,
    /// `value` (with `min`, `max` and `seeds` over seeds), `text`, or `missing` with the reason.
    pub ours: Value,
    /// The unit of both.
    pub unit: &'static str,
    /// `exact`, `shown`, or `relative`, `absolute`, `factor` with the number.
    pub tolerance: Value,
    /// `agrees`, `explained`, `DIFFERS`, `shown` or `missing`.
    pub verdict: &'static str,
    /// The section that explains a difference.
    pub explained: Option<&'static str>,
    /// A remark.
    pub note: Option<String>,
    /// The result of ours, where several rows compare the same one.
    pub result: Option<String>,
    /// How long it took.
    pub seconds: f64,
}

impl ValidationRecord {
    /// The record of what `command` found.
    pub fn of(reports: &[CheckReport], tally: &Tally, command: String) -> Self {
        Self {
            format: "narrows-validation",
            format_version: FORMAT_VERSION,
            narrows_version: version::VERSION.to_owned(),
            narrows_commit: version::COMMIT,
            command,
            summary: tally.sentences(),
            agree: tally.agree,
            explained: tally.explained,
            differ: tally.differ,
            repeated: tally.repeated,
            missing: tally.missing.iter().map(|(_, n)| n).sum(),
            shown: tally.shown,
            checks: reports.iter().map(CheckRecord::of).collect(),
        }
    }
}

impl CheckRecord {
    fn of(report: &CheckReport) -> Self {
        let figures = report.figures.iter();
        Self {
            name: report.check.name,
            what: report.check.what,
            seconds: report.took.as_secs_f64(),
            failure: report.failure.as_ref().map(ToString::to_string),
            rows: report.rows.iter().map(RowRecord::of).collect(),
            figures: figures.map(|f| (f.name, f.caption.clone())).collect(),
        }
    }
}

impl RowRecord {
    fn of(row: &Row) -> Self {
        Self {
            what: row.what.clone(),
            source: row.source.clone(),
            reference: match &row.reference {
                Expected::Value(v) => json!({ "value": v }),
                Expected::Range(a, b) => json!({ "min": a, "max": b }),
                Expected::AtLeast(v) => json!({ "min": v }),
                Expected::AtMost(v) => json!({ "max": v }),
                Expected::Exactly(text) => json!({ "text": text }),
                Expected::Nothing => Value::Null,
            },
            ours: match &row.ours {
                Measured::Value(v) => json!({ "value": v }),
                Measured::Spread {
                    mean,
                    min,
                    max,
                    seeds,
                } => json!({ "value": mean, "min": min, "max": max, "seeds": seeds }),
                Measured::Text(text) => json!({ "text": text }),
                Measured::Missing(why) => json!({ "missing": why }),
            },
            unit: row.unit,
            tolerance: match row.tolerance {
                Tolerance::Exact => json!("exact"),
                Tolerance::Relative(share) => json!({ "relative": share }),
                Tolerance::Absolute(margin) => json!({ "absolute": margin }),
                Tolerance::Factor(factor) => json!({ "factor": factor }),
                Tolerance::Shown => json!("shown"),
            },
            verdict: row.verdict().name(),
            explained: row.explained,
            note: row.note.clone(),
            result: row.result.clone(),
            seconds: row.millis as f64 / 1e3,
        }
    }
}
