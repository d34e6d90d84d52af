//! The folder of results: opening, and putting in what ends.

use super::error::{FolderError, io_error};
use super::journal::{self, Journal, Record};
use super::layout::{EXPERIMENT, FILES, JOURNAL, PARTS};
use super::tables::RunTables;
use super::whole::write_whole;
use crate::file::{Loaded, text_of};
use crate::model::Experiment;
use crate::plan::{Files, Plan, PlannedRun, Shard, SweptFile};
use crate::registry::Registry;
use crate::run::RunOutcome;
use crate::traffic::SizeDistribution;
use crate::version;
use narrows::congestion::order::{OrderedMap, sort_by};
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions};
use std::io::{Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const LOCK: &str = "lock";

/// A folder of results that this process writes.
#[derive(Debug)]
pub struct Folder {
    pub(super) path: PathBuf,
    pub(super) experiment: Experiment,
    axes: Vec<String>,
    journal: File,
    parts: OrderedMap<String, (File, u64)>,
    pub(super) records: Vec<Record>,
    /// Held as long as this is.
    _lock: File,
}

/// The first line of [`EXPERIMENT`].
fn stamp() -> String {
    format!("# Results of narrows {}", version::text())
}

impl Folder {
    /// Opens a folder for the results of `plan`: a new one, or one that has some of them already,
    /// which are then not run again. A higher number of repetitions goes on where fewer ended.
    ///
    /// # Errors
    /// If it cannot be written, is in use, or has other results.
    pub fn open(path: &Path, plan: &Plan, registry: &Registry) -> Result<Self, FolderError> {
        let parts = path.join(PARTS);
        if !path.join(EXPERIMENT).exists() && path.exists() {
            let mut entries = fs::read_dir(path).map_err(io_error("read", path))?;
            // A process that is killed may leave a file that had no name yet.
            let unfinished = format!("{EXPERIMENT}.new");
            let ours = |name: &std::ffi::OsStr| {
                name == LOCK || name == PARTS || name == FILES || name == &*unfinished
            };
            if entries.any(|e| e.is_ok_and(|e| !ours(&e.file_name()))) {
                return Err(FolderError::Foreign(path.to_owned()));
            }
        }
        fs::create_dir_all(&parts).map_err(io_error("create", &parts))?;
        let lock = lock(path)?;
        let mut experiment = plan.base().clone();
        let file = path.join(EXPERIMENT);
        if file.exists() {
            let there = read_experiment(path, registry)?;
            check_same(path, &there, plan)?;
            // What was run stays.
            let there = there.base().run.repetitions;
            experiment.run.repetitions = experiment.run.repetitions.max(there);
        }
        if !file.exists() {
            keep_files(path, plan.files())?;
        }
        let text = text_of(&with_files(experiment.clone(), plan.files()));
        let text = format!("{}\n{text}", stamp());
        write_whole(&file, text.as_bytes())?;
        let axes: Vec<String> = experiment.sweep.iter().map(|a| a.key.clone()).collect();
        let journal_path = path.join(JOURNAL);
        let (records, state) = journal::read(path, &axes)?;
        if state == Journal::Damaged {
            let lines = records.iter().map(|r| r.line(&axes) + "\n");
            write_whole(&journal_path, lines.collect::<String>().as_bytes())?;
        }
        let mut journal = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&journal_path)
            .map_err(io_error("open", &journal_path))?;
        journal
            .seek(SeekFrom::End(0))
            .map_err(io_error("write", &journal_path))?;
        Ok(Self {
            path: path.to_owned(),
            experiment,
            axes,
            journal,
            parts: OrderedMap::new(),
            records,
            _lock: lock,
        })
    }

    /// The folder.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The runs that it has.
    pub fn done(&self) -> BTreeSet<PlannedRun> {
        self.records.iter().map(|r| r.run).collect()
    }

    /// The finished runs, as they ended.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// Puts a finished run in for good.
    ///
    /// # Errors
    /// If it cannot be written; those before it stay.
    pub fn add(
        &mut self,
        plan: &Plan,
        run: PlannedRun,
        outcome: &RunOutcome,
        registry: &Registry,
    ) -> Result<(), FolderError> {
        let mut record = Record::of(plan, run, outcome, registry);
        for (table, header, rows) in RunTables::of(run, outcome).tables {
            let (from, to) = self.append(&table, rows.as_bytes())?;
            record.rows.push((table, header, from, to));
        }
        self.write_record(record)
    }

    pub(super) fn write_record(&mut self, record: Record) -> Result<(), FolderError> {
        let line = record.line(&self.axes) + "\n";
        let path = self.path.join(JOURNAL);
        let before = self.journal.stream_position();
        let written = self
            .journal
            .write_all(line.as_bytes())
            .and_then(|()| self.journal.sync_data());
        if let Err(error) = written {
            // Half a line is none.
            if let Ok(before) = before {
                let _ = self.journal.set_len(before);
                let _ = self.journal.seek(SeekFrom::Start(before));
            }
            return Err(io_error("write", &path)(error));
        }
        self.records.push(record);
        Ok(())
    }

    /// Appends rows to a table; from where to where they are.
    pub(super) fn append(&mut self, table: &str, rows: &[u8]) -> Result<(u64, u64), FolderError> {
        let path = self.path.join(PARTS).join(table);
        if !self.parts.contains_key(table) {
            // Behind what the journal knows there may be rows of a run that was not finished.
            let known = self.records.iter().flat_map(|r| &r.rows);
            let end = known.filter(|(t, ..)| t == table).map(|(.., to)| *to).max();
            let end = end.unwrap_or(0);
            let file = OpenOptions::new()
                .create(true)
                .truncate(false)
                .write(true)
                .open(&path)
                .map_err(io_error("open", &path))?;
            file.set_len(end).map_err(io_error("write", &path))?;
            self.parts.insert(table.to_owned(), (file, end));
        }
        let (file, end) = self.parts.get_mut(table).expect("put in above");
        let from = *end;
        file.seek(SeekFrom::Start(from))
            .and_then(|_| file.write_all(rows))
            .map_err(io_error("write", &path))?;
        *end += rows.len() as u64;
        Ok((from, *end))
    }

    /// The results of a folder that is finished or not, to look at.
    ///
    /// # Errors
    /// If it is none, or cannot be read.
    pub fn read(path: &Path, registry: &Registry) -> Result<(Plan, Vec<Record>), FolderError> {
        let plan = read_experiment(path, registry)?;
        let axes = plan.base().sweep.iter();
        let axes: Vec<String> = axes.map(|axis| axis.key.clone()).collect();
        let (records, _) = journal::read(path, &axes)?;
        Ok((plan, records))
    }
}

impl Folder {
    /// The runs of `plan` that a folder has by now; another process may be writing to it.
    ///
    /// # Errors
    /// If it is none, cannot be read, or is of another experiment.
    pub fn done_in(
        path: &Path,
        plan: &Plan,
        registry: &Registry,
    ) -> Result<BTreeSet<PlannedRun>, FolderError> {
        let (there, records) = Self::read(path, registry)?;
        check_same(path, &there, plan)?;
        Ok(records.iter().map(|r| r.run).collect())
    }
}

impl Plan {
    /// The runs of a part that `done` has not.
    pub fn missing(&self, shard: Shard, done: &BTreeSet<PlannedRun>) -> Vec<PlannedRun> {
        self.part(shard).filter(|run| !done.contains(run)).collect()
    }
}

/// Only one process writes to a folder.
fn lock(path: &Path) -> Result<File, FolderError> {
    let file = path.join(LOCK);
    let lock = OpenOptions::new()
        .create(true)
        .truncate(false)
        .write(true)
        .open(&file)
        .map_err(io_error("open", &file))?;
    match lock.try_lock() {
        Ok(()) => Ok(lock),
        Err(fs::TryLockError::WouldBlock) => Err(FolderError::InUse(path.to_owned())),
        Err(fs::TryLockError::Error(error)) => Err(io_error("lock", &file)(error)),
    }
}

/// The experiment of a folder that this version wrote, and its runs.
fn read_experiment(path: &Path, registry: &Registry) -> Result<Plan, FolderError> {
    let file = path.join(EXPERIMENT);
    let text = fs::read_to_string(&file).map_err(io_error("read", &file))?;
    let first = text.lines().next().unwrap_or_default();
    if first != stamp() {
        let found = first.strip_prefix("# Results of narrows ");
        return Err(FolderError::Version {
            path: path.to_owned(),
            found: found.map(str::to_owned),
        });
    }
    let loaded = Loaded::parse(&file.display().to_string(), &text, registry);
    let Loaded { experiment, source } =
        loaded.map_err(|e| FolderError::Experiment(e.to_string()))?;
    let plan = Plan::new(&experiment, registry);
    plan.map_err(|e| FolderError::Experiment(source.locate(&e).to_string()))
}

/// Copies the files of a plan into a new folder.
fn keep_files(path: &Path, files: &Files) -> Result<(), FolderError> {
    let folder = path.join(FILES);
    for file in files.iter() {
        fs::create_dir_all(&folder).map_err(io_error("create", &folder))?;
        write_whole(&folder.join(&file.name), file.text.as_bytes())?;
    }
    Ok(())
}

/// An experiment whose values name the files of its folder.
fn with_files(mut experiment: Experiment, files: &Files) -> Experiment {
    let copy = |value: &str| {
        let file = files.of(value)?;
        Some(SizeDistribution::file_value(&format!(
            "{FILES}/{}",
            file.name
        )))
    };
    for value in experiment
        .sweep
        .iter_mut()
        .flat_map(|axis| Arc::make_mut(&mut axis.values))
    {
        if let Some(copy) = copy(value) {
            *value = copy;
        }
    }
    for expect in &mut experiment.expect {
        let places = expect.place.iter();
        let copies: Vec<(String, String)> = places
            .filter_map(|(key, value)| Some((key.to_owned(), copy(value)?)))
            .collect();
        for (key, value) in copies {
            expect.place.set(&key, &value);
        }
    }
    experiment
}

/// That a folder's experiment is this one: but for the number of repetitions, what is shown and
/// what is expected, which change no run. Files are the same if they mean the same, wherever they
/// are.
pub(super) fn check_same(path: &Path, there: &Plan, here: &Plan) -> Result<(), FolderError> {
    let matters = |key: &str| {
        let part = key.split('.').next().unwrap_or_default();
        !matches!(part, "title" | "about" | "show" | "expect" | "short") && key != "run.repetitions"
    };
    let all = |e: &Experiment| -> OrderedMap<String, String> {
        let entries = e.entries().into_iter();
        let of = entries.filter(|e| matters(&e.key));
        of.map(|e| (e.key, e.value.to_string())).collect()
    };
    let changed = changed_files(there.files(), here.files());
    let (there, here) = (all(there.base()), all(here.base()));
    let keys = there.iter().chain(here.iter()).map(|(key, _)| key);
    let mut keys: Vec<&String> = keys.collect();
    sort_by(&mut keys, |a, b| a.cmp(b));
    keys.dedup();
    let nothing = "nothing".to_owned();
    let differences: Vec<(String, String, String)> = keys
        .into_iter()
        .filter(|key| there.get(*key) != here.get(*key))
        .map(|key| {
            let of = |all: &OrderedMap<String, String>| all.get(key).unwrap_or(&nothing).clone();
            (key.clone(), of(&there), of(&here))
        })
        .chain(changed)
        .collect();
    if differences.is_empty() {
        return Ok(());
    }
    Err(FolderError::Other {
        path: path.to_owned(),
        differences,
    })
}

/// Files of one name with the first point that is not the same there and here.
fn changed_files(there: &Files, here: &Files) -> Vec<(String, String, String)> {
    // cdf:POINT|POINT
    let points = |file: &SweptFile| {
        let points = file.meaning.split([':', '|']).map(str::to_owned);
        points.collect::<Vec<_>>().into_iter()
    };
    let of = there.iter().filter_map(|there| {
        let here = here.iter().find(|here| here.name == there.name)?;
        let (mut a, mut b) = (points(there), points(here));
        let ends = "nothing more";
        loop {
            let (a, b) = (a.next(), b.next());
            if a.is_none() && b.is_none() {
                return None;
            }
            if a != b {
                let [a, b] = [a, b].map(|point| point.unwrap_or_else(|| ends.to_owned()));
                return Some((format!("{FILES}/{}", there.name), a, b));
            }
        }
    });
    of.collect()
}

#[cfg(test)]
mod tests;
