//! What the hosts of these tests do.

use std::net::SocketAddr;

use narrows::Instant;
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows_net::host::{SimApp, SimEndpoint};

/// Sends some bytes to another host, if it has one, and takes what others send.
pub(crate) struct Transfer {
    own: SocketAddr,
    to: Option<SocketAddr>,
    bytes: u64,
    conn: Option<ConnId>,
    sent: u64,
    pub(crate) received: u64,
    pub(crate) wrong: u64,
    /// When connections of others were closed by their senders.
    pub(crate) finished: Vec<Instant>,
}

impl Transfer {
    /// Listens on `own`, and sends `bytes` to `to`.
    pub(crate) fn new(own: SocketAddr, to: Option<SocketAddr>, bytes: u64) -> Self {
        Self {
            own,
            to,
            bytes,
            conn: None,
            sent: 0,
            received: 0,
            wrong: 0,
            finished: Vec::new(),
        }
    }
}

impl SimApp for Transfer {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        tcp.listen(self.own, 64, None).expect("a free port");
        let from = SocketAddr::new(self.own.ip(), 0);
        let conn = self.to.map(|to| tcp.connect(now, from, to, None));
        self.conn = conn.map(|conn| conn.expect("a connection"));
    }

    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { conn: id, event } = event else {
            return;
        };
        let Some(conn) = tcp.connection_mut(id) else {
            return;
        };
        match event {
            Event::Connected | Event::Writable if self.conn == Some(id) => {
                let rest = (self.bytes - self.sent) as usize;
                if rest > 0 {
                    self.sent += conn.send(rest, rest).expect("an open connection") as u64;
                    if self.sent == self.bytes {
                        conn.close(now);
                    }
                }
            }
            Event::Readable | Event::PeerClosed => {
                let n = conn.readable();
                conn.consume(n, now);
                self.received += n;
                self.wrong += conn.recv_buffer().mismatched;
                if event == Event::PeerClosed && self.conn != Some(id) {
                    self.finished.push(now);
                    conn.close(now);
                }
            }
            _ => {}
        }
    }
}
