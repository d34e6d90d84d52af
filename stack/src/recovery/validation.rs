//! Congestion window validation: what is known of a window that the application does not use.
//!
//! [`UsedWindow`] is RFC 2861, which lets an unused window decay. [`PipeAck`] and [`NewCwv`] are
//! RFC 7661, which keeps it for five minutes, and answers for congestion with what was used.

use narrows_congestion::{ByteCount, Duration, Instant};

/// What a sender that validates its window knows.
#[derive(Debug)]
pub(super) enum Validation {
    /// RFC 2861.
    Decay(UsedWindow),
    /// RFC 7661.
    Preserve(NewCwv),
}

/// The variables of RFC 2861 section 3.2; `T_last` is the sender's own.
#[derive(Debug)]
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

/// Parts that the sampling period is divided into (RFC 7661 section 4.5.1).
const PARTS: usize = 5;

/// The acknowledged size of the network pipe (RFC 7661 sections 4.2 and 4.5.1).
#[derive(Debug, Default)]
pub(super) struct PipeAck {
    /// The round trip that is being measured: when it began, and SND.UNA then.
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

    /// Begins to measure a round trip with an ACK that found SND.UNA at `una`, unless one is
    /// being measured.
    fn open(&mut self, una: u64, now: Instant) {
        self.round.get_or_insert((now, una));
    }

    /// Takes the sample if the round trip is over; until now SND.UNA was `una`.
    fn close(&mut self, una: u64, rtt: Duration, now: Instant) -> Sampled {
        match self.round {
            Some((began, from)) if now.since(began) >= rtt => {
                self.round = None;
                let acked = ByteCount::new(una.saturating_sub(from));
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
        let mut value = None;
        for (began, sample) in self.parts.iter().flatten() {
            let counts = if *began + period > now {
                *sample
            } else {
                ByteCount::ZERO
            };
            value = value.max(Some(counts));
        }
        value
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

    /// Undefined, until something has been measured anew.
    fn reset(&mut self) {
        *self = Self::default();
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

/// Congestion met a window that was not validated (RFC 7661 section 4.4.1).
#[derive(Clone, Copy, Debug)]
struct Loss {
    /// max(pipeACK, LossFlightSize).
    capacity: ByteCount,
    /// `R`: what was retransmitted since, each byte counted once.
    repaired: ByteCount,
}

/// The state of RFC 7661.
#[derive(Debug)]
pub(super) struct NewCwv {
    /// IW.
    initial_window: ByteCount,
    pipe_ack: PipeAck,
    phase: Phase,
    loss: Option<Loss>,
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

    /// An ACK comes that finds SND.UNA at `una`, and moves it if `advanced`. Outside of loss
    /// recovery only: in it nothing is measured. The window to go on with, should the
    /// non-validated period be over.
    pub(super) fn on_ack(
        &mut self,
        una: u64,
        advanced: bool,
        cwnd: ByteCount,
        rtt: Duration,
        now: Instant,
    ) -> Option<ByteCount> {
        let sampled = self.pipe_ack.close(una, rtt, now);
        // Before the first measurement of the RTT nothing can be measured over one.
        if advanced && !rtt.is_zero() {
            self.pipe_ack.open(una, now);
        }
        match sampled {
            Sampled::Now => self.judge(cwnd, rtt, now),
            Sampled::NotNow => None,
        }
    }

    /// New data leaves, all before `una` being acknowledged. As [`on_ack`](Self::on_ack).
    pub(super) fn on_sent(
        &mut self,
        una: u64,
        cwnd: ByteCount,
        rtt: Duration,
        now: Instant,
    ) -> Option<ByteCount> {
        match self.phase {
            // Nothing was measured for so long that the samples do not count any more. While
            // they do, cwnd may have grown beyond what the last round trip could show.
            Phase::Validated { until } if until.is_some_and(|until| now <= until) => None,
            Phase::Validated { .. } => {
                self.pipe_ack.close(una, rtt, now);
                self.judge(cwnd, rtt, now)
            }
            Phase::NonValidated { .. } => self.end_of_period(cwnd, now),
        }
    }

    /// Which phase it is now (RFC 7661 section 4.3).
    fn judge(&mut self, cwnd: ByteCount, rtt: Duration, now: Instant) -> Option<ByteCount> {
        // A phase that lasted longer than the period is answered for when it ends, too.
        let lowered = self.end_of_period(cwnd, now);
        if lowered.is_some() || self.pipe_ack.is_undefined() {
            return lowered;
        }
        let covered = self.pipe_ack.covers_until(cwnd, rtt);
        self.phase = match (self.phase, covered) {
            (_, Some(until)) if until > now => Phase::Validated { until: Some(until) },
            // What covered it last ran out then.
            (Phase::Validated { until }, _) => Phase::NonValidated {
                since: until.max(covered).map_or(now, |until| until.min(now)),
            },
            (phase, _) => phase,
        };
        self.end_of_period(cwnd, now)
    }

    /// RFC 7661 section 4.4.3, once for each period that has passed (section 4.5.2).
    fn end_of_period(&mut self, cwnd: ByteCount, now: Instant) -> Option<ByteCount> {
        let Phase::NonValidated { since } = &mut self.phase else {
            return None;
        };
        let passed = now.since(*since);
        if passed <= Self::NVP {
            return None;
        }
        let periods = passed.as_nanos() / Self::NVP.as_nanos();
        *since = *since + Self::NVP * periods;
        let halved = ByteCount::new(cwnd.get() >> periods.min(63));
        Some(halved.max(self.initial_window.min(cwnd)))
    }

    /// An indication of congestion, with `flight` outstanding: LossFlightSize. In the
    /// non-validated phase the answer is with what was used, max(pipeACK, LossFlightSize).
    pub(super) fn on_congestion(
        &mut self,
        flight: ByteCount,
        rtt: Duration,
        now: Instant,
    ) -> Option<ByteCount> {
        self.pipe_ack.round = None;
        if !self.is_non_validated() {
            return None;
        }
        let capacity = flight.max(self.pipe_ack.value(rtt, now).unwrap_or(ByteCount::ZERO));
        self.loss = Some(Loss {
            capacity,
            repaired: ByteCount::ZERO,
        });
        Some(capacity)
    }

    /// `bytes` leave again for the first time.
    pub(super) fn on_first_retransmission(&mut self, bytes: ByteCount) {
        if let Some(loss) = &mut self.loss {
            loss.repaired += bytes;
        }
    }

    /// The recovery is over. If it began in the non-validated phase, the window to go on with:
    /// (max(pipeACK, LossFlightSize) - R) / 2. pipeACK is undefined again.
    pub(super) fn on_recovery_end(&mut self) -> Option<ByteCount> {
        let loss = self.loss.take();
        self.begin_anew();
        loss.map(|loss| (loss.capacity - loss.repaired) / 2)
    }

    /// The retransmission timer fired: on with the RFC 5681 way of it, in the validated phase.
    pub(super) fn begin_anew(&mut self) {
        self.loss = None;
        self.pipe_ack.reset();
        self.phase = Phase::Validated { until: None };
    }

    /// There was no congestion after all.
    pub(super) fn on_undo(&mut self) {
        self.loss = None;
    }
}
