//! Adding up many 16-bit words, as widely as the processor can.
#![allow(unsafe_code)] // The one block says why it is sound.

/// From so many words on wide registers are worth asking for: 128 bytes.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 16;

/// The sum of the 16-bit words in `words`, in the byte order of the machine, or what is congruent
/// to it modulo 2^16 - 1, of fewer than 2^31 `words`. Zero only of zeros.
#[inline]
pub(super) fn add_up(words: &[[u8; 8]]) -> u64 {
    #[cfg(target_arch = "x86_64")]
    if words.len() >= MANY && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: all that calling this takes is a processor that has AVX2, and this one does.
        return unsafe { avx2::add_up(words) };
    }
    plainly(words)
}

fn plainly(words: &[[u8; 8]]) -> u64 {
    words.iter().map(|word| halves(*word)).sum()
}

/// The sum of the halves of 32 bits.
fn halves(word: [u8; 8]) -> u64 {
    let word = u64::from_ne_bytes(word);
    (word >> 32) + (word & u64::from(u32::MAX))
}

#[cfg(target_arch = "x86_64")]
mod avx2 {
    use core::arch::x86_64::{
        __m256i, _mm256_add_epi32, _mm256_extract_epi32, _mm256_madd_epi16, _mm256_set_epi64x,
        _mm256_set1_epi16, _mm256_setzero_si256, _mm256_xor_si256,
    };

    /// So many words are added up in lanes of 32 bits, which every four move by at most 2^16.
    const RUN: usize = 1 << 16;

    #[target_feature(enable = "avx2")]
    pub(super) fn add_up(words: &[[u8; 8]]) -> u64 {
        match words.len() {
            ..=RUN => add_run(words),
            _ => add_runs(words),
        }
    }

    #[cold]
    #[target_feature(enable = "avx2")]
    fn add_runs(words: &[[u8; 8]]) -> u64 {
        words.chunks(RUN).map(|run| add_run(run)).sum()
    }

    #[inline]
    #[target_feature(enable = "avx2")]
    fn add_run(words: &[[u8; 8]]) -> u64 {
        let (registers, words) = words.as_chunks::<4>();
        let (fours, rest) = registers.as_chunks::<4>();
        let none = _mm256_setzero_si256();
        let add = |a, b| _mm256_add_epi32(a, b);
        // At most three of both, for which no loop is worth its preparations.
        let [a, b, c] = [0, 1, 2].map(|n| words.get(n).map_or(0, |word| super::halves(*word)));
        let [x, y, z] = [0, 1, 2].map(|n| rest.get(n).map_or(none, |four| pairs(four)));
        let mut lanes = add(add(x, y), z);
        for [p, q, r, s] in fours {
            lanes = add(lanes, add(add(pairs(p), pairs(q)), add(pairs(r), pairs(s))));
        }
        let less = (registers.len() as i64 * 16) << 15;
        a + b + c + (total(lanes) + less) as u64
    }

    /// The processor adds neighbours of 16 bits, with a sign, to one of 32: with the highest bit
    /// turned over, each is 2^15 less than without a sign.
    #[target_feature(enable = "avx2")]
    fn pairs(words: &[[u8; 8]; 4]) -> __m256i {
        let (turn, ones) = (_mm256_set1_epi16(i16::MIN), _mm256_set1_epi16(1));
        _mm256_madd_epi16(_mm256_xor_si256(load(words), turn), ones)
    }

    #[target_feature(enable = "avx2")]
    fn load(words: &[[u8; 8]; 4]) -> __m256i {
        let [a, b, c, d] = words.map(i64::from_ne_bytes);
        _mm256_set_epi64x(d, c, b, a)
    }

    /// The sum of the eight lanes.
    #[target_feature(enable = "avx2")]
    fn total(lanes: __m256i) -> i64 {
        [
            _mm256_extract_epi32::<0>(lanes),
            _mm256_extract_epi32::<1>(lanes),
            _mm256_extract_epi32::<2>(lanes),
            _mm256_extract_epi32::<3>(lanes),
            _mm256_extract_epi32::<4>(lanes),
            _mm256_extract_epi32::<5>(lanes),
            _mm256_extract_epi32::<6>(lanes),
            _mm256_extract_epi32::<7>(lanes),
        ]
        .map(i64::from)
        .iter()
        .sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// Modulo 2^16 - 1, and whether it is nothing at all.
    fn seen(sum: u64) -> (u64, bool) {
        (sum % 0xffff, sum == 0)
    }

    fn one_by_one(words: &[[u8; 8]]) -> u64 {
        let pairs = words.iter().flat_map(|word| word.as_chunks::<2>().0);
        pairs.map(|&pair| u64::from(u16::from_ne_bytes(pair))).sum()
    }

    proptest! {
        #[test]
        fn wide_registers_give_what_word_by_word_gives(
            words in prop::collection::vec(
                prop_oneof![
                    Just([0xff; 8]),
                    Just([0; 8]),
                    Just([0, 0x80, 0, 0x80, 0, 0x80, 0, 0x80]),
                    any::<[u8; 8]>(),
                ],
                0..600,
            ),
        ) {
            let expected = seen(one_by_one(&words));
            prop_assert_eq!(seen(add_up(&words)), expected);
            prop_assert_eq!(seen(plainly(&words)), expected);
        }
    }

    /// Twice as much as lanes of 32 bits hold, of the values that move them most, and a rest.
    #[test]
    fn no_lane_overflows() {
        for word in [[0xff; 8], [0; 8]] {
            let words = vec![word; 4 * ((1 << 16) + 1) + 3];
            assert_eq!(seen(add_up(&words)), seen(one_by_one(&words)));
        }
    }
}
