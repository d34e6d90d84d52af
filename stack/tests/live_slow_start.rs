//! The first window of a long flow at a port of the kernel's (`tbf`, 100 Mb/s, 256 KiB) on a path of
//! 20 ms: how many packets the port drops until slow start has ended, for the kernel's CUBIC and for
//! ours as it is by default, with offload and without.

use crate::long_path::{
    ONE_WAY, Relay, Way, add_sender, command, has, ip, kernel_sends, plain, prepare, sink, we_send,
};
use crate::netns::{await_running, in_namespace, in_own_namespace};
use crate::verdict::{Verdict, judged};
use narrows::config::TcpConfig;
use narrows::{Duration, Instant};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc;

/// Of a transfer: six times what the path holds with its queue, so that slow start ends in it, and not
/// enough for a second loss in congestion avoidance.
const TOTAL: usize = 3_000_000;
/// Of each sender.
const ROUNDS: usize = 5;
/// Half a round trip: after it acknowledgements come at once that make no train.
const STANDSTILL: Duration = ONE_WAY;

/// Nothing happens to a packet.
#[derive(Default)]
struct Clear {
    stood_still: Duration,
}

impl Way for Clear {
    fn on_look(&mut self, after: Duration) {
        self.stood_still = self.stood_still.max(after);
    }
    fn forth(&mut self, now: Instant, _: &[u8]) -> Option<Instant> {
        Some(now + ONE_WAY)
    }
}

/// Packets that the port has dropped so far.
fn dropped() -> u64 {
    let said = command("tc", "-s qdisc show dev nwa0");
    let mut words = said.split_whitespace().skip_while(|w| *w != "(dropped");
    let count = words
        .nth(1)
        .and_then(|n| n.trim_end_matches(',').parse().ok());
    count.unwrap_or_else(|| panic!("what the port dropped: {said}"))
}

/// Who sends, in turn.
const SENDERS: [&str; 4] = [
    "the kernel, a host of its own",
    "the kernel, on the port's host",
    "ours, offload",
    "ours, plain",
];

/// What the port dropped of each sender's transfers, and for how long the path stood still.
type Dropped = ([Vec<u64>; SENDERS.len()], Duration);

fn transfers() -> Dropped {
    prepare(true);
    let (path, far) = mpsc::channel();
    let (sender, go) = mpsc::channel::<()>();
    let sink = std::thread::spawn(move || {
        in_namespace("the sink", move || {
            sink(true, SENDERS.len() * ROUNDS, TOTAL, &path)
        })
        .unwrap();
    });
    let far = far.recv().expect("a namespace of the sink's own");
    ip("link add nwb0 type bridge");
    let near = plain("nwa0");
    ip("link set nwa0 master nwb0");
    ip("link set nwb0 up");
    command(
        "tc",
        "qdisc add dev nwa0 root tbf rate 100mbit burst 3100 limit 262144",
    );
    // What waits in a queue of its own holds the kernel's sender back (TCP small queues), which no
    // switch does: one is a host of its own.
    ip("link add nwv0 type veth peer name nwv1");
    ip("link set nwv0 master nwb0 up");
    let (tell, told) = mpsc::channel();
    let (done, is_done) = mpsc::channel();
    let kernel = std::thread::spawn(move || {
        in_namespace("the kernel's sender", move || {
            prepare(true);
            let link = std::fs::read_link("/proc/thread-self").unwrap();
            tell.send(link.file_name().unwrap().to_string_lossy().into_owned())
                .unwrap();
            go.recv().unwrap();
            ip("link set nwv1 up");
            add_sender("nwv1", "10.77.0.9");
            await_running(&["nwv1"]);
            done.send(()).unwrap();
            while let Ok(()) = go.recv() {
                kernel_sends(TOTAL);
                done.send(()).unwrap();
            }
        })
        .unwrap();
    });
    let thread = told.recv().unwrap();
    ip(&format!("link set nwv1 netns {thread}"));
    let turn = || {
        sender.send(()).unwrap();
        is_done.recv().unwrap();
    };
    turn();
    await_running(&["nwa0", "nwb0", "nwv0"]);
    add_sender("nwb0", "10.77.0.8");
    let stop = AtomicBool::new(false);
    let mut drops: [Vec<u64>; SENDERS.len()] = Default::default();
    let clear = std::thread::scope(|scope| {
        let path = scope.spawn(|| Relay::new([near, far], Clear::default()).run(&stop));
        let mut before = dropped();
        for round in 0..ROUNDS {
            for (sender, drops) in drops.iter_mut().enumerate() {
                // Each host sends once: it remembers the path.
                let host = 1 + (round * SENDERS.len() + sender) as u8;
                match sender {
                    0 => turn(),
                    1 => kernel_sends(TOTAL),
                    2 => drop(we_send(host, TcpConfig::default(), true, TOTAL)),
                    _ => drop(we_send(host, TcpConfig::default(), false, TOTAL)),
                }
                let now = dropped();
                drops.push(now - std::mem::replace(&mut before, now));
            }
        }
        sink.join().unwrap();
        stop.store(true, Ordering::Release);
        path.join().unwrap()
    });
    drop(sender);
    kernel.join().unwrap();
    (drops, clear.stood_still)
}

#[test]
fn the_first_window_loses_no_more_at_a_port_of_the_kernels_than_the_kernels_does() {
    if !has(&["ip", "tc"]) {
        return;
    }
    judged(|| {
        let (tell, told) = mpsc::channel();
        in_own_namespace(move || tell.send(transfers()).unwrap());
        let Ok((drops, stood_still)) = told.recv() else {
            return Verdict::Holds; // It was skipped.
        };
        for (sender, drops) in SENDERS.iter().zip(&drops) {
            eprintln!("{sender}: dropped {drops:?}");
        }
        if stood_still > STANDSTILL {
            return Verdict::Disturbed(format!("it stood still for {stood_still}"));
        }
        let [kernel, .., offload, plain] = drops.map(|mut drops| {
            drops.sort_unstable();
            drops[ROUNDS / 2]
        });
        // Its slow start ends before the queue is full, and so does ours: a window is some 340
        // packets. A path that only stumbled moves round trips, too, for either.
        let ours = offload.max(plain);
        if ours > kernel + 30 {
            return Verdict::Fails(format!("ours dropped {ours}, the kernel's {kernel}"));
        }
        Verdict::Holds
    });
}
