//! TAP and TUN: a network interface of the kernel whose cable ends in this process.
//!
//! With [`TapConfig::offload`] frames carry a virtio header (`IFF_VNET_HDR`): checksums are left
//! to the other side, and super-frames of up to 64 KB cross in both directions, so that the cost
//! of a system call is shared by forty segments.
#![allow(unsafe_code)] // Each block says why it is sound.

use super::error::Use;
use super::queue::{FrameQueue, VNET_LEN};
use super::{Device, DeviceStats, InterfaceError, Refused, sys};
use crate::interface::{Capabilities, Medium, RxFrame, TxFrame};
use narrows_congestion::{Duration, Instant};
use std::ffi::CStr;
use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

const TUN_DEVICE: &CStr = c"/dev/net/tun";

/// How to open an interface.
#[derive(Clone, Debug)]
pub struct TapConfig {
    /// Ethernet frames (TAP) or IP packets (TUN).
    pub medium: Medium,
    /// Largest IP packet in bytes, which the interface is given too; `None`: as it is.
    pub mtu: Option<usize>,
    /// Exchange virtio headers: checksum and segmentation offload in both directions.
    pub offload: bool,
    /// Bring the interface up.
    pub up: bool,
    /// Frames the kernel keeps for us when we are slow (`txqueuelen`); `None`: as it is (1,000).
    pub queue: Option<u32>,
}

impl Default for TapConfig {
    fn default() -> Self {
        Self {
            medium: Medium::Ethernet,
            mtu: None,
            offload: true,
            up: true,
            queue: None,
        }
    }
}

/// A queue of a TAP or TUN interface.
///
/// The interface is made when it does not exist, in the network namespace of the calling thread,
/// and goes with its last queue unless it was made persistent by others.
pub struct Tap {
    name: String,
    queue: FrameQueue,
    heartbeat: Instant,
}

/// How often to look whether the interface is still there. Who waits is woken before it is gone, if
/// at all: epoll tells of an error, which is neither readable nor writable.
const HEARTBEAT: Duration = Duration::from_millis(100);

/// The `ifreq` of the kernel: a name, and what the request is about.
#[repr(C)]
pub(super) struct InterfaceRequest {
    name: [u8; libc::IFNAMSIZ],
    pub(super) value: RequestValue,
}

/// The union in it, of which all members begin at the same place.
#[repr(C)]
pub(super) union RequestValue {
    flags: libc::c_short,
    pub(super) number: libc::c_int,
    pub(super) pointer: *mut libc::c_void,
    /// As long as the longest member.
    pub(super) all: [u64; 3],
}

impl InterfaceRequest {
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let mut request = Self {
            name: [0; libc::IFNAMSIZ],
            value: RequestValue { all: [0; 3] },
        };
        let bytes = name.as_bytes();
        // With the zero at the end. `%d` in a name lets the kernel pick a number.
        if bytes.len() >= libc::IFNAMSIZ || bytes.contains(&0) || bytes.contains(&b'/') {
            let text = "an interface name has at most 15 bytes, and no slash";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        request.name[..bytes.len()].copy_from_slice(bytes);
        Ok(request)
    }

    fn name(&self) -> String {
        let end = self.name.iter().position(|&b| b == 0).unwrap_or(0);
        String::from_utf8_lossy(&self.name[..end]).into_owned()
    }
}

/// Ask the kernel something about the interface in `request`.
fn control(code: libc::c_ulong, request: &mut InterfaceRequest) -> io::Result<()> {
    let socket = sys::control_socket()?;
    // SAFETY: all codes used here are those of `ifreq`, which is no longer than the request (40
    // bytes), and every bit pattern is a valid request.
    unsafe { sys::ioctl(socket.as_fd(), code, request) }
}

impl Tap {
    /// Open one queue of the interface `name`; a `%d` in it is replaced by a number.
    ///
    /// # Errors
    /// What failed, and what could be done about it.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn open(name: &str, config: &TapConfig) -> Result<Self, InterfaceError> {
        Self::open_with(name, config, 0)
    }

    /// Open `queues` queues of the interface `name`. The kernel sends a flow's packets to the
    /// queue from which the flow's packets came to it, so that each queue can have a driver and an
    /// endpoint of its own. On TAP an answer to one queue's ARP request may come to another: give
    /// each interface its neighbours
    /// ([`fixed_neighbors`](crate::interface::InterfaceConfig::fixed_neighbors)), or use TUN.
    ///
    /// # Errors
    /// What failed, and what could be done about it.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn open_queues(
        name: &str,
        config: &TapConfig,
        queues: usize,
    ) -> Result<Vec<Self>, InterfaceError> {
        let mut all: Vec<Self> = Vec::with_capacity(queues);
        for _ in 0..queues {
            let name = all.first().map_or(name, |first| first.name()).to_owned();
            all.push(Self::open_with(&name, config, libc::IFF_MULTI_QUEUE)?);
        }
        Ok(all)
    }

    #[inline] // Called once, or by nobody here: compiled where it is.
    fn open_with(
        name: &str,
        config: &TapConfig,
        extra: libc::c_int,
    ) -> Result<Self, InterfaceError> {
        let failed = |doing| {
            move |source| InterfaceError {
                wanted: Use::Tap,
                doing,
                name: name.to_owned(),
                source,
            }
        };
        let fd = sys::open(TUN_DEVICE).map_err(failed("open /dev/net/tun for"))?;
        let mut request = InterfaceRequest::new(name).map_err(failed("open the interface"))?;
        let mut flags = libc::IFF_NO_PI | extra;
        flags |= match config.medium {
            Medium::Ethernet => libc::IFF_TAP,
            Medium::Ip => libc::IFF_TUN,
        };
        if config.offload {
            flags |= libc::IFF_VNET_HDR;
        }
        request.value.flags = flags as libc::c_short;
        // SAFETY: TUNSETIFF takes an `ifreq`, see `control`.
        unsafe { sys::ioctl(fd.as_fd(), libc::TUNSETIFF, &mut request) }
            .map_err(failed("open the interface"))?;
        if config.offload {
            let wanted =
                libc::TUN_F_CSUM | libc::TUN_F_TSO4 | libc::TUN_F_TSO6 | libc::TUN_F_TSO_ECN;
            // SAFETY: TUNSETOFFLOAD takes its argument by value.
            unsafe { sys::ioctl_value(fd.as_fd(), libc::TUNSETOFFLOAD, wanted.into()) }
                .map_err(failed("turn on offloads of"))?;
            let mut len = VNET_LEN as libc::c_int;
            // SAFETY: TUNSETVNETHDRSZ reads an int.
            unsafe { sys::ioctl(fd.as_fd(), libc::TUNSETVNETHDRSZ, &mut len) }
                .map_err(failed("set the header length of"))?;
        }
        let name = request.name();
        let mtu = configure(&name, config).map_err(|(doing, source)| InterfaceError {
            wanted: Use::Tap,
            doing,
            name: name.clone(),
            source,
        })?;
        let capabilities = if config.offload {
            Capabilities::offload(config.medium, mtu)
        } else {
            Capabilities::plain(config.medium, mtu)
        };
        Ok(Self {
            name,
            queue: FrameQueue::new(fd, capabilities),
            heartbeat: Instant::ZERO,
        })
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }
}

/// MTU, queue length and state; gives the MTU.
fn configure(name: &str, config: &TapConfig) -> Result<usize, (&'static str, io::Error)> {
    let new = || InterfaceRequest::new(name).map_err(|e| ("configure", e));
    if let Some(mtu) = config.mtu {
        let mut request = new()?;
        request.value.number = libc::c_int::try_from(mtu).unwrap_or(libc::c_int::MAX);
        control(libc::SIOCSIFMTU, &mut request).map_err(|e| ("set the MTU of", e))?;
    }
    if let Some(queue) = config.queue {
        let mut request = new()?;
        request.value.number = libc::c_int::try_from(queue).unwrap_or(libc::c_int::MAX);
        control(SIOCSIFTXQLEN, &mut request).map_err(|e| ("set the queue of", e))?;
    }
    if config.up {
        let mut request = new()?;
        control(libc::SIOCGIFFLAGS, &mut request).map_err(|e| ("ask for the flags of", e))?;
        // SAFETY: every member of the union is a plain number, and all its bytes are initialised.
        let flags = unsafe { request.value.flags };
        request.value.flags = flags | libc::IFF_UP as libc::c_short;
        control(libc::SIOCSIFFLAGS, &mut request).map_err(|e| ("bring up", e))?;
    }
    let mut request = new()?;
    control(libc::SIOCGIFMTU, &mut request).map_err(|e| ("ask for the MTU of", e))?;
    // SAFETY: every member of the union is a plain number, and all its bytes are initialised.
    let mtu = unsafe { request.value.number };
    Ok(usize::try_from(mtu).unwrap_or(0))
}

/// Not in `libc`.
const SIOCSIFTXQLEN: libc::c_ulong = 0x8943;

impl Device for Tap {
    fn capabilities(&self) -> Capabilities {
        self.queue.capabilities
    }
    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        self.heartbeat = now + HEARTBEAT;
        self.queue.receive(budget, sink)
    }
    fn transmit(&mut self, _: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        self.queue.transmit(frame)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        Some(self.heartbeat)
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.queue.fd.as_fd()
    }
    fn stats(&self) -> DeviceStats {
        self.queue.stats
    }
}

impl fmt::Debug for Tap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tap")
            .field("name", &self.name)
            .field("queue", &self.queue)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_that_is_none_is_refused() {
        for name in ["a-name-much-too-long", "a/b", "a\0b"] {
            let Err(e) = Tap::open(name, &TapConfig::default()) else {
                panic!("{name} was opened");
            };
            assert!(e.to_string().contains(name), "{e}");
        }
    }
}
