//! A connection with the face of `tokio::net::TcpStream`.

use super::shared::error_of;
use super::socket::TcpSocket;
use super::split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, WriteHalf};
use super::trace::TraceStream;
use super::{Inner, Stack};
use crate::config::Keepalive;
use crate::conn::SendError;
use crate::conn::info::TcpInfo;
use crate::conn::state::{CloseReason, State};
use crate::driver::Clock;
use crate::endpoint::ConnId;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};
use tokio::net::ToSocketAddrs;
use tokio::task::coop::poll_proceed;

/// A connection, read and written as tokio's own.
///
/// Dropping it closes it: what was written still leaves, in the background, unless
/// [zero linger](Self::set_zero_linger) is set. What was not read makes it a reset.
///
/// All methods are cancellation-safe: a future that is dropped before it is ready has taken and
/// sent nothing.
pub struct TcpStream {
    pub(super) conn: Arc<Conn>,
}

/// What the halves of a stream share.
pub(super) struct Conn {
    pub(super) stack: Arc<Inner>,
    pub(super) id: ConnId,
    local: SocketAddr,
    peer: SocketAddr,
    nodelay: AtomicBool,
    linger: Mutex<Option<Duration>>,
}

impl Drop for Conn {
    fn drop(&mut self) {
        let zero = self.linger() == Some(Duration::ZERO);
        let id = self.id;
        self.stack
            .shared
            .with(|core, now| core.abandon(id, zero, now));
    }
}

impl Conn {
    pub(super) fn new(
        stack: Arc<Inner>,
        id: ConnId,
        local: SocketAddr,
        peer: SocketAddr,
        nodelay: bool,
        linger: Option<Duration>,
    ) -> Self {
        Self {
            stack,
            id,
            local,
            peer,
            nodelay: AtomicBool::new(nodelay),
            linger: Mutex::new(linger),
        }
    }

    fn linger(&self) -> Option<Duration> {
        *self.linger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }

    pub(super) fn peer_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.peer)
    }

    /// The handshake is complete, or has failed.
    pub(super) fn poll_connected(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut core = self.stack.shared.lock();
        let alive = core.alive();
        let (sock, _) = core.sock(self.id)?;
        if let Some(reason) = sock.closed.take() {
            return Poll::Ready(Err(error_of(reason)));
        }
        if sock.connected {
            return Poll::Ready(Ok(()));
        }
        alive?;
        sock.writers.register(cx);
        Poll::Pending
    }

    /// Give what can be read to `take`, which says how much of it is to be let go. `None` in
    /// place of a context: do not wait.
    fn poll_take<R>(
        &self,
        cx: Option<&Context<'_>>,
        take: impl FnOnce([&[u8]; 2]) -> (R, usize),
    ) -> Poll<io::Result<R>> {
        let shared = &self.stack.shared;
        let done = shared.with(|core, now| {
            let alive = core.alive();
            let (sock, conn) = core.sock(self.id)?;
            if conn.readable() > 0 || sock.peer_closed {
                let view = conn.recv_buffer().peek(conn.readable_end());
                let (result, used) = take(view.slices());
                conn.consume(used as u64, now);
                return Ok(Some(result));
            }
            match sock.closed.take() {
                None | Some(CloseReason::Finished) => {}
                Some(reason) => return Err(error_of(reason)),
            }
            if let State::Closed(_) = conn.state() {
                return Ok(Some(take([&[], &[]]).0));
            }
            alive?;
            if let Some(cx) = cx {
                sock.readers.register(cx);
            }
            Ok(None)
        });
        match done {
            Ok(Some(result)) => Poll::Ready(Ok(result)),
            Ok(None) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    pub(super) fn poll_read(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        if buf.remaining() == 0 {
            return Poll::Ready(Ok(()));
        }
        // A task that could go on for ever lets others have their turn, as with tokio's streams.
        let turn = ready!(poll_proceed(cx));
        let taken = self.poll_take(Some(cx), |parts| ((), put(parts, buf)));
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    pub(super) fn poll_peek(
        &self,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_take(Some(cx), |parts| (put(parts, buf), 0))
    }

    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        let mut buf = ReadBuf::new(buf);
        let taken = self.poll_take(None, |parts| {
            let n = put(parts, &mut buf);
            (n, n)
        });
        at_once(taken)
    }

    /// Queue as much of `bufs` as there is room for.
    fn poll_put(&self, cx: Option<&Context<'_>>, bufs: &[IoSlice<'_>]) -> Poll<io::Result<usize>> {
        let shared = &self.stack.shared;
        let done = shared.with(|core, _| {
            let alive = core.alive();
            let (sock, conn) = core.sock(self.id)?;
            match sock.closed.take() {
                None => alive?,
                Some(CloseReason::Finished) => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(reason) => return Err(error_of(reason)),
            }
            let (mut total, mut all) = (0, true);
            for buf in bufs.iter().filter(|b| !b.is_empty()) {
                match conn.send(buf, buf.len()) {
                    Ok(n) => {
                        total += n;
                        all = n == buf.len();
                    }
                    Err(SendError::Closing | SendError::Closed(_)) => {
                        return Err(io::ErrorKind::BrokenPipe.into());
                    }
                }
                if !all {
                    break;
                }
            }
            if total > 0 || all {
                return Ok(Some(total));
            }
            if let Some(cx) = cx {
                sock.writers.register(cx);
            }
            Ok(None)
        });
        match done {
            Ok(Some(n)) => Poll::Ready(Ok(n)),
            Ok(None) => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    pub(super) fn poll_write(
        &self,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(poll_proceed(cx));
        let put = self.poll_put(Some(cx), bufs);
        if put.is_ready() {
            turn.made_progress();
        }
        put
    }

    pub(super) fn try_write(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        at_once(self.poll_put(None, bufs))
    }

    /// No more will be written.
    pub(super) fn close(&self) -> io::Result<()> {
        self.stack.shared.with(|core, now| {
            let (_, conn) = core.sock(self.id)?;
            conn.close(now);
            Ok(())
        })
    }

    pub(super) fn poll_read_ready(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut core = self.stack.shared.lock();
        let ended = core.alive().is_err();
        let (sock, conn) = core.sock(self.id)?;
        if ended
            || conn.readable() > 0
            || sock.peer_closed
            || sock.closed.is_some()
            || matches!(conn.state(), State::Closed(_))
        {
            return Poll::Ready(Ok(()));
        }
        sock.readers.register(cx);
        Poll::Pending
    }

    pub(super) fn poll_write_ready(&self, cx: &Context<'_>) -> Poll<io::Result<()>> {
        let mut core = self.stack.shared.lock();
        let ended = core.alive().is_err();
        let (sock, conn) = core.sock(self.id)?;
        // Asking for a byte of room more than there is makes the connection tell of it.
        if ended || conn.send_room() > 0 || sock.closed.is_some() || conn.send(&[], 1).is_err() {
            return Poll::Ready(Ok(()));
        }
        sock.writers.register(cx);
        Poll::Pending
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        poll_fn(|cx| {
            let mut ready = Ready::EMPTY;
            if interest.is_readable() && self.poll_read_ready(cx)?.is_ready() {
                ready |= Ready::READABLE;
            }
            if interest.is_writable() && self.poll_write_ready(cx)?.is_ready() {
                ready |= Ready::WRITABLE;
            }
            if ready.is_empty() {
                return Poll::Pending;
            }
            Poll::Ready(Ok(ready))
        })
        .await
    }
}

/// Copy to `buf` what fits; how much.
fn put(parts: [&[u8]; 2], buf: &mut ReadBuf<'_>) -> usize {
    let mut total = 0;
    for part in parts {
        let n = part.len().min(buf.remaining());
        buf.put_slice(&part[..n]);
        total += n;
    }
    total
}

/// What would have to wait is an error.
fn at_once<R>(poll: Poll<io::Result<R>>) -> io::Result<R> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl TcpStream {
    /// Connect to `addr`: to the first of its addresses that answers.
    ///
    /// # Errors
    /// Of the last address tried; an error kind as the standard library would give.
    pub async fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        let mut last = None;
        for addr in tokio::net::lookup_host(addr).await? {
            match TcpSocket::for_addr(stack, addr).connect(addr).await {
                Ok(stream) => return Ok(stream),
                Err(e) => last = Some(e),
            }
        }
        Err(last.unwrap_or_else(|| {
            let text = "could not resolve to any address";
            io::Error::new(io::ErrorKind::InvalidInput, text)
        }))
    }

    /// Our address.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        self.conn.local_addr()
    }

    /// The peer's address.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn peer_addr(&self) -> io::Result<SocketAddr> {
        self.conn.peer_addr()
    }

    /// Read without taking; waits until there is something.
    ///
    /// # Errors
    /// As reading.
    pub async fn peek(&self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.conn.poll_peek(cx, &mut ReadBuf::new(buf))).await
    }

    /// As [`peek`](Self::peek).
    ///
    /// # Errors
    /// As reading.
    pub fn poll_peek(
        &self,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_peek(cx, buf)
    }

    /// Wait until it can be read or written, as `interest` says; which. What has ended can be both,
    /// and says how.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        self.conn.ready(interest).await
    }

    /// Wait until there is something to read.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn readable(&self) -> io::Result<()> {
        poll_fn(|cx| self.conn.poll_read_ready(cx)).await
    }

    /// Wait until there is room to write.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub async fn writable(&self) -> io::Result<()> {
        poll_fn(|cx| self.conn.poll_write_ready(cx)).await
    }

    /// As [`readable`](Self::readable).
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn poll_read_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.poll_read_ready(cx)
    }

    /// As [`writable`](Self::writable).
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn poll_write_ready(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.conn.poll_write_ready(cx)
    }

    /// Read what there is.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; otherwise as reading.
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.conn.try_read(buf)
    }

    /// Write what there is room for.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.conn.try_write(&[IoSlice::new(buf)])
    }

    /// Write what there is room for of several buffers.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.conn.try_write(bufs)
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(self.conn.nodelay.load(Ordering::Relaxed))
    }

    /// Turn Nagle's algorithm off (`true`) or on.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let conn = &self.conn;
        conn.nodelay.store(nodelay, Ordering::Relaxed);
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_nodelay(nodelay);
            Ok(())
        })
    }

    /// What [`set_linger`](Self::set_linger) has set.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.conn.linger())
    }

    /// How dropping it ends it: `Some(0)` resets it, anything else closes it in the background and
    /// never blocks.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_linger(&self, linger: Option<Duration>) -> io::Result<()> {
        *self
            .conn
            .linger
            .lock()
            .unwrap_or_else(PoisonError::into_inner) = linger;
        Ok(())
    }

    /// Dropping it resets it.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_zero_linger(&self) -> io::Result<()> {
        self.set_linger(Some(Duration::ZERO))
    }

    /// Probe the peer while it is idle, or do not.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn set_keepalive(&self, keepalive: Option<Keepalive>) -> io::Result<()> {
        let conn = &self.conn;
        conn.stack.shared.with(|core, now| {
            core.sock(conn.id)?.1.set_keepalive(keepalive, now);
            Ok(())
        })
    }

    /// Why it ended, if that has not been told by reading or writing.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn take_error(&self) -> io::Result<Option<io::Error>> {
        let mut core = self.conn.stack.shared.lock();
        let closed = match core.sock(self.conn.id) {
            Ok((sock, _)) => sock.closed.take(),
            Err(e) => return Ok(Some(e)),
        };
        Ok(closed
            .filter(|&why| why != CloseReason::Finished)
            .map(error_of))
    }

    /// What the connection knows, under the names of Linux's `TCP_INFO`.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn info(&self) -> io::Result<TcpInfo> {
        let mut core = self.conn.stack.shared.lock();
        let (_, conn) = core.sock(self.conn.id)?;
        Ok(TcpInfo::of(conn, Clock.now()))
    }

    /// What the connection decides from now on, and why. `capacity` events wait to be received;
    /// more are counted and dropped. A second stream takes the place of the first.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn trace(&self, capacity: usize) -> io::Result<TraceStream> {
        let (sink, stream) = super::trace::channel(capacity);
        let conn = &self.conn;
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_trace(Some(Box::new(sink)));
            Ok(stream)
        })
    }

    /// Two halves, for one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(&self.conn), WriteHalf(&self.conn))
    }

    /// Two halves, for two tasks. Dropping the writing one closes the sending side.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let write = OwnedWriteHalf::new(self.conn.clone());
        (OwnedReadHalf { conn: self.conn }, write)
    }
}

impl AsyncRead for TcpStream {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        self.conn.poll_read(cx, buf)
    }
}

impl AsyncWrite for TcpStream {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_write(cx, &[IoSlice::new(buf)])
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_write(cx, bufs)
    }
    fn is_write_vectored(&self) -> bool {
        true
    }
    fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
    fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(self.conn.close())
    }
}

impl fmt::Debug for TcpStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.conn.fmt(f)
    }
}

impl fmt::Debug for Conn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpStream")
            .field("local", &self.local)
            .field("peer", &self.peer)
            .finish_non_exhaustive()
    }
}
