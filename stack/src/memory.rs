//! How much memory the connections of an endpoint may take together, and what happens when it
//! runs short.
//!
//! Counted is what peers and users can make a connection hold: the buffers' storage, the records
//! of what is outstanding, the ranges received out of order, and the connection itself with
//! [`FLOOR`] of buffer in each direction, which it always has. While a buffer grows, its old
//! storage and the new one count both.
//!
//! 1. Above [`MemoryLimit::pressure`] **windows are refused**: no connection offers more than it
//!    has memory for already, none takes data out of order for which it would need more, and users
//!    write only into memory that is there. What is offered shrinks before, so that nobody is
//!    offered more than is left.
//! 2. What was offered earlier is taken until [`MemoryLimit::max`]. Beyond, text is dropped as if
//!    it had been lost, and the window is taken back (RFC 9293 section 3.8.6 discourages that,
//!    and requires every peer to cope, MUST-34): the peer probes until there is room.
//! 3. **Connections are refused** when the least of one does not fit below `max`: a SYN is dropped
//!    and comes again, an active open fails.
//!
//! Connections that are open go on at [`FLOOR`] bytes a round trip even then. Linux has the same
//! order in `tcp_mem`, for the whole system.

use narrows_congestion::ByteCount;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Buffer that each connection has in each direction however short memory is: two full segments
/// on Ethernet.
pub const FLOOR: ByteCount = ByteCount::new(4_096);

/// How much memory the connections of an endpoint may take together.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MemoryLimit {
    max: ByteCount,
    pressure: ByteCount,
}

impl MemoryLimit {
    /// At most `max`; windows are refused from three quarters of it on.
    pub const fn new(max: ByteCount) -> Self {
        let max_bytes = max.get();
        Self {
            max,
            pressure: ByteCount::new(max_bytes - max_bytes / 4),
        }
    }

    /// Windows are refused from `pressure` on, which is `max` at most.
    #[must_use]
    pub fn with_pressure(self, pressure: ByteCount) -> Self {
        Self {
            pressure: pressure.min(self.max),
            ..self
        }
    }

    /// What the connections may take at most.
    pub const fn max(&self) -> ByteCount {
        self.max
    }

    /// From where on windows are refused.
    pub const fn pressure(&self) -> ByteCount {
        self.pressure
    }
}

/// What the connections of an endpoint take, and what was refused them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct MemoryStats {
    /// The limit; `None`: there is none, and nothing is counted.
    pub limit: Option<MemoryLimit>,
    /// Bytes taken now.
    pub used: ByteCount,
    /// The most that was ever taken.
    pub peak: ByteCount,
    /// How often a user's data was not taken, or taken in part, for want of memory.
    pub writes_refused: u64,
    /// How often a connection had to wait for memory to keep more segments outstanding.
    pub records_refused: u64,
    /// Segments whose text was dropped, or cut, for want of memory.
    pub text_dropped: u64,
    /// Connections refused: SYNs dropped, answers to SYN cookies dropped, active opens failed.
    pub connections_refused: u64,
}

/// For what memory is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Need {
    /// Who asks can do without: up to [`MemoryLimit::pressure`].
    Wanted,
    /// The peer was offered it, or a connection is to begin: up to [`MemoryLimit::max`].
    Owed,
}

/// The memory of an endpoint's connections: what is charged to it, and how much may be.
///
/// Whoever holds memory charges it and discharges it; there is one for all connections of an
/// endpoint, which are used by one thread at a time.
#[derive(Debug)]
pub struct Ledger {
    limit: MemoryLimit,
    used: AtomicU64,
    peak: AtomicU64,
    writes_refused: AtomicU64,
    records_refused: AtomicU64,
    text_dropped: AtomicU64,
    connections_refused: AtomicU64,
}

impl Ledger {
    /// Nothing is charged.
    pub fn new(limit: MemoryLimit) -> Arc<Self> {
        let zero = || AtomicU64::new(0);
        Arc::new(Self {
            limit,
            used: zero(),
            peak: zero(),
            writes_refused: zero(),
            records_refused: zero(),
            text_dropped: zero(),
            connections_refused: zero(),
        })
    }

    /// Whether `more` bytes may be charged.
    pub fn admits(&self, more: ByteCount, need: Need) -> bool {
        more <= self.left(need)
    }

    /// How many bytes more may be charged.
    pub fn left(&self, need: Need) -> ByteCount {
        let most = match need {
            Need::Wanted => self.limit.pressure,
            Need::Owed => self.limit.max,
        };
        ByteCount::new(most.get().saturating_sub(self.used.load(Relaxed)))
    }

    /// Somebody holds `bytes` more.
    pub fn charge(&self, bytes: ByteCount) {
        let used = self.used.fetch_add(bytes.get(), Relaxed) + bytes.get();
        self.peak.fetch_max(used, Relaxed);
    }

    /// Somebody holds `bytes` less.
    pub fn discharge(&self, bytes: ByteCount) {
        let before = self.used.fetch_sub(bytes.get(), Relaxed);
        debug_assert!(bytes.get() <= before, "more given back than was taken");
    }

    pub(crate) fn on_write_refused(&self) {
        self.writes_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn on_records_refused(&self) {
        self.records_refused.fetch_add(1, Relaxed);
    }

    pub(crate) fn on_text_dropped(&self) {
        self.text_dropped.fetch_add(1, Relaxed);
    }

    /// Whether there is room for one more connection of so many bytes, which is refused if not.
    pub(crate) fn admits_connection(&self, least: ByteCount) -> bool {
        let admitted = self.admits(least, Need::Owed);
        (self.connections_refused).fetch_add(u64::from(!admitted), Relaxed);
        admitted
    }

    /// What is charged, and what was refused.
    pub fn stats(&self) -> MemoryStats {
        MemoryStats {
            limit: Some(self.limit),
            used: ByteCount::new(self.used.load(Relaxed)),
            peak: ByteCount::new(self.peak.load(Relaxed)),
            writes_refused: self.writes_refused.load(Relaxed),
            records_refused: self.records_refused.load(Relaxed),
            text_dropped: self.text_dropped.load(Relaxed),
            connections_refused: self.connections_refused.load(Relaxed),
        }
    }
}

/// What one holder has charged to a ledger; discharged when it is dropped.
#[derive(Debug, Default)]
pub(crate) struct Charge {
    ledger: Option<Arc<Ledger>>,
    bytes: ByteCount,
}

impl Charge {
    /// Charges `bytes` to `ledger`.
    pub(crate) fn new(ledger: &Arc<Ledger>, bytes: ByteCount) -> Self {
        ledger.charge(bytes);
        Self {
            ledger: Some(ledger.clone()),
            bytes,
        }
    }

    /// The ledger, if anyone counts.
    pub(crate) fn ledger(&self) -> Option<&Arc<Ledger>> {
        self.ledger.as_ref()
    }

    /// What is charged.
    pub(crate) fn bytes(&self) -> ByteCount {
        self.bytes
    }

    /// It is `bytes` now.
    pub(crate) fn set(&mut self, bytes: ByteCount) {
        if let Some(ledger) = &self.ledger {
            ledger.charge(bytes);
            ledger.discharge(self.bytes);
            self.bytes = bytes;
        }
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        self.set(ByteCount::ZERO);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_wanted_stops_before_what_is_owed() {
        let ledger = Ledger::new(MemoryLimit::new(ByteCount::new(1_000)));
        assert_eq!(ledger.left(Need::Wanted), ByteCount::new(750));
        let held = Charge::new(&ledger, ByteCount::new(751));
        assert!(!ledger.admits(ByteCount::new(1), Need::Wanted));
        assert!(ledger.admits(ByteCount::new(249), Need::Owed));
        assert!(!ledger.admits(ByteCount::new(250), Need::Owed));
        drop(held);
        let stats = ledger.stats();
        assert_eq!((stats.used.get(), stats.peak.get()), (0, 751));
    }

    #[test]
    fn the_pressure_is_the_limit_at_most() {
        let limit = MemoryLimit::new(ByteCount::new(10)).with_pressure(ByteCount::new(11));
        assert_eq!(limit.pressure(), limit.max());
    }
}
