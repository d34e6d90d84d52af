//! Where the path of an output leads: to a file, or to one that this process has open already.

use std::fs::{self, File, OpenOptions};
use std::io;
use std::path::{Path, PathBuf};

/// Where a path leads, whatever its spelling.
#[derive(Debug, PartialEq, Eq)]
pub enum Place {
    /// An open file of this process.
    Descriptor(u32),
    /// A file that exists or will.
    File(PathBuf),
}

impl Place {
    /// What `path` leads to; `-` is standard output.
    pub fn of(path: &Path) -> Self {
        if path == Path::new("-") {
            return Self::Descriptor(1);
        }
        if let Some(n) = descriptor(path) {
            return Self::Descriptor(n);
        }
        let whole = fs::canonicalize(path).ok();
        // What is not there yet: its folder is.
        let whole =
            whole.or_else(|| Some(fs::canonicalize(folder(path)).ok()?.join(path.file_name()?)));
        Self::File(whole.unwrap_or_else(|| path.to_owned()))
    }

    /// Whether what goes to the one would be lost in the other; a device such as `/dev/null` keeps
    /// nothing that could be.
    pub fn clashes(&self, other: &Self) -> bool {
        self == other && !matches!(self, Self::File(path) if is_device(path))
    }
}

#[cfg(unix)]
fn is_device(path: &Path) -> bool {
    use std::os::unix::fs::FileTypeExt;
    fs::metadata(path).is_ok_and(|file| file.file_type().is_char_device())
}

#[cfg(not(unix))]
fn is_device(_: &Path) -> bool {
    false
}

/// The folder that `path` is in.
fn folder(path: &Path) -> &Path {
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    }
}

/// The number in `/dev/fd/N`, `/proc/self/fd/N`, or what is a link there, such as `/dev/stdout`.
/// Such a path is the open file itself and not a name that could be given to another.
fn descriptor(path: &Path) -> Option<u32> {
    let open = ["/dev/fd", "/proc/self/fd", "/proc/thread-self/fd"];
    let open: Vec<PathBuf> = open
        .into_iter()
        .flat_map(|dir| [Some(PathBuf::from(dir)), fs::canonicalize(dir).ok()])
        .flatten()
        .collect();
    let mut path = path.to_owned();
    // As many links as Linux follows.
    for _ in 0..40 {
        let dir = fs::canonicalize(folder(&path)).ok()?;
        if open.contains(&dir) {
            return path.file_name()?.to_str()?.parse().ok();
        }
        path = dir.join(fs::read_link(&path).ok()?);
    }
    None
}

/// The open file that `path` is a name of, for writing where it stands.
///
/// # Errors
/// `None` if it is the name of a file; else what the system says.
pub fn open_already(path: &Path) -> Option<io::Result<File>> {
    descriptor(path).map(|n| reopen(n, path))
}

fn reopen(n: u32, path: &Path) -> io::Result<File> {
    #[cfg(unix)]
    {
        use std::os::fd::AsFd;
        let same = match n {
            1 => Some(io::stdout().as_fd().try_clone_to_owned()?),
            2 => Some(io::stderr().as_fd().try_clone_to_owned()?),
            _ => None,
        };
        if let Some(same) = same {
            return Ok(same.into());
        }
    }
    // Another position in the file, if it is one: at its end nothing is overwritten.
    let _ = n;
    OpenOptions::new().append(true).open(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn open_files_are_known_by_each_of_their_names() {
        let dir = std::env::temp_dir().join(format!("narrows-place-{}", std::process::id()));
        let _ = fs::remove_dir_all(&dir);
        fs::create_dir_all(&dir).unwrap();
        let link = dir.join("link");
        std::os::unix::fs::symlink("/dev/stdout", &link).unwrap();
        let own = format!("/proc/{}/fd/1", std::process::id());
        for path in [
            "/dev/stdout",
            "/dev/fd/1",
            "/proc/self/fd/1",
            "/dev/../dev/fd/1",
            &own,
        ] {
            assert_eq!(descriptor(Path::new(path)), Some(1), "{path}");
        }
        assert_eq!(descriptor(&link), Some(1));
        assert_eq!(descriptor(Path::new("/dev/stderr")), Some(2));
        assert_eq!(descriptor(Path::new("/dev/fd/63")), Some(63));
        for path in ["/dev/null", "x", "/no/such/folder/x", "1", "/dev/fd/x", ""] {
            assert_eq!(descriptor(Path::new(path)), None, "{path}");
        }
        std::os::unix::fs::symlink("round", dir.join("round")).unwrap();
        assert_eq!(descriptor(&dir.join("round")), None);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_is_not_there_yet_has_a_place() {
        let place = |p: &str| Place::of(Path::new(p));
        assert!(place("not-there").clashes(&place("./not-there")));
        assert!(!place("not-there").clashes(&place("nor-there")));
        assert!(place("-").clashes(&place("-")));
        assert!(!place("/dev/null").clashes(&place("/dev/null")));
    }
}
