//! What leaves, as packets.

use super::due::Due;
use super::{Emitted, Output};
use crate::buffer::SendBuffer;
use crate::conn::{Connection, TcpTypes, View};
use crate::wire::{Beside, Ecn, Headers, IpHeader, PlainHeader, PlainSegment, TcpHeader};
use core::ops::Range;
use narrows_congestion::hint::cold_path;
use narrows_congestion::{ByteCount, Instant};
use std::net::Ipv4Addr;

/// Header, header, payload, and how much of that each segment has into which a device cuts it.
pub type Packet<V> = (IpHeader, TcpHeader, V, ByteCount);

impl<T: TcpTypes> Connection<T> {
    /// The next packet to send, if any. Control packets have an empty payload.
    pub fn poll_transmit(&mut self, now: Instant) -> Option<(IpHeader, TcpHeader, View<'_, T>)> {
        let mut out = Output::default();
        self.output(now, &mut out)?;
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

    /// As [`transmit`](Self::transmit), put into `place`, and whether another may follow: in one piece, from
    /// what is to leave to the place, without an [`Output`] in between.
    #[inline(never)] // Of each packet of a simulation.
    pub(crate) fn transmit_into<R>(
        &mut self,
        now: Instant,
        place: &mut Option<R>,
        make: &mut impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Option<Emitted> {
        // Let go of here, what is there is in no one's way further on.
        *place = None;
        let Some(ends) = self.ends.v4() else {
            return self.transmit_other(Self::output, now, place, make);
        };
        match self.due(now) {
            Due::Nothing => None,
            Due::Plain(begun, made) => {
                let tcp = self.header_here(begun.seq, begun.flags, now);
                let segment = self.segment(ends, tcp, begun.ecn);
                let payload = self.leaving(begun.payload);
                place.get_or_insert_with(|| make(Headers::Plain(&segment), payload));
                Some(made)
            }
            Due::Rare => self.transmit_other(Self::rare_output, now, place, make),
        }
    }

    /// The same, of what `output` gives, into an empty place.
    #[inline(never)]
    fn transmit_other<R>(
        &mut self,
        output: fn(&mut Self, Instant, &mut Output) -> Option<Emitted>,
        now: Instant,
        place: &mut Option<R>,
        make: &mut impl FnMut(Headers<'_>, View<'_, T>) -> R,
    ) -> Option<Emitted> {
        let mut out = Output::default();
        let made = output(self, now, &mut out)?;
        // Each in its own place: what several ways have made would be copied once more.
        let plain = self.ends.v4().map(|v4| self.segment(v4, out.tcp, out.ecn));
        match (&out.beside, plain) {
            (Beside::Nothing, Some(plain)) => {
                place.get_or_insert_with(|| make(Headers::Plain(&plain), self.payload(&out)));
            }
            (Beside::Sack(sack), Some(plain)) => {
                place.get_or_insert_with(|| make(Headers::Sack(&plain, sack), self.payload(&out)));
            }
            _ => {
                cold_path();
                let (ip, tcp) = (self.packet_header(&out), out.header());
                place.get_or_insert_with(|| make(Headers::Any(&ip, &tcp), self.payload(&out)));
            }
        }
        Some(made)
    }

    /// What [`output`](Self::output) made, as a packet.
    #[inline]
    pub(crate) fn packet(&mut self, mut out: Output) -> Packet<View<'_, T>> {
        let (ip, size) = (self.packet_header(&out), self.cut_at(&out));
        (ip, out.header(), self.payload(&out), size)
    }

    /// The header of its packet.
    #[inline]
    fn packet_header(&self, out: &Output) -> IpHeader {
        let (src, dst) = self.ends.ips();
        IpHeader {
            src,
            dst,
            ecn: out.ecn,
            dscp: self.ends.dscp,
            hop_limit: self.config.hop_limit,
        }
    }

    /// The headers of what [`output`](Self::output) made, if nothing of them is rare.
    #[inline]
    pub(crate) fn plain(&self, out: &Output) -> Option<PlainSegment> {
        match out.beside {
            Beside::Nothing => Some(self.segment(self.ends.v4()?, out.tcp, out.ecn)),
            Beside::Sack(_) | Beside::Rare(_) => None,
        }
    }

    /// Plain headers between these addresses.
    #[inline(always)]
    fn segment(&self, [src, dst]: [Ipv4Addr; 2], tcp: PlainHeader, ecn: Ecn) -> PlainSegment {
        PlainSegment {
            src,
            dst,
            tcp,
            ecn,
            dscp: self.ends.dscp,
            hop_limit: self.config.hop_limit,
        }
    }

    /// Its payload: it leaves.
    #[inline]
    pub(crate) fn payload(&mut self, out: &Output) -> View<'_, T> {
        self.leaving(out.payload.clone())
    }

    /// A segment with these bytes leaves.
    #[inline]
    fn leaving(&mut self, payload: Range<u64>) -> View<'_, T> {
        self.traffic.segments_out += 1;
        self.send_buf.view(payload)
    }
}
