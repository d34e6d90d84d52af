//! `narrows calibrate`: what packets cost on this machine's kernel, as knobs of `[host.cpu]`, and what its
//! shaper lets go beside the simulated one.

use super::output::print;
use super::{App, Console, EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows::Duration;
use narrows_experiment::model::nic::Cpu;
use narrows_lab::LiveError;
use narrows_lab::calibrate::{Calibration, Costs, run as measure};
use narrows_lab::lab;
use narrows_lab::segmenting::{self, Load, Sizes, Tso};
use narrows_lab::shaping::{self, Conformance, ShapingSpec};
use narrows_report::points::number;
use narrows_report::table::Colour;
use narrows_story::grid::Grid;
use narrows_story::text;
use std::fmt::Write;
use std::sync::atomic::{AtomicBool, Ordering};

/// Run it; the exit code.
pub(super) fn run(_: &App, console: &mut Console<'_>) -> Result<u8, Stop> {
    let failed = |e: LiveError| Stop::Failed(e.to_string());
    lab::check_kernels().map_err(failed)?;
    console.say("Measuring on two hosts of the kernel's, for some seconds ...\n\n")?;
    let cancelled = || console.cancel.load(Ordering::Relaxed);
    let seen = match measure(console.cancel) {
        Err(_) if cancelled() => return Ok(EXIT_INTERRUPTED),
        seen => seen.map_err(failed)?,
    };
    let colour = console.colours();
    let mut said = text::table(&table(&seen), colour);
    let _ = match seen.merging {
        Some(merging) => writeln!(
            said,
            "\nA write of 32 segments takes {} segment by segment, and {} where the receiver polls \
             and merges them: {} an aggregate.",
            number(merging.apart, "ns"),
            number(merging.merged, "ns"),
            number(merging.segments_per_aggregate, "")
        ),
        None => writeln!(
            said,
            "\nThis kernel's veth does not poll and merge: an interrupt's cost is not known."
        ),
    };
    said += &knobs(&seen);
    // Whatever becomes of the shaper.
    print(console.stdout, &said)?;
    let shapers = match shapers(console.cancel) {
        Err(_) if cancelled() => return Ok(EXIT_INTERRUPTED),
        shapers => beside(shapers, colour).map_err(failed)?,
    };
    print(console.stdout, &shapers)?;
    let sizes = match sizes(console.cancel) {
        Err(_) if cancelled() => return Ok(EXIT_INTERRUPTED),
        sizes => beside(sizes, colour).map_err(failed)?,
    };
    print(console.stdout, &sizes)?;
    Ok(EXIT_OK)
}

/// The shapers in words; that a kernel has none is said.
fn beside(shapers: Result<Grid, LiveError>, colour: Colour) -> Result<String, LiveError> {
    match shapers {
        Ok(grid) => Ok(format!("\n{}", text::table(&grid, colour))),
        Err(e @ LiveError::NoShaper) => Ok(format!(
            "\nWhat this kernel's shaper lets go is not known: {e}.\n"
        )),
        Err(e) => Err(e),
    }
}

/// What shapers of the same rate and burst let go.
fn shapers(cancel: &AtomicBool) -> Result<Grid, LiveError> {
    let spec = ShapingSpec::default();
    let title = format!(
        "{} with a burst of {}",
        number(spec.rate.bits_per_sec() as f64, "bit/s"),
        number(spec.burst.get() as f64, "bytes")
    );
    let row = |name: &str, seen: Conformance| {
        let (burst, rate) = (number(seen.burst, "bytes"), number(seen.rate, "bit/s"));
        vec![name.to_owned(), burst, rate]
    };
    let head = [&title, "lets go beyond the rate", "carries after the burst"];
    Ok(Grid {
        rows: vec![
            row("tbf of this kernel", shaping::kernel(&spec, cancel)?),
            row("simulated", shaping::simulated(&spec, Duration::ZERO)?),
            row(
                "simulated, at ticks of 4 ms",
                shaping::simulated(&spec, Duration::from_millis(4))?,
            ),
        ],
        ..Grid::new(head, 1)
    })
}

/// What a sender hands to its interface and what is on the wire, of the kernel and simulated.
fn sizes(cancel: &AtomicBool) -> Result<Grid, LiveError> {
    let head = ["payload of a packet", "at the host", "on the wire"];
    let mut grid = Grid::new(head, 1);
    let loads = [
        ("replies of 10 kB", Load::Replies(10_000)),
        ("replies of 30 kB", Load::Replies(30_000)),
        // Of which more leaves at once of the kernel: it waits for more to send (`tcp_tso_should_defer`).
        ("bulk", Load::Bulk),
    ];
    for (what, load) in loads {
        for (name, tso) in [("TSO", Tso::On), ("no TSO", Tso::Off)] {
            let mut row = |whose: &str, sizes: Sizes| {
                let sizes = [sizes.host, sizes.wire].map(|size| number(size, "bytes"));
                let named = format!("{what}, {name}, {whose}");
                grid.rows.push([named].into_iter().chain(sizes).collect());
            };
            row("this kernel", segmenting::kernel(load, tso, cancel)?);
            row("simulated", segmenting::simulated(load, tso)?);
        }
    }
    Ok(grid)
}

/// The costs by their knobs.
fn table(seen: &Calibration) -> Grid {
    let usual = Cpu::default();
    let time = |ns: f64| number(ns, "ns");
    let costs = |of: fn(&Costs) -> f64, default: Duration, name: &str| {
        vec![
            name.to_owned(),
            time(default.as_nanos() as f64),
            time(of(&seen.costs)),
        ]
    };
    Grid {
        head: ["", "default", "measured"].map(str::to_owned).to_vec(),
        words: 1,
        rows: vec![
            costs(|c| c.interrupt, usual.interrupt, "interrupt"),
            costs(|c| c.packet, usual.packet, "packet"),
            costs(|c| c.kilobyte, usual.kilobyte, "kilobyte"),
            costs(|c| c.ack, usual.ack, "ack"),
            costs(|c| c.call, usual.call, "call"),
        ],
    }
}

/// The section of an experiment.
fn knobs(seen: &Calibration) -> String {
    let costs = seen.costs;
    let mut out = String::from("\n[host.cpu]\ncounts = true\n");
    // What could not be measured is left as it is.
    let interrupt = seen.merging.map(|_| ("interrupt", costs.interrupt));
    for (name, ns) in interrupt.into_iter().chain([
        ("packet", costs.packet),
        ("kilobyte", costs.kilobyte),
        ("ack", costs.ack),
        ("call", costs.call),
    ]) {
        let _ = writeln!(out, "{name} = \"{:.0}ns\"", ns.max(0.0));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_a_shaper_is_told_of_and_other_failures_are_failures() {
        let said = beside(Err(LiveError::NoShaper), Colour::Plain).unwrap();
        assert!(said.contains("modprobe sch_tbf"), "{said}");
        let other = LiveError::io("shape", std::io::ErrorKind::TimedOut.into());
        assert!(beside(Err(other), Colour::Plain).is_err());
    }

    #[test]
    fn what_is_printed_is_a_section_that_an_experiment_can_have() {
        let costs = Costs {
            interrupt: 1_500.0,
            packet: 812.4,
            kilobyte: 51.0,
            ack: 433.0,
            call: 120.6,
        };
        let merging = narrows_lab::calibrate::Merging {
            apart: 90e3,
            merged: 30e3,
            segments_per_aggregate: 16.0,
        };
        let seen = Calibration {
            costs,
            merging: Some(merging),
        };
        let section = knobs(&seen);
        assert_eq!(
            section,
            "\n[host.cpu]\ncounts = true\ninterrupt = \"1500ns\"\npacket = \"812ns\"\nkilobyte = \"51ns\"\n\
             ack = \"433ns\"\ncall = \"121ns\"\n"
        );
        let shipped = narrows_experiment::shipped::Shipped::get("two-senders").unwrap();
        let registry = narrows_experiment::registry::Registry::default();
        let text = format!("{}{section}", shipped.text);
        narrows_experiment::file::Loaded::parse("test", &text, &registry).unwrap();
    }
}
