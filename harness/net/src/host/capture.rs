//! Writes what a run sends as a capture file.
//!
//! The capture is taken where an incast is decided: at the switch, on the link of one host, the
//! client ([`Link`]). A packet appears once, at the instant when it reaches the queue that it has to pass;
//! what becomes of it there and on the link behind is its comment: marked, trimmed, dropped, lost. So the
//! capture holds each packet of a star's client in the order in which the switch saw them, the
//! dropped ones where they would have stood, and a reader's analysis of retransmissions, duplicate
//! ACKs and round trips (which then hold the queueing delay) comes out right. Taken at the client
//! the dropped packets would be missing; taken at both, each packet would look like a
//! retransmission of itself.
//!
//! In a network of several switches it is the switch that the host is connected with. What other
//! switches and links do is not in the capture: a packet to the host that was dropped before that
//! switch is missing, and one from the host that was dropped behind it looks like any other.
//!
//! What the host's own link lost on its way to the switch stands where it was lost, once as well.
//! What a NIC refused was never sent, and is not there: its TCP sends it later.
//!
//! # At the host
//! With [`Side::Host`] it is taken where a host's own tcpdump takes it: between its TCP and its NIC. With
//! segmentation offload a packet is what the TCP handed over, up to 64 KB with one header, where the
//! switch sees the segments; with receive offload it is the aggregate. A packet stands at the instant
//! when the NIC took it or handed it up; what was dropped on the way is missing, or never came. Left
//! out: the time in a queueing discipline, behind which the kernel has its tap.
//!
//! There is one interface: libpcap reads no more of raw IP.

use super::SimPacket;
use crate::net::graph::{Graph, NodeId};
use crate::net::packet::{HostId, Packet, PortId};
use crate::net::stats::DropReason;
use crate::sim::tap::{Tap, TapEvent};
use crate::sim::time::SimTime;
use narrows::ByteCount;
use narrows::endpoint::demux::FourTuple;
use narrows::pcapng::{Direction, Interface, Record, Writer};
use std::collections::{HashMap, HashSet, VecDeque};
use std::io::{self, Write};
use std::net::IpAddr;

const MARKED: &str = "marked CE";
const TRIMMED: &str = "trimmed: payload cut";

/// On which side of a host's link a capture is taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Side {
    /// At the switch: segments as they are on the wire, each with what becomes of it.
    #[default]
    Switch,
    /// At the host, above its offloads: what its TCP hands the NIC, and what the NIC hands up.
    Host,
}

/// The link of a host, as its switch sees it.
#[derive(Clone, Debug)]
pub struct Link {
    host: HostId,
    address: IpAddr,
    /// By port.
    ports: Vec<Stands>,
}

/// Where a port stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Stands {
    /// At the switch, leading to a host,
    Before(HostId),
    /// or to another switch.
    Here,
    /// At a switch next to it.
    Next,
    /// Anywhere else.
    Away,
}

impl Link {
    /// The link of `host`, which has `address`; `None` if it has no link.
    pub fn of(graph: &Graph, host: HostId, address: IpAddr) -> Option<Self> {
        let (_, switch) = graph.ends(PortId(host.0))?;
        let ends = || graph.ports().map(|port| graph.ends(port));
        let near: HashSet<NodeId> = ends()
            .flatten()
            .filter_map(|(from, to)| (from == switch).then_some(to))
            .collect();
        let stands = |ends: Option<(NodeId, NodeId)>| match ends {
            Some((from, NodeId::Host(host))) if from == switch => Stands::Before(host),
            Some((from, _)) if from == switch => Stands::Here,
            Some((from @ NodeId::Switch(_), _)) if near.contains(&from) => Stands::Next,
            _ => Stands::Away,
        };
        Some(Self {
            host,
            address,
            ports: ends().map(stands).collect(),
        })
    }

    /// Which way `packet` goes on the link, if it passes there.
    fn direction(&self, packet: &SimPacket) -> Option<Direction> {
        let ends = packet.for_receiver();
        if ends.local.ip() == self.address {
            Some(Direction::Outbound)
        } else if ends.remote.ip() == self.address {
            Some(Direction::Inbound)
        } else {
            None
        }
    }

    fn stands(&self, port: PortId) -> Stands {
        let stands = self.ports.get(port.index());
        stands.copied().unwrap_or(Stands::Away)
    }

    /// Whether `port` belongs to the switch.
    fn is_here(&self, port: PortId) -> bool {
        matches!(self.stands(port), Stands::Before(_) | Stands::Here)
    }

    /// Whether `port` is the NIC at the link.
    fn is_nic(&self, port: PortId) -> bool {
        port.0 == self.host.0
    }

    /// Whether nothing is between the switch and `host`.
    fn is_next(&self, host: HostId) -> bool {
        self.ports.contains(&Stands::Before(host))
    }
}

/// A tap that writes pcapng, on the link of one host: at the switch, or at the host.
///
/// Outbound is what goes away from where it is taken: at the switch what is on its way to the host, at
/// the host what it sends. Times are those of the run, which begins at 0, rounded down to nanoseconds.
pub struct Capture<'a> {
    /// `None` once it is finished.
    file: Option<Writer<&'a mut (dyn Write + Send)>>,
    link: Link,
    side: Side,
    interface: Interface,
    /// Seen and not written: the first has not met its fate.
    waiting: VecDeque<Seen>,
    /// How many were written.
    written: u64,
    /// By connection and direction, which of those waiting have not met their fate, by number.
    open: HashMap<FourTuple, VecDeque<u64>>,
    scratch: Vec<u8>,
}

/// A packet that the switch has seen.
struct Seen {
    at: SimTime,
    direction: Direction,
    comment: Option<&'static str>,
    packet: SimPacket,
    fate: Fate,
}

/// What is known of a packet's fate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fate {
    /// The queue may still drop it.
    Queue,
    /// It leaves the queue; the link may lose it.
    Link,
    /// All.
    Known,
}

impl<'a> Capture<'a> {
    /// Begin a capture on `link`, at its `side`, with the first `snap_length` bytes of each packet,
    /// or all.
    ///
    /// # Errors
    /// When the header cannot be written.
    pub fn new(
        out: &'a mut (dyn Write + Send),
        link: Link,
        side: Side,
        snap_length: Option<ByteCount>,
    ) -> io::Result<Self> {
        let comment = match side {
            Side::Switch => {
                "Simulated; time 0 is the start of the run. Each packet stands where it reaches the \
                 switch's queue. Find what was dropped, lost or marked with the display filters \
                 frame.comment contains \"dropped\", \"lost\" and \"marked\"."
            }
            Side::Host => {
                "Simulated; time 0 is the start of the run. Taken at the host, above segmentation and \
                 receive offload: packets may be longer than those on the wire."
            }
        };
        let mut file = Writer::new(
            out,
            concat!("narrows ", env!("CARGO_PKG_VERSION")),
            "narrows simulated network",
            comment,
        )?;
        file.set_snap_length(snap_length);
        let address = link.address;
        let interface = match side {
            Side::Switch => file.interface(
                "switch",
                &format!(
                    "at the switch, the link of {address}: outbound is towards it, on arrival at the \
                     port's queue; inbound is from it"
                ),
            ),
            Side::Host => file.interface(
                "host",
                &format!(
                    "at {address}: outbound is what its TCP gave to its NIC, inbound what it got"
                ),
            ),
        };
        Ok(Self {
            file: Some(file),
            link,
            side,
            interface,
            waiting: VecDeque::new(),
            written: 0,
            open: HashMap::new(),
            scratch: Vec::new(),
        })
    }

    /// Write out what is held back.
    ///
    /// # Errors
    /// The first error that occurred while writing.
    pub fn finish(mut self) -> io::Result<()> {
        self.write_rest();
        self.file.take().map_or(Ok(()), Writer::finish)
    }

    /// The host's own tap sees what happens.
    fn at_host(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let direction = match event {
            TapEvent::NicSent { host, .. } if host == self.link.host => Direction::Outbound,
            TapEvent::Received { host } if host == self.link.host => Direction::Inbound,
            _ => return,
        };
        self.waiting.push_back(Seen {
            at,
            direction,
            comment: None,
            packet: packet.clone(),
            fate: Fate::Known,
        });
        self.write_known();
    }

    /// The switch sees `packet`.
    fn see(&mut self, at: SimTime, packet: &SimPacket, comment: Option<&'static str>, fate: Fate) {
        let Some(direction) = self.link.direction(packet) else {
            return;
        };
        if fate != Fate::Known {
            let number = self.written + self.waiting.len() as u64;
            let open = self.open.entry(packet.for_receiver()).or_default();
            open.push_back(number);
        }
        self.waiting.push_back(Seen {
            at,
            direction,
            comment,
            packet: packet.clone(),
            fate,
        });
        self.write_known();
    }

    /// `packet`, of which no more was known than `fates`, has met its fate, with or without CE
    /// (`ce`); whether the switch has seen it. Links deliver in order, so it is the first of its connection, or near it.
    fn settle(
        &mut self,
        packet: &SimPacket,
        ce: bool,
        fates: &[Fate],
        comment: Option<&'static str>,
    ) -> bool {
        let ends = packet.for_receiver();
        let Some(open) = self.open.get_mut(&ends) else {
            return false;
        };
        let at = |number: u64| (number - self.written) as usize;
        let this = |number: &u64| {
            let seen = &self.waiting[at(*number)];
            fates.contains(&seen.fate) && same_segment(&seen.packet, packet)
        };
        let Some(place) = open.iter().position(this) else {
            return false;
        };
        let Some(number) = open.remove(place) else {
            return false;
        };
        if open.is_empty() {
            self.open.remove(&ends);
        }
        let seen = &mut self.waiting[at(number)];
        seen.fate = Fate::Known;
        seen.comment = comment.or(seen.comment);
        // A queue that decides at its head has marked it since.
        if ce && !seen.packet.is_ce() {
            seen.packet.mark_ce();
            seen.comment = comment.or(Some(MARKED));
        }
        self.write_known();
        true
    }

    /// `packet` is at `port` of another switch, where it may have been `marked`: if it came from here,
    /// it has left. That is asked at the next switch alone: further on an equal one that is still
    /// here would be taken for it.
    fn left(&mut self, port: PortId, packet: &SimPacket, marked: bool) {
        let from_here = self.link.direction(packet) == Some(Direction::Inbound);
        if !from_here || self.link.stands(port) != Stands::Next {
            return;
        }
        let ce = packet.is_ce() && !marked;
        self.settle(packet, ce, &[Fate::Queue, Fate::Link], None);
    }

    /// Something has happened to `packet` in its queue, which is not its fate.
    fn comment(&mut self, packet: &SimPacket, comment: &'static str) {
        let Some(open) = self.open.get(&packet.for_receiver()) else {
            return;
        };
        let at = |number: &u64| (number - self.written) as usize;
        let this = |i: &usize| {
            let seen = &self.waiting[*i];
            seen.fate == Fate::Queue && same_segment(&seen.packet, packet)
        };
        if let Some(i) = open.iter().map(at).find(this) {
            self.waiting[i].comment = Some(comment);
        }
    }

    /// Write the first ones, up to the first whose fate is open.
    fn write_known(&mut self) {
        while self.waiting.front().is_some_and(|s| s.fate == Fate::Known) {
            self.write_first();
        }
    }

    fn write_rest(&mut self) {
        while !self.waiting.is_empty() {
            self.write_first();
        }
        self.open.clear();
    }

    fn write_first(&mut self) {
        let (Some(seen), Some(file)) = (self.waiting.pop_front(), &mut self.file) else {
            return;
        };
        self.written += 1;
        seen.packet.write(&mut self.scratch);
        file.packet(&Record {
            interface: self.interface,
            nanos: seen.at.as_nanos(),
            direction: seen.direction,
            comment: seen.comment,
            bytes: &self.scratch,
        });
    }
}

/// Whether both are the same segment, whatever a queue marked or a link damaged.
fn same_segment(a: &SimPacket, b: &SimPacket) -> bool {
    let ((_, a, a_payload), (_, b, b_payload)) = (a.parts(), b.parts());
    a == b && a_payload == b_payload
}

impl Drop for Capture<'_> {
    /// What an interrupted run has shown is kept.
    fn drop(&mut self) {
        self.write_rest();
    }
}

impl Tap<SimPacket> for Capture<'_> {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        if self.side == Side::Host {
            return self.at_host(at, event, packet);
        }
        match event {
            // Shown when it reaches the switch.
            TapEvent::NicSent { .. } | TapEvent::NicRefused { .. } | TapEvent::Reached { .. } => {}
            TapEvent::PortQueued { port, marked, .. } if !self.link.is_here(port) => {
                self.left(port, packet, marked);
            }
            TapEvent::PortQueued {
                marked,
                trimmed,
                departs,
                ..
            } => {
                let fate = match departs {
                    SimTime::MAX => Fate::Queue,
                    _ => Fate::Link,
                };
                if trimmed {
                    let whole = packet.clone().untrimmed();
                    return self.see(at, &whole, Some(TRIMMED), fate);
                }
                self.see(at, packet, marked.then_some(MARKED), fate);
            }
            // It is seen to be marked when it comes out.
            TapEvent::Marked { .. } => {}
            TapEvent::Trimmed { port } => {
                if self.link.is_here(port) {
                    self.comment(packet, TRIMMED);
                }
            }
            TapEvent::Received { host } => {
                if self.link.is_next(host) {
                    self.settle(packet, packet.is_ce(), &[Fate::Queue, Fate::Link], None);
                }
            }
            TapEvent::Dropped { port, .. }
                if !self.link.is_here(port) && !self.link.is_nic(port) =>
            {
                self.left(port, packet, false);
            }
            TapEvent::Dropped { port, reason } => {
                let what = match reason {
                    DropReason::Lost => "lost on a link",
                    DropReason::Full => "dropped: full",
                    DropReason::OverThreshold => "dropped: over its share of the buffer pool",
                    DropReason::PoolExhausted => "dropped: buffer pool exhausted",
                    DropReason::Early => "dropped: early",
                    DropReason::NoRoute => "dropped: no route",
                    DropReason::PacketLimit => "dropped: packet limit",
                    DropReason::PushOut => "dropped: pushed out",
                    DropReason::HeaderQueueFull => "dropped: header queue full",
                    DropReason::LinkDown => "lost: the link went down",
                    DropReason::NicReset => "lost: the NIC was reset",
                    DropReason::RingFull => "dropped: the host was paused and its ring full",
                    DropReason::TooLong => "lost: longer than the link carries",
                };
                // What the NIC's link loses was never seen.
                let at_nic = self.link.is_nic(port);
                let seen = match reason {
                    DropReason::Lost
                    // Of the next switch, if it comes from a port of this one.
                    | DropReason::NoRoute
                    | DropReason::LinkDown
                    | DropReason::NicReset
                    | DropReason::RingFull
                    | DropReason::TooLong => {
                        !at_nic
                            && self.settle(
                                packet,
                                packet.is_ce(),
                                &[Fate::Queue, Fate::Link],
                                Some(what),
                            )
                    }
                    DropReason::Early | DropReason::PushOut | DropReason::HeaderQueueFull => {
                        self.settle(packet, packet.is_ce(), &[Fate::Queue], Some(what))
                    }
                    _ => false,
                };
                if !seen {
                    self.see(at, packet, Some(what), Fate::Known);
                }
            }
        }
    }
}
