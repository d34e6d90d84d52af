//! The narrows TCP behind packetdrill's userspace interface.
//!
//! packetdrill can test a TCP in a shared object: `packetdrill --so_filename=FILE script.pkt` loads
//! it, calls its `packetdrill_interface_init`, and from then on makes every call of the script,
//! sends and sniffs every packet, and reads the clock through the functions that it was given. This
//! crate, as `libnarrows_packetdrill.so`, is such an object: the sockets in virtual time that
//! `narrows script` runs on ([`narrows_script::sockets`]), behind that interface.
//!
//! - `abi`: the interface, as a C compiler lays it out. `include/narrows_packetdrill.h` says the
//!   same in C.
//! - [`flags`]: what `--so_flags` says.
//! - `entry`: the functions. Pointers become slices here, and nowhere else.
//! - `shared`: sockets and clock for two threads; `threads`: whether they sleep.
//! - `descriptor`: real descriptors that stand for our sockets.
//! - `numbers`, `address`, [`tcp_info`]: C's numbers and layouts.
//! - `preload`: `getsockopt` for packetdrill's `%{ }%`, which asks libc and not the object.
//! - [`loader`]: loads such an object, ours or another's, and drives it as packetdrill does, so that
//!   our own runner can play a script against it.
//! - [`original`]: rewrites our scripts into what the original program reads.
//!
//! docs/SCRIPTS.md says how it is used, and what of it is verified.
//!
//! # Unsafe code
//!
//! A C interface cannot be had without: pointers of the caller are read and written in `entry`,
//! `address` and `preload`, and the functions of a loaded object are called in [`loader`]. Each
//! block says why it may. What must hold of the caller is what C demands of one who calls the
//! function of that name: buffers as long as said, `userdata` as it was given. Null pointers are
//! looked for, `userdata` is never followed, and a panic ends in `EIO`.

#![cfg(all(
    target_os = "linux",
    target_env = "gnu",
    any(target_arch = "x86_64", target_arch = "aarch64")
))]
#![deny(unsafe_op_in_unsafe_fn)]
#![deny(clippy::undocumented_unsafe_blocks)]

pub mod abi;
mod address;
mod descriptor;
mod entry;
pub mod flags;
pub mod loader;
mod numbers;
pub mod original;
mod preload;
mod shared;
pub mod tcp_info;
mod threads;

pub use entry::packetdrill_interface_init;
pub use preload::getsockopt;
