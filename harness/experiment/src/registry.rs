//! Registry: everything that an experiment can name, and what its knobs are.

use crate::knob::About;
use crate::knob::{Kind, KnobError, Knobs, Section};
use crate::metric::Metrics;
use crate::model::network::{Common, GRAPH};
use crate::model::queue::Discipline;
use crate::model::{Cpu, Expect, Experiment, Link, Nic, Path, Pause, Queue, Run, Show, change};
use crate::net::discipline::DisciplineRegistry;
use crate::net::topology::Topologies;
use crate::probe::ProbeKinds;
use crate::run::Live;
use crate::scenario::spec::TcpSpec;
use crate::traffic::{Traffic, TrafficKinds};
use narrows::congestion::registry::{Entry, LookupError};
use narrows::congestion::{CongestionRegistry, LocalDropRegistry, RtoRegistry};
use narrows::recovery::detector::{self, DetectorRegistry};
use narrows_net::near_match::nearest;
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

/// What every traffic has beside the knobs of its kind.
const START: About = About {
    key: "start",
    title: "start",
    meaning: "When it begins.",
    kind: Kind::TIME,
    source: "",
};

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

    /// Every knob there is, by section.
    pub fn sections(&self) -> Vec<Listed> {
        fn listed(at: &str, of: Option<&'static str>, section: &dyn Section) -> Listed {
            Listed {
                at: at.to_owned(),
                of,
                knobs: section
                    .knobs()
                    .into_iter()
                    .map(|about| (about, section.get(about.key)))
                    .collect(),
            }
        }
        let usual = Experiment::default();
        let mut all = vec![
            listed("network", None, &usual.network.common),
            listed("network.link", None, &usual.network.link),
            listed("network.queue", None, &usual.network.queue),
            listed("network.pause", None, &usual.network.pause),
            listed("host.nic", None, &usual.host.nic),
            listed("host.cpu", None, &usual.host.cpu),
            listed("host.tcp", None, &usual.host.tcp),
        ];
        for kind in self.traffic.entries() {
            all.push(listed("traffic.NAME", Some(kind.name()), &*kind.traffic()));
        }
        for kind in self.probes.entries() {
            all.push(listed("probe.NAME", Some(kind.name()), &*kind.probe()));
        }
        all.push(listed("change.N", None, &change::Change::default().when));
        all.push(listed("run", None, &usual.run));
        all.push(listed("show", None, &usual.show));
        all.push(listed("expect.N", None, &Expect::default()));
        all
    }

    /// What the knob is that `key` sets in `experiment`.
    pub fn about(&self, experiment: &Experiment, key: &str) -> Option<About> {
        fn of<S: Knobs>(key: &str) -> Option<About> {
            let knob = S::TABLE.iter().find(|knob| knob.about.key == key)?;
            Some(knob.about)
        }
        let path = Path::parse(key).ok()?;
        match path.words().as_slice() {
            ["network", "port", _, "link", key]
            | ["network", "trunk", "link", key]
            | ["change", _, "link", key]
            | ["network", "link", key] => of::<Link>(key),
            ["network", "port", _, "queue", key]
            | ["network", "trunk", "queue", key]
            | ["change", _, "queue", key]
            | ["network", "queue", key] => of::<Queue>(key),
            ["network", "pause", key] => of::<Pause>(key),
            ["network", key] => of::<Common>(key),
            ["host", "nic", key] | ["group", _, "nic", key] => of::<Nic>(key),
            ["host", "cpu", key] | ["group", _, "cpu", key] => of::<Cpu>(key),
            ["host", "tcp", key] | ["group", _, "tcp", key] | ["traffic", _, "tcp", key] => {
                of::<TcpSpec>(key)
            }
            ["traffic", _, "start"] => Some(START),
            ["traffic", name, key] => {
                let traffic = experiment.traffic.iter().find(|t| t.name == *name)?;
                traffic.spec.knobs().into_iter().find(|k| k.key == *key)
            }
            ["probe", name, key] => {
                let probe = experiment.probes.iter().find(|p| p.name == *name)?;
                probe.spec.knobs().into_iter().find(|k| k.key == *key)
            }
            ["change", _, key] => of::<change::When>(key),
            ["run", key] => of::<Run>(key),
            ["show", key] => of::<Show>(key),
            ["expect", _, key] => of::<Expect>(key),
            _ => None,
        }
    }

    /// A traffic of a kind, as it is without being set.
    pub(crate) fn traffic_of(&self, kind: &str) -> Result<Box<dyn Traffic>, KnobError> {
        let kind = self.traffic.get(kind).map_err(KnobError::value)?;
        Ok(kind.traffic())
    }

    /// Whether two texts are one value of a key: `1ms` and `1000us`.
    pub fn same_value(&self, experiment: &Experiment, key: &str, a: &str, b: &str) -> bool {
        let about = self.about(experiment, key);
        a == b || about.is_some_and(|about| about.kind.same(a, b))
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

/// There is no `name`.
pub(crate) fn unknown<'a>(
    noun: &str,
    name: &str,
    names: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match nearest(name, names.clone()) {
        Some(near) => format!("there is no {noun} '{name}'; did you mean '{near}'?"),
        None => {
            let known: Vec<&str> = names.collect();
            format!(
                "there is no {noun} '{name}'; known are {}",
                known.join(", ")
            )
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
