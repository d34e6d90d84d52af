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
//! Of several classes each tells its own, so that behind the frame in service others' pause frames may
//! wait ahead: of each two at most, a pause that is told again and its end at one instant. A third
//! takes another XOFF, so that as much as XON is below XOFF comes in meanwhile, which takes longer than
//! the two frames of the way back do (unless XON is given nearer than that). So of n classes it is
//! 2 n - 1 pause frames in place of the one.
//!
//! The frame that tells a pause again at half of its time may wait for a frame in service, too: half
//! of the time is not less than that takes, or whoever obeys would go on between.
//!
//! # Hosts
//! A NIC whose receive ring fills up pauses its switch as well, if it is told to
//! ([`ReceiveSpec::pause`](super::nic::ReceiveSpec::pause)): from the ring's frames less the headroom
//! in shortest frames, until half of that. Its pause frames go behind the frame that the NIC sends,
//! and take nothing of its link.
//!
//! # Left out
//! The time that a station takes to obey (Annex 31B.3.7 allows some quanta); pause frames that are
//! lost or damaged; one pause frame that tells of several classes; pause
//! frames from switches to stations that ignore them; NICs with a queue for each class (a pause of
//! one class holds a whole NIC); the tokens of a NIC's shaper during a pause (what waits leaves at
//! the link's rate when it ends); memory that ports share; watchdogs against storms; links whose
//! rate or delay changes in a run keep the headroom that they began with.

use narrows_congestion::ByteCount;
use std::fmt;

use super::discipline::classify::{CLASSES, DscpMap};
use super::link::{FrameSizes, Framing, LinkSpec};
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

    /// Bytes of the pause frames that may wait behind a frame in service on a link with this framing, the
    /// last one included.
    fn waiting(&self, framing: FrameSizes) -> u32 {
        let classes = self.pausing().count_ones().max(1);
        (2 * classes - 1) * pause_frame(framing)
    }

    /// Bytes that may arrive after XOFF, by a link whose other direction is `back`.
    pub fn headroom(&self, link: &LinkSpec, back: &LinkSpec) -> ByteCount {
        let frame = u64::from(wire(link.framing, self.max_packet));
        let pause = u64::from(self.waiting(back.framing.sizes()));
        let wait = back.rate.time_for(ByteCount::new(frame + pause));
        let wires = (link.delay + back.delay).to_duration();
        // Rounded up twice.
        let meanwhile = link.rate.bytes_in(wait + wires).get() + 2;
        ByteCount::new(meanwhile + 2 * frame)
    }

    /// That a pause of `link` lasts until it is told again at half of its time, by `back`, where a
    /// frame may be in service and other classes tell theirs.
    pub(crate) fn check_quanta(
        &self,
        link: &LinkSpec,
        back: &LinkSpec,
    ) -> Result<(), PauseProblem> {
        let wait = wire(back.framing, self.max_packet) + self.waiting(back.framing.sizes());
        let wait = back.rate.time_for(ByteCount::from(wait));
        let half = link.rate.bytes_in(wait).get() + 1;
        let needed = (2 * half).div_ceil(pause_bytes(1).into());
        match u64::from(self.quanta) < needed {
            true => Err(PauseProblem::Quanta {
                quanta: self.quanta,
                needed,
            }),
            false => Ok(()),
        }
    }

    /// The memory of a port, of `memory` bytes in all, for the link by which it fills.
    pub(crate) fn thresholds(
        &self,
        memory: ByteCount,
        link: &LinkSpec,
        back: &LinkSpec,
    ) -> Result<Thresholds, PauseProblem> {
        let part = memory.get() / self.parts();
        let headroom = self.headroom(link, back).get();
        let frame = u64::from(wire(link.framing, self.max_packet));
        let xoff = match self.xoff {
            None if part < headroom + frame => {
                let needed = ByteCount::new((headroom + frame) * self.parts());
                return Err(PauseProblem::Headroom { memory, needed });
            }
            None => part - headroom,
            Some(xoff) if !(frame..=part).contains(&xoff.get()) => {
                let (least, most) = (ByteCount::new(frame), ByteCount::new(part));
                return Err(PauseProblem::Xoff { xoff, least, most });
            }
            Some(xoff) => xoff.get(),
        };
        let xon = match self.xon {
            None => xoff.saturating_sub(2 * frame),
            Some(xon) if xon.get() >= xoff => {
                let xoff = ByteCount::new(xoff);
                return Err(PauseProblem::Xon { xon, xoff });
            }
            Some(xon) => xon.get(),
        };
        Ok(Thresholds { part, xoff, xon })
    }
}

/// Why something cannot pause so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum PauseProblem {
    /// Its memory is too small.
    Headroom {
        /// What it has.
        memory: ByteCount,
        /// What it needs.
        needed: ByteCount,
    },
    /// XOFF holds no packet, or is more than there is memory.
    Xoff {
        /// XOFF.
        xoff: ByteCount,
        /// A frame.
        least: ByteCount,
        /// The memory of the port, or of a class.
        most: ByteCount,
    },
    /// XON is not below XOFF.
    Xon {
        /// XON.
        xon: ByteCount,
        /// XOFF.
        xoff: ByteCount,
    },
    /// A pause is over before it can be told again.
    Quanta {
        /// How long it is.
        quanta: u16,
        /// How long it has to be.
        needed: u64,
    },
}

impl fmt::Display for PauseProblem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Headroom { memory, needed } => write!(
                f,
                "of its memory of {} bytes it needs {} to stay lossless after XOFF: give the queue a \
                 limit of so much and what is to wait",
                memory.get(),
                needed.get()
            ),
            Self::Xoff { xoff, least, most } => write!(
                f,
                "its XOFF of {} bytes is not between a frame of {} and the {} that are there for it",
                xoff.get(),
                least.get(),
                most.get()
            ),
            Self::Xon { xon, xoff } => write!(
                f,
                "its XON of {} bytes is not below its XOFF of {}: a pause would end where it begins",
                xon.get(),
                xoff.get()
            ),
            Self::Quanta { needed, .. } if *needed > u64::from(u16::MAX) => write!(
                f,
                "no pause is long enough to be told again before it is over: the longest frame takes the \
                 way back as long as {needed} quanta of the way there"
            ),
            Self::Quanta { quanta, needed } => write!(
                f,
                "a pause of {quanta} quanta may be over before it is told again at half of that, which \
                 may wait for the longest frame: give it {needed} and more"
            ),
        }
    }
}

/// Bytes of time that a packet takes on a wire.
const fn wire(framing: Framing, l3_len: u32) -> u32 {
    framing.wire_len(framing.buffer_len(l3_len))
}

/// Bytes of time that a pause frame takes on the wire.
pub(crate) const fn pause_frame(framing: FrameSizes) -> u32 {
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
        // Of each class that tells its own two frames more.
        for (classes, frames) in [(0x01, 1), (0x0f, 7), (0xff, 15)] {
            let spec = PauseSpec {
                kind: PauseKind::Priority { classes },
                ..PauseSpec::new(1_500)
            };
            let room = spec.headroom(&link(10, 5), &link(10, 5)).get();
            let formula = 2 * 10 * 125 * 5 + 3 * 1_538 + frames * 84;
            assert!((formula..formula + 8).contains(&room), "{room} {formula}");
        }
        let of = |spec: PauseSpec, memory| {
            spec.thresholds(ByteCount::new(memory), &link(1, 25), &link(1, 25))
        };
        let thresholds = of(PauseSpec::new(1_500), 65_536);
        let thresholds = thresholds.unwrap();
        assert_eq!(thresholds.xoff - thresholds.xon, 2 * 1_538);
        assert_eq!(thresholds.part - thresholds.xoff, 10_950);
        // What is too small says what it takes.
        let (memory, needed) = (ByteCount::new(10_000), ByteCount::new(10_950 + 1_538));
        let small = of(PauseSpec::new(1_500), 10_000);
        assert_eq!(small, Err(PauseProblem::Headroom { memory, needed }));
        // What is given is taken, or refused with what it does not go with.
        let given = |xoff, xon| PauseSpec {
            xoff: Some(ByteCount::new(xoff)),
            xon: Some(ByteCount::new(xon)),
            ..PauseSpec::new(1_500)
        };
        let taken = of(given(30_000, 29_999), 65_536).unwrap();
        assert_eq!((taken.xoff, taken.xon), (30_000, 29_999));
        for (xoff, xon, says) in [
            (
                30_000,
                30_000,
                "XON of 30000 bytes is not below its XOFF of 30000",
            ),
            (
                30_000,
                60_000,
                "XON of 60000 bytes is not below its XOFF of 30000",
            ),
            (
                65_537,
                0,
                "XOFF of 65537 bytes is not between a frame of 1538 and the 65536",
            ),
            (1_537, 0, "XOFF of 1537 bytes"),
        ] {
            let error = of(given(xoff, xon), 65_536).unwrap_err().to_string();
            assert!(error.contains(says), "{error}");
        }
    }

    /// The worst-case delays that IEEE 802.1Qbb's headroom is made of, in bit times, as vendors publish them for
    /// frames of 9216 bytes on 10 Gb/s and 100 m: a frame that is being sent back (73,888), a pause
    /// frame (672), the cable twice (5,000 each) and a frame that the other end has begun (73,888). Here
    /// a frame more, which crosses XOFF, since a frame counts when it is whole. Left out are the delays
    /// of interfaces (8,192) and of the other end's answer (30,720), which links here do not have.
    #[test]
    fn ieee_802_1qbb_delays_of_10_gb_s_and_100_m_are_the_headroom() {
        const FRAME: u64 = 73_888;
        let published = FRAME + 672 + 2 * 5_000 + FRAME;
        let cable = LinkSpec::new(Rate::from_gbps(10), SimTime::from_nanos(500))
            .with_framing(Framing::Ethernet);
        let bits = PauseSpec::new(9_216 - 18).headroom(&cable, &cable).get() * 8;
        // Rounded up to nanoseconds, and two bytes more.
        assert!((0..=40).contains(&(bits - published - FRAME)), "{bits}");
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
