//! Drivers: what brings a device, an interface and the clock together.
//!
//! - [`poll`]: a thread that sleeps or spins.
//! - `tokio` (feature `tokio`): streams and listeners as those of `tokio::net`.
//!
//! With `device/` this is the only place where clocks are read and the operating system is called.

#[cfg(feature = "tokio")]
mod busy_poll;
mod engine;
pub mod poll;
#[cfg(feature = "tokio")]
pub mod tokio;

use crate::buffer::{RecvRing, SendRing};
use crate::conn::Boxed;
use crate::device::sys;
use crate::memory::MemoryLimit;
use narrows_congestion::{ByteCount, Instant};
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

/// Priority of a thread that is scheduled in real time: 1 to 99.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct RealTime(u8);

impl RealTime {
    /// The lowest: before everything that is not scheduled in real time.
    pub const LOWEST: Self = Self(1);

    /// That priority; `None` if it is not 1 to 99.
    pub const fn new(priority: u8) -> Option<Self> {
        match priority {
            1..=99 => Some(Self(priority)),
            _ => None,
        }
    }

    /// Schedule the calling thread so from now on, in turn with others of its priority, and the
    /// threads it makes afterwards.
    ///
    /// A packet waits in the device while other threads run, and a full device drops: under a
    /// flood of packets that is what holds established connections up. A thread that
    /// [spins](poll::Waiting::Spin) in real time needs a core of its own.
    ///
    /// # Errors
    /// `PermissionDenied` without CAP_SYS_NICE, or RLIMIT_RTPRIO.
    pub fn apply(self) -> io::Result<()> {
        sys::real_time(self.0).map_err(|e| {
            let why = format!("real-time priority {} (it takes CAP_SYS_NICE): {e}", self.0);
            io::Error::new(e.kind(), why)
        })
    }
}

/// The limit that a host gets that is not given one: an eighth of the machine's memory, as Linux
/// gives its TCP about a tenth.
pub fn usual_memory() -> MemoryLimit {
    let all = sys::physical_memory().unwrap_or(8 << 30);
    MemoryLimit::new(ByteCount::new(all / 8))
}

/// Let the allocator give large blocks back to the system as soon as they are free; for the start
/// of a program. With the GNU C library, one that has held many large buffers else never does.
pub fn return_large_blocks() {
    sys::return_large_blocks();
}

/// Have the allocator give back what is free, of any size, for after a crowd. With the GNU C library
/// small blocks are kept otherwise for as long as anything lies above them. Takes milliseconds
/// where there is much.
pub fn return_free_memory() {
    sys::return_free_memory();
}

/// Sixteen bytes of the operating system that nobody can guess, for
/// [`EndpointConfig::secret`](crate::endpoint::EndpointConfig::secret).
///
/// # Errors
/// When the system has none.
pub fn secret() -> io::Result<[u8; 16]> {
    sys::random()
}
