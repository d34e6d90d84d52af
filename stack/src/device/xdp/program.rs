//! The program that sends an interface's frames to our sockets.

use crate::device::bpf::{
    self, Attached, BPF_PSEUDO_MAP_FD, CALL, EXIT, Hook, Instruction, LOAD_64, LOAD_WORD, MOVE,
    Map, XDP_FLAGS_DRV_MODE, XDP_FLAGS_SKB_MODE, XDP_PASS,
};
use std::io;
use std::os::fd::BorrowedFd;

// From linux/bpf.h.
const BPF_FUNC_REDIRECT_MAP: i32 = 51;
/// Where `struct xdp_md` has the number of the receive queue.
const RX_QUEUE_INDEX: i16 = 16;

/// `return bpf_redirect_map(&map, ctx->rx_queue_index, XDP_PASS)`: frames of a queue that has no
/// socket take their usual way.
const fn redirect(map: i32) -> [Instruction; 6] {
    [
        Instruction::new(LOAD_WORD, 2, 1, RX_QUEUE_INDEX, 0),
        Instruction::new(LOAD_64, 1, BPF_PSEUDO_MAP_FD, 0, map),
        Instruction::new(0, 0, 0, 0, 0),
        Instruction::new(MOVE, 3, 0, 0, XDP_PASS),
        Instruction::new(CALL, 0, 0, 0, BPF_FUNC_REDIRECT_MAP),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
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
    sockets: Map<u32>,
    program: bpf::Program,
}

impl Program {
    /// For queues below `queues`.
    pub(super) fn load(queues: u32) -> io::Result<Self> {
        let sockets = Map::sockets(queues)?;
        let program = bpf::Program::load(Hook::Xdp, "narrows", &redirect(sockets.number()))?;
        Ok(Self { sockets, program })
    }

    /// Frames of `queue` go to `socket` from now on, which is bound.
    pub(super) fn insert(&self, queue: u32, socket: BorrowedFd<'_>) -> io::Result<()> {
        self.sockets.set(queue, bpf::number(socket))
    }

    /// Run it on what the interface receives.
    pub(super) fn attach(&self, interface: u32, mode: AttachMode) -> io::Result<Attached> {
        let flags = match mode {
            AttachMode::Native => XDP_FLAGS_DRV_MODE,
            AttachMode::Skb => XDP_FLAGS_SKB_MODE,
        };
        self.program.attach(interface, flags)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
