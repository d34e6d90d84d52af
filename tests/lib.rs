//! Cross-crate tests, and what they share: the rig of the stack's own tests, the bodies of the
//! fuzz targets, and the soak.

#[path = "../stack/tests/pair/mod.rs"]
pub mod pair;

pub mod bodies;
pub mod soak;
