//! What did not leave, or did not pass: segments that the device refused, that the peer's closed
//! window had no place for, or that are too big for the path. None is a loss by congestion.

use super::episode::Episode;
use super::scoreboard::{AbsSeq, SentSegment};
use super::sender::Sender;
use super::tlp::TlpEpisode;
use crate::sparse::Sparse;
use narrows_congestion::local_drop::LocalDrop;
use narrows_congestion::{
    ByteCount, CongestionControl, CongestionEvent, Instant, Lower, RtoPolicy,
};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// What a policy is asked about: `bytes` of payload were refused.
    pub(crate) fn local_drop(&self, bytes: ByteCount) -> LocalDrop {
        let mut drop = LocalDrop::new(bytes, self.cc.cwnd(), self.mss);
        drop.ssthresh = self.cc.ssthresh();
        drop.in_flight = self.board.pipe();
        drop.ca_state = self.ca_state();
        drop
    }

    /// The window answers for a refusal by coming down to `window`.
    pub(crate) fn window_refused(&mut self, window: ByteCount, now: Instant) {
        self.lower(window, Lower::Refused, now);
        self.end_grant();
    }

    /// The device refused the segment that starts at `start`: it never left.
    pub fn on_local_drop(&mut self, start: AbsSeq, congestion: bool, now: Instant) {
        self.local_drops += 1;
        let Some(segment) = self.board.get(start) else {
            return;
        };
        let again = segment.in_flight_retransmission();
        let (bytes, end) = (segment.len(), segment.end);
        self.segments = self.segments.saturating_sub(1);
        if again {
            self.board.undo_retransmit(start);
            let stats = &mut self.rare.counted;
            stats.retransmits = stats.retransmits.saturating_sub(1);
            let before = stats.retransmitted_bytes;
            stats.retransmitted_bytes = before.saturating_sub(bytes.get());
            // What never left postpones no timeout, however often it is tried.
            if start == self.una() && self.rare.rto_before.is_some() {
                self.rto_at = core::mem::replace(&mut self.rare.rto_before, Sparse::NONE);
            }
            // Without PRR the first retransmission of an episode left beyond the window.
            self.force_one |= matches!(
                self.episode,
                Episode::Recovery { prr: None, .. } | Episode::Loss { .. }
            );
        } else {
            self.unsend(start);
            if let Some(frto) = self.episode.frto_mut() {
                frto.on_unsent();
            }
        }
        if let Some(prr) = self.episode.prr_mut() {
            prr.on_unsent(bytes);
        }
        // A probe that never left repairs nothing.
        let is_probe = |probe: TlpEpisode| probe.is_retrans && probe.end_seq == end;
        if again && self.rare.tlp.is_some_and(is_probe) {
            self.rare.clear(|rare| &mut rare.tlp);
            self.probe_unmeasured = false;
            self.probe_due = true;
            self.rare.counted.tail_loss_probes -= 1;
        }
        if congestion && self.episode.is_settled() {
            let flight = self.flight(now);
            self.enter_cwr(CongestionEvent::LocalDrop, flight, &mut |_| {});
        }
    }

    /// The segment that starts at `start` counts as unsent; as lost if others follow it, or it was
    /// sent more than once.
    fn unsend(&mut self, start: AbsSeq) {
        if self.board.pop_unsent(start) {
            self.rate.on_unsent(start);
            // What leaves in its stead is of a later window.
            if let Some(rare) = self.rare.changed() {
                rare.answered = rare.answered.min(start);
            }
            self.recover = self.recover.min(start);
        } else {
            self.board.mark_absent(start);
        }
        if self.is_idle() {
            self.stop_timers();
        }
    }

    /// The peer did not take what starts at `start`, which probed its closed window, nor what
    /// repeated it: it is to leave again now that the window is open.
    pub fn retract_probe(&mut self, start: AbsSeq) {
        if self.board.get(start).is_some() {
            self.unsend(start);
        }
    }

    /// The effective segment size changed (path MTU).
    pub fn set_mss(&mut self, mss: ByteCount, now: Instant) {
        if mss < self.mss {
            self.board.split_at_mss(mss);
        }
        let was = core::mem::replace(&mut self.mss, mss);
        self.with_cc(now, |cc, view| cc.on_mss_change(was, view));
        let target = self.reduced_window();
        if let Some(prr) = self.episode.prr_mut()
            && mss < was
        {
            prr.on_smaller_mss(was, mss, target);
        }
    }

    /// Packets with more than `mss` bytes of payload do not pass: what left in such leaves again in
    /// smaller ones at once, and nothing is concluded about congestion (RFC 1191 section 6.4). The
    /// window keeps its number of segments, lest a burst of small ones leave (RFC 5681 section 3.1).
    pub fn on_path_mtu(&mut self, mss: ByteCount, now: Instant) {
        let too_big = |s: &SentSegment| s.len() > mss && !s.is_sacked();
        let spans: Vec<_> = self.board.iter().filter(too_big).collect();
        self.set_mss(mss, now);
        if spans.is_empty() {
            return;
        }
        // Its new segments draw no acknowledgement.
        self.episode.end_frto();
        // What duplicate ACKs stand for is counted as lost below.
        if !self.policy.sack {
            self.board.set_reno_sacked(0, self.mss);
        }
        for span in spans {
            self.board.mark_all_absent(span.start, span.end);
        }
    }
}
