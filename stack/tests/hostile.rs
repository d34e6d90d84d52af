//! Arbitrary segments to a connection in every state: no panic, no loop, no timer in the past,
//! and what must hold always holds.

use crate::pair;
use crate::pair::lone::{IRS, ISS, Lone, in_state, plain, seg, syn_ack};
use crate::pair::steps::{STATES, Step, drive};
use narrows::Duration;
use narrows::config::{
    AckPolicy, Buffers, EcnMode, Keepalive, Lifetimes, TcpConfig, TimestampMode,
};
use narrows::congestion::LocalDropRule;
use narrows::conn::state::State;
use narrows::wire::{Ecn, Flags, SackBlock, Seq, Timestamps};
use proptest::prelude::*;
use std::sync::Arc;

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
        1 => (0..2_000_u32).prop_map(Step::PathMtu),
    ]
}

fn state() -> impl Strategy<Value = State> {
    proptest::sample::select(STATES.to_vec())
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
                buffers: Buffers {
                    recv: recv_buffer,
                    max_out_of_order_ranges: Some(ranges),
                    send: 30_000,
                    ..plain().buffers
                },
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
                lifetimes: Lifetimes {
                    keepalive: keep.then_some(Keepalive {
                        idle: Duration::from_secs(2),
                        interval: Duration::from_millis(300),
                        probes: 2,
                    }),
                    user_timeout: keep.then_some(Duration::from_secs(20)),
                    ..plain().lifetimes
                },
                timestamps: if micros {
                    TimestampMode::Micros
                } else {
                    TimestampMode::Off
                },
                local_drop: Arc::new(if keep {
                    LocalDropRule::Congestion
                } else {
                    LocalDropRule::Requeue
                }),
                ..plain()
            },
        )
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
        let mut l = Lone::established(TcpConfig {buffers: Buffers { max_out_of_order_ranges: Some(ranges), ..plain().buffers }, ..plain() });
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
