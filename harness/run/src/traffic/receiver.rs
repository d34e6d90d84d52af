//! The receiver of transfers that nobody asks for.

use super::alarms::Alarms;
use super::messages::{Counts, Messenger};
use super::role::{Io, Role, RoleEvent};
use narrows::congestion::order::OrderedMap;
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Duration, Instant};

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
    /// Connections of which something was read since their last rest, or that rest, until they are over.
    readings: OrderedMap<ConnId, Reading>,
    alarms: Alarms<ConnId>,
}

#[derive(Debug, Default)]
struct Reading {
    /// What was read since the last rest.
    read: u64,
    rests: bool,
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
            readings: OrderedMap::new(),
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
        let reading = self.readings.get_or_default(conn);
        reading.read += n;
        if reading.read >= self.each.get() {
            *reading = Reading {
                read: 0,
                rests: true,
            };
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
                let reading = rests.and_then(|rests| rests.readings.get(&conn));
                if !reading.is_some_and(|reading| reading.rests) {
                    self.read(io, conn);
                }
            }
            RoleEvent::Closed => {
                if let Some(rests) = &mut self.rests {
                    rests.readings.remove(&conn);
                }
            }
            _ => {}
        }
    }

    fn timeout(&mut self, io: &mut Io<'_>) {
        while let Some(conn) = self.rests.as_mut().and_then(|rests| {
            let conn = rests.alarms.due(io.now())?;
            rests.readings.remove(&conn);
            Some(conn)
        }) {
            self.read(io, conn);
        }
    }

    #[inline(never)] // As `Role` says.
    fn poll_timeout(&self) -> Option<Instant> {
        self.rests.as_ref().and_then(|rests| rests.alarms.next())
    }
}
