//! An AF_XDP socket: its memory and its four rings.

use super::super::sys as device_sys;
use super::ring::{Consumer, Descriptor, Entry, Layout, Producer};
use super::sys::{self, Mapping};
use super::umem::Umem;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// Sizes of the parts.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sizes {
    /// Bytes of a frame, a power of two.
    pub(super) frame: u32,
    /// Frames of the receive ring, a power of two.
    pub(super) receive: u32,
    /// Frames of the transmit ring, a power of two.
    pub(super) transmit: u32,
}

/// How the kernel's side of the socket exchanges frames with the driver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyMode {
    /// Zero-copy if the driver offers it, else by copying.
    #[default]
    Auto,
    /// By copying.
    Copy,
    /// The driver works in our memory; refused where it cannot (veth cannot).
    ZeroCopy,
}

/// Memory that a small frame takes in the kernel, about. The limit of what may be under way is
/// set by it, so that the transmit ring fills before the frames run out: only then does the kernel
/// tell when there is room.
const KERNEL_FRAME: u32 = 768;

/// The rings go before the socket: it stays bound while they are mapped.
#[derive(Debug)]
pub(super) struct Socket {
    pub(super) rx: Consumer<Descriptor>,
    pub(super) tx: Producer<Descriptor>,
    pub(super) fill: Producer<u64>,
    pub(super) completion: Consumer<u64>,
    fd: OwnedFd,
    /// After the socket, which uses it.
    pub(super) umem: Umem,
}

/// Which part failed.
#[derive(Debug)]
pub(super) enum OpenError {
    Memory(io::Error),
    Socket(io::Error),
    Rings(io::Error),
}

impl Socket {
    /// A socket that is bound to nothing, with all frames for receiving in the fill ring.
    pub(super) fn open(sizes: Sizes, transmit_budget: u32) -> Result<Self, OpenError> {
        let fd = sys::socket().map_err(OpenError::Socket)?;
        // A frame is in the transmit ring, or under way.
        let sending = sizes.transmit * 2;
        let umem = Umem::new(sizes.frame, sizes.receive, sending).map_err(OpenError::Memory)?;
        device_sys::set(
            fd.as_fd(),
            libc::SOL_XDP,
            libc::XDP_UMEM_REG,
            &umem.registration(),
        )
        .map_err(OpenError::Memory)?;
        Self::with_rings(fd, umem, sizes, transmit_budget).map_err(OpenError::Rings)
    }

    fn with_rings(fd: OwnedFd, mut umem: Umem, sizes: Sizes, budget: u32) -> io::Result<Self> {
        let set = |option, value: u32| device_sys::set(fd.as_fd(), libc::SOL_XDP, option, &value);
        // Every frame has its place in either ring: neither is ever full. The kernel shows a frame
        // in the receive ring before it says that it has taken it from the fill ring.
        let (fill, completion) = (sizes.receive * 2, sizes.transmit * 2);
        set(libc::XDP_UMEM_FILL_RING, fill)?;
        set(libc::XDP_UMEM_COMPLETION_RING, completion)?;
        set(libc::XDP_RX_RING, sizes.receive)?;
        set(libc::XDP_TX_RING, sizes.transmit)?;
        // Older kernels have no such option, and take 32 frames a call.
        let _ = set(
            sys::XDP_MAX_TX_SKB_BUDGET,
            budget.clamp(32, sizes.transmit.max(32)),
        );
        // The kernel doubles it. Without the right to go over the limit, up to the limit.
        let room = sizes.transmit * KERNEL_FRAME / 2;
        if device_sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUFFORCE, &room).is_err() {
            device_sys::set(fd.as_fd(), libc::SOL_SOCKET, libc::SO_SNDBUF, &room)?;
        }
        let offsets: libc::xdp_mmap_offsets =
            device_sys::get(fd.as_fd(), libc::SOL_XDP, libc::XDP_MMAP_OFFSETS)?;
        let layouts = [
            Layout::new(&offsets.rx, sizes.receive),
            Layout::new(&offsets.tx, sizes.transmit),
            Layout::new(&offsets.fr, fill),
            Layout::new(&offsets.cr, completion),
        ];
        let [rx, tx, fr, cr] = layouts;
        let rx_memory = map::<Descriptor>(&fd, &rx, libc::XDP_PGOFF_RX_RING as u64)?;
        let tx_memory = map::<Descriptor>(&fd, &tx, libc::XDP_PGOFF_TX_RING as u64)?;
        let fr_memory = map::<u64>(&fd, &fr, libc::XDP_UMEM_PGOFF_FILL_RING)?;
        let cr_memory = map::<u64>(&fd, &cr, libc::XDP_UMEM_PGOFF_COMPLETION_RING)?;
        let mut fill = Producer::new(fr_memory, &fr)?;
        for frame in umem.lend_all_receiving() {
            fill.push(frame);
        }
        fill.publish();
        Ok(Self {
            rx: Consumer::new(rx_memory, &rx)?,
            tx: Producer::new(tx_memory, &tx)?,
            fill,
            completion: Consumer::new(cr_memory, &cr)?,
            fd,
            umem,
        })
    }

    /// Bind to a queue of an interface.
    pub(super) fn bind(&self, interface: u32, queue: u32, copy: CopyMode) -> io::Result<()> {
        let copy = match copy {
            CopyMode::Auto => 0,
            CopyMode::Copy => libc::XDP_COPY,
            CopyMode::ZeroCopy => libc::XDP_ZEROCOPY,
        };
        let address = libc::sockaddr_xdp {
            sxdp_family: sys::AF_XDP as u16,
            sxdp_flags: copy | libc::XDP_USE_NEED_WAKEUP,
            sxdp_ifindex: interface,
            sxdp_queue_id: queue,
            sxdp_shared_umem_fd: 0,
        };
        sys::bind(self.fd.as_fd(), &address)
    }

    pub(super) fn fd(&self) -> BorrowedFd<'_> {
        self.fd.as_fd()
    }

    /// Make the kernel send.
    pub(super) fn wake_tx(&self) -> io::Result<()> {
        sys::wake_tx(self.fd())
    }

    /// Make the kernel take what is in the fill ring.
    pub(super) fn wake_rx(&self) -> io::Result<()> {
        sys::wake_rx(self.fd())
    }

    /// Take back frames that have been sent.
    pub(super) fn reap(&mut self) -> io::Result<()> {
        if self.completion.available()? == 0 {
            return Ok(());
        }
        while let Some(addr) = self.completion.pop() {
            self.umem.sent(addr)?;
        }
        self.completion.release();
        Ok(())
    }

    /// The error that the kernel has noted, which is forgotten then.
    pub(super) fn take_error(&self) -> io::Result<libc::c_int> {
        device_sys::get(self.fd(), libc::SOL_SOCKET, libc::SO_ERROR)
    }

    pub(super) fn statistics(&self) -> io::Result<libc::xdp_statistics> {
        device_sys::get(self.fd(), libc::SOL_XDP, libc::XDP_STATISTICS)
    }

    pub(super) fn is_zero_copy(&self) -> bool {
        device_sys::get::<libc::xdp_options>(self.fd(), libc::SOL_XDP, libc::XDP_OPTIONS)
            .is_ok_and(|o| o.flags & libc::XDP_OPTIONS_ZEROCOPY != 0)
    }
}

fn map<T: Entry>(fd: &OwnedFd, layout: &Layout, offset: u64) -> io::Result<Mapping> {
    Mapping::of_socket(fd.as_fd(), layout.len::<T>(), offset)
}
