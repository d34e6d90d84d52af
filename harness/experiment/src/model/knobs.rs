//! Every knob of an experiment, by section.

use super::change;
use super::expect::{Expect, Show};
use super::experiment::Experiment;
use super::link::Link;
use super::network::Common;
use super::nic::{Cpu, Nic};
use super::path::Path;
use super::pause::Pause;
use super::queue::Queue;
use super::run::Run;
use crate::knob::{About, Kind, Knobs, Section};
use crate::registry::{Listed, Registry};
use crate::scenario::spec::TcpSpec;

/// What every traffic has beside the knobs of its kind.
const START: About = About {
    key: "start",
    title: "start",
    meaning: "When it begins.",
    kind: Kind::TIME,
    source: "",
};

impl Registry {
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
            all.push(listed("traffic.NAME", Some(kind.name()), &*kind.make()));
        }
        for kind in self.probes.entries() {
            all.push(listed("probe.NAME", Some(kind.name()), &*kind.make()));
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
            ["host", "nic", key] | ["group", _, "nic", key] | ["change", _, "nic", key] => {
                of::<Nic>(key)
            }
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

    /// Whether two texts are one value of a key: `1ms` and `1000us`.
    pub fn same_value(&self, experiment: &Experiment, key: &str, a: &str, b: &str) -> bool {
        let about = self.about(experiment, key);
        a == b || about.is_some_and(|about| about.kind.same(a, b))
    }
}

impl Experiment {
    /// The name for people of what a key sets: `congestion control`; of the number of hosts in a
    /// group, its name; the key where it has none.
    pub fn title_of(&self, registry: &Registry, key: &str) -> String {
        if let Some(about) = registry.about(self, key) {
            return about.title.to_owned();
        }
        let path = Path::parse(key).ok();
        match path.as_ref().map(Path::words).as_deref() {
            Some(["group", name, "size"]) => (*name).to_owned(),
            _ => key.to_owned(),
        }
    }
}
