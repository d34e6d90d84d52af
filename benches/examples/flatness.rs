//! `flatness [BYTES] [SERVERS...]`: what a data packet costs with 10, 100, 1,000 and 10,000
//! senders of 64 KiB each, unless told otherwise. Every line is of about the same number of
//! packets.
//!
//! *All* is a run of one block with everything that belongs to it: building hosts and network,
//! handshakes, requests. *Steady* is what the packets of a longer block cost on top, so that
//! nothing in it happens once per connection. Two kinds of traffic: *collapse* has the port buffer of the other
//! benches, so the more senders, the more packets are lost and timeouts awaited; *paced* has no
//! losses, each sender being held to two segments by its peer's window, so a packet is the same
//! work for any number of senders. *Lines* is no TCP, but memory alone: a paced packet cannot cost less more
//! than that with many senders than with few.
//!
//! Time is that of the process on its processor where Linux tells it, else that on the wall;
//! the least of three.

use narrows_benches::clock::Clock;
use narrows_benches::incast::{paced, run, spec};
use narrows_benches::lines;
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::IncastRun;

/// Packets that a line is about.
const SEGMENTS: u64 = 450_000;

fn main() {
    let mut args = std::env::args()
        .skip(1)
        .map(|n| n.parse::<u64>().expect("a number"));
    let bytes = args.next().unwrap_or(64 << 10);
    let mut servers: Vec<u32> = args.map(|n| n as u32).collect();
    if servers.is_empty() {
        servers = vec![10, 100, 1_000, 10_000];
    }
    println!(
        "traffic   senders   all: ns a packet  packets  timeouts   steady: ns a packet  packets  timeouts"
    );
    type Traffic = fn(u32, u64, u32) -> Experiment;
    for (name, traffic) in [("paced", paced as Traffic), ("collapse", spec)] {
        for &n in &servers {
            let spec = |times| traffic(n, bytes * times, 1);
            let segments = u64::from(n) * bytes.div_ceil(1_460);
            let times = SEGMENTS.div_ceil(segments) as u32;
            let all = cost(&spec(1), times);
            let few = cost(&spec(1), 1);
            let more = cost(&spec(1 + u64::from(times)), 1);
            let steady = more.less(&few);
            println!("{name:9} {n:7}   {all}   {steady}");
        }
    }
    for n in servers {
        let packets = 10 * SEGMENTS as usize;
        let nanos = (0..3).map(|_| lines::cost(n as usize, packets));
        let least = nanos.fold(f64::INFINITY, f64::min);
        println!(
            "{:9} {n:7}   {:16} {:8} {:9}   {least:16.0} {packets:8}",
            "lines", "", "", ""
        );
    }
}

/// What was spent on how many data packets.
struct Cost {
    nanos: f64,
    packets: u64,
    timeouts: u64,
}

impl Cost {
    fn less(&self, other: &Self) -> Self {
        Self {
            nanos: self.nanos - other.nanos,
            packets: self.packets - other.packets,
            timeouts: self.timeouts.saturating_sub(other.timeouts),
        }
    }
}

impl std::fmt::Display for Cost {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(
            f,
            "{:16.0} {:8} {:9}",
            self.nanos / self.packets as f64,
            self.packets,
            self.timeouts
        )
    }
}

/// `times` runs; the least time of three.
fn cost(spec: &Experiment, times: u32) -> Cost {
    let mut least = f64::INFINITY;
    let mut last = IncastRun::default();
    for _ in 0..3 {
        let clock = Clock::start();
        for _ in 0..times {
            last = run(spec);
        }
        least = least.min(clock.nanos());
    }
    Cost {
        nanos: least,
        packets: last.data_packets * u64::from(times),
        timeouts: last.timeouts.established() * u64::from(times),
    }
}
