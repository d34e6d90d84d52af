//! Files that are whole or not there, and a standard output that may go away.

use super::{Stop, usage};
use narrows_experiment::output_path::{self, Place};
use std::fs::{self, File, OpenOptions};
use std::io::{self, BufWriter, Write};
use std::path::{Path, PathBuf};

/// What an option wants to write, before anything is opened.
#[derive(Clone, Copy, Debug)]
pub struct Wanted<'a> {
    option: &'static str,
    path: Option<&'a Path>,
    dash: Dash,
}

/// What a path of `-` means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dash {
    /// Standard output.
    Stdout,
    /// Nothing: the option writes files.
    Refused,
}

impl<'a> Wanted<'a> {
    /// Data for programs, by `--option`: `-` is standard output.
    pub const fn data(option: &'static str, path: Option<&'a Path>) -> Self {
        let dash = Dash::Stdout;
        Self { option, path, dash }
    }

    /// A file, by `--option`.
    pub const fn file(option: &'static str, path: Option<&'a Path>) -> Self {
        let dash = Dash::Refused;
        Self { option, path, dash }
    }
}

/// Every output has a place of its own, or the one would overwrite the other.
///
/// # Errors
/// A usage error that names the option and what to do.
pub(super) fn apart(all: &[Wanted<'_>]) -> Result<(), Stop> {
    let mut places: Vec<(&'static str, Place)> = Vec::new();
    for wanted in all {
        let Some(path) = wanted.path else { continue };
        let option = wanted.option;
        if path == Path::new("-") && wanted.dash == Dash::Refused {
            let why = "it goes to a file: give its name (./- for a file of that name)";
            return Err(usage(option, "-", why));
        }
        let place = Place::of(path);
        if let Some((first, _)) = places.iter().find(|(_, other)| place.clashes(other)) {
            let why = match place {
                Place::Descriptor(1) => format!("--{first} goes to standard output already"),
                _ => format!("--{first} goes to the same file: give each a file of its own"),
            };
            return Err(usage(option, &path.display().to_string(), &why));
        }
        if let Some(other) = other_format(option, path) {
            let [own, ..] = formats(option) else { continue };
            let name = path.with_extension(own);
            let why = format!(
                "what it holds is {}, whatever its name says: not .{other} but {}",
                own.to_uppercase(),
                name.display()
            );
            return Err(usage(option, &path.display().to_string(), &why));
        }
        places.push((option, place));
    }
    Ok(())
}

/// The extensions of what `--option` writes; the first is the usual one.
fn formats(option: &str) -> &'static [&'static str] {
    match option {
        "csv" => &["csv"],
        "json" => &["json"],
        "junit" => &["xml"],
        "pcap" => &["pcapng", "pcap", "cap", "ntar"],
        "report" => &["html", "htm", "xhtml"],
        "svg" => &["svg"],
        "trace" => &["jsonl", "ndjson", "json"],
        _ => &[],
    }
}

/// Extensions that name a format, of which an output has at most its own.
const KNOWN: [&str; 27] = [
    "cap", "csv", "doc", "docx", "eps", "gif", "htm", "html", "jpeg", "jpg", "json", "jsonl", "md",
    "ndjson", "ntar", "pcap", "pcapng", "pdf", "png", "ps", "svg", "tsv", "webp", "xhtml", "xls",
    "xlsx", "xml",
];

/// The extension of `path`, if it names another format than that which `--option` writes.
fn other_format(option: &str, path: &Path) -> Option<String> {
    let extension = path.extension()?.to_str()?.to_ascii_lowercase();
    let own = formats(option);
    let other = !own.is_empty()
        && !own.contains(&extension.as_str())
        && KNOWN.contains(&extension.as_str());
    other.then_some(extension)
}

/// Whether `path` is standard output: `-`, or the system's names for it.
pub fn is_stdout(path: &Path) -> bool {
    Place::of(path) == Place::Descriptor(1)
}

/// A result that could not be written.
#[derive(Debug)]
pub struct OutputError {
    what: &'static str,
    path: PathBuf,
    error: io::Error,
    hint: Option<&'static str>,
}

impl OutputError {
    /// `what` ("report") could not be written to `path`.
    pub fn new(what: &'static str, path: &Path, error: io::Error) -> Self {
        Self {
            what,
            path: path.to_owned(),
            error,
            hint: None,
        }
    }

    /// With a sentence on what to do.
    #[must_use]
    pub fn with_hint(self, hint: &'static str) -> Self {
        Self {
            hint: Some(hint),
            ..self
        }
    }
}

impl std::fmt::Display for OutputError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "cannot write the {} to {}: {}",
            self.what,
            self.path.display(),
            self.error
        )?;
        self.hint.map_or(Ok(()), |hint| write!(f, "; {hint}"))
    }
}

impl std::error::Error for OutputError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.error)
    }
}

/// A file to be written. It is opened before a long run, so that a folder that cannot be
/// written shows at once; it gets its name only when it is complete, so that a full disk or an
/// interruption leaves an older file as it was.
#[derive(Debug)]
pub struct OutputFile {
    what: &'static str,
    path: PathBuf,
    /// Where the bytes go until then; `None` for devices and pipes, which are written directly.
    temporary: Option<PathBuf>,
    file: BufWriter<File>,
}

impl OutputFile {
    /// Open `path` for writing `what` ("report").
    ///
    /// # Errors
    /// If the folder does not exist or cannot be written, or `path` is a folder.
    pub fn create(what: &'static str, path: &Path) -> Result<Self, OutputError> {
        let fail = |error| OutputError::new(what, path, error);
        if let Some(file) = output_path::open_already(path) {
            let file = file.map_err(fail)?;
            return Ok(Self {
                what,
                path: path.to_owned(),
                temporary: None,
                file: BufWriter::new(file),
            });
        }
        // Through a link, so that the link stays one.
        let target = fs::canonicalize(path).unwrap_or_else(|_| path.to_owned());
        match fs::metadata(&target) {
            Ok(m) if m.is_dir() => return Err(fail(io::Error::other("it is a folder"))),
            Ok(m) if !m.is_file() => {
                let file = OpenOptions::new().write(true).open(&target).map_err(fail)?;
                let file = BufWriter::new(file);
                return Ok(Self {
                    what,
                    path: target,
                    temporary: None,
                    file,
                });
            }
            _ => {}
        }
        let name = target
            .file_name()
            .ok_or_else(|| fail(io::Error::other("no file name")))?;
        let temporary =
            target.with_file_name(format!(".{}.{}.tmp", name.display(), std::process::id()));
        let file = File::create(&temporary).map_err(fail)?;
        Ok(Self {
            what,
            path: target,
            temporary: Some(temporary),
            file: BufWriter::new(file),
        })
    }

    /// Everything is written: make it so.
    ///
    /// # Errors
    /// If the rest cannot be written; nothing has changed then.
    pub fn finish(mut self) -> Result<(), OutputError> {
        let result = self.file.flush().and_then(|()| match &self.temporary {
            Some(temporary) => fs::rename(temporary, &self.path),
            None => Ok(()),
        });
        match result {
            Ok(()) => {
                self.temporary = None;
                Ok(())
            }
            Err(error) => Err(OutputError::new(self.what, &self.path, error)),
        }
    }

    /// Write what fits of `bytes` at once, past any buffer: for who has to know what arrived.
    /// Not to be mixed with writing through the buffer.
    ///
    /// # Errors
    /// Those of the file.
    pub fn write_unbuffered(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.file.get_mut().write(bytes)
    }

    /// `error` ended the writing (unbuffered): the file is its first `len` bytes, if there are
    /// any. What to tell.
    #[must_use]
    pub fn broke_off(mut self, len: u64, error: io::Error) -> OutputError {
        let kept = self.temporary.as_ref().is_some_and(|temporary| {
            let cut = self.file.get_ref().set_len(len);
            len > 0 && cut.and_then(|()| fs::rename(temporary, &self.path)).is_ok()
        });
        if kept {
            self.temporary = None;
        }
        OutputError {
            what: self.what,
            path: self.path.clone(),
            error,
            hint: kept.then_some("what was written before that is kept"),
        }
    }

    /// Write all of `bytes` and finish.
    ///
    /// # Errors
    /// As for [`finish`](Self::finish).
    pub fn finish_with(mut self, bytes: &[u8]) -> Result<(), OutputError> {
        if let Err(error) = self.file.write_all(bytes) {
            return Err(OutputError::new(self.what, &self.path, error));
        }
        self.finish()
    }
}

impl Write for OutputFile {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        self.file.write(buf)
    }
    fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

impl Drop for OutputFile {
    fn drop(&mut self) {
        if let Some(temporary) = &self.temporary {
            // It may be gone already, and there is nobody to tell.
            let _ = fs::remove_file(temporary);
        }
    }
}

/// Where data for programs goes.
#[derive(Debug)]
pub enum Sink {
    /// Nowhere.
    None,
    /// Standard output; what people read goes to standard error then.
    Stdout,
    /// A file.
    File(OutputFile),
}

impl Sink {
    /// Nowhere without a `path`, standard output for `-` and what else [`is_stdout`].
    ///
    /// # Errors
    /// As for [`OutputFile::create`].
    pub fn open(what: &'static str, path: Option<&Path>) -> Result<Self, OutputError> {
        match path {
            None => Ok(Self::None),
            Some(path) if is_stdout(path) => Ok(Self::Stdout),
            Some(path) => OutputFile::create(what, path).map(Self::File),
        }
    }

    /// Whether it is standard output.
    pub const fn is_stdout(&self) -> bool {
        matches!(self, Self::Stdout)
    }

    /// Write what `text` gives, if it goes anywhere; what is for standard output comes back.
    ///
    /// # Errors
    /// As for [`OutputFile::finish`].
    pub fn finish_with(self, text: impl FnOnce() -> String) -> Result<String, OutputError> {
        match self {
            Self::None => Ok(String::new()),
            Self::Stdout => Ok(text()),
            Self::File(file) => file.finish_with(text().as_bytes()).map(|()| String::new()),
        }
    }
}

/// `text` with its lines wrapped between words where they are wider than `columns`. What colours them
/// takes no room.
pub(super) fn wrapped(text: &str, columns: Option<usize>) -> String {
    let Some(columns) = columns else {
        return text.to_owned();
    };
    let mut out = String::with_capacity(text.len());
    for line in text.split_inclusive('\n') {
        if width(line) <= columns {
            out += line;
            continue;
        }
        let mut at = 0;
        for word in line.split_inclusive(' ') {
            let wide = width(word.trim_end());
            if at > 0 && at + wide > columns {
                out.truncate(out.trim_end_matches(' ').len());
                out.push('\n');
                at = 0;
            }
            out += word;
            at += width(word);
        }
    }
    out
}

/// Columns that `text` takes on a screen.
fn width(text: &str) -> usize {
    let mut columns = 0;
    let mut escaped = false;
    for c in text.chars() {
        match (escaped, c) {
            (true, 'm') => escaped = false,
            (false, '\x1b') => escaped = true,
            (true, _) | (false, '\n') => {}
            (false, _) => columns += 1,
        }
    }
    columns
}

/// Write `text`; that the reader has gone (`| head`) is fine, other errors are not.
///
/// # Errors
/// A full disk and the like.
pub fn print(out: &mut dyn Write, text: &str) -> Result<(), OutputError> {
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() != io::ErrorKind::BrokenPipe => Err(OutputError {
            what: "results",
            path: PathBuf::from("standard output"),
            error: e,
            hint: None,
        }),
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let path =
            std::env::temp_dir().join(format!("narrows-output-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        fs::create_dir_all(&path).unwrap();
        path
    }

    fn files(folder: &Path) -> Vec<String> {
        let mut names: Vec<String> = fs::read_dir(folder)
            .unwrap()
            .map(|e| e.unwrap().file_name().display().to_string())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn a_file_appears_only_when_complete() {
        let dir = folder("atomic");
        let path = dir.join("r.html");
        fs::write(&path, "old").unwrap();
        let mut f = OutputFile::create("report", &path).unwrap();
        f.write_all(b"half").unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        drop(f);
        assert_eq!(fs::read_to_string(&path).unwrap(), "old");
        assert_eq!(files(&dir), ["r.html"]);
        OutputFile::create("report", &path)
            .unwrap()
            .finish_with(b"new")
            .unwrap();
        assert_eq!(fs::read_to_string(&path).unwrap(), "new");
        assert_eq!(files(&dir), ["r.html"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_cannot_be_written_is_said() {
        let dir = folder("errors");
        let e = OutputFile::create("report", &dir).unwrap_err().to_string();
        assert!(
            e.contains("cannot write the report") && e.contains("folder"),
            "{e}"
        );
        let missing = dir.join("no/such/r.csv");
        let e = OutputFile::create("CSV", &missing).unwrap_err().to_string();
        assert!(e.contains("CSV") && e.contains("no/such"), "{e}");
        fs::remove_dir_all(&dir).unwrap();
    }

    #[test]
    fn what_broke_off_keeps_its_beginning_if_it_has_one() {
        let dir = folder("broke-off");
        let path = dir.join("r.pcapng");
        let full = || io::Error::from(io::ErrorKind::StorageFull);
        let broken = |text: &[u8], len| {
            let mut f = OutputFile::create("capture", &path).unwrap();
            assert_eq!(f.write_unbuffered(text).unwrap(), text.len());
            f.broke_off(len, full()).to_string()
        };
        let said = broken(b"block, blo", 6);
        assert!(
            said.contains("the capture to") && said.contains("kept"),
            "{said}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"block,");
        // Nothing does not take the place of something.
        let said = broken(b"bl", 0);
        assert!(
            said.contains("r.pcapng") && !said.contains("kept"),
            "{said}"
        );
        assert_eq!(fs::read(&path).unwrap(), b"block,");
        assert_eq!(files(&dir), ["r.pcapng"]);
        fs::remove_dir_all(&dir).unwrap();
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn a_full_disk_is_said() {
        let f = OutputFile::create("CSV", Path::new("/dev/full")).unwrap();
        let e = f.finish_with(b"x").unwrap_err().to_string();
        assert!(e.contains("/dev/full") && e.contains("space"), "{e}");
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert!(print(&mut full, "x").is_err());
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = "one two three four\n\nshort\nanother-long-word-here so\n";
        assert_eq!(wrapped(text, None), text);
        assert_eq!(
            wrapped(text, Some(10)),
            "one two\nthree four\n\nshort\nanother-long-word-here\nso\n"
        );
        assert_eq!(wrapped(text, Some(18)).lines().next(), text.lines().next());
        let coloured = "\x1b[31mred\x1b[0m one\n";
        assert_eq!(wrapped(coloured, Some(7)), coloured);
        assert_eq!(wrapped(coloured, Some(6)), coloured.replace(' ', "\n"));
    }

    #[test]
    fn a_reader_that_left_is_no_error() {
        struct Gone;
        impl Write for Gone {
            fn write(&mut self, _: &[u8]) -> io::Result<usize> {
                Err(io::ErrorKind::BrokenPipe.into())
            }
            fn flush(&mut self) -> io::Result<()> {
                Ok(())
            }
        }
        assert!(print(&mut Gone, "x").is_ok());
    }
}
