//! What the tests of devices and drivers share: applications, and a network namespace.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use narrows::Instant;
use narrows::buffer::synthetic::fill_pattern;
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::device::rule::Fate;
use narrows::driver::poll::Application;
use narrows::driver::{LiveTcp, secret};
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Interface, InterfaceConfig};
use narrows::wire::ethernet::MacAddr;
use std::io::{self, ErrorKind, Read};
use std::net::SocketAddr;
use std::ops::Range;
use std::sync::Arc;

pub type Host = Interface<LiveTcp>;

pub use narrows::buffer::synthetic::pattern;

pub fn data(from: u64, len: usize) -> Vec<u8> {
    let mut bytes = vec![0; len];
    fill_pattern(from, &mut bytes);
    bytes
}

/// Reads some. A read with a time limit that the kernel interrupts is not begun anew by itself.
pub fn read_some(stream: &mut impl Read, buf: &mut [u8]) -> io::Result<usize> {
    loop {
        match stream.read(buf) {
            Err(e) if e.kind() == ErrorKind::Interrupted => {}
            read => return read,
        }
    }
}

/// Our side of a link: 10.77.0.`n` and fd77::`n`.
pub fn host(n: u8, tcp: TcpConfig, capabilities: Capabilities) -> Host {
    let addresses = vec![
        format!("10.77.0.{n}/24").parse().unwrap(),
        format!("fd77::{n}/64").parse().unwrap(),
    ];
    let config = InterfaceConfig::new(MacAddr([2, 0x77, 0, 0, 0, n]), addresses);
    let endpoint = EndpointConfig::new(Arc::new(tcp), secret().unwrap());
    Host::new(config, endpoint, capabilities).unwrap()
}

/// Refuses these tries, the first being 1.
pub fn tries(refused: Range<u64>) -> impl FnMut(Instant, usize) -> Fate + Send {
    let mut number = 0;
    move |_, _| {
        number += 1;
        match refused.contains(&number) {
            true => Fate::Refused,
            false => Fate::Leaves,
        }
    }
}

/// Refuses all from the `first` try on, for `span`.
pub fn for_a_while(
    first: u64,
    span: narrows::Duration,
) -> impl FnMut(Instant, usize) -> Fate + Send {
    let (mut since, mut until) = (tries(first..u64::MAX), None);
    move |now, len| match since(now, len) {
        Fate::Refused if now < *until.get_or_insert(now + span) => Fate::Refused,
        _ => Fate::Leaves,
    }
}

/// Sends back what it gets, and closes when the other side has.
pub struct Echo {
    pub at: SocketAddr,
    pub accepted: usize,
    pub closed: usize,
}

impl Echo {
    pub fn new(at: &str) -> Self {
        Self {
            at: at.parse().unwrap(),
            accepted: 0,
            closed: 0,
        }
    }

    fn pump(tcp: &mut Host, now: Instant, id: ConnId, closing: bool) {
        let Some(conn) = tcp.endpoint_mut().connection_mut(id) else {
            return;
        };
        while conn.readable() > 0 && conn.send_room() > 0 {
            let mut buf = [0; 65_536];
            let view = conn.recv_buffer().peek(conn.readable_end());
            let n = view.copy_to_slice(&mut buf);
            let taken = conn.send(&buf[..n], n).unwrap();
            conn.consume(taken as u64, now);
        }
        if conn.readable() > 0 {
            // Ask to be told of room.
            let _ = conn.send(&[], 1);
        } else if closing || !conn.state().can_receive() {
            conn.close(now);
        }
    }
}

impl Application<LiveTcp> for Echo {
    fn start(&mut self, tcp: &mut Host, _: Instant) -> io::Result<()> {
        tcp.listen(self.at, 128, None).map_err(io::Error::other)?;
        Ok(())
    }
    fn event(&mut self, tcp: &mut Host, now: Instant, event: EndpointEvent) {
        match event {
            EndpointEvent::Accepted { conn, .. } => {
                self.accepted += 1;
                Self::pump(tcp, now, conn, false);
            }
            EndpointEvent::Conn { conn, event } => match event {
                Event::PeerClosed => Self::pump(tcp, now, conn, true),
                Event::Readable | Event::Writable => Self::pump(tcp, now, conn, false),
                Event::Closed(_) => {
                    self.closed += 1;
                    tcp.endpoint_mut().release(conn, now);
                }
                _ => {}
            },
        }
    }
}

/// Sends `total` bytes, expects them back, closes.
pub struct Client {
    pub to: SocketAddr,
    pub total: u64,
    pub sent: u64,
    pub got: u64,
    pub outcome: Option<Result<(), String>>,
    conn: Option<ConnId>,
}

impl Client {
    pub fn new(to: &str, total: u64) -> Self {
        Self {
            to: to.parse().unwrap(),
            total,
            sent: 0,
            got: 0,
            outcome: None,
            conn: None,
        }
    }

    fn pump(&mut self, tcp: &mut Host, now: Instant) {
        let Some(conn) = self.conn.and_then(|c| tcp.endpoint_mut().connection_mut(c)) else {
            return;
        };
        while self.sent < self.total {
            let n = (self.total - self.sent).min(65_536) as usize;
            let taken = conn.send(&data(self.sent, n), n).unwrap_or(0);
            self.sent += taken as u64;
            if taken < n {
                break;
            }
        }
        let n = conn.readable();
        let bytes = conn.recv_buffer().slices(conn.readable_end()).flatten();
        let wrong = (bytes.copied().zip(self.got..)).find(|&(byte, at)| byte != pattern(at));
        if let Some((byte, at)) = wrong {
            self.outcome = Some(Err(format!("byte {at} is {byte}")));
        }
        conn.consume(n, now);
        self.got += n;
        if self.got == self.total {
            conn.close(now);
        }
    }
}

impl Application<LiveTcp> for Client {
    fn start(&mut self, tcp: &mut Host, now: Instant) -> io::Result<()> {
        self.conn = Some(
            tcp.connect(now, None, self.to, None)
                .map_err(io::Error::other)?,
        );
        Ok(())
    }
    fn event(&mut self, tcp: &mut Host, now: Instant, event: EndpointEvent) {
        let EndpointEvent::Conn { event, .. } = event else {
            return;
        };
        match event {
            Event::Closed(why) => {
                self.outcome
                    .get_or_insert(Err(format!("closed after {} bytes: {why}", self.got)));
            }
            Event::PeerClosed if self.got == self.total => {
                self.outcome.get_or_insert(Ok(()));
            }
            _ => self.pump(tcp, now),
        }
    }
    fn is_done(&self) -> bool {
        self.outcome.is_some()
    }
}
