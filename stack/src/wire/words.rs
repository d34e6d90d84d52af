//! Adding up many words, as widely as the processor can.
#![allow(unsafe_code)] // The one block says why it is sound.

/// From so many words on wide registers are worth asking for: 128 bytes.
#[cfg(target_arch = "x86_64")]
const MANY: usize = 16;

/// The sum of `words`, in the byte order of the machine, modulo 2^64, and the sum of their high
/// halves, of fewer than 2^32 words.
#[inline]
pub(super) fn add_up(words: &[[u8; 8]]) -> (u64, u64) {
    #[cfg(target_arch = "x86_64")]
    if words.len() >= MANY && std::arch::is_x86_feature_detected!("avx2") {
        // SAFETY: all that calling this takes is a processor that has AVX2, and this one does.
        return unsafe { with_avx2(words) };
    }
    plainly(words)
}

/// The same instructions as `plainly`, four words at a time.
#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2")]
fn with_avx2(words: &[[u8; 8]]) -> (u64, u64) {
    plainly(words)
}

#[inline(always)] // Into each of the two, to be compiled for its registers.
fn plainly(words: &[[u8; 8]]) -> (u64, u64) {
    let (mut whole, mut highs) = (0_u64, 0_u64);
    for word in words {
        let word = u64::from_ne_bytes(*word);
        whole = whole.wrapping_add(word);
        highs += word >> 32;
    }
    (whole, highs)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn wide_registers_give_the_same(
            words in prop::collection::vec(
                prop_oneof![Just([0xff; 8]), any::<[u8; 8]>()],
                0..600,
            ),
        ) {
            let whole = words.iter().fold(0_u64, |sum, w| sum.wrapping_add(u64::from_ne_bytes(*w)));
            let highs: u64 = words.iter().map(|w| u64::from_ne_bytes(*w) >> 32).sum();
            prop_assert_eq!(add_up(&words), (whole, highs));
        }
    }
}
