//! Two hosts of the kernel's on one wire: a veth whose ends are in namespaces without names, which
//! are gone with the program however that ends.

use crate::LiveError;
use crate::lab::{self, Owned};
use crate::netlink::{Netlink, offload};
use crate::netns::Namespace;
use crate::shaper::{RouteRules, Shape};
use crate::sockets;
use narrows::device::marking::{Draw, EcnDraw};
use socket2::Socket;
use std::fs;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpStream};
use std::os::fd::AsFd;
use std::time::Duration;

const INTERFACE: &str = lab::KERNEL_INTERFACE;
const PREFIX: u8 = 24;
const PORT: u16 = 5_001;

/// Both hosts.
#[derive(Debug)]
pub(crate) struct Pair {
    pub(crate) a: End,
    pub(crate) b: End,
}

/// One of them.
#[derive(Debug)]
pub(crate) struct End {
    namespace: Namespace,
    number: u8,
    index: u32,
}

/// What the TCP and the IP of a host have counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counted {
    /// Packets that came in: one for all segments that were merged before.
    pub(crate) packets_in: u64,
    /// Segments that left, without those sent again.
    pub(crate) segments_out: u64,
    /// Segments sent again.
    pub(crate) again: u64,
}

impl Counted {
    /// What was counted since there was `before`.
    pub(crate) fn since(&self, before: &Self) -> Self {
        Self {
            packets_in: self.packets_in - before.packets_in,
            segments_out: self.segments_out - before.segments_out,
            again: self.again - before.again,
        }
    }
}

impl Pair {
    /// With addresses and no shaping.
    pub(crate) fn new() -> Result<Self, LiveError> {
        let failed = |e| LiveError::io("make two hosts of the kernel's", e);
        Self::make().map_err(failed)
    }

    fn make() -> io::Result<Self> {
        let (a, b) = (Namespace::new()?, Namespace::new()?);
        let index = a.run(|| {
            let mut netlink = Netlink::open()?;
            netlink.add_veth(INTERFACE, INTERFACE, b.as_fd(), lab::MTU)?;
            set_up(&mut netlink, 1)
        })??;
        let other = b.run(|| set_up(&mut Netlink::open()?, 2))??;
        let end = |namespace, number, index| End {
            namespace,
            number,
            index,
        };
        let pair = Self {
            a: end(a, 1, index),
            b: end(b, 2, other),
        };
        for end in [&pair.a, &pair.b] {
            end.set("tcp_no_metrics_save", "1")?;
        }
        Ok(pair)
    }

    /// A connection from `a` to `b` with CUBIC and its two ends. `prepare` has each socket before it connects or
    /// listens.
    pub(crate) fn connect(
        &self,
        prepare: impl Fn(&Socket) -> io::Result<()> + Sync,
    ) -> io::Result<(TcpStream, TcpStream)> {
        let new = || {
            let socket = sockets::cubic()?;
            prepare(&socket)?;
            Ok(socket)
        };
        let listener = sockets::listen(&self.b.namespace, PORT, 1, new)?;
        let to = SocketAddr::new(self.b.address(), PORT);
        let stream = sockets::connect(&self.a.namespace, to, new)?;
        let accepted = sockets::accept(&listener)?;
        accepted.set_nodelay(true)?;
        Ok((stream, accepted))
    }
}

/// What both had counted when data began to flow from `a` to `b`, and nothing but acknowledgements
/// back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Merged {
    a: Counted,
    b: Counted,
}

impl Merged {
    /// Segments that `a` has sent since, for each packet that `b` has handled.
    pub(crate) fn segments_per_packet(&self, pair: &Pair) -> io::Result<f64> {
        let sent = pair.a.counted()?.since(&self.a);
        let handled = pair.b.counted()?.since(&self.b).packets_in;
        Ok((sent.segments_out + sent.again) as f64 / handled.max(1) as f64)
    }
}

impl Pair {
    /// From now on.
    pub(crate) fn merged(&self) -> io::Result<Merged> {
        Ok(Merged {
            a: self.a.counted()?,
            b: self.b.counted()?,
        })
    }
}

impl Drop for Pair {
    fn drop(&mut self) {
        // Its namespaces go when the kernel finds the time.
        let index = self.a.index;
        let _ = self.a.namespace.run(|| Netlink::open()?.remove(index));
    }
}

fn set_up(netlink: &mut Netlink, number: u8) -> io::Result<u32> {
    let lo = netlink.link("lo")?.index;
    netlink.set_up(lo)?;
    let own = netlink.link(INTERFACE)?.index;
    netlink.set_up(own)?;
    netlink.add_address(own, lab::addresses(number)[0], PREFIX)?;
    Ok(own)
}

impl End {
    /// The kernel's host of a lab.
    pub(crate) fn of(lab: &Owned) -> Result<Self, LiveError> {
        let failed = |e| LiveError::io("look at the kernel's host", e);
        let namespace = lab.kernel().try_clone().map_err(failed)?;
        let own = || Ok::<_, io::Error>(Netlink::open()?.link(INTERFACE)?.index);
        let index = namespace.run(own).and_then(|index| index);
        Ok(Self {
            index: index.map_err(failed)?,
            namespace,
            number: lab::KERNEL,
        })
    }

    /// Its namespace.
    pub(crate) fn namespace(&self) -> &Namespace {
        &self.namespace
    }

    pub(crate) fn address(&self) -> IpAddr {
        lab::addresses(self.number)[0]
    }

    /// Sets a variable of the TCP, by its name below /proc/sys/net/ipv4.
    pub(crate) fn set(&self, name: &str, value: &str) -> io::Result<()> {
        self.namespace.set(name, value)
    }

    /// Gives the route to the other host rules.
    pub(crate) fn set_rules(&self, rules: RouteRules) -> io::Result<()> {
        let IpAddr::V4(own) = self.address() else {
            return Ok(());
        };
        let to = (Ipv4Addr::from_bits(own.to_bits() & !0xff), PREFIX);
        let tell = || Netlink::open()?.set_route_rules(self.index, to, own, rules);
        self.namespace.run(tell)?
    }

    /// Shapes what leaves it.
    pub(crate) fn shape(&self, shape: &Shape) -> io::Result<()> {
        self.namespace
            .run(|| Netlink::open()?.shape(self.index, shape))?
    }

    /// Packets that its shaper dropped.
    pub(crate) fn drops(&self) -> io::Result<u64> {
        let look = || Netlink::open()?.queue_stats(self.index);
        Ok(self.namespace.run(look)??.drops)
    }

    /// Merges what it receives, for which its end of the wire polls as a NIC does. The sender's
    /// super-frames must be cut ([`cut`](Self::cut)), or they come whole and are not polled for.
    pub(crate) fn merge(&self) -> io::Result<()> {
        self.namespace
            .run(|| offload::switch(self.index, offload::GRO, true))?
    }

    /// Cuts super-frames into segments before they leave it.
    pub(crate) fn cut(&self) -> io::Result<()> {
        let switch = |name: &&str| offload::switch(self.index, name, false);
        self.namespace
            .run(|| offload::TSO.iter().try_for_each(switch))?
    }

    /// Lets aggregates wait so long for more, across polls (`gro_flush_timeout`), and as many empty
    /// polls come before an interrupt is needed (`napi_defer_hard_irqs`).
    pub(crate) fn hold_aggregates(&self, time: Duration, polls: u32) -> io::Result<()> {
        let set = |file, value: String| self.namespace.write_attribute(INTERFACE, file, &value);
        set("napi_defer_hard_irqs", polls.to_string())?;
        set("gro_flush_timeout", time.as_nanos().to_string())
    }

    /// Lets no super-frame that leaves it have more segments.
    pub(crate) fn limit_segments(&self, most: u32) -> io::Result<()> {
        self.namespace
            .run(|| Netlink::open()?.limit_segments(self.index, most))?
    }

    /// Marks packets that come to it, before they are merged.
    pub(crate) fn mark(&self, draw: Draw) -> Result<EcnDraw, LiveError> {
        let attached = self.namespace.run(|| EcnDraw::attach(self.index, draw));
        let failed = |e| LiveError::io("mark what comes to a host of the kernel's", e);
        attached.map_err(failed)?.map_err(LiveError::marking)
    }

    /// What it has counted.
    pub(crate) fn counted(&self) -> io::Result<Counted> {
        let read = || fs::read_to_string("/proc/thread-self/net/snmp");
        let text = self.namespace.run(read)??;
        let value = |protocol: &str, name: &str| {
            counter(&text, protocol, name).ok_or_else(|| {
                let why = format!("the kernel has no counter {protocol} {name}");
                io::Error::new(io::ErrorKind::InvalidData, why)
            })
        };
        Ok(Counted {
            packets_in: value("Ip", "InReceives")?,
            segments_out: value("Tcp", "OutSegs")?,
            again: value("Tcp", "RetransSegs")?,
        })
    }
}

/// A counter of `/proc/net/snmp`: a line of names of a protocol, then one of numbers.
fn counter(text: &str, protocol: &str, name: &str) -> Option<u64> {
    let lines = text.lines().filter_map(|line| line.split_once(": "));
    let mut lines = lines.filter(|(of, _)| *of == protocol);
    let (names, values) = (lines.next()?.1, lines.next()?.1);
    let at = names.split(' ').position(|n| n == name)?;
    values.split(' ').nth(at)?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_stand_below_their_names() {
        let text = "Ip: Forwarding InReceives\nIp: 1 77\nTcp: InSegs OutSegs\nTcp: 5 6\n";
        assert_eq!(counter(text, "Ip", "InReceives"), Some(77));
        assert_eq!(counter(text, "Tcp", "OutSegs"), Some(6));
        assert_eq!(counter(text, "Tcp", "InReceives"), None);
        assert_eq!(counter("", "Tcp", "InSegs"), None);
    }
}
