//! The port of a NIC that does more than queue ([`crate::net::nic`]). Its limit admits nothing by
//! itself, so that sending finds out where a full queue would be found anyway.

use super::Port;
use crate::net::buffer::Limit;
use crate::net::nic::WithoutBuffer;
use crate::net::nic::transmit::{Frames, Retry, Transmit};
use crate::sim::slab::{NIL, Slab};
use crate::sim::time::SimTime;

/// What a send would take that is only waited for: a frame of Ethernet.
const USUAL_FRAME: u32 = 1_518;

impl Port {
    /// Whether sends are decided by more than the limit.
    pub(crate) fn is_asked(&self) -> bool {
        self.limit.is_asked()
    }

    /// The NIC is to be asked from now on. It counts the packet on the wire.
    pub(crate) fn set_transmit(&mut self, transmit: Transmit) {
        self.in_service = super::InService::Counted;
        self.limit = Limit::ASKED;
        // What waits for tokens is not on the wire.
        self.delays |= transmit.shaper.is_some();
        self.rare_mut().transmit = Some(Box::new(transmit));
    }

    pub(super) fn transmit_mut(&mut self) -> Option<&mut Transmit> {
        self.rare.as_mut()?.transmit.as_deref_mut()
    }

    fn frames(&self) -> Frames {
        Frames {
            taken: self.stats.packets,
            queued: self.queued_packets,
        }
    }

    /// Whether a packet of so many frames, `len` bytes in all, is taken. Settle first.
    pub(crate) fn offer_frames(&mut self, now: SimTime, len: u32, frames: u32) -> bool {
        let (depth, nic) = (self.held(), self.frames());
        let transmit = self.transmit_mut();
        transmit.is_none_or(|transmit| {
            let fits = transmit.limit.admits(depth, len);
            transmit.offer(now, fits, frames, nic).is_ok()
        })
    }

    /// As [`Port::push`], after the shaper; only the first frame of several has an overhead.
    pub(crate) fn push_shaped<P>(
        &mut self,
        now: SimTime,
        first: bool,
        i: u32,
        len: u32,
        slab: &mut Slab<P>,
    ) -> (SimTime, Option<SimTime>) {
        let mut ready = now;
        if first && self.overhead.most != SimTime::ZERO {
            ready += self.overhead.random.jitter(self.overhead.most);
        }
        let ready = ready.max(self.shaped(now, len));
        let depth = self.depth(slab);
        self.push_ready((now, ready), i, len, depth, slab)
    }

    /// When the shaper lets a frame go that comes at `now`.
    pub(super) fn shaped(&mut self, now: SimTime, len: u32) -> SimTime {
        match self.transmit_mut().and_then(|t| t.shaper.as_mut()) {
            Some(shaper) => shaper.release(now, len),
            None => now,
        }
    }

    /// The shaper forgets what it has let go after `now`.
    pub(super) fn restart_shaper(&mut self, now: SimTime) {
        if let Some(shaper) = self.transmit_mut().and_then(|t| t.shaper.as_mut()) {
            shaper.restart(now);
        }
    }

    /// When a host whose packet was refused may try again; `None` if nothing is queued that it
    /// could wait for. Settle first.
    pub(crate) fn retry_at<P>(&self, now: SimTime, slab: &Slab<P>) -> Option<SimTime> {
        let transmit = self.rare.as_ref()?.transmit.as_ref()?;
        match transmit.retry(now, self.frames()) {
            Retry::At(time) => Some(time),
            Retry::Departures(n) => {
                let mut i = self.cursor;
                for _ in 1..n {
                    if i != NIL {
                        i = slab.hop(i).next;
                    }
                }
                (i != NIL).then(|| slab.hop(i).depart)
            }
            Retry::Frame => {
                let frame = self.tx.span(self.framing.wire_len(USUAL_FRAME));
                let next = self.next_departure(slab);
                Some(next.unwrap_or_else(|| now + frame))
            }
        }
    }

    /// Sends refused so far for want of a buffer; `None` if there are always enough.
    pub(crate) fn without_buffer(&self) -> Option<WithoutBuffer> {
        self.rare.as_ref()?.transmit.as_ref()?.without_buffer()
    }
}
