//! Incast with marks: DCTCP beside other simulators, and Reno with what switches offered before.

use super::Table;
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::{ByteCount, Duration};
use narrows_experiment::scenario::spec::{
    Aqm, Codel, DelayedAck, EcnUse, Framing, IncastSpec, Length, QueueCounting, QueueLimit, Red,
};
use narrows_experiment::scenario::{Outcome, ScenarioError};

const SEEDS: u64 = 3;

/// The set-up of the recorded runs, which is that of `peers/simulators`.
fn set_up(servers: u32, timestamps: bool) -> IncastSpec {
    let mut spec = IncastSpec {
        servers,
        length: Length::Blocks {
            blocks: 20,
            time_limit: Duration::from_secs(600),
        },
        ..IncastSpec::default()
    };
    spec.net.framing = Framing::None;
    spec.net.queue_counting = QueueCounting::Waiting;
    spec.net.port_buffer = QueueLimit::Bytes(ByteCount::new(64 << 10));
    spec.net.aqm = Aqm::EcnStep(QueueLimit::Packets(20));
    spec.net.server_nic = QueueLimit::Packets(100_000);
    spec.net.client_nic = QueueLimit::Packets(100_000);
    spec.tcp.congestion = "dctcp".to_owned();
    spec.tcp.loss_detector = "sack".to_owned();
    spec.tcp.rto = "floor:1ms".to_owned();
    spec.tcp.delayed_ack = DelayedAck::Off;
    spec.tcp.timestamps = timestamps;
    if timestamps {
        // The same payload in each packet.
        spec.net.mtu += 12;
        spec.tcp.mss = Some(1_472);
    }
    spec
}

/// Goodput in Mb/s and timeouts, for each seed; all blocks have to be there.
fn runs(bench: &Bench<'_>, spec: &IncastSpec) -> Result<[Vec<f64>; 2], ScenarioError> {
    let mut found = [Vec::new(), Vec::new()];
    for seed in 1..=SEEDS {
        bench.checkpoint()?;
        let run = bench.incast(&IncastSpec {
            seed,
            ..spec.clone()
        })?;
        if !matches!(run.outcome, Outcome::Completed | Outcome::TimeLimit) {
            let how = format!("an incast ended as {}", run.outcome.name());
            return Err(ScenarioError::Internal(how));
        }
        found[0].push(run.goodput.bits_per_sec() as f64 / 1e6);
        found[1].push(run.timeouts.established() as f64);
    }
    Ok(found)
}

/// DCTCP on the grid of `peers/simulators`, beside what the others gave.
pub(super) fn dctcp(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(include_str!("../../reference/dctcp_incast.csv"));
    for line in table.lines() {
        let n = line.whole("n");
        let theirs: Vec<f64> = ["htsim", "ns348"]
            .iter()
            .filter_map(|column| line.number(column))
            .collect();
        let low = theirs.iter().copied().fold(f64::INFINITY, f64::min);
        let high = theirs.iter().copied().fold(0.0, f64::max);
        let ns3 = line.number("ns348").map_or(
            "ns-3.48 stalls for ever: ECN takes its windows below a segment".to_owned(),
            |goodput| format!("ns-3.48 {goodput}"),
        );
        for timestamps in [false, true] {
            let [goodput, timeouts] = runs(bench, &set_up(n, timestamps))?;
            let with = if timestamps { ", timestamps" } else { "" };
            let at_most = timeouts.iter().copied().fold(0.0, f64::max);
            bench.row(
                Row::new(
                    format!("incast, DCTCP, K = 20, N = {n}, RTOmin 1 ms{with}: goodput"),
                    table.source.clone(),
                    Expected::Range(low, high),
                    Measured::spread(&goodput),
                    "Mb/s",
                    Tolerance::Relative(0.1),
                )
                .note(format!(
                    "htsim {}, {ns3}; at most {at_most} timeouts",
                    line.text("htsim")
                ))
                .explained("dctcp-beside-other-simulators"),
            );
        }
    }
    Ok(())
}

/// The FAST 2008 set-up, whose port drops early, or marks.
pub(super) fn managed(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(include_str!("../../reference/fast08_marks.csv"));
    let red = Aqm::Red(Red {
        min: QueueLimit::Packets(16),
        max: QueueLimit::Packets(48),
        max_permille: 100,
        weight_shift: 9,
    });
    let codel = Aqm::Codel(Codel {
        target: Duration::from_micros(50),
        interval: Duration::from_millis(1),
        ce_threshold: None,
    });
    for line in table.lines() {
        let (n, drop_tail) = (line.whole("n"), line.number("goodput").unwrap_or(f64::NAN));
        for (what, aqm, ecn) in [
            ("RED", red, EcnUse::Off),
            ("RED with ECN", red, EcnUse::Classic),
            ("CoDel, 50 µs in 1 ms", codel, EcnUse::Off),
            ("CoDel, 50 µs in 1 ms, with ECN", codel, EcnUse::Classic),
        ] {
            let mut spec = IncastSpec::fast08();
            spec.servers = n;
            spec.length = Length::Time(Duration::from_secs(20));
            spec.net.aqm = aqm;
            spec.tcp.ecn = ecn;
            let [goodput, timeouts] = runs(bench, &spec)?;
            let judged = what.starts_with("RED");
            bench.row(
                Row::new(
                    format!("FAST 2008 set-up, B = 64, N = {n}, {what}: goodput"),
                    table.source.clone(),
                    Expected::Value(drop_tail),
                    Measured::spread(&goodput),
                    "Mb/s",
                    if judged {
                        Tolerance::Factor(2.0)
                    } else {
                        Tolerance::Shown
                    },
                )
                .note(format!(
                    "{:.0} timeouts in 20 s",
                    timeouts.iter().sum::<f64>() / timeouts.len() as f64
                ))
                .explained("red-and-ecn-under-incast"),
            );
        }
    }
    Ok(())
}
