//! Several segments as one: what a device with segmentation offload is given.

use super::output::NewData;
use super::{Emitted, Output};
use crate::buffer::SendBuffer;
use crate::conn::{Connection, TcpTypes};
use crate::recovery::NextSegment;
use crate::wire::Flags;
use narrows_congestion::Instant;

/// What a device must not repeat on each segment, or what only one segment can have.
const SINGLE: Flags = Flags::from_bits(
    Flags::SYN.bits()
        | Flags::RST.bits()
        | Flags::FIN.bits()
        | Flags::CWR.bits()
        | Flags::URG.bits(),
);

impl<T: TcpTypes> Connection<T> {
    /// Data came out of order or twice, and the peer has not been told.
    pub(crate) fn owes_disorder_ack(&self) -> bool {
        self.ack.is_due() && self.state.is_synchronized() && self.ooo.has_disorder()
    }

    /// As [`output`](Self::output); a full segment of new data takes those after it along, as
    /// many as the windows and the pacer let out now, up to `max` bytes of payload in all.
    ///
    /// Each segment has its place in the scoreboard, as if it had left on its own: only the
    /// packet is one. All but the last are [`mss`](crate::recovery::Sender::mss) long.
    #[inline]
    pub(crate) fn output_burst(
        &mut self,
        now: Instant,
        max: u64,
        out: &mut Output,
    ) -> Option<Emitted> {
        let made = self.output(now, out)?;
        let mss = self.snd.mss().get();
        let first = out.payload_len();
        if made == Emitted::Last
            || first != mss
            || out.plain.tcp.flags.intersects(SINGLE)
            || out.payload.end + 1 != self.snd.nxt()
        {
            return Some(made);
        }
        let count = self.full_segments(max.saturating_sub(first), now);
        if count > 0 {
            self.probe_window = false;
            self.snd.on_sent_full(count, now);
            self.traffic.segments_out += count;
            out.payload.end += count * mss;
        }
        while out.payload_len() + mss <= max {
            // A FIN leaves on its own, urgent data too.
            let Some(NewData {
                len, fin: false, ..
            }) = self.new_data(now)
            else {
                break;
            };
            let NextSegment::New { allowance } = self.snd.next_segment(now, true) else {
                break;
            };
            if len == 0 || allowance.get() < len || self.rare.snd_up.is_some() {
                break;
            }
            let end = self.snd.nxt() + len;
            self.probe_window = false;
            self.snd.on_sent_new(end, now);
            self.traffic.segments_out += 1;
            out.payload.end += len;
            if len < mss {
                break;
            }
        }
        let drains = self.snd.nxt() == self.send_buf.end() + 1;
        out.plain.tcp.flags |= Flags::PSH.when(drains && self.hold.pushes());
        self.look_for_fewer_unsent();
        Some(made)
    }

    /// How many of the full segments that follow are to leave for sure, of `max` bytes at most.
    /// What is left is looked at one by one.
    fn full_segments(&self, max: u64, now: Instant) -> u64 {
        if self.rare.snd_up.is_some() {
            return 0;
        }
        let nxt = self.snd.nxt();
        // The byte that a FIN would follow is not among them.
        let kept = u64::from(self.fin_queued);
        let queued = (self.send_buf.end() + 1 - kept).saturating_sub(nxt);
        let bytes = max.min(self.usable()).min(queued);
        let count = bytes.checked_div(self.snd.mss().get()).unwrap_or(0);
        match count {
            0 => 0,
            _ => count.min(self.snd.full_segments(now)),
        }
    }
}
