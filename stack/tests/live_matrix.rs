//! The matrix: our TCP against the kernel's, each cell a connection in a network namespace of its
//! own. Cells differ from the usual one in one thing at a time.
//!
//! In every cell each byte is compared, both sides say that the same options are in use, and the
//! kernel has counted nothing that a well-behaved peer gives no reason for. Where a cell ends as
//! [`End::Judged`] what both sides count of the connection agrees, segment by segment where segments
//! cross one in a frame. A failure names its cells.

use crate::cell::{Cell, End, GB, KB, Link, MB, run};
use narrows::Duration;
use narrows::config::{EcnMode, TcpConfig, TimestampMode};
use narrows::conn::info::{TCPI_OPT_SACK, TCPI_OPT_TIMESTAMPS, TCPI_OPT_WSCALE};
use narrows::device::fault::{Fault, Faults};
use narrows::device::xdp::AttachMode;
use narrows::recovery::detector;
use narrows_congestion::registry::{CongestionRegistry, RtoRegistry};

#[test]
fn one_gigabyte_up() {
    run([Cell::passive().up(GB).end(End::Judged)]);
}

#[test]
fn one_gigabyte_down() {
    run([Cell::active().down(GB).end(End::Judged)]);
}

#[test]
fn directions_and_sizes() {
    let mut cells = Vec::new();
    for cell in Cell::either() {
        cells.extend([
            cell.clone().up(1),
            cell.clone().down(1),
            cell.clone(),
            cell.clone().up(1460).down(1461),
            cell.clone().up(64 * KB),
            cell.clone().down(64 * KB),
            cell.clone().up(16 * MB),
            cell.clone().down(16 * MB),
            cell.clone().up(16 * MB).down(16 * MB),
        ]);
    }
    run(cells);
}

/// Both sides connect, and the SYNs cross.
#[test]
fn simultaneous_open() {
    let mut cells = Vec::new();
    for cell in [Cell::simultaneous(), Cell::simultaneous().ipv6()] {
        cells.extend([
            cell.clone(),
            cell.clone().up(100 * KB).down(100 * KB),
            cell.clone().over(Link::Tap).up(100 * KB).end(End::Judged),
            cell.clone().over(Link::Tap).down(100 * KB).end(End::Judged),
            cell.clone().up(1).end(End::WeReset),
            cell.down(1).end(End::KernelResets),
        ]);
    }
    run(cells);
}

#[test]
fn ends() {
    let mut cells = Vec::new();
    for cell in Cell::either() {
        let both = cell.clone().up(2 * MB).down(2 * MB);
        cells.extend([
            both.clone().end(End::WeCloseFirst),
            both.clone().end(End::KernelClosesFirst),
            both.clone().end(End::WeReset),
            both.end(End::KernelResets),
            cell.clone().up(2 * MB).end(End::WeLetGo),
            cell.clone().down(2 * MB).end(End::KernelLingers),
            cell.clone().up(100 * KB).end(End::KernelLeavesUnread),
            cell.down(100 * KB).end(End::WeLeaveUnread),
        ]);
    }
    run(cells);
}

/// Each option off, by us or by the kernel, and on where it usually is not.
#[test]
fn options() {
    let no_scaling = |c: &mut TcpConfig| c.window_scaling = false;
    let no_sack = |c: &mut TcpConfig| c.sack = false;
    let no_timestamps = |c: &mut TcpConfig| c.timestamps = TimestampMode::Off;
    let microseconds = |c: &mut TcpConfig| c.timestamps = TimestampMode::Micros;
    let ecn = |mode| move |c: &mut TcpConfig| c.ecn = mode;
    let mut cells = Vec::new();
    for cell in Cell::either() {
        let cell = cell
            .over(Link::Tap)
            .up(4 * MB)
            .down(4 * MB)
            .end(End::Judged);
        let with = |name, set: fn(&mut TcpConfig)| cell.clone().ours(name, set);
        cells.extend([
            cell.clone(),
            with("no window scaling", no_scaling).without(TCPI_OPT_WSCALE),
            cell.clone()
                .theirs("tcp_window_scaling", "0")
                .without(TCPI_OPT_WSCALE),
            with("no SACK", no_sack).without(TCPI_OPT_SACK),
            cell.clone().theirs("tcp_sack", "0").without(TCPI_OPT_SACK),
            with("no timestamps", no_timestamps).without(TCPI_OPT_TIMESTAMPS),
            cell.clone()
                .theirs("tcp_timestamps", "0")
                .without(TCPI_OPT_TIMESTAMPS),
            with("timestamps of microseconds", microseconds),
        ]);
    }
    // The kernel accepts ECN as it is, and asks for it with tcp_ecn=1. It takes an offer of DCTCP,
    // whose SYN is marked as capable, for one to DCTCP only.
    let [passive, active] = Cell::either().map(|cell| {
        cell.over(Link::Tap)
            .up(4 * MB)
            .down(4 * MB)
            .end(End::Judged)
    });
    let asked = passive.clone().theirs("tcp_ecn", "1");
    cells.extend([
        asked.clone().ours("ECN off", ecn(EcnMode::Off)),
        asked
            .clone()
            .ours("ECN accepted", ecn(EcnMode::Accept))
            .with_ecn(),
        asked
            .clone()
            .ours("ECN accepted", ecn(EcnMode::Accept))
            .with_ecn()
            .marked(200),
        active
            .clone()
            .theirs("tcp_ecn", "0")
            .ours("ECN offered", ecn(EcnMode::Classic)),
        active
            .clone()
            .ours("ECN offered", ecn(EcnMode::Classic))
            .with_ecn(),
        active
            .clone()
            .ours("ECN offered", ecn(EcnMode::Classic))
            .with_ecn()
            .marked(200),
        active.ours("ECN of DCTCP", ecn(EcnMode::Dctcp)),
        asked
            .ours("ECN of DCTCP", ecn(EcnMode::Dctcp))
            .with_ecn()
            .marked(200),
    ]);
    run(cells);
}

/// `ss -ti` in the peer's namespace prints what we say.
#[test]
fn ss_says_the_same() {
    let cells = Cell::either().map(|cell| {
        let cell = cell.over(Link::Tap).up(4 * MB).down(4 * MB);
        cell.end(End::Judged).asked_by_ss()
    });
    let [passive, active] = cells;
    run([
        active
            .clone()
            .ours("ECN offered", |c| c.ecn = EcnMode::Classic)
            .with_ecn(),
        active.theirs("tcp_sack", "0").without(TCPI_OPT_SACK),
        passive
            .theirs("tcp_timestamps", "0")
            .without(TCPI_OPT_TIMESTAMPS),
    ]);
}

/// Buffers of a few segments, and of less than one.
#[test]
fn small_windows() {
    let mut cells = Vec::new();
    for cell in Cell::either() {
        let cell = cell
            .over(Link::Tap)
            .up(MB / 2)
            .down(MB / 2)
            .end(End::Judged);
        cells.extend([
            cell.clone()
                .ours("receives into 6 kB", |c| c.buffers.recv = 6_000),
            cell.clone()
                .ours("sends from 6 kB", |c| c.buffers.send = 6_000),
            cell.theirs("tcp_rmem", "4096 8192 8192")
                .theirs("tcp_wmem", "4096 8192 8192"),
        ]);
    }
    // The kernel's segments become as small as half the window: nothing to judge.
    let less = Cell::passive().over(Link::Tap).down(64 * KB);
    cells.push(less.ours("receives into 1000 bytes", |c| c.buffers.recv = 1_000));
    run(cells);
}

#[test]
fn sizes_of_packets_and_families() {
    let mut cells = Vec::new();
    for link in [Link::Tap, Link::TapOffload] {
        let cell = Cell::passive()
            .over(link)
            .up(4 * MB)
            .down(4 * MB)
            .end(End::Judged);
        cells.extend([
            cell.clone().mtu(576),
            cell.clone().mtu(9000),
            cell.clone().ipv6().mtu(1280),
            cell.clone().ipv6(),
            cell.ipv6().mtu(9000),
        ]);
        let cell = Cell::active()
            .over(link)
            .up(4 * MB)
            .down(4 * MB)
            .end(End::Judged);
        cells.extend([cell.clone().mtu(576), cell.clone().mtu(9000), cell.ipv6()]);
    }
    run(cells);
}

#[test]
fn links() {
    let mut cells = Vec::new();
    for cell in Cell::either() {
        let cell = cell.up(8 * MB).down(8 * MB).end(End::Judged);
        cells.extend([
            cell.clone().over(Link::Tun),
            cell.clone().over(Link::TunOffload),
            cell.clone().over(Link::Xdp(AttachMode::Native)),
            cell.over(Link::Xdp(AttachMode::Skb)),
        ]);
    }
    let native = || {
        Cell::passive()
            .over(Link::Xdp(AttachMode::Native))
            .up(4 * MB)
            .down(4 * MB)
    };
    cells.extend([
        native().mtu(576).end(End::Judged),
        native().mtu(3506).end(End::Judged),
        native().ipv6().end(End::Judged),
    ]);
    run(cells);
}

/// So many of a million frames with TCP segments.
fn rate(fault: Fault, rate: u32) -> Faults {
    Faults {
        rates: vec![(fault, rate)],
        // ARP is spared.
        min_len: 50,
        ..Faults::default()
    }
}

/// ... with data.
fn rate_of_data(fault: Fault, millionths: u32) -> Faults {
    Faults {
        min_len: 1000,
        ..rate(fault, millionths)
    }
}

#[test]
fn faults_on_our_side() {
    let none = Faults::default;
    let mut cells = Vec::new();
    let delay = Duration::from_millis(3);
    for (name, fault, per_million) in [
        ("drops", Fault::Drop, 5_000),
        ("reordering", Fault::Reorder(5), 20_000),
        ("duplicates", Fault::Duplicate, 20_000),
        ("delays", Fault::Delay(delay), 20_000),
    ] {
        let cell = Cell::passive().over(Link::Tap).end(End::Judged);
        let faults = || rate(fault, per_million);
        cells.extend([
            cell.clone()
                .up(2 * MB)
                .faults(&format!("{name} out"), faults(), none()),
            cell.clone()
                .up(2 * MB)
                .faults(&format!("{name} in"), none(), faults()),
            cell.clone()
                .down(2 * MB)
                .faults(&format!("{name} out"), faults(), none()),
            cell.down(2 * MB)
                .faults(&format!("{name} in"), none(), faults()),
        ]);
    }
    // What is damaged is counted on arrival, where it is known for what it was: data.
    let corrupt = || rate_of_data(Fault::Corrupt, 10_000);
    let all = || Faults {
        rates: vec![
            (Fault::Drop, 5_000),
            (Fault::Duplicate, 5_000),
            (Fault::Corrupt, 5_000),
            (Fault::Reorder(4), 5_000),
            (Fault::Delay(delay), 5_000),
        ],
        min_len: 1000,
        ..Faults::default()
    };
    for cell in Cell::either() {
        let both = cell.clone().up(2 * MB).down(2 * MB);
        cells.extend([
            cell.clone()
                .over(Link::Tap)
                .up(2 * MB)
                .end(End::Judged)
                .faults("corruption out", corrupt(), none()),
            cell.over(Link::Tap).down(2 * MB).end(End::Judged).faults(
                "corruption in",
                none(),
                corrupt(),
            ),
            both.clone()
                .over(Link::Tap)
                .faults("all faults", all(), all()),
            both.clone()
                .over(Link::TapOffload)
                .faults("all faults", all(), all()),
            both.over(Link::Xdp(AttachMode::Native))
                .faults("all faults", all(), all()),
        ]);
    }
    run(cells);
}

/// Everything that `narrows list` lists: what is added there is tested here.
#[test]
fn every_congestion_control() {
    let registry = CongestionRegistry::standard();
    let mut cells = Vec::new();
    for entry in registry.entries() {
        let factory = registry.get(entry.name()).unwrap();
        let cell = Cell::passive().ours(entry.name(), |c| c.congestion = factory);
        let cell = cell.theirs("tcp_ecn", "1");
        let cell = cell.with_ecn().over(Link::Tap).up(3 * MB).end(End::Judged);
        let drops = rate(Fault::Drop, 5_000);
        cells.extend([
            cell.clone().marked(100),
            cell.faults("drops", drops.clone(), drops),
        ]);
    }
    run(cells);
}

#[test]
fn every_timeout_policy() {
    let registry = RtoRegistry::standard();
    let mut cells = Vec::new();
    for entry in registry.entries() {
        let name = entry.name();
        // Some are a name for any time.
        let policy = registry.get(name);
        let factory = policy.or_else(|_| registry.get(&format!("{name}:10ms")));
        let cell = Cell::active().ours(name, |c| c.rto = factory.unwrap());
        let cell = cell.over(Link::Tap).up(MB).end(End::Judged);
        cells.push(cell.faults("drops", rate(Fault::Drop, 5_000), Faults::default()));
    }
    run(cells);
}

#[test]
fn every_loss_detector() {
    let registry = detector::standard();
    let mut cells = Vec::new();
    for entry in registry.entries() {
        let factory = registry.get(entry.name()).unwrap();
        let uses_sack = factory.build().uses_sack();
        let cell = Cell::passive().ours(entry.name(), |c| c.detector = factory);
        let cell = match uses_sack {
            true => cell,
            false => cell.without(TCPI_OPT_SACK),
        };
        let cell = cell.over(Link::Tap).up(3 * MB).end(End::Judged);
        let none = Faults::default;
        cells.extend([
            cell.clone()
                .faults("drops", rate(Fault::Drop, 5_000), none()),
            cell.faults("reordering", rate(Fault::Reorder(5), 10_000), none()),
        ]);
    }
    run(cells);
}
