//! The simulator: data packets per second of one core, and whether their price depends on the
//! number of hosts. An element is a data packet sent, retransmissions included.

use criterion::{BenchmarkId, Criterion, SamplingMode, Throughput};
use narrows_benches::fabric;
use narrows_benches::incast::{run, spec};
use narrows_net::sim::SimTime;
use narrows_net::sim::queue::{Event, EventQueue};
use std::hint::black_box;
use std::time::Duration;

/// N = 32, SRU 256 KiB, 10 Gb/s, 64 KiB, RTOmin 1 ms.
fn incast(c: &mut Criterion) {
    let mut group = c.benchmark_group("sim/incast-32");
    group.sampling_mode(SamplingMode::Flat).sample_size(20);
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4));
    let plain = spec(32, 256 << 10, 4);
    let mut cubic = plain.clone();
    cubic.host.tcp.congestion = "cubic".to_owned();
    let mut dctcp = plain.clone();
    dctcp.host.tcp.congestion = "dctcp".to_owned();
    let mut rack = plain.clone();
    rack.host.tcp.loss_detector = "rack".to_owned();
    let mut wire = plain.clone();
    wire.run.wire = true;
    for (name, spec) in [
        ("reno", plain),
        ("cubic", cubic),
        ("dctcp", dctcp),
        ("reno-rack", rack),
        ("reno-wire", wire),
    ] {
        group.throughput(Throughput::Elements(run(&spec).data_packets));
        group.bench_function(name, |b| b.iter(|| run(&spec).data_packets));
    }
    group.finish();
}

/// 256 KB from each server, one block.
fn flatness(c: &mut Criterion) {
    let mut group = c.benchmark_group("sim/senders");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4));
    for servers in [10, 100, 1_000, 10_000] {
        let spec = spec(servers, 256_000, 1);
        group.throughput(Throughput::Elements(run(&spec).data_packets));
        group.bench_function(BenchmarkId::from_parameter(servers), |b| {
            b.iter(|| run(&spec).data_packets);
        });
    }
    group.finish();
}

/// 256 hosts on a leaf-spine, a connection from each to each other: its first 2 ms, which is what
/// `beside_ns3.py` does.
fn leaf_spine(c: &mut Criterion) {
    let mut group = c.benchmark_group("sim/leaf-spine-256");
    group.sampling_mode(SamplingMode::Flat).sample_size(10);
    group
        .warm_up_time(Duration::from_millis(500))
        .measurement_time(Duration::from_secs(4));
    for (name, text) in fabric::FILES {
        let mut experiment = fabric::load(text);
        fabric::set(&mut experiment, "run.duration", "2ms");
        let packets = || fabric::data_packets(&fabric::run(&experiment));
        group.throughput(Throughput::Elements(packets()));
        group.bench_function(name, |b| b.iter(packets));
    }
    group.finish();
}

/// One pop and one push with that many events waiting, 100 ns to 100 us ahead.
fn event_queue(c: &mut Criterion) {
    let mut group = c.benchmark_group("sim/event-queue");
    for waiting in [100u32, 10_000] {
        let mut queue = EventQueue::default();
        let mut random = 1u64;
        let mut push = move |queue: &mut EventQueue, now: SimTime, id| {
            random = random.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            let time = now + SimTime::from_picos(100_000 + (random >> 32) % 100_000_000);
            queue.push(Event { time, rank: id, id });
        };
        for id in 0..waiting {
            push(&mut queue, SimTime::ZERO, id);
        }
        group.throughput(Throughput::Elements(1));
        group.bench_function(BenchmarkId::from_parameter(waiting), |b| {
            b.iter(|| {
                let event = queue.pop_until(SimTime::MAX).expect("never empty");
                push(&mut queue, event.time, event.id);
                black_box(event.id)
            });
        });
    }
    group.finish();
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    incast(&mut c);
    flatness(&mut c);
    leaf_spine(&mut c);
    event_queue(&mut c);
    c.final_summary();
}
