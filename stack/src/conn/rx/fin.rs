//! The peer's FIN (RFC 9293 section 3.10.7.4, eighth).

use super::check::Placed;
use crate::conn::state::State;
use crate::conn::user::Kind as EventKind;
use crate::conn::{Connection, TcpTypes};
use crate::sparse::Sparse;
use narrows_congestion::Instant;

impl<T: TcpTypes> Connection<T> {
    /// The segment carries a FIN, or one came earlier beyond a gap that may be filled now.
    pub(super) fn on_fin(&mut self, now: Instant, seg: &Placed) {
        if self.fin_received {
            if seg.fin {
                self.ack.force();
            }
            return;
        }
        if seg.fin
            && let Ok(at) = u64::try_from(seg.start + seg.text_len as i64)
        {
            // A FIN that contradicts an earlier one, or data already received, is not believed.
            let last = self.ooo.ranges().next_back();
            let beyond = last.is_some_and(|held| held.end > at);
            if self.peer_fin.is_none() && at >= self.rcv_nxt && !beyond {
                self.peer_fin = Sparse::some(at);
            }
            self.ack.force();
        }
        if self.peer_fin != Sparse::some(self.rcv_nxt) {
            return;
        }
        self.fin_received = true;
        self.ooo.clear();
        self.events.set(EventKind::PeerClosed);
        self.ack.force();
        match self.state {
            State::Established => self.set_state(State::CloseWait, now),
            State::FinWait1 => self.set_state(State::Closing, now),
            State::FinWait2 => self.enter_time_wait(now),
            _ => {}
        }
    }
}
