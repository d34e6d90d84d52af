//! `fcntl`, `ioctl`, socket options, `poll`.

use super::on;
use crate::numbers::{self, SO_MEMINFO, TCP_CC_INFO};
use crate::shared::{Shared, report};
use crate::tcp_info;
use libc::{c_int, c_ulong, c_void, linger, nfds_t, pollfd, socklen_t};
use narrows_script::sockets::{Call, Errno, Gave, O_NONBLOCK, OptionValue};
use std::ptr;
use std::slice;

/// Descriptors that one `poll` may ask for.
const MAX_POLLED: u64 = 4_096;
/// Bytes of a congestion control's name, as Linux has it.
const NAME_ROOM: usize = 16;

pub(super) unsafe extern "C" fn fcntl(
    u: *mut c_void,
    fd: c_int,
    command: c_int,
    arg: c_int,
) -> c_int {
    on(u, |shared| {
        let answer = match command {
            libc::F_GETFL => shared.call_on(fd, |fd| Call::GetFlags { fd }),
            libc::F_SETFL => shared.call_on(fd, |fd| Call::SetFlags {
                fd,
                nonblocking: arg & O_NONBLOCK != 0,
            }),
            other => {
                report(format_args!(
                    "fcntl(): no command {other}; there are F_GETFL, F_SETFL"
                ));
                Err(Errno::EINVAL)
            }
        };
        answer?.result
    }) as c_int
}

pub(super) unsafe extern "C" fn ioctl(
    u: *mut c_void,
    fd: c_int,
    request: c_ulong,
    arg: *mut c_int,
) -> c_int {
    on(u, |shared| {
        // packetdrill has the request as an `int`.
        let Some(name) = numbers::request_name(request & 0xffff_ffff) else {
            report(format_args!("ioctl(): request {request:#x} is not known"));
            return Err(Errno::EINVAL);
        };
        if arg.is_null() {
            return Err(Errno::EFAULT);
        }
        let value = match name {
            // SAFETY: the caller's promise: such a request comes with an `int`.
            "FIONBIO" => i64::from(unsafe { ptr::read_unaligned(arg) }),
            _ => 0,
        };
        let request = name.to_owned();
        let answer = shared.call_on(fd, |fd| Call::Ioctl { fd, request, value })?;
        if let Gave::Number(n) = answer.gave {
            let n = c_int::try_from(n).unwrap_or(c_int::MAX);
            // SAFETY: the caller's promise: such a request comes with room for an `int`.
            unsafe { ptr::write_unaligned(arg, n) };
        }
        answer.result
    }) as c_int
}

pub(super) unsafe extern "C" fn setsockopt(
    u: *mut c_void,
    fd: c_int,
    level: c_int,
    number: c_int,
    value: *const c_void,
    len: socklen_t,
) -> c_int {
    on(u, |shared| {
        let name = option_name(level, number)?;
        if value.is_null() {
            return Err(Errno::EFAULT);
        }
        let len = len as usize;
        // SAFETY: the caller's promise: not null, so as many bytes as it says.
        let bytes = unsafe { slice::from_raw_parts(value.cast::<u8>(), len) };
        let int = |at: usize| -> Result<c_int, Errno> {
            let bytes = bytes.get(at..at + 4).and_then(|b| b.try_into().ok());
            bytes.map(c_int::from_ne_bytes).ok_or(Errno::EINVAL)
        };
        let value = match name {
            "SO_LINGER" => {
                let seconds = int(4)?.max(0) as u64;
                OptionValue::Linger((int(0)? != 0).then_some(seconds))
            }
            "TCP_CONGESTION" => {
                let word = bytes.split(|b| *b == 0).next().unwrap_or_default();
                OptionValue::Word(String::from_utf8_lossy(word).into_owned())
            }
            "TCP_FASTOPEN_KEY" => OptionValue::Bytes(bytes.to_vec()),
            _ => OptionValue::Number(int(0)?.into()),
        };
        let name = name.to_owned();
        let answer = shared.call_on(fd, |fd| Call::SetOption { fd, name, value })?;
        answer.result
    }) as c_int
}

fn option_name(level: c_int, number: c_int) -> Result<&'static str, Errno> {
    numbers::option_name(level, number).ok_or_else(|| {
        report(format_args!(
            "no socket option {number} of level {level} is known"
        ));
        Errno::ENOPROTOOPT
    })
}

pub(super) unsafe extern "C" fn getsockopt(
    u: *mut c_void,
    fd: c_int,
    level: c_int,
    number: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> c_int {
    // SAFETY: the caller's promise.
    on(u, |shared| unsafe {
        get_option(shared, fd, level, number, value, len)
    }) as c_int
}

/// `getsockopt`.
///
/// # Errors
/// As said there.
///
/// # Safety
/// `len` is null or can be read and written; `value` is null or leads to as many bytes as it says,
/// which can be written.
pub(crate) unsafe fn get_option(
    shared: &Shared,
    fd: c_int,
    level: c_int,
    number: c_int,
    value: *mut c_void,
    len: *mut socklen_t,
) -> Result<i64, Errno> {
    if value.is_null() || len.is_null() {
        return Err(Errno::EFAULT);
    }
    // SAFETY: the caller's promise.
    let room = unsafe { ptr::read_unaligned(len) } as usize;
    let bytes = option_bytes(shared, fd, level, number, room)?;
    let n = bytes.len().min(room);
    // SAFETY: `n` is no more than either has; what was just made is not the caller's memory.
    unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), value.cast::<u8>(), n) };
    // SAFETY: the caller's promise.
    unsafe { ptr::write_unaligned(len, n as socklen_t) };
    Ok(0)
}

/// The value of an option, for a caller with `room` bytes for it.
fn option_bytes(
    shared: &Shared,
    fd: c_int,
    level: c_int,
    number: c_int,
    room: usize,
) -> Result<Vec<u8>, Errno> {
    match (level, number) {
        (libc::IPPROTO_TCP, libc::TCP_INFO) => {
            let mut bytes = shared.tcp_info(fd)?.to_vec();
            // packetdrill has a structure of its own, and wants it filled.
            bytes.resize(room.clamp(tcp_info::LEN, 512), 0);
            return Ok(bytes);
        }
        (libc::IPPROTO_TCP, TCP_CC_INFO) => {
            shared.is_v6(fd)?;
            return Ok(Vec::new());
        }
        (libc::SOL_SOCKET, SO_MEMINFO) => {
            shared.is_v6(fd)?;
            return Ok(vec![0; 9 * 4]);
        }
        _ => {}
    }
    let name = option_name(level, number)?.to_owned();
    let answer = shared.call_on(fd, |fd| Call::GetOption { fd, name })?;
    answer.result?;
    Ok(match answer.gave {
        Gave::Number(n) => {
            let n = c_int::try_from(n).unwrap_or(c_int::MAX);
            n.to_ne_bytes().to_vec()
        }
        Gave::Word(word) => {
            let mut bytes = word.into_bytes();
            bytes.resize(NAME_ROOM, 0);
            bytes
        }
        Gave::Linger(seconds) => {
            let value = linger {
                l_onoff: c_int::from(seconds.is_some()),
                l_linger: seconds.unwrap_or(0).try_into().unwrap_or(c_int::MAX),
            };
            [value.l_onoff, value.l_linger]
                .into_iter()
                .flat_map(c_int::to_ne_bytes)
                .collect()
        }
        _ => Vec::new(),
    })
}

pub(super) unsafe extern "C" fn poll(
    u: *mut c_void,
    polled: *mut pollfd,
    count: nfds_t,
    timeout: c_int,
) -> c_int {
    on(u, |shared| {
        if count > MAX_POLLED {
            return Err(Errno::EINVAL);
        }
        let polled: &mut [pollfd] = match (count, polled.is_null()) {
            (0, _) => &mut [],
            (_, true) => return Err(Errno::EFAULT),
            // SAFETY: the caller's promise: an array of `count`, which nobody else looks at during
            // the call; it is C's and so aligned.
            _ => unsafe { slice::from_raw_parts_mut(polled, count as usize) },
        };
        let wanted: Vec<_> = polled.iter().map(|p| (p.fd, p.events)).collect();
        let answer = shared.poll(&wanted, timeout.into())?;
        if let Gave::Events(events) = &answer.gave {
            for (p, events) in polled.iter_mut().zip(events) {
                p.revents = *events;
            }
        }
        answer.result
    }) as c_int
}
