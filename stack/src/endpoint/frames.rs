//! What an interface asks of the endpoint beyond packets: where they go, how they are to be cut,
//! and which acknowledgements cannot wait.

use super::{Endpoint, NextOutput};
use crate::conn::TcpTypes;
use narrows_congestion::{ByteCount, Instant};
use std::net::IpAddr;

impl<T: TcpTypes> Endpoint<T> {
    /// Payload of a full segment of the connection that sends `next`.
    pub(crate) fn size_of(&self, next: &NextOutput) -> ByteCount {
        match next {
            NextOutput::Stray(..) => ByteCount::MAX,
            NextOutput::Conn(slot, _) => {
                match self
                    .slots
                    .get(*slot as usize)
                    .and_then(|s| s.conn.as_deref())
                {
                    Some(conn) => conn.sender().mss(),
                    None => ByteCount::MAX,
                }
            }
        }
    }

    /// Where `next` goes.
    pub(crate) fn destination_of(&self, next: &NextOutput) -> Option<IpAddr> {
        match next {
            NextOutput::Stray(ip, _) => Some(ip.dst),
            NextOutput::Conn(slot, _) => {
                let conn = self.slots.get(*slot as usize)?.conn.as_deref()?;
                Some(conn.remote().ip())
            }
        }
    }

    /// The acknowledgement that the last packet given to
    /// [`handle_packet`](Self::handle_packet) is owed at once because it came out of order.
    pub(crate) fn disorder_ack(&mut self, now: Instant) -> Option<NextOutput> {
        let slot = self.last_input.take()?;
        let conn = self.slots.get_mut(slot as usize)?.conn.as_deref_mut()?;
        if !conn.owes_disorder_ack() {
            return None;
        }
        Some(NextOutput::Conn(slot, conn.output(now)?))
    }
}
