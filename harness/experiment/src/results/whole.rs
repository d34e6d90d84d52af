//! Files that are whole or as they were.

use super::error::{FolderError, io_error};
use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

/// Writes a file that is whole or as it was.
pub(super) fn write_whole(path: &Path, bytes: &[u8]) -> Result<(), FolderError> {
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
