//! A web server for the files of a folder: HTTP/1.1 by hyper, GET and HEAD, one range, nothing
//! outside the folder.

mod connection;
mod content;
mod files;
mod range;

use super::serve::accept_loop;
use connection::Ended;
pub(super) use content::Content;
use content::{Extent, Piece};
use files::{Found, Root};
use hyper::body::Body;
use hyper::header::{
    ACCEPT_RANGES, ALLOW, CONTENT_LENGTH, CONTENT_RANGE, CONTENT_TYPE, HOST, HeaderValue, IF_RANGE,
    LOCATION, RANGE,
};
use hyper::{Method, Request, Response, StatusCode, Version};
use narrows::driver::tokio::{TcpListener, TcpStream};
use range::{Part, part};
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;

/// Serve the files of `root`, a folder, to every connection of `listener`.
///
/// # Errors
/// What ended it.
pub async fn run(root: PathBuf, listener: TcpListener, served: Arc<AtomicU64>) -> io::Result<()> {
    let root = Arc::new(Root::new(&root)?);
    accept_loop(listener, served, move |stream, _| {
        connection(root.clone(), stream)
    })
    .await
}

async fn connection(root: Arc<Root>, stream: TcpStream) {
    // A response's head goes out without waiting for the acknowledgement of what was before it.
    let _ = stream.set_nodelay(true);
    let answer = |request| {
        let root = root.clone();
        async move { respond(&root, request).await }
    };
    let (stream, ended) = connection::serve(stream, answer).await;
    if ended == Ended::Stalled {
        // What he does not want is not kept for him.
        let _ = stream.set_zero_linger();
    }
}

async fn respond<B>(root: &Arc<Root>, request: Request<B>) -> Response<Content> {
    if let Some(refusal) = refusal(&request) {
        return refusal;
    }
    let head = request.method() == Method::HEAD;
    let range = match head {
        true => None,
        false => asked_range(&request),
    };
    let path = request.uri().path();
    let found = match root.find_at_once(path) {
        Some(found) => Ok(found),
        None => {
            let (root, path) = (root.clone(), path.to_owned());
            // The disk may take its time, and everything else is on this thread.
            let found = tokio::task::spawn_blocking(move || root.find(&path)).await;
            found.unwrap_or(Err(StatusCode::INTERNAL_SERVER_ERROR))
        }
    };
    let mut response = match found {
        Ok(Found::File { piece, kind }) => whole_or_part(piece, kind, range),
        Ok(Found::Folder(page)) => {
            let page = Response::new(Content::Text(page.into()));
            with_type(page, "text/html; charset=utf-8")
        }
        Ok(Found::Elsewhere(path)) => match HeaderValue::from_str(&path) {
            Ok(path) => {
                let mut response = plain(StatusCode::MOVED_PERMANENTLY);
                response.headers_mut().insert(LOCATION, path);
                response
            }
            Err(_) => plain(StatusCode::NOT_FOUND),
        },
        Err(status) => plain(status),
    };
    if head {
        let length = HeaderValue::from(response.body().size_hint().lower());
        response.headers_mut().insert(CONTENT_LENGTH, length);
        *response.body_mut() = Content::Nothing;
    }
    response
}

/// What is answered to a request that names nothing, or asks for something else than to read.
fn refusal<B>(request: &Request<B>) -> Option<Response<Content>> {
    // RFC 9112 section 3.2.
    let hosts = request.headers().get_all(HOST).iter().count();
    let missing = hosts == 0 && request.version() == Version::HTTP_11;
    if missing || hosts > 1 {
        return Some(plain(StatusCode::BAD_REQUEST));
    }
    // RFC 9110 section 9.1: what nobody knows is not implemented, what others do is not allowed.
    let status = match *request.method() {
        // RFC 9112 section 3.2.4: a star is for OPTIONS.
        Method::GET | Method::HEAD if !request.uri().path().starts_with('/') => {
            StatusCode::BAD_REQUEST
        }
        Method::GET | Method::HEAD => return None,
        Method::POST
        | Method::PUT
        | Method::DELETE
        | Method::CONNECT
        | Method::OPTIONS
        | Method::TRACE
        | Method::PATCH => StatusCode::METHOD_NOT_ALLOWED,
        _ => StatusCode::NOT_IMPLEMENTED,
    };
    let mut response = plain(status);
    if status == StatusCode::METHOD_NOT_ALLOWED {
        let allowed = HeaderValue::from_static("GET, HEAD");
        response.headers_mut().insert(ALLOW, allowed);
    }
    Some(response)
}

/// The range that counts: with If-Range only if the file is still as it was (RFC 9110 section
/// 13.1.5), and we say nothing by which that could be known.
fn asked_range<B>(request: &Request<B>) -> Option<&str> {
    let headers = request.headers();
    if headers.contains_key(IF_RANGE) {
        return None;
    }
    headers.get(RANGE).and_then(|range| range.to_str().ok())
}

/// A response that says what it is.
fn plain(status: StatusCode) -> Response<Content> {
    answer_text(status, format!("{status}\n"))
}

fn answer_text(status: StatusCode, text: String) -> Response<Content> {
    let mut response = Response::new(Content::Text(text.into()));
    *response.status_mut() = status;
    with_type(response, "text/plain; charset=utf-8")
}

fn with_type(mut response: Response<Content>, kind: &'static str) -> Response<Content> {
    let kind = HeaderValue::from_static(kind);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

fn whole_or_part(piece: Piece, kind: &'static str, range: Option<&str>) -> Response<Content> {
    let Piece { file, extent } = piece;
    let len = extent.left;
    let (extent, status) = match range.map(|range| part(range, len)) {
        None | Some(Part::Whole) => (extent, StatusCode::OK),
        Some(Part::Bytes(first, last)) => {
            let left = last - first + 1;
            (Extent::new(first, left), StatusCode::PARTIAL_CONTENT)
        }
        Some(Part::Outside) => {
            let mut response = plain(StatusCode::RANGE_NOT_SATISFIABLE);
            if let Ok(value) = HeaderValue::from_str(&format!("bytes */{len}")) {
                response.headers_mut().insert(CONTENT_RANGE, value);
            }
            return response;
        }
    };
    let content = Content::File(Piece { file, extent });
    let mut response = with_type(Response::new(content), kind);
    *response.status_mut() = status;
    let headers = response.headers_mut();
    headers.insert(ACCEPT_RANGES, HeaderValue::from_static("bytes"));
    if status == StatusCode::PARTIAL_CONTENT {
        let Extent { at, left, .. } = extent;
        let value = format!("bytes {at}-{}/{len}", at + left - 1);
        if let Ok(value) = HeaderValue::from_str(&value) {
            headers.insert(CONTENT_RANGE, value);
        }
    }
    response
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn asked(request: &[(&'static str, &str)], method: &str, path: &str) -> Response<Content> {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let number = NUMBER.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let name = format!("narrows-answers-{}-{number}", std::process::id());
        let folder = std::env::temp_dir().join(name);
        fs::create_dir_all(&folder).unwrap();
        fs::write(folder.join("ten"), "0123456789").unwrap();
        let root = Arc::new(Root::new(&folder).unwrap());
        let mut builder = Request::builder().method(method).uri(path);
        for (name, value) in request {
            builder = builder.header(*name, *value);
        }
        let request = builder.body(()).unwrap();
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.build().unwrap();
        let response = runtime.block_on(respond(&root, request));
        fs::remove_dir_all(&folder).unwrap();
        response
    }

    const H: (&str, &str) = ("host", "h");

    #[test]
    fn statuses() {
        for (status, headers, method, path) in [
            (200, &[H][..], "GET", "/ten"),
            (200, &[H], "GET", "/"),
            (200, &[H], "HEAD", "/ten"),
            (404, &[H], "GET", "/no"),
            (404, &[H], "HEAD", "/no"),
            (405, &[H], "POST", "/ten"),
            (405, &[H], "OPTIONS", "*"),
            (400, &[H], "GET", "*"),
            (501, &[H], "BREW", "/ten"),
            // RFC 9112 section 3.2.
            (400, &[], "GET", "/ten"),
            (400, &[H, ("host", "i")], "GET", "/ten"),
            (200, &[H], "GET", "http://h/ten"),
            // RFC 9110 sections 13.1.5 and 14.2.
            (206, &[H, ("range", "bytes=2-3")], "GET", "/ten"),
            (200, &[H, ("range", "bytes=2-3")], "HEAD", "/ten"),
            (416, &[H, ("range", "bytes=10-")], "GET", "/ten"),
            (
                200,
                &[H, ("range", "bytes=2-3"), ("if-range", "\"x\"")],
                "GET",
                "/ten",
            ),
        ] {
            let response = asked(headers, method, path);
            assert_eq!(response.status(), status, "{method} {path} {headers:?}");
            assert_eq!(response.headers().contains_key(ALLOW), status == 405);
        }
    }

    #[test]
    fn a_head_tells_the_length_and_sends_nothing() {
        let response = asked(&[H], "HEAD", "/ten");
        assert_eq!(response.headers()[CONTENT_LENGTH], "10");
        assert!(response.body().is_end_stream());
    }
}
