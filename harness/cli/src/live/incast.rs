//! `narrows live incast`: the experiment `live-incast` in a lab and in the simulator.

use crate::output::apart;
use crate::run::Options;
use crate::shorthand::{self, Composite, Opt, Short, Shorthand, port};
use crate::{App, Console, Stop, values};
use clap::Args;
use narrows_experiment::model::{Experiment, SweepAxis};
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::spec::QueueLimit;
use narrows_lab::incast::{self, LivePlace, Seen};
use narrows_lab::lab::OWNED_PREFIX;
use std::ffi::OsString;
use std::fmt::Write as _;
use std::sync::{Arc, OnceLock};

/// What the kernel does where it delays acknowledgements.
const KERNEL_DELAYED_ACK: &str = "2/40ms";

#[derive(Debug)]
pub(crate) struct LiveIncast;

#[derive(Debug, Args)]
#[command(mut_arg("pcap_at", |arg| arg.hide(true)), mut_arg("pcap_side", |arg| arg.hide(true)))]
pub(super) struct LiveIncastArgs {
    #[command(flatten)]
    short: Short<LiveIncast>,
    /// Let the client delay acknowledgements, by up to 40 ms or a second segment.
    #[arg(long, help_heading = "TCP")]
    delayed_ack: bool,
    /// The lab, which is made for this run alone [default: one of a name of its own].
    #[arg(long = "lab", value_name = "NAME", help_heading = "Network")]
    name: Option<String>,
    /// Leave the simulated runs out.
    #[arg(long, help_heading = "What runs")]
    no_simulation: bool,
    #[command(flatten)]
    options: Options,
}

impl Shorthand for LiveIncast {
    const EXPERIMENT: &'static str = "live-incast";
    const APART: &'static [(&'static str, &'static [&'static str])] = &[("sru", &["block"])];
    const COMPOSITE: &'static [Composite] = &[Composite {
        conflicts: &[],
        help: "Mark ECN-capable packets from this queue on, or off [default: 8p].",
        ..port::ECN_THRESHOLD
    }];
    const EACH_FLOW: bool = false;

    fn table() -> &'static OnceLock<Vec<Opt>> {
        static TABLE: OnceLock<Vec<Opt>> = OnceLock::new();
        &TABLE
    }
}

impl LiveIncastArgs {
    /// Has the runs live, and simulated beside them.
    fn settle(&self, experiment: &mut Experiment, registry: &Registry) -> Result<(), Stop> {
        let mut set = |key: &str, value: &str| {
            let done = experiment.set(registry, key, value);
            done.map_err(|e| Stop::Failed(format!("{key}: {e}")))
        };
        if self.delayed_ack {
            set("host.tcp.delayed_ack", KERNEL_DELAYED_ACK)?;
        }
        // The kernel has no finer one than some milliseconds.
        if self.short.of("senders") == Some("kernel") && self.short.of("rto").is_none() {
            set(r#"sweep."host.tcp.rto""#, "linux,5ms")?;
        }
        if self.options.record.is_any() {
            let axes = experiment.sweep.iter().map(|axis| axis.values.len());
            let again = self.options.repetitions.as_deref().unwrap_or("1");
            let runs = axes.product::<usize>() * again.parse::<usize>().unwrap_or(1);
            let how = "give one value each to --servers, --cc, --rto and the other lists";
            self.options.record.check(runs, how)?;
        }
        if self.no_simulation {
            return experiment
                .set(registry, "run.place", "live")
                .map_err(|e| Stop::Failed(e.to_string()));
        }
        let both = SweepAxis {
            key: "run.place".to_owned(),
            values: ["live", "simulated"].map(str::to_owned).to_vec().into(),
        };
        experiment.sweep.insert(0, both);
        Ok(())
    }
}

/// Run it; the exit code.
pub(super) fn run(
    app: &App,
    args: &LiveIncastArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    if let Some(option) = args.options.record.capture_place() {
        return Err(Stop::Wrong(format!(
            "error: a live capture is of the frames of all hosts of ours, each at its own device, and of no \
             other place: leave --{option} out\n"
        )));
    }
    let own = format!("{OWNED_PREFIX}{}", std::process::id());
    let mut place = LivePlace::new(args.name.clone().unwrap_or(own));
    let mut options = args.options.clone();
    apart(&options.record.wanted())?;
    place.capture = options.record.take_capture();
    place.trace = options.record.trace.take();
    options.one_by_one();
    let place = Arc::new(place);
    let mut catalog = app.catalog.clone();
    catalog.registry.live = Some(place.clone());
    let app = App {
        catalog,
        checks: Vec::new(),
    };
    let settle =
        |experiment: &mut Experiment, registry: &Registry| args.settle(experiment, registry);
    let experiment = LiveIncast::EXPERIMENT;
    let code = shorthand::run(
        &app,
        experiment,
        &args.short,
        &options,
        &settle,
        command,
        console,
    )?;
    console.say_aside(&differences(args, &place.seen()))?;
    Ok(code)
}

/// Where the live runs are not what was asked for.
fn differences(args: &LiveIncastArgs, seen: &Seen) -> String {
    let mut text = String::new();
    let mtu = args.short.of("mtu").and_then(|mtu| mtu.parse().ok());
    let buffer = args.short.of("buffer").map(values::queue);
    if let Some(Ok(limit @ QueueLimit::Packets(n))) = buffer {
        let bytes = incast::port_bytes(limit, mtu.unwrap_or(1_500)).get();
        let _ = writeln!(
            text,
            "The live port's buffer is one of bytes: {bytes}, {n} full packets; smaller ones take \
             less."
        );
    }
    if seen.latched {
        text += "The kernel's client has no DCTCP and so told our senders that there were marks, \
                 but not which packets had them (RFC 3168 in place of RFC 8257): they slow down \
                 more than simulated ones. The module `tcp_dctcp` (CONFIG_TCP_CONG_DCTCP) would \
                 mend that.\n";
    }
    let (percent, servers) = seen.worst;
    let runs = match seen.late {
        0 => return text,
        1 => "1 live run".to_owned(),
        n => format!("{n} live runs"),
    };
    let _ = writeln!(
        text,
        "In {runs} our hosts stood still for want of CPU time, for up to {percent} % of the time \
         ({servers} servers): what they sent was less than a wire of this rate would have carried. \
         Try a lower --rate, or `chrt -r 10` before the command."
    );
    text
}
