//! The stack: segments through sender and receiver and exchanges of many connections, beside smoltcp,
//! and ACKs at the sender. An element is a segment of 1448 bytes, an exchange, or an ACK.

mod smoltcp_exchanges;
mod smoltcp_host;
mod smoltcp_pair;

use criterion::{BatchSize, Criterion, Throughput};
use narrows_benches::acks::{AckPath, WINDOW};
use narrows_benches::exchanges::Exchanges;
use narrows_benches::segments::{Bare, Wired, segments};
use smoltcp_exchanges::SmoltcpExchanges;
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
    let mut gathered = Wired::connected_by_reference();
    group.bench_function("narrows-by-reference", |b| {
        b.iter(|| gathered.transfer(BYTES))
    });
    let mut smoltcp = SmoltcpPair::connected();
    group.bench_function("smoltcp", |b| b.iter(|| smoltcp.transfer(BYTES)));
    let mut bare = Bare::connected();
    group.bench_function("narrows-without-wire", |b| b.iter(|| bare.transfer(BYTES)));
    group.finish();
}

fn exchanges(c: &mut Criterion) {
    let mut group = c.benchmark_group("stack/exchange");
    group.sample_size(20);
    for connections in [1_u16, 100, 1_000] {
        group.throughput(Throughput::Elements(connections.into()));
        let mut ours = Exchanges::connected(connections.into());
        group.bench_function(format!("narrows/{connections}"), |b| {
            b.iter(|| ours.round())
        });
        let mut smoltcp = SmoltcpExchanges::connected(connections);
        group.bench_function(format!("smoltcp/{connections}"), |b| {
            b.iter(|| smoltcp.round())
        });
    }
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
    exchanges(&mut c);
    acks(&mut c);
    c.final_summary();
}
