//! `narrows calibrate`: what packets cost on this machine's kernel, as knobs of `[host.cpu]`, with what the
//! model makes of them, and what its shaper lets go beside the simulated one.

use super::output::print;
use super::{App, Console, EXIT_INTERRUPTED, EXIT_OK, Stop};
use narrows::Duration;
use narrows_experiment::model::nic::Cpu;
use narrows_lab::LiveError;
use narrows_lab::calibrate::{Calibration, Costs, Gro, WriteCost, run as measure, simulated};
use narrows_lab::lab;
use narrows_lab::segmenting::{self, Load, Sizes, Tso};
use narrows_lab::shaping::{self, Conformance, ShapingSpec};
use narrows_report::points::number;
use narrows_report::table::Colour;
use narrows_story::grid::Grid;
use narrows_story::text;
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
    // Whatever becomes of what is simulated, and of the shaper.
    print(console.stdout, &measured(&seen, colour))?;
    let simulated = |gro| simulated(&seen.costs, gro).map_err(failed);
    let unmerged = (seen.unmerged, simulated(Gro::Off)?);
    let merged = match seen.merged {
        Some(live) => Some((live, simulated(Gro::On)?)),
        None => None,
    };
    let writes = text::table(&writes(unmerged, merged), colour);
    print(console.stdout, &format!("\n{writes}"))?;
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

/// The costs, and as an experiment has them.
fn measured(seen: &Calibration, colour: Colour) -> String {
    let mut said = text::table(&table(&seen.costs), colour);
    said += "\n";
    if seen.merged.is_none() {
        said += "This kernel's veth does not poll and merge: an interrupt's cost is not known.\n\n";
    }
    said + &seen.costs.section()
}

/// The costs by their knobs.
fn table(seen: &Costs) -> Grid {
    let usual = Cpu::default();
    let time = |ns: f64| number(ns, "ns");
    let cost = |name: &str, default: Duration, ns: Option<f64>| {
        let measured = ns.map_or("-".to_owned(), time);
        vec![name.to_owned(), time(default.as_nanos() as f64), measured]
    };
    Grid {
        rows: vec![
            cost("interrupt", usual.interrupt, seen.interrupt),
            cost("packet", usual.packet, Some(seen.packet)),
            cost("kilobyte", usual.kilobyte, Some(seen.kilobyte)),
            cost("ack", usual.ack, Some(seen.ack)),
            cost("call", usual.call, Some(seen.call)),
        ],
        ..Grid::new(["", "default", "measured"], 1)
    }
}

/// A write of the kernel's and the simulated one with these costs, to a receiver that takes segment by
/// segment and to one that merges.
fn writes(unmerged: (WriteCost, WriteCost), merged: Option<(WriteCost, WriteCost)>) -> Grid {
    let head = [
        "a write of 32 segments",
        "segments a packet",
        "ACKs",
        "work of both hosts",
    ];
    let mut grid = Grid::new(head, 1);
    let how = [
        ("merged by GRO", merged),
        ("segment by segment", Some(unmerged)),
    ];
    for (how, both) in how {
        let Some((live, simulated)) = both else {
            continue;
        };
        for (whose, write) in [("this kernel", live), ("simulated", simulated)] {
            grid.rows.push(vec![
                format!("{how}, {whose}"),
                number(write.segments_per_packet, ""),
                number(write.acks, ""),
                number(write.ns, "ns"),
            ]);
        }
    }
    grid
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
            interrupt: Some(1_500.0),
            packet: 812.4,
            kilobyte: 51.0,
            ack: 433.0,
            call: 120.6,
        };
        let section = costs.section();
        assert_eq!(
            section,
            "[host.cpu]\ncounts = true\ninterrupt = \"1500ns\"\npacket = \"812ns\"\nkilobyte = \"51ns\"\n\
             ack = \"433ns\"\ncall = \"121ns\"\n"
        );
        let unknown = Costs {
            interrupt: None,
            ..costs
        };
        assert!(!unknown.section().contains("interrupt"));
        let shipped = narrows_experiment::shipped::Shipped::get("two-senders").unwrap();
        let registry = narrows_experiment::registry::Registry::default();
        let text = format!("{}\n{section}", shipped.text);
        narrows_experiment::file::Loaded::parse("test", &text, &registry).unwrap();
    }

    #[test]
    fn what_a_kernel_cannot_merge_has_no_row() {
        let write = WriteCost {
            segments_per_packet: 32.0,
            acks: 1.0,
            ns: 26_000.0,
        };
        let unmerged = WriteCost {
            segments_per_packet: 1.0,
            ..write
        };
        let of = |merged| {
            let grid = writes((unmerged, unmerged), merged);
            let names = grid.rows.into_iter().map(|row| row[..2].join(": "));
            names.collect::<Vec<_>>()
        };
        let unmerged = [
            "segment by segment, this kernel: 1",
            "segment by segment, simulated: 1",
        ];
        assert_eq!(of(None), unmerged);
        let merged = of(Some((write, write)));
        assert_eq!(merged[0], "merged by GRO, this kernel: 32");
        assert_eq!(merged[1], "merged by GRO, simulated: 32");
        assert_eq!(merged[2..], unmerged);
    }
}
