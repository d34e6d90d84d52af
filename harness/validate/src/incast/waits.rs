//! What servers sat out in each block, counted: timeouts as the trace of a run has them.

use super::*;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::RunContext;
use serde_json::Value;
use std::io::{self, Write};

/// A completed block.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Block {
    /// From the request to the last byte, in ms.
    pub(super) millis: f64,
    /// The sum of the timeouts that the server which waited longest sat out, in ms.
    pub(super) sat_out: f64,
}

/// Runs `spec`, and counts.
///
/// # Errors
/// Those of the runner.
pub(super) fn run(
    bench: &Bench<'_>,
    spec: &Experiment,
) -> Result<(IncastRun, Vec<Block>), ScenarioError> {
    bench.checkpoint()?;
    let mut fired = Fired::default();
    let ctx = RunContext {
        cancel: Some(bench.cancel()),
        trace: Some(&mut fired),
        ..RunContext::default()
    };
    let run = IncastRun::from(&spec.run(&Registry::default(), ctx)?);
    let times = run.block_times.iter().map(|t| t.as_nanos());
    let blocks = fired.by_block(times);
    Ok((run, blocks))
}

/// Reads the trace: when the last connection was there, and each timeout of a server.
#[derive(Debug, Default)]
struct Fired {
    line: Vec<u8>,
    /// The client asks for the first block when the last of its connections is there.
    asked: u64,
    /// Time, host and length of each.
    timeouts: Vec<(u64, u64, u64)>,
}

impl Write for Fired {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        for part in bytes.split_inclusive(|b| *b == b'\n') {
            self.line.extend_from_slice(part);
            if part.ends_with(b"\n") {
                let line = std::mem::take(&mut self.line);
                self.read(&String::from_utf8_lossy(&line));
            }
        }
        Ok(bytes.len())
    }
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl Fired {
    fn read(&mut self, line: &str) {
        // Most lines are of windows.
        let established = line.contains("\"to\":\"established\"");
        if !established && !line.contains("\"event\":\"timeout\"") {
            return;
        }
        let Ok(event) = serde_json::from_str::<Value>(line) else {
            return;
        };
        let number = |name: &str| event.get(name).and_then(Value::as_u64);
        let (Some(at), Some(host)) = (number("ns"), number("host")) else {
            return;
        };
        match (established, host, number("rto_ns")) {
            (true, 0, _) => self.asked = self.asked.max(at),
            (false, 1.., Some(rto)) => self.timeouts.push((at, host, rto)),
            _ => {}
        }
    }

    /// Blocks follow one another without a pause.
    fn by_block(&self, times: impl Iterator<Item = u64>) -> Vec<Block> {
        let mut begin = self.asked;
        let mut rest = self.timeouts.as_slice();
        let before = rest.partition_point(|(at, ..)| *at < begin);
        rest = &rest[before..];
        let block = |nanos: u64| {
            begin += nanos;
            let (inside, after) = rest.split_at(rest.partition_point(|(at, ..)| *at < begin));
            rest = after;
            let hosts = inside.iter().map(|(_, host, _)| *host);
            let sat_out = |host: u64| -> u64 {
                let of = inside.iter().filter(|(_, h, _)| *h == host);
                of.map(|(.., rto)| rto).sum()
            };
            Block {
                millis: nanos as f64 / 1e6,
                sat_out: hosts.map(sat_out).max().unwrap_or(0) as f64 / 1e6,
            }
        };
        times.map(block).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_longest_wait_of_a_server_is_that_of_its_block() {
        let mut fired = Fired::default();
        let line = |ns: u64, host: u64, rest: &str| {
            format!("{{\"ns\":{ns},\"host\":{host},\"conn\":0,{rest}}}\n")
        };
        let open = "\"event\":\"state\",\"from\":\"syn-sent\",\"to\":\"established\"";
        let rto = |n: u64| format!("\"event\":\"timeout\",\"cause\":\"tail\",\"rto_ns\":{n}");
        let text = [
            line(5, 2, &rto(3)),
            line(7, 0, open),
            line(10, 0, open),
            line(11, 1, open),
            line(12, 1, "\"event\":\"window\",\"cwnd\":1"),
            line(15, 1, &rto(2_000_000)),
            line(16, 2, &rto(1_000_000)),
            line(19, 2, &rto(2_000_000)),
            line(31, 2, &rto(1_000_000)),
        ]
        .concat();
        // In pieces that end anywhere.
        for piece in text.as_bytes().chunks(7) {
            fired.write_all(piece).unwrap();
        }
        let sat_out: Vec<f64> = fired
            .by_block([10, 10, 10].into_iter())
            .iter()
            .map(|b| b.sat_out)
            .collect();
        assert_eq!(sat_out, [3.0, 0.0, 1.0]);
    }

    /// What is counted is what the run reports.
    #[test]
    fn every_timeout_of_a_run_is_counted() {
        let cancel = std::sync::atomic::AtomicBool::new(false);
        let bench = Bench::new(&cancel, &|_| {});
        let spec = fast08(16, 64, 1);
        let (run, blocks) = run(&bench, &spec).unwrap();
        assert_eq!(run, bench.incast(&spec).unwrap());
        assert_eq!(blocks.len(), run.block_times.len());
        assert!(run.timeouts.total() > 0);
        for block in &blocks {
            let k = block.sat_out / 200.0;
            assert!((k - k.round()).abs() < 1e-9, "{block:?}");
            assert!(block.millis >= block.sat_out, "{block:?}");
        }
    }
}
