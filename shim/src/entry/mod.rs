//! The functions of the interface, as C calls them.
//!
//! Each checks its pointers, turns them into slices, and leaves the rest to [`Shared`]. The
//! safety of each is C's: pointers are null or lead to as much memory as the arguments say, for as
//! long as the call takes.

mod data;
mod network;
mod settings;
mod sockets;

pub(crate) use settings::get_option;

use crate::abi::PacketdrillInterface;
use crate::flags::Flags;
use crate::shared::{Shared, report};
use data::{read, readv, recv, recvfrom, recvmsg, send, sendmsg, sendto, write, writev};
use libc::{c_char, c_int, c_ulong, c_void, size_t};
use narrows_script::sockets::Errno;
use network::{
    epoll_create, epoll_ctl, epoll_wait, gettimeofday, netdev_receive, netdev_send, pipe, splice,
    usleep,
};
use settings::{fcntl, getsockopt, ioctl, poll, setsockopt};
use sockets::{accept, bind, close, connect, listen, shutdown, socket};
use std::collections::BTreeMap;
use std::ffi::CStr;
use std::mem;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The instances by their `userdata`, which is a number and leads nowhere. None: its flags were
/// wrong.
static INSTANCES: Mutex<BTreeMap<usize, Option<Arc<Shared>>>> = Mutex::new(BTreeMap::new());

fn instances() -> MutexGuard<'static, BTreeMap<usize, Option<Arc<Shared>>>> {
    INSTANCES.lock().unwrap_or_else(PoisonError::into_inner)
}

fn instance(userdata: *mut c_void) -> Result<Arc<Shared>, Errno> {
    match instances().get(&userdata.addr()) {
        Some(Some(shared)) => Ok(shared.clone()),
        _ => Err(Errno::EINVAL),
    }
}

/// The instance whose descriptor `fd` is.
pub(crate) fn owner(fd: c_int) -> Option<Arc<Shared>> {
    let all: Vec<Arc<Shared>> = instances().values().flatten().cloned().collect();
    all.into_iter().find(|shared| shared.owns(fd))
}

/// Run `f`; -1 and `errno` for what fails, also for a panic.
pub(crate) fn answer(f: impl FnOnce() -> Result<i64, Errno>) -> i64 {
    let errno = match catch_unwind(AssertUnwindSafe(f)) {
        Ok(Ok(n)) => return n,
        Ok(Err(errno)) => errno,
        Err(_) => {
            report("a bug in narrows: the call fails with EIO");
            Errno::EIO
        }
    };
    // SAFETY: the location is this thread's own `errno`, always there.
    unsafe { *libc::__errno_location() = errno.number() };
    -1
}

fn on(userdata: *mut c_void, f: impl FnOnce(&Shared) -> Result<i64, Errno>) -> i64 {
    answer(|| f(&*instance(userdata)?))
}

/// Fill in the table. `flags` is what packetdrill's `--so_flags` says, or null. Where they are
/// wrong, that is said on standard error, and every function fails with `EINVAL`.
///
/// # Safety
/// `flags` is null or a C string, `interface` null or room for the table.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn packetdrill_interface_init(
    flags: *const c_char,
    interface: *mut PacketdrillInterface,
) {
    answer(|| {
        if interface.is_null() {
            report("packetdrill_interface_init(): no table");
            return Err(Errno::EFAULT);
        }
        let text = match flags.is_null() {
            true => String::new(),
            // SAFETY: the caller's promise: not null, so a C string.
            false => unsafe { CStr::from_ptr(flags) }
                .to_string_lossy()
                .into_owned(),
        };
        let made = Flags::parse(&text).and_then(|flags| Shared::new(&flags));
        let shared = made
            .map_err(|why| report(format_args!("--so_flags: {why}")))
            .ok()
            .map(Arc::new);
        let mut instances = instances();
        let number = instances.last_key_value().map_or(1, |(n, _)| n + 1);
        instances.insert(number, shared);
        let table = table(ptr::without_provenance_mut(number));
        // SAFETY: the caller's promise: not null, so room for a table.
        unsafe { ptr::write_unaligned(interface, table) };
        Ok(0)
    });
}

fn table(userdata: *mut c_void) -> PacketdrillInterface {
    type Fcntl = unsafe extern "C" fn(*mut c_void, c_int, c_int, c_int) -> c_int;
    type FcntlVariadic = unsafe extern "C" fn(*mut c_void, c_int, c_int, ...) -> c_int;
    type Ioctl = unsafe extern "C" fn(*mut c_void, c_int, c_ulong, *mut c_int) -> c_int;
    type IoctlVariadic = unsafe extern "C" fn(*mut c_void, c_int, c_ulong, ...) -> c_int;
    // SAFETY: a caller of the variadic type puts the arguments where a function of the fixed type
    // looks for them. On the two architectures that this crate is for, Linux's calling convention
    // passes variadic integers and pointers as it passes named ones: the first six in rdi, rsi, rdx,
    // rcx, r8, r9 on x86-64 (System V ABI 3.2.3; al, the number of vector registers, is for the
    // callee to use or not), the first eight in x0 to x7 on AArch64 (AAPCS64 6.8.2: variadic
    // arguments are allocated as named ones; it is Apple's variant that differs). Both have four.
    // Where the caller gives only three, the fourth is whatever is in its register, and is not
    // looked at. An `int` fills the low half of its register, which is all that is read.
    let fcntl = unsafe { mem::transmute::<Fcntl, FcntlVariadic>(fcntl) };
    // SAFETY: as above.
    let ioctl = unsafe { mem::transmute::<Ioctl, IoctlVariadic>(ioctl) };
    PacketdrillInterface {
        userdata,
        free: Some(free),
        socket: Some(socket),
        bind: Some(bind),
        listen: Some(listen),
        accept: Some(accept),
        connect: Some(connect),
        read: Some(read),
        readv: Some(readv),
        recv: Some(recv),
        recvfrom: Some(recvfrom),
        recvmsg: Some(recvmsg),
        write: Some(write),
        writev: Some(writev),
        send: Some(send),
        sendto: Some(sendto),
        sendmsg: Some(sendmsg),
        fcntl: Some(fcntl),
        ioctl: Some(ioctl),
        close: Some(close),
        shutdown: Some(shutdown),
        getsockopt: Some(getsockopt),
        setsockopt: Some(setsockopt),
        poll: Some(poll),
        netdev_send: Some(netdev_send),
        netdev_receive: Some(netdev_receive),
        usleep: Some(usleep),
        gettimeofday: Some(gettimeofday),
        epoll_create: Some(epoll_create),
        epoll_ctl: Some(epoll_ctl),
        epoll_wait: Some(epoll_wait),
        pipe: Some(pipe),
        splice: Some(splice),
    }
}

unsafe extern "C" fn free(userdata: *mut c_void) {
    answer(|| {
        let gone = instances().remove(&userdata.addr());
        if let Some(Some(shared)) = gone {
            shared.close_all();
        }
        Ok(0)
    });
}

/// A piece of the caller's memory. A null one of a call that asks to throw away what it reads
/// takes its bytes and keeps none.
///
/// # Errors
/// `EFAULT` for null, `EINVAL` for more than memory can be.
fn piece(base: *mut c_void, len: size_t, may_be_null: bool) -> Result<(*mut u8, usize), Errno> {
    if base.is_null() && len > 0 && !may_be_null {
        return Err(Errno::EFAULT);
    }
    match isize::try_from(len) {
        Ok(_) => Ok((base.cast(), len)),
        Err(_) => Err(Errno::EINVAL),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_panic_ends_in_eio() {
        assert_eq!(answer(|| panic!("a bug, for the test's sake")), -1);
        let errno = std::io::Error::last_os_error().raw_os_error();
        assert_eq!(errno, Some(Errno::EIO.number()));
    }

    #[test]
    fn userdata_that_was_never_given_is_refused() {
        for userdata in [ptr::null_mut(), ptr::without_provenance_mut(usize::MAX)] {
            assert_eq!(on(userdata, |_| Ok(0)), -1);
            let errno = std::io::Error::last_os_error().raw_os_error();
            assert_eq!(errno, Some(Errno::EINVAL.number()));
        }
    }
}
