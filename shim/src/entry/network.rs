//! Packets, the clock, and what is not there.

use super::{answer, on, piece};
use crate::abi::Timezone;
use crate::shared::report;
use libc::{c_int, c_longlong, c_uint, c_void, epoll_event, loff_t, size_t, timeval, useconds_t};
use narrows_script::sockets::Errno;
use std::ptr;
use std::slice;

pub(super) unsafe extern "C" fn netdev_send(
    u: *mut c_void,
    packet: *const c_void,
    len: size_t,
) -> c_int {
    on(u, |shared| {
        let (base, len) = piece(packet.cast_mut(), len, false)?;
        if len == 0 {
            return Ok(0);
        }
        // SAFETY: the caller's promise, and `piece` has refused null and what is too long.
        let packet = unsafe { slice::from_raw_parts(base, len) };
        shared.inject(packet)?;
        Ok(0)
    }) as c_int
}

/// With no packet and no timer armed none will ever leave. That, as any other reason why none can
/// be had, is told by a count of 0, as the interface has it, and not by -1: packetdrill asks again
/// after -1, for ever, while it takes a packet of no bytes for an error and ends.
pub(super) unsafe extern "C" fn netdev_receive(
    u: *mut c_void,
    buf: *mut c_void,
    count: *mut size_t,
    time_usecs: *mut c_longlong,
) -> c_int {
    on(u, |shared| {
        if buf.is_null() || count.is_null() || time_usecs.is_null() {
            return Err(Errno::EFAULT);
        }
        // SAFETY: the caller's promise.
        let room = unsafe { ptr::read_unaligned(count) };
        let (bytes, at) = match shared.sniff() {
            Ok(Some(s)) if s.bytes.len() <= room => (s.bytes, s.at_micros),
            Ok(Some(s)) => {
                let len = s.bytes.len();
                shared.say(format_args!(
                    "netdev_receive(): a packet of {len} bytes for a buffer of {room}"
                ));
                (Vec::new(), 0)
            }
            Ok(None) => {
                shared.say("netdev_receive(): no packet leaves, and no timer is armed");
                (Vec::new(), 0)
            }
            // Told already.
            Err(_) => (Vec::new(), 0),
        };
        // SAFETY: the caller's promise, and the packet fits; it lies in memory of ours.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), buf.cast::<u8>(), bytes.len()) };
        // SAFETY: the caller's promise.
        unsafe { ptr::write_unaligned(count, bytes.len()) };
        // SAFETY: the caller's promise.
        unsafe { ptr::write_unaligned(time_usecs, at) };
        Ok(0)
    }) as c_int
}

pub(super) unsafe extern "C" fn usleep(u: *mut c_void, microseconds: useconds_t) -> c_int {
    on(u, |shared| shared.sleep(microseconds).map(|()| 0)) as c_int
}

pub(super) unsafe extern "C" fn gettimeofday(
    u: *mut c_void,
    time: *mut timeval,
    _zone: *mut Timezone,
) -> c_int {
    on(u, |shared| {
        let micros = shared.look()?;
        if !time.is_null() {
            let now = timeval {
                tv_sec: micros / 1_000_000,
                tv_usec: micros % 1_000_000,
            };
            // SAFETY: the caller's promise: not null, so room for one.
            unsafe { ptr::write_unaligned(time, now) };
        }
        Ok(0)
    }) as c_int
}

fn missing(name: &str) -> c_int {
    answer(|| {
        report(format_args!("{name}() is not there"));
        Err(Errno::ENOSYS)
    }) as c_int
}

pub(super) unsafe extern "C" fn epoll_create(_: *mut c_void, _: c_int) -> c_int {
    missing("epoll_create")
}

pub(super) unsafe extern "C" fn epoll_ctl(
    _: *mut c_void,
    _: c_int,
    _: c_int,
    _: c_int,
    _: *mut epoll_event,
) -> c_int {
    missing("epoll_ctl")
}

pub(super) unsafe extern "C" fn epoll_wait(
    _: *mut c_void,
    _: c_int,
    _: *mut epoll_event,
    _: c_int,
    _: c_int,
) -> c_int {
    missing("epoll_wait")
}

pub(super) unsafe extern "C" fn pipe(_: *mut c_void, _: *mut c_int) -> c_int {
    missing("pipe")
}

pub(super) unsafe extern "C" fn splice(
    _: *mut c_void,
    _: c_int,
    _: *mut loff_t,
    _: c_int,
    _: *mut loff_t,
    _: size_t,
    _: c_uint,
) -> c_int {
    missing("splice")
}
