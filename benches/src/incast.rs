//! Incast runs of a given size.

use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::incast::Incast;
use narrows_experiment::scenario::spec::{BlockSize, Length, QueueLimit};
use narrows_experiment::scenario::{IncastRun, IncastRunner, IncastSpec, Outcome, RunContext};

/// `blocks` synchronised reads of `sru` bytes from each of `servers` servers: 10 Gb/s, 25 us a
/// link, 64 KiB of port buffer, NewReno with SACK, RTOmin 1 ms, an ACK per segment.
pub fn spec(servers: u32, sru: u64, blocks: u32) -> IncastSpec {
    let mut spec = IncastSpec {
        servers,
        block: BlockSize::Sru(ByteCount::new(sru)),
        length: Length::Blocks {
            blocks,
            time_limit: Duration::from_secs(600),
        },
        ..IncastSpec::default()
    };
    spec.net.link_rate = Rate::from_gbps(10);
    spec.net.port_buffer = QueueLimit::Bytes(ByteCount::new(64 << 10));
    spec.tcp.rto = "1ms".to_owned();
    spec
}

/// The same without losses, whatever the number of servers: each is held to two segments by the
/// client's window, and the port has room for those of all. So a packet is the same work for any
/// number of servers.
pub fn paced(servers: u32, sru: u64, blocks: u32) -> IncastSpec {
    let mut spec = spec(servers, sru, blocks);
    spec.tcp.receive_window = Some(ByteCount::new(2 * 1_460));
    spec.net.port_buffer = QueueLimit::Packets(1_000_000);
    // The queue of so many takes longer than a millisecond.
    spec.tcp.rto = "linux".to_owned();
    spec
}

/// Run it to the end.
///
/// # Panics
/// If the run does not complete: what was to be measured did not happen.
pub fn run(spec: &IncastSpec) -> IncastRun {
    let run = Incast::default()
        .run(spec, RunContext::default())
        .expect("the spec is valid");
    assert_eq!(run.outcome, Outcome::Completed, "{} servers", spec.servers);
    run
}
