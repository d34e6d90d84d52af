//! Incast with marks: DCTCP beside other simulators, and Reno with what switches offered before.

use super::Table;
use crate::set_up::{put, seeded, shipped};
use crate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::Duration;
use narrows_experiment::model::Experiment;
use narrows_experiment::scenario::{Outcome, ScenarioError};

const SEEDS: u64 = 3;

/// The set-up of the recorded runs, which is that of `peers/simulators`.
fn set_up(servers: u32, timestamps: bool) -> Experiment {
    let mut spec = shipped("incast");
    put(&mut spec, "servers", servers);
    put(&mut spec, "framing", "none");
    put(&mut spec, "ecn-threshold", "20p");
    put(&mut spec, "group.servers.nic.tx_queue", "100000p");
    put(&mut spec, "group.client.nic.tx_queue", "100000p");
    put(&mut spec, "cc", "dctcp");
    put(&mut spec, "rto", "floor:1ms");
    put(&mut spec, "timestamps", timestamps);
    if timestamps {
        // The same payload in each packet.
        spec.network.common.mtu += 12;
        spec.host.tcp.mss = Some(1_472);
    }
    spec
}

/// Goodput in Mb/s and timeouts, for each seed; all blocks have to be there.
fn runs(bench: &Bench<'_>, spec: &Experiment) -> Result<[Vec<f64>; 2], ScenarioError> {
    let mut found = [Vec::new(), Vec::new()];
    for seed in 1..=SEEDS {
        bench.checkpoint()?;
        let run = bench.incast(&seeded(spec, seed))?;
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
    let red: &[(&str, &str)] = &[
        ("discipline", "red"),
        ("min", "16p"),
        ("max", "48p"),
        ("probability", "10%"),
        ("weight", "9"),
    ];
    let codel: &[(&str, &str)] = &[
        ("discipline", "codel"),
        ("target", "50us"),
        ("interval", "1ms"),
    ];
    for line in table.lines() {
        let (n, drop_tail) = (line.whole("n"), line.number("goodput").unwrap_or(f64::NAN));
        for (what, queue, ecn) in [
            ("RED", red, "off"),
            ("RED with ECN", red, "classic"),
            ("CoDel, 50 µs in 1 ms", codel, "off"),
            ("CoDel, 50 µs in 1 ms, with ECN", codel, "classic"),
        ] {
            let mut spec = shipped("fast08");
            put(&mut spec, "servers", n);
            spec.run.duration = Duration::from_secs(20);
            for (key, value) in queue {
                let key = format!(r#"network.port."s0->h0".queue.{key}"#);
                put(&mut spec, &key, *value);
            }
            put(&mut spec, "host.tcp.ecn", ecn);
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
