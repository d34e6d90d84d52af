//! A packet socket: the frames that an interface of the kernel sends and receives, with the kernel's
//! times, for a reader beside it. It sends nothing and takes nothing away.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::error::Use;
use super::{InterfaceError, sys};
use narrows_congestion::{Duration, Instant};
use std::fmt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

/// Frames read at once.
const BATCH: usize = 64;
/// What the kernel keeps for a reader that is slow, in bytes.
const BUFFER: libc::c_int = 64 << 20;
/// Of `linux/if_arp.h`: interfaces whose frames have no head before the IP header.
const ARPHRD_NONE: u16 = 0xfffe;
const ARPHRD_RAWIP: u16 = 519;
/// Every protocol, in the order of the network.
const ALL: u16 = (libc::ETH_P_ALL as u16).to_be();

/// What frames begin with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Head {
    /// Ethernet; tags of VLANs that the card has taken off are not there.
    Ethernet,
    /// An IP header.
    Ip,
}

/// A frame.
#[derive(Clone, Copy, Debug)]
pub struct Heard<'a> {
    /// When the kernel had it, since 1970.
    pub at: Instant,
    /// Its first bytes.
    pub bytes: &'a [u8],
    /// How long it is.
    pub original: usize,
}

/// Room for the messages that come with a frame, aligned as they are.
type Control = [u64; 16];

/// Room for a frame, and for what the kernel says of it.
struct Slot {
    bytes: Box<[u8]>,
    from: libc::sockaddr_ll,
    control: Control,
}

/// The frames of an interface.
pub struct PacketSocket {
    fd: OwnedFd,
    head: Head,
    loopback: bool,
    slots: Box<[Slot]>,
    frames: u64,
    drops: u64,
}

impl fmt::Debug for PacketSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("PacketSocket");
        f.field("head", &self.head).field("drops", &self.drops);
        f.finish_non_exhaustive()
    }
}

impl PacketSocket {
    /// Listens to the interface `name` of the calling thread's network namespace, and keeps `snap`
    /// bytes of each frame.
    ///
    /// # Errors
    /// If there is no such interface, it has frames of another kind, or the caller may not.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn open(name: &str, snap: usize) -> Result<Self, InterfaceError> {
        let failed = |doing, source| InterfaceError {
            wanted: Use::Hear,
            doing,
            name: name.to_owned(),
            source,
        };
        let fd = sys::packet_socket().map_err(|e| failed("open a packet socket for", e))?;
        let index = sys::interface_index(name).map_err(|e| failed("find the interface", e))?;
        let on: libc::c_int = 1;
        // Where the limit of the system does not hold for the caller; else as much as it allows.
        if sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER).is_err() {
            let _ = sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER);
        }
        sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)
            .map_err(|e| failed("ask for times of", e))?;
        let own = sys::bind_packets(&fd, index, ALL).map_err(|e| failed("listen to", e))?;
        let head = match own.sll_hatype {
            libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK => Head::Ethernet,
            ARPHRD_NONE | ARPHRD_RAWIP | libc::ARPHRD_PPP => Head::Ip,
            other => {
                let why = format!("its frames are of a kind that is not read (ARPHRD {other})");
                return Err(failed("listen to", io::Error::other(why)));
            }
        };
        let slots = (0..BATCH)
            .map(|_| Slot {
                bytes: vec![0; snap.clamp(64, 1 << 16)].into_boxed_slice(),
                // SAFETY: all zeros are a valid address.
                from: unsafe { MaybeUninit::zeroed().assume_init() },
                control: [0; 16],
            })
            .collect();
        Ok(Self {
            fd,
            head,
            loopback: own.sll_hatype == libc::ARPHRD_LOOPBACK,
            slots,
            frames: 0,
            drops: 0,
        })
    }

    /// What its frames begin with.
    pub const fn head(&self) -> Head {
        self.head
    }

    /// Waits up to `wait` for frames, and hands over those that are there, up to a batch; how many.
    ///
    /// # Errors
    /// If the interface is gone or down.
    pub fn poll(&mut self, wait: Duration, mut sink: impl FnMut(Heard<'_>)) -> io::Result<usize> {
        let readable = sys::Interest {
            fd: self.fd.as_fd(),
            writable: false,
        };
        if sys::wait([readable], Some(wait))? == [false] {
            return Ok(0);
        }
        // SAFETY: all zeros are valid pieces and heads: no pointers, no lengths.
        let mut parts: [libc::iovec; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        // SAFETY: as above.
        let mut heads: [libc::mmsghdr; BATCH] = unsafe { MaybeUninit::zeroed().assume_init() };
        for ((slot, part), head) in self.slots.iter_mut().zip(&mut parts).zip(&mut heads) {
            part.iov_base = slot.bytes.as_mut_ptr().cast();
            part.iov_len = slot.bytes.len();
            let head = &mut head.msg_hdr;
            head.msg_name = std::ptr::from_mut(&mut slot.from).cast();
            head.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            head.msg_iov = part;
            head.msg_iovlen = 1;
            head.msg_control = slot.control.as_mut_ptr().cast();
            head.msg_controllen = size_of::<Control>() as _;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each head points to a name and a control buffer in `slots` and to a piece in
        // `parts`, which points to bytes in `slots`: all of it is ours to write for the call, as long
        // as the lengths say, and not touched between there and here.
        let n = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                heads.as_mut_ptr(),
                BATCH as libc::c_uint,
                flags as _,
                std::ptr::null_mut(),
            )
        };
        let n = match usize::try_from(n) {
            Ok(n) => n,
            Err(_) => {
                let error = io::Error::last_os_error();
                return match error.kind() {
                    io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted => Ok(0),
                    _ => Err(error),
                };
            }
        };
        for (slot, head) in self.slots.iter().zip(&heads).take(n) {
            // On a loopback each frame comes by twice.
            if self.loopback && slot.from.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let original = head.msg_len as usize;
            #[allow(
                clippy::unnecessary_cast,
                reason = "of another type with other C libraries"
            )]
            let said = head.msg_hdr.msg_controllen as usize;
            let heard = Heard {
                at: Instant::from_nanos(stamp(&slot.control, said)),
                bytes: &slot.bytes[..original.min(slot.bytes.len())],
                original,
            };
            self.frames += 1;
            sink(heard);
        }
        Ok(n)
    }

    /// Frames that were handed over.
    pub const fn frames(&self) -> u64 {
        self.frames
    }

    /// Frames that the kernel has dropped because they were not read in time.
    ///
    /// # Errors
    /// If the kernel does not say.
    pub fn drops(&mut self) -> io::Result<u64> {
        // A `tpacket_stats`: frames and drops, of which the kernel begins anew each time that it is asked.
        let [_, drops]: [u32; 2] =
            sys::get(self.fd.as_fd(), libc::SOL_PACKET, libc::PACKET_STATISTICS)?;
        self.drops += u64::from(drops);
        Ok(self.drops)
    }
}

/// The kernel's time of a frame, in nanoseconds since 1970, in the first `len` bytes of `control`; 0
/// if it says none.
fn stamp(control: &Control, len: usize) -> u64 {
    // SAFETY: all zeros are a valid head: no pointers, no lengths.
    let mut head: libc::msghdr = unsafe { MaybeUninit::zeroed().assume_init() };
    head.msg_control = control.as_ptr().cast_mut().cast();
    head.msg_controllen = len.min(size_of::<Control>()) as _;
    // SAFETY: the head has a control buffer of that length, which is only read.
    let mut next = unsafe { libc::CMSG_FIRSTHDR(&head) };
    while !next.is_null() {
        // SAFETY: a message that is not null lies within the buffer, as the macros see to.
        let message = unsafe { *next };
        if message.cmsg_level == libc::SOL_SOCKET && message.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: the data of this message is a `timespec`, maybe unaligned.
            let time = unsafe {
                libc::CMSG_DATA(next)
                    .cast::<libc::timespec>()
                    .read_unaligned()
            };
            let (seconds, nanos) = (time.tv_sec as u64, time.tv_nsec as u64);
            return seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        }
        // SAFETY: both are of this buffer.
        next = unsafe { libc::CMSG_NXTHDR(&head, next) };
    }
    0
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two messages as the kernel lays them out: one of another kind, then the time.
    fn messages() -> (Control, usize) {
        let header = size_of::<libc::cmsghdr>() as u64;
        let kinds = |level: libc::c_int, kind: libc::c_int| {
            u64::from(level as u32) | u64::from(kind as u32) << 32
        };
        let mut control = [0; 16];
        control[..3].copy_from_slice(&[header + 8, kinds(libc::SOL_PACKET, 8), 7]);
        let time = kinds(libc::SOL_SOCKET, libc::SCM_TIMESTAMPNS);
        control[3..7].copy_from_slice(&[header + 16, time, 3, 5]);
        (control, 7 * 8)
    }

    #[test]
    #[cfg(all(target_pointer_width = "64", target_endian = "little"))]
    fn the_time_is_found_among_messages() {
        let (control, len) = messages();
        assert_eq!(stamp(&control, len), 3_000_000_005);
    }

    #[test]
    #[cfg(all(target_pointer_width = "64", target_endian = "little"))]
    fn without_its_message_there_is_no_time() {
        let (control, _) = messages();
        assert_eq!(stamp(&control, 3 * 8), 0);
        assert_eq!(stamp(&control, 0), 0);
        assert_eq!(stamp(&[0; 16], 16 * 8), 0);
    }
}
