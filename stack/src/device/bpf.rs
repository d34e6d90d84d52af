//! Programs that the kernel runs on packets, loaded without a compiler: instructions, maps, and the
//! bpf(2) calls, each with a safe face.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::sys::Plain;
use std::ffi::CStr;
use std::io;
use std::marker::PhantomData;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};

// From linux/bpf.h.
const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
const BPF_PROG_LOAD: libc::c_int = 5;
const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const BPF_TCX_EGRESS: u32 = 47;

/// What an XDP program gives for a frame that takes its usual way.
pub(super) const XDP_PASS: i32 = 2;
/// XDP behind the driver, and in it.
pub(super) const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
pub(super) const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

// What the source register of a 64-bit load says of its immediate: a map's file descriptor, and that
// the address of the map's value is meant.
pub(super) const BPF_PSEUDO_MAP_FD: u8 = 1;
pub(super) const BPF_PSEUDO_MAP_VALUE: u8 = 2;

// Codes of instructions.
pub(super) const LOAD_BYTE: u8 = 0x71;
pub(super) const LOAD_HALF: u8 = 0x69;
pub(super) const LOAD_WORD: u8 = 0x61;
pub(super) const LOAD_DOUBLE: u8 = 0x79;
pub(super) const LOAD_64: u8 = 0x18;
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
pub(super) const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
pub(super) const EXIT: u8 = 0x95;

/// The kernel wants one. What marks by a draw calls a function that is reserved for the GPL, and may be
/// had under it.
const LICENSE: &CStr = c"Dual MIT/GPL";

/// One instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Instruction {
    pub(super) code: u8,
    /// Source register in the high half, destination in the low one.
    pub(super) registers: u8,
    pub(super) offset: i16,
    pub(super) immediate: i32,
}

impl Instruction {
    pub(super) const fn new(code: u8, dst: u8, src: u8, offset: i16, immediate: i32) -> Self {
        let registers = if cfg!(target_endian = "little") {
            src << 4 | dst
        } else {
            dst << 4 | src
        };
        Self {
            code,
            registers,
            offset,
            immediate,
        }
    }

    /// Whether it may go on elsewhere: a jump, of 64 or 32 bits.
    pub(super) const fn jumps(self) -> bool {
        const CLASS: u8 = 0x07;
        const JUMP: u8 = 0x05;
        const JUMP_32: u8 = 0x06;
        const OPERATION: u8 = 0xf0;
        const CALL: u8 = 0x80;
        const EXIT: u8 = 0x90;
        let of_its_class = matches!(self.code & CLASS, JUMP | JUMP_32);
        of_its_class && !matches!(self.code & OPERATION, CALL | EXIT)
    }
}

#[repr(C)]
struct MapCreate {
    kind: u32,
    key_size: u32,
    value_size: u32,
    max_entries: u32,
}

/// `BPF_MAP_LOOKUP_ELEM` and `BPF_MAP_UPDATE_ELEM`.
#[repr(C, align(8))]
struct MapElement {
    map: u32,
    padding: u32,
    key: u64,
    value: u64,
    flags: u64,
}

#[repr(C, align(8))]
struct ProgramLoad {
    kind: u32,
    instruction_count: u32,
    instructions: u64,
    license: u64,
    log_level: u32,
    log_size: u32,
    log: u64,
    kernel_version: u32,
    flags: u32,
    name: [u8; 16],
    interface: u32,
    attach_type: u32,
}

/// `BPF_LINK_CREATE` with nothing said about its place among other programs.
#[repr(C, align(8))]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
    relative: u32,
    padding: u32,
    revision: u64,
}

/// A bpf(2) call; its result, a file descriptor for some commands.
///
/// # Safety
/// `attributes` are what `command` expects, and the addresses in it are those of memory that lives
/// through the call and is as long as the command takes it to be.
unsafe fn bpf<T>(command: libc::c_int, attributes: &T) -> io::Result<libc::c_int> {
    // SAFETY: the pointer and length are those of a value that lives through the call; the kernel
    // takes what is beyond its length as zero. The rest is promised by the caller.
    let result = unsafe {
        libc::syscall(
            libc::SYS_bpf,
            command,
            std::ptr::from_ref(attributes),
            size_of::<T>() as libc::c_uint,
        )
    };
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result as libc::c_int)
}

/// A bpf(2) call that gives a file descriptor.
///
/// # Safety
/// As [`bpf`], and `command` is one that opens a file descriptor.
unsafe fn open<T>(command: libc::c_int, attributes: &T) -> io::Result<OwnedFd> {
    // SAFETY: promised by the caller.
    let fd = unsafe { bpf(command, attributes) }?;
    // SAFETY: just opened, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// The bits of a file descriptor as the kernel's structs have them.
pub(super) fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

/// Memory that programs and we share: a value for each number below its size.
#[derive(Debug)]
pub(super) struct Map<V> {
    fd: OwnedFd,
    values: PhantomData<V>,
}

impl Map<u64> {
    /// Counters, at zero.
    pub(super) fn counters(entries: u32) -> io::Result<Self> {
        Self::new(BPF_MAP_TYPE_ARRAY, entries)
    }
}

impl Map<u32> {
    /// AF_XDP sockets by queue, as [`number`]s.
    pub(super) fn sockets(queues: u32) -> io::Result<Self> {
        Self::new(BPF_MAP_TYPE_XSKMAP, queues)
    }
}

impl<V: Plain> Map<V> {
    fn new(kind: u32, max_entries: u32) -> io::Result<Self> {
        let attributes = MapCreate {
            kind,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<V>() as u32,
            max_entries,
        };
        // SAFETY: the attributes are the beginning of those of the command, and hold no address.
        let fd = unsafe { open(BPF_MAP_CREATE, &attributes) }?;
        Ok(Self {
            fd,
            values: PhantomData,
        })
    }

    /// As instructions name it.
    pub(super) fn number(&self) -> i32 {
        self.fd.as_raw_fd()
    }

    fn element(&self, key: &u32, value: u64) -> MapElement {
        MapElement {
            map: number(self.fd.as_fd()),
            padding: 0,
            key: std::ptr::from_ref(key) as u64,
            value,
            flags: 0,
        }
    }

    /// The value of `key`.
    pub(super) fn get(&self, key: u32) -> io::Result<V> {
        let mut value = V::ZERO;
        let attributes = self.element(&key, std::ptr::from_mut(&mut value) as u64);
        // SAFETY: the attributes are those of the command; key and value are as long as the map
        // was made for, the value is ours to write and any bits are one, and both live through the
        // call.
        unsafe { bpf(BPF_MAP_LOOKUP_ELEM, &attributes) }?;
        Ok(value)
    }

    /// From now on the value of `key`.
    pub(super) fn set(&self, key: u32, value: V) -> io::Result<()> {
        let attributes = self.element(&key, std::ptr::from_ref(&value) as u64);
        // SAFETY: the attributes are those of the command; key and value are as long as the map
        // was made for, and live through the call.
        unsafe { bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }
}

/// Where an interface runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Hook {
    /// On packets that it sends, before its queue (tcx, Linux 6.6).
    TcxEgress,
    /// On frames that it receives (XDP), with the flags that say where.
    Xdp,
}

impl Hook {
    /// Kind of program, and of attachment.
    const fn numbers(self) -> (u32, u32) {
        match self {
            Self::TcxEgress => (BPF_PROG_TYPE_SCHED_CLS, BPF_TCX_EGRESS),
            Self::Xdp => (BPF_PROG_TYPE_XDP, BPF_XDP),
        }
    }
}

/// A program that the kernel has taken.
#[derive(Debug)]
pub(super) struct Program {
    fd: OwnedFd,
    hook: Hook,
}

/// A program at work. The kernel detaches it when the last file descriptor is closed, however the
/// process ends.
#[derive(Debug)]
pub(super) struct Attached {
    _link: OwnedFd,
}

impl Program {
    /// Has the kernel check and keep it; `name`, of at most 15 bytes, is for who lists programs.
    pub(super) fn load(hook: Hook, name: &str, instructions: &[Instruction]) -> io::Result<Self> {
        let (kind, attach_type) = hook.numbers();
        let mut padded = [0; 16];
        for (to, from) in padded[..15].iter_mut().zip(name.bytes()) {
            *to = from;
        }
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
            name: padded,
            interface: 0,
            attach_type,
        };
        // SAFETY: the attributes are the beginning of those of the command; the instructions, as
        // many as it says, and the license, a C string, live through the call.
        let fd = unsafe { open(BPF_PROG_LOAD, &attributes) }?;
        Ok(Self { fd, hook })
    }

    /// Run it at the interface with this number, of this thread's network namespace.
    pub(super) fn attach(&self, interface: u32, flags: u32) -> io::Result<Attached> {
        let (_, attach_type) = self.hook.numbers();
        let attributes = LinkCreate {
            program: number(self.fd.as_fd()),
            interface,
            attach_type,
            flags,
            relative: 0,
            padding: 0,
            revision: 0,
        };
        // SAFETY: the attributes are those of the command, and hold no address.
        let link = unsafe { open(BPF_LINK_CREATE, &attributes) }?;
        Ok(Attached { _link: link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_the_kernel_takes_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(size_of::<MapElement>(), 32);
        assert_eq!(size_of::<ProgramLoad>(), 72);
        assert_eq!(size_of::<LinkCreate>(), 32);
    }

    #[test]
    fn calls_and_exits_are_no_jumps() {
        for (code, jumps) in [
            (CALL, false),
            (EXIT, false),
            (MOVE, false),
            (LOAD_64, false),
            (JUMP_IF_EQUAL, true),
            (JUMP_IF_ABOVE_REGISTER, true),
            (JUMP_32_IF_AT_LEAST, true),
            (JUMP_32_IF_NOT_ABOVE, true),
        ] {
            assert_eq!(
                Instruction::new(code, 0, 0, 0, 0).jumps(),
                jumps,
                "{code:#x}"
            );
        }
    }
}
