//! `narrows live incast`.

use super::DeviceArg;
use super::plan::{self, BadValue, Lists, expand, explained, unmarked};
use crate::output::{OutputFile, Sink, Wanted, apart, print};
use crate::progress::{Progress, Watcher};
use crate::values::{self, List};
use crate::{App, Console, EXIT_INTERRUPTED, EXIT_OK, Stop, command_line, usage};
use clap::{Args, ValueEnum};
use narrows::{ByteCount, Duration, Rate};
use narrows_congestion::EcnNeed;
use narrows_experiment::scenario::parallel::{cost, part, run_sweep};
use narrows_experiment::scenario::spec::{
    Aqm, BlockSize, DelayedAck, EcnUse, Length, QueueCounting, QueueLimit,
};
use narrows_experiment::scenario::{IncastRun, IncastSpec, PlannedRun, SweepSpec, tcp};
use narrows_lab::incast::{self, Capture, LiveContext, LiveRun, MAX_SERVERS, Senders};
use narrows_lab::lab::{self, OWNED_PREFIX, Owned};
use narrows_report::Summary;
use narrows_report::chart::Theme;
use narrows_report::live::{Comparison, LiveRecord, Quantity, Side, page};
use narrows_report::records::{self, FORMAT_VERSION, PointRecord, RunRecord, SweepRecord};
use narrows_report::table::{self, Colour};
use std::ffi::OsString;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::sync::atomic::Ordering;

const TRAFFIC: &str = "Traffic";
const NETWORK: &str = "Network";
const TCP: &str = "TCP";
const SWEEP: &str = "Sweep";
const OUTPUT: &str = "Output";

/// What the kernel does where it delays acknowledgements.
const KERNEL_DELAYED_ACK: DelayedAck = DelayedAck::On {
    segments: 2,
    timeout: Duration::from_millis(40),
};

/// Percent of a run for which our hosts may stand still without a word.
const MUCH: u64 = 5;

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum SendersArg {
    /// Hosts of ours send to the kernel.
    Ours,
    /// Hosts of the kernel's send to us.
    Kernel,
}

#[derive(Debug, Args)]
pub(super) struct LiveIncastArgs {
    /// Server counts.
    #[arg(short = 'n', long, value_name = "LIST", default_value = "1,2,4,8,16,32", value_parser = values::servers, help_heading = TRAFFIC)]
    servers: List<u32>,
    /// Whose TCP sends the blocks.
    #[arg(long, value_name = "WHOSE", default_value = "ours", help_heading = TRAFFIC)]
    senders: SendersArg,
    /// What each server sends for a block [default: 64KiB].
    #[arg(long, value_name = "SIZE", value_parser = values::allowed("1B to 1TiB", values::size), help_heading = TRAFFIC, conflicts_with = "block")]
    sru: Option<ByteCount>,
    /// Size of a block, whatever the number of servers, in place of --sru.
    #[arg(long, value_name = "SIZE", value_parser = values::allowed("1B to 1TiB", values::size), help_heading = TRAFFIC)]
    block: Option<ByteCount>,
    /// Blocks to read in a run.
    #[arg(long, value_name = "N", default_value = "10", value_parser = values::whole(1, 1_000_000), help_heading = TRAFFIC)]
    blocks: u32,
    /// Give a run up after this long.
    #[arg(long, value_name = "TIME", default_value = "60s", value_parser = values::allowed("1us to 1000000s", values::positive_duration), help_heading = TRAFFIC)]
    time_limit: Duration,
    /// Each server waits up to this long, at random, before it answers.
    #[arg(long, value_name = "TIME", default_value = "10us", value_parser = values::allowed("0s to 10s", values::duration), help_heading = TRAFFIC)]
    jitter: Duration,

    /// What hosts of ours are connected with.
    #[arg(long, value_name = "DEVICE", default_value = "tap", help_heading = NETWORK)]
    device: DeviceArg,
    /// Rate of every link.
    #[arg(long, value_name = "RATE", default_value = "200Mb/s", value_parser = values::rate, help_heading = NETWORK)]
    rate: Rate,
    /// One-way delay of every link; a round trip passes four.
    #[arg(long, value_name = "TIME", default_value = "25us", value_parser = values::allowed("0s to 10s", values::duration), help_heading = NETWORK)]
    delay: Duration,
    /// Buffer of the port to the client; in packets: room for so many full ones.
    #[arg(long, value_name = "QUEUE", default_value = "32KiB", value_parser = values::allowed("a packet to 1TiB", values::queue), help_heading = NETWORK)]
    buffer: QueueLimit,
    /// Mark ECN-capable packets from this queue on, or off.
    #[arg(long, value_name = "QUEUE LIST", default_value = "8p", value_parser = values::list(values::allowed("0p to 1073741824p or 1TiB", values::ecn_threshold)), help_heading = NETWORK)]
    ecn_threshold: List<Aqm>,
    /// Largest IP packet.
    #[arg(long, value_name = "BYTES", default_value = "1500", value_parser = values::whole(576, 9_000), help_heading = NETWORK)]
    mtu: u32,
    /// The lab, which is made for this run alone [default: one of a name of its own].
    #[arg(long = "lab", value_name = "NAME", help_heading = NETWORK)]
    name: Option<String>,

    /// Congestion control of the servers; with --senders kernel one that the kernel has.
    #[arg(long, value_name = "NAME LIST", default_value = "cubic", value_parser = values::names, help_heading = TCP)]
    cc: List<String>,
    /// RTO policy of the servers by name, or the floor of RFC 6298's; with --senders kernel
    /// `linux`, or a floor of whole milliseconds [default: linux,fine; linux,5ms].
    #[arg(long, value_name = "NAME LIST", value_parser = values::names, help_heading = TCP)]
    rto: Option<List<String>>,
    /// Loss detector of the servers; that of the kernel is rack.
    #[arg(long, value_name = "NAME LIST", default_value = "rack", value_parser = values::names, help_heading = TCP)]
    loss: List<String>,
    /// ECN: auto (as the congestion control asks), classic or off.
    #[arg(long, value_name = "MODE LIST", default_value = "auto", value_parser = values::list(values::ecn), help_heading = TCP)]
    ecn: List<EcnUse>,
    /// Let the client delay acknowledgements, by up to 40 ms or a second segment.
    #[arg(long, help_heading = TCP)]
    delayed_ack: bool,

    /// Seed of what is drawn: the order of the requests, the servers' jitter.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed, help_heading = SWEEP)]
    seed: u64,
    /// Runs of each point; with more than one: mean and 95 % confidence interval.
    #[arg(short, long, value_name = "N", default_value = "1", value_parser = values::whole(1, 10_000), help_heading = SWEEP)]
    repetitions: u32,
    /// Leave the simulated runs out.
    #[arg(long, help_heading = SWEEP)]
    no_simulation: bool,

    /// Write an HTML report, live and simulated side by side.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    report: Option<PathBuf>,
    /// Write the plot alone as SVG.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    svg: Option<PathBuf>,
    /// Write all results as JSON; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    json: Option<PathBuf>,
    /// Write a line for each run as CSV; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    csv: Option<PathBuf>,
    /// Capture every frame at our hosts in a single live run as pcapng.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pcap: Option<PathBuf>,
    /// Keep the first so many bytes of each frame in the capture [default: all].
    #[arg(long, value_name = "SIZE", value_parser = values::snap_length, requires = "pcap", help_heading = OUTPUT)]
    snaplen: Option<ByteCount>,
    /// No progress, no table: only what happened, and errors.
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
}

impl LiveIncastArgs {
    fn rto(&self) -> Vec<String> {
        let usual = match self.senders {
            SendersArg::Ours => ["linux", "fine"],
            SendersArg::Kernel => ["linux", "5ms"],
        };
        let usual = || usual.map(str::to_owned).to_vec();
        let given = self.rto.as_ref().map(|list| list.0.clone());
        given.unwrap_or_else(usual)
    }

    /// One run, whatever the lists say.
    fn base(&self) -> IncastSpec {
        let mut base = IncastSpec {
            block: match (self.block, self.sru) {
                (Some(block), _) => BlockSize::Fixed(block),
                (None, sru) => BlockSize::Sru(sru.unwrap_or(ByteCount::new(64 << 10))),
            },
            length: Length::Blocks {
                blocks: self.blocks,
                time_limit: self.time_limit,
            },
            start_jitter: self.jitter,
            seed: self.seed,
            ..IncastSpec::default()
        };
        let net = &mut base.net;
        net.link_rate = self.rate;
        net.link_delay = self.delay;
        net.port_buffer = self.buffer;
        net.mtu = self.mtu;
        // A token bucket lets a packet go when it would have been transmitted.
        net.queue_counting = QueueCounting::WithInService;
        if self.delayed_ack {
            base.tcp.delayed_ack = KERNEL_DELAYED_ACK;
        }
        base
    }

    fn sweep(&self, app: &App) -> Result<SweepSpec, BadValue> {
        if let Some(n) = self.servers.0.iter().find(|n| **n > MAX_SERVERS) {
            return Err(BadValue {
                option: "servers",
                given: n.to_string(),
                why: format!("a live incast has up to {MAX_SERVERS} servers"),
            });
        }
        let lists = Lists {
            cc: &self.cc,
            rto: &List(self.rto()),
            loss: &self.loss,
            ecn_threshold: &self.ecn_threshold,
            ecn: &self.ecn,
        };
        let (servers, catalog) = (&self.servers.0, &app.catalog);
        plan::sweep(self.base(), servers, self.repetitions, &lists, catalog)
    }

    /// Whose TCP sends in a run with `rto`.
    fn senders(&self, spec: &IncastSpec) -> Result<Senders, Stop> {
        let given = &spec.tcp.rto;
        match self.senders {
            SendersArg::Ours => Ok(Senders::Ours),
            SendersArg::Kernel if spec.tcp.loss_detector != "rack" => {
                let why = "with --senders kernel it is the kernel's, which is rack";
                Err(usage("loss", &spec.tcp.loss_detector, why))
            }
            SendersArg::Kernel if given == "linux" => Ok(Senders::Kernel { rto_min: None }),
            SendersArg::Kernel => {
                let time = values::duration(given).ok();
                let ms = time.filter(|t| t.as_nanos().is_multiple_of(1_000_000));
                let ms = ms.and_then(|t| u32::try_from(t.as_nanos() / 1_000_000).ok());
                match ms.filter(|ms| *ms > 0) {
                    Some(ms) => Ok(Senders::Kernel { rto_min: Some(ms) }),
                    None => {
                        let why = "with --senders kernel it is the kernel's: linux, or a floor of \
                                   whole milliseconds such as 5ms";
                        Err(usage("rto", given, why))
                    }
                }
            }
        }
    }
}

/// The files asked for, open before the first run.
struct Outputs {
    report: Option<(PathBuf, OutputFile)>,
    svg: Option<OutputFile>,
    json: Sink,
    csv: Sink,
}

impl Outputs {
    fn open(args: &LiveIncastArgs) -> Result<Self, Stop> {
        apart(&[
            Wanted::file("report", args.report.as_deref()),
            Wanted::data("json", args.json.as_deref()),
            Wanted::data("csv", args.csv.as_deref()),
            Wanted::file("svg", args.svg.as_deref()),
            Wanted::file("pcap", args.pcap.as_deref()),
        ])?;
        let report = match &args.report {
            None => None,
            Some(path) => Some((path.clone(), OutputFile::create("report", path)?)),
        };
        let svg = args.svg.as_deref();
        Ok(Self {
            report,
            svg: svg.map(|p| OutputFile::create("plot", p)).transpose()?,
            json: Sink::open("JSON", args.json.as_deref())?,
            csv: Sink::open("CSV", args.csv.as_deref())?,
        })
    }
}

pub(super) fn run(
    app: &App,
    args: &LiveIncastArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let bad = |BadValue { option, given, why }| usage(option, &given, &why);
    let sweep = args.sweep(app).map_err(bad)?;
    let planned = expand(&app.catalog, &sweep).map_err(bad)?;
    if let (Some(path), true) = (&args.pcap, planned.len() > 1) {
        let why = format!(
            "a capture is of one run, and this is {}: give one value each to --servers, --cc, \
             --rto and the other lists",
            planned.len()
        );
        return Err(usage("pcap", &path.display().to_string(), &why));
    }
    let senders: Vec<Senders> = planned
        .iter()
        .map(|p| args.senders(&p.spec))
        .collect::<Result<_, Stop>>()?;
    for (p, senders) in planned.iter().zip(&senders) {
        incast::check(&p.spec, *senders)?;
    }
    let outputs = Outputs::open(args)?;
    let watcher = Watcher::of(args.quiet, console.stderr_terminal);

    lab::sweep()?;
    let own = format!("{OWNED_PREFIX}{}", std::process::id());
    let lab = Owned::new(args.name.as_ref().unwrap_or(&own), Some(args.mtu))?;
    let total = planned.iter().map(|p| cost(&p.spec)).sum();
    let progress = Progress::new(watcher, "live runs", planned.len(), total);
    let mut live: Vec<Option<IncastRun>> = Vec::with_capacity(planned.len());
    let mut late = Vec::new();
    let (exact_echo, mut latched) = (incast::echoes_each_mark(), false);
    for (index, (p, senders)) in planned.iter().zip(&senders).enumerate() {
        let run = match console.cancel.load(Ordering::Relaxed) {
            true => None,
            false => {
                let tcp = our_tcp(app, p)?;
                let capture = args.pcap.as_deref().map(|path| Capture {
                    path,
                    snap_length: args.snaplen,
                });
                let plug = args.device.plug(false);
                let within = |done, all| progress.within(index, part(cost(&p.spec), done, all));
                let ctx = LiveContext {
                    capture,
                    cancel: console.cancel,
                    progress: &within,
                };
                incast::run(&lab, &p.spec, &tcp, *senders, plug, ctx)?
            }
        };
        if let Some(percent) = run.as_ref().map(LiveRun::still_percent)
            && percent >= MUCH
        {
            late.push((p.spec.servers, percent));
        }
        latched |= *senders == Senders::Ours
            && !exact_echo
            && incast::ecn(&our_tcp(app, p)?) == Some(EcnNeed::Dctcp);
        live.push(run.map(|live| live.run));
        progress.ended(index, cost(&p.spec));
    }
    progress.finish();
    drop(lab);
    let interrupted = console.cancel.load(Ordering::Relaxed);
    let simulated = match args.no_simulation || interrupted {
        true => None,
        false => {
            let progress = Progress::new(watcher, "simulated runs", planned.len(), total);
            let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
            let step = |s| progress.of(s);
            let results = run_sweep(
                &planned,
                &app.catalog.incast(),
                cores,
                console.cancel,
                &step,
            );
            progress.finish();
            Some(results.runs)
        }
    };
    let told = tell(
        app,
        args,
        &Results {
            sweep,
            planned,
            live,
            late,
            latched,
            simulated,
        },
        outputs,
        command,
        console,
    );
    told.map(|()| match console.cancel.load(Ordering::Relaxed) {
        true => EXIT_INTERRUPTED,
        false => EXIT_OK,
    })
}

fn our_tcp(app: &App, p: &PlannedRun) -> Result<narrows::config::TcpConfig, Stop> {
    let (spec, catalog) = (&p.spec, &app.catalog);
    let config = tcp::config(&spec.tcp, spec.net.mtu, &catalog.registry);
    config.map_err(|e| Stop::Failed(e.to_string()))
}

/// What was run, and what it gave.
struct Results {
    sweep: SweepSpec,
    planned: Vec<PlannedRun>,
    live: Vec<Option<IncastRun>>,
    /// Numbers of servers of the runs for which the machine was too slow, and by how much.
    late: Vec<(u32, u64)>,
    /// A kernel's client could not echo each mark.
    latched: bool,
    simulated: Option<Vec<Option<IncastRun>>>,
}

impl Results {
    fn record(
        &self,
        app: &App,
        args: &LiveIncastArgs,
        side: &Side,
        runs: &[Option<IncastRun>],
        command: &[OsString],
    ) -> SweepRecord {
        let mut settings = records::settings(&self.sweep, &app.catalog.registry.detectors);
        let senders = match args.senders {
            SendersArg::Ours => "ours, to the kernel",
            SendersArg::Kernel => "the kernel's, to ours",
        };
        settings.insert(0, ("senders, live".to_owned(), senders.to_owned()));
        settings.insert(
            1,
            ("device, live".to_owned(), args.device.name().to_owned()),
        );
        if let QueueLimit::Packets(_) = args.buffer {
            let bytes = incast::port_bytes(args.buffer, args.mtu);
            settings.push(("port buffer, live".to_owned(), format!("{} B", bytes.get())));
        }
        if self.latched {
            settings.push((
                "echo of marks, live".to_owned(),
                "as in RFC 3168".to_owned(),
            ));
        }
        SweepRecord {
            format: "narrows-incast",
            format_version: FORMAT_VERSION,
            narrows_version: narrows_experiment::version::VERSION.to_owned(),
            narrows_commit: narrows_experiment::version::COMMIT,
            command: command_line(command),
            settings,
            names: explained(&app.catalog, &self.planned),
            summary: side.story.sentences.clone(),
            planned: self.planned.len(),
            points: PointRecord::all(&side.summary, &side.story),
            runs: RunRecord::all(&self.sweep, &self.planned, runs),
        }
    }
}

fn tell(
    app: &App,
    args: &LiveIncastArgs,
    results: &Results,
    outputs: Outputs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<(), Stop> {
    let sweep = &results.sweep;
    let side = |runs: &[Option<IncastRun>]| Side::new(sweep, Summary::of(sweep, runs));
    let both = Comparison {
        live: side(&results.live),
        simulated: results.simulated.as_deref().map(side),
    };
    let of =
        |side: &Side, runs: &[Option<IncastRun>]| results.record(app, args, side, runs, command);
    let simulated = both.simulated.as_ref().zip(results.simulated.as_deref());
    let record = LiveRecord::new(
        of(&both.live, &results.live),
        simulated.map(|(side, runs)| of(side, runs)),
    );
    let mut human = String::new();
    let on_stdout = outputs.json.is_stdout() || outputs.csv.is_stdout();
    if !args.quiet {
        let colour = match console.colour && !on_stdout {
            true => Colour::Ansi,
            false => Colour::Plain,
        };
        let all = both.merged();
        human += &table::details(&all.summary, &all.story, colour, console.columns);
        if let Some(matrix) = table::matrix(&all.summary, colour, console.columns) {
            human += &matrix;
            human.push('\n');
        }
    }
    for sentence in both.sentences() {
        let _ = writeln!(human, "{sentence}");
    }
    if let Some(hint) = unmarked(&app.catalog, sweep) {
        let _ = writeln!(human, "{hint}");
    }
    human += &lateness(&results.late);
    human += &differences(args, results.latched);
    let machine = outputs.json.finish_with(|| {
        let text = serde_json::to_string_pretty(&record);
        text.unwrap_or_else(|e| format!("{{\"error\": \"{e}\"}}")) + "\n"
    });
    let csv = outputs.csv.finish_with(|| csv(&record));
    let machine = machine.and_then(|json| csv.map(|csv| json + &csv));
    let mut written = Ok(());
    if let Some(svg) = outputs.svg {
        let text = both.chart(Quantity::Goodput).svg(Theme::Paper);
        written = svg.finish_with(text.as_bytes());
    }
    // A report of nothing would only take the place of an older one.
    if let (Some((path, file)), true) = (outputs.report, both.live.summary.finished > 0) {
        written = file
            .finish_with(page(sweep, &both, &record).as_bytes())
            .and(written);
        if !args.quiet {
            let _ = writeln!(human, "\nReport: {}", path.display());
        }
    }
    // Whatever could not be written, what was measured is told.
    let told = match (&machine, on_stdout) {
        (Ok(machine), true) => {
            let told = print(console.stdout, machine);
            console.say_aside(&human).and(told)
        }
        _ => console.say(&human),
    };
    machine?;
    written?;
    told?;
    Ok(())
}

/// Where the live runs are not what was asked for.
fn differences(args: &LiveIncastArgs, latched: bool) -> String {
    let mut text = String::new();
    if let QueueLimit::Packets(n) = args.buffer {
        let bytes = incast::port_bytes(args.buffer, args.mtu).get();
        let _ = writeln!(
            text,
            "The live port's buffer is one of bytes: {bytes}, {n} full packets; smaller ones take \
             less."
        );
    }
    if latched {
        text += "The kernel's client has no DCTCP and so told our senders that there were marks, \
                 but not which packets had them (RFC 3168 in place of RFC 8257): they slow down \
                 more than simulated ones. The module `tcp_dctcp` (CONFIG_TCP_CONG_DCTCP) would \
                 mend that.\n";
    }
    text
}

/// What to think of runs for which the machine was too slow.
fn lateness(late: &[(u32, u64)]) -> String {
    let Some((servers, percent)) = late.iter().max_by_key(|(_, percent)| percent) else {
        return String::new();
    };
    let runs = match late.len() {
        1 => "1 live run".to_owned(),
        n => format!("{n} live runs"),
    };
    format!(
        "In {runs} our hosts stood still for want of CPU time, for up to {percent} % of the time \
         ({servers} servers): what they sent was less than a wire of this rate would have \
         carried. Try a lower --rate, or `chrt -r 10` before the command.\n"
    )
}

/// A line for each run; the variant says whether it is live.
fn csv(record: &LiveRecord) -> String {
    let named = |name: &str, runs: &[RunRecord]| -> Vec<RunRecord> {
        let named = runs.iter().cloned().map(|run| RunRecord {
            variant: format!("{name}: {}", run.variant),
            ..run
        });
        named.collect()
    };
    let mut runs = named("live", &record.live.runs);
    if let Some(simulated) = &record.simulated {
        runs.extend(named("simulated", &simulated.runs));
    }
    let mut text = Vec::new();
    // Writing to memory does not fail.
    let _ = records::write_csv(&runs, &mut text);
    String::from_utf8_lossy(&text).into_owned()
}
