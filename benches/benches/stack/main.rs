//! The stack: segments through sender and receiver, beside smoltcp, and ACKs at the sender. An
//! element is a segment of 1448 bytes, or an ACK.

mod smoltcp_pair;

use criterion::{BatchSize, Criterion, Throughput};
use narrows_benches::acks::{AckPath, WINDOW};
use narrows_benches::segments::{Bare, Wired, segments};
use smoltcp_pair::SmoltcpPair;
use std::cell::RefCell;

/// What one iteration transfers.
const BYTES: usize = 1 << 20;

fn stream(c: &mut Criterion) {
    let mut group = c.benchmark_group("stack/segment");
    group
        .sample_size(50)
        .throughput(Throughput::Elements(segments(BYTES)));
    let mut wired = Wired::connected();
    group.bench_function("narrows", |b| b.iter(|| wired.transfer(BYTES)));
    let mut shared = Wired::connected_without_copies();
    group.bench_function("narrows-without-copies", |b| {
        b.iter(|| shared.transfer(BYTES))
    });
    let mut smoltcp = SmoltcpPair::connected();
    group.bench_function("smoltcp", |b| b.iter(|| smoltcp.transfer(BYTES)));
    let mut bare = Bare::connected();
    group.bench_function("narrows-without-wire", |b| b.iter(|| bare.transfer(BYTES)));
    group.finish();
}

fn acks(c: &mut Criterion) {
    let mut group = c.benchmark_group("stack/ack");
    group.throughput(Throughput::Elements(u64::from(WINDOW)));
    for name in ["reno", "cubic", "dctcp"] {
        let path = RefCell::new(AckPath::new(name));
        group.bench_function(format!("in-order/{name}"), |b| {
            b.iter_batched(
                || path.borrow_mut().fill(),
                |()| path.borrow_mut().acknowledge(),
                BatchSize::PerIteration,
            );
        });
    }
    group.throughput(Throughput::Elements(u64::from(WINDOW - 1)));
    let path = RefCell::new(AckPath::new("fixed"));
    path.borrow_mut().fill();
    group.bench_function("sack-one-hole/fixed", |b| {
        b.iter_batched(
            || {
                let mut path = path.borrow_mut();
                path.repair();
                path.fill();
            },
            |()| path.borrow_mut().selectively(),
            BatchSize::PerIteration,
        );
    });
    group.finish();
}

fn main() {
    let mut c = Criterion::default().configure_from_args();
    stream(&mut c);
    acks(&mut c);
    c.final_summary();
}
