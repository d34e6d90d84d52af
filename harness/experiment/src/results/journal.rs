//! The journal: a line of JSON for each finished run.

use super::error::{FolderError, io_error};
use super::layout::{JOURNAL, PARTS};
use super::tables::metric_columns;
use crate::plan::{Plan, PlannedRun};
use crate::registry::Registry;
use crate::run::RunOutcome;
use narrows::congestion::order::OrderedMap;
use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::marker::PhantomData;
use std::path::Path;
use std::{fmt, fs, io};

/// A finished run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Record {
    /// Which run of the plan.
    pub run: PlannedRun,
    /// Its seed.
    pub seed: u64,
    /// How it ended.
    pub outcome: String,
    /// The values of the axes there.
    pub values: Vec<String>,
    /// Columns with their values, as text so that no digit is lost.
    pub metrics: Vec<(String, String)>,
    /// Of each table in `parts`: its header, and from which byte to which the rows of the run are.
    pub(super) rows: Vec<(String, String, u64, u64)>,
}

/// A line as it is read.
#[derive(Deserialize)]
struct Line<'a> {
    point: usize,
    repetition: u32,
    seed: u64,
    outcome: String,
    #[serde(deserialize_with = "map")]
    set: OrderedMap<String, String>,
    #[serde(borrow, deserialize_with = "map")]
    metrics: OrderedMap<String, &'a RawValue>,
    #[serde(deserialize_with = "map")]
    rows: OrderedMap<String, (String, u64, u64)>,
}

fn map<'de, D, V>(from: D) -> Result<OrderedMap<String, V>, D::Error>
where
    D: Deserializer<'de>,
    V: Deserialize<'de>,
{
    struct Pairs<V>(PhantomData<V>);

    impl<'de, V: Deserialize<'de>> Visitor<'de> for Pairs<V> {
        type Value = OrderedMap<String, V>;

        fn expecting(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
            to.write_str("names with values")
        }

        fn visit_map<A: MapAccess<'de>>(self, mut all: A) -> Result<Self::Value, A::Error> {
            let mut map = OrderedMap::new();
            while let Some((name, value)) = all.next_entry()? {
                map.insert(name, value);
            }
            Ok(map)
        }
    }

    from.deserialize_map(Pairs(PhantomData))
}

impl Record {
    /// What `run` of `plan` gave, without rows of tables.
    pub fn of(plan: &Plan, run: PlannedRun, outcome: &RunOutcome, registry: &Registry) -> Self {
        let named = registry.metrics.of_run(outcome);
        let values = plan.values(run.point);
        Self {
            run,
            seed: plan.seed(run),
            outcome: outcome.outcome.name().to_owned(),
            values: values.into_iter().map(str::to_owned).collect(),
            metrics: metric_columns(&named),
            rows: Vec::new(),
        }
    }

    /// A metric by its column.
    pub fn metric(&self, column: &str) -> Option<f64> {
        let (_, value) = self.metrics.iter().find(|(name, _)| name == column)?;
        value.parse().ok()
    }

    /// The line, without its end.
    pub(super) fn line(&self, axes: &[String]) -> String {
        let text = |text: &str| serde_json::Value::from(text).to_string();
        let set = axes.iter().zip(&self.values);
        let set: Vec<String> = set
            .map(|(key, value)| format!("{}:{}", text(key), text(value)))
            .collect();
        let metrics = self.metrics.iter();
        let metrics: Vec<String> = metrics
            .map(|(name, value)| format!("{}:{value}", text(name)))
            .collect();
        let rows = self.rows.iter();
        let rows: Vec<String> = rows
            .map(|(table, header, from, to)| {
                format!("{}:[{},{from},{to}]", text(table), text(header))
            })
            .collect();
        format!(
            "{{\"point\":{},\"repetition\":{},\"seed\":{},\"outcome\":{},\"set\":{{{}}},\
             \"metrics\":{{{}}},\"rows\":{{{}}}}}",
            self.run.point,
            self.run.repetition,
            self.seed,
            text(&self.outcome),
            set.join(","),
            metrics.join(","),
            rows.join(","),
        )
    }

    /// What a line says; `None` if it is not whole.
    pub(super) fn parse(line: &str, axes: &[String]) -> Option<Self> {
        let line: Line<'_> = serde_json::from_str(line).ok()?;
        let values = axes.iter().map(|key| line.set.get(key).cloned());
        let metrics = line.metrics.into_iter();
        let rows = line.rows.into_iter();
        Some(Self {
            run: PlannedRun {
                point: line.point,
                repetition: line.repetition,
            },
            seed: line.seed,
            outcome: line.outcome,
            values: values.collect::<Option<_>>()?,
            metrics: metrics
                .map(|(name, value)| (name, value.get().to_owned()))
                .collect(),
            rows: rows
                .map(|(table, (header, from, to))| (table, header, from, to))
                .collect(),
        })
    }
}

/// Whether a journal is what its records say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Journal {
    /// It is.
    Whole,
    /// A line is half written, or the rows of a run are gone: it has to be written anew.
    Damaged,
}

/// The finished runs of a folder whose rows are there.
pub(super) fn read(folder: &Path, axes: &[String]) -> Result<(Vec<Record>, Journal), FolderError> {
    let path = &folder.join(JOURNAL);
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), Journal::Whole)),
        Err(e) => return Err(io_error("read", path)(e)),
    };
    let mut records = Vec::new();
    let mut state = Journal::Whole;
    let mut seen = BTreeSet::new();
    let (parts, mut lengths) = (folder.join(PARTS), OrderedMap::new());
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    for (n, line) in lines.iter().enumerate() {
        let parsed = std::str::from_utf8(line)
            .ok()
            .filter(|line| line.ends_with('\n'))
            .and_then(|line| Record::parse(line, axes));
        match parsed {
            Some(record) => {
                if has_rows(&mut lengths, &parts, &record) && seen.insert(record.run) {
                    records.push(record);
                } else {
                    state = Journal::Damaged;
                }
            }
            // The last one may be half written.
            None if n + 1 == lines.len() => state = Journal::Damaged,
            None => {
                return Err(FolderError::Broken {
                    path: path.to_owned(),
                    line: n + 1,
                });
            }
        }
    }
    Ok((records, state))
}

/// Whether the rows of a run are in the tables: of some the machine may have lost them when it went
/// down.
fn has_rows(lengths: &mut OrderedMap<String, u64>, parts: &Path, record: &Record) -> bool {
    record.rows.iter().all(|(table, _, _, to)| {
        let length = lengths.get_or_insert_with(table.clone(), || {
            let there = fs::metadata(parts.join(table));
            there.map_or(0, |m| m.len())
        });
        *to <= *length
    })
}
