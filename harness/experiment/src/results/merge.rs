//! Putting the parts of an experiment together.

use super::error::{FolderError, io_error};
use super::folder::{Folder, check_same};
use super::layout::PARTS;
use crate::plan::Plan;
use crate::registry::Registry;
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};

/// What was put together.
#[derive(Debug)]
pub struct Merged {
    /// The folder, with its tables.
    pub folder: Folder,
    /// The plan of all parts.
    pub plan: Plan,
    /// How many runs were put in.
    pub added: usize,
}

/// Puts the runs of `from`, of which there is at least one, into the folder at `to`, which is new
/// or has some of them.
///
/// # Errors
/// If one is of another experiment or version, or cannot be read or written.
pub fn merge(to: &Path, from: &[PathBuf], registry: &Registry) -> Result<Merged, FolderError> {
    let parts = from.iter().map(|path| Folder::read(path, registry));
    let parts = parts.collect::<Result<Vec<_>, _>>()?;
    let Some((mut plan, _)) = parts.first().cloned() else {
        let error = std::io::Error::new(std::io::ErrorKind::InvalidInput, "there are no parts");
        return Err(io_error("merge into", to)(error));
    };
    for (path, (other, _)) in from.iter().zip(&parts) {
        check_same(path, other, &plan)?;
        plan = plan.at_least(other.base().run.repetitions);
    }
    let mut all = Folder::open(to, &plan, registry)?;
    let mut done = all.done();
    let mut added = 0;
    for (path, (_, records)) in from.iter().zip(parts) {
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
    all.write_tables(registry)?;
    Ok(Merged {
        folder: all,
        plan,
        added,
    })
}
