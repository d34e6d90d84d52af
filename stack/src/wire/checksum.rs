//! The Internet checksum (RFC 1071), computed over pieces and while copying.

use super::ip::PROTOCOL_TCP;
use super::words;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Whether the checksums of received packets are looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum ChecksumPolicy {
    /// Refuse a packet whose IPv4 header checksum or TCP checksum is wrong.
    #[default]
    Verify,
    /// The device has verified them, or the packet never was on a wire.
    Trust,
}

/// Bytes copied before they are summed, which finds them in the processor's first-level cache: two
/// loops that do one thing each take less time than one that does both.
const BLOCK: usize = 4_096;

/// The one's complement sum of some bytes, taken as big-endian 16-bit words; an odd last byte
/// counts as the high half of a word.
///
/// Sums of the parts of a packet add up to the sum of the packet ([`then`](Self::then)).
#[derive(Clone, Copy, Debug, Default)]
pub struct Sum(u64);

impl Sum {
    /// The sum of nothing.
    pub const ZERO: Self = Self(0);

    /// The sum of `bytes`.
    ///
    /// Words are taken in the byte order of the machine, which gives the right sum with its bytes
    /// swapped (RFC 1071 section 2B): there is one swap, at the end.
    #[inline]
    pub fn of(bytes: &[u8]) -> Self {
        match bytes {
            [] => Self::ZERO,
            _ => Self::of_some(bytes),
        }
    }

    fn of_some(bytes: &[u8]) -> Self {
        let (words, rest) = bytes.as_chunks::<8>();
        let mut sum = Self(words::add_up(words));
        if !rest.is_empty() {
            sum = sum + Self(fewer_than_a_word(rest));
        }
        match cfg!(target_endian = "little") {
            true => sum.swapped(),
            false => sum,
        }
    }

    /// The sum of the same bytes where each pair has changed places: it goes round a word as it does
    /// round 16 bits, for 2^64 and 2^16 leave 1 when divided by 2^16 - 1.
    const fn swapped(self) -> Self {
        Self(self.0.rotate_left(8))
    }

    /// The sum of two parts, one after the other.
    #[inline]
    pub fn of_parts([first, second]: [&[u8]; 2]) -> Self {
        match second {
            [] => Self::of(first),
            _ => Self::of(first).then(first.len(), Self::of(second)),
        }
    }

    /// The sum of `src`, which is copied to `dst` on the way.
    ///
    /// # Panics
    /// If the lengths differ.
    #[inline]
    pub fn copy(src: &[u8], dst: &mut [u8]) -> Self {
        assert_eq!(src.len(), dst.len(), "copy between different lengths");
        if src.len() > BLOCK {
            return Self::copy_blocks(src, dst);
        }
        dst.copy_from_slice(src);
        // Not of `dst`, whose bytes may still be on their way to the cache.
        Self::of(src)
    }

    #[inline(never)]
    fn copy_blocks(src: &[u8], dst: &mut [u8]) -> Self {
        let blocks = src.chunks(BLOCK).zip(dst.chunks_mut(BLOCK));
        blocks.fold(Self::ZERO, |sum, (from, to)| sum + Self::copy(from, to))
    }

    /// The sum of the pseudo-header of a segment of `len` bytes of TCP header and text
    /// (RFC 9293 section 3.1, RFC 8200 section 8.1). Addresses of different families give the
    /// sum of what they are; no valid packet has them.
    pub fn pseudo_header(src: IpAddr, dst: IpAddr, len: usize) -> Self {
        Self::pseudo_header_of(PROTOCOL_TCP, src, dst, len)
    }

    /// The same between IPv4 addresses.
    #[inline]
    pub(super) fn pseudo_header_v4(src: Ipv4Addr, dst: Ipv4Addr, len: usize) -> Self {
        Self::v4(src) + Self::v4(dst) + Self::protocol_and_len(PROTOCOL_TCP, len)
    }

    /// The same for `len` bytes of `protocol`.
    pub(super) fn pseudo_header_of(protocol: u8, src: IpAddr, dst: IpAddr, len: usize) -> Self {
        Self::address(src) + Self::address(dst) + Self::protocol_and_len(protocol, len)
    }

    fn protocol_and_len(protocol: u8, len: usize) -> Self {
        Self(u64::from(protocol) + (len as u64 & 0xffff) + (len as u64 >> 16))
    }

    fn address(addr: IpAddr) -> Self {
        match addr {
            IpAddr::V4(a) => Self::v4(a),
            IpAddr::V6(a) => Self::v6(a),
        }
    }

    fn v4(addr: Ipv4Addr) -> Self {
        Self(u64::from(addr.to_bits()))
    }

    fn v6(addr: Ipv6Addr) -> Self {
        let bits = addr.to_bits();
        let (high, low) = ((bits >> 64) as u64, bits as u64);
        Self((high >> 32) + (high & 0xffff_ffff) + (low >> 32) + (low & 0xffff_ffff))
    }

    /// The sum of 32-bit words, which are fewer than 2^32.
    #[inline]
    pub(super) fn of_words(words: impl IntoIterator<Item = u32>) -> Self {
        Self(words.into_iter().map(u64::from).sum())
    }

    /// The sum of these bytes followed by those of `next`, where these are `len` bytes.
    #[must_use]
    pub fn then(self, len: usize, next: Self) -> Self {
        match len % 2 {
            0 => self + next,
            _ => self + next.swapped(),
        }
    }

    /// The sum in 16 bits. Zero only for all-zero bytes.
    ///
    /// Of a word and the word with its halves exchanged, the high half is the sum of the halves with
    /// the carry that comes from below, which is the one that leaves at the top.
    #[inline]
    pub const fn fold(self) -> u16 {
        let halves = (self.0.wrapping_add(self.0.rotate_left(32)) >> 32) as u32;
        (halves.wrapping_add(halves.rotate_left(16)) >> 16) as u16
    }

    /// What goes into the checksum field, when the field was zero or left out in the sum.
    pub const fn checksum(self) -> u16 {
        !self.fold()
    }

    /// Whether this is the sum of bytes which contain their own right checksum.
    pub const fn is_valid(self) -> bool {
        self.fold() == 0xffff
    }
}

impl core::ops::Add for Sum {
    type Output = Self;
    fn add(self, other: Self) -> Self {
        let (sum, carry) = self.0.overflowing_add(other.0);
        Self(sum + u64::from(carry))
    }
}

impl From<u16> for Sum {
    /// The sum of one word.
    fn from(word: u16) -> Self {
        Self(u64::from(word))
    }
}

impl From<u32> for Sum {
    /// The sum of two words.
    fn from(words: u32) -> Self {
        Self(u64::from(words))
    }
}

/// The checksum of a packet in which one 16-bit word changed, from that before (RFC 1624
/// equation 3).
pub fn update(checksum: u16, old: u16, new: u16) -> u16 {
    (Sum::from(!checksum) + Sum::from(!old) + Sum::from(new)).checksum()
}

/// The sum of the last bytes.
#[inline]
fn fewer_than_a_word(rest: &[u8]) -> u64 {
    let mut sum = 0;
    let (words, rest) = rest.as_chunks::<4>();
    if let [word] = words {
        sum += u64::from(u32::from_ne_bytes(*word));
    }
    let (words, rest) = rest.as_chunks::<2>();
    if let [word] = words {
        sum += u64::from(u16::from_ne_bytes(*word));
    }
    if let [byte] = rest {
        sum += u64::from(u16::from_ne_bytes([*byte, 0]));
    }
    sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Word by word, as RFC 1071 section 4.1 does it.
    fn naive(bytes: &[u8]) -> u16 {
        let mut sum = 0u32;
        for pair in bytes.chunks(2) {
            sum += u32::from(pair[0]) << 8 | u32::from(*pair.get(1).unwrap_or(&0));
            sum = (sum >> 16) + (sum & 0xffff);
        }
        sum as u16
    }

    #[test]
    fn rfc1071_section_3() {
        let bytes = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(Sum::of(&bytes).fold(), 0xddf2);
        assert_eq!(Sum::of(&bytes).checksum(), 0x220d);
        assert_eq!(Sum::of(&[]).fold(), 0);
    }

    #[test]
    fn rfc1624_section_4() {
        assert_eq!(update(0xdd2f, 0x5555, 0x3285), 0x0000);
    }

    #[test]
    fn all_ones_lose_no_carry() {
        for len in [1, 31, 32, 33, 63, 64, 65, 1500, BLOCK, 65_535, 1 << 20] {
            let bytes = vec![0xff; len];
            assert_eq!(Sum::of(&bytes).fold(), naive(&bytes), "{len}");
        }
        assert_eq!((Sum(u64::MAX) + Sum(u64::MAX)).fold(), 0xffff);
        assert_eq!(Sum(u64::MAX - 1).fold(), 0xfffe);
    }

    proptest! {
        #[test]
        fn agrees_with_word_by_word(
            bytes in prop_oneof![
                9 => prop::collection::vec(any::<u8>(), 0..300),
                1 => prop::collection::vec(any::<u8>(), BLOCK - 2..2 * BLOCK + 300),
            ],
            cut in any::<prop::sample::Index>(),
        ) {
            let whole = naive(&bytes);
            prop_assert_eq!(Sum::of(&bytes).fold(), whole);
            let mut copy = vec![0; bytes.len()];
            prop_assert_eq!(Sum::copy(&bytes, &mut copy).fold(), whole);
            prop_assert_eq!(&copy, &bytes);
            let (a, b) = bytes.split_at(cut.index(bytes.len() + 1));
            prop_assert_eq!(Sum::of(a).then(a.len(), Sum::of(b)).fold(), whole);
        }

        #[test]
        fn an_update_is_a_new_checksum(
            mut bytes in prop::collection::vec(any::<u8>(), 2..60),
            at in any::<prop::sample::Index>(),
            new in any::<u16>(),
        ) {
            // An all-zero packet has two representations of its sum; RFC 1624 keeps the other.
            bytes[0] |= 1;
            let at = 2 * at.index(bytes.len() / 2);
            let old = u16::from_be_bytes([bytes[at], bytes[at + 1]]);
            let before = Sum::of(&bytes).checksum();
            bytes[at..at + 2].copy_from_slice(&new.to_be_bytes());
            prop_assume!(bytes.iter().any(|&b| b != 0));
            prop_assert_eq!(update(before, old, new), Sum::of(&bytes).checksum());
        }

        #[test]
        fn the_pseudo_header_is_summed_as_laid_out(src4: [u8; 4], dst4: [u8; 4], src6: [u8; 16], dst6: [u8; 16], len in 0u16..) {
            let mut v4 = Vec::new();
            v4.extend(src4);
            v4.extend(dst4);
            v4.extend([0, 6]);
            v4.extend(len.to_be_bytes());
            prop_assert_eq!(Sum::pseudo_header(src4.into(), dst4.into(), len.into()).fold(), naive(&v4));
            let mut v6 = Vec::new();
            v6.extend(src6);
            v6.extend(dst6);
            v6.extend(u32::from(len).to_be_bytes());
            v6.extend([0, 0, 0, 6]);
            prop_assert_eq!(Sum::pseudo_header(src6.into(), dst6.into(), len.into()).fold(), naive(&v6));
        }
    }
}
