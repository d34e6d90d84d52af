//! Damaged, truncated, contradictory and random bytes.

use super::*;

fn small(v6: bool) -> Packet<Vec<u8>> {
    let addr = |last| match v6 {
        true => IpAddr::from([0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, last]),
        false => IpAddr::from([192, 0, 2, last]),
    };
    Packet {
        ip: IpHeader {
            src: addr(1),
            dst: addr(2),
            ecn: Ecn::Ect0,
            dscp: 10,
            hop_limit: 64,
        },
        tcp: TcpHeader {
            src_port: 49_152,
            dst_port: 80,
            seq: Seq(1000),
            ack: Seq(2000),
            flags: Flags::ACK | Flags::PSH,
            window: 512,
            urgent: 0,
            options: TcpOptions {
                timestamps: Some(Timestamps { val: 1, ecr: 2 }),
                ..TcpOptions::default()
            },
        },
        payload: b"hello, world".to_vec(),
    }
}

fn parse(bytes: &[u8]) -> Result<Packet<&[u8]>, ParseError> {
    read(bytes, ChecksumPolicy::Verify).0
}

#[test]
fn every_flipped_bit_is_noticed() {
    for v6 in [false, true] {
        let packet = small(v6);
        let bytes = emitted(&packet);
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 0x80 >> (bit % 8);
            // IPv6 has no checksum over traffic class, flow label and hop limit.
            let unprotected = v6 && ((4..32).contains(&bit) || (56..64).contains(&bit));
            match parse(&damaged) {
                Err(_) => assert!(!unprotected, "bit {bit} is refused"),
                Ok(read) => {
                    assert!(unprotected, "bit {bit} is not noticed");
                    assert_eq!(
                        (read.tcp, read.payload),
                        (packet.tcp.clone(), &packet.payload[..])
                    );
                }
            }
        }
    }
}

#[test]
fn every_truncation_is_an_error() {
    for v6 in [false, true] {
        let bytes = emitted(&small(v6));
        for cut in 0..bytes.len() {
            for policy in [ChecksumPolicy::Verify, ChecksumPolicy::Trust] {
                let error = read(&bytes[..cut], policy).0.unwrap_err();
                assert!(
                    matches!(error, ParseError::Truncated { .. }),
                    "{cut}: {error}"
                );
            }
        }
    }
}

/// A change to a good IPv4 packet, its checksums made right again, and what it is refused for.
#[test]
fn contradictions_have_names() {
    type Change = fn(&mut Vec<u8>);
    let table: [(Change, ParseError); 12] = [
        (|p| p[0] = 0x55, ParseError::Version(5)),
        (
            |p| p[0] = 0x44,
            ParseError::HeaderLength {
                layer: Layer::Ipv4,
                bytes: 16,
            },
        ),
        (
            |p| p[2..4].copy_from_slice(&[0, 19]),
            ParseError::TotalLength(19),
        ),
        (
            |p| p[2..4].copy_from_slice(&[1, 0]),
            ParseError::Truncated {
                layer: Layer::Ipv4,
                needed: 256,
                got: 64,
            },
        ),
        (|p| p[6] |= 0x20, ParseError::Fragment),
        (|p| p[7] |= 0x01, ParseError::Fragment),
        (|p| p[9] = 17, ParseError::Protocol(17)),
        (|p| p[20..22].fill(0), ParseError::PortZero),
        (|p| p[22..24].fill(0), ParseError::PortZero),
        (
            |p| p[32] = 0x40,
            ParseError::HeaderLength {
                layer: Layer::Tcp,
                bytes: 16,
            },
        ),
        (
            |p| p[32] = 0xf0,
            ParseError::Truncated {
                layer: Layer::Tcp,
                needed: 60,
                got: 44,
            },
        ),
        (
            |p| p[2..4].copy_from_slice(&[0, 39]),
            ParseError::Truncated {
                layer: Layer::Tcp,
                needed: 20,
                got: 19,
            },
        ),
    ];
    for (i, (change, expected)) in table.into_iter().enumerate() {
        let mut bytes = emitted(&small(false));
        change(&mut bytes);
        mend_checksums(&mut bytes);
        assert_eq!(parse(&bytes), Err(expected), "row {i}");
        assert!(!expected.to_string().is_empty());
    }
}

#[test]
fn ipv4_options_are_passed_over() {
    let packet = small(false);
    let mut bytes = emitted(&packet);
    // Router alert (RFC 2113).
    bytes.splice(20..20, [148, 4, 0, 0]);
    bytes[0] = 0x46;
    let total = bytes.len() as u16;
    bytes[2..4].copy_from_slice(&total.to_be_bytes());
    bytes[10..12].fill(0);
    let sum = checksum::Sum::of(&bytes[..24]).checksum();
    bytes[10..12].copy_from_slice(&sum.to_be_bytes());
    assert_eq!(parse(&bytes), Ok(borrowed(&packet)));
}

/// Extension headers put before the TCP header of a good IPv6 packet.
fn extended(first: u8, headers: &[u8]) -> Vec<u8> {
    let mut bytes = emitted(&small(true));
    bytes.splice(40..40, headers.iter().copied());
    bytes[6] = first;
    let payload = bytes.len() as u16 - 40;
    bytes[4..6].copy_from_slice(&payload.to_be_bytes());
    bytes
}

#[test]
fn ipv6_extension_headers() {
    let packet = small(true);
    // Hop-by-hop with PadN, routing without segments left, destination options of 16 bytes.
    let mut headers = vec![43, 0, 1, 4, 0, 0, 0, 0];
    headers.extend([60, 0, 4, 0, 0, 0, 0, 0]);
    headers.extend([6, 1, 1, 12, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
    assert_eq!(parse(&extended(0, &headers)), Ok(borrowed(&packet)));
    let routed = [6, 0, 4, 2, 0, 0, 0, 0];
    assert_eq!(
        parse(&extended(43, &routed)),
        Err(ParseError::SegmentsLeft(2))
    );
    let fragment = [6, 0, 0, 1, 0, 0, 0, 1];
    assert_eq!(parse(&extended(44, &fragment)), Err(ParseError::Fragment));
    let late = [0, 0, 1, 4, 0, 0, 0, 0, 6, 0, 1, 4, 0, 0, 0, 0];
    assert_eq!(parse(&extended(60, &late)), Err(ParseError::Protocol(0)));
    assert_eq!(parse(&extended(59, &[])), Err(ParseError::Protocol(59)));
    let long = [6, 255, 1, 4, 0, 0, 0, 0];
    assert_eq!(
        parse(&extended(60, &long)),
        Err(ParseError::Truncated {
            layer: Layer::Ipv6,
            needed: 2048,
            got: 52
        })
    );
    let chain = |n: usize| {
        let mut headers = [60, 0, 1, 4, 0, 0, 0, 0].repeat(n);
        headers[8 * (n - 1)] = 6;
        extended(60, &headers)
    };
    assert_eq!(parse(&chain(8)), Ok(borrowed(&packet)));
    assert_eq!(parse(&chain(9)), Err(ParseError::TooManyExtensions));
}

/// RFC 8504 section 5.2 and RFC 8200 section 4.4: a routing header of type 0 (RFC 5095) is as any
/// that is not known, ignored without segments left and refused with them.
#[test]
fn rfc8504_5_2_a_routing_header_of_type_0_is_as_an_unknown_one() {
    for kind in [0, 1, 4, 253, 255] {
        let with = |left: u8| extended(43, &[6, 0, kind, left, 0, 0, 0, 0]);
        assert_eq!(parse(&with(0)), Ok(borrowed(&small(true))), "{kind}");
        for left in [1, 255] {
            let refused = Err(ParseError::SegmentsLeft(left));
            assert_eq!(parse(&with(left)), refused, "{kind}");
        }
    }
}

/// RFC 8504 section 5.1 and RFC 6946 section 4: a packet in one fragment is whole, and needs no other.
#[test]
fn rfc8504_5_1_an_atomic_fragment_is_a_whole_packet() {
    let packet = small(true);
    // Reserved bits are ignored (RFC 8200 section 4.5).
    for (reserved, low) in [(0, 0), (0xff, 0b110)] {
        let header = [6, reserved, 0, low, 1, 2, 3, 4];
        assert_eq!(parse(&extended(44, &header)), Ok(borrowed(&packet)));
        let mut between = vec![44, 0, 1, 4, 0, 0, 0, 0];
        between.extend([60, reserved, 0, low, 1, 2, 3, 4]);
        between.extend([6, 0, 1, 4, 0, 0, 0, 0]);
        assert_eq!(parse(&extended(0, &between)), Ok(borrowed(&packet)));
    }
    // More follows, or went before.
    for (high, low) in [(0, 1), (0, 8), (1, 0), (0x80, 0), (0, 7)] {
        let bytes = extended(44, &[6, 0, high, low, 0, 0, 0, 1]);
        assert_eq!(parse(&bytes), Err(ParseError::Fragment), "{high} {low}");
    }
    // Headers that go on in another fragment.
    let cut = |low| extended(44, &[60, 0, 0, low, 0, 0, 0, 1, 6, 255, 1, 4, 0, 0, 0, 0]);
    assert_eq!(parse(&cut(1)), Err(ParseError::Fragment));
    assert!(matches!(parse(&cut(0)), Err(ParseError::Truncated { .. })));
}

/// RFC 8200 section 4: each header is processed before the next is looked at.
#[test]
fn rfc8200_4_headers_are_processed_in_the_order_they_come() {
    let option = |next: u8, kind: u8| [next, 0, kind, 4, 0, 0, 0, 0];
    let both = |first: u8, second: u8| [option(60, first), option(6, second)].concat();
    for start in [0, 60] {
        let verdict = |first, second| parse(&extended(start, &both(first, second))).map(|_| ());
        assert_eq!(verdict(1, 1), Ok(()));
        assert_eq!(verdict(0x40, 1), Err(ParseError::Ipv6Option(0x40)));
        assert_eq!(verdict(1, 0x80), Err(ParseError::Ipv6Option(0x80)));
        assert_eq!(verdict(0x40, 0x80), Err(ParseError::Ipv6Option(0x40)));
    }
    // What is wrong with the second is not said where the first says enough.
    let mut headers = option(43, 0x40).to_vec();
    headers.extend([6, 0, 4, 2, 0, 0, 0, 0]);
    let verdict = parse(&extended(0, &headers)).map(|_| ());
    assert_eq!(verdict, Err(ParseError::Ipv6Option(0x40)));
}

/// RFC 8200 section 4.2: the two highest bits of an option that is not known say whether the packet
/// is discarded.
#[test]
fn rfc8200_4_2_an_unknown_option_says_what_becomes_of_the_packet() {
    let packet = small(true);
    for header in [0, 60] {
        let with = |options: [u8; 6]| {
            let mut bytes = vec![6, 0];
            bytes.extend(options);
            extended(header, &bytes)
        };
        for skipped in [0x1e, 0x3f] {
            // Padding of one byte before it.
            let bytes = with([0, skipped, 2, 0xff, 0xff, 0]);
            assert_eq!(parse(&bytes), Ok(borrowed(&packet)));
        }
        for discarded in [0x40, 0x5e, 0x80, 0xc2, 0xff] {
            let bytes = with([0, discarded, 2, 0, 0, 0]);
            assert_eq!(parse(&bytes), Err(ParseError::Ipv6Option(discarded)));
        }
        for broken in [
            [1, 5, 0, 0, 0, 0],
            [0x1e, 255, 0, 0, 0, 0],
            [1, 3, 0, 0, 0, 1],
        ] {
            assert_eq!(parse(&with(broken)), Err(ParseError::Ipv6OptionLength));
        }
    }
}

/// RFC 8200 section 3: routers count the hop limit down, and who a packet is for does not look at it.
#[test]
fn rfc8200_3_a_hop_limit_of_zero_is_taken() {
    let mut packet = small(true);
    packet.ip.hop_limit = 0;
    assert_eq!(parse(&emitted(&packet)), Ok(borrowed(&packet)));
}

/// A label is 20 bits, and changes nothing else (RFC 8200 section 3).
#[test]
fn rfc8200_3_a_flow_label_has_its_place() {
    let mut packet = small(true);
    (packet.ip.dscp, packet.ip.ecn) = (0x2d, Ecn::Ect0);
    let mut bytes = emitted(&packet);
    assert_eq!(ipv6::flow_label(&bytes), Some(0));
    for (label, kept) in [(1, 1), (0xa_bcde, 0xa_bcde), (u32::MAX, 0xf_ffff), (0, 0)] {
        ipv6::set_flow_label(&mut bytes, label);
        assert_eq!(ipv6::flow_label(&bytes), Some(kept));
        assert_eq!(parse(&bytes), Ok(borrowed(&packet)));
    }
    assert_eq!(ipv6::flow_label(&emitted(&small(false))), None);
    assert_eq!(ipv6::flow_label(&[0x60, 0, 0]), None);
}

proptest! {
    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..150), like in 0usize..4) {
        // Three in four look like IP at the front, so that the bytes behind are reached.
        if let [version, _, high, low, ..] = &mut bytes[..] {
            match like {
                0 => {}
                1 => *version = 0x45,
                2 => *version = 0x4f,
                _ => *version = 0x60,
            }
            if like > 0 {
                (*high, *low) = (0, *low % 160);
            }
            if like == 3 && bytes.len() > 8 {
                bytes[4] = 0;
                bytes[6] = [6, 0, 43, 60][usize::from(bytes[6] % 4)];
            } else if like > 0 && bytes.len() > 9 {
                bytes[6..8].fill(0);
                bytes[9] = 6;
            }
        }
        for policy in [ChecksumPolicy::Verify, ChecksumPolicy::Trust] {
            let _ = read(&bytes, policy);
            let _ = Packet::parse_with(&bytes, policy, OptionPolicy::Reject);
        }
        let _ = TcpHeader::parse(&bytes, OptionPolicy::Reject);
        let _ = ethernet::EthernetHeader::parse(&bytes);
        let _ = arp::ArpPacket::parse(&bytes);
    }

    /// Whatever options come, what is read of them can be written, and reads the same again
    /// unless alignment left no room for a SACK block.
    #[test]
    fn random_options_are_read_alike_by_both_policies(bytes in prop::collection::vec(prop_oneof![0u8..12, any::<u8>()], 0..41)) {
        let lenient = TcpOptions::parse(&bytes, OptionPolicy::KeepValid).unwrap();
        if let Ok(strict) = TcpOptions::parse(&bytes, OptionPolicy::Reject) {
            prop_assert_eq!(&strict, &lenient);
        }
        let mut buf = [0; 40];
        if let Ok(n) = lenient.emit(&mut buf) {
            let again = TcpOptions::parse(&buf[..n], OptionPolicy::Reject);
            prop_assert_eq!(again, Ok(as_sent(&lenient)));
        }
    }
}
