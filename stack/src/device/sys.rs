//! The system calls that devices and drivers need, each with a safe face.
#![allow(unsafe_code)] // Each block says why it is sound.

use narrows_congestion::{Duration, Instant};
use std::ffi::CString;
use std::io::{self, IoSlice};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd, RawFd};

/// The result of a system call that gives -1 on failure.
fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

fn check_len(result: libc::ssize_t) -> io::Result<usize> {
    usize::try_from(result).map_err(|_| io::Error::last_os_error())
}

/// # Safety
/// `fd` is open and owned by nobody else.
unsafe fn own(fd: RawFd) -> OwnedFd {
    // SAFETY: promised by the caller.
    unsafe { OwnedFd::from_raw_fd(fd) }
}

/// Read one frame or message.
pub(crate) fn read(fd: BorrowedFd<'_>, buf: &mut [u8]) -> io::Result<usize> {
    // SAFETY: the pointer and length are those of a slice that is ours to write for the call.
    check_len(unsafe { libc::read(fd.as_raw_fd(), buf.as_mut_ptr().cast(), buf.len()) })
}

/// Write one frame from several pieces.
pub(crate) fn writev(fd: BorrowedFd<'_>, pieces: &[IoSlice<'_>]) -> io::Result<usize> {
    let count = libc::c_int::try_from(pieces.len()).unwrap_or(libc::c_int::MAX);
    // SAFETY: `IoSlice` has the layout of `iovec` on Unix by its documentation, each describes
    // memory that is borrowed for the call, and `count` is no more than there are.
    check_len(unsafe { libc::writev(fd.as_raw_fd(), pieces.as_ptr().cast(), count) })
}

/// A control call with a pointer to `arg`.
///
/// # Safety
/// `request` must be one for which the kernel reads or writes no more than a `T`, and leaves a
/// valid `T` there.
pub(crate) unsafe fn ioctl<T>(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    arg: &mut T,
) -> io::Result<()> {
    // SAFETY: the pointer is to a `T` that is ours to write; the rest is promised by the caller.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, std::ptr::from_mut(arg)) }).map(drop)
}

/// A control call with a number.
///
/// # Safety
/// `request` must be one that takes its argument by value.
pub(crate) unsafe fn ioctl_value(
    fd: BorrowedFd<'_>,
    request: libc::c_ulong,
    arg: libc::c_ulong,
) -> io::Result<()> {
    // SAFETY: no memory is handed over; the rest is promised by the caller.
    check(unsafe { libc::ioctl(fd.as_raw_fd(), request as _, arg) }).map(drop)
}

/// Open a device file to read and write, non-blocking.
pub(crate) fn open(path: &std::ffi::CStr) -> io::Result<OwnedFd> {
    let flags = libc::O_RDWR | libc::O_NONBLOCK | libc::O_CLOEXEC;
    // SAFETY: the path is a C string; nothing else is handed over.
    let fd = check(unsafe { libc::open(path.as_ptr(), flags) })?;
    // SAFETY: just opened.
    Ok(unsafe { own(fd) })
}

/// A datagram socket, for control calls about interfaces.
pub(crate) fn control_socket() -> io::Result<OwnedFd> {
    // SAFETY: no memory is handed over.
    let fd =
        check(unsafe { libc::socket(libc::AF_INET, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0) })?;
    // SAFETY: just opened.
    Ok(unsafe { own(fd) })
}

/// Both ends of a socket that keeps packets apart, non-blocking, each taking about `room` bytes.
pub(crate) fn packet_pair(room: usize) -> io::Result<(OwnedFd, OwnedFd)> {
    let kind = libc::SOCK_SEQPACKET | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    let mut fds = [-1; 2];
    // SAFETY: the pointer is to two ints that are ours to write.
    check(unsafe { libc::socketpair(libc::AF_UNIX, kind, 0, fds.as_mut_ptr()) })?;
    // SAFETY: just opened.
    let pair = unsafe { (own(fds[0]), own(fds[1])) };
    let room = libc::c_int::try_from(room).unwrap_or(libc::c_int::MAX);
    set(pair.0.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &room)?;
    set(pair.1.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &room)?;
    Ok(pair)
}

/// A counter that makes its reader wake up.
#[derive(Debug)]
pub(crate) struct EventFd(OwnedFd);

impl EventFd {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::EFD_NONBLOCK | libc::EFD_CLOEXEC;
        // SAFETY: no memory is handed over.
        let fd = check(unsafe { libc::eventfd(0, flags) })?;
        // SAFETY: just opened.
        Ok(Self(unsafe { own(fd) }))
    }

    /// Readable from now on.
    pub(crate) fn set(&self) {
        // It fails only when the counter is full, and then it is readable.
        let _ = writev(self.0.as_fd(), &[IoSlice::new(&1_u64.to_ne_bytes())]);
    }

    /// Not readable from now on.
    pub(crate) fn clear(&self) {
        // It fails only when it is not readable.
        let _ = read(self.0.as_fd(), &mut [0; 8]);
    }
}

impl AsFd for EventFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
impl AsRawFd for EventFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

fn timespec(nanos: u64) -> libc::timespec {
    libc::timespec {
        tv_sec: (nanos / 1_000_000_000) as libc::time_t,
        tv_nsec: (nanos % 1_000_000_000) as _,
    }
}

fn clock(id: libc::clockid_t) -> u64 {
    let mut now = timespec(0);
    // SAFETY: the pointer is to a timespec that is ours to write. Both clocks used exist, so the
    // call does not fail; if it did, the time would be 0.
    unsafe { libc::clock_gettime(id, &mut now) };
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// CLOCK_MONOTONIC.
#[inline]
pub(crate) fn monotonic() -> Instant {
    Instant::from_nanos(clock(libc::CLOCK_MONOTONIC))
}

/// Nanoseconds since 1970.
pub(crate) fn realtime_nanos() -> u64 {
    clock(libc::CLOCK_REALTIME)
}

/// Sixteen bytes that nobody can guess.
pub(crate) fn random() -> io::Result<[u8; 16]> {
    let mut bytes = [0; 16];
    // SAFETY: the pointer and length are those of an array that is ours to write.
    let n = check_len(unsafe { libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0) })?;
    if n < bytes.len() {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    Ok(bytes)
}

/// A timer on CLOCK_MONOTONIC with a file descriptor.
#[cfg(feature = "tokio")]
#[derive(Debug)]
pub(crate) struct TimerFd(OwnedFd);

#[cfg(feature = "tokio")]
impl TimerFd {
    pub(crate) fn new() -> io::Result<Self> {
        let flags = libc::TFD_NONBLOCK | libc::TFD_CLOEXEC;
        // SAFETY: no memory is handed over.
        let fd = check(unsafe { libc::timerfd_create(libc::CLOCK_MONOTONIC, flags) })?;
        // SAFETY: just opened.
        Ok(Self(unsafe { own(fd) }))
    }

    /// Readable at `at`, a time of [`monotonic`]; `None`: never.
    pub(crate) fn set(&self, at: Option<Instant>) -> io::Result<()> {
        let value = timespec(at.map_or(0, |at| at.as_nanos().max(1)));
        let setting = libc::itimerspec {
            it_interval: timespec(0),
            it_value: value,
        };
        let absolute = libc::TFD_TIMER_ABSTIME;
        // SAFETY: the pointer is to a value that lives through the call; the old one is not asked
        // for.
        check(unsafe {
            libc::timerfd_settime(self.0.as_raw_fd(), absolute, &setting, std::ptr::null_mut())
        })
        .map(drop)
    }

    /// Not readable until it is set again.
    pub(crate) fn clear(&self) {
        // It fails only when it is not readable.
        let _ = read(self.0.as_fd(), &mut [0; 8]);
    }
}

#[cfg(feature = "tokio")]
impl AsFd for TimerFd {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }
}
#[cfg(feature = "tokio")]
impl AsRawFd for TimerFd {
    fn as_raw_fd(&self) -> RawFd {
        self.0.as_raw_fd()
    }
}

/// What is waited for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Interest<'a> {
    pub(crate) fd: BorrowedFd<'a>,
    pub(crate) writable: bool,
}

/// Wait until one of `what` is readable (or writable, where that is asked for), or for `limit`;
/// which of them are.
pub(crate) fn wait<const N: usize>(
    what: [Interest<'_>; N],
    limit: Option<Duration>,
) -> io::Result<[bool; N]> {
    let mut fds = what.map(|i| libc::pollfd {
        fd: i.fd.as_raw_fd(),
        events: libc::POLLIN | if i.writable { libc::POLLOUT } else { 0 },
        revents: 0,
    });
    let limit = limit.map(|d| timespec(d.as_nanos()));
    let limit = limit.as_ref().map_or(std::ptr::null(), std::ptr::from_ref);
    // SAFETY: the pointer and length are those of an array that is ours to write; the limit is
    // null or lives through the call; no signal mask is given.
    let n = unsafe { libc::ppoll(fds.as_mut_ptr(), N as _, limit, std::ptr::null()) };
    match check(n) {
        Ok(_) => Ok(fds.map(|f| f.revents != 0)),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok([false; N]),
        Err(e) => Err(e),
    }
}

/// Whether `fd` is writable now.
pub(crate) fn is_writable(fd: BorrowedFd<'_>) -> io::Result<bool> {
    let mut fds = [libc::pollfd {
        fd: fd.as_raw_fd(),
        events: libc::POLLOUT,
        revents: 0,
    }];
    // SAFETY: the pointer and length are those of an array that is ours to write.
    match check(unsafe { libc::poll(fds.as_mut_ptr(), 1, 0) }) {
        Ok(_) => Ok(fds[0].revents & libc::POLLOUT != 0),
        Err(e) if e.kind() == io::ErrorKind::Interrupted => Ok(false),
        Err(e) => Err(e),
    }
}

/// Let sleeps of this thread end when they should, not up to 50 us later.
pub(crate) fn exact_sleeps() {
    // SAFETY: the option takes its argument by value and concerns this thread only.
    unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, 1 as libc::c_ulong) };
}

/// Schedule this thread, and those that it makes, in real time: in turn with others of this
/// priority (SCHED_RR), before all that have none.
pub(crate) fn real_time(priority: u8) -> io::Result<()> {
    let param = libc::sched_param {
        sched_priority: priority.into(),
    };
    // SAFETY: the structure lives through the call, which only reads it; 0 is this thread.
    check(unsafe { libc::sched_setscheduler(0, libc::SCHED_RR, &raw const param) }).map(drop)
}

/// Bytes of memory that the machine has.
pub(crate) fn physical_memory() -> Option<u64> {
    // SAFETY: the calls take a number and give one.
    let (pages, size) = unsafe {
        (
            libc::sysconf(libc::_SC_PHYS_PAGES),
            libc::sysconf(libc::_SC_PAGESIZE),
        )
    };
    let (pages, size) = (u64::try_from(pages).ok()?, u64::try_from(size).ok()?);
    pages.checked_mul(size)
}

/// Let blocks of 64 KiB and more go back to the system when they are freed. The allocator of the
/// GNU C library keeps what is of a size that was freed before, up to 32 MiB, and with it whatever
/// lies below.
pub(crate) fn return_large_blocks() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes numbers and changes how much is kept, not what is allocated.
    unsafe {
        libc::mallopt(libc::M_MMAP_THRESHOLD, 64 << 10);
    }
}

/// Give what is free back to the system.
pub(crate) fn return_free_memory() {
    #[cfg(target_env = "gnu")]
    // SAFETY: the call takes a number; what is allocated stays where it is.
    unsafe {
        libc::malloc_trim(0);
    }
}

/// Keep this thread on one core.
pub(crate) fn pin_to(core: usize) -> io::Result<()> {
    if core >= libc::CPU_SETSIZE as usize {
        return Err(io::Error::new(
            io::ErrorKind::InvalidInput,
            format!("core {core}: there are at most {}", libc::CPU_SETSIZE),
        ));
    }
    let mut set = MaybeUninit::<libc::cpu_set_t>::zeroed();
    // SAFETY: a `cpu_set_t` is an array of words for which zeros are valid; `CPU_SET` writes the
    // bit of a core below `CPU_SETSIZE`; the call reads the set during the call only, and 0 is
    // this thread.
    check(unsafe {
        libc::CPU_SET(core, set.assume_init_mut());
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), set.as_ptr())
    })
    .map(drop)
}

/// A socket for all frames of an interface, which hears nothing before it is bound to one.
pub(crate) fn packet_socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_NONBLOCK | libc::SOCK_CLOEXEC;
    // SAFETY: no memory is handed over.
    let fd = check(unsafe { libc::socket(libc::AF_PACKET, kind, 0) })?;
    // SAFETY: just opened.
    Ok(unsafe { own(fd) })
}

/// Set an option.
pub(crate) fn set<T: Copy>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
    value: &T,
) -> io::Result<()> {
    // SAFETY: the pointer and length are those of a value that lives through the call, which only
    // reads it. (For XDP_UMEM_REG the kernel keeps the range that is in it: `xdp::umem` outlives the
    // socket, and is accessed by the rules there.)
    check(unsafe {
        libc::setsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_ref(value).cast(),
            size_of::<T>() as libc::socklen_t,
        )
    })
    .map(drop)
}

/// What the kernel may write any bytes into.
///
/// # Safety
/// Every bit pattern is a value of the type.
pub(crate) unsafe trait Plain: Copy {
    /// A value to be overwritten.
    const ZERO: Self;
}
// SAFETY: a number.
unsafe impl Plain for libc::c_int {
    const ZERO: Self = 0;
}
// SAFETY: an array of such values.
unsafe impl<T: Plain, const N: usize> Plain for [T; N] {
    const ZERO: Self = [T::ZERO; N];
}
// SAFETY: a number.
unsafe impl Plain for u32 {
    const ZERO: Self = 0;
}
// SAFETY: a number.
unsafe impl Plain for u64 {
    const ZERO: Self = 0;
}

/// Ask for an option, of which the kernel must know all there is in a `T`.
pub(crate) fn get<T: Plain>(
    fd: BorrowedFd<'_>,
    level: libc::c_int,
    option: libc::c_int,
) -> io::Result<T> {
    let mut value = T::ZERO;
    let mut len = size_of::<T>() as libc::socklen_t;
    // SAFETY: the pointer and length are those of a value that is ours to write, and whatever is
    // written is a `T`.
    check(unsafe {
        libc::getsockopt(
            fd.as_raw_fd(),
            level,
            option,
            std::ptr::from_mut(&mut value).cast(),
            &mut len,
        )
    })?;
    if (len as usize) < size_of::<T>() {
        return Err(io::ErrorKind::Unsupported.into());
    }
    Ok(value)
}

/// The number of the interface `name` in this thread's network namespace.
pub(crate) fn interface_index(name: &str) -> io::Result<u32> {
    let name = CString::new(name).map_err(|_| io::ErrorKind::InvalidInput)?;
    // SAFETY: the name is a C string.
    match unsafe { libc::if_nametoindex(name.as_ptr()) } {
        0 => Err(io::Error::last_os_error()),
        index => Ok(index),
    }
}

/// Bind a packet socket to an interface; its address then, which says of what kind the interface is.
pub(crate) fn bind_packets(
    fd: &OwnedFd,
    index: libc::c_uint,
    protocol: u16,
) -> io::Result<libc::sockaddr_ll> {
    // SAFETY: all zeros are a valid address.
    let mut own: libc::sockaddr_ll = unsafe { MaybeUninit::zeroed().assume_init() };
    own.sll_family = libc::AF_PACKET as u16;
    own.sll_protocol = protocol;
    own.sll_ifindex = libc::c_int::try_from(index).map_err(io::Error::other)?;
    let mut len = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
    let fd = fd.as_raw_fd();
    // SAFETY: the pointer and length are those of an address, which the call only reads.
    check(unsafe { libc::bind(fd, std::ptr::from_ref(&own).cast(), len) })?;
    // SAFETY: the pointer is to an address that is ours to write, and `len` is how long it is.
    check(unsafe { libc::getsockname(fd, std::ptr::from_mut(&mut own).cast(), &mut len) })?;
    Ok(own)
}
