//! What nearly every packet in a datacenter is, in as few bytes: from IPv4 to IPv4, with no option
//! but timestamps and nothing urgent.

use super::{Ecn, Flags, IpHeader, Seq, TcpHeader, TcpOptions, Timestamps};
use std::net::{IpAddr, Ipv4Addr};

/// A TCP header without urgent pointer and with no option but timestamps; see [`TcpHeader`] for its
/// fields.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[allow(missing_docs)] // As those of `TcpHeader`.
pub struct PlainHeader {
    pub src_port: u16,
    pub dst_port: u16,
    pub seq: Seq,
    pub ack: Seq,
    pub flags: Flags,
    pub window: u16,
    pub timestamps: Option<Timestamps>,
}

/// Headers as they leave, in as few words as they take.
#[derive(Clone, Copy, Debug)]
pub enum Headers<'a> {
    /// As nearly all are.
    Plain(PlainSegment),
    /// Any others.
    Any(&'a IpHeader, &'a TcpHeader),
}

/// What a [`PlainHeader`] has no place for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct RareHeader {
    pub(crate) urgent: u16,
    /// But for timestamps.
    pub(crate) options: TcpOptions,
}

impl PlainHeader {
    /// What of `tcp` is in a plain header, whatever else there is.
    #[inline]
    pub const fn of(tcp: &TcpHeader) -> Self {
        Self {
            src_port: tcp.src_port,
            dst_port: tcp.dst_port,
            seq: tcp.seq,
            ack: tcp.ack,
            flags: tcp.flags,
            window: tcp.window,
            timestamps: tcp.options.timestamps,
        }
    }

    /// Both parts of a header.
    pub(crate) fn split(mut tcp: TcpHeader) -> (Self, RareHeader) {
        let plain = Self::of(&tcp);
        tcp.options.timestamps = None;
        let rare = RareHeader {
            urgent: tcp.urgent,
            options: tcp.options,
        };
        (plain, rare)
    }

    /// As a header like any other, with what is rare in it.
    #[inline]
    pub(crate) fn with(&self, rare: Option<RareHeader>) -> TcpHeader {
        let mut tcp = self.header();
        if let Some(rare) = rare {
            tcp.urgent = rare.urgent;
            tcp.options = rare.options;
            tcp.options.timestamps = self.timestamps;
        }
        tcp
    }

    /// As a header like any other.
    #[inline]
    pub fn header(&self) -> TcpHeader {
        TcpHeader {
            src_port: self.src_port,
            dst_port: self.dst_port,
            seq: self.seq,
            ack: self.ack,
            flags: self.flags,
            window: self.window,
            urgent: 0,
            options: TcpOptions {
                timestamps: self.timestamps,
                ..TcpOptions::default()
            },
        }
    }
}

/// A plain header in its IPv4 packet; see [`IpHeader`] for the fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // As those of `IpHeader`.
pub struct PlainSegment {
    pub src: Ipv4Addr,
    pub dst: Ipv4Addr,
    pub tcp: PlainHeader,
    pub ecn: Ecn,
    pub dscp: u8,
    pub hop_limit: u8,
}

impl PlainSegment {
    /// The header of the packet, like any other.
    #[inline]
    pub fn ip_header(&self) -> IpHeader {
        IpHeader {
            src: IpAddr::V4(self.src),
            dst: IpAddr::V4(self.dst),
            ecn: self.ecn,
            dscp: self.dscp,
            hop_limit: self.hop_limit,
        }
    }
}
