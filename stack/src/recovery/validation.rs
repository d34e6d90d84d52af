//! Congestion window validation: what is known of a window that the application does not use.
//!
//! [`UsedWindow`] is RFC 2861, which lets an unused window decay. [`PipeAck`] and [`NewCwv`] are
//! RFC 7661, which keeps it for five minutes, and answers for congestion with what was used.

use narrows_congestion::{ByteCount, Duration, Instant};

/// What a sender that validates its window knows.
#[derive(Clone, Debug)]
pub(super) enum Validation {
    /// RFC 2861.
    Decay(UsedWindow),
    /// RFC 7661.
    Preserve(NewCwv),
}

/// The variables of RFC 2861 section 3.2; `T_last` is the sender's own.
#[derive(Clone, Debug)]
pub(super) struct UsedWindow {
    /// `T_prev`: when the window was last full, or was lowered for not being so.
    since: Instant,
    /// `W_used`: the most that was outstanding since.
    used: ByteCount,
    /// New data has left since this was last judged.
    sent: bool,
}

impl UsedWindow {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            since: now,
            used: ByteCount::ZERO,
            sent: false,
        }
    }

    /// The window is full, or has just been lowered for whatever reason.
    pub(super) fn restart(&mut self, now: Instant) {
        *self = Self::new(now);
    }

    /// New data has left and the window is not full: `flight` is outstanding.
    pub(super) fn on_sent(&mut self, flight: ByteCount) {
        self.used = self.used.max(flight);
        self.sent = true;
    }

    /// No more data is available to send. The window to go on with, if the application has been
    /// the limit for an RTO; `window` is the smaller of `cwnd` and the largest window that the
    /// peer has offered.
    pub(super) fn on_empty_queue(
        &mut self,
        window: ByteCount,
        rto: Duration,
        now: Instant,
    ) -> Option<ByteCount> {
        if !core::mem::take(&mut self.sent) || now.since(self.since) < rto {
            return None;
        }
        let to = (window + self.used) / 2;
        self.restart(now);
        Some(to)
    }
}

/// What a sender has at a moment.
#[derive(Clone, Copy)]
pub(super) struct Moment {
    pub(super) now: Instant,
    /// All that was ever delivered, as far as ACKs and SACKs tell (RFC 7661 section 4.2).
    pub(super) delivered: u64,
    pub(super) cwnd: ByteCount,
    /// Zero before the first measurement.
    pub(super) rtt: Duration,
}

/// Parts that the sampling period is divided into (RFC 7661 section 4.5.1).
const PARTS: usize = 5;

/// The acknowledged size of the network pipe (RFC 7661 sections 4.2 and 4.5.1).
#[derive(Clone, Debug, Default)]
pub(super) struct PipeAck {
    /// The round trip that is being measured: when it began, and how much was delivered by then.
    round: Option<(Instant, u64)>,
    /// The largest sample of each part that had one, and when the part began; the oldest is
    /// written over.
    parts: [Option<(Instant, ByteCount)>; PARTS],
    newest: usize,
}

impl PipeAck {
    /// How long a sample counts, the pipeACK Sampling Period.
    fn period(rtt: Duration) -> Duration {
        (rtt * 3).max(Duration::from_secs(1))
    }

    /// Takes the sample if the round trip is over; until now `delivered` was delivered.
    fn close(&mut self, delivered: u64, rtt: Duration, now: Instant) -> Sampled {
        match self.round {
            Some((began, from)) if now.since(began) >= rtt => {
                self.round = None;
                let acked = ByteCount::new(delivered.saturating_sub(from));
                self.record(acked, began + rtt, Self::period(rtt));
                Sampled::Now
            }
            _ => Sampled::NotNow,
        }
    }

    fn record(&mut self, sample: ByteCount, at: Instant, period: Duration) {
        if let Some((began, largest)) = &mut self.parts[self.newest]
            && at < *began + period / PARTS as u64
        {
            *largest = (*largest).max(sample);
            return;
        }
        self.newest = (self.newest + 1) % PARTS;
        self.parts[self.newest] = Some((at, sample));
    }

    /// The variable `pipeACK`; `None`: undefined, nothing has been measured.
    fn value(&self, rtt: Duration, now: Instant) -> Option<ByteCount> {
        let period = Self::period(rtt);
        let counts = |&(began, sample): &(Instant, ByteCount)| match began + period > now {
            true => sample,
            false => ByteCount::ZERO,
        };
        self.parts.iter().flatten().map(counts).max()
    }

    /// Until when `pipeACK` is at least half of `cwnd`, should no more come.
    fn covers_until(&self, cwnd: ByteCount, rtt: Duration) -> Option<Instant> {
        let period = Self::period(rtt);
        let enough = self.parts.iter().flatten().filter(|p| p.1 * 2 >= cwnd);
        enough.map(|(began, _)| *began + period).max()
    }

    fn is_undefined(&self) -> bool {
        self.parts[self.newest].is_none()
    }
}

/// Whether a round trip was measured just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sampled {
    /// A sample was taken.
    Now,
    /// None was.
    NotNow,
}

/// Whether the window tells what the path holds (RFC 7661 section 4.3).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    /// It does; without another sample until then, `None` if there was none to judge by.
    Validated { until: Option<Instant> },
    /// It was not used enough, `since` then.
    NonValidated { since: Instant },
}

/// The state of RFC 7661.
#[derive(Clone, Debug)]
pub(super) struct NewCwv {
    /// IW.
    initial_window: ByteCount,
    pipe_ack: PipeAck,
    phase: Phase,
    /// Congestion met a window that was not validated: max(pipeACK, LossFlightSize) - R, with `R`
    /// what was retransmitted since, each byte counted once (RFC 7661 section 4.4.1).
    loss: Option<ByteCount>,
}

impl NewCwv {
    /// The non-validated period: no more than five minutes (RFC 7661 section 4.4).
    const NVP: Duration = Duration::from_secs(300);

    /// In the validated phase, with pipeACK undefined (RFC 7661 section 4.1).
    pub(super) fn new(initial_window: ByteCount) -> Self {
        Self {
            initial_window,
            pipe_ack: PipeAck::default(),
            phase: Phase::Validated { until: None },
            loss: None,
        }
    }

    /// Whether this is the non-validated phase. An indication of congestion ends it.
    pub(super) fn is_non_validated(&self) -> bool {
        matches!(self.phase, Phase::NonValidated { .. }) && self.loss.is_none()
    }

    /// An ACK has come that found `before` bytes of all delivered. Outside of loss recovery only: in
    /// it nothing is measured. The window to go on with, should the non-validated period be over.
    pub(super) fn on_ack(&mut self, before: u64, at: Moment) -> Option<ByteCount> {
        let sampled = self.pipe_ack.close(before, at.rtt, at.now);
        // Before the first measurement of the RTT nothing can be measured over one.
        if at.delivered > before && !at.rtt.is_zero() {
            self.pipe_ack.round.get_or_insert((at.now, before));
        }
        match sampled {
            Sampled::Now => self.judge(at),
            Sampled::NotNow => None,
        }
    }

    /// New data leaves. As [`on_ack`](Self::on_ack).
    pub(super) fn on_sent(&mut self, at: Moment) -> Option<ByteCount> {
        match self.phase {
            // Nothing was measured for so long that the samples do not count any more. While
            // they do, cwnd may have grown beyond what the last round trip could show.
            Phase::Validated { until } if until.is_some_and(|until| at.now <= until) => None,
            Phase::Validated { .. } => {
                self.pipe_ack.close(at.delivered, at.rtt, at.now);
                self.judge(at)
            }
            Phase::NonValidated { .. } => self.end_of_period(at),
        }
    }

    /// Which phase it is now (RFC 7661 section 4.3).
    fn judge(&mut self, at: Moment) -> Option<ByteCount> {
        // A phase that lasted longer than the period is answered for when it ends, too.
        let lowered = self.end_of_period(at);
        if lowered.is_some() || self.pipe_ack.is_undefined() {
            return lowered;
        }
        let covered = self.pipe_ack.covers_until(at.cwnd, at.rtt);
        self.phase = match (self.phase, covered) {
            (_, Some(until)) if until > at.now => Phase::Validated { until: Some(until) },
            // What covered it last ran out then.
            (Phase::Validated { until }, _) => Phase::NonValidated {
                since: until.max(covered).map_or(at.now, |until| until.min(at.now)),
            },
            (phase, _) => phase,
        };
        self.end_of_period(at)
    }

    /// RFC 7661 section 4.4.3, once for each period that has passed (section 4.5.2).
    fn end_of_period(&mut self, at: Moment) -> Option<ByteCount> {
        let Phase::NonValidated { since } = &mut self.phase else {
            return None;
        };
        let passed = at.now.since(*since);
        if passed <= Self::NVP {
            return None;
        }
        let periods = passed.as_nanos() / Self::NVP.as_nanos();
        *since = *since + Self::NVP * periods;
        let halved = ByteCount::new(at.cwnd.get() >> periods.min(63));
        Some(halved.max(self.initial_window.min(at.cwnd)))
    }

    /// An indication of congestion, with `flight` outstanding: LossFlightSize. In the
    /// non-validated phase the answer is with what was used, max(pipeACK, LossFlightSize).
    pub(super) fn on_congestion(&mut self, flight: ByteCount, at: Moment) -> Option<ByteCount> {
        self.pipe_ack.round = None;
        if !self.is_non_validated() {
            return None;
        }
        let pipe_ack = self.pipe_ack.value(at.rtt, at.now).unwrap_or_default();
        self.loss = Some(flight.min(at.cwnd).max(pipe_ack));
        self.loss
    }

    /// `bytes` leave again for the first time.
    pub(super) fn on_first_retransmission(&mut self, bytes: ByteCount) {
        if let Some(left) = &mut self.loss {
            *left -= bytes;
        }
    }

    /// The recovery is over. If it began in the non-validated phase, the window to go on with:
    /// (max(pipeACK, LossFlightSize) - R) / 2. In the validated phase, with pipeACK undefined again.
    pub(super) fn on_recovery_end(&mut self) -> Option<ByteCount> {
        let loss = self.loss;
        *self = Self::new(self.initial_window);
        loss.map(|left| left / 2)
    }

    /// There was no congestion after all.
    pub(super) fn on_undo(&mut self) {
        self.loss = None;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RTT: Duration = Duration::from_millis(100);
    const RTO: Duration = Duration::from_secs(1);

    fn at(ms: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(1_000) + Duration::from_millis(ms)
    }
    fn kb(n: u64) -> ByteCount {
        ByteCount::new(n * 1_000)
    }
    fn moment(delivered: u64, cwnd: u64, now: Instant) -> Moment {
        Moment {
            now,
            delivered,
            cwnd: kb(cwnd),
            rtt: RTT,
        }
    }

    /// RFC 2861 section 3.2: half-way down to what was used, once for each RTO.
    #[test]
    fn rfc2861_3_2_an_application_limited_window_decays() {
        let mut used = UsedWindow::new(at(0));
        let mut window = kb(32);
        let mut seen = Vec::new();
        for step in 1..=20 {
            used.on_sent(kb(4));
            used.on_sent(kb(2));
            if let Some(to) = used.on_empty_queue(window, RTO, at(step * 250)) {
                window = to;
                seen.push((step, window.get()));
            }
        }
        assert_eq!(
            seen,
            [
                (4, 18_000),
                (8, 11_000),
                (12, 7_500),
                (16, 5_750),
                (20, 4_875)
            ]
        );
    }

    #[test]
    fn rfc2861_3_2_a_full_window_begins_anew() {
        let mut used = UsedWindow::new(at(0));
        used.on_sent(kb(4));
        used.restart(at(900));
        used.on_sent(kb(2));
        assert_eq!(used.on_empty_queue(kb(32), RTO, at(1_899)), None);
        used.on_sent(kb(2));
        // What was used before does not count.
        assert_eq!(used.on_empty_queue(kb(32), RTO, at(1_900)), Some(kb(17)));
    }

    /// It is judged after sending, not by the time that passes with ACKs coming.
    #[test]
    fn rfc2861_3_2_only_after_sending() {
        let mut used = UsedWindow::new(at(0));
        assert_eq!(used.on_empty_queue(kb(32), RTO, at(5_000)), None);
        used.on_sent(kb(2));
        assert_eq!(used.on_empty_queue(kb(32), RTO, at(5_000)), Some(kb(17)));
        assert_eq!(used.on_empty_queue(kb(32), RTO, at(9_000)), None);
    }

    /// Figure 1 of RFC 7661: 5, 3, nothing, 4, 2; then the first of them is too old.
    #[test]
    fn rfc7661_4_5_1_the_largest_sample_of_the_period() {
        let mut pipe = PipeAck::default();
        let period = PipeAck::period(RTT);
        for (ms, sample) in [(0, 5), (100, 1), (200, 3), (600, 4), (800, 2)] {
            pipe.record(kb(sample), at(ms), period);
        }
        assert_eq!(pipe.value(RTT, at(999)), Some(kb(5)));
        assert_eq!(pipe.value(RTT, at(1_000)), Some(kb(4)));
        assert_eq!(pipe.value(RTT, at(1_700)), Some(kb(2)));
        // Long after, nothing was acknowledged in the period: that is zero, not undefined.
        assert_eq!(pipe.value(RTT, at(9_000)), Some(kb(0)));
        pipe = PipeAck::default();
        assert_eq!(pipe.value(RTT, at(9_000)), None);
    }

    /// RFC 7661 section 4.2: max(3 RTT, 1 s).
    #[test]
    fn rfc7661_4_2_the_sampling_period() {
        assert_eq!(PipeAck::period(RTT), Duration::from_secs(1));
        assert_eq!(PipeAck::period(RTT * 10), Duration::from_secs(3));
    }

    /// RFC 7661 section 4.2: what was acknowledged in one RTT, no matter when the next ACK comes.
    #[test]
    fn rfc7661_4_2_a_sample_is_of_one_round_trip() {
        let mut pipe = PipeAck {
            round: Some((at(0), 7_000)),
            ..PipeAck::default()
        };
        assert_eq!(pipe.close(9_000, RTT, at(99)), Sampled::NotNow);
        assert_eq!(pipe.value(RTT, at(99)), None);
        assert_eq!(pipe.close(12_000, RTT, at(800)), Sampled::Now);
        assert_eq!(pipe.value(RTT, at(800)), Some(kb(5)));
        // It counts from the end of its round trip.
        assert_eq!(pipe.value(RTT, at(1_099)), Some(kb(5)));
        assert_eq!(pipe.value(RTT, at(1_100)), Some(kb(0)));
        assert_eq!(pipe.close(12_000, RTT, at(1_800)), Sampled::NotNow);
    }

    /// One ACK a round trip, of `bytes` each, from SND.UNA `una`, `n` times.
    fn rounds(cwv: &mut NewCwv, una: &mut u64, bytes: u64, cwnd: u64, ms: &mut u64, n: u64) {
        for _ in 0..n {
            assert_eq!(cwv.on_ack(*una, moment(*una + 1, cwnd, at(*ms))), None);
            *una += bytes * 1_000;
            *ms += 100;
        }
    }

    fn rig(cwnd: u64, used: u64) -> (NewCwv, u64, u64) {
        let mut cwv = NewCwv::new(kb(10));
        let (mut una, mut ms) = (1, 0);
        rounds(&mut cwv, &mut una, cwnd, cwnd, &mut ms, 5);
        assert!(!cwv.is_non_validated());
        // The samples of the full window leave the sampling period.
        rounds(&mut cwv, &mut una, used, cwnd, &mut ms, 20);
        (cwv, una, ms)
    }

    /// RFC 7661 sections 4.1 and 4.2: no judgement before the first sample.
    #[test]
    fn rfc7661_4_1_begins_validated_and_undefined() {
        let mut cwv = NewCwv::new(kb(10));
        assert_eq!(cwv.on_sent(moment(1, 40, at(0))), None);
        assert_eq!(cwv.on_ack(1, moment(1 + 1, 40, at(0))), None);
        assert_eq!(cwv.on_sent(moment(1_001, 40, at(99))), None);
        assert!(!cwv.is_non_validated());
        assert_eq!(cwv.on_ack(1_001, moment(1_001 + 1, 40, at(100))), None);
        assert!(cwv.is_non_validated(), "1 kB of 40");
    }

    /// RFC 7661 section 4.3: pipeACK >= cwnd / 2 validates.
    #[test]
    fn rfc7661_4_3_the_phases() {
        for (used, non_validated) in [(20, false), (21, false), (19, true), (1, true)] {
            let (cwv, ..) = rig(40, used);
            assert_eq!(cwv.is_non_validated(), non_validated, "{used} of 40 kB");
        }
        // And back, with the first round trip that used half.
        let (mut cwv, mut una, mut ms) = rig(40, 4);
        rounds(&mut cwv, &mut una, 20, 40, &mut ms, 1);
        assert!(cwv.is_non_validated());
        rounds(&mut cwv, &mut una, 20, 40, &mut ms, 1);
        assert!(!cwv.is_non_validated());
    }

    /// RFC 7661 section 4.4.3, and 4.5.2: once for each period, not below IW.
    #[test]
    fn rfc7661_4_4_3_after_five_minutes_half_is_left() {
        for (periods, left) in [(1, 40), (2, 20), (3, 10), (4, 10), (90, 10)] {
            let (mut cwv, una, ms) = rig(80, 4);
            let Phase::NonValidated { since } = cwv.phase else {
                panic!("{:?}", cwv.phase);
            };
            // The last sample of the full window was taken at 500 ms and counted a second; its
            // part had begun up to 200 ms before.
            assert!((at(1_300)..=at(1_500)).contains(&since), "{since:?}");
            assert!(at(ms) > since);
            let end = since + NewCwv::NVP * periods;
            let mut again = NewCwv {
                pipe_ack: PipeAck::default(),
                ..cwv
            };
            assert_eq!(again.on_sent(moment(una, 80, since + NewCwv::NVP)), None);
            let past = end + Duration::from_nanos(1);
            assert_eq!(again.on_sent(moment(una, 80, past)), Some(kb(left)));
            assert_eq!(again.on_sent(moment(una, left, past + RTT)), None);
            assert!(again.is_non_validated());
            cwv = again;
            // A window below IW stays.
            let later = past + NewCwv::NVP;
            assert_eq!(cwv.on_sent(moment(una, 6, later)), Some(kb(6)));
        }
    }

    /// RFC 7661 section 4.4.3: also where the phase ends with an ACK.
    #[test]
    fn rfc7661_4_4_3_leaving_the_phase_late_lowers_the_window() {
        let (mut cwv, una, ms) = rig(80, 4);
        let ms = ms + 300_000;
        assert_eq!(cwv.on_ack(una, moment(una + 1, 80, at(ms))), Some(kb(40)));
    }

    /// An idle sender enters the phase when its samples run out, not when it sends again.
    #[test]
    fn rfc7661_4_5_2_an_idle_sender_entered_the_phase_before() {
        let mut cwv = NewCwv::new(kb(10));
        let (mut una, mut ms) = (1, 0);
        rounds(&mut cwv, &mut una, 40, 40, &mut ms, 5);
        assert_eq!(cwv.on_sent(moment(una, 40, at(1_000))), None);
        assert!(!cwv.is_non_validated());
        assert_eq!(cwv.on_sent(moment(una, 40, at(200_000))), None);
        assert!(cwv.is_non_validated());
        assert_eq!(cwv.on_sent(moment(una, 40, at(301_600))), Some(kb(20)));
    }

    /// RFC 7661 section 4.4.1: max(pipeACK, LossFlightSize), and less R at the end.
    #[test]
    fn rfc7661_4_4_1_congestion_is_answered_with_what_was_used() {
        for (flight, capacity) in [(2, 8), (8, 8), (30, 30)] {
            let (mut cwv, una, ms) = rig(40, 8);
            assert_eq!(
                cwv.on_congestion(kb(flight), moment(0, 40, at(ms))),
                Some(kb(capacity))
            );
            assert!(
                !cwv.is_non_validated(),
                "an indication of congestion ends it"
            );
            // A second one is the congestion control's own affair.
            assert_eq!(cwv.on_congestion(kb(flight), moment(0, 40, at(ms))), None);
            cwv.on_first_retransmission(kb(1));
            cwv.on_first_retransmission(kb(2));
            assert_eq!(cwv.on_recovery_end(), Some(kb(capacity - 3) / 2));
            assert!(cwv.pipe_ack.is_undefined());
            assert_eq!(cwv.on_sent(moment(una, 40, at(ms + 9_000))), None);
            assert!(!cwv.is_non_validated());
        }
    }

    #[test]
    fn rfc7661_4_4_1_a_validated_window_is_answered_for_as_ever() {
        let (mut cwv, _, ms) = rig(40, 40);
        assert_eq!(cwv.on_congestion(kb(40), moment(0, 40, at(ms))), None);
        cwv.on_first_retransmission(kb(1));
        assert_eq!(cwv.on_recovery_end(), None);
        assert!(cwv.pipe_ack.is_undefined());
    }

    #[test]
    fn what_was_no_congestion_leaves_the_phase_as_it_was() {
        let (mut cwv, _, ms) = rig(40, 8);
        let phase = cwv.phase;
        cwv.on_congestion(kb(8), moment(0, 40, at(ms)));
        cwv.on_undo();
        assert!(cwv.is_non_validated());
        assert_eq!(cwv.phase, phase);
    }
}
