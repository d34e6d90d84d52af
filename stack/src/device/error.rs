//! Why an interface cannot be opened, and what to do about it.

use std::fmt;
use std::io;

/// What was to become of the interface, which says what the system's answer means.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Use {
    /// The cable of a TAP or TUN.
    Tap,
    /// To be heard by a packet socket.
    Hear,
}

/// Why a TAP or TUN, or an interface that is to be heard, cannot be opened.
#[derive(Debug)]
pub struct InterfaceError {
    pub(super) wanted: Use,
    pub(super) doing: &'static str,
    pub(super) name: String,
    /// What the system said.
    pub source: io::Error,
}

impl InterfaceError {
    /// What helps, if it is known.
    fn advice(&self) -> Option<&'static str> {
        Some(match (self.wanted, self.source.raw_os_error()?) {
            (Use::Tap, libc::EPERM | libc::EACCES) => {
                "it takes root, or CAP_NET_ADMIN in the network namespace"
            }
            (Use::Tap, libc::ENOENT | libc::ENODEV) => {
                "is the module `tun` loaded, and /dev/net/tun there?"
            }
            (Use::Tap, libc::EBUSY) => "another program has it open",
            (Use::Tap, libc::EINVAL) => {
                "it exists with other options, or the name is no interface name"
            }
            (Use::Hear, libc::EPERM | libc::EACCES) => {
                "it takes root, or CAP_NET_RAW in the network namespace"
            }
            (Use::Hear, libc::ENODEV) => "`ip link` lists the interfaces",
            (Use::Hear, libc::ENETDOWN) => "it is down: `ip link set ... up`",
            _ => return None,
        })
    }
}

impl fmt::Display for InterfaceError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {}", self.doing, self.name, self.source)?;
        match self.advice() {
            Some(advice) => write!(f, " ({advice})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for InterfaceError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

impl From<InterfaceError> for io::Error {
    fn from(e: InterfaceError) -> Self {
        Self::new(e.source.kind(), e)
    }
}
