//! Which rows are measured, and how often.

use super::kernel::Way;
use super::lab::{Net, Path};
use super::measure::{Setting, Who};
use super::report::{Report, Row};
use narrows::device::xdp::AttachMode;
use narrows::driver::poll::Waiting;
use std::process::ExitCode;
use std::time::Duration;

const STREAMS: [(Path, Who); 11] = [
    (Path::Veth, Who::Kernel),
    (Path::TapOffload, SLEEPING),
    (Path::TapOffload, Who::Toy),
    (Path::VethPlain, Who::Kernel),
    (Path::TapPlain, SLEEPING),
    (Path::TapPlain, Who::Toy),
    (Path::TapPlain, Who::Smoltcp),
    (Path::Xdp(AttachMode::Native), SLEEPING),
    (Path::Xdp(AttachMode::Native), Who::Toy),
    (Path::Xdp(AttachMode::Skb), SLEEPING),
    (Path::Xdp(AttachMode::Skb), Who::Toy),
];

const TRIPS: [(Path, Who); 5] = [
    (Path::Veth, Who::Kernel),
    (Path::TapOffload, SLEEPING),
    (Path::TapOffload, SPINNING),
    (Path::Xdp(AttachMode::Native), SLEEPING),
    (Path::Xdp(AttachMode::Native), SPINNING),
];

const SLEEPING: Who = Who::Narrows(Waiting::Sleep {
    spin: narrows::Duration::from_micros(60),
});
const SPINNING: Who = Who::Narrows(Waiting::Spin);

struct Options {
    words: Vec<String>,
    rounds: usize,
    setting: Setting,
    json: Option<String>,
}

fn options() -> Result<Options, String> {
    let mut options = Options {
        words: Vec::new(),
        rounds: 3,
        setting: Setting {
            time: Duration::from_secs(1),
            buffer: 1 << 20,
            cores: None,
            congestion: "reno".to_owned(),
        },
        json: None,
    };
    let mut args = std::env::args().skip(1);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} takes a value"));
        let wrong = |e: &dyn std::fmt::Display| format!("the value of {arg}: {e}");
        match arg.as_str() {
            // Cargo says that it benches.
            "--bench" => {}
            "--test" => {
                options.rounds = 1;
                options.setting.time = Duration::from_millis(20);
            }
            "--rounds" => options.rounds = value()?.parse().map_err(|e| wrong(&e))?,
            "--seconds" => {
                let seconds: f64 = value()?.parse().map_err(|e| wrong(&e))?;
                let time = Duration::try_from_secs_f64(seconds);
                options.setting.time = time.map_err(|e| wrong(&e))?;
            }
            "--buffer" => options.setting.buffer = value()?.parse().map_err(|e| wrong(&e))?,
            "--cores" => {
                let text = value()?;
                let both = text.split_once(',').ok_or("--cores takes two, as 0,1")?;
                let core = |n: &str| n.parse::<usize>().map_err(|e| wrong(&e));
                options.setting.cores = Some([core(both.0)?, core(both.1)?]);
            }
            "--congestion" => options.setting.congestion = value()?,
            "--json" => options.json = Some(value()?),
            flag if flag.starts_with('-') => return Err(format!("there is no option {flag}")),
            _ => options.words.push(arg),
        }
    }
    Ok(options)
}

/// The rows that are asked for.
fn rows(words: &[String]) -> Vec<Row> {
    let streams = STREAMS.into_iter().flat_map(|(path, who)| {
        let ways = match who {
            Who::Kernel => vec![Way::Receives],
            _ => vec![Way::Receives, Way::Sends],
        };
        ways.into_iter().map(move |way| Row::stream(path, who, way))
    });
    let trips = TRIPS.into_iter().map(|(path, who)| Row::trips(path, who));
    let mut rows: Vec<_> = streams.chain(trips).collect();
    rows.retain(|row| words.iter().all(|w| row.title().contains(w.as_str())));
    rows
}

/// Measure what the command line asks for.
pub(crate) fn main() -> ExitCode {
    let options = match options() {
        Ok(options) => options,
        Err(e) => {
            eprintln!("{e}");
            return ExitCode::FAILURE;
        }
    };
    if let Err(e) = std::fs::metadata("/dev/net/tun").and_then(|_| Net::new("reno")) {
        eprintln!("SKIPPED, it takes root, /dev/net/tun and the command `ip`: {e}");
        return ExitCode::SUCCESS;
    }
    let mut report = Report::new(rows(&options.words));
    for round in 1..=options.rounds {
        for row in &mut report.rows {
            eprintln!("round {round} of {}: {}", options.rounds, row.title());
            row.measure(&options.setting);
        }
    }
    print!("{}", report.table());
    if let Some(path) = &options.json
        && let Err(e) = std::fs::write(path, report.json(&options.setting))
    {
        eprintln!("write {path}: {e}");
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}
