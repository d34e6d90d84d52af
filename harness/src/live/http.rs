//! A web server for the files of a folder: HTTP/1.1 by hyper, GET and HEAD, one range, nothing
//! outside the folder.

use super::serve::accept_loop;
use hyper::body::{Body, Bytes, Frame, Incoming, SizeHint};
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HeaderValue, LOCATION, RANGE,
};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use narrows::driver::tokio::{TcpListener, TcpStream};
use std::convert::Infallible;
use std::fs::{self, File};
use std::future::Future;
use std::io::{self, Read, Seek, SeekFrom};
use std::path::{Path, PathBuf};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::task::{Context, Poll};
use tokio::task::JoinHandle;

/// Bytes of a file that are read in one go.
const CHUNK: u64 = 256 << 10;

/// Serve the files of `root`, a folder, to every connection of `listener`.
///
/// # Errors
/// What ended it.
pub async fn run(root: PathBuf, listener: TcpListener, served: Arc<AtomicU64>) -> io::Result<()> {
    let root: Arc<Path> = fs::canonicalize(root)?.into();
    accept_loop(listener, served, move |stream, _| {
        connection(root.clone(), stream)
    })
    .await
}

async fn connection(root: Arc<Path>, stream: TcpStream) {
    // A response's head goes out without waiting for the acknowledgement of what was before it.
    let _ = stream.set_nodelay(true);
    let service = service_fn(move |request| {
        let root = root.clone();
        async move { Ok::<_, Infallible>(respond(&root, request).await) }
    });
    // What a peer does wrong is answered by hyper, and ends his connection only.
    let _ = http1::Builder::new()
        .serve_connection(TokioIo::new(stream), service)
        .await;
}

/// What is sent.
#[derive(Debug)]
pub(super) enum Content {
    /// These bytes.
    Text(Bytes),
    /// Nothing, or nothing more.
    Nothing,
    /// So many bytes of a file.
    File(File, u64),
    /// The same, while a chunk is read on another thread.
    Reading(JoinHandle<io::Result<(File, Bytes)>>, u64),
}

impl Body for Content {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        loop {
            match std::mem::replace(&mut *self, Self::Nothing) {
                Self::Nothing | Self::File(_, 0) => return Poll::Ready(None),
                Self::Text(text) => return Poll::Ready(Some(Ok(Frame::data(text)))),
                Self::File(file, left) => {
                    let reading = tokio::task::spawn_blocking(move || read(file, left.min(CHUNK)));
                    *self = Self::Reading(reading, left);
                }
                Self::Reading(mut reading, left) => {
                    let Poll::Ready(done) = Pin::new(&mut reading).poll(cx) else {
                        *self = Self::Reading(reading, left);
                        return Poll::Pending;
                    };
                    let (file, bytes) = done.map_err(io::Error::other).and_then(|r| r)?;
                    *self = Self::File(file, left - bytes.len() as u64);
                    return Poll::Ready(Some(Ok(Frame::data(bytes))));
                }
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        matches!(self, Self::Nothing | Self::File(_, 0))
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(match self {
            Self::Nothing => 0,
            Self::Text(text) => text.len() as u64,
            Self::File(_, left) | Self::Reading(_, left) => *left,
        })
    }
}

/// The next `count` bytes of `file`. That it was cut short meanwhile is an error: the length has
/// been promised.
fn read(mut file: File, count: u64) -> io::Result<(File, Bytes)> {
    let mut bytes = Vec::with_capacity(count as usize);
    (&mut file).take(count).read_to_end(&mut bytes)?;
    if (bytes.len() as u64) < count {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok((file, bytes.into()))
}

async fn respond(root: &Arc<Path>, request: Request<Incoming>) -> Response<Content> {
    let head = request.method() == Method::HEAD;
    if !head && request.method() != Method::GET {
        let mut response = plain(StatusCode::METHOD_NOT_ALLOWED);
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
        return response;
    }
    let range = request.headers().get(RANGE).cloned();
    let path = request.uri().path().to_owned();
    let root = root.clone();
    // The disk may take its time, and everything else is on this thread.
    let found = tokio::task::spawn_blocking(move || find(&root, &path)).await;
    let mut response = match found {
        Ok(Ok(Found::File { file, len, kind })) => whole_or_part(file, len, kind, range.as_ref()),
        Ok(Ok(Found::Folder(page))) => with_type(
            Response::new(Content::Text(page.into())),
            "text/html; charset=utf-8",
        ),
        Ok(Ok(Found::Elsewhere(path))) => match HeaderValue::from_str(&path) {
            Ok(path) => {
                let mut response = plain(StatusCode::MOVED_PERMANENTLY);
                response.headers_mut().insert(LOCATION, path);
                response
            }
            Err(_) => plain(StatusCode::NOT_FOUND),
        },
        Ok(Err(status)) => plain(status),
        Err(_) => plain(StatusCode::INTERNAL_SERVER_ERROR),
    };
    if head {
        let length = HeaderValue::from(response.body().size_hint().lower());
        response.headers_mut().insert(CONTENT_LENGTH, length);
        *response.body_mut() = Content::Nothing;
    }
    response
}

/// A response that says what it is.
fn plain(status: StatusCode) -> Response<Content> {
    let text = format!("{status}\n");
    let mut response = Response::new(Content::Text(text.into()));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn with_type(mut response: Response<Content>, kind: &'static str) -> Response<Content> {
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn whole_or_part(
    mut file: File,
    len: u64,
    kind: &'static str,
    range: Option<&HeaderValue>,
) -> Response<Content> {
    let asked = range.and_then(|r| r.to_str().ok()).map(|r| part(r, len));
    let (first, count, status) = match asked {
        None | Some(Part::Whole) => (0, len, StatusCode::OK),
        Some(Part::Bytes(first, last)) => (first, last - first + 1, StatusCode::PARTIAL_CONTENT),
        Some(Part::Outside) => {
            let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
            if let Ok(value) = HeaderValue::from_str(&format!("bytes */{len}")) {
                response.headers_mut().insert(CONTENT_RANGE, value);
            }
            return response;
        }
    };
    if file.seek(SeekFrom::Start(first)).is_err() {
        return plain(StatusCode::INTERNAL_SERVER_ERROR);
    }
    let mut response = with_type(Response::new(Content::File(file, count)), kind);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let last = first + count - 1;
        if let Ok(value) = HeaderValue::from_str(&format!("bytes {first}-{last}/{len}")) {
            headers.insert(CONTENT_RANGE, value);
        }
    }
    response
}

/// What a Range header asks for (RFC 9110 section 14.1.2).
#[derive(Debug, PartialEq, Eq)]
enum Part {
    /// Everything: several ranges, or none that we understand.
    Whole,
    /// From the first to the last, both included.
    Bytes(u64, u64),
    /// Nothing that is there.
    Outside,
}

fn part(range: &str, len: u64) -> Part {
    let digits = |t: &str| t.bytes().all(|b| b.is_ascii_digit());
    let Some((first, last)) = range
        .strip_prefix("bytes=")
        .and_then(|r| r.trim().split_once('-'))
        .filter(|(first, last)| digits(first) && digits(last))
    else {
        return Part::Whole;
    };
    // A number too long for 64 bits is beyond every file.
    let number = |t: &str| t.parse().unwrap_or(u64::MAX);
    match (first.is_empty(), last.is_empty()) {
        (true, true) => Part::Whole,
        (true, false) => match number(last).min(len) {
            0 => Part::Outside,
            n => Part::Bytes(len - n, len - 1),
        },
        (false, open) => {
            let first = number(first);
            let last = if open { u64::MAX } else { number(last) };
            if last < first {
                Part::Whole
            } else if first >= len {
                Part::Outside
            } else {
                Part::Bytes(first, last.min(len - 1))
            }
        }
    }
}

/// What a path names.
enum Found {
    File {
        file: File,
        len: u64,
        kind: &'static str,
    },
    /// A list of what is in it.
    Folder(String),
    /// A folder without the slash at its end, by which relative links go.
    Elsewhere(String),
}

fn find(root: &Path, path: &str) -> Result<Found, StatusCode> {
    let status = |e: io::Error| match e.kind() {
        io::ErrorKind::NotFound | io::ErrorKind::NotADirectory => StatusCode::NOT_FOUND,
        io::ErrorKind::PermissionDenied => StatusCode::FORBIDDEN,
        _ => StatusCode::INTERNAL_SERVER_ERROR,
    };
    let text = decode(path).ok_or(StatusCode::BAD_REQUEST)?;
    let mut at = root.to_owned();
    for step in text.split('/').filter(|s| !s.is_empty() && *s != ".") {
        if step == ".." || step.contains('\0') {
            return Err(StatusCode::NOT_FOUND);
        }
        at.push(step);
    }
    // A link may lead out of the folder.
    let mut at = fs::canonicalize(at).map_err(status)?;
    if !at.starts_with(root) {
        return Err(StatusCode::NOT_FOUND);
    }
    if fs::metadata(&at).map_err(status)?.is_dir() {
        if !path.ends_with('/') {
            // One slash at the beginning: two would name another server.
            let own = text.trim_start_matches('/');
            return Ok(Found::Elsewhere(format!("/{}/", encode(own))));
        }
        match fs::canonicalize(at.join("index.html")) {
            Ok(index) if index.starts_with(root) && index.is_file() => at = index,
            _ => return list(&at, &text).map(Found::Folder).map_err(status),
        }
    }
    // A pipe would wait for its other end.
    if !fs::metadata(&at).map_err(status)?.is_file() {
        return Err(StatusCode::FORBIDDEN);
    }
    let file = File::open(&at).map_err(status)?;
    let len = file.metadata().map_err(status)?.len();
    let kind = kind(&at);
    Ok(Found::File { file, len, kind })
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

fn list(folder: &Path, title: &str) -> io::Result<String> {
    let mut names: Vec<String> = fs::read_dir(folder)?
        .filter_map(|entry| {
            let entry = entry.ok()?;
            let folder = fs::metadata(entry.path()).is_ok_and(|m| m.is_dir());
            let name = entry.file_name().into_string().ok()?;
            Some(if folder { name + "/" } else { name })
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

    #[test]
    fn ranges() {
        for (range, expected) in [
            ("bytes=0-0", Part::Bytes(0, 0)),
            ("bytes=2-5", Part::Bytes(2, 5)),
            ("bytes=5-", Part::Bytes(5, 9)),
            ("bytes=5-99", Part::Bytes(5, 9)),
            ("bytes=-3", Part::Bytes(7, 9)),
            ("bytes=-30", Part::Bytes(0, 9)),
            ("bytes=10-", Part::Outside),
            ("bytes=-0", Part::Outside),
            ("bytes=99999999999999999999-", Part::Outside),
            ("bytes=5-2", Part::Whole),
            ("bytes=-", Part::Whole),
            ("bytes=0-1,3-4", Part::Whole),
            ("bytes=a-b", Part::Whole),
            ("lines=0-1", Part::Whole),
        ] {
            assert_eq!(part(range, 10), expected, "{range}");
        }
        assert_eq!(part("bytes=0-", 0), Part::Outside);
        assert_eq!(part("bytes=-1", 0), Part::Outside);
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
        let base = std::env::temp_dir().join(format!("narrows-http-{}", std::process::id()));
        let _ = fs::remove_dir_all(&base);
        fs::create_dir_all(base.join("root/sub")).unwrap();
        fs::write(base.join("secret"), "s").unwrap();
        fs::write(base.join("root/a b.txt"), "text").unwrap();
        std::os::unix::fs::symlink("../secret", base.join("root/link")).unwrap();
        let root = fs::canonicalize(base.join("root")).unwrap();
        for path in [
            "/../secret",
            "/%2e%2e/secret",
            "/sub/../../secret",
            "/link",
            "/no",
            "/a%20b.txt/x",
        ] {
            assert_eq!(
                find(&root, path).err(),
                Some(StatusCode::NOT_FOUND),
                "{path}"
            );
        }
        for (path, len) in [("/a%20b.txt", 4), ("//./a%20b.txt", 4)] {
            assert!(
                matches!(find(&root, path), Ok(Found::File { len: l, .. }) if l == len),
                "{path}"
            );
        }
        assert!(matches!(find(&root, "/sub"), Ok(Found::Elsewhere(p)) if p == "/sub/"));
        let Ok(Found::Folder(page)) = find(&root, "/") else {
            panic!("no list");
        };
        assert!(
            page.contains("<a href=\"./a%20b.txt\">a b.txt</a>"),
            "{page}"
        );
        fs::remove_dir_all(&base).unwrap();
    }
}
