//! The receiver of transfers that nobody asks for.

use super::alarms::Alarms;
use super::messages::{Counts, Messenger};
use super::role::{Io, Role, RoleEvent};
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};
use std::collections::{BTreeMap, BTreeSet};

/// Accepts connections and records each transfer on them when its last byte has come; a message
/// says when it began.
#[derive(Debug)]
pub struct Receiver {
    messages: Messenger<Instant>,
    closes: bool,
    rests: Option<Rests>,
}

/// A reader that is busy with something else every now and then.
#[derive(Debug)]
struct Rests {
    each: ByteCount,
    long: Duration,
    /// What was read of a connection since the last rest.
    read: BTreeMap<ConnId, u64>,
    /// Connections that rest.
    resting: BTreeSet<ConnId>,
    alarms: Alarms<ConnId>,
}

impl Receiver {
    /// Of the transfers of these messages.
    pub fn new(messages: Messenger<Instant>) -> Self {
        Self {
            messages,
            closes: false,
            rests: None,
        }
    }

    /// Closes a connection when a transfer on it is complete, or not.
    #[must_use]
    pub fn closing(self, closes: bool) -> Self {
        Self { closes, ..self }
    }

    /// Reads nothing from a connection for `long` each time that it has read `each` bytes or more
    /// from it.
    #[must_use]
    pub fn resting(self, each: ByteCount, long: Duration) -> Self {
        let rests = (!long.is_zero()).then(|| Rests {
            each,
            long,
            read: BTreeMap::new(),
            resting: BTreeSet::new(),
            alarms: Alarms::default(),
        });
        Self { rests, ..self }
    }

    fn read(&mut self, io: &mut Io<'_>, conn: ConnId) {
        if let Some(rests) = &mut self.rests {
            let there = io.tcp().connection(conn).map_or(0, |conn| conn.readable());
            rests.has_read(io.now(), conn, there);
        }
        self.messages.read(io, conn, Counts::Delivered);
        while let Some((size, began)) = self.messages.next(conn) {
            io.complete(io.peer(conn), began, ByteCount::new(size));
            io.finish();
            if self.closes {
                io.close(conn);
            }
        }
    }
}

impl Rests {
    fn has_read(&mut self, now: Instant, conn: ConnId, n: u64) {
        if n == 0 {
            return;
        }
        let read = self.read.entry(conn).or_default();
        *read += n;
        if *read >= self.each.get() {
            self.read.remove(&conn);
            self.resting.insert(conn);
            self.alarms.set(now + self.long, conn);
        }
    }
}

impl Role for Receiver {
    fn open(&mut self, io: &mut Io<'_>) {
        io.listen();
    }

    fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
        match event {
            RoleEvent::Accepted => self.messages.accept(io, conn, 0),
            RoleEvent::Readable => {
                let rests = self.rests.as_ref();
                if !rests.is_some_and(|rests| rests.resting.contains(&conn)) {
                    self.read(io, conn);
                }
            }
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        while let Some(conn) = self.rests.as_mut().and_then(|rests| {
            let conn = rests.alarms.due(io.now())?;
            rests.resting.remove(&conn);
            Some(conn)
        }) {
            self.read(io, conn);
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.rests.as_ref().and_then(|rests| rests.alarms.next())
    }
}
