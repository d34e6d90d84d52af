//! The sender: its state, and what leaves.

use super::detector::LossDetector;
use super::episode::Episode;
use super::rare::Rare;
use super::rate::RateEstimator;
use super::scoreboard::{AbsSeq, Scoreboard};
use super::stats::SenderStats;
use super::tlp::TlpEpisode;
use crate::config::{PacingMode, RecoverySending, SpuriousDetection};
use crate::prefetch::prefetch_any;
use crate::rng::Rng;
use crate::sparse::{Rarely, Sparse};
use narrows_congestion::hint::cold_path;
use narrows_congestion::{
    ByteCount, CaState, CongestionControl, Duration, FlowView, Instant, Lower, Needs, RtoPolicy,
    RttEstimator,
};
use std::hint::black_box;
use std::mem::offset_of;

/// The values of `TcpConfig` and of the handshake that the sender goes by.
#[derive(Clone, Copy, Debug)]
#[repr(C)] // What each segment asks for comes last: see `Sender`.
pub struct SenderPolicy {
    /// The longest the peer is assumed to delay an ACK, for tail-loss probes.
    pub max_ack_delay: Duration,
    /// How much leaves during recovery.
    pub recovery: RecoverySending,
    /// RFC 3042.
    pub limited_transmit: bool,
    /// Means to detect spurious reductions.
    pub spurious: SpuriousDetection,
    /// SACK was negotiated.
    pub sack: bool,
    /// RFC 5681's threshold.
    pub dup_thresh: u32,
    /// Pacing asked for by the configuration.
    pub pacing: PacingMode,
    /// Records on the scoreboard at most.
    pub max_segments: usize,
}

/// The sending half of a connection, less the bytes themselves.
///
/// Sequence numbers are unwrapped to 64 bits ([`AbsSeq`]): the SYN is 0, the first byte 1.
///
/// What each segment touches lies together in the order of declaration, and what few need comes
/// first or last, or is in a box: see [`Connection`](crate::conn::Connection). Of what it touches
/// the first two cache lines are all that those need who only receive.
#[derive(Debug)]
#[repr(C)]
pub struct Sender<C, R> {
    // Few.
    /// The recovery point: SND.NXT when the present episode began.
    pub(super) recover: AbsSeq,
    /// [`SenderStats::local_drops`], which many have that have nothing else to count.
    pub(super) local_drops: u64,
    pub(super) detector: Box<dyn LossDetector>,
    pub(super) policy: SenderPolicy,

    // Every segment, from the last words of the policy on.
    pub(super) mss: ByteCount,
    pub(super) rto_at: Sparse<Instant>,
    pub(super) pto_at: Sparse<Instant>,
    pub(super) episode: Episode,
    pub(super) rare: Rarely<Rare>,
    pub(super) dup_acks: u32,
    /// Timeouts in a row.
    pub(super) backoff: u32,
    /// Timeouts since SND.UNA last moved.
    pub(super) retries: u32,
    /// The first retransmission of an episode leaves whatever the window says.
    pub(super) force_one: bool,
    pub(super) probe_due: bool,
    /// The last timeout was a probe of a closed window, and no ACK has come since.
    pub(super) probing_window: bool,
    /// CWR is owed to the peer on the next new data segment (RFC 3168 section 6.1.2).
    pub(super) cwr_due: bool,
    /// No round trip was measured since the last probe (RFC 8985 section 7.3).
    pub(super) probe_unmeasured: bool,
    /// A D-SACK has reported what was never retransmitted: the network duplicates.
    pub(super) network_duplicates: bool,
    /// How much [`Self::fruitless`] has grown since somebody asked.
    pub(super) sent_in_vain: u8,
    /// There is a [`Self::validation`], or [`Self::packets`].
    pub(super) validates: bool,
    /// What `detector` wants; asked once.
    pub(super) heeds_progress: bool,
    pub(super) probes_tail: bool,
    /// What `cc` wants. Pacing also while the window is not validated.
    pub(super) needs: Needs,
    pub(super) board: Scoreboard,
    /// [`SenderStats::segments`].
    pub(super) segments: u64,
    pub(super) rto: R,
    /// The window was the limit while data up to here was sent.
    pub(super) limited_until: AbsSeq,
    pub(super) last_sent_at: Instant,
    pub(super) armed_rto: Duration,
    pub(super) rtt: RttEstimator,
    pub(super) rate: RateEstimator,
    /// Last, because its end is what few algorithms have.
    pub(super) cc: C,
}

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Bytes of which those need some who only receive.
    pub(crate) const OF_RECEIVER: usize = offset_of!(Self, board) + Scoreboard::OF_RECEIVER;

    /// A sender whose handshake is done: everything before `start` is acknowledged.
    #[allow(clippy::too_many_arguments)] // The parts of a sender, each given once, by its only caller.
    pub fn new(
        start: AbsSeq,
        mss: ByteCount,
        policy: SenderPolicy,
        cc: C,
        rto: R,
        rtt: RttEstimator,
        detector: Box<dyn LossDetector>,
        seed: u64,
    ) -> Self {
        let mut board = Scoreboard::new();
        board.set_start(start);
        let needs = cc.needs();
        let mut rare = Rarely::<Rare>::default();
        if rto.wants_entropy() {
            rare.asked.rng = Some(Box::new(Rng::new(seed)));
        }
        Self {
            mss,
            policy,
            board,
            heeds_progress: detector.heeds_progress(),
            probes_tail: detector.tail_loss_probe(),
            detector,
            needs,
            cc,
            rto,
            rtt,
            rate: RateEstimator::of(&needs),
            local_drops: 0,
            episode: Episode::Open,
            recover: start,
            force_one: false,
            dup_acks: 0,
            probe_due: false,
            probing_window: false,
            backoff: 0,
            retries: 0,
            network_duplicates: false,
            rto_at: Sparse::NONE,
            pto_at: Sparse::NONE,
            armed_rto: Duration::ZERO,
            limited_until: start,
            cwr_due: false,
            probe_unmeasured: false,
            sent_in_vain: 0,
            last_sent_at: Instant::ZERO,
            segments: 0,
            validates: false,
            rare,
        }
    }

    /// SND.UNA.
    pub fn una(&self) -> AbsSeq {
        self.board.una()
    }
    /// SND.NXT.
    pub fn nxt(&self) -> AbsSeq {
        self.board.end()
    }
    /// Nothing is outstanding.
    pub fn is_idle(&self) -> bool {
        self.una() == self.nxt()
    }
    /// The effective segment size.
    pub fn mss(&self) -> ByteCount {
        self.mss
    }
    /// The congestion control.
    pub fn congestion(&self) -> &C {
        &self.cc
    }
    /// The RTT estimator.
    pub fn rtt(&self) -> &RttEstimator {
        &self.rtt
    }
    /// The record of what is outstanding.
    pub fn scoreboard(&self) -> &Scoreboard {
        &self.board
    }
    /// Where loss recovery stands.
    pub fn ca_state(&self) -> CaState {
        self.episode.state()
    }
    /// Counters.
    pub fn stats(&self) -> SenderStats {
        SenderStats {
            segments: self.segments,
            local_drops: self.local_drops,
            ..self.rare.counted.told()
        }
    }
    /// Timeouts in a row without progress.
    pub fn retries(&self) -> u32 {
        self.retries
    }

    /// Reads a word of each cache line that an ACK of new data touches; see
    /// [`Connection`](crate::conn::Connection)'s function of that name.
    #[inline(never)]
    pub(crate) fn bring_in(&self) {
        black_box(
            self.board.bring_in()
                ^ self.last_sent_at.as_nanos()
                ^ self.rate.delivered()
                ^ self.cc.cwnd().get(),
        );
    }

    /// Asks for what lies elsewhere of what a timeout touches, to come all at the same time.
    #[inline(never)]
    pub(crate) fn ask_for_the_rest(&self) {
        self.board.ask_for();
        prefetch_any(self.rare.as_changed());
    }

    /// The loss detector.
    pub fn detector(&self) -> &dyn LossDetector {
        &*self.detector
    }

    /// Whether the window was the limit during the last round trip. In slow start a window used
    /// by more than half counts: it could not have been full yet (as in Linux).
    #[inline]
    pub(super) fn cwnd_limited_since(&self, una: AbsSeq) -> bool {
        if self.limited_until > una {
            return true;
        }
        let cwnd = self.cc.cwnd();
        cwnd < self.cc.ssthresh() && ByteCount::new(self.nxt() - una) * 2 > cwnd
    }

    /// Call `f` with the congestion control and the flow's state.
    pub(super) fn with_cc(&mut self, now: Instant, f: impl FnOnce(&mut C, &FlowView<'_>)) {
        let limited = self.cwnd_limited_since(self.una());
        self.with_cc_limited(now, limited, f);
    }

    /// The same, where it is known whether the window was the limit.
    #[inline]
    pub(super) fn with_cc_limited(
        &mut self,
        now: Instant,
        cwnd_limited: bool,
        f: impl FnOnce(&mut C, &FlowView<'_>),
    ) {
        let mut view = FlowView::new(now, self.mss, &self.rtt);
        view.in_flight = self.board.pipe();
        view.flight_size = self.board.outstanding();
        view.ca_state = self.episode.state();
        view.cwnd_limited = cwnd_limited;
        f(&mut self.cc, &view);
    }

    /// The congestion window comes down to `window`.
    pub(super) fn lower(&mut self, window: ByteCount, why: Lower, now: Instant) {
        self.with_cc(now, |cc, view| cc.on_lower(window, why, view));
    }

    /// New data up to `end` leaves.
    #[inline(always)] // Of each packet.
    pub fn on_sent_new(&mut self, end: AbsSeq, now: Instant) {
        let (start, idle) = (self.nxt(), self.is_idle());
        let bytes = ByteCount::new(end - start);
        self.board.push(end, now, self.rate.delivered());
        self.rate
            .on_sent((start, end), now, idle, || self.board.pipe());
        self.after_send(bytes, false, now);
        if self.rto_at.is_none() {
            self.arm_rto(now);
        }
        self.arm_pto(now);
    }

    /// `count` full segments of new data leave after one that has just left, no more than
    /// [`full_segments`](Self::full_segments) said.
    pub fn on_sent_full(&mut self, count: u64, now: Instant) {
        if count == 0 {
            return;
        }
        self.board
            .push_burst(count, self.mss, now, self.rate.delivered());
        self.segments += count;
        let bytes = self.mss * count;
        self.with_cc(now, |cc, view| cc.on_sent(bytes, view));
        self.arm_pto(now);
    }

    /// The segment that starts at `start` leaves again, stamped `tsval`.
    pub fn on_retransmit(&mut self, start: AbsSeq, now: Instant, tsval: Option<u32>) {
        let Some(segment) = self.board.on_retransmit(start, now, self.rate.delivered()) else {
            return;
        };
        let bytes = segment.len();
        if self.validates && !segment.was_retransmitted() {
            cold_path();
            self.validate_retransmission(bytes);
        }
        self.rare.retransmitted_to = self.rare.retransmitted_to.max(segment.end);
        self.rate
            .on_sent((start, segment.end), now, false, || self.board.pipe());
        self.force_one = false;
        if let Some(frto) = self.episode.frto_mut() {
            frto.on_retransmit(start == self.board.una());
        }
        self.rare.counted.retransmits += 1;
        self.rare.counted.retransmitted_bytes += bytes.get();
        if let Some(undo) = Rare::undo(&mut self.rare) {
            let waiting = self.board.lost() - self.board.retransmitted();
            undo.on_retransmit(&segment, tsval, waiting);
        }
        self.after_send(bytes, true, now);
        self.rare.rto_before = Sparse::NONE;
        if self.rto_at.is_none() || (start == self.una() && self.fires_early(now)) {
            let before = self.rto_at;
            self.arm_rto(now);
            self.rare.rto_before = before;
        }
    }

    #[inline(always)] // Of each packet.
    fn after_send(&mut self, bytes: ByteCount, retransmission: bool, now: Instant) {
        self.segments += 1;
        self.last_sent_at = now;
        if !self.episode.is_settled() {
            self.episode.on_sent(bytes, retransmission);
        }
        if let Some(rate) = self.pacing_rate() {
            cold_path();
            self.rare
                .asked
                .pacer
                .get_or_insert_default()
                .on_sent(now, bytes, rate);
        }
        if self.probe_due {
            cold_path();
            self.probe_due = false;
            self.rare.tlp = Some(TlpEpisode {
                end_seq: self.nxt(),
                is_retrans: retransmission,
            });
            self.probe_unmeasured = true;
            self.rare.counted.tail_loss_probes += 1;
        }
        if self.needs.hears_of_sent {
            self.with_cc(now, |cc, view| cc.on_sent(bytes, view));
        }
        if self.validates && !retransmission {
            cold_path();
            self.validate_send(now);
        }
    }

    /// The segment that carried CWR never left.
    pub fn owe_cwr(&mut self) {
        self.cwr_due = true;
    }

    /// Gives back the memory of records that are not in use, but for `few`.
    pub(crate) fn trim_records(&mut self, few: usize) {
        self.board.trim(few);
        self.rate.trim(few);
    }

    /// What one segment outstanding takes, in bytes.
    pub(crate) fn record_memory(&self) -> usize {
        Scoreboard::RECORD_MEMORY + self.rate.memory_of_a_record()
    }

    /// Whether CWR belongs on the next new data segment; cleared by the call.
    pub fn take_cwr(&mut self) -> bool {
        core::mem::take(&mut self.cwr_due)
    }

    /// When data or a retransmission last left.
    pub fn last_sent_at(&self) -> Instant {
        self.last_sent_at
    }

    /// There is nothing to send though the window would admit it: rate samples taken now measure
    /// the application, not the path.
    pub fn on_app_limited(&mut self) {
        self.rate.on_app_limited(|| self.board.pipe());
    }
}
