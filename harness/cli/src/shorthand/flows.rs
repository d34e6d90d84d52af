//! `narrows flows`: a few flows over one bottleneck, looked at closely, as the experiment `flows`.

use super::super::headings::OUTPUT;
use super::super::run::Options;
use super::super::{App, Console, Stop, usage, values};
use super::{Composite, Opt, Pairs, Short, Shorthand, port};
use clap::{Args, ValueEnum};
use narrows::{Duration, Rate};
use narrows_experiment::knob::Quantity;
use narrows_experiment::model::{Experiment, Members, NamedTraffic, Settings, SweepAxis};
use narrows_experiment::registry::Registry;
use std::ffi::OsString;
use std::sync::OnceLock;

#[derive(Debug)]
pub(crate) struct Flows;

#[derive(Debug, Args)]
pub(crate) struct FlowsArgs {
    #[command(flatten)]
    short: Short<Flows>,
    /// What --svg draws over time.
    #[arg(long, value_name = "WHAT", requires = "svg", help_heading = OUTPUT)]
    plot: Option<Plot>,
    /// How often flows are looked at for a plot; the queue is drawn whenever it changes
    /// [default: 1ms].
    #[arg(long, value_name = "TIME", requires = "svg", value_parser = values::allowed("1us to 1000000s", values::positive_duration), help_heading = OUTPUT)]
    interval: Option<Duration>,
    #[command(flatten)]
    options: Options,
}

/// What is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
enum Plot {
    /// The bottleneck's queue, in packets, after the warm-up.
    #[default]
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

impl Plot {
    /// The figure of a report that it is.
    fn figure(self) -> &'static str {
        match self {
            Self::Queue => "figure-port-queue-packets",
            Self::Cwnd => "figure-flow-cwnd-bytes",
            Self::Goodput => "figure-flow-goodput-bit-per-s",
            Self::Rtt => "figure-flow-srtt-ns",
            Self::Alpha => "figure-flow-alpha",
        }
    }
}

impl Shorthand for Flows {
    const EXPERIMENT: &'static str = "flows";

    const APART: &'static [(&'static str, &'static [&'static str])] = &[("lose-each", &["impair"])];

    const COMPOSITE: &'static [Composite] = &[
        Composite {
            name: "cc",
            value: "LIST",
            help: "Congestion controls, dealt out to the flows in turn; one may be there several times [default: cubic].",
            heading: "TCP",
            missing: None,
            conflicts: &[],
            // They are dealt out when all else is known.
            pairs: |_, _| Ok(Pairs::new()),
        },
        Composite {
            name: "rate",
            value: "RATE",
            help: "Rate of the bottleneck; the senders' links are ten times as fast [default: 1Gb/s].",
            heading: "Network",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                let rate = values::rate(text)?;
                let why = "allowed is 1kb/s to 100Gb/s: the senders' links are ten times as fast";
                if !(Rate::from_bits_per_sec(1_000)..=Rate::from_gbps(100)).contains(&rate) {
                    return Err(why.to_owned());
                }
                let senders = rate.mul_ratio(10, 1).show().ok_or(why)?;
                Ok(vec![
                    ("network.link.rate", senders),
                    (r#"network.port."s0->h0".link.rate"#, text.to_owned()),
                    (r#"network.port."h0->s0".link.rate"#, text.to_owned()),
                ])
            },
        },
        Composite {
            name: "rtt",
            value: "TIME LIST",
            help: "Round-trip time without queues [default: 100us].",
            heading: "Network",
            missing: None,
            conflicts: &[],
            pairs: |text, _| {
                let range = "allowed is 0s to 40s";
                let quarter = |text: &str| {
                    let time = values::duration(text.trim());
                    match time.map_err(|why| format!("{why}; {range}"))? / 4 {
                        delay if delay <= Duration::from_secs(10) => delay.show(),
                        _ => None,
                    }
                    .ok_or_else(|| range.to_owned())
                };
                let all: Result<Vec<String>, String> = text.split(',').map(quarter).collect();
                Ok(vec![("network.link.delay", all?.join(","))])
            },
        },
        port::SHARED_BUFFER,
        port::IMPAIR,
        port::ECN_THRESHOLD,
        port::RED,
        port::CODEL,
    ];

    const EACH_FLOW: bool = true;

    fn table() -> &'static OnceLock<Vec<Opt>> {
        static TABLE: OnceLock<Vec<Opt>> = OnceLock::new();
        &TABLE
    }
}

/// The traffic of the file.
const FLOW: &str = "flow";
const SENDERS: &str = "group.senders.size";

/// How many flows there are at least.
fn senders(experiment: &Experiment) -> u32 {
    let axis = experiment.sweep.iter().find(|axis| axis.key == SENDERS);
    if let Some(axis) = axis {
        let all = axis.values.iter().filter_map(|n| n.parse().ok());
        return all.min().unwrap_or(1);
    }
    let group = experiment.groups.iter().find(|g| g.name == "senders");
    match group.map(|g| &g.members) {
        Some(Members::Count(n)) => *n,
        _ => 1,
    }
}

impl FlowsArgs {
    /// Gives flows their congestion controls, and the run its warm-up.
    fn settle(&self, experiment: &mut Experiment, registry: &Registry) -> Result<(), Stop> {
        let cc = self.short.of("cc");
        let names = match cc.map(values::names_in_turn).transpose() {
            Ok(names) => names.map_or_else(Vec::new, |list| list.0),
            Err(why) => return Err(usage("cc", cc.unwrap_or_default(), &why)),
        };
        for name in &names {
            let known = registry.congestion.get(name).map(|_| ());
            known.map_err(|why| usage("cc", name, &why.to_string()))?;
        }
        if self.short.of("senders").is_none() && names.len() > 2 {
            set(experiment, registry, SENDERS, &names.len().to_string())?;
        }
        self.check(experiment, &names)?;
        if let [name] = &names[..] {
            set(experiment, registry, "host.tcp.congestion", name)?;
        } else if !names.is_empty() {
            deal(experiment, &names)?;
        }
        let asked = |option| self.short.of(option).is_some();
        if asked("size") && !asked("warm-up") {
            set(experiment, registry, "run.warm_up", "0s")?;
        } else if asked("duration") && !asked("warm-up") {
            let fifth = (experiment.run.duration / 5).show().unwrap_or_default();
            set(experiment, registry, "run.warm_up", &fifth)?;
        }
        self.watch(experiment, registry)
    }

    /// No option is taken and then left alone.
    fn check(&self, experiment: &Experiment, names: &[String]) -> Result<(), Stop> {
        let flows = senders(experiment) as usize;
        if names.len() > flows {
            let why = format!(
                "{} are dealt out to {flows} flows, which leaves {} without one: give -n {}",
                names.len(),
                names[flows..].join(", "),
                names.len()
            );
            return Err(usage("cc", &names.join(","), &why));
        }
        if let Some(apart) = self.short.of("apart") {
            let each = values::duration(apart).unwrap_or_default();
            if flows == 1 && !each.is_zero() {
                let why = "there is one flow: give -n 2 or more";
                return Err(usage("apart", apart, why));
            }
            let last = each * (flows as u64 - 1);
            if last >= experiment.run.duration {
                let why = "the last flow would begin after --duration: give a longer one";
                return Err(usage("apart", apart, why));
            }
        }
        if let (Some(interval), Plot::Queue) = (self.interval, self.plot.unwrap_or_default()) {
            let why = "the queue is drawn whenever it changes: leave --interval out, or give \
                       another --plot";
            return Err(usage("interval", &interval.to_string(), why));
        }
        Ok(())
    }

    /// Has what is drawn recorded.
    fn watch(&self, experiment: &mut Experiment, registry: &Registry) -> Result<(), Stop> {
        if !self.options.draws() {
            return Ok(());
        }
        let plot = self.plot.unwrap_or_default();
        if plot == Plot::Queue {
            set(experiment, registry, "probe.port.series", "changes")?;
        }
        if self.plot.is_none_or(|plot| plot == Plot::Queue) && self.options.svg() {
            return Ok(());
        }
        set(experiment, registry, "probe.flow.kind", "flow")?;
        set(experiment, registry, "probe.flow.on", "senders")?;
        set(experiment, registry, "probe.flow.most", "1")?;
        let every = self.interval.and_then(|every| every.show());
        let every = every.as_deref().unwrap_or("1ms");
        let done = experiment.set(registry, "probe.flow.every", every);
        done.map_err(|e| usage("interval", every, &e.to_string()))
    }
}

/// Sets a key that the experiment has.
fn set(
    experiment: &mut Experiment,
    registry: &Registry,
    key: &str,
    value: &str,
) -> Result<(), Stop> {
    let done = experiment.set(registry, key, value);
    done.map_err(|e| Stop::Failed(format!("{key}: {e}")))
}

/// Makes a traffic for each of several congestion controls, which has every so manieth sender.
fn deal(experiment: &mut Experiment, names: &[String]) -> Result<(), Stop> {
    let of_flow = |axis: &&SweepAxis| axis.key.starts_with("traffic.flow.");
    if let Some(axis) = experiment.sweep.iter().find(of_flow) {
        let why = format!(
            "{} takes several values, and these are dealt out: choose one of the two",
            axis.key
        );
        return Err(usage("cc", &names.join(","), &why));
    }
    let Some(at) = experiment.traffic.iter().position(|t| t.name == FLOW) else {
        return Ok(());
    };
    let all = experiment.traffic.remove(at);
    let stagger = all.spec.get("stagger");
    let stagger = stagger.and_then(|text| values::duration(&text).ok());
    let stagger = stagger.unwrap_or_default();
    let count = names.len() as u64;
    let mut dealt: Vec<NamedTraffic> = Vec::new();
    for (n, congestion) in names.iter().enumerate() {
        let mut of = all.clone();
        let mut tcp = Settings::default();
        tcp.set("congestion", congestion);
        let wrong = |e| Stop::Failed(format!("{e}"));
        let part = format!("senders:{}/{count}", n + 1);
        of.spec.set("from", &part).map_err(wrong)?;
        let each = (stagger * count).show().unwrap_or_default();
        of.spec.set("stagger", &each).map_err(wrong)?;
        of.start = stagger * n as u64;
        of.tcp = tcp;
        of.name = name_of(congestion, &dealt);
        dealt.push(of);
    }
    experiment.traffic.splice(at..at, dealt);
    let of_flow = experiment.short.iter();
    let of_flow = of_flow.filter(|(_, key)| key.starts_with("traffic.flow."));
    let gone: Vec<String> = of_flow.map(|(name, _)| name.to_owned()).collect();
    for name in gone {
        experiment.short.remove(&name);
    }
    Ok(())
}

/// A name for the flows of a congestion control that no other traffic has.
fn name_of(congestion: &str, others: &[NamedTraffic]) -> String {
    let letter = |c: char| if c.is_ascii_alphanumeric() { c } else { '-' };
    let name: String = congestion.chars().map(letter).take(50).collect();
    let is_free = |name: &String| others.iter().all(|t| t.name != *name);
    let numbered = (2..).map(|n| format!("{name}-{n}"));
    let mut all = std::iter::once(name.clone()).chain(numbered);
    all.find(is_free).unwrap_or_default()
}

/// Run it; the exit code.
pub(crate) fn run(
    app: &App,
    args: &FlowsArgs,
    command: &[OsString],
    console: &mut Console<'_>,
) -> Result<u8, Stop> {
    let mut options = args.options.clone();
    if options.svg() {
        options.draw(args.plot.unwrap_or_default().figure());
    }
    let settle =
        |experiment: &mut Experiment, registry: &Registry| args.settle(experiment, registry);
    super::run(
        app,
        Flows::EXPERIMENT,
        &args.short,
        &options,
        &settle,
        command,
        console,
    )
}
