//! Choosing some of many, with or without favourites.

use crate::knob::Quantity;
use crate::sim::rng::Stream;

/// How much oftener some are chosen than others: the r-th with a weight of `1 / r^s` (Zipf's law),
/// where s is from 0, all alike, to 3 in steps of a half.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Skew {
    /// s in halves.
    halves: u8,
}

impl Skew {
    /// All alike.
    pub const NONE: Self = Self { halves: 0 };
    const NAMES: [&'static str; 7] = ["0", "0.5", "1", "1.5", "2", "2.5", "3"];

    /// The weights of `n`, in units of 2^-40, rounded down, but not to none.
    fn weights(self, n: usize) -> Vec<u64> {
        let weight = |rank: usize| {
            let power = (rank as u128).pow(u32::from(self.halves));
            ((1_u128 << 80) / power).isqrt().max(1) as u64
        };
        (1..=n).map(weight).collect()
    }
}

impl Quantity for Skew {
    fn read(text: &str) -> Result<Self, String> {
        let halves = Self::NAMES.iter().position(|name| *name == text);
        let halves = halves.ok_or("expected 0 (all alike), 0.5, 1, 1.5, 2, 2.5 or 3")?;
        Ok(Self {
            halves: halves as u8,
        })
    }

    fn show(&self) -> Option<String> {
        Some(Self::NAMES[usize::from(self.halves)].to_owned())
    }
}

/// Chooses different ones of many, each draw by the weights of those that are left.
#[derive(Debug)]
pub(super) struct Chooser {
    weights: Vec<u64>,
    /// A Fenwick tree of the weights that are left: entry i, from 1, has the sum of as many up to
    /// there as the lowest bit of i says.
    tree: Vec<u64>,
    left: u64,
}

impl Chooser {
    pub(super) fn new(n: usize, skew: Skew) -> Self {
        let weights = skew.weights(n);
        let mut chooser = Self {
            tree: vec![0; n + 1],
            left: 0,
            weights: Vec::new(),
        };
        for (i, &weight) in weights.iter().enumerate() {
            chooser.add(i, weight);
        }
        chooser.weights = weights;
        chooser
    }

    fn add(&mut self, at: usize, weight: u64) {
        self.left += weight;
        let mut i = at + 1;
        while i < self.tree.len() {
            self.tree[i] += weight;
            i += i & i.wrapping_neg();
        }
    }

    fn remove(&mut self, at: usize) {
        let weight = self.weights[at];
        self.left -= weight;
        let mut i = at + 1;
        while i < self.tree.len() {
            self.tree[i] -= weight;
            i += i & i.wrapping_neg();
        }
    }

    /// The one at which the sum of those before and itself is first above `sum`.
    fn find(&self, mut sum: u64) -> usize {
        let (mut i, mut step) = (0, self.tree.len().next_power_of_two() / 2);
        while step > 0 {
            if let Some(&part) = self.tree.get(i + step)
                && part <= sum
            {
                i += step;
                sum -= part;
            }
            step /= 2;
        }
        i
    }

    /// `k` different ones, at most as many as there are.
    pub(super) fn choose(&mut self, k: usize, random: &mut Stream) -> Vec<usize> {
        let k = k.min(self.weights.len());
        let mut chosen = Vec::with_capacity(k);
        for _ in 0..k {
            let one = self.find(random.below(self.left));
            self.remove(one);
            chosen.push(one);
        }
        for &one in &chosen {
            self.add(one, self.weights[one]);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::sim::rng::Component;
    use proptest::prelude::*;

    fn counts(n: usize, k: usize, skew: &str, draws: usize) -> Vec<f64> {
        let mut chooser = Chooser::new(n, Skew::read(skew).unwrap());
        let mut random = Stream::new(5, Component::Scenario, 0);
        let mut counts = vec![0.0; n];
        for _ in 0..draws {
            for one in chooser.choose(k, &mut random) {
                counts[one] += 1.0;
            }
        }
        counts
    }

    #[test]
    fn without_skew_all_are_chosen_as_often() {
        for count in counts(10, 3, "0", 100_000) {
            // Four standard deviations of a binomial with p = 0.3.
            assert!((count - 30_000.0).abs() < 580.0, "{count}");
        }
    }

    #[test]
    fn with_skew_they_are_chosen_by_zipfs_law() {
        for (skew, s) in [("0.5", 0.5_f64), ("1", 1.0), ("2", 2.0)] {
            let counts = counts(20, 1, skew, 200_000);
            let weights: Vec<f64> = (1..=20).map(|r| f64::from(r).powf(-s)).collect();
            let all: f64 = weights.iter().sum();
            for (count, weight) in counts.iter().zip(&weights) {
                let expected = 200_000.0 * weight / all;
                let spread = 4.5 * expected.sqrt();
                assert!(
                    (count - expected).abs() < spread,
                    "{skew}: {count} {expected}"
                );
            }
        }
    }

    #[test]
    fn a_skew_is_read_and_shown() {
        for name in Skew::NAMES {
            assert_eq!(Skew::read(name).unwrap().show().as_deref(), Some(name));
        }
        assert!(Skew::read("0.7").is_err());
    }

    proptest! {
        #[test]
        fn those_chosen_are_different(n in 1_usize..70, k in 0_usize..80, halves in 0_u8..7, seed: u64) {
            let mut chooser = Chooser::new(n, Skew { halves });
            let before = chooser.tree.clone();
            let mut random = Stream::new(seed, Component::Scenario, 0);
            let mut chosen = chooser.choose(k, &mut random);
            chosen.sort_unstable();
            chosen.dedup();
            prop_assert_eq!(chosen.len(), k.min(n));
            prop_assert!(chosen.iter().all(|one| *one < n));
            prop_assert_eq!(chooser.tree, before);
        }
    }
}
