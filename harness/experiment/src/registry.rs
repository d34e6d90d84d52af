//! Registry: everything that an experiment can name, and the place where it runs live.

use crate::invalid::Invalid;
use crate::knob::{About, KnobError, Section};
use crate::metric::Metrics;
use crate::model::experiment::Experiment;
use crate::model::network::GRAPH;
use crate::model::queue::{Discipline, Queue};
use crate::net::discipline::DisciplineRegistry;
use crate::net::topology::Topologies;
use crate::probe::ProbeKinds;
use crate::run::RunError;
use crate::run::RunOutcome;
use crate::scenario::RunContext;
use crate::scenario::spec::TcpSpec;
use crate::traffic::{Traffic, TrafficKinds};
use crate::unknown::unknown;
use narrows::congestion::registry::{Entry, LookupError};
use narrows::congestion::{CongestionRegistry, LocalDropRegistry, RtoRegistry};
use narrows::recovery::detector::{self, DetectorRegistry};
use std::fmt;
use std::sync::Arc;

/// Everything that an experiment can name. A user's own go in beside ours.
#[derive(Clone, Debug)]
pub struct Registry {
    /// Congestion controls.
    pub congestion: Arc<CongestionRegistry>,
    /// RTO policies.
    pub rto: Arc<RtoRegistry>,
    /// Local-drop policies.
    pub local_drop: Arc<LocalDropRegistry>,
    /// Loss detectors.
    pub detectors: Arc<DetectorRegistry>,
    /// Queue disciplines of one's own; [`Discipline`] names those that narrows brings along.
    pub disciplines: Arc<DisciplineRegistry>,
    /// Shapes of networks.
    pub topologies: Topologies,
    /// Kinds of traffic.
    pub traffic: TrafficKinds,
    /// Kinds of probes.
    pub probes: ProbeKinds,
    /// What is measured.
    pub metrics: Metrics,
    /// Where live runs take place, if there is such a place here.
    pub live: Option<Arc<dyn Live>>,
}

impl Default for Registry {
    /// What narrows brings along.
    fn default() -> Self {
        Self {
            congestion: Arc::new(CongestionRegistry::standard()),
            rto: Arc::new(RtoRegistry::standard()),
            local_drop: Arc::new(LocalDropRegistry::standard()),
            detectors: Arc::new(detector::standard()),
            disciplines: Arc::new(DisciplineRegistry::empty("queue discipline")),
            topologies: Topologies::standard(),
            traffic: TrafficKinds::standard(),
            probes: ProbeKinds::standard(),
            metrics: Metrics::standard(),
            live: None,
        }
    }
}

/// A place where an experiment runs in real time.
pub trait Live: fmt::Debug + Send + Sync {
    /// Whether this place has all that it asks for.
    ///
    /// # Errors
    /// Which key it does not have, and why.
    fn check(&self, experiment: &Experiment) -> Result<(), Invalid>;

    /// Runs it once. Calls come one at a time, if the caller asks for one thread.
    ///
    /// # Errors
    /// When it has what this place has not, it was cancelled, or the machine does not play along.
    fn run(
        &self,
        experiment: &Experiment,
        registry: &Registry,
        ctx: RunContext<'_>,
    ) -> Result<RunOutcome, RunError>;
}

/// A section as `narrows keys` lists it.
#[derive(Clone, Debug)]
pub struct Listed {
    /// The key up to the knob's own: `traffic.NAME`.
    pub at: String,
    /// Of which kind of traffic or probe, if of one.
    pub of: Option<&'static str>,
    /// The knobs, each with its default.
    pub knobs: Vec<(About, Option<String>)>,
}

impl Registry {
    /// The congestion controls, to add one's own.
    pub fn congestion_mut(&mut self) -> &mut CongestionRegistry {
        Arc::make_mut(&mut self.congestion)
    }

    /// The RTO policies, to add one's own.
    pub fn rto_mut(&mut self) -> &mut RtoRegistry {
        Arc::make_mut(&mut self.rto)
    }

    /// The local-drop policies, to add one's own.
    pub fn local_drop_mut(&mut self) -> &mut LocalDropRegistry {
        Arc::make_mut(&mut self.local_drop)
    }

    /// The loss detectors, to add one's own.
    pub fn detectors_mut(&mut self) -> &mut DetectorRegistry {
        Arc::make_mut(&mut self.detectors)
    }

    /// The queue disciplines of one's own, to add one. The names of [`Discipline::STANDARD`] are
    /// taken. `docs/EXPERIMENTS.md` and the example `own_experiment` have one each.
    pub fn disciplines_mut(&mut self) -> &mut DisciplineRegistry {
        Arc::make_mut(&mut self.disciplines)
    }

    /// Where live runs take place.
    pub(crate) fn live_place(&self) -> Result<&dyn Live, Invalid> {
        let why = "there is no live place here: `narrows live incast` makes one";
        let live = self.live.as_deref();
        live.ok_or_else(|| Invalid::new("run.place", why))
    }

    /// A traffic of a kind, as it is without being set.
    pub(crate) fn traffic_of(&self, kind: &str) -> Result<Box<dyn Traffic>, KnobError> {
        let kind = self.traffic.get(kind).map_err(KnobError::value)?;
        Ok(kind.make())
    }

    /// Whether there is such a shape of network.
    pub(crate) fn check_topology(&self, name: &str) -> Result<(), String> {
        if name == GRAPH || self.topologies.get(name).is_ok() {
            return Ok(());
        }
        let names = self.topologies.entries().map(|t| t.name()).chain([GRAPH]);
        let names: Vec<&str> = names.collect();
        Err(unknown("topology", name, names.into_iter()))
    }

    /// Whether the value of a key of `queue`, if it is a name, is one that there is.
    pub(crate) fn check_queue_name(&self, key: &str, value: &str) -> Result<(), String> {
        if key != "discipline" {
            return Ok(());
        }
        let own = || self.disciplines.entries().map(Entry::name);
        let name = value.split(':').next().unwrap_or(value);
        if Discipline::standard(name).is_some() {
            if own().any(|known| known == name) {
                return Err(format!(
                    "narrows brings '{name}' along: register yours under another name"
                ));
            }
            let mut queue = Queue::default();
            queue.set(key, value).map_err(|e| e.to_string())?;
            return queue.check().map_err(|(_, why)| why);
        }
        let standard = Discipline::STANDARD.into_iter().map(|(_, name, _)| name);
        let names = standard.chain(own());
        let asked = "queue discipline";
        checked(asked, value, self.disciplines.get(value), names.collect())
    }

    /// Sets a key of TCP; names are looked up.
    pub(crate) fn set_tcp(
        &self,
        tcp: &mut TcpSpec,
        key: &str,
        value: &str,
    ) -> Result<(), KnobError> {
        self.check_tcp_name(key, value).map_err(KnobError::value)?;
        tcp.set(key, value)
    }

    /// Whether the value of a key of `host.tcp`, if it is a name, is one that there is.
    ///
    /// # Errors
    /// A sentence with the near match, or all names.
    pub fn check_tcp_name(&self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "congestion" => {
                let names = self.congestion.entries().map(|e| e.name()).collect();
                checked(
                    "congestion control",
                    value,
                    self.congestion.get(value),
                    names,
                )
            }
            "rto" => {
                let names = self.rto.entries().map(|e| e.name()).collect();
                checked("RTO policy", value, self.rto.get(value), names)
            }
            "local_drop" => {
                let names = self.local_drop.entries().map(|e| e.name()).collect();
                checked(
                    "local-drop policy",
                    value,
                    self.local_drop.get(value),
                    names,
                )
            }
            "loss_detection" => {
                let names = self.detectors.entries().map(|e| e.name()).collect();
                checked("loss detector", value, self.detectors.get(value), names)
            }
            _ => Ok(()),
        }
    }
}

/// Whether a registry has found what `value` names.
fn checked<F: ?Sized>(
    noun: &str,
    value: &str,
    found: Result<Arc<F>, LookupError>,
    names: Vec<&str>,
) -> Result<(), String> {
    let Err(e) = found else {
        return Ok(());
    };
    if !matches!(e, LookupError::Unknown { .. }) {
        return Err(e.to_string());
    }
    let name = value.split(':').next().unwrap_or(value);
    let hint = match noun {
        "RTO policy" if name.starts_with(|c: char| c.is_ascii_digit()) => {
            "; or a time longer than zero with its unit, such as 5ms"
        }
        _ => "",
    };
    Err(unknown(noun, name, names.into_iter()) + hint)
}
