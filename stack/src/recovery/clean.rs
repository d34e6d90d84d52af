//! What nearly every acknowledgement is: of new data, with nothing amiss.
//!
//! In the manner of header prediction it is recognised by what it is not, and then little is left
//! of the steps of [`Sender::on_ack`]: those here, in the same order and with the same outcome.

use super::ack::Delivered;
use super::episode::Episode;
use super::scoreboard::{AbsSeq, SentSegment};
use super::sender::Sender;
use crate::trace::Trace;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{AckSample, ByteCount, CongestionControl, Duration, Instant, RtoPolicy};

impl<C: CongestionControl, R: RtoPolicy> Sender<C, R> {
    /// Whether an acknowledgement of `ack` that says nothing else is clean: it covers a segment,
    /// nothing is lost, SACKed or in doubt, of what is outstanding nothing was sent twice, and of what
    /// was before only a D-SACK could still tell.
    #[inline(always)] // Of each ACK.
    pub(crate) fn is_clean(&self, ack: AbsSeq) -> bool {
        self.episode.is_open()
            && self.board.is_clean_to(ack)
            && self.rare.as_changed().is_none_or(|rare| {
                rare.retransmitted_to <= self.una()
                    && (rare.undo.as_ref()).is_none_or(|undo| undo.awaits_dsack(ack))
                    && rare.tlp.is_none()
                    && !rare.paces()
            })
            && !self.validates
    }

    /// [`Self::on_ack`] where it [is clean](Self::is_clean).
    #[inline(always)] // One place takes the short way.
    pub(crate) fn on_clean_ack(&mut self, ack: AbsSeq, now: Instant, trace: &mut impl Trace) {
        let prior_una = self.una();
        let rate = &mut self.rate;
        let (mut oldest, mut newest, mut round_start) = (now, None, false);
        self.board.ack_clean(ack, |s| {
            let s = newest.insert(*s);
            round_start |= rate.on_delivered(s, now);
            oldest = oldest.min(s.sent_at);
        });
        self.dup_acks = 0;
        self.on_progress(Some(now.since(oldest)), now);
        let mut sample = AckSample::default();
        sample.acked = ByteCount::new(ack - prior_una);
        sample.delivered = sample.acked;
        sample.rtt = newest.map(|s| now.since(s.sent_at));
        sample.round_start = round_start;
        self.tell_of_delivery(&mut sample, self.cwnd_limited_since(prior_una), now);
        if self.heeds_progress {
            self.heed_progress(&sample, &newest, now, trace);
        }
        if self.restart_rto(now) {
            self.arm_pto(now);
        }
    }

    /// The loss detector hears of what a [clean](Self::is_clean) ACK delivered, `newest` of it last, and
    /// judges it unless that is enough.
    #[inline(never)]
    fn heed_progress(
        &mut self,
        sample: &AckSample,
        newest: &Option<SentSegment>,
        now: Instant,
        trace: &mut impl Trace,
    ) {
        if let Some(newest) = newest
            && self.detector.on_progress(newest, now, &self.rtt)
        {
            return;
        }
        let mut seen = Delivered::to(self.una() - sample.acked.get());
        (seen.advanced, seen.bytes) = (true, sample.delivered);
        (seen.newest, seen.round_start) = (*newest, sample.round_start);
        let lost = self.judgement(|s| s.judge(&seen, seen.newest, false, now));
        if let Some(bytes) = lost {
            self.on_loss_found(bytes, self.flight_before(&seen, now), trace);
            self.tell_reduction(&seen, lost);
        }
    }

    /// SND.UNA has moved: what was measured of the round trip (RFC 6298 section 3), and nothing
    /// is in vain any more.
    #[inline]
    pub(super) fn on_progress(&mut self, rtt: Option<Duration>, now: Instant) {
        if let Some(rtt) = rtt {
            self.rtt.on_sample(rtt, now);
            self.rto.on_rtt_sample(rtt, now);
            self.backoff = 0;
            self.probe_unmeasured = false;
        }
        self.retries = 0;
        self.probing_window = false;
    }

    /// Congestion control hears of a delivery. Whether the window was the limit is told of the flow
    /// as the ACK found it.
    #[inline(always)] // A step of two.
    pub(super) fn tell_of_delivery(
        &mut self,
        sample: &mut AckSample,
        cwnd_limited: bool,
        now: Instant,
    ) {
        if self.needs.delivery_rate {
            let min_rtt = self.rtt.min().unwrap_or_default();
            self.rate.sample(sample, self.board.una(), min_rtt, now);
        }
        self.with_cc_limited(now, cwnd_limited, |cc, view| cc.on_ack(sample, view));
    }

    /// SND.UNA has moved: the retransmission timer (RFC 6298 sections 5.2 and 5.3). Whether something
    /// is outstanding.
    #[inline(always)] // A step of two.
    pub(super) fn restart_rto(&mut self, now: Instant) -> bool {
        if self.una() == self.nxt() {
            self.stop_timers();
            self.dup_acks = 0;
            return false;
        }
        if let Episode::Recovery { partial_acks, .. } = &mut self.episode {
            cold_path();
            *partial_acks = partial_acks.saturating_add(1);
            if self.is_impatient() {
                return true;
            }
        }
        self.arm_rto_here(now);
        true
    }
}

#[cfg(test)]
mod tests {
    use crate::config::{PacingMode, RecoverySending, SpuriousDetection};
    use crate::recovery::detector;
    use crate::recovery::detector::{AckFacts, LossDetector};
    use crate::recovery::scoreboard::Scoreboard;
    use crate::recovery::{AckInput, NextSegment, Sender, SenderPolicy};
    use narrows_congestion::rto::{StandardRto, presets};
    use narrows_congestion::{
        AnyCongestion, ByteCount, CongestionRegistry, Duration, FlowStart, Instant, RttEstimator,
    };
    use proptest::prelude::*;

    type Any = Sender<AnyCongestion, StandardRto>;
    const MSS: u64 = 1_000;

    /// Finds the first record lost with each third ACK of new data, and wants probes.
    #[derive(Debug, Default)]
    struct EachThird(u32);

    impl LossDetector for EachThird {
        fn name(&self) -> &'static str {
            "each-third"
        }

        fn on_ack(&mut self, facts: &AckFacts<'_>, board: &mut Scoreboard) {
            self.0 += u32::from(facts.una_advanced);
            let finds = facts.una_advanced && self.0.is_multiple_of(3);
            if let Some(first) = board.first().filter(|_| finds) {
                board.mark_lost(first.start);
            }
        }

        fn tail_loss_probe(&self) -> bool {
            true
        }
    }

    fn sender(congestion: &str, detector: &str) -> Any {
        let policy = SenderPolicy {
            recovery: RecoverySending::Prr,
            dup_thresh: 3,
            limited_transmit: true,
            spurious: SpuriousDetection::default(),
            sack: detector != "newreno",
            max_ack_delay: Duration::from_millis(25),
            pacing: PacingMode::Off,
            max_segments: 1_000,
        };
        let mss = ByteCount::new(MSS);
        let factory = CongestionRegistry::standard().get(congestion).unwrap();
        Sender::new(
            1,
            mss,
            policy,
            factory.build_any(&FlowStart::new(mss, mss * 10)),
            presets::one_ms(),
            RttEstimator::new(),
            match detector::standard().get(detector) {
                Ok(known) => known.build(),
                Err(_) => Box::new(EachThird::default()),
            },
            1,
        )
    }

    /// What happens to both.
    #[derive(Clone, Debug)]
    enum Step {
        /// So many segments of new data, as far as the window lets them out.
        Send(u64),
        /// So many bytes are acknowledged.
        Ack(u64),
        /// The second to fourth segment outstanding are SACKed.
        Sack,
        /// An ACK of nothing new says that the segment below it arrived twice (RFC 2883).
        Dsack,
        Timeout,
    }

    fn step() -> impl Strategy<Value = Step> {
        prop_oneof![
            4 => (1..12_u64).prop_map(Step::Send),
            6 => prop_oneof![Just(MSS), Just(2 * MSS), 1..5 * MSS].prop_map(Step::Ack),
            1 => Just(Step::Sack),
            1 => Just(Step::Dsack),
            1 => Just(Step::Timeout),
        ]
    }

    /// Does `step` at `now`, a clean ACK by the path of its own if `short`; whether it was clean.
    fn apply(s: &mut Any, step: &Step, now: Instant, short: bool) -> bool {
        let mut sack = Vec::new();
        let mut dsack = None;
        let mut acked = 0;
        match *step {
            Step::Send(n) => {
                for _ in 0..n {
                    match s.next_segment(now, true) {
                        NextSegment::New { allowance } if allowance.get() >= MSS => {
                            s.on_sent_new(s.nxt() + MSS, now);
                        }
                        NextSegment::Retransmit(segment) => {
                            s.on_retransmit(segment.start, now, None);
                        }
                        _ => s.on_cwnd_limited(),
                    }
                }
                return false;
            }
            Step::Timeout => {
                if !s.is_idle() {
                    s.on_rto(now, false, &mut |_| {});
                }
                return false;
            }
            Step::Sack => {
                let from = s.una() + MSS;
                let to = (from + 3 * MSS).min(s.nxt());
                if from >= to {
                    return false;
                }
                sack.push((from, to));
            }
            Step::Dsack => dsack = s.una().checked_sub(MSS).map(|from| (from, s.una())),
            Step::Ack(bytes) => acked = bytes.min(s.nxt() - s.una()),
        }
        let ack = s.una() + acked;
        if short && acked > 0 && s.is_clean(ack) {
            s.on_clean_ack(ack, now, &mut |_| {});
            return true;
        }
        let input = AckInput {
            now,
            ack,
            sack: if s.policy.sack { &sack } else { &[] },
            dsack: dsack.filter(|_| s.policy.sack),
            timestamp_rtt: None,
            tsecr: None,
            ece: false,
            exact_ecn: false,
            pure: true,
            can_send_new: true,
        };
        s.on_ack(&input, &mut |_| {});
        false
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(64))]

        /// A clean ACK leaves the sender as `on_ack` does, to the last bit of its state.
        #[test]
        fn the_short_way_ends_where_the_long_one_does(
            congestion in prop::sample::select(vec!["reno", "cubic", "dctcp"]),
            detector in prop::sample::select(vec!["newreno", "sack", "rack", "each-third"]),
            steps in prop::collection::vec((step(), 1..300_u64), 1..120),
        ) {
            let (mut short, mut long) = (sender(congestion, detector), sender(congestion, detector));
            let mut now = Instant::ZERO + Duration::from_secs(1);
            for (step, us) in &steps {
                now = now + Duration::from_micros(*us);
                apply(&mut short, step, now, true);
                apply(&mut long, step, now, false);
                prop_assert_eq!(format!("{short:?}"), format!("{long:?}"), "after {:?}", step);
            }
        }
    }

    #[test]
    fn most_acknowledgements_of_a_transfer_are_clean() {
        let mut s = sender("reno", "sack");
        let mut now = Instant::ZERO + Duration::from_secs(1);
        let mut clean = 0;
        for _ in 0..100 {
            now = now + Duration::from_micros(50);
            apply(&mut s, &Step::Send(2), now, true);
            clean += u32::from(apply(&mut s, &Step::Ack(2 * MSS), now, true));
        }
        assert_eq!(clean, 100);
    }

    /// A loss is repaired and the next window is on its way: only a D-SACK could still tell of the repair.
    #[test]
    fn acknowledgements_after_a_repair_are_clean() {
        let mut s = sender("reno", "sack");
        let now = Instant::ZERO + Duration::from_secs(1);
        let steps = [
            Step::Send(10),
            Step::Sack,
            Step::Send(9),
            Step::Ack(10 * MSS),
        ];
        for (step, ms) in steps.iter().zip(1..) {
            apply(&mut s, step, now + Duration::from_millis(ms), true);
        }
        assert!(s.rare.undo.is_some() && s.episode.is_open() && !s.is_idle());
        let now = now + Duration::from_millis(9);
        assert!(apply(&mut s, &Step::Ack(MSS), now, true));
        assert!(s.rare.undo.is_some());
    }
}
