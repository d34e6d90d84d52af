//! From the link to the host: receive rings, interrupts that are held back, polls, receive offload,
//! and the processor that does the work.
//!
//! A frame goes into the ring of its receive queue, which its flow's hash chooses ([`ReceiveHash`]); a full ring drops
//! it ([`DropReason::RingFull`](crate::net::stats::DropReason::RingFull)). An interrupt comes when
//! enough frames wait or the first has waited long enough ([`Coalescing`]). The core of the queue
//! then polls as Linux does (NAPI): it takes up to a budget of frames, hands them up one after the
//! other, and polls again without another interrupt if the budget was used up; otherwise it lets
//! the queue interrupt again. Receive offload (GRO, LRO) merges segments of a flow within a poll
//! ([`Packet::merge`]), and the host, its TCP and its captures
//! see the aggregate as one packet.
//!
//! What the host sends because of a packet leaves when that packet has been handled. With a
//! processor that takes no time a poll is over at the instant of its interrupt.
//!
//! Left out: frames that arrive during a poll and would join it (they are in the next), adaptive
//! coalescing, timers that hold aggregates across polls (`gro_flush_timeout`), the eight flows that a
//! hash bucket of Linux holds at most, hardware that merges before the ring, steering by anything
//! but the hash.

use std::collections::VecDeque;

use crate::sim::time::SimTime;

use super::cpu::{CpuSpec, Time};
use super::rss;
use crate::net::packet::Packet;
use crate::net::pause::PauseSpec;

/// When a receive queue interrupts, as `ethtool -C` says it: when `frames` wait (`rx-frames`) or the
/// first has waited for `age` (`rx-usecs`), whichever is first. Of the two one may be zero, which
/// leaves it to the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Coalescing {
    /// Frames that wait.
    pub frames: u32,
    /// Since the first of them came.
    pub age: SimTime,
}

impl Coalescing {
    /// An interrupt a frame.
    pub const OFF: Self = Self {
        frames: 1,
        age: SimTime::ZERO,
    };
}

/// Bytes of the largest aggregate that receive offload can make: the length field of IPv4 has 16 bits (RFC
/// 791 section 3.1).
pub const MOST_OFFLOAD: u32 = 65_535;

/// How the hash of a flow chooses its receive queue.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ReceiveHash {
    /// A hash of our own, even in all of its bits: flows meet in a queue as by chance.
    #[default]
    Even,
    /// That of NICs, with the key that many have, and their table ([`rss`]): flows of
    /// neighbours in address and port may crowd, or be spread more evenly than by chance.
    Toeplitz,
}

/// What is between the link and a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ReceiveSpec {
    /// Receive queues, each with a ring; at least one.
    pub queues: u32,
    /// How a flow has one of them.
    pub hash: ReceiveHash,
    /// Frames that a ring holds; at least one.
    pub ring: u32,
    /// When they interrupt.
    pub coalescing: Coalescing,
    /// Receive offload: bytes of the largest aggregate with its headers, at most [`MOST_OFFLOAD`]; zero
    /// for none.
    pub offload: u32,
    /// Frames that a poll takes; at least one.
    pub budget: u32,
    /// What the work takes.
    pub cpu: CpuSpec,
    /// Whether and how the NIC pauses its switch when a ring fills up (802.3x); of the thresholds
    /// nothing is taken, they are the ring's.
    pub pause: Option<PauseSpec>,
}

impl ReceiveSpec {
    /// Each packet is at the host when its last bit is: no ring, no interrupt, no work.
    pub const DIRECT: Self = Self {
        queues: 1,
        hash: ReceiveHash::Even,
        ring: 1_024,
        coalescing: Coalescing::OFF,
        offload: 0,
        budget: 64,
        cpu: CpuSpec::FREE,
        pause: None,
    };

    /// Whether packets reach the host as if there were nothing.
    pub fn is_direct(&self) -> bool {
        self.coalescing == Coalescing::OFF && self.offload == 0 && self.cpu.is_free()
    }
}

/// What a host's receive side and processor have done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HostStats {
    /// Interrupts.
    pub interrupts: u64,
    /// Polls, those without an interrupt included.
    pub polls: u64,
    /// Frames with payload that polls took.
    pub data_frames: u64,
    /// Packets with payload that the host was given: aggregates, or single frames.
    pub aggregates: u64,
    /// Packets without payload that the host was given.
    pub acks: u64,
    /// Reads by applications.
    pub calls: u64,
    /// Time that the cores have worked, summed, those that do something else included.
    pub busy: SimTime,
    /// Cores, those included.
    pub cores: u32,
}

impl HostStats {
    /// What was done since it was `before`.
    #[must_use]
    pub fn since(&self, before: &Self) -> Self {
        Self {
            interrupts: self.interrupts - before.interrupts,
            polls: self.polls - before.polls,
            data_frames: self.data_frames - before.data_frames,
            aggregates: self.aggregates - before.aggregates,
            acks: self.acks - before.acks,
            calls: self.calls - before.calls,
            busy: self.busy - before.busy,
            cores: self.cores,
        }
    }
}

/// A packet as a poll hands it up.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Aggregate {
    pub(crate) slot: u32,
    pub(crate) flow: u32,
    pub(crate) payload: u32,
    pub(crate) frames: u32,
}

/// What is to be done next.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// Hand the packet in this slot to the host.
    Deliver(u32),
    /// A core polls: merge these, and give it what comes of it ([`Receiver::polled`]).
    Poll { core: usize, frames: Vec<u32> },
    /// Nothing until then.
    Wait(SimTime),
}

/// Whether a queue interrupts.
#[derive(Debug, PartialEq, Eq)]
enum Line {
    Enabled,
    /// A core polls it, or will.
    Masked,
}

#[derive(Debug)]
struct Queue {
    /// When each came, and its slot.
    ring: VecDeque<(SimTime, u32)>,
    line: Line,
}

/// Why a core polls a queue.
#[derive(Clone, Copy, Debug)]
enum Why {
    Interrupt,
    BudgetUsedUp,
}

#[derive(Debug)]
enum Work {
    None,
    /// The poll of a queue begins then.
    Starts {
        queue: usize,
        at: SimTime,
    },
    Polls {
        queue: usize,
        frames: u32,
        left: VecDeque<Aggregate>,
        /// The one in hand, and when it is done.
        current: Option<(SimTime, u32)>,
        /// That got data.
        flows: Vec<u32>,
    },
}

#[derive(Debug)]
struct Core {
    time: Time,
    waiting: VecDeque<(usize, Why)>,
    work: Work,
}

/// The receive side of a host at work.
#[derive(Debug)]
pub(crate) struct Receiver {
    spec: ReceiveSpec,
    queues: Vec<Queue>,
    cores: Vec<Core>,
    stats: HostStats,
    /// Which core handed up a packet last, and when.
    last: (usize, SimTime),
    /// Time of its event; [`SimTime::MAX`] for none. Another one is stale.
    pub(crate) armed: SimTime,
}

impl Receiver {
    pub(crate) fn new(spec: ReceiveSpec) -> Self {
        let queue = |_| Queue {
            ring: VecDeque::new(),
            line: Line::Enabled,
        };
        let core = |_| Core {
            time: Time::default(),
            waiting: VecDeque::new(),
            work: Work::None,
        };
        Self {
            queues: (0..spec.queues.max(1)).map(queue).collect(),
            cores: (0..spec.cpu.cores.max(1)).map(core).collect(),
            spec,
            stats: HostStats::default(),
            last: (0, SimTime::MAX),
            armed: SimTime::MAX,
        }
    }

    /// Bytes of the largest aggregate.
    pub(crate) fn offload(&self) -> u32 {
        self.spec.offload
    }

    /// The largest aggregate has so many bytes from the next poll on; none for zero.
    pub(crate) fn set_offload(&mut self, most: u32) {
        self.spec.offload = most;
    }

    /// Which queue a packet's flow has.
    pub(crate) fn queue_of<P: Packet>(&self, packet: &P) -> usize {
        match self.spec.hash {
            ReceiveHash::Even => spread(packet.flow_hash(), self.queues.len()),
            ReceiveHash::Toeplitz => rss::queue(packet.rss_hash(), self.queues.len()),
        }
    }

    /// A frame arrives at a [queue](Self::queue_of); false if its ring is full.
    pub(crate) fn arrive(&mut self, now: SimTime, slot: u32, at: usize) -> bool {
        let ring = self.spec.ring.max(1) as usize;
        let queue = &mut self.queues[at];
        let fits = queue.ring.len() < ring;
        if fits {
            queue.ring.push_back((now, slot));
        }
        fits
    }

    /// Frames in the fullest ring, if the NIC pauses its switch because of them.
    pub(crate) fn pauses_at(&self) -> Option<usize> {
        self.spec.pause?;
        self.queues.iter().map(|queue| queue.ring.len()).max()
    }

    /// Takes what the rings hold: the NIC has lost it.
    pub(crate) fn lose_rings(&mut self) -> Vec<u32> {
        let rings = self.queues.iter_mut().flat_map(|q| q.ring.drain(..));
        rings.map(|(_, slot)| slot).collect()
    }

    /// When a queue interrupts, if nothing more comes.
    fn interrupt_at(&self, queue: &Queue) -> SimTime {
        let Coalescing { frames, age } = self.spec.coalescing;
        match queue.ring.front() {
            Some(&(first, _)) if queue.line == Line::Enabled => {
                let enough = (frames as usize).checked_sub(1);
                let filled = enough.and_then(|n| queue.ring.get(n)).map(|(at, _)| *at);
                let old = (age != SimTime::ZERO).then(|| first + age);
                // With neither every frame interrupts.
                let due = filled.into_iter().chain(old).min();
                due.unwrap_or(if frames == 0 { first } else { SimTime::MAX })
            }
            _ => SimTime::MAX,
        }
    }

    /// What is to be done at `now`; to be asked again until it says to wait.
    pub(crate) fn step(&mut self, now: SimTime) -> Step {
        loop {
            self.interrupt(now);
            let mut moved = false;
            for core in 0..self.cores.len() {
                match self.work(core, now) {
                    Moved::Handed(step) => return step,
                    Moved::On => moved = true,
                    Moved::Not => {}
                }
            }
            if !moved {
                return Step::Wait(self.next());
            }
        }
    }

    /// Raises the interrupts that are due.
    fn interrupt(&mut self, now: SimTime) {
        for at in 0..self.queues.len() {
            if self.interrupt_at(&self.queues[at]) <= now {
                self.queues[at].line = Line::Masked;
                self.stats.interrupts += 1;
                let core = at % self.cores.len();
                self.cores[core].waiting.push_back((at, Why::Interrupt));
            }
        }
    }

    /// Goes on with a core's work.
    fn work(&mut self, at: usize, now: SimTime) -> Moved {
        let cpu = self.spec.cpu;
        let core = &mut self.cores[at];
        match &mut core.work {
            Work::None => {
                let Some((queue, why)) = core.waiting.pop_front() else {
                    return Moved::Not;
                };
                let cost = match why {
                    Why::Interrupt => cpu.interrupt,
                    Why::BudgetUsedUp => SimTime::ZERO,
                };
                let at = core.time.take(now, cost);
                core.work = Work::Starts { queue, at };
                Moved::On
            }
            Work::Starts { at: begin, .. } if *begin > now => Moved::Not,
            &mut Work::Starts { queue, .. } => {
                let ring = &mut self.queues[queue].ring;
                let take = ring.len().min(self.spec.budget.max(1) as usize);
                let frames = ring.drain(..take).map(|(_, slot)| slot).collect();
                core.work = Work::Polls {
                    queue,
                    frames: take as u32,
                    left: VecDeque::new(),
                    current: None,
                    flows: Vec::new(),
                };
                self.stats.polls += 1;
                Moved::Handed(Step::Poll { core: at, frames })
            }
            Work::Polls {
                queue,
                frames,
                left,
                current,
                flows,
            } => {
                if let Some((done, slot)) = *current {
                    if done > now {
                        return Moved::Not;
                    }
                    *current = None;
                    self.last = (at, now);
                    return Moved::Handed(Step::Deliver(slot));
                }
                if let Some(next) = left.pop_front() {
                    if next.payload == 0 {
                        self.stats.acks += 1;
                    } else {
                        self.stats.aggregates += 1;
                        self.stats.data_frames += u64::from(next.frames);
                        if !flows.contains(&next.flow) {
                            flows.push(next.flow);
                        }
                    }
                    let done = core.time.take(now, cpu.packet_cost(next.payload));
                    *current = Some((done, next.slot));
                    return Moved::On;
                }
                let (queue, frames, reads) = (*queue, *frames, flows.len() as u64);
                self.stats.calls += reads;
                let cost = SimTime::from_picos(reads.saturating_mul(cpu.call.as_picos()));
                core.time.take(now, cost);
                core.work = Work::None;
                if frames >= self.spec.budget.max(1) {
                    core.waiting.push_back((queue, Why::BudgetUsedUp));
                } else {
                    self.queues[queue].line = Line::Enabled;
                }
                Moved::On
            }
        }
    }

    /// What came of the frames of a core's poll.
    pub(crate) fn polled(&mut self, core: usize, aggregates: VecDeque<Aggregate>) {
        if let Work::Polls { left, .. } = &mut self.cores[core].work {
            *left = aggregates;
        }
    }

    /// The host sends a packet of `flow` with so much payload.
    pub(crate) fn sent(&mut self, now: SimTime, flow: u32, payload: u32) {
        let core = match self.last {
            (core, at) if at == now => core,
            _ => spread(flow, self.cores.len()),
        };
        let cost = self.spec.cpu.packet_cost(payload);
        self.cores[core].time.take(now, cost);
    }

    /// When something is to be done, if nothing comes.
    fn next(&self) -> SimTime {
        let queues = self.queues.iter().map(|queue| self.interrupt_at(queue));
        let cores = self.cores.iter().map(|core| match &core.work {
            Work::None => SimTime::MAX,
            Work::Starts { at, .. } => *at,
            Work::Polls { current, .. } => current.map_or(SimTime::ZERO, |(done, _)| done),
        });
        queues.chain(cores).min().unwrap_or(SimTime::MAX)
    }

    /// What it has done until `now`.
    pub(crate) fn stats(&self, now: SimTime) -> HostStats {
        let other = self.spec.cpu.other;
        let by_others = now.as_picos().saturating_mul(other.into());
        let busy = self.cores.iter().map(|core| core.time.busy(now));
        HostStats {
            busy: busy.fold(SimTime::from_picos(by_others), |sum, busy| sum + busy),
            cores: self.cores.len() as u32 + other,
            ..self.stats
        }
    }
}

enum Moved {
    Not,
    On,
    Handed(Step),
}

/// One of `n`, by a hash.
fn spread(hash: u32, n: usize) -> usize {
    ((u64::from(hash) * n as u64) >> 32) as usize
}
