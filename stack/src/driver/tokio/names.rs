//! Connecting to names and listening on them: each of a name's addresses is tried until one works.

use super::Stack;
use super::listener::TcpListener;
use super::socket::TcpSocket;
use super::stream::TcpStream;
use std::io;
use std::net::SocketAddr;
use tokio::net::ToSocketAddrs;

impl TcpStream {
    /// Connect to `addr`: to the first of its addresses that answers.
    ///
    /// # Errors
    /// Of the last address tried; an error kind as the standard library would give.
    pub async fn connect(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        first(addr, |addr| TcpSocket::for_addr(stack, addr).connect(addr)).await
    }
}

impl TcpListener {
    /// Listen on `addr`, with a backlog of 1024. Port 0 lets one be chosen, an unspecified address
    /// means all of the stack's of that family.
    ///
    /// # Errors
    /// Of the last address tried: `AddrInUse`, `AddrNotAvailable`.
    pub async fn bind(stack: &Stack, addr: impl ToSocketAddrs) -> io::Result<Self> {
        first(addr, |addr| async move {
            let mut socket = TcpSocket::for_addr(stack, addr);
            socket.bind(addr)?;
            socket.listen(1024)
        })
        .await
    }
}

/// What `attempt` makes of the first address with which it works; the error of the last, if none is.
async fn first<T, F: Future<Output = io::Result<T>>>(
    name: impl ToSocketAddrs,
    attempt: impl Fn(SocketAddr) -> F,
) -> io::Result<T> {
    let mut last = None;
    for addr in tokio::net::lookup_host(name).await? {
        match attempt(addr).await {
            Ok(made) => return Ok(made),
            Err(e) => last = Some(e),
        }
    }
    Err(last.unwrap_or_else(|| {
        let text = "could not resolve to any address";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    }))
}
