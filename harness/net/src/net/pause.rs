//! Pause: a switch whose memory fills up stops those who send to it (IEEE 802.3 Annex 31B, 802.1Qbb).
//!
//! A switch that pauses counts its memory where packets come in: each of its ports has as much as
//! its queue's limit says, and the output queues have no limit of their own. Where what came in by a
//! port and has not left the switch reaches XOFF, the switch sends a pause frame back by that port,
//! and where it has fallen to XON another that ends the pause. A pause frame goes ahead of all that
//! waits and behind the frame that is being sent. Who receives it (a host's NIC, another switch's
//! port) finishes its frame and begins no other until the time that the pause frame names, in quanta
//! of 512 bit times of the link, is over; it is sent again at half of that time while the memory is
//! above XON. So nothing is dropped, and what waits for a paused port makes all behind it wait,
//! wherever that goes (head-of-line blocking), up to the senders.
//!
//! [`PauseKind::Priority`] (PFC) does so for each traffic class by itself: every port has a
//! first-in, first-out queue for each class, served in turn, and the memory of a port is divided
//! among the classes that pause and the rest, which is dropped when its part is full.
//!
//! # Headroom
//! What may still arrive once XOFF is reached: the frame that crossed it, what the other end sends
//! until the pause frame is there (which waits for a frame in service first), the frame that it is
//! in, and what is on the wire: `rate * (2 delay + (frame + pause frame) / rate) + 2 frames`, which is
//! 2 rate delay + 3 frames + the pause frame. XOFF is the port's memory less that, XON is two frames
//! below XOFF, unless they are given.
//!
//! # Hosts
//! A NIC whose receive ring fills up pauses its switch as well, if it is told to
//! ([`ReceiveSpec::pause`](super::nic::ReceiveSpec::pause)): from the ring's frames less the headroom
//! in shortest frames, until half of that. Its pause frames go behind the frame that the NIC sends,
//! and take nothing of its link.
//!
//! # Left out
//! The time that a station takes to obey (Annex 31B.3.7 allows some quanta); pause frames that are
//! lost or damaged; pause frames from switches to stations that ignore them; NICs with a queue for each class (a pause of one class
//! holds a whole NIC); the tokens of a NIC's shaper during a pause (what waits leaves at the link's rate
//! when it ends); memory that ports share; watchdogs against storms; links whose rate or delay
//! changes in a run keep the headroom that they began with.

use narrows_congestion::ByteCount;

use super::discipline::classify::{CLASSES, DscpMap};
use super::link::{Framing, LinkSpec};
pub use crate::sim::tap::PauseSignal;
use crate::sim::time::SimTime;

/// Bytes of a pause frame in a buffer (IEEE 802.3: the shortest frame).
pub const PAUSE_FRAME: u32 = 64;
/// Bits of a quantum.
const QUANTUM_BITS: u32 = 512;

/// What is paused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
pub enum PauseKind {
    /// The whole link (IEEE 802.3 Annex 31B).
    #[default]
    Link,
    /// Traffic classes, each by itself (IEEE 802.1Qbb).
    Priority {
        /// The classes that pause, a bit each; the others are dropped where there is no room.
        classes: u8,
    },
}

/// How a switch pauses those who send to it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct PauseSpec {
    /// What is paused.
    pub kind: PauseKind,
    /// The time that a pause frame names, in quanta of 512 bit times; not zero.
    pub quanta: u16,
    /// The memory of a port from which on it pauses; `None` for the greatest that is safe.
    pub xoff: Option<ByteCount>,
    /// The memory at which it ends the pause; `None` for two frames below XOFF.
    pub xon: Option<ByteCount>,
    /// The longest packet at the network layer.
    pub max_packet: u32,
}

impl PauseSpec {
    /// 802.3x with packets of `max_packet` bytes.
    pub const fn new(max_packet: u32) -> Self {
        Self {
            kind: PauseKind::Link,
            quanta: u16::MAX,
            xoff: None,
            xon: None,
            max_packet,
        }
    }

    /// Parts that a port's memory is divided into.
    const fn parts(&self) -> u64 {
        match self.kind {
            PauseKind::Link => 1,
            PauseKind::Priority { classes: 0xff } => CLASSES as u64,
            PauseKind::Priority { classes } => classes.count_ones() as u64 + 1,
        }
    }

    /// What pauses: a bit for each traffic class, or the first one for all.
    pub(crate) const fn pausing(&self) -> u8 {
        match self.kind {
            PauseKind::Link => 1,
            PauseKind::Priority { classes } => classes,
        }
    }

    /// Bytes that may arrive after XOFF, by a link whose other direction is `back`.
    pub fn headroom(&self, link: &LinkSpec, back: &LinkSpec) -> ByteCount {
        let frame = u64::from(wire(link.framing, self.max_packet));
        let pause = u64::from(pause_frame(back.framing));
        let wait = back.rate.time_for(ByteCount::new(frame + pause));
        let wires = (link.delay + back.delay).to_duration();
        // Rounded up twice.
        let meanwhile = link.rate.bytes_in(wait + wires).get() + 2;
        ByteCount::new(meanwhile + 2 * frame)
    }

    /// The memory of a port, of `memory` bytes in all, for the link by which it fills; `Err` with
    /// what is needed if there is no room for a packet below XOFF.
    pub(crate) fn thresholds(
        &self,
        memory: u64,
        link: &LinkSpec,
        back: &LinkSpec,
    ) -> Result<Thresholds, ByteCount> {
        let part = memory / self.parts();
        let headroom = self.headroom(link, back).get();
        let frame = u64::from(wire(link.framing, self.max_packet));
        let xoff = self
            .xoff
            .map_or(part.saturating_sub(headroom), ByteCount::get);
        if xoff < frame || xoff > part {
            return Err(ByteCount::new((headroom + frame) * self.parts()));
        }
        let xon = self
            .xon
            .map_or(xoff.saturating_sub(2 * frame), ByteCount::get);
        Ok(Thresholds {
            part,
            xoff,
            xon: xon.min(xoff.saturating_sub(1)),
        })
    }
}

/// Bytes of time that a packet takes on a wire.
const fn wire(framing: Framing, l3_len: u32) -> u32 {
    framing.wire_len(framing.buffer_len(l3_len))
}

/// Bytes of time that a pause frame takes on the wire.
pub(crate) const fn pause_frame(framing: Framing) -> u32 {
    framing.wire_len(PAUSE_FRAME)
}

/// Bytes of time that a pause of so many quanta lasts.
pub(crate) const fn pause_bytes(quanta: u16) -> u32 {
    quanta as u32 * (QUANTUM_BITS / 8)
}

/// The memory of a port, or of a class at a port, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Thresholds {
    /// All of it.
    pub(crate) part: u64,
    pub(crate) xoff: u64,
    pub(crate) xon: u64,
}

/// What came in by a port, of a class or of all, and has not left the switch.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Held {
    bytes: u64,
    most: u64,
    /// While the other end is told to pause: when it is to be told again.
    pub(crate) again: Option<SimTime>,
}

impl Held {
    /// Whether `len` bytes more have room.
    pub(crate) const fn has_room(&self, len: u32, of: &Thresholds) -> bool {
        self.bytes + len as u64 <= of.part
    }

    /// `len` bytes come in.
    pub(crate) fn add(&mut self, len: u32, of: &Thresholds) -> Option<PauseSignal> {
        self.bytes += u64::from(len);
        self.most = self.most.max(self.bytes);
        (self.again.is_none() && self.bytes >= of.xoff).then_some(PauseSignal::Xoff)
    }

    /// The most bytes that there were.
    pub(crate) const fn most(&self) -> u64 {
        self.most
    }

    /// `len` bytes have left the switch.
    pub(crate) fn take(&mut self, len: u32, of: &Thresholds) -> Option<PauseSignal> {
        self.bytes -= u64::from(len);
        (self.again.is_some() && self.bytes <= of.xon).then_some(PauseSignal::Xon)
    }
}

/// The traffic class of a packet where pause is by class: as switches map DSCP.
pub(crate) fn class_of(kind: PauseKind, dscp: u8) -> usize {
    match kind {
        PauseKind::Link => 0,
        PauseKind::Priority { .. } => DscpMap::default().class_of(dscp),
    }
}

/// A port as pause frames know it: as the one that sends them, and as the one that obeys.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct PauseStats {
    /// Pause frames that it sent because what comes in by its link filled the switch's memory.
    pub xoff_sent: u64,
    /// Pause frames of time zero that it sent: go on.
    pub xon_sent: u64,
    /// Pause frames that reached it, of either kind.
    pub received: u64,
    /// Time in which it was not allowed to begin a frame, of one class at least.
    pub paused: SimTime,
    /// The most memory that what comes in by its link has taken, of one class if those pause.
    pub max_held: u64,
}

impl PauseStats {
    /// What came since `earlier`; the most memory is of all time.
    #[must_use]
    pub fn since(&self, earlier: &Self) -> Self {
        Self {
            xoff_sent: self.xoff_sent - earlier.xoff_sent,
            xon_sent: self.xon_sent - earlier.xon_sent,
            received: self.received - earlier.received,
            paused: self.paused - earlier.paused,
            max_held: self.max_held,
        }
    }
}

/// The pause of a port that obeys.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Obeys {
    pub(crate) received: u64,
    /// Paused in all until `since`.
    before: SimTime,
    /// The pause counted from here, which lasts until `until`.
    since: SimTime,
    until: SimTime,
}

impl Obeys {
    /// At `now` it is told to begin no frame from `from` on until `until`, which may end a pause.
    pub(crate) fn obey(&mut self, now: SimTime, from: SimTime, until: SimTime) {
        self.received += 1;
        let from = if now < self.until {
            now.max(self.since)
        } else {
            from
        };
        self.before = self.paused(now);
        self.since = from;
        self.until = until.max(from);
    }

    /// Time paused until `now`.
    pub(crate) fn paused(&self, now: SimTime) -> SimTime {
        let end = now.min(self.until);
        if end > self.since {
            self.before + (end - self.since)
        } else {
            self.before
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::Rate;

    fn link(gbps: u64, micros: u64) -> LinkSpec {
        LinkSpec::new(Rate::from_gbps(gbps), SimTime::from_micros(micros))
            .with_framing(Framing::Ethernet)
    }

    /// 2 rate delay + 3 frames + a pause frame, in bytes on the wire.
    #[test]
    fn headroom_covers_the_loop_and_three_frames() {
        for (gbps, micros) in [(1, 25), (10, 5), (100, 2)] {
            let link = link(gbps, micros);
            let room = PauseSpec::new(1_500).headroom(&link, &link).get();
            let formula = 2 * gbps * 125 * micros + 3 * 1_538 + 84;
            // Times are in nanoseconds, rounded up.
            let rounding = 4 + gbps / 4;
            assert!(
                (formula..=formula + rounding).contains(&room),
                "{room} {formula}"
            );
        }
        let thresholds = PauseSpec::new(1_500).thresholds(65_536, &link(1, 25), &link(1, 25));
        let thresholds = thresholds.unwrap();
        assert_eq!(thresholds.xoff - thresholds.xon, 2 * 1_538);
        assert_eq!(thresholds.part - thresholds.xoff, 10_950);
        // What is too small says what it takes.
        let small = PauseSpec::new(1_500).thresholds(10_000, &link(1, 25), &link(1, 25));
        assert_eq!(small, Err(ByteCount::new(10_950 + 1_538)));
    }

    #[test]
    fn xoff_is_said_once_and_xon_at_its_threshold() {
        let of = Thresholds {
            part: 10_000,
            xoff: 5_000,
            xon: 3_000,
        };
        let mut held = Held::default();
        assert_eq!(held.add(4_999, &of), None);
        assert_eq!(held.add(1, &of), Some(PauseSignal::Xoff));
        held.again = Some(SimTime::from_micros(1));
        assert_eq!(held.add(1_000, &of), None);
        assert!(held.has_room(4_000, &of) && !held.has_room(4_001, &of));
        assert_eq!(held.take(2_999, &of), None);
        assert_eq!(held.take(1, &of), Some(PauseSignal::Xon));
        held.again = None;
        assert_eq!((held.take(3_000, &of), held.most()), (None, 6_000));
    }

    /// A pause that is renewed counts once, one that is ended counts until then.
    #[test]
    fn paused_time_is_the_union_of_pauses() {
        let us = SimTime::from_micros;
        let mut port = Obeys::default();
        // A frame in service until 12; renewed at 50, ended at 70.
        port.obey(us(10), us(12), us(100));
        assert_eq!((port.paused(us(11)), port.paused(us(50))), (us(0), us(38)));
        port.obey(us(50), us(50), us(150));
        port.obey(us(70), us(70), us(70));
        assert_eq!(port.paused(us(200)), us(58));
        port.obey(us(200), us(200), us(210));
        assert_eq!((port.paused(us(300)), port.received), (us(68), 4));
    }
}
