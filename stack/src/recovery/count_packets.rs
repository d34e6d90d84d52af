//! A window that counts packets, whatever their size, as Linux's `snd_cwnd` does; RFC 5681 counts
//! bytes.
//!
//! The congestion control goes on in bytes, of which each segment stands for a full one: a window
//! of three segments is full with three of one byte each, and their acknowledgement lets it grow
//! as that of three full ones would (Linux `tcp_cwnd_test`, `tcp_packets_in_flight`,
//! `tcp_is_cwnd_limited`).
//!
//! How many more records may be outstanding is granted when the limit that a sender has on them
//! anyway is reached, and the grant ends with each acknowledgement and each change of the window:
//! a sender that counts bytes does nothing for it.
//!
//! Left out: proportional rate reduction, which lets out bytes here and packets there; it lets out
//! as many segments as its bytes would be if they were full, and one at least.

use super::ack::Delivered;
use super::rare::Rare;
use super::sender::Sender;
use super::spurious::Frto;
use narrows_congestion::{AckSample, ByteCount, CongestionControl, RtoPolicy};

/// What became of a request for more records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Grant {
    /// There are more.
    More,
    /// The window has no room.
    Full,
    /// The window does not count packets, or it is not the limit.
    Nothing,
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// The window counts packets from here on.
    #[inline(never)] // Once a connection.
    pub fn count_packets(&mut self) {
        let records = self.policy.max_segments;
        self.rare.asked.packets = Some(records);
        self.validates = true;
        self.end_grant();
    }

    /// Whether the window counts packets.
    pub fn counts_packets(&self) -> bool {
        self.rare.asked.packets.is_some()
    }

    /// At most `count` records outstanding from now on.
    pub(crate) fn limit_records(&mut self, count: usize) {
        match Rare::asked(&mut self.rare).and_then(|asked| asked.packets.as_mut()) {
            Some(records) => *records = count,
            None => self.policy.max_segments = count,
        }
        self.end_grant();
    }

    /// How many records may be outstanding, whatever the window.
    pub(crate) fn record_limit(&self) -> usize {
        let records = self.rare.asked.packets;
        records.unwrap_or(self.policy.max_segments)
    }

    /// What was granted may not hold any more: a sender that counts packets asks anew.
    pub(super) fn end_grant(&mut self) {
        if self.rare.asked.packets.is_some() {
            // F-RTO asks for new data before anything else is decided: two segments at most.
            self.policy.max_segments = match self.episode.frto() {
                Frto::Off => 0,
                _ => self.board.len() + 2,
            };
        }
    }

    /// No more records may be outstanding. A sender that counts packets is granted as many as the
    /// window admits.
    #[cold]
    pub(crate) fn grant_packets(&mut self) -> Grant {
        let Some(records) = self.rare.asked.packets else {
            return Grant::Nothing;
        };
        let outstanding = self.board.len();
        if outstanding < self.policy.max_segments {
            return Grant::Nothing;
        }
        let mss = self.mss.get().max(1);
        let in_flight = self.board.packets_in_flight();
        let room = match self.episode.prr() {
            Some(prr) => prr.allowance().get().div_ceil(mss),
            None => (self.cc.cwnd().get() / mss).saturating_sub(in_flight),
        };
        // An empty pipe never blocks.
        let room = if in_flight == 0 { room.max(1) } else { room };
        let limit = outstanding + usize::try_from(room).unwrap_or(usize::MAX - outstanding);
        let limit = limit.min(records);
        if limit > outstanding {
            self.policy.max_segments = limit;
            return Grant::More;
        }
        if room == 0 {
            self.on_cwnd_limited();
            return Grant::Full;
        }
        Grant::Nothing
    }

    /// An ACK has come: what the congestion control hears of it. Whether the window was the limit
    /// before it.
    pub(super) fn ack_in_packets(&mut self, seen: &Delivered, sample: &mut AckSample) -> bool {
        self.end_grant();
        let before = seen.records_before;
        let acked = before.saturating_sub(self.board.len()) as u64;
        let marked = !sample.delivered_ce.is_zero();
        sample.acked = self.mss * acked;
        if self.policy.sack {
            sample.delivered = self.mss * u64::from(seen.segments);
        }
        if marked {
            sample.delivered_ce = sample.acked;
        }
        let (cwnd, slow_start) = (self.cc.cwnd(), self.cc.cwnd() < self.cc.ssthresh());
        let half_used = self.mss * before as u64 * 2 > cwnd;
        self.limited_until > seen.prior_una || (slow_start && half_used)
    }

    /// `FlightSize`: what is outstanding, `bytes`; of a sender that counts packets as many full
    /// segments.
    pub(super) fn counted(&self, bytes: ByteCount) -> ByteCount {
        match self.rare.asked.packets {
            Some(_) => bytes.max(self.mss * self.board.len() as u64),
            None => bytes,
        }
    }
}
