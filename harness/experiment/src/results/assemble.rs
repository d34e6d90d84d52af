//! The tables that people read, made of the rows of the runs in the order of the plan.

use super::error::{FolderError, io_error};
use super::folder::Folder;
use super::journal::Record;
use super::layout::PARTS;
use super::tables::{RunColumns, column};
use super::whole::write_whole;
use crate::registry::Registry;
use narrows::congestion::order::sort_by_key;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::{self, File};
use std::io::{self, Read, Seek, SeekFrom, Write};

impl Folder {
    /// Makes the tables of what is there, in the order of the plan.
    ///
    /// # Errors
    /// If one cannot be written.
    pub fn write_tables(&self, registry: &Registry) -> Result<(), FolderError> {
        let mut order: Vec<&Record> = self.records.iter().collect();
        sort_by_key(&mut order, |r| (r.run.point, r.run.repetition));
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

    /// The header of a table that a run has rows in.
    pub fn header<'r>(&self, record: &'r Record, table: &str) -> Option<&'r str> {
        let mut rows = record.rows.iter();
        let (_, header, ..) = rows.find(|(t, ..)| t == table)?;
        Some(header)
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
}

/// The columns of metrics: as the registry has them, then those of traffics and probes.
fn metric_order(registry: &Registry, records: &[&Record]) -> Vec<String> {
    let names: BTreeSet<&str> = records
        .iter()
        .flat_map(|r| r.metrics.iter().map(|(name, _)| name.as_str()))
        .collect();
    let known = registry.metrics.entries().map(|m| column(m.name, m.unit));
    let known: Vec<String> = known.filter(|c| names.contains(c.as_str())).collect();
    let others = names.iter().filter(|n| !known.iter().any(|k| k == *n));
    let others: Vec<String> = others.map(|n| (*n).to_owned()).collect();
    [known, others].concat()
}
