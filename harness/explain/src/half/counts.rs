//! What is counted and measured of a direction.

use narrows::Duration;

/// What was counted of a direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Packets, those without text included.
    pub packets: u64,
    /// Bytes of text in them.
    pub bytes: u64,
    /// Packets with text that was seen before.
    pub retransmitted: u64,
    /// Packets with text that had been missing: lost before the place of the capture and sent again,
    /// or overtaken.
    pub filled: u64,
    /// Packets with text that was acknowledged already.
    pub needless: u64,
    /// Duplicate acknowledgements that came for this direction.
    pub duplicate_acks: u64,
    /// Bytes that were acknowledged and never seen: the capture lacks them.
    pub unseen: u64,
    /// Packets with Congestion Experienced.
    pub marked: u64,
}

/// RFC 6298's estimator without a floor, and the least that was seen.
#[derive(Clone, Copy, Debug, Default)]
pub struct RttEstimate {
    least: Duration,
    smoothed: Duration,
    variation: Duration,
    samples: u64,
}

impl RttEstimate {
    pub(crate) fn add(&mut self, sample: Duration) {
        match self.smoothed() {
            None => {
                self.least = sample;
                (self.smoothed, self.variation) = (sample, sample / 2);
            }
            Some(before) => {
                self.least = self.least.min(sample);
                self.variation = without_part(self.variation, 4) + before.abs_diff(sample) / 4;
                self.smoothed = smooth(Some(before), sample);
            }
        }
        self.samples += 1;
    }

    /// Samples.
    pub const fn samples(&self) -> u64 {
        self.samples
    }

    /// The least sample.
    #[inline]
    pub fn min(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.least)
    }

    /// SRTT.
    #[inline]
    pub fn smoothed(&self) -> Option<Duration> {
        (self.samples > 0).then_some(self.smoothed)
    }

    /// SRTT + 4 RTTVAR: the timeout of a sender whose floor is below it.
    pub fn timeout(&self) -> Option<Duration> {
        let smoothed = self.smoothed()?;
        Some(smoothed + self.variation * 4)
    }
}

/// SRTT after a sample (RFC 6298 section 2).
pub(super) fn smooth(smoothed: Option<Duration>, sample: Duration) -> Duration {
    match smoothed {
        None => sample,
        Some(smoothed) => without_part(smoothed, 8) + sample / 8,
    }
}

/// All but one of so many parts, rounded down.
fn without_part(all: Duration, parts: u64) -> Duration {
    all - Duration::from_nanos(all.as_nanos().div_ceil(parts))
}
