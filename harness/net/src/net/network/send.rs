//! NICs that do more than queue: buffers that run out, a shaper, segmentation offload, a processor
//! that is charged ([`crate::net::nic`]). Apart from the rest, because most only queue: the limit of
//! these says that they are to be asked.

use super::Network;
use crate::net::packet::{HostId, Packet};
use crate::net::stats::DropReason;
use crate::sim::slab::Hop;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;

/// What becomes of a packet that a host gives to its NIC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Sent {
    /// The NIC has it.
    Taken,
    /// The host keeps it.
    Refused,
}

impl<P: Packet> Network<P> {
    /// As [`Network::send_settled`], for a NIC that is to be asked.
    #[cold]
    pub(super) fn send_asked<T: Tap<P>>(
        &mut self,
        now: SimTime,
        host: HostId,
        tap: &mut T,
    ) -> Sent {
        let Some(mut packet) = self.withdraw() else {
            return Sent::Taken;
        };
        let (frames, len) = (packet.frames(), packet.wire_len());
        let port = &mut self.ports[host.0];
        let room = self.slab.room() >= frames as usize;
        let taken = room && port.offer_frames(now, port.buffer_len(len), frames);
        if !taken {
            let reason = if room {
                DropReason::Full
            } else {
                DropReason::PacketLimit
            };
            self.overflowed |= !room;
            let len = port.buffer_len(len);
            port.stats.count_drop(reason, len);
            if T::ACTIVE {
                tap.event(now, TapEvent::NicRefused { host }, &packet);
            }
            *self.draft(host).1 = Some(packet);
            return Sent::Refused;
        }
        let payload = len - packet.header_len().min(len);
        self.charge_sent(now, host, packet.flow_hash(), payload);
        // Captures see what the host handed over.
        let whole = T::ACTIVE.then(|| packet.clone());
        let mut first = true;
        while let Some(front) = packet.split() {
            self.put(now, host, front, first);
            first = false;
        }
        let departs = self.put(now, host, packet, first);
        if let Some(whole) = whole {
            tap.event(now, TapEvent::NicSent { host, departs }, &whole);
        }
        Sent::Taken
    }

    /// Puts a frame into the NIC's queue; those of one packet leave back to back.
    fn put(&mut self, now: SimTime, host: HostId, frame: P, first: bool) -> SimTime {
        let at = host.0;
        let hop = Hop::of(&frame);
        let i = self.slab.insert(hop, frame);
        self.totals.sent += 1;
        let port = &mut self.ports[host.0];
        let len = port.buffer_len(hop.l3_len);
        let (departs, arrives) = port.push_shaped(now, first, i, len, &mut self.slab);
        if let Some(time) = arrives {
            self.first_on_link(at, i, time);
        }
        departs
    }
}
