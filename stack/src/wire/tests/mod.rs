//! Properties of whole packets.

mod hostile;
mod icmp;
mod peer;
mod plain;

use super::options::MAX_OPTIONS_LEN;
use super::*;
use crate::buffer::{Bytes, BytesView, Synthetic, synthetic};
use core::net::IpAddr;
use proptest::option;
use proptest::prelude::*;

fn seq() -> impl Strategy<Value = Seq> {
    any::<u32>().prop_map(Seq)
}

fn sack_blocks(max: usize) -> impl Strategy<Value = SackBlocks> {
    prop::collection::vec((seq(), seq()), 0..=max).prop_map(|blocks| {
        let mut out = SackBlocks::EMPTY;
        for (start, end) in blocks {
            assert!(out.push(SackBlock { start, end }));
        }
        out
    })
}

fn timestamps() -> impl Strategy<Value = Timestamps> {
    any::<(u32, u32)>().prop_map(|(val, ecr)| Timestamps { val, ecr })
}

/// Well-formed options of kinds that are not known, up to 60 bytes.
fn unknown() -> impl Strategy<Value = Option<Box<[u8]>>> {
    let kind = prop_oneof![Just(6u8), Just(7), 9..=255u8];
    let one = (kind, prop::collection::vec(any::<u8>(), 0..14));
    prop_oneof![
        3 => Just(Vec::new()),
        1 => prop::collection::vec(one, 1..4),
    ]
    .prop_map(|list| {
        let bytes: Vec<u8> = list
            .into_iter()
            .flat_map(|(kind, data)| [vec![kind, data.len() as u8 + 2], data].concat())
            .collect();
        (!bytes.is_empty()).then(|| bytes.into_boxed_slice())
    })
}

fn options() -> impl Strategy<Value = TcpOptions> {
    (
        option::of(any::<u16>()),
        option::of(any::<u8>()),
        any::<bool>(),
        option::of(timestamps()),
        sack_blocks(4),
        unknown(),
    )
        .prop_map(
            |(mss, window_scale, sack_permitted, timestamps, sack, unknown)| TcpOptions {
                mss,
                window_scale,
                sack_permitted,
                timestamps,
                sack,
                unknown,
            },
        )
}

fn tcp_header(options: impl Strategy<Value = TcpOptions>) -> impl Strategy<Value = TcpHeader> {
    (
        1u16..,
        1u16..,
        seq(),
        seq(),
        0u16..512,
        any::<(u16, u16)>(),
        options,
    )
        .prop_map(
            |(src_port, dst_port, seq, ack, flags, (window, urgent), options)| TcpHeader {
                src_port,
                dst_port,
                seq,
                ack,
                flags: Flags::from_bits(flags),
                window,
                urgent,
                options,
            },
        )
}

fn ip_header() -> impl Strategy<Value = IpHeader> {
    let addresses = prop_oneof![
        any::<([u8; 4], [u8; 4])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
        any::<([u8; 16], [u8; 16])>().prop_map(|(a, b)| (IpAddr::from(a), IpAddr::from(b))),
    ];
    (addresses, 0u8..4, 0u8..64, any::<u8>()).prop_map(|((src, dst), ecn, dscp, hop_limit)| {
        IpHeader {
            src,
            dst,
            ecn: Ecn::from_bits(ecn),
            dscp,
            hop_limit,
        }
    })
}

fn payload() -> impl Strategy<Value = Vec<u8>> {
    prop::collection::vec(any::<u8>(), 0..200)
}

/// Packets that can be written.
fn packet() -> impl Strategy<Value = Packet<Vec<u8>>> {
    let options =
        options().prop_filter("too long", |options| options.wire_len() <= MAX_OPTIONS_LEN);
    (ip_header(), tcp_header(options), payload()).prop_map(|(ip, tcp, payload)| Packet {
        ip,
        tcp,
        payload,
    })
}

fn borrowed(packet: &Packet<Vec<u8>>) -> Packet<&[u8]> {
    Packet {
        ip: packet.ip,
        tcp: packet.tcp.clone(),
        payload: &packet.payload,
    }
}

fn emitted(packet: &Packet<Vec<u8>>) -> Vec<u8> {
    let packet = borrowed(packet);
    let mut buf = vec![0xaa; packet.wire_len() + 9];
    let len = packet
        .emit(&mut buf)
        .expect("the generator makes packets that fit");
    assert_eq!(len, packet.wire_len());
    assert!(
        buf[len..].iter().all(|&b| b == 0xaa),
        "written beyond the end"
    );
    buf.truncate(len);
    buf
}

/// What [`Packet::parse`] makes of `bytes`, and [`packet::read`] with it, which is to make the same
/// of them; and whether that took them for plain.
fn read(bytes: &[u8], checksum: ChecksumPolicy) -> (Result<Packet<&[u8]>, ParseError>, bool) {
    let long = Packet::parse(bytes, checksum);
    let mut is_plain = false;
    let short = packet::read(bytes, checksum, |headers, payload| {
        is_plain = matches!(headers, Headers::Plain(_));
        let (ip, tcp) = headers.whole();
        Packet { ip, tcp, payload }
    });
    assert_eq!(short, long, "{bytes:x?}");
    // In parts, cut behind the headers or elsewhere.
    for at in [0, 19, 20, 32, 40, 52, 60, bytes.len() / 2, bytes.len()] {
        let (head, body) = bytes.split_at(at.min(bytes.len()));
        let body = Bytes::copy_from_slice(body);
        let at = body.as_ptr();
        let mut was_passed_on = false;
        let apart = packet::read_apart(head, body, checksum, |headers, payload| {
            was_passed_on = payload.as_ptr() == at;
            let (ip, tcp) = headers.whole();
            (ip, tcp, payload)
        });
        match (&apart, &long) {
            (Ok((ip, tcp, payload)), Ok(long)) => {
                assert_eq!((ip, tcp, &payload[..]), (&long.ip, &long.tcp, long.payload));
                let header_len = long.wire_len() - long.payload.len();
                let is_exact = head.len() == header_len && long.wire_len() == bytes.len();
                assert!(was_passed_on || !is_exact || payload.is_empty());
            }
            _ => assert_eq!(apart.err(), long.as_ref().err().copied(), "{bytes:x?}"),
        }
    }
    (long, is_plain)
}

/// Makes both checksums right, as far as there are the headers to hold them.
fn mend_checksums(bytes: &mut [u8]) {
    let total = bytes.len();
    if total < 40 {
        return;
    }
    bytes[10..12].fill(0);
    let ip = checksum::Sum::of(&bytes[..20]).checksum();
    bytes[10..12].copy_from_slice(&ip.to_be_bytes());
    bytes[36..38].fill(0);
    let [src, dst] = [12, 16].map(|at| IpAddr::from([0, 1, 2, 3].map(|i| bytes[at + i])));
    let end = usize::from(u16::from_be_bytes([bytes[2], bytes[3]])).clamp(20, total);
    let sum = checksum::Sum::pseudo_header(src, dst, end - 20);
    let tcp = (sum + checksum::Sum::of(&bytes[20..end])).checksum();
    bytes[36..38].copy_from_slice(&tcp.to_be_bytes());
}

/// The options as a peer sees them: SACK blocks that did not fit are gone.
fn as_sent(options: &TcpOptions) -> TcpOptions {
    let mut sack = SackBlocks::EMPTY;
    for &block in options
        .sack
        .as_slice()
        .iter()
        .take(options.max_sack_blocks())
    {
        sack.push(block);
    }
    TcpOptions {
        sack,
        ..options.clone()
    }
}

proptest! {
    #[test]
    fn options_take_their_wire_len_and_come_back(options in options(), room in 0usize..80) {
        let mut buf = [0xaa; 80];
        let len = options.wire_len();
        prop_assert_eq!(len % 4, 0);
        match options.emit(&mut buf[..room]) {
            Ok(n) => {
                prop_assert_eq!(n, len);
                prop_assert!(n <= MAX_OPTIONS_LEN);
                let all = options.max_sack_blocks() >= options.sack.len();
                let next = if options.max_sack_blocks() == 0 { 12 } else { 8 };
                prop_assert!(all || n + next > MAX_OPTIONS_LEN, "one more block fits");
                prop_assert!(buf[n..].iter().all(|&b| b == 0xaa));
                let parsed = TcpOptions::parse(&buf[..n], OptionPolicy::Reject);
                prop_assert_eq!(parsed, Ok(as_sent(&options)));
            }
            Err(EmitError::OptionsTooLong(n)) => {
                prop_assert_eq!(n, len);
                let rest = TcpOptions { sack: SackBlocks::EMPTY, ..options };
                prop_assert!(rest.wire_len() > MAX_OPTIONS_LEN, "SACK blocks can be cut");
            }
            Err(e) => {
                prop_assert_eq!(e, EmitError::BufferTooSmall { needed: len, got: room });
                prop_assert!(room < len);
            }
        }
    }

    #[test]
    fn a_packet_comes_back(packet in packet()) {
        let bytes = emitted(&packet);
        let parsed =
            Packet::parse_with(&bytes, ChecksumPolicy::Verify, OptionPolicy::Reject).unwrap();
        let mut sent = borrowed(&packet);
        sent.tcp.options = as_sent(&sent.tcp.options);
        prop_assert_eq!(&parsed, &sent);
        prop_assert_eq!(Packet::parse(&bytes, ChecksumPolicy::Trust), Ok(sent));
        // Padding after the packet, as a short Ethernet frame has it.
        let mut padded = bytes.clone();
        padded.extend([0xee; 7]);
        prop_assert_eq!(Packet::parse(&padded, ChecksumPolicy::Verify), Ok(parsed));
    }

    #[test]
    fn every_payload_type_gives_the_same_bytes(
        packet in packet(),
        offset in 0u64..1 << 40,
        len in 0usize..3000,
        cut in any::<prop::sample::Index>(),
    ) {
        let mut bytes = vec![0; len];
        synthetic::fill_pattern(offset, &mut bytes);
        let Packet { ip, tcp, .. } = packet;
        let (a, b) = bytes.split_at(cut.index(len + 1));
        let mut out = [(); 3].map(|()| vec![0; 3200]);
        let whole = Packet { ip, tcp: tcp.clone(), payload: &bytes[..] };
        let split = Packet { ip, tcp: tcp.clone(), payload: BytesView::new(a, b) };
        let range = Packet { ip, tcp, payload: Synthetic { offset, len: len as u32 } };
        prop_assert_eq!(whole.emit(&mut out[0]), Ok(whole.wire_len()));
        prop_assert_eq!(split.emit(&mut out[1]), Ok(split.wire_len()));
        prop_assert_eq!(range.emit(&mut out[2]), Ok(range.wire_len()));
        prop_assert_eq!(&out[0], &out[1]);
        prop_assert_eq!(&out[0], &out[2]);
        let parsed = Packet::parse(&out[0], ChecksumPolicy::Verify).unwrap();
        prop_assert_eq!(parsed.payload.len(), len);
        prop_assert_eq!(synthetic::check_pattern(offset, parsed.payload), None);
    }
}

#[test]
fn what_cannot_be_written_says_why() {
    let ip = IpHeader {
        src: IpAddr::from([10, 0, 0, 1]),
        dst: IpAddr::from([10, 0, 0, 2]),
        ecn: Ecn::NotEct,
        dscp: 0,
        hop_limit: 64,
    };
    let tcp = TcpHeader {
        src_port: 1,
        dst_port: 2,
        ..TcpHeader::default()
    };
    let data = vec![0; 70_000];
    let mut buf = vec![0; 80_000];
    let emit = |ip: &IpHeader, n: usize, buf: &mut [u8]| packet::emit(ip, &tcp, &&data[..n], buf);
    assert_eq!(emit(&ip, 65_495, &mut buf), Ok(65_535));
    assert_eq!(
        Packet::parse(&buf, ChecksumPolicy::Verify)
            .unwrap()
            .payload
            .len(),
        65_495
    );
    assert_eq!(
        emit(&ip, 65_496, &mut buf),
        Err(EmitError::PacketTooLong(65_536))
    );
    let needed = 141;
    let got = 140;
    assert_eq!(
        emit(&ip, 101, &mut buf[..got]),
        Err(EmitError::BufferTooSmall { needed, got })
    );
    let got = 30;
    assert_eq!(
        emit(&ip, 101, &mut buf[..got]),
        Err(EmitError::BufferTooSmall { needed, got })
    );
    let mixed = IpHeader {
        dst: IpAddr::from([0; 16]),
        ..ip
    };
    assert_eq!(emit(&mixed, 0, &mut buf), Err(EmitError::MixedFamilies));
    let six = IpHeader {
        src: IpAddr::from([1; 16]),
        ..mixed
    };
    assert_eq!(emit(&six, 65_515, &mut buf), Ok(65_575));
    assert_eq!(
        emit(&six, 65_516, &mut buf),
        Err(EmitError::PacketTooLong(65_576))
    );
    for e in [
        EmitError::MixedFamilies,
        EmitError::PacketTooLong(9),
        EmitError::OptionsTooLong(9),
    ] {
        assert!(!e.to_string().is_empty());
    }
}
