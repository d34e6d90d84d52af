//! What a host's processor takes for packets.
//!
//! Each core does one thing after the other, in the order in which they came up. The costs are
//! constants: an interrupt, a packet that the stack is handed (an aggregate of receive offload, or
//! what is given to the NIC as one), each 1000 bytes of its payload, an acknowledgement without
//! data, and a system call by which an application reads what a poll brought.
//!
//! The usual costs are guesses of their order of magnitude for a server of the years 2010 to 2020;
//! they are there to be replaced by what was measured. Left out: caches and memory bandwidth,
//! other work on a core, frequency and sleep states, locks, moving a flow to another core (RPS,
//! RFS), and the calls by which applications write. What else applications do takes cores of its own
//! ([`CpuSpec::other`]), which count as busy and do nothing with packets. What a timer or an
//! application starts is not delayed by a busy core; its cost delays what comes after.

use crate::sim::time::SimTime;

/// Cores, and what packets cost on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CpuSpec {
    /// Cores; receive queue n has core n, modulo this.
    pub cores: u32,
    /// Cores besides, which something else keeps busy all the time.
    pub other: u32,
    /// An interrupt, until the poll begins.
    pub interrupt: SimTime,
    /// A packet with data, in or out, of any size.
    pub packet: SimTime,
    /// Each 1000 bytes of its payload: copies and checksums.
    pub kilobyte: SimTime,
    /// A packet without data, in or out.
    pub ack: SimTime,
    /// A read by an application: one a flow and poll that brought it data.
    pub call: SimTime,
}

impl CpuSpec {
    /// One core on which everything is free.
    pub const FREE: Self = Self {
        cores: 1,
        other: 0,
        interrupt: SimTime::ZERO,
        packet: SimTime::ZERO,
        kilobyte: SimTime::ZERO,
        ack: SimTime::ZERO,
        call: SimTime::ZERO,
    };

    /// Whether nothing costs anything.
    pub fn is_free(&self) -> bool {
        [
            self.interrupt,
            self.packet,
            self.kilobyte,
            self.ack,
            self.call,
        ]
        .iter()
        .all(|cost| *cost == SimTime::ZERO)
    }

    /// What a packet with so much payload takes.
    pub(crate) fn packet_cost(&self, payload: u32) -> SimTime {
        if payload == 0 {
            return self.ack;
        }
        let bytes = u128::from(payload) * u128::from(self.kilobyte.as_picos()) / 1_000;
        self.packet + SimTime::from_picos(u64::try_from(bytes).unwrap_or(u64::MAX))
    }
}

/// The time of a core: what it has been given, first in, first out.
#[derive(Debug, Default)]
pub(crate) struct Time {
    free_at: SimTime,
    given: SimTime,
}

impl Time {
    /// Work of `cost` comes up at `now`; when it is done.
    pub(crate) fn take(&mut self, now: SimTime, cost: SimTime) -> SimTime {
        self.free_at = self.free_at.max(now) + cost;
        self.given += cost;
        self.free_at
    }

    /// For how long it has worked until `now`.
    pub(crate) fn busy(&self, now: SimTime) -> SimTime {
        // Work without a gap reaches from now to when it is free.
        self.given - (self.free_at.max(now) - now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn work_waits_its_turn_and_only_what_is_done_counts_as_busy() {
        let us = SimTime::from_micros;
        let mut core = Time::default();
        assert_eq!(core.take(us(10), us(4)), us(14));
        assert_eq!(core.take(us(11), us(2)), us(16));
        assert_eq!(
            [10, 12, 16, 30].map(|t| core.busy(us(t))),
            [0, 2, 6, 6].map(us)
        );
        assert_eq!(core.take(us(30), us(1)), us(31));
    }

    #[test]
    fn a_packet_costs_its_head_and_its_bytes() {
        let cpu = CpuSpec {
            packet: SimTime::from_micros(1),
            kilobyte: SimTime::from_nanos(100),
            ack: SimTime::from_nanos(500),
            ..CpuSpec::FREE
        };
        assert_eq!(cpu.packet_cost(0), SimTime::from_nanos(500));
        assert_eq!(cpu.packet_cost(1_460), SimTime::from_nanos(1_146));
        assert_eq!(cpu.packet_cost(64_000), SimTime::from_nanos(7_400));
        assert!(CpuSpec::FREE.is_free() && !cpu.is_free());
    }
}
