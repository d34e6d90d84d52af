//! Clients: fetch something, send something.

use super::LiveError;
use super::http::Content;
use hyper::body::Body;
use hyper::client::conn::http1;
use hyper::header::{HOST, USER_AGENT};
use hyper::{Request, StatusCode, Uri};
use hyper_util::rt::TokioIo;
use narrows::Duration;
use narrows::buffer::Bytes;
use narrows::conn::info::TcpInfo;
use narrows::driver::tokio::{Stack, TcpStream};
use std::borrow::Cow;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, Read, Write};
use std::pin::{Pin, pin};
use std::str::FromStr;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::mpsc;

/// Bytes read or written in one go.
const CHUNK: usize = 128 << 10;

/// Where to fetch from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// A page: `http://10.77.0.254:8000/file`.
    Http(Uri),
    /// What a peer sends until it closes: `10.77.0.254:19`.
    Raw(String),
}

impl FromStr for Source {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, _)) = text.split_once("://") else {
            return peer(text).map(Self::Raw);
        };
        if !scheme.eq_ignore_ascii_case("http") {
            return Err(format!("{scheme} is not spoken here; use http://"));
        }
        let uri: Uri = text.parse().map_err(|e| format!("{e}"))?;
        match uri.host() {
            Some(_) => Ok(Self::Http(uri)),
            None => Err("the host is missing, as in http://10.77.0.254/".to_owned()),
        }
    }
}

/// Checks that `text` is a host and a port.
///
/// # Errors
/// How they are written.
pub fn peer(text: &str) -> Result<String, String> {
    let good = text
        .rsplit_once(':')
        .is_some_and(|(host, port)| !host.is_empty() && port.parse::<u16>().is_ok_and(|p| p > 0));
    match good {
        true => Ok(text.to_owned()),
        false => Err("expected HOST:PORT, as 10.77.0.254:7 or [fd77::fe]:7".to_owned()),
    }
}

/// What to send.
pub enum Text {
    /// What can be read here, to its end.
    From(Box<dyn Read + Send>),
    /// So many bytes of a pattern.
    Pattern(u64),
}

impl fmt::Debug for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::From(_) => f.write_str("From(..)"),
            Self::Pattern(n) => f.debug_tuple("Pattern").field(n).finish(),
        }
    }
}

/// What a transfer did.
#[derive(Clone, Debug)]
pub struct Transfer {
    /// The HTTP status.
    pub status: Option<StatusCode>,
    /// Bytes received; of the page for HTTP.
    pub received: u64,
    /// Bytes sent.
    pub sent: u64,
    /// From the start of connecting to the end.
    pub took: Duration,
    /// What the connection had seen at the end, if it was still there.
    pub info: Option<TcpInfo>,
}

/// `[fe80::1%eth0]:80` as `[fe80::1]:80`: a host of ours has one interface, and knows no name of
/// the kernel's.
fn without_zone(host: &str) -> Cow<'_, str> {
    let zone = host.split_once('%').and_then(|(addr, rest)| {
        let (_, rest) = rest.split_once(']')?;
        Some(format!("{addr}]{rest}"))
    });
    zone.map_or(host.into(), Cow::Owned)
}

/// Connect; `host` may be a name.
///
/// # Errors
/// See [`LiveError`].
pub async fn connect(stack: &Stack, host: &str) -> Result<TcpStream, LiveError> {
    let stream = TcpStream::connect(stack, without_zone(host).as_ref()).await;
    stream.map_err(|source| LiveError::Io {
        doing: format!("connect to {host}"),
        source,
    })
}

/// Fetch `source` to `out`.
///
/// # Errors
/// See [`LiveError`]. A status such as 404 is none.
pub async fn get(
    stack: &Stack,
    source: &Source,
    out: &mut dyn Write,
) -> Result<Transfer, LiveError> {
    match source {
        Source::Http(uri) => page(stack, uri, out).await,
        Source::Raw(peer) => send(stack, peer, Text::Pattern(0), Ending::Hear, out).await,
    }
}

/// When the peer is told that no more comes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// As soon as everything is sent.
    Close,
    /// When it has closed: it may take the end of ours for the wish to end.
    Hear,
}

fn received(source: io::Error) -> LiveError {
    LiveError::Io {
        doing: "receive".to_owned(),
        source,
    }
}

fn written(source: io::Error) -> LiveError {
    LiveError::Io {
        doing: "write what was received".to_owned(),
        source,
    }
}

async fn page(stack: &Stack, uri: &Uri, out: &mut dyn Write) -> Result<Transfer, LiveError> {
    let begin = stack.clock().now();
    let host = uri.host().unwrap_or_default();
    let at = format!("{host}:{}", uri.port_u16().unwrap_or(80));
    let stream = connect(stack, &at).await?;
    let failed = |e: hyper::Error| received(io::Error::other(e));
    let (mut sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(failed)?;
    let mut connection = pin!(connection);
    let host = uri.authority().map_or(host, |a| a.as_str());
    let path = uri.path_and_query().map_or("/", |p| p.as_str());
    let request = Request::get(path)
        .header(HOST, host)
        .header(USER_AGENT, concat!("narrows/", env!("CARGO_PKG_VERSION")))
        .body(Content::Nothing)
        .map_err(|e| LiveError::Invalid(format!("{uri}: {e}")))?;
    let fetch = async {
        let response = sender.send_request(request).await.map_err(failed)?;
        let status = response.status();
        let mut body = response.into_body();
        let mut received = 0;
        while let Some(frame) = poll_fn(|cx| Pin::new(&mut body).poll_frame(cx)).await {
            if let Ok(data) = frame.map_err(failed)?.into_data() {
                received += data.len() as u64;
                out.write_all(&data).map_err(written)?;
            }
        }
        out.flush().map_err(written)?;
        Ok::<_, LiveError>((status, received))
    };
    let mut fetch = pin!(fetch);
    // The connection is driven here, so that it can be looked at when it is done.
    let (status, received) = tokio::select! {
        biased;
        done = &mut fetch => done?,
        ended = &mut connection => {
            ended.map_err(failed)?;
            fetch.await?
        }
    };
    Ok(Transfer {
        status: Some(status),
        received,
        sent: 0,
        took: stack.clock().now().since(begin),
        info: None,
    })
}

/// Send `text` to `peer`, and write to `out` what it answers until it closes.
///
/// # Errors
/// See [`LiveError`].
pub async fn send(
    stack: &Stack,
    peer: &str,
    text: Text,
    ending: Ending,
    out: &mut dyn Write,
) -> Result<Transfer, LiveError> {
    let begin = stack.clock().now();
    let mut stream = connect(stack, peer).await?;
    let (mut read, mut write) = stream.split();
    let failed = |source| LiveError::Io {
        doing: "send".to_owned(),
        source,
    };
    let sending = async {
        let mut sent = 0;
        match text {
            Text::Pattern(total) => {
                let chunk: Bytes = (0..CHUNK).map(|i| i as u8).collect();
                while sent < total {
                    let n = (total - sent).min(CHUNK as u64) as usize;
                    let mut chunk = chunk.slice(..n);
                    while !chunk.is_empty() {
                        write.write_chunk(&mut chunk).await.map_err(failed)?;
                    }
                    sent += n as u64;
                }
            }
            Text::From(source) => {
                let mut chunks = read_on_a_thread(source)?;
                while let Some(chunk) = chunks.recv().await {
                    let chunk = chunk.map_err(|source| LiveError::Io {
                        doing: "read what is to be sent".to_owned(),
                        source,
                    })?;
                    sent += chunk.len() as u64;
                    let mut chunk = Bytes::from(chunk);
                    while !chunk.is_empty() {
                        write.write_chunk(&mut chunk).await.map_err(failed)?;
                    }
                }
            }
        }
        if ending == Ending::Close {
            write.shutdown().await.map_err(failed)?;
        }
        Ok::<_, LiveError>(sent)
    };
    let hearing = async {
        let (mut total, mut buf) = (0, vec![0; CHUNK]);
        loop {
            let n = read.read(&mut buf).await.map_err(received)?;
            if n == 0 {
                out.flush().map_err(written)?;
                return Ok::<_, LiveError>(total);
            }
            out.write_all(&buf[..n]).map_err(written)?;
            total += n as u64;
        }
    };
    let (sent, received) = tokio::try_join!(sending, hearing)?;
    let took = stack.clock().now().since(begin);
    let info = stream.info().ok();
    // Should only the peer have closed so far.
    let _ = stream.shutdown().await;
    Ok(Transfer {
        status: None,
        received,
        sent,
        took,
        info,
    })
}

/// Files and terminals block; the runtime must not.
fn read_on_a_thread(
    mut source: Box<dyn Read + Send>,
) -> Result<mpsc::Receiver<io::Result<Vec<u8>>>, LiveError> {
    let (sender, chunks) = mpsc::channel(4);
    let reading = move || {
        loop {
            let mut chunk = vec![0; CHUNK];
            let result = match source.read(&mut chunk) {
                Ok(0) => return,
                Ok(n) => {
                    chunk.truncate(n);
                    Ok(chunk)
                }
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(e) => Err(e),
            };
            let last = result.is_err();
            if sender.blocking_send(result).is_err() || last {
                return;
            }
        }
    };
    // It is not waited for: nothing ends a read from a terminal.
    let thread = std::thread::Builder::new().name("input".to_owned());
    let spawned = thread.spawn(reading);
    spawned.map_err(|e| LiveError::io("start a thread", e))?;
    Ok(chunks)
}

impl Transfer {
    /// One line for people.
    pub fn sentence(&self) -> String {
        let seconds = self.took.as_nanos() as f64 / 1e9;
        let gigabits = (self.received + self.sent) as f64 * 8.0 / 1e9 / seconds.max(1e-9);
        let mut text = match (self.sent, self.received) {
            (0, n) => format!("received {n} bytes"),
            (n, 0) => format!("sent {n} bytes"),
            (n, m) => format!("sent {n} bytes, received {m}"),
        };
        text += &format!(" in {seconds:.3} s, {gigabits:.2} Gb/s");
        if let Some(info) = &self.info {
            let (rtt, again) = (info.tcpi_rtt, info.tcpi_total_retrans);
            text += &format!(", RTT {rtt} us, {again} segments sent again");
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_are_the_kernels() {
        for (host, without) in [
            ("[fe80::1%eth0]:80", "[fe80::1]:80"),
            ("[fe80::1%25eth0]:80", "[fe80::1]:80"),
            ("[fe80::1]:80", "[fe80::1]:80"),
            ("10.77.0.1:80", "10.77.0.1:80"),
            ("100%:80", "100%:80"),
        ] {
            assert_eq!(without_zone(host), without);
        }
    }

    #[test]
    fn sources() {
        let raw = |t: &str| Ok(Source::Raw(t.to_owned()));
        assert_eq!("10.77.0.254:19".parse(), raw("10.77.0.254:19"));
        assert_eq!("[fd77::fe]:19".parse(), raw("[fd77::fe]:19"));
        assert!(matches!("http://h:80/x?y".parse(), Ok(Source::Http(_))));
        assert!(matches!("HTTP://h".parse(), Ok(Source::Http(_))));
        for (bad, says) in [
            ("10.77.0.254", "HOST:PORT"),
            (":7", "HOST:PORT"),
            ("h:0", "HOST:PORT"),
            ("h:99999", "HOST:PORT"),
            ("https://h/", "http://"),
            ("http:///x", ""),
        ] {
            let e = bad.parse::<Source>().unwrap_err();
            assert!(e.contains(says), "{bad}: {e}");
        }
    }
}
