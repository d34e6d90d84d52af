//! The receiver of transfers that nobody asks for.

use super::messages::{Counts, Messenger};
use super::{Io, Role, RoleEvent};
use narrows::endpoint::ConnId;
use narrows::{ByteCount, Instant};

/// Accepts connections and records each transfer on them when its last byte has come; a message
/// says when it began.
#[derive(Debug)]
pub struct Receiver {
    messages: Messenger<Instant>,
    closes: bool,
}

impl Receiver {
    /// Of the transfers of these messages.
    pub fn new(messages: Messenger<Instant>) -> Self {
        Self {
            messages,
            closes: false,
        }
    }

    /// Closes a connection when a transfer on it is complete, or not.
    #[must_use]
    pub fn closing(self, closes: bool) -> Self {
        Self { closes, ..self }
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
                self.messages.read(io, conn, Counts::Delivered);
                while let Some((size, began)) = self.messages.next(conn) {
                    io.complete(io.peer(conn), began, ByteCount::new(size));
                    io.finish();
                    if self.closes {
                        io.close(conn);
                    }
                }
            }
            _ => {}
        }
    }
}
