//! Experiments in Rust: a builder.
//!
//! ```
//! use narrows_experiment::model::Experiment;
//! use narrows_experiment::registry::Registry;
//! use narrows_experiment::study::Study;
//!
//! let registry = Registry::default();
//! let experiment = Experiment::builder(&registry)
//!     .title("Two senders share one port")
//!     .topology("star")
//!     .set("network.hosts", 3)
//!     .set("network.queue.limit", "64KiB")
//!     .traffic("copy", "bulk", |t| t.set("from", "h1..h2").set("size", "1MB"))
//!     .vary("host.tcp.congestion", ["reno", "cubic"])
//!     .repetitions(2)
//!     .build()?;
//! let study = Study::run(&experiment, &registry, 2)?;
//! for point in study.points() {
//!     println!("{}: {:.0} bit/s", point.label(), point.metric("goodput")?.mean);
//! }
//! # assert_eq!(study.points().len(), 2);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

use crate::file::Loaded;
use crate::knob::Quantity;
use crate::model::{Experiment, Invalid, Path, Show, quoted};
use crate::probe::Probe;
use crate::registry::Registry;
use crate::shipped::Shipped;
use crate::traffic::Traffic;
use narrows::congestion::order::sort_by_key;
use narrows::{ByteCount, Duration, Rate};
use std::fmt;

/// The value of a key: text as a file has it, a number, or a quantity with its unit.
pub trait ToValue {
    /// As a file has it.
    fn to_value(&self) -> String;
}

macro_rules! to_value {
    ($text:expr => $($type:ty),*) => {
        $(impl ToValue for $type {
            fn to_value(&self) -> String {
                let text: fn(&$type) -> String = $text;
                text(self)
            }
        })*
    };
}

to_value!(|v| (*v).to_string() => &str, String, i32, i64, u16, u32, u64, usize, f64);
to_value!(|v| v.show().unwrap_or_default() => bool, ByteCount, Duration, Rate);

/// An experiment that is being built. What cannot be is told by [`Self::build`], all of it at once.
///
/// The order of the calls is that of the parts: of hosts in groups, of traffic, of axes. Topology
/// and kinds come into force first, wherever they stand.
#[derive(Debug)]
#[must_use]
pub struct Builder<'r> {
    registry: &'r Registry,
    start: Result<Experiment, Invalid>,
    steps: Vec<Step>,
    changes: usize,
    expectations: usize,
}

/// A step towards an experiment.
#[derive(Debug)]
enum Step {
    Set(String, String),
    Vary(String, Vec<String>),
    Traffic(String, Option<&'static str>, Box<dyn Traffic>),
    Probe(String, Option<&'static str>, Box<dyn Probe>),
}

/// Keys of one part of an experiment: of a group, a traffic, a probe or a change.
#[derive(Debug)]
#[must_use]
pub struct Keys {
    at: String,
    steps: Vec<Step>,
}

impl Keys {
    /// Sets a key of this part: `size`, `tcp.congestion`.
    pub fn set(mut self, key: &str, value: impl ToValue) -> Self {
        let key = format!("{}.{key}", self.at);
        self.steps.push(Step::Set(key, value.to_value()));
        self
    }
}

/// What is wrong with an experiment that was built.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BuildErrors {
    /// Each with its key, in the order of the calls.
    pub errors: Vec<Invalid>,
}

impl fmt::Display for BuildErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors.iter().enumerate() {
            let gap = if n == 0 { "" } else { "\n" };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for BuildErrors {}

impl Experiment {
    /// An experiment of what `registry` knows: two hosts on a switch, without traffic.
    pub fn builder(registry: &Registry) -> Builder<'_> {
        Builder {
            registry,
            start: Ok(Experiment::default()),
            steps: Vec::new(),
            changes: 0,
            expectations: 0,
        }
    }

    /// What ships under `name`, such as `incast`, to begin with, as one run: what it varies, shows
    /// and expects is left out. Its short names are keys of [`Builder::set`], too.
    pub fn shipped<'r>(registry: &'r Registry, name: &str) -> Builder<'r> {
        Builder {
            start: one_run(registry, name),
            ..Self::builder(registry)
        }
    }
}

fn one_run(registry: &Registry, name: &str) -> Result<Experiment, Invalid> {
    let shipped = Shipped::get(name).map_err(|near| {
        let near = near.map_or(String::new(), |near| format!(", but '{near}'"));
        Invalid::new(
            "shipped",
            format!("nothing that ships is called '{name}'{near}"),
        )
    })?;
    let loaded = Loaded::parse(name, shipped.text, registry);
    let loaded = loaded.map_err(|e| Invalid::new("shipped", e.to_string()))?;
    Ok(Experiment {
        sweep: Vec::new(),
        show: Show::default(),
        expect: Vec::new(),
        ..loaded.experiment
    })
}

impl Builder<'_> {
    /// What it is, in a line.
    pub fn title(self, title: &str) -> Self {
        self.set("title", title)
    }

    /// What it shows, for people.
    pub fn about(self, about: &str) -> Self {
        self.set("about", about)
    }

    /// The shape of the network: `leaf-spine`. Its sizes are keys: `network.leaves`.
    pub fn topology(self, name: &str) -> Self {
        self.set("network.topology", name)
    }

    /// Sets any key, as `--set` does: `host.tcp.congestion`. `narrows keys` lists them.
    pub fn set(mut self, key: &str, value: impl ToValue) -> Self {
        self.steps.push(Step::Set(key.to_owned(), value.to_value()));
        self
    }

    /// Hosts that have a name together, by a pattern such as `h0..h7`, and what is different
    /// there: keys of `tcp`.
    pub fn group(self, name: &str, hosts: &str, keys: impl FnOnce(Keys) -> Keys) -> Self {
        let at = format!("group.{}", quoted(name));
        self.set(&format!("{at}.hosts"), hosts).part(at, keys)
    }

    /// A traffic of a kind, with its keys, `start` and those of `tcp`.
    pub fn traffic(self, name: &str, kind: &str, keys: impl FnOnce(Keys) -> Keys) -> Self {
        let at = format!("traffic.{}", quoted(name));
        self.set(&format!("{at}.kind"), kind).part(at, keys)
    }

    /// A traffic as a value of its type, of which the registry has a kind:
    /// `Bulk { size: None, ..Bulk::default() }`.
    pub fn with_traffic<T: Traffic + 'static>(mut self, name: &str, traffic: T) -> Self {
        let kind = self.registry.traffic.kind_of::<T>().map(|k| k.name());
        let step = Step::Traffic(name.to_owned(), kind, Box::new(traffic));
        self.steps.push(step);
        self
    }

    /// A probe of a kind, with its keys.
    pub fn probe(self, name: &str, kind: &str, keys: impl FnOnce(Keys) -> Keys) -> Self {
        let at = format!("probe.{}", quoted(name));
        self.set(&format!("{at}.kind"), kind).part(at, keys)
    }

    /// A probe as a value of its type, of which the registry has a kind.
    pub fn with_probe<P: Probe + 'static>(mut self, name: &str, probe: P) -> Self {
        let kind = self.registry.probes.kind_of::<P>().map(|k| k.name());
        let step = Step::Probe(name.to_owned(), kind, Box::new(probe));
        self.steps.push(step);
        self
    }

    /// A change on the way: `at`, `on`, `what`, and keys of `link` and `queue`.
    pub fn change(mut self, keys: impl FnOnce(Keys) -> Keys) -> Self {
        let at = format!("change.{}", self.changes);
        self.changes += 1;
        self.part(at, keys)
    }

    /// Varies a key over values. The first call varies slowest.
    pub fn vary<V: ToValue>(mut self, key: &str, values: impl IntoIterator<Item = V>) -> Self {
        let values = values.into_iter().map(|v| v.to_value()).collect();
        self.steps.push(Step::Vary(key.to_owned(), values));
        self
    }

    /// Simulated time at most; a run whose traffic is all done is over sooner.
    pub fn duration(self, duration: Duration) -> Self {
        self.set("run.duration", duration)
    }

    /// What comes before is not measured.
    pub fn warm_up(self, warm_up: Duration) -> Self {
        self.set("run.warm_up", warm_up)
    }

    /// Seed of everything random.
    pub fn seed(self, seed: u64) -> Self {
        self.set("run.seed", seed)
    }

    /// Runs of each point, each with a seed of its own.
    pub fn repetitions(self, repetitions: u32) -> Self {
        self.set("run.repetitions", repetitions)
    }

    /// What a metric should be: `("goodput", ">= 900Mb/s")`, at the points of the sweep with the
    /// values of `at`; at all of them if it is empty.
    pub fn expect(mut self, metric: &str, bound: &str, at: &[(&str, &str)]) -> Self {
        let expect = format!("expect.{}", self.expectations);
        self.expectations += 1;
        self.part(expect, |mut keys| {
            keys = keys.set("that", metric).set("is", bound);
            for (key, value) in at {
                keys = keys.set(&format!("where.{}", quoted(key)), *value);
            }
            keys
        })
    }

    fn part(mut self, at: String, keys: impl FnOnce(Keys) -> Keys) -> Self {
        let steps = Vec::new();
        self.steps.extend(keys(Keys { at, steps }).steps);
        self
    }

    /// The experiment. Whether its parts go together, as hosts that traffic names and the network
    /// has, is looked at when it is run, or by [`crate::plan::Plan::check`].
    ///
    /// # Errors
    /// Every key that there is none of or that cannot be that, and names that are there twice.
    pub fn build(self) -> Result<Experiment, BuildErrors> {
        let start = self.start.map_err(|e| BuildErrors { errors: vec![e] })?;
        let mut experiment = start.clone();
        let mut errors: Vec<(usize, Invalid)> = Vec::new();
        let mut steps: Vec<(usize, Step)> = self.steps.into_iter().enumerate().collect();
        sort_by_key(&mut steps, |(_, step)| rank(step));
        let mut set = Vec::new();
        for (n, step) in steps {
            if let Step::Set(key, _) = &step {
                set.push(key.clone());
            }
            if let Err(e) = apply(&mut experiment, self.registry, step) {
                errors.push((n, e));
            }
        }
        if errors.is_empty() {
            experiment.leave_idle_out(&start, set.iter().map(String::as_str));
            return Ok(experiment);
        }
        sort_by_key(&mut errors, |(n, _)| *n);
        let errors = errors.into_iter().map(|(_, e)| e).collect();
        Err(BuildErrors { errors })
    }
}

/// What others depend on comes first, what depends on all comes last.
fn rank(step: &Step) -> u8 {
    match step {
        Step::Traffic(..) | Step::Probe(..) => 0,
        Step::Vary(..) => 2,
        Step::Set(key, _) => match words(key).as_slice() {
            [part, name] if part == "network" && name == "topology" => 0,
            [part, _, kind] if (part == "traffic" || part == "probe") && kind == "kind" => 0,
            [part, ..] if part == "sweep" => 2,
            _ => 1,
        },
    }
}

/// The words of a key; none of what is no key.
fn words(key: &str) -> Vec<String> {
    let path = Path::parse(key);
    path.map_or_else(
        |_| Vec::new(),
        |path| path.words().into_iter().map(str::to_owned).collect(),
    )
}

fn apply(experiment: &mut Experiment, registry: &Registry, step: Step) -> Result<(), Invalid> {
    let set = |experiment: &mut Experiment, key: &str, value: &str| {
        let set = experiment.set(registry, key, value);
        set.map_err(|e| Invalid::new(key, e.to_string()))
    };
    let twice = |key: String, name: &str| {
        let why = format!("there is a '{name}' before: give it another name");
        Err(Invalid::new(key, why))
    };
    let unregistered = |key: String| {
        let why = "the registry has no kind of this type: register it first";
        Invalid::new(key, why)
    };
    match step {
        Step::Set(key, value) => {
            if let [part, name, kind] = words(&key).as_slice()
                && kind == "kind"
            {
                let taken = match part.as_str() {
                    "traffic" => experiment.traffic.iter().any(|t| t.name == *name),
                    "probe" => experiment.probes.iter().any(|p| p.name == *name),
                    _ => false,
                };
                if taken {
                    return twice(key, name);
                }
            }
            set(experiment, &key, &value)
        }
        Step::Vary(key, values) => {
            for value in &values {
                set(&mut experiment.clone(), &key, value)?;
            }
            let varied = experiment.vary(&key, values);
            varied.map_err(|e| Invalid::new(key, e.to_string()))
        }
        Step::Traffic(name, kind, spec) => {
            let key = format!("traffic.{}.kind", quoted(&name));
            let Some(kind) = kind else {
                return Err(unregistered(key));
            };
            if experiment.traffic.iter().any(|t| t.name == name) {
                return twice(key, &name);
            }
            set(experiment, &key, kind)?;
            if let Some(traffic) = experiment.traffic.last_mut() {
                traffic.spec = spec;
            }
            Ok(())
        }
        Step::Probe(name, kind, spec) => {
            let key = format!("probe.{}.kind", quoted(&name));
            let Some(kind) = kind else {
                return Err(unregistered(key));
            };
            if experiment.probes.iter().any(|p| p.name == name) {
                return twice(key, &name);
            }
            set(experiment, &key, kind)?;
            if let Some(probe) = experiment.probes.last_mut() {
                probe.spec = spec;
            }
            Ok(())
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::file::{Loaded, text_of};
    use crate::knob::{Knob, Knobs};
    use crate::probe::QueueProbe;
    use crate::traffic::{Bulk, Placement, TrafficError};

    #[derive(Clone, Debug)]
    struct Unregistered;

    impl Knobs for Unregistered {
        const TABLE: &'static [Knob<Self>] = &[];
    }

    impl Traffic for Unregistered {
        fn clone_box(&self) -> Box<dyn Traffic> {
            Box::new(self.clone())
        }
        fn install(&self, _: &mut Placement<'_>) -> Result<(), TrafficError> {
            Ok(())
        }
    }

    #[test]
    fn what_is_built_is_what_a_file_says() {
        let registry = Registry::default();
        let built = Experiment::builder(&registry)
            .set("network.leaves", 2)
            .set("network.link.rate", Rate::from_gbps(10))
            .set("network.link.delay", Duration::from_nanos(1_234_567))
            .set("network.queue.limit", "500KiB")
            .topology("leaf-spine")
            .title("T")
            .group("near", "h0..h1", |g| g.set("tcp.congestion", "dctcp"))
            .traffic("copy", "bulk", |t| {
                t.set("size", ByteCount::new(30_001))
                    .set("start", Duration::from_micros(1_500))
                    .set("tcp.rto", "1ms")
            })
            .probe("port", "queue", |p| p.set("series", "polled"))
            .change(|c| {
                c.set("at", "1ms")
                    .set("on", "leaf0->h0")
                    .set("link.rate", "1Gb/s")
            })
            .vary("host.tcp.sack", [true, false])
            .vary("network.spines", [1, 2])
            .duration(Duration::from_secs(1))
            .warm_up(Duration::from_nanos(1_234_567))
            .seed(7)
            .repetitions(3)
            .expect("goodput", ">= 1Mb/s", &[("network.spines", "2")])
            .build()
            .unwrap_or_else(|e| panic!("{e}"));
        let file = r#"
            title = "T"
            [network]
            topology = "leaf-spine"
            leaves = 2
            link = { rate = "10Gb/s", delay = "1234567ns" }
            queue = { limit = "500KiB" }
            [group.near]
            hosts = "h0..h1"
            tcp = { congestion = "dctcp" }
            [[traffic]]
            name = "copy"
            kind = "bulk"
            size = "30001B"
            start = "1500us"
            tcp = { rto = "1ms" }
            [[probe]]
            name = "port"
            kind = "queue"
            series = "polled"
            [[change]]
            at = "1ms"
            on = "leaf0->h0"
            link = { rate = "1Gb/s" }
            [run]
            duration = "1s"
            warm_up = "1234567ns"
            seed = 7
            repetitions = 3
            [sweep]
            "host.tcp.sack" = [true, false]
            "network.spines" = [1, 2]
            [[expect]]
            that = "goodput"
            is = ">= 1Mb/s"
            where = { "network.spines" = 2 }
        "#;
        let loaded = Loaded::parse("x.toml", file, &registry).unwrap_or_else(|e| panic!("{e}"));
        assert_eq!(text_of(&built), text_of(&loaded.experiment));
    }

    #[test]
    fn values_of_types_are_what_their_keys_say() {
        let registry = Registry::default();
        let size = Some(ByteCount::new(1_000_000));
        let typed = Experiment::builder(&registry)
            .with_traffic(
                "copy",
                Bulk {
                    size,
                    ..Bulk::default()
                },
            )
            .with_probe("port", QueueProbe::default())
            .build()
            .unwrap();
        let keyed = Experiment::builder(&registry)
            .traffic("copy", "bulk", |t| t.set("size", "1MB"))
            .probe("port", "queue", |p| p)
            .build()
            .unwrap();
        assert_eq!(text_of(&typed), text_of(&keyed));
    }

    #[test]
    fn all_that_is_wrong_is_told_at_once_in_the_order_of_the_calls() {
        let registry = Registry::default();
        let errors = Experiment::builder(&registry)
            .set("network.hots", 3)
            .vary("host.tcp.congestion", ["reno", "cubik"])
            .set("run.repetitions", -1)
            .traffic("copy", "bulk", |t| t.set("size", "0B"))
            .with_traffic("copy", Bulk::default())
            .topology("start")
            .with_traffic("mine", Unregistered)
            .build()
            .unwrap_err();
        let keys: Vec<&str> = errors.errors.iter().map(|e| e.key.as_str()).collect();
        assert_eq!(
            keys,
            [
                "network.hots",
                "host.tcp.congestion",
                "run.repetitions",
                "traffic.copy.size",
                "traffic.copy.kind",
                "network.topology",
                "traffic.mine.kind"
            ]
        );
        let text = errors.to_string();
        for near in [
            "did you mean 'hosts'?",
            "did you mean 'cubic'?",
            "did you mean 'star'?",
        ] {
            assert!(text.contains(near), "{text}");
        }
    }
}
