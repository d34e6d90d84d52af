//! Fine timeouts, as SIGCOMM 2009 has them: how many servers they bear, and what delayed ACKs do
//! to them.

use super::*;
use crate::scenario::spec::{BlockSize, DelayedAck};
use crate::validate::Verdict;
use narrows::ByteCount;

/// The paper's cluster: CUBIC with SACK and timestamps as Linux had them, an initial window of
/// three segments, blocks of 1 MB.
fn cluster(servers: u32, rto: &str, delayed: Option<Duration>) -> IncastSpec {
    let mut spec = IncastSpec {
        servers,
        block: BlockSize::Fixed(ByteCount::new(1_000_000)),
        length: Length::Time(Duration::from_secs(2)),
        ..IncastSpec::default()
    };
    spec.tcp.congestion = "cubic".to_owned();
    spec.tcp.initial_window = 3;
    spec.tcp.rto = rto.to_owned();
    if let Some(timeout) = delayed {
        spec.tcp.delayed_ack = DelayedAck::On {
            segments: 2,
            timeout,
        };
    }
    spec
}

/// The rows.
pub(super) fn run(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let mean = |bench: &Bench<'_>, spec: &IncastSpec| -> Result<Vec<f64>, ScenarioError> {
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
        spec.net.port_buffer = QueueLimit::Bytes(ByteCount::new(kib << 10));
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
    // Below the delayed-ACK timer of 40 ms and at its level, with the timer, without it, and with
    // one as fine as the RTO.
    let coarse = Some(Duration::from_millis(40));
    let level = Some(Duration::from_micros(200));
    let mut without = Vec::new();
    for (name, delayed) in [
        ("no delayed ACKs", None),
        ("ACKs delayed up to 40 ms", coarse),
        ("ACKs delayed up to 200 us", level),
    ] {
        let found = mean(bench, &cluster(16, "200us", delayed))?;
        let what = format!("16 servers, blocks of 1 MB, RTOmin 200 us, {name}: goodput");
        if delayed.is_none() {
            without.clone_from(&found);
        }
        let reference = band(&without).0;
        let (expected, tolerance, source) = match delayed {
            None => (
                Expected::Nothing,
                Tolerance::Shown,
                "shown for the rows below",
            ),
            Some(_) if delayed == coarse => (
                Expected::Range(0.5 * reference, reference),
                Tolerance::Exact,
                "SIGCOMM 2009: a drop, and a small one, when RTOmin is below the delayed-ACK timer",
            ),
            Some(_) => (
                Expected::Value(reference),
                Tolerance::Relative(0.1),
                "SIGCOMM 2009: none when both timers are fine",
            ),
        };
        bench.row(Row::new(
            what,
            source,
            expected,
            Measured::spread(&found),
            "Mb/s",
            tolerance,
        ));
    }
    Ok(())
}
