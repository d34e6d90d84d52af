//! Random networks, random configurations: both byte streams arrive whole and both ends close,
//! or both ends are told why not.

mod pair;

use narrows::buffer::{RecvRing, SendRing};
use narrows::config::{
    AckPolicy, EcnMode, IdleRestart, InitialWindow, Keepalive, PacingMode, RecoverySending,
    SpuriousDetection, TcpConfig, TimestampMode,
};
use narrows::congestion::registry::{CongestionRegistry, RtoRegistry};
use narrows::congestion::{CaState, CongestionControl};
use narrows::conn::state::{CloseReason, State};
use narrows::conn::{Boxed, Connection, Event};
use narrows::recovery::SenderStats;
use narrows::rng::Rng;
use narrows::{Duration, Instant};
use pair::{Fate, Pair, bytes};
use proptest::prelude::*;
use std::cell::RefCell;
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::rc::Rc;
use std::sync::Arc;

type Conn = Connection<Boxed<SendRing, RecvRing>>;

/// What the network does, in per mille of the packets.
#[derive(Clone, Copy, Debug)]
struct Network {
    seed: u64,
    loss: u64,
    mark: u64,
    duplicate: u64,
    late: u64,
    /// How late a late packet may be.
    lateness: Duration,
    delay: Duration,
    /// After so many packets nothing arrives any more.
    stops_after: Option<u64>,
    /// Only every n-th packet of a direction arrives.
    one_in: Option<u64>,
}

const CLEAN: Network = Network {
    seed: 1,
    loss: 0,
    mark: 0,
    duplicate: 0,
    late: 0,
    lateness: Duration::ZERO,
    delay: Duration::from_micros(50),
    stops_after: None,
    one_in: None,
};

#[derive(Clone, Debug)]
struct Case {
    client: TcpConfig,
    server: TcpConfig,
    network: Network,
    /// Bytes from client to server, and back.
    sizes: [usize; 2],
    #[allow(dead_code)] // Shown when a case fails.
    choices: [Choice; 2],
}

#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    Delivered,
    Told,
}

/// What one end must never do.
#[derive(Default)]
struct Watch {
    edge: u64,
    /// In flight before the present reduction.
    flight: u64,
    pipe: u64,
    cwnd: u64,
    una: u64,
    stats: SenderStats,
}

impl Watch {
    fn check(&mut self, conn: &Conn, who: &str) {
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
        // there all along. A fast retransmit, a timeout and a probe send one segment whatever the
        // window says.
        let taken_back = stats.undone != self.stats.undone || !conn.sack_in_use();
        let forced = stats.fast_recoveries + stats.timeouts + stats.tail_loss_probes
            - (self.stats.fast_recoveries + self.stats.timeouts + self.stats.tail_loss_probes);
        // Many ACKs may have come in this step, and the window may have grown by as much as they
        // acknowledged before it was cut.
        let grown = self.cwnd + (snd.una() - self.una);
        let bound = (cwnd.max(grown) + 2 * mss).max(self.pipe) + forced * mss;
        // A reduction under way lets out less than is delivered, but perhaps later (pacing).
        let reducing = !matches!(snd.ca_state(), CaState::Open | CaState::Disorder);
        if !reducing {
            self.flight = pipe;
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
            stats: *stats,
        };
    }
}

fn path(network: Network, arrivals: Rc<RefCell<BinaryHeap<Reverse<Instant>>>>) -> pair::Path {
    let mut rng = Rng::new(network.seed);
    let mut total = 0;
    Box::new(move |seen, n| {
        total += 1;
        let dice = [rng.next_u64() % 1000, rng.next_u64() % 1000, rng.next_u64()];
        let dead = network.stops_after.is_some_and(|k| total > k);
        let starved = network.one_in.is_some_and(|k| n % k != 0);
        let mut late = Duration::ZERO;
        let fate = if dead || starved || dice[0] < network.loss {
            Fate::Drop
        } else if dice[1] < network.duplicate {
            Fate::Duplicate
        } else if dice[1] < network.duplicate + network.late {
            late = Duration::from_nanos(dice[2] % network.lateness.as_nanos().max(1));
            Fate::Delay(late)
        } else if dice[1] < network.duplicate + network.late + network.mark
            && seen.ip.ecn != narrows::wire::Ecn::NotEct
        {
            Fate::Mark
        } else {
            Fate::Pass
        };
        arrivals
            .borrow_mut()
            .push(Reverse(seen.at + network.delay + late));
        fate
    })
}

fn over(conn: &Conn) -> bool {
    matches!(conn.state(), State::Closed(_))
}

fn run(case: &Case) -> (Outcome, Pair) {
    let arrivals = Rc::default();
    let mut p = Pair::new(case.client.clone(), case.server.clone());
    p.delay = case.network.delay;
    p.path = path(case.network, Rc::clone(&arrivals));
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
    let both_over = over(&p.client) && p.server.as_ref().is_none_or(over);
    assert!(
        both_over,
        "neither delivered nor told: {:?} {:?}; got {} of {} and {} of {}",
        p.client,
        p.server,
        p.server_got.len(),
        up.len(),
        p.client_got.len(),
        down.len()
    );
    let clean = |conn: &Conn| conn.state() == State::Closed(CloseReason::Finished);
    if whole && clean(&p.client) && p.server.as_ref().is_some_and(clean) {
        return (Outcome::Delivered, p);
    }
    (Outcome::Told, p)
}

const CONTROLS: [&str; 6] = [
    "reno",
    "cubic",
    "dctcp",
    "fixed:7",
    "cubic:slow-start=standard",
    "dctcp:floor=1",
];
const TIMERS: [&str; 5] = ["linux", "rfc6298", "1ms", "fine", "fine-randomized"];

/// How a connection is configured, by small numbers.
#[derive(Clone, Copy, Debug)]
struct Choice {
    control: usize,
    timer: usize,
    detector: usize,
    sack: bool,
    stamps: u8,
    prr: bool,
    limited_transmit: bool,
    spurious: bool,
    ecn: u8,
    ack: u8,
    nagle: bool,
    mss: u16,
    send_buffer: usize,
    recv_buffer: usize,
    window: u32,
    tick: u8,
    paced: bool,
    ranges: usize,
}

impl Choice {
    const PLAIN: Self = Self {
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
    };

    fn config(self) -> TcpConfig {
        let detectors = narrows::recovery::detector::registry();
        TcpConfig {
            congestion: CongestionRegistry::standard()
                .get(CONTROLS[self.control % CONTROLS.len()])
                .unwrap(),
            rto: RtoRegistry::standard()
                .get(TIMERS[self.timer % TIMERS.len()])
                .unwrap(),
            detector: Arc::new(detectors[self.detector % detectors.len()]),
            recovery: if self.prr {
                RecoverySending::Prr
            } else {
                RecoverySending::Pipe
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
            send_buffer: self.send_buffer,
            recv_buffer: self.recv_buffer,
            max_out_of_order_ranges: self.ranges,
            timer_tick: Duration::from_millis([0, 0, 1, 10][usize::from(self.tick) % 4]),
            syn_retries: 1_000_000,
            syn_retry_time: Duration::ZERO,
            data_retries: 1_000_000,
            // The last ACK may get lost very often.
            time_wait: Duration::from_secs(20_000),
            fin_wait_2: None,
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

fn choices() -> impl Strategy<Value = Choice> {
    (
        (
            0..CONTROLS.len(),
            0..TIMERS.len(),
            0usize..5,
            any::<bool>(),
            0u8..3,
            any::<bool>(),
            any::<bool>(),
            any::<bool>(),
        ),
        (
            0u8..4,
            0u8..3,
            any::<bool>(),
            100u16..1461,
            1_000usize..200_000,
            1_000usize..200_000,
            1u32..20,
            0u8..4,
        ),
        (any::<bool>(), 1usize..40),
    )
        .prop_map(|(a, b, c)| Choice {
            control: a.0,
            timer: a.1,
            detector: a.2,
            sack: a.3,
            stamps: a.4,
            prr: a.5,
            limited_transmit: a.6,
            spurious: a.7,
            ecn: b.0,
            ack: b.1,
            nagle: b.2,
            mss: b.3,
            send_buffer: b.4,
            recv_buffer: b.5,
            window: b.6,
            tick: b.7,
            paced: c.0,
            ranges: c.1,
        })
}

fn networks() -> impl Strategy<Value = Network> {
    (
        any::<u64>(),
        0u64..400,
        0u64..300,
        0u64..200,
        0u64..300,
        1u64..20_000,
        1u64..3_000,
    )
        .prop_map(
            |(seed, loss, mark, duplicate, late, lateness, delay)| Network {
                seed,
                // Light loss is the usual case.
                loss: if loss % 2 == 0 { loss / 8 } else { loss },
                mark,
                duplicate,
                late,
                lateness: Duration::from_micros(lateness),
                delay: Duration::from_micros(delay),
                ..CLEAN
            },
        )
}

fn cases() -> impl Strategy<Value = Case> {
    (
        choices(),
        choices(),
        networks(),
        0usize..60_000,
        0usize..20_000,
    )
        .prop_map(|(client, server, network, up, down)| Case {
            client: client.config(),
            server: server.config(),
            network,
            sizes: [up, down],
            choices: [client, server],
        })
}

proptest! {
    #![proptest_config(ProptestConfig { cases: std::env::var("PROPTEST_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(96), failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn both_streams_arrive_whole_and_both_ends_close(case in cases()) {
        let (outcome, p) = run(&case);
        prop_assert_eq!(outcome, Outcome::Delivered, "{:?} {:?}", p.client, p.server);
    }

    #[test]
    fn a_path_that_stops_for_ever_is_told_to_both_ends(case in cases(), stop in 1u64..200) {
        let probing = Some(Keepalive {
            idle: Duration::from_secs(100),
            interval: Duration::from_secs(10),
            probes: 3,
        });
        let mut case = case;
        for config in [&mut case.client, &mut case.server] {
            config.keepalive = probing;
            config.syn_retries = 5;
            config.syn_retry_time = Duration::ZERO;
            config.data_retries = 8;
            config.data_retry_time = Duration::ZERO;
        }
        case.network.stops_after = Some(stop);
        let _ = run(&case);
    }

    #[test]
    fn the_same_seed_gives_the_same_packets(case in cases()) {
        let (_, first) = run(&case);
        let (_, second) = run(&case);
        let same = format!("{:?}", first.log) == format!("{:?}", second.log);
        prop_assert!(same, "two runs differ");
    }
}

#[test]
fn every_control_with_every_detector_survives_loss_reordering_and_duplication() {
    let detectors = narrows::recovery::detector::registry().len();
    for control in 0..CONTROLS.len() {
        for detector in 0..detectors {
            for (sack, stamps) in [(false, 0), (false, 1), (true, 0), (true, 2)] {
                let choice = Choice {
                    control,
                    detector,
                    sack,
                    stamps,
                    ..Choice::PLAIN
                };
                let network = Network {
                    seed: (control * 31 + detector * 7) as u64,
                    loss: 30,
                    mark: 100,
                    duplicate: 20,
                    late: 100,
                    lateness: Duration::from_millis(1),
                    ..CLEAN
                };
                let case = Case {
                    client: choice.config(),
                    server: choice.config(),
                    network,
                    sizes: [150_000, 20_000],
                    choices: [choice; 2],
                };
                let (outcome, p) = run(&case);
                assert_eq!(outcome, Outcome::Delivered, "{choice:?} {:?}", p.client);
            }
        }
    }
}

/// What random cases found; each failed once.
#[test]
fn regressions() {
    let pinned = [(
        Choice {
            control: 2,
            timer: 2,
            detector: 0,
            sack: false,
            stamps: 0,
            prr: false,
            limited_transmit: false,
            spurious: false,
            ecn: 0,
            ack: 0,
            nagle: false,
            mss: 541,
            send_buffer: 4059,
            recv_buffer: 1443,
            window: 6,
            tick: 0,
            paced: false,
            ranges: 1,
        },
        Choice {
            control: 0,
            timer: 2,
            detector: 0,
            sack: false,
            stamps: 0,
            prr: false,
            limited_transmit: false,
            spurious: false,
            ecn: 3,
            ack: 0,
            nagle: false,
            mss: 508,
            send_buffer: 1446,
            recv_buffer: 3551,
            window: 2,
            tick: 3,
            paced: false,
            ranges: 2,
        },
        Network {
            seed: 17044367397641990585,
            loss: 217,
            duplicate: 71,
            late: 243,
            lateness: Duration::from_micros(1),
            delay: Duration::from_micros(223),
            ..CLEAN
        },
        [1525, 2461],
    )];
    for (client, server, network, sizes) in pinned {
        let case = Case {
            client: client.config(),
            server: server.config(),
            network,
            sizes,
            choices: [client, server],
        };
        let (outcome, _) = run(&case);
        assert_eq!(outcome, Outcome::Delivered);
    }
}

#[test]
fn a_network_that_delivers_one_packet_in_ten_makes_progress() {
    for detector in 0..narrows::recovery::detector::registry().len() {
        for sack in [false, true] {
            let choice = Choice {
                detector,
                sack,
                timer: 2,
                ..Choice::PLAIN
            };
            let case = Case {
                client: choice.config(),
                server: choice.config(),
                network: Network {
                    one_in: Some(10),
                    ..CLEAN
                },
                sizes: [30_000, 0],
                choices: [choice; 2],
            };
            let (outcome, p) = run(&case);
            assert_eq!(
                outcome,
                Outcome::Delivered,
                "{choice:?} {:?} {:?}",
                p.client,
                p.server
            );
        }
    }
}

#[test]
fn a_dead_peer_behind_a_closed_window_is_noticed() {
    // RFC 9293 section 3.8.6.1: a closed window keeps the connection open for as long as the
    // peer answers the probes, not longer.
    let config = TcpConfig {
        recv_buffer: 4_000,
        data_retries: 6,
        data_retry_time: Duration::ZERO,
        ..Choice::PLAIN.config()
    };
    let mut p = Pair::connected(config.clone(), config);
    p.reads = false;
    let data = bytes(50_000);
    p.client.send(&data, data.len()).unwrap();
    p.run_for(Duration::from_secs(1_000));
    assert_eq!(p.client.state(), State::Established, "the peer answers");
    p.path = Box::new(|_, _| Fate::Drop);
    p.run_for(Duration::from_secs(10_000));
    assert_eq!(p.client.state(), State::Closed(CloseReason::TimedOut));
}
