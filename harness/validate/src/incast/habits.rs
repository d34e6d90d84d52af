//! What the figures of ns-2 hang on: the preset with each habit of ns-2 taken from it, and ns-2
//! with the same knobs turned.

use super::*;
use crate::reference::Table;

const BUFFERS: &str = include_str!("../../reference/fast08_buffers.csv");
const NS2: &str = include_str!("../../reference/fast08_knobs.csv");
/// A random wait of the servers that ends all rasters.
const JITTER: (&str, &str) = ("group.servers.nic.overhead", "1us");
/// The window is ssthresh in steps at the end of a recovery.
const DEFLATE: (&str, &str) = ("cc", "reno");
const KEEP: (&str, &str) = ("host.tcp.idle_restart", "keep");

/// A change of the preset, as the command line has it, with key and value.
type Change = (&'static str, &'static str);

const HABITS: [(&str, Option<Change>); 7] = [
    ("as it is", None),
    ("--cc reno", Some(DEFLATE)),
    ("--ties shuffled", Some(("network.ties", "shuffled"))),
    ("--nic-overhead 1us", Some(JITTER)),
    ("--idle-restart keep", Some(KEEP)),
    ("--undo on", Some(("host.tcp.undo", "on"))),
    (
        "--queue-counting waiting",
        Some((r#"network.port."s0->h0".queue.counting"#, "waiting")),
    ),
];

/// Our preset without each habit.
pub(super) fn habits(bench: &mut Bench<'_>) -> Result<(), ScenarioError> {
    let table = Table::parse(BUFFERS);
    for (name, change) in HABITS {
        for n in [12, 16, 32, 64, 128] {
            let mut spec = fast08(n, 64, 10);
            if let Some((key, value)) = change {
                put(&mut spec, key, value);
            }
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
fn like(line: &crate::reference::Line<'_>) -> Option<Experiment> {
    let mut spec = fast08(line.whole("n"), line.whole("buffer"), 10);
    if let Some(packets) = line.number("block") {
        put(&mut spec, "block", format!("{packets}kB"));
    }
    let rto = Duration::from_micros(u64::from(line.whole("rto_us")));
    if rto < Duration::from_millis(50) {
        spec.run.duration = Duration::from_secs(4);
    }
    spec.host.tcp.rto = floor(rto);
    let changes: &[Change] = match line.text("knob") {
        "none" => &[],
        "jitter" => &[JITTER],
        "deflate" => &[DEFLATE],
        "deflate and jitter" => &[DEFLATE, JITTER],
        "no restart" => &[KEEP],
        _ => return None,
    };
    for (key, value) in changes {
        put(&mut spec, key, *value);
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
    use narrows_experiment::file::text_of;
    use narrows_experiment::registry::Registry;

    #[test]
    fn every_knob_of_the_table_is_one_of_ours() {
        for line in Table::parse(NS2).lines() {
            let spec = like(&line).unwrap_or_else(|| panic!("{line:?}"));
            spec.check(&Registry::default()).unwrap();
            assert_ne!(text_of(&spec), text_of(&fast08(16, 64, 20)));
        }
    }

    /// Each habit is one that the preset has.
    #[test]
    fn every_habit_changes_the_preset() {
        let preset = fast08(16, 64, 1);
        for (name, change) in HABITS.into_iter().skip(1) {
            let (key, value) = change.expect("a change");
            let mut changed = preset.clone();
            put(&mut changed, key, value);
            assert_ne!(text_of(&changed), text_of(&preset), "{name}");
            changed.check(&Registry::default()).unwrap();
        }
    }
}
