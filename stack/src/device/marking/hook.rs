//! A program that the kernel runs for each packet of an interface, with a counter of what it did. It is
//! gone with its [`Hook`], or with the process.
#![allow(unsafe_code)] // Each block says why it is sound.

use crate::device::xdp::program::{
    BPF_LINK_CREATE, BPF_MAP_CREATE, BPF_PROG_LOAD, Instruction, LICENSE, MapCreate, MapUpdate,
    ProgramLoad, number,
};
use crate::device::xdp::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

// From linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_XDP: u32 = 37;
const XDP_PASS: i32 = 2;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;
/// The first source register of a 64-bit load of the address of a map's value.
const BPF_PSEUDO_MAP_VALUE: u8 = 2;
/// What happens next is up to the next program, or the queue discipline.
const TCX_NEXT: i32 = -1;

// Codes of instructions.
pub(super) const LOAD_BYTE: u8 = 0x71;
pub(super) const LOAD_HALF: u8 = 0x69;
pub(super) const LOAD_WORD: u8 = 0x61;
pub(super) const LOAD_DOUBLE: u8 = 0x79;
const LOAD_64: u8 = 0x18;
pub(super) const STORE_BYTE: u8 = 0x72;
pub(super) const STORE_HALF_REGISTER: u8 = 0x6b;
/// Bytes of a half as on the wire, or back; the immediate is 16.
pub(super) const TO_BIG_ENDIAN: u8 = 0xdc;
pub(super) const ADD: u8 = 0x07;
pub(super) const AND: u8 = 0x57;
pub(super) const MOVE: u8 = 0xb7;
pub(super) const MOVE_REGISTER: u8 = 0xbf;
pub(super) const CALL: u8 = 0x85;
pub(super) const JUMP_32_IF_NOT_ABOVE: u8 = 0xb6;
pub(super) const JUMP_32_IF_AT_LEAST: u8 = 0x36;
pub(super) const JUMP_IF_EQUAL: u8 = 0x15;
pub(super) const JUMP_IF_OTHER: u8 = 0x55;
pub(super) const JUMP_IF_AT_LEAST: u8 = 0x35;
pub(super) const JUMP_IF_ABOVE_REGISTER: u8 = 0x2d;
const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
const EXIT: u8 = 0x95;

/// Where an interface runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On packets that it sends, before its queue (tcx, Linux 6.6).
    BeforeQueue,
    /// On frames that it receives, in the driver, before they are merged (XDP).
    OnArrival,
}

impl Place {
    /// Kind of program, where it is attached, and how.
    const fn numbers(self) -> (u32, u32, u32) {
        match self {
            Self::BeforeQueue => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_EGRESS, 0),
            Self::OnArrival => (BPF_PROG_TYPE_XDP, BPF_XDP, XDP_FLAGS_DRV_MODE),
        }
    }

    /// What a program ends with that has the packet go on.
    const fn pass(self) -> i32 {
        match self {
            Self::BeforeQueue => TCX_NEXT,
            Self::OnArrival => XDP_PASS,
        }
    }
}

/// Why an interface cannot be made to mark.
#[derive(Debug)]
#[non_exhaustive]
pub enum MarkingError {
    /// The kernel does not describe its types, or has no function that we need.
    NoTypes(io::Error),
    /// The kernel has no hook before the queue.
    NoHook(io::Error),
    /// It is not permitted, or another step failed.
    Io {
        /// What was tried.
        doing: &'static str,
        /// What came of it.
        source: io::Error,
    },
}

impl fmt::Display for MarkingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoTypes(e) => write!(
                f,
                "the kernel does not tell where it keeps the length of a queue: it takes Linux 6.6 \
                 with BTF (kernel option CONFIG_DEBUG_INFO_BTF) and /sys mounted: {e}"
            ),
            Self::NoHook(e) => write!(
                f,
                "the kernel has no hook before a queue: it takes Linux 6.6 with tcx (kernel \
                 options CONFIG_NET_XGRESS and CONFIG_BPF_SYSCALL): {e}"
            ),
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for MarkingError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoTypes(e) | Self::NoHook(e) | Self::Io { source: e, .. } => Some(e),
        }
    }
}

/// The end of a program: what did as it should is counted, all is let pass. Who jumps by
/// [`LET_PASS`] from before the first of these is not counted.
pub(super) const fn counted(place: Place, map: i32) -> [Instruction; 6] {
    [
        Instruction::new(LOAD_64, 1, BPF_PSEUDO_MAP_VALUE, 0, map),
        Instruction::new(0, 0, 0, 0, 0),
        Instruction::new(MOVE, 2, 0, 0, 1),
        Instruction::new(ATOMIC_ADD_DOUBLE, 1, 2, 0, 0),
        Instruction::new(MOVE, 0, 0, 0, place.pass()),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
}

/// From the first instruction of [`counted`] to where all is let pass.
pub(super) const LET_PASS: i16 = 4;

/// `BPF_LINK_CREATE` with nothing said about its place among other programs.
#[repr(C, align(8))]
struct TcxLinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// A program that runs, as long as this lives.
#[derive(Debug)]
pub(super) struct Hook {
    count: OwnedFd,
    _link: OwnedFd,
}

impl Hook {
    /// Has the interface with the number `interface`, of this thread's network namespace, run a
    /// program: `program` has the number of its counter.
    pub(super) fn attach(
        interface: u32,
        place: Place,
        program: impl FnOnce(i32) -> Vec<Instruction>,
    ) -> Result<Self, MarkingError> {
        let (kind, attach_type, flags) = place.numbers();
        let attributes = MapCreate {
            kind: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<u64>() as u32,
            max_entries: 1,
        };
        // SAFETY: the attributes are the beginning of those of the command, and hold no address.
        let count = unsafe { sys::bpf_open(BPF_MAP_CREATE, &attributes) }
            .map_err(|e| failed("make a counter of marks", e))?;
        let instructions = program(count.as_raw_fd());
        let mut name = [0; 16];
        name[..12].copy_from_slice(b"narrows_mark");
        let attributes = ProgramLoad {
            kind,
            instruction_count: instructions.len() as u32,
            instructions: instructions.as_ptr() as u64,
            license: LICENSE.as_ptr() as u64,
            log_level: 0,
            log_size: 0,
            log: 0,
            kernel_version: 0,
            flags: 0,
            name,
            interface: 0,
            attach_type,
        };
        // SAFETY: the attributes are the beginning of those of the command; the instructions, as
        // many as it says, and the license, a C string, live through the call.
        let program = unsafe { sys::bpf_open(BPF_PROG_LOAD, &attributes) };
        let program = program.map_err(|e| not_loaded(place, e))?;
        let attributes = TcxLinkCreate {
            program: number(program.as_fd()),
            interface,
            attach_type,
            flags,
            relative: 0,
            padding: 0,
            revision: 0,
        };
        // SAFETY: the attributes are those of the command, and hold no address.
        let link = unsafe { sys::bpf_open(BPF_LINK_CREATE, &attributes) };
        Ok(Self {
            count,
            _link: link.map_err(|e| not_attached(place, e))?,
        })
    }

    /// What its program has counted so far.
    pub(super) fn count(&self) -> io::Result<u64> {
        let (key, mut value) = (0_u32, 0_u64);
        let attributes = MapUpdate {
            map: number(self.count.as_fd()),
            padding: 0,
            key: std::ptr::from_ref(&key) as u64,
            value: std::ptr::from_mut(&mut value) as u64,
            flags: 0,
        };
        // SAFETY: the attributes are those of the command; key and value are as long as the map
        // was made for, the value is ours to write, and both live through the call.
        unsafe { sys::bpf(BPF_MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(value)
    }
}

fn failed(doing: &'static str, source: io::Error) -> MarkingError {
    MarkingError::Io { doing, source }
}

/// Why the kernel does not take the program: one that knows no hook before a queue does not know
/// what the program says it is for.
fn not_loaded(place: Place, e: io::Error) -> MarkingError {
    match e.raw_os_error() {
        Some(libc::EINVAL) if place == Place::BeforeQueue => MarkingError::NoHook(e),
        _ => failed("load the program that marks", e),
    }
}

/// Why it does not run it.
fn not_attached(place: Place, e: io::Error) -> MarkingError {
    match (place, e.raw_os_error()) {
        (Place::BeforeQueue, Some(libc::EINVAL | libc::EOPNOTSUPP)) => MarkingError::NoHook(e),
        (Place::BeforeQueue, _) => failed("run the program that marks before a queue", e),
        (Place::OnArrival, _) => failed("run the program that marks what arrives", e),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An error, whether it means that the kernel has no hook, and what the user is told.
    #[test]
    fn a_kernel_without_the_hook_is_named_as_the_reason() {
        let says = |e: MarkingError| (matches!(e, MarkingError::NoHook(_)), e.to_string());
        for (code, loading, running) in [
            (libc::EINVAL, true, true),
            (libc::EOPNOTSUPP, false, true),
            (libc::EPERM, false, false),
            (libc::ENODEV, false, false),
        ] {
            let e = || io::Error::from_raw_os_error(code);
            for (hook, (no_hook, text), doing) in [
                (
                    loading,
                    says(not_loaded(Place::BeforeQueue, e())),
                    "cannot load",
                ),
                (
                    running,
                    says(not_attached(Place::BeforeQueue, e())),
                    "cannot run",
                ),
            ] {
                assert_eq!(no_hook, hook, "{text}");
                let reason = if hook { "CONFIG_NET_XGRESS" } else { doing };
                assert!(text.contains(reason), "{text}");
                assert!(text.contains(&e().to_string()), "{text}");
            }
        }
    }

    #[test]
    fn what_the_kernel_reads_is_as_long_as_it_thinks() {
        assert_eq!(size_of::<TcxLinkCreate>(), 32);
        for (place, pass) in [(Place::BeforeQueue, -1), (Place::OnArrival, 2)] {
            let end = counted(place, 3)[LET_PASS as usize];
            assert_eq!(end, Instruction::new(MOVE, 0, 0, 0, pass));
        }
    }
}
