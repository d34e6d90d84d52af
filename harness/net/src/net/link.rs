//! Links: rate, delay, framing, and the transmitter that feeds them.
//!
//! Models a full-duplex point-to-point link, each direction on its own, with an exact
//! serialisation time (a remainder below a picosecond is carried to the next packet of a busy
//! period). Leaves out: bit errors as such (see [`super::impair`]), collisions, clock tolerance.

use narrows_congestion::Rate;
use narrows_congestion::hint::cold_path;

use crate::sim::time::SimTime;

use super::impair::ImpairSpec;

/// What a link adds to each packet of the network layer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum Framing {
    /// Nothing: a packet takes its own length, as in ns-2.
    #[default]
    None,
    /// Ethernet: 14 bytes of header and 4 of frame check, at least 64 in all, and on the wire 8
    /// of preamble and 12 of gap (IEEE 802.3). A 1500-byte packet takes 1538.
    Ethernet,
}

impl Framing {
    /// Bytes that a packet of `l3_len` holds in a buffer: the frame, without preamble and gap.
    pub const fn buffer_len(self, l3_len: u32) -> u32 {
        self.sizes().buffer_len(l3_len)
    }

    /// Bytes of time that a frame of `buffer_len` takes on the wire.
    pub const fn wire_len(self, buffer_len: u32) -> u32 {
        self.sizes().wire_len(buffer_len)
    }

    pub(crate) const fn sizes(self) -> FrameSizes {
        match self {
            Self::None => FrameSizes {
                header: 0,
                least: 0,
                gap: 0,
            },
            Self::Ethernet => FrameSizes {
                header: 18,
                least: 64,
                gap: 20,
            },
        }
    }
}

/// A [`Framing`] in numbers, for ports at work. Of packets, which are far from 4 GB long.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FrameSizes {
    /// Header and frame check.
    header: u8,
    /// Of the shortest frame.
    least: u8,
    /// Preamble and gap.
    gap: u8,
}

impl FrameSizes {
    #[inline]
    pub(crate) const fn buffer_len(self, l3_len: u32) -> u32 {
        let frame = l3_len + self.header as u32;
        let least = self.least as u32;
        if frame < least { least } else { frame }
    }

    #[inline]
    pub(crate) const fn wire_len(self, buffer_len: u32) -> u32 {
        buffer_len + self.gap as u32
    }
}

/// One direction of a link.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LinkSpec {
    /// Rate, from 1 b/s to 8 Tb/s.
    pub rate: Rate,
    /// Propagation delay, one way.
    pub delay: SimTime,
    /// Framing.
    pub framing: Framing,
    /// Loss, reordering, duplication, corruption.
    pub impair: ImpairSpec,
}

impl LinkSpec {
    /// A clean link without framing.
    pub fn new(rate: Rate, delay: SimTime) -> Self {
        Self {
            rate,
            delay,
            framing: Framing::None,
            impair: ImpairSpec::default(),
        }
    }

    /// The same with another framing.
    #[must_use]
    pub fn with_framing(mut self, framing: Framing) -> Self {
        self.framing = framing;
        self
    }
}

/// Picoseconds that one bit takes at one bit per second, times eight: a byte's at 1 b/s.
const BYTE_PS_AT_1_BPS: u64 = 8_000_000_000_000;

/// Puts packets on the wire one after the other, exactly.
#[derive(Clone, Debug)]
pub struct Transmitter {
    /// When the last bit of what it has been given leaves, rounded down.
    free_at: SimTime,
    /// Picoseconds per byte, rounded down.
    byte_ps: u64,
    /// What rounding leaves out, if it does. Kept aside, because for most rates it does not.
    rest: Option<Box<Rest>>,
}

/// What is below a picosecond, in units of 1/`bps` picoseconds.
#[derive(Clone, Debug)]
struct Rest {
    bps: u64,
    byte: u64,
    free_at: u64,
}

impl Transmitter {
    /// The fastest rate: a byte takes a picosecond.
    pub const MAX_RATE: Rate = Rate::from_bits_per_sec(BYTE_PS_AT_1_BPS);

    /// An idle transmitter. `None` for a rate of zero or above [`Self::MAX_RATE`].
    pub fn new(rate: Rate) -> Option<Self> {
        let bps = rate.bits_per_sec();
        if bps == 0 || bps > BYTE_PS_AT_1_BPS {
            return None;
        }
        let byte = BYTE_PS_AT_1_BPS % bps;
        Some(Self {
            free_at: SimTime::ZERO,
            byte_ps: BYTE_PS_AT_1_BPS / bps,
            rest: (byte != 0).then(|| {
                Box::new(Rest {
                    bps,
                    byte,
                    free_at: 0,
                })
            }),
        })
    }

    /// Sends `bytes` as soon as what came before has left, and not before `ready`. Returns when
    /// the last bit leaves, rounded down to a picosecond; the error does not accumulate.
    #[inline]
    pub fn send(&mut self, ready: SimTime, bytes: u32) -> SimTime {
        let was_free = ready > self.free_at;
        let start = ready.max(self.free_at);
        let span = SimTime::from_picos(u64::from(bytes).saturating_mul(self.byte_ps));
        self.free_at = start + span;
        if let Some(rest) = &mut self.rest {
            cold_path();
            let carried = if was_free { 0 } else { rest.free_at };
            let sum = u128::from(carried) + u128::from(bytes) * u128::from(rest.byte);
            self.free_at += SimTime::from_picos((sum / u128::from(rest.bps)) as u64);
            rest.free_at = (sum % u128::from(rest.bps)) as u64;
        }
        self.free_at
    }

    /// The same transmitter at another rate: what it has been given leaves as it was computed, but
    /// for what is below a picosecond. `None` as for [`Self::new`].
    pub(crate) fn at_rate(&self, rate: Rate) -> Option<Self> {
        let new = Self::new(rate)?;
        Some(Self {
            free_at: self.free_at,
            ..new
        })
    }

    /// Forgets what it has been given, and is free from `at` on; with [`SimTime::MAX`] it has
    /// stopped, and what it is given leaves then.
    pub(crate) fn restart(&mut self, at: SimTime) {
        self.free_at = at;
        if let Some(rest) = &mut self.rest {
            rest.free_at = 0;
        }
    }

    /// The time that `bytes` take where it is free, rounded down.
    pub(crate) fn span(&self, bytes: u32) -> SimTime {
        let mut idle = self.clone();
        idle.restart(SimTime::ZERO);
        idle.send(SimTime::ZERO, bytes)
    }

    /// When everything given so far has left.
    #[inline]
    pub const fn free_at(&self) -> SimTime {
        self.free_at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_million_packets_end_at_the_exact_time_at_any_rate() {
        for (mbps, bytes) in [
            (1_000, 1_040),
            (400_000, 1_538),
            (3_000, 1_001),
            (7_000, 64),
        ] {
            let mut tx = Transmitter::new(Rate::from_mbps(mbps)).unwrap();
            let start = SimTime::from_nanos(77);
            let end = (0..1_000_000)
                .map(|_| tx.send(start, bytes))
                .last()
                .unwrap();
            let exact = u128::from(bytes) * 8_000_000 * 1_000_000 / u128::from(mbps);
            assert_eq!(u128::from((end - start).as_picos()), exact, "{mbps} Mb/s");
        }
    }

    #[test]
    fn the_published_packet_times_are_exact() {
        let at = SimTime::from_picos;
        let mut tx = Transmitter::new(Rate::from_gbps(1)).unwrap();
        assert_eq!(tx.send(at(5), 1_040), at(8_320_005));
        let mut tx = Transmitter::new(Rate::from_gbps(400)).unwrap();
        let frame = Framing::Ethernet.wire_len(Framing::Ethernet.buffer_len(1_500));
        assert_eq!((frame, tx.send(at(0), frame)), (1_538, at(30_760)));
    }

    /// 3 Gb/s: a byte takes 2666 2/3 ps. The third of a picosecond is carried while busy, also
    /// into a packet that comes exactly when the one before ends, and forgotten when idle.
    #[test]
    fn the_remainder_is_carried_through_a_busy_period() {
        let at = SimTime::from_picos;
        let mut tx = Transmitter::new(Rate::from_gbps(3)).unwrap();
        assert_eq!(tx.send(at(0), 1), at(2_666));
        assert_eq!(tx.send(at(2_666), 1), at(5_333));
        assert_eq!(
            tx.send(at(5_334), 1),
            at(8_000),
            "idle for a third: starts at 5334"
        );
        assert_eq!(
            tx.send(at(8_000), 1),
            at(10_667),
            "still busy for two thirds"
        );
        assert_eq!(tx.send(at(10_667), 1), at(13_334));
    }

    #[test]
    fn ethernet_frames_have_a_minimum() {
        let e = Framing::Ethernet;
        assert_eq!(
            [e.buffer_len(40), e.buffer_len(46), e.buffer_len(47)],
            [64, 64, 65]
        );
        assert_eq!(e.wire_len(e.buffer_len(40)), 84);
        assert_eq!(Framing::None.wire_len(Framing::None.buffer_len(40)), 40);
    }

    #[test]
    fn impossible_rates_are_refused() {
        assert!(Transmitter::new(Rate::from_bits_per_sec(0)).is_none());
        assert!(Transmitter::new(Transmitter::MAX_RATE).is_some());
        assert!(Transmitter::new(Rate::from_gbps(8_001)).is_none());
        let mut slow = Transmitter::new(Rate::from_bits_per_sec(1)).unwrap();
        assert_eq!(slow.send(SimTime::ZERO, u32::MAX), SimTime::MAX);
    }
}
