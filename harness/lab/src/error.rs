//! What can go wrong.

use narrows::device::InterfaceError;
use narrows::device::marking::MarkingError;
use narrows::device::xdp::XdpError;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// Why something live could not be done, with what to do about it.
#[derive(Debug)]
#[non_exhaustive]
pub enum LiveError {
    /// It takes privileges.
    Privileges {
        /// What was tried.
        doing: String,
    },
    /// There is no `/dev/net/tun`.
    NoTun,
    /// The name of the lab belongs to something else.
    Foreign(PathBuf),
    /// The lab is up with another MTU.
    OtherMtu {
        /// The lab.
        lab: String,
        /// Its MTU.
        mtu: u32,
    },
    /// There is no such lab.
    NoLab(String),
    /// The lab is somebody else's, or was made to stay.
    Taken(String),
    /// The kernel cannot shape a port.
    NoShaper,
    /// The kernel cannot make a port mark.
    NoMarking(MarkingError),
    /// The kernel has no such congestion control.
    NoCongestion {
        /// Its name.
        name: String,
        /// Those that it has.
        known: String,
    },
    /// A name that cannot be a lab's.
    BadName(String),
    /// The host's place at the switch is taken.
    HostTaken(u8),
    /// All places at the switch are taken.
    NoHostFree,
    /// A TAP, or an interface that is to be heard, could not be opened.
    Interface(InterfaceError),
    /// An interface could not be opened with AF_XDP.
    Xdp(XdpError),
    /// Something that was said on the command line makes no sense.
    Invalid(String),
    /// What is simulated beside it broke a rule of the simulator's: always a bug.
    Internal(String),
    /// Anything else of the operating system, or of a peer.
    Io {
        /// What was tried.
        doing: String,
        /// What came of it.
        source: io::Error,
    },
}

impl LiveError {
    /// `source` came of `doing`.
    pub fn io(doing: impl Into<String>, source: io::Error) -> Self {
        let doing = doing.into();
        match source.kind() {
            io::ErrorKind::PermissionDenied => Self::Privileges { doing },
            _ => Self::Io { doing, source },
        }
    }

    /// A port was to mark.
    pub(super) fn marking(e: MarkingError) -> Self {
        match e {
            MarkingError::Io { doing, source } => Self::io(doing, source),
            other => Self::NoMarking(other),
        }
    }

    /// `source` came of asking the kernel for a queue discipline.
    pub(super) fn shaper(doing: impl Into<String>, source: io::Error) -> Self {
        match source.kind() {
            io::ErrorKind::NotFound => Self::NoShaper,
            _ => Self::io(doing, source),
        }
    }
}

impl fmt::Display for LiveError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Privileges { doing } => write!(
                f,
                "not permitted to {doing}: it takes root, or CAP_SYS_ADMIN and CAP_NET_ADMIN; try \
                 sudo (in a container: --privileged)"
            ),
            Self::NoTun => f.write_str(
                "there is no /dev/net/tun: load the module with `modprobe tun` (for a container: \
                 --device /dev/net/tun)",
            ),
            Self::Foreign(path) => write!(
                f,
                "{} is there and no lab of narrows; choose another name with --lab",
                path.display()
            ),
            Self::OtherMtu { lab, mtu } => write!(
                f,
                "lab {lab} is up with an MTU of {mtu}; take it down first, or choose another name \
                 with --lab"
            ),
            Self::NoLab(lab) => write!(
                f,
                "there is no lab {lab}; make it with `narrows live up --lab {lab}`"
            ),
            Self::Taken(lab) => write!(
                f,
                "lab {lab} is up: another run uses it, or `narrows live up` made it to stay; \
                 choose another name with --lab"
            ),
            Self::NoShaper => f.write_str(
                "the kernel has no queue discipline `tbf`, which makes a port of the switch slow \
                 and small: load its module with `modprobe sch_tbf` (kernel option \
                 CONFIG_NET_SCH_TBF)",
            ),
            Self::NoMarking(e) => write!(f, "a port cannot mark for ECN: {e}"),
            Self::NoCongestion { name, known } => write!(
                f,
                "the kernel has no congestion control {name}, of which its senders are to have one: \
                 load it with `modprobe tcp_{name}`, or choose among what is there: {known}"
            ),
            Self::BadName(name) => write!(
                f,
                "'{name}' cannot be the name of a lab: up to 32 letters, digits, '-' and '_', the \
                 first a letter or digit"
            ),
            Self::HostTaken(n) => write!(
                f,
                "host {n} is taken by another program; choose another with --host"
            ),
            Self::NoHostFree => f.write_str("all 250 hosts of the lab are taken"),
            Self::Interface(e) => write!(f, "{e}"),
            Self::Xdp(e) => write!(f, "{e}"),
            Self::Invalid(text) => f.write_str(text),
            Self::Internal(what) => write!(f, "internal error, please report it: {what}"),
            Self::Io { doing, source } => write!(f, "cannot {doing}: {source}"),
        }
    }
}

impl std::error::Error for LiveError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Interface(e) => Some(e),
            Self::Xdp(e) => Some(e),
            Self::NoMarking(e) => Some(e),
            Self::Io { source, .. } => Some(source),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_is_named_with_what_to_do() {
        let of =
            |errno: i32| LiveError::shaper("shape a port", io::Error::from_raw_os_error(errno));
        let (enoent, eperm, einval) = (2, 1, 22);
        assert!(of(enoent).to_string().contains("modprobe sch_tbf"));
        assert!(of(eperm).to_string().contains("sudo"));
        assert!(of(einval).to_string().contains("cannot shape a port"));
        assert!(LiveError::NoTun.to_string().contains("modprobe tun"));
    }
}
