//! Probes: what is looked at while an experiment runs.
//!
//! A kind of probe is a file: its knobs, and the [`Instrument`]s that it puts into a run. An
//! instrument looks at the run at instants that it names and changes nothing. Kinds have names in
//! [`ProbeKinds`]; users add theirs.

mod at_host;
mod flow;
mod pause;
mod queue;
mod rate;
mod rtt;
mod tier;
mod time_sequence;

pub use flow::FlowProbe;
pub use pause::PauseProbe;
pub use queue::QueueProbe;
pub use rate::RateProbe;
pub use rtt::RttProbe;
pub use tier::TierProbe;
pub use time_sequence::TimeSequenceProbe;

use crate::host::{SimPacket, TcpHost};
use crate::knob::Section;
use crate::metric::Measured;
use crate::model::Invalid;
use crate::net::graph::Graph;
use crate::net::network::Network;
use crate::net::packet::{HostId, PortId};
use crate::registry::unknown;
use crate::sim::tap::{PauseEvent, TapEvent};
use crate::sim::time::SimTime;
use crate::traffic::HostApp;
use narrows::endpoint::Tracer;
use std::any::TypeId;
use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;
use std::sync::Arc;

/// A kind of probe with its knobs set.
pub trait Probe: Section + Send + Sync {
    /// The same in a box.
    fn clone_box(&self) -> Box<dyn Probe>;

    /// The instruments of a run.
    ///
    /// # Errors
    /// Which knob cannot be that on this network, and why; the key is the knob's own.
    fn install(&self, on: &Site<'_>) -> Result<Vec<Box<dyn Instrument>>, Invalid>;

    /// Whether it is part of every repetition of a point; otherwise it is part of the first.
    fn repeats(&self) -> bool {
        true
    }
}

impl Clone for Box<dyn Probe> {
    fn clone(&self) -> Self {
        self.clone_box()
    }
}

/// Where a probe is placed.
#[derive(Clone, Copy, Debug)]
pub struct Site<'a> {
    /// The network.
    pub graph: &'a Graph,
    /// The traffics, by name, in their order.
    pub traffic: &'a [String],
    /// The run's seed.
    pub seed: u64,
    /// Which probe of the experiment it is, from 0.
    pub number: u64,
}

impl Site<'_> {
    /// The ports that `key` names by a pattern.
    ///
    /// # Errors
    /// If it names none.
    pub fn ports(&self, key: &str, pattern: &str) -> Result<Vec<PortId>, Invalid> {
        self.graph
            .select(pattern)
            .map_err(|e| Invalid::new(key, e.to_string()))
    }

    /// An instrument for each of them, made of the port and its name.
    ///
    /// # Errors
    /// If the pattern names no port.
    pub fn each_port<I: Instrument + 'static>(
        &self,
        key: &str,
        pattern: &str,
        new: impl Fn(PortId, String) -> I,
    ) -> Result<Vec<Box<dyn Instrument>>, Invalid> {
        let ports = self.ports(key, pattern)?.into_iter();
        let new = |port| -> Box<dyn Instrument> { Box::new(new(port, self.graph.port_name(port))) };
        Ok(ports.map(new).collect())
    }

    /// The hosts that `key` names by a pattern.
    ///
    /// # Errors
    /// If it names none.
    pub fn hosts(&self, key: &str, pattern: &str) -> Result<Vec<HostId>, Invalid> {
        let found = self.graph.resolve_hosts(pattern);
        found.map_err(|e| Invalid::new(key, e.to_string()))
    }
}

/// Most connections that a probe watches.
const MOST_WATCHED: usize = 10_000;

/// Whether a probe, on the hosts that its key `on` names, may watch so many connections.
fn check_watched(connections: usize) -> Result<(), Invalid> {
    if connections <= MOST_WATCHED {
        return Ok(());
    }
    let why = format!("more than {MOST_WATCHED} connections: name fewer hosts");
    Err(Invalid::new("on", why))
}

/// A run as an instrument sees it.
#[derive(Debug)]
pub struct View<'a> {
    /// Now.
    pub now: SimTime,
    /// The hosts.
    pub hosts: &'a [TcpHost<HostApp>],
    /// The network, for questions.
    pub network: &'a mut Network<SimPacket>,
}

/// What hears of each packet at hosts and switches.
pub trait PacketListener: fmt::Debug {
    /// `event` happened to `packet` at `at`; as [`Tap::event`](crate::sim::tap::Tap::event).
    fn packet(&mut self, at: SimTime, event: TapEvent, packet: &SimPacket);

    /// A pause frame was sent or obeyed; as [`Tap::pause`](crate::sim::tap::Tap::pause).
    fn pause(&mut self, at: SimTime, event: PauseEvent) {
        let _ = (at, event);
    }
}

/// A listener of an instrument, which it shares with the run.
pub type Listener = Rc<RefCell<dyn PacketListener>>;

/// Something that looks at a run.
pub trait Instrument: fmt::Debug {
    /// What is to hear what connections decide, if the instrument needs that; asked once for each
    /// host, before anything happens. Connections that nothing listens to pay nothing for it.
    fn tracer(&self) -> Option<Tracer> {
        None
    }

    /// What is to hear of each packet of the run, if the instrument needs that; asked once, before
    /// anything happens. A run in which nothing listens pays nothing for it.
    fn listener(&self) -> Option<Listener> {
        None
    }

    /// Before anything happens.
    fn prepare(&mut self, view: &mut View<'_>) {
        let _ = view;
    }
    /// The warm-up is over: what is measured begins here.
    fn begin(&mut self, view: &mut View<'_>);
    /// When to look next; `None` for not again. Asked after each other call but `prepare`.
    fn next(&self) -> Option<SimTime>;
    /// It is that time.
    fn look(&mut self, view: &mut View<'_>);
    /// The run is over; what was seen.
    fn finish(&mut self, view: &mut View<'_>) -> Reading;
}

/// What an instrument saw.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// What it looked at: `s0->h0`, `h3:5001`.
    pub of: String,
    /// Numbers: the name of each, its unit, its value.
    pub values: Vec<(String, &'static str, Measured)>,
    /// What it saw on the way, if that was asked for.
    pub series: Option<Series>,
    /// What it has to tell in rows of their own kind.
    pub table: Option<Table>,
}

/// Rows of cells, as they stand in a file of their own: `table-NAME.csv` for the probe NAME.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Table {
    /// Names of the columns, with their units.
    pub columns: Vec<&'static str>,
    /// A cell for each column.
    pub rows: Vec<Vec<String>>,
}

/// A table of numbers over time.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Series {
    /// Names of the columns, with their units: `time_ns`, `queue_bytes`.
    pub columns: Vec<String>,
    /// A number for each column; none where there is nothing to say.
    pub rows: Vec<Vec<Option<f64>>>,
}

impl Series {
    /// Where in a row the column `name` is.
    pub fn column(&self, name: &str) -> Option<usize> {
        self.columns.iter().position(|column| column == name)
    }
}

type Make = dyn Fn() -> Box<dyn Probe> + Send + Sync;

/// A kind of probe under a name.
#[derive(Clone)]
pub struct ProbeKind {
    name: &'static str,
    about: &'static str,
    type_id: TypeId,
    make: Arc<Make>,
}

impl fmt::Debug for ProbeKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ProbeKind").field(&self.name).finish()
    }
}

impl ProbeKind {
    /// A kind: `about` says in a line what it shows, and its knobs are what `P` has by default.
    pub fn new<P: Probe + Default + 'static>(name: &'static str, about: &'static str) -> Self {
        Self {
            name,
            about,
            type_id: TypeId::of::<P>(),
            make: Arc::new(|| Box::<P>::default()),
        }
    }

    /// Its name.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// A line that says what it shows.
    pub fn about(&self) -> &'static str {
        self.about
    }

    /// One with default knobs.
    pub fn probe(&self) -> Box<dyn Probe> {
        (self.make)()
    }
}

/// Kinds of probes by name.
#[derive(Clone, Debug)]
pub struct ProbeKinds(Vec<ProbeKind>);

impl Default for ProbeKinds {
    fn default() -> Self {
        Self::standard()
    }
}

impl ProbeKinds {
    /// What narrows brings along.
    pub fn standard() -> Self {
        Self(vec![
            ProbeKind::new::<QueueProbe>(
                "queue",
                "the queue of ports: time-weighted mean, high water, and its course",
            ),
            ProbeKind::new::<RateProbe>(
                "rate",
                "the rate of a counter of ports, polled at several periods as switch pollers do",
            ),
            ProbeKind::new::<TierProbe>(
                "tier",
                "offered, dropped and marked bits and utilisation of all ports between two tiers",
            ),
            ProbeKind::new::<PauseProbe>(
                "pause",
                "for how long pause frames hold ports, and how many there are",
            ),
            ProbeKind::new::<FlowProbe>(
                "flow",
                "window, threshold, flight, RTT, RTO and the variables of senders over time",
            ),
            ProbeKind::new::<RttProbe>(
                "rtt",
                "round-trip times of a host's segments: quantiles, and their course",
            ),
            ProbeKind::new::<TimeSequenceProbe>(
                "time-sequence",
                "each segment and acknowledgement of a flow: sent, sent again, acknowledged, window",
            ),
        ])
    }

    /// Adds a kind; one of the same name is replaced.
    pub fn register(&mut self, kind: ProbeKind) {
        match self.0.iter_mut().find(|k| k.name == kind.name) {
            Some(old) => *old = kind,
            None => self.0.push(kind),
        }
    }

    /// All kinds, in the order of registration.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = &ProbeKind> {
        self.0.iter()
    }

    /// The kind whose probes are of type `P`, the last registered of several.
    pub fn kind_of<P: Probe + 'static>(&self) -> Option<&ProbeKind> {
        let wanted = TypeId::of::<P>();
        self.0.iter().rfind(|k| k.type_id == wanted)
    }

    /// The kind with a name.
    ///
    /// # Errors
    /// A sentence with the near match, if there is none.
    pub fn get(&self, name: &str) -> Result<&ProbeKind, String> {
        let found = self.0.iter().find(|k| k.name == name);
        found.ok_or_else(|| unknown("probe", name, self.0.iter().map(|k| k.name)))
    }
}
