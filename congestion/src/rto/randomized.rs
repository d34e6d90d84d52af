//! The randomised timeout of the SIGCOMM 2009 incast paper: senders that lost together must
//! not retransmit together.

use crate::units::Duration;

/// What a timeout is stretched by at random. It never gets shorter: a timeout below the
/// computed one would be spurious.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Randomization {
    /// Nothing.
    #[default]
    None,
    /// A share drawn evenly from `[0, num/den)` of the timeout is added. With 1/2 this is
    /// `RTO + rand(0.5) x RTO` (Vasudevan et al., SIGCOMM 2009, section 6).
    Stretch {
        /// Numerator of the largest share.
        num: u32,
        /// Denominator of the largest share; 0 counts as 1.
        den: u32,
    },
}

impl Randomization {
    /// `rand(0.5)` of the paper.
    pub const HALF: Self = Self::Stretch { num: 1, den: 2 };

    /// `rto` stretched by what the random bits `entropy` draw, saturating.
    pub fn apply(self, rto: Duration, entropy: u64) -> Duration {
        match self {
            Self::None => rto,
            Self::Stretch { num, den } => {
                let share = rto.mul_ratio(u64::from(num), u64::from(den.max(1)));
                // share * entropy / 2^64: even, since `entropy` is.
                let drawn = (u128::from(share.as_nanos()) * u128::from(entropy)) >> 64;
                rto + Duration::from_nanos(drawn as u64)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_of_the_draw() {
        let rto = Duration::from_micros(300);
        assert_eq!(Randomization::None.apply(rto, u64::MAX), rto);
        assert_eq!(Randomization::HALF.apply(rto, 0), rto);
        assert_eq!(
            Randomization::HALF.apply(rto, 1 << 63),
            Duration::from_micros(375)
        );
        assert_eq!(
            Randomization::HALF.apply(rto, u64::MAX),
            Duration::from_nanos(449_999)
        );
        assert_eq!(
            Randomization::HALF.apply(Duration::MAX, u64::MAX),
            Duration::MAX
        );
    }
}
