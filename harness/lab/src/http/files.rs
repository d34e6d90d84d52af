//! What a path names: a file, or a list of what is in a folder.

use super::content::{Extent, Piece};
use hyper::StatusCode;
use nix::errno::Errno;
use nix::fcntl::{OFlag, OpenHow, ResolveFlag, openat2};
use nix::libc::RESOLVE_CACHED;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsRawFd;
use std::path::{Path, PathBuf};

/// Bytes of a path, with what ends it, that the kernel takes.
const PATH_MAX: usize = 4096;

/// The folder that is served.
#[derive(Debug)]
pub(super) struct Root {
    path: PathBuf,
    folder: File,
}

/// What a path names.
#[derive(Debug)]
pub(super) enum Found {
    /// All of a file.
    File { piece: Piece, kind: &'static str },
    /// A list of what is in it.
    Folder(String),
    /// A folder without the slash at its end, by which relative links go.
    Elsewhere(String),
}

impl Root {
    pub(super) fn new(path: &Path) -> io::Result<Self> {
        let path = fs::canonicalize(path)?;
        let folder = File::open(&path)?;
        Ok(Self { path, folder })
    }

    /// What `path`, as it stands in a request, names. Waits for the disk.
    ///
    /// # Errors
    /// How to answer if it names nothing that is served.
    pub(super) fn find(&self, path: &str) -> Result<Found, StatusCode> {
        let text = decode(path).ok_or(StatusCode::BAD_REQUEST)?;
        let within = within(&text).ok_or(StatusCode::NOT_FOUND)?;
        if within.as_os_str().len() >= PATH_MAX {
            return Err(StatusCode::URI_TOO_LONG);
        }
        let mut at = match self.look(&self.path.join(within))? {
            Served::File(at) => return open(&at),
            Served::Folder(at) => at,
        };
        if !path.ends_with('/') {
            // One slash at the beginning: two would name another server.
            let own = text.trim_start_matches('/');
            return Ok(Found::Elsewhere(format!("/{}/", encode(own))));
        }
        at.push("index.html");
        if let Ok(Served::File(index)) = self.look(&at) {
            return open(&index);
        }
        at.pop();
        let page = self.list(&at, &text).map_err(status)?;
        Ok(Found::Folder(page))
    }

    /// The same for a file that can be told without waiting. `None`: ask [`find`](Self::find).
    pub(super) fn find_at_once(&self, path: &str) -> Option<Found> {
        let text = decode(path)?;
        let within = within(&text).filter(|w| !w.as_os_str().is_empty() && !path.ends_with('/'))?;
        // Looked at before it is opened: opening a pipe, or a tape, does something.
        let flags = OFlag::O_PATH | OFlag::O_CLOEXEC;
        let bounds = ResolveFlag::RESOLVE_BENEATH | ResolveFlag::RESOLVE_NO_MAGICLINKS;
        let bounds = bounds | ResolveFlag::from_bits_retain(RESOLVE_CACHED);
        let how = OpenHow::new().flags(flags).resolve(bounds);
        let place = openat2(&self.folder, &within, how).ok()?;
        let place = File::from(place);
        let meta = place.metadata().ok().filter(fs::Metadata::is_file)?;
        let file = File::open(format!("/proc/self/fd/{}", place.as_raw_fd())).ok()?;
        let kind = kind(&within);
        Some(whole(file, meta.len(), kind))
    }

    /// What is served of `at`, a place below the folder.
    fn look(&self, at: &Path) -> Result<Served, StatusCode> {
        // A link may lead out of the folder.
        let at = fs::canonicalize(at).map_err(status)?;
        if !at.starts_with(&self.path) {
            return Err(StatusCode::NOT_FOUND);
        }
        let kind = fs::metadata(&at).map_err(status)?.file_type();
        match (kind.is_dir(), kind.is_file()) {
            (true, _) => Ok(Served::Folder(at)),
            (_, true) => Ok(Served::File(at)),
            // A pipe would wait for its other end.
            _ => Err(StatusCode::FORBIDDEN),
        }
    }

    /// A page of links to what is served in `folder`, and to nothing else.
    fn list(&self, folder: &Path, title: &str) -> io::Result<String> {
        let mut names: Vec<String> = fs::read_dir(folder)?
            .filter_map(|entry| {
                let entry = entry.ok()?;
                let name = entry.file_name().into_string().ok()?;
                let served = self.look(&entry.path()).ok()?;
                let (at, name) = match served {
                    Served::File(at) => (at, name),
                    Served::Folder(at) => (at, name + "/"),
                };
                // It may not be ours to read.
                File::open(at).ok().map(|_| name)
            })
            .collect();
        names.sort();
        let mut page = format!(
            "<!doctype html><meta charset=utf-8><title>{0}</title><h1>{0}</h1><ul>\n",
            escape(title)
        );
        for name in names {
            page += &format!(
                "<li><a href=\"./{}\">{}</a>\n",
                encode(&name),
                escape(&name)
            );
        }
        page += "</ul>\n";
        Ok(page)
    }
}

/// What can be answered with, and where it is.
enum Served {
    File(PathBuf),
    Folder(PathBuf),
}

fn open(at: &Path) -> Result<Found, StatusCode> {
    let file = File::open(at).map_err(status)?;
    let len = file.metadata().map_err(status)?.len();
    Ok(whole(file, len, kind(at)))
}

fn whole(file: File, len: u64, kind: &'static str) -> Found {
    let extent = Extent::new(0, len);
    let piece = Piece { file, extent };
    Found::File { piece, kind }
}

/// What a failure of the file system is to the one who asked.
fn status(e: io::Error) -> StatusCode {
    match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
        io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        io::ErrorKind::InvalidFilename => StatusCode::URI_TOO_LONG,
        _ => match e.raw_os_error().map(Errno::from_raw) {
            // Links in a circle name nothing.
            Some(Errno::ELOOP) => StatusCode::NOT_FOUND,
            // Descriptors come back when others have been answered.
            Some(Errno::EMFILE | Errno::ENFILE) => StatusCode::SERVICE_UNAVAILABLE,
            _ => StatusCode::INTERNAL_SERVER_ERROR,
        },
    }
}

/// The place below the folder that is meant. `None`: it leads out of it.
fn within(text: &str) -> Option<PathBuf> {
    let mut within = PathBuf::new();
    for step in text.split('/').filter(|s| !s.is_empty() && *s != ".") {
        if step == ".." || step.contains('\0') {
            return None;
        }
        within.push(step);
    }
    Some(within)
}

/// `%41` is `A`. `None`: it is no text.
fn decode(path: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(path.len());
    let mut rest = path.bytes();
    while let Some(byte) = rest.next() {
        if byte != b'%' {
            bytes.push(byte);
            continue;
        }
        let mut digit = || char::from(rest.next()?).to_digit(16);
        bytes.push((digit()? * 16 + digit()?) as u8);
    }
    String::from_utf8(bytes).ok()
}

fn encode(name: &str) -> String {
    let mut out = String::new();
    for byte in name.bytes() {
        match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' | b'~' | b'/' => {
                out.push(char::from(byte));
            }
            _ => out += &format!("%{byte:02X}"),
        }
    }
    out
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;")
        .replace('<', "&lt;")
        .replace('>', "&gt;")
        .replace('"', "&quot;")
}

fn kind(path: &Path) -> &'static str {
    let extension = path.extension().and_then(|e| e.to_str());
    match extension.map(str::to_ascii_lowercase).as_deref() {
        Some("html" | "htm") => "text/html; charset=utf-8",
        Some("css") => "text/css; charset=utf-8",
        Some("js") => "text/javascript; charset=utf-8",
        Some("txt" | "md" | "csv" | "rs" | "log") => "text/plain; charset=utf-8",
        Some("json") => "application/json",
        Some("svg") => "image/svg+xml",
        Some("png") => "image/png",
        Some("jpg" | "jpeg") => "image/jpeg",
        Some("pdf") => "application/pdf",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::sys::stat::Mode;
    use nix::unistd::mkfifo;
    use std::os::unix::fs::symlink;

    /// A folder, `root` in it, which is gone when dropped.
    struct Site {
        base: PathBuf,
        root: Root,
    }

    impl Site {
        fn new(name: &str) -> Self {
            let base = format!("narrows-http-{name}-{}", std::process::id());
            let base = std::env::temp_dir().join(base);
            let _ = fs::remove_dir_all(&base);
            fs::create_dir_all(base.join("root/sub")).unwrap();
            fs::write(base.join("secret"), "s").unwrap();
            fs::write(base.join("root/a b.txt"), "text").unwrap();
            symlink("../secret", base.join("root/link")).unwrap();
            let root = Root::new(&base.join("root")).unwrap();
            Self { base, root }
        }

        fn page(&self, path: &str) -> String {
            match self.root.find(path) {
                Ok(Found::Folder(page)) => page,
                other => panic!("no list: {other:?}"),
            }
        }
    }

    impl Drop for Site {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.base);
        }
    }

    #[test]
    fn percent_signs() {
        assert_eq!(decode("/a%20b%C3%A4").as_deref(), Some("/a b\u{e4}"));
        assert_eq!(decode("/%2e%2E/").as_deref(), Some("/../"));
        for bad in ["/%", "/%4", "/%zz", "/%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
        let name = "a b\u{e4}?#\"<.txt";
        assert_eq!(decode(&encode(name)).as_deref(), Some(name));
    }

    #[test]
    fn nothing_outside_the_folder() {
        let site = Site::new("outside");
        symlink("/etc", site.base.join("root/etc")).unwrap();
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/sub/../../secret",
            "/link",
            "/etc/passwd",
            "/no",
            "/a%20b.txt/x",
            "/a%00b",
        ] {
            let found = site.root.find(path);
            assert_eq!(found.err(), Some(StatusCode::NOT_FOUND), "{path}");
            assert!(site.root.find_at_once(path).is_none(), "{path}");
        }
        for path in ["/a%20b.txt", "//./a%20b.txt"] {
            for found in [site.root.find(path).ok(), site.root.find_at_once(path)] {
                let Some(Found::File { piece, kind }) = found else {
                    panic!("{path} is not found");
                };
                assert_eq!(piece.extent, Extent::new(0, 4));
                assert_eq!(kind, "text/plain; charset=utf-8");
            }
        }
        let found = site.root.find("/sub");
        assert!(matches!(found, Ok(Found::Elsewhere(p)) if p == "/sub/"));
        let page = site.page("/");
        let line = "<a href=\"./a%20b.txt\">a b.txt</a>";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn a_list_has_what_is_served_and_nothing_else() {
        let site = Site::new("list");
        let at = |name: &str| site.base.join("root").join(name);
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        mkfifo(&at("pipe"), mode).unwrap();
        symlink("nowhere", at("dangling")).unwrap();
        symlink("circle", at("circle")).unwrap();
        symlink("..", at("up")).unwrap();
        symlink("a b.txt", at("inside")).unwrap();
        symlink("sub", at("folder")).unwrap();
        let _socket = std::os::unix::net::UnixListener::bind(at("socket")).unwrap();
        let page = site.page("/");
        let links: Vec<&str> = page.split("href=\"").skip(1).collect();
        let links: Vec<&str> = links.iter().map(|l| l.split('"').next().unwrap()).collect();
        assert_eq!(links, ["./a%20b.txt", "./folder/", "./inside", "./sub/"]);
        // As it says, so it is.
        for entry in fs::read_dir(at("")).unwrap() {
            let name = entry.unwrap().file_name().into_string().unwrap();
            let listed = links
                .iter()
                .any(|l| l.trim_matches(['.', '/']) == encode(&name));
            let found = site.root.find(&format!("/{}", encode(&name)));
            assert_eq!(found.is_ok(), listed, "{name}: {found:?}");
        }
    }

    #[test]
    fn what_is_refused_and_how() {
        let site = Site::new("refused");
        let root = site.base.join("root");
        let mode = Mode::S_IRUSR | Mode::S_IWUSR;
        mkfifo(&root.join("pipe"), mode).unwrap();
        symlink("circle", root.join("circle")).unwrap();
        let long = "/x".repeat(3_500);
        for (path, expected) in [
            ("/%zz", StatusCode::BAD_REQUEST),
            ("/pipe", StatusCode::FORBIDDEN),
            ("/circle", StatusCode::NOT_FOUND),
            (&"/".repeat(7_000), StatusCode::OK),
            (&format!("/{}", "x".repeat(7_000)), StatusCode::URI_TOO_LONG),
            (&format!("/{}", "x".repeat(300)), StatusCode::URI_TOO_LONG),
            (&long, StatusCode::URI_TOO_LONG),
        ] {
            let found = site.root.find(path).err().unwrap_or(StatusCode::OK);
            assert_eq!(found, expected, "{:.20}", path);
            assert!(site.root.find_at_once(path).is_none(), "{:.20}", path);
        }
        let busy = io::Error::from(Errno::EMFILE);
        assert_eq!(status(busy), StatusCode::SERVICE_UNAVAILABLE);
    }
}
