//! What acknowledgements do to the sender: deliver, measure, inform, detect, react, arm.

use super::detector::AckFacts;
use super::episode::Episode;
use super::prr::Prr;
use super::rate::RateEstimator;
use super::scoreboard::{AbsSeq, SentSegment};
use super::sender::Sender;
use super::tlp::{TlpEpisode, TlpOutcome};
use crate::config::RecoverySending;
use crate::sparse::Sparse;
use crate::trace::Trace;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{
    AckSample, ByteCount, CongestionControl, CongestionEvent, Duration, Instant, RtoPolicy,
};

/// What an acceptable acknowledgement says, unwrapped and checked.
#[derive(Clone, Copy, Debug, Default)]
pub struct AckInput<'a> {
    /// When it came.
    pub now: Instant,
    /// SEG.ACK, `una <= ack <= nxt`.
    pub ack: AbsSeq,
    /// SACK blocks above `ack`, each non-empty and within what was sent.
    pub sack: &'a [(AbsSeq, AbsSeq)],
    /// The first block reported a duplicate (RFC 2883).
    pub dsack: Option<(AbsSeq, AbsSeq)>,
    /// RTT by the timestamp echo, if there is one.
    pub timestamp_rtt: Option<Duration>,
    /// TSecr.
    pub tsecr: Option<u32>,
    /// ECE is set and ECN is in use.
    pub ece: bool,
    /// ECE reports exactly the marked bytes (RFC 8257), not a latched signal (RFC 3168).
    pub exact_ecn: bool,
    /// The segment had no data and did not change the window: it may be a duplicate ACK
    /// (RFC 5681 section 2).
    pub pure: bool,
    /// There is unsent data that the peer's window admits.
    pub can_send_new: bool,
}

/// An RTT by the timestamp of a clock in milliseconds is wrong by up to this much.
const ECHO_ERROR: Duration = Duration::from_millis(1);

/// A delivered segment that had been sent more than once.
#[derive(Clone, Copy)]
struct Resent {
    segment: SentSegment,
    /// It was acknowledged cumulatively.
    cumulative: bool,
}

/// What the ACK delivered, gathered while the scoreboard is walked, and what else it told.
#[derive(Default)]
pub(super) struct Delivered {
    /// SND.UNA and the number of records before it, and whether SND.UNA moved.
    pub(super) prior_una: AbsSeq,
    pub(super) records_before: usize,
    pub(super) advanced: bool,
    /// Bytes that it delivered, and what of these it SACKed.
    pub(super) bytes: ByteCount,
    pub(super) newly_sacked: ByteCount,
    /// It counts as a duplicate ACK (RFC 5681 section 2).
    duplicate: bool,
    /// It is the first of a round trip.
    pub(super) round_start: bool,
    /// The window was one segment when it came.
    one_segment: bool,
    pub(super) newest: Option<SentSegment>,
    /// The same among the segments sent only once.
    newest_clean: Option<SentSegment>,
    /// Transmission time of the oldest cumulatively acknowledged segment, if none of them was
    /// sent more than once: data behind a repaired hole has waited for the repair.
    oldest_clean: Option<Instant>,
    /// A segment sent more than once was cumulatively acknowledged.
    pub(super) repaired: bool,
    /// Never-retransmitted data from before the recovery point.
    pub(super) original: bool,
    /// Of what was sent more than once that which was sent last.
    again: Option<Resent>,
    /// Of the window nothing was SACKed before, and the D-SACK begins at SND.UNA.
    pub(super) first_news: bool,
    pub(super) segments: u32,
}

impl Delivered {
    /// Nothing yet, by an ACK that finds SND.UNA at `prior_una`.
    pub(super) fn to(prior_una: AbsSeq) -> Self {
        Self {
            prior_una,
            ..Self::default()
        }
    }

    /// `s` is delivered. Not inlined, because there are three ways for it to be.
    #[inline(never)]
    fn add(
        &mut self,
        s: &SentSegment,
        rate: &mut RateEstimator,
        recover: AbsSeq,
        cumulative: bool,
        now: Instant,
    ) {
        self.round_start |= rate.on_delivered(s, now);
        self.segments += 1;
        let later = |n: SentSegment| !n.sent_after(s);
        if self.newest.is_none_or(later) {
            self.newest = Some(*s);
        }
        if s.was_retransmitted() {
            self.repaired |= cumulative;
            if self.again.is_none_or(|a| a.segment.sent_at <= s.sent_at) {
                let segment = *s;
                self.again = Some(Resent {
                    segment,
                    cumulative,
                });
            }
            return;
        }
        if self.newest_clean.is_none_or(later) {
            self.newest_clean = Some(*s);
        }
        if cumulative && self.oldest_clean.is_none_or(|t| s.sent_at < t) {
            self.oldest_clean = Some(s.sent_at);
        }
        self.original |= s.end <= recover;
    }

    /// The delivered transmission that was made last. `echo`: how long ago, by its timestamp,
    /// the segment left that set off the ACK; if that is longer ago than the last transmission,
    /// an earlier one was delivered (RFC 8985 section 6.2 step 1).
    fn newest(&self, now: Instant, echo: Option<Duration>) -> Option<SentSegment> {
        let newest = self.newest?;
        let earlier = newest.was_retransmitted()
            && echo.is_some_and(|echo| echo > now.since(newest.sent_at) + ECHO_ERROR);
        if earlier {
            cold_path();
            self.newest_clean
        } else {
            Some(newest)
        }
    }
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Take an acknowledgement. Events are told to `trace`.
    pub fn on_ack(&mut self, input: &AckInput<'_>, trace: &mut impl Trace) {
        if self.una() == self.nxt() {
            cold_path();
            if !(self.is_concerned() || input.ece || input.dsack.is_some()) {
                return;
            }
        }
        let mut seen = Delivered::to(self.una());
        self.deliver(input, &mut seen);
        self.measure(input, &seen);
        // Congestion control hears of the delivery first, then of congestion.
        self.inform(input, &seen);
        let lost = self.detect(input, &seen, trace);
        self.react(input, &seen, lost, trace);
        self.arm(&seen, input.now);
    }

    /// The scoreboard takes it in, and SND.UNA moves.
    #[inline(always)] // A step of one.
    fn deliver(&mut self, input: &AckInput<'_>, seen: &mut Delivered) {
        let now = input.now;
        let prior_una = seen.prior_una;
        let advanced = input.ack > prior_una;
        let outstanding = self.nxt() > prior_una;
        seen.records_before = self.board.len();
        seen.advanced = advanced;
        seen.one_segment = self.cc.cwnd() == self.mss;
        seen.first_news =
            input.dsack.is_some_and(|d| d.0 == prior_una) && self.board.sacked().is_zero();
        let sacked_before = self.board.highest_sacked();
        let recover = self.recover;
        let (board, rate) = (&mut self.board, &mut self.rate);
        let mut bytes = board.ack(input.ack, |s| seen.add(s, rate, recover, true, now));
        let cumulative_segments = seen.segments;
        if !input.sack.is_empty() {
            seen.newly_sacked = board.sack(input.sack, |s| seen.add(s, rate, recover, false, now));
            bytes += seen.newly_sacked;
        }
        if let (Some(again), Some(highest)) = (&seen.again, sacked_before) {
            self.look_for_overtaken(again, highest, input);
        }

        // Duplicate ACKs (RFC 5681 section 2). Without SACK each stands for a delivered segment.
        seen.duplicate = if self.policy.sack {
            !seen.newly_sacked.is_zero()
        } else {
            !advanced && outstanding && input.pure
        };
        if advanced {
            self.dup_acks = 0;
        }
        if seen.duplicate {
            self.dup_acks = self.dup_acks.saturating_add(1);
        }
        if !self.policy.sack {
            cold_path();
            bytes = self.emulate_sack(seen.duplicate, advanced, cumulative_segments, bytes);
        }
        seen.bytes = bytes;
    }

    /// RTT (RFC 6298 section 3: Karn's rule, unless a timestamp tells).
    #[inline(always)] // A step of one.
    fn measure(&mut self, input: &AckInput<'_>, seen: &Delivered) {
        if seen.advanced {
            let sample = match seen.oldest_clean {
                Some(sent_at) if !seen.repaired => Some(input.now.since(sent_at)),
                _ => input.timestamp_rtt,
            };
            self.on_progress(sample, input.now);
        } else if self.probing_window {
            // The peer answers: it may keep its window closed for as long as it likes
            // (RFC 9293 section 3.8.6.1).
            self.retries = 0;
        }
        self.probing_window = false;
    }

    /// The congestion control hears what was delivered.
    #[inline(always)] // A step of one.
    fn inform(&mut self, input: &AckInput<'_>, seen: &Delivered) {
        if seen.bytes.is_zero() && !input.ece && !seen.advanced {
            return;
        }
        let now = input.now;
        let mut sample = AckSample::default();
        sample.acked = ByteCount::new(input.ack - seen.prior_una);
        sample.delivered = seen.bytes;
        sample.rtt = seen
            .newest
            .filter(|s| !s.was_retransmitted())
            .map(|s| now.since(s.sent_at));
        sample.round_start = seen.round_start;
        if input.ece && input.exact_ecn && seen.advanced {
            cold_path();
            sample.delivered_ce = sample.acked;
            self.rare.counted.ce_bytes += sample.acked.get();
            self.rate.on_marked(sample.acked);
        }
        let limited = if self.validates {
            cold_path();
            self.validate_ack(seen, &mut sample, now)
        } else {
            self.cwnd_limited_since(seen.prior_una)
        };
        self.tell_of_delivery(&mut sample, limited, now);
    }

    /// Whether something was lost; before that whether what seemed so was not, and whether what was
    /// is repaired.
    #[inline(always)] // A step of one.
    fn detect(
        &mut self,
        input: &AckInput<'_>,
        seen: &Delivered,
        trace: &mut impl Trace,
    ) -> Option<ByteCount> {
        let now = input.now;
        if let Some(probe) = self.rare.tlp {
            cold_path();
            self.hear_of_probe(probe, input, seen, trace);
        }
        self.detect_spurious(input, seen, trace);
        if seen.advanced {
            self.leave_episode(now, trace);
        }
        let newest = seen.newest(now, input.timestamp_rtt);
        self.judgement(|s| s.judge(seen, newest, input.dsack.is_some(), now))
    }

    /// The loss detector judges what the ACK delivered, `newest` of it last.
    #[inline(always)] // A step of two.
    pub(super) fn judge(
        &mut self,
        seen: &Delivered,
        newest: Option<SentSegment>,
        dsack: bool,
        now: Instant,
    ) {
        let facts = AckFacts {
            now,
            una_advanced: seen.advanced,
            newly_delivered: seen.bytes,
            newly_sacked: seen.newly_sacked,
            dup_acks: self.dup_acks,
            dsack,
            newest,
            rtt: &self.rtt,
            mss: self.mss,
            ca_state: self.episode.state(),
            recovery_point: self.recover,
            dup_thresh: self.policy.dup_thresh,
            round_start: seen.round_start,
        };
        self.detector.on_ack(&facts, &mut self.board);
    }

    /// The window answers for losses and marks, and how much leaves follows what was delivered.
    #[inline(always)] // A step of one.
    fn react(
        &mut self,
        input: &AckInput<'_>,
        seen: &Delivered,
        lost: Option<ByteCount>,
        trace: &mut impl Trace,
    ) {
        let now = input.now;
        if let Some(bytes) = lost {
            self.on_loss_found(bytes, self.flight_before(seen, now), trace);
        } else if self.rare.lost_beyond && self.episode.is_settled() {
            // The episode is over in which that was found.
            self.answer_for_next_window(self.flight_before(seen, now), trace);
        }
        // ECN: at most one reduction per window (RFC 3168 section 6.1.2). An ACK of no more than
        // what was sent before the last reduction speaks of the window that it answered for.
        if input.ece && self.una() > self.recover && self.episode.is_settled() {
            cold_path();
            let flight = self.flight_before(seen, now);
            self.enter_cwr(CongestionEvent::EcnEcho, flight, trace);
            self.rare.counted.ecn_reductions += 1;
            // A window of one segment cannot shrink: the timer slows the sender further (the same
            // section), once for each window as well: the peer must repeat ECE, on segments of its
            // own, too, until the CWR comes that only new data carries. Exact feedback, and windows
            // below one segment, have means of their own.
            if seen.one_segment && !input.exact_ecn {
                self.rare.asked.held_until = now + self.current_rto();
            }
        }
        match self.episode {
            Episode::Cwr { .. } if self.is_idle() => {
                cold_path();
                self.leave_episode(now, trace);
                self.rare.lost_beyond &= !self.episode.is_settled();
            }
            Episode::Open if seen.duplicate || !self.board.sacked().is_zero() => {
                cold_path();
                self.enter(Episode::Disorder, trace);
            }
            Episode::Disorder if self.dup_acks == 0 && self.board.sacked().is_zero() => {
                cold_path();
                self.enter(Episode::Open, trace);
            }
            _ => {}
        }
        self.tell_reduction(seen, lost);
        if self.rare.paces() {
            cold_path();
            self.reconsider_pace(now);
        }
    }

    #[inline(always)] // A step of one.
    fn arm(&mut self, seen: &Delivered, now: Instant) {
        if seen.advanced {
            if self.restart_rto(now) {
                self.arm_pto(now);
            }
        } else if !self.may_probe() {
            self.pto_at = Sparse::NONE;
        }
    }

    /// A segment that was sent again has been delivered; up to `highest` the peer had SACKed. If it
    /// was not the retransmission that arrived, the first transmission was only late: the path
    /// reorders (RFC 2883 section 5.2), though the reordering alone, which RFC 8985 section 6.2
    /// step 3 looks for among what was sent once, had made a retransmission of it. Its timestamp
    /// says so, or that the retransmission cannot be here yet (step 2).
    #[cold]
    fn look_for_overtaken(&mut self, again: &Resent, highest: AbsSeq, input: &AckInput<'_>) {
        let segment = again.segment;
        let took = input.now.since(segment.sent_at);
        let echo = input.timestamp_rtt;
        // A SACK of what fills no hole at SND.UNA echoes a timestamp from before (RFC 7323
        // section 4.3).
        let echoed = again.cumulative && echo.is_some_and(|echo| echo > took + ECHO_ERROR);
        let needless = echoed || self.rtt.min().is_some_and(|min| took < min);
        if needless && segment.end < highest {
            self.board.note_overtaken(segment.start, highest);
        }
    }

    /// How much leaves in the present reduction follows what was delivered (RFC 9937).
    pub(super) fn tell_reduction(&mut self, seen: &Delivered, lost: Option<ByteCount>) {
        if let Some(prr) = self.episode.prr_mut() {
            let sending = self.policy.recovery;
            let goes_well = match sending {
                RecoverySending::PrrLinux43 => seen.repaired,
                RecoverySending::Prr | RecoverySending::Pipe => seen.advanced,
            };
            let safe = goes_well && lost.is_none();
            // Duplicate ACKs are not believed to deliver more than there was (RFC 9937 section 6.2).
            let most = match self.policy.sack {
                true => ByteCount::MAX,
                false => prr.undelivered(),
            };
            let delivered = seen.bytes.min(most);
            prr.on_ack(delivered, self.board.pipe(), self.mss, safe, sending);
        }
    }

    /// Whether an ACK can have news for the sender. While nothing is outstanding and nothing is
    /// remembered of what was, most have none: the segments of a peer that only sends.
    #[inline(always)] // Of each packet.
    pub(crate) fn is_concerned(&self) -> bool {
        let rare = self.rare.as_changed();
        self.una() != self.nxt()
            || !self.episode.is_open()
            || rare.is_some_and(|rare| rare.undo.is_some() || rare.tlp.is_some())
            || self.probing_window
    }

    /// Duplicate ACKs as stand-ins for SACKs (RFC 6582 through the eyes of RFC 6675's `pipe`).
    #[inline(never)]
    fn emulate_sack(
        &mut self,
        duplicate: bool,
        advanced: bool,
        acked_segments: u32,
        delivered: ByteCount,
    ) -> ByteCount {
        let stood_for = self.board.reno_sacked();
        // For PRR no more than what was outstanding when the reduction began, lest more of them than
        // segments left let more out (RFC 9937 section 6.2).
        let outstanding = |prr: &Prr| prr.recover_fs.get() / self.mss.get().max(1);
        let bound = self.episode.prr().map_or(u64::MAX, outstanding);
        let room = (self.board.len() as u64).saturating_sub(1).min(bound) as u32;
        if duplicate {
            // After a timeout all of the flight counts as lost: only data sent since can leave
            // the pipe.
            if matches!(self.episode, Episode::Loss { .. }) && self.nxt() <= self.recover {
                return delivered;
            }
            let now_for = stood_for.saturating_add(1).min(room).max(stood_for);
            self.board.set_reno_sacked(now_for, self.mss);
            return self.mss * u64::from(now_for - stood_for);
        }
        if !advanced || stood_for == 0 {
            return delivered;
        }
        // One of the segments filled the hole, the others had been counted by their ACKs.
        let counted = acked_segments.saturating_sub(1).min(stood_for);
        // Outside of an episode there is no other hole for the rest to be above: those ACKs
        // were of duplicates.
        let left = match self.episode {
            Episode::Recovery { .. } | Episode::Loss { .. } => (stood_for - counted).min(room),
            Episode::Open | Episode::Disorder | Episode::Cwr { .. } => 0,
        };
        self.board.set_reno_sacked(left, self.mss);
        delivered - self.mss * u64::from(counted)
    }

    fn hear_of_probe(
        &mut self,
        probe: TlpEpisode,
        input: &AckInput<'_>,
        seen: &Delivered,
        trace: &mut impl Trace,
    ) {
        // The probe was perhaps all that was outstanding.
        let bare_duplicate =
            !seen.advanced && input.pure && input.sack.is_empty() && input.dsack.is_none();
        match probe.on_ack(input.ack, input.dsack, bare_duplicate) {
            TlpOutcome::Pending => return,
            TlpOutcome::NoLoss => {}
            // A reduction since the probe left has answered for all that was outstanding.
            TlpOutcome::Repaired if probe.end_seq <= self.rare.answered => {}
            // RFC 8985 section 7.4.2: the probe repaired a loss; the window answers for it once.
            TlpOutcome::Repaired => {
                self.answer_for_repaired(self.flight_before(seen, input.now), trace);
            }
        }
        self.rare.clear(|rare| &mut rare.tlp);
    }
}
