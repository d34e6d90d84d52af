//! Arbitrary segments to a connection in every state: no panic, no loop, no timer in the past,
//! and what must hold always holds.

mod pair;

use narrows::Duration;
use narrows::config::{AckPolicy, EcnMode, Keepalive, LocalDropPolicy, TcpConfig, TimestampMode};
use narrows::conn::Event;
use narrows::conn::state::{CloseReason, Origin, State};
use narrows::wire::{Ecn, Flags, SackBlock, Seq, Timestamps};
use pair::lone::{IRS, ISS, Lone, Seg, in_state, plain, seg, syn_ack};
use proptest::prelude::*;

/// Offsets near what matters: the edges of windows, the wrap, the far side of the circle.
fn offset() -> impl Strategy<Value = i64> {
    prop_oneof![
        4 => -3..=3_i64,
        2 => 990..=1_010_i64,
        2 => 0..=21_000_i64,
        1 => -70_000..=70_000_i64,
        1 => Just(i64::from(i32::MIN)),
        1 => Just(i64::from(i32::MAX)),
        1 => any::<i32>().prop_map(i64::from),
    ]
}

fn flags() -> impl Strategy<Value = Flags> {
    prop_oneof![
        6 => Just(Flags::ACK),
        2 => Just(Flags::ACK | Flags::FIN),
        1 => Just(Flags::SYN),
        1 => Just(Flags::SYN | Flags::ACK),
        1 => Just(Flags::RST),
        2 => any::<u16>().prop_map(|b| Flags::from_bits(b).without(Flags::RST)),
    ]
}

#[derive(Clone, Debug)]
enum Step {
    Segment(Box<Seg>),
    Wait(u64),
    Timer,
    Send(usize),
    Urgent,
    Read(u64),
    Close,
    Release,
    /// The last packet was refused.
    LocalDrop,
    PathMtu(usize),
}

fn segment() -> impl Strategy<Value = Step> {
    let options = (
        proptest::option::weighted(
            0.5,
            (
                prop_oneof![-3..3_i64, Just(1 << 30), Just(1 << 31)],
                offset(),
            ),
        ),
        proptest::collection::vec((offset(), offset()), 0..4),
        proptest::option::weighted(0.1, any::<u16>()),
        proptest::option::weighted(0.1, any::<u8>()),
        any::<u16>(),
    );
    let window = prop_oneof![2 => Just(0_u16), 2 => 1..=3_u16, 4 => any::<u16>()];
    let len = prop_oneof![3 => Just(0_usize), 2 => 1..=5_usize, 2 => 900..=1_100_usize];
    (flags(), offset(), offset(), len, window, 0..4_u8, options).prop_map(
        |(flags, seq, ack, len, window, ecn, (ts, sack, mss, scale, urgent))| {
            let mut s = seg(flags, seq, ack).data(&vec![seq as u8; len]).win(window);
            s.ecn = Ecn::from_bits(ecn);
            s.tcp.ack = ISS + 1 + ack as u32;
            s.tcp.urgent = urgent;
            s.tcp.options.mss = mss;
            s.tcp.options.window_scale = scale;
            s.tcp.options.timestamps = ts.map(|(val, ecr)| Timestamps {
                val: 1_000_u32.wrapping_add(val as u32),
                ecr: 100_000_u32.wrapping_add(ecr as u32),
            });
            for (a, b) in sack {
                s.tcp.options.sack.push(SackBlock {
                    start: ISS + 1 + a as u32,
                    end: ISS + 1 + b as u32,
                });
            }
            Step::Segment(Box::new(s))
        },
    )
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        12 => segment(),
        1 => (0..100_000_u64).prop_map(Step::Wait),
        2 => Just(Step::Timer),
        2 => (1..5_000_usize).prop_map(Step::Send),
        1 => Just(Step::Urgent),
        2 => (0..30_000_u64).prop_map(Step::Read),
        1 => Just(Step::Close),
        1 => Just(Step::Release),
        1 => Just(Step::LocalDrop),
        1 => (0..2_000_usize).prop_map(Step::PathMtu),
    ]
}

fn state() -> impl Strategy<Value = State> {
    proptest::sample::select(vec![
        State::SynSent,
        State::SynReceived(Origin::Passive),
        State::Established,
        State::FinWait1,
        State::FinWait2,
        State::CloseWait,
        State::Closing,
        State::LastAck,
        State::TimeWait,
        State::Closed(CloseReason::Aborted),
    ])
}

fn config() -> impl Strategy<Value = TcpConfig> {
    (
        any::<[bool; 6]>(),
        prop_oneof![Just(20_000_usize), Just(100_000), Just(1), Just(700)],
        1..8_usize,
    )
        .prop_map(
            |([sack, scaling, ecn, delayed, keep, micros], recv_buffer, ranges)| TcpConfig {
                sack,
                window_scaling: scaling,
                recv_buffer,
                max_out_of_order_ranges: ranges,
                ecn: if ecn {
                    EcnMode::Dctcp
                } else {
                    EcnMode::Classic
                },
                ack: if delayed {
                    AckPolicy::default()
                } else {
                    AckPolicy::IMMEDIATE
                },
                keepalive: keep.then_some(Keepalive {
                    idle: Duration::from_secs(2),
                    interval: Duration::from_millis(300),
                    probes: 2,
                }),
                user_timeout: keep.then_some(Duration::from_secs(20)),
                timestamps: if micros {
                    TimestampMode::Micros
                } else {
                    TimestampMode::Off
                },
                local_drop: if keep {
                    LocalDropPolicy::Congestion
                } else {
                    LocalDropPolicy::Requeue
                },
                send_buffer: 30_000,
                ..plain()
            },
        )
}

/// The changes of RFC 9293 section 3.3.2, and to CLOSED from anywhere. Several may happen between
/// two looks.
fn legal(from: State, to: State) -> bool {
    let rank = |s: State| match s {
        State::SynSent => 0,
        State::SynReceived(_) => 1,
        State::Established => 2,
        State::FinWait1 | State::CloseWait => 3,
        State::FinWait2 | State::Closing | State::LastAck => 4,
        State::TimeWait => 5,
        State::Closed(_) => 6,
    };
    from == to
        || (rank(from) < rank(to)
            && !matches!(
                (from, to),
                (
                    State::CloseWait,
                    State::FinWait2 | State::Closing | State::TimeWait
                ) | (State::FinWait1, State::LastAck)
                    | (State::LastAck, State::TimeWait)
            ))
}

fn drive(mut l: Lone, steps: Vec<Step>) {
    let mut last = None;
    let mut closed = 0;
    for step in steps {
        let (before, nxt, una) = (l.state(), l.conn.readable_end(), l.conn.sender().una());
        let seen = l.events.len();
        let out = match step {
            Step::Segment(s) => l.recv(*s),
            Step::Wait(us) => l.wait(Duration::from_micros(us)),
            Step::Timer if l.conn.poll_timeout().is_some() => l.next_timer(),
            Step::Timer => Vec::new(),
            Step::Send(n) => {
                let _ = l.conn.send(&vec![7; n], n);
                l.settle()
            }
            Step::Urgent => {
                let _ = l.conn.send_urgent(b"!", 1);
                l.settle()
            }
            Step::Read(n) => {
                let n = n.min(l.conn.readable());
                l.read_n(n).1
            }
            Step::Close => l.close(),
            Step::Release => {
                l.conn.release(l.now);
                l.settle()
            }
            Step::LocalDrop => {
                if let Some((tcp, len)) = last.take() {
                    l.conn.handle_local_drop(l.now, &tcp, len);
                }
                l.settle()
            }
            Step::PathMtu(mtu) => {
                l.conn.handle_path_mtu(l.now, mtu, 20);
                l.settle()
            }
        };
        assert!(legal(before, l.state()), "{before:?} -> {:?}", l.state());
        assert!(l.conn.readable_end() >= nxt, "RCV.NXT moved left");
        assert!(l.conn.sender().una() >= una, "SND.UNA moved left");
        assert!(l.conn.sender().una() <= l.conn.sender().nxt());
        let buffer = l.conn.config().recv_buffer as u64;
        assert!(
            l.conn.readable() < buffer + (1 << l.shift),
            "more held than offered"
        );
        assert!(
            out.iter()
                .all(|o| o.data.len() + o.tcp.options.wire_len() <= 1_000)
        );
        assert!(out.len() <= 1_000, "{} packets for one step", out.len());
        closed += l.events[seen..]
            .iter()
            .filter(|e| matches!(e, Event::Closed(_)))
            .count();
        assert!(closed <= 1, "told twice");
        if matches!(before, State::Closed(_)) {
            assert!(
                out.iter().all(|o| o.has(Flags::RST)),
                "the dead speak: {out:?}"
            );
        }
        if let Some(o) = out.last() {
            last = Some((o.tcp.clone(), o.data.len()));
        }
    }
    // Left alone it comes to rest.
    let out = l.wait(Duration::from_secs(100_000));
    assert!(out.len() <= 20_000);
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_segments_in_any_state(
        state in state(),
        config in config(),
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        // `in_state` speaks without timestamps.
        let config = TcpConfig { timestamps: TimestampMode::Off, ..config };
        drive(in_state(state, config), steps);
    }

    #[test]
    fn any_segments_with_every_option_agreed(
        config in config(),
        scale in 0..16_u8,
        steps in proptest::collection::vec(step(), 1..40),
    ) {
        let mut answer = syn_ack().mss(1_000).sack_ok().scale(scale).and(Flags::ECE);
        if config.timestamps != TimestampMode::Off {
            answer = answer.ts(1_000, 0);
        }
        drive(Lone::established_by(config, answer), steps);
    }

    /// Whatever order, overlap and repetition its pieces come in, the stream is the stream.
    #[test]
    fn any_schedule_of_a_stream_gives_the_stream(
        pieces in proptest::collection::vec((0..2_000_usize, 1..700_usize), 1..60),
        ranges in 1..6_usize,
    ) {
        let data = pair::bytes(2_700);
        let mut l = Lone::established(TcpConfig { max_out_of_order_ranges: ranges, ..plain() });
        let mut got = Vec::new();
        for (at, len) in pieces {
            l.recv(pair::lone::text(at as i64, 0, &data[at..at + len]));
            got.extend(l.read().0);
            prop_assert_eq!(&got[..], &data[..got.len()]);
        }
        let rest = got.len();
        l.recv(pair::lone::text(rest as i64, 0, &data[rest..]));
        got.extend(l.read().0);
        prop_assert!(got == data);
    }
}

#[test]
fn sequence_numbers_of_the_rig_wrap() {
    assert!(Seq(0).after(IRS) && Seq(0).after(ISS));
}
