//! Breaks frames on purpose: drops, reorders, duplicates, corrupts and delays them, by chance from
//! a seed or by a list.

use super::{Device, DeviceStats, Refused};
use crate::interface::{Capabilities, Offload, RxChecksum, RxFrame, TxFrame};
use crate::rng::Rng;
use narrows_congestion::order::sort_by_key;
use narrows_congestion::{Duration, Instant};
use std::collections::VecDeque;
use std::io;
use std::os::fd::BorrowedFd;

/// What happens to a frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It is lost.
    Drop,
    /// It goes after this many frames that come later, or after [`Faults::hold`] if fewer come.
    Reorder(u32),
    /// It comes twice.
    Duplicate,
    /// One of its bits is wrong.
    Corrupt,
    /// It comes this much later, and others may pass it.
    Delay(Duration),
}

/// Which frames of one direction are broken, and how.
#[derive(Clone, Debug)]
pub struct Faults {
    /// Probabilities in millionths, tried in this order; one frame has one fault.
    pub rates: Vec<(Fault, u32)>,
    /// Frames to break for certain, by their number in this direction, the first being 0.
    pub script: Vec<(u64, Fault)>,
    /// How long a reordered frame waits at most.
    pub hold: Duration,
    /// Count and break only frames of at least this many bytes: 0 is all, 100 spares
    /// acknowledgements.
    pub min_len: usize,
}

impl Default for Faults {
    /// None.
    fn default() -> Self {
        Self {
            rates: Vec::new(),
            script: Vec::new(),
            hold: Duration::from_millis(10),
            min_len: 0,
        }
    }
}

/// How many frames were broken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct FaultStats {
    /// Dropped.
    pub dropped: u64,
    /// Sent after others.
    pub reordered: u64,
    /// Sent twice.
    pub duplicated: u64,
    /// With a wrong bit.
    pub corrupted: u64,
    /// Late.
    pub delayed: u64,
    /// Late frames that the device then refused.
    pub refused: u64,
}

/// A frame that is kept.
#[derive(Debug)]
struct Kept {
    bytes: Vec<u8>,
    offload: Offload,
    rx: (RxChecksum, Option<u16>),
    due: Instant,
    /// It goes when this many frames more have passed.
    passes: Option<u32>,
}

/// One direction.
#[derive(Debug)]
struct Direction {
    faults: Faults,
    rng: Rng,
    /// The next frame's number.
    number: u64,
    kept: VecDeque<Kept>,
    stats: FaultStats,
}

impl Direction {
    fn new(mut faults: Faults, rng: Rng) -> Self {
        sort_by_key(&mut faults.script, |(number, _)| *number);
        Self {
            faults,
            rng,
            number: 0,
            kept: VecDeque::new(),
            stats: FaultStats::default(),
        }
    }

    /// What happens to the next frame.
    fn fate(&mut self, len: usize) -> Option<Fault> {
        if len < self.faults.min_len {
            return None;
        }
        let number = self.number;
        self.number += 1;
        if let Ok(at) = self.faults.script.binary_search_by_key(&number, |s| s.0) {
            return Some(self.faults.script[at].1);
        }
        // One draw for each rate, so that a rate does not change what the others do.
        let mut fate = None;
        for &(fault, rate) in &self.faults.rates {
            let hit = self.rng.below(1_000_000) < u64::from(rate);
            if hit && fate.is_none() {
                fate = Some(fault);
            }
        }
        fate
    }

    /// Keep a frame that is reordered or delayed.
    fn keep(&mut self, now: Instant, fault: Fault, mut frame: Kept) {
        match fault {
            Fault::Reorder(passes) => {
                self.stats.reordered += 1;
                frame.passes = Some(passes.max(1));
                frame.due = now + self.faults.hold;
            }
            Fault::Delay(delay) => {
                self.stats.delayed += 1;
                frame.due = now + delay;
            }
            Fault::Drop | Fault::Duplicate | Fault::Corrupt => return,
        }
        self.kept.push_back(frame);
    }

    /// A frame has passed those that are kept.
    fn passed(&mut self) {
        for kept in &mut self.kept {
            if let Some(passes) = &mut kept.passes {
                *passes = passes.saturating_sub(1);
            }
        }
    }

    /// A kept frame that goes now.
    fn due(&mut self, now: Instant) -> Option<Kept> {
        if self.kept.is_empty() {
            return None;
        }
        let at = self
            .kept
            .iter()
            .position(|k| k.due <= now || k.passes == Some(0))?;
        self.kept.remove(at)
    }

    fn timeout(&self) -> Option<Instant> {
        let soon = |k: &Kept| match k.passes {
            Some(0) => Instant::ZERO,
            _ => k.due,
        };
        self.kept.iter().map(soon).min()
    }

    /// Turn one bit behind the first `keep` bytes.
    fn corrupt(&mut self, bytes: &mut [u8], keep: usize) {
        self.stats.corrupted += 1;
        let from = keep.min(bytes.len().saturating_sub(1));
        let bits = (bytes.len() - from) as u64 * 8;
        if bits > 0 {
            let bit = self.rng.below(bits);
            bytes[from + (bit / 8) as usize] ^= 1 << (bit % 8);
        }
    }
}

/// A device with faults, in each direction its own.
///
/// Corrupted bits lie behind the Ethernet header, and a corrupted frame loses what vouched for its
/// checksum: the receiver has to find the damage. A frame whose checksum is left to the device
/// and is to be corrupted is dropped instead, as a device would have computed a good one.
#[derive(Debug)]
pub struct Faulty<D> {
    device: D,
    out: Direction,
    into: Direction,
    scratch: Vec<u8>,
}

/// Bytes of an Ethernet header, which stay as they are.
const SPARED: usize = 14;

impl<D: Device> Faulty<D> {
    /// Break what leaves `device` by `out`, and what comes from it by `into`, chance drawn from
    /// `seed`.
    pub fn new(device: D, seed: u64, out: Faults, into: Faults) -> Self {
        Self {
            device,
            out: Direction::new(out, Rng::stream(seed, 0)),
            into: Direction::new(into, Rng::stream(seed, 1)),
            scratch: Vec::new(),
        }
    }

    /// The device inside.
    pub fn device(&self) -> &D {
        &self.device
    }

    /// What happened to frames sent, and to frames received.
    pub fn fault_stats(&self) -> (FaultStats, FaultStats) {
        (self.out.stats, self.into.stats)
    }

    /// Send what was kept and is due.
    fn send_kept(&mut self, now: Instant) -> Result<(), Refused> {
        while let Some(kept) = self.out.due(now) {
            let frame = TxFrame {
                head: &kept.bytes,
                body: Default::default(),
                offload: kept.offload,
            };
            match self.device.transmit(now, &frame) {
                Ok(()) => {}
                // The one who sent it has been told that it left: a fault like others.
                Err(Refused::Full | Refused::Down) => self.out.stats.refused += 1,
                Err(gone) => return Err(gone),
            }
        }
        Ok(())
    }
}

impl<D: Device> Device for Faulty<D> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let fate = self.out.fate(frame.len());
        let mut scratch = std::mem::take(&mut self.scratch);
        scratch.clear();
        let copy = TxFrame {
            head: &[],
            ..*frame
        };
        let outcome = match fate {
            None => self.device.transmit(now, frame),
            Some(Fault::Drop) => {
                self.out.stats.dropped += 1;
                Ok(())
            }
            Some(Fault::Duplicate) => {
                self.out.stats.duplicated += 1;
                self.device
                    .transmit(now, frame)
                    .and_then(|()| self.device.transmit(now, frame))
            }
            Some(Fault::Corrupt) if frame.offload.checksum.is_some() => {
                self.out.stats.corrupted += 1;
                Ok(())
            }
            Some(Fault::Corrupt) => {
                frame.append_to(&mut scratch);
                self.out.corrupt(&mut scratch, SPARED);
                let frame = TxFrame {
                    head: &scratch,
                    body: Default::default(),
                    ..copy
                };
                self.device.transmit(now, &frame)
            }
            Some(fault @ (Fault::Reorder(_) | Fault::Delay(_))) => {
                let mut bytes = Vec::with_capacity(frame.len());
                frame.append_to(&mut bytes);
                let kept = Kept {
                    bytes,
                    offload: frame.offload,
                    rx: (RxChecksum::Unknown, None),
                    due: now,
                    passes: None,
                };
                self.out.keep(now, fault, kept);
                self.scratch = scratch;
                return Ok(());
            }
        };
        self.scratch = scratch;
        if outcome.is_ok() {
            self.out.passed();
            self.send_kept(now)?;
        }
        outcome
    }

    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        let Self {
            device,
            into,
            scratch,
            ..
        } = self;
        let mut late = 0;
        let mut give_kept = |into: &mut Direction, sink: &mut dyn FnMut(&RxFrame<'_>)| {
            while let Some(kept) = into.due(now) {
                late += 1;
                sink(&RxFrame {
                    bytes: &kept.bytes,
                    checksum: kept.rx.0,
                    segment_size: kept.rx.1,
                    buffer: None,
                });
            }
        };
        give_kept(into, sink);
        let received = device.receive(now, budget, &mut |frame| {
            match into.fate(frame.bytes.len()) {
                None => sink(frame),
                Some(Fault::Drop) => {
                    into.stats.dropped += 1;
                    return;
                }
                Some(Fault::Duplicate) => {
                    into.stats.duplicated += 1;
                    sink(frame);
                    sink(frame);
                }
                Some(Fault::Corrupt) if matches!(frame.checksum, RxChecksum::Partial(_)) => {
                    into.stats.corrupted += 1;
                    return;
                }
                Some(Fault::Corrupt) => {
                    scratch.clear();
                    scratch.extend_from_slice(frame.bytes);
                    into.corrupt(scratch, SPARED);
                    sink(&RxFrame {
                        bytes: scratch,
                        checksum: RxChecksum::Unknown,
                        segment_size: frame.segment_size,
                        buffer: None,
                    });
                }
                Some(fault @ (Fault::Reorder(_) | Fault::Delay(_))) => {
                    let kept = Kept {
                        bytes: frame.bytes.to_vec(),
                        offload: Offload::NONE,
                        rx: (frame.checksum, frame.segment_size),
                        due: now,
                        passes: None,
                    };
                    into.keep(now, fault, kept);
                    return;
                }
            }
            into.passed();
            give_kept(into, sink);
        })?;
        Ok(received.max(late.min(budget)))
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        match self.send_kept(now) {
            Err(Refused::Gone(e)) => Err(e),
            _ => self.device.flush(now),
        }
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [
            self.out.timeout(),
            self.into.timeout(),
            self.device.poll_timeout(),
        ]
        .into_iter()
        .flatten()
        .min()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::loopback::Loopback;
    use crate::interface::Medium;

    fn at(micros: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(micros)
    }

    fn script(faults: &[(u64, Fault)]) -> Faults {
        Faults {
            script: faults.to_vec(),
            ..Faults::default()
        }
    }

    fn send(device: &mut impl Device, n: u8, now: Instant) {
        let frame = TxFrame {
            head: &[n; 20],
            body: Default::default(),
            offload: Offload::NONE,
        };
        device.transmit(now, &frame).unwrap();
    }

    fn numbers(device: &mut impl Device, now: Instant) -> Vec<u8> {
        let mut seen = Vec::new();
        device
            .receive(now, 100, &mut |f| seen.push(f.bytes[0]))
            .unwrap();
        seen
    }

    fn pair() -> (Loopback, Loopback) {
        Loopback::pair(Capabilities::plain(Medium::Ethernet, 1500), 1 << 20).unwrap()
    }

    const LIST: [(u64, Fault); 4] = [
        (1, Fault::Drop),
        (2, Fault::Reorder(2)),
        (5, Fault::Duplicate),
        (6, Fault::Delay(Duration::from_micros(50))),
    ];

    #[test]
    fn a_list_is_followed_when_sending() {
        let (a, mut b) = pair();
        let mut a = Faulty::new(a, 1, script(&LIST), Faults::default());
        for n in 0..8 {
            send(&mut a, n, at(0));
        }
        assert_eq!(numbers(&mut b, at(0)), [0, 3, 4, 2, 5, 5, 7]);
        assert_eq!(a.poll_timeout(), Some(at(50)));
        a.flush(at(49)).unwrap();
        assert!(numbers(&mut b, at(49)).is_empty());
        a.flush(at(50)).unwrap();
        assert_eq!(numbers(&mut b, at(50)), [6]);
        assert_eq!(a.poll_timeout(), None);
    }

    #[test]
    fn a_list_is_followed_when_receiving() {
        let (mut a, b) = pair();
        let mut b = Faulty::new(b, 1, Faults::default(), script(&LIST));
        for n in 0..8 {
            send(&mut a, n, at(0));
        }
        assert_eq!(numbers(&mut b, at(0)), [0, 3, 4, 2, 5, 5, 7]);
        assert_eq!(numbers(&mut b, at(50)), [6]);
    }

    #[test]
    fn a_reordered_frame_does_not_wait_for_ever() {
        let (a, mut b) = pair();
        let mut a = Faulty::new(a, 1, script(&[(0, Fault::Reorder(3))]), Faults::default());
        send(&mut a, 9, at(0));
        assert!(numbers(&mut b, at(0)).is_empty());
        let due = a.poll_timeout().unwrap();
        a.flush(due).unwrap();
        assert_eq!(numbers(&mut b, due), [9]);
    }

    #[test]
    fn chance_comes_from_the_seed_at_the_given_rate() {
        let run = |seed| {
            let (a, mut b) = pair();
            let faults = Faults {
                rates: vec![(Fault::Drop, 200_000), (Fault::Corrupt, 100_000)],
                ..Faults::default()
            };
            let mut a = Faulty::new(a, seed, faults, Faults::default());
            let mut seen = Vec::new();
            for n in 0..2_000_u64 {
                send(&mut a, (n % 251) as u8, at(0));
                seen.extend(numbers(&mut b, at(0)));
            }
            (seen, a.fault_stats().0)
        };
        let (seen, stats) = run(7);
        assert!((300..500).contains(&stats.dropped), "{stats:?}");
        assert!((110..220).contains(&stats.corrupted), "{stats:?}");
        assert_eq!(run(7), (seen.clone(), stats));
        assert_ne!(run(8).0, seen);
    }

    #[test]
    fn one_bit_is_wrong_behind_the_ethernet_header() {
        let (a, mut b) = pair();
        let mut a = Faulty::new(a, 1, script(&[(0, Fault::Corrupt)]), Faults::default());
        send(&mut a, 0, at(0));
        let mut bits = 0;
        b.receive(at(0), 1, &mut |f| {
            assert_eq!(f.bytes[..14], [0; 14]);
            bits = f.bytes.iter().map(|b| b.count_ones()).sum();
        })
        .unwrap();
        assert_eq!(bits, 1);
    }

    #[test]
    fn small_frames_can_be_spared() {
        let (a, mut b) = pair();
        let faults = Faults {
            min_len: 21,
            rates: vec![(Fault::Drop, 1_000_000)],
            ..Faults::default()
        };
        let mut a = Faulty::new(a, 1, faults, Faults::default());
        send(&mut a, 1, at(0));
        assert_eq!(numbers(&mut b, at(0)), [1]);
    }
}
