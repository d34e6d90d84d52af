//! Writes what passes a device as a capture file.

use super::{Device, DeviceStats, Refused, sys};
use crate::interface::{Capabilities, Medium, RxChecksum, RxFrame, TxFrame};
use crate::pcapng::{Direction, Interface, LinkType, Record, Writer};
use narrows_congestion::{ByteCount, Instant};
use std::fmt;
use std::io::{self, Write};
use std::os::fd::BorrowedFd;

/// A device whose frames are captured: those sent once the device has taken them (a refused one
/// with a remark that it was refused), those received as they are given on.
///
/// Super-frames stand as they cross, and checksums that are left to the device are completed in
/// the capture, so that no reader takes them for wrong.
pub struct Captured<D, W: Write> {
    device: D,
    file: Writer<W>,
    interface: Interface,
    /// What turns time into nanoseconds since 1970.
    epoch: u64,
    scratch: Vec<u8>,
}

impl<D: Device, W: Write + Send> Captured<D, W> {
    /// Capture what passes `device`, called `name` in the file.
    ///
    /// # Errors
    /// When the header cannot be written. Later errors come with [`finish`](Self::finish).
    pub fn new(device: D, name: &str, out: W) -> io::Result<Self> {
        Self::with_snap_length(device, name, out, None)
    }

    /// The same, with no more than the first `snap_length` bytes of each frame.
    ///
    /// # Errors
    /// As for [`new`](Self::new).
    pub fn with_snap_length(
        device: D,
        name: &str,
        out: W,
        snap_length: Option<ByteCount>,
    ) -> io::Result<Self> {
        let mut file = Writer::new(
            out,
            concat!("narrows ", env!("CARGO_PKG_VERSION")),
            std::env::consts::OS,
            "Checksums left to the device are completed here; packets longer than the MTU are \
             super-frames, cut or merged by the device.",
        )?;
        file.set_snap_length(snap_length);
        let link = match device.capabilities().medium {
            Medium::Ethernet => LinkType::Ethernet,
            Medium::Ip => LinkType::Raw,
        };
        let interface = file.interface_of(link, name, "outbound is what narrows sends");
        Ok(Self {
            device,
            file,
            interface,
            epoch: sys::realtime_nanos().saturating_sub(sys::monotonic().as_nanos()),
            scratch: Vec::new(),
        })
    }

    /// Write out what is held back; the device.
    ///
    /// # Errors
    /// The first error that occurred while writing.
    pub fn finish(self) -> io::Result<D> {
        self.file.finish()?;
        Ok(self.device)
    }

    /// The device inside.
    pub fn device(&self) -> &D {
        &self.device
    }
}

impl<D: Device, W: Write + Send> Device for Captured<D, W> {
    fn capabilities(&self) -> Capabilities {
        self.device.capabilities()
    }

    fn receive(
        &mut self,
        now: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        let Self {
            device,
            file,
            interface,
            epoch,
            scratch,
        } = self;
        device.receive(now, budget, &mut |frame| {
            scratch.clear();
            scratch.extend_from_slice(frame.bytes);
            if let RxChecksum::Partial(partial) = frame.checksum {
                partial.complete(scratch);
            }
            file.packet(&Record {
                interface: *interface,
                nanos: *epoch + now.as_nanos(),
                direction: Direction::Inbound,
                comment: None,
                bytes: scratch,
            });
            sink(frame);
        })
    }

    fn transmit(&mut self, now: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let outcome = self.device.transmit(now, frame);
        self.scratch.clear();
        frame.append_to(&mut self.scratch);
        if let Some(partial) = frame.offload.checksum {
            partial.complete(&mut self.scratch);
        }
        self.file.packet(&Record {
            interface: self.interface,
            nanos: self.epoch + now.as_nanos(),
            direction: Direction::Outbound,
            comment: outcome.is_err().then_some("refused by the device"),
            bytes: &self.scratch,
        });
        outcome
    }

    fn flush(&mut self, now: Instant) -> io::Result<()> {
        self.device.flush(now)
    }
    fn poll_timeout(&self) -> Option<Instant> {
        self.device.poll_timeout()
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.device.fd()
    }
    fn stats(&self) -> DeviceStats {
        self.device.stats()
    }
}

impl<D: fmt::Debug, W: Write> fmt::Debug for Captured<D, W> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Captured")
            .field("device", &self.device)
            .finish_non_exhaustive()
    }
}
