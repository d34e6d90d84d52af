//! Writes what a run sends as a capture file.
//!
//! The capture is taken where an incast is decided: at the switch, on the link of one host, the
//! client. A packet appears once, at the instant when it reaches the queue that it has to pass;
//! if that queue drops or marks it, a comment says so. So the capture holds each packet of a
//! star's client in the order in which the switch saw them, the dropped ones where they would
//! have stood, and a reader's analysis of retransmissions, duplicate ACKs and round trips (which
//! then hold the queueing delay) comes out right. Taken at the client the dropped packets would
//! be missing; taken at both, each packet would look like a retransmission of itself.
//!
//! What the switch never sees stands on an interface of its own: packets that a host's NIC
//! refused or a link lost.

use super::{SimPacket, address_of};
use crate::net::packet::HostId;
use crate::net::stats::DropReason;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;
use narrows::pcapng::{Direction, Interface, Record, Writer};
use std::io::{self, Write};

/// A tap that writes pcapng: at the switch, on the link of one host.
///
/// Packets on their way to that host are outbound, packets from it inbound. Times are those of
/// the run, which begins at 0, rounded down to nanoseconds.
pub struct Capture<'a> {
    file: Writer<&'a mut (dyn Write + Send)>,
    /// Whose link it is.
    host: HostId,
    at_switch: Interface,
    elsewhere: Interface,
    scratch: Vec<u8>,
}

impl<'a> Capture<'a> {
    /// Begin a capture on the link of host 0, the client.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(out: &'a mut (dyn Write + Send)) -> io::Result<Self> {
        Self::of_host(out, HostId(0))
    }

    /// Begin a capture on the link of `host`.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn of_host(out: &'a mut (dyn Write + Send), host: HostId) -> io::Result<Self> {
        let mut file = Writer::new(
            out,
            concat!("narrows ", env!("CARGO_PKG_VERSION")),
            "narrows simulated network",
            "Simulated; time 0 is the start of the run. Each packet stands where it reaches the \
             switch's queue. Find what was dropped or marked there with the display filters \
             frame.comment contains \"dropped\" and frame.comment contains \"marked\".",
        )?;
        let at_switch = file.interface(
            "switch",
            &format!(
                "at the switch, the link of {}: outbound is towards it, on arrival at the port's \
                 queue; inbound is from it",
                address_of(host)
            ),
        );
        let elsewhere = file.interface(
            "elsewhere",
            "packets that a host's NIC refused or a link lost",
        );
        Ok(Self {
            file,
            host,
            at_switch,
            elsewhere,
            scratch: Vec::new(),
        })
    }

    /// Write out what is held back.
    ///
    /// # Errors
    /// The first error that occurred while writing.
    pub fn finish(self) -> io::Result<()> {
        self.file.finish()
    }

    fn write(
        &mut self,
        at: SimTime,
        interface: Interface,
        comment: Option<&str>,
        packet: &SimPacket,
    ) {
        let host = address_of(self.host);
        let ip = packet.parts().0;
        let direction = if ip.dst == host {
            Direction::Outbound
        } else if ip.src == host {
            Direction::Inbound
        } else {
            return;
        };
        packet.write(&mut self.scratch);
        let bytes = &self.scratch;
        self.file.packet(&Record {
            interface,
            nanos: at.as_nanos(),
            direction,
            comment,
            bytes,
        });
    }
}

impl Tap<SimPacket> for Capture<'_> {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        match event {
            // Shown when it reaches the switch, or when it is lost before.
            TapEvent::NicSent { .. } | TapEvent::Received { .. } => {}
            TapEvent::PortQueued { marked, .. } => {
                self.write(at, self.at_switch, marked.then_some("marked CE"), packet);
            }
            TapEvent::Dropped { reason, .. } => {
                let (interface, what) = match reason {
                    DropReason::Lost => (self.elsewhere, "lost on a link"),
                    DropReason::Full => (self.at_switch, "dropped: full"),
                    DropReason::OverThreshold => {
                        (self.at_switch, "dropped: over its share of the buffer pool")
                    }
                    DropReason::PoolExhausted => (self.at_switch, "dropped: buffer pool exhausted"),
                    DropReason::Early => (self.at_switch, "dropped: early"),
                    DropReason::NoRoute => (self.at_switch, "dropped: no route"),
                    DropReason::PacketLimit => (self.at_switch, "dropped: packet limit"),
                };
                self.write(at, interface, Some(what), packet);
            }
            TapEvent::NicRefused { .. } => {
                self.write(at, self.elsewhere, Some("refused: NIC full"), packet);
            }
        }
    }
}
