//! Rows and what they came to: a table and JSON.

use super::kernel::Way;
use super::lab::Path;
use super::measure::{self, Flow, Setting, Who};
use serde_json::{Value, json};
use std::fmt::Write;

/// Something to be measured, and its rounds.
pub(crate) struct Row {
    path: Path,
    who: Who,
    rounds: Rounds,
}

enum Rounds {
    Stream(Way, Vec<Flow>),
    /// p50 and p99 in nanoseconds, and how many.
    Trips(Vec<(u64, u64, usize)>),
}

impl Row {
    /// A stream; `way` is what the kernel does.
    pub(crate) fn stream(path: Path, who: Who, way: Way) -> Self {
        Self {
            path,
            who,
            rounds: Rounds::Stream(way, Vec::new()),
        }
    }

    /// Round trips.
    pub(crate) fn trips(path: Path, who: Who) -> Self {
        Self {
            path,
            who,
            rounds: Rounds::Trips(Vec::new()),
        }
    }

    /// What it is.
    pub(crate) fn title(&self) -> String {
        let what = match self.rounds {
            Rounds::Stream(Way::Receives, _) => "sends",
            Rounds::Stream(Way::Sends, _) => "receives",
            Rounds::Trips(_) => "round trip",
        };
        format!("{}: {} {what}", self.path.name(), self.who.name())
    }

    /// Measure it once more. What cannot be measured is said.
    pub(crate) fn measure(&mut self, setting: &Setting) {
        let failed = match &mut self.rounds {
            Rounds::Stream(way, flows) => {
                match measure::stream(self.path, self.who, *way, setting) {
                    Ok(flow) => {
                        flows.push(flow);
                        return;
                    }
                    Err(e) => e,
                }
            }
            Rounds::Trips(all) => match measure::trips(self.path, self.who, setting) {
                Ok(trips) if !trips.is_empty() => {
                    let at = |percent: usize| trips[(trips.len() - 1) * percent / 100];
                    all.push((at(50), at(99), trips.len()));
                    return;
                }
                Ok(_) => std::io::ErrorKind::UnexpectedEof.into(),
                Err(e) => e,
            },
        };
        eprintln!("SKIPPED, {}: {failed}", self.title());
    }
}

fn sorted(values: impl Iterator<Item = f64>) -> Vec<f64> {
    let mut values: Vec<_> = values.collect();
    values.sort_by(f64::total_cmp);
    values
}

fn median(values: impl Iterator<Item = f64>) -> f64 {
    let values = sorted(values);
    values.get(values.len() / 2).copied().unwrap_or(0.0)
}

fn most(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(0.0, f64::max)
}

fn least(values: impl Iterator<Item = f64>) -> f64 {
    values.fold(f64::INFINITY, f64::min)
}

/// All rows.
pub(crate) struct Report {
    /// In the order of the table.
    pub(crate) rows: Vec<Row>,
}

impl Report {
    /// Nothing measured yet.
    pub(crate) fn new(rows: Vec<Row>) -> Self {
        Self { rows }
    }

    /// Tables in Markdown.
    pub(crate) fn table(&self) -> String {
        let mut out = String::new();
        let mut streams = String::new();
        let mut trips = String::new();
        for row in &self.rows {
            let title = row.title();
            match &row.rounds {
                Rounds::Stream(_, flows) if !flows.is_empty() => {
                    let all = || flows.iter();
                    let _ = writeln!(
                        streams,
                        "| {title} | {:.1} / {:.1} | {:.1} | {:.0} / {:.0} | {:.0} % |",
                        most(all().map(|f| f.rate)),
                        median(all().map(|f| f.rate)),
                        most(all().map(Flow::per_cpu_second)),
                        least(all().map(|f| f.per_segment)),
                        median(all().map(|f| f.per_segment)),
                        median(all().map(|f| f.outside * 100.0)),
                    );
                }
                Rounds::Trips(all) if !all.is_empty() => {
                    let micros = |n: u64| n as f64 / 1e3;
                    let of = |f: fn(&(u64, u64, usize)) -> u64| all.iter().map(f).map(micros);
                    let _ = writeln!(
                        trips,
                        "| {title} | {:.1} / {:.1} | {:.1} / {:.1} |",
                        least(of(|t| t.0)),
                        median(of(|t| t.0)),
                        least(of(|t| t.1)),
                        median(of(|t| t.1)),
                    );
                }
                _ => {}
            }
        }
        if !streams.is_empty() {
            out.push_str(
                "| One stream | Gb/s, best / median | Gb per CPU second | CPU ns per segment, \
                 best / median | of it outside the kernel |\n|---|---|---|---|---|\n",
            );
            out.push_str(&streams);
        }
        if !trips.is_empty() {
            out.push_str(
                "\n| 64 bytes there and back | p50 in us, best / median | p99, best / median \
                 |\n|---|---|---|\n",
            );
            out.push_str(&trips);
        }
        out
    }

    /// Every round.
    pub(crate) fn json(&self, setting: &Setting) -> String {
        let row = |row: &Row| -> Value {
            let rounds: Vec<Value> = match &row.rounds {
                Rounds::Stream(_, flows) => flows
                    .iter()
                    .map(|f| {
                        json!({
                            "gbps": f.rate,
                            "gb_per_cpu_second": f.per_cpu_second(),
                            "cpu_ns_per_segment": f.per_segment,
                            "outside_kernel": f.outside,
                        })
                    })
                    .collect(),
                Rounds::Trips(all) => all
                    .iter()
                    .map(|(p50, p99, n)| json!({ "p50_ns": p50, "p99_ns": p99, "trips": n }))
                    .collect(),
            };
            json!({
                "path": row.path.name(),
                "who": row.who.name(),
                "title": row.title(),
                "rounds": rounds,
            })
        };
        let rows: Vec<Value> = self.rows.iter().map(row).collect();
        let all = json!({
            "seconds": setting.time.as_secs_f64(),
            "buffer": setting.buffer,
            "congestion_of_the_kernel": setting.congestion,
            "rows": rows,
        });
        format!("{all:#}\n")
    }
}
