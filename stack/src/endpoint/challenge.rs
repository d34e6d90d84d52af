//! How many challenge ACKs may be sent (RFC 5961 section 7).
//!
//! A challenge ACK answers a segment that may be forged, so a flood of forgeries must not become
//! a flood of answers. Two limits: per connection and for the whole endpoint. The second is a
//! counter shared between connections, and one of a known size lets an attacker count through
//! it whether some connection answered her forgeries (CVE-2016-5696); so its size is drawn
//! afresh for each period, and the limit per connection, which is asked first, keeps a single
//! connection from using it up.

use crate::rng::Rng;
use narrows_congestion::{Duration, Instant};

/// So many per period.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ChallengeLimit {
    /// Challenge ACKs per period; for an endpoint, their mean.
    pub count: u32,
    /// The period. Zero: no limit.
    pub period: Duration,
}

impl ChallengeLimit {
    /// The example of RFC 5961 section 7: 10 in 5 s. For a connection.
    pub const RFC5961: Self = Self {
        count: 10,
        period: Duration::from_secs(5),
    };
    /// 1,000 a second. For an endpoint.
    pub const ENDPOINT: Self = Self {
        count: 1_000,
        period: Duration::from_secs(1),
    };
    /// Without limit.
    pub const NONE: Self = Self {
        count: u32::MAX,
        period: Duration::ZERO,
    };
}

/// Whether a challenge ACK may be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Send it; it has been counted.
    Send,
    /// Drop the segment in silence.
    Suppress,
}

/// A connection's limit: a token bucket that holds `count` and fills in one period.
#[derive(Clone, Copy, Debug)]
pub struct ConnectionBudget {
    limit: ChallengeLimit,
    /// When the bucket will be full again: each token taken moves this by `period / count`.
    full_at: Instant,
}

impl ConnectionBudget {
    /// A full bucket.
    pub const fn new(limit: ChallengeLimit) -> Self {
        Self {
            limit,
            full_at: Instant::ZERO,
        }
    }

    /// Take a token.
    pub fn take(&mut self, now: Instant) -> Verdict {
        let ChallengeLimit { count, period } = self.limit;
        if period.is_zero() {
            return Verdict::Send;
        }
        if count == 0 {
            return Verdict::Suppress;
        }
        let full_at = self.full_at.max(now) + period / u64::from(count);
        if full_at.since(now) > period {
            return Verdict::Suppress;
        }
        self.full_at = full_at;
        Verdict::Send
    }
}

/// The endpoint's limit: in each period a number drawn evenly from half to one and a half times
/// `count`.
#[derive(Clone, Copy, Debug)]
pub struct EndpointBudget {
    limit: ChallengeLimit,
    left: u32,
    /// From when on the next number is drawn.
    refill_at: Instant,
}

impl EndpointBudget {
    /// A budget whose first period starts with the first challenge.
    pub const fn new(limit: ChallengeLimit) -> Self {
        Self {
            limit,
            left: 0,
            refill_at: Instant::ZERO,
        }
    }

    /// Take from the budget. `rng` must not be one whose numbers peers can see or guess.
    pub fn take(&mut self, now: Instant, rng: &mut Rng) -> Verdict {
        let ChallengeLimit { count, period } = self.limit;
        if period.is_zero() {
            return Verdict::Send;
        }
        if now >= self.refill_at {
            self.refill_at = now + period;
            let drawn = u64::from(count).div_ceil(2) + rng.below(u64::from(count) + 1);
            self.left = u32::try_from(drawn).unwrap_or(u32::MAX);
        }
        let Some(left) = self.left.checked_sub(1) else {
            return Verdict::Suppress;
        };
        self.left = left;
        Verdict::Send
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sent(n: u32, mut take: impl FnMut() -> Verdict) -> u32 {
        (0..n).map(|_| u32::from(take() == Verdict::Send)).sum()
    }

    fn secs(s: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(s)
    }

    /// RFC 5961 section 7: "no more than 10 in a 5 second window", whatever the rate of forgeries.
    #[test]
    fn rfc5961_section_7_ten_in_five_seconds() {
        let mut b = ConnectionBudget::new(ChallengeLimit::RFC5961);
        assert_eq!(sent(100, || b.take(secs(100))), 10);
        assert_eq!(sent(100, || b.take(secs(101))), 2);
        assert_eq!(sent(100, || b.take(secs(110))), 10);
        // A bucket of 10 gives at most 20 in any 5 s.
        let mut b = ConnectionBudget::new(ChallengeLimit::RFC5961);
        let per_5_s: u32 = (0..5_000)
            .map(|ms| sent(2, || b.take(secs(9) + Duration::from_millis(ms))))
            .sum();
        assert!((18..=20).contains(&per_5_s), "{per_5_s}");
    }

    #[test]
    fn the_endpoints_budget_cannot_be_counted() {
        let mut rng = Rng::new(1);
        let mut b = EndpointBudget::new(ChallengeLimit {
            count: 100,
            period: Duration::from_secs(1),
        });
        let sizes: Vec<u32> = (0..1_000)
            .map(|s| sent(200, || b.take(secs(s), &mut rng)))
            .collect();
        assert!(sizes.iter().all(|n| (50..=150).contains(n)));
        let mean = sizes.iter().sum::<u32>() / 1_000;
        assert!((95..=105).contains(&mean), "{mean}");
        let mut distinct = sizes;
        distinct.sort_unstable();
        distinct.dedup();
        assert!(distinct.len() > 90);
    }

    #[test]
    fn one_connection_cannot_use_up_the_endpoints() {
        let mut rng = Rng::new(1);
        let mut endpoint = EndpointBudget::new(ChallengeLimit::ENDPOINT);
        let now = secs(1);
        let mut ask = |connection: &mut ConnectionBudget| match connection.take(now) {
            Verdict::Send => endpoint.take(now, &mut rng),
            Verdict::Suppress => Verdict::Suppress,
        };
        let mut flooded = ConnectionBudget::new(ChallengeLimit::RFC5961);
        assert_eq!(sent(10_000, || ask(&mut flooded)), 10);
        let mut other = ConnectionBudget::new(ChallengeLimit::RFC5961);
        assert_eq!(ask(&mut other), Verdict::Send);
    }

    #[test]
    fn extremes() {
        let mut rng = Rng::new(1);
        let none = ChallengeLimit {
            count: 0,
            period: Duration::from_secs(1),
        };
        let never = ChallengeLimit {
            count: u32::MAX,
            period: Duration::MAX,
        };
        assert_eq!(ConnectionBudget::new(none).take(secs(9)), Verdict::Suppress);
        assert_eq!(
            EndpointBudget::new(none).take(secs(9), &mut rng),
            Verdict::Suppress
        );
        assert_eq!(
            ConnectionBudget::new(ChallengeLimit::NONE).take(Instant::MAX),
            Verdict::Send
        );
        assert_eq!(
            EndpointBudget::new(ChallengeLimit::NONE).take(secs(9), &mut rng),
            Verdict::Send
        );
        ConnectionBudget::new(never).take(Instant::MAX);
        EndpointBudget::new(never).take(Instant::MAX, &mut rng);
    }
}
