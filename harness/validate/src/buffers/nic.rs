//! What NICs refuse and pause: moments without a buffer, and rings that fill up.

use super::super::{Bench, Expected, Measured, Row, Tolerance};
use super::{goodput, parsed, run};
use narrows_experiment::run::{PortOutcome, RunOutcome};
use narrows_experiment::scenario::ScenarioError;
use narrows_net::net::stats::DropReason;

/// Frames on the wire and their payload, of packets without timestamps.
const FRAME: f64 = 1_538.0;
const PAYLOAD: f64 = 1_460.0;
/// Of the link, in bits a nanosecond.
const RATE: f64 = 10.0;

/// A flow with a window that nothing changes, from h1 to h0 over 10 Gb/s.
fn flow(window: u32, nic: &str, run: &str) -> String {
    format!(
        "title = \"A flow\"\n[network]\ntopology = \"star\"\nhosts = 2\n\
         link = {{ rate = \"10Gb/s\", delay = \"5us\", framing = \"ethernet\" }}\n\
         queue = {{ limit = \"20MB\" }}\n\
         [host.tcp]\ncongestion = \"fixed:{window}\"\nlocal_drop = \"requeue\"\ntimestamps = false\n\
         receive_window = \"16MiB\"\n[host.nic]\noverhead = \"0ns\"\ntx_queue = \"10000p\"\n{nic}\n\
         [[traffic]]\nname = \"flow\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\n[run]\n{run}\n"
    )
}

fn port<'r>(ran: &'r RunOutcome, name: &str) -> Result<&'r PortOutcome, ScenarioError> {
    let port = ran.ports.iter().find(|p| p.name == name);
    port.ok_or_else(|| ScenarioError::Internal(format!("no port {name}")))
}

/// A chain of two states that is entered with p and left with r has the share p / (p + r) of its steps in
/// the second, in runs of 1 / r, and neighbours are alike by 1 - p - r (E. N. Gilbert, Capacity of a
/// burst-noise channel, Bell System Technical Journal 39, 1960). What so many draws are off by is four
/// standard deviations.
pub(super) fn moments(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    for (percent, mean) in [(1.0, 8.0), (10.0, 8.0), (20.0, 2.0), (50.0, 20.0)] {
        let nic = format!("[group.h1.nic]\nrefuse = \"{percent}%\"\nrefuse_run = {mean}");
        let text = flow(200, &nic, "duration = \"500ms\"");
        let ran = run(bench, &parsed("moments", &text)?)?;
        let mut refused = ran.hosts.iter().filter_map(|host| host.without_buffer);
        let refused = refused.find(|refused| refused.sends > 0);
        let refused =
            refused.ok_or_else(|| ScenarioError::Internal("nothing was refused".to_owned()))?;
        let (all, again) = (refused.sends as f64, refused.in_a_row as f64);
        let sends = all + port(&ran, "h1->s0")?.packets as f64;
        let (p, r) = (percent / 100.0, 1.0 / mean);
        let (share, memory) = (p / (p + r), 1.0 - p - r);
        let variance = share * (1.0 - share);
        // Of a mean of draws that are alike by memory^k at k steps.
        let share_off = (variance * (1.0 + memory) / (1.0 - memory) / sends).sqrt();
        let run_off = ((1.0 - r) / (r * r) / (all - again).max(1.0)).sqrt();
        // Bartlett's, of the first correlation.
        let memory_off = ((1.0 - memory * memory) / sends).sqrt();
        let measured = all / sends;
        let what = format!("refuse {percent} %, {mean} in a row");
        let rows = [
            (
                "share of the sends that is refused",
                share,
                measured,
                share_off,
            ),
            (
                "sends of a run of refusals",
                mean,
                all / (all - again).max(1.0),
                run_off,
            ),
            (
                "correlation of a send and the next",
                memory,
                (again / all - measured) / (1.0 - measured),
                memory_off,
            ),
        ];
        for (of, expected, is, off) in rows {
            bench.row(Row::new(
                format!("{what}: {of}"),
                "Gilbert 1960: p / (p + r), 1 / r and 1 - p - r",
                Expected::Value(expected),
                Measured::Value(is),
                "",
                Tolerance::Absolute(4.0 * off),
            ));
        }
    }
    Ok(())
}

/// Nanoseconds of the processor for a frame with data.
const WORK: f64 = 2_000.0;
/// Frames of the ring, and those that a poll takes of it at the most.
const RING: f64 = 1_024.0;
const BUDGET: f64 = 64.0;

/// A processor that takes a frame each 2 us behind a link that brings one each 1.2. With pause frames its
/// switch is silent for the rest, and nothing is lost; without it sends at the line's rate, and what the
/// ring cannot hold is.
pub(super) fn pauses(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let frame = FRAME * 8.0 / RATE;
    let nic = |pause: &str| {
        format!(
            "[group.h0.nic]\nrx_ring = {RING}\nrx_pause = {pause}\n[group.h0.cpu]\ncounts = true\ncores = 1\n\
             interrupt = \"0ns\"\npacket = \"{WORK}ns\"\nkilobyte = \"0ns\"\nack = \"0ns\"\ncall = \"0ns\""
        )
    };
    const WORKS: &str = "a processor that takes a frame each 2 us: what a station gets that honours its pause frames";
    const PAUSED: &str = "IEEE 802.3 Annex 31B with headroom: nothing is dropped";
    const NOT: &str = "IEEE 802.3 Annex 31B: who is not paused sends at the line's rate";
    let long = "duration = \"100ms\"\nwarm_up = \"10ms\"";
    let ran = run(
        bench,
        &parsed("rx-pause", &flow(5_000, &nic("true"), long))?,
    )?;
    let to = port(&ran, "s0->h0")?;
    let paused = to.pause.paused.as_nanos() as f64 / ran.measured.as_nanos() as f64 * 100.0;
    let busy = to.utilisation_ppm as f64 / 1e4;
    let mut row = |what: &str, source: &str, expected: f64, is: f64, unit, tolerance| {
        let (expected, is) = (Expected::Value(expected), Measured::Value(is));
        bench.row(Row::new(what, source, expected, is, unit, tolerance));
    };
    let drops = to.dropped(DropReason::RingFull) as f64;
    let dropped = "with pause frames: frames that the ring drops";
    row(dropped, PAUSED, 0.0, drops, "", Tolerance::Exact);
    row(
        "with pause frames: goodput",
        WORKS,
        PAYLOAD * 8.0 / WORK,
        goodput(&ran, "flow") / 1e9,
        "Gb/s",
        Tolerance::Relative(0.01),
    );
    let share = (1.0 - frame / WORK) * 100.0;
    row(
        "with pause frames: time that the switch is paused",
        WORKS,
        share,
        paused,
        "%",
        Tolerance::Relative(0.05),
    );
    row(
        "with pause frames: time that the switch sends",
        "a paused trunk: (1 - d) of its rate",
        100.0 - paused,
        busy,
        "%",
        Tolerance::Relative(0.02),
    );
    // Before a window of 5000 is through.
    let short = "duration = \"5ms\"\nwarm_up = \"1ms\"";
    let ran = run(
        bench,
        &parsed("no-rx-pause", &flow(5_000, &nic("false"), short))?,
    )?;
    let to = port(&ran, "s0->h0")?;
    bench.row(Row::new(
        "without: time that the switch sends",
        NOT,
        Expected::Value(100.0),
        Measured::Value(to.utilisation_ppm as f64 / 1e4),
        "%",
        Tolerance::Relative(0.01),
    ));
    // Since the first frame: a handshake, and the way there.
    let since = 5e6 - FIRST;
    let beyond = since / frame - since / WORK - RING;
    bench.row(Row::new(
        "without: frames that the ring drops, less what a poll has taken of it and not done",
        NOT,
        Expected::Range(beyond - BUDGET, beyond),
        Measured::Value(to.dropped(DropReason::RingFull) as f64),
        "",
        Tolerance::Exact,
    ));
    Ok(())
}

/// When the first frame of data is at h0, in nanoseconds: three times 10 us and what its bits take, twice.
const FIRST: f64 = 33_000.0;
