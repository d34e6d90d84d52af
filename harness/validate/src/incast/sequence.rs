//! A collapsed block, packet by packet.

use super::*;
use crate::Figure;
use narrows::ByteCount;
use narrows_experiment::registry::Registry;
use narrows_net::host::SimPacket;
use narrows_net::net::packet::HostId;
use narrows_net::sim::tap::{Tap, TapEvent};
use narrows_net::sim::time::SimTime;
use narrows_report::chart::{Axis, Chart, Draw, Role, Scale, Series};

const SERVERS: u32 = 16;
/// Where in its part the server is to stall, in bytes: the plot shows more then.
const EARLY: u64 = 150_000;

/// What happened to one server's connection.
#[derive(Clone, Copy, Debug, PartialEq)]
enum What {
    /// A request came.
    Asked,
    /// Data from this offset left; whether for the first time.
    Sent(u64, bool),
    /// Data from this offset was dropped.
    Dropped(u64),
    /// An ACK came for everything before this offset.
    Acked(u64),
}

/// Of one server, what the figure shows.
#[derive(Clone, Debug, Default)]
struct Flow {
    /// Sequence number of the stream's first byte.
    first: Option<u32>,
    next: u64,
    /// Bytes of requests that have come.
    heard: u64,
    /// In ms.
    seen: Vec<(f64, What)>,
}

/// Writes down what happens to each server.
#[derive(Clone, Debug)]
struct Notes(Vec<Flow>);

impl Tap<SimPacket> for Notes {
    fn event(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        let at = at.as_picos() as f64 / 1e9;
        let (_, tcp, payload) = packet.parts();
        match event {
            TapEvent::NicSent { host, .. } if host != HostId(0) && payload.len > 0 => {
                let Some(flow) = self.0.get_mut(host.index()) else {
                    return;
                };
                flow.first
                    .get_or_insert(tcp.seq.0.wrapping_sub(payload.offset as u32));
                let new = payload.offset >= flow.next;
                flow.next = flow.next.max(payload.offset + u64::from(payload.len));
                flow.seen.push((at, What::Sent(payload.offset, new)));
            }
            TapEvent::Received { host } if host != HostId(0) => {
                let Some(flow) = self.0.get_mut(host.index()) else {
                    return;
                };
                let end = payload.offset + u64::from(payload.len);
                if end > flow.heard {
                    flow.heard = end;
                    flow.seen.push((at, What::Asked));
                } else if let Some(first) = flow.first {
                    let acked = u64::from(tcp.ack.0.wrapping_sub(first));
                    flow.seen.push((at, What::Acked(acked)));
                }
            }
            TapEvent::Dropped { .. } if payload.len > 0 => {
                // Only data is dropped: whose it is says its sequence number.
                let of = |f: &&mut Flow| {
                    f.first
                        .map(|first| first.wrapping_add(payload.offset as u32))
                        == Some(tcp.seq.0)
                };
                if let Some(flow) = self.0.iter_mut().find(of) {
                    flow.seen.push((at, What::Dropped(payload.offset)));
                }
            }
            _ => {}
        }
    }
}

/// The first block after the first in which a server, well before the end of its part, sends
/// nothing for most of RTOmin and then something again.
fn collapsed(notes: &Notes) -> Option<&[(f64, What)]> {
    let of_flow = |flow: &'_ Flow| {
        let asked = flow.seen.iter().enumerate();
        let starts: Vec<usize> = asked
            .filter(|(_, (_, what))| *what == What::Asked)
            .map(|(i, _)| i)
            .collect();
        let stalls = |block: &[(f64, What)]| {
            let first = block.iter().find_map(|(_, what)| match what {
                What::Sent(offset, true) => Some(*offset),
                _ => None,
            });
            let quiet = |w: &[(f64, What)]| match w[1].1 {
                What::Sent(offset, false) => {
                    w[1].0 - w[0].0 > 150.0 && offset < first.unwrap_or(0) + EARLY
                }
                _ => false,
            };
            block.windows(2).any(quiet)
        };
        starts
            .windows(2)
            .skip(1)
            .map(|w| (w[0], w[1]))
            .find(|(a, b)| stalls(&flow.seen[*a..*b]))
    };
    notes
        .0
        .iter()
        .find_map(|flow| of_flow(flow).map(|(a, b)| &flow.seen[a..b]))
}

/// The figure.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let spec = fast08(SERVERS, 64, 3);
    let ctx = bench.context();
    let notes = Notes(vec![Flow::default(); SERVERS as usize + 1]);
    let (_, notes) = spec.watch(&Registry::default(), ctx, notes)?;
    let Some(block) = collapsed(&notes) else {
        return Err(ScenarioError::Internal(
            "no block of 16 servers collapsed".to_owned(),
        ));
    };
    let begin = block[0].0;
    let base = block.iter().find_map(|(_, what)| match what {
        What::Sent(offset, true) => Some(*offset),
        _ => None,
    });
    let base = base.unwrap_or(0);
    let mss = ByteCount::new(1_000).get() as f64;
    let segment = |offset: u64| offset.saturating_sub(base) as f64 / mss;
    let points = |wanted: &dyn Fn(What) -> Option<u64>| -> Vec<(f64, f64)> {
        let of = |(at, what): &(f64, What)| Some((at - begin, segment(wanted(*what)?)));
        block.iter().filter_map(of).collect()
    };
    let series = |name: &str, draw, group, points| Series {
        name: name.to_owned(),
        draw,
        role: Role::Ours,
        group,
        points,
        spread: Vec::new(),
        ..Series::default()
    };
    let acked = points(&|w| match w {
        What::Acked(n) => Some(n),
        _ => None,
    });
    let sent = points(&|w| match w {
        What::Sent(n, true) => Some(n),
        _ => None,
    });
    let again = points(&|w| match w {
        What::Sent(n, false) => Some(n),
        _ => None,
    });
    let dropped = points(&|w| match w {
        What::Dropped(n) => Some(n),
        _ => None,
    });
    let waits: Vec<f64> = block
        .windows(2)
        .filter(|w| w[1].0 - w[0].0 > 150.0)
        .map(|w| w[1].0 - w[0].0)
        .collect();
    bench.row(Row::new(
        "N = 16: silence of a server before it repeats what was lost",
        "RTOmin, within the RTT that passes since the last packet",
        Expected::Range(200.0, 400.0),
        Measured::spread(&waits),
        "ms",
        Tolerance::Relative(0.01),
    ));
    // The silence is a line a whole picture wide, and what leads to it and out of it a stroke at
    // its ends: these have pictures of their own.
    let silence = block
        .windows(2)
        .max_by(|a, b| (a[1].0 - a[0].0).total_cmp(&(b[1].0 - b[0].0)))
        .map_or((0.0, 0.0), |w| (w[0].0 - begin, w[1].0 - begin));
    let end = block.last().map_or(0.0, |last| last.0 - begin);
    let mut figure = |name, caption: &str, title: &str, from: f64, to: f64| {
        let part = |points: &[(f64, f64)]| -> Vec<(f64, f64)> {
            let inside = points.iter().filter(|(x, _)| *x >= from && *x <= to);
            inside.copied().collect()
        };
        let axis = |label: &str, range| Axis {
            label: label.to_owned(),
            scale: Scale::Linear,
            range,
            ..Axis::default()
        };
        bench.figure(Figure {
            name,
            caption: caption.to_owned(),
            chart: Chart {
                title: title.to_owned(),
                x: axis("Time since the request (ms)", Some((from, to))),
                y: axis("Segment of the block", None),
                series: vec![
                    series("acknowledged", Draw::Steps, 0, part(&acked)),
                    series("sent", Draw::Dots, 1, part(&sent)),
                    series("sent again", Draw::Markers, 2, part(&again)),
                    series("dropped", Draw::Markers, 3, part(&dropped)),
                ],
                ..Chart::default()
            },
        });
    };
    figure(
        "fast08-time-sequence",
        "One server of 16 through a block that collapses (FAST 2008 set-up, 64 packets of \
         buffer). What the port drops is repeated only after the minimum timeout; until then \
         nothing of this server's moves, and the block waits for it.",
        "Time and sequence numbers of one server in a collapsed block",
        0.0,
        end,
    );
    figure(
        "fast08-time-sequence-loss",
        "The same block up to the silence: sent, dropped, and too few acknowledgements left to \
         ask for what is missing.",
        "Time and sequence numbers of one server before its timeout",
        0.0,
        silence.0 + 1.0,
    );
    figure(
        "fast08-time-sequence-repair",
        "The same block from the timeout on: slow start from one segment.",
        "Time and sequence numbers of one server after its timeout",
        silence.1 - 0.5,
        end,
    );
    Ok(())
}
