//! What many losses cost: claims M21 and M30.

use crate::judge::{Finding, median};
use crate::played::{Answer, NoAnswer, Played, column, missing, series_of};
use narrows_experiment::run::RunOutcome;
use narrows_report::points::number;

/// A full segment, with timestamps.
const SEGMENT: f64 = 1_448.0;

/// What windows did that timeouts had made one segment, where the threshold left them room.
#[derive(Default)]
struct SlowStarts {
    /// How many there were.
    begun: usize,
    /// Windows over those of a round trip before, up to the threshold.
    growth: Vec<f64>,
    /// How many windows came so far.
    over: usize,
}

impl SlowStarts {
    fn add(&mut self, run: &RunOutcome) -> Answer<()> {
        for series in series_of(run, "window") {
            let column = |name| column(series, name);
            let (cwnd, ssthresh) = (column("cwnd_bytes")?, column("ssthresh_bytes")?);
            let (fell, growth) = (column("fell_from_bytes")?, column("growth")?);
            let mut slow = false;
            for row in &series.rows {
                let (Some(window), Some(most)) = (row[cwnd], row[ssthresh]) else {
                    continue;
                };
                if row[fell].is_some() {
                    // The first that is told after a timeout has the segment of its acknowledgement in it.
                    slow = window <= 2.0 * SEGMENT && window < most;
                    self.begun += usize::from(slow);
                } else if slow {
                    self.growth.extend(row[growth]);
                    slow = window < most;
                    self.over += usize::from(!slow);
                }
            }
        }
        Ok(())
    }
}

pub(super) fn losses_cost_timeouts_and_slow_starts(played: &Played) -> Answer<Finding> {
    let scene = played.scene("many-losses")?;
    let outcomes = scene.outcomes(&[])?;
    let ms = outcomes.iter().flat_map(|o| o.transfers.iter());
    let ms: Vec<f64> = ms.map(|t| t.took.as_nanos() as f64 / 1e6).collect();
    let slow: Vec<f64> = ms.iter().copied().filter(|took| *took >= 200.0).collect();
    // 8 shares of 256 KiB take 17 ms on the line.
    let in_class = slow.iter().filter(|took| **took % 200.0 <= 50.0).count();
    let most = in_class as f64 >= 0.9 * slow.len() as f64;
    let flows = outcomes.iter().flat_map(|o| &o.flows);
    let timeouts: u64 = flows.map(|flow| flow.timeouts()).sum();
    let mut starts = SlowStarts::default();
    for run in outcomes {
        starts.add(run)?;
    }
    let growth = median(&starts.growth).ok_or_else(|| missing("slow start"))?;
    let falls: f64 = scene
        .matching(&[], "window.", ".falls.timeout")?
        .iter()
        .sum();
    Ok(Finding::all([
        Finding::is(
            format!(
                "{} of {} blocks took 200 ms or more; {in_class} of them a multiple of 200 ms and at most 50 ms",
                slow.len(),
                ms.len()
            ),
            !slow.is_empty() && most,
        ),
        Finding::is(
            format!("of {timeouts} timeouts {falls} lowered the window of their connection"),
            timeouts > 0 && falls >= 0.9 * timeouts as f64,
        ),
        Finding::between(
            "in the slow starts behind them the window over that of a round trip before, in the median,",
            growth,
            (1.4, 2.0),
            "",
        )
        .and_words(format_args!(
            ": {} begin with a segment below their threshold, {} come to it; the first round trip of each counts \
             from what its first ACK has added, and the last ends at the threshold",
            starts.begun, starts.over
        )),
    ]))
}

/// The floors of the RTO in the order of their size, with the value that has them.
const FLOORS: [(&str, &str); 3] = [("200 ms", "linux"), ("10 ms", "10ms"), ("1 ms", "1ms")];
/// Timers without ticks.
const EXACT: &str = "0ns";

pub(super) fn the_floor_is_a_remedy(played: &Played) -> Answer<Finding> {
    let late = |rto: &str, tick: &str| {
        let (floor, tick_of) = (("rto", rto), ("host.tcp.timer_tick", tick));
        let (scene, at) = match (rto, tick) {
            ("linux", EXACT) => ("none", vec![]),
            (_, EXACT) => ("rto", vec![floor]),
            _ => ("rto-at-ticks", vec![floor, tick_of]),
        };
        played.scene(scene)?.value(&at, "latency.p999")
    };
    let by_floor = |tick: &str| -> Answer<Finding> {
        let all = FLOORS.map(|(floor, rto)| Ok::<_, NoAnswer>((floor, late(rto, tick)?)));
        let all: Vec<(&str, f64)> = all.into_iter().collect::<Answer<_>>()?;
        let words = all
            .iter()
            .map(|(floor, ns)| format!("{floor}: {}", number(*ns, "ns")));
        let words: Vec<String> = words.collect();
        Ok(Finding::is(
            format!(
                "p99.9 by floor with ticks of {tick} {} (wanted falling)",
                words.join(", ")
            ),
            all.is_sorted_by(|a, b| a.1 > b.1),
        ))
    };
    let floor = late("linux", EXACT)? / late("10ms", EXACT)?;
    let tick = late("1ms", "10ms")? / late("1ms", EXACT)?;
    let finding = Finding::all([
        by_floor(EXACT)?,
        by_floor("10ms")?,
        Finding::at_least(
            "with a floor of 200 ms over that with 10 ms, exact timers,",
            floor,
            5.0,
            "",
        ),
        Finding::at_least("with 1 ms, ticks of 10 ms over exact timers", tick, 2.0, ""),
    ]);
    Ok(finding.and_words(
        ". The 5 and the 2 are ours, for the text has no number; what was wrong with the old kernel's it does not \
         tell, and ticks are our reading",
    ))
}
