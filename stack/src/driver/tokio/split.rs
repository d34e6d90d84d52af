//! The halves of a stream, as those of `tokio::net::tcp`.

use super::conn::{Conn, Data, Then};
use super::stream::TcpStream;
use bytes::Bytes;
use std::fmt;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use tokio::io::{AsyncRead, AsyncWrite, Interest, ReadBuf, Ready};

impl TcpStream {
    /// Two halves, for one task.
    pub fn split(&mut self) -> (ReadHalf<'_>, WriteHalf<'_>) {
        (ReadHalf(&self.conn), WriteHalf(&self.conn))
    }

    /// Two halves, for two tasks. Dropping the writing one closes the sending side.
    pub fn into_split(self) -> (OwnedReadHalf, OwnedWriteHalf) {
        let write = OwnedWriteHalf {
            conn: self.conn.clone(),
            close_on_drop: true,
        };
        (OwnedReadHalf { conn: self.conn }, write)
    }
}

/// The reading half of [`TcpStream::split`].
#[derive(Debug)]
pub struct ReadHalf<'a>(&'a Arc<Conn>);

/// The writing half of [`TcpStream::split`].
#[derive(Debug)]
pub struct WriteHalf<'a>(&'a Arc<Conn>);

/// The reading half of [`TcpStream::into_split`].
#[derive(Debug)]
pub struct OwnedReadHalf {
    conn: Arc<Conn>,
}

/// The writing half of [`TcpStream::into_split`]. Dropping it closes the sending side.
#[derive(Debug)]
pub struct OwnedWriteHalf {
    conn: Arc<Conn>,
    close_on_drop: bool,
}

/// Two halves that are not of one stream.
#[derive(Debug)]
pub struct ReuniteError(pub OwnedReadHalf, pub OwnedWriteHalf);

impl fmt::Display for ReuniteError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the two halves are not of the same stream")
    }
}
impl std::error::Error for ReuniteError {}

impl ReadHalf<'_> {
    fn conn(&self) -> &Conn {
        self.0
    }
}
impl WriteHalf<'_> {
    fn conn(&self) -> &Conn {
        self.0
    }
}

impl OwnedReadHalf {
    fn conn(&self) -> &Conn {
        &self.conn
    }

    /// The stream again.
    ///
    /// # Errors
    /// When the halves are of different streams.
    pub fn reunite(self, write: OwnedWriteHalf) -> Result<TcpStream, ReuniteError> {
        if !Arc::ptr_eq(&self.conn, &write.conn) {
            return Err(ReuniteError(self, write));
        }
        write.forget();
        Ok(TcpStream { conn: self.conn })
    }
}

impl OwnedWriteHalf {
    fn conn(&self) -> &Conn {
        &self.conn
    }

    /// Drop it without closing the sending side.
    pub fn forget(mut self) {
        self.close_on_drop = false;
    }

    /// The stream again.
    ///
    /// # Errors
    /// When the halves are of different streams.
    pub fn reunite(self, read: OwnedReadHalf) -> Result<TcpStream, ReuniteError> {
        read.reunite(self)
    }
}

impl Drop for OwnedWriteHalf {
    fn drop(&mut self) {
        if self.close_on_drop {
            // It fails when the stack is gone, and the connection with it.
            let _ = self.conn.close();
        }
    }
}

macro_rules! addresses {
    () => {
        /// Our address.
        ///
        /// # Errors
        /// None; the signature is tokio's.
        pub fn local_addr(&self) -> io::Result<SocketAddr> {
            self.conn().local_addr()
        }

        /// The peer's address.
        ///
        /// # Errors
        /// None; the signature is tokio's.
        pub fn peer_addr(&self) -> io::Result<SocketAddr> {
            self.conn().peer_addr()
        }

        /// Wait until it is as `interest` says; how it is.
        ///
        /// # Errors
        /// When the stack was shut down.
        pub async fn ready(&self, interest: Interest) -> io::Result<Ready> {
            self.conn().ready(interest).await
        }
    };
}

// What is `#[inline]` few programs call: it is compiled where it is called.
macro_rules! reading {
    ($($half:ty),*) => {$(
        impl $half {
            addresses!();

            /// Read without taking; waits until there is something.
            ///
            /// # Errors
            /// As reading.
            pub async fn peek(&mut self, buf: &mut [u8]) -> io::Result<usize> {
                poll_fn(|cx| self.conn().poll_peek(cx, &mut ReadBuf::new(buf))).await
            }

            /// As [`peek`](Self::peek).
            ///
            /// # Errors
            /// As reading.
            #[inline]
            pub fn poll_peek(
                &mut self,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<usize>> {
                self.conn().poll_peek(cx, buf)
            }

            /// Wait until there is something to read.
            ///
            /// # Errors
            /// When the stack was shut down.
            pub async fn readable(&self) -> io::Result<()> {
                poll_fn(|cx| self.conn().poll_read_ready(cx)).await
            }

            /// Read what there is.
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing; otherwise as reading.
            #[inline]
            pub fn try_read(&self, buf: &mut [u8]) -> io::Result<usize> {
                self.conn().try_read(buf)
            }

            /// As [`TcpStream::read_chunk`].
            ///
            /// # Errors
            /// As reading.
            pub async fn read_chunk(&self, most: usize) -> io::Result<Bytes> {
                poll_fn(|cx| self.conn().poll_read_chunk(cx, most)).await
            }

            /// As [`TcpStream::read_chunks`].
            ///
            /// # Errors
            /// As reading.
            pub async fn read_chunks(
                &self,
                chunks: &mut Vec<Bytes>,
                most: usize,
            ) -> io::Result<usize> {
                poll_fn(|cx| self.conn().poll_read_chunks(cx, chunks, most)).await
            }

            /// As [`TcpStream::try_read_chunk`].
            ///
            /// # Errors
            /// `WouldBlock` if there is nothing; otherwise as reading.
            #[inline]
            pub fn try_read_chunk(&self, most: usize) -> io::Result<Bytes> {
                self.conn().try_read_chunk(most)
            }
        }

        impl AsyncRead for $half {
            fn poll_read(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                self.conn().poll_read(cx, buf)
            }
        }
    )*};
}

macro_rules! writing {
    ($($half:ty),*) => {$(
        impl $half {
            addresses!();

            /// Wait until there is room to write.
            ///
            /// # Errors
            /// When the stack was shut down.
            pub async fn writable(&self) -> io::Result<()> {
                poll_fn(|cx| self.conn().poll_write_ready(cx)).await
            }

            /// Write what there is room for.
            ///
            /// # Errors
            /// `WouldBlock` if there is none; otherwise as writing.
            #[inline]
            pub fn try_write(&self, buf: &[u8]) -> io::Result<usize> {
                self.conn().try_write(Data::Copied(&[IoSlice::new(buf)], Then::Nothing))
            }

            /// Write what there is room for of several buffers.
            ///
            /// # Errors
            /// `WouldBlock` if there is none; otherwise as writing.
            #[inline]
            pub fn try_write_vectored(&self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
                self.conn().try_write(Data::Copied(bufs, Then::Nothing))
            }

            /// As [`TcpStream::write_more`].
            ///
            /// # Errors
            /// As writing.
            pub async fn write_more(&self, buf: &[u8]) -> io::Result<usize> {
                poll_fn(|cx| self.conn().poll_write(cx, Data::Copied(&[IoSlice::new(buf)], Then::More))).await
            }

            /// As [`TcpStream::try_write_more`].
            ///
            /// # Errors
            /// `WouldBlock` if there is no room; otherwise as writing.
            #[inline]
            pub fn try_write_more(&self, buf: &[u8]) -> io::Result<usize> {
                self.conn().try_write(Data::Copied(&[IoSlice::new(buf)], Then::More))
            }

            /// As [`TcpStream::write_chunk`].
            ///
            /// # Errors
            /// As writing.
            pub async fn write_chunk(&self, chunk: &mut Bytes) -> io::Result<usize> {
                poll_fn(|cx| self.conn().poll_write(cx, Data::Shared(chunk))).await
            }

            /// As [`TcpStream::try_write_chunk`].
            ///
            /// # Errors
            /// `WouldBlock` if there is no room; otherwise as writing.
            #[inline]
            pub fn try_write_chunk(&self, chunk: &mut Bytes) -> io::Result<usize> {
                self.conn().try_write(Data::Shared(chunk))
            }
        }

        impl AsyncWrite for $half {
            fn poll_write(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buf: &[u8],
            ) -> Poll<io::Result<usize>> {
                self.conn().poll_write(cx, Data::Copied(&[IoSlice::new(buf)], Then::Nothing))
            }
            fn poll_write_vectored(
                self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bufs: &[IoSlice<'_>],
            ) -> Poll<io::Result<usize>> {
                self.conn().poll_write(cx, Data::Copied(bufs, Then::Nothing))
            }
            fn is_write_vectored(&self) -> bool {
                true
            }
            fn poll_flush(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(Ok(()))
            }
            fn poll_shutdown(self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
                Poll::Ready(self.conn().close())
            }
        }
    )*};
}

reading!(ReadHalf<'_>, OwnedReadHalf);
writing!(WriteHalf<'_>, OwnedWriteHalf);
