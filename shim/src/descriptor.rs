//! Descriptors of the operating system that stand for our sockets.
//!
//! packetdrill closes what is left open through libc, so what we hand out must be real. Each is a
//! memory file of its own, whose inode tells whether the descriptor is still the one we gave: one
//! that was closed behind our back, and perhaps given away again by the kernel, is not.

use libc::c_int;
use narrows_script::sockets::{Errno, Fd};
use std::mem::MaybeUninit;

/// What stands behind a descriptor of the caller's.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Descriptor {
    /// The socket's number inside.
    pub(crate) socket: Fd,
    /// It was opened for IPv6: addresses are told in that family.
    pub(crate) v6: bool,
    /// Device and inode of the memory file.
    file: (u64, u64),
}

impl Descriptor {
    /// A new descriptor for `socket`, and its number.
    ///
    /// # Errors
    /// `EMFILE` when there is none to be had.
    pub(crate) fn open(socket: Fd, v6: bool) -> Result<(c_int, Self), Errno> {
        // SAFETY: the name is a C string, and no other memory is involved.
        let fd = unsafe { libc::memfd_create(c"narrows socket".as_ptr(), libc::MFD_CLOEXEC) };
        match identity(fd) {
            Some(file) => Ok((fd, Self { socket, v6, file })),
            None => Err(Errno::EMFILE),
        }
    }

    /// Whether `fd` still is this one.
    pub(crate) fn is_behind(&self, fd: c_int) -> bool {
        identity(fd) == Some(self.file)
    }

    /// Close `fd`, if it still is this one.
    pub(crate) fn close(&self, fd: c_int) {
        if self.is_behind(fd) {
            // SAFETY: nothing here owns the descriptor in Rust's sense; the caller was given it by
            // us and gives it back.
            unsafe { libc::close(fd) };
        }
    }
}

fn identity(fd: c_int) -> Option<(u64, u64)> {
    let mut stat = MaybeUninit::<libc::stat>::uninit();
    // SAFETY: fstat takes any number for a descriptor, and writes to `stat`, which has room.
    if unsafe { libc::fstat(fd, stat.as_mut_ptr()) } != 0 {
        return None;
    }
    // SAFETY: fstat returned 0, so it has filled the structure in.
    let stat = unsafe { stat.assume_init() };
    Some((stat.st_dev, stat.st_ino))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_descriptor_closed_by_others_is_no_longer_ours() {
        let (fd, ours) = Descriptor::open(3, false).unwrap();
        assert!(ours.is_behind(fd));
        let (other, theirs) = Descriptor::open(4, true).unwrap();
        assert!(!ours.is_behind(other) && !ours.is_behind(-1));
        ours.close(other);
        assert!(theirs.is_behind(other), "only one's own is closed");
        ours.close(fd);
        assert!(!ours.is_behind(fd));
        theirs.close(other);
    }
}
