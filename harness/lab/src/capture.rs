//! The file of a capture whose device is dropped by the driver: what goes wrong while writing is
//! kept until somebody asks.

use narrows_experiment::output_path;
use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

/// Writes the file, and completes it when it is dropped.
#[derive(Debug)]
pub struct CaptureFile {
    out: BufWriter<File>,
    failure: Failure,
}

/// What went wrong.
type Failure = Arc<Mutex<Option<io::Error>>>;

/// Knows how the writing went.
#[derive(Debug)]
pub struct CaptureOutcome {
    path: PathBuf,
    failure: Failure,
}

/// A new file at `path`, in place of what was there.
///
/// # Errors
/// When it cannot be created.
pub fn create(path: &Path) -> io::Result<(CaptureFile, CaptureOutcome)> {
    let failure = Failure::default();
    let file = output_path::open_already(path).unwrap_or_else(|| File::create(path))?;
    let file = CaptureFile {
        out: BufWriter::with_capacity(1 << 20, file),
        failure: failure.clone(),
    };
    let path = path.to_owned();
    Ok((file, CaptureOutcome { path, failure }))
}

impl CaptureOutcome {
    /// The file's place.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// How it went, once the file is complete.
    ///
    /// # Errors
    /// The first that occurred while writing.
    pub fn get(&self) -> io::Result<()> {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        failure.take().map_or(Ok(()), Err)
    }
}

impl CaptureFile {
    /// Keep the first error, in words, since it is given on as well.
    fn note<R>(&self, result: io::Result<R>) -> io::Result<R> {
        if let Err(e) = &result {
            let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
            failure.get_or_insert_with(|| io::Error::new(e.kind(), e.to_string()));
        }
        result
    }
}

impl Write for CaptureFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        let result = self.out.write(buf);
        self.note(result)
    }
    fn flush(&mut self) -> io::Result<()> {
        let result = self.out.flush();
        self.note(result)
    }
}

impl Drop for CaptureFile {
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_full_disk_is_known_afterwards() {
        let (mut file, outcome) = create(Path::new("/dev/full")).unwrap();
        file.write_all(b"held back").unwrap();
        assert!(outcome.get().is_ok());
        drop(file);
        assert!(outcome.get().is_err());
    }
}
