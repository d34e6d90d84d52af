//! Messages (`struct nlmsghdr`): what the kernel is asked, and what it answers.

use super::attributes::{Attributes, Writer, malformed, u16_at, u32_at};
use nix::libc;
use std::io;

/// Of a message that is empty.
const HEADER: usize = 16;

/// What the kernel is asked.
#[derive(Clone, Debug)]
pub(crate) struct Request {
    kind: u16,
    flags: u16,
    body: Writer,
}

/// One of the messages that answer it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Answer {
    pub(crate) kind: u16,
    body: Vec<u8>,
}

/// The messages in a datagram. What cannot be one is an error, and the last item.
#[derive(Clone, Copy, Debug)]
pub(super) struct Messages<'a> {
    rest: &'a [u8],
}

/// A message in a datagram.
#[derive(Clone, Copy, Debug)]
pub(super) struct Message<'a> {
    kind: u16,
    /// That of the request it answers.
    pub(super) sequence: u32,
    body: &'a [u8],
}

/// What a message says.
#[derive(Debug)]
pub(super) enum Content {
    /// A part of what was asked for.
    Part(Answer),
    /// That it was done, or was all.
    End,
    /// That it could not be done.
    Failed(io::Error),
    /// Nothing.
    Nothing,
}

impl Request {
    /// A request of the type `kind`. Its fixed header and its attributes are what `fill` writes.
    pub(crate) fn new(kind: u16, flags: libc::c_int, fill: impl FnOnce(&mut Writer)) -> Self {
        let mut body = Writer::default();
        fill(&mut body);
        Self {
            kind,
            flags: (libc::NLM_F_REQUEST | flags) as u16,
            body,
        }
    }

    /// As it is sent.
    ///
    /// # Errors
    /// As [`Writer::finish`].
    pub(super) fn to_bytes(&self, sequence: u32) -> io::Result<Vec<u8>> {
        let body = self.body.clone().finish()?;
        let len = (HEADER + body.len()) as u32;
        let mut bytes = Vec::with_capacity(len as usize);
        bytes.extend(len.to_ne_bytes());
        bytes.extend(self.kind.to_ne_bytes());
        bytes.extend(self.flags.to_ne_bytes());
        bytes.extend(sequence.to_ne_bytes());
        // The kernel fills in who asks.
        bytes.extend([0; 4]);
        bytes.extend(body);
        Ok(bytes)
    }

    /// Checks the request with the number 7 against its words of four bytes, as a machine with the
    /// least significant byte first sends it.
    #[cfg(test)]
    #[track_caller]
    pub(crate) fn assert_words(&self, words: &str) {
        let bytes = self.to_bytes(7).unwrap();
        let word = |four: &[u8]| four.iter().map(|b| format!("{b:02x}")).collect::<String>();
        let sent: Vec<_> = bytes.chunks(4).map(word).collect();
        if cfg!(target_endian = "little") {
            assert_eq!(sent, words.split_whitespace().collect::<Vec<_>>());
        }
    }
}

impl Answer {
    #[cfg(test)]
    pub(crate) fn new(kind: u16, body: Vec<u8>) -> Self {
        Self { kind, body }
    }

    /// Its fixed header of `N` bytes, and its attributes.
    pub(crate) fn parts<const N: usize>(&self) -> io::Result<(&[u8; N], Attributes<'_>)> {
        let parts = self.body.split_first_chunk();
        let (header, rest) = parts.ok_or_else(|| malformed("an answer is too short"))?;
        Ok((header, Attributes::new(rest)))
    }
}

impl<'a> Messages<'a> {
    pub(super) fn new(datagram: &'a [u8]) -> Self {
        Self { rest: datagram }
    }

    fn take(&mut self) -> Option<Message<'a>> {
        let len = u32_at(self.rest, 0)? as usize;
        let message = Message {
            kind: u16_at(self.rest, 4)?,
            sequence: u32_at(self.rest, 8)?,
            body: self.rest.get(HEADER..len)?,
        };
        // Each stands at a multiple of four, and nothing need follow the last.
        self.rest = self.rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(message)
    }
}

impl<'a> Iterator for Messages<'a> {
    type Item = io::Result<Message<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let message = self.take();
        if message.is_none() {
            self.rest = &[];
        }
        Some(message.ok_or_else(|| malformed("a message does not fit its length")))
    }
}

impl Message<'_> {
    pub(super) fn content(&self) -> io::Result<Content> {
        Ok(match i32::from(self.kind) {
            // Some ends say nothing more.
            libc::NLMSG_DONE if self.body.is_empty() => Content::End,
            libc::NLMSG_DONE | libc::NLMSG_ERROR => match u32_at(self.body, 0) {
                Some(0) => Content::End,
                // The errno, negative.
                Some(code) => {
                    let errno = code.cast_signed().saturating_abs();
                    Content::Failed(io::Error::from_raw_os_error(errno))
                }
                None => return Err(malformed("an error is too short")),
            },
            kind if kind < libc::NLMSG_MIN_TYPE => Content::Nothing,
            _ => Content::Part(Answer {
                kind: self.kind,
                body: self.body.to_vec(),
            }),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// A message as the kernel sends it, without what follows to a multiple of four.
    fn message(len: u32, kind: i32, sequence: u32, body: &[u8]) -> Vec<u8> {
        let mut bytes = len.to_ne_bytes().to_vec();
        bytes.extend((kind as u16).to_ne_bytes());
        bytes.extend([0; 2]);
        bytes.extend(sequence.to_ne_bytes());
        bytes.extend([0; 4]);
        bytes.extend(body);
        bytes
    }

    fn code(errno: i32) -> Vec<u8> {
        // The header of the request is sent back.
        [&(-errno).to_ne_bytes()[..], &[0; 16]].concat()
    }

    /// What the first message of a datagram says.
    fn said(datagram: &[u8]) -> io::Result<Content> {
        Messages::new(datagram).next().unwrap()?.content()
    }

    #[test]
    fn several_in_a_datagram() {
        let datagram = [
            message(18, 16, 3, &[1, 2, 0, 0]),
            message(20, 17, 4, &[9; 4]),
            message(20, libc::NLMSG_DONE, 4, &[0; 4]),
        ]
        .concat();
        let all: Vec<_> = Messages::new(&datagram).map(Result::unwrap).collect();
        let seen: Vec<_> = all.iter().map(|m| (m.kind, m.sequence, m.body)).collect();
        assert_eq!(seen[0], (16, 3, &[1, 2][..]));
        assert_eq!(seen[1], (17, 4, &[9; 4][..]));
        assert_eq!(seen.len(), 3);
        assert!(matches!(all[2].content(), Ok(Content::End)));
        match all[1].content() {
            Ok(Content::Part(answer)) => assert_eq!(answer, Answer::new(17, vec![9; 4])),
            other => panic!("{other:?}"),
        }
        // Nothing behind the last.
        let odd = message(18, 16, 3, &[1, 2]);
        assert_eq!(Messages::new(&odd).map(Result::unwrap).count(), 1);
    }

    #[test]
    fn a_length_that_cannot_be_ends_it() {
        let good = message(16, 16, 1, &[]);
        let odd = [
            message(0, 16, 1, &[]),
            message(15, 16, 1, &[]),
            message(17, 16, 1, &[]),
            message(u32::MAX, 16, 1, &[0; 8]),
            good[..15].to_vec(),
            vec![0],
        ];
        for odd in odd {
            let datagram = [good.clone(), odd].concat();
            let all: Vec<_> = Messages::new(&datagram).map(|m| m.is_ok()).collect();
            assert_eq!(all, [true, false], "{datagram:?}");
        }
    }

    #[test]
    fn an_error_without_one_is_an_acknowledgement() {
        let failed = |kind, errno| match said(&message(36, kind, 1, &code(errno))) {
            Ok(Content::Failed(e)) => e.raw_os_error(),
            Ok(Content::End) => None,
            other => panic!("{other:?}"),
        };
        assert_eq!(failed(libc::NLMSG_ERROR, 0), None);
        assert_eq!(failed(libc::NLMSG_ERROR, libc::ENOENT), Some(libc::ENOENT));
        // What could be listed in part only is not taken for all.
        assert_eq!(failed(libc::NLMSG_DONE, 0), None);
        assert_eq!(failed(libc::NLMSG_DONE, libc::ENOMEM), Some(libc::ENOMEM));
        assert_eq!(failed(libc::NLMSG_ERROR, i32::MAX), Some(i32::MAX));
        let least = message(20, libc::NLMSG_ERROR, 1, &i32::MIN.to_ne_bytes());
        assert!(matches!(said(&least), Ok(Content::Failed(_))));
    }

    #[test]
    fn an_error_is_of_four_bytes_and_an_end_may_be_of_none() {
        assert!(matches!(
            said(&message(16, libc::NLMSG_DONE, 1, &[])),
            Ok(Content::End)
        ));
        for (kind, body) in [
            (libc::NLMSG_ERROR, &[][..]),
            (libc::NLMSG_ERROR, &[0; 3]),
            (libc::NLMSG_DONE, &[0; 3]),
        ] {
            let len = 16 + body.len() as u32;
            let e = said(&message(len, kind, 1, body)).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        }
        for kind in [libc::NLMSG_NOOP, libc::NLMSG_OVERRUN] {
            let said = said(&message(16, kind, 1, &[]));
            assert!(matches!(said, Ok(Content::Nothing)));
        }
    }

    #[test]
    fn an_answer_shorter_than_its_header() {
        let answer = Answer::new(16, vec![0; 15]);
        let e = answer.parts::<16>().map(drop).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        assert!(answer.parts::<15>().unwrap().1.next().is_none());
    }

    #[test]
    fn an_overlong_request_is_not_sent() {
        let request = Request::new(16, 0, |out| out.bytes(1, &[0; 65_532]));
        let e = request.to_bytes(1).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidInput);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn anything_is_read_without_panic(bytes in prop::collection::vec(0..40_u8, 0..80)) {
            for message in Messages::new(&bytes).map_while(Result::ok) {
                let _ = message.content();
            }
            // A length that fits more often than by chance.
            let len = bytes.len() as u32;
            let bytes = message(16 + len, i32::from(bytes.first().copied().unwrap_or(2)), 1, &bytes);
            let _ = said(&bytes);
        }
    }
}
