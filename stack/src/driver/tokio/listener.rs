//! A listener with the face of `tokio::net::TcpListener`.

use super::conn::Conn;
use super::stream::TcpStream;
use super::{Inner, hop_limit};
use crate::endpoint::ListenerId;
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

/// Accepts connections.
///
/// When as many wait to be accepted as the backlog allows, peers' SYNs are dropped until there is
/// room. Dropping the listener resets those that wait.
pub struct TcpListener {
    stack: Arc<Inner>,
    id: ListenerId,
    local: SocketAddr,
    nodelay: bool,
    linger: Option<Duration>,
}

impl TcpListener {
    pub(super) fn new(
        stack: Arc<Inner>,
        id: ListenerId,
        local: SocketAddr,
        nodelay: bool,
        linger: Option<Duration>,
    ) -> Self {
        Self {
            stack,
            id,
            local,
            nodelay,
            linger,
        }
    }

    /// The next connection and where it is from. Cancellation-safe: a connection that nobody took
    /// is the next one's.
    ///
    /// # Errors
    /// When the stack was shut down or its device is gone.
    pub async fn accept(&self) -> io::Result<(TcpStream, SocketAddr)> {
        poll_fn(|cx| self.poll_accept(cx)).await
    }

    /// As [`accept`](Self::accept).
    ///
    /// # Errors
    /// When the stack was shut down or its device is gone.
    pub fn poll_accept(&self, cx: &mut Context<'_>) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        let mut core = self.stack.shared.lock();
        loop {
            let Some(id) = core.next_accepted(self.id) else {
                core.check_open()?;
                if let Some(accepting) = core.listeners.get_mut(&self.id) {
                    accepting.wakers.register(cx);
                }
                return Poll::Pending;
            };
            let Some(conn) = core.engine.interface.endpoint().connection(id) else {
                continue;
            };
            let (local, peer) = (conn.local(), conn.remote());
            drop(core);
            let stack = self.stack.clone();
            let conn = Conn::new(stack, id, local, peer, self.nodelay, self.linger);
            let conn = Arc::new(conn);
            return Poll::Ready(Ok((TcpStream { conn }, peer)));
        }
    }

    /// Time to live, or hop limit, with which connections begin.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn ttl(&self) -> io::Result<u32> {
        let core = self.stack.shared.lock();
        core.check_open()?;
        let ttl = core.engine.interface.endpoint().listener_hop_limit(self.id);
        ttl.map(u32::from)
            .ok_or_else(|| io::ErrorKind::NotConnected.into())
    }

    /// Time to live, or hop limit, with which connections begin whose first segment arrives from
    /// now on: 1 to 255. The answer to that segment has it too.
    ///
    /// # Errors
    /// `InvalidInput` for another number; when the stack was shut down.
    pub fn set_ttl(&self, ttl: u32) -> io::Result<()> {
        let ttl = hop_limit(ttl)?;
        let mut core = self.stack.shared.lock();
        core.check_open()?;
        let endpoint = core.engine.interface.endpoint_mut();
        endpoint.set_listener_hop_limit(self.id, ttl);
        Ok(())
    }

    /// Where it listens.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local)
    }
}

impl Drop for TcpListener {
    fn drop(&mut self) {
        let id = self.id;
        self.stack
            .shared
            .with(|core, now| core.remove_listener(id, now));
    }
}

impl fmt::Debug for TcpListener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpListener")
            .field("local", &self.local)
            .finish_non_exhaustive()
    }
}
