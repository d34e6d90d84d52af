//! The memory of a connection: what it is charged for, when it waits for some, and when it gives
//! some back.

use super::state::State;
use super::timers::Timer;
use super::{Connection, TcpTypes};
use crate::buffer::{RecvBuffer, SendBuffer, Trimmed};
use crate::memory::{Charge, FLOOR, Ledger, Need};
use crate::recovery::{Grant, Scoreboard};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Duration, Instant};
use std::sync::Arc;

/// A buffer that was not needed for this long, or not as large, is given back.
const LATELY: Duration = Duration::from_secs(1);
/// Segments that may always be outstanding.
const RECORDS: usize = 64;
/// What these take, where no rates are measured.
const ALWAYS: ByteCount = ByteCount::new((RECORDS * Scoreboard::RECORD_MEMORY) as u64);
/// Allocations beside a connection: timers, queues of ACKs, what the allocator adds to each.
const BESIDE: ByteCount = ByteCount::new(1_024);

impl<T: TcpTypes> Connection<T> {
    /// The least that a connection takes, where no rates are measured.
    pub(crate) const LEAST: ByteCount =
        ByteCount::new(size_of::<Self>() as u64 + BESIDE.get() + 2 * FLOOR.get() + ALWAYS.get());
    /// What one in TIME-WAIT takes, which needs neither buffers nor records.
    const WAITING: ByteCount = ByteCount::new(size_of::<Self>() as u64 + BESIDE.get());

    /// It is counted in `ledger` from now on.
    pub(crate) fn charge_to(&mut self, ledger: &Arc<Ledger>) {
        self.charge = Charge::new(ledger, Self::LEAST + self.records(RECORDS) - ALWAYS);
        self.is_charged = true;
        self.send_buf.charge_to(ledger);
        self.recv_buf.charge_to(ledger);
        self.limit_records();
    }

    /// No more segments outstanding than there is memory for their records.
    pub(super) fn limit_records(&mut self) {
        if self.charge.ledger().is_some() {
            let most = self.config.buffers.max_outstanding_segments;
            self.snd.limit_records(RECORDS.min(most));
        }
    }

    /// The window may be no larger than what there is memory for.
    #[inline]
    pub(super) fn know_room(&mut self) {
        if let Some(room) = self.recv_buf.room() {
            let whole = self.config.buffers.recv as u64;
            // The field is rounded up by less than this, which must not make a buffer grow; and
            // it must be able to say that there is a window at all.
            let granule = 1 << self.offered.shift;
            self.offered.capacity = match room < whole {
                true => (room - granule.min(room)).max(2 * granule).min(whole),
                false => whole,
            };
        }
    }

    /// New data waits: are there records for it, if that is what it waits for?
    pub(super) fn has_more_records(&mut self) -> bool {
        match self.snd.grant_packets() {
            Grant::More => return true,
            Grant::Full => return false,
            Grant::Nothing => {}
        }
        let Some(ledger) = self.charge.ledger().cloned() else {
            return false;
        };
        let had = self.snd.record_limit();
        let most = self.config.buffers.max_outstanding_segments;
        if self.snd.scoreboard().len() < had || had >= most {
            return false;
        }
        let bytes = self.records(had * 2);
        if !ledger.admits(bytes, Need::Wanted) {
            ledger.on_records_refused();
            return false;
        }
        self.snd.limit_records((had * 2).min(most));
        self.recharge();
        true
    }

    /// What the buffers do not charge themselves.
    #[inline]
    pub(super) fn recharge(&mut self) {
        if self.is_charged {
            self.charge_anew();
        }
    }

    #[cold]
    fn charge_anew(&mut self) {
        let extra = self.records(self.snd.record_limit().max(RECORDS)) - ALWAYS;
        let ranges = ByteCount::new(self.ooo.memory() as u64);
        self.charge.set(Self::LEAST + extra + ranges);
    }

    /// What so many segments outstanding take.
    fn records(&self, count: usize) -> ByteCount {
        ByteCount::new((count * self.snd.record_memory()) as u64)
    }

    /// There is to be memory for text at `start..end`, which a buffer may have already: up to where there
    /// is.
    #[inline]
    pub(super) fn room_for_text(&mut self, start: u64, end: u64) -> u64 {
        let in_order = start <= self.rcv_nxt;
        let need = if in_order { Need::Owed } else { Need::Wanted };
        let afforded = self.recv_buf.afford(end, need);
        if afforded < end || !in_order && !self.has_room_for_a_range() {
            let kept = if in_order { afforded } else { start };
            return self.refuse_text(kept);
        }
        end
    }

    /// One more range can be remembered.
    #[inline]
    fn has_room_for_a_range(&self) -> bool {
        if !self.is_charged {
            return true;
        }
        cold_path();
        let bytes = ByteCount::new(self.ooo.memory_of_another() as u64);
        (self.charge.ledger()).is_none_or(|ledger| ledger.admits(bytes, Need::Wanted))
    }

    /// Text from `kept` on is dropped for want of memory.
    #[cold]
    fn refuse_text(&mut self, kept: u64) -> u64 {
        if let Some(ledger) = self.charge.ledger() {
            ledger.on_text_dropped();
        }
        self.ack.force();
        kept
    }

    /// The user has read, or the peer has acknowledged: later it is looked what is needed no more.
    #[inline]
    pub(super) fn trim_later(&mut self, now: Instant) {
        if self.timers.is_armed(Timer::Trim) {
            return;
        }
        if self.send_buf.is_large() || self.recv_buf.is_large() {
            match self.state {
                State::TimeWait | State::Closed(_) => self.give_back(),
                _ => self.timers.arm(Timer::Trim, now + LATELY),
            }
        }
    }

    /// What was not needed lately is given back.
    pub(super) fn trim(&mut self, now: Instant) {
        let buffers = [self.send_buf.trim(), self.recv_buf.trim()];
        self.snd.trim_records(0);
        if self.charge.ledger().is_some() {
            // As many records as are outstanding stay granted, and as many as always are.
            let held = self.snd.scoreboard().len().next_power_of_two();
            let limit = held.max(RECORDS).min(self.snd.record_limit());
            self.snd.limit_records(limit);
            self.recharge();
        }
        if buffers.contains(&Trimmed::Larger) {
            self.timers.arm(Timer::Trim, now + LATELY);
        }
    }

    /// No more will be sent: only what the user has not read needs memory.
    pub(super) fn give_back(&mut self) {
        if let State::Closed(_) = self.state {
            self.send_buf.forget_bytes();
            self.ooo.clear();
        }
        self.send_buf.give_back();
        self.recv_buf.give_back();
        self.snd.trim_records(0);
        self.charge.set(Self::WAITING);
    }
}
