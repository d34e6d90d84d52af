//! Payload that lands where it belongs: a device that can read a frame into several places puts the
//! bytes of the next expected one at the end of what its connection has received, and no copy is
//! made of them.
//!
//! It is a guess: who sends next, and with how long headers. When it was wrong, the frame is put
//! together again and taken as any other; what lies in free room of a receive buffer does no harm.

use super::{ByteTcp, Interface, Landing, Medium, RxChecksum, RxFrame};
use crate::wire::ethernet::{EtherType, EthernetHeader};
use crate::wire::{ChecksumPolicy, Packet};
use narrows_congestion::Instant;

/// Payload that makes another copy dear enough to guess who sends next.
const MUCH: usize = 8 << 10;
/// What the largest frame holds.
const ROOM: usize = 65_536;

impl<T: ByteTcp> Interface<T> {
    /// A packet with `len` bytes of payload has come: where will the next one go? To where two in
    /// a row have gone: several senders take turns in no order, and a wrong guess costs two copies.
    pub(super) fn expect(&mut self, len: usize) {
        self.landing = None;
        if len >= MUCH {
            let sender = self.endpoint.last_input();
            let before = std::mem::replace(&mut self.last_sender, sender);
            self.landing = sender.filter(|_| sender == before);
        }
    }

    /// Where the payload of the next frame is to go, if one much like the last is expected.
    pub fn landing(&mut self) -> Option<Landing<'_>> {
        let slot = self.landing?;
        let link = self.link.header_len();
        let (headers, room) = self.endpoint.landing(slot, ROOM)?;
        Some(Landing {
            head: link + headers,
            room,
        })
    }

    /// The device received a frame whose bytes behind [`Landing::head`] are at the beginning of
    /// [`Landing::room`]; in `frame` anything stands in their place.
    pub fn handle_landed(&mut self, now: Instant, frame: &RxFrame<'_>) {
        if self.try_landed(now, frame).is_some() {
            self.stats.landed += 1;
            self.stats.frames_in += 1;
            self.stats.bytes_in += frame.bytes.len() as u64;
            self.acknowledge_disorder(now);
            return;
        }
        let mut whole = std::mem::take(&mut self.stray);
        whole.clear();
        if let Some(Landing { head, room }) = self.landing() {
            let (headers, rest) = frame.bytes.split_at(head.min(frame.bytes.len()));
            let [first, second] = room;
            let (one, two) = rest.split_at(rest.len().min(first.len()));
            whole.extend_from_slice(headers);
            whole.extend_from_slice(&first[..one.len()]);
            whole.extend_from_slice(&second[..two.len().min(second.len())]);
        }
        self.handle_frame(
            now,
            &RxFrame {
                bytes: &whole,
                ..*frame
            },
        );
        self.stray = whole;
    }

    /// Take it if it is what was expected.
    fn try_landed(&mut self, now: Instant, frame: &RxFrame<'_>) -> Option<()> {
        let slot = self.landing?;
        let head = self.landing()?.head;
        // Nobody has looked at a checksum that is to be verified, and its bytes are elsewhere.
        if frame.checksum == RxChecksum::Unknown {
            return None;
        }
        let bytes = match self.link.capabilities.medium {
            Medium::Ip => frame.bytes,
            Medium::Ethernet => {
                let (ethernet, bytes) = EthernetHeader::parse(frame.bytes).ok()?;
                let vlan = ethernet.tag.map(|t| t & 0xfff).filter(|&v| v != 0);
                let ip = matches!(ethernet.ether_type, EtherType::Ipv4 | EtherType::Ipv6);
                if !ip || ethernet.dst != self.link.mac || vlan != self.link.vlan {
                    return None;
                }
                bytes
            }
        };
        // Not a byte of payload, or padding, is among the headers or the other way round.
        let packet = Packet::parse(bytes, ChecksumPolicy::Trust).ok()?;
        if head + packet.payload.len() != frame.bytes.len() {
            return None;
        }
        self.endpoint
            .handle_landed(now, slot, &packet.ip, &packet.tcp, packet.payload)?;
        self.expect(packet.payload.len());
        Some(())
    }
}
