//! Our TCP under the poll driver.

use narrows::Instant;
use narrows::conn::Event;
use narrows::driver::LiveTcp;
use narrows::driver::poll::Application;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::Interface;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// What our side does with the connection that it accepts.
#[derive(Clone, Debug)]
pub(crate) enum Role {
    /// Sends for ever.
    Source,
    /// Counts what comes.
    Sink(Arc<AtomicU64>),
    /// Sends back what comes.
    Echo,
}

/// A server for one connection.
pub(crate) struct Server {
    at: SocketAddr,
    role: Role,
    chunk: Vec<u8>,
}

impl Server {
    /// At `at`.
    pub(crate) fn new(at: SocketAddr, role: Role) -> Self {
        Self {
            at,
            role,
            chunk: vec![7; 64 << 10],
        }
    }

    fn serve(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, id: ConnId) {
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        match &self.role {
            Role::Source => {
                while conn.send(&self.chunk, self.chunk.len()).ok() == Some(self.chunk.len()) {}
            }
            Role::Sink(counter) => {
                // In place: no copy of the application's own.
                let n = conn.recv_buffer().peek(conn.readable_end()).len() as u64;
                conn.consume(n, now);
                counter.fetch_add(n, Ordering::Relaxed);
            }
            Role::Echo => {
                let view = conn.recv_buffer().peek(conn.readable_end());
                let n = view.copy_to_slice(&mut self.chunk);
                let _ = conn.send(&self.chunk[..n], n);
                conn.consume(n as u64, now);
            }
        }
    }
}

impl Application<LiveTcp> for Server {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, _: Instant) -> io::Result<()> {
        tcp.listen(self.at, 8, None).map_err(io::Error::other)?;
        Ok(())
    }
    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => {
                if let Some(conn) = tcp.endpoint_mut().connection_mut(conn) {
                    conn.set_nodelay(true);
                }
                self.serve(tcp, now, conn);
            }
            EndpointEvent::Conn { conn, event } => match event {
                Event::Closed(_) => tcp.endpoint_mut().release(conn, now),
                Event::Readable | Event::Writable => self.serve(tcp, now, conn),
                _ => {}
            },
        }
    }
}
