//! The program that sends an interface's frames to our sockets, loaded without a compiler.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::sys;
use std::ffi::CStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};

// From linux/bpf.h.
pub(in crate::device) const BPF_MAP_CREATE: libc::c_int = 0;
const BPF_MAP_UPDATE_ELEM: libc::c_int = 2;
pub(in crate::device) const BPF_PROG_LOAD: libc::c_int = 5;
pub(in crate::device) const BPF_LINK_CREATE: libc::c_int = 28;
const BPF_MAP_TYPE_XSKMAP: u32 = 17;
const BPF_PROG_TYPE_XDP: u32 = 6;
const BPF_XDP: u32 = 37;
const XDP_PASS: i32 = 2;
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// The first source register of a 64-bit load that holds a map's file descriptor.
const BPF_PSEUDO_MAP_FD: u8 = 1;
/// Where `struct xdp_md` has the number of the receive queue.
const RX_QUEUE_INDEX: i16 = 16;

const XDP_FLAGS_SKB_MODE: u32 = 1 << 1;
const XDP_FLAGS_DRV_MODE: u32 = 1 << 2;

/// The kernel wants one. The program here calls nothing that is reserved for the GPL; the one that
/// marks calls a function that is, and may be had under it.
pub(in crate::device) const LICENSE: &CStr = c"Dual MIT/GPL";

/// One instruction.
#[repr(C)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::device) struct Instruction {
    code: u8,
    /// Source register in the high half, destination in the low one.
    registers: u8,
    pub(in crate::device) offset: i16,
    pub(in crate::device) immediate: i32,
}

impl Instruction {
    pub(in crate::device) const fn new(
        code: u8,
        dst: u8,
        src: u8,
        offset: i16,
        immediate: i32,
    ) -> Self {
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
}

impl Instruction {
    /// Whether it may go on elsewhere: a conditional jump, of 64 or 32 bits.
    pub(in crate::device) const fn jumps(self) -> bool {
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

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: frames of a queue that has no
/// socket take their usual way.
const fn redirect(map: i32) -> [Instruction; 6] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_64: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const CALL: u8 = 0x85;
    const EXIT: u8 = 0x95;
    [
        Instruction::new(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        Instruction::new(LOAD_64, 1, BPF_PSEUDO_MAP_FD, 0, map),
        Instruction::new(0, 0, 0, 0, 0),
        Instruction::new(MOVE, 3, 0, 0, XDP_PASS),
        Instruction::new(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
}

#[repr(C)]
pub(in crate::device) struct MapCreate {
    pub(in crate::device) kind: u32,
    pub(in crate::device) key_size: u32,
    pub(in crate::device) value_size: u32,
    pub(in crate::device) max_entries: u32,
}

#[repr(C, align(8))]
pub(in crate::device) struct MapUpdate {
    pub(in crate::device) map: u32,
    pub(in crate::device) padding: u32,
    pub(in crate::device) key: u64,
    pub(in crate::device) value: u64,
    pub(in crate::device) flags: u64,
}

#[repr(C, align(8))]
pub(in crate::device) struct ProgramLoad {
    pub(in crate::device) kind: u32,
    pub(in crate::device) instruction_count: u32,
    pub(in crate::device) instructions: u64,
    pub(in crate::device) license: u64,
    pub(in crate::device) log_level: u32,
    pub(in crate::device) log_size: u32,
    pub(in crate::device) log: u64,
    pub(in crate::device) kernel_version: u32,
    pub(in crate::device) flags: u32,
    pub(in crate::device) name: [u8; 16],
    pub(in crate::device) interface: u32,
    pub(in crate::device) attach_type: u32,
}

#[repr(C)]
struct LinkCreate {
    program: u32,
    interface: u32,
    attach_type: u32,
    flags: u32,
}

/// Where an interface runs the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttachMode {
    /// In the driver, on the frame as it comes from the hardware.
    Native,
    /// Behind the driver, on the kernel's copy of it: any driver, slower, and what the driver or
    /// the kernel merged before is lost.
    Skb,
}

/// Sockets by queue, and the program that looks them up.
#[derive(Debug)]
pub(super) struct Program {
    map: OwnedFd,
    program: OwnedFd,
}

/// The program at work. The kernel detaches it when the last file descriptor is closed, however
/// the process ends.
#[derive(Debug)]
pub(super) struct Attached {
    _link: OwnedFd,
}

/// The bits of a file descriptor as the kernel's structs have them.
pub(in crate::device) fn number(fd: BorrowedFd<'_>) -> u32 {
    fd.as_raw_fd() as u32
}

impl Program {
    /// For queues below `queues`.
    pub(super) fn load(queues: u32) -> io::Result<Self> {
        let attributes = MapCreate {
            kind: BPF_MAP_TYPE_XSKMAP,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<u32>() as u32,
            max_entries: queues,
        };
        // SAFETY: the attributes are the beginning of those of the command, and hold no address.
        let map = unsafe { sys::bpf_open(BPF_MAP_CREATE, &attributes) }?;
        let instructions = redirect(map.as_raw_fd());
        let mut name = [0; 16];
        name[..7].copy_from_slice(b"narrows");
        let attributes = ProgramLoad {
            kind: BPF_PROG_TYPE_XDP,
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
            attach_type: BPF_XDP,
        };
        // SAFETY: the attributes are the beginning of those of the command; the instructions, as
        // many as it says, and the license, a C string, live through the call.
        let program = unsafe { sys::bpf_open(BPF_PROG_LOAD, &attributes) }?;
        Ok(Self { map, program })
    }

    /// Frames of `queue` go to `socket` from now on, which is bound.
    pub(super) fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        let value = number(socket);
        let attributes = MapUpdate {
            map: number(self.map.as_fd()),
            padding: 0,
            key: std::ptr::from_ref(&queue) as u64,
            value: std::ptr::from_ref(&value) as u64,
            flags: 0,
        };
        // SAFETY: the attributes are those of the command; key and value are as long as the map
        // was made for, and live through the call.
        unsafe { sys::bpf(BPF_MAP_UPDATE_ELEM, &attributes) }.map(drop)
    }

    /// Run it on what the interface receives.
    pub(super) fn attach(&self, interface: u32, mode: AttachMode) -> io::Result<Attached> {
        let attributes = LinkCreate {
            program: number(self.program.as_fd()),
            interface,
            attach_type: BPF_XDP,
            flags: match mode {
                AttachMode::Native => XDP_FLAGS_DRV_MODE,
                AttachMode::Skb => XDP_FLAGS_SKB_MODE,
            },
        };
        // SAFETY: the attributes are the beginning of those of the command, and hold no address.
        let link = unsafe { sys::bpf_open(BPF_LINK_CREATE, &attributes) }?;
        Ok(Attached { _link: link })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structs_are_as_long_as_the_kernel_takes_them() {
        assert_eq!(size_of::<Instruction>(), 8);
        assert_eq!(size_of::<MapUpdate>(), 32);
        assert_eq!(size_of::<ProgramLoad>(), 72);
        assert_eq!(size_of::<LinkCreate>(), 16);
    }

    #[test]
    fn the_program_is_six_instructions() {
        let program = redirect(7);
        let bytes: Vec<u8> = program.iter().map(|i| i.code).collect();
        assert_eq!(bytes, [0x61, 0x18, 0, 0xb7, 0x85, 0x95]);
        assert_eq!(program[1].immediate, 7);
        if cfg!(target_endian = "little") {
            assert_eq!(program[0].registers, 0x12);
            assert_eq!(program[1].registers, 0x11);
        }
    }
}
