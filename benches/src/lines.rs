//! What memory alone costs: as many lines as a pair of paced packets touches, at ever other senders.

use crate::clock::Clock;

/// A line of the cache.
const LINE: [u64; 8] = [1; 8];

/// Blocks that a pair of packets of a sender touches lines of, as docs/benchmarks/simulator.md counts
/// them: lines of the block, and how many of those.
const BLOCKS: [(usize, usize); 9] = [
    (17, 15), // the sender's host with its connection
    (14, 8),  // the client's connection
    (4, 3),   // the sender's NIC
    (3, 2),   // the switch's port to the sender
    (3, 3),   // packets
    (1, 1),   // the sender's records
    (1, 1),   // the client's table of connections
    (1, 1),   // the world's times
    (2, 1),   // where hosts are
];

/// Nanoseconds a packet, of about so many from `senders` senders, if nothing is done but to read those
/// lines and write half of them. No line tells where another is, so the processor asks for as many
/// at once as it can; senders come in the order in which they lie, give or take sixteen.
pub fn cost(senders: usize, packets: usize) -> f64 {
    let mut memory = BLOCKS.map(|(lines, _)| vec![LINE; senders * lines]);
    let rounds = (packets / 2).div_ceil(senders);
    let mut sum = 0_u64;
    let clock = Clock::start();
    for _ in 0..rounds {
        for i in 0..senders {
            let sender = (i ^ (i >> 4 & 15)).min(senders - 1);
            for ((lines, touched), block) in BLOCKS.iter().zip(&mut memory) {
                for (i, line) in block[sender * lines..][..*touched].iter_mut().enumerate() {
                    sum = sum.wrapping_add(line[0]);
                    if i % 2 == 0 {
                        line[0] = sum;
                    }
                }
            }
        }
    }
    let nanos = clock.nanos();
    std::hint::black_box(sum);
    nanos / (2 * rounds * senders) as f64
}
