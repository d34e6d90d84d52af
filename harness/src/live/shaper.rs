//! What makes a port of the kernel's the port of a small switch: a rate, and a buffer of so many
//! bytes before it that drops at the tail (the queue discipline `tbf`), and may mark above a
//! threshold. And what a route says about the TCP over it.

use super::netlink::Netlink;
use narrows::device::marking::QueueDepth;
use narrows::{ByteCount, Rate};
use netlink_packet_core::{DefaultNla, NLM_F_ACK, NLM_F_CREATE, NLM_F_ECHO, NLM_F_REPLACE};
use netlink_packet_route::route::{
    RouteAddress, RouteAttribute, RouteMessage, RouteMetric, RouteProtocol, RouteScope, RouteType,
};
use netlink_packet_route::tc::{TcAttribute, TcHandle, TcMessage, TcOption};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use std::io;
use std::net::Ipv4Addr;

/// Ethernet's bytes that the kernel does not count: check sequence, preamble, gap.
const OVERHEAD: u16 = 4 + 8 + 12;
/// The least that a frame takes on a wire, all of them counted.
const LEAST: u16 = 84;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself and asks for no table.
const ETHERNET: u8 = 1;
const TCA_TBF_PARMS: u16 = 1;
const TCA_TBF_RATE64: u16 = 4;
const TCA_TBF_BURST: u16 = 6;
const HANDLE: TcHandle = TcHandle { major: 1, minor: 0 };
/// `RTAX_RTO_MIN`.
const RTO_MIN: u32 = 13;

/// A port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Shape {
    /// What leaves it, in bits on the wire.
    pub(super) rate: Rate,
    /// Bytes that may wait; a frame counts without its check sequence.
    pub(super) limit: ByteCount,
    /// Bytes that may leave at once after a pause.
    pub(super) burst: ByteCount,
    /// Packets that find more than this waiting are marked.
    pub(super) mark_above: Option<QueueDepth>,
}

/// What a port has seen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct QueueStats {
    pub(super) drops: u64,
    pub(super) marks: u64,
    /// Waiting now.
    pub(super) packets: u64,
    pub(super) bytes: u64,
}

/// What a route says about the TCP over it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct RouteRules {
    /// Acknowledge every segment at once.
    pub(super) quick_ack: bool,
    /// The least RTO in milliseconds.
    pub(super) rto_min: Option<u32>,
}

fn clamp32(bytes: ByteCount) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

impl Shape {
    /// `struct tc_tbf_qopt`.
    fn parameters(&self) -> Vec<u8> {
        let bytes_per_sec = self.rate.bits_per_sec() / 8;
        let mut out = Vec::with_capacity(36);
        // The rate: cell_log, linklayer, overhead, cell_align, mpu, rate.
        out.extend([0, ETHERNET]);
        out.extend(OVERHEAD.to_ne_bytes());
        out.extend(0_u16.to_ne_bytes());
        out.extend(LEAST.to_ne_bytes());
        // What does not fit here is in RATE64.
        out.extend(
            u32::try_from(bytes_per_sec)
                .unwrap_or(u32::MAX)
                .to_ne_bytes(),
        );
        // No peak rate.
        out.extend([0; 12]);
        out.extend(clamp32(self.limit).to_ne_bytes());
        // The burst is given in bytes instead of time.
        out.extend([0; 8]);
        out
    }
}

impl Netlink {
    /// Shape what leaves the interface `index`, with an empty queue and counters at zero.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the kernel has no `tbf`.
    pub(super) fn shape(&mut self, index: u32, shape: &Shape) -> io::Result<()> {
        match self.unshape(index) {
            // There was nothing.
            Err(e) if e.raw_os_error() == Some(nix::errno::Errno::ENOENT as i32) => {}
            Err(e) if e.kind() == io::ErrorKind::InvalidInput => {}
            other => other?,
        }
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = TcHandle::ROOT;
        message.header.handle = HANDLE;
        let option = |kind, value| TcOption::Other(DefaultNla::new(kind, value));
        let mut options = vec![option(TCA_TBF_PARMS, shape.parameters())];
        let bytes_per_sec = shape.rate.bits_per_sec() / 8;
        if bytes_per_sec > u64::from(u32::MAX) {
            options.push(option(TCA_TBF_RATE64, bytes_per_sec.to_ne_bytes().to_vec()));
        }
        let burst = clamp32(shape.burst).to_ne_bytes().to_vec();
        options.push(option(TCA_TBF_BURST, burst));
        message.attributes = vec![
            TcAttribute::Kind("tbf".to_owned()),
            TcAttribute::Options(options),
        ];
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(RouteNetlinkMessage::NewQueueDiscipline(message), flags)
            .map(drop)
    }

    /// Undo [`shape`](Self::shape).
    fn unshape(&mut self, index: u32) -> io::Result<()> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.parent = TcHandle::ROOT;
        self.ask(RouteNetlinkMessage::DelQueueDiscipline(message), NLM_F_ACK)
            .map(drop)
    }

    /// What a shaped interface has seen, but for marks.
    pub(super) fn queue_stats(&mut self, index: u32) -> io::Result<QueueStats> {
        let mut message = TcMessage::with_index(index as i32);
        message.header.handle = HANDLE;
        let ask = RouteNetlinkMessage::GetQueueDiscipline(message);
        // Without an echo the answer goes to those who listen to all changes.
        let answers = self.ask(ask, NLM_F_ACK | NLM_F_ECHO)?;
        let stats = answers.into_iter().find_map(|answer| match answer {
            RouteNetlinkMessage::NewQueueDiscipline(message) => {
                message.attributes.into_iter().find_map(|a| match a {
                    TcAttribute::Stats(stats) => Some(stats),
                    _ => None,
                })
            }
            _ => None,
        });
        let missing = || io::Error::new(io::ErrorKind::NotFound, "no queue discipline");
        let stats = stats.ok_or_else(missing)?;
        Ok(QueueStats {
            drops: stats.drops.into(),
            marks: 0,
            packets: stats.qlen.into(),
            bytes: stats.backlog.into(),
        })
    }

    /// Give the route to `network`/`prefix` over the interface `index`, on which we are
    /// `source`, other rules.
    pub(super) fn set_route_rules(
        &mut self,
        index: u32,
        (network, prefix): (Ipv4Addr, u8),
        source: Ipv4Addr,
        rules: RouteRules,
    ) -> io::Result<()> {
        let mut metrics = Vec::new();
        if let Some(ms) = rules.rto_min {
            // The kernel heeds it only if it is locked.
            metrics.push(RouteMetric::Lock(1 << RTO_MIN));
            metrics.push(RouteMetric::RtoMin(ms));
        }
        if rules.quick_ack {
            metrics.push(RouteMetric::QuickAck(1));
        }
        let mut message = RouteMessage::default();
        message.header.address_family = AddressFamily::Inet;
        message.header.destination_prefix_length = prefix;
        message.header.table = netlink_packet_route::route::RouteHeader::RT_TABLE_MAIN;
        message.header.protocol = RouteProtocol::Kernel;
        message.header.scope = RouteScope::Link;
        message.header.kind = RouteType::Unicast;
        message.attributes = vec![
            RouteAttribute::Destination(RouteAddress::Inet(network)),
            RouteAttribute::Oif(index),
            RouteAttribute::PrefSource(RouteAddress::Inet(source)),
            RouteAttribute::Metrics(metrics),
        ];
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_REPLACE;
        self.ask(RouteNetlinkMessage::NewRoute(message), flags)
            .map(drop)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parameters_are_as_long_as_the_kernels() {
        let shape = Shape {
            rate: Rate::from_gbps(1),
            limit: ByteCount::new(65_536),
            burst: ByteCount::new(3_028),
            mark_above: None,
        };
        let p = shape.parameters();
        assert_eq!(p.len(), 36);
        assert_eq!(p[1], 1);
        assert_eq!(p[8..12], 125_000_000_u32.to_ne_bytes());
        assert_eq!(p[24..28], 65_536_u32.to_ne_bytes());
    }
}
