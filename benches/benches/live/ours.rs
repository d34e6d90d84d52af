//! Our TCP under the poll driver.

use super::kernel::CHUNK;
use narrows::Instant;
use narrows::buffer::Bytes;
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
    /// What the source sends again and again, and what is left of it this time.
    source: Bytes,
    rest: Bytes,
}

impl Server {
    /// At `at`.
    pub(crate) fn new(at: SocketAddr, role: Role) -> Self {
        // As long as what the kernel's user writes in a call.
        let source = Bytes::from(vec![7; CHUNK]);
        Self {
            at,
            role,
            chunk: vec![7; 64 << 10],
            rest: source.clone(),
            source,
        }
    }

    fn serve(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, id: ConnId) {
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        match &self.role {
            Role::Source => {
                while conn.send_chunk(&mut self.rest).is_ok_and(|n| n > 0) {
                    if self.rest.is_empty() {
                        self.rest = self.source.clone();
                    }
                }
            }
            Role::Sink(counter) => {
                // In place: no copy of the application's own.
                let n = conn.readable();
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
