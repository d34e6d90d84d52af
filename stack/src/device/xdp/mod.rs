//! AF_XDP: the frames of a network interface's queue, past the kernel's network stack, in memory
//! shared with the kernel.
//!
//! Works on any interface; meant for a veth whose other end the kernel's TCP uses, and for a NIC.
//! While an [`Xdp`] lives, the kernel sees nothing of what the queue receives, which on a NIC with
//! one queue is everything, a login included. The program that does this is ours and goes with the
//! last `Xdp` of the interface, or with the process, however it ends.
//!
//! It takes Linux 5.9, and on the interface:
//! - frames that fit: an MTU of 3,506 at most in native mode, and 3,822 in SKB mode;
//! - no super-frames. In native mode the kernel turns them off by itself. In SKB mode they are
//!   lost: turn them off where they are made, `ethtool -K PEER tso off gso off` on the other end of
//!   a veth, `ethtool -K NIC gro off lro off` on a NIC;
//! - complete checksums, but for a veth, where incomplete ones are recognised
//!   ([`PartialChecksums`]).
//!
//! Sending goes past the interface's queue discipline.

mod config;
mod error;
mod interface;
mod partial;
mod program;
mod ring;
mod socket;
mod sys;
mod umem;

pub use config::{Attach, PartialChecksums, XdpConfig};
pub use error::XdpError;
pub use program::AttachMode;
pub use socket::CopyMode;

use super::bpf::Attached;
use super::{Device, DeviceStats, Refused, sys as device_sys};
use crate::interface::{Capabilities, Medium, RxChecksum, RxFrame, TxFrame};
use crate::wire::ethernet::MacAddr;
use error::Step;
use interface::Properties;
use narrows_congestion::{Duration, Instant};
use program::Program;
use socket::{OpenError, Sizes, Socket};
use std::fmt;
use std::io;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// Frames of a ring at most: 256 MB with the largest frames.
const MAX_RING: u32 = 1 << 16;
/// Bytes that the kernel keeps free before a received frame.
const HEADROOM: usize = 256;
/// An Ethernet header with a tag.
const LINK_HEADER: usize = 18;
const SMALL_FRAME: usize = 2048;
/// No frame is larger than a page.
const LARGE_FRAME: usize = 4096;
/// How often to look whether the interface is still there: a sleeper is not told of it.
const HEARTBEAT: Duration = Duration::from_millis(100);
/// How long to wait before the kernel is asked again to send what it has not taken.
const RETRY: Duration = Duration::from_micros(100);
/// Pause between attempts to bind.
const BUSY_PAUSE: Duration = Duration::from_millis(5);
/// Calls to send at a time, should each take a part only.
const KICKS: usize = 8;

/// What became of frames inside the kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct XdpStatistics {
    /// Received and lost, because there was no frame in the fill ring: we were too slow.
    pub no_frame: u64,
    /// Received and lost, because the receive ring was full: we were too slow.
    pub ring_full: u64,
    /// Received and lost, because longer than a frame: super-frames.
    pub too_long: u64,
    /// Received with an incomplete checksum.
    pub partial_checksums: u64,
}

/// How the interface is, as far as sending has shown.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Up,
    Down,
    /// With the error that the kernel gave.
    Gone(i32),
}

/// One queue of an interface.
pub struct Xdp {
    name: String,
    /// First to go: nothing comes from then on.
    attached: Arc<(Attached, AttachMode)>,
    socket: Socket,
    properties: Properties,
    partial: PartialChecksums,
    state: State,
    /// When to ask the kernel again to send.
    retry: Option<Instant>,
    heartbeat: Instant,
    partial_seen: u64,
    stats: DeviceStats,
}

impl Xdp {
    /// Open one queue of the interface `name`, which exists and is up.
    ///
    /// # Errors
    /// What failed, and what could be done about it.
    #[inline] // As `open_queues`, which would be compiled here otherwise.
    pub fn open(name: &str, config: &XdpConfig) -> Result<Self, XdpError> {
        let mut all = Self::open_queues(name, config, 1)?;
        all.pop().ok_or_else(|| {
            let none = io::Error::new(io::ErrorKind::InvalidInput, "no queue");
            failed(Step::Configure, name, config.queue)(none)
        })
    }

    /// Open `queues` queues of the interface `name`, so that each can have a driver and an endpoint
    /// of its own. Which flow comes to which queue is up to the interface (`ethtool -x`); frames of
    /// queues that are not opened take their usual way to the kernel.
    ///
    /// # Errors
    /// What failed, and what could be done about it.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn open_queues(name: &str, config: &XdpConfig, queues: u32) -> Result<Vec<Self>, XdpError> {
        let failed = |step| failed(step, name, config.queue);
        let wrong = |what: &str| {
            let e = io::Error::new(io::ErrorKind::InvalidInput, what);
            failed(Step::Configure)(e)
        };
        for ring in [config.receive_ring, config.transmit_ring] {
            if !ring.is_power_of_two() || !(64..=MAX_RING).contains(&ring) {
                return Err(wrong(
                    "the size of a ring is a power of two from 64 to 65,536",
                ));
            }
        }
        let last = config.queue.checked_add(queues).filter(|&l| l <= 1024);
        let Some(end) = last.filter(|_| queues > 0) else {
            return Err(wrong(
                "queues are numbered from 0 to 1,023, and it takes one",
            ));
        };
        if name.is_empty() || name.len() >= libc::IFNAMSIZ || name.contains(['/', '\0']) {
            return Err(wrong("an interface name has 1 to 15 bytes, and no slash"));
        }
        let properties = Properties::of(name).map_err(|e| match e.raw_os_error() {
            Some(libc::ENODEV | libc::ENXIO) => failed(Step::Find)(e),
            _ => failed(Step::Ask)(e),
        })?;
        let frame = [SMALL_FRAME, LARGE_FRAME]
            .into_iter()
            .find(|frame| HEADROOM + LINK_HEADER + properties.mtu <= *frame);
        let Some(frame) = frame else {
            let largest = LARGE_FRAME - HEADROOM - LINK_HEADER;
            return Err(wrong(&format!(
                "its MTU of {} is too large for AF_XDP (ip link set dev {name} mtu 3506, on both \
                 ends; up to {largest} in SKB mode)",
                properties.mtu
            )));
        };
        let sizes = Sizes {
            frame: frame as u32,
            receive: config.receive_ring,
            transmit: config.transmit_ring,
        };
        let program = Program::load(end).map_err(failed(Step::Load))?;
        let mut sockets = Vec::new();
        for queue in config.queue..end {
            let failed = |step| self::failed(step, name, queue);
            let socket = Socket::open(sizes, config.transmit_budget).map_err(|e| match e {
                OpenError::Memory(e) => failed(Step::Memory)(e),
                OpenError::Socket(e) => failed(Step::Socket)(e),
                OpenError::Rings(e) => failed(Step::Rings)(e),
            })?;
            patiently(config.patience, || {
                socket.bind(properties.index, queue, config.copy)
            })
            .map_err(failed(Step::Bind))?;
            program
                .insert(queue, socket.fd())
                .map_err(failed(Step::Load))?;
            sockets.push(socket);
        }
        let attached = Arc::new(
            attach(&program, &properties, config).map_err(|(step, source)| failed(step)(source))?,
        );
        Ok(sockets
            .into_iter()
            .map(|socket| Self {
                name: name.to_owned(),
                attached: attached.clone(),
                socket,
                properties: properties.clone(),
                partial: config.partial_checksums,
                state: State::Up,
                retry: None,
                heartbeat: Instant::ZERO,
                partial_seen: 0,
                stats: DeviceStats::default(),
            })
            .collect())
    }

    /// The interface's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The interface's hardware address. On a NIC it must be that of our TCP too; on a veth any
    /// will do.
    pub fn mac(&self) -> MacAddr {
        self.properties.mac
    }

    /// Where the program runs.
    pub fn mode(&self) -> AttachMode {
        self.attached.1
    }

    /// Whether the driver works in our memory.
    pub fn is_zero_copy(&self) -> bool {
        self.socket.is_zero_copy()
    }

    /// What became of frames inside the kernel.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn statistics(&self) -> io::Result<XdpStatistics> {
        let said = self.socket.statistics()?;
        Ok(XdpStatistics {
            no_frame: said.rx_fill_ring_empty_descs,
            ring_full: said.rx_ring_full,
            // It counts both kinds.
            too_long: said
                .rx_dropped
                .saturating_sub(said.rx_fill_ring_empty_descs),
            partial_checksums: self.partial_seen,
        })
    }

    /// Everything that is not received frames: what is still to be sent, whether the interface is
    /// there.
    fn tend(&mut self, now: Instant) -> io::Result<()> {
        if self.retry.is_some_and(|at| at <= now) {
            self.kick(now)?;
        }
        if self.heartbeat <= now {
            self.heartbeat = now + HEARTBEAT;
            let error = self.socket.take_error()?;
            if error != 0 {
                self.state = State::Gone(error);
            }
            if self.mode() == AttachMode::Skb && self.properties.virtual_cable {
                let lost = self.statistics()?.too_long;
                if lost > 0 {
                    return Err(Self::advice(format!(
                        "{lost} super-frames were lost, which SKB mode cannot receive: run \
                         `ethtool -K PEER tso off gso off` on the other end of {}, or attach in \
                         native mode",
                        self.name
                    )));
                }
            }
        }
        match self.state {
            State::Gone(code) => Err(self.gone(code)),
            State::Up | State::Down => Ok(()),
        }
    }

    fn gone(&self, code: i32) -> io::Error {
        let e = io::Error::from_raw_os_error(code);
        io::Error::new(
            e.kind(),
            format!("the interface {} is gone: {e}", self.name),
        )
    }

    fn advice(text: String) -> io::Error {
        io::Error::new(io::ErrorKind::Unsupported, text)
    }

    /// Make the kernel send what is in the ring.
    fn kick(&mut self, now: Instant) -> io::Result<()> {
        self.retry = None;
        self.socket.tx.publish();
        let mut left = self.socket.tx.pending()?;
        for _ in 0..KICKS {
            // Of one that was down it is to be found out whether it is up.
            let idle = left == 0 && self.state == State::Up;
            if idle || !self.socket.tx.needs_wakeup() {
                return Ok(());
            }
            let took = self.socket.wake_tx();
            let after = self.socket.tx.pending()?;
            match took.as_ref().map_err(io::Error::raw_os_error) {
                Ok(()) => self.state = State::Up,
                // A frame was dropped on the way: as on any wire. The others go on.
                Err(Some(libc::EBUSY | libc::EINTR)) => {
                    left = after;
                    continue;
                }
                // It took what one call takes, or what its buffers hold.
                Err(Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM)) => {
                    self.state = State::Up;
                }
                // Nothing moves until it is up; the next frame to send finds out.
                Err(Some(libc::ENETDOWN)) => {
                    self.state = State::Down;
                    return Ok(());
                }
                Err(code) => {
                    let code = code.unwrap_or(libc::ENODEV);
                    self.state = State::Gone(code);
                    return Err(self.gone(code));
                }
            }
            if after == left {
                break;
            }
            left = after;
        }
        if left > 0 {
            self.retry = Some(now + RETRY);
        }
        Ok(())
    }

    /// A place in the transmit ring and a frame for it.
    fn has_room(&mut self) -> io::Result<bool> {
        if !self.socket.umem.has_free() {
            self.socket.reap()?;
        }
        Ok(self.socket.umem.has_free() && self.socket.tx.has_room()?)
    }

    fn try_transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        if self.state == State::Down {
            self.kick(now).map_err(Refused::Gone)?;
        }
        match self.state {
            State::Up => {}
            State::Down => return Err(Refused::Down),
            State::Gone(code) => return Err(Refused::Gone(self.gone(code))),
        }
        if frame.len() > self.properties.mtu + LINK_HEADER {
            let long = format!(
                "a frame of {} bytes, and the MTU is {}",
                frame.len(),
                self.properties.mtu
            );
            let e = io::Error::new(io::ErrorKind::InvalidInput, long);
            return Err(Refused::Gone(e));
        }
        if !self.has_room().map_err(Refused::Gone)? {
            self.kick(now).map_err(Refused::Gone)?;
            self.socket.reap().map_err(Refused::Gone)?;
            if !self.has_room().map_err(Refused::Gone)? {
                return Err(Refused::Full);
            }
        }
        let [first, second] = frame.body.slices();
        // There is a frame, and what is no longer than the MTU fits.
        let descriptor = self.socket.umem.send([frame.head, first, second]);
        self.socket.tx.push(descriptor.ok_or(Refused::Full)?);
        Ok(())
    }
}

fn failed(step: Step, name: &str, queue: u32) -> impl FnOnce(io::Error) -> XdpError {
    let name = name.to_owned();
    move |source| XdpError {
        step,
        name,
        queue,
        source,
    }
}

/// Whether an error may be over soon: a socket or a program that was let go of is not gone yet.
/// The kernel says EEXIST where a program is still there in the other mode.
fn is_passing(e: &io::Error) -> bool {
    matches!(e.raw_os_error(), Some(libc::EBUSY | libc::EEXIST))
}

/// Try again while something is in use.
fn patiently<T>(patience: Duration, mut attempt: impl FnMut() -> io::Result<T>) -> io::Result<T> {
    let end = device_sys::monotonic() + patience;
    loop {
        match attempt() {
            Err(e) if is_passing(&e) && device_sys::monotonic() < end => {
                device_sys::wait([], Some(BUSY_PAUSE))?;
            }
            outcome => return outcome,
        }
    }
}

fn attach(
    program: &Program,
    properties: &Properties,
    config: &XdpConfig,
) -> Result<(Attached, AttachMode), (Step, io::Error)> {
    let attach = |mode| {
        patiently(config.patience, || program.attach(properties.index, mode))
            .map(|attached| (attached, mode))
    };
    let native = match config.attach {
        Attach::Auto | Attach::As(AttachMode::Native) => attach(AttachMode::Native),
        Attach::As(AttachMode::Skb) => Err(io::ErrorKind::Unsupported.into()),
    };
    let error = match native {
        Ok(attached) => return Ok(attached),
        Err(e) => e,
    };
    let hopeless = matches!(
        error.raw_os_error(),
        Some(libc::EBUSY | libc::EEXIST | libc::EPERM | libc::EACCES | libc::ENODEV)
    );
    if hopeless || config.attach == Attach::As(AttachMode::Native) {
        return Err((Step::AttachNative, error));
    }
    if properties.merges {
        let text = "it merges received frames, and SKB mode cannot receive those";
        let e = io::Error::new(io::ErrorKind::Unsupported, text);
        return Err((Step::Merging, e));
    }
    attach(AttachMode::Skb).map_err(|e| (Step::AttachSkb, e))
}

impl Device for Xdp {
    fn capabilities(&self) -> Capabilities {
        Capabilities::plain(Medium::Ethernet, self.properties.mtu)
    }

    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        self.tend(now)?;
        let Socket { rx, fill, umem, .. } = &mut self.socket;
        let accept = match self.partial {
            PartialChecksums::Auto => self.properties.virtual_cable,
            PartialChecksums::Accept => true,
            PartialChecksums::Refuse => false,
        };
        let available = rx.available()? as usize;
        let (mut received, mut refused) = (0, false);
        while received < available.min(budget) {
            let Some(said) = rx.pop() else { break };
            received += 1;
            self.stats.received += 1;
            let frame = umem.received(said)?;
            let bytes = umem.bytes(&frame);
            let partial = partial::partial_checksum(bytes);
            self.partial_seen += u64::from(partial.is_some());
            refused |= partial.is_some() && self.partial == PartialChecksums::Refuse;
            sink(&RxFrame {
                bytes,
                checksum: partial
                    .filter(|_| accept)
                    .map_or(RxChecksum::Unknown, RxChecksum::Partial),
                segment_size: None,
                buffer: None,
            });
            if !fill.has_room()? {
                return Err(ring::broken("the kernel has more frames than there are"));
            }
            fill.push(umem.lend(frame));
        }
        if received > 0 {
            rx.release();
            fill.publish();
        }
        if fill.needs_wakeup() {
            // If it fails, sending or the heartbeat tells why.
            let _ = self.socket.wake_rx();
        }
        if refused {
            return Err(Self::advice(format!(
                "TCP checksums from {} are incomplete: run `ethtool -K PEER tx off` on the \
                 interface that sends them, or accept them",
                self.name
            )));
        }
        Ok(received)
    }

    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let outcome = self.try_transmit(now, frame);
        match outcome {
            Ok(()) => self.stats.sent += 1,
            Err(_) => self.stats.refused += 1,
        }
        outcome
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        if let State::Gone(code) = self.state {
            return Err(self.gone(code));
        }
        if self.socket.tx.is_published() {
            return Ok(());
        }
        self.kick(now)?;
        self.socket.reap()
    }

    fn poll_timeout(&self) -> Option<Instant> {
        Some(
            self.retry
                .map_or(self.heartbeat, |at| at.min(self.heartbeat)),
        )
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.socket.fd()
    }

    fn stats(&self) -> DeviceStats {
        self.stats
    }
}

impl fmt::Debug for Xdp {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Xdp")
            .field("name", &self.name)
            .field("mode", &self.mode())
            .field("properties", &self.properties)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is in the way may be about to go: a socket (EBUSY), a program in the other mode
    /// (EEXIST).
    #[test]
    fn only_what_may_be_over_soon_is_tried_again() {
        for (code, tries) in [
            (libc::EBUSY, 3),
            (libc::EEXIST, 3),
            (libc::EPERM, 1),
            (libc::EINVAL, 1),
        ] {
            let mut tried = 0;
            let outcome = patiently(Duration::from_secs(60), || {
                tried += 1;
                match tried {
                    3 => Ok(()),
                    _ => Err(io::Error::from_raw_os_error(code)),
                }
            });
            assert_eq!((tried, outcome.is_ok()), (tries, tries == 3), "{code}");
        }
        let busy = || Err::<(), _>(io::Error::from_raw_os_error(libc::EBUSY));
        assert!(patiently(Duration::ZERO, busy).is_err());
    }
}
