//! A packet socket: the frames that an interface of the kernel sends and receives, with the kernel's
//! times, for a reader beside it. It sends nothing and takes nothing away.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::sys;
use narrows_congestion::{Duration, Instant};
use std::fmt;
use std::io;
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsRawFd, OwnedFd};

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

/// Why an interface cannot be listened to.
#[derive(Debug)]
pub struct ListenError {
    doing: &'static str,
    name: String,
    /// What the system said.
    pub source: io::Error,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            doing,
            name,
            source,
        } = self;
        write!(f, "{doing} {name}: {source}")?;
        match source.raw_os_error() {
            Some(libc::EPERM | libc::EACCES) => {
                f.write_str(" (it takes root, or CAP_NET_RAW in the network namespace)")
            }
            Some(libc::ENODEV) => f.write_str(" (`ip link` lists the interfaces)"),
            Some(libc::ENETDOWN) => f.write_str(" (it is down: `ip link set ... up`)"),
            _ => Ok(()),
        }
    }
}

impl std::error::Error for ListenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&self.source)
    }
}

/// A place for a frame, and for what the kernel says of it.
struct Slot {
    bytes: Box<[u8]>,
    from: libc::sockaddr_ll,
    control: [u64; 16],
    part: libc::iovec,
}

/// The frames of an interface.
pub struct Listener {
    fd: OwnedFd,
    head: Head,
    loopback: bool,
    slots: Box<[Slot]>,
    heads: Box<[libc::mmsghdr]>,
    frames: u64,
    drops: u64,
}

// SAFETY: the pointers in `heads` and `slots` are to heap memory that the listener owns and that
// does not move with it; nothing else has them.
unsafe impl Send for Listener {}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut f = f.debug_struct("Listener");
        f.field("head", &self.head).field("drops", &self.drops);
        f.finish_non_exhaustive()
    }
}

impl Listener {
    /// Listens to the interface `name` of the calling thread's network namespace, and keeps `snap`
    /// bytes of each frame.
    ///
    /// # Errors
    /// If there is no such interface, it has frames of another kind, or the caller may not.
    pub fn open(name: &str, snap: usize) -> Result<Self, ListenError> {
        let failed = |doing, source| ListenError {
            doing,
            name: name.to_owned(),
            source,
        };
        let fd = sys::packet_socket().map_err(|e| failed("open a packet socket for", e))?;
        let index = std::ffi::CString::new(name)
            .map_err(io::Error::other)
            // SAFETY: the name is a C string, which the call only reads.
            .map(|name| unsafe { libc::if_nametoindex(name.as_ptr()) })
            .and_then(|index| match index {
                0 => Err(io::Error::from_raw_os_error(libc::ENODEV)),
                index => Ok(index),
            })
            .map_err(|e| failed("find the interface", e))?;
        let on: libc::c_int = 1;
        // Where the limit of the system does not hold for the caller; else as much as it allows.
        if sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUFFORCE, &BUFFER).is_err() {
            let _ = sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_RCVBUF, &BUFFER);
        }
        sys::set_option(&fd, libc::SOL_SOCKET, libc::SO_TIMESTAMPNS, &on)
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
        let mut slots: Box<[Slot]> = (0..BATCH)
            .map(|_| Slot {
                bytes: vec![0; snap.clamp(64, 1 << 16)].into_boxed_slice(),
                // SAFETY: all zeros are a valid address.
                from: unsafe { MaybeUninit::zeroed().assume_init() },
                control: [0; 16],
                part: libc::iovec {
                    iov_base: std::ptr::null_mut(),
                    iov_len: 0,
                },
            })
            .collect();
        let heads = slots
            .iter_mut()
            .map(|slot| {
                slot.part = libc::iovec {
                    iov_base: slot.bytes.as_mut_ptr().cast(),
                    iov_len: slot.bytes.len(),
                };
                // SAFETY: all zeros are a valid head: no pointers, no lengths.
                let mut head: libc::mmsghdr = unsafe { MaybeUninit::zeroed().assume_init() };
                head.msg_hdr.msg_name = std::ptr::from_mut(&mut slot.from).cast();
                head.msg_hdr.msg_iov = std::ptr::from_mut(&mut slot.part);
                head.msg_hdr.msg_iovlen = 1;
                head.msg_hdr.msg_control = slot.control.as_mut_ptr().cast();
                head
            })
            .collect();
        Ok(Self {
            fd,
            head,
            loopback: own.sll_hatype == libc::ARPHRD_LOOPBACK,
            slots,
            heads,
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
        if !sys::is_readable(&self.fd, wait)? {
            return Ok(0);
        }
        for head in &mut self.heads {
            head.msg_hdr.msg_namelen = size_of::<libc::sockaddr_ll>() as libc::socklen_t;
            head.msg_hdr.msg_controllen = size_of::<[u64; 16]>() as _;
            head.msg_hdr.msg_flags = 0;
        }
        let flags = libc::MSG_DONTWAIT | libc::MSG_TRUNC;
        // SAFETY: each head points to a name, one piece and a control buffer in `slots`, which are
        // ours to write for the call and as long as their lengths say.
        let n = unsafe {
            libc::recvmmsg(
                self.fd.as_raw_fd(),
                self.heads.as_mut_ptr(),
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
        for (slot, head) in self.slots.iter().zip(&self.heads).take(n) {
            // On a loopback each frame comes by twice.
            if self.loopback && slot.from.sll_pkttype == libc::PACKET_OUTGOING {
                continue;
            }
            let original = head.msg_len as usize;
            let heard = Heard {
                at: Instant::from_nanos(stamp(&head.msg_hdr)),
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
        // The kernel begins anew each time that it is asked.
        let [_, drops] = sys::packet_statistics(&self.fd)?;
        self.drops += u64::from(drops);
        Ok(self.drops)
    }
}

/// The kernel's time of a frame, in nanoseconds since 1970; 0 if it says none.
fn stamp(head: &libc::msghdr) -> u64 {
    // SAFETY: the kernel has filled the control buffer, and its length is how far.
    let mut message = unsafe { libc::CMSG_FIRSTHDR(head) };
    // SAFETY: a message is null or within the buffer, as the macros see to.
    while let Some(one) = unsafe { message.as_ref() } {
        if one.cmsg_level == libc::SOL_SOCKET && one.cmsg_type == libc::SCM_TIMESTAMPNS {
            // SAFETY: the data of this message is a `timespec`, maybe unaligned.
            let time = unsafe {
                libc::CMSG_DATA(one)
                    .cast::<libc::timespec>()
                    .read_unaligned()
            };
            let (seconds, nanos) = (time.tv_sec as u64, time.tv_nsec as u64);
            return seconds.saturating_mul(1_000_000_000).saturating_add(nanos);
        }
        // SAFETY: both are of this buffer.
        message = unsafe { libc::CMSG_NXTHDR(head, one) };
    }
    0
}
