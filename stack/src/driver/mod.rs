//! Drivers: what brings a device, an interface and the clock together.
//!
//! - [`poll`]: a thread that sleeps or spins.
//! - `tokio` (feature `tokio`): streams and listeners as those of `tokio::net`.
//!
//! With `device/` this is the only place where clocks are read and the operating system is called.

mod engine;
pub mod poll;
#[cfg(feature = "tokio")]
pub mod tokio;

use crate::buffer::{RecvRing, SendRing};
use crate::conn::Boxed;
use crate::device::sys;
use narrows_congestion::Instant;
use std::io;

/// The TCP of live hosts: bytes in rings, algorithms by value.
pub type LiveTcp = Boxed<SendRing, RecvRing>;

/// The clock of all drivers: CLOCK_MONOTONIC.
#[derive(Clone, Copy, Debug, Default)]
pub struct Clock;

impl Clock {
    /// The time.
    #[inline]
    pub fn now(self) -> Instant {
        sys::monotonic()
    }
}

/// Sixteen bytes of the operating system that nobody can guess, for
/// [`EndpointConfig::secret`](crate::endpoint::EndpointConfig::secret).
///
/// # Errors
/// When the system has none.
pub fn secret() -> io::Result<[u8; 16]> {
    sys::random()
}
