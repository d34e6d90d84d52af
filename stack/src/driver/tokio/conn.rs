//! What a stream is: its place in the stack's shared state, and what its halves do with it.

use super::Inner;
use super::shared::error_of;
use crate::conn::state::{CloseReason, State};
use crate::conn::{Connection, SendError};
use crate::driver::LiveTcp;
use crate::endpoint::ConnId;
use bytes::Bytes;
use narrows_congestion::Instant;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{Interest, ReadBuf, Ready};
use tokio::task::coop::poll_proceed;

/// What follows a piece that is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Then {
    /// Nothing that is known of.
    Nothing,
    /// More: what makes no full segment waits for it.
    More,
}

/// What is written.
pub(super) enum Data<'a> {
    /// Copies of these; what follows them.
    Copied(&'a [IoSlice<'a>], Then),
    /// The front of this, shared where that is worth it.
    Shared(&'a mut Bytes),
}

impl Data<'_> {
    /// Queue as much of it as there is room for; how much, and whether that is all.
    fn queue(self, conn: &mut Connection<LiveTcp>) -> Result<(usize, bool), SendError> {
        match self {
            Self::Copied(bufs, then) => {
                let (mut total, mut all) = (0, true);
                for buf in bufs.iter().filter(|b| !b.is_empty()) {
                    let n = match then {
                        Then::Nothing => conn.send(buf, buf.len()),
                        Then::More => conn.send_more(buf, buf.len()),
                    }?;
                    total += n;
                    all = n == buf.len();
                    if !all {
                        break;
                    }
                }
                Ok((total, all))
            }
            Self::Shared(chunk) => {
                let taken = conn.send_chunk(chunk)?;
                Ok((taken, chunk.is_empty()))
            }
        }
    }
}

/// What the halves of a stream share.
pub(super) struct Conn {
    pub(super) stack: Arc<Inner>,
    pub(super) id: ConnId,
    local: SocketAddr,
    peer: SocketAddr,
    pub(super) nodelay: AtomicBool,
    pub(super) linger: Mutex<Option<Duration>>,
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

    pub(super) fn linger(&self) -> Option<Duration> {
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

    /// Have `take` take what can be read. `None` in place of a context: do not wait.
    fn poll_take<R: Default>(
        &self,
        cx: Option<&Context<'_>>,
        take: impl FnOnce(&mut Connection<LiveTcp>, Instant) -> R,
    ) -> Poll<io::Result<R>> {
        let shared = &self.stack.shared;
        let done = shared.with(|core, now| {
            let alive = core.alive();
            let (sock, conn) = core.sock(self.id)?;
            if conn.readable() > 0 || sock.peer_closed {
                return Ok(Some(take(conn, now)));
            }
            match sock.closed.take() {
                None | Some(CloseReason::Finished) => {}
                Some(reason) => return Err(error_of(reason)),
            }
            if let State::Closed(_) = conn.state() {
                return Ok(Some(R::default()));
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
        let taken = self.poll_take(Some(cx), |conn, now| {
            let n = put(conn, buf);
            conn.consume(n as u64, now);
        });
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    #[inline] // Called once, or by nobody here: compiled where it is.
    pub(super) fn poll_peek(
        &self,
        cx: &Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<usize>> {
        self.poll_take(Some(cx), |conn, _| put(conn, buf))
    }

    pub(super) fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.try_read_vectored(&mut [IoSliceMut::new(buf)])
    }

    pub(super) fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        let taken = self.poll_take(None, |conn, now| {
            let mut total = 0;
            for buf in bufs.iter_mut() {
                let n = put(conn, &mut ReadBuf::new(buf));
                conn.consume(n as u64, now);
                total += n;
            }
            total
        });
        at_once(taken)
    }

    /// Take over what can be read, `most` bytes at most. Empty: there will be nothing more.
    pub(super) fn poll_read_chunk(
        &self,
        cx: &mut Context<'_>,
        most: usize,
    ) -> Poll<io::Result<Bytes>> {
        if most == 0 {
            return Poll::Ready(Ok(Bytes::new()));
        }
        let turn = ready!(poll_proceed(cx));
        let taken = self.poll_take(Some(cx), |conn, now| conn.recv_chunk(most, now));
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    /// As [`poll_read_chunk`](Self::poll_read_chunk), all there are, which come behind `chunks`; how
    /// many bytes.
    pub(super) fn poll_read_chunks(
        &self,
        cx: &mut Context<'_>,
        chunks: &mut Vec<Bytes>,
        most: usize,
    ) -> Poll<io::Result<usize>> {
        if most == 0 {
            return Poll::Ready(Ok(0));
        }
        let turn = ready!(poll_proceed(cx));
        let taken = self.poll_take(Some(cx), |conn, now| {
            conn.recv_chunks(most, now, |chunk| chunks.push(chunk))
        });
        if taken.is_ready() {
            turn.made_progress();
        }
        taken
    }

    pub(super) fn try_read_chunk(&self, most: usize) -> io::Result<Bytes> {
        at_once(self.poll_take(None, |conn, now| conn.recv_chunk(most, now)))
    }

    /// Queue as much of `data` as there is room for.
    fn poll_put(&self, cx: Option<&Context<'_>>, data: Data<'_>) -> Poll<io::Result<usize>> {
        let shared = &self.stack.shared;
        let done = shared.with(|core, _| {
            let alive = core.alive();
            let (sock, conn) = core.sock(self.id)?;
            match sock.closed.take() {
                None => alive?,
                Some(CloseReason::Finished) => return Err(io::ErrorKind::BrokenPipe.into()),
                Some(reason) => return Err(error_of(reason)),
            }
            let (total, all) = data.queue(conn).map_err(|e| match e {
                SendError::Closing | SendError::Closed(_) => io::ErrorKind::BrokenPipe,
            })?;
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
        data: Data<'_>,
    ) -> Poll<io::Result<usize>> {
        let turn = ready!(poll_proceed(cx));
        let put = self.poll_put(Some(cx), data);
        if put.is_ready() {
            turn.made_progress();
        }
        put
    }

    pub(super) fn try_write(&self, data: Data<'_>) -> io::Result<usize> {
        at_once(self.poll_put(None, data))
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

    pub(super) fn poll_ready(
        &self,
        cx: &Context<'_>,
        interest: Interest,
    ) -> Poll<io::Result<Ready>> {
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
    }

    pub(super) async fn ready(&self, interest: Interest) -> io::Result<Ready> {
        poll_fn(|cx| self.poll_ready(cx, interest)).await
    }
}

/// Copy to `buf` what can be read and fits; how much.
fn put(conn: &Connection<LiveTcp>, buf: &mut ReadBuf<'_>) -> usize {
    let mut total = 0;
    for part in conn.recv_buffer().slices(conn.readable_end()) {
        let n = part.len().min(buf.remaining());
        buf.put_slice(&part[..n]);
        total += n;
    }
    total
}

/// What would have to wait is an error.
pub(super) fn at_once<R>(poll: Poll<io::Result<R>>) -> io::Result<R> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
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
