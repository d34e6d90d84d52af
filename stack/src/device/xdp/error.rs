//! What can go wrong when an interface is opened, and what to do about it.

use std::fmt;
use std::io;

/// What was being done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Step {
    Configure,
    Find,
    Ask,
    Memory,
    Socket,
    Rings,
    Bind,
    Load,
    AttachNative,
    AttachSkb,
    Merging,
}

/// Why an interface could not be opened.
#[derive(Debug)]
pub struct XdpError {
    pub(super) step: Step,
    pub(super) name: String,
    pub(super) queue: u32,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for XdpError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            step,
            name,
            queue,
            source,
        } = self;
        let doing = match step {
            Step::Configure => "open the interface",
            Step::Find => "find the interface",
            Step::Ask => "ask for the properties of",
            Step::Memory => "allocate memory for the frames of",
            Step::Socket => "open an AF_XDP socket for",
            Step::Rings => "set up the rings of",
            Step::Bind => "bind an AF_XDP socket to",
            Step::Load => "load the XDP program for",
            Step::AttachNative => "attach the XDP program in native mode to",
            Step::AttachSkb | Step::Merging => "attach the XDP program in SKB mode to",
        };
        write!(f, "{doing} {name}: {source}")?;
        let code = source.raw_os_error().unwrap_or(0);
        match (step, code) {
            (_, libc::EPERM | libc::EACCES) => f.write_str(
                " (it takes root, or CAP_NET_RAW, CAP_NET_ADMIN and CAP_BPF; before Linux 5.11 \
                 also a higher `ulimit -l`)",
            ),
            (Step::Find, _) => f.write_str(" (`ip link` lists those of this network namespace)"),
            (Step::Socket, libc::EAFNOSUPPORT | libc::EPROTONOSUPPORT) => {
                f.write_str(" (this kernel is built without CONFIG_XDP_SOCKETS)")
            }
            (Step::Memory | Step::Rings, libc::ENOBUFS | libc::ENOMEM) => {
                f.write_str(" (raise `ulimit -l`, run with CAP_IPC_LOCK, or ask for smaller rings)")
            }
            (Step::Bind, libc::EBUSY) => write!(
                f,
                " (another AF_XDP socket has queue {queue}; it is free when that process has \
                 ended)"
            ),
            (Step::Bind, libc::EINVAL) => write!(
                f,
                " (it may have no queue {queue}: `ethtool -l {name}` tells how many there are)"
            ),
            (Step::Bind, libc::EOPNOTSUPP) => f.write_str(
                " (its driver has no zero-copy AF_XDP: ask for `CopyMode::Auto` or `Copy`)",
            ),
            (Step::Load | Step::AttachNative | Step::AttachSkb, libc::ENOSYS | libc::EINVAL) => {
                f.write_str(" (it takes Linux 5.9 with CONFIG_BPF_SYSCALL)")
            }
            (Step::AttachNative, libc::ERANGE) => write!(
                f,
                " (its MTU, or that of a veth's other end, is too large: `ip link set dev {name} \
                 mtu 3506` on both ends, or `Attach::Skb`)"
            ),
            (Step::AttachNative, libc::ENOSPC) => write!(
                f,
                " (it has fewer receive queues than its other end has transmit queues: `ethtool \
                 -L {name} rx N`)"
            ),
            (Step::AttachNative, libc::EOPNOTSUPP) => {
                f.write_str(" (its driver cannot: ask for `Attach::Auto` or `Attach::Skb`)")
            }
            (Step::AttachNative | Step::AttachSkb, libc::EBUSY | libc::EEXIST) => write!(
                f,
                " (it runs another XDP program: end the one that attached it, or `ip link set \
                 dev {name} xdp off`)"
            ),
            (Step::Merging, _) => write!(f, " (`ethtool -K {name} gro off lro off`)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for XdpError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<XdpError> for io::Error {
    fn from(e: XdpError) -> Self {
        Self::new(e.source.kind(), e)
    }
}
