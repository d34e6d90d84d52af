//! The options.

use super::recorder::RecordArgs;
use super::values::{self, List};
use clap::{Args, Parser, Subcommand, ValueEnum};
use narrows::config::InitialWindow;
use narrows::{ByteCount, Duration, Rate};
use narrows_experiment::scenario::spec::{
    Aqm, DelayedAck, EcnUse, Impair, QueueLimit, SharedBuffer,
};
use std::path::PathBuf;

/// One TCP, one simulated switch: what incast does to it, and what cures it.
#[derive(Debug, Parser)]
#[command(name = "narrows", version, about, max_term_width = 100)]
#[command(arg_required_else_help = true)]
pub(super) struct Cli {
    #[command(subcommand)]
    pub(super) command: Command,
}

#[derive(Debug, Subcommand)]
pub(super) enum Command {
    /// Read blocks from many servers at once through one switch port, and see it collapse.
    ///
    /// Without options: 1 to 64 servers, {reno, cubic, dctcp} x three RTO policies, 1 Gb/s, 64 KiB
    /// of port buffer. An option that says LIST takes several values separated by commas; each
    /// is tried with every other.
    ///
    /// Sizes: kB (or KB) to TB are powers of 1000; KiB to TiB of 1024. Times: ns, us, ms, s.
    /// Rates: bits per second, 1Gb/s or 10G. Queues: 64p for packets, or a size.
    Incast(Box<IncastArgs>),
    /// Send long flows or single transfers over one bottleneck, and look at it closely.
    ///
    /// Goodput of each flow, utilisation and queue of the bottleneck; --svg draws queue, window,
    /// goodput, RTT or DCTCP's alpha over time.
    Flows(Box<super::flows::FlowsArgs>),
    /// Run an experiment from a file, or one that ships by name.
    ///
    /// A file says what to run: network, hosts, traffic, probes, and what is varied. `narrows show
    /// NAME` prints one that ships, `narrows keys` what can be set.
    Run(Box<super::run::RunArgs>),
    /// Print the file of an experiment that ships; it runs as printed.
    Show(super::keys::ShowArgs),
    /// Show every key of experiments: what it means, its type, range and default.
    Keys(super::keys::KeysArgs),
    /// Put the results of the parts of an experiment together.
    Merge(super::results::MergeArgs),
    /// Compare two folders of results: which metrics moved beyond their intervals.
    Diff(super::results::DiffArgs),
    /// Make files for editors, shells and manuals: a JSON schema, completions, manual pages.
    Generate(super::generate::GenerateArgs),
    /// Run this TCP against the kernel's, over TAP, in a lab of network namespaces.
    ///
    /// `serve`, `get`, `send` and `iperf3` make the lab for as long as they need it; `up` makes it
    /// to stay. Takes root.
    #[cfg(target_os = "linux")]
    Live(Box<super::live::LiveArgs>),
    /// Say why connections were slow, from captures.
    Explain(Box<super::explain::ExplainArgs>),
    /// Run packetdrill scripts against this TCP, in virtual time.
    ///
    /// Folders are searched for .pkt files. Exit code 1 if any fails.
    Script(Box<super::script::ScriptArgs>),
    /// Tell a story that narrows exists for: its claims as experiments, with a verdict each.
    ///
    /// Without a name: what stories there are. Ends with exit code 1 if a claim does not hold and
    /// nobody has said why.
    Story(super::story::StoryArgs),
    /// Hold narrows against what others measured, published or derived.
    ///
    /// Runs every comparison and prints one table: reference, ours, tolerance, verdict. Ends with
    /// exit code 1 if something differs that nobody has explained in docs/validation.
    Validate(Box<ValidateArgs>),
    /// Show every congestion control, RTO policy, loss detector, scenario and preset by name.
    List {
        /// Show the parameters that names take, too.
        #[arg(long)]
        parameters: bool,
    },
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum OrderArg {
    Shuffled,
    Fixed,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum FramingArg {
    Ethernet,
    None,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum CountingArg {
    /// The packet being transmitted takes no buffer space.
    Waiting,
    /// It does.
    WithInService,
    /// As ns-2's DropTail: waiting packets only, and one less than the limit.
    #[value(name = "ns-2")]
    Ns2,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum TiesArg {
    /// By an order of the servers, drawn once for each seed.
    Shuffled,
    /// Those that waited in their NIC come last, as ns-2's event list has it.
    WaitedLast,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(super) enum IdleArg {
    /// Nothing.
    Keep,
    /// Back to the initial window after an RTO.
    Rfc5681,
    /// Window validation of RFC 2861: halved for each idle RTO, less for each RTO not filled.
    Rfc2861,
    /// Window validation of RFC 7661: kept for five minutes not half used, then halved.
    Rfc7661,
}

const TRAFFIC: &str = "Traffic";
const NETWORK: &str = "Network";
const TCP: &str = "TCP";
const SWEEP: &str = "Sweep";
const OUTPUT: &str = "Output";

#[derive(Debug, Default, Args)]
pub(super) struct IncastArgs {
    /// Start from a preset's values (see `narrows list`); other options change them.
    #[arg(long, value_name = "NAME", default_value = "default", help_heading = TRAFFIC)]
    pub(super) preset: String,
    /// Server counts: 16 or 4,8,16 or 1-64 or 8-64+8 or 1..64x2
    /// [default: 1,2,4,8,12,16,24,32,48,64].
    #[arg(short = 'n', long, value_name = "LIST", value_parser = values::servers, help_heading = TRAFFIC)]
    pub(super) servers: Option<List<u32>>,
    /// What each server sends for a block [default: 256KiB].
    #[arg(long, value_name = "SIZE LIST", value_parser = values::list(values::allowed("1B to 1TiB", values::size)), help_heading = TRAFFIC, conflicts_with = "block")]
    pub(super) sru: Option<List<ByteCount>>,
    /// Size of a block, whatever the number of servers, in place of --sru.
    #[arg(long, value_name = "SIZE LIST", value_parser = values::list(values::allowed("1B to 1TiB", values::size)), help_heading = TRAFFIC)]
    pub(super) block: Option<List<ByteCount>>,
    /// Blocks to read in a run [default: 20].
    #[arg(long, value_name = "N", value_parser = values::whole(1, 1_000_000_000), help_heading = TRAFFIC, conflicts_with = "duration")]
    pub(super) blocks: Option<u32>,
    /// Simulated time of a run, in place of --blocks.
    #[arg(long, value_name = "TIME", value_parser = values::allowed("1us to 1000000s", values::positive_duration), help_heading = TRAFFIC)]
    pub(super) duration: Option<Duration>,
    /// Give a run up after this much simulated time [default: 600s].
    #[arg(long, value_name = "TIME", value_parser = values::allowed("1us to 1000000s", values::positive_duration), help_heading = TRAFFIC, conflicts_with = "duration")]
    pub(super) time_limit: Option<Duration>,
    /// Payload of a request [default: 64B].
    #[arg(long, value_name = "SIZE", value_parser = values::allowed("1B to 1MiB", values::size), help_heading = TRAFFIC)]
    pub(super) request: Option<ByteCount>,
    /// In which order the servers are asked [default: shuffled].
    #[arg(long, value_name = "ORDER", help_heading = TRAFFIC)]
    pub(super) order: Option<OrderArg>,
    /// Each server waits up to this long, at random, before it answers [default: 10us].
    #[arg(long, value_name = "TIME LIST", value_parser = values::list(values::allowed("0s to 10s", values::duration)), help_heading = TRAFFIC)]
    pub(super) jitter: Option<List<Duration>>,

    /// Rate of every link [default: 1Gb/s].
    #[arg(long, value_name = "RATE LIST", value_parser = values::list(values::rate), help_heading = NETWORK)]
    pub(super) rate: Option<List<Rate>>,
    /// One-way delay of every link; a round trip passes four [default: 25us].
    #[arg(long, value_name = "TIME LIST", value_parser = values::list(values::allowed("0s to 10s", values::duration)), help_heading = NETWORK)]
    pub(super) delay: Option<List<Duration>>,
    /// Buffer of the switch port to the client [default: 64KiB].
    #[arg(long, value_name = "QUEUE LIST", value_parser = values::list(values::allowed("a packet to 1TiB or 1073741824p", values::queue)), help_heading = NETWORK)]
    pub(super) buffer: Option<List<QueueLimit>>,
    /// Memory that all ports of the switch share, each up to ALPHA times what is free, in place of
    /// --buffer; with both, both hold [default: none; ALPHA: 1].
    #[arg(long, value_name = "SIZE[:ALPHA]", value_parser = values::allowed("a packet to 1TiB, alpha above zero", values::shared_buffer), help_heading = NETWORK)]
    pub(super) shared_buffer: Option<SharedBuffer>,
    /// Let the client's link lose, corrupt, duplicate or reorder packets at random:
    /// loss=0.1%,reorder=1%,hold=20us-80us,on=data. on is data, acks or both.
    #[arg(long, value_name = "KIND=SHARE,...", value_parser = values::impair, help_heading = NETWORK)]
    pub(super) impair: Option<Impair>,
    /// Mark ECN-capable packets from this queue on, or off [default: 30kB].
    #[arg(long, value_name = "QUEUE LIST", value_parser = values::list(values::allowed("0p to 1073741824p or 1TiB", values::ecn_threshold)), help_heading = NETWORK, conflicts_with = "red")]
    pub(super) ecn_threshold: Option<List<Aqm>>,
    /// Random early detection, in place of the ECN threshold.
    #[arg(long, value_name = "MIN:MAX:PERCENT", value_parser = values::allowed("0.1 to 100 percent", values::red), help_heading = NETWORK)]
    pub(super) red: Option<Aqm>,
    /// Controlled delay (RFC 8289), in place of the ECN threshold: marks or drops at the head of
    /// the queue; with CE, marks what waited longer than that [without a value: 5ms:100ms].
    #[arg(long, value_name = "TARGET:INTERVAL[:CE]", num_args = 0..=1, default_missing_value = "5ms:100ms", value_parser = values::allowed("100ns to 100s, the target below the interval", values::codel), help_heading = NETWORK, conflicts_with_all = ["red", "ecn_threshold"])]
    pub(super) codel: Option<Aqm>,
    /// Whether the packet being transmitted takes buffer space [default: waiting].
    #[arg(long, value_name = "HOW", help_heading = NETWORK)]
    pub(super) queue_counting: Option<CountingArg>,
    /// Which of several packets that reach the switch at one instant comes first
    /// [default: shuffled].
    #[arg(long, value_name = "ORDER", help_heading = NETWORK)]
    pub(super) ties: Option<TiesArg>,
    /// Queue of each server's NIC; a full one refuses the packet [default: 1000p].
    #[arg(long, value_name = "QUEUE", value_parser = values::allowed("a packet to 1TiB or 1073741824p", values::queue), help_heading = NETWORK)]
    pub(super) server_nic: Option<QueueLimit>,
    /// Queue of the client's NIC [default: 1000p].
    #[arg(long, value_name = "QUEUE", value_parser = values::allowed("a packet to 1TiB or 1073741824p", values::queue), help_heading = NETWORK)]
    pub(super) client_nic: Option<QueueLimit>,
    /// A server's packet enters the wire up to this late, at random; keeps equal servers from
    /// marching in step [default: 5us].
    #[arg(long, value_name = "TIME", value_parser = values::allowed("0s to 10s", values::duration), help_heading = NETWORK)]
    pub(super) nic_overhead: Option<Duration>,
    /// What a packet takes on the wire besides its IP bytes [default: ethernet].
    #[arg(long, value_name = "KIND", help_heading = NETWORK)]
    pub(super) framing: Option<FramingArg>,
    /// Largest IP packet [default: 1500].
    #[arg(long, value_name = "BYTES", value_parser = values::whole(104, 65_535), help_heading = NETWORK)]
    pub(super) mtu: Option<u32>,

    /// Congestion control [default: reno,cubic,dctcp].
    #[arg(long, value_name = "NAME LIST", value_parser = values::names, help_heading = TCP)]
    pub(super) cc: Option<List<String>>,
    /// RTO policy by name, or the floor of RFC 6298's [default: linux,1ms,fine].
    #[arg(long, value_name = "NAME LIST", value_parser = values::names, help_heading = TCP)]
    pub(super) rto: Option<List<String>>,
    /// Resolution of the hosts' timers, or exact [default: exact].
    #[arg(long, value_name = "TIME LIST", value_parser = values::list(values::allowed("exact to 1s", values::tick)), help_heading = TCP)]
    pub(super) tick: Option<List<Duration>>,
    /// Loss detector [default: sack].
    #[arg(long, value_name = "NAME LIST", value_parser = values::names, help_heading = TCP)]
    pub(super) loss: Option<List<String>>,
    /// Selective acknowledgements [default: on].
    #[arg(long, value_name = "on|off LIST", value_parser = values::list(values::switch), help_heading = TCP)]
    pub(super) sack: Option<List<bool>>,
    /// Proportional rate reduction in recovery [default: on].
    #[arg(long, value_name = "on|off LIST", value_parser = values::list(values::switch), help_heading = TCP)]
    pub(super) prr: Option<List<bool>>,
    /// Limited transmit [default: on].
    #[arg(long, value_name = "on|off LIST", value_parser = values::list(values::switch), help_heading = TCP)]
    pub(super) limited_transmit: Option<List<bool>>,
    /// Undo of reductions that prove unnecessary: F-RTO, Eifel, D-SACK [default: on].
    #[arg(long, value_name = "on|off", value_parser = values::switch, help_heading = TCP)]
    pub(super) undo: Option<bool>,
    /// What becomes of a window that is not used, as between blocks [default: keep].
    #[arg(long, value_name = "RULE", help_heading = TCP)]
    pub(super) idle_restart: Option<IdleArg>,
    /// Timestamps, in microseconds [default: on].
    #[arg(long, value_name = "on|off LIST", value_parser = values::list(values::switch), help_heading = TCP)]
    pub(super) timestamps: Option<List<bool>>,
    /// ECN: auto (as the congestion control asks), classic or off [default: auto].
    #[arg(long, value_name = "MODE LIST", value_parser = values::list(values::ecn), help_heading = TCP)]
    pub(super) ecn: Option<List<EcnUse>>,
    /// Delayed ACK: off, a time, or SEGMENTS/TIME such as 2/40ms [default: off].
    #[arg(long, value_name = "POLICY LIST", value_parser = values::list(values::allowed("1 to 64 segments, 1us to 499ms", values::delayed_ack)), help_heading = TCP)]
    pub(super) delayed_ack: Option<List<DelayedAck>>,
    /// Initial window in segments [default: 10].
    #[arg(long, visible_alias = "iw", value_name = "N LIST", value_parser = values::list(values::whole(1, InitialWindow::MAX_SEGMENTS)), help_heading = TCP)]
    pub(super) initial_window: Option<List<u32>>,
    /// Cap of the receive window, or off [default: off].
    #[arg(long, value_name = "SIZE LIST", value_parser = values::list(values::allowed("a segment to 1GiB", values::receive_window)), help_heading = TCP)]
    pub(super) rwnd: Option<List<Option<ByteCount>>>,
    /// Segment size [default: what the MTU leaves].
    #[arg(long, value_name = "BYTES", value_parser = values::whole(64, 65_495), help_heading = TCP)]
    pub(super) mss: Option<u32>,

    /// Seed of everything random [default: 1].
    #[arg(long, value_name = "N", value_parser = values::seed, help_heading = SWEEP)]
    pub(super) seed: Option<u64>,
    /// Runs of each point; with more than one: mean and 95 % confidence interval [default: 3, or 1
    /// with --pcap or --trace].
    #[arg(short, long, value_name = "N", value_parser = values::whole(1, 10_000), help_heading = SWEEP)]
    pub(super) repetitions: Option<u32>,
    /// Runs at the same time [default: one for each core]; changes no result.
    #[arg(short = 'j', long, value_name = "N", value_parser = values::whole(1, 1_024), help_heading = SWEEP)]
    pub(super) threads: Option<u32>,
    /// Serialise and parse every packet on its way; changes no result.
    #[arg(long, help_heading = SWEEP)]
    pub(super) wire: bool,

    /// Write the HTML report here [default: narrows-report.html].
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) report: Option<PathBuf>,
    /// Write no HTML report.
    #[arg(long, help_heading = OUTPUT, conflicts_with = "report")]
    pub(super) no_report: bool,
    /// Write the plot alone as SVG, for a paper.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) svg: Option<PathBuf>,
    /// Write all results as JSON; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    pub(super) json: Option<PathBuf>,
    /// Write a line for each run as CSV; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    pub(super) csv: Option<PathBuf>,
    #[command(flatten)]
    pub(super) record: RecordArgs,
    /// No progress, no table: only what happened, and errors.
    #[arg(short, long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
}

#[derive(Debug, Default, Args)]
pub(super) struct ValidateArgs {
    /// Run only the checks whose names begin like this; can be given several times.
    #[arg(long, value_name = "NAME")]
    pub(super) only: Vec<String>,
    /// Show the checks and about how many seconds each takes, and run none.
    #[arg(long)]
    pub(super) list: bool,
    /// Also the checks that take many minutes each, which the documentation leaves out.
    #[arg(long, conflicts_with = "docs")]
    pub(super) full: bool,
    /// Threads [default: one for each core].
    #[arg(short = 'j', long, value_name = "N", value_parser = values::whole(1, 1_024))]
    pub(super) threads: Option<u32>,
    /// Write the findings as JSON; - is standard output, and the default.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-", help_heading = OUTPUT)]
    pub(super) json: Option<PathBuf>,
    /// Write tables and figures as one HTML page.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    pub(super) report: Option<PathBuf>,
    /// Write what holds and how well into VALIDATION.md of this folder, between its two markers,
    /// the tables of each family into validation/tables, and the figures into validation. Tables
    /// and figures of an earlier run that this one does not have are removed.
    #[arg(long, value_name = "DIR", conflicts_with = "only", help_heading = OUTPUT)]
    pub(super) docs: Option<PathBuf>,
    /// No progress, no table: only what agrees and what does not, and errors.
    #[arg(short, long, help_heading = OUTPUT)]
    pub(super) quiet: bool,
}
