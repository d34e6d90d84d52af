//! A cable inside the process: what goes in at one end comes out at the other.

use super::queue::FrameQueue;
use super::{Device, DeviceStats, Refused, sys};
use crate::interface::{Capabilities, RxFrame, TxFrame};
use narrows_congestion::Instant;
use std::io;
use std::os::fd::{AsFd, BorrowedFd};

/// One end of the cable.
///
/// A socket pair of the kernel carries the frames, so that an end can be waited for as any device.
/// What the capabilities leave to the device is not done but told to the other end, as a TAP does:
/// super-frames arrive whole. When one end is dropped the other is [`Down`](Refused::Down), and
/// gone when it has received what was under way.
#[derive(Debug)]
pub struct Loopback(FrameQueue);

impl Loopback {
    /// Both ends of a cable on which about `room` bytes can be under way in each direction (the
    /// kernel's own limits hold too); what is more is refused.
    ///
    /// # Errors
    /// When there are no more file descriptors.
    pub fn pair(capabilities: Capabilities, room: usize) -> io::Result<(Self, Self)> {
        let (a, b) = sys::packet_pair(room)?;
        Ok((
            Self(FrameQueue::new(a, capabilities)),
            Self(FrameQueue::new(b, capabilities)),
        ))
    }
}

impl Device for Loopback {
    fn capabilities(&self) -> Capabilities {
        self.0.capabilities
    }
    fn receive(
        &mut self,
        _: Instant,
        budget: usize,
        sink: &mut dyn FnMut(&RxFrame<'_>),
    ) -> io::Result<usize> {
        self.0.receive(budget, sink)
    }
    fn transmit(&mut self, _: Instant, frame: &TxFrame<'_>) -> Result<(), Refused> {
        self.0.transmit(frame)
    }
    fn fd(&self) -> BorrowedFd<'_> {
        self.0.fd.as_fd()
    }
    fn stats(&self) -> DeviceStats {
        self.0.stats
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::buffer::BytesView;
    use crate::interface::{Medium, Offload, PartialChecksum, RxChecksum, Segmentation};

    const NOW: Instant = Instant::ZERO;

    fn received(end: &mut Loopback) -> Vec<(Vec<u8>, RxChecksum, Option<u16>)> {
        let mut frames = Vec::new();
        end.receive(NOW, 100, &mut |f| {
            frames.push((f.bytes.to_vec(), f.checksum, f.segment_size));
        })
        .unwrap();
        frames
    }

    #[test]
    fn frames_arrive_in_order_and_whole() {
        let plain = Capabilities::plain(Medium::Ethernet, 1500);
        let (mut a, mut b) = Loopback::pair(plain, 1 << 20).unwrap();
        for n in 0..10 {
            let frame = TxFrame {
                head: &[n, n],
                body: BytesView::new(&[1, 2], &[3]),
                offload: Offload::NONE,
            };
            a.transmit(NOW, &frame).unwrap();
        }
        let frames = received(&mut b);
        for (n, frame) in frames.iter().enumerate() {
            let n = n as u8;
            assert_eq!(*frame, (vec![n, n, 1, 2, 3], RxChecksum::Unknown, None));
        }
        assert_eq!(frames.len(), 10);
        assert!(received(&mut a).is_empty());
    }

    #[test]
    fn what_is_left_to_the_device_is_told_to_the_other_end() {
        let offload = Capabilities::offload(Medium::Ethernet, 1500);
        let (mut a, mut b) = Loopback::pair(offload, 1 << 20).unwrap();
        let checksum = PartialChecksum {
            start: 34,
            offset: 16,
        };
        let body = vec![7; 60_000];
        let frame = TxFrame {
            head: &[1; 66],
            body: BytesView::new(&body, &[]),
            offload: Offload {
                checksum: Some(checksum),
                segment: Some(Segmentation {
                    size: 1448,
                    header_len: 66,
                    ipv6: true,
                }),
            },
        };
        b.transmit(NOW, &frame).unwrap();
        let frames = received(&mut a);
        let (bytes, sum, size) = &frames[0];
        assert_eq!(bytes.len(), 60_066);
        assert_eq!(*sum, RxChecksum::Partial(checksum));
        assert_eq!(*size, Some(1448));
        assert_eq!(a.stats().super_frames_in, 1);
    }

    #[test]
    fn a_full_cable_refuses_and_a_cut_one_is_gone() {
        let plain = Capabilities::plain(Medium::Ethernet, 1500);
        let (mut a, mut b) = Loopback::pair(plain, 10_000).unwrap();
        let frame = TxFrame {
            head: &[0; 1000],
            body: BytesView::default(),
            offload: Offload::NONE,
        };
        let refused = (0..1000).find_map(|_| a.transmit(NOW, &frame).err());
        assert!(matches!(refused, Some(Refused::Full)), "{refused:?}");
        received(&mut b);
        // One that b will not have read, too.
        a.transmit(NOW, &frame).unwrap();
        b.transmit(NOW, &frame).unwrap();
        drop(b);
        assert!(matches!(a.transmit(NOW, &frame), Err(Refused::Down)));
        assert_eq!(received(&mut a).len(), 1, "what was under way arrives");
        let end = a.receive(NOW, 1, &mut |_| {}).unwrap_err();
        assert_eq!(end.kind(), io::ErrorKind::UnexpectedEof);
    }
}
