//! Random networks and configurations: two connections under what a network may do, and what
//! must hold for both at every step.

use super::{Conn, Fate, Pair, Path, bytes};
use narrows::config::{
    AckPolicy, Buffers, EcnMode, IdleRestart, InitialWindow, Lifetimes, PacingMode,
    RecoverySending, SpuriousDetection, TcpConfig, TimestampMode,
};
use narrows::congestion::registry::{CongestionRegistry, RtoRegistry};
use narrows::congestion::{CaState, CongestionControl};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, State};
use narrows::recovery::SenderStats;
use narrows::rng::Rng;
use narrows::wire::Ecn;
use narrows::{Duration, Instant};
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;

/// What the network does, in per mille of the packets.
#[derive(Clone, Copy, Debug)]
pub struct Network {
    pub seed: u64,
    pub loss: u64,
    pub mark: u64,
    pub duplicate: u64,
    pub late: u64,
    /// One bit is wrong.
    pub corrupt: u64,
    /// How late a late packet may be.
    pub lateness: Duration,
    pub delay: Duration,
    /// After so many packets nothing arrives any more.
    pub stops_after: Option<u64>,
    /// Only every n-th packet of a direction arrives.
    pub one_in: Option<u64>,
}

pub const CLEAN: Network = Network {
    seed: 1,
    loss: 0,
    mark: 0,
    duplicate: 0,
    late: 0,
    corrupt: 0,
    lateness: Duration::ZERO,
    delay: Duration::from_micros(50),
    stops_after: None,
    one_in: None,
};

#[derive(Clone, Debug)]
pub struct Case {
    pub client: TcpConfig,
    pub server: TcpConfig,
    pub network: Network,
    /// Bytes from client to server, and back.
    pub sizes: [usize; 2],
    /// What `client` and `server` were made from, shown when a case fails.
    pub choices: [Choice; 2],
}

#[derive(Debug, PartialEq, Eq)]
pub enum Outcome {
    Delivered,
    Reported,
}

/// What one end must never do.
#[derive(Default)]
pub struct Watch {
    edge: u64,
    /// In flight before the present reduction.
    flight: u64,
    pipe: u64,
    cwnd: u64,
    una: u64,
    /// Segments that may still leave whatever the window says: pacing holds them back, too.
    owed: u64,
    stats: SenderStats,
}

impl Watch {
    pub fn check(&mut self, conn: &Conn, who: &str) {
        let snd = conn.sender();
        snd.scoreboard().check_invariants();
        if snd.nxt() > snd.una()
            && matches!(
                conn.state(),
                State::Established
                    | State::FinWait1
                    | State::CloseWait
                    | State::LastAck
                    | State::Closing
            )
        {
            assert!(
                snd.rto_deadline().is_some(),
                "{who}: data outstanding, no retransmission timer"
            );
        }
        self.edge = self.edge.max(snd.una() + conn.peer_window());
        // One byte of a window probe, and the FIN.
        assert!(
            snd.nxt() <= self.edge + 2,
            "{who}: {} sent beyond the peer's window: una {}, edge {}, {:?}",
            snd.nxt(),
            snd.una(),
            self.edge,
            conn.state(),
        );
        let (pipe, cwnd, mss) = (
            snd.scoreboard().pipe().get(),
            snd.congestion().cwnd().get(),
            snd.mss().get(),
        );
        assert!(cwnd >= mss, "{who}: cwnd below a segment");
        let stats = conn.sender_stats();
        // Taking back LOST marks, or SACKs made up of duplicate ACKs, puts into the pipe what was
        // there all along. A fast retransmit, also of what was lost again, a timeout and a probe send
        // one segment whatever the window says.
        let taken_back = stats.undone != self.stats.undone || !conn.sack_in_use();
        let forced =
            |s: &SenderStats| s.fast_recoveries + s.lost_again + s.timeouts + s.tail_loss_probes;
        let owed = self.owed + forced(&stats) - forced(&self.stats);
        // Many ACKs may have come in this step, and the window may have grown by as much as they
        // acknowledged before it was cut.
        let grown = self.cwnd + (snd.una() - self.una);
        let bound = (cwnd.max(grown) + 2 * mss).max(self.pipe) + owed * mss;
        // A reduction under way lets out less than is delivered, but perhaps later (pacing).
        let reducing = !matches!(snd.ca_state(), CaState::Open | CaState::Disorder);
        if !reducing {
            self.flight = pipe;
        } else if stats.fast_recoveries != self.stats.fast_recoveries {
            // It began within this step, with what is in flight now or more.
            self.flight = self.flight.max(pipe);
        }
        let bound = if reducing {
            bound.max(self.flight.max(grown) + 2 * mss)
        } else {
            bound
        };
        assert!(
            pipe <= bound || pipe <= self.pipe || taken_back,
            "{who}: {pipe} in flight, window {cwnd}, was {} {}; {:?} {stats:?} {:?}",
            self.pipe,
            self.cwnd,
            snd.ca_state(),
            self.stats,
        );
        assert!(snd.una() >= self.una && snd.una() <= snd.nxt());
        *self = Self {
            edge: self.edge,
            flight: self.flight,
            pipe,
            cwnd,
            una: snd.una(),
            owed: owed.saturating_sub(stats.segments - self.stats.segments),
            stats,
        };
    }
}

/// What `network` does to each packet.
pub fn path(network: Network) -> Path {
    let mut rng = Rng::new(network.seed);
    let mut total = 0;
    Box::new(move |seen, n| {
        total += 1;
        let dice = [rng.next_u64() % 1000, rng.next_u64() % 1000, rng.next_u64()];
        let dead = network.stops_after.is_some_and(|k| total > k);
        let starved = network.one_in.is_some_and(|k| n % k != 0);
        if dead || starved || dice[0] < network.loss {
            Fate::Drop
        } else if (dice[2] >> 32) % 1000 < network.corrupt {
            Fate::Corrupt(dice[2])
        } else if dice[1] < network.duplicate {
            Fate::Duplicate
        } else if dice[1] < network.duplicate + network.late {
            let late = dice[2] % network.lateness.as_nanos().max(1);
            Fate::Delay(Duration::from_nanos(late))
        } else if dice[1] < network.duplicate + network.late + network.mark
            && seen.ip.ecn != Ecn::NotEct
        {
            Fate::Mark
        } else {
            Fate::Pass
        }
    })
}

fn over(conn: &Conn) -> bool {
    matches!(conn.state(), State::Closed(_))
}

/// Both ends send what they have and close; how it ended.
pub fn run(case: &Case) -> (Outcome, Pair) {
    run_under(case, path(case.network))
}

/// The same on a path of the caller's own.
pub fn run_under(case: &Case, mut path: Path) -> (Outcome, Pair) {
    let arrivals: Rc<RefCell<BinaryHeap<Reverse<Instant>>>> = Rc::default();
    let mut p = Pair::new(case.client.clone(), case.server.clone());
    let delay = case.network.delay;
    p.delay = delay;
    let due = Rc::clone(&arrivals);
    p.path = Box::new(move |seen, n| {
        let fate = path(seen, n);
        let late = match fate {
            Fate::Delay(late) => late,
            _ => Duration::ZERO,
        };
        due.borrow_mut().push(Reverse(seen.at + delay + late));
        fate
    });
    let (up, down) = (bytes(case.sizes[0]), bytes(case.sizes[1]));
    let (mut offered_up, mut offered_down) = (0, 0);
    let mut watch = [Watch::default(), Watch::default()];
    let limit = p.now + Duration::from_secs(1_000_000);
    let mut steps = 0u64;
    loop {
        p.settle();
        if offered_up < up.len() {
            offered_up += p
                .client
                .send(&up[offered_up..], up.len() - offered_up)
                .unwrap_or(0);
        }
        if offered_up == up.len() && p.client_events.contains(&Event::Connected) {
            p.client.close(p.now);
        }
        let now = p.now;
        if let Some(server) = &mut p.server {
            if offered_down < down.len() {
                offered_down += server
                    .send(&down[offered_down..], down.len() - offered_down)
                    .unwrap_or(0);
            }
            if offered_down == down.len() && p.server_events.contains(&Event::Connected) {
                server.close(now);
            }
        }
        p.settle();
        watch[0].check(&p.client, "client");
        if let Some(server) = &p.server {
            watch[1].check(server, "server");
        }
        let timers = [
            p.client.poll_timeout(),
            p.server.as_ref().and_then(|s| s.poll_timeout()),
        ];
        let packet = arrivals.borrow_mut().pop().map(|Reverse(at)| at);
        let next = timers.into_iter().flatten().chain(packet).min();
        if let Some(packet) = packet
            && next != Some(packet)
        {
            arrivals.borrow_mut().push(Reverse(packet));
        }
        let Some(next) = next.filter(|at| *at <= limit) else {
            break;
        };
        steps += 1;
        assert!(steps < 3_000_000, "no end: {:?} {:?}", p.client, p.server);
        p.run_until(next.max(p.now));
    }
    let whole = p.server_got == up && p.client_got == down;
    let prefix = up.starts_with(&p.server_got) && down.starts_with(&p.client_got);
    assert!(prefix, "a stream was corrupted");
    let clean = |conn: &Conn| conn.state() == State::Closed(CloseReason::Finished);
    // The ACK of the last FIN may be lost until the end that owes it has left TIME-WAIT. Its host
    // would answer the FIN with a RST then; here nobody answers.
    let finished = |conn: &Conn, peer: Option<&Conn>| {
        let last = matches!(conn.state(), State::LastAck | State::Closing);
        clean(conn) || (last && peer.is_some_and(clean))
    };
    let (client, server) = (&p.client, p.server.as_ref());
    let both_finished =
        finished(client, server) && server.is_some_and(|s| finished(s, Some(client)));
    let both_over = over(client) && server.is_none_or(over);
    assert!(
        both_over || both_finished,
        "neither delivered nor told: {:?} {:?}; got {} of {} and {} of {}",
        p.client,
        p.server,
        p.server_got.len(),
        up.len(),
        p.client_got.len(),
        down.len()
    );
    if whole && both_finished {
        return (Outcome::Delivered, p);
    }
    (Outcome::Reported, p)
}

pub const CONTROLS: [&str; 6] = [
    "reno",
    "cubic",
    "dctcp",
    "fixed:7",
    "cubic:slow-start=standard",
    "dctcp:floor=1",
];
pub const TIMERS: [&str; 5] = ["linux", "rfc6298", "1ms", "fine", "fine-randomized"];

/// How a connection is configured, by small numbers.
#[derive(Clone, Copy, Debug)]
pub struct Choice {
    pub control: usize,
    pub timer: usize,
    pub detector: usize,
    pub sack: bool,
    pub stamps: u8,
    pub prr: bool,
    pub limited_transmit: bool,
    pub spurious: bool,
    pub ecn: u8,
    pub ack: u8,
    pub nagle: bool,
    pub mss: u16,
    pub send_buffer: usize,
    pub recv_buffer: usize,
    pub window: u32,
    pub tick: u8,
    pub paced: bool,
    pub ranges: usize,
    /// PRR, where it is on, as Linux had it from 4.3 on.
    pub old_prr: bool,
}

impl Choice {
    pub const PLAIN: Self = Self {
        control: 0,
        timer: 0,
        detector: 3,
        sack: true,
        stamps: 1,
        prr: true,
        limited_transmit: true,
        spurious: true,
        ecn: 1,
        ack: 1,
        nagle: true,
        mss: 1460,
        send_buffer: 1 << 18,
        recv_buffer: 1 << 18,
        window: 10,
        tick: 0,
        paced: false,
        ranges: 256,
        old_prr: false,
    };

    pub fn config(self) -> TcpConfig {
        let detectors = narrows::recovery::detector::standard();
        let names: Vec<_> = detectors.entries().map(|entry| entry.name()).collect();
        TcpConfig {
            congestion: CongestionRegistry::standard()
                .get(CONTROLS[self.control % CONTROLS.len()])
                .unwrap(),
            rto: RtoRegistry::standard()
                .get(TIMERS[self.timer % TIMERS.len()])
                .unwrap(),
            detector: detectors.get(names[self.detector % names.len()]).unwrap(),
            recovery: match (self.prr, self.old_prr) {
                (true, false) => RecoverySending::Prr,
                (true, true) => RecoverySending::PrrLinux43,
                (false, _) => RecoverySending::Pipe,
            },
            limited_transmit: self.limited_transmit,
            spurious: if self.spurious {
                SpuriousDetection::default()
            } else {
                SpuriousDetection::OFF
            },
            mss: self.mss,
            sack: self.sack,
            timestamps: match self.stamps % 3 {
                0 => TimestampMode::Off,
                1 => TimestampMode::Millis,
                _ => TimestampMode::Micros,
            },
            ecn: match self.ecn % 4 {
                0 => EcnMode::Off,
                1 => EcnMode::Accept,
                2 => EcnMode::Classic,
                _ => EcnMode::Dctcp,
            },
            initial_window: InitialWindow::Segments(self.window),
            idle_restart: IdleRestart::Rfc5681,
            nagle: self.nagle,
            ack: match self.ack % 3 {
                0 => AckPolicy::IMMEDIATE,
                1 => AckPolicy::default(),
                _ => AckPolicy {
                    delay: Duration::from_millis(5),
                    every: 4,
                    quick_acks: 0,
                },
            },
            buffers: Buffers {
                send: self.send_buffer,
                recv: self.recv_buffer,
                max_out_of_order_ranges: Some(self.ranges),
                ..Buffers::default()
            },
            timer_tick: Duration::from_millis([0, 0, 1, 10][usize::from(self.tick) % 4]),
            lifetimes: Lifetimes {
                syn_retries: 1_000_000,
                syn_retry_time: Duration::ZERO,
                data_retries: 1_000_000,
                // The last ACK may get lost very often.
                time_wait: Duration::from_secs(20_000),
                fin_wait_2: None,
                ..Lifetimes::default()
            },
            pacing: if self.paced {
                PacingMode::On {
                    slow_start_gain: 200,
                    avoidance_gain: 120,
                }
            } else {
                PacingMode::Off
            },
            ..TcpConfig::default()
        }
    }
}
