//! What can be named on the command line.

use super::presets::PRESETS;
use narrows_experiment::model::network::GRAPH;
use narrows_experiment::model::queue::Discipline;
use narrows_experiment::registry::Registry;
use narrows_experiment::shipped::Shipped;
use narrows_net::near_match::nearest;

/// One name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// What to type.
    pub name: String,
    /// A line that says what it is.
    pub summary: String,
    /// The name with its parameters.
    pub usage: String,
}

impl Entry {
    /// An entry without parameters.
    pub fn new(name: impl Into<String>, summary: impl Into<String>) -> Self {
        let name = name.into();
        Self {
            usage: name.clone(),
            name,
            summary: summary.into(),
        }
    }
}

/// The kinds of things that have names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// `--cc`.
    Congestion,
    /// `--rto`.
    Rto,
    /// `--loss`.
    LossDetector,
    /// `tcp.local_drop`.
    LocalDrop,
    /// `network.queue.discipline`.
    Discipline,
    /// Subcommands that run something.
    Scenario,
    /// `--preset`.
    Preset,
    /// Experiments that ship.
    Experiment,
    /// `network.topology`.
    Topology,
    /// `traffic.NAME.kind`.
    Traffic,
    /// `probe.NAME.kind`.
    Probe,
    /// What is measured.
    Metric,
}

impl Kind {
    /// All kinds, in the order of `narrows list`.
    pub const ALL: [Self; 12] = [
        Self::Congestion,
        Self::Rto,
        Self::LossDetector,
        Self::LocalDrop,
        Self::Discipline,
        Self::Scenario,
        Self::Preset,
        Self::Experiment,
        Self::Topology,
        Self::Traffic,
        Self::Probe,
        Self::Metric,
    ];

    /// The name in running text.
    pub const fn noun(self) -> &'static str {
        match self {
            Self::Congestion => "congestion control",
            Self::Rto => "RTO policy",
            Self::LossDetector => "loss detector",
            Self::LocalDrop => "local-drop policy",
            Self::Discipline => "queue discipline",
            Self::Scenario => "scenario",
            Self::Preset => "preset",
            Self::Experiment => "experiment",
            Self::Topology => "topology",
            Self::Traffic => "traffic",
            Self::Probe => "probe",
            Self::Metric => "metric",
        }
    }

    /// The heading in `narrows list`, with the option that takes the name.
    pub const fn heading(self) -> &'static str {
        match self {
            Self::Congestion => "Congestion controls (--cc)",
            Self::Rto => {
                "RTO policies (--rto); a bare time such as 5ms is RFC 6298 with that floor"
            }
            Self::LossDetector => "Loss detectors (--loss)",
            Self::LocalDrop => "Local-drop policies (host.tcp.local_drop, --local-drop)",
            Self::Discipline => "Queue disciplines (network.queue.discipline)",
            Self::Scenario => "Scenarios",
            Self::Preset => "Presets of incast (--preset)",
            Self::Experiment => "Experiments that ship (narrows run NAME)",
            Self::Topology => "Topologies (network.topology)",
            Self::Traffic => "Traffic (traffic.NAME.kind)",
            Self::Probe => "Probes (probe.NAME.kind)",
            Self::Metric => "Metrics",
        }
    }
}

/// Every name that the command knows. A user's own algorithms go into the registries as ours
/// do.
#[derive(Clone, Debug)]
pub struct Catalog {
    /// What an experiment can name: algorithms, topologies, traffic, probes, metrics.
    pub registry: Registry,
    /// Scenarios.
    pub scenarios: Vec<Entry>,
    /// Presets.
    pub presets: Vec<Entry>,
}

impl Default for Catalog {
    /// What narrows brings along.
    fn default() -> Self {
        Self {
            registry: narrows_explain::simulated::registry(),
            scenarios: vec![
                Entry::new(
                    "incast",
                    "synchronised reads from many servers through one switch port",
                ),
                Entry::new(
                    "flows",
                    "long flows or single transfers over one bottleneck, looked at closely",
                ),
            ],
            presets: PRESETS
                .iter()
                .filter_map(|(name, experiment)| {
                    let found = Shipped::get(experiment).ok()?;
                    Some(Entry::new(*name, found.title()))
                })
                .collect(),
        }
    }
}

impl Catalog {
    /// The names of one kind.
    pub fn entries(&self, kind: Kind) -> Vec<Entry> {
        fn of<F: ?Sized>(e: &narrows::congestion::registry::Entry<F>) -> Entry {
            Entry {
                name: e.name().to_owned(),
                summary: e.about().to_owned(),
                usage: e.usage().to_owned(),
            }
        }
        match kind {
            Kind::Congestion => self.registry.congestion.entries().map(of).collect(),
            Kind::Rto => self.registry.rto.entries().map(of).collect(),
            Kind::LossDetector => self.registry.detectors.entries().map(of).collect(),
            Kind::LocalDrop => self.registry.local_drop.entries().map(of).collect(),
            Kind::Discipline => {
                let standard = Discipline::STANDARD.into_iter();
                let standard = standard.map(|(discipline, name, about)| {
                    let keys: Vec<String> = discipline.keys().map(|k| format!("[{k}=]")).collect();
                    let mut entry = Entry::new(name, about);
                    if !keys.is_empty() {
                        entry.usage = format!("{name}:{}", keys.join(","));
                    }
                    entry
                });
                let own = self.registry.disciplines.entries().map(of);
                standard.chain(own).collect()
            }
            Kind::Scenario => self.scenarios.clone(),
            Kind::Preset => self.presets.clone(),
            Kind::Experiment => {
                let all = narrows_experiment::shipped::ALL.iter();
                all.map(|s| Entry::new(s.name, s.title())).collect()
            }
            Kind::Topology => {
                let shapes = self.registry.topologies.entries();
                let shapes = shapes.map(|t| Entry::new(t.name(), t.about()));
                let graph = Entry::new(GRAPH, "nodes and links by name");
                shapes.chain([graph]).collect()
            }
            Kind::Traffic => {
                let kinds = self.registry.traffic.entries();
                kinds.map(|t| Entry::new(t.name(), t.about())).collect()
            }
            Kind::Probe => {
                let kinds = self.registry.probes.entries();
                kinds.map(|p| Entry::new(p.name(), p.about())).collect()
            }
            Kind::Metric => {
                let all = self.registry.metrics.entries();
                all.map(|m| Entry::new(m.name, m.title)).collect()
            }
        }
    }

    /// Whether `name` is known.
    ///
    /// # Errors
    /// A sentence with the near match, if there is one, and all names.
    pub fn check(&self, kind: Kind, name: &str) -> Result<(), String> {
        match kind {
            Kind::Congestion => self.registry.check_tcp_name("congestion", name),
            Kind::Rto => self.registry.check_tcp_name("rto", name),
            Kind::LossDetector => self.registry.check_tcp_name("loss_detection", name),
            _ => {
                let entries = self.entries(kind);
                let names = || entries.iter().map(|e| e.name.as_str());
                if names().any(|n| n == name) {
                    return Ok(());
                }
                let mut text = format!("no {} '{name}'", kind.noun());
                if let Some(near) = nearest(name, names()) {
                    text += &format!("; did you mean '{near}'?");
                } else {
                    text += &format!("; known are {}", names().collect::<Vec<_>>().join(", "));
                }
                Err(text)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_names_say_what_there_is() {
        let catalog = Catalog::default();
        for (kind, good, bad, near) in [
            (
                Kind::Congestion,
                "dctcp:g=1/32",
                "kubic",
                "did you mean 'cubic'?",
            ),
            (Kind::Rto, "5ms", "linus", "did you mean 'linux'?"),
            (Kind::LossDetector, "rack", "rakc", "did you mean 'rack'?"),
            (Kind::Preset, "fast08", "fast8", "did you mean 'fast08'?"),
        ] {
            assert_eq!(catalog.check(kind, good), Ok(()));
            let e = catalog.check(kind, bad).unwrap_err();
            assert!(e.contains(near), "{e}");
        }
    }

    /// The defaults of a host must be names that exist.
    #[test]
    fn default_names_exist() {
        let catalog = Catalog::default();
        let tcp = narrows_experiment::scenario::spec::TcpSpec::default();
        catalog.check(Kind::Congestion, &tcp.congestion).unwrap();
        catalog.check(Kind::Rto, &tcp.rto).unwrap();
        let detector = catalog.check(Kind::LossDetector, &tcp.loss_detector);
        detector.unwrap();
    }
}
