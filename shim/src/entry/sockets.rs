//! Sockets come and go.

use super::on;
use crate::address;
use crate::shared::report;
use libc::{c_int, c_void, sockaddr, socklen_t};
use narrows_script::sockets::{Call, Errno, Gave};

pub(super) unsafe extern "C" fn socket(
    u: *mut c_void,
    domain: c_int,
    kind: c_int,
    protocol: c_int,
) -> c_int {
    on(u, |shared| {
        let v6 = match domain {
            libc::AF_INET => false,
            libc::AF_INET6 => true,
            _ => return Err(Errno::EAFNOSUPPORT),
        };
        let plain = kind & !(libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC);
        if plain != libc::SOCK_STREAM || !matches!(protocol, 0 | libc::IPPROTO_TCP) {
            report("only SOCK_STREAM and IPPROTO_TCP: this is a TCP");
            return Err(Errno::EPROTONOSUPPORT);
        }
        let nonblocking = kind & libc::SOCK_NONBLOCK != 0;
        shared.socket(v6, nonblocking).map(i64::from)
    }) as c_int
}

pub(super) unsafe extern "C" fn bind(
    u: *mut c_void,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    on(u, |shared| {
        // SAFETY: the caller's promise is that of `address::read`.
        let at = unsafe { address::read(addr, len) }?;
        shared.call_on(fd, |fd| Call::Bind { fd, at })?.result
    }) as c_int
}

pub(super) unsafe extern "C" fn listen(u: *mut c_void, fd: c_int, backlog: c_int) -> c_int {
    on(u, |shared| {
        let backlog = usize::try_from(backlog).unwrap_or(0).min(65_535);
        shared
            .call_on(fd, |fd| Call::Listen { fd, backlog })?
            .result
    }) as c_int
}

pub(super) unsafe extern "C" fn accept(
    u: *mut c_void,
    fd: c_int,
    addr: *mut sockaddr,
    len: *mut socklen_t,
) -> c_int {
    on(u, |shared| {
        let (new, v6, answer) = shared.accept(fd)?;
        if let Gave::Peer(peer) = answer.gave {
            // SAFETY: the caller's promise is that of `address::write`.
            unsafe { address::write(peer, v6, addr, len) };
        }
        Ok(new.into())
    }) as c_int
}

pub(super) unsafe extern "C" fn connect(
    u: *mut c_void,
    fd: c_int,
    addr: *const sockaddr,
    len: socklen_t,
) -> c_int {
    on(u, |shared| {
        // SAFETY: the caller's promise is that of `address::read`.
        let to = unsafe { address::read(addr, len) }?;
        shared.call_on(fd, |fd| Call::Connect { fd, to })?.result
    }) as c_int
}

pub(super) unsafe extern "C" fn close(u: *mut c_void, fd: c_int) -> c_int {
    on(u, |shared| shared.close(fd)) as c_int
}

pub(super) unsafe extern "C" fn shutdown(u: *mut c_void, fd: c_int, how: c_int) -> c_int {
    on(u, |shared| {
        let (read, write) = match how {
            libc::SHUT_RD => (true, false),
            libc::SHUT_WR => (false, true),
            libc::SHUT_RDWR => (true, true),
            _ => return Err(Errno::EINVAL),
        };
        let call = |fd| Call::Shutdown { fd, read, write };
        shared.call_on(fd, call)?.result
    }) as c_int
}
