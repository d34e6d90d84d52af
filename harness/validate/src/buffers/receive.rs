//! What a receiver's NIC makes of what arrives: merging by marks, and interrupts that wait.

use super::super::{Bench, Expected, Measured, Row, Tolerance};
use super::{goodput, run, with};
use narrows_experiment::scenario::ScenarioError;

/// Bytes of payload of a full segment without timestamps.
const SEGMENT: f64 = 1_460.0;
/// The same frame on the wire, with preamble and gap.
const FRAME: f64 = 1_538.0;

/// Linux merges no two neighbours whose IP headers differ in their marks (`inet_gro_receive`). Of n
/// segments that are marked independently with probability m two neighbours differ with 2 m (1 - m),
/// and each difference makes one aggregate more.
pub(super) fn merging(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    const SOURCE: &str = "Linux's rule of merging: one aggregate more for each change of the mark";
    let short = ("run.duration", "20ms");
    for percent in [0.0, 5.0, 10.0, 25.0, 50.0, 75.0, 90.0, 100.0] {
        let marked = format!("{percent}%");
        let ran = run(bench, &with("gro-marks", &[("marked", &marked), short])?)?;
        let (frames, aggregates) = a_poll(&ran)?;
        let m = percent / 100.0;
        bench.row(Row::new(
            format!("{percent} % marked at random, aggregates of a poll of {frames:.1} segments"),
            SOURCE,
            Expected::Value(1.0 + 2.0 * m * (1.0 - m) * (frames - 1.0)),
            Measured::Value(aggregates),
            "",
            Tolerance::Relative(0.05),
        ));
    }
    let alternating = [("marked", "0%"), ("each", "2"), short];
    let (frames, aggregates) = a_poll(&run(bench, &with("gro-marks", &alternating)?)?)?;
    bench.row(Row::new(
        "every second one marked, segments of an aggregate",
        SOURCE,
        Expected::Value(1.0),
        Measured::Value(frames / aggregates),
        "",
        Tolerance::Relative(0.02),
    ));
    Ok(())
}

/// Segments and aggregates of the receiver, a poll.
fn a_poll(ran: &narrows_experiment::run::RunOutcome) -> Result<(f64, f64), ScenarioError> {
    let work = ran.hosts.first().and_then(|host| host.work);
    let work = work.ok_or_else(|| ScenarioError::Internal("no work was counted".to_owned()))?;
    let polls = work.polls as f64;
    Ok((
        work.data_frames as f64 / polls,
        work.aggregates as f64 / polls,
    ))
}

/// Two flows with windows of w packets, which react to nothing, each with a queue of its own at the
/// receiver. Where w is below the frames that an interrupt waits for, a round trip is the path's and
/// the timer's, and a window goes in each; where it is many times as large, the timer never fires
/// and both fill the link.
pub(super) fn coalescing(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    // Four times 10 us, a frame of 25 Gb/s twice.
    const PATH_US: f64 = 41.0;
    // Hosts that send at once.
    const EXACT: (&str, &str) = ("host.nic.overhead", "0ns");
    for (window, usecs, wait_us) in [
        (20.0, "100us", 100.0),
        (20.0, "1ms", 1_000.0),
        (60.0, "1ms", 1_000.0),
    ] {
        let congestion = format!("fixed:{window}");
        let values = [("cc", &*congestion), ("usecs", usecs), EXACT];
        let ran = run(bench, &with("rack-coalesce", &values)?)?;
        for flow in ["first", "second"] {
            bench.row(Row::new(
                format!("{window} packets, a timer of {usecs}: the round trip of the {flow} flow"),
                "ethtool's rx-usecs: the first frame waits so long, the path's round trip beyond",
                Expected::Value(PATH_US + wait_us),
                Measured::Value(window * SEGMENT * 8.0 / goodput(&ran, flow) * 1e6),
                "us",
                Tolerance::Relative(0.01),
            ));
        }
    }
    let values = [("cc", "fixed:640"), ("usecs", "1ms"), EXACT];
    let ran = run(bench, &with("rack-coalesce", &values)?)?;
    bench.row(Row::new(
        "640 packets, a timer of 1 ms: both flows together",
        "ethtool's rx-frames: an interrupt at 64 frames, whatever the timer; the line's payload",
        Expected::Value(25.0 * SEGMENT / FRAME),
        Measured::Value((goodput(&ran, "first") + goodput(&ran, "second")) / 1e9),
        "Gb/s",
        Tolerance::Relative(0.03),
    ));
    Ok(())
}
