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

/// What both ways of reading make of `bytes`, and whether the short one was enough.
fn read_both(bytes: &[u8], checksum: ChecksumPolicy) -> Result<bool, TestCaseError> {
    let long = Packet::parse(bytes, checksum);
    let mut was_plain = false;
    let short = packet::read(bytes, checksum, |headers, payload| match headers {
        Headers::Plain(segment) => {
            was_plain = true;
            let (ip, tcp) = (segment.ip_header(), segment.tcp.header());
            Packet { ip, tcp, payload }
        }
        Headers::Any(&ip, tcp) => {
            let tcp = tcp.clone();
            Packet { ip, tcp, payload }
        }
    });
    prop_assert_eq!(short, long);
    Ok(was_plain)
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
        prop_assert!(read_both(bytes, ChecksumPolicy::Verify)?, "plain is read as plain");
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

    /// Damaged, cut off, followed by padding, and with any options.
    #[test]
    fn what_is_not_plain_is_read_as_ever(
        any in packet(),
        plain in plain_segment(),
        is_plain: bool,
        payload in payload(),
        damage in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..3),
        len in any::<prop::sample::Index>(),
        verify: bool,
    ) {
        let mut bytes = match is_plain {
            false => emitted(&any),
            true => {
                let mut buf = vec![0; 300];
                let len = Headers::Plain(&plain).emit(&&payload[..], &mut buf).unwrap();
                buf.truncate(len);
                buf
            }
        };
        for (at, with) in damage {
            // The headers, mostly.
            let at = at.index(bytes.len().min(60));
            bytes[at] ^= with;
        }
        bytes.extend([0xee; 7]);
        bytes.truncate(len.index(bytes.len()) + 1);
        let checksum = match verify {
            true => ChecksumPolicy::Verify,
            false => ChecksumPolicy::Trust,
        };
        read_both(&bytes, checksum)?;
    }
}
