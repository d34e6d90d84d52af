//! The sawtooth that the DCTCP paper derives (SIGCOMM 2010, section 3.3), and what changes in it
//! when the sender follows RFC 3168.
//!
//! N flows in step, each with a window that grows by a segment a round trip until the queue
//! exceeds K; a round trip later all cut by alpha / 2.

/// A bottleneck and its flows.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sawtooth {
    /// Packets that the path holds without a queue.
    pub(super) bdp: f64,
    /// Marking threshold in packets.
    pub(super) k: f64,
    /// Flows.
    pub(super) n: f64,
}

impl Sawtooth {
    /// W*: the window of each flow when the queue reaches K.
    pub(super) fn window(self) -> f64 {
        (self.bdp + self.k) / self.n
    }

    /// Whether the window stays so small that the sawtooth has no room: the floor of the window
    /// decides then, and each packet is marked.
    pub(super) fn is_pinned(self) -> bool {
        self.window() < 2.0
    }

    /// alpha^2 (1 - alpha/4) = (2 W* + 1) / (W* + 1)^2, equation 6 of the paper; 1 if pinned.
    pub(super) fn alpha(self) -> f64 {
        if self.is_pinned() {
            return 1.0;
        }
        let w = self.window();
        let right = (2.0 * w + 1.0) / (w + 1.0).powi(2);
        bisect(|a| a * a * (1.0 - a / 4.0) - right)
    }

    /// The same where windows do not grow in the round trip of the cut. The packets of a period
    /// are those of the paper and a round of the lowest window, W = (W* + 1) (1 - alpha/2).
    pub(super) fn alpha_without_growth_in_the_cut(self) -> f64 {
        if self.is_pinned() {
            return 1.0;
        }
        let (w, high) = (self.window(), self.window() + 1.0);
        bisect(|a| {
            let low = high * (1.0 - a / 2.0);
            a * ((high * high - low * low) / 2.0 + low) - (w + 0.5)
        })
    }

    /// D: what a cut takes from one window, in packets.
    pub(super) fn cut(self) -> f64 {
        (self.window() + 1.0) * self.alpha() / 2.0
    }

    /// From cut to cut, in round trips: D, or each round if pinned.
    pub(super) fn period(self) -> f64 {
        if self.is_pinned() { 1.0 } else { self.cut() }
    }

    /// The longest queue.
    pub(super) fn q_max(self) -> f64 {
        if self.is_pinned() {
            return FLOOR * self.n - self.bdp;
        }
        self.k + self.n
    }

    /// The shortest queue.
    pub(super) fn q_min(self) -> f64 {
        if self.is_pinned() {
            return self.q_max();
        }
        (self.k + self.n - self.n * self.cut()).max(0.0)
    }
}

/// The least window of our DCTCP in segments; the reference gives 1 to 2.
const FLOOR: f64 = 2.0;

/// Where an increasing function passes zero between 0 and 1; 1 if it does not.
fn bisect(f: impl Fn(f64) -> f64) -> f64 {
    let (mut low, mut high) = (0.0, 1.0);
    for _ in 0..60 {
        let middle = (low + high) / 2.0;
        if f(middle) < 0.0 {
            low = middle;
        } else {
            high = middle;
        }
    }
    high
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The values that the reference gives for 10 Gb/s, 100 us, K = 40.
    #[test]
    fn the_model_gives_the_published_values() {
        let tooth = |n| Sawtooth {
            bdp: 10e9 * 100e-6 / 12_000.0,
            k: 40.0,
            n,
        };
        let two = tooth(2.0);
        assert!((0.18..0.19).contains(&two.alpha()), "{}", two.alpha());
        assert_eq!(two.q_max(), 42.0);
        assert!((29.5..31.0).contains(&two.q_min()), "{}", two.q_min());
        let forty = tooth(40.0);
        assert!((0.65..0.74).contains(&forty.alpha()), "{}", forty.alpha());
        assert_eq!(forty.q_max(), 80.0);
        assert!(two.alpha_without_growth_in_the_cut() < two.alpha());
    }
}
