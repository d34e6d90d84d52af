//! A call's arguments as the script writes them, and what they stand for.

use crate::ast::{Call, Expr};
use crate::diagnostic::Diagnostic;
use crate::sockets::Errno;
use std::net::{IpAddr, SocketAddr};

/// Names that stand for numbers, as Linux has them.
const NUMBERS: &[(&str, i64)] = &[
    ("O_RDONLY", 0),
    ("O_RDWR", 2),
    ("O_NONBLOCK", 0o4000),
    ("SOCK_STREAM", 1),
    ("SOCK_NONBLOCK", 0o4000),
    ("SOCK_CLOEXEC", 0o2000000),
    ("MSG_FASTOPEN", 0x2000_0000),
    ("MSG_OOB", 1),
    ("MSG_PEEK", 2),
    ("MSG_TRUNC", 0x20),
    ("MSG_DONTWAIT", 0x40),
    ("MSG_WAITALL", 0x100),
    ("MSG_NOSIGNAL", 0x4000),
    ("MSG_MORE", 0x8000),
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
        Expr::Word(name) => {
            let known = NUMBERS.iter().find(|(n, _)| n == name).map(|(_, v)| *v);
            known.or_else(|| Errno::named(name).map(|e| e.number().into()))
        }
        Expr::Or(all) => all.iter().try_fold(0, |sum, e| Some(sum | number(e)?)),
        _ => None,
    }
}

/// `EWOULDBLOCK` is `EAGAIN`.
pub(super) fn same_errno(a: &str, b: &str) -> bool {
    let plain = |e| if e == "EWOULDBLOCK" { "EAGAIN" } else { e };
    plain(a) == plain(b)
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

    /// The value in `[1]`, `{onoff=1, linger=0}` or `"reno"`: the fourth argument.
    pub(super) fn value(&self) -> Result<&Expr, Diagnostic> {
        match self.arg(3)? {
            Expr::List(items) => items
                .first()
                .ok_or_else(|| self.unsupported("the value is missing: [1]")),
            other => Ok(other),
        }
    }

    /// The address that the `n`-th argument says: `...` is the default; a port of its own in
    /// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("192.0.2.1")}`.
    pub(super) fn address(&self, n: usize, default: SocketAddr) -> Result<SocketAddr, Diagnostic> {
        let e = self.arg(n)?;
        let Expr::Record(_) = e else {
            return match e {
                Expr::Ellipsis => Ok(default),
                _ => Err(self.unsupported("an address is `...` or {sa_family=...}")),
            };
        };
        let mut at = default;
        if let Some(Expr::Apply(_, port)) = e.field("sin_port").or_else(|| e.field("sin6_port")) {
            let port = port.first().and_then(number);
            let port = port.and_then(|p| u16::try_from(p).ok());
            at.set_port(port.ok_or_else(|| self.unsupported("a port is htons(NUMBER)"))?);
        }
        if let Some(Expr::Apply(_, ip)) = e.field("sin_addr").or_else(|| e.field("sin6_addr")) {
            let text = match ip.first() {
                Some(Expr::Text(text)) => String::from_utf8_lossy(text).into_owned(),
                _ => String::new(),
            };
            let ip: IpAddr = text
                .parse()
                .map_err(|_| self.unsupported("an address is inet_addr(\"A.B.C.D\")"))?;
            if !ip.is_unspecified() {
                at.set_ip(ip);
            }
        }
        Ok(at)
    }

    /// The descriptor that the script gives to what the call makes.
    pub(super) fn made(&self) -> Result<i32, Diagnostic> {
        number(&self.result)
            .and_then(|n| i32::try_from(n).ok())
            .filter(|n| *n >= 0)
            .ok_or_else(|| {
                Diagnostic::syntax(
                    self.span,
                    format!(
                        "{}() returns a descriptor: the script gives its number",
                        self.name
                    ),
                )
            })
    }

    /// An error about this call.
    pub(super) fn unsupported(&self, why: impl std::fmt::Display) -> Diagnostic {
        Diagnostic::unsupported(self.span, format!("{}(): {why}", self.name))
    }
}
