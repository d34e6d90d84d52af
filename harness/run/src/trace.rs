//! What a trace tells beside what connections decide: what ports do to packets, what applications
//! have done, and what changes.
//!
//! | `event` | fields |
//! |---|---|
//! | `drop` | `port`, `reason`, and the packet: `from`, `to`, `seq`, `bytes` of payload |
//! | `mark`, `trim` | `port` and the packet: Congestion Experienced, and payload that was cut |
//! | `xoff`, `xon` | `port`, a switch's that sends a pause frame or the end of one; with `classes` those that are meant, if not all |
//! | `pause`, `resume` | `port`, which begins no frame, for `for_ns`; or goes on |
//! | `refused` | `port`, a NIC that had no room, and the packet |
//! | `transfer` | `traffic`, `from`, `to`, `bytes`, `took_ns`: the last byte is with the application |
//! | `busy_port` | `traffic`, `from`, `to`: the port of a node has become busy; `ended` with `took_ns` when it is no more |
//! | `busy_dist_port` | the same of a process that such a port has suspended, with `process` |
//! | `failed` | `traffic`, `to`: an application gave up on a transfer |
//! | `change` | `what` of the experiment's `[[change]]`, and its `way`: `make`, or `undo` when its time is over |

use crate::host::SimPacket;
use crate::host::trace::Lines;
use crate::net::graph::{Graph, NodeId};
use crate::net::packet::{HostId, PortId};
use crate::probe::PacketListener;
use crate::sim::tap::{PauseEvent, PauseSignal, TapEvent};
use crate::sim::time::SimTime;
use crate::traffic::{AppEvent, Log, SpanKind};

/// Tells what ports do to packets.
#[derive(Debug)]
pub(crate) struct Ports {
    lines: Lines,
    names: Vec<String>,
}

impl Ports {
    pub(crate) fn new(lines: Lines, graph: &Graph) -> Self {
        Self {
            lines,
            names: graph.ports().map(|port| graph.port_name(port)).collect(),
        }
    }

    fn tell(&self, at: SimTime, event: &str, port: PortId, why: Option<&str>, packet: &SimPacket) {
        let port = self.names.get(port.index()).map_or("", String::as_str);
        let why = why.map_or(String::new(), |why| format!(",\"reason\":\"{why}\""));
        let (_, tcp, payload) = packet.parts();
        let ends = packet.for_receiver();
        self.lines.add(
            at.to_instant(),
            event,
            format_args!(
                ",\"port\":\"{port}\"{why},\"from\":\"{}\",\"to\":\"{}\",\"seq\":{},\"bytes\":{}",
                ends.remote, ends.local, tcp.seq.0, payload.len
            ),
        );
    }
}

impl PacketListener for Ports {
    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket) {
        match event {
            TapEvent::Dropped { port, reason } => {
                self.tell(at, "drop", port, Some(reason.name()), packet);
            }
            TapEvent::PortQueued {
                port,
                marked,
                trimmed,
                ..
            } => {
                if marked {
                    self.tell(at, "mark", port, None, packet);
                }
                if trimmed {
                    self.tell(at, "trim", port, None, packet);
                }
            }
            TapEvent::Marked { port } => self.tell(at, "mark", port, None, packet),
            TapEvent::Trimmed { port } => self.tell(at, "trim", port, None, packet),
            // A host's NIC has the host's number.
            TapEvent::NicRefused { host } => {
                self.tell(at, "refused", PortId(host.0), None, packet);
            }
            _ => {}
        }
    }

    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        let (event, port, classes, span) = match event {
            PauseEvent::Sent {
                port,
                signal,
                classes,
            } => match signal {
                PauseSignal::Xoff => ("xoff", port, classes, None),
                PauseSignal::Xon => ("xon", port, classes, None),
            },
            PauseEvent::Obeyed {
                port,
                span,
                classes,
            } if span > SimTime::ZERO => ("pause", port, classes, Some(span)),
            PauseEvent::Obeyed { port, classes, .. } => ("resume", port, classes, None),
        };
        let port = self.names.get(port.index()).map_or("", String::as_str);
        let span = span.map_or(String::new(), |span| {
            format!(",\"for_ns\":{}", span.as_nanos())
        });
        let classes = (0..8).filter(|class| classes != u8::MAX && classes >> class & 1 == 1);
        let classes: Vec<String> = classes.map(|class| class.to_string()).collect();
        let classes = match classes.is_empty() {
            true => String::new(),
            false => format!(",\"classes\":[{}]", classes.join(",")),
        };
        let fields = format_args!(",\"port\":\"{port}\"{span}{classes}");
        self.lines.add(at.to_instant(), event, fields);
    }
}

/// Tells a trace, if there is one, that something changes.
pub(crate) fn change(lines: Option<&Lines>, at: SimTime, way: &str, what: &str) {
    if let Some(lines) = lines {
        let what = serde_json::Value::from(what);
        lines.add(
            at.to_instant(),
            "change",
            format_args!(",\"what\":{what},\"way\":\"{way}\""),
        );
    }
}

/// Has the applications of a run tell what they have done; `traffic` is by number.
pub(crate) fn listen(log: &Log, lines: Lines, traffic: Vec<String>, graph: &Graph) {
    let hosts = graph.nodes().filter_map(|node| match node {
        NodeId::Host(_) => Some(graph.node_name(node).to_owned()),
        NodeId::Switch(_) => None,
    });
    let hosts: Vec<String> = hosts.collect();
    log.listen(move |now, event| {
        let traffic = |n: u16| traffic.get(usize::from(n)).map_or("", String::as_str);
        let host = |host: HostId| hosts.get(host.index()).map_or("", String::as_str);
        match event {
            AppEvent::Transfer(t) => {
                let from = t.from.map_or("null".to_owned(), |h| format!("\"{}\"", host(h)));
                lines.add(
                    now,
                    "transfer",
                    format_args!(
                        ",\"traffic\":\"{}\",\"from\":{from},\"to\":\"{}\",\"bytes\":{},\"took_ns\":{}",
                        traffic(t.traffic),
                        host(t.to),
                        t.size.get(),
                        t.took.as_nanos()
                    ),
                );
            }
            AppEvent::Began(span) | AppEvent::Ended(span) => {
                let process = match span.kind {
                    SpanKind::BusyPort => String::new(),
                    SpanKind::BusyDistPort(process) => {
                        format!(",\"process\":\"{}\"", process.name())
                    }
                };
                let took = span.took.map_or(String::new(), |took| {
                    format!(",\"ended\":true,\"took_ns\":{}", took.as_nanos())
                });
                lines.add(
                    now,
                    span.kind.name(),
                    format_args!(
                        ",\"traffic\":\"{}\",\"from\":\"{}\",\"to\":\"{}\"{process}{took}",
                        traffic(span.traffic),
                        host(span.host),
                        span.peer.map_or("", host),
                    ),
                );
            }
            AppEvent::Failed { traffic: n, to } => lines.add(
                now,
                "failed",
                format_args!(
                    ",\"traffic\":\"{}\",\"to\":\"{}\"",
                    traffic(n),
                    host(to)
                ),
            ),
        }
    });
}
