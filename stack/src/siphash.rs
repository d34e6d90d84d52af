//! SipHash (Aumasson and Bernstein, 2012): a keyed hash that who does not know the key cannot
//! steer.
//!
//! Own rather than a crate: what is hashed here is a handful of whole words, and without the
//! byte buffering that `core::hash::Hasher` asks for it takes half the time.

/// A 128-bit secret key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct SipKey {
    k0: u64,
    k1: u64,
}

impl SipKey {
    /// From 128 bits of entropy.
    pub const fn new(k0: u64, k1: u64) -> Self {
        Self { k0, k1 }
    }

    /// Both halves in one word.
    pub(crate) const fn folded(&self) -> u64 {
        self.k0 ^ self.k1.rotate_left(32)
    }

    /// From 16 bytes of entropy.
    pub const fn from_bytes(bytes: &[u8; 16]) -> Self {
        let bits = u128::from_le_bytes(*bytes);
        Self {
            k0: bits as u64,
            k1: (bits >> 64) as u64,
        }
    }

    /// A key for one purpose, from which neither this one nor that of another `purpose` can be
    /// computed.
    pub fn derive(&self, purpose: u64) -> Self {
        Self {
            k0: self.sip24([purpose, 0]),
            k1: self.sip24([purpose, 1]),
        }
    }

    /// SipHash-2-4 of the words in little-endian order: a pseudorandom function.
    #[inline]
    pub fn sip24<const N: usize>(&self, words: [u64; N]) -> u64 {
        sip::<2, 4>(self, &words, last_block(N))
    }

    /// SipHash-1-3: for hash tables, where outputs stay hidden.
    #[inline]
    pub fn sip13<const N: usize>(&self, words: [u64; N]) -> u64 {
        sip::<1, 3>(self, &words, last_block(N))
    }
}

impl core::fmt::Debug for SipKey {
    /// Does not show the key.
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        f.write_str("SipKey(..)")
    }
}

/// The padding block of a message of whole words: its length in bytes, modulo 256, on top.
const fn last_block(words: usize) -> u64 {
    (words as u64 * 8) << 56
}

#[inline(always)]
fn sip<const C: usize, const D: usize>(key: &SipKey, words: &[u64], last: u64) -> u64 {
    let mut v = [
        key.k0 ^ 0x736f_6d65_7073_6575,
        key.k1 ^ 0x646f_7261_6e64_6f6d,
        key.k0 ^ 0x6c79_6765_6e65_7261,
        key.k1 ^ 0x7465_6462_7974_6573,
    ];
    for &m in words {
        v[3] ^= m;
        for _ in 0..C {
            round(&mut v);
        }
        v[0] ^= m;
    }
    v[3] ^= last;
    for _ in 0..C {
        round(&mut v);
    }
    v[0] ^= last;
    v[2] ^= 0xff;
    for _ in 0..D {
        round(&mut v);
    }
    v[0] ^ v[1] ^ v[2] ^ v[3]
}

#[inline(always)]
fn round(v: &mut [u64; 4]) {
    v[0] = v[0].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(13) ^ v[0];
    v[0] = v[0].rotate_left(32);
    v[2] = v[2].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(16) ^ v[2];
    v[0] = v[0].wrapping_add(v[3]);
    v[3] = v[3].rotate_left(21) ^ v[0];
    v[2] = v[2].wrapping_add(v[1]);
    v[1] = v[1].rotate_left(17) ^ v[2];
    v[2] = v[2].rotate_left(32);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Key 00 01 .. 0f as in the paper.
    const KEY: SipKey = SipKey::new(0x0706_0504_0302_0100, 0x0f0e_0d0c_0b0a_0908);

    /// Appendix A of the paper: the 15 bytes 00 .. 0e.
    #[test]
    fn paper_appendix_a() {
        let last = 0x0f0e_0d0c_0b0a_0908 & !(0xff << 56) | 15 << 56;
        assert_eq!(
            sip::<2, 4>(&KEY, &[0x0706_0504_0302_0100], last),
            0xa129_ca61_49be_45e5
        );
    }

    /// `vectors_sip64` of the authors' C code, the messages of 0 and 8 bytes.
    #[test]
    fn reference_vectors_of_whole_words() {
        assert_eq!(KEY.sip24([]), 0x726f_db47_dd0e_0e31);
        assert_eq!(KEY.sip24([0x0706_0504_0302_0100]), 0x93f5_f579_9a93_2462);
    }

    /// The standard library's default hasher is SipHash-1-3 with key zero.
    #[test]
    fn sip13_agrees_with_the_standard_library() {
        use core::hash::Hasher;
        let words = [1, u64::MAX, 0x0123_4567_89ab_cdef];
        let mut std = std::hash::DefaultHasher::new();
        words.iter().for_each(|w| std.write(&w.to_le_bytes()));
        assert_eq!(SipKey::new(0, 0).sip13(words), std.finish());
    }

    #[test]
    fn bytes_are_taken_in_the_order_of_the_paper() {
        assert_eq!(SipKey::from_bytes(&core::array::from_fn(|i| i as u8)), KEY);
    }

    #[test]
    fn derived_keys_differ_and_are_not_shown() {
        assert_ne!(KEY.derive(1), KEY.derive(2));
        assert_ne!(KEY.derive(1), KEY);
        assert_eq!(format!("{KEY:?}"), "SipKey(..)");
    }

    /// RFC 6528 section 3: both halves of a derived key hang on both halves of the secret.
    #[test]
    fn rfc6528_3_derived_keys_have_128_bits() {
        let mut seen = Vec::new();
        for (k0, k1) in [(1, 2), (1, 3), (0, 2), (2, 1)] {
            for purpose in 1..=6 {
                let key = SipKey::new(k0, k1).derive(purpose);
                seen.extend([key.k0, key.k1]);
            }
        }
        let halves = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), halves);
    }
}
