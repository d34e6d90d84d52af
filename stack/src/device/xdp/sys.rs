//! The system calls of AF_XDP, each with a safe face.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::super::sys::Plain;
use std::io;
use std::os::fd::{AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::ptr::NonNull;

/// Not in `libc` for every C library.
pub(super) const AF_XDP: libc::c_int = 44;
/// Not in `libc`: frames that one transmit call takes in copy mode (Linux 6.17).
pub(super) const XDP_MAX_TX_SKB_BUDGET: libc::c_int = 9;

/// Memory of its own pages, unmapped when dropped.
#[derive(Debug)]
pub(super) struct Mapping {
    start: NonNull<u8>,
    len: usize,
}

// SAFETY: a mapping belongs to the process, not to a thread, and this value owns it alone.
unsafe impl Send for Mapping {}

impl Mapping {
    /// Zeroed memory.
    pub(super) fn anonymous(len: usize) -> io::Result<Self> {
        // Miri takes no other flags than the first two.
        let populate = if cfg!(miri) { 0 } else { libc::MAP_POPULATE };
        let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | populate;
        Self::map(len, flags, -1, 0)
    }

    /// What the socket shows at `offset`.
    pub(super) fn of_socket(fd: BorrowedFd<'_>, len: usize, offset: u64) -> io::Result<Self> {
        let flags = libc::MAP_SHARED | libc::MAP_POPULATE;
        Self::map(len, flags, fd.as_raw_fd(), offset)
    }

    fn map(len: usize, flags: libc::c_int, fd: libc::c_int, offset: u64) -> io::Result<Self> {
        let protection = libc::PROT_READ | libc::PROT_WRITE;
        // SAFETY: without MAP_FIXED the kernel picks addresses that nothing else uses.
        let start = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                len,
                protection,
                flags,
                fd,
                offset as libc::off_t,
            )
        };
        if start == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let start = NonNull::new(start.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { start, len })
    }

    pub(super) fn start(&self) -> NonNull<u8> {
        self.start
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is that of `map`, this value owns it, and pointers into it are kept
        // only beside it in the same struct.
        unsafe { libc::munmap(self.start.as_ptr().cast(), self.len) };
    }
}

fn check(result: libc::c_int) -> io::Result<libc::c_int> {
    if result < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(result)
}

/// A socket that is bound to nothing.
pub(super) fn socket() -> io::Result<OwnedFd> {
    let kind = libc::SOCK_RAW | libc::SOCK_CLOEXEC | libc::SOCK_NONBLOCK;
    // SAFETY: no memory is handed over.
    let fd = check(unsafe { libc::socket(AF_XDP, kind, 0) })?;
    // SAFETY: just opened, and owned by nobody else.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

// SAFETY: a struct of numbers.
unsafe impl Plain for libc::xdp_options {
    const ZERO: Self = Self { flags: 0 };
}
const NO_OFFSETS: libc::xdp_ring_offset = libc::xdp_ring_offset {
    producer: 0,
    consumer: 0,
    desc: 0,
    flags: 0,
};
// SAFETY: a struct of numbers.
unsafe impl Plain for libc::xdp_mmap_offsets {
    const ZERO: Self = Self {
        rx: NO_OFFSETS,
        tx: NO_OFFSETS,
        fr: NO_OFFSETS,
        cr: NO_OFFSETS,
    };
}
// SAFETY: a struct of numbers.
unsafe impl Plain for libc::xdp_statistics {
    const ZERO: Self = Self {
        rx_dropped: 0,
        rx_invalid_descs: 0,
        tx_invalid_descs: 0,
        rx_ring_full: 0,
        rx_fill_ring_empty_descs: 0,
        tx_ring_empty_descs: 0,
    };
}

pub(super) fn bind(fd: BorrowedFd<'_>, address: &libc::sockaddr_xdp) -> io::Result<()> {
    let len = size_of::<libc::sockaddr_xdp>() as libc::socklen_t;
    // SAFETY: the pointer and length are those of a value that lives through the call.
    check(unsafe { libc::bind(fd.as_raw_fd(), std::ptr::from_ref(address).cast(), len) }).map(drop)
}

/// Make the kernel look at the transmit ring.
pub(super) fn wake_tx(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT;
    // SAFETY: there is no data and no address: the null pointers come with lengths of 0.
    let sent = unsafe {
        libc::sendto(
            fd.as_raw_fd(),
            std::ptr::null(),
            0,
            flags,
            std::ptr::null(),
            0,
        )
    };
    check(sent as libc::c_int).map(drop)
}

/// Make the kernel look at the fill ring.
pub(super) fn wake_rx(fd: BorrowedFd<'_>) -> io::Result<()> {
    let flags = libc::MSG_DONTWAIT;
    let none = std::ptr::null_mut();
    // SAFETY: there is no buffer (null, of length 0), and no address is asked for.
    let got = unsafe {
        libc::recvfrom(
            fd.as_raw_fd(),
            none,
            0,
            flags,
            none.cast(),
            std::ptr::null_mut(),
        )
    };
    check(got as libc::c_int).map(drop)
}
