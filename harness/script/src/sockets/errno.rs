//! Error numbers, by the names and values of Linux.

use std::fmt;

/// Why a call failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Errno {
    name: &'static str,
    number: i32,
}

macro_rules! errnos {
    ($($(#[$doc:meta])* $name:ident = $number:literal,)*) => {
        impl Errno {
            $($(#[$doc])* pub const $name: Self = Self { name: stringify!($name), number: $number };)*

            const ALL: &'static [Self] = &[$(Self::$name),*];
        }
    };
}

errnos! {
    /// Input or output failed.
    EIO = 5,
    /// No such descriptor.
    EBADF = 9,
    /// It would block.
    EAGAIN = 11,
    /// No memory.
    ENOMEM = 12,
    /// An address that leads nowhere.
    EFAULT = 14,
    /// An argument makes no sense here.
    EINVAL = 22,
    /// No descriptor is left.
    EMFILE = 24,
    /// Nobody reads what is written.
    EPIPE = 32,
    /// It would wait for ever.
    EDEADLK = 35,
    /// There is no such call.
    ENOSYS = 38,
    /// No such option, or the protocol is not there.
    ENOPROTOOPT = 92,
    /// No such protocol.
    EPROTONOSUPPORT = 93,
    /// Not for this kind of socket.
    EOPNOTSUPP = 95,
    /// No such address family.
    EAFNOSUPPORT = 97,
    /// The address is taken.
    EADDRINUSE = 98,
    /// The address cannot be had.
    EADDRNOTAVAIL = 99,
    /// The connection was given up.
    ECONNABORTED = 103,
    /// The peer reset the connection.
    ECONNRESET = 104,
    /// Connected already.
    EISCONN = 106,
    /// Not connected.
    ENOTCONN = 107,
    /// Time ran out.
    ETIMEDOUT = 110,
    /// The peer refused.
    ECONNREFUSED = 111,
    /// The host cannot be reached.
    EHOSTUNREACH = 113,
    /// It is being done.
    EALREADY = 114,
    /// It has begun.
    EINPROGRESS = 115,
}

impl Errno {
    /// Its name, as `EAGAIN`.
    pub const fn name(self) -> &'static str {
        self.name
    }

    /// Its number.
    pub const fn number(self) -> i32 {
        self.number
    }

    /// The one of this number; one without a name if none is known.
    pub fn of(number: i32) -> Self {
        let known = Self::ALL.iter().find(|e| e.number == number);
        known.copied().unwrap_or(Self { name: "?", number })
    }

    /// The one of this name. `EWOULDBLOCK` is `EAGAIN`.
    pub fn named(name: &str) -> Option<Self> {
        let name = if name == "EWOULDBLOCK" {
            "EAGAIN"
        } else {
            name
        };
        Self::ALL.iter().find(|e| e.name == name).copied()
    }
}

impl fmt::Display for Errno {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.name {
            "?" => write!(f, "error number {}", self.number),
            name => f.write_str(name),
        }
    }
}
impl std::error::Error for Errno {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_agree() {
        for e in Errno::ALL {
            assert_eq!(Errno::of(e.number), *e);
            assert_eq!(Errno::named(e.name), Some(*e));
        }
        assert_eq!(Errno::named("EWOULDBLOCK"), Some(Errno::EAGAIN));
        assert_eq!(Errno::of(4).to_string(), "error number 4");
        assert_eq!(Errno::of(11).to_string(), "EAGAIN");
    }
}
