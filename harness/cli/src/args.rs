//! The options.

use super::headings::OUTPUT;
use super::values;
use clap::{Args, Parser, Subcommand};
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
    /// is tried with every other. Options are short names for keys of the experiment `incast`
    /// (`narrows show incast`); --set and --sweep take every other key.
    ///
    /// Sizes: kB (or KB) to TB are powers of 1000; KiB to TiB of 1024. Times: ns, us, ms, s.
    /// Rates: bits per second, 1Gb/s or 10G. Queues: 64p for packets, or a size.
    Incast(Box<super::shorthand::incast::IncastArgs>),
    /// Send long flows or single transfers over one bottleneck, and look at it closely.
    ///
    /// Goodput of each flow, and the bottleneck's queue; --svg draws queue, window, goodput, RTT or
    /// DCTCP's alpha over time. Options are short names for keys of the experiment `flows`
    /// (`narrows show flows`); --set and --sweep take every other key, and an option that says LIST
    /// takes several values separated by commas.
    Flows(Box<super::shorthand::flows::FlowsArgs>),
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
    /// Poll the counters of real interfaces at several periods, and show what a mean hides.
    ///
    /// Greatest reading over mean by period, bursts and gaps (readings above half of the line, as
    /// IMC 2017 counts them), and how late its own looks came.
    #[cfg(target_os = "linux")]
    Meter(super::meter::MeterArgs),
    /// Measure what packets cost on this machine's kernel.
    ///
    /// Over a veth in namespaces, with and without receive offload; prints the knobs of [host.cpu]
    /// beside their defaults, what the model with these makes of a write beside the kernel, and what
    /// its tbf lets go at once beside the simulated shaper. Takes root.
    #[cfg(target_os = "linux")]
    Calibrate,
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
