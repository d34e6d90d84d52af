//! `counters`: packets as a host's own counters and tcpdump have them, above its offloads.

use super::at_host::{AtHost, Flows};
use super::instrument::{Instrument, Listener, View};
use super::kind::Probe;
use super::reading::Reading;
use super::site::Site;
use crate::host::SimPacket;
use crate::invalid::Invalid;
use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::metric::Measured;
use crate::net::packet::HostId;
use crate::sim::time::SimTime;
use narrows::endpoint::demux::FourTuple;
use narrows::wire::Flags;
use std::cell::RefCell;
use std::collections::HashMap;
use std::rc::Rc;

/// What hosts send and get after the warm-up, counted between TCP and NIC: with segmentation offload
/// ([`NicSpec::segmentation`](crate::net::nic::NicSpec::segmentation)) what leaves as many segments is
/// one, with receive offload an aggregate is one. `metric.segments` and the counters of ports have
/// what is on the wire.
///
/// A packet with data that begins below what its connection has sent is sent again. What the NIC
/// refused is not there. So a host's tcpdump counts, and the interface's counters; `netstat -s` of
/// Linux counts segments (`TcpOutSegs`, `TcpRetransSegs`).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CountersProbe {
    /// Which hosts.
    pub on: String,
}

impl Default for CountersProbe {
    fn default() -> Self {
        Self { on: "*".to_owned() }
    }
}

impl Knobs for CountersProbe {
    const TABLE: &'static [Knob<Self>] =
        &[knob! { on: "on", "hosts", Kind::Hosts, "Which hosts." }];
}

impl Probe for CountersProbe {
    #[inline]
    fn clone_box(&self) -> Box<dyn Probe> {
        Box::new(self.clone())
    }

    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let watch = |host: HostId| -> Box<dyn Instrument> {
            let flows = Counted::default();
            Box::new(Watch {
                name: on.host_name(host),
                seen: Rc::new(RefCell::new(AtHost { host, flows })),
            })
        };
        let hosts = on.hosts("on", &self.on)?;
        Ok(hosts.into_iter().map(watch).collect())
    }
}

/// A host that is counted.
#[derive(Debug)]
struct Watch {
    name: String,
    seen: Rc<RefCell<AtHost<Counted>>>,
}

#[derive(Debug, Default)]
struct Counted {
    /// Where what each connection has sent ends in the stream.
    sent: HashMap<FourTuple, Sent>,
    counts: Counts,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sent {
    end: u64,
    /// Whether something was sent again after the warm-up.
    again: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Counts {
    out: u64,
    data: u64,
    bytes: u64,
    again: u64,
    again_bytes: u64,
    again_flows: u64,
    received: u64,
}

impl Flows for Counted {
    fn left(&mut self, _: SimTime, ends: FourTuple, packet: &SimPacket) {
        self.counts.out += 1;
        let (_, tcp, payload) = packet.parts();
        if tcp.flags.contains(Flags::SYN) {
            // Another connection may have had these ends.
            self.sent.remove(&ends);
        }
        if payload.len == 0 {
            return;
        }
        let (begin, len) = (payload.offset, u64::from(payload.len));
        self.counts.data += 1;
        self.counts.bytes += len;
        let sent = self.sent.entry(ends).or_default();
        if begin < sent.end {
            self.counts.again += 1;
            self.counts.again_bytes += len;
            self.counts.again_flows += u64::from(!std::mem::replace(&mut sent.again, true));
        }
        sent.end = sent.end.max(begin + len);
    }

    fn came(&mut self, _: SimTime, _: FourTuple, _: &SimPacket) {
        self.counts.received += 1;
    }
}

impl Instrument for Watch {
    fn listener(&self) -> Option<Listener> {
        Some(Rc::clone(&self.seen) as Listener)
    }

    fn begin(&mut self, _: &mut View<'_>) {
        let seen = &mut self.seen.borrow_mut().flows;
        seen.counts = Counts::default();
        for sent in seen.sent.values_mut() {
            sent.again = false;
        }
    }

    fn next(&self) -> Option<SimTime> {
        None
    }

    fn look(&mut self, _: &mut View<'_>) {}

    fn finish(&mut self, _: &mut View<'_>) -> Reading {
        let seen = &self.seen.borrow().flows;
        let Counts {
            out,
            data,
            bytes,
            again,
            again_bytes,
            again_flows,
            received,
        } = seen.counts;
        let count = |name: &str, unit, n| (name.to_owned(), unit, Measured::Count(n));
        Reading {
            of: self.name.clone(),
            values: vec![
                count("out", "packets", out),
                count("data", "packets", data),
                count("data_bytes", "bytes", bytes),
                count("again", "packets", again),
                count("again_bytes", "bytes", again_bytes),
                count("again_flows", "flows", again_flows),
                count("in", "packets", received),
            ],
            table: None,
            series: None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::probe::at_host::testing::segment;

    /// A connection that has the ends of one before it is another flow, and of that one it is known that it
    /// sent something again.
    #[test]
    fn flows_with_the_same_ends_are_counted_one_by_one() {
        let mut counted = Counted::default();
        let mut sends = |flags, len| {
            let packet = segment(flags, 0, len);
            counted.left(SimTime::ZERO, packet.for_sender(), &packet);
        };
        for copies in [3, 2, 1] {
            sends(Flags::SYN, 0);
            for _ in 0..copies {
                sends(Flags::ACK, 100);
            }
        }
        let Counts {
            again, again_flows, ..
        } = counted.counts;
        assert_eq!((again, again_flows), (3, 2));
    }
}
