//! Why nothing leaves, for those who trace.

use crate::buffer::SendBuffer;
use crate::conn::{Connection, TcpTypes, tracer};
use crate::trace::{Held, TraceEvent};
use narrows_congestion::Instant;

impl<T: TcpTypes> Connection<T> {
    /// Tells why nothing leaves, if anybody wants to know.
    #[cold]
    pub(super) fn trace_held(&mut self, now: Instant) {
        if !self.trace.as_ref().is_some_and(|sink| sink.wants_held()) {
            return;
        }
        let queued = (self.send_buf.end() + 1).saturating_sub(self.snd.nxt());
        let usable = self.usable();
        let mss = self.snd.mss().get();
        // A full segment is always worth sending.
        let small = queued < mss;
        let held = match () {
            () if queued == 0 && self.snd.is_idle() => Held::Idle,
            () if queued == 0 => Held::Sent,
            () if usable < queued.min(mss) => Held::ReceiveWindow,
            () if small && self.new_data(now).is_none() => Held::Nagle,
            () if self.small_segments_fill(queued) => Held::PacketWindow,
            () => Held::CongestionWindow,
        };
        tracer(&mut self.trace, now)(TraceEvent::Held(held));
    }
}
