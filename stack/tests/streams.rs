//! Random networks, random configurations: both byte streams arrive whole and both ends close,
//! or both ends are told why not.

use crate::pair::weather::{CLEAN, CONTROLS, Case, Choice, Network, Outcome, TIMERS, run};
use crate::pair::{Fate, Pair, bytes};
use narrows::Duration;
use narrows::config::{Buffers, Keepalive, Lifetimes, TcpConfig};
use narrows::conn::state::{CloseReason, State};
use proptest::prelude::*;

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
        (any::<bool>(), 1usize..40, any::<bool>()),
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
            old_prr: c.2,
        })
}

fn networks() -> impl Strategy<Value = Network> {
    (
        any::<u64>(),
        0u64..400,
        0u64..300,
        0u64..200,
        0u64..300,
        0u64..150,
        1u64..20_000,
        1u64..3_000,
    )
        .prop_map(
            |(seed, loss, mark, duplicate, late, corrupt, lateness, delay)| Network {
                seed,
                // Light loss is the usual case.
                loss: if loss % 2 == 0 { loss / 8 } else { loss },
                mark,
                duplicate,
                late,
                corrupt: if corrupt % 2 == 0 {
                    corrupt / 10
                } else {
                    corrupt
                },
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
            config.lifetimes.keepalive = probing;
            config.lifetimes.syn_retries = 5;
            config.lifetimes.syn_retry_time = Duration::ZERO;
            config.lifetimes.data_retries = 8;
            config.lifetimes.data_retry_time = Duration::ZERO;
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
    let detectors = narrows::recovery::detector::standard().entries().len();
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
            old_prr: false,
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
            old_prr: false,
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
    for detector in 0..narrows::recovery::detector::standard().entries().len() {
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
        buffers: Buffers {
            recv: 4_000,
            ..Choice::PLAIN.config().buffers
        },
        lifetimes: Lifetimes {
            data_retries: 6,
            data_retry_time: Duration::ZERO,
            ..Choice::PLAIN.config().lifetimes
        },
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
