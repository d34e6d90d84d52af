//! The rules of RFC 8257, one by one.

use super::measure::Teeth;
use super::{go, long_lived};
use crate::flows::Record;
use crate::set_up::put;
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::config::{AckPolicy, InitialWindow, TcpConfig};
use narrows::congestion::{
    AckSample, CongestionControl, CongestionEvent, Dctcp, FlowStart, FlowView, RttEstimator,
};
use narrows::endpoint::{Endpoint, EndpointConfig};
use narrows::wire::Flags;
use narrows::{ByteCount, Duration, Instant, Rate};
use narrows_experiment::scenario::ScenarioError;
use narrows_net::host::{SimEndpoint, SimPacket, address_of};
use narrows_net::net::packet::{HostId, Packet};
use std::net::SocketAddr;
use std::sync::Arc;

const MSS: u64 = 1_000;

pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    sender(bench);
    one_cut_a_window(bench)?;
    receiver(bench);
    Ok(())
}

fn exact(what: &str, source: &str, expected: f64, ours: f64, unit: &'static str) -> Row {
    Row::new(
        what,
        source,
        Expected::Value(expected),
        Measured::Value(ours),
        unit,
        Tolerance::Exact,
    )
}

/// A window of 100 segments of which `marked` are marked is acknowledged.
fn acknowledge(cc: &mut Dctcp, marked: u64) {
    let est = RttEstimator::new();
    let mut flow = FlowView::new(Instant::ZERO, ByteCount::new(MSS), &est);
    // The application limits the flow: alpha moves, the window does not.
    flow.cwnd_limited = false;
    let mut ack = AckSample::default();
    ack.acked = ByteCount::new(100 * MSS);
    ack.delivered = ack.acked;
    ack.delivered_ce = ByteCount::new(marked * MSS);
    ack.round_start = true;
    cc.on_ack(&ack, &flow);
}

fn tell(cc: &mut Dctcp, event: CongestionEvent) {
    let est = RttEstimator::new();
    let mut flow = FlowView::new(Instant::ZERO, ByteCount::new(MSS), &est);
    flow.flight_size = cc.cwnd();
    cc.on_congestion_event(event, &flow);
}

/// What the congestion control makes of marks and losses.
fn sender(bench: &mut Bench<'_>) {
    let fresh = || {
        Dctcp::new(&FlowStart::new(
            ByteCount::new(MSS),
            ByteCount::new(100 * MSS),
        ))
    };
    let alpha = |cc: &Dctcp| cc.alpha_q32() as f64 / (1u64 << 32) as f64;
    let segments = |cc: &Dctcp| cc.cwnd().get() as f64 / MSS as f64;
    let update = "RFC 8257 section 3.3: alpha = alpha (1 - g) + g M, g = 1/16";

    let mut cc = fresh();
    let source = "RFC 8257 section 4.2: alpha starts at 1";
    bench.row(exact("alpha at the start", source, 1.0, alpha(&cc), ""));
    acknowledge(&mut cc, 0);
    let first = 1.0 - 1.0 / 16.0;
    bench.row(exact(
        "alpha after a window without marks",
        update,
        first,
        alpha(&cc),
        "",
    ));
    acknowledge(&mut cc, 50);
    let second = first * 15.0 / 16.0 + 0.5 / 16.0;
    bench.row(exact(
        "... and one half marked",
        update,
        second,
        alpha(&cc),
        "",
    ));

    let cut = "RFC 8257 section 3.3: cwnd = cwnd (1 - alpha / 2)";
    let mut cc = fresh();
    tell(&mut cc, CongestionEvent::EcnEcho);
    bench.row(exact(
        "window of 100 after a mark, alpha 1",
        cut,
        50.0,
        segments(&cc),
        "segments",
    ));
    let mut cc = fresh();
    acknowledge(&mut cc, 0);
    tell(&mut cc, CongestionEvent::EcnEcho);
    let left = 100.0 * (1.0 - first / 2.0);
    bench.row(exact(
        "... alpha 15/16",
        cut,
        left,
        segments(&cc),
        "segments",
    ));

    let mut cc = fresh();
    for _ in 0..500 {
        acknowledge(&mut cc, 0);
    }
    bench.row(exact(
        "alpha after 500 windows without marks",
        update,
        0.0,
        alpha(&cc),
        "",
    ));
    let mut marked = cc.clone();
    tell(&mut marked, CongestionEvent::EcnEcho);
    bench.row(exact(
        "window of 100 after a mark, alpha 0",
        cut,
        100.0,
        segments(&marked),
        "segments",
    ));
    tell(&mut cc, CongestionEvent::Loss);
    bench.row(exact(
        "... after a loss, alpha 0",
        "RFC 8257 section 3.5: a loss as in RFC 5681, half the flight",
        50.0,
        segments(&cc),
        "segments",
    ));
}

/// Each packet is marked: a cut a round trip, and no more.
fn one_cut_a_window(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let rtt = Duration::from_micros(100);
    let mut spec = long_lived(40, Rate::from_gbps(1), rtt, 0, "dctcp");
    put(&mut spec.experiment, "host.tcp.prr", "off");
    spec.experiment.run.duration = Duration::from_millis(60);
    spec.experiment.run.warm_up = Duration::from_millis(30);
    spec.record = Record {
        samples: Some(Duration::from_micros(500)),
        queue: false,
    };
    let period = Teeth::of(&spec, &go(bench, &spec)?).period_rtts;
    bench.row(Row::new(
        "every packet marked: from cut to cut",
        "RFC 8257 section 3.3: no more than one reaction for every window of data",
        Expected::Value(1.0),
        Measured::Value(period),
        "RTT",
        Tolerance::Relative(0.05),
    ));
    Ok(())
}

/// What the receiver answers to data of which some is marked.
fn receiver(bench: &mut Bench<'_>) {
    for (what, marks, expected) in [
        ("no marks", [false; 8], "2 4 6 8"),
        (
            "segments 4 to 6 marked",
            [false, false, false, true, true, true, false, false],
            "2 3 4* 6* 7",
        ),
        (
            "segments 3 and 4 marked",
            [false, false, true, true, false, false, false, false],
            "2 3* 4* 5 7",
        ),
    ] {
        let ours = acks(&marks).map_or_else(
            || Measured::Missing("the connection did not open".to_owned()),
            Measured::Text,
        );
        bench.row(
            Row::new(
                format!("ACKs of eight segments, one for two, {what}"),
                "RFC 8257 section 3.2 and figure 1: an ACK at once when the mark changes",
                Expected::Exactly(expected.to_owned()),
                ours,
                "",
                Tolerance::Exact,
            )
            .note("segment acknowledged, * with ECE"),
        );
    }
}

/// Two endpoints without a network between.
struct Pair {
    ends: [SimEndpoint; 2],
    now: Instant,
}

impl Pair {
    /// The packets that end `from` has to send.
    fn take(&mut self, from: usize) -> Vec<SimPacket> {
        let mut out = Vec::new();
        while let Some((ip, tcp, payload)) = self.ends[from].poll_transmit(self.now) {
            out.push(SimPacket::new(&ip, &tcp, payload));
        }
        out
    }

    fn give(&mut self, to: usize, packet: &SimPacket) {
        let (ip, tcp, payload) = packet.parts();
        self.ends[to].handle_packet(self.now, &ip, &tcp, payload);
    }
}

/// Which of eight segments the receiver acknowledges, and how; `None` if no connection comes
/// about.
fn acks(marks: &[bool; 8]) -> Option<String> {
    let tcp = Arc::new(TcpConfig {
        congestion: Arc::new(|s: &FlowStart| Dctcp::new(s)),
        ack: AckPolicy {
            delay: Duration::from_millis(40),
            every: 2,
            quick_acks: 0,
        },
        mss: MSS as u16,
        initial_window: InitialWindow::Segments(10),
        nagle: false,
        ..TcpConfig::default()
    });
    let end = |secret| Endpoint::new(EndpointConfig::new(tcp.clone(), [secret; 16])).ok();
    let mut pair = Pair {
        ends: [end(1)?, end(2)?],
        now: Instant::ZERO,
    };
    let at = |host, port| SocketAddr::new(address_of(HostId(host)), port);
    pair.ends[1].listen(at(1, 80), 1, None).ok()?;
    let sender = pair.ends[0]
        .connect(pair.now, at(0, 0), at(1, 80), None)
        .ok()?;
    for from in [0, 1, 0] {
        for packet in pair.take(from) {
            pair.give(1 - from, &packet);
        }
    }
    let conn = pair.ends[0].connection_mut(sender)?;
    let size = conn.sender().mss().as_usize();
    conn.send(8 * size, 8 * size).ok()?;
    let mut seen = Vec::new();
    let mut first = None;
    for (mut packet, marked) in pair.take(0).into_iter().zip(marks) {
        let start = *first.get_or_insert(packet.parts().1.seq);
        if *marked {
            packet.mark_ce();
        }
        pair.give(1, &packet);
        for ack in pair.take(1) {
            let tcp = ack.parts().1;
            let bytes = tcp.ack.0.wrapping_sub(start.0) as usize;
            let echo = if tcp.flags.contains(Flags::ECE) {
                "*"
            } else {
                ""
            };
            seen.push(format!("{}{echo}", bytes / size.max(1)));
        }
    }
    Some(seen.join(" "))
}
