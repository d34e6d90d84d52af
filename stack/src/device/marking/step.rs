//! Marks of a port: packets that find more than a threshold in the queue of an interface leave it as
//! Congestion Experienced (the step of DCTCP, SIGCOMM 2010 section 3.1), whatever queue discipline keeps
//! that queue.
//!
//! The kernel's disciplines that mark (`red`, `codel`, `fq_codel`) are modules that many kernels
//! lack, and none has a step exactly. So a small program of our own does it, in the hook before
//! the queue (tcx, Linux 6.6). It reads the length that the discipline itself keeps, and is gone
//! with its [`EcnStep`], or with the process.

use super::hook::{Hook, LET_PASS, MarkingError, Place, counted};
use crate::device::bpf::{
    CALL, Instruction, JUMP_32_IF_NOT_ABOVE, JUMP_IF_EQUAL, LOAD_DOUBLE, LOAD_WORD, MOVE_REGISTER,
};
use crate::device::btf::Btf;
use std::io;

// From linux/bpf.h.
const BPF_FUNC_SKB_ECN_SET_CE: i32 = 97;
/// The source register of a call to a function of the kernel's.
const BPF_PSEUDO_KFUNC_CALL: u8 = 2;

/// The queue above which packets are marked. It has the packet that is being transmitted if the
/// discipline counts it, as `tbf` does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueDepth {
    /// In packets.
    Packets(u32),
    /// In bytes of the frames, without their check sequence.
    Bytes(u32),
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

/// `if (skb->dev->qdisc->LENGTH > above && bpf_skb_ecn_set_ce(skb)) marks++`. What has no ECN passes
/// as it is.
fn step(layout: Layout, above: u32, map: i32) -> Vec<Instruction> {
    let looks = [
        Instruction::new(MOVE_REGISTER, 6, 1, 0, 0),
        Instruction::new(CALL, 0, BPF_PSEUDO_KFUNC_CALL, 0, layout.cast),
        Instruction::new(LOAD_DOUBLE, 1, 0, layout.device, 0),
        Instruction::new(LOAD_DOUBLE, 1, 1, layout.discipline, 0),
        Instruction::new(LOAD_WORD, 1, 1, layout.length, 0),
        Instruction::new(
            JUMP_32_IF_NOT_ABOVE,
            1,
            0,
            LET_PASS + 3,
            above.cast_signed(),
        ),
        Instruction::new(MOVE_REGISTER, 1, 6, 0, 0),
        Instruction::new(CALL, 0, 0, 0, BPF_FUNC_SKB_ECN_SET_CE),
        Instruction::new(JUMP_IF_EQUAL, 0, 0, LET_PASS, 0),
    ];
    [&looks[..], &counted(Place::BeforeQueue, map)].concat()
}

/// An interface that marks, as long as this lives.
#[derive(Debug)]
pub struct EcnStep(Hook);

impl EcnStep {
    /// Mark what the interface with the number `interface`, of this thread's network namespace,
    /// sends: packets that find more than `above` in the queue of its root discipline.
    ///
    /// # Errors
    /// What the kernel lacks.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn attach(interface: u32, above: QueueDepth) -> Result<Self, MarkingError> {
        let btf = Btf::of_kernel().map_err(MarkingError::NoTypes)?;
        let unknown = || io::Error::new(io::ErrorKind::NotFound, "no such struct or function");
        let layout = Layout::of(&btf, above);
        let layout = layout.ok_or_else(|| MarkingError::NoTypes(unknown()))?;
        let (QueueDepth::Packets(above) | QueueDepth::Bytes(above)) = above;
        Hook::attach(interface, Place::BeforeQueue, |map| {
            step(layout, above, map)
        })
        .map(Self)
    }

    /// Packets marked so far, those among them that came marked already.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn marks(&self) -> io::Result<u64> {
        self.0.count()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::btf::made_up::Blob;

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

    #[test]
    fn jumps_end_at_the_last_two_instructions() {
        let layout = Layout {
            cast: 1,
            device: 16,
            discipline: 24,
            length: 32,
        };
        let program = step(layout, 7, 3);
        for (at, to) in [(5, 13), (8, 13)] {
            assert_eq!(at + 1 + program[at].offset as usize, to);
        }
        assert_eq!(program[5].immediate, 7);
    }
}
