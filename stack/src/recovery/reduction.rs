//! Losses and marks are answered for: the window is lowered, once for each window of data.

use super::ack::Delivered;
use super::episode::Episode;
use super::prr::Prr;
use super::sender::Sender;
use super::spurious::UndoRecord;
use crate::config::RecoverySending;
use crate::trace::{Trace, TraceEvent};
use narrows_congestion::{
    ByteCount, CongestionControl, CongestionEvent, Instant, RtoPolicy, Spurious,
};

/// What was outstanding when news of congestion came. An ACK that brings it and moves SND.UNA does
/// not make it less: what it acknowledges was in flight until then.
#[derive(Clone, Copy)]
pub(super) struct Flight {
    /// When it came.
    now: Instant,
    /// `FlightSize` (RFC 5681 section 2).
    size: ByteCount,
    /// `RecoverFS` (RFC 9937 section 6).
    recover_fs: ByteCount,
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// The detector `judges`: how much has left the pipe by that, if it has found anything lost.
    #[inline]
    pub(super) fn judgement(&mut self, judges: impl FnOnce(&mut Self)) -> Option<ByteCount> {
        if !self.episode.is_settled() {
            self.board.forget_judged();
        }
        let (pipe, condemned) = (self.board.pipe(), self.board.condemned());
        judges(self);
        let found = self.board.condemned() > condemned;
        found.then(|| pipe - self.board.pipe())
    }

    /// The detector has found losses, of `bytes`.
    #[inline(never)] // Once an episode, most of them.
    pub(super) fn on_loss_found(
        &mut self,
        bytes: ByteCount,
        flight: Flight,
        trace: &mut impl Trace,
    ) {
        if self.rare.asked.mtu_probe.is_some() && self.lost_probe_alone() {
            return;
        }
        self.rare.counted.lost_bytes += bytes.get();
        self.rate.on_lost(bytes);
        trace(TraceEvent::Lost { bytes });
        if let Episode::Open | Episode::Disorder | Episode::Cwr { .. } = self.episode {
            self.enter_recovery(flight, trace);
            return;
        }
        let judged = self.board.judged();
        if judged.end > self.rare.answered {
            self.rare.lost_beyond = true;
        }
        if judged.first_again {
            self.count_first_lost_again(flight.now);
        }
        if self.is_lost_again() {
            self.lower_window(CongestionEvent::Loss, flight, trace);
            // After a timeout slow start sends, not PRR.
            let renewed = self.new_prr(flight);
            if let Episode::Recovery { prr, .. } = &mut self.episode {
                *prr = renewed;
            }
            self.rare.counted.lost_again += 1;
            self.force_one = true;
            self.rare.clear(|rare| &mut rare.undo);
        }
        // RFC 6582 section 3.2 step 3: a partial ACK retransmits the next segment whatever
        // the window says; without SACK nothing else would ask for it.
        self.force_one |= matches!(self.episode, Episode::Recovery { .. }) && !self.policy.sack;
    }

    /// The episode is over, and beyond what it answered for more was lost, of which most has been
    /// sent again. That no retransmission was needed could prove only of this one.
    #[cold]
    pub(super) fn answer_for_next_window(&mut self, flight: Flight, trace: &mut impl Trace) {
        if !self.board.lost().is_zero() {
            self.enter_recovery(flight, trace);
            self.rare.clear(|rare| &mut rare.undo);
        } else {
            self.enter_cwr(CongestionEvent::Loss, flight, trace);
        }
    }

    /// RFC 5681 section 4.3: the loss of a retransmission is a second indication. Of those that
    /// left before the window was last lowered it is the same one.
    fn is_lost_again(&self) -> bool {
        let retransmission = self.board.judged().retransmission;
        retransmission
            .get()
            .is_some_and(|at| at >= self.rare.lowered_at)
    }

    fn enter_recovery(&mut self, flight: Flight, trace: &mut impl Trace) {
        // A window already reduced for ECN is not reduced again for loss in the same window.
        let reduce = !matches!(self.episode, Episode::Cwr { .. })
            || self.board.judged().end > self.rare.answered
            || self.is_lost_again();
        self.rare.counted.fast_recoveries += 1;
        // The window answers for what the probe was about (RFC 8985 section 7.1).
        self.rare.clear(|rare| &mut rare.tlp);
        self.probe_due = false;
        self.force_one = true;
        if reduce {
            let undo = self.undo_record(Spurious::FastRetransmit);
            self.lower_window(CongestionEvent::Loss, flight, trace);
            self.rare.undo = Some(undo);
        }
        let prr = match reduce {
            true => self.new_prr(flight),
            false => self.episode.prr().copied().map(Box::new),
        };
        self.recover = self.nxt();
        let episode = Episode::Recovery {
            prr,
            partial_acks: 0,
        };
        self.enter(episode, trace);
    }

    /// What is to be remembered of a reduction that is made now.
    pub(super) fn undo_record(&self, kind: Spurious) -> UndoRecord {
        UndoRecord::new(kind, self.una(), self.nxt(), self.rare.answered)
    }

    /// What was lost is repaired: the window answers for it now, or when the present episode is over.
    pub(super) fn answer_for_repaired(&mut self, flight: Flight, trace: &mut impl Trace) {
        if self.episode.is_settled() {
            self.enter_cwr(CongestionEvent::Loss, flight, trace);
        } else {
            self.rare.lost_beyond = true;
        }
    }

    /// The window answers for congestion.
    fn lower_window(&mut self, event: CongestionEvent, flight: Flight, trace: &mut impl Trace) {
        trace(TraceEvent::Congestion(event));
        self.answer_congestion(event, flight.size, flight.now);
        self.note_answered(flight.now);
    }

    /// The window has been lowered, for whatever reason: that answers for all that was sent before,
    /// and the peer is to hear of it (RFC 3168 section 6.1.2).
    pub(super) fn note_answered(&mut self, now: Instant) {
        self.recover = self.nxt();
        self.rare.answered = self.nxt();
        self.rare.lowered_at = now;
        self.rare.lost_beyond = false;
        self.cwr_due = true;
    }

    /// Reduce the window where there is nothing to find: for a mark, or what was repaired.
    pub(super) fn enter_cwr(
        &mut self,
        event: CongestionEvent,
        flight: Flight,
        trace: &mut impl Trace,
    ) {
        self.lower_window(event, flight, trace);
        self.rare.clear(|rare| &mut rare.undo);
        // With nothing in flight there are no ACKs to spread it over; with less than the window will
        // be, there is nothing to spread, and what the application writes next need not wait for
        // them.
        let spread = match self.holds_cuts() {
            true => !flight.recover_fs.is_zero(),
            false => !self.is_idle() && flight.recover_fs > self.reduced_window(),
        };
        let prr = if spread { self.new_prr(flight) } else { None };
        self.enter(Episode::Cwr { prr }, trace);
    }

    /// Whether a cut lasts until something is acknowledged that was sent since, and so told the peer CWR:
    /// also while nothing is in flight (`tcp_fastretrans_alert` of Linux).
    pub(super) fn holds_cuts(&self) -> bool {
        self.policy.recovery == RecoverySending::PrrLinux43
    }

    /// What is outstanding, where no ACK brings the news.
    pub(super) fn flight(&self, now: Instant) -> Flight {
        let nothing = Delivered::to(self.una());
        self.flight_before(&nothing, now)
    }

    /// What was outstanding before an ACK that has brought so much.
    pub(super) fn flight_before(&self, seen: &Delivered, now: Instant) -> Flight {
        let already_sacked = self.board.sacked() - seen.newly_sacked;
        let newly_acked = seen.bytes - seen.newly_sacked;
        Flight {
            now,
            size: ByteCount::new(self.nxt() - seen.prior_una),
            recover_fs: self.board.outstanding() - already_sacked + newly_acked,
        }
    }

    /// What says how much leaves in a reduction of `flight`.
    fn new_prr(&self, flight: Flight) -> Option<Box<Prr>> {
        let spreads = self.policy.recovery != RecoverySending::Pipe;
        spreads.then(|| Box::new(Prr::new(flight.recover_fs, self.reduced_window())))
    }

    /// Where the reduction of the window leads.
    pub(super) fn reduced_window(&self) -> ByteCount {
        self.cc.ssthresh().min(self.cc.cwnd())
    }
}
