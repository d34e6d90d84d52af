//! `idle [CONNECTIONS...]`: what a segment costs an endpoint that holds 1, 1,000 and 1,000,000
//! connections, unless told otherwise, and what memory an idle connection takes. The segments go
//! to one connection, or to all in random order: then each finds its connection outside of the
//! cache. The least of three.

use narrows_benches::clock::Clock;
use narrows_benches::idle::Crowd;
use narrows_benches::parts::Shuffle;

/// Segments of a measurement.
const SEGMENTS: u32 = 300_000;

fn main() {
    let mut sizes: Vec<u32> = std::env::args()
        .skip(1)
        .map(|n| n.parse().expect("a number"))
        .collect();
    if sizes.is_empty() {
        sizes = vec![1, 1_000, 1_000_000];
    }
    println!("connections   one active: ns a segment   all: ns a segment   bytes a connection");
    for n in sizes {
        let before = resident();
        let mut crowd = Crowd::new(n);
        let bytes = resident()
            .zip(before)
            .map(|(now, was)| (now - was) / u64::from(n));
        let one = least(|| (0..SEGMENTS).for_each(|_| crowd.segment(n / 2)));
        let mut order = Shuffle::below(n);
        let all = least(|| (0..SEGMENTS).for_each(|_| crowd.segment(order.draw())));
        // One connection is less than the resolution of what Linux tells.
        let bytes = bytes
            .filter(|_| n >= 1_000)
            .map_or("-".to_owned(), |b| b.to_string());
        println!("{n:11} {one:26.0} {all:19.0} {bytes:>20}");
    }
}

/// Nanoseconds per segment.
fn least(mut segments: impl FnMut()) -> f64 {
    let mut least = f64::INFINITY;
    for _ in 0..3 {
        let clock = Clock::start();
        segments();
        least = least.min(clock.nanos());
    }
    least / f64::from(SEGMENTS)
}

/// Bytes of memory in use, where Linux tells.
fn resident() -> Option<u64> {
    let text = std::fs::read_to_string("/proc/self/statm").ok()?;
    let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
    Some(pages * 4_096)
}
