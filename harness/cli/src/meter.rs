//! `narrows meter`: the counters of real interfaces, polled at several periods.

use super::output::{OutputFile, Sink, Wanted, apart, print};
use super::{App, Console, EXIT_INTERRUPTED, EXIT_OK, Stop, usage};
use clap::{Args, ValueEnum};
use narrows::{Duration, Rate};
use narrows_experiment::polling::Readings;
use narrows_experiment::results::cell;
use narrows_lab::meter::{Counts, Interface, LEAST_PERIOD, MOST_LOOKS, Polled, Track, poll};
use narrows_report::chart::{Axis, Chart, Scale, Series, Theme};
use narrows_report::points::number;
use narrows_report::table::Colour;
use narrows_story::grid::Grid;
use narrows_story::text;
use std::fmt::Write;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

#[derive(Debug, Args)]
pub(super) struct MeterArgs {
    /// Interfaces: eth0, or NAMESPACE:eth0, where the namespace is a name as `ip netns` has them or
    /// the number of a process. A port of a switch that Linux runs is one, too: of a bridge (a veth's
    /// end there, whose counters are from the switch's side: out is towards the host), or of a switch
    /// chip with a driver (switchdev, DSA).
    #[arg(value_name = "INTERFACE", required = true)]
    interfaces: Vec<String>,
    /// The periods, with commas between them; the shortest may be 100us.
    #[arg(long, value_name = "LIST", value_delimiter = ',', value_parser = super::values::duration,
        default_value = "500ms,250ms,128ms,64ms,32ms,16ms,8ms,4ms,2ms,1ms")]
    every: Vec<Duration>,
    /// For how long.
    #[arg(long = "for", value_name = "TIME", value_parser = super::values::duration, default_value = "10s")]
    span: Duration,
    /// What is read: what comes in, what leaves, or both.
    #[arg(long, value_name = "WAY", value_enum, default_value = "both")]
    way: Ways,
    /// What the line carries: readings above half of it are hot, and hot ones in a row are a burst.
    #[arg(long, value_name = "RATE", value_parser = super::values::rate)]
    rate: Option<Rate>,
    /// Look at real-time priority, before all threads that have none. Takes CAP_SYS_NICE.
    #[arg(long)]
    real_time: bool,
    /// Write each reading.
    #[arg(long, value_name = "FILE")]
    csv: Option<PathBuf>,
    /// Draw the greatest reading over the mean, against the period.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Ways {
    In,
    Out,
    Both,
}

/// A way through an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    In,
    Out,
}

impl Way {
    const fn name(self) -> &'static str {
        match self {
            Self::In => "in",
            Self::Out => "out",
        }
    }

    const fn bytes(self, counts: Counts) -> u64 {
        match self {
            Self::In => counts.rx_bytes,
            Self::Out => counts.tx_bytes,
        }
    }
}

impl Ways {
    const fn ways(self) -> &'static [Way] {
        match self {
            Self::In => &[Way::In],
            Self::Out => &[Way::Out],
            Self::Both => &[Way::In, Way::Out],
        }
    }
}

/// Run it; the exit code.
pub(super) fn run(_: &App, args: &MeterArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    check(args)?;
    apart(&[
        Wanted::data("csv", args.csv.as_deref()),
        Wanted::file("svg", args.svg.as_deref()),
    ])?;
    let failed = |e: narrows_lab::LiveError| Stop::Failed(e.to_string());
    let opened = args
        .interfaces
        .iter()
        .map(|name| Interface::open(name).map_err(failed));
    let mut interfaces: Vec<Interface> = opened.collect::<Result<_, _>>()?;
    let csv = Sink::open("CSV", args.csv.as_deref())?;
    let svg = args.svg.as_deref();
    let svg = svg
        .map(|path| OutputFile::create("figure", path))
        .transpose()?;

    if args.real_time {
        let applied = narrows::driver::RealTime::LOWEST.apply();
        applied.map_err(|e| Stop::Failed(format!("cannot take {e}")))?;
    }
    let periods: Vec<std::time::Duration> = args.every.iter().copied().map(real).collect();
    let Polled { tracks, gone } = poll(&mut interfaces, &periods, real(args.span), console.cancel);

    let colour = match csv.is_stdout() {
        true => Colour::Plain,
        false => console.colours(),
    };
    let mut said = String::new();
    let mut chart = empty_chart();
    for (nth, interface) in interfaces.iter().enumerate() {
        for way in args.way.ways() {
            let seen = Seen {
                nth,
                way: *way,
                line: args.rate,
            };
            let _ = writeln!(said, "{} {}", interface.name(), way.name());
            said += &text::table(&seen.table(&tracks), colour);
            said.push('\n');
            chart.series.push(Series {
                name: format!("{} {}", interface.name(), way.name()),
                group: chart.series.len(),
                points: seen.ratios(&tracks),
                ..Series::default()
            });
        }
    }
    said += &lateness(&tracks, args.rate);
    let machine = csv.finish_with(|| csv_of(args, &tracks));
    let drawn = svg.map_or(Ok(()), |file| {
        file.finish_with(chart.svg(Theme::Paper).as_bytes())
    });
    // What was seen cannot be seen again: it is said whatever became of the files.
    match &machine {
        Ok(machine) if !machine.is_empty() => {
            print(console.stdout, machine)?;
            console.say_aside(&said)?;
        }
        _ => console.say(&said)?,
    }
    machine?;
    drawn?;
    if let Some((nth, why)) = gone {
        let name = args.interfaces.get(nth).map_or("", String::as_str);
        let what = "what was seen until then is above";
        return Err(Stop::Failed(format!("{name} went away: {why}; {what}")));
    }
    match console.cancel.load(Ordering::Relaxed) {
        true => Ok(EXIT_INTERRUPTED),
        false => Ok(EXIT_OK),
    }
}

fn real(time: Duration) -> std::time::Duration {
    std::time::Duration::from_nanos(time.as_nanos())
}

/// Whether the periods and the time make sense together.
fn check(args: &MeterArgs) -> Result<(), Stop> {
    let least = LEAST_PERIOD.as_nanos() as u64;
    let mut looks = 0_u64;
    for (nth, every) in args.every.iter().enumerate() {
        if args.every[..nth].contains(every) {
            let why = "it is given twice: give each period once";
            return Err(usage("every", &every.to_string(), why));
        }
        if every.as_nanos() < least {
            let why = "the shortest period is 100us: a look takes some microseconds itself";
            return Err(usage("every", &every.to_string(), why));
        }
        if *every > args.span {
            let why = format!("it is longer than the whole measurement, {}", args.span);
            return Err(usage("every", &every.to_string(), &why));
        }
        looks = looks.saturating_add(args.span.as_nanos() / every.as_nanos());
    }
    if looks > MOST_LOOKS {
        let why = format!(
            "that makes {looks} looks, and at most {MOST_LOOKS} are kept: take a shorter time or \
             longer periods"
        );
        return Err(usage("for", &args.span.to_string(), &why));
    }
    Ok(())
}

/// One way through one interface.
#[derive(Clone, Copy)]
struct Seen {
    nth: usize,
    way: Way,
    line: Option<Rate>,
}

impl Seen {
    fn readings(&self, track: &Track) -> Readings {
        track.readings(self.nth, |counts| self.way.bytes(counts))
    }

    fn table(&self, tracks: &[Track]) -> Grid {
        let head = [
            "period",
            "readings",
            "mean",
            "max",
            "max/mean",
            "a second",
            "by period",
            "idle",
        ];
        let hot = ["hot", "bursts", "p50", "p90", "gap p50"];
        let hot = self.line.map_or(&[][..], |_| &hot[..]);
        let head = head.iter().chain(hot).map(|text| (*text).to_owned());
        Grid {
            head: head.collect(),
            words: 1,
            rows: tracks.iter().map(|track| self.row(track)).collect(),
        }
    }

    fn row(&self, track: &Track) -> Vec<String> {
        let readings = self.readings(track);
        let period = Duration::from_nanos(readings.every).to_string();
        let n = readings.rates.len();
        let mut row = vec![period, n.to_string()];
        let Some(whole) = readings.whole() else {
            return row;
        };
        let mean = track.mean(self.nth, |c| self.way.bytes(c));
        let ratio = |ratio: Option<f64>| ratio.map_or("-".to_owned(), |r| number(r, ""));
        let share = |part: usize| format!("{:.1} %", part as f64 / n as f64 * 100.0);
        row.extend([
            mean.map_or("-".to_owned(), |mean| number(mean, "bit/s")),
            number(whole.max, "bit/s"),
            ratio(mean.filter(|mean| *mean > 0.0).map(|mean| whole.max / mean)),
            ratio(readings.median_ratio()),
            number(
                track.greatest_by_period(self.nth, |c| self.way.bytes(c)),
                "bit/s",
            ),
            share(readings.idle()),
        ]);
        if let Some(line) = self.line {
            let bursts = readings.bursts(line.bits_per_sec() as f64 / 2.0);
            let time = |ns: Option<u64>| ns.map_or("-".to_owned(), |ns| number(ns as f64, "ns"));
            row.extend([
                share(bursts.hot),
                bursts.lengths.len().to_string(),
                time(bursts.length(500)),
                time(bursts.length(900)),
                time(bursts.gap(500)),
            ]);
        }
        row
    }

    /// Greatest reading over the mean of a second, by period in milliseconds.
    fn ratios(&self, tracks: &[Track]) -> Vec<(f64, f64)> {
        let point = |track: &Track| {
            let readings = self.readings(track);
            let whole = || readings.whole().and_then(|whole| whole.ratio());
            let ratio = readings.median_ratio().or_else(whole)?;
            Some((track.every.as_secs_f64() * 1e3, ratio))
        };
        tracks.iter().filter_map(point).collect()
    }
}

/// How late the looks came, and what the columns are.
fn lateness(tracks: &[Track], line: Option<Rate>) -> String {
    let mut grid = Grid {
        head: ["period", "late p50", "p99", "most", "left out"]
            .map(str::to_owned)
            .to_vec(),
        words: 1,
        rows: Vec::new(),
    };
    for track in tracks {
        let at = |permille: usize| {
            let late = track.lateness(permille);
            late.map_or("-".to_owned(), |late| number(late.as_nanos() as f64, "ns"))
        };
        let out = track.left_out();
        let period = Duration::from_nanos(track.every.as_nanos() as u64).to_string();
        grid.rows
            .push(vec![period, at(500), at(990), at(1_000), out.to_string()]);
    }
    let mut out = format!(
        "How late the looks came\n{}\n",
        text::table(&grid, Colour::Plain)
    );
    out += "A reading is what the counter moved over the time that really passed; 'by period' \
            divides by the period, as a script does that does not look at the clock. 'mean' is of all \
            the time, 'a second' max/mean in the median of the seconds. Frames count without preamble and check \
            sequence.\n";
    if line.is_none() {
        out += "--rate says what the line carries, and then bursts are told.\n";
    }
    out
}

fn empty_chart() -> Chart {
    Chart {
        title: "Greatest reading over the mean of a second, against the polling period".to_owned(),
        x: Axis {
            label: "Polling period (ms)".to_owned(),
            scale: Scale::Log10,
            ..Axis::default()
        },
        y: Axis {
            label: "Greatest reading over mean".to_owned(),
            ..Axis::default()
        },
        ..Chart::default()
    }
}

/// A row for each reading of each way.
fn csv_of(args: &MeterArgs, tracks: &[Track]) -> String {
    let mut out = "interface,way,period_ns,time_ns,late_ns,bytes\n".to_owned();
    for (nth, name) in args.interfaces.iter().enumerate() {
        for way in args.way.ways() {
            for track in tracks {
                for pair in track.looks.windows(2) {
                    let bytes = |n: usize| way.bytes(pair[n].counts[nth]);
                    let _ = writeln!(
                        out,
                        "{},{},{},{},{},{}",
                        cell(name),
                        way.name(),
                        track.every.as_nanos(),
                        pair[1].at.as_nanos(),
                        pair[1].late.as_nanos(),
                        bytes(1).saturating_sub(bytes(0)),
                    );
                }
            }
        }
    }
    out
}
