//! Attributes (`struct nlattr`): each a length, a type and a value, at multiples of four bytes. A
//! value can be attributes again.

use nix::libc;
use std::io;

/// Of an attribute that is empty.
const HEADER: usize = 4;

/// Writes fixed headers and attributes one behind the other.
#[derive(Clone, Debug, Default)]
pub(crate) struct Writer {
    bytes: Vec<u8>,
    overlong: bool,
}

/// An attribute that was read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attribute<'a> {
    /// Its type, without flags.
    pub(crate) kind: u16,
    pub(crate) value: &'a [u8],
}

/// The attributes in some bytes. What cannot be one is an error, and the last item.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Attributes<'a> {
    rest: &'a [u8],
}

/// What the kernel sent is not what it sends.
pub(crate) fn malformed(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("netlink: {what}"))
}

/// The four bytes at `at`, as the machine orders them.
pub(crate) fn u32_at(bytes: &[u8], at: usize) -> Option<u32> {
    let four = bytes.get(at..)?.first_chunk()?;
    Some(u32::from_ne_bytes(*four))
}

/// The two bytes at `at`, as the machine orders them.
pub(crate) fn u16_at(bytes: &[u8], at: usize) -> Option<u16> {
    let two = bytes.get(at..)?.first_chunk()?;
    Some(u16::from_ne_bytes(*two))
}

impl Writer {
    /// Bytes that are no attribute. Their number is a multiple of four.
    pub(crate) fn fixed(&mut self, header: &[u8]) {
        debug_assert!(header.len().is_multiple_of(4));
        self.bytes.extend(header);
    }

    /// An attribute of what `fill` writes: attributes, and perhaps a fixed header before them.
    pub(crate) fn nested(&mut self, kind: u16, fill: impl FnOnce(&mut Self)) {
        let start = self.bytes.len();
        self.bytes.extend([0; 2]);
        self.bytes.extend(kind.to_ne_bytes());
        fill(self);
        match u16::try_from(self.bytes.len() - start) {
            Ok(len) => self.bytes[start..start + 2].copy_from_slice(&len.to_ne_bytes()),
            Err(_) => self.overlong = true,
        }
        // The length says nothing of what follows to the next multiple.
        let end = self.bytes.len().next_multiple_of(4);
        self.bytes.resize(end, 0);
    }

    pub(crate) fn bytes(&mut self, kind: u16, value: &[u8]) {
        self.nested(kind, |out| out.bytes.extend(value));
    }

    pub(crate) fn u8(&mut self, kind: u16, value: u8) {
        self.bytes(kind, &[value]);
    }

    pub(crate) fn u32(&mut self, kind: u16, value: u32) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    pub(crate) fn u64(&mut self, kind: u16, value: u64) {
        self.bytes(kind, &value.to_ne_bytes());
    }

    /// With the zero that ends a string.
    pub(crate) fn string(&mut self, kind: u16, value: &str) {
        self.nested(kind, |out| {
            out.bytes.extend(value.as_bytes());
            out.bytes.push(0);
        });
    }

    /// All that was written.
    ///
    /// # Errors
    /// [`io::ErrorKind::InvalidInput`]: an attribute is longer than its length can say.
    pub(crate) fn finish(self) -> io::Result<Vec<u8>> {
        match self.overlong {
            true => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                "more than 65,535 bytes for one attribute of netlink: use a shorter name",
            )),
            false => Ok(self.bytes),
        }
    }
}

impl<'a> Attributes<'a> {
    pub(crate) fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    fn take(&mut self) -> Option<Attribute<'a>> {
        let len = usize::from(u16_at(self.rest, 0)?);
        let kind = u16_at(self.rest, 2)? & libc::NLA_TYPE_MASK as u16;
        let value = self.rest.get(HEADER..len)?;
        // Nothing need follow the last.
        self.rest = self.rest.get(len.next_multiple_of(4)..).unwrap_or_default();
        Some(Attribute { kind, value })
    }
}

impl<'a> Iterator for Attributes<'a> {
    type Item = io::Result<Attribute<'a>>;

    fn next(&mut self) -> Option<Self::Item> {
        if self.rest.is_empty() {
            return None;
        }
        let attribute = self.take();
        if attribute.is_none() {
            self.rest = &[];
        }
        Some(attribute.ok_or_else(|| malformed("an attribute does not fit its length")))
    }
}

impl<'a> Attribute<'a> {
    pub(crate) fn nested(&self) -> Attributes<'a> {
        Attributes::new(self.value)
    }

    pub(crate) fn u32(&self) -> io::Result<u32> {
        let four = self.value.try_into().map(u32::from_ne_bytes);
        four.map_err(|_| malformed("a number is not of four bytes"))
    }

    /// The bytes before the zero that ends a string, or all.
    pub(crate) fn string(&self) -> &'a [u8] {
        self.value.split(|b| *b == 0).next().unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn written(fill: impl FnOnce(&mut Writer)) -> Vec<u8> {
        let mut out = Writer::default();
        fill(&mut out);
        out.finish().unwrap()
    }

    /// Types and values up to what cannot be one.
    fn read(bytes: &[u8]) -> (Vec<(u16, Vec<u8>)>, bool) {
        let mut good = Vec::new();
        let mut all = Attributes::new(bytes);
        for attribute in all.by_ref() {
            match attribute {
                Ok(a) => good.push((a.kind, a.value.to_vec())),
                Err(e) => {
                    assert_eq!(e.kind(), io::ErrorKind::InvalidData);
                    assert!(all.next().is_none(), "an error is the last");
                    return (good, false);
                }
            }
        }
        (good, true)
    }

    /// A length and a type as the machine orders them, and a value.
    fn raw(len: u16, kind: u16, value: &[u8]) -> Vec<u8> {
        [&len.to_ne_bytes(), &kind.to_ne_bytes(), value].concat()
    }

    #[test]
    fn values_stand_at_multiples_of_four() {
        for len in 0..=9_u16 {
            let value: Vec<u8> = (1..=len as u8).collect();
            let bytes = written(|out| {
                out.bytes(7, &value);
                out.u8(8, 9);
            });
            let mut expected = raw(4 + len, 7, &value);
            expected.resize(expected.len().next_multiple_of(4), 0);
            expected.extend(raw(5, 8, &[9, 0, 0, 0]));
            assert_eq!(bytes, expected);
            assert_eq!(read(&bytes), (vec![(7, value), (8, vec![9])], true));
        }
    }

    #[test]
    fn the_last_needs_nothing_behind_it() {
        let bytes = [raw(4, 1, &[]), raw(5, 2, &[9])].concat();
        assert_eq!(read(&bytes), (vec![(1, vec![]), (2, vec![9])], true));
        assert_eq!(read(&[]), (vec![], true));
    }

    #[test]
    fn a_length_that_cannot_be_ends_it() {
        let good = raw(4, 1, &[]);
        let odd = [
            // Less than its own header.
            raw(0, 2, &[0; 4]),
            raw(1, 2, &[0; 4]),
            raw(3, 2, &[0; 4]),
            // More than there is.
            raw(9, 2, &[0; 4]),
            raw(u16::MAX, 2, &[0; 4]),
            // Less than a header there.
            vec![4],
            vec![4, 0, 1],
        ];
        for odd in odd {
            let bytes = [good.clone(), odd.clone()].concat();
            assert_eq!(read(&bytes), (vec![(1, vec![])], false), "{odd:?}");
        }
    }

    #[test]
    fn what_is_nested_stays_within() {
        let bytes = written(|out| {
            out.nested(1, |out| {
                out.fixed(&[9; 8]);
                out.string(2, "eth0");
                out.nested(3, |out| out.u32(4, 5));
            });
            out.u64(6, 7);
        });
        let outer: Vec<_> = Attributes::new(&bytes).map(Result::unwrap).collect();
        assert_eq!(outer.len(), 2);
        assert_eq!(outer[1].value, 7_u64.to_ne_bytes());
        let inner = Attributes::new(&outer[0].value[8..]);
        let inner: Vec<_> = inner.map(Result::unwrap).collect();
        assert_eq!((inner[0].kind, inner[0].value), (2, &b"eth0\0"[..]));
        let five = inner[1].nested().next().unwrap().unwrap();
        assert_eq!((five.kind, five.u32().unwrap()), (4, 5));
        // One whose inner length points out of it is an error of the inner.
        let liar = raw(8, 1, &raw(8, 2, &[]));
        let outer = Attributes::new(&liar).next().unwrap().unwrap();
        assert!(outer.nested().next().unwrap().is_err());
    }

    #[test]
    fn flags_are_not_of_the_type() {
        let flags = [libc::NLA_F_NESTED, libc::NLA_F_NET_BYTEORDER];
        for flag in flags {
            let bytes = raw(4, 18 | flag as u16, &[]);
            assert_eq!(read(&bytes), (vec![(18, vec![])], true));
        }
    }

    #[test]
    fn numbers_and_strings() {
        let of = |value| Attribute { kind: 1, value };
        assert_eq!(of(&[1; 4]).u32().unwrap(), 0x0101_0101);
        for odd in [&[][..], &[1; 3], &[1; 5], &[1; 8]] {
            let e = of(odd).u32().unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        }
        assert_eq!(of(b"lo\0").string(), b"lo");
        assert_eq!(of(b"lo").string(), b"lo");
        assert_eq!(of(b"lo\0\0x").string(), b"lo");
        assert_eq!(of(b"").string(), b"");
    }

    #[test]
    fn the_longest_attribute_and_one_longer() {
        let longest = vec![1; usize::from(u16::MAX) - HEADER];
        let bytes = written(|out| out.bytes(1, &longest));
        assert_eq!(read(&bytes), (vec![(1, longest)], true));
        let mut out = Writer::default();
        out.nested(1, |out| out.string(2, &"x".repeat(65_531)));
        let e = out.finish().unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::InvalidInput);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn anything_is_read_without_panic(bytes in prop::collection::vec(0..9_u8, 0..64)) {
            let (good, _) = read(&bytes);
            let used: usize = good.iter().map(|(_, v)| HEADER + v.len()).sum();
            prop_assert!(used <= bytes.len());
            for attribute in Attributes::new(&bytes).map_while(Result::ok) {
                let _ = (attribute.u32(), attribute.string(), attribute.nested().count());
            }
        }

        #[test]
        fn what_was_written_is_read(
            attributes in prop::collection::vec((0..0x4000_u16, prop::collection::vec(any::<u8>(), 0..20)), 0..6)
        ) {
            let bytes = written(|out| attributes.iter().for_each(|(k, v)| out.bytes(*k, v)));
            prop_assert_eq!(read(&bytes), (attributes, true));
        }
    }
}
