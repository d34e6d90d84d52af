//! What a compiler without a profile can't know.

/// Says that where it stands is seldom come by, or by few connections or hosts even if these come by it with
/// each packet: the compiler lays it out away from what all do, which costs those few a jump. As
/// `core::hint::cold_path`, which younger compilers have.
#[cold]
#[inline(always)]
pub const fn cold_path() {}
