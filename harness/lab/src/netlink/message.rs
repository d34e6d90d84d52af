//! Messages (`struct nlmsghdr`) in what the kernel answers.

use super::malformed;
use netlink_bindings::builtin::Nlmsghdr;
use netlink_bindings::utils::parse_i32;
use nix::libc;
use std::io;

/// What a message says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// A part of what was asked for.
    Part,
    /// That it was done, or was all.
    End,
    /// Nothing.
    Nothing,
}

/// The first message of a datagram, and what is behind it.
pub(super) fn first(datagram: &[u8]) -> io::Result<(Nlmsghdr, &[u8], &[u8])> {
    let take = || {
        let (header, _) = datagram.split_at_checked(Nlmsghdr::len())?;
        let header = Nlmsghdr::new_from_slice(header)?;
        let len = header.len as usize;
        let body = datagram.get(Nlmsghdr::len()..len)?;
        // Each stands at a multiple of four, and nothing need follow the last.
        let behind = datagram.get(len.next_multiple_of(4)..);
        Some((header, body, behind.unwrap_or_default()))
    };
    take().ok_or_else(|| malformed("a message does not fit its length"))
}

/// What a message says, or the error that it is.
pub(super) fn said(kind: u16, body: &[u8]) -> io::Result<Said> {
    match i32::from(kind) {
        // Some ends say nothing more.
        libc::NLMSG_DONE if body.is_empty() => Ok(Said::End),
        libc::NLMSG_DONE | libc::NLMSG_ERROR => match parse_i32(body) {
            Some(0) => Ok(Said::End),
            // The errno, negative.
            Some(code) => Err(io::Error::from_raw_os_error(code.saturating_abs())),
            None => Err(malformed("an error is too short")),
        },
        kind if kind < libc::NLMSG_MIN_TYPE => Ok(Said::Nothing),
        _ => Ok(Said::Part),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as the kernel sends it, without what follows to a multiple of four.
    fn message(len: u32, seq: u32, body: &[u8]) -> Vec<u8> {
        let header = Nlmsghdr {
            len,
            r#type: 16,
            seq,
            ..Default::default()
        };
        [header.as_slice(), body].concat()
    }

    #[test]
    fn several_in_a_datagram() {
        let datagram = [message(18, 3, &[1, 2, 0, 0]), message(18, 4, &[9, 8])].concat();
        let (header, body, behind) = first(&datagram).unwrap();
        assert_eq!((header.seq, body), (3, &[1, 2][..]));
        // Nothing behind the last.
        let (header, body, behind) = first(behind).unwrap();
        assert_eq!((header.seq, body, behind), (4, &[9, 8][..], &[][..]));
    }

    #[test]
    fn a_length_that_cannot_be() {
        let odd = [
            message(0, 1, &[]),
            message(15, 1, &[]),
            message(17, 1, &[]),
            message(u32::MAX, 1, &[0; 8]),
            message(16, 1, &[])[..15].to_vec(),
            vec![0],
        ];
        for odd in odd {
            let e = first(&odd).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData, "{odd:?}");
        }
    }

    #[test]
    fn an_error_without_one_is_an_acknowledgement() {
        let said = |kind: i32, errno: i32| {
            // The header of the request is sent back.
            let body = [&errno.wrapping_neg().to_ne_bytes()[..], &[0; 16]].concat();
            said(kind as u16, &body).map_err(|e| e.raw_os_error())
        };
        assert_eq!(said(libc::NLMSG_ERROR, 0), Ok(Said::End));
        let failed = |errno| Err(Some(errno));
        assert_eq!(said(libc::NLMSG_ERROR, libc::ENOENT), failed(libc::ENOENT));
        // What could be listed in part only is not taken for all.
        assert_eq!(said(libc::NLMSG_DONE, 0), Ok(Said::End));
        assert_eq!(said(libc::NLMSG_DONE, libc::ENOMEM), failed(libc::ENOMEM));
        assert_eq!(said(libc::NLMSG_ERROR, i32::MIN), failed(i32::MAX));
    }

    #[test]
    fn an_error_is_of_four_bytes_and_an_end_may_be_of_none() {
        let said = |kind: i32, body| said(kind as u16, body).map_err(|e| e.kind());
        assert_eq!(said(libc::NLMSG_DONE, &[]), Ok(Said::End));
        let odd = Err(io::ErrorKind::InvalidData);
        assert_eq!(said(libc::NLMSG_ERROR, &[]), odd);
        assert_eq!(said(libc::NLMSG_ERROR, &[0; 3]), odd);
        assert_eq!(said(libc::NLMSG_DONE, &[0; 3]), odd);
        assert_eq!(said(libc::NLMSG_NOOP, &[]), Ok(Said::Nothing));
        assert_eq!(said(libc::NLMSG_OVERRUN, &[]), Ok(Said::Nothing));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn anything_is_read_without_panic(bytes in prop::collection::vec(0..40_u8, 0..80)) {
            let mut rest = bytes.as_slice();
            while let Ok((header, body, behind)) = first(rest) {
                let _ = said(header.r#type, body);
                prop_assert!(behind.len() < rest.len());
                rest = behind;
            }
        }
    }
}
