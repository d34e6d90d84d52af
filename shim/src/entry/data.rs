//! Data: pieces of the caller's memory, read and written.

use super::{on, piece};
use crate::address;
use crate::shared::{Shared, report};
use libc::{c_int, c_void, iovec, msghdr, size_t, sockaddr, socklen_t, ssize_t};
use narrows_script::sockets::{Call, Errno, Form, Gave, MSG_FASTOPEN, MSG_TRUNC, Text};
use std::net::SocketAddr;
use std::ptr;
use std::slice;

/// Pieces that one call may have.
const MAX_PARTS: usize = 1_024;

/// Where bytes that are read go, or come from.
type Pieces = Vec<(*mut u8, usize)>;

/// The pieces of an `iovec` array.
///
/// # Safety
/// `parts` is null or leads to `count` of them.
unsafe fn pieces(parts: *const iovec, count: usize) -> Result<Pieces, Errno> {
    if count > MAX_PARTS {
        return Err(Errno::EINVAL);
    }
    if count == 0 {
        return Ok(Vec::new());
    }
    if parts.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise; `iovec` has no bits that are not allowed, and the array is C's
    // and so aligned.
    let parts = unsafe { slice::from_raw_parts(parts, count) };
    parts
        .iter()
        .map(|p| piece(p.iov_base, p.iov_len, false))
        .collect()
}

/// As [`pieces`], where C counts with an `int`.
///
/// # Safety
/// As for [`pieces`].
unsafe fn counted(parts: *const iovec, count: c_int) -> Result<Pieces, Errno> {
    let count = usize::try_from(count).map_err(|_| Errno::EINVAL)?;
    // SAFETY: the caller's promise.
    unsafe { pieces(parts, count) }
}

/// Copy what was read to its pieces.
///
/// # Safety
/// Each piece is null or leads to as many bytes as it says, which can be written.
unsafe fn scatter(mut bytes: &[u8], pieces: &Pieces) {
    for (base, len) in pieces {
        let (head, tail) = bytes.split_at(bytes.len().min(*len));
        if !base.is_null() {
            // SAFETY: the caller's promise, `head` is no longer than the piece, and it lies in
            // memory of ours, which the piece does not overlap.
            unsafe { ptr::copy_nonoverlapping(head.as_ptr(), *base, head.len()) };
        }
        bytes = tail;
    }
}

/// # Safety
/// As for [`scatter`].
unsafe fn receive(
    shared: &Shared,
    fd: c_int,
    form: Form,
    pieces: &Pieces,
    flags: c_int,
) -> Result<i64, Errno> {
    let parts = pieces.iter().map(|(_, len)| *len).collect();
    let answer = shared.call_on(fd, |fd| Call::Receive {
        fd,
        form,
        parts,
        flags,
    })?;
    if let Gave::Bytes(bytes) = &answer.gave {
        // SAFETY: the caller's promise.
        unsafe { scatter(bytes, pieces) };
    }
    answer.result
}

pub(super) unsafe extern "C" fn read(
    u: *mut c_void,
    fd: c_int,
    buf: *mut c_void,
    count: size_t,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf, count, false)?];
        // SAFETY: the caller's promise.
        unsafe { receive(shared, fd, Form::Plain, &pieces, 0) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn readv(
    u: *mut c_void,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    on(u, |shared| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { counted(parts, count) }?;
        // SAFETY: the caller's promise.
        unsafe { receive(shared, fd, Form::Vector, &pieces, 0) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn recv(
    u: *mut c_void,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf, len, flags & MSG_TRUNC != 0)?];
        // SAFETY: the caller's promise.
        unsafe { receive(shared, fd, Form::Flags, &pieces, flags) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn recvfrom(
    u: *mut c_void,
    fd: c_int,
    buf: *mut c_void,
    len: size_t,
    flags: c_int,
    _addr: *mut sockaddr,
    addr_len: *mut socklen_t,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf, len, flags & MSG_TRUNC != 0)?];
        // SAFETY: the caller's promise.
        let n = unsafe { receive(shared, fd, Form::Address, &pieces, flags) }?;
        if !addr_len.is_null() {
            // A stream tells no address.
            // SAFETY: the caller's promise.
            unsafe { ptr::write_unaligned(addr_len, 0) };
        }
        Ok(n)
    }) as ssize_t
}

pub(super) unsafe extern "C" fn recvmsg(
    u: *mut c_void,
    fd: c_int,
    message: *mut msghdr,
    flags: c_int,
) -> ssize_t {
    on(u, |shared| {
        if message.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the caller's promise: a message, and nobody else looks at it during the call.
        let message = unsafe { &mut *message };
        // SAFETY: the caller's promise.
        let pieces = unsafe { pieces(message.msg_iov, message.msg_iovlen) }?;
        // SAFETY: the caller's promise.
        let n = unsafe { receive(shared, fd, Form::Message, &pieces, flags) }?;
        message.msg_namelen = 0;
        message.msg_controllen = 0;
        message.msg_flags = 0;
        Ok(n)
    }) as ssize_t
}

/// # Safety
/// Each piece is null or leads to as many bytes as it says.
unsafe fn transmit(
    shared: &Shared,
    fd: c_int,
    form: Form,
    pieces: &Pieces,
    flags: c_int,
    to: Option<SocketAddr>,
) -> Result<i64, Errno> {
    let mut bytes = Vec::new();
    for (base, len) in pieces {
        if *len > 0 {
            // SAFETY: the caller's promise, and `piece` has refused null and what is too long.
            bytes.extend_from_slice(unsafe { slice::from_raw_parts(*base, *len) });
        }
    }
    let call = |fd| Call::Send {
        fd,
        form,
        parts: pieces.iter().map(|(_, len)| *len).collect(),
        flags,
        text: Text::of(bytes),
        to,
    };
    shared.call_on(fd, call)?.result
}

/// Where a write that connects goes; others need no address.
///
/// # Safety
/// `addr` is null or leads to `len` bytes.
unsafe fn destination(
    addr: *const sockaddr,
    len: socklen_t,
    flags: c_int,
) -> Result<Option<SocketAddr>, Errno> {
    if flags & MSG_FASTOPEN == 0 || addr.is_null() {
        return Ok(None);
    }
    // SAFETY: the caller's promise.
    unsafe { address::read(addr, len) }.map(Some)
}

pub(super) unsafe extern "C" fn write(
    u: *mut c_void,
    fd: c_int,
    buf: *const c_void,
    count: size_t,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf.cast_mut(), count, false)?];
        // SAFETY: the caller's promise.
        unsafe { transmit(shared, fd, Form::Plain, &pieces, 0, None) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn writev(
    u: *mut c_void,
    fd: c_int,
    parts: *const iovec,
    count: c_int,
) -> ssize_t {
    on(u, |shared| {
        // SAFETY: the caller's promise.
        let pieces = unsafe { counted(parts, count) }?;
        // SAFETY: the caller's promise.
        unsafe { transmit(shared, fd, Form::Vector, &pieces, 0, None) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn send(
    u: *mut c_void,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf.cast_mut(), len, false)?];
        // SAFETY: the caller's promise.
        unsafe { transmit(shared, fd, Form::Flags, &pieces, flags, None) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn sendto(
    u: *mut c_void,
    fd: c_int,
    buf: *const c_void,
    len: size_t,
    flags: c_int,
    addr: *const sockaddr,
    addr_len: socklen_t,
) -> ssize_t {
    on(u, |shared| {
        let pieces = vec![piece(buf.cast_mut(), len, false)?];
        // SAFETY: the caller's promise: null, or an address of that length.
        let to = unsafe { destination(addr, addr_len, flags) }?;
        // SAFETY: the caller's promise.
        unsafe { transmit(shared, fd, Form::Address, &pieces, flags, to) }
    }) as ssize_t
}

pub(super) unsafe extern "C" fn sendmsg(
    u: *mut c_void,
    fd: c_int,
    message: *const msghdr,
    flags: c_int,
) -> ssize_t {
    on(u, |shared| {
        if message.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the caller's promise: a message, which nobody changes during the call.
        let message = unsafe { &*message };
        if message.msg_controllen > 0 {
            report("sendmsg(): control messages are not known");
            return Err(Errno::EOPNOTSUPP);
        }
        // SAFETY: the caller's promise.
        let pieces = unsafe { pieces(message.msg_iov, message.msg_iovlen) }?;
        // SAFETY: the caller's promise: null, or an address of that length.
        let to = unsafe { destination(message.msg_name.cast(), message.msg_namelen, flags) }?;
        // SAFETY: the caller's promise.
        unsafe { transmit(shared, fd, Form::Message, &pieces, flags, to) }
    }) as ssize_t
}
