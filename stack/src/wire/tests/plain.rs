//! Plain packets, beside what any packet is read and written by.

use super::*;

fn plain_segment() -> impl Strategy<Value = PlainSegment> {
    let options = option::of(timestamps()).prop_map(|timestamps| TcpOptions {
        timestamps,
        ..TcpOptions::default()
    });
    let addresses = any::<([u8; 4], [u8; 4])>();
    (ip_header(), addresses, tcp_header(options)).prop_map(|(ip, (src, dst), tcp)| PlainSegment {
        src: src.into(),
        dst: dst.into(),
        tcp: PlainHeader::of(&tcp),
        ecn: ip.ecn,
        dscp: ip.dscp,
        hop_limit: ip.hop_limit,
    })
}

/// Options as they stand in a header, half of the time with timestamps in front.
fn raw_options() -> impl Strategy<Value = Vec<u8>> {
    let bytes = prop::collection::vec(prop_oneof![0u8..11, any::<u8>()], 16);
    let len = prop::sample::select(vec![0usize, 4, 8, 12, 12, 12, 16]);
    (bytes, len, any::<bool>()).prop_map(|(mut bytes, len, timestamps)| {
        if timestamps {
            bytes[..4].copy_from_slice(&[1, 1, 8, 10]);
        }
        bytes.truncate(len);
        bytes
    })
}

proptest! {
    #[test]
    fn a_plain_packet_is_written_and_read_as_any(
        segment in plain_segment(),
        payload in prop::collection::vec(any::<u8>(), 0..3_000),
        room in 0usize..100,
    ) {
        let (ip, tcp) = (segment.ip_header(), segment.tcp.header());
        let headers = [Headers::Plain(&segment), Headers::Any(&ip, &tcp)];
        let [plain, any] = headers.map(|headers| {
            let mut buf = vec![0xaa; 4_000];
            let len = headers.emit(&&payload[..], &mut buf);
            (len, buf)
        });
        prop_assert_eq!(&plain, &any);
        let bytes = &plain.1[..plain.0.unwrap()];
        prop_assert!(read(bytes, ChecksumPolicy::Verify).1, "plain is read as plain");
        let checksums = [HeadChecksum::Full(checksum::Sum::of(&payload)), HeadChecksum::Partial];
        for (at, checksum) in checksums.into_iter().enumerate() {
            let [plain, any] = headers.map(|headers| {
                let mut buf = [0xaa; 100];
                let len = headers.emit_head(payload.len(), checksum, &mut buf[..room]);
                // Of what does not fit, some may have been written.
                (len, len.map(|len| buf[..len].to_vec()))
            });
            prop_assert_eq!(&plain, &any);
            if at == 0 && let Ok(head) = &plain.1 {
                prop_assert_eq!(&head[..], &bytes[..head.len()]);
            }
        }
    }

    /// Damaged, with any options, now and then cut off, and followed by padding.
    #[test]
    fn what_is_not_plain_is_read_as_ever(
        segment in plain_segment(),
        options in raw_options(),
        payload in prop::collection::vec(any::<u8>(), 0..60),
        damage in prop::collection::vec(
            (0usize..60, prop_oneof![Just(0), Just(0xff), any::<u8>()]), 0..3,
        ),
        // A fragment, no port, an urgent pointer.
        word in option::weighted(0.3, prop::sample::select(vec![(6, 0x20), (20, 0), (22, 0), (38, 7)])),
        cut in option::weighted(0.2, any::<prop::sample::Index>()),
        mended in prop::bool::weighted(0.8),
    ) {
        let mut bare = segment;
        bare.tcp.timestamps = None;
        let rest = [&options[..], &payload[..]].concat();
        let mut bytes = vec![0; 200];
        let len = Headers::Plain(&bare).emit(&&rest[..], &mut bytes).unwrap();
        bytes.truncate(len);
        bytes[32] = ((20 + options.len()) / 4 * 16) as u8 | (bytes[32] & 0xf);
        for (at, with) in damage {
            if let Some(byte) = bytes.get_mut(at) {
                *byte = with;
            }
        }
        if let Some((at, with)) = word {
            bytes[at..at + 2].fill(with);
        }
        if mended {
            mend_checksums(&mut bytes);
        }
        bytes.extend([0xee; 7]);
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()) + 1);
        }
        for checksum in [ChecksumPolicy::Verify, ChecksumPolicy::Trust] {
            let _ = read(&bytes, checksum);
        }
    }
}
