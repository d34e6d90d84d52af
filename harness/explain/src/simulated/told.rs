//! From a run's trace to what its connections told.

use crate::truth::{Event, Held, TimeoutKind, Told};
use narrows::{Duration, Instant};
use serde_json::Value;
use std::collections::HashMap;
use std::net::SocketAddr;

/// The events of a trace that say something of gaps, in the order of time.
pub(super) fn events(trace: &[u8]) -> Vec<Event> {
    let mut ends: HashMap<(u64, u64), [SocketAddr; 2]> = HashMap::new();
    let mut events = Vec::new();
    for line in trace.split(|byte| *byte == b'\n') {
        // Most lines are windows, which say nothing of gaps.
        if line.is_empty() || line.windows(14).any(|w| w == b"event\":\"window") {
            continue;
        }
        let Ok(line) = serde_json::from_slice::<Value>(line) else {
            continue;
        };
        let number = |key: &str| line[key].as_u64();
        let (Some(at), Some(host), Some(conn)) = (number("ns"), number("host"), number("conn"))
        else {
            continue;
        };
        let end = |key: &str| line[key].as_str()?.parse::<SocketAddr>().ok();
        let told = match line["event"].as_str() {
            Some("open") => {
                if let (Some(local), Some(remote)) = (end("local"), end("remote")) {
                    ends.insert((host, conn), [local, remote]);
                }
                continue;
            }
            Some("timeout") => {
                let kind = match line["cause"].as_str() {
                    Some("handshake") => TimeoutKind::Handshake,
                    Some("full-window") => TimeoutKind::WholeWindow,
                    Some("tail") => TimeoutKind::Tail,
                    Some("zero-window") => TimeoutKind::ZeroWindow,
                    _ => TimeoutKind::RetransmissionLost,
                };
                let rto = Duration::from_nanos(number("rto_ns").unwrap_or(0));
                Told::Timeout { kind, rto }
            }
            Some("undo") if line["spurious"] == "timeout" => Told::Undo,
            Some("tail-loss-probe") => Told::Probe,
            Some("delayed-ack") => Told::DelayedAck,
            Some("local-drop") => Told::LocalDrop,
            Some("held") => Told::Held(match line["by"].as_str() {
                Some("idle") => Held::Idle,
                Some("sent") => Held::Sent,
                Some("receive-window") => Held::ReceiveWindow,
                Some("nagle") => Held::Nagle,
                _ => Held::CongestionWindow,
            }),
            _ => continue,
        };
        if let Some(ends) = ends.get(&(host, conn)) {
            events.push(Event {
                at: Instant::from_nanos(at),
                ends: *ends,
                told,
            });
        }
    }
    events
}
