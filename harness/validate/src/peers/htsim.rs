//! The rules of htsim's TCP, played: a sender of whole segments, a receiver of cumulative ACKs, a
//! port and a timer, without headers, handshakes or anything random.
//!
//! After what htsim's sources do (csg-htsim, `sim/tcp.cpp` and `sim/queue.cpp`): NewReno whose
//! every partial ACK restarts the timer and whose every ACK, a duplicate too, computes the timeout
//! anew; after a timeout everything is sent again; the packet in service takes buffer space; and
//! all timers are looked at together, once in a period.

use narrows_experiment::scenario::ScenarioError;
use std::cmp::Reverse;
use std::collections::{BTreeSet, BinaryHeap, VecDeque};

const BLOCKS: u64 = 20;
const SRU: u64 = 256 << 10;
/// Payload of a segment, its packet, and an ACK, in bytes.
const MSS: u64 = 1_460;
const PACKET: u64 = 1_500;
const ACK: u64 = 40;
const BUFFER: u64 = 64 << 10;
/// Of a link, one way, in nanoseconds as all times here.
const DELAY: u64 = 25_000;
const LIMIT: u64 = 600_000_000_000;

/// What a run depends on.
#[derive(Clone, Copy, Debug)]
pub(super) struct Rules {
    pub(super) rate_gbps: u32,
    pub(super) servers: u32,
    pub(super) rto_min_ms: u32,
    /// How often the timers are looked at, in nanoseconds; zero is always.
    pub(super) period: u64,
}

impl Rules {
    /// Goodput in Mb/s and timeouts.
    ///
    /// # Errors
    /// If the blocks do not end within ten minutes.
    pub(super) fn play(self) -> Result<(f64, u64), ScenarioError> {
        Game::new(self).play()
    }
}

/// What happens to which server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Answer(usize),
    AtPort(Packet),
    Leaves,
    Arrives(Packet),
    /// Acknowledges all below `seq`, for a packet sent when.
    Ack(Packet),
    Look,
    LookAt(usize),
    TimedOut(usize),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Packet {
    server: usize,
    seq: u64,
    sent_at: u64,
}

/// A server's sender, and the client's receiver for it.
#[derive(Clone, Debug, Default)]
struct Flow {
    una: u64,
    nxt: u64,
    asked: u64,
    cwnd: u64,
    ssthresh: u64,
    recover: u64,
    recovering: bool,
    dup_acks: u32,
    srtt: u64,
    rttvar: u64,
    rto: u64,
    deadline: Option<u64>,
    timing_out: bool,
    nic_free: u64,
    received: u64,
    above: BTreeSet<u64>,
}

impl Flow {
    fn new(rto: u64) -> Self {
        Self {
            cwnd: 10 * MSS,
            ssthresh: 100 * MSS,
            rto,
            ..Self::default()
        }
    }

    fn measure(&mut self, rtt: u64, floor: u64) {
        if self.srtt == 0 {
            (self.srtt, self.rttvar) = (rtt, rtt / 2);
        } else {
            self.rttvar = 3 * self.rttvar / 4 + rtt.abs_diff(self.srtt) / 4;
            self.srtt = 7 * self.srtt / 8 + rtt / 8;
        }
        self.rto = (self.srtt + 4 * self.rttvar).max(floor);
    }

    /// A segment for each ACK in slow start, `MSS^2 / cwnd` after it.
    fn grow(&mut self) {
        let Some(unused) = (self.una + self.cwnd).checked_sub(self.nxt) else {
            return;
        };
        let counted = unused.min(MSS);
        if self.cwnd < self.ssthresh {
            self.cwnd += counted.min(self.ssthresh - self.cwnd);
        } else {
            self.cwnd += counted * MSS / self.cwnd;
        }
    }

    fn halve(&mut self) {
        self.ssthresh = (self.cwnd / 2).max(2 * MSS);
    }

    fn deflated(&self) -> u64 {
        self.ssthresh.min(self.nxt.saturating_sub(self.una) + MSS)
    }
}

#[derive(Debug)]
struct Game {
    rules: Rules,
    now: u64,
    /// By time, and of one instant in the order in which they were made.
    events: BinaryHeap<Reverse<(u64, u64, Event)>>,
    made: u64,
    flows: Vec<Flow>,
    port: VecDeque<Packet>,
    blocks: u64,
    timeouts: u64,
}

impl Game {
    fn new(rules: Rules) -> Self {
        let floor = u64::from(rules.rto_min_ms) * 1_000_000;
        Self {
            rules,
            now: 0,
            events: BinaryHeap::new(),
            made: 0,
            flows: (0..rules.servers).map(|_| Flow::new(floor)).collect(),
            port: VecDeque::new(),
            blocks: 0,
            timeouts: 0,
        }
    }

    fn play(mut self) -> Result<(f64, u64), ScenarioError> {
        if self.rules.period > 0 {
            self.after(self.rules.period, Event::Look);
        }
        self.ask();
        while let Some(Reverse((at, _, event))) = self.events.pop() {
            if at > LIMIT {
                break;
            }
            self.now = at;
            self.happen(event);
            if self.blocks == BLOCKS {
                let bits = u64::from(self.rules.servers) * SRU * BLOCKS * 8;
                return Ok((bits as f64 * 1e3 / self.now as f64, self.timeouts));
            }
        }
        let what = format!("htsim's rules did not end: {:?}", self.rules);
        Err(ScenarioError::Internal(what))
    }

    fn after(&mut self, wait: u64, event: Event) {
        self.made += 1;
        let entry = (self.now + wait, self.made, event);
        self.events.push(Reverse(entry));
    }

    fn happen(&mut self, event: Event) {
        match event {
            Event::Answer(server) => {
                self.flows[server].asked += SRU.div_ceil(MSS) * MSS;
                self.send(server);
            }
            Event::AtPort(packet) => {
                if (self.port.len() as u64 + 1) * PACKET <= BUFFER {
                    self.port.push_back(packet);
                    if self.port.len() == 1 {
                        self.after(self.time_of(PACKET), Event::Leaves);
                    }
                }
            }
            Event::Leaves => {
                if let Some(packet) = self.port.pop_front() {
                    self.after(DELAY, Event::Arrives(packet));
                }
                if !self.port.is_empty() {
                    self.after(self.time_of(PACKET), Event::Leaves);
                }
            }
            Event::Arrives(packet) => self.arrive(packet),
            Event::Ack(ack) => self.acknowledge(ack),
            Event::Look => {
                (0..self.flows.len()).for_each(|server| self.look_at(server));
                self.after(self.rules.period, Event::Look);
            }
            Event::LookAt(server) => self.look_at(server),
            Event::TimedOut(server) => self.time_out(server),
        }
    }

    fn time_of(&self, bytes: u64) -> u64 {
        bytes * 8 / u64::from(self.rules.rate_gbps)
    }

    /// Ask all servers for a block.
    fn ask(&mut self) {
        for server in 0..self.flows.len() {
            self.after(2 * DELAY, Event::Answer(server));
        }
    }

    fn arrive(&mut self, packet: Packet) {
        let flow = &mut self.flows[packet.server];
        if packet.seq == flow.received {
            flow.received += MSS;
            while flow.above.remove(&flow.received) {
                flow.received += MSS;
            }
        } else if packet.seq > flow.received {
            flow.above.insert(packet.seq);
        }
        let seq = flow.received;
        let back = 2 * (DELAY + self.time_of(ACK));
        self.after(back, Event::Ack(Packet { seq, ..packet }));
        let complete = (self.blocks + 1) * SRU.div_ceil(MSS) * MSS;
        if self.flows.iter().all(|f| f.received >= complete) {
            self.blocks += 1;
            self.ask();
        }
    }

    /// Start the timer.
    fn arm(&mut self, server: usize) {
        let flow = &mut self.flows[server];
        flow.deadline = Some(self.now + flow.rto);
        if self.rules.period == 0 {
            self.after(self.flows[server].rto + 1, Event::LookAt(server));
        }
    }

    fn transmit(&mut self, server: usize, seq: u64) {
        let time = self.time_of(PACKET);
        let flow = &mut self.flows[server];
        flow.nic_free = flow.nic_free.max(self.now) + time;
        let wait = flow.nic_free - self.now + DELAY;
        let idle = flow.deadline.is_none();
        let sent_at = self.now;
        self.after(
            wait,
            Event::AtPort(Packet {
                server,
                seq,
                sent_at,
            }),
        );
        if idle {
            self.arm(server);
        }
    }

    fn send(&mut self, server: usize) {
        loop {
            let flow = &mut self.flows[server];
            let seq = flow.nxt;
            if flow.una + flow.cwnd < seq + MSS || seq >= flow.asked {
                return;
            }
            flow.nxt += MSS;
            self.transmit(server, seq);
        }
    }

    fn acknowledge(&mut self, ack: Packet) {
        let server = ack.server;
        let floor = u64::from(self.rules.rto_min_ms) * 1_000_000;
        let now = self.now;
        let flow = &mut self.flows[server];
        if ack.seq < flow.una {
            return;
        }
        flow.measure(now - ack.sent_at, floor);
        if ack.seq == flow.una {
            self.duplicate(server);
            return;
        }
        if ack.seq >= flow.nxt {
            flow.nxt = ack.seq;
            flow.deadline = None;
        } else {
            self.arm(server);
        }
        let flow = &mut self.flows[server];
        let advance = ack.seq - flow.una;
        flow.una = ack.seq;
        if !flow.recovering {
            flow.dup_acks = 0;
            flow.grow();
        } else if flow.una >= flow.recover {
            flow.dup_acks = 0;
            flow.recovering = false;
            flow.cwnd = flow.deflated();
        } else {
            flow.cwnd = flow.cwnd.saturating_sub(advance) + MSS;
            let hole = flow.una;
            self.transmit(server, hole);
        }
        self.send(server);
    }

    fn duplicate(&mut self, server: usize) {
        let flow = &mut self.flows[server];
        if flow.recovering {
            flow.cwnd += MSS;
            self.send(server);
            return;
        }
        if flow.una >= flow.nxt {
            return;
        }
        flow.dup_acks += 1;
        if flow.dup_acks != 3 || flow.una < flow.recover {
            return;
        }
        flow.halve();
        flow.cwnd = flow.ssthresh + 3 * MSS;
        flow.recovering = true;
        flow.recover = flow.nxt;
        let hole = flow.una;
        self.transmit(server, hole);
    }

    fn look_at(&mut self, server: usize) {
        let period = self.rules.period.max(1);
        let now = self.now;
        let flow = &mut self.flows[server];
        let Some(deadline) = flow.deadline.filter(|d| now > *d) else {
            return;
        };
        if flow.timing_out {
            return;
        }
        flow.timing_out = true;
        flow.rto *= 2;
        let mut late = now - deadline;
        while late > period {
            late /= 2;
        }
        self.after((period - late) / 200, Event::TimedOut(server));
        self.arm(server);
    }

    fn time_out(&mut self, server: usize) {
        let flow = &mut self.flows[server];
        flow.timing_out = false;
        if flow.una >= flow.asked {
            return;
        }
        self.timeouts += 1;
        if flow.recovering {
            flow.cwnd = flow.deflated();
        }
        flow.halve();
        flow.cwnd = MSS;
        flow.recovering = false;
        flow.dup_acks = 0;
        flow.recover = flow.nxt;
        flow.nxt = flow.una + MSS;
        let first = flow.una;
        self.transmit(server, first);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A lone server loses nothing: a block takes its time on the link and a round trip.
    #[test]
    fn without_loss_the_link_is_full() {
        let rules = Rules {
            rate_gbps: 1,
            servers: 1,
            rto_min_ms: 200,
            period: 0,
        };
        let (goodput, timeouts) = rules.play().unwrap();
        assert_eq!(timeouts, 0);
        assert!((850.0..973.4).contains(&goodput), "{goodput}");
    }

    /// What is looked at rarely times out rarely.
    #[test]
    fn fewer_looks_are_fewer_timeouts() {
        let play = |period| {
            let rules = Rules {
                rate_gbps: 1,
                servers: 8,
                rto_min_ms: 1,
                period,
            };
            rules.play().unwrap().1
        };
        assert!(play(0) > 2 * play(1_000_000));
    }
}
