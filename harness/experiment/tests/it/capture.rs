//! Captures, read back by code that shares nothing with the writer: the blocks by the reader
//! below, the packets by smoltcp.

use crate::incast::{PORT, captured as recorded, impaired, shipped, with};
use narrows::ByteCount;
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunError;
use narrows_experiment::scenario::{IncastRun, Outcome, Recording, RunContext};
use smoltcp::wire::{IpProtocol, Ipv4Address, Ipv4Packet, TcpOption, TcpPacket};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

/// A packet as a reader of the file sees it.
pub(super) struct Seen<'a> {
    interface: usize,
    nanos: u64,
    outbound: bool,
    comment: Option<&'a str>,
    pub(super) bytes: &'a [u8],
}

/// A file as a reader sees it.
pub(super) struct File<'a> {
    application: &'a str,
    interfaces: Vec<&'a str>,
    pub(super) packets: Vec<Seen<'a>>,
}

fn u16_at(b: &[u8], at: usize) -> u16 {
    u16::from_le_bytes(b[at..at + 2].try_into().unwrap())
}

fn u32_at(b: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(b[at..at + 4].try_into().unwrap())
}

/// The options from `at` to the end of a block's body; the end mark must be the last of them.
fn options(body: &[u8], mut at: usize) -> BTreeMap<u16, &[u8]> {
    let mut found = BTreeMap::new();
    while at < body.len() {
        let (code, len) = (u16_at(body, at), usize::from(u16_at(body, at + 2)));
        if code == 0 {
            assert_eq!((len, at + 4), (0, body.len()), "the end of the options");
            return found;
        }
        assert_eq!(
            found.insert(code, &body[at + 4..at + 4 + len]),
            None,
            "twice: {code}"
        );
        at += 4 + len.next_multiple_of(4);
    }
    panic!("options without an end");
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("text is UTF-8")
}

pub(super) fn read(file: &[u8]) -> File<'_> {
    let mut seen = File {
        application: "",
        interfaces: Vec::new(),
        packets: Vec::new(),
    };
    let mut rest = file;
    let mut first = true;
    while !rest.is_empty() {
        let (kind, len) = (u32_at(rest, 0), u32_at(rest, 4) as usize);
        assert_eq!(len % 4, 0);
        assert_eq!(
            u32_at(rest, len - 4) as usize,
            len,
            "the length stands at both ends"
        );
        let body = &rest[8..len - 4];
        rest = &rest[len..];
        assert_eq!(first, kind == 0x0a0d_0d0a, "one section, at the start");
        first = false;
        match kind {
            0x0a0d_0d0a => {
                assert_eq!(u32_at(body, 0), 0x1a2b_3c4d);
                assert_eq!((u16_at(body, 4), u16_at(body, 6)), (1, 0), "the version");
                seen.application = text(options(body, 16)[&4]);
            }
            1 => {
                assert_eq!(u16_at(body, 0), 101, "raw IP");
                let options = options(body, 8);
                assert_eq!(options[&9], [9], "nanoseconds");
                seen.interfaces.push(text(options[&2]));
            }
            6 => {
                let len = u32_at(body, 12) as usize;
                assert_eq!(u32_at(body, 16) as usize, len, "nothing is cut off");
                let options = options(body, 20 + len.next_multiple_of(4));
                seen.packets.push(Seen {
                    interface: u32_at(body, 0) as usize,
                    nanos: u64::from(u32_at(body, 4)) << 32 | u64::from(u32_at(body, 8)),
                    outbound: match u32_at(options[&2], 0) {
                        1 => false,
                        2 => true,
                        flags => panic!("flags {flags:#x}"),
                    },
                    comment: options.get(&1).map(|c| text(c)),
                    bytes: &body[20..20 + len],
                });
            }
            other => panic!("a block of type {other:#x}"),
        }
    }
    seen
}

const CLIENT: Ipv4Address = Ipv4Address::new(10, 0, 0, 1);

/// The IP and TCP packet in a record, with lengths, addresses and checksums looked at.
fn parse<'a>(p: &Seen<'a>) -> (Ipv4Packet<&'a [u8]>, TcpPacket<&'a [u8]>) {
    let ip = Ipv4Packet::new_checked(p.bytes).expect("an IPv4 packet");
    assert!(ip.verify_checksum(), "IP checksum at {} ns", p.nanos);
    assert_eq!(usize::from(ip.total_len()), p.bytes.len());
    assert_eq!(ip.next_header(), IpProtocol::Tcp);
    let (src, dst) = (ip.src_addr(), ip.dst_addr());
    assert_eq!(p.outbound, dst == CLIENT);
    assert_ne!(p.outbound, src == CLIENT);
    let at = usize::from(ip.header_len());
    let tcp = TcpPacket::new_checked(&p.bytes[at..]).expect("a TCP segment");
    assert!(
        tcp.verify_checksum(&src.into(), &dst.into()),
        "TCP checksum at {} ns",
        p.nanos
    );
    (ip, tcp)
}

fn captured(spec: &Experiment) -> (IncastRun, Vec<u8>) {
    let (run, file) = recorded(spec);
    assert_eq!(run.outcome, Outcome::Completed);
    (run, file)
}

/// 6 servers on a port of 20 packets; `blocks` blocks of 20 kB from each.
fn small(blocks: u32) -> Experiment {
    let values = [
        ("servers", "6"),
        ("sru", "20kB"),
        ("traffic.read.blocks", &*blocks.to_string()),
        ("run.duration", "60s"),
        ("traffic.read.jitter", "10us"),
        ("buffer", "20p"),
        ("rto", "1ms"),
    ];
    shipped("fast08", &values)
}

/// A port that never fills.
const ROOM: (&str, &str) = ("buffer", "1000p");

/// One flow to the client at 1 Gb/s and 100 us, for so long.
fn flow(time: &str) -> Experiment {
    let registry = Registry::default();
    let flow = Experiment::builder(&registry)
        .topology("star")
        .set("network.link.rate", "1Gb/s")
        .set("network.link.delay", "25us")
        .set("network.queue.limit", "4MiB")
        .set("host.tcp.congestion", "cubic")
        .set("run.duration", time)
        .traffic("flow", "bulk", |t| t.set("from", "h1").set("to", "h0"));
    flow.build().unwrap_or_else(|e| panic!("{e}"))
}

#[test]
fn a_reader_finds_every_packet_once_and_whole() {
    let spec = with(&small(3), &[ROOM]);
    let (run, file) = captured(&spec);
    assert_eq!(run.drops.total(), 0);
    let file = read(&file);
    assert_eq!(
        file.application,
        concat!("narrows ", env!("CARGO_PKG_VERSION"))
    );
    assert_eq!(file.interfaces, ["switch"], "libpcap refuses a second one");
    assert!(file.packets.is_sorted_by_key(|p| p.nanos));
    assert!(
        file.packets
            .iter()
            .all(|p| p.interface == 0 && p.comment.is_none())
    );

    let mut next: BTreeMap<Ipv4Address, i32> = BTreeMap::new();
    let (mut data, mut bytes) = (0, 0);
    for p in &file.packets {
        let (ip, tcp) = parse(p);
        let payload = tcp.payload().len();
        if !p.outbound {
            continue;
        }
        // In order, no gap, no repetition.
        let seq = tcp.seq_number().0;
        if let Some(expected) = next.get(&ip.src_addr()) {
            assert_eq!(seq, *expected);
        }
        let len = payload as i32 + i32::from(tcp.syn());
        next.insert(ip.src_addr(), seq.wrapping_add(len));
        data += u64::from(payload > 0);
        bytes += payload as u64;
    }
    assert_eq!(next.len(), 6);
    assert_eq!(data, run.data_packets);
    assert_eq!(bytes, run.payload.get());
}

#[test]
fn times_are_those_of_the_switch_in_nanoseconds() {
    // One connection: a SYN of 40 + 8 bytes at 1 Gb/s and 25 us are all there is before the
    // switch, both links and an immediate answer before the SYN-ACK.
    let spec = with(&small(1), &[("servers", "1")]);
    let (_, file) = captured(&spec);
    let packets = read(&file).packets;
    let wire = |p: &Seen<'_>| p.bytes.len() as u64 * 8;
    let (syn, syn_ack, ack) = (&packets[0], &packets[1], &packets[2]);
    assert_eq!(syn.nanos, wire(syn) + 25_000);
    assert_eq!(
        syn_ack.nanos,
        syn.nanos + wire(syn) + 25_000 + wire(syn_ack) + 25_000
    );
    assert_eq!(
        ack.nanos,
        syn_ack.nanos + wire(syn_ack) + 25_000 + wire(ack) + 25_000
    );
}

#[test]
fn drops_and_marks_are_in_the_comments() {
    let marks = [
        (&*format!("{PORT}.discipline"), "ecn-step"),
        (&*format!("{PORT}.threshold"), "5p"),
        ("cc", "dctcp"),
        ("host.tcp.initial_window", "10"),
    ];
    let spec = with(&small(4), &marks);
    let (run, file) = captured(&spec);
    let packets = read(&file).packets;
    let count = |what| packets.iter().filter(|p| p.comment == Some(what)).count() as u64;
    assert!(run.drops.port_full > 0 && run.marks > 0, "{run:?}");
    assert_eq!(count("dropped: full"), run.drops.port_full);
    assert_eq!(count("marked CE"), run.marks);
    assert_eq!(
        packets.iter().filter(|p| p.comment.is_some()).count() as u64,
        run.drops.total() + run.marks
    );
    for p in &packets {
        let (ip, _) = parse(p);
        assert_eq!(
            ip.ecn() == 3,
            p.comment == Some("marked CE"),
            "at {} ns",
            p.nanos
        );
    }
}

/// What a NIC refuses leaves later: shown twice, it would look sent again.
#[test]
fn what_a_nic_refuses_is_no_drop_and_not_in_the_capture() {
    let values = [
        ("group.servers.nic.tx_queue", "2p"),
        ROOM,
        ("host.tcp.initial_window", "10"),
    ];
    let spec = with(&small(1), &values);
    let (run, file) = captured(&spec);
    assert!(run.refused.server > 0, "{run:?}");
    assert_eq!(run.drops.total(), 0);
    let file = read(&file);
    let data = file.packets.iter().filter(|p| {
        let (_, tcp) = parse(p);
        p.outbound && !tcp.payload().is_empty()
    });
    assert_eq!(data.count() as u64, run.payload.get().div_ceil(1_000));
    assert!(file.packets.iter().all(|p| p.comment.is_none()));
    assert!(file.packets.is_sorted_by_key(|p| p.nanos));
}

/// Each packet stands once, whatever the links do to it, and what was lost says so.
#[test]
fn what_a_link_loses_stands_once_with_its_fate() {
    for on in [(true, false), (false, true), (true, true)] {
        let what = [("loss", "2%"), ("reorder", "2%"), ("hold", "50us-100us")];
        let spec = impaired(&with(&small(10), &[ROOM]), on.0, on.1, &what);
        let (run, file) = captured(&spec);
        let file = read(&file);
        assert!(run.drops.impaired > 20, "{on:?} {run:?}");
        let lost = file.packets.iter();
        let lost = lost.filter(|p| p.comment == Some("lost on a link"));
        let outbound: Vec<bool> = lost.clone().map(|p| p.outbound).collect();
        assert_eq!(outbound.len() as u64, run.drops.impaired, "{on:?}");
        assert_eq!(outbound.contains(&true), on.0);
        assert_eq!(outbound.contains(&false), on.1);
        assert!(file.packets.is_sorted_by_key(|p| p.nanos));
        let data = file.packets.iter().filter(|p| {
            let (_, tcp) = parse(p);
            p.outbound && !tcp.payload().is_empty()
        });
        assert_eq!(data.count() as u64, run.data_packets, "{on:?}");
    }
}

/// A queue that decides at its head tells late; the packet stands where it arrived.
#[test]
fn what_is_dropped_or_marked_at_the_head_stands_once() {
    for cc in ["reno", "dctcp"] {
        let values = [
            ROOM,
            ("cc", cc),
            ("host.tcp.initial_window", "10"),
            (&*format!("{PORT}.discipline"), "codel"),
            (&*format!("{PORT}.target"), "20us"),
            (&*format!("{PORT}.interval"), "400us"),
        ];
        let spec = with(&small(20), &values);
        let (run, file) = captured(&spec);
        let file = read(&file);
        let count = |what| {
            let those = file.packets.iter().filter(|p| p.comment == Some(what));
            those.count() as u64
        };
        assert!(run.drops.port_early + run.marks > 3, "{cc} {run:?}");
        assert_eq!(count("dropped: early"), run.drops.port_early, "{cc}");
        assert_eq!(count("marked CE"), run.marks, "{cc}");
        let ce = file.packets.iter().filter(|p| parse(p).0.ecn() == 3);
        assert_eq!(ce.count() as u64, run.marks, "{cc}");
        assert!(file.packets.is_sorted_by_key(|p| p.nanos));
    }
}

/// Takes so many bytes, then says that the disk is full.
struct Disk(usize);

impl std::io::Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        let n = bytes.len().min(self.0);
        self.0 -= n;
        match n {
            0 => Err(std::io::ErrorKind::StorageFull.into()),
            n => Ok(n),
        }
    }
    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// A caller whose writer fails has the result all the same, and what failed is in it.
#[test]
fn who_cannot_write_gets_the_result() {
    let spec = small(1);
    let registry = Registry::default();
    let run = |experiment: &Experiment, ctx: RunContext<'_>| {
        experiment.run(&registry, ctx).expect("a result")
    };
    let plain = run(&spec, RunContext::default());
    let flow = flow("5ms");
    let plain_flow = run(&flow, RunContext::default());
    for room in [0, 300, 70_000] {
        let (mut capture, mut trace) = (Disk(room), Disk(room.min(300)));
        let ctx = RunContext {
            capture: Some(&mut capture),
            trace: Some(&mut trace),
            ..RunContext::default()
        };
        let mut ran = run(&spec, ctx);
        let what: Vec<Recording> = ran.unrecorded.iter().map(|u| u.what).collect();
        assert_eq!(what, [Recording::Trace, Recording::Capture], "{room}");
        let full = std::io::ErrorKind::StorageFull;
        assert!(ran.unrecorded.iter().all(|u| u.kind == full));
        ran.unrecorded.clear();
        assert_eq!(ran, plain, "{room}");

        let mut capture = Disk(room);
        let ctx = RunContext {
            capture: Some(&mut capture),
            ..RunContext::default()
        };
        let mut ran = run(&flow, ctx);
        let failed = std::mem::take(&mut ran.unrecorded);
        let said: Vec<String> = failed.iter().map(ToString::to_string).collect();
        assert!(
            said[0].starts_with("cannot write the capture: "),
            "{said:?}"
        );
        assert_eq!(ran, plain_flow, "{room}");
    }
}

/// An interruption keeps what was captured and traced until then: whole blocks, whole lines.
#[test]
fn an_interrupted_run_keeps_what_it_recorded() {
    let flow = flow("1s");
    let cancel = AtomicBool::new(false);
    let seen = AtomicUsize::new(0);
    let stop = |done: u64, all: u64| {
        assert!(done <= all, "{done} of {all}");
        if seen.fetch_add(1, Ordering::Relaxed) == 3 {
            cancel.store(true, Ordering::Relaxed);
        }
    };
    let (mut capture, mut trace) = (Vec::new(), Vec::new());
    let ctx = RunContext {
        cancel: Some(&cancel),
        capture: Some(&mut capture),
        trace: Some(&mut trace),
        progress: Some(&stop),
        ..RunContext::default()
    };
    let ran = flow.run(&Registry::default(), ctx);
    assert!(matches!(ran, Err(RunError::Cancelled)), "{ran:?}");
    let packets = read(&capture).packets;
    assert!(packets.len() > 10_000, "{}", packets.len());
    let trace = String::from_utf8(trace).unwrap();
    assert!(trace.ends_with("}\n"));
    let last: u64 = {
        let line = trace.lines().last().unwrap();
        let ns = line.trim_start_matches("{\"ns\":").split(',').next();
        ns.unwrap().parse().unwrap()
    };
    let end = packets.last().unwrap().nanos;
    assert!(
        last.abs_diff(end) < 1_000_000,
        "both to the end: {last} {end}"
    );
}

#[test]
fn a_snap_length_keeps_headers_and_says_how_long_packets_were() {
    let spec = small(1);
    let whole = captured(&spec).1;
    let mut file = Vec::new();
    let ctx = RunContext {
        capture: Some(&mut file),
        snap_length: Some(ByteCount::new(60)),
        ..RunContext::default()
    };
    let run = crate::incast::run(&spec, ctx);
    assert_eq!(run, captured(&spec).0);
    assert!(file.len() < whole.len() / 3);
    // Blocks one by one: what is kept is the beginning of what was.
    let blocks = |file: &[u8]| {
        let (mut at, mut all) = (0, Vec::new());
        while at < file.len() {
            let len = u32_at(file, at + 4) as usize;
            all.push(file[at..at + len].to_vec());
            at += len;
        }
        all
    };
    let (cut, whole) = (blocks(&file), blocks(&whole));
    assert_eq!(cut.len(), whole.len());
    assert_eq!(u32_at(&cut[1], 12), 60, "the interface says so");
    for (cut, whole) in cut.iter().zip(&whole).skip(2) {
        let (kept, len) = (u32_at(cut, 20) as usize, u32_at(cut, 24));
        assert_eq!(kept, 60.min(len as usize));
        assert_eq!(len, u32_at(whole, 24));
        assert_eq!(cut[28..28 + kept], whole[28..28 + kept]);
    }
}

/// What reads captures besides Wireshark: each takes the file whole.
#[test]
fn tcpdump_tcptrace_and_tshark_read_it() {
    let spec = impaired(&small(2), true, true, &[("loss", "1%")]);
    let (run, file) = captured(&spec);
    let packets = read(&file).packets.len();
    let path = std::env::temp_dir().join(format!("narrows-{}.pcapng", std::process::id()));
    std::fs::write(&path, &file).unwrap();
    let said = |program: &str, options: &[&str]| {
        let mut command = std::process::Command::new(program);
        let ran = command.args(options).arg(&path).output().ok()?;
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        let (out, err) = (text(&ran.stdout), text(&ran.stderr));
        assert!(ran.status.success(), "{program}: {out}{err}");
        Some(out)
    };
    if let Some(text) = said("tcpdump", &["-nn", "-t", "-r"]) {
        assert_eq!(text.lines().count(), packets, "tcpdump");
    }
    if let Some(text) = said("tcptrace", &["-nl"]) {
        let all = format!("{packets} packets seen, {packets} TCP packets traced");
        assert!(text.contains(&all), "{text}");
        // Each repeated segment is one of the run's own.
        let again = text.lines().flat_map(|l| {
            let mut words = l.split("rexmt data pkts:").skip(1);
            let counts = words.next().unwrap_or("").split_whitespace();
            let counts: Vec<u64> = counts.filter_map(|w| w.parse().ok()).collect();
            counts
                .into_iter()
                .chain(words.flat_map(|w| w.trim().parse().ok()))
        });
        assert_eq!(again.sum::<u64>(), run.retransmitted_packets, "{text}");
    }
    if let Some(text) = said(
        "tshark",
        &["-n", "-T", "fields", "-e", "frame.number", "-r"],
    ) {
        assert_eq!(text.lines().count(), packets, "tshark");
    }
    std::fs::remove_file(path).unwrap();
}

/// A line for each packet, then one hash over everything.
fn story(file: &File<'_>) -> String {
    let mut lines = String::new();
    let mut hash = Fnv::default();
    for p in &file.packets {
        let (ip, tcp) = parse(p);
        let server = if p.outbound {
            ip.src_addr()
        } else {
            ip.dst_addr()
        }
        .octets()[3]
            - 1;
        let flags = [
            (tcp.syn(), 'S'),
            (tcp.fin(), 'F'),
            (tcp.rst(), 'R'),
            (tcp.psh(), 'P'),
            (tcp.ack(), 'A'),
            (tcp.ece(), 'E'),
            (tcp.cwr(), 'C'),
        ];
        let flags: String = flags
            .iter()
            .filter(|(set, _)| *set)
            .map(|(_, name)| name)
            .collect();
        let sack: Vec<String> = tcp
            .selective_ack_ranges()
            .expect("options")
            .iter()
            .flatten()
            .map(|(from, to)| format!("{from}-{to}"))
            .collect();
        writeln!(
            lines,
            "{} ns {} server {server} {flags} seq {} ack {} len {} window {}{}{}",
            p.nanos,
            if p.outbound { "from" } else { "to" },
            tcp.seq_number().0 as u32,
            tcp.ack_number().0 as u32,
            tcp.payload().len(),
            tcp.window_len(),
            if sack.is_empty() {
                String::new()
            } else {
                format!(" sack {}", sack.join(" "))
            },
            p.comment.map_or(String::new(), |c| format!(" ({c})")),
        )
        .unwrap();
        hash.add(&p.nanos.to_le_bytes());
        hash.add(p.bytes);
    }
    writeln!(
        lines,
        "{} packets, FNV-1a {:016x}",
        file.packets.len(),
        hash.0
    )
    .unwrap();
    lines
}

/// The 64-bit FNV-1a hash.
struct Fnv(u64);

impl Default for Fnv {
    fn default() -> Self {
        Self(0xcbf2_9ce4_8422_2325)
    }
}

impl Fnv {
    fn add(&mut self, bytes: &[u8]) {
        for b in bytes {
            self.0 = (self.0 ^ u64::from(*b)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

/// Three servers, two of which lose packets: handshake, SACK, retransmission, all of it.
#[test]
fn a_small_run_is_bit_for_bit_the_stored_one() {
    let values = [
        ("servers", "3"),
        ("sru", "9kB"),
        ("buffer", "6p"),
        ("loss", "sack"),
        ("host.tcp.sack", "on"),
        ("host.tcp.timestamps", "on"),
        ("host.tcp.initial_window", "4"),
    ];
    let spec = with(&small(1), &values);
    let (run, file) = captured(&spec);
    assert!(
        run.drops.port_full > 0 && run.retransmitted_packets > 0,
        "{run:?}"
    );
    assert_eq!(captured(&spec).1, file, "two runs, two captures");

    let now = story(&read(&file));
    let path = concat!(
        env!("CARGO_MANIFEST_DIR"),
        "/tests/golden/three_servers.txt"
    );
    if std::env::var_os("NARROWS_BLESS").is_some() {
        std::fs::write(path, &now).expect("the golden file can be written");
    }
    let stored = std::fs::read_to_string(path).expect("the golden file can be read");
    let differs = stored.lines().zip(now.lines()).find(|(a, b)| a != b);
    assert_eq!(
        differs, None,
        "first difference; if it is meant, run again with NARROWS_BLESS=1"
    );
    assert_eq!(stored, now);
}

#[test]
fn segments_carry_the_options_that_were_asked_for() {
    let values = [
        ("host.tcp.timestamps", "on"),
        ("loss", "sack"),
        ("host.tcp.sack", "on"),
    ];
    let spec = with(&small(1), &values);
    let (_, file) = captured(&spec);
    for p in &read(&file).packets {
        let (_, tcp) = parse(p);
        let (mut options, mut kinds) = (tcp.options(), Vec::new());
        while !options.is_empty() {
            let (rest, option) = TcpOption::parse(options).expect("a well-formed option");
            options = rest;
            kinds.push(match option {
                TcpOption::MaxSegmentSize(mss) => {
                    assert_eq!(mss, 1_000);
                    "mss"
                }
                TcpOption::SackPermitted => "sack-permitted",
                TcpOption::TimeStamp { .. } => "timestamps",
                TcpOption::WindowScale(_) => "scale",
                _ => continue,
            });
        }
        assert_eq!(kinds.contains(&"mss"), tcp.syn());
        assert_eq!(kinds.contains(&"sack-permitted"), tcp.syn());
        assert!(kinds.contains(&"timestamps"));
    }
}
