//! What the figures of ns-2 hang on: the preset with each habit of ns-2 taken from it, and ns-2
//! with the same knobs turned.

use super::*;
use crate::reference::Table;
use narrows::ByteCount;
use narrows::config::IdleRestart;
use narrows_experiment::scenario::spec::{BlockSize, QueueCounting, Ties};

const BUFFERS: &str = include_str!("../../reference/fast08_buffers.csv");
const NS2: &str = include_str!("../../reference/fast08_knobs.csv");
/// A random wait that ends all rasters.
const JITTER: Duration = Duration::from_micros(1);

/// A change of the preset, as the command line has it.
type Change = fn(&mut IncastSpec);

const HABITS: [(&str, Change); 7] = [
    ("as it is", |_| {}),
    ("--cc reno", |s| s.tcp.congestion = "reno".to_owned()),
    ("--ties shuffled", |s| s.net.ties = Ties::Shuffled),
    ("--nic-overhead 1us", |s| s.net.nic_overhead = JITTER),
    ("--idle-restart keep", |s| {
        s.tcp.idle_restart = IdleRestart::Keep;
    }),
    ("--undo on", |s| s.tcp.undo_spurious = true),
    ("--queue-counting waiting", |s| {
        s.net.queue_counting = QueueCounting::Waiting;
    }),
];

/// Our preset without each habit.
pub(super) fn habits(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(BUFFERS);
    for (name, change) in HABITS {
        for n in [12, 16, 32, 64, 128] {
            let mut spec = fast08(n, 64, 10);
            change(&mut spec);
            let theirs = table
                .lines()
                .find(|l| l.whole("buffer") == 64 && l.whole("n") == n)
                .and_then(|l| l.number("goodput"));
            bench.row(Row::new(
                format!("B = 64, N = {n}, preset {name}: goodput"),
                table.source.clone(),
                theirs.map_or(Expected::Nothing, Expected::Value),
                Measured::spread(&goodput(&runs(bench, &spec, 1..=2)?)),
                "Mb/s",
                Tolerance::Shown,
            ));
        }
    }
    Ok(())
}

/// A line of ns-2's table as a spec of ours.
fn like(line: &crate::reference::Line<'_>) -> Option<IncastSpec> {
    let mut spec = fast08(line.whole("n"), line.whole("buffer"), 10);
    if let Some(packets) = line.number("block") {
        spec.block = BlockSize::Fixed(ByteCount::new(1_000 * packets as u64));
    }
    let rto = Duration::from_micros(u64::from(line.whole("rto_us")));
    if rto < Duration::from_millis(50) {
        spec.length = Length::Time(Duration::from_secs(4));
    }
    spec.tcp.rto = floor(rto);
    let deflate = |spec: &mut IncastSpec| spec.tcp.congestion = "reno".to_owned();
    match line.text("knob") {
        "none" => {}
        "jitter" => spec.net.nic_overhead = JITTER,
        "deflate" => deflate(&mut spec),
        "deflate and jitter" => {
            deflate(&mut spec);
            spec.net.nic_overhead = JITTER;
        }
        "no restart" => spec.tcp.idle_restart = IdleRestart::Keep,
        _ => return None,
    }
    Some(spec)
}

/// ns-2 and ours with the same knob turned.
pub(super) fn knobs(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(NS2);
    for line in table.lines() {
        let Some(spec) = like(&line) else {
            let knob = line.text("knob");
            return Err(ScenarioError::Internal(format!("no knob '{knob}'")));
        };
        let (n, buffer) = (line.whole("n"), line.whole("buffer"));
        let rto = Duration::from_micros(u64::from(line.whole("rto_us")));
        let block = line
            .number("block")
            .map_or(String::new(), |p| format!("blocks of {p} packets, "));
        let knob = match line.text("knob") {
            "none" => "as they are",
            "jitter" => "a random microsecond in front of each packet",
            "deflate" => "no burst at the end of a recovery",
            "deflate and jitter" => "neither burst nor raster",
            _ => "windows kept in a pause",
        };
        let theirs = [line.number("goodput_1"), line.number("goodput_2")];
        let theirs: Vec<f64> = theirs.into_iter().flatten().collect();
        let (mean, (least, most)) = band(&theirs);
        let found = runs(bench, &spec, 1..=2)?;
        // As everywhere, the transition is not judged.
        let tolerance = if n < 16 { Tolerance::Shown } else { COLLAPSED };
        bench.row(
            Row::new(
                format!("B = {buffer}, N = {n}, {block}RTOmin {rto}, {knob}: goodput"),
                table.source.clone(),
                Expected::Value(mean),
                Measured::spread(&goodput(&found)),
                "Mb/s",
                tolerance,
            )
            .note(format!(
                "ns-2: {least:.0} to {most:.0}, {} seeds",
                theirs.len()
            )),
        );
        if let Some(theirs) = line.number("timeouts") {
            bench.row(Row::new(
                format!("B = {buffer}, N = {n}, {block}RTOmin {rto}, {knob}: timeouts a block"),
                table.source.clone(),
                Expected::Value(theirs),
                Measured::spread(&timeouts(&found)),
                "",
                Tolerance::Shown,
            ));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_knob_of_the_table_is_one_of_ours() {
        for line in Table::parse(NS2).lines() {
            let spec = like(&line).unwrap_or_else(|| panic!("{line:?}"));
            spec.validate().unwrap();
            assert_ne!(spec, fast08(16, 64, 20));
        }
    }

    /// Each habit is one that the preset has.
    #[test]
    fn every_habit_changes_the_preset() {
        let preset = fast08(16, 64, 1);
        for (name, change) in HABITS.into_iter().skip(1) {
            let mut changed = preset.clone();
            change(&mut changed);
            assert_ne!(changed, preset, "{name}");
            changed.validate().unwrap();
        }
    }
}
