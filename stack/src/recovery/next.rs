//! What may leave now, as far as loss recovery and congestion control have a say.

use super::episode::Episode;
use super::rare::Asked;
use super::scoreboard::SentSegment;
use super::sender::Sender;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, CongestionControl, Instant, RtoPolicy};

/// RFC 3042 section 2: segments beyond the window, for the first duplicate ACKs.
const LIMITED_TRANSMIT: u32 = 2;

/// What may be sent now.
#[derive(Clone, Copy, Debug)]
pub enum NextSegment {
    /// This segment again.
    Retransmit(SentSegment),
    /// New data, at most this much.
    New {
        /// Bytes that congestion control admits.
        allowance: ByteCount,
    },
    /// Nothing before this time (pacing).
    Wait(Instant),
    /// Nothing until an acknowledgement or a timer comes.
    Blocked,
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// How many bytes congestion control lets out now, with `pipe` in flight.
    #[inline(never)] // One copy for all crates that ask.
    pub(super) fn allowance(&self, pipe: ByteCount) -> ByteCount {
        if let Some(prr) = self.episode.prr() {
            return prr.allowance();
        }
        match &self.episode {
            // Without limited transmit nothing new leaves on the first duplicate ACKs: SACKed
            // data still counts. So do copies that an undone recovery has in flight.
            Episode::Disorder if !self.policy.limited_transmit => {
                cold_path();
                self.cc.cwnd() - self.board.outstanding().max(pipe)
            }
            // RFC 5681: outside of fast recovery duplicate ACKs do not widen the window, save for
            // the two segments of RFC 3042. `pipe` has left out what each of them stands for.
            episode if !self.policy.sack && !matches!(episode, Episode::Recovery { .. }) => {
                cold_path();
                let granted = LIMITED_TRANSMIT * u32::from(self.policy.limited_transmit);
                let others = self.board.reno_sacked().saturating_sub(granted);
                self.cc.cwnd() - pipe - self.mss * u64::from(others)
            }
            _ => self.cc.cwnd() - pipe,
        }
    }

    /// Nothing was lost, nothing is in doubt, and nothing but the windows says when new data
    /// leaves: what [`Self::next_segment`] answers follows from them alone.
    #[inline(always)] // Of each packet.
    pub(crate) fn is_plain(&self, now: Instant) -> bool {
        self.rests()
            && self.has_records()
            && (self.asked()).is_none_or(|a| a.pacer.is_none() && a.held_until <= now)
    }

    /// [`Self::allowance`] of a sender that [is plain](Self::is_plain), and a segment at least of one
    /// that is idle: an empty pipe never blocks.
    #[inline(always)] // Of each packet.
    pub(crate) fn plain_allowance(&self) -> ByteCount {
        let pipe = self.board.pipe();
        let room = self.cc.cwnd() - pipe;
        if pipe.is_zero() {
            room.max(self.mss)
        } else {
            room
        }
    }

    /// What is left of `room`, a [`Self::plain_allowance`], after one more segment has left.
    #[inline]
    pub(crate) fn plain_allowance_after_one(&self, room: ByteCount) -> ByteCount {
        if self.needs.hears_of_sent {
            self.plain_allowance()
        } else {
            room - self.mss
        }
    }

    /// Nothing of what is outstanding is to leave again, and nobody is to hear that nothing leaves.
    #[inline(always)] // Of each packet.
    pub(crate) fn rests(&self) -> bool {
        self.episode.is_open()
            && !self.board.has_holes()
            && !self.probe_due
            && !self.validates
            && !self.needs.delivery_rate
    }

    /// What may be sent now. `new_data`: whether there is unsent data that the peer's window
    /// admits.
    #[inline(always)] // Two places ask.
    pub fn next_segment(&mut self, now: Instant, new_data: bool) -> NextSegment {
        if self.probe_due {
            cold_path();
            if new_data {
                return NextSegment::New {
                    allowance: self.mss,
                };
            }
            if let Some(last) = self.board.last_unsacked() {
                return NextSegment::Retransmit(last);
            }
            self.probe_due = false;
        }
        let lost = self.board.next_lost();
        if lost.is_none() && !new_data {
            return self.speculation();
        }
        if let Some(at) = self.waits_until(now, lost.is_none()) {
            return NextSegment::Wait(at);
        }
        self.window_lets_out(lost, new_data)
    }

    /// Until when pacing holds back the next segment, or one that is `new` a mark does, if they do.
    #[inline]
    pub(super) fn waits_until(&self, now: Instant, new: bool) -> Option<Instant> {
        let asked = self.asked()?;
        cold_path();
        let paced = asked.pacer.as_ref().and_then(|pacer| pacer.next_send(now));
        paced.or((new && asked.held_until > now).then_some(asked.held_until))
    }

    /// What the congestion window lets out of what is `lost` and of new data.
    #[inline(always)] // Where it is asked for.
    fn window_lets_out(&mut self, lost: Option<SentSegment>, new_data: bool) -> NextSegment {
        let pipe = self.board.pipe();
        let allowance = self.allowance(pipe);
        // An empty pipe never blocks: there would be no ACK to open it again.
        // A window below one segment spreads them by its pacing rate.
        let stuck = pipe.is_zero();
        let new_data = new_data && self.has_records();
        let frto = self.episode.frto();
        let held = frto.holds_retransmissions(new_data);
        if let Some(segment) = lost
            && !held
        {
            // Outside of recovery it is what never passed, and has no part in what duplicate ACKs
            // let out.
            let room = if self.episode.is_settled() {
                self.cc.cwnd() - pipe
            } else {
                allowance
            };
            if room >= segment.len() || self.force_one || stuck {
                return NextSegment::Retransmit(segment);
            }
            self.on_cwnd_limited();
            return NextSegment::Blocked;
        }
        if !new_data || (held && !frto.wants_new_data()) {
            return NextSegment::Blocked;
        }
        let least = if stuck { self.mss } else { ByteCount::ZERO };
        let allowance = allowance.max(least);
        NextSegment::New { allowance }
    }

    /// What this configuration asks for, if it is more than others do.
    #[inline]
    pub(super) fn asked(&self) -> Option<&Asked> {
        self.rare.as_changed()?.asked.as_changed()
    }

    /// There may be more records of what is outstanding.
    #[inline]
    fn has_records(&self) -> bool {
        self.board.len() < self.policy.max_segments
    }

    /// Whether new data that waits may wait for records.
    #[inline]
    pub(crate) fn may_lack_records(&self) -> bool {
        self.validates || !self.has_records()
    }

    /// Rules 3 and 4 of `NextSeg` in RFC 6675 section 4: in recovery, with nothing else to send,
    /// an unjudged segment on suspicion.
    fn speculation(&mut self) -> NextSegment {
        let may = matches!(self.episode, Episode::Recovery { .. })
            && self.allowance(self.board.pipe()) >= self.mss;
        if !may {
            return NextSegment::Blocked;
        }
        cold_path();
        match self.detector.speculate(&mut self.board, self.recover) {
            Some(segment) => NextSegment::Retransmit(segment),
            None => NextSegment::Blocked,
        }
    }

    /// New data could have left but the congestion window did not admit it.
    pub fn on_cwnd_limited(&mut self) {
        self.limited_until = self.nxt();
    }

    /// How many full segments of new data may leave after one that has just left, where only the
    /// congestion window has a say in it. Zero where more has (loss recovery, probes, pacing, validation):
    /// [`next_segment`](Self::next_segment) knows about each.
    pub fn full_segments(&self, now: Instant) -> u64 {
        if !self.is_plain(now) {
            return 0;
        }
        let records = self.policy.max_segments - self.board.len();
        let allowance = self.plain_allowance().get();
        (allowance / self.mss.get().max(1)).min(records as u64)
    }
}
