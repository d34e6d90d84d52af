//! Captures made by hand: formats, byte orders, compression, and how they end.

use narrows::{Duration, Instant};
use narrows_explain::capture::{CaptureError, Contents, End, Steady, read};
use narrows_explain::segment::Content;
use narrows_explain::{Analyzer, Cause, Config, Finding, Gap, Sighting};
use std::io::{Cursor, Write};

/// An IPv4 packet with TCP: flags, sequence and acknowledgement numbers, bytes of payload.
fn packet(from_client: bool, flags: u8, seq: u32, ack: u32, len: usize) -> Vec<u8> {
    let mut p = vec![0; 40 + len];
    p[0] = 0x45;
    p[2..4].copy_from_slice(&(40 + len as u16).to_be_bytes());
    (p[8], p[9]) = (64, 6);
    let (src, dst) = if from_client {
        ([10, 0, 0, 1], [10, 0, 0, 2])
    } else {
        ([10, 0, 0, 2], [10, 0, 0, 1])
    };
    p[12..16].copy_from_slice(&src);
    p[16..20].copy_from_slice(&dst);
    let ports: [u16; 2] = if from_client {
        [50_000, 80]
    } else {
        [80, 50_000]
    };
    p[20..22].copy_from_slice(&ports[0].to_be_bytes());
    p[22..24].copy_from_slice(&ports[1].to_be_bytes());
    p[24..28].copy_from_slice(&seq.to_be_bytes());
    p[28..32].copy_from_slice(&ack.to_be_bytes());
    (p[32], p[33]) = (0x50, flags);
    p[34..36].copy_from_slice(&60_000_u16.to_be_bytes());
    p
}

const SYN: u8 = 2;
const ACK: u8 = 16;

/// A handshake with an RTT of 1 ms, five segments, of which the capture at the sender sees no
/// acknowledgement, and the first again after 201 ms.
fn lost_window() -> Vec<(u64, Vec<u8>)> {
    let mut all = vec![
        (0, packet(true, SYN, 99, 0, 0)),
        (1_000_000, packet(false, SYN | ACK, 499, 100, 0)),
        (1_010_000, packet(true, ACK, 100, 500, 0)),
    ];
    for i in 0..5 {
        all.push((
            1_020_000 + u64::from(i) * 1_000,
            packet(true, ACK, 100 + i * 1_000, 500, 1_000),
        ));
    }
    all.push((202_024_000, packet(true, ACK, 100, 500, 1_000)));
    all.push((203_030_000, packet(false, ACK, 500, 1_100, 0)));
    all
}

/// A pcap file of raw IP.
fn pcap(packets: &[(u64, Vec<u8>)], nanoseconds: bool, big_endian: bool) -> Vec<u8> {
    let word = |n: u32| {
        if big_endian {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let half = |n: u16| {
        if big_endian {
            n.to_be_bytes()
        } else {
            n.to_le_bytes()
        }
    };
    let magic = if nanoseconds {
        0xa1b2_3c4d
    } else {
        0xa1b2_c3d4
    };
    let mut file = Vec::new();
    file.extend(word(magic));
    file.extend([half(2), half(4)].concat());
    file.extend([word(0), word(0), word(65_535), word(101)].concat());
    for (nanos, bytes) in packets {
        let fraction = nanos % 1_000_000_000 / if nanoseconds { 1 } else { 1_000 };
        let len = bytes.len() as u32;
        file.extend(
            [
                word((nanos / 1_000_000_000) as u32),
                word(fraction as u32),
                word(len),
                word(len),
            ]
            .concat(),
        );
        file.extend(bytes);
    }
    file
}

fn explain(file: Vec<u8>) -> (Result<Contents, CaptureError>, Vec<Gap>) {
    let mut analyzer = Analyzer::new(Config::default());
    let contents = read(Cursor::new(file), |frame, _| analyzer.handle_packet(frame));
    analyzer.finish();
    let mut gaps = Vec::new();
    while let Some(finding) = analyzer.poll_finding() {
        if let Finding::Gap(gap) = finding {
            gaps.push(gap);
        }
    }
    (contents, gaps)
}

#[test]
fn a_lost_window_is_found_in_every_format() {
    let plain = |ns, be| pcap(&lost_window(), ns, be);
    let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
    gzip.write_all(&plain(true, false)).unwrap();
    let zstd = ruzstd::encoding::compress_to_vec(
        &plain(true, false)[..],
        ruzstd::encoding::CompressionLevel::Fastest,
    );
    for file in [
        plain(true, false),
        plain(false, false),
        plain(true, true),
        plain(false, true),
        gzip.finish().unwrap(),
        zstd,
    ] {
        let (contents, gaps) = explain(file);
        let contents = contents.unwrap();
        assert_eq!((contents.packets, contents.end), (10, End::Complete));
        let [gap] = gaps[..] else { panic!("{gaps:?}") };
        assert_eq!(gap.cause, Cause::TimeoutWholeWindow, "{gap:?}");
        assert_eq!((gap.start.packet, gap.end.packet), (8, 9));
        assert_eq!(gap.evidence.floor.map(|floor| floor.as_millis()), Some(200));
    }
}

#[test]
fn what_was_whole_before_the_end_is_read() {
    let file = pcap(&lost_window(), true, false);
    for cut in 24..file.len() {
        let (contents, _) = explain(file[..cut].to_vec());
        let contents = contents.unwrap();
        let whole = contents.bytes as usize == cut;
        assert_eq!(contents.end == End::Complete, whole, "{cut}: {contents}");
    }
    for cut in 0..4 {
        assert!(explain(file[..cut].to_vec()).0.is_err(), "{cut}");
    }
    assert!(matches!(explain(Vec::new()).0, Err(CaptureError::Empty)));
    assert!(matches!(
        explain(b"GET / HTTP/1.1".to_vec()).0,
        Err(CaptureError::Unknown { .. })
    ));
}

#[test]
fn packets_of_a_middle_of_a_connection_are_enough() {
    let (_, gaps) = explain(pcap(&lost_window()[3..], true, false));
    assert_eq!(gaps.len(), 1, "{gaps:?}");
    assert!(gaps[0].cause.is_timeout(), "{gaps:?}");
}

#[test]
fn a_syn_that_comes_again_after_its_answer_passed_is_a_gap() {
    let syn = || packet(true, SYN, 99, 0, 0);
    let answer = || packet(false, SYN | ACK, 499, 100, 0);
    let all = [
        (0, syn()),
        (50_000, answer()),
        (1_000_000_000, syn()),
        (1_000_050_000, answer()),
        (1_000_100_000, packet(true, ACK, 100, 500, 0)),
    ];
    let (_, gaps) = explain(pcap(&all, true, false));
    let [gap] = gaps[..] else { panic!("{gaps:?}") };
    assert_eq!(gap.cause, Cause::SynRetried, "{gap:?}");
    assert_eq!(gap.end.packet, 3);
}

/// The same packet of another connection: the client's port is another.
fn of_client(port: u16, mut packet: Vec<u8>) -> Vec<u8> {
    let at = if packet[20..22] == 80_u16.to_be_bytes() {
        22
    } else {
        20
    };
    packet[at..at + 2].copy_from_slice(&port.to_be_bytes());
    packet
}

#[test]
fn of_too_many_connections_those_that_are_closed_go_before_those_that_wait() {
    const RST: u8 = 4;
    let mut all = lost_window();
    let waits = all.split_off(8);
    all.push((2_000_000, of_client(7, packet(true, SYN, 99, 0, 0))));
    all.push((2_100_000, of_client(7, packet(false, RST, 0, 100, 0))));
    for port in 8..40 {
        let at = 2_200_000 + u64::from(port) * 1_000;
        all.push((at, of_client(port, packet(true, SYN, 99, 0, 0))));
        all.push((at + 500, of_client(port, packet(false, RST, 0, 100, 0))));
    }
    all.extend(waits);
    let mut analyzer = Analyzer::new(Config {
        connections: 2,
        ..Config::default()
    });
    let file = Cursor::new(pcap(&all, true, false));
    read(file, |frame, _| analyzer.handle_packet(frame)).unwrap();
    analyzer.finish();
    assert_eq!(analyzer.seen().given_up, 0);
    let findings = std::iter::from_fn(|| analyzer.poll_finding());
    let causes: Vec<Cause> = findings
        .filter_map(|finding| match finding {
            Finding::Gap(gap) => Some(gap.cause),
            Finding::Connection(_) => None,
        })
        .collect();
    assert_eq!(causes, [Cause::TimeoutWholeWindow]);
}

#[test]
fn reading_ahead_changes_nothing_of_what_is_found() {
    let mut all = Vec::new();
    for port in 1..20_u16 {
        for (at, packet) in lost_window() {
            all.push((at + u64::from(port) * 777, of_client(port, packet)));
        }
    }
    all.sort();
    let found = |at_once: bool| {
        let mut analyzer = Analyzer::new(Config {
            connections: 7,
            ..Config::default()
        });
        let mut findings = Vec::new();
        let file = Cursor::new(pcap(&all, true, false));
        read(file, |frame, _| {
            // Segments that are known already, and a router that says a word, come between those that are read.
            match frame.content() {
                Some(Content::Tcp(segment)) if frame.number % 23 == 0 => {
                    let now = Sighting {
                        at: frame.at,
                        packet: frame.number,
                    };
                    analyzer.handle_segment(now, frame.interface, &segment);
                    let (src, dst) = (segment.src, segment.dst);
                    analyzer.handle_content(frame, Some(Content::TooBig { src, dst }));
                }
                content => analyzer.handle_content(frame, content),
            }
            if at_once {
                analyzer.catch_up();
            }
            findings.extend(std::iter::from_fn(|| analyzer.poll_finding()));
        })
        .unwrap();
        analyzer.finish();
        findings.extend(std::iter::from_fn(|| analyzer.poll_finding()));
        (format!("{findings:?}"), *analyzer.seen())
    };
    let (one_by_one, ahead) = (found(true), found(false));
    assert!(one_by_one.1.given_up > 0, "{:?}", one_by_one.1);
    assert_eq!(one_by_one, ahead);
}

#[cfg(feature = "simulate")]
#[test]
fn what_was_captured_is_rebuilt_as_an_experiment_that_runs() {
    use narrows_experiment::{file::Loaded, registry::Registry, scenario::RunContext};
    use narrows_explain::simulated::Losses;
    let mut analyzer = Analyzer::new(Config::default());
    let file = Cursor::new(pcap(&lost_window(), true, false));
    read(file, |frame, _| analyzer.handle_packet(frame)).unwrap();
    analyzer.finish();
    let mut explanation = narrows_explain::Explanation::new(10, 10);
    explanation.take(&mut analyzer);
    explanation.finish();
    let text = narrows_explain::simulated::rebuilt(&explanation, Losses::Links).unwrap();
    let registry = Registry::default();
    let loaded = Loaded::parse("rebuilt", &text, &registry).unwrap();
    let run = loaded
        .experiment
        .run(&registry, RunContext::default())
        .unwrap();
    assert_eq!(run.transfers.len(), 1);
}

/// A clock that was set back by an hour goes on, so do seconds of 32 bits that begin anew, and one
/// packet with a wrong time is one packet.
#[test]
fn times_go_on_where_a_clock_was_set_back() {
    const SECOND: u64 = 1_000_000_000;
    let plain = lost_window();
    let causes = |packets: &[(u64, Vec<u8>)]| {
        let mut analyzer = Analyzer::new(Config::default());
        let file = Cursor::new(pcap(packets, true, false));
        let contents = read(file, |frame, _| analyzer.handle_packet(frame)).unwrap();
        analyzer.finish();
        let findings = std::iter::from_fn(|| analyzer.poll_finding());
        let gaps = findings.filter_map(|finding| match finding {
            Finding::Gap(gap) => Some((gap.cause, gap.length())),
            Finding::Connection(_) => None,
        });
        (gaps.collect::<Vec<_>>(), contents.set_back)
    };
    let moved = |by: i64| {
        let mut packets = plain.clone();
        for (n, (at, _)) in packets.iter_mut().enumerate() {
            *at += 7_200 * SECOND;
            if n >= 4 {
                *at = at.strict_add_signed(by);
            }
        }
        packets
    };
    let told = causes(&moved(0));
    assert!(!told.0.is_empty() && told.1.is_zero(), "{told:?}");
    let (gaps, back) = causes(&moved(-3_600 * SECOND as i64));
    assert_eq!(gaps, told.0);
    let hour = Duration::from_secs(3_600);
    assert!(
        back >= hour.saturating_sub(Duration::from_millis(5)) && back <= hour,
        "{back}"
    );
    let mut wraps = plain.clone();
    let first = (1 << 32) * SECOND - plain[4].0;
    for (at, _) in &mut wraps {
        *at = (*at + first) % ((1 << 32) * SECOND);
    }
    assert_eq!(causes(&wraps), told);
    let mut wrong = moved(0);
    wrong[4].0 = 0;
    let (gaps, back) = causes(&wrong);
    assert_eq!((gaps, back), told);
}

/// By a clock that shows these times in milliseconds, when that was, and how far it was set back.
fn steady(shown: impl IntoIterator<Item = u64>) -> (Vec<u64>, Duration) {
    let mut clock = Steady::default();
    let at = shown
        .into_iter()
        .map(|ms| Instant::ZERO + Duration::from_millis(ms));
    let at = at.map(|at| clock.steady(at).as_nanos() / 1_000_000);
    (at.collect(), clock.set_back())
}

/// Whether a clock is taken to have run evenly from so many seconds on, but for these packets with other
/// times.
fn holds_but_for(second: u64, wrong: &[(usize, u64)], step: u64) -> bool {
    let plain: Vec<u64> = (0..20).map(|n| second * 1_000 + n * step).collect();
    let mut shown = plain.clone();
    for (n, at) in wrong {
        shown[*n] = *at;
    }
    let (told, back) = steady(shown);
    let right = |n: &usize| wrong.iter().all(|(wrong, _)| n != wrong);
    back.is_zero() && (0..20).filter(right).all(|n| told[n] == plain[n])
}

#[test]
fn a_packet_with_a_time_too_late_moves_no_other() {
    const LATEST: u64 = u64::MAX / 1_000_000;
    for second in [10, 1_700_000_000, 3_000_000_000] {
        let hour = second * 1_000 + 3_600_000;
        for late in [hour, second * 1_000 + 1_500, LATEST] {
            for n in 0..20 {
                assert!(
                    holds_but_for(second, &[(n, late)], 20),
                    "{second} {late} {n}"
                );
                assert!(
                    holds_but_for(second, &[(n, late)], 50),
                    "{second} {late} {n}"
                );
            }
        }
    }
}

#[test]
fn packets_with_a_time_too_early_move_no_other() {
    for second in [1_000, 1_700_000_000, 3_000_000_000] {
        // Of the last nobody can say whether it was the clock.
        for n in 1..18 {
            for early in [0, 500, second * 1_000 - 900_000] {
                let one = [(n, early)];
                let even = [(n, early), (n + 1, early + 20)];
                let odd = [(n, early), (n + 1, early / 2)];
                for wrong in [&one[..], &even, &odd] {
                    assert!(holds_but_for(second, wrong, 20), "{second} {wrong:?}");
                }
                assert!(holds_but_for(second, &one, 3_000), "{second} {n} {early}");
            }
        }
    }
}

#[test]
fn a_clock_that_cannot_go_on_begins_anew() {
    const LATEST: u64 = u64::MAX / 1_000_000;
    for back in [1_000, 1_000_000, 9_000_000_000_000, LATEST - 20_000] {
        let after = (0..20).map(|n| LATEST - back + n * 20);
        let shown = [LATEST; 5].into_iter().chain(after);
        let told = steady(shown).0;
        // However often it is set: time does not stand still.
        let stands = told[5..].windows(2).filter(|two| two[0] == two[1]).count();
        assert!(stands <= 3, "{back} {told:?}");
    }
}

/// A pcapng file of raw IP with so many interfaces: of each packet the interface, the time in
/// microseconds, and its bytes.
fn pcapng(interfaces: u32, packets: &[(u32, u64, Vec<u8>)]) -> Vec<u8> {
    let mut file = Vec::new();
    let mut block = |kind: u32, body: &[u8]| {
        let len = (12 + body.len() as u32).to_le_bytes();
        file.extend([&kind.to_le_bytes()[..], &len, body, &len].concat());
    };
    let section = [
        &0x1a2b_3c4d_u32.to_le_bytes()[..],
        &[1, 0, 0, 0],
        &[0xff; 8],
    ];
    block(0x0a0d_0d0a, &section.concat());
    for _ in 0..interfaces {
        block(1, &[101, 0, 0, 0, 0, 0, 0, 0]);
    }
    for (interface, at, bytes) in packets {
        let len = bytes.len() as u32;
        let words = [*interface, (*at >> 32) as u32, *at as u32, len, len];
        let mut body = words.map(u32::to_le_bytes).concat();
        body.extend(bytes);
        body.resize(body.len().next_multiple_of(4), 0);
        block(6, &body);
    }
    file
}

#[test]
fn each_interface_has_a_clock_of_its_own() {
    let order = [0_u32, 1, 1, 0, 1, 1, 0, 1, 1, 0, 1];
    let packets: Vec<_> = (0..)
        .zip(order)
        .map(|(n, interface)| {
            let at = 10_000_000 - u64::from(interface) * 1_000_000 + n * 10_000;
            (interface, at, packet(true, 0x10, 100, 500, 10))
        })
        .collect();
    let mut told = Vec::new();
    let file = Cursor::new(pcapng(2, &packets));
    let contents = read(file, |frame, _| {
        told.push((frame.interface, frame.at.as_nanos() / 1_000));
    });
    let shown: Vec<_> = packets.iter().map(|(on, at, _)| (*on, *at)).collect();
    assert_eq!(told, shown);
    assert!(contents.unwrap().set_back.is_zero());
}
