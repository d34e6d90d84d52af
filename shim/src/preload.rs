//! `getsockopt` of libc, for packetdrill's `%{ }%`.
//!
//! packetdrill asks libc for `TCP_INFO` there, also of sockets that a shared object has made. With
//! the object in `LD_PRELOAD` too, this function comes before libc's: it answers for our sockets and
//! asks the kernel for all others.

use crate::entry::{answer, get_option, owner};
use libc::{SYS_getsockopt, c_int, c_long, c_void, socklen_t};

/// `getsockopt(2)`, of our sockets and all others.
///
/// # Safety
/// That of `getsockopt(2)`: `len` is null or can be read and written, `value` is null or leads to
/// as many bytes as it says, which can be written.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn getsockopt(
    fd: c_int,
    level: c_int,
    name: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    if let Some(shared) = owner(fd) {
        // SAFETY: the caller's promise is that of `get_option`.
        return answer(|| unsafe { get_option(&shared, fd, level, name, value, len) }) as c_int;
    }
    let [fd, level, name] = [fd, level, name].map(c_long::from);
    // SAFETY: the system call that libc's function of this name makes, with its arguments.
    unsafe { libc::syscall(SYS_getsockopt, fd, level, name, value, len) as c_int }
}
