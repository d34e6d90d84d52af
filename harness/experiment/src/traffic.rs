//! Traffic: what the hosts of an experiment send each other.
//!
//! A kind of traffic is a file: its knobs, and the [`Role`]s that it gives to hosts. A role is a
//! part of the application of one host: it opens and accepts connections of its own, and hears of
//! no others, so that several kinds share hosts and network. Kinds have names in [`TrafficKinds`];
//! users add theirs:
//!
//! ```
//! use narrows::endpoint::ConnId;
//! use narrows::{ByteCount, Instant};
//! use narrows_experiment::file::Loaded;
//! use narrows_experiment::knob;
//! use narrows_experiment::knob::{Kind, Knob, Knobs};
//! use narrows_experiment::registry::Registry;
//! use narrows_experiment::scenario::RunContext;
//! use narrows_experiment::traffic::{
//!     Channels, Counts, Io, Messenger, Placement, Role, RoleEvent, Traffic, TrafficError,
//!     TrafficKind,
//! };
//!
//! /// The first host sends a message to the second one.
//! #[derive(Clone, Debug, Default)]
//! struct Once {
//!     size: ByteCount,
//! }
//!
//! impl Knobs for Once {
//!     const TABLE: &'static [Knob<Self>] = &[knob! {
//!         size: "size", "message size", Kind::Size { least: 1, most: 1 << 30 },
//!         "How long the message is."
//!     }];
//! }
//!
//! impl Traffic for Once {
//!     fn clone_box(&self) -> Box<dyn Traffic> {
//!         Box::new(self.clone())
//!     }
//!
//!     fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError> {
//!         if self.size.is_zero() {
//!             return Err(TrafficError::new("size", "a message has a byte at least"));
//!         }
//!         let channels = Channels::default();
//!         for host in on.hosts("hosts", "h0..h1")? {
//!             let messages = channels.messenger();
//!             on.role(host, End { size: self.size, messages });
//!         }
//!         on.ends_after(1);
//!         Ok(())
//!     }
//! }
//!
//! #[derive(Debug)]
//! struct End {
//!     size: ByteCount,
//!     /// A message says when it began.
//!     messages: Messenger<Instant>,
//! }
//!
//! impl Role for End {
//!     fn open(&mut self, io: &mut Io<'_>) {
//!         io.listen();
//!     }
//!
//!     fn start(&mut self, io: &mut Io<'_>) {
//!         if io.host().0 == 0
//!             && let Some(conn) = self.messages.connect(io, narrows_net::net::packet::HostId(1), 0)
//!         {
//!             self.messages.send(io, conn, self.size.get(), io.now());
//!         }
//!     }
//!
//!     fn event(&mut self, io: &mut Io<'_>, conn: ConnId, event: RoleEvent) {
//!         match event {
//!             RoleEvent::Accepted => self.messages.accept(io, conn, 0),
//!             RoleEvent::Writable => self.messages.writable(io, conn),
//!             RoleEvent::Readable => {
//!                 self.messages.read(io, conn, Counts::Delivered);
//!                 while let Some((size, began)) = self.messages.next(conn) {
//!                     io.complete(io.peer(conn), began, ByteCount::new(size));
//!                     io.finish();
//!                 }
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//!
//! let mut registry = Registry::default();
//! registry.traffic.register(TrafficKind::new::<Once>("once", "a message"));
//! let file = r#"
//!     [network]
//!     topology = "star"
//!     hosts = 2
//!     [[traffic]]
//!     name = "hello"
//!     kind = "once"
//!     size = "100kB"
//! "#;
//! let loaded = Loaded::parse("once.toml", file, &registry).unwrap();
//! let outcome = loaded.experiment.run(&registry, RunContext::default()).unwrap();
//! assert_eq!(outcome.transfers[0].size, ByteCount::new(100_000));
//! ```

mod alarms;
mod all_to_all;
mod arrivals;
mod bulk;
mod choose;
mod fan_out;
mod host;
mod log;
mod messages;
mod node_mesh;
mod on_off;
mod opening;
mod port;
mod receiver;
#[cfg(test)]
mod rig;
mod ring;
mod role;
mod rpc;
mod size;
mod synchronised_read;
mod writes;

pub use alarms::Alarms;
pub use all_to_all::AllToAll;
pub use arrivals::{Arrivals, Pause, exponential, neg_ln};
pub use bulk::{Bulk, Pairs};
pub use choose::Skew;
pub use fan_out::{FanOut, Offered, Recorded};
pub(crate) use host::listens_on;
pub use host::{Broken, Family, HostApp, Opened, Opener};
pub use log::{AppEvent, AppSpan, Gauge, Log, Process, SpanKind, Transfer};
pub use messages::{Channels, Counts, Messenger};
pub use node_mesh::{NodeMesh, Writers};
pub use on_off::OnOff;
pub use receiver::Receiver;
pub use ring::{Operation, Ring, RingRecord};
pub use role::{Io, Role, RoleEvent};
pub use rpc::{NoDelay, Rpc};
pub use size::{CdfError, Mean, SizeCdf, SizeDistribution};
pub use synchronised_read::{AnswerTimes, AskOrder, SynchronisedRead};
pub use writes::WritePattern;

use crate::knob::Section;
use crate::net::graph::{Graph, NodeId, TopologyError};
use crate::net::packet::HostId;
use crate::sim::rng::{Component, Stream};
use narrows_net::near_match::nearest;
use std::any::TypeId;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A kind of traffic with its knobs set.
pub trait Traffic: Section + Send + Sync {
    /// The same in a box.
    fn clone_box(&self) -> Box<dyn Traffic>;

    /// Gives hosts their roles.
    ///
    /// # Errors
    /// Which knob cannot be that on this network, and why.
    fn install(&self, on: &mut Placement<'_>) -> Result<(), TrafficError>;
}

impl Clone for Box<dyn Traffic> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Why a traffic cannot be on a network.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TrafficError {
    /// The knob.
    pub key: &'static str,
    /// Why it cannot be that.
    pub why: String,
}

impl TrafficError {
    /// `key` cannot be that, because of `why`.
    pub fn new(key: &'static str, why: impl Into<String>) -> Self {
        Self {
            key,
            why: why.into(),
        }
    }
}

impl fmt::Display for TrafficError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.key, self.why)
    }
}

impl std::error::Error for TrafficError {}

/// Where a traffic puts its roles.
#[derive(Debug)]
pub struct Placement<'a> {
    graph: &'a Graph,
    seed: u64,
    number: u16,
    pub(crate) roles: Vec<(HostId, Box<dyn Role>)>,
    pub(crate) ends: Ends,
}

/// When a traffic is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ends {
    /// Never.
    Never,
    /// After so many calls of [`Io::finish`].
    After(usize),
}

impl<'a> Placement<'a> {
    /// Traffic `number` of an experiment on `graph`, in a run with `seed`.
    pub fn new(graph: &'a Graph, number: u16, seed: u64) -> Self {
        Self {
            graph,
            seed,
            number,
            roles: Vec::new(),
            ends: Ends::After(0),
        }
    }

    /// The network.
    pub fn graph(&self) -> &'a Graph {
        self.graph
    }

    /// The hosts that knob `key` names by `pattern`; none twice, in the order of their numbers.
    ///
    /// # Errors
    /// If it names none.
    pub fn hosts(&self, key: &'static str, pattern: &str) -> Result<Vec<HostId>, TrafficError> {
        let named = self.graph.resolve_hosts(pattern);
        let hosts = named.map_err(|e: TopologyError| TrafficError::new(key, e.to_string()))?;
        if hosts.is_empty() {
            return Err(TrafficError::new(key, format!("'{pattern}' names no host")));
        }
        Ok(hosts)
    }

    /// The one host that knob `key` names.
    ///
    /// # Errors
    /// If it names none or several.
    pub fn host(&self, key: &'static str, pattern: &str) -> Result<HostId, TrafficError> {
        match self.hosts(key, pattern)?[..] {
            [host] => Ok(host),
            ref hosts => Err(TrafficError::new(
                key,
                format!("'{pattern}' names {} hosts; it has to be one", hosts.len()),
            )),
        }
    }

    /// The hosts that knob `key` names, none of which may be `but`; `*` is all others.
    ///
    /// # Errors
    /// If it names none, or `but`.
    pub fn others(
        &self,
        key: &'static str,
        pattern: &str,
        but: HostId,
    ) -> Result<Vec<HostId>, TrafficError> {
        let mut hosts = self.hosts(key, pattern)?;
        let name = self.graph.node_name(NodeId::Host(but));
        if pattern.trim() == "*" {
            hosts.retain(|host| *host != but);
        } else if hosts.contains(&but) {
            let why = format!("{name} is at the other end and cannot be among '{pattern}'");
            return Err(TrafficError::new(key, why));
        }
        if hosts.is_empty() {
            let why = format!("there is no host but {name}");
            return Err(TrafficError::new(key, why));
        }
        Ok(hosts)
    }

    /// A random stream of this traffic; `host` and `use_` keep several apart. The first traffic of
    /// an experiment has the streams that its hosts have by their numbers.
    pub fn stream(&self, component: Component, host: u64) -> Stream {
        Stream::new(self.seed, component, u64::from(self.number) << 32 | host)
    }

    /// Gives `host` a role. A host may have several.
    pub fn role(&mut self, host: HostId, role: impl Role + 'static) {
        self.roles.push((host, Box::new(role)));
    }

    /// The traffic is over after `more` further calls of [`Io::finish`].
    pub fn ends_after(&mut self, more: usize) {
        if let Ends::After(calls) = &mut self.ends {
            *calls = calls.saturating_add(more);
        }
    }

    /// The traffic is never over.
    pub fn never_ends(&mut self) {
        self.ends = Ends::Never;
    }
}

/// State that the roles of a traffic share, on whichever hosts: a run has one thread.
pub type Shared<T> = Rc<std::cell::RefCell<T>>;

type Make = dyn Fn() -> Box<dyn Traffic> + Send + Sync;

/// A kind of traffic under a name.
#[derive(Clone)]
pub struct TrafficKind {
    name: &'static str,
    about: &'static str,
    type_id: TypeId,
    make: Arc<Make>,
}

impl fmt::Debug for TrafficKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("TrafficKind").field(&self.name).finish()
    }
}

impl TrafficKind {
    /// A kind: `about` says in a line what it is, and its knobs are what `T` has by default.
    pub fn new<T: Traffic + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            type_id: TypeId::of::<T>(),
            make: Arc::new(|| Box::<T>::default()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A line that says what it is.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// One with default knobs.
    pub fn traffic(&self) -> Box<dyn Traffic> {
        (self.make)()
    }
}

/// Kinds of traffic by name.
#[derive(Clone, Debug)]
pub struct TrafficKinds(Vec<TrafficKind>);

impl Default for TrafficKinds {
    fn default() -> Self {
        Self::standard()
    }
}

impl TrafficKinds {
    /// What narrows brings along.
    pub fn standard() -> Self {
        Self(vec![
            TrafficKind::new::<Bulk>(
                "bulk",
                "transfers of a size, or without end, from some hosts to others",
            ),
            TrafficKind::new::<SynchronisedRead>(
                "synchronised-read",
                "a client reads blocks that are striped over servers: incast",
            ),
            TrafficKind::new::<Rpc>("rpc", "calls and replies, one at a time on each connection"),
            TrafficKind::new::<FanOut>(
                "fan-out",
                "queries that arrive by themselves, each put to several hosts",
            ),
            TrafficKind::new::<AllToAll>("all-to-all", "each host sends to each other: a shuffle"),
            TrafficKind::new::<Ring>(
                "ring",
                "all-reduce or all-gather: hosts pass chunks to the next one, step by step",
            ),
            TrafficKind::new::<NodeMesh>(
                "node-mesh",
                "nodes of the Erlang kind: a connection a pair, busy ports, suspended processes",
            ),
            TrafficKind::new::<OnOff>("on-off", "bursts with idle periods between them"),
        ])
    }

    /// Adds a kind; one of the same name is replaced.
    pub fn register(&mut self, kind: TrafficKind) {
        match self.0.iter_mut().find(|k| k.name == kind.name) {
            Some(old) => *old = kind,
            None => self.0.push(kind),
        }
    }

    /// All kinds, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &TrafficKind> {
        self.0.iter()
    }

    /// The kind whose traffics are of type `T`, the last registered of several.
    pub fn kind_of<T: Traffic + 'static>(&self) -> Option<&TrafficKind> {
        let wanted = TypeId::of::<T>();
        self.0.iter().rfind(|k| k.type_id == wanted)
    }

    /// The kind with a name.
    ///
    /// # Errors
    /// A sentence with the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&TrafficKind, String> {
        let found = self.0.iter().find(|k| k.name == name);
        found.ok_or_else(|| {
            let names = || self.0.iter().map(|k| k.name);
            match nearest(name, names()) {
                Some(near) => format!("there is no traffic '{name}'; did you mean '{near}'?"),
                None => {
                    let names: Vec<&str> = names().collect();
                    let known = names.join(", ");
                    format!("there is no traffic '{name}'; kinds are {known}")
                }
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::rig::Rig;
    use super::*;
    use crate::knob::{About, Kind};
    use narrows::Duration;

    /// Values that a knob of any kind may have.
    fn values(kind: &Kind) -> Vec<String> {
        let text = |n: u64, unit: &str| format!("{n}{unit}");
        match *kind {
            Kind::Size { least, most } => vec![text(least, "B"), text(most, "B")],
            Kind::Time { least, most } => vec![text(least, "ns"), text(most, "ns")],
            Kind::Whole { least, most } => vec![least.to_string(), most.to_string()],
            Kind::Rate => vec!["1kb/s".to_owned(), "1Tb/s".to_owned()],
            Kind::Switch => vec!["on".to_owned(), "off".to_owned()],
            Kind::Choice(words) => words.iter().map(|word| (*word).to_owned()).collect(),
            Kind::Hosts => vec!["h0..h3".to_owned(), "*".to_owned()],
            Kind::Or(word, kind) => {
                let mut values = values(kind);
                values.push(word.to_owned());
                values
            }
            _ => Vec::new(),
        }
    }

    /// Each value at the ends of each range is taken, and what is shown reads back as the same.
    #[test]
    fn every_knob_of_every_kind_is_set_and_shown() {
        for kind in TrafficKinds::standard().entries() {
            for About {
                key,
                kind: of,
                meaning,
                ..
            } in kind.traffic().knobs()
            {
                assert!(meaning.ends_with('.'), "{} {key}: {meaning}", kind.name());
                for value in values(&of) {
                    let mut traffic = kind.traffic();
                    let set = traffic.set(key, &value);
                    set.unwrap_or_else(|e| panic!("{} {key} = {value}: {e}", kind.name()));
                    if let Some(shown) = traffic.get(key) {
                        let mut again = kind.traffic();
                        again.set(key, &shown).unwrap();
                        assert_eq!(again.get(key), Some(shown), "{} {key}", kind.name());
                    }
                }
                let nonsense = kind.traffic().set(key, "no such thing");
                assert!(nonsense.is_err() || matches!(of, Kind::Hosts | Kind::Or(_, Kind::Hosts)));
            }
        }
    }

    /// With its default knobs each kind runs on a star and on a leaf-spine, beside all others.
    #[test]
    fn every_kind_runs_beside_all_others() {
        let mut star = Rig::star(5);
        let mut fabric = Rig::leaf_spine(2, 2).ipv6();
        for (kind, n) in TrafficKinds::standard().entries().zip(0..) {
            let start = Duration::from_millis(n);
            let mut traffic = kind.traffic();
            if kind.name() == "bulk" {
                traffic.set("size", "1MB").unwrap();
            }
            star = star.boxed(start, traffic.clone());
            fabric = fabric.boxed(start, traffic);
        }
        for rig in [star, fabric] {
            let ran = rig.run(Duration::from_millis(2_000));
            for (kind, number) in TrafficKinds::standard().entries().zip(0..) {
                let any = ran.transfers().iter().any(|t| t.traffic == number);
                assert!(any, "{}", kind.name());
            }
            assert_eq!(rig.run(Duration::from_millis(2_000)).bits(), ran.bits());
        }
    }

    /// The same from a file: sizes, pauses and write patterns as people write them.
    #[test]
    fn every_kind_runs_from_a_file() {
        let file = r#"
            [network]
            topology = "star"
            hosts = 8
            link = { rate = "1Gb/s", delay = "5us" }
            queue = { limit = "256KiB" }
            [[traffic]]
            name = "copy"
            kind = "bulk"
            size = "1MB"
            [[traffic]]
            name = "read"
            kind = "synchronised-read"
            block = "1MB"
            batch = 4
            [[traffic]]
            name = "call"
            kind = "rpc"
            reply_writes = "1+1+1+1+n"
            pause = "exponential:1ms"
            start = "5ms"
            [[traffic]]
            name = "get"
            kind = "fan-out"
            load = "250Mb/s"
            k = 3
            size = "1kB|30kB"
            [[traffic]]
            name = "shuffle"
            kind = "all-to-all"
            size = "web-search"
            parallel = 2
            [[traffic]]
            name = "sum"
            kind = "ring"
            size = "1MB"
            barrier = true
            [[traffic]]
            name = "mesh"
            kind = "node-mesh"
            rate = 20
            reply = "1kB"
            [[traffic]]
            name = "burst"
            kind = "on-off"
            rate = "100Mb/s"
            [run]
            duration = "300ms"
        "#;
        let registry = crate::registry::Registry::default();
        let loaded = crate::file::Loaded::parse("x.toml", file, &registry);
        let experiment = loaded.unwrap_or_else(|e| panic!("{e}")).experiment;
        let run = || {
            let context = crate::scenario::RunContext::default();
            experiment.run(&registry, context).unwrap().transfers
        };
        let transfers = run();
        for (kind, number) in TrafficKinds::standard().entries().zip(0..) {
            let any = transfers.iter().any(|t| t.traffic == number);
            assert!(any, "{}", kind.name());
        }
        assert_eq!(run(), transfers);
    }

    #[test]
    fn kinds_have_names_and_near_matches() {
        let mut kinds = TrafficKinds::standard();
        let names: Vec<&str> = kinds.entries().map(TrafficKind::name).collect();
        let all = [
            "bulk",
            "synchronised-read",
            "rpc",
            "fan-out",
            "all-to-all",
            "ring",
            "node-mesh",
            "on-off",
        ];
        assert_eq!(names, all);
        let why = kinds.get("fanout").unwrap_err();
        assert!(why.contains("did you mean 'fan-out'"), "{why}");
        kinds.register(TrafficKind::new::<Bulk>("rpc", "something else"));
        assert_eq!(kinds.entries().len(), all.len());
        assert_eq!(kinds.get("rpc").unwrap().about(), "something else");
    }
}
