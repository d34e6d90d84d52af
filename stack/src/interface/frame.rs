//! Frames as they cross between interface and device, with what the device does for us.

use crate::buffer::{Bytes, BytesView};
use crate::wire::checksum::Sum;

/// What a device carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Medium {
    /// Ethernet frames.
    Ethernet,
    /// IP packets without a link header.
    Ip,
}

/// What a device can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// What it carries.
    pub medium: Medium,
    /// Largest IP packet on the wire, in bytes.
    pub mtu: usize,
    /// It completes TCP checksums of what is sent.
    pub checksum: bool,
    /// Largest IP packet that it cuts into segments itself, in bytes; 0: it cuts none.
    pub max_super_frame: usize,
}

impl Capabilities {
    /// No offload.
    pub const fn plain(medium: Medium, mtu: usize) -> Self {
        Self {
            medium,
            mtu,
            checksum: false,
            max_super_frame: 0,
        }
    }

    /// Checksums and segmentation are left to the device.
    pub const fn offload(medium: Medium, mtu: usize) -> Self {
        Self {
            medium,
            mtu,
            checksum: true,
            max_super_frame: 65_535,
        }
    }
}

/// A TCP checksum that holds the sum of the pseudo-header only.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialChecksum {
    /// Where in the frame what is to be summed begins: the TCP header.
    pub start: u16,
    /// Where from there the checksum is stored.
    pub offset: u16,
}

impl PartialChecksum {
    /// Complete it in `frame`, which is whole.
    pub fn complete(self, frame: &mut [u8]) {
        let Some(segment) = frame.get_mut(usize::from(self.start)..) else {
            return;
        };
        // The field holds the sum of the pseudo-header, which counts.
        let sum = Sum::of(segment).checksum();
        let at = usize::from(self.offset);
        if let Some(field) = segment.get_mut(at..at + 2) {
            field.copy_from_slice(&sum.to_be_bytes());
        }
    }
}

/// A frame of several segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segmentation {
    /// Payload bytes of each segment but the last.
    pub size: u16,
    /// Bytes of all headers, which each segment repeats.
    pub header_len: u16,
    /// It is IPv6.
    pub ipv6: bool,
}

/// What is left to the device, or was left to us by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Offload {
    /// The checksum is to be completed.
    pub checksum: Option<PartialChecksum>,
    /// It is to be cut.
    pub segment: Option<Segmentation>,
}

impl Offload {
    /// Nothing is left to do.
    pub const NONE: Self = Self {
        checksum: None,
        segment: None,
    };
}

/// A frame to send: headers, and a payload that lies elsewhere.
///
/// A device that gathers takes both from where they are, as TAP does by `writev`, and no byte is copied
/// before it. One that keeps frames until they have left takes the payload with
/// [`BytesView::to_bytes`], which copies nothing that the user handed over; the headers are the next
/// frame's after the call.
#[derive(Clone, Copy, Debug)]
pub struct TxFrame<'a> {
    /// The frame up to the payload.
    pub head: &'a [u8],
    /// The payload.
    pub body: BytesView<'a>,
    /// What the device is to do with it.
    pub offload: Offload,
}

impl TxFrame<'_> {
    /// Length in bytes.
    pub fn len(&self) -> usize {
        self.head.len() + self.body.len()
    }

    /// Whether there is no byte.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Append the frame to `out`.
    pub fn append_to(&self, out: &mut Vec<u8>) {
        let [first, second] = self.body.slices();
        out.extend_from_slice(self.head);
        out.extend_from_slice(first);
        if !second.is_empty() {
            out.extend_from_slice(second);
        }
    }
}

/// What is known of the checksums of a received frame.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum RxChecksum {
    /// Nothing: they are verified.
    #[default]
    Unknown,
    /// The device has verified them.
    Good,
    /// The frame never was on a wire: the TCP checksum is not complete.
    Partial(PartialChecksum),
}

/// A received frame.
#[derive(Clone, Copy, Debug)]
pub struct RxFrame<'a> {
    /// The frame.
    pub bytes: &'a [u8],
    /// What the device says of its checksums.
    pub checksum: RxChecksum,
    /// It is several segments merged, each but the last with this much payload.
    pub segment_size: Option<u16>,
    /// The buffer in which `bytes` lies, if it may be kept: payload in order that is half of it or
    /// more stays there until the user has read it or taken it over.
    pub buffer: Option<&'a Bytes>,
}

impl<'a> RxFrame<'a> {
    /// A frame of which nothing is known.
    pub const fn plain(bytes: &'a [u8]) -> Self {
        Self {
            bytes,
            checksum: RxChecksum::Unknown,
            segment_size: None,
            buffer: None,
        }
    }
}
