//! `narrows explain` given captures of all kinds: what can be read is explained, and a clear word says
//! what cannot.

use std::io::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A packet and when it was captured, in nanoseconds.
type Captured = (u64, Vec<u8>);

/// An IPv4 packet with TCP from 10.0.0.1:50000 to 10.0.0.2:80, or back.
fn packet(from_client: bool, flags: u8, seq: u32, ack: u32, len: usize) -> Vec<u8> {
    let mut p = vec![0; 40 + len];
    p[0] = 0x45;
    p[2..4].copy_from_slice(&(40 + len as u16).to_be_bytes());
    (p[8], p[9]) = (64, 6);
    let ends = [([10, 0, 0, 1], 50_000_u16), ([10, 0, 0, 2], 80)];
    let (src, dst) = if from_client {
        (ends[0], ends[1])
    } else {
        (ends[1], ends[0])
    };
    p[12..16].copy_from_slice(&src.0);
    p[16..20].copy_from_slice(&dst.0);
    p[20..22].copy_from_slice(&src.1.to_be_bytes());
    p[22..24].copy_from_slice(&dst.1.to_be_bytes());
    p[24..28].copy_from_slice(&seq.to_be_bytes());
    p[28..32].copy_from_slice(&ack.to_be_bytes());
    (p[32], p[33]) = (0x50, flags);
    p[34..36].copy_from_slice(&60_000_u16.to_be_bytes());
    p
}

/// Five segments are lost behind the sender, and after 201 ms the first comes again and arrives: as the
/// sender and as the receiver, half a millisecond off, capture it.
fn lost_window() -> [Vec<Captured>; 2] {
    let (mut sender, mut receiver) = (Vec::new(), Vec::new());
    let way = 500_000;
    let mut out = |at: u64, arrives: bool, p: Vec<u8>| {
        if arrives {
            receiver.push((at + way, p.clone()));
        }
        sender.push((at, p));
    };
    out(0, true, packet(true, SYN, 99, 0, 0));
    out(1_010_000, true, packet(true, ACK, 100, 500, 0));
    for i in 0..5 {
        let segment = packet(true, ACK, 100 + i * 1_000, 500, 1_000);
        out(1_020_000 + u64::from(i) * 1_000, false, segment);
    }
    out(202_024_000, true, packet(true, ACK, 100, 500, 1_000));
    out(204_100_000, true, packet(true, ACK, 1_100, 500, 1_000));
    let mut back = |at: u64, p: Vec<u8>| {
        receiver.push((at, p.clone()));
        sender.push((at + way, p));
    };
    back(510_000, packet(false, SYN | ACK, 499, 100, 0));
    back(202_540_000, packet(false, ACK, 500, 1_100, 0));
    back(204_640_000, packet(false, ACK, 500, 2_100, 0));
    sender.sort();
    receiver.sort();
    [sender, receiver]
}

/// A pcap file with nanoseconds: link type, bytes kept of each packet, what the clock shows more.
fn pcap(packets: &[Captured], link: u32, keep: usize, ahead: u64) -> Vec<u8> {
    let mut file = Vec::new();
    for word in [0xa1b2_3c4d_u32, 4 << 16 | 2, 0, 0, 65_535, link] {
        file.extend(word.to_le_bytes());
    }
    for (at, bytes) in packets {
        let at = at + ahead;
        let kept = &bytes[..bytes.len().min(keep)];
        let head = [
            (at / 1_000_000_000) as u32,
            (at % 1_000_000_000) as u32,
            kept.len() as u32,
            bytes.len() as u32,
        ];
        file.extend(head.iter().flat_map(|word| word.to_le_bytes()));
        file.extend(kept);
    }
    file
}

/// A pcapng file with each packet on both of two interfaces, the second 20 us later.
fn pcapng(packets: &[Captured]) -> Vec<u8> {
    fn block(file: &mut Vec<u8>, kind: u32, body: &[u8]) {
        let padded = body.len().next_multiple_of(4);
        let len = (12 + padded) as u32;
        file.extend(kind.to_le_bytes());
        file.extend(len.to_le_bytes());
        file.extend(body);
        file.resize(file.len() + padded - body.len(), 0);
        file.extend(len.to_le_bytes());
    }
    let mut file = Vec::new();
    let section = [0x1a2b_3c4d_u32, 1, u32::MAX, u32::MAX];
    block(
        &mut file,
        0x0a0d_0d0a,
        &section.map(u32::to_le_bytes).concat(),
    );
    for _ in 0..2 {
        // Raw IP; if_tsresol: nanoseconds.
        let described = [101_u32, 0, 9 | 1 << 16, 9, 0];
        block(&mut file, 1, &described.map(u32::to_le_bytes).concat());
    }
    for (at, bytes) in packets {
        for interface in 0..2 {
            let at = at + u64::from(interface) * 20_000;
            let len = bytes.len() as u32;
            let head = [interface, (at >> 32) as u32, at as u32, len, len];
            let mut body = head.map(u32::to_le_bytes).concat();
            body.extend(bytes);
            block(&mut file, 6, &body);
        }
    }
    file
}

struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let name = format!("narrows-captures-{name}-{}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        let _ = std::fs::remove_dir_all(&dir);
        std::fs::create_dir_all(&dir).unwrap();
        Self(dir)
    }

    fn put(&self, name: &str, bytes: &[u8]) {
        std::fs::write(self.0.join(name), bytes).unwrap();
    }

    /// What `narrows explain` says of these files, and how it ended.
    fn explain(&self, arguments: &[&str]) -> (String, String, Option<i32>) {
        let ran = Command::new(env!("CARGO_BIN_EXE_narrows"))
            .arg("explain")
            .args(arguments)
            .current_dir(&self.0)
            .output()
            .unwrap();
        said(&ran)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

fn said(ran: &Output) -> (String, String, Option<i32>) {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    (text(&ran.stdout), text(&ran.stderr), ran.status.code())
}

#[test]
fn two_captures_of_one_connection_are_aligned_and_explained_together() {
    let folder = Folder::new("two");
    let [sender, receiver] = lost_window();
    // The receiver's clock is two hours ahead, so that its capture seems to follow the sender's.
    folder.put("a.pcap", &pcap(&sender, 101, 96, 0));
    folder.put("b.pcap", &pcap(&receiver, 101, 96, 7_200_000_000_000));
    for (files, clock) in [
        (
            ["a.pcap", "b.pcap"],
            "the second clock is 7200s ahead of the first",
        ),
        (
            ["b.pcap", "a.pcap"],
            "the second clock is 7200s behind the first",
        ),
    ] {
        let (out, err, code) = folder.explain(&files);
        assert_eq!((code, &err[..]), (Some(0), ""), "{out}");
        assert!(out.contains(clock), "{out}");
        assert!(out.contains("least one-way delay is 500us"), "{out}");
        assert!(
            out.contains("timeout, whole window lost (certain)"),
            "{out}"
        );
        assert!(
            out.contains("of what was out 5 lost and 0 arrived"),
            "{out}"
        );
        assert!(
            out.contains("8       5        1       0     500 us"),
            "{out}"
        );
    }
    let (out, ..) = folder.explain(&["a.pcap", "b.pcap", "--json", "-"]);
    for field in [
        "\"offset_ns\": 7200000000000",
        "\"bound_ns\": 500000",
        "\"lost\": 5",
    ] {
        assert!(out.contains(field), "{field} in {out}");
    }
    let alone = folder.explain(&["a.pcap"]).0;
    assert!(!alone.contains("(certain)"), "{alone}");
}

/// The page has what both know, too; and a clock that was set while packets were under way is said and
/// allowed for.
#[test]
fn two_captures_are_together_on_the_page_and_a_clock_that_was_set_is_said() {
    let folder = Folder::new("page");
    let [mut sender, mut receiver] = lost_window();
    folder.put("a.pcap", &pcap(&sender, 101, 96, 0));
    folder.put("b.pcap", &pcap(&receiver, 101, 96, 0));
    let (out, err, code) = folder.explain(&["a.pcap", "b.pcap", "--out", "out", "--quiet"]);
    assert_eq!(code, Some(0), "{err}{out}");
    let read = |name: &str| std::fs::read_to_string(folder.0.join(name)).unwrap();
    let page = read("out/report.html");
    for part in [
        "<h2>Between the captures</h2>",
        "the second clock is 0ns ahead of the first",
        "<td>8</td><td>5</td>",
        "4, 5, 6, 7, 8 of capture 1",
        "One-way delays between the captures",
        "of what was out 5 lost and 0 arrived",
    ] {
        assert!(page.contains(part), "{part}");
    }
    assert!(read("out/delays.svg").contains("10.0.0.1:50000 to 10.0.0.2:80"));
    let json = read("out/ledger.json");
    let json: String = json.split_whitespace().collect();
    for part in [
        "\"lost_packets\":[4,5,6,7,8]",
        "\"between\":{\"capture\":1,\"lost\":5,\"arrived\":0",
        "\"clocks_set\":[]",
    ] {
        assert!(json.contains(part), "{part} in {json}");
    }
    // Both ways something must be in both captures to tell by how much.
    let more = packet(true, ACK, 2_600, 500, 10);
    sender.push((207_000_000, more.clone()));
    receiver.push((207_500_000, more));
    folder.put("a.pcap", &pcap(&sender, 101, 96, 0));
    for (at, _) in receiver.iter_mut().skip(3) {
        *at += 4_000_000_000;
    }
    folder.put("set.pcap", &pcap(&receiver, 101, 96, 0));
    let (out, err, _) = folder.explain(&["a.pcap", "set.pcap", "--json", "-"]);
    assert!(err.contains("was set"), "{err}{out}");
    assert!(err.contains("by 4s before packet"), "{err}{out}");
    assert!(out.contains("\"by_ns\": "), "{out}");
}

/// How long to listen says nothing of captures.
#[test]
fn for_how_long_is_for_what_is_live() {
    let folder = Folder::new("for");
    let [sender, _] = lost_window();
    folder.put("a.pcap", &pcap(&sender, 101, 96, 0));
    let (out, err, code) = folder.explain(&["a.pcap", "--for", "3s"]);
    assert_eq!((code, &out[..]), (Some(2), ""), "{err}");
    assert!(err.contains("--for") && err.contains("--live"), "{err}");
}

#[test]
fn captures_that_cannot_be_aligned_are_explained_one_by_one_and_it_is_said_why() {
    let folder = Folder::new("apart");
    let [sender, receiver] = lost_window();
    folder.put("a.pcap", &pcap(&sender, 101, 96, 0));
    let one_way = |p: &&Captured| p.1[15] == 1;
    let one_way: Vec<Captured> = receiver.iter().filter(one_way).cloned().collect();
    folder.put("one-way.pcap", &pcap(&one_way, 101, 96, 0));
    folder.put("same.pcap", &pcap(&sender, 101, 60, 0));
    // Every second time is another clock's.
    let mut uneven = receiver.clone();
    for (n, (at, _)) in uneven.iter_mut().enumerate() {
        *at += if n % 2 == 1 { 40_000_000 } else { 0 };
    }
    folder.put("uneven.pcap", &pcap(&uneven, 101, 96, 0));
    for (other, why) in [
        (
            "one-way.pcap",
            "only packets of one direction are in both captures",
        ),
        ("same.pcap", "packets are at both places at the same time"),
        (
            "uneven.pcap",
            "before they left: a clock was set while it ran",
        ),
    ] {
        let (out, err, code) = folder.explain(&["a.pcap", other]);
        assert_eq!(code, Some(0), "{err}");
        assert!(
            err.contains("cannot be aligned, and are explained one by one"),
            "{other}: {err}{out}"
        );
        assert!(err.contains(why), "{err}");
        assert!(out.contains("\n----\n"), "{out}");
    }
    // Another connection at the same time.
    let mut others = sender.clone();
    for (_, p) in &mut others {
        (p[15], p[19]) = (p[15] + 7, p[19] + 7);
    }
    folder.put("others.pcap", &pcap(&others, 101, 96, 0));
    let (out, err, _) = folder.explain(&["a.pcap", "others.pcap"]);
    assert_eq!(err, "");
    assert!(!out.contains("aligned"), "{out}");
}

#[test]
fn every_kind_of_capture_is_explained_or_gets_a_clear_word() {
    const TIMEOUT: &str = "timeout, whole window lost";
    let folder = Folder::new("kinds");
    let [sender, _] = lost_window();
    let plain = pcap(&sender, 101, 65_535, 0);
    let ethernet = |tag: &[u8], kind: [u8; 2]| {
        let head = [&[0; 12][..], tag, &kind].concat();
        let all: Vec<Captured> = sender
            .iter()
            .map(|(at, p)| (*at, [&head[..], p].concat()))
            .collect();
        all
    };
    let client: Vec<Captured> = sender.iter().filter(|p| p.1[15] == 1).cloned().collect();
    // The five segments as one, and without a length in the IP header.
    let mut large: Vec<Captured> = sender.iter().take(3).cloned().collect();
    let mut frame = packet(true, ACK, 100, 500, 10_000);
    frame[2..4].fill(0);
    large.push((1_020_000, frame));
    large.extend(sender.iter().skip(8).cloned());
    let mut lacking = sender.clone();
    lacking.remove(4);
    folder.put("cut.pcap", &pcap(&sender, 101, 54, 0));
    folder.put(
        "vlan.pcap",
        &pcap(&ethernet(&[0x81, 0, 0, 7], [8, 0]), 1, 96, 0),
    );
    folder.put(
        "qinq.pcap",
        &pcap(
            &ethernet(&[0x88, 0xa8, 0, 7, 0x81, 0, 0, 9], [8, 0]),
            1,
            96,
            0,
        ),
    );
    folder.put("interfaces.pcapng", &pcapng(&sender));
    folder.put("large.pcap", &pcap(&large, 101, 96, 0));
    folder.put("lacking.pcap", &pcap(&lacking, 101, 96, 0));
    folder.put("one-way.pcap", &pcap(&client, 101, 96, 0));
    folder.put("arp.pcap", &pcap(&ethernet(&[], [8, 6]), 1, 96, 0));
    folder.put("wifi.pcap", &pcap(&sender, 105, 96, 0));
    folder.put("short.pcap", &pcap(&sender, 101, 30, 0));
    folder.put("truncated.pcap", &plain[..plain.len() - 7]);
    folder.put("no-packets.pcap", &plain[..24]);
    folder.put("empty.pcap", b"");
    folder.put("text.pcap", b"GET / HTTP/1.1\r\n");
    // The second block's length does not hold itself.
    let mut garbled = pcapng(&sender);
    garbled[32..36].copy_from_slice(&5_u32.to_le_bytes());
    folder.put("garbled.pcap", &garbled);
    for (file, word, code) in [
        ("cut.pcap", TIMEOUT, 0),
        ("vlan.pcap", TIMEOUT, 0),
        ("qinq.pcap", TIMEOUT, 0),
        ("interfaces.pcapng", TIMEOUT, 0),
        ("interfaces.pcapng", "packets captured more than once", 0),
        ("large.pcap", TIMEOUT, 0),
        ("lacking.pcap", "timeout", 0),
        (
            "one-way.pcap",
            "1 connections with packets of one side only",
            0,
        ),
        (
            "arp.pcap",
            "0 TCP segments of 0 connections in 205.14ms; 12 packets of something else",
            0,
        ),
        ("wifi.pcap", "12 packets of something else", 0),
        ("short.pcap", "12 packets of which too little was kept", 0),
        (
            "truncated.pcap",
            "the capture ends in the middle of a packet, after 11 whole ones",
            0,
        ),
        ("no-packets.pcap", "0 packets", 0),
        ("empty.pcap", "the file is empty", 1),
        ("text.pcap", "no capture: it begins with 47455420", 1),
        ("garbled.pcap", "comes what is no packet", 1),
        ("missing.pcap", "No such file", 1),
        (".", "this folder has no experiment.toml", 1),
    ] {
        let (out, err, status) = folder.explain(&[file]);
        let all = format!("{out}{err}");
        assert!(all.contains(word), "{file}: {all}");
        assert_eq!(status, Some(code), "{file}: {all}");
    }
    for program in ["gzip", "zstd"] {
        if Command::new(program).arg("--version").output().is_err() {
            let ci = std::env::var("CI").is_ok_and(|v| v == "true");
            assert!(!ci, "{program} is not installed");
            eprintln!("SKIPPED: {program} is not installed");
            continue;
        }
        folder.put("plain.pcap", &plain);
        let packed = Command::new(program)
            .args(["-c", "plain.pcap"])
            .current_dir(&folder.0)
            .output()
            .unwrap();
        folder.put("packed", &packed.stdout);
        assert!(folder.explain(&["packed"]).0.contains(TIMEOUT), "{program}");
        folder.put("packed", &packed.stdout[..packed.stdout.len() - 9]);
        // Of a block that is not whole nothing can be unpacked.
        let (out, err, _) = folder.explain(&["packed"]);
        let told = out.contains("12 packets") || out.contains("after") || err.contains("packed: ");
        assert!(told, "{program}: {out}{err}");
    }
}

#[test]
fn a_pipe_is_read_to_its_end() {
    let [sender, _] = lost_window();
    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    for part in pcap(&sender, 101, 96, 0).chunks(100) {
        stdin.write_all(part).unwrap();
    }
    drop(stdin);
    let (out, err, code) = said(&child.wait_with_output().unwrap());
    assert_eq!((code, &err[..]), (Some(0), ""));
    assert!(out.contains("-: 12 packets"), "{out}");
    assert!(out.contains("timeout, whole window lost"), "{out}");
}

/// While nothing comes, too.
#[test]
fn an_open_pipe_ends_with_ctrl_c_and_everything_so_far() {
    let [sender, _] = lost_window();
    let mut child = Command::new(env!("CARGO_BIN_EXE_narrows"))
        .args(["explain", "-"])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut stdin = child.stdin.take().unwrap();
    stdin.write_all(&pcap(&sender, 101, 96, 0)).unwrap();
    // The pipe is empty when it has been read.
    #[allow(clippy::disallowed_methods)]
    std::thread::sleep(std::time::Duration::from_millis(500));
    let pid = child.id().to_string();
    let sent = Command::new("kill").args(["-INT", &pid]).status();
    assert!(sent.unwrap().success());
    let (out, err, _) = said(&child.wait_with_output().unwrap());
    drop(stdin);
    assert_eq!(err, "");
    assert!(out.contains("-: 12 packets"), "{out}");
    assert!(out.contains("timeout, whole window lost"), "{out}");
}
