//! A flow by rounds: what left in each round trip, how long that took, what was sent again, what
//! was marked.
//!
//! A round begins with a segment and ends when that segment is acknowledged, as in the figures
//! of papers on data centers' TCP. [`RoundMeter`] wants only what a sender sees, so it works on a
//! capture and on a simulated sender alike.

use narrows::{ByteCount, Duration, Instant, Rate};

/// One round trip of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Round {
    /// Its number, from 0.
    pub number: u32,
    /// When its first segment left.
    pub start: Instant,
    /// How long until that was acknowledged.
    pub rtt: Duration,
    /// Packets that left in it, those sent again included.
    pub out: u32,
    /// Packets that were sent again.
    pub resent: u32,
    /// Packets that were marked (Congestion Experienced, or echoed as such).
    pub marked: u32,
    /// Bytes acknowledged in it.
    pub acked: ByteCount,
    /// The most bytes that were outstanding: what the congestion window was at least.
    pub cwnd: ByteCount,
}

impl Round {
    /// Bytes acknowledged over the length of the round; `None` for a round of no length.
    pub fn rate(&self) -> Option<Rate> {
        Rate::of(self.acked, self.rtt)
    }
}

/// What left at once.
#[derive(Clone, Copy, Debug)]
pub struct Departure {
    /// Stream offset after the last byte.
    pub end: u64,
    /// Packets: of a super-frame as many as it becomes.
    pub packets: u32,
    /// Whether it has left before.
    pub resent: bool,
    /// Bytes outstanding, this included.
    pub flight: ByteCount,
}

/// Cuts a flow into rounds.
#[derive(Clone, Debug, Default)]
pub struct RoundMeter {
    number: u32,
    /// The round under way, and the stream offset whose acknowledgement ends it.
    current: Option<(Round, u64)>,
    una: u64,
}

impl RoundMeter {
    /// Something left at `at`.
    pub fn sent(&mut self, at: Instant, departure: Departure) {
        let (round, _) = self.current.get_or_insert_with(|| {
            let round = Round {
                number: self.number,
                start: at,
                rtt: Duration::ZERO,
                out: 0,
                resent: 0,
                marked: 0,
                acked: ByteCount::new(0),
                cwnd: ByteCount::new(0),
            };
            (round, departure.end)
        });
        round.out = round.out.saturating_add(departure.packets);
        if departure.resent {
            round.resent = round.resent.saturating_add(departure.packets);
        }
        round.cwnd = round.cwnd.max(departure.flight);
    }

    /// `packets` were marked.
    pub fn marked(&mut self, packets: u32) {
        if let Some((round, _)) = &mut self.current {
            round.marked = round.marked.saturating_add(packets);
        }
    }

    /// Everything before stream offset `una` was acknowledged at `at`; the round that this ends.
    pub fn acked(&mut self, at: Instant, una: u64) -> Option<Round> {
        let newly = una.saturating_sub(self.una);
        let first = self.una == 0;
        self.una = self.una.max(una);
        let (round, boundary) = self.current.as_mut()?;
        if !first {
            round.acked += ByteCount::new(newly);
        }
        if una < *boundary {
            return None;
        }
        let mut round = *round;
        round.rtt = at.since(round.start);
        self.current = None;
        self.number += 1;
        Some(round)
    }

    /// Stream offsets begin at `una`: what was acknowledged before is nobody's.
    pub fn begin(&mut self, una: u64) {
        self.una = una;
    }
}

/// A mode of a distribution of round-trip times.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mode {
    /// Where it is highest.
    pub at: Duration,
    /// Samples that belong to it.
    pub samples: u64,
}

/// Buckets a factor of two: neighbours are a fifth apart.
const PER_OCTAVE: u32 = 4;
/// From below a microsecond up to a minute.
const OCTAVES: u32 = 26;
const BUCKETS: usize = (PER_OCTAVE * OCTAVES) as usize;
/// Half a microsecond.
const LEAST: u64 = 512;

/// Round-trip times by size, in buckets of equal ratio.
#[derive(Clone, Debug)]
pub struct Histogram {
    buckets: Box<[u32; BUCKETS]>,
}

impl Default for Histogram {
    fn default() -> Self {
        Self {
            buckets: Box::new([0; BUCKETS]),
        }
    }
}

impl Histogram {
    /// Counts `sample`.
    pub fn add(&mut self, sample: Duration) {
        let bucket = &mut self.buckets[Self::bucket(sample)];
        *bucket = bucket.saturating_add(1);
    }

    fn bucket(sample: Duration) -> usize {
        let ns = sample.as_nanos().max(LEAST);
        let octave = ns.ilog2() - LEAST.ilog2();
        // The two bits below the highest: linear within an octave.
        let quarter = (ns >> (ns.ilog2() - 2)) & 3;
        ((octave * PER_OCTAVE) as usize + quarter as usize).min(BUCKETS - 1)
    }

    /// The middle of a bucket.
    fn middle(bucket: usize) -> Duration {
        let (octave, quarter) = (bucket as u32 / PER_OCTAVE, bucket as u64 % 4);
        let low = (LEAST << octave) / 4 * (4 + quarter);
        Duration::from_nanos(low + (LEAST << octave) / 8)
    }

    /// Samples in all.
    pub fn samples(&self) -> u64 {
        self.buckets.iter().map(|n| u64::from(*n)).sum()
    }

    /// Each bucket that holds something: its middle and its samples.
    pub fn filled(&self) -> impl Iterator<Item = (Duration, u32)> + '_ {
        let filled = self.buckets.iter().enumerate().filter(|(_, n)| **n > 0);
        filled.map(|(bucket, n)| (Self::middle(bucket), *n))
    }

    /// The modes, smallest first: heaps of at least a twentieth of the samples, with a valley
    /// between neighbours that is no more than a quarter as high as the lower of both.
    pub fn modes(&self) -> Vec<Mode> {
        let all = self.samples();
        let mut heaps: Vec<(usize, u32, u64)> = Vec::new();
        let mut valley = 0;
        for (bucket, &n) in self.buckets.iter().enumerate() {
            match heaps.last_mut() {
                Some((peak, height, samples)) => {
                    if n > *height && valley * 4 > *height {
                        (*peak, *height) = (bucket, n);
                        *samples += u64::from(n);
                        valley = n;
                    } else if n > valley.saturating_mul(4).max(valley + 2) && valley * 4 <= *height
                    {
                        heaps.push((bucket, n, n.into()));
                        valley = n;
                    } else {
                        *samples += u64::from(n);
                        valley = valley.min(n);
                    }
                }
                None if n > 0 => {
                    heaps.push((bucket, n, n.into()));
                    valley = n;
                }
                None => {}
            }
        }
        // A heap that went on rising after it was begun has its peak further on.
        let large = heaps.iter().filter(|(_, _, samples)| samples * 20 >= all);
        let modes = large.map(|&(peak, _, samples)| Mode {
            at: self.summit(peak),
            samples,
        });
        modes.collect()
    }

    /// From `bucket` uphill.
    fn summit(&self, mut bucket: usize) -> Duration {
        while bucket + 1 < BUCKETS && self.buckets[bucket + 1] > self.buckets[bucket] {
            bucket += 1;
        }
        Self::middle(bucket)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn us(n: u64) -> Duration {
        Duration::from_micros(n)
    }

    #[test]
    fn a_window_that_doubles_gives_rounds_of_1_2_and_4_packets() {
        let mut meter = RoundMeter::default();
        meter.begin(1);
        let mut at = Instant::ZERO;
        let mut una = 1;
        let mut rounds = Vec::new();
        for window in [1, 2, 4_u64] {
            for i in 1..=window {
                meter.sent(
                    at,
                    Departure {
                        end: una + i * 1_000,
                        packets: 1,
                        resent: false,
                        flight: ByteCount::new(i * 1_000),
                    },
                );
            }
            at = at + us(100);
            for i in 1..=window {
                rounds.extend(meter.acked(at, una + i * 1_000));
            }
            una += window * 1_000;
        }
        let seen: Vec<_> = rounds
            .iter()
            .map(|r| (r.number, r.out, r.cwnd.get(), r.rtt))
            .collect();
        let rtt = us(100);
        assert_eq!(
            seen,
            [(0, 1, 1_000, rtt), (1, 2, 2_000, rtt), (2, 4, 4_000, rtt)]
        );
    }

    #[test]
    fn sixty_microseconds_and_1_3_milliseconds_are_two_modes_with_none_between() {
        let mut histogram = Histogram::default();
        for i in 0..100 {
            histogram.add(us(55 + i % 12));
            histogram.add(us(1_250 + i));
        }
        for _ in 0..3 {
            histogram.add(us(300));
        }
        let modes = histogram.modes();
        assert_eq!(modes.len(), 2, "{modes:?}");
        assert!(modes[0].at.abs_diff(us(60)) < us(10), "{modes:?}");
        assert!(modes[1].at.abs_diff(us(1_300)) < us(150), "{modes:?}");
        let of_modes: u64 = modes.iter().map(|mode| mode.samples).sum();
        assert!((200..=203).contains(&of_modes), "{modes:?}");
    }

    #[test]
    fn one_heap_is_one_mode_and_nothing_is_none() {
        assert_eq!(Histogram::default().modes(), []);
        let mut histogram = Histogram::default();
        for i in 0..1_000 {
            histogram.add(us(50 + i / 10));
        }
        assert_eq!(histogram.modes().len(), 1);
        for extreme in [0, u64::MAX] {
            histogram.add(Duration::from_nanos(extreme));
        }
    }
}
