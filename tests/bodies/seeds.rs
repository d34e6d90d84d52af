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
