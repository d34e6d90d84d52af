//! The retransmission timeout: how long, never when.

pub mod presets;
pub mod randomized;
pub mod standard;

pub use randomized::Randomization;
pub use standard::{Backoff, Floor, StandardRto};

use crate::rtt::RttEstimator;
use crate::units::{Duration, Instant};
use alloc::boxed::Box;
use core::fmt::Debug;

/// How long to wait for an acknowledgement before retransmitting.
///
/// The engine decides *when* the timer is started, restarted and stopped (RFC 6298 section 5)
/// and rounds to the host's timer tick; the policy only says *how long*. It has no clock and no
/// randomness: where a randomised timeout is wanted, [`RtoContext::entropy`] supplies it.
pub trait RtoPolicy: Debug + Send {
    /// The registry name, lower case: `"linux"`.
    fn name(&self) -> &'static str;

    /// The timeout to arm now.
    ///
    /// `rtt.srtt()` is `None` before the first measurement: the answer is then the initial RTO.
    /// The result must not be zero.
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration;

    /// A new RTT sample was taken; for policies that keep statistics of their own.
    fn on_rtt_sample(&mut self, rtt: Duration, now: Instant) {
        let _ = (rtt, now);
    }

    /// Whether [`RtoContext::entropy`] matters to it; if not, that may always be zero. Asked once.
    fn wants_entropy(&self) -> bool {
        true
    }
}

impl<T: RtoPolicy + ?Sized> RtoPolicy for Box<T> {
    fn name(&self) -> &'static str {
        (**self).name()
    }
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        (**self).rto(rtt, ctx)
    }
    fn on_rtt_sample(&mut self, rtt: Duration, now: Instant) {
        (**self).on_rtt_sample(rtt, now);
    }
    fn wants_entropy(&self) -> bool {
        (**self).wants_entropy()
    }
}

/// What a timeout depends on besides the RTT.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct RtoContext {
    /// Timeouts in a row without an acknowledgement in between; 0 for a fresh timer.
    pub backoff: u32,
    /// Random bits, different at every arming, from the connection's seeded stream.
    pub entropy: u64,
}

impl RtoContext {
    /// The context of a timer armed after `backoff` timeouts in a row.
    pub fn new(backoff: u32, entropy: u64) -> Self {
        Self { backoff, entropy }
    }
}
