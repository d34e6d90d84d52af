//! One HTTP connection to its end, and how long a peer may take for what.

use super::content::Content;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Request, Response, body::Incoming};
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::future::{Future, poll_fn};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::time::{Instant, Sleep, sleep, timeout, timeout_at};

/// How long a peer may take for the head of a request, from the connection's beginning or the
/// response before it.
const HEAD: Duration = Duration::from_secs(30);
/// Bytes of a response that hyper may have before it asks for more, which no limit of the
/// endpoint's memory counts; and the longest head of a request.
const BUFFER: usize = 32 << 10;
/// How long he may leave what we send lying.
const STALL: Duration = Duration::from_secs(60);
/// How long he may be silent after our last word before we hang up (RFC 9112 section 9.6), and how
/// long he may talk.
const SILENCE: Duration = Duration::from_secs(5);
const LINGER: Duration = Duration::from_secs(30);

/// hyper says nothing to a peer who did not finish his sentence.
const TOO_LATE: &[u8] =
    b"HTTP/1.1 408 Request Timeout\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// Both have said what they had to say, or the peer is gone.
    Done,
    /// The peer took nothing more.
    Stalled,
}

/// Answer the requests that come from `stream` until it ends.
///
/// A peer that closes its side still gets his answers. Ours is closed after the last, and what he
/// still says is read for a while: a stream that is dropped with something unread in it is reset,
/// and the reset would take the answer with it.
pub(super) async fn serve<S, F>(stream: S, answer: impl Fn(Request<Incoming>) -> F) -> (S, Ended)
where
    S: AsyncRead + AsyncWrite + Unpin,
    F: Future<Output = Response<Content>>,
{
    let service = service_fn(|request| {
        let response = answer(request);
        Box::pin(async { Ok::<_, Infallible>(response.await) })
    });
    let mut connection = http1::Builder::new()
        .half_close(true)
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD)
        .max_buf_size(BUFFER)
        .serve_connection(TokioIo::new(Patient::new(stream)), service);
    // What a peer does wrong is answered by hyper, and ends his connection only.
    let done = poll_fn(|cx| connection.poll_without_shutdown(cx)).await;
    let parts = connection.into_parts();
    let mut stream = parts.io.into_inner();
    if done.is_err_and(|e| e.is_timeout()) && !parts.read_buf.is_empty() {
        let _ = stream.write_all(TOO_LATE).await;
    }
    if !stream.stalled {
        linger(&mut stream).await;
    }
    let ended = match stream.stalled {
        true => Ended::Stalled,
        false => Ended::Done,
    };
    (stream.stream, ended)
}

/// Close our side, and hear the peer out.
async fn linger(stream: &mut (impl AsyncRead + AsyncWrite + Unpin)) {
    if stream.shutdown().await.is_err() {
        return;
    }
    let mut nowhere = vec![0; 16 << 10];
    let until = Instant::now() + LINGER;
    let hear =
        async { while let Ok(Ok(1..)) = timeout(SILENCE, stream.read(&mut nowhere)).await {} };
    let _ = timeout_at(until, hear).await;
}

/// A stream whose peer may not keep us waiting for room longer than [`STALL`].
struct Patient<S> {
    stream: S,
    /// Since when there is no room.
    waiting: Option<Pin<Box<Sleep>>>,
    stalled: bool,
}

impl<S> Patient<S> {
    fn new(stream: S) -> Self {
        Self {
            stream,
            waiting: None,
            stalled: false,
        }
    }

    fn wait<R>(
        &mut self,
        cx: &mut Context<'_>,
        polled: Poll<io::Result<R>>,
    ) -> Poll<io::Result<R>> {
        if polled.is_ready() {
            self.waiting = None;
            return polled;
        }
        let waiting = self.waiting.get_or_insert_with(|| Box::pin(sleep(STALL)));
        if waiting.as_mut().poll(cx).is_pending() {
            return Poll::Pending;
        }
        self.stalled = true;
        Poll::Ready(Err(io::ErrorKind::TimedOut.into()))
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, buf);
        self.wait(cx, written)
    }
    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(cx, bufs);
        self.wait(cx, written)
    }
    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let flushed = Pin::new(&mut self.stream).poll_flush(cx);
        self.wait(cx, flushed)
    }
    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        let shut = Pin::new(&mut self.stream).poll_shutdown(cx);
        self.wait(cx, shut)
    }
}

#[cfg(test)]
mod tests {
    use super::super::answer_text;
    use super::*;
    use hyper::StatusCode;
    use tokio::io::{DuplexStream, duplex};

    /// A server that says 204 to everything but `/big`, which are 100,000 bytes, and `/slow`,
    /// which takes it a second. The peer's end, and the server's end.
    fn server(room: usize) -> (DuplexStream, impl Future<Output = (DuplexStream, Ended)>) {
        let (peer, stream) = duplex(room);
        let serving = tokio::spawn(serve(stream, |request| async move {
            match request.uri().path() {
                "/big" => return answer_text(StatusCode::OK, "x".repeat(100_000)),
                "/slow" => sleep(Duration::from_secs(1)).await,
                _ => {}
            }
            let mut response = Response::new(Content::Nothing);
            *response.status_mut() = StatusCode::NO_CONTENT;
            response
        }));
        (peer, async { serving.await.unwrap() })
    }

    async fn all(peer: &mut DuplexStream) -> String {
        let mut text = String::new();
        peer.read_to_string(&mut text).await.unwrap();
        text
    }

    fn with_time<R>(test: impl Future<Output = R>) -> R {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        let runtime = runtime.enable_time().start_paused(true).build().unwrap();
        runtime.block_on(test)
    }

    #[test]
    fn a_peer_that_has_closed_gets_all_its_answers() {
        with_time(async {
            let (mut peer, _) = server(1 << 20);
            let request = b"GET /slow HTTP/1.1\r\nhost: h\r\n\r\n";
            peer.write_all(&request.repeat(2)).await.unwrap();
            peer.shutdown().await.unwrap();
            let answers = all(&mut peer).await;
            assert_eq!(answers.matches("204 No Content").count(), 2, "{answers}");
        });
    }

    #[test]
    fn a_head_that_does_not_come_ends_the_connection() {
        with_time(async {
            for (sent, answered) in [("", ""), ("GET / HTTP/1.1\r\nho", "HTTP/1.1 408 ")] {
                let begin = Instant::now();
                let (mut peer, ended) = server(1 << 20);
                peer.write_all(sent.as_bytes()).await.unwrap();
                let answer = all(&mut peer).await;
                assert!(answer.starts_with(answered), "{answer}");
                assert_eq!(answer.is_empty(), answered.is_empty(), "{answer}");
                assert!(begin.elapsed() >= HEAD);
                drop(peer);
                assert_eq!(ended.await.1, Ended::Done);
                assert!(begin.elapsed() < HEAD + SILENCE);
            }
        });
    }

    /// A byte now and then is no head.
    #[test]
    fn a_head_that_comes_drop_by_drop_ends_the_connection() {
        with_time(async {
            let begin = Instant::now();
            let (mut peer, ended) = server(1 << 20);
            peer.write_all(b"GET / HTTP/1.1\r\nx: ").await.unwrap();
            let drip = async {
                while peer.write_all(b"y").await.is_ok() {
                    sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::join!(async { drop(ended.await) }, drip);
            assert!(begin.elapsed() >= HEAD);
            assert!(begin.elapsed() <= HEAD + LINGER + SILENCE);
        });
    }

    #[test]
    fn one_that_takes_nothing_ends_the_connection() {
        with_time(async {
            let begin = Instant::now();
            let (mut peer, ended) = server(1_000);
            let request = b"GET /big HTTP/1.1\r\nhost: h\r\n\r\n";
            peer.write_all(request).await.unwrap();
            assert_eq!(ended.await.1, Ended::Stalled);
            assert!(begin.elapsed() >= STALL);
            assert!(begin.elapsed() < STALL + SILENCE);
        });
    }

    /// What is read for one that takes nothing is little, however much he asked for.
    #[test]
    fn little_is_read_ahead_for_one_that_takes_nothing() {
        use super::super::content::{Extent, Piece};
        use std::os::unix::fs::FileExt;
        with_time(async {
            let path = std::env::temp_dir().join(format!("nwahead-{}", std::process::id()));
            let mut options = std::fs::File::options();
            let file = options.read(true).write(true).create(true).truncate(true);
            let file = file.open(&path).unwrap();
            std::fs::remove_file(&path).unwrap();
            file.set_len(1 << 20).unwrap();
            let (mut peer, stream) = duplex(1_000);
            let of = file.try_clone().unwrap();
            let serving = tokio::spawn(serve(stream, move |_| {
                let file = of.try_clone().unwrap();
                let extent = Extent::new(0, 1 << 20);
                async move { Response::new(Content::File(Piece { file, extent })) }
            }));
            peer.write_all(b"GET / HTTP/1.1\r\nhost: h\r\n\r\n")
                .await
                .unwrap();
            sleep(STALL / 2).await;
            // What is written there now comes unless it was read before.
            file.write_all_at(&vec![1; 1 << 20], 0).unwrap();
            let mut got = vec![0; 1 << 20];
            let mut head = Vec::new();
            while !head.ends_with(b"\r\n\r\n") {
                head.push(peer.read_u8().await.unwrap());
            }
            peer.read_exact(&mut got).await.unwrap();
            let ahead = got.iter().filter(|byte| **byte == 0).count();
            assert!((1_000..=3 * BUFFER).contains(&ahead), "{ahead}");
            drop(peer);
            assert_eq!(serving.await.unwrap().1, Ended::Done);
        });
    }

    #[test]
    fn one_that_takes_little_at_a_time_gets_everything() {
        with_time(async {
            let (mut peer, ended) = server(1_000);
            let request = b"GET /big HTTP/1.0\r\n\r\n";
            peer.write_all(request).await.unwrap();
            let (mut total, mut buf) = (0, [0; 10_000]);
            loop {
                sleep(STALL / 2).await;
                match peer.read(&mut buf).await.unwrap() {
                    0 => break,
                    n => total += n,
                }
            }
            assert!(total > 100_000, "{total}");
            drop(peer);
            assert_eq!(ended.await.1, Ended::Done);
        });
    }

    /// RFC 9112 section 9.6: the answer must not fall to the reset that unread text brings.
    #[test]
    fn rfc9112_9_6_what_a_peer_still_says_is_read() {
        with_time(async {
            let (mut peer, ended) = server(1_000);
            let head = b"POST / HTTP/1.1\r\nhost: h\r\ncontent-length: 100000\r\n\r\n";
            peer.write_all(head).await.unwrap();
            let (mut read, mut write) = tokio::io::split(peer);
            let talk = async {
                // A reset would be an error here.
                write.write_all(&[b'x'; 100_000]).await.unwrap();
                write.shutdown().await.unwrap();
            };
            let mut answer = String::new();
            let hear = read.read_to_string(&mut answer);
            let ((), heard) = tokio::join!(talk, hear);
            heard.unwrap();
            assert!(answer.starts_with("HTTP/1.1 204 "), "{answer}");
            assert_eq!(ended.await.1, Ended::Done);
        });
    }

    #[test]
    fn one_that_goes_on_talking_is_cut_off() {
        with_time(async {
            let begin = Instant::now();
            let (mut peer, ended) = server(1_000);
            peer.write_all(b"nonsense\r\n\r\n").await.unwrap();
            let talk = async {
                while peer.write_all(b"x").await.is_ok() {
                    sleep(Duration::from_secs(1)).await;
                }
            };
            tokio::join!(async { drop(ended.await) }, talk);
            assert!(begin.elapsed() >= LINGER);
            assert!(begin.elapsed() <= LINGER + SILENCE);
        });
    }
}
