//! Any segments, calls and waits to a connection in any state.

use super::input::Input;
use crate::pair::lone::{ISS, Lone, in_state, plain, seg, syn_ack};
use crate::pair::steps::{STATES, Step, drive};
use narrows::Duration;
use narrows::config::{
    AckPolicy, Buffers, EcnMode, Keepalive, Lifetimes, TcpConfig, TimestampMode,
};
use narrows::congestion::LocalDropRule;
use narrows::recovery::detector;
use narrows::wire::{Ecn, Flags, SackBlock, Timestamps};
use std::sync::Arc;

/// Enough to go through all states twice.
const MAX_STEPS: usize = 64;

pub(super) fn run(data: &[u8]) {
    let mut input = Input(data);
    let connection = connection(&mut input);
    let mut steps = Vec::new();
    while !input.is_empty() && steps.len() < MAX_STEPS {
        steps.push(step(&mut input));
    }
    drive(connection, steps);
}

fn connection(input: &mut Input<'_>) -> Lone {
    let config = config(input);
    match input.below(12) {
        n @ 0..10 => {
            // `in_state` speaks without timestamps.
            let config = TcpConfig {
                timestamps: TimestampMode::Off,
                ..config
            };
            in_state(STATES[usize::from(n)], config)
        }
        _ => {
            let mut answer = syn_ack().mss(1_000).sack_ok().and(Flags::ECE);
            answer = answer.scale(input.below(16));
            if config.timestamps != TimestampMode::Off {
                answer = answer.ts(1_000, 0);
            }
            Lone::established_by(config, answer)
        }
    }
}

fn config(input: &mut Input<'_>) -> TcpConfig {
    let bits = input.u8();
    let bit = |n: u8| bits >> n & 1 == 1;
    let detectors = detector::standard();
    let names: Vec<_> = detectors.entries().map(|entry| entry.name()).collect();
    let which = usize::from(input.u8());
    TcpConfig {
        detector: detectors.get(names[which % names.len()]).unwrap(),
        sack: bit(0),
        window_scaling: bit(1),
        buffers: Buffers {
            recv: [20_000, 100_000, 1, 700][which / 32 % 4],
            max_out_of_order_ranges: Some(1 + which % 8),
            send: 30_000,
            ..plain().buffers
        },
        ecn: match bit(2) {
            true => EcnMode::Dctcp,
            false => EcnMode::Classic,
        },
        ack: match bit(3) {
            true => AckPolicy::default(),
            false => AckPolicy::IMMEDIATE,
        },
        lifetimes: Lifetimes {
            keepalive: bit(4).then_some(Keepalive {
                idle: Duration::from_secs(2),
                interval: Duration::from_millis(300),
                probes: 2,
            }),
            user_timeout: bit(5).then_some(Duration::from_secs(20)),
            ..plain().lifetimes
        },
        timestamps: match bit(6) {
            true => TimestampMode::Micros,
            false => TimestampMode::Off,
        },
        local_drop: Arc::new(match bit(7) {
            true => LocalDropRule::Congestion,
            false => LocalDropRule::Requeue,
        }),
        ..plain()
    }
}

fn step(input: &mut Input<'_>) -> Step {
    match input.below(24) {
        0 => Step::Wait(u64::from(input.u16())),
        1 | 2 => Step::Timer,
        3 | 4 => Step::Send(1 + usize::from(input.u16() % 5_000)),
        5 => Step::Urgent,
        6 | 7 => Step::Read(u64::from(input.u16())),
        8 => Step::Close,
        9 => Step::Release,
        10 => Step::LocalDrop,
        11 => Step::PathMtu(u32::from(input.u16() % 2_000)),
        _ => segment(input),
    }
}

fn segment(input: &mut Input<'_>) -> Step {
    let kind = input.u8();
    let flags = match kind % 8 {
        0..=3 => Flags::ACK,
        4 => Flags::ACK | Flags::FIN,
        5 => Flags::SYN | Flags::ACK,
        6 => Flags::RST,
        _ => Flags::from_bits(input.u16()),
    };
    let (seq, ack) = (input.offset(), input.offset());
    let len = match kind >> 3 & 3 {
        0 | 1 => 0,
        2 => 1 + usize::from(input.below(5)),
        _ => 900 + usize::from(input.below(200)),
    };
    let mut s = seg(flags, seq, ack).data(&vec![seq as u8; len]);
    s.tcp.ack = ISS + 1 + ack as u32;
    s.tcp.window = input.u16();
    s.ecn = Ecn::from_bits(kind >> 6);
    let options = if kind >> 5 & 1 == 1 { input.u8() } else { 0 };
    if options & 1 == 1 {
        s.tcp.options.timestamps = Some(Timestamps {
            val: 1_000_u32.wrapping_add(input.offset() as u32),
            ecr: 100_000_u32.wrapping_add(input.offset() as u32),
        });
    }
    for _ in 0..options >> 1 & 3 {
        s.tcp.options.sack.push(SackBlock {
            start: ISS + 1 + input.offset() as u32,
            end: ISS + 1 + input.offset() as u32,
        });
    }
    if options & 8 != 0 {
        s.tcp.options.mss = Some(input.u16());
    }
    if options & 16 != 0 {
        s.tcp.options.window_scale = Some(input.u8());
    }
    if options & 32 != 0 {
        s.tcp.urgent = input.u16();
    }
    Step::Segment(Box::new(s))
}
