//! The memory that simulated hosts take, counted by the allocator of this program.
#![allow(unsafe_code)] // An allocator is.

use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{Outcome, RunContext};
use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

struct Counting;

thread_local! {
    // Of this thread alone: what runs the tests allocates beside them, in one of its own, and hands
    // some over. So it does not begin with zero.
    static HELD: Cell<usize> = const { Cell::new(1 << 40) };
    static PEAK: Cell<usize> = const { Cell::new(0) };
}

fn holds(bytes: usize) {
    HELD.set(bytes);
    PEAK.set(PEAK.get().max(bytes));
}

// SAFETY: every call is that of `System` with the same arguments, and gives what it gives.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        holds(HELD.get() + layout.size());
        // SAFETY: the caller's promise is that of `System`.
        unsafe { System.alloc(layout) }
    }
    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        holds(HELD.get() + layout.size());
        // SAFETY: as above.
        unsafe { System.alloc_zeroed(layout) }
    }
    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        // Large blocks move without a copy: there are never two.
        holds(HELD.get() + size - layout.size());
        // SAFETY: as above; the block is from `System`.
        unsafe { System.realloc(block, layout, size) }
    }
    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        holds(HELD.get() - layout.size());
        // SAFETY: as above.
        unsafe { System.dealloc(block, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Counting = Counting;

/// The most that a run holds at once: an incast of one block of 64 KiB from each of so many senders.
fn peak(senders: usize, different: &[(&str, &str)]) -> usize {
    let registry = Registry::default();
    let mut experiment = Experiment::shipped(&registry, "incast")
        .set("servers", senders)
        .set("sru", "64KiB")
        .set("blocks", 1)
        .set("rate", "10Gb/s")
        .set("buffer", "64KiB")
        .set("rto", "1ms");
    for &(key, value) in different {
        experiment = experiment.set(key, value);
    }
    let experiment = experiment.build().expect("the experiment is possible");
    let before = HELD.get();
    PEAK.set(before);
    let run = experiment.run(&registry, RunContext::default());
    assert_eq!(run.expect("it is possible").outcome, Outcome::Completed);
    PEAK.get() - before
}

/// What one sender more takes: its host and application, the connection at both ends, the ports and
/// names of its link, the packets that wait in its NIC, and what is told of them in the end.
fn of_a_sender(different: &[(&str, &str)]) -> usize {
    // As many as fill the places for connections that the client has then: none is empty.
    const FEW: usize = 961;
    const MANY: usize = 1_985;
    let bytes = (peak(MANY, different) - peak(FEW, different)) / (MANY - FEW);
    println!("{bytes} bytes a sender");
    bytes
}

/// Without losses, each being held to two segments.
#[test]
fn a_sender_with_its_connection() {
    let paced = [("rwnd", "2920B"), ("buffer", "1000000p"), ("rto", "linux")];
    let bytes = of_a_sender(&paced);
    assert!(bytes <= 4_350, "{bytes} bytes");
}

/// Where all have losses: what is remembered of them, and of ten segments under way.
#[test]
fn a_sender_that_loses_all() {
    let bytes = of_a_sender(&[]);
    assert!(bytes <= 5_000, "{bytes} bytes");
}
