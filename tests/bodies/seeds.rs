//! First inputs of the fuzz targets. `cargo run -p narrows-tests --example seeds` writes them to
//! `fuzz/seeds/`; inputs that a run has found are put beside them and not touched.

use narrows::rng::Rng;
use narrows::wire::{Ecn, Flags, IpHeader, Packet, SackBlock, Seq, TcpHeader, Timestamps};
use std::path::Path;

/// Names and contents of the first inputs of `target`. `scripts` is the folder of the scripts
/// that come with the harness.
pub fn of(target: &str, scripts: &Path) -> Vec<(String, Vec<u8>)> {
    match target {
        "options" => options(),
        "packets" => packets(),
        "scripts" => short_scripts(scripts),
        "captures" => captures(),
        _ => random(target, 12),
    }
}

fn options() -> Vec<(String, Vec<u8>)> {
    let named: [(&str, &[u8]); 9] = [
        ("empty", &[]),
        ("stamps", &[1, 1, 8, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        (
            "syn",
            &[
                2, 4, 5, 180, 4, 2, 8, 10, 0, 0, 0, 1, 0, 0, 0, 0, 1, 3, 3, 7,
            ],
        ),
        ("sack", &[1, 1, 5, 10, 0, 0, 0, 1, 0, 0, 0, 2]),
        ("no-length", &[1, 1, 1, 8]),
        ("length-0", &[8, 0, 1, 1]),
        ("length-255", &[8, 255, 1, 1]),
        ("unknown", &[254, 4, 1, 2, 30, 6, 9, 9, 9, 9, 0, 77]),
        ("odd-sack", &[5, 9, 0, 0, 0, 1, 0, 0, 0, 1, 3, 4, 7, 7]),
    ];
    let named = named.iter().map(|(n, b)| ((*n).to_owned(), b.to_vec()));
    named.chain(random("options", 4)).collect()
}

fn packets() -> Vec<(String, Vec<u8>)> {
    let mut seeds = Vec::new();
    for (family, src, dst) in [
        ("ipv4", "10.0.0.1", "10.0.0.2"),
        ("ipv6", "fd00::1", "fd00::2"),
    ] {
        let mut tcp = TcpHeader {
            src_port: 1,
            dst_port: 2,
            seq: Seq(3),
            ack: Seq(4),
            flags: Flags::ACK | Flags::PSH,
            window: 5,
            ..TcpHeader::default()
        };
        tcp.options.timestamps = Some(Timestamps { val: 6, ecr: 7 });
        tcp.options.sack.push(SackBlock {
            start: Seq(8),
            end: Seq(9),
        });
        let packet = Packet {
            ip: IpHeader {
                src: src.parse().expect("valid"),
                dst: dst.parse().expect("valid"),
                ecn: Ecn::Ect0,
                dscp: 1,
                hop_limit: 64,
            },
            tcp,
            payload: &b"hello"[..],
        };
        let mut wire = vec![0; packet.wire_len()];
        packet.emit(&mut wire).expect("there is room");
        let with = |layer: u8, bytes: &[u8]| [&[layer], bytes].concat();
        seeds.push((format!("tcp-{family}"), with(2, &wire)));
        seeds.push((
            format!("quoted-{family}"),
            with(4, &wire[..wire.len() - 30]),
        ));
        // The same with another protocol number, and an ICMP message of each type of interest.
        let (at, kinds): (usize, &[u8]) = match family {
            "ipv4" => (9, &[0, 3, 4, 8, 11, 12]),
            _ => (6, &[1, 2, 3, 4, 128, 129, 135, 136]),
        };
        let head = wire.len() - 5 - packet.tcp.wire_len();
        for kind in kinds {
            let mut icmp = wire.clone();
            icmp[at] = if at == 9 { 1 } else { 58 };
            icmp[head] = *kind;
            icmp[head + 1] = 0;
            icmp[head + 8..].copy_from_slice(&wire[..wire.len() - head - 8]);
            seeds.push((format!("icmp-{family}-{kind}"), with(3, &icmp)));
        }
    }
    let arp = [
        0, 1, 8, 0, 6, 4, 0, 1, 2, 0, 0, 0, 0, 2, 10, 0, 0, 2, 0, 0, 0, 0, 0, 0, 10, 0, 0, 1,
    ];
    seeds.push(("arp".to_owned(), [&[1][..], &arp].concat()));
    let frame = [2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 0x81, 0, 0, 5, 8, 6];
    seeds.push(("frame-tagged".to_owned(), [&[0][..], &frame, &arp].concat()));
    seeds
}

/// The same small capture of a SYN, as gzip and zstd make it.
const GZIP: [u8; 68] = [
    31, 139, 8, 0, 0, 0, 0, 0, 2, 3, 187, 114, 120, 211, 66, 38, 6, 22, 6, 24, 72, 0, 226, 84, 32,
    102, 4, 98, 38, 32, 214, 128, 98, 87, 16, 5, 20, 116, 96, 99, 96, 224, 2, 74, 115, 129, 164,
    25, 193, 74, 152, 65, 250, 2, 152, 24, 82, 64, 52, 0, 140, 82, 149, 129, 80, 0, 0, 0,
];
const ZSTD: [u8; 64] = [
    40, 181, 47, 253, 0, 104, 189, 1, 0, 18, 68, 11, 19, 224, 105, 12, 94, 64, 64, 160, 250, 65,
    184, 142, 131, 148, 185, 114, 72, 41, 101, 10, 255, 100, 19, 255, 247, 219, 181, 189, 214, 235,
    39, 248, 122, 63, 236, 111, 127, 253, 229, 31, 227, 102, 14, 74, 1, 2, 0, 221, 188, 8, 192, 5,
];

/// A connection with a segment that is sent again after 200 ms, in both of libpcap's formats.
fn captures() -> Vec<(String, Vec<u8>)> {
    let ends = ["10.0.0.1", "10.0.0.2"];
    let packet = |from: usize, seq: u32, ack: u32, flags: Flags, text: &[u8]| {
        let packet = Packet {
            ip: IpHeader {
                src: ends[from].parse().expect("valid"),
                dst: ends[1 - from].parse().expect("valid"),
                ecn: Ecn::NotEct,
                dscp: 0,
                hop_limit: 64,
            },
            tcp: TcpHeader {
                src_port: [5_000, 80][from],
                dst_port: [80, 5_000][from],
                seq: Seq(seq),
                ack: Seq(ack),
                flags,
                window: 500,
                ..TcpHeader::default()
            },
            payload: text,
        };
        let mut wire = vec![0; packet.wire_len()];
        packet.emit(&mut wire).expect("there is room");
        wire
    };
    let text = [b'x'; 20];
    let frames = [
        (0, packet(0, 1, 0, Flags::SYN, &[])),
        (100, packet(1, 9, 2, Flags::SYN | Flags::ACK, &[])),
        (110, packet(0, 2, 10, Flags::ACK, &text)),
        (200_110, packet(0, 2, 10, Flags::ACK, &text)),
        (200_200, packet(1, 10, 22, Flags::ACK, &[])),
        (200_300, packet(0, 22, 10, Flags::ACK | Flags::FIN, &[])),
        (200_400, packet(1, 10, 23, Flags::RST | Flags::ACK, &[])),
    ];
    let words = |words: &[u32]| -> Vec<u8> { words.iter().flat_map(|w| w.to_le_bytes()).collect() };
    // LINKTYPE_RAW, microseconds.
    let mut pcap = words(&[0xa1b2_c3d4, 0x0004_0002, 0, 0, 96, 101]);
    let mut pcapng = words(&[0x0a0d_0d0a, 28, 0x1a2b_3c4d, 1, u32::MAX, u32::MAX, 28]);
    pcapng.extend(words(&[1, 20, 101, 96, 20]));
    for (at, wire) in &frames {
        let len = wire.len() as u32;
        pcap.extend(words(&[1, *at, len, len]));
        pcap.extend(wire);
        let padded = len.div_ceil(4) * 4;
        pcapng.extend(words(&[6, 32 + padded, 0, 0, 1_000_000 + at, len, len]));
        pcapng.extend(wire);
        pcapng.resize(pcapng.len() + (padded - len) as usize, 0);
        pcapng.extend(words(&[32 + padded]));
    }
    let with = |file: &[u8]| [&[0], file].concat();
    let mut seeds = vec![
        ("pcap".to_owned(), with(&pcap)),
        ("pcapng".to_owned(), with(&pcapng)),
        ("gzip".to_owned(), with(&GZIP)),
        ("zstd".to_owned(), with(&ZSTD)),
        ("cut".to_owned(), with(&pcapng[..pcapng.len() - 7])),
        ("empty".to_owned(), vec![0]),
    ];
    seeds.extend(random("captures", 12));
    seeds
}

/// The shortest ones that come with the harness: one of each folder.
fn short_scripts(folder: &Path) -> Vec<(String, Vec<u8>)> {
    let mut found = Vec::new();
    let mut folders: Vec<_> = list(folder).into_iter().filter(|p| p.is_dir()).collect();
    folders.sort();
    for topic in folders {
        let mut files = list(&topic);
        files.sort();
        let texts = files.iter().filter_map(|f| std::fs::read(f).ok());
        if let Some(text) = texts.min_by_key(Vec::len) {
            let name = topic.file_name().expect("a folder has a name");
            found.push((name.to_string_lossy().into_owned(), text));
        }
    }
    found
}

fn list(folder: &Path) -> Vec<std::path::PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten();
    entries.filter_map(|e| Some(e.ok()?.path())).collect()
}

fn random(target: &str, n: u64) -> Vec<(String, Vec<u8>)> {
    let kind = target.bytes().map(u64::from).sum();
    let mut rng = Rng::stream(kind, 1);
    let one = |i: u64| {
        let len = 32 + 24 * i;
        let bytes = (0..len).map(|_| rng.next_u64() as u8).collect();
        (format!("random-{i}"), bytes)
    };
    (0..n).map(one).collect()
}
