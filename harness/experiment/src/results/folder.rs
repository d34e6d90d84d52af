//! The folder of results: opening, going on, finishing, merging.

use super::journal::Record;
use super::tables::{RunColumns, RunTables};
use crate::file::{Loaded, text_of};
use crate::model::Experiment;
use crate::plan::{Plan, PlannedRun, Shard};
use crate::registry::Registry;
use crate::run::RunOutcome;
use crate::version;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

const EXPERIMENT: &str = "experiment.toml";
const JOURNAL: &str = "runs.jsonl";
const PARTS: &str = "parts";
const LOCK: &str = "lock";

/// A folder of results that this process writes.
#[derive(Debug)]
pub struct Folder {
    path: PathBuf,
    experiment: Experiment,
    axes: Vec<String>,
    journal: File,
    parts: BTreeMap<String, (File, u64)>,
    records: Vec<Record>,
    /// Held as long as this is.
    _lock: File,
}

/// Why a folder cannot be used.
#[derive(Debug)]
pub enum FolderError {
    /// The system says so.
    Io {
        /// What was tried: `write`.
        what: &'static str,
        /// Of which file.
        path: PathBuf,
        /// Why not.
        error: io::Error,
    },
    /// Another process writes it.
    InUse(PathBuf),
    /// There is something else in it.
    Foreign(PathBuf),
    /// It has the results of another experiment.
    Other {
        /// The folder.
        path: PathBuf,
        /// Keys that are different, with the value there and here.
        differences: Vec<(String, String, String)>,
    },
    /// It was written by another version.
    Version {
        /// The folder.
        path: PathBuf,
        /// That version.
        found: String,
    },
    /// A line of it cannot be.
    Broken {
        /// The file.
        path: PathBuf,
        /// The line.
        line: usize,
    },
}

impl fmt::Display for FolderError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Io { what, path, error } => {
                write!(f, "cannot {what} {}: {error}", path.display())?;
                if error.kind() == io::ErrorKind::StorageFull {
                    f.write_str("; what was finished is whole: make room and run it again")?;
                }
                Ok(())
            }
            Self::InUse(path) => write!(
                f,
                "another process writes to {}: wait for it, or give another --out",
                path.display()
            ),
            Self::Foreign(path) => write!(
                f,
                "{} is not empty and has no {EXPERIMENT}: give another --out",
                path.display()
            ),
            Self::Other { path, differences } => {
                write!(
                    f,
                    "{} has the results of another experiment: give another --out, or the same values",
                    path.display()
                )?;
                for (key, there, here) in differences.iter().take(8) {
                    write!(f, "\n  {key}: {there} there, {here} here")?;
                }
                let more = differences.len().saturating_sub(8);
                if more > 0 {
                    write!(f, "\n  and {more} more")?;
                }
                Ok(())
            }
            Self::Version { path, found } => write!(
                f,
                "{} was written by narrows {found}, and this is {}: their numbers may differ; give \
                 another --out",
                path.display(),
                version::text()
            ),
            Self::Broken { path, line } => write!(
                f,
                "line {line} of {} cannot be read, and others follow it: the folder was changed \
                 from outside",
                path.display()
            ),
        }
    }
}

impl std::error::Error for FolderError {}

fn io_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> FolderError {
    let path = path.to_owned();
    move |error| FolderError::Io { what, path, error }
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
            let ours = |name: &std::ffi::OsStr| name == LOCK || name == PARTS;
            if entries.any(|e| e.is_ok_and(|e| !ours(&e.file_name()))) {
                return Err(FolderError::Foreign(path.to_owned()));
            }
        }
        fs::create_dir_all(&parts).map_err(io_error("create", &parts))?;
        let lock = lock(path)?;
        let mut experiment = plan.base().clone();
        let file = path.join(EXPERIMENT);
        if file.exists() {
            let text = fs::read_to_string(&file).map_err(io_error("read", &file))?;
            let there = check_same(path, &text, &experiment, registry)?;
            // What was run stays.
            let more = experiment.run.repetitions.max(there.run.repetitions);
            experiment.run.repetitions = more;
        }
        let text = format!("{}\n{}", stamp(), text_of(&experiment));
        write_whole(&file, text.as_bytes())?;
        let axes: Vec<String> = experiment.sweep.iter().map(|a| a.key.clone()).collect();
        let journal_path = path.join(JOURNAL);
        let (records, whole) = read_journal(&journal_path, &axes)?;
        let records = with_rows(&parts, records);
        let mut journal = OpenOptions::new()
            .create(true)
            .truncate(false)
            .read(true)
            .write(true)
            .open(&journal_path)
            .map_err(io_error("open", &journal_path))?;
        // What a process that was killed left behind the last whole line.
        journal
            .set_len(whole)
            .and_then(|()| journal.seek(SeekFrom::End(0)).map(drop))
            .map_err(io_error("write", &journal_path))?;
        Ok(Self {
            path: path.to_owned(),
            experiment,
            axes,
            journal,
            parts: BTreeMap::new(),
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

    fn write_record(&mut self, record: Record) -> Result<(), FolderError> {
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
    fn append(&mut self, table: &str, rows: &[u8]) -> Result<(u64, u64), FolderError> {
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

    /// Makes the tables of what is there, in the order of the plan.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write_tables(&mut self, plan: &Plan, registry: &Registry) -> Result<(), FolderError> {
        let mut order: Vec<&Record> = self.records.iter().collect();
        order.sort_by_key(|r| (r.run.point, r.run.repetition));
        let columns = RunColumns::new(&self.experiment, registry, metric_order(registry, &order));
        let mut text = columns.header() + "\n";
        for record in &order {
            let run = record.run;
            let first = [
                run.point.to_string(),
                run.repetition.to_string(),
                record.seed.to_string(),
                record.outcome.clone(),
            ];
            let metrics: BTreeMap<&str, &str> = record
                .metrics
                .iter()
                .map(|(name, value)| (name.as_str(), value.as_str()))
                .collect();
            let value = |name: &str| metrics.get(name).map(|v| (*v).to_owned());
            text += &columns.row(first, &record.values, value);
            text.push('\n');
        }
        write_whole(&self.path.join("runs.csv"), text.as_bytes())?;
        let _ = plan;
        let mut names: Vec<&str> = Vec::new();
        for record in &order {
            for (table, ..) in &record.rows {
                if !names.contains(&table.as_str()) {
                    names.push(table);
                }
            }
        }
        for table in names {
            self.write_table(table, &order)?;
        }
        Ok(())
    }

    fn write_table(&self, table: &str, order: &[&Record]) -> Result<(), FolderError> {
        let part = self.path.join(PARTS).join(table);
        let path = self.path.join(format!("{table}.csv"));
        let new = self.path.join(format!("{table}.csv.new"));
        let mut rows = File::open(&part).map_err(io_error("read", &part))?;
        let out = File::create(&new).map_err(io_error("create", &new))?;
        let mut out = io::BufWriter::new(out);
        let mut headed = false;
        for record in order {
            let Some((_, header, from, to)) = record.rows.iter().find(|(t, ..)| t == table) else {
                continue;
            };
            if !headed {
                writeln!(out, "{header}").map_err(io_error("write", &new))?;
                headed = true;
            }
            rows.seek(SeekFrom::Start(*from))
                .map_err(io_error("read", &part))?;
            let copied = io::copy(&mut (&mut rows).take(to - from), &mut out);
            let copied = copied.map_err(io_error("write", &new))?;
            if copied < to - from {
                let error = io::Error::new(io::ErrorKind::UnexpectedEof, "rows are missing");
                return Err(io_error("read", &part)(error));
            }
        }
        out.into_inner()
            .map_err(io::IntoInnerError::into_error)
            .and_then(|file| file.sync_data())
            .map_err(io_error("write", &new))?;
        fs::rename(&new, &path).map_err(io_error("write", &path))
    }

    /// The rows that a run has in a table, as text; nothing if it has none.
    ///
    /// # Errors
    /// If they cannot be read.
    pub fn rows(&self, record: &Record, table: &str) -> Result<String, FolderError> {
        let Some((_, _, from, to)) = record.rows.iter().find(|(t, ..)| t == table) else {
            return Ok(String::new());
        };
        let part = self.path.join(PARTS).join(table);
        let mut text = String::new();
        let read = File::open(&part).and_then(|mut file| {
            file.seek(SeekFrom::Start(*from))?;
            file.take(to - from).read_to_string(&mut text)
        });
        read.map_err(io_error("read", &part))?;
        Ok(text)
    }

    /// The tables that a run has rows in.
    pub fn tables_of<'r>(&self, record: &'r Record) -> impl Iterator<Item = &'r str> {
        record.rows.iter().map(|(table, ..)| table.as_str())
    }

    /// Writes a file of one's own beside the tables.
    ///
    /// # Errors
    /// If it cannot be written; an older one is as it was then.
    pub fn write_file(&self, name: &str, text: &str) -> Result<(), FolderError> {
        write_whole(&self.path.join(name), text.as_bytes())
    }

    /// The results of a folder that is finished or not, to look at.
    ///
    /// # Errors
    /// If it is none, or cannot be read.
    pub fn read(
        path: &Path,
        registry: &Registry,
    ) -> Result<(Experiment, Vec<Record>), FolderError> {
        let file = path.join(EXPERIMENT);
        let text = fs::read_to_string(&file).map_err(io_error("read", &file))?;
        let broken = |_| FolderError::Broken {
            path: file.clone(),
            line: 1,
        };
        let name = file.display().to_string();
        let loaded = Loaded::parse(&name, &text, registry).map_err(broken)?;
        let axes = loaded.experiment.sweep.iter().map(|a| a.key.clone());
        let axes: Vec<String> = axes.collect();
        let (records, _) = read_journal(&path.join(JOURNAL), &axes)?;
        Ok((loaded.experiment, records))
    }
}

/// Puts the runs of `from` into the folder at `to`, which is new or has some of them; how many
/// were put in.
///
/// # Errors
/// If one is of another experiment or version, or cannot be read or written.
pub fn merge(to: &Path, from: &[PathBuf], registry: &Registry) -> Result<usize, FolderError> {
    let first = from.first().map_or(to, PathBuf::as_path);
    let (mut experiment, _) = Folder::read(first, registry)?;
    for path in from {
        let (other, _) = Folder::read(path, registry)?;
        let more = experiment.run.repetitions.max(other.run.repetitions);
        experiment.run.repetitions = more;
    }
    let plan = Plan::new(&experiment, registry).map_err(|_| FolderError::Broken {
        path: first.join(EXPERIMENT),
        line: 1,
    })?;
    let mut all = Folder::open(to, &plan, registry)?;
    let mut done = all.done();
    let mut added = 0;
    for path in from {
        let file = path.join(EXPERIMENT);
        let text = fs::read_to_string(&file).map_err(io_error("read", &file))?;
        check_same(path, &text, &experiment, registry)?;
        let (_, records) = Folder::read(path, registry)?;
        for mut record in records {
            if !done.insert(record.run) {
                continue;
            }
            for (table, _, start, end) in &mut record.rows {
                let part = path.join(PARTS).join(&*table);
                let mut file = File::open(&part).map_err(io_error("read", &part))?;
                let mut rows = vec![0; usize::try_from(*end - *start).unwrap_or(usize::MAX)];
                file.seek(SeekFrom::Start(*start))
                    .and_then(|_| file.read_exact(&mut rows))
                    .map_err(io_error("read", &part))?;
                (*start, *end) = all.append(table, &rows)?;
            }
            all.write_record(record)?;
            added += 1;
        }
    }
    all.write_tables(&plan, registry)?;
    Ok(added)
}

impl Plan {
    /// The runs of a part that `done` has not.
    pub fn missing(&self, shard: Shard, done: &BTreeSet<PlannedRun>) -> Vec<PlannedRun> {
        self.part(shard).filter(|run| !done.contains(run)).collect()
    }
}

/// The columns of metrics: as the registry has them, then those of traffics and probes.
fn metric_order(registry: &Registry, records: &[&Record]) -> Vec<String> {
    let names: BTreeSet<&str> = records
        .iter()
        .flat_map(|r| r.metrics.iter().map(|(name, _)| name.as_str()))
        .collect();
    let known = registry
        .metrics
        .entries()
        .map(|m| super::tables::column(m.name, m.unit));
    let known: Vec<String> = known.filter(|c| names.contains(c.as_str())).collect();
    let others = names.iter().filter(|n| !known.iter().any(|k| k == *n));
    let others: Vec<String> = others.map(|n| (*n).to_owned()).collect();
    [known, others].concat()
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

/// Whether a folder's experiment is this one: but for the number of repetitions, what is shown and
/// what is expected, which change no run.
fn check_same(
    path: &Path,
    text: &str,
    experiment: &Experiment,
    registry: &Registry,
) -> Result<Experiment, FolderError> {
    let first = text.lines().next().unwrap_or_default();
    if first != stamp() {
        let found = first.strip_prefix("# Results of narrows ");
        return Err(FolderError::Version {
            path: path.to_owned(),
            found: found.unwrap_or("of another kind").to_owned(),
        });
    }
    let file = path.join(EXPERIMENT);
    let there = Loaded::parse(&file.display().to_string(), text, registry);
    let there = there.map_err(|e| FolderError::Broken {
        path: file,
        line: e.errors.first().map_or(1, |e| e.line),
    })?;
    let matters = |key: &str| {
        let part = key.split('.').next().unwrap_or_default();
        !matches!(part, "title" | "about" | "show" | "expect" | "short") && key != "run.repetitions"
    };
    let all = |e: &Experiment| -> BTreeMap<String, String> {
        let text = |value| match value {
            crate::model::Value::One(value) => value,
            crate::model::Value::List(values) => values.join(","),
        };
        let entries = e.entries().into_iter();
        let of = entries.filter(|e| matters(&e.key));
        of.map(|e| (e.key, text(e.value))).collect()
    };
    let whole = there.experiment;
    let (there, here) = (all(&whole), all(experiment));
    let keys: BTreeSet<&String> = there.keys().chain(here.keys()).collect();
    let nothing = "nothing".to_owned();
    let differences: Vec<(String, String, String)> = keys
        .into_iter()
        .filter(|key| there.get(*key) != here.get(*key))
        .map(|key| {
            let of = |all: &BTreeMap<String, String>| all.get(key).unwrap_or(&nothing).clone();
            (key.clone(), of(&there), of(&here))
        })
        .collect();
    if differences.is_empty() {
        return Ok(whole);
    }
    Err(FolderError::Other {
        path: path.to_owned(),
        differences,
    })
}

/// The records of a journal, and how many bytes of it are whole lines.
fn read_journal(path: &Path, axes: &[String]) -> Result<(Vec<Record>, u64), FolderError> {
    let text = match fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok((Vec::new(), 0)),
        Err(e) => return Err(io_error("read", path)(e)),
    };
    let mut records = Vec::new();
    let mut whole = 0;
    let mut seen = BTreeSet::new();
    let lines: Vec<&[u8]> = text.split_inclusive(|b| *b == b'\n').collect();
    for (n, line) in lines.iter().enumerate() {
        let parsed = std::str::from_utf8(line)
            .ok()
            .filter(|line| line.ends_with('\n'))
            .and_then(|line| Record::parse(line, axes));
        match parsed {
            Some(record) => {
                whole += line.len() as u64;
                if seen.insert(record.run) {
                    records.push(record);
                }
            }
            // The last one may be half written.
            None if n + 1 == lines.len() => break,
            None => {
                return Err(FolderError::Broken {
                    path: path.to_owned(),
                    line: n + 1,
                });
            }
        }
    }
    Ok((records, whole))
}

/// Those of the runs whose rows are there: of others the machine lost some when it went down.
fn with_rows(parts: &Path, records: Vec<Record>) -> Vec<Record> {
    let mut lengths: BTreeMap<String, u64> = BTreeMap::new();
    let mut has = |table: &String, to: u64| {
        let length = lengths.entry(table.clone()).or_insert_with(|| {
            let there = fs::metadata(parts.join(table));
            there.map_or(0, |m| m.len())
        });
        to <= *length
    };
    let mut kept = records;
    kept.retain(|r| r.rows.iter().all(|(table, _, _, to)| has(table, *to)));
    kept
}

/// A file that is whole or as it was.
fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
    let mut name = path.file_name().unwrap_or_default().to_owned();
    name.push(".new");
    let new = path.with_file_name(name);
    let written = File::create(&new).and_then(|mut file| {
        file.write_all(bytes)?;
        file.sync_data()
    });
    written.map_err(io_error("write", &new))?;
    fs::rename(&new, path).map_err(io_error("write", path))
}

#[cfg(test)]
mod tests;
