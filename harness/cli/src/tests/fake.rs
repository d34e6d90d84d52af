//! A stand-in for the simulator: collapse by formula, so that reports have something to show.

use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::spec::{Length, QueueLimit};
use narrows_experiment::scenario::{
    DropCounts, IncastRun, IncastSpec, Outcome, QueuePeak, Recording, RunContext, ScenarioError,
    TimeoutCounts, Unrecorded,
};

/// Loss sets in where the windows outgrow the buffer; from there on nearly every block waits
/// for one timeout, and later for several.
pub(crate) fn run(spec: &IncastSpec, ctx: RunContext<'_>) -> Result<IncastRun, ScenarioError> {
    if ctx.cancelled() {
        return Err(ScenarioError::Cancelled);
    }
    let mut unrecorded = Vec::new();
    for (what, out, text) in [
        (Recording::Capture, ctx.capture, &b"fake"[..]),
        (Recording::Trace, ctx.trace, b"{}\n"),
    ] {
        let written = out.map_or(Ok(()), |out| out.write_all(text));
        unrecorded.extend(written.err().map(|e| Unrecorded::new(what, &e)));
    }
    let buffer = match spec.net.port_buffer {
        QueueLimit::Packets(p) => u64::from(p),
        QueueLimit::Bytes(b) => b.get() / 1_518,
    };
    let n = u64::from(spec.servers);
    let dctcp = spec.tcp.congestion.starts_with("dctcp");
    let onset = if dctcp {
        (buffer + 12) / 2
    } else {
        (buffer + 12) / 10
    };
    let rto = match spec.tcp.rto.as_str() {
        "1ms" => Duration::from_millis(1),
        "fine" => Duration::from_micros(600),
        _ => Duration::from_millis(200),
    };
    let mut state = spec.seed ^ (n << 32) ^ u64::from(spec.tcp.congestion.as_bytes()[0]);
    let mut noise = || {
        state = state
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % 100
    };
    let blocks = match spec.length {
        Length::Blocks { blocks, .. } => u64::from(blocks),
        Length::Time(_) => 20,
    };
    let size = spec.block.total(spec.servers);
    let clean = spec.net.link_rate.time_for(size).mul_ratio(105, 100) + Duration::from_micros(100);
    let (mut times, mut timeouts) = (Vec::new(), 0);
    for _ in 0..blocks {
        let waits = if n <= onset {
            0
        } else {
            u64::from(noise() < 30 + 4 * (n - onset)) * (1 + n / 24)
        };
        timeouts += waits * n.min(3 * (n - onset.min(n)));
        times.push(clean + rto * waits + Duration::from_nanos(noise() * 1_000));
    }
    let simulated: Duration = times.iter().copied().sum();
    let payload = size * blocks;
    let packets = payload.get() / 1_460;
    Ok(IncastRun {
        outcome: Outcome::Completed,
        goodput: Rate::of(payload, simulated).unwrap_or_default(),
        payload,
        simulated,
        block_times: times,
        timeouts: TimeoutCounts {
            full_window: timeouts / 2,
            tail: timeouts.div_ceil(2),
            ..TimeoutCounts::default()
        },
        fast_retransmits: timeouts / 3,
        drops: DropCounts {
            port_full: timeouts * 9,
            ..DropCounts::default()
        },
        marks: if dctcp { packets / 3 } else { 0 },
        data_packets: packets + timeouts * 9,
        retransmitted_packets: timeouts * 9,
        max_queue: QueuePeak {
            packets: buffer.min(n * 10),
            bytes: ByteCount::new(buffer.min(n * 10) * 1_518),
        },
        events: packets * 6,
        unrecorded,
        ..IncastRun::default()
    })
}
