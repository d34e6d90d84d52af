//! What makes a port of the kernel's the port of a small switch: a rate, and a buffer of so many
//! bytes before it that drops at the tail (the queue discipline `tbf`), and may mark above a
//! threshold. And what a route says about the TCP over it.

use super::lab::FRAME;
use super::netlink::{Answer, Netlink, Request, malformed, u32_at};
use narrows::device::marking::QueueDepth;
use narrows::{ByteCount, Rate};
use nix::libc;
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
/// Bytes of `struct tcmsg`.
const TCMSG: usize = 20;
/// `TC_H_ROOT`: what is above the first discipline.
const ROOT: u32 = u32::MAX;
/// Of our discipline: `1:`.
const HANDLE: u32 = 1 << 16;
const RTAX_LOCK: u16 = 1;
const RTAX_INITCWND: u16 = 11;
const RTAX_RTO_MIN: u16 = 13;
const RTAX_QUICKACK: u16 = 15;
/// What makes something new, or takes the place of what is there.
const REPLACE: libc::c_int = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_REPLACE;

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
        self.tell(&shaped(index, shape))
    }

    /// Undo [`shape`](Self::shape).
    fn unshape(&mut self, index: u32) -> io::Result<()> {
        self.tell(&unshaped(index))
    }

    /// What a shaped interface has seen, but for marks.
    pub(super) fn queue_stats(&mut self, index: u32) -> io::Result<QueueStats> {
        let answers = self.ask(&stats_of(index))?;
        QueueStats::of(&answers)
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

impl QueueStats {
    /// The first of the answers that says them.
    fn of(answers: &[Answer]) -> io::Result<Self> {
        for answer in answers.iter().filter(|a| a.kind == libc::RTM_NEWQDISC) {
            let (_, attributes) = answer.parts::<TCMSG>()?;
            for attribute in attributes {
                let attribute = attribute?;
                if attribute.kind == libc::TCA_STATS {
                    let stats = Self::read(attribute.value);
                    return stats.ok_or_else(|| malformed("counters are too short"));
                }
            }
        }
        Err(io::Error::new(
            io::ErrorKind::NotFound,
            "no queue discipline",
        ))
    }

    /// `struct tc_stats`: bytes (64 bits), packets, drops, overlimits, bps, pps, qlen, backlog.
    fn read(stats: &[u8]) -> Option<Self> {
        Some(Self {
            drops: u32_at(stats, 12)?.into(),
            marks: 0,
            packets: u32_at(stats, 28)?.into(),
            bytes: u32_at(stats, 32)?.into(),
        })
    }
}

/// `struct tcmsg`: family, index, handle, parent, info.
fn tcmsg(index: u32, handle: u32, parent: u32) -> [u8; TCMSG] {
    let mut header = [0; TCMSG];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&handle.to_ne_bytes());
    header[12..16].copy_from_slice(&parent.to_ne_bytes());
    header
}

fn shaped(index: u32, shape: &Shape) -> Request {
    Request::new(libc::RTM_NEWQDISC, REPLACE, |out| {
        out.fixed(&tcmsg(index, HANDLE, ROOT));
        out.string(libc::TCA_KIND, "tbf");
        out.nested(libc::TCA_OPTIONS, |out| {
            out.bytes(TCA_TBF_PARMS, &shape.parameters());
            let bytes_per_sec = shape.rate.bits_per_sec() / 8;
            if bytes_per_sec > u64::from(u32::MAX) {
                out.u64(TCA_TBF_RATE64, bytes_per_sec);
            }
            out.u32(TCA_TBF_BURST, clamp32(shape.burst));
        });
    })
}

fn unshaped(index: u32) -> Request {
    Request::new(libc::RTM_DELQDISC, libc::NLM_F_ACK, |out| {
        out.fixed(&tcmsg(index, 0, ROOT));
    })
}

fn stats_of(index: u32) -> Request {
    // Without an echo the answer goes to those who listen to all changes.
    let flags = libc::NLM_F_ACK | libc::NLM_F_ECHO;
    Request::new(libc::RTM_GETQDISC, flags, |out| {
        out.fixed(&tcmsg(index, HANDLE, 0));
    })
}

fn ruled(
    index: u32,
    (network, prefix): (Ipv4Addr, u8),
    source: Ipv4Addr,
    rules: RouteRules,
) -> Request {
    Request::new(libc::RTM_NEWROUTE, REPLACE, |out| {
        // `struct rtmsg`: family, lengths of the prefixes of destination and source, type of
        // service, table, protocol, scope, type, flags.
        out.fixed(&[libc::AF_INET as u8, prefix, 0, 0]);
        out.fixed(&[
            libc::RT_TABLE_MAIN,
            libc::RTPROT_KERNEL,
            libc::RT_SCOPE_LINK,
            libc::RTN_UNICAST,
        ]);
        out.fixed(&[0; 4]);
        out.bytes(libc::RTA_DST, &network.octets());
        out.u32(libc::RTA_OIF, index);
        out.bytes(libc::RTA_PREFSRC, &source.octets());
        out.nested(libc::RTA_METRICS, |out| {
            if let Some(ms) = rules.rto_min {
                // The kernel heeds it only if it is locked.
                out.u32(RTAX_LOCK, 1 << RTAX_RTO_MIN);
                out.u32(RTAX_RTO_MIN, ms);
            }
            if let Some(segments) = rules.initial_window {
                out.u32(RTAX_INITCWND, segments);
            }
            if rules.quick_ack {
                out.u32(RTAX_QUICKACK, 1);
            }
        });
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Writer;

    fn shape_of(gbps: u64) -> Shape {
        Shape {
            rate: Rate::from_gbps(gbps),
            limit: ByteCount::new(65_536),
            burst: ByteCount::new(3_028),
            mark_above: None,
        }
    }

    #[test]
    fn parameters_are_as_long_as_the_kernels() {
        let p = shape_of(1).parameters();
        assert_eq!(p.len(), 36);
        assert_eq!(p[1], 1);
        assert_eq!(p[8..12], 125_000_000_u32.to_ne_bytes());
        assert_eq!(p[24..28], 65_536_u32.to_ne_bytes());
    }

    #[test]
    fn disciplines() {
        shaped(5, &shape_of(1)).assert_words(
            "60000000 24000505 07000000 00000000
             00000000 05000000 00000100 ffffffff 00000000
             08000100 74626600
             34000200
               28000100
                 00011800 00005400 40597307
                 00000000 00000000 00000000
                 00000100 00000000 00000000
               08000600 d40b0000",
        );
        // More bytes in a second than fit into four.
        shaped(5, &shape_of(100)).assert_words(
            "6c000000 24000505 07000000 00000000
             00000000 05000000 00000100 ffffffff 00000000
             08000100 74626600
             40000200
               28000100
                 00011800 00005400 ffffffff
                 00000000 00000000 00000000
                 00000100 00000000 00000000
               0c000400 00dd0ee9 02000000
               08000600 d40b0000",
        );
        unshaped(5).assert_words(
            "24000000 25000500 07000000 00000000
             00000000 05000000 00000000 ffffffff 00000000",
        );
        stats_of(5).assert_words(
            "24000000 26000d00 07000000 00000000
             00000000 05000000 00000100 00000000 00000000",
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
        ruled(5, to, source, rules).assert_words(
            "58000000 18000505 07000000 00000000
             02180000 fe02fd01 00000000
             08000100 0a4d0000
             08000400 05000000
             08000700 0a4d00fe
             24000800
               08000100 00200000
               08000d00 05000000
               08000b00 03000000
               08000f00 01000000",
        );
        ruled(5, to, source, RouteRules::default()).assert_words(
            "38000000 18000505 07000000 00000000
             02180000 fe02fd01 00000000
             08000100 0a4d0000
             08000400 05000000
             08000700 0a4d00fe
             04000800",
        );
    }

    /// An answer with counters that are each a number of its own.
    fn counters(kind: u16, len: usize) -> Answer {
        let counters: Vec<u8> = (0..10_u32).flat_map(u32::to_ne_bytes).collect();
        let mut out = Writer::default();
        out.fixed(&tcmsg(5, HANDLE, ROOT));
        out.string(libc::TCA_KIND, "tbf");
        out.bytes(libc::TCA_STATS, &counters[..len]);
        Answer::new(kind, out.finish().unwrap())
    }

    #[test]
    fn counters_are_found_among_the_answers() {
        let other = counters(libc::RTM_NEWLINK, 40);
        // The kernel's structure is 36 bytes and ends at a multiple of eight.
        for len in [36, 40] {
            let stats = QueueStats::of(&[other.clone(), counters(libc::RTM_NEWQDISC, len)]);
            let expected = QueueStats {
                drops: 3,
                marks: 0,
                packets: 7,
                bytes: 8,
            };
            assert_eq!(stats.unwrap(), expected);
        }
        let none = QueueStats::of(&[other]).unwrap_err();
        assert_eq!(none.kind(), io::ErrorKind::NotFound);
        let odd = [
            counters(libc::RTM_NEWQDISC, 35),
            counters(libc::RTM_NEWQDISC, 0),
            Answer::new(libc::RTM_NEWQDISC, vec![0; 19]),
            Answer::new(libc::RTM_NEWQDISC, vec![0; 22]),
        ];
        for odd in odd {
            let e = QueueStats::of(&[odd]).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        }
    }
}
