//! The same incast in other simulators: as recorded, and in ns-3 where it is installed.

use super::ns3::{Missing, Ns3};
use crate::scenario::spec::{
    Aqm, DelayedAck, EcnUse, Framing, IncastSpec, Length, QueueCounting, QueueLimit,
};
use crate::scenario::{Outcome, ScenarioError};
use crate::validate::reference::Table;
use crate::validate::{Bench, Expected, Measured, Row, Tolerance};
use narrows::{ByteCount, Duration};

const TABLE: &str = include_str!("../../../reference/incast-simulators.csv");
/// The simulators' columns.
const SIMULATORS: [(&str, &str); 3] = [
    ("ns337", "ns-3.37"),
    ("ns348", "ns-3.48"),
    ("htsim", "htsim"),
];
const SEEDS: u64 = 3;
/// What the blocks' time may be off by where timeouts do not make it.
const CLOSE: Tolerance = Tolerance::Relative(0.1);
/// Where timeouts make it, and of timeouts.
const COLLAPSED: Tolerance = Tolerance::Factor(2.0);

/// A cell of the grid.
#[derive(Clone, Copy, Debug)]
struct Cell {
    servers: u32,
    rto_min_ms: u32,
    timestamps: bool,
}

/// Goodput in Mb/s and timeouts, for each seed.
#[derive(Debug, Default)]
struct Found {
    goodput: Vec<f64>,
    timeouts: Vec<f64>,
}

impl Cell {
    /// No framing, as ns-3's point-to-point links have it but for two bytes. The random overhead
    /// of our NICs stays: without it equal hosts keep their phase, and one of two flows loses
    /// all of its packets to the other.
    fn spec(self) -> IncastSpec {
        let mut spec = IncastSpec {
            servers: self.servers,
            length: Length::Blocks {
                blocks: 20,
                time_limit: Duration::from_secs(600),
            },
            ..IncastSpec::default()
        };
        spec.net.framing = Framing::None;
        spec.net.queue_counting = QueueCounting::Waiting;
        spec.net.port_buffer = QueueLimit::Bytes(ByteCount::new(64 << 10));
        spec.net.aqm = Aqm::None;
        spec.net.server_nic = QueueLimit::Packets(100_000);
        spec.net.client_nic = QueueLimit::Packets(100_000);
        spec.tcp.congestion = "reno".to_owned();
        spec.tcp.loss_detector = "sack".to_owned();
        spec.tcp.rto = format!("floor:{}ms", self.rto_min_ms);
        spec.tcp.timestamps = self.timestamps;
        if self.timestamps {
            // The same payload in each packet.
            spec.net.mtu += 12;
            spec.tcp.mss = Some(1_472);
        }
        spec.tcp.ecn = EcnUse::Off;
        spec.tcp.delayed_ack = DelayedAck::Off;
        spec
    }

    fn ours(self, bench: &Bench<'_>) -> Result<Found, ScenarioError> {
        let mut found = Found::default();
        for seed in 1..=SEEDS {
            let run = bench.incast(&IncastSpec {
                seed,
                ..self.spec()
            })?;
            if !matches!(run.outcome, Outcome::Completed | Outcome::TimeLimit) {
                let how = format!("an incast ended as {}", run.outcome.name());
                return Err(ScenarioError::Internal(how));
            }
            found.goodput.push(run.goodput.bits_per_sec() as f64 / 1e6);
            found.timeouts.push(run.timeouts.total() as f64);
        }
        Ok(found)
    }

    /// For goodput and for timeouts. Up to three times the N from which an initial window of
    /// each fills the port, which is 5, the outcome hangs on single packets: shown only.
    fn tolerances(self) -> (Tolerance, Tolerance) {
        match (self.rto_min_ms, self.servers) {
            (200, ..16) => (Tolerance::Shown, Tolerance::Shown),
            (200, _) => (COLLAPSED, COLLAPSED),
            _ => (CLOSE, COLLAPSED),
        }
    }

    fn name(self) -> String {
        let (n, floor) = (self.servers, self.rto_min_ms);
        let with = if self.timestamps { ", timestamps" } else { "" };
        format!("incast, N = {n}, RTOmin {floor} ms{with}")
    }
}

/// Our grid beside the recorded ones.
pub(super) fn recorded(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(TABLE);
    for line in table.lines() {
        let (servers, rto_min_ms) = (line.whole("n"), line.whole("rto_min_ms"));
        // The other simulators end a backoff with any new ACK. RFC 6298 ends it with a fresh RTT
        // sample, which without timestamps a retransmission cannot give.
        for timestamps in [false, true] {
            if timestamps && rto_min_ms != 1 {
                continue;
            }
            let cell = Cell {
                servers,
                rto_min_ms,
                timestamps,
            };
            let ours = cell.ours(bench)?;
            let theirs = |suffix: &str| {
                let value = |(column, name): &(&str, &'static str)| {
                    Some((*name, line.number(&format!("{column}{suffix}"))?))
                };
                SIMULATORS.iter().filter_map(value).collect::<Vec<_>>()
            };
            let (of_goodput, of_timeouts) = cell.tolerances();
            for (what, suffix, ours, unit, tolerance) in [
                ("goodput", "", &ours.goodput, "Mb/s", of_goodput),
                ("timeouts", "_timeouts", &ours.timeouts, "", of_timeouts),
            ] {
                let theirs = theirs(suffix);
                let values = theirs.iter().map(|(_, v)| *v);
                let each: Vec<_> = theirs.iter().map(|(n, v)| format!("{n} {v}")).collect();
                let row = Row::new(
                    format!("{}: {what}", cell.name()),
                    "three simulators, recorded",
                    Expected::Range(
                        values.clone().fold(f64::INFINITY, f64::min),
                        values.fold(0.0, f64::max),
                    ),
                    Measured::spread(ours),
                    unit,
                    tolerance,
                );
                bench.row(backoff(cell, row).note(each.join(", ")));
            }
        }
    }
    Ok(())
}

/// Where the backoff may make the difference.
fn backoff(cell: Cell, row: Row) -> Row {
    if cell.rto_min_ms == 1 {
        row.explained("until-when-a-backoff-lasts")
    } else {
        row
    }
}

/// Our grid beside ns-3's, run now.
pub(super) fn live(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let source = "ns-3 on this machine, harness/reference/ns3/incast.cc";
    let ns3 = match Ns3::build() {
        Ok(ns3) => ns3,
        Err(Missing(why)) => {
            bench.row(Row::new(
                "incast in ns-3",
                source,
                Expected::Nothing,
                Measured::Missing(why),
                "Mb/s",
                Tolerance::Shown,
            ));
            return Ok(());
        }
    };
    for (servers, rto_min_ms, seeds) in [
        (4, 200, 5),
        (8, 200, 5),
        (32, 200, 1),
        (8, 1, 3),
        (32, 1, 1),
    ] {
        let cell = Cell {
            servers,
            rto_min_ms,
            timestamps: false,
        };
        let ours = cell.ours(bench)?;
        let mut theirs = Found::default();
        for seed in 1..=seeds {
            bench.checkpoint()?;
            let (goodput, timeouts) = ns3
                .run(servers, rto_min_ms, seed)
                .map_err(|Missing(why)| ScenarioError::Internal(why))?;
            theirs.goodput.push(goodput);
            theirs.timeouts.push(timeouts);
        }
        let (of_goodput, of_timeouts) = cell.tolerances();
        for (what, theirs, ours, unit, tolerance) in [
            ("goodput", theirs.goodput, ours.goodput, "Mb/s", of_goodput),
            ("timeouts", theirs.timeouts, ours.timeouts, "", of_timeouts),
        ] {
            let least = theirs.iter().copied().fold(f64::INFINITY, f64::min);
            let most = theirs.iter().copied().fold(0.0, f64::max);
            let mean = theirs.iter().sum::<f64>() / theirs.len() as f64;
            let row = Row::new(
                format!("{} beside ns-3: {what}", cell.name()),
                source,
                Expected::Value(mean),
                Measured::spread(&ours),
                unit,
                tolerance,
            );
            let seeds = format!("ns-3: {least:.0} to {most:.0} over {seeds} seeds");
            bench.row(backoff(cell, row).note(seeds));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_cell_can_be_run_and_is_named() {
        for line in Table::parse(TABLE).lines() {
            let cell = Cell {
                servers: line.whole("n"),
                rto_min_ms: line.whole("rto_min_ms"),
                timestamps: true,
            };
            cell.spec().validate().unwrap();
            assert!(cell.name().contains("RTOmin"));
            for (column, _) in SIMULATORS {
                assert!(line.number(column).is_some());
                assert!(line.number(&format!("{column}_timeouts")).is_some());
            }
        }
    }
}
