//! The twin of `burst` on this machine's kernel.

use crate::grid::Grid;
use crate::judge::{Finding, median};
use crate::played::{NoAnswer, Played};
use crate::scene::Scene;
use crate::stage::Stage;
use crate::twin::{Found, Seen, Twin};
use narrows::{ByteCount, Rate};
use narrows_experiment::polling::Readings;
use narrows_lab::burst::{BurstRun, BurstSpec, run, run_ours};
use narrows_lab::meter::Track;
use narrows_report::points::number;
use std::time::Duration;

/// The twin.
pub(super) const TWIN: Twin = Twin {
    about: "Six hosts of the kernel's in network namespaces, or of ours at TAPs, each behind a tbf port of \
            200 Mb/s with 13 KiB, ask three others for 6 kB at once; the kernel's counters of what comes to \
            each are polled. All rates, sizes and buffers are a fifth of the story's, so that times are the \
            same. veth has no wire: what two segments of a super-frame take, and how long a look waits for a \
            processor, is this machine's; a TAP counts a frame when ours reads it.",
    scenes: &[SIMULATED],
    run: twin,
};

const PERIODS_MS: [u64; 9] = [500, 250, 128, 64, 32, 16, 8, 4, 2];
/// Of these the one that is judged beside the first: shorter ones have in them how late looks are.
const SHORT: usize = 6;
const HOSTS: u8 = 6;

/// The same simulated. The load is payload, of which each port then carries 38 Mb/s.
const SIMULATED: Scene = Scene::new("simulated", "microbursts").with(&[
    ("cc", "cubic"),
    ("load", "34Mb/s"),
    ("size", "6kB"),
    ("buffer", "13KiB"),
    ("network.queue.threshold", "6kB"),
    ("network.hosts", "6"),
    ("network.link.rate", "200Mb/s"),
    ("network.link.delay", "25us"),
    ("host.tcp.loss_detection", "rack"),
    ("probe.port.on", "s0->host"),
    ("probe.port.series", "off"),
    (
        "probe.port.every",
        "500ms,250ms,128ms,64ms,32ms,16ms,8ms,4ms,2ms",
    ),
    ("run.warm_up", "500ms"),
    ("run.duration", "10500ms"),
]);

fn twin(stage: &Stage<'_>, played: &Played) -> Result<Seen, String> {
    let simulated = played.scene(SIMULATED.name)?;
    let spec = BurstSpec {
        hosts: HOSTS,
        rate: Rate::from_mbps(200),
        buffer: ByteCount::new(13 << 10),
        load: Rate::from_mbps(34),
        servers: 3,
        size: ByteCount::new(6_000),
        span: Duration::from_secs(10),
        seed: 1,
    };
    let periods = PERIODS_MS.map(Duration::from_millis);
    let tcp = stage.tcp(&SIMULATED, &[])?;
    let live = [
        run(&spec, &periods, stage.cancel),
        run_ours(&spec, tcp, &periods, stage.cancel),
    ];
    let [kernels, ours] = live.map(|run| run.map_err(|e| e.to_string()));
    let live = [kernels?, ours?];
    let head = [
        "",
        "simulated",
        "live, kernel",
        "live, ours",
        "looks late, p99",
        "with ours",
    ];
    let mut grid = Grid::new(head, 1);
    let matching = |end: &str| {
        let all = simulated.matching(&[], "port.", end)?;
        Ok::<_, NoAnswer>(median(&all))
    };
    // Beside what is of looks stands how late they are.
    let late = |run: &BurstRun, nth: usize| {
        let late = run.tracks.get(nth).and_then(|track| track.lateness(990));
        shown(late.map(|late| late.as_nanos() as f64), "ns")
    };
    let mut row =
        |what: String, told: String, looks: Option<usize>, of: &dyn Fn(&BurstRun) -> String| {
            let mut row = vec![what, told];
            row.extend(live.iter().map(of));
            if let Some(nth) = looks {
                row.extend(live.iter().map(|run| late(run, nth)));
            }
            grid.rows.push(row);
        };
    let told = shown(matching(".mean.500ms_bps")?, "bit/s");
    row("mean of a port".to_owned(), told, None, &|run| {
        shown(mean(run), "bit/s")
    });
    for (nth, ms) in PERIODS_MS.into_iter().enumerate() {
        let end = format!(".second.max_over_mean.{ms}ms");
        let told = shown(matching(&end)?, "");
        row(format!("max/mean at {ms} ms"), told, Some(nth), &|run| {
            shown(ratio(run, nth), "")
        });
    }
    let drops = simulated.value(&[], "drops_per_s")? / f64::from(HOSTS);
    let told = number(drops, "");
    row("drops a second of a port".to_owned(), told, None, &|run| {
        number(drops_per_s(run, &spec), "")
    });
    let shows = ["kernel", "ours"]
        .into_iter()
        .zip(&live)
        .map(|(whose, run)| Shows {
            whose,
            long: ratio(run, 0),
            short: ratio(run, SHORT),
            share: mean(run).map(|mean| mean / spec.rate.bits_per_sec() as f64),
            drops_per_s: drops_per_s(run, &spec),
        });
    let found = found(&shows.collect::<Vec<_>>());
    Ok(Seen {
        tables: vec![grid],
        notes: Vec::new(),
        found,
    })
}

/// What hosts showed that is judged.
struct Shows {
    whose: &'static str,
    /// The greatest reading over the mean, at the longest period.
    long: Option<f64>,
    /// At the one of [`SHORT`].
    short: Option<f64>,
    /// The mean over the line.
    share: Option<f64>,
    drops_per_s: f64,
}

fn found(all: &[Shows]) -> Vec<Found> {
    let or = |x: Option<f64>| x.unwrap_or(f64::NAN);
    let rises = all.iter().map(|shows| {
        Finding::at_least(
            &format!(
                "hosts {}: max/mean at {} ms over that at {} ms",
                shows.whose, PERIODS_MS[SHORT], PERIODS_MS[0]
            ),
            or(shows.short) / or(shows.long),
            2.0,
            "",
        )
    });
    let drops = all.iter().map(|shows| {
        let share = or(shows.share) * 100.0;
        Finding::is(
            format!(
                "hosts {}: a port that is {share:.0} % busy drops {} packets a second (wanted some, at less \
                 than 40 %)",
                shows.whose,
                number(shows.drops_per_s, "")
            ),
            share < 40.0 && shows.drops_per_s > 0.0,
        )
    });
    vec![
        Found {
            claim: "M17",
            finding: Finding::all(rises),
            because: "a look that waits for a processor is of a longer time than it should be, and so is \
                      nearer to the mean; hosts that wait send nothing for as long",
        },
        Found {
            claim: "M10",
            finding: Finding::all(drops),
            because: "replies whose hosts wait for a processor do not come at once",
        },
    ]
}

/// What comes to a port, in the median of the ports.
fn mean(run: &BurstRun) -> Option<f64> {
    let track = run.tracks.first()?;
    let all = readings(run, track).filter_map(|r| Some(r.whole()?.mean));
    median(&all.collect::<Vec<_>>())
}

/// The greatest reading over the mean of a second, in the medians of seconds and of ports.
fn ratio(run: &BurstRun, nth: usize) -> Option<f64> {
    let all = readings(run, run.tracks.get(nth)?).filter_map(|r| r.median_ratio());
    median(&all.collect::<Vec<_>>())
}

fn drops_per_s(live: &BurstRun, spec: &BurstSpec) -> f64 {
    live.drops as f64 / f64::from(HOSTS) / spec.span.as_secs_f64()
}

fn shown(value: Option<f64>, unit: &str) -> String {
    value.map_or("-".to_owned(), |value| number(value, unit))
}

/// What comes to each host.
fn readings<'a>(run: &BurstRun, track: &'a Track) -> impl Iterator<Item = Readings> + 'a {
    let arrived = run.arrived;
    (0..usize::from(HOSTS)).map(move |host| track.readings(host, arrived))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::judge::Judged;

    #[test]
    fn a_port_that_reads_alike_at_all_periods_or_drops_nothing_differs() {
        let of = |long, short, drops_per_s| {
            let shows = Shows {
                whose: "kernel",
                long,
                short,
                share: Some(0.19),
                drops_per_s,
            };
            let found = found(&[shows]);
            found
                .into_iter()
                .map(|f| f.finding.judged)
                .collect::<Vec<_>>()
        };
        use Judged::{Differs, Holds};
        assert_eq!(of(Some(1.1), Some(3.5), 20.0), [Holds, Holds]);
        assert_eq!(of(Some(1.1), Some(2.0), 20.0), [Differs, Holds]);
        assert_eq!(of(Some(1.1), None, 0.0), [Differs, Differs]);
    }
}
