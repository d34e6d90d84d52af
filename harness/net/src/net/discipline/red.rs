//! Random early detection (Floyd and Jacobson, IEEE/ACM ToN 1993) at the tail of a queue.
//!
//! With an average that decays while idle, marks spaced evenly, and the gentle slope if asked for.
//! All in integers: averages in units of 2^-20, probabilities of 2^-32. Leaves out: the packet's
//! size as a weight in RED's byte mode, adaptive RED.

use super::error::DisciplineError;
use super::tail::{NotCapable, TailVerdict, Threshold};
use crate::net::buffer::Depth;
use crate::sim::rng::{Probability, Stream};
use crate::sim::time::SimTime;

/// What RED does where it would drop or mark every packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum AboveMax {
    /// Drops, ECN-capable or not (RFC 3168 section 7).
    #[default]
    Drop,
    /// Marks what is ECN-capable, as data centre switches are set up.
    Mark,
}

/// Parameters of RED.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RedSpec {
    /// Average below which nothing is marked.
    pub min: Threshold,
    /// Average from which everything is (without `gentle`); above `min`, in its unit.
    pub max: Threshold,
    /// Probability at `max`.
    pub max_p: Probability,
    /// The average's weight is 2^-this; 0 is the instantaneous queue; at most 20.
    pub weight_log2: u32,
    /// From `max` to twice `max` the probability goes on to one, instead of jumping.
    pub gentle: bool,
    /// The time a typical packet takes: the average decays by one step for each while idle.
    pub idle_step: SimTime,
    /// Where everything is marked.
    pub above_max: AboveMax,
    /// Packets that cannot be marked.
    pub not_capable: NotCapable,
}

impl RedSpec {
    /// Whether the values are in range.
    pub(super) fn check(&self) -> Result<(), DisciplineError> {
        let ordered = match (self.min, self.max) {
            (Threshold::Packets(a), Threshold::Packets(b)) => a < b,
            (Threshold::Bytes(a), Threshold::Bytes(b)) => a < b && b < 1 << 40,
            _ => false,
        };
        if !ordered {
            return Err(DisciplineError::RedThresholds);
        }
        DisciplineError::within("weight_log2", self.weight_log2.into(), 0, 20)
    }
}

/// Fraction bits of RED's average.
const FRACTION: u32 = 20;

/// RED's state.
#[derive(Debug)]
pub(crate) struct Red {
    spec: RedSpec,
    stream: Stream,
    /// Average queue in units of 2^-20.
    average: u64,
    /// Packets since the last mark while between the thresholds; `None` below `min`.
    count: Option<u64>,
}

/// What RED thinks of an average.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Zone {
    Below,
    Between(Probability),
    Above,
}

impl Red {
    pub(crate) fn new(spec: RedSpec, stream: Stream) -> Self {
        Self {
            spec,
            stream,
            average: 0,
            count: None,
        }
    }

    /// Goes on with other values: with the average, if that is in the same unit.
    pub(crate) fn retune(&mut self, spec: RedSpec) {
        let unit = |spec: &RedSpec| std::mem::discriminant(&spec.min);
        if unit(&spec) != unit(&self.spec) {
            self.average = 0;
            self.count = None;
        }
        self.spec = spec;
    }

    pub(crate) fn on_arrival(
        &mut self,
        now: SimTime,
        depth: Depth,
        idle_since: Option<SimTime>,
        ecn_capable: bool,
    ) -> TailVerdict {
        self.update_average(self.spec.min.measure(depth), idle_since.map(|t| now - t));
        match self.zone() {
            Zone::Below => {
                self.count = None;
                TailVerdict::Pass
            }
            Zone::Between(p) => {
                let count = self.count.map_or(0, |c| c + 1);
                self.count = Some(count);
                if !chosen(p, count, self.stream.next_u32()) {
                    return TailVerdict::Pass;
                }
                self.count = Some(0);
                if ecn_capable {
                    TailVerdict::Mark
                } else {
                    self.spec.not_capable.verdict()
                }
            }
            Zone::Above => {
                self.count = Some(0);
                match (self.spec.above_max, ecn_capable) {
                    (AboveMax::Mark, true) => TailVerdict::Mark,
                    (AboveMax::Mark, false) => self.spec.not_capable.verdict(),
                    (AboveMax::Drop, _) => TailVerdict::Drop,
                }
            }
        }
    }

    /// avg += w (q - avg) with a queue, avg *= (1 - w)^m after m idle steps.
    fn update_average(&mut self, queue: u64, idle: Option<SimTime>) {
        let log2 = self.spec.weight_log2;
        if let Some(idle) = idle {
            let step = self.spec.idle_step.as_picos();
            let steps = idle.as_picos().checked_div(step).unwrap_or(u64::MAX);
            self.average = decay(self.average, log2, steps);
        }
        let queue = queue << FRACTION;
        if queue >= self.average {
            self.average += (queue - self.average) >> log2;
        } else {
            self.average -= (self.average - queue) >> log2;
        }
    }

    fn zone(&self) -> Zone {
        let (min, max) = (
            self.spec.min.value() << FRACTION,
            self.spec.max.value() << FRACTION,
        );
        let one = Probability::ALWAYS.bits();
        let max_p = self.spec.max_p.bits();
        if self.average < min {
            Zone::Below
        } else if self.average < max {
            Zone::Between(slope(max_p, self.average - min, max - min))
        } else if self.spec.gentle && self.average < 2 * max {
            let more = slope(one - max_p, self.average - max, max).bits();
            Zone::Between(Probability::from_bits(max_p + more))
        } else {
            Zone::Above
        }
    }
}

/// `rise * run / over`.
fn slope(rise: u64, run: u64, over: u64) -> Probability {
    Probability::from_bits((u128::from(rise) * u128::from(run) / u128::from(over)) as u64)
}

/// Whether the packet is chosen: with probability p / (1 - count p), which makes the spacing of
/// marks uniform (Floyd and Jacobson, section 7, method 2).
fn chosen(p: Probability, count: u64, draw: u32) -> bool {
    let one = Probability::ALWAYS.bits();
    let rest = one.saturating_sub(p.bits().saturating_mul(count));
    u128::from(draw) * u128::from(rest) < u128::from(p.bits()) << 32
}

/// `average * (1 - 2^-log2)^steps`, by squaring in units of 2^-32.
fn decay(average: u64, log2: u32, steps: u64) -> u64 {
    let one = 1u128 << 32;
    let mut base = one - (one >> log2);
    let mut factor = one;
    let mut steps = steps;
    while steps > 0 && factor > 0 {
        if steps & 1 == 1 {
            factor = (factor * base) >> 32;
        }
        base = (base * base) >> 32;
        steps >>= 1;
    }
    ((u128::from(average) * factor) >> 32) as u64
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Component;

    fn spec() -> RedSpec {
        RedSpec {
            min: Threshold::Packets(5),
            max: Threshold::Packets(15),
            max_p: Probability::ratio(1, 10),
            weight_log2: 2,
            gentle: false,
            idle_step: SimTime::from_micros(12),
            above_max: AboveMax::Drop,
            not_capable: NotCapable::Drop,
        }
    }

    fn red(spec: RedSpec) -> Red {
        Red::new(spec, Stream::new(1, Component::Aqm, 0))
    }

    fn packets(n: u32) -> Depth {
        Depth {
            packets: n,
            bytes: u64::from(n) * 1_500,
        }
    }

    /// Weight 1/4, by hand: 0 -> 2 (8/4) -> 3.5 -> 4.625; then 16 idle steps of 3/4 each leave
    /// 1.0022599 % of 4.625, and an empty queue takes another quarter off.
    #[test]
    fn the_average_follows_the_hand_computed_steps() {
        let mut r = red(spec());
        let mut averages = Vec::new();
        for _ in 0..3 {
            r.update_average(8, None);
            averages.push(r.average);
        }
        assert_eq!(averages, [2 << 20, 7 << 19, 37 << 17]);
        r.update_average(0, Some(SimTime::from_micros(12 * 16 + 11)));
        let expected = (4.625 * 0.75f64.powi(17) * f64::from(1 << 20)) as u64;
        assert!(
            r.average.abs_diff(expected) <= 2,
            "{} {expected}",
            r.average
        );
        r.update_average(0, Some(SimTime::MAX));
        assert_eq!(r.average, 0);
    }

    #[test]
    fn the_slopes_are_the_published_ones() {
        let mut r = red(spec());
        let mut zone = |avg_quarters: u64, gentle| {
            r.average = avg_quarters << (FRACTION - 2);
            r.spec.gentle = gentle;
            r.zone()
        };
        let tenth = Probability::ratio(1, 10).bits();
        assert_eq!(zone(19, false), Zone::Below);
        assert_eq!(zone(20, false), Zone::Between(Probability::NEVER));
        assert_eq!(
            zone(40, false),
            Zone::Between(Probability::from_bits(tenth / 2))
        );
        assert_eq!(zone(60, false), Zone::Above);
        assert_eq!(zone(60, true), Zone::Between(Probability::from_bits(tenth)));
        // Half-way from 15 to 30: 0.1 + 0.9 / 2.
        let Zone::Between(p) = zone(90, true) else {
            panic!("gentle ends too soon")
        };
        assert!(p.bits().abs_diff(Probability::ratio(55, 100).bits()) <= 1);
        assert_eq!(zone(120, true), Zone::Above);
    }

    /// With p = 1/4 the fourth packet after a mark is certain: the gap is 1 to 4, uniformly.
    #[test]
    fn marks_are_spaced_uniformly() {
        let quarter = Probability::ratio(1, 4);
        assert!(!chosen(quarter, 0, 1 << 30) && chosen(quarter, 0, (1 << 30) - 1));
        // 1/4 / (1 - 2/4) = 1/2.
        assert!(!chosen(quarter, 2, 1 << 31) && chosen(quarter, 2, (1 << 31) - 1));
        assert!(chosen(quarter, 3, u32::MAX));
        assert!(chosen(quarter, u64::MAX, u32::MAX));
        assert!(!chosen(Probability::NEVER, 1_000_000, 0));
    }

    #[test]
    fn above_the_maximum_the_setting_decides() {
        for (above_max, ecn, expected) in [
            (AboveMax::Drop, true, TailVerdict::Drop),
            (AboveMax::Mark, true, TailVerdict::Mark),
            (AboveMax::Mark, false, TailVerdict::Drop),
        ] {
            let mut r = red(RedSpec {
                above_max,
                weight_log2: 0,
                ..spec()
            });
            assert_eq!(
                r.on_arrival(SimTime::ZERO, packets(15), None, ecn),
                expected
            );
        }
    }

    #[test]
    fn the_share_of_marks_is_the_probability() {
        // At a constant queue of 10 the slope gives 0.05; spaced uniformly the gap is 1 to 20
        // (mean 10.5, the first after a mark has count 1).
        let mut r = red(RedSpec {
            weight_log2: 0,
            ..spec()
        });
        let marks = (0..100_000)
            .filter(|_| r.on_arrival(SimTime::ZERO, packets(10), None, true) == TailVerdict::Mark)
            .count();
        assert!((9_500..11_000).contains(&marks), "{marks}");
    }
}
