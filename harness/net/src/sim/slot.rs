//! What the world remembers of each host.

use narrows_congestion::Instant;

use super::time::SimTime;

/// What the world remembers of a host; [`SimTime::MAX`] is never.
#[derive(Clone, Copy, Debug)]
#[repr(align(32))]
pub(super) struct Slot {
    /// When it starts, until it has.
    pub(super) start: SimTime,
    /// When its NIC will have more room, while it waits for that.
    pub(super) nic_wake: SimTime,
    /// When its timer fires. Kept beside the timers, so that a packet that does not move the
    /// timer does not look there.
    pub(super) armed: SimTime,
}

impl Slot {
    pub(super) const IDLE: Self = Self {
        start: SimTime::MAX,
        nic_wake: SimTime::MAX,
        armed: SimTime::MAX,
    };

    /// The host has this `timeout` now: for when its timer is to be armed, if it is not for earlier.
    #[inline(always)]
    pub(super) fn rearm(&mut self, timeout: Option<Instant>, now: SimTime) -> Option<SimTime> {
        let at = timeout.map_or(SimTime::MAX, SimTime::from_instant);
        let at = at.min(self.start).min(self.nic_wake);
        if at >= self.armed || now >= self.armed {
            return None;
        }
        let at = at.max(now);
        self.armed = at;
        Some(at)
    }
}
