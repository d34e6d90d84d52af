//! Fine timeouts, as SIGCOMM 2009 has them: how many servers they bear, and what delayed ACKs do
//! to them.

use super::*;
use crate::Verdict;

/// The paper's cluster: CUBIC with SACK and timestamps as Linux had them, an initial window of
/// three segments, blocks of 1 MB.
fn cluster(servers: u32, rto: &str, delayed: Option<Duration>) -> Experiment {
    let mut spec = rack(servers, Duration::from_secs(2));
    put(&mut spec, "block", "1MB");
    put(&mut spec, "cc", "cubic");
    put(&mut spec, "initial-window", 3);
    put(&mut spec, "rto", rto);
    if let Some(timeout) = delayed {
        put(&mut spec, "delayed-ack", format!("2/{timeout}"));
    }
    spec
}

/// The rows.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mean = |bench: &Bench<'_>, spec: &Experiment| -> Result<Vec<f64>, ScenarioError> {
        Ok(goodput(&runs(bench, spec, SEEDS)?))
    };
    // "Full": what framing leaves of the link.
    let full = Expected::Value(1_000.0 * 1_448.0 / 1_538.0);
    let close = Tolerance::Relative(0.1);
    for (rto, name, kib, expected, tolerance) in [
        ("fine", "RTO without floor", 64, full.clone(), close),
        ("fine", "RTO without floor", 128, full.clone(), close),
        ("1ms", "RTOmin 1 ms", 64, full, close),
        (
            "linux",
            "RTOmin 200 ms",
            64,
            Expected::Nothing,
            Tolerance::Shown,
        ),
    ] {
        let mut spec = cluster(47, rto, None);
        put(&mut spec, "buffer", format!("{kib}KiB"));
        let row = Row::new(
            format!("47 servers, blocks of 1 MB, {kib} KiB, {name}: goodput"),
            "SIGCOMM 2009 and the incast page of CMU PDL: full throughput to 47 senders with a \
             microsecond RTO",
            expected,
            Measured::spread(&mean(bench, &spec)?),
            "Mb/s",
            tolerance,
        );
        bench.row(match row.verdict() {
            Verdict::Differs => row.explained("forty-seven-servers"),
            _ => row,
        });
    }
    delayed_acks(bench)
}

/// An RTO below the delayed-ACK timer of 40 ms: without delayed ACKs, with them, and with a timer
/// as fine as the RTO.
///
/// The paper says in words what becomes of goodput, and our reference for "as without" can only be
/// our own run.
fn delayed_acks(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mut without = f64::NAN;
    for (name, delayed, paper) in [
        ("no delayed ACKs", None, None),
        (
            "ACKs delayed up to 40 ms",
            Some(Duration::from_millis(40)),
            Some((
                Expected::Range(50.0, 100.0),
                Tolerance::Exact,
                "a drop, and a small one, when RTOmin is below the delayed-ACK timer",
            )),
        ),
        (
            "ACKs delayed up to 200 us",
            Some(Duration::from_micros(200)),
            Some((
                Expected::Value(100.0),
                Tolerance::Relative(0.1),
                "none when both timers are fine",
            )),
        ),
    ] {
        let found = goodput(&runs(bench, &cluster(16, "200us", delayed), SEEDS)?);
        let what = format!("16 servers, blocks of 1 MB, RTOmin 200 us, {name}");
        bench.row(Row::new(
            format!("{what}: goodput"),
            "no figure is published",
            Expected::Nothing,
            Measured::spread(&found),
            "Mb/s",
            Tolerance::Shown,
        ));
        let Some((expected, tolerance, words)) = paper else {
            without = band(&found).0;
            continue;
        };
        let shares: Vec<f64> = found.iter().map(|g| 100.0 * g / without).collect();
        bench.row(Row::new(
            format!("{what}: share of ours without delayed ACKs"),
            format!("our own run; in words SIGCOMM 2009: {words}"),
            expected,
            Measured::spread(&shares),
            "%",
            tolerance,
        ));
    }
    Ok(())
}
