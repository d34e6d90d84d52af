//! The hash of four-tuples: what is secret of it, and how it mixes.

use crate::siphash::SipKey;

/// The secret of the hash.
///
/// The hash is by folded multiplication with secret operands, at a third of the cost of
/// SipHash-1-3. It is not a pseudorandom function, and need not be: its values never leave the
/// table, and without the secret no set of keys is known to collide.
pub(super) struct Seeds(pub(super) [u64; 5]);

impl Seeds {
    pub(super) fn new(secret: &SipKey) -> Self {
        Self(core::array::from_fn(|i| secret.sip24([i as u64])))
    }
}

/// A word of two: their product, folded.
#[inline]
pub(super) fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}
