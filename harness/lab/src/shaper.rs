//! What makes a port of the kernel's the port of a small switch: a rate, and a buffer of so many
//! bytes before it that drops at the tail (the queue discipline `tbf`), and may mark above a
//! threshold. And what a route says about the TCP over it.

use super::lab::FRAME;
use super::netlink::Netlink;
use narrows::device::marking::QueueDepth;
use narrows::{ByteCount, Rate};
use netlink_bindings::rt_route::{self, OpNewrouteDo, RtmType, Rtmsg};
use netlink_bindings::tc::{OpNewqdiscDo, Request, TcRatespec, TcStats, TcTbfQopt, Tcmsg};
use nix::libc;
use std::io;
use std::net::Ipv4Addr;

/// Ethernet's bytes that the kernel does not count: check sequence, preamble, gap.
const OVERHEAD: u16 = 4 + 8 + 12;
/// The least that a frame takes on a wire, all of them counted.
const LEAST: u16 = 84;
/// `TC_LINKLAYER_ETHERNET`: the kernel computes times itself and asks for no table.
const ETHERNET: u8 = 1;
/// `TC_H_ROOT`: what is above the first discipline.
const ROOT: u32 = u32::MAX;
/// Of our discipline: `1:`.
const HANDLE: u32 = 1 << 16;
const RTAX_RTO_MIN: u32 = 13;

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
    /// The initial window in segments.
    pub(super) initial_window: Option<u32>,
}

fn clamp32(bytes: ByteCount) -> u32 {
    u32::try_from(bytes.get()).unwrap_or(u32::MAX)
}

impl Shape {
    /// A port of a lab with the usual MTU, which lets two full frames go at once after a pause and marks
    /// nothing.
    pub(super) fn port(rate: Rate, limit: ByteCount) -> Self {
        Self {
            rate,
            limit,
            burst: FRAME * 2,
            mark_above: None,
        }
    }

    fn parameters(&self) -> TcTbfQopt {
        let bytes_per_sec = self.rate.bits_per_sec() / 8;
        // cell_log, linklayer, overhead, cell_align, mpu, rate: the kernel's specification, from which
        // the structure is, has bytes where there are halves of a word.
        let mut rate = [0; TcRatespec::len()];
        rate[1] = ETHERNET;
        rate[2..4].copy_from_slice(&OVERHEAD.to_ne_bytes());
        rate[6..8].copy_from_slice(&LEAST.to_ne_bytes());
        // What does not fit here is in RATE64.
        let bytes_per_sec = u32::try_from(bytes_per_sec).unwrap_or(u32::MAX);
        rate[8..].copy_from_slice(&bytes_per_sec.to_ne_bytes());
        TcTbfQopt {
            rate: TcRatespec::new_from_array(rate),
            limit: clamp32(self.limit),
            // No peak rate, and a burst in bytes instead of time.
            ..Default::default()
        }
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
        self.tell(&shaped(index, shape))
    }

    /// Undo [`shape`](Self::shape).
    fn unshape(&mut self, index: u32) -> io::Result<()> {
        self.tell(&Request::new().op_delqdisc_do(&tcmsg(index, 0, ROOT)))
    }

    /// What a shaped interface has seen, but for marks.
    pub(super) fn queue_stats(&mut self, index: u32) -> io::Result<QueueStats> {
        // Without an echo the answer goes to those who listen to all changes.
        let request = Request::new().set_flags(libc::NLM_F_ECHO as u16);
        let request = request.op_getqdisc_do(&tcmsg(index, HANDLE, 0));
        self.ask_one(&request, |(_, of)| of.get_stats().map(QueueStats::from))
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
        self.tell(&ruled(index, (network, prefix), source, rules))
    }
}

impl From<TcStats> for QueueStats {
    fn from(stats: TcStats) -> Self {
        Self {
            drops: stats.drops.into(),
            marks: 0,
            packets: stats.qlen.into(),
            bytes: stats.backlog.into(),
        }
    }
}

fn tcmsg(index: u32, handle: u32, parent: u32) -> Tcmsg {
    Tcmsg {
        ifindex: index.cast_signed(),
        handle,
        parent,
        ..Default::default()
    }
}

fn shaped(index: u32, shape: &Shape) -> OpNewqdiscDo<'static> {
    let request = Request::new().set_change();
    let mut request = request.op_newqdisc_do(&tcmsg(index, HANDLE, ROOT));
    let options = request.encode().nested_options_tbf();
    let mut options = options.push_parms(shape.parameters());
    let bytes_per_sec = shape.rate.bits_per_sec() / 8;
    if bytes_per_sec > u64::from(u32::MAX) {
        options = options.push_rate64(bytes_per_sec);
    }
    options.push_burst(clamp32(shape.burst));
    request
}

fn ruled(
    index: u32,
    (network, prefix): (Ipv4Addr, u8),
    source: Ipv4Addr,
    rules: RouteRules,
) -> OpNewrouteDo<'static> {
    let header = Rtmsg {
        rtm_family: libc::AF_INET as u8,
        rtm_dst_len: prefix,
        rtm_table: libc::RT_TABLE_MAIN,
        rtm_protocol: libc::RTPROT_KERNEL,
        rtm_scope: libc::RT_SCOPE_LINK,
        rtm_type: RtmType::Unicast as u8,
        ..Default::default()
    };
    let request = rt_route::Request::new().set_change();
    let mut request = request.op_newroute_do(&header);
    let out = request.encode().push_dst(network.into()).push_oif(index);
    let mut metrics = out.push_prefsrc(source.into()).nested_metrics();
    if let Some(ms) = rules.rto_min {
        // The kernel heeds it only if it is locked.
        metrics = metrics.push_lock(1 << RTAX_RTO_MIN).push_rto_min(ms);
    }
    if let Some(segments) = rules.initial_window {
        metrics = metrics.push_initcwnd(segments);
    }
    if rules.quick_ack {
        metrics = metrics.push_quickack(1);
    }
    drop(metrics);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::assert_words;

    fn shape_of(gbps: u64) -> Shape {
        Shape {
            rate: Rate::from_gbps(gbps),
            limit: ByteCount::new(65_536),
            burst: ByteCount::new(3_028),
            mark_above: None,
        }
    }

    #[test]
    fn disciplines() {
        assert_words(
            &shaped(5, &shape_of(1)),
            "00000000 05000000 00000100 ffffffff 00000000
             08000100 74626600
             34000280
               28000100
                 00011800 00005400 40597307
                 00000000 00000000 00000000
                 00000100 00000000 00000000
               08000600 d40b0000",
        );
        // More bytes in a second than fit into four.
        assert_words(
            &shaped(5, &shape_of(100)),
            "00000000 05000000 00000100 ffffffff 00000000
             08000100 74626600
             40000280
               28000100
                 00011800 00005400 ffffffff
                 00000000 00000000 00000000
                 00000100 00000000 00000000
               0c000400 00dd0ee9 02000000
               08000600 d40b0000",
        );
    }

    #[test]
    fn routes() {
        let to = (Ipv4Addr::new(10, 77, 0, 0), 24);
        let source = Ipv4Addr::new(10, 77, 0, 254);
        let rules = RouteRules {
            quick_ack: true,
            rto_min: Some(5),
            initial_window: Some(3),
        };
        assert_words(
            &ruled(5, to, source, rules),
            "02180000 fe02fd01 00000000
             08000100 0a4d0000
             08000400 05000000
             08000700 0a4d00fe
             24000880
               08000100 00200000
               08000d00 05000000
               08000b00 03000000
               08000f00 01000000",
        );
    }
}
