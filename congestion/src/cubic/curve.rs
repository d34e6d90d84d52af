//! The arithmetic of CUBIC (RFC 9438 section 4.2) in integers.
//!
//! Times are nanoseconds, windows are bytes with 20 fraction bits ([`Bytes20`]), so that at an
//! RTT of 10 us, and with 187,400 segments in flight, the growth on one ACK is still many units.

use crate::units::{ByteCount, Duration};
use crate::window::segment;

/// A window in bytes x 2^20.
pub type Bytes20 = u64;

/// Fraction bits of [`Bytes20`].
pub const FRACTION_BITS: u32 = 20;

/// Longest distance from K that the curve is computed for: 2^40 ns, 18 minutes. Beyond it the
/// curve is flat, half a billion segments away from its origin.
const MAX_DISTANCE: u64 = 1 << 40;

/// `1e27 / C` with C = 0.4 segments / s^3: the cube of nanoseconds that makes one segment.
const CUBIC_NS_PER_SEGMENT: u128 = 25 * 10_u128.pow(26);

/// The largest integer whose cube is at most `n`, exactly.
pub const fn cube_root(n: u128) -> u64 {
    // Digit by digit from the top: 43 binary digits hold the root of any u128.
    let mut root: u128 = 0;
    let mut bit = 43;
    while bit > 0 {
        bit -= 1;
        let try_root = root | (1 << bit);
        // try_root < 2^43, so its square is below 2^86; compare by division, not overflow.
        if try_root * try_root <= n / try_root {
            root = try_root;
        }
    }
    root as u64
}

/// `K = cbrt((W_max - cwnd_epoch) / C)` (RFC 9438 equation 2), with the difference in bytes.
pub fn k(below_w_max: ByteCount, mss: ByteCount) -> Duration {
    let per_byte = CUBIC_NS_PER_SEGMENT / u128::from(segment(mss).get());
    Duration::from_nanos(cube_root(
        u128::from(below_w_max.get()).saturating_mul(per_byte),
    ))
}

/// `W_cubic(t) = C (t - K)^3 + origin` (RFC 9438 equation 1), at least zero.
pub fn w_cubic(t: Duration, k: Duration, origin: Bytes20, mss: ByteCount) -> Bytes20 {
    let change = change(t.abs_diff(k), mss);
    if t >= k {
        origin.saturating_add(change)
    } else {
        origin.saturating_sub(change)
    }
}

/// `C dt^3` in bytes.
fn change(dt: Duration, mss: ByteCount) -> Bytes20 {
    let ns = dt.as_nanos().min(MAX_DISTANCE);
    // Seconds with 32 fraction bits: ns 2^32 / 10^9 = ns 2^23 / 5^9. At most 2^42.2.
    let s = u128::from((ns << 23) / 5_u64.pow(9));
    // The square with 48 fraction bits, the cube with 32; the cube is below 2^63.
    let cube = ((((s * s) >> 16) * s) >> 48) as u64;
    // C = 2/5. Divide last: the product is below 2^64.
    let segments = u128::from(cube * 2 / 5);
    let bytes = (segments * u128::from(segment(mss).get())) >> (32 - FRACTION_BITS);
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    extern crate std;
    use super::*;
    use proptest::prelude::*;

    const MSS: ByteCount = ByteCount::new(1_000);

    #[test]
    fn cube_root_edges() {
        for (n, root) in [
            (0, 0),
            (1, 1),
            (7, 1),
            (8, 2),
            (26, 2),
            (27, 3),
            (1_000_000, 100),
        ] {
            assert_eq!(cube_root(n), root, "cbrt {n}");
        }
        assert_eq!(cube_root(u128::MAX), 6_981_463_658_331);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn cube_root_is_exact(n: u128, shift in 0_u32..128) {
            let n = n >> shift;
            let r = u128::from(cube_root(n));
            prop_assert!(r * r * r <= n);
            prop_assert!((r + 1).checked_pow(3).is_none_or(|above| above > n));
        }

        /// Against floating point: one part in a million, or a thousandth of a segment.
        #[test]
        fn curve_matches_the_formula(
            t_ms in 0_u64..500_000,
            w_max in 10_u64..200_000,
            mss in 200_u64..9_000,
        ) {
            let m = ByteCount::new(mss);
            let below = w_max * 3 / 10;
            let k_ns = k(m * below, m).as_nanos();
            let k_s = (below as f64 / 0.4).cbrt();
            prop_assert!((k_ns as f64 / 1e9 - k_s).abs() < 1e-6 * k_s + 1e-8);
            let t = Duration::from_millis(t_ms);
            let got = w_cubic(t, Duration::from_nanos(k_ns), (w_max * mss) << 20, m);
            let dt = t_ms as f64 / 1e3 - k_s;
            let want = (0.4 * dt * dt * dt + w_max as f64).max(0.0);
            let segments = got as f64 / (1 << 20) as f64 / mss as f64;
            prop_assert!((segments - want).abs() < 1e-6 * want + 1e-3, "{segments} {want}");
        }

        #[test]
        fn extremes_do_not_overflow(t: u64, kk: u64, origin: u64, mss: u64, bytes: u64) {
            let m = ByteCount::new(mss);
            let _ = k(ByteCount::new(bytes), m);
            let _ = w_cubic(Duration::from_nanos(t), Duration::from_nanos(kk), origin, m);
        }
    }

    /// K of RFC 9438: W_max 100 segments, cut to 70: cbrt(30 / 0.4) = 4.217163 s.
    #[test]
    fn k_by_hand() {
        assert_eq!(k(MSS * 30, MSS).as_micros(), 4_217_163);
        assert_eq!(k(ByteCount::ZERO, MSS), Duration::ZERO);
        // The curve starts at the cut window and passes W_max at K.
        let w_max = 100_000 << 20;
        let kk = k(MSS * 30, MSS);
        assert_eq!(w_cubic(kk, kk, w_max, MSS), w_max);
        let start = w_cubic(Duration::ZERO, kk, w_max, MSS);
        assert!((start >> 20).abs_diff(70_000) <= 1, "{}", start >> 20);
    }

    /// A step of 10 us on a steep part of the curve is many units, so nothing sticks.
    #[test]
    fn ten_microsecond_steps_move_the_curve() {
        let kk = Duration::from_secs(2);
        let mut last = 0;
        for i in 0..1_000 {
            let w = w_cubic(Duration::from_micros(10 * i), kk, 10_000 << 20, MSS);
            assert!(i == 0 || w > last + 1_000);
            last = w;
        }
    }
}
