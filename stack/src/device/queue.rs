//! Frames through a file descriptor that keeps them apart, one by one, with a virtio header where
//! offloads are on.

use super::buffers::Buffers;
use super::{DeviceStats, Refused, sys};
use crate::interface::{Capabilities, PartialChecksum, RxChecksum, RxFrame, TxFrame};
use std::fmt;
use std::io::{self, IoSlice};
use std::os::fd::{AsFd, OwnedFd};

/// A virtio_net_hdr, as the kernel has it without further options.
pub(super) const VNET_LEN: usize = 10;
const VNET_NEEDS_CHECKSUM: u8 = 1;
const VNET_DATA_VALID: u8 = 2;
const GSO_NONE: u8 = 0;
const GSO_TCPV4: u8 = 1;
const GSO_TCPV6: u8 = 4;
/// Added to the above: CWR is on the first segment only.
const GSO_ECN: u8 = 0x80;

/// The largest super-frame, a tag and the header.
const READ_BUFFER: usize = 65_536 + 18 + VNET_LEN;
/// As many buffers of it are used again.
const KEPT: usize = 32;

/// One queue of frames in both directions.
pub(super) struct FrameQueue {
    pub(super) fd: OwnedFd,
    pub(super) capabilities: Capabilities,
    pub(super) stats: DeviceStats,
    /// Frames begin with a virtio header.
    offload: bool,
    buffers: Buffers,
}

impl FrameQueue {
    /// Frames go through `fd`, with a virtio header if the capabilities have any offload.
    pub(super) fn new(fd: OwnedFd, capabilities: Capabilities) -> Self {
        Self {
            fd,
            capabilities,
            stats: DeviceStats::default(),
            offload: capabilities.checksum,
            buffers: Buffers::new(READ_BUFFER, KEPT),
        }
    }

    pub(super) fn receive(
        &mut self,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        let mut received = 0;
        while received < budget {
            let read = sys::read(self.fd.as_fd(), self.buffers.buffer());
            let len = match read {
                Ok(len) if len > 0 => len,
                // What has come is dealt with first; the next call tells the rest.
                _ if received > 0 => break,
                // A socket whose other end is closed.
                Ok(_) => return Err(io::ErrorKind::UnexpectedEof.into()),
                Err(e) => match e.raw_os_error() {
                    Some(libc::EAGAIN) => break,
                    // The second: the other end of a socket was closed with frames of ours unread.
                    Some(libc::EINTR | libc::ECONNRESET) => continue,
                    // The interface is down: nothing comes until it is up.
                    Some(libc::EIO) => break,
                    _ => return Err(e),
                },
            };
            received += 1;
            self.stats.received += 1;
            // What is kept of a short one is copied.
            let (buffer, shared) = if len * 2 >= READ_BUFFER && self.offload {
                let shared = self.buffers.share();
                (&shared[..], Some(shared))
            } else {
                (&*self.buffers.buffer(), None)
            };
            let Some(frame) = buffer.get(..len) else {
                self.stats.bad += 1;
                continue;
            };
            if !self.offload {
                sink(&RxFrame::plain(frame));
                continue;
            }
            let Some((checksum, segment_size, bytes)) = frame
                .split_first_chunk()
                .and_then(|(h, bytes)| read_vnet_header(h, bytes).map(|(c, s)| (c, s, bytes)))
            else {
                self.stats.bad += 1;
                continue;
            };
            self.stats.super_frames_in += u64::from(segment_size.is_some());
            sink(&RxFrame {
                bytes,
                checksum,
                segment_size,
                buffer: shared,
            });
        }
        Ok(received)
    }

    pub(super) fn transmit(&mut self, frame: &TxFrame<'_>) -> Result<(), Refused> {
        let header = vnet_header(frame);
        let [first, second] = frame.body.slices();
        let pieces = [&header[..], frame.head, first, second].map(IoSlice::new);
        let pieces = if self.offload {
            &pieces[..]
        } else {
            &pieces[1..]
        };
        loop {
            let refused = match sys::writev(self.fd.as_fd(), pieces) {
                Ok(_) => {
                    self.stats.sent += 1;
                    self.stats.super_frames_out += u64::from(frame.offload.segment.is_some());
                    return Ok(());
                }
                Err(e) => match e.raw_os_error() {
                    Some(libc::EINTR) => continue,
                    Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM) => Refused::Full,
                    // Of a socket whose other end is closed reading tells, once all is read that was
                    // under way.
                    Some(libc::EIO | libc::ENETDOWN | libc::EPIPE | libc::ECONNRESET) => {
                        Refused::Down
                    }
                    _ => Refused::Gone(e),
                },
            };
            self.stats.refused += 1;
            return Err(refused);
        }
    }
}

impl fmt::Debug for FrameQueue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FrameQueue")
            .field("capabilities", &self.capabilities)
            .field("stats", &self.stats)
            .finish_non_exhaustive()
    }
}

/// The virtio header of a frame to send.
fn vnet_header(frame: &TxFrame<'_>) -> [u8; VNET_LEN] {
    let mut h = [0; VNET_LEN];
    if let Some(sum) = frame.offload.checksum {
        h[0] = VNET_NEEDS_CHECKSUM;
        h[6..8].copy_from_slice(&sum.start.to_ne_bytes());
        h[8..10].copy_from_slice(&sum.offset.to_ne_bytes());
    }
    if let Some(cut) = frame.offload.segment {
        h[1] = if cut.ipv6 { GSO_TCPV6 } else { GSO_TCPV4 };
        h[2..4].copy_from_slice(&cut.header_len.to_ne_bytes());
        h[4..6].copy_from_slice(&cut.size.to_ne_bytes());
    }
    h
}

/// What the virtio header of a received frame says; `None`: we never said that we take this.
fn read_vnet_header(h: &[u8; VNET_LEN], bytes: &[u8]) -> Option<(RxChecksum, Option<u16>)> {
    let word = |at: usize| u16::from_ne_bytes([h[at], h[at + 1]]);
    let segment = match h[1] & !GSO_ECN {
        GSO_NONE => None,
        GSO_TCPV4 | GSO_TCPV6 => Some(word(4)),
        _ => return None,
    };
    let checksum = if h[0] & VNET_NEEDS_CHECKSUM != 0 {
        let (start, offset) = (word(6), word(8));
        if usize::from(start) + usize::from(offset) + 2 > bytes.len() {
            return None;
        }
        RxChecksum::Partial(PartialChecksum { start, offset })
    } else if h[0] & VNET_DATA_VALID != 0 {
        RxChecksum::Good
    } else {
        RxChecksum::Unknown
    };
    Some((checksum, segment))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BytesView;
    use crate::interface::{Offload, Segmentation};

    #[test]
    fn headers_survive() {
        let checksum = PartialChecksum {
            start: 34,
            offset: 16,
        };
        let cut = Segmentation {
            size: 1448,
            header_len: 66,
            ipv6: false,
        };
        let head = [0; 66];
        let frame = TxFrame {
            head: &head,
            body: BytesView::default(),
            offload: Offload {
                checksum: Some(checksum),
                segment: Some(cut),
            },
        };
        let h = vnet_header(&frame);
        let read = read_vnet_header(&h, &head);
        assert_eq!(read, Some((RxChecksum::Partial(checksum), Some(1448))));
        // A checksum beyond the frame, and a kind of super-frame that nobody asked for.
        assert_eq!(read_vnet_header(&h, &head[..51]), None);
        let mut udp = h;
        udp[1] = 3;
        assert_eq!(read_vnet_header(&udp, &head), None);
        let none = read_vnet_header(&[0; VNET_LEN], &head);
        assert_eq!(none, Some((RxChecksum::Unknown, None)));
    }
}
