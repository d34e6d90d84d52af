//! Our application in the matrix: sends so many bytes, expects so many, ends as it is told.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use super::bytes::Stream;
use super::live::Host;
use super::netns::PATIENCE;
use narrows::Instant;
use narrows::conn::Event;
use narrows::conn::info::TcpInfo;
use narrows::conn::state::CloseReason;
use narrows::driver::LiveTcp;
use narrows::driver::poll::Application;
use narrows::endpoint::{ConnId, EndpointEvent};
use std::io;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};

/// What crosses to the kernel, and what crosses to us.
pub const UP: Stream = Stream(1 << 40);
pub const DOWN: Stream = Stream(1 << 41);

/// Who opens the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Open {
    /// The kernel, to us at this address.
    Kernel(SocketAddr),
    /// We, to the kernel at this address.
    Ours(SocketAddr),
    /// Both: we, from the first address to the second, from where the kernel connects to us.
    Both(SocketAddr, SocketAddr),
}

/// When our side begins to send.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Begin {
    AtOnce,
    /// After the kernel has closed.
    AfterFin,
}

/// What our side does when it has sent everything.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Then {
    /// It closes.
    Close,
    /// It closes and lets go of the connection.
    Release,
    /// Nothing, until it is told.
    Wait,
}

/// What the test tells our side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    Close,
    Abort,
    Release,
    /// Take it all from now on.
    Read,
}

/// What the test sees of our side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    pub accepted: usize,
    pub connected: bool,
    pub sent: u64,
    pub got: u64,
    pub wrong: Option<u64>,
    pub peer_closed: bool,
    pub closed: Option<CloseReason>,
    /// The figures, asked for with [`Board::info`].
    pub info: Option<TcpInfo>,
    /// ... and how often we slowed down because of a mark.
    pub ecn_reductions: u64,
}

#[derive(Debug, Default)]
struct Wanted {
    orders: Vec<Order>,
    info: bool,
}

/// Between the test and the driver's thread.
#[derive(Debug, Default)]
pub struct Board {
    seen: Mutex<Seen>,
    changed: Condvar,
    wanted: Mutex<Wanted>,
}

impl Board {
    pub fn order(&self, order: Order) {
        self.wanted.lock().unwrap().orders.push(order);
    }

    /// Ask for the figures; wake the driver, then wait for them with [`await_seen`](Self::await_seen).
    pub fn ask_info(&self) {
        self.seen.lock().unwrap().info = None;
        self.wanted.lock().unwrap().info = true;
    }

    pub fn seen(&self) -> Seen {
        *self.seen.lock().unwrap()
    }

    /// Wait until our side is so.
    pub fn await_seen(&self, what: &str, so: impl Fn(&Seen) -> bool) -> Seen {
        let seen = self.seen.lock().unwrap();
        let (seen, timeout) = self
            .changed
            .wait_timeout_while(seen, PATIENCE, |seen| !so(seen))
            .unwrap();
        assert!(
            !timeout.timed_out(),
            "in vain: {what}; it hangs at {seen:?}"
        );
        *seen
    }
}

/// The application.
pub struct Transfer {
    pub open: Open,
    pub up: u64,
    pub begin: Begin,
    pub then: Then,
    /// Leave what arrives unread.
    pub deaf: bool,
    pub board: Arc<Board>,
    conn: Option<ConnId>,
    seen: Seen,
    buf: Vec<u8>,
}

impl Transfer {
    pub fn new(open: Open, up: u64, begin: Begin, then: Then, board: Arc<Board>) -> Self {
        Self {
            open,
            up,
            begin,
            then,
            deaf: false,
            board,
            conn: None,
            seen: Seen::default(),
            buf: vec![0; 1 << 17],
        }
    }

    fn pump(&mut self, tcp: &mut Host, now: Instant) {
        let Some(id) = self.conn else { return };
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        if !self.deaf {
            let mut n = 0;
            for part in conn.recv_buffer().slices(conn.readable_end()) {
                let at = self.seen.got + n;
                self.seen.wrong = self.seen.wrong.or(DOWN.first_wrong(at, part));
                n += part.len() as u64;
            }
            conn.consume(n, now);
            self.seen.got += n;
        }
        if !self.seen.connected || (self.begin == Begin::AfterFin && !self.seen.peer_closed) {
            return;
        }
        while self.seen.sent < self.up {
            let n = (self.up - self.seen.sent).min(self.buf.len() as u64) as usize;
            // What is certainly not taken need not be made; one byte asks to be told of room.
            let n = n.min(conn.send_room().max(1) as usize);
            UP.fill(self.seen.sent, &mut self.buf[..n]);
            let taken = conn.send(&self.buf[..n], n).unwrap_or(0);
            self.seen.sent += taken as u64;
            if taken < n {
                return;
            }
        }
        match self.then {
            Then::Close => conn.close(now),
            Then::Release => tcp.endpoint_mut().release(id, now),
            Then::Wait => {}
        }
    }

    fn show(&mut self) {
        let mut shown = self.board.seen.lock().unwrap();
        self.seen.info = self.seen.info.take().or(shown.info);
        *shown = self.seen;
        self.seen.info = None;
        self.board.changed.notify_all();
    }
}

impl Application<LiveTcp> for Transfer {
    fn start(&mut self, tcp: &mut Host, now: Instant) -> io::Result<()> {
        match self.open {
            Open::Kernel(at) => {
                tcp.listen(at, 16, None).map_err(io::Error::other)?;
            }
            Open::Ours(to) => {
                let id = tcp.connect(now, None, to, None).map_err(io::Error::other)?;
                self.conn = Some(id);
            }
            Open::Both(from, to) => {
                let id = tcp.connect(now, Some(from), to, None);
                self.conn = Some(id.map_err(io::Error::other)?);
            }
        }
        Ok(())
    }

    fn event(&mut self, tcp: &mut Host, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => {
                self.seen.accepted += 1;
                self.seen.connected = true;
                self.conn = Some(conn);
            }
            EndpointEvent::Conn { event, .. } => match event {
                Event::Connected => self.seen.connected = true,
                Event::PeerClosed => self.seen.peer_closed = true,
                Event::Closed(why) => self.seen.closed = Some(why),
                _ => {}
            },
        }
        self.pump(tcp, now);
        self.show();
    }

    fn wake(&mut self, tcp: &mut Host, now: Instant) {
        let wanted = std::mem::take(&mut *self.board.wanted.lock().unwrap());
        let Some(id) = self.conn else { return };
        for order in wanted.orders {
            let conn = tcp.endpoint_mut().connection_mut(id);
            match (order, conn) {
                (Order::Close, Some(conn)) => conn.close(now),
                (Order::Abort, Some(conn)) => conn.abort(now),
                (Order::Release, _) => tcp.endpoint_mut().release(id, now),
                (Order::Read, _) => self.deaf = false,
                (_, None) => {}
            }
        }
        self.pump(tcp, now);
        if wanted.info
            && let Some(conn) = tcp.endpoint().connection(id)
        {
            self.seen.info = Some(TcpInfo::of(conn, now));
            self.seen.ecn_reductions = conn.sender_stats().ecn_reductions;
        }
        self.show();
    }
}
