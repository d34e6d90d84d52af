//! Makes a port of the kernel's mark: packets that find more than a threshold in the queue of an
//! interface leave it as Congestion Experienced (the step of DCTCP, SIGCOMM 2010 section 3.1),
//! whatever queue discipline keeps that queue.
//!
//! The kernel's disciplines that mark (`red`, `codel`, `fq_codel`) are modules that many kernels
//! lack, and none has a step exactly. So a small program of our own does it, in the hook before
//! the queue (tcx, Linux 6.6). It reads the length that the discipline itself keeps, and is gone
//! with its [`EcnStep`], or with the process.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::btf::Btf;
use super::xdp::program::{
    BPF_LINK_CREATE, BPF_MAP_CREATE, BPF_PROG_LOAD, Instruction, LICENSE, MapCreate, MapUpdate,
    ProgramLoad, number,
};
use super::xdp::sys;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

// From linux/bpf.h.
const BPF_MAP_LOOKUP_ELEM: libc::c_int = 1;
const BPF_MAP_TYPE_ARRAY: u32 = 2;
const BPF_PROG_TYPE_SCHED_CLS: u32 = 3;
const BPF_TCX_EGRESS: u32 = 47;
const BPF_FUNC_SKB_ECN_SET_CE: i32 = 97;
/// The source register of a call to a function of the kernel's.
const BPF_PSEUDO_KFUNC_CALL: u8 = 2;
/// The first source register of a 64-bit load of the address of a map's value.
const BPF_PSEUDO_MAP_VALUE: u8 = 2;
/// What happens next is up to the next program, or the queue discipline.
const TCX_NEXT: i32 = -1;

/// The queue above which packets are marked. It has the packet that is being transmitted if the
/// discipline counts it, as `tbf` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDepth {
    /// In packets.
    Packets(u32),
    /// In bytes of the frames, without their check sequence.
    Bytes(u32),
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

/// Where the kernel keeps what the program reads.
#[derive(Clone, Copy, Debug)]
struct Layout {
    /// The function that gives the kernel's view of a packet.
    cast: i32,
    device: i16,
    discipline: i16,
    length: i16,
}

impl Layout {
    fn of(btf: &Btf, above: QueueDepth) -> Option<Self> {
        let queue = |head, name: &str, within| {
            btf.offset("Qdisc", head)?
                .checked_add(btf.offset(name, within)?)
        };
        let length = match above {
            QueueDepth::Packets(_) => queue("q", "qdisc_skb_head", "qlen"),
            QueueDepth::Bytes(_) => queue("qstats", "gnet_stats_queue", "backlog"),
        };
        let short = |offset: u32| i16::try_from(offset).ok();
        Some(Self {
            cast: i32::try_from(btf.function("bpf_cast_to_kern_ctx")?).ok()?,
            device: short(btf.offset("sk_buff", "dev")?)?,
            discipline: short(btf.offset("net_device", "qdisc")?)?,
            length: short(length?)?,
        })
    }
}

/// `if (skb->dev->qdisc->LENGTH > above && bpf_skb_ecn_set_ce(skb)) marks++; return TCX_NEXT`.
/// What has no ECN passes as it is.
const fn step(layout: Layout, above: u32, map: i32) -> [Instruction; 15] {
    const LOAD_WORD: u8 = 0x61;
    const LOAD_DOUBLE: u8 = 0x79;
    const LOAD_64: u8 = 0x18;
    const MOVE: u8 = 0xb7;
    const MOVE_REGISTER: u8 = 0xbf;
    const CALL: u8 = 0x85;
    const JUMP_32_IF_NOT_ABOVE: u8 = 0xb6;
    const JUMP_IF_EQUAL: u8 = 0x15;
    const ATOMIC_ADD_DOUBLE: u8 = 0xdb;
    const EXIT: u8 = 0x95;
    [
        Instruction::new(MOVE_REGISTER, 6, 1, 0, 0),
        Instruction::new(CALL, 0, BPF_PSEUDO_KFUNC_CALL, 0, layout.cast),
        Instruction::new(LOAD_DOUBLE, 1, 0, layout.device, 0),
        Instruction::new(LOAD_DOUBLE, 1, 1, layout.discipline, 0),
        Instruction::new(LOAD_WORD, 1, 1, layout.length, 0),
        // To the last but one.
        Instruction::new(JUMP_32_IF_NOT_ABOVE, 1, 0, 7, above.cast_signed()),
        Instruction::new(MOVE_REGISTER, 1, 6, 0, 0),
        Instruction::new(CALL, 0, 0, 0, BPF_FUNC_SKB_ECN_SET_CE),
        Instruction::new(JUMP_IF_EQUAL, 0, 0, 4, 0),
        Instruction::new(LOAD_64, 1, BPF_PSEUDO_MAP_VALUE, 0, map),
        Instruction::new(0, 0, 0, 0, 0),
        Instruction::new(MOVE, 2, 0, 0, 1),
        Instruction::new(ATOMIC_ADD_DOUBLE, 1, 2, 0, 0),
        Instruction::new(MOVE, 0, 0, 0, TCX_NEXT),
        Instruction::new(EXIT, 0, 0, 0, 0),
    ]
}

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

/// An interface that marks, as long as this lives.
#[derive(Debug)]
pub struct EcnStep {
    marks: OwnedFd,
    _link: OwnedFd,
}

impl EcnStep {
    /// Mark what the interface with the number `interface`, of this thread's network namespace,
    /// sends: packets that find more than `above` in the queue of its root discipline.
    ///
    /// # Errors
    /// What the kernel lacks.
    pub fn attach(interface: u32, above: QueueDepth) -> Result<Self, MarkingError> {
        let btf = Btf::of_kernel().map_err(MarkingError::NoTypes)?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such struct or function");
        let layout = Layout::of(&btf, above);
        let layout = layout.ok_or_else(|| MarkingError::NoTypes(unknown()))?;
        let attributes = MapCreate {
            kind: BPF_MAP_TYPE_ARRAY,
            key_size: size_of::<u32>() as u32,
            value_size: size_of::<u64>() as u32,
            max_entries: 1,
        };
        // SAFETY: the attributes are the beginning of those of the command, and hold no address.
        let marks = unsafe { sys::bpf_open(BPF_MAP_CREATE, &attributes) }
            .map_err(|e| failed("make a counter of marks", e))?;
        let (QueueDepth::Packets(above) | QueueDepth::Bytes(above)) = above;
        let instructions = step(layout, above, marks.as_raw_fd());
        let mut name = [0; 16];
        name[..12].copy_from_slice(b"narrows_mark");
        let attributes = ProgramLoad {
            kind: BPF_PROG_TYPE_SCHED_CLS,
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
            attach_type: BPF_TCX_EGRESS,
        };
        // SAFETY: the attributes are the beginning of those of the command; the instructions, as
        // many as it says, and the license, a C string, live through the call.
        let program = unsafe { sys::bpf_open(BPF_PROG_LOAD, &attributes) };
        let program = program.map_err(not_loaded)?;
        let attributes = TcxLinkCreate {
            program: number(program.as_fd()),
            interface,
            attach_type: BPF_TCX_EGRESS,
            flags: 0,
            relative: 0,
            padding: 0,
            revision: 0,
        };
        // SAFETY: the attributes are those of the command, and hold no address.
        let link = unsafe { sys::bpf_open(BPF_LINK_CREATE, &attributes) };
        Ok(Self {
            marks,
            _link: link.map_err(not_attached)?,
        })
    }

    /// Packets marked so far, those among them that came marked already.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn marks(&self) -> io::Result<u64> {
        let (key, mut value) = (0_u32, 0_u64);
        let attributes = MapUpdate {
            map: number(self.marks.as_fd()),
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
fn not_loaded(e: io::Error) -> MarkingError {
    match e.raw_os_error() {
        Some(libc::EINVAL) => MarkingError::NoHook(e),
        _ => failed("load the program that marks", e),
    }
}

/// Why it does not run it.
fn not_attached(e: io::Error) -> MarkingError {
    match e.raw_os_error() {
        Some(libc::EINVAL | libc::EOPNOTSUPP) => MarkingError::NoHook(e),
        _ => failed("run the program that marks before a queue", e),
    }
}

#[cfg(test)]
mod tests {
    use super::super::btf::made_up::Blob;
    use super::*;

    /// A kernel as far as the program needs it, less what `left_out` says; `dev` of a packet is so
    /// many bytes into it.
    fn kernel(left_out: &str, dev: u32) -> Btf {
        let mut made = Blob::new();
        // Struct, member, byte.
        let members = [
            ("sk_buff", "next", 0),
            ("sk_buff", "dev", dev),
            ("net_device", "qdisc", 24),
            ("Qdisc", "q", 100),
            ("Qdisc", "qstats", 200),
            ("qdisc_skb_head", "qlen", 16),
            ("gnet_stats_queue", "qlen", 0),
            ("gnet_stats_queue", "backlog", 4),
        ];
        for of in members.chunk_by(|a, b| a.0 == b.0) {
            let name = of[0].0;
            if name != left_out {
                let there = of.iter().filter(|m| format!("{name}.{}", m.1) != left_out);
                let there: Vec<_> = there.map(|m| (m.1, 1, 8 * m.2)).collect();
                made.structure(name, &there);
            }
        }
        if left_out != "bpf_cast_to_kern_ctx" {
            made.function("bpf_cast_to_kern_ctx");
        }
        made.parsed().unwrap()
    }

    const PACKETS: QueueDepth = QueueDepth::Packets(1);
    const BYTES: QueueDepth = QueueDepth::Bytes(1);

    #[test]
    fn the_program_is_laid_out_by_the_kernels_types() {
        for (above, length) in [(PACKETS, 116), (BYTES, 204)] {
            let Layout {
                cast,
                device,
                discipline,
                length: found,
            } = Layout::of(&kernel("", 16), above).unwrap();
            assert_eq!((cast, device, discipline, found), (6, 16, 24, length));
        }
    }

    #[test]
    fn a_kernel_that_lacks_something_is_refused() {
        for (left_out, packets, bytes) in [
            ("sk_buff", false, false),
            ("sk_buff.dev", false, false),
            ("net_device", false, false),
            ("net_device.qdisc", false, false),
            ("Qdisc", false, false),
            ("Qdisc.q", false, true),
            ("Qdisc.qstats", true, false),
            ("qdisc_skb_head", false, true),
            ("qdisc_skb_head.qlen", false, true),
            ("gnet_stats_queue", true, false),
            ("gnet_stats_queue.backlog", true, false),
            ("bpf_cast_to_kern_ctx", false, false),
        ] {
            let kernel = kernel(left_out, 16);
            let found = [PACKETS, BYTES].map(|above| Layout::of(&kernel, above).is_some());
            assert_eq!(found, [packets, bytes], "without {left_out}");
        }
        // Further than an instruction reaches.
        for (dev, reached) in [(32_767, true), (32_768, false), (65_552, false)] {
            let found = Layout::of(&kernel("", dev), PACKETS);
            assert_eq!(found.is_some(), reached, "{dev}");
        }
    }

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
                (loading, says(not_loaded(e())), "cannot load"),
                (running, says(not_attached(e())), "cannot run"),
            ] {
                assert_eq!(no_hook, hook, "{text}");
                let reason = if hook { "CONFIG_NET_XGRESS" } else { doing };
                assert!(text.contains(reason), "{text}");
                assert!(text.contains(&e().to_string()), "{text}");
            }
        }
    }

    #[test]
    fn jumps_end_at_the_last_two_instructions() {
        let layout = Layout {
            cast: 1,
            device: 16,
            discipline: 24,
            length: 32,
        };
        let program = step(layout, 7, 3);
        assert_eq!(size_of::<TcxLinkCreate>(), 32);
        for (at, to) in [(5, 13), (8, 13)] {
            assert_eq!(at + 1 + program[at].offset as usize, to);
        }
        assert_eq!(program[5].immediate, 7);
    }
}
