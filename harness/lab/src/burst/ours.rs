//! The applications of a host of ours among others: it asks, and replies.

use super::{BurstSpec, CHUNK, PORT, Queries};
use crate::lab;
use narrows::conn::Event;
use narrows::driver::LiveTcp;
use narrows::driver::poll::Application;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows::interface::Interface;
use narrows::{Duration, Instant};
use std::io;
use std::net::SocketAddr;

/// A host.
pub(super) struct OursHost {
    queries: Queries,
    number: u8,
    /// To the others, whom it asks; `None` to itself.
    asking: Vec<Option<ConnId>>,
    /// Those that others ask over, with the bytes that are owed on each.
    replying: Vec<(ConnId, u64)>,
    next: Option<Instant>,
}

impl OursHost {
    pub(super) fn new(spec: &BurstSpec, number: u8) -> Self {
        Self {
            queries: Queries::new(spec, number.into()),
            number,
            asking: Vec::new(),
            replying: Vec::new(),
            next: None,
        }
    }

    fn later(&mut self, now: Instant) -> Instant {
        now + Duration::from_nanos(self.queries.interval())
    }

    /// As much as its TCP takes of what is owed.
    fn reply(tcp: &mut Interface<LiveTcp>, (conn, owed): &mut (ConnId, u64)) {
        const DATA: &[u8] = &[b'!'; CHUNK];
        let Some(conn) = tcp.endpoint_mut().connection_mut(*conn) else {
            return;
        };
        while *owed > 0 {
            let most = usize::try_from(*owed).map_or(CHUNK, |n| n.min(CHUNK));
            match conn.send(&DATA[..most], most) {
                Ok(n) if n > 0 => *owed -= n as u64,
                _ => break,
            }
        }
    }
}

impl Application<LiveTcp> for OursHost {
    fn start(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) -> io::Result<()> {
        let at = |number| SocketAddr::new(lab::addresses(number)[0], PORT);
        let hosts = self.queries.spec.hosts;
        tcp.listen(at(self.number), hosts.into(), None)
            .map_err(io::Error::other)?;
        for to in 1..=hosts {
            let mut connect = |to| tcp.connect(now, None, at(to), None);
            let conn = (to != self.number).then(|| connect(to)).transpose();
            self.asking.push(conn.map_err(io::Error::other)?);
        }
        self.next = Some(self.later(now));
        Ok(())
    }

    fn event(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant, event: EndpointEvent) {
        let (id, event) = match event {
            EndpointEvent::Accepted { conn, .. } => return self.replying.push((conn, 0)),
            EndpointEvent::Conn { conn, event } => (conn, event),
        };
        let mut heard = 0;
        if event == Event::Readable
            && let Some(conn) = tcp.endpoint_mut().connection_mut(id)
        {
            heard = conn.readable();
            conn.consume(heard, now);
        }
        let replier = self.replying.iter_mut().find(|(known, _)| *known == id);
        if let Some(replier) = replier {
            replier.1 += heard * self.queries.spec.size.get();
            Self::reply(tcp, replier);
        }
    }

    /// A query is due, or several.
    fn wake(&mut self, tcp: &mut Interface<LiveTcp>, now: Instant) {
        while let Some(due) = self.next.filter(|at| *at <= now) {
            let own = usize::from(self.number) - 1;
            for to in self.queries.servers(own) {
                let conn = self.asking.get(to).copied().flatten();
                if let Some(conn) = conn.and_then(|conn| tcp.endpoint_mut().connection_mut(conn)) {
                    // What finds no room is not asked, as with sockets.
                    let _ = conn.send(b"?", 1);
                }
            }
            self.next = Some(self.later(due));
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.next
    }
}
