//! Single parts of the stack.

use criterion::{BenchmarkId, Criterion, Throughput};
use narrows::wire::checksum::Sum;
use narrows::wire::{ChecksumPolicy, Packet, packet};
use narrows_benches::SEGMENT;
use narrows_benches::parts::{Controlled, Rearming, Shuffle, demux, headers, tuple};
use std::hint::black_box;

fn demultiplexing(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts/demux");
    for n in [1, 1_000, 1_000_000] {
        let table = demux(n);
        let mut order = Shuffle::below(n);
        group.bench_function(BenchmarkId::from_parameter(n), |b| {
            b.iter(|| table.lookup(&tuple(order.draw())));
        });
    }
    group.finish();
}

fn timers(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts/timer-rearm");
    for n in [10_000, 200_000] {
        let mut timers = Rearming::new(n);
        group.bench_function(BenchmarkId::from_parameter(n), |b| b.iter(|| timers.step()));
    }
    group.finish();
}

fn checksums(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts/checksum");
    for len in [SEGMENT, 65_536] {
        let bytes = vec![0x5a; len];
        let mut copy = vec![0; len];
        group.throughput(Throughput::Bytes(len as u64));
        group.bench_function(BenchmarkId::new("sum", len), |b| {
            b.iter(|| Sum::of(black_box(&bytes)).fold());
        });
        group.bench_function(BenchmarkId::new("sum-and-copy", len), |b| {
            b.iter(|| Sum::copy(black_box(&bytes), &mut copy).fold());
        });
    }
    group.finish();
}

fn packets(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts/packet");
    let (ip, data, ack) = headers();
    let text = vec![0x5a; SEGMENT];
    for (name, tcp, payload) in [("segment", &data, &text[..]), ("ack-with-sack", &ack, &[])] {
        let mut frame = [0; 1_536];
        let len = packet::emit(&ip, tcp, &payload, &mut frame).expect("it fits");
        group.bench_function(format!("emit/{name}"), |b| {
            let mut frame = [0; 1_536];
            b.iter(|| packet::emit(black_box(&ip), black_box(tcp), &payload, &mut frame));
        });
        for (way, policy) in [
            ("verify", ChecksumPolicy::Verify),
            ("trust", ChecksumPolicy::Trust),
        ] {
            group.bench_function(format!("parse-{way}/{name}"), |b| {
                b.iter(|| black_box(Packet::parse(black_box(&frame[..len]), policy)).is_ok());
            });
        }
    }
    group.finish();
}

fn congestion(c: &mut Criterion) {
    let mut group = c.benchmark_group("parts/congestion-control");
    for name in ["reno", "cubic", "dctcp"] {
        let mut cc = Controlled::new(name);
        let mut n = 0;
        group.bench_function(name, |b| {
            b.iter(|| {
                n += 1;
                cc.ack(n);
            });
        });
    }
    group.finish();
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    demultiplexing(&mut c);
    timers(&mut c);
    checksums(&mut c);
    packets(&mut c);
    congestion(&mut c);
    c.final_summary();
}
