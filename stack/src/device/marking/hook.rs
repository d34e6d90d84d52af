//! A program that the kernel runs for each packet of an interface, with a counter of what it did. It is
//! gone with its [`Hook`], or with the process.

use crate::device::bpf::{
    self, ATOMIC_ADD_DOUBLE, Attached, BPF_PSEUDO_MAP_VALUE, EXIT, Instruction, LOAD_64, MOVE, Map,
    Program, XDP_FLAGS_DRV_MODE, XDP_PASS,
};
use std::fmt;
use std::io;

/// What happens next is up to the next program, or the queue discipline.
const TCX_NEXT: i32 = -1;

/// Where an interface runs a program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// On packets that it sends, before its queue (tcx, Linux 6.6).
    BeforeQueue,
    /// On frames that it receives, in the driver, before they are merged (XDP).
    OnArrival,
}

impl Place {
    /// The kernel's hook, and how a program is attached there.
    const fn hook(self) -> (bpf::Hook, u32) {
        match self {
            Self::BeforeQueue => (bpf::Hook::TcxEgress, 0),
            Self::OnArrival => (bpf::Hook::Xdp, XDP_FLAGS_DRV_MODE),
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

/// A program that runs, as long as this lives.
#[derive(Debug)]
pub(super) struct Hook {
    count: Map<u64>,
    _attached: Attached,
}

impl Hook {
    /// Has the interface with the number `interface`, of this thread's network namespace, run a
    /// program: `program` has the number of its counter.
    pub(super) fn attach(
        interface: u32,
        place: Place,
        program: impl FnOnce(i32) -> Vec<Instruction>,
    ) -> Result<Self, MarkingError> {
        let (hook, flags) = place.hook();
        let count = Map::counters(1).map_err(|e| failed("make a counter of marks", e))?;
        let program = Program::load(hook, "narrows_mark", &program(count.number()));
        let program = program.map_err(|e| not_loaded(place, e))?;
        let attached = program.attach(interface, flags);
        Ok(Self {
            count,
            _attached: attached.map_err(|e| not_attached(place, e))?,
        })
    }

    /// What its program has counted so far.
    pub(super) fn count(&self) -> io::Result<u64> {
        self.count.get(0)
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
    fn what_is_not_counted_passes() {
        for (place, pass) in [(Place::BeforeQueue, -1), (Place::OnArrival, 2)] {
            let end = counted(place, 3)[LET_PASS as usize];
            assert_eq!(end, Instruction::new(MOVE, 0, 0, 0, pass));
        }
    }
}
