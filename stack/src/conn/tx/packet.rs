//! What leaves, as packets.

use super::{Emitted, Output};
use crate::buffer::SendBuffer;
use crate::conn::{Connection, TcpTypes, View};
use crate::wire::{Beside, Headers, IpHeader, PlainSegment, TcpHeader};
use core::ops::Range;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};

/// Header, header, payload, and how much of that each segment has into which a device cuts it.
pub type Packet<V> = (IpHeader, TcpHeader, V, ByteCount);

impl<T: TcpTypes> Connection<T> {
    /// The next packet to send, if any. Control packets have an empty payload.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(IpHeader, TcpHeader, View<'_, T>)> {
        let mut out = Output::default();
        self.output_burst(now, 0, &mut out)?;
        let (ip, tcp, payload, _) = self.packet(out);
        Some((ip, tcp, payload))
    }

    /// As [`poll_transmit`](Self::poll_transmit): what `make` makes of the packet.
    #[inline]
    pub fn transmit<R>(
        &mut self,
        now: Instant,
        mut make: impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Option<R> {
        let mut made = None;
        self.transmit_into(now, &mut made, &mut make)?;
        made
    }

    /// As [`transmit`](Self::transmit), put into `place`, and whether another may follow.
    #[inline(never)] // Of each packet of a simulation.
    pub(crate) fn transmit_into<R>(
        &mut self,
        now: Instant,
        place: &mut Option<R>,
        make: &mut impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Option<Emitted> {
        // Let go of here, what is there is in no one's way further on.
        *place = None;
        let mut out = Output::default();
        let made = self.output(now, &mut out)?;
        let (plain, payload) = (self.address(&mut out.plain), out.payload.clone());
        // Each in its own place: what several ways have made would be copied once more.
        match (&out.beside, plain) {
            (Beside::Nothing, Some(plain)) => {
                place.get_or_insert_with(|| make(Headers::Plain(plain), self.leaving(payload)));
            }
            (Beside::Sack(sack), Some(plain)) => {
                place
                    .get_or_insert_with(|| make(Headers::Sack(plain, sack), self.leaving(payload)));
            }
            _ => {
                cold_path();
                let (ip, tcp) = (self.packet_header(&out), out.header());
                place.get_or_insert_with(|| make(Headers::Any(&ip, &tcp), self.leaving(payload)));
            }
        }
        Some(made)
    }

    /// What [`output`](Self::output) made, as a packet.
    #[inline]
    pub(crate) fn packet(&mut self, mut out: Output) -> Packet<View<'_, T>> {
        let (ip, size) = (self.packet_header(&out), self.cut_at(&out));
        (ip, out.header(), self.leaving(out.payload), size)
    }

    /// The header of its packet.
    #[inline]
    fn packet_header(&self, out: &Output) -> IpHeader {
        let (src, dst) = self.ends.ips();
        IpHeader {
            src,
            dst,
            ecn: out.plain.ecn,
            dscp: self.ends.dscp,
            hop_limit: self.config.hop_limit,
        }
    }

    /// The headers of what [`output`](Self::output) made, if nothing of them is rare.
    #[inline]
    pub(crate) fn plain(&self, out: &Output) -> Option<PlainSegment> {
        let mut plain = out.plain;
        self.address(&mut plain)?;
        matches!(out.beside, Beside::Nothing).then_some(plain)
    }

    /// With what all packets of the connection have, if its addresses are of IPv4.
    #[inline(always)]
    fn address<'a>(&self, plain: &'a mut PlainSegment) -> Option<&'a PlainSegment> {
        [plain.src, plain.dst] = self.ends.v4()?;
        (plain.dscp, plain.hop_limit) = (self.ends.dscp, self.config.hop_limit);
        Some(plain)
    }

    /// A segment with these bytes leaves.
    #[inline]
    pub(crate) fn leaving(&mut self, payload: Range<u64>) -> View<'_, T> {
        self.traffic.segments_out += 1;
        self.send_buf.view(payload)
    }
}
