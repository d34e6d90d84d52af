//! `narrows flows`: a few flows over one bottleneck, looked at closely.

mod chart;

use super::catalog::Kind;
use super::marking::{asks_for_ecn, never_marks};
use super::output::{OutputFile, Sink, Wanted, apart, print};
use super::progress::{Progress, Watcher};
use super::recorder::RecordArgs;
use super::values::{self, List};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, tell, usage};
use chart::chart;
use clap::{Args, ValueEnum};
use narrows::config::InitialWindow;
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::flows::{
    FlowOutcome, Flows, FlowsRun, FlowsSpec, Load, Loss, PortBuffer, Record,
};
use narrows_experiment::scenario::parallel::part;
use narrows_experiment::scenario::spec::{Aqm, DelayedAck, Impair, QueueLimit, SharedBuffer};
use narrows_experiment::scenario::{RunContext, ScenarioError};
use narrows_report::chart::Theme;
use narrows_report::story::named;
use serde::Serialize;
use std::fmt::Write as _;
use std::path::PathBuf;

const TRAFFIC: &str = "Traffic";
const NETWORK: &str = "Network";
const TCP: &str = "TCP";
const OUTPUT: &str = "Output";

/// The options of `narrows flows`.
#[derive(Debug, Args)]
pub(super) struct FlowsArgs {
    /// Flows, each from a host of its own to the same receiver [default: 2, or one for each in
    /// --cc].
    #[arg(short = 'n', long, value_name = "N", value_parser = values::whole(1, 10_000), help_heading = TRAFFIC)]
    senders: Option<u32>,
    /// What each flow sends [default: data without end].
    #[arg(long, value_name = "SIZE", value_parser = values::allowed("1B to 1TiB", values::size), help_heading = TRAFFIC)]
    size: Option<ByteCount>,
    /// Each flow begins so long after the one before.
    #[arg(long, value_name = "TIME", default_value = "0s", value_parser = values::allowed("0s up to --duration", values::duration), help_heading = TRAFFIC)]
    apart: Duration,
    /// Simulated time.
    #[arg(long, value_name = "TIME", default_value = "1s", value_parser = values::allowed("1us to 1000000s", values::positive_duration), help_heading = TRAFFIC)]
    duration: Duration,
    /// Rates, queue and counters are taken from here on [default: a fifth of --duration, or 0s
    /// with --size].
    #[arg(long, value_name = "TIME", value_parser = values::allowed("0s up to --duration", values::duration), help_heading = TRAFFIC)]
    warm_up: Option<Duration>,

    /// Rate of the bottleneck; the senders' links are ten times as fast.
    #[arg(long, value_name = "RATE", default_value = "1Gb/s", value_parser = values::rate, help_heading = NETWORK)]
    rate: Rate,
    /// Round-trip time without queues.
    #[arg(long, value_name = "TIME", default_value = "100us", value_parser = values::allowed("0s to 40s", values::duration), help_heading = NETWORK)]
    rtt: Duration,
    /// Buffer of the bottleneck [default: 4MiB].
    #[arg(long, value_name = "QUEUE", value_parser = values::allowed("a packet to 1TiB or 1073741824p", values::queue), help_heading = NETWORK, conflicts_with = "shared_buffer")]
    buffer: Option<QueueLimit>,
    /// Memory that all ports share, in place of --buffer.
    #[arg(long, value_name = "SIZE[:ALPHA]", value_parser = values::allowed("a packet for each host to 1TiB, alpha above zero", values::shared_buffer), help_heading = NETWORK)]
    shared_buffer: Option<SharedBuffer>,
    /// Mark ECN-capable packets from this queue on, or off [default: 30kB].
    #[arg(long, value_name = "QUEUE", value_parser = values::allowed("0p to 1073741824p or 1TiB", values::ecn_threshold), help_heading = NETWORK, conflicts_with = "red")]
    ecn_threshold: Option<Aqm>,
    /// Random early detection, in place of the ECN threshold.
    #[arg(long, value_name = "MIN:MAX:PERCENT", value_parser = values::allowed("0.1 to 100 percent", values::red), help_heading = NETWORK)]
    red: Option<Aqm>,
    /// Controlled delay (RFC 8289), in place of the ECN threshold: marks or drops at the head of
    /// the queue; with CE, marks what waited longer than that [without a value: 5ms:100ms].
    #[arg(long, value_name = "TARGET:INTERVAL[:CE]", num_args = 0..=1, default_missing_value = "5ms:100ms", value_parser = values::allowed("100ns to 100s, the target below the interval", values::codel), help_heading = NETWORK, conflicts_with_all = ["red", "ecn_threshold"])]
    codel: Option<Aqm>,
    /// Let the receiver's link lose, corrupt, duplicate or reorder packets at random:
    /// loss=0.1%,reorder=1%,hold=20us-80us,on=data. on is data, acks or both.
    #[arg(long, value_name = "KIND=SHARE,...", value_parser = values::allowed("shares of 0 to 100%, hold=0s to 10s", values::impair), help_heading = NETWORK)]
    impair: Option<Impair>,
    /// Lose each n-th packet on its way to the receiver.
    #[arg(long, value_name = "N", value_parser = values::at_least(3), help_heading = NETWORK, conflicts_with = "impair")]
    lose_each: Option<u64>,

    /// Congestion controls, dealt out to the flows in turn; one may be there several times.
    #[arg(long, value_name = "LIST", default_value = "cubic", value_parser = values::names_in_turn, help_heading = TCP)]
    cc: List<String>,
    /// RTO policy.
    #[arg(long, value_name = "NAME", default_value = "linux", help_heading = TCP)]
    rto: String,
    /// Loss detector.
    #[arg(long, value_name = "NAME", default_value = "sack", help_heading = TCP)]
    loss: String,
    /// When the receiver acknowledges: off, or SEGMENTS/TIME.
    #[arg(long, value_name = "HOW", default_value = "off", value_parser = values::allowed("1 to 64 segments, 1us to 499ms", values::delayed_ack), help_heading = TCP)]
    delayed_ack: DelayedAck,
    /// Timestamps, in microseconds.
    #[arg(long, value_name = "on|off", default_value = "on", value_parser = values::switch, action = clap::ArgAction::Set, help_heading = TCP)]
    timestamps: bool,
    /// Initial window in segments.
    #[arg(long, visible_alias = "iw", value_name = "N", default_value = "10", value_parser = values::whole(1, InitialWindow::MAX_SEGMENTS), help_heading = TCP)]
    initial_window: u32,
    /// Seed of all randomness.
    #[arg(long, value_name = "N", default_value = "1", value_parser = values::seed, help_heading = TCP)]
    seed: u64,

    /// Write the result as JSON (`-`: to standard output, in place of the table).
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    json: Option<PathBuf>,
    #[command(flatten)]
    record: RecordArgs,
    /// Draw --plot as SVG.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    svg: Option<PathBuf>,
    /// What is drawn.
    #[arg(long, value_name = "WHAT", default_value = "queue", requires = "svg", help_heading = OUTPUT)]
    plot: Plot,
    /// How often flows are looked at for a plot; the queue is drawn whenever it changes
    /// [default: 1ms].
    #[arg(long, value_name = "TIME", value_parser = values::allowed("100ns to 1000000s", values::positive_duration), requires = "svg", help_heading = OUTPUT)]
    interval: Option<Duration>,
    /// No progress, and of the result only what the bottleneck did.
    #[arg(short, long, help_heading = OUTPUT)]
    quiet: bool,
}

const INTERVAL: Duration = Duration::from_millis(1);

impl FlowsArgs {
    /// How many flows there are.
    fn flows(&self) -> usize {
        let asked = self.senders.map(|n| n as usize);
        asked.unwrap_or_else(|| self.cc.0.len().max(2))
    }

    /// No option is taken and then left alone.
    fn check(&self) -> Result<(), Stop> {
        let (flows, named) = (self.flows(), self.cc.0.len());
        if named > flows {
            let why = format!(
                "{named} are dealt out to {flows} flows, which leaves {} without one: give -n \
                 {named}",
                self.cc.0[flows..].join(", ")
            );
            return Err(usage("cc", &self.cc.0.join(","), &why));
        }
        if flows == 1 && !self.apart.is_zero() {
            let why = "there is one flow: give -n 2 or more";
            return Err(usage("apart", &self.apart.to_string(), why));
        }
        if let (Some(interval), Plot::Queue) = (self.interval, self.plot) {
            let why = "the queue is drawn whenever it changes: leave --interval out, or give \
                       another --plot";
            return Err(usage("interval", &interval.to_string(), why));
        }
        Ok(())
    }
}

/// What is drawn over time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Plot {
    /// The bottleneck's queue, in packets, after the warm-up.
    Queue,
    /// Each flow's congestion window.
    Cwnd,
    /// Each flow's goodput.
    Goodput,
    /// Each flow's smoothed round-trip time.
    Rtt,
    /// DCTCP's estimate of the marked share.
    Alpha,
}

/// Run it; the exit code.
pub(super) fn run(app: &App, args: &FlowsArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    let catalog = &app.catalog;
    let named = [
        (Kind::Rto, "rto", std::slice::from_ref(&args.rto)),
        (Kind::LossDetector, "loss", std::slice::from_ref(&args.loss)),
        (Kind::Congestion, "cc", &args.cc.0[..]),
    ];
    for (kind, option, names) in named {
        for name in names {
            catalog
                .check(kind, name)
                .map_err(|why| usage(option, name, &why))?;
        }
    }
    args.check()?;
    let spec = spec(args);
    let [pcap, trace] = args.record.wanted();
    apart(&[
        Wanted::data("json", args.json.as_deref()),
        Wanted::file("svg", args.svg.as_deref()),
        pcap,
        trace,
    ])?;
    spec.validate().map_err(|e| told(args, e))?;
    let json = Sink::open("JSON", args.json.as_deref())?;
    let svg = args.svg.as_deref();
    let svg = svg.map(|p| OutputFile::create("plot", p)).transpose()?;
    let mut recorders = args.record.open()?;
    let runner = Flows {
        registry: catalog.registry.clone(),
    };
    let watcher = Watcher::of(args.quiet, console.stderr_terminal);
    let cost = spec.duration.as_nanos();
    let progress = Progress::new(watcher, "runs", 1, cost);
    let within = |done, all| progress.within(0, part(cost, done, all));
    let ctx = RunContext {
        cancel: Some(console.cancel),
        progress: Some(&within),
        ..recorders.context()
    };
    let ran = runner.run(&spec, ctx);
    progress.finish();
    // What was recorded before an interruption or error is kept.
    let mut broken = recorders.finish();
    let run = match ran {
        Ok(run) => run,
        Err(ScenarioError::Cancelled) => {
            console.say_aside(interrupted(args))?;
            for error in &broken {
                tell(error, console);
            }
            return Ok(EXIT_INTERRUPTED);
        }
        Err(e) => return Err(told(args, e)),
    };
    if let Some(file) = svg {
        let drawn = chart(&spec, &run, args.plot).svg(Theme::Paper);
        broken.extend(file.finish_with(drawn.as_bytes()).err());
    }
    let machine_reads = json.is_stdout();
    let text = json.finish_with(|| record(&spec, &run));
    let text = text.unwrap_or_else(|e| {
        broken.push(e);
        String::new()
    });
    // Whatever could not be written, what was computed is told.
    let mut human = if args.quiet {
        String::new()
    } else {
        table(&spec, &run) + "\n"
    };
    human += &summary(&run);
    human += &hints(app, args, &spec, &run);
    let told = if machine_reads {
        let told = print(console.stdout, &text);
        told.and(console.say_aside(&hints(app, args, &spec, &run)))
    } else {
        console.say(&human)
    };
    broken.extend(told.err());
    for error in &broken {
        tell(error, console);
    }
    Ok(if broken.is_empty() {
        EXIT_OK
    } else {
        EXIT_FAILED
    })
}

/// What an interrupted run leaves.
fn interrupted(args: &FlowsArgs) -> &'static str {
    if args.record.is_any() {
        "narrows: interrupted; what was recorded until then is kept\n"
    } else {
        "narrows: interrupted\n"
    }
}

/// An error of the scenario in the words of the command line: some of its values have no option
/// of their own.
fn told(args: &FlowsArgs, error: ScenarioError) -> Stop {
    let (option, given, allowed) = match error {
        ScenarioError::Invalid {
            option,
            given,
            allowed,
        } => (option, given, allowed),
        ScenarioError::UnknownName { option, given } => {
            (option, given, "see `narrows list`".to_owned())
        }
        e => return Stop::Failed(e.to_string()),
    };
    match (option, args.shared_buffer) {
        ("buffer", Some(_)) => usage("shared-buffer", &given, &allowed),
        ("alpha", Some(_)) => usage("shared-buffer", &format!("alpha {given}"), &allowed),
        ("rate", _) => {
            let why = "allowed is 1kb/s to 100Gb/s: the senders' links are ten times as fast";
            usage("rate", &args.rate.to_string(), why)
        }
        ("delay", _) => usage("rtt", &args.rtt.to_string(), "allowed is 0s to 40s"),
        ("start", _) => {
            let why = format!("a flow would begin at {given}, after --duration: {allowed}");
            usage("apart", &args.apart.to_string(), &why)
        }
        ("samples", _) => usage("interval", &given, &allowed),
        _ => usage(option, &given, &allowed),
    }
}

fn spec(args: &FlowsArgs) -> FlowsSpec {
    let mut spec = FlowsSpec::long_lived(args.flows() as u32, args.rate, args.rtt);
    for host in &mut spec.hosts[1..] {
        host.rate = args.rate.mul_ratio(10, 1);
    }
    for (i, flow) in spec.flows.iter_mut().enumerate() {
        flow.start = args.apart * i as u64;
        flow.congestion = args.cc.0.get(i % args.cc.0.len().max(1)).cloned();
        if let Some(size) = args.size {
            flow.load = Load::Bytes(size);
        }
    }
    let threshold = Aqm::EcnStep(QueueLimit::Bytes(ByteCount::new(30_000)));
    let chosen = args.red.or(args.codel).or(args.ecn_threshold);
    spec.net.aqm = chosen.unwrap_or(threshold);
    if let Some(limit) = args.buffer {
        spec.net.buffer = PortBuffer::Own(limit);
    }
    if let Some(shared) = args.shared_buffer {
        spec.net.buffer = PortBuffer::Shared(shared);
    }
    spec.net.loss = args.lose_each.map_or(Loss::None, Loss::EachNth);
    spec.net.impair = args.impair.unwrap_or_default();
    spec.tcp.rto.clone_from(&args.rto);
    spec.tcp.loss_detector.clone_from(&args.loss);
    spec.tcp.delayed_ack = args.delayed_ack;
    spec.tcp.timestamps = args.timestamps;
    spec.tcp.initial_window = args.initial_window;
    spec.duration = args.duration;
    let warm_up = match args.size {
        Some(_) => Duration::ZERO,
        None => args.duration / 5,
    };
    spec.warm_up = args.warm_up.unwrap_or(warm_up);
    spec.seed = args.seed;
    let drawn = args.svg.as_ref().map(|_| args.plot);
    spec.record = Record {
        samples: drawn.and_then(|plot| {
            let interval = args.interval.unwrap_or(INTERVAL);
            (plot != Plot::Queue).then_some(interval)
        }),
        queue: drawn == Some(Plot::Queue),
    };
    spec
}

fn name_of(spec: &FlowsSpec, flow: usize) -> &str {
    let own = spec.flows[flow].congestion.as_deref();
    own.unwrap_or(&spec.tcp.congestion)
}

/// For people.
fn table(spec: &FlowsSpec, run: &FlowsRun) -> String {
    let names = (0..run.flows.len()).map(|i| name_of(spec, i).len());
    let wide = names.max().unwrap_or(0).max(2);
    let mut out = format!(
        "{:>5}  {:<wide$}  {:>12}  {:>10}  {:>8}  {:>8}  {:>9}\n",
        "flow", "cc", "goodput", "done in", "sent", "again", "timeouts"
    );
    for (i, flow) in run.flows.iter().enumerate() {
        let done = flow
            .transfers
            .first()
            .map_or("-".to_owned(), |t| t.took.to_string());
        // Over before anything was counted.
        let goodput = match flow.active {
            Duration::ZERO => "-".to_owned(),
            _ => flow.goodput.to_string(),
        };
        let _ = writeln!(
            out,
            "{:>5}  {:<wide$}  {goodput:>12}  {done:>10}  {:>8}  {:>8}  {:>9}",
            i + 1,
            name_of(spec, i),
            flow.counted(|s| s.segments),
            flow.counted(|s| s.retransmits),
            flow.timeouts(),
        );
    }
    out
}

/// What the bottleneck did, and how long it all took.
fn summary(run: &FlowsRun) -> String {
    let mut out = String::new();
    let b = &run.bottleneck;
    let _ = writeln!(
        out,
        "bottleneck: {:.1} % busy, goodput {}, queue {:.1} packets on average and {} at most, \
         {} marked, {} dropped, {} lost",
        b.utilisation_ppm as f64 / 1e4,
        run.goodput(),
        b.mean_queue_millipackets as f64 / 1e3,
        b.max_queue_packets,
        b.marks,
        b.full + b.early,
        b.lost,
    );
    let _ = writeln!(
        out,
        "{}: {} simulated, of which the last {} are counted",
        run.outcome.name(),
        run.simulated,
        run.measured
    );
    let discarded: u64 = run.flows.iter().map(|f| f.out_of_order_dropped).sum();
    if discarded > 0 {
        let _ = writeln!(
            out,
            "receivers discarded {discarded} segments: there were more gaps than they remember"
        );
    }
    out
}

/// What makes the result other than was perhaps expected.
fn hints(app: &App, args: &FlowsArgs, spec: &FlowsSpec, run: &FlowsRun) -> String {
    let mut out = String::new();
    let buffer = match spec.net.buffer {
        PortBuffer::Own(limit) => Some(limit),
        PortBuffer::Shared(_) => None,
    };
    let asks = |name: &&String| {
        let congestion = app.catalog.registry.congestion.get(name);
        congestion.is_ok_and(|c| asks_for_ecn(&*c, spec.tcp.ecn))
    };
    let mut asking: Vec<&String> = args.cc.0.iter().filter(asks).collect();
    asking.dedup();
    if let (Some(reason), false) = (never_marks(spec.net.aqm, buffer), asking.is_empty()) {
        let _ = writeln!(
            out,
            "No packet is ever marked, and {} asks for ECN: {reason}. What lowers its window is \
             loss alone.",
            named(&asking)
        );
    }
    if run.measured == Duration::ZERO {
        let _ = writeln!(
            out,
            "All was over before the warm-up of {}, and nothing is counted: give a shorter \
             --warm-up.",
            spec.warm_up
        );
    }
    if args.svg.is_some() && args.plot == Plot::Alpha {
        let shown = run.flows.iter().flat_map(|f| &f.samples);
        if shown.filter_map(|s| s.fraction("alpha")).next().is_none() {
            out += "The plot is empty: none of the congestion controls has an alpha.\n";
        }
    }
    out
}

#[derive(Serialize)]
struct RunRecord<'a> {
    outcome: &'static str,
    simulated_ns: u64,
    measured_ns: u64,
    goodput_bps: u64,
    utilisation_ppm: u64,
    mean_queue_millipackets: u64,
    max_queue_packets: u32,
    marks: u64,
    dropped: u64,
    lost: u64,
    flows: Vec<FlowRecord<'a>>,
}

#[derive(Serialize)]
struct FlowRecord<'a> {
    cc: &'a str,
    start_ns: u64,
    goodput_bps: u64,
    /// From the start of the run; what else is counted is so after the warm-up.
    delivered_bytes: u64,
    received_bytes: u64,
    /// What the goodput is over.
    active_ns: u64,
    completed_ns: Option<u64>,
    segments: u64,
    retransmits: u64,
    timeouts: u64,
    /// Of those, of SYNs and SYN-ACKs.
    timeouts_handshake: u64,
    /// Segments that the receiver did not keep.
    out_of_order_dropped: u64,
    fast_recoveries: u64,
    ecn_reductions: u64,
}

/// For programs.
fn record(spec: &FlowsSpec, run: &FlowsRun) -> String {
    let flow = |(i, f): (usize, &FlowOutcome)| FlowRecord {
        cc: name_of(spec, i),
        start_ns: spec.flows[i].start.as_nanos(),
        goodput_bps: f.goodput.bits_per_sec(),
        delivered_bytes: f.delivered.get(),
        received_bytes: f.received.get(),
        active_ns: f.active.as_nanos(),
        completed_ns: f.transfers.first().map(|t| t.took.as_nanos()),
        segments: f.counted(|s| s.segments),
        retransmits: f.counted(|s| s.retransmits),
        timeouts: f.timeouts(),
        timeouts_handshake: f.handshake_timeouts,
        out_of_order_dropped: f.out_of_order_dropped,
        fast_recoveries: f.counted(|s| s.fast_recoveries),
        ecn_reductions: f.counted(|s| s.ecn_reductions),
    };
    let b = &run.bottleneck;
    let record = RunRecord {
        outcome: run.outcome.name(),
        simulated_ns: run.simulated.as_nanos(),
        measured_ns: run.measured.as_nanos(),
        goodput_bps: run.goodput().bits_per_sec(),
        utilisation_ppm: b.utilisation_ppm,
        mean_queue_millipackets: b.mean_queue_millipackets,
        max_queue_packets: b.max_queue_packets,
        marks: b.marks,
        dropped: b.full + b.early,
        lost: b.lost,
        flows: run.flows.iter().enumerate().map(flow).collect(),
    };
    let mut text = serde_json::to_string_pretty(&record).unwrap_or_default();
    text.push('\n');
    text
}
