//! A connection with the face of `tokio::net::TcpStream`.

use super::conn::{Conn, Data, Then, at_once};
use super::hop_limit;
use super::shared::error_of;
use super::trace::TraceStream;
use crate::config::Keepalive;
use crate::conn::info::TcpInfo;
use crate::conn::state::CloseReason;
use crate::driver::Clock;
use bytes::Bytes;
use narrows_congestion::ByteCount;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice, IoSliceMut};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

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

// What is `#[inline]` few programs call: it is compiled where it is called.
impl TcpStream {
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
    #[inline]
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
    #[inline]
    pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
        self.conn.try_read(buf)
    }

    /// Read what there is into several buffers.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; otherwise as reading.
    #[inline]
    pub fn try_read_vectored(&self, bufs: &mut [IoSliceMut<'_>]) -> io::Result<usize> {
        self.conn.try_read_vectored(bufs)
    }

    /// Take over what was received, `most` bytes at most, as soon as there is something: without a
    /// copy what lies in a buffer of the device's, one buffer a call, and a copy of
    /// [`MAX_COPIED`](crate::buffer::recv::MAX_COPIED) bytes at most of what does not. A device that
    /// gives away its buffers is a TAP with offload, for frames of half a buffer (32 KiB) and more.
    /// Empty: the peer sends nothing more, or `most` is 0.
    ///
    /// The device has the buffer again when the chunk and its clones are dropped.
    ///
    /// # Errors
    /// As reading.
    pub async fn read_chunk(&self, most: usize) -> io::Result<Bytes> {
        poll_fn(|cx| self.conn.poll_read_chunk(cx, most)).await
    }

    /// As [`read_chunk`](Self::read_chunk), all buffers that hold what was received, `most` bytes at
    /// most: they come behind `chunks`. How many bytes; 0: the peer sends nothing more, or `most` is 0.
    ///
    /// Cheaper than one after the other, each of which waits for the driver to pause. What is not
    /// dropped the device does without: `most` bounds that.
    ///
    /// # Errors
    /// As reading.
    pub async fn read_chunks(&self, chunks: &mut Vec<Bytes>, most: usize) -> io::Result<usize> {
        poll_fn(|cx| self.conn.poll_read_chunks(cx, chunks, most)).await
    }

    /// As [`read_chunk`](Self::read_chunk), without waiting.
    ///
    /// # Errors
    /// `WouldBlock` if there is nothing; otherwise as reading.
    #[inline]
    pub fn try_read_chunk(&self, most: usize) -> io::Result<Bytes> {
        self.conn.try_read_chunk(most)
    }

    /// Write what there is room for.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    #[inline]
    pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
        self.conn
            .try_write(Data::Copied(&[IoSlice::new(buf)], Then::Nothing))
    }

    /// Write what there is room for of several buffers.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    #[inline]
    pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        self.conn.try_write(Data::Copied(bufs, Then::Nothing))
    }

    /// Write what there is room for; more is to come: until then, what makes no full segment waits,
    /// but not longer than until the next acknowledgement, and not longer than 200 ms or an RTO
    /// (`MSG_MORE` in Linux's send(2)).
    ///
    /// # Errors
    /// As writing.
    pub async fn write_more(&self, buf: &[u8]) -> io::Result<usize> {
        poll_fn(|cx| {
            self.conn
                .poll_write(cx, Data::Copied(&[IoSlice::new(buf)], Then::More))
        })
        .await
    }

    /// As [`write_more`](Self::write_more), without waiting for room.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    #[inline]
    pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
        self.conn
            .try_write(Data::Copied(&[IoSlice::new(buf)], Then::More))
    }

    /// Write the front of `chunk`, what there is room for, without a copy where that is worth it: a
    /// chunk of [`MIN_SHARED`](crate::buffer::send::MIN_SHARED) bytes or more is shared until the
    /// peer has acknowledged it, a shorter one copied. How much it was, which `chunk` has no more.
    ///
    /// # Errors
    /// As writing.
    pub async fn write_chunk(&self, chunk: &mut Bytes) -> io::Result<usize> {
        poll_fn(|cx| self.conn.poll_write(cx, Data::Shared(chunk))).await
    }

    /// As [`write_chunk`](Self::write_chunk), without waiting for room.
    ///
    /// # Errors
    /// `WouldBlock` if there is none; otherwise as writing.
    #[inline]
    pub fn try_write_chunk(&self, chunk: &mut Bytes) -> io::Result<usize> {
        self.conn.try_write(Data::Shared(chunk))
    }

    /// Call `f` if the stream can be read or written, as `interest` says.
    ///
    /// # Errors
    /// `WouldBlock` if it cannot; otherwise what `f` gives.
    pub fn try_io<R>(
        &self,
        interest: Interest,
        f: impl FnOnce() -> io::Result<R>,
    ) -> io::Result<R> {
        let nobody = Context::from_waker(Waker::noop());
        at_once(self.conn.poll_ready(&nobody, interest))?;
        f()
    }

    /// Call `f` each time that the stream can be read or written, as `interest` says, until it gives
    /// something else than `WouldBlock`.
    ///
    /// # Errors
    /// What `f` gives.
    pub async fn async_io<R>(
        &self,
        interest: Interest,
        mut f: impl FnMut() -> io::Result<R>,
    ) -> io::Result<R> {
        loop {
            self.ready(interest).await?;
            match f() {
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                result => return result,
            }
        }
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
    #[inline]
    pub fn set_nodelay(&self, nodelay: bool) -> io::Result<()> {
        let conn = &self.conn;
        conn.nodelay.store(nodelay, Ordering::Relaxed);
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_nodelay(nodelay);
            Ok(())
        })
    }

    /// Whether segments that are not full are held back.
    ///
    /// # Errors
    /// When the stack was shut down.
    #[inline]
    pub fn cork(&self) -> io::Result<bool> {
        let mut core = self.conn.stack.shared.lock();
        Ok(core.sock(self.conn.id)?.1.is_corked())
    }

    /// Hold back segments that are not full (`true`), or no more. With nothing in flight what is
    /// held leaves after 200 ms, or an RTO if that is longer (`TCP_CORK` in Linux's tcp(7)).
    ///
    /// # Errors
    /// When the stack was shut down.
    #[inline]
    pub fn set_cork(&self, corked: bool) -> io::Result<()> {
        let conn = &self.conn;
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_cork(corked);
            Ok(())
        })
    }

    /// What [`set_notsent_lowat`](Self::set_notsent_lowat) has set.
    ///
    /// # Errors
    /// When the stack was shut down.
    #[inline]
    pub fn notsent_lowat(&self) -> io::Result<Option<u32>> {
        let mut core = self.conn.stack.shared.lock();
        let lowat = core.sock(self.conn.id)?.1.config().buffers.notsent_lowat;
        Ok(lowat.map(|l| u32::try_from(l.get()).unwrap_or(u32::MAX)))
    }

    /// Take no more while so many bytes are unsent, though the send buffer has room, and be writable
    /// again when less than half of them are left: what is written can still be chosen late, and
    /// memory is not filled for slow paths. `None`, or 0: the send buffer is the limit
    /// (`TCP_NOTSENT_LOWAT` in Linux's tcp(7)).
    ///
    /// # Errors
    /// When the stack was shut down.
    #[inline]
    pub fn set_notsent_lowat(&self, lowat: Option<u32>) -> io::Result<()> {
        let lowat = lowat.map(ByteCount::from);
        let conn = &self.conn;
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_notsent_lowat(lowat);
            Ok(())
        })
    }

    /// Time to live, or hop limit, of what is sent.
    ///
    /// # Errors
    /// When the stack was shut down.
    #[inline]
    pub fn ttl(&self) -> io::Result<u32> {
        let mut core = self.conn.stack.shared.lock();
        let (_, conn) = core.sock(self.conn.id)?;
        Ok(conn.config().hop_limit.into())
    }

    /// Time to live, or hop limit, of what is sent from now on: 1 to 255.
    ///
    /// # Errors
    /// `InvalidInput` for another number; when the stack was shut down.
    #[inline]
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = hop_limit(ttl)?;
        let conn = &self.conn;
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_hop_limit(ttl);
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
    #[inline]
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
    #[inline]
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
    #[inline]
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
    #[inline]
    pub fn trace(&self, capacity: usize) -> io::Result<TraceStream> {
        let (sink, stream) = super::trace::channel(capacity);
        let conn = &self.conn;
        conn.stack.shared.with(|core, _| {
            core.sock(conn.id)?.1.set_trace(Some(Box::new(sink)));
            Ok(stream)
        })
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
        self.conn
            .poll_write(cx, Data::Copied(&[IoSlice::new(buf)], Then::Nothing))
    }
    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.conn.poll_write(cx, Data::Copied(bufs, Then::Nothing))
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
