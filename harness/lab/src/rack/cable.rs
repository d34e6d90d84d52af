//! A link of the star between a host of ours and the switch: what the kernel has no queue
//! discipline for. A frame enters the wire when the one before has left it, and arrives a delay
//! later.

use crate::lab;
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_net::sim::rng::Stream;
use narrows_net::sim::time::SimTime;
use std::collections::VecDeque;

/// Ethernet's bytes beside the frame: check sequence, preamble, gap.
const OVERHEAD: u64 = 24;
/// Frames that may wait for the wire.
const QUEUE: u64 = 1_000;
/// Buffers kept for the next frames.
const SPARE: usize = 256;
/// How much of a delay of our own is made up for: a wire that stood still carries what waited at
/// its rate, and not at once.
const SLACK: Duration = Duration::from_micros(100);

/// A frame on its way.
#[derive(Debug)]
struct Flying {
    /// When it arrives.
    at: Instant,
    /// What the wire takes for it.
    wire: Duration,
    bytes: Vec<u8>,
}

/// One direction of a link.
#[derive(Debug)]
pub(super) struct Cable {
    /// `None`: frames come from a wire of this rate already.
    rate: Option<Rate>,
    delay: Duration,
    /// How far ahead the wire may be taken.
    queue: Duration,
    /// When the wire is free.
    free: Instant,
    /// By the time of arrival.
    frames: VecDeque<Flying>,
    /// When the last one was to arrive.
    last: Instant,
    /// For how long the wire stood still because we came late.
    still: Duration,
    /// A frame enters an idle wire up to so much late, at random: without it equal hosts march in
    /// step for ever.
    overhead: Option<(SimTime, Stream)>,
    spare: Vec<Vec<u8>>,
}

impl Cable {
    pub(super) fn new(rate: Option<Rate>, delay: Duration, mtu: u32) -> Self {
        let full = (lab::frame(mtu) + ByteCount::new(OVERHEAD)) * QUEUE;
        Self {
            rate,
            delay,
            queue: rate.map_or(Duration::ZERO, |rate| rate.time_for(full)),
            free: Instant::ZERO,
            frames: VecDeque::new(),
            last: Instant::ZERO,
            still: Duration::ZERO,
            overhead: None,
            spare: Vec::new(),
        }
    }

    /// The same, with frames that enter it up to `most` late.
    pub(super) fn with_overhead(self, most: Duration, random: Stream) -> Self {
        Self {
            overhead: Some((SimTime::from_duration(most), random)),
            ..self
        }
    }

    /// When a frame can be taken, if not now.
    pub(super) fn full_until(&self, now: Instant) -> Option<Instant> {
        let ahead = self.free.since(now);
        (self.rate.is_some() && ahead > self.queue).then(|| now + (ahead - self.queue))
    }

    /// Take the frame that `write` writes.
    pub(super) fn send(&mut self, now: Instant, write: impl FnOnce(&mut Vec<u8>)) {
        let mut frame = self.spare.pop().unwrap_or_default();
        frame.clear();
        write(&mut frame);
        let len = ByteCount::new((frame.len() as u64).max(60) + OVERHEAD);
        let wire = self.rate.map_or(Duration::ZERO, |rate| rate.time_for(len));
        if self.free <= now {
            let late = self.overhead.as_mut();
            self.free =
                now + late.map_or(Duration::ZERO, |(most, r)| r.jitter(*most).to_duration());
        }
        self.free = self.free + wire;
        self.frames.push_back(Flying {
            at: self.free + self.delay,
            wire,
            bytes: frame,
        });
    }

    /// For how long the wire stood still because we came late.
    pub(super) fn still(&self) -> Duration {
        self.still
    }

    /// When the next frame arrives.
    pub(super) fn next(&self) -> Option<Instant> {
        self.frames.front().map(|f| f.at.max(self.last + f.wire))
    }

    /// Give `take` the next frame, if it has arrived; whether it had.
    pub(super) fn arrive(&mut self, now: Instant, take: impl FnOnce(&[u8])) -> bool {
        let Some(at) = self.next().filter(|at| *at <= now) else {
            return false;
        };
        let Some(Flying { bytes, .. }) = self.frames.pop_front() else {
            return false;
        };
        self.last = at;
        if self.rate.is_some() {
            let still = now.since(at).saturating_sub(SLACK);
            self.last = at + still;
            self.still += still;
        }
        take(&bytes);
        if self.spare.len() < SPARE {
            self.spare.push(bytes);
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_net::sim::rng::Component;

    fn at(us: u64) -> Instant {
        Instant::ZERO + Duration::from_micros(us)
    }

    #[test]
    fn frames_follow_one_another_at_the_rate_and_arrive_later() {
        // 1000 bytes on the wire take 8 us.
        let rate = Rate::from_gbps(1);
        let mut cable = Cable::new(Some(rate), Duration::from_micros(100), 1_500);
        let frame = [7; 976];
        for _ in 0..3 {
            cable.send(at(10), |out| out.extend_from_slice(&frame));
        }
        assert_eq!(cable.next(), Some(at(118)));
        let mut arrived = Vec::new();
        assert!(!cable.arrive(at(117), |_| panic!("too early")));
        while cable.arrive(at(126), |f| arrived.push(f.to_vec())) {}
        assert_eq!(arrived, [frame, frame]);
        assert_eq!(cable.next(), Some(at(134)));
        // The wire is idle again.
        cable.send(at(500), |out| out.push(1));
        assert!(cable.arrive(at(134), |_| {}));
        assert_eq!(
            cable.next(),
            Some(at(600) + rate.time_for(ByteCount::new(84)))
        );
    }

    #[test]
    fn who_comes_late_finds_a_wire_and_no_heap() {
        let mut cable = Cable::new(Some(Rate::from_gbps(1)), Duration::ZERO, 1_500);
        for _ in 0..200 {
            cable.send(at(0), |out| out.resize(976, 0));
        }
        let mut arrived = 0;
        while cable.arrive(at(800), |_| arrived += 1) {}
        // 100 us and the one that was first.
        assert_eq!(arrived, 13);
        assert_eq!(cable.next(), Some(at(804)));
        // Small delays are made up for.
        while cable.arrive(at(830), |_| arrived += 1) {}
        assert_eq!(arrived, 17);
        assert_eq!(cable.next(), Some(at(836)));
        assert_eq!(cable.still(), Duration::from_micros(692));
    }

    #[test]
    fn only_an_idle_wire_is_entered_late() {
        let most = Duration::from_micros(5);
        let random = Stream::new(1, Component::Overhead, 7);
        let cable = Cable::new(Some(Rate::from_gbps(1)), Duration::ZERO, 1_500);
        let mut cable = cable.with_overhead(most, random);
        let mut late = Vec::new();
        for round in 1..=20 {
            let now = at(round * 100);
            for _ in 0..2 {
                cable.send(now, |out| out.resize(976, 0));
            }
            let first = cable.next().unwrap();
            assert!(cable.arrive(first, |_| {}));
            assert_eq!(cable.next(), Some(first + Duration::from_micros(8)));
            assert!(cable.arrive(at(round * 100 + 50), |_| {}));
            late.push(first.since(now + Duration::from_micros(8)));
        }
        assert!(late.iter().all(|l| *l <= most));
        late.sort_unstable();
        late.dedup();
        assert!(late.len() > 10, "{late:?}");
    }

    #[test]
    fn a_wire_that_is_taken_far_ahead_takes_no_more() {
        let mut cable = Cable::new(Some(Rate::from_mbps(1)), Duration::ZERO, 1_500);
        let mut taken = 0;
        while cable.full_until(at(0)).is_none() {
            cable.send(at(0), |out| out.resize(1_514, 0));
            taken += 1;
        }
        assert_eq!(taken, 1_001);
        let until = cable.full_until(at(0)).unwrap();
        assert!(cable.full_until(until).is_none());
        let mut free = Cable::new(None, Duration::ZERO, 1_500);
        free.send(at(0), |out| out.resize(1_514, 0));
        assert_eq!(free.full_until(at(0)), None);
        assert_eq!(free.next(), Some(at(0)));
    }
}
