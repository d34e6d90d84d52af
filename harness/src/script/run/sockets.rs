//! Sockets as the script's calls see them, and what calls return.

use super::{Host, Machine};
use crate::script::ast::{Call, Expr};
use crate::script::diagnostic::Diagnostic;
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::conn::state::{CloseReason, State};
use narrows::conn::{Boxed, Connection};
use narrows::endpoint::{ConnId, ListenerId};
use narrows::wire::icmp::Unreachable;
use std::collections::BTreeMap;
use std::net::SocketAddr;

pub(super) type Conn = Connection<Boxed<narrows::buffer::SendRing, narrows::buffer::RecvRing>>;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Made, perhaps bound.
    Fresh,
    /// Listening on a port.
    Listener(ListenerId, u16),
    /// Connecting, connected, or done.
    Conn(ConnId),
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) role: Role,
    pub(super) tcp: TcpConfig,
    pub(super) bound: Option<SocketAddr>,
    pub(super) nonblocking: bool,
    /// `SO_LINGER`: seconds.
    pub(super) linger: Option<u64>,
    /// Options by name, as last set.
    pub(super) options: BTreeMap<String, i64>,
    /// The error that ended the connection has been told.
    pub(super) error_told: bool,
    pub(super) shut_read: bool,
    /// `connect` has returned 0.
    pub(super) connect_told: bool,
}

impl Socket {
    pub(super) fn new(role: Role, tcp: TcpConfig, nonblocking: bool) -> Self {
        Self {
            role,
            tcp,
            bound: None,
            nonblocking,
            linger: None,
            options: BTreeMap::new(),
            error_told: false,
            shut_read: false,
            connect_told: false,
        }
    }

    pub(super) fn listening_port(&self) -> Option<u16> {
        match self.role {
            Role::Listener(_, port) => Some(port),
            _ => None,
        }
    }

    pub(super) fn conn<'h>(&self, host: &'h Host) -> Option<&'h Conn> {
        match self.role {
            Role::Conn(id) => host.connection(id),
            _ => None,
        }
    }

    /// The error to be told, if there is one.
    pub(super) fn error(&self, host: &Host) -> Option<&'static str> {
        if self.error_told {
            return None;
        }
        match self.conn(host)?.state() {
            State::Closed(reason) => errno_of(reason),
            _ => None,
        }
    }
}

/// What a user is told of how a connection ended.
fn errno_of(reason: CloseReason) -> Option<&'static str> {
    match reason {
        CloseReason::Finished | CloseReason::Aborted => None,
        CloseReason::Reset => Some("ECONNRESET"),
        CloseReason::Refused | CloseReason::Unreachable(Unreachable::Port) => Some("ECONNREFUSED"),
        CloseReason::Unreachable(Unreachable::Protocol) => Some("ENOPROTOOPT"),
        CloseReason::Unreachable(_) => Some("EHOSTUNREACH"),
        _ => Some("ETIMEDOUT"),
    }
}

/// The peer will send no more.
pub(super) fn peer_closed(state: State) -> bool {
    matches!(
        state,
        State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed(_)
    )
}

/// What a call gives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// A number.
    Returned(i64),
    /// -1 and this error.
    Failed(&'static str),
    /// Nothing yet.
    Block,
}

/// What a call that blocks has come to.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// When it began.
    pub(super) began: Instant,
    /// It has been tried before.
    pub(super) tried: bool,
    /// Bytes written so far.
    pub(super) written: usize,
    /// The last try did something.
    pub(super) moved: bool,
    /// When it gives up by itself.
    pub(super) wake: Option<Instant>,
}

impl Progress {
    pub(super) fn at(began: Instant) -> Self {
        Self {
            began,
            tried: false,
            written: 0,
            moved: false,
            wake: None,
        }
    }
}

/// Whether `reply` is what the script says, and what it says in words.
pub(super) fn result_matches(call: &Call, reply: Reply) -> Result<(bool, String), Diagnostic> {
    let wanted = match &call.result {
        Expr::Ellipsis => return Ok((true, "...".to_owned())),
        other => number(other).ok_or_else(|| {
            Diagnostic::syntax(call.span, "a call returns a number, flags or `...`")
        })?,
    };
    let errno = call.errno.as_deref();
    let words = match errno {
        Some(errno) => format!("{wanted} {errno}"),
        None => wanted.to_string(),
    };
    let matches = match reply {
        Reply::Returned(n) => n == wanted && errno.is_none(),
        Reply::Failed(name) => wanted == -1 && errno.is_none_or(|e| same_errno(e, name)),
        Reply::Block => false,
    };
    Ok((matches, words))
}

/// `EWOULDBLOCK` is `EAGAIN`.
pub(super) fn same_errno(a: &str, b: &str) -> bool {
    let plain = |e| if e == "EWOULDBLOCK" { "EAGAIN" } else { e };
    plain(a) == plain(b)
}

/// Numbers that errors have on Linux.
const ERRNOS: &[(&str, i64)] = &[
    ("EAGAIN", 11),
    ("EPIPE", 32),
    ("ENOPROTOOPT", 92),
    ("EADDRINUSE", 98),
    ("ECONNABORTED", 103),
    ("ECONNRESET", 104),
    ("EISCONN", 106),
    ("ENOTCONN", 107),
    ("ETIMEDOUT", 110),
    ("ECONNREFUSED", 111),
    ("EHOSTUNREACH", 113),
    ("EALREADY", 114),
    ("EINPROGRESS", 115),
];

/// The number of an error.
pub(super) fn errno_number(name: &str) -> i64 {
    ERRNOS
        .iter()
        .find(|(n, _)| same_errno(n, name))
        .map_or(0, |(_, v)| *v)
}

/// Names that stand for numbers, as Linux has them.
const NUMBERS: &[(&str, i64)] = &[
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0o4000),
    ("SOCK_STREAM", 1),
    ("SOCK_NONBLOCK", 0o4000),
    ("SOCK_CLOEXEC", 0o2000000),
    ("MSG_OOB", 1),
    ("MSG_PEEK", 2),
    ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_WAITALL", 0x100),
    ("MSG_NOSIGNAL", 0x4000),
    ("POLLIN", 1),
    ("POLLPRI", 2),
    ("POLLOUT", 4),
    ("POLLERR", 8),
    ("POLLHUP", 0x10),
    ("POLLNVAL", 0x20),
    ("POLLRDNORM", 0x40),
    ("POLLWRNORM", 0x100),
    ("POLLRDHUP", 0x2000),
];

/// A number, a name that stands for one, or several or-ed.
pub(super) fn number(e: &Expr) -> Option<i64> {
    match e {
        Expr::Int(n) => Some(*n),
        Expr::Word(name) => NUMBERS
            .iter()
            .chain(ERRNOS)
            .find(|(n, _)| n == name)
            .map(|(_, v)| *v),
        Expr::Or(all) => all.iter().try_fold(0, |sum, e| Some(sum | number(e)?)),
        _ => None,
    }
}

/// Part of a call's arguments, with the errors that name them.
impl Call {
    /// The `n`-th argument.
    pub(super) fn arg(&self, n: usize) -> Result<&Expr, Diagnostic> {
        self.args.get(n).ok_or_else(|| {
            Diagnostic::syntax(
                self.span,
                format!("{}() has too few arguments: {}", self.name, self.args.len()),
            )
        })
    }

    /// The `n`-th argument as a number.
    pub(super) fn int(&self, n: usize) -> Result<i64, Diagnostic> {
        number(self.arg(n)?).ok_or_else(|| {
            Diagnostic::unsupported(
                self.span,
                format!(
                    "{}(): argument {} is no number that is known",
                    self.name,
                    n + 1
                ),
            )
        })
    }

    /// The `n`-th argument as a length.
    pub(super) fn size(&self, n: usize) -> Result<usize, Diagnostic> {
        usize::try_from(self.int(n)?)
            .ok()
            .filter(|n| *n <= 1 << 26)
            .ok_or_else(|| {
                Diagnostic::syntax(
                    self.span,
                    format!("{}(): a length is from 0 to 64 MiB", self.name),
                )
            })
    }

    /// The `n`-th argument as a name.
    pub(super) fn name(&self, n: usize) -> Result<&str, Diagnostic> {
        match self.arg(n)? {
            Expr::Word(name) => Ok(name),
            _ => Err(Diagnostic::unsupported(
                self.span,
                format!("{}(): argument {} must be a name", self.name, n + 1),
            )),
        }
    }

    /// An error about this call.
    pub(super) fn unsupported(&self, why: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::unsupported(self.span, format!("{}(): {why}", self.name))
    }
}

impl Machine<'_> {
    /// The socket that a call's first argument names.
    pub(super) fn descriptor(&self, call: &Call) -> Result<i32, Diagnostic> {
        let fd = i32::try_from(call.int(0)?).unwrap_or(-1);
        if self.sockets.contains_key(&fd) {
            return Ok(fd);
        }
        Err(Diagnostic::mismatch(
            call.span,
            format!("{}(): no socket has the descriptor {fd}", call.name),
        ))
    }

    pub(super) fn socket(&self, fd: i32) -> &Socket {
        &self.sockets[&fd]
    }

    /// The descriptor that the script gives to what a call makes.
    pub(super) fn new_descriptor(&self, call: &Call) -> Result<i32, Diagnostic> {
        let fd = number(&call.result)
            .and_then(|n| i32::try_from(n).ok())
            .filter(|n| *n >= 0)
            .ok_or_else(|| {
                Diagnostic::syntax(
                    call.span,
                    format!(
                        "{}() returns a descriptor: the script gives its number",
                        call.name
                    ),
                )
            })?;
        if self.sockets.contains_key(&fd) {
            return Err(Diagnostic::syntax(
                call.span,
                format!("descriptor {fd} is open already"),
            ));
        }
        Ok(fd)
    }
}
