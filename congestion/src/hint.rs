//! What a compiler without a profile can't know.

/// Says that where it stands is seldom come by, so that the compiler lays it out away from what is. As
/// `core::hint::cold_path`, which younger compilers have.
#[cold]
#[inline(always)]
pub const fn cold_path() {}
