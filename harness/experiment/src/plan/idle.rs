//! Knobs that say nothing, because what they are about is on nowhere: in no part of the experiment and
//! at no point of its sweep. Whether values go together where it is on, its section says.

use super::sweep_key;
use crate::knob::{Knobs, Section};
use crate::model::{Cpu, Experiment, Invalid, Nic, Path, Pause};

/// A part of an experiment that hosts and groups may each have, or the network.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Pause,
    Nic,
    Cpu,
}

/// A value that a key has somewhere: in the file, of a host or a group, or at a point of the sweep.
struct Said {
    at: String,
    part: Part,
    key: String,
    value: String,
}

/// Keys that say nothing unless one of some others is on.
struct Needs {
    part: Part,
    keys: &'static [&'static str],
    switches: &'static [(Part, &'static str)],
    why: &'static str,
}

/// Costs of `host.cpu` are not among them: an experiment may have those of a machine for whoever counts. Nor
/// is what congestion controls alone make use of: whoever sets another has not to take that away.
const NEEDS: [Needs; 6] = [
    Needs {
        part: Part::Pause,
        keys: &["quanta", "xoff", "xon"],
        switches: &[(Part::Pause, "mode")],
        why: "no switch pauses: set network.pause.mode, too",
    },
    Needs {
        part: Part::Pause,
        keys: &["classes"],
        switches: &[(Part::Pause, "mode")],
        why: "no switch pauses classes: set network.pause.mode to pfc, too",
    },
    Needs {
        part: Part::Nic,
        keys: &["shaper_burst", "shaper_tick"],
        switches: &[(Part::Nic, "shaper_rate")],
        why: "there is no shaper: set shaper_rate, too",
    },
    Needs {
        part: Part::Nic,
        keys: &["tx_frames"],
        switches: &[(Part::Nic, "tx_buffers")],
        why: "there are no buffers to come back: set tx_buffers, too",
    },
    Needs {
        part: Part::Nic,
        keys: &["refuse_run"],
        switches: &[(Part::Nic, "refuse")],
        why: "no send is refused: set refuse, too",
    },
    Needs {
        part: Part::Nic,
        keys: &["rx_pause"],
        switches: &[
            (Part::Nic, "rx_frames"),
            (Part::Nic, "rx_usecs"),
            (Part::Nic, "gro"),
            (Part::Cpu, "counts"),
        ],
        why: "nothing waits in a ring: set rx_usecs, rx_frames or host.cpu.counts, too",
    },
];

impl Experiment {
    /// The first key that says nothing, whatever point of the sweep it is.
    pub(super) fn check_idle(&self) -> Result<(), Invalid> {
        let said = self.said();
        for needs in &NEEDS {
            let is = |said: &&Said| {
                said.part == needs.part && needs.keys.contains(&said.key.as_str()) && said.is_set()
            };
            let Some(idle) = said.iter().find(is) else {
                continue;
            };
            let on = |said: &Said| {
                let switch = |(part, key): &(Part, &str)| said.part == *part && said.key == *key;
                needs.switches.iter().any(switch) && said.is_on(&idle.key)
            };
            if !said.iter().any(on) {
                return Err(Invalid::new(&idle.at, needs.why));
            }
        }
        Ok(())
    }

    /// All that is said of these parts.
    fn said(&self) -> Vec<Said> {
        let base = self.entries().into_iter();
        // What is varied is nowhere what it would be without.
        let varied = |key: &str| self.sweep.iter().any(|axis| axis.key == key);
        let base = base.filter(|e| !e.key.starts_with("sweep.") && !varied(&e.key));
        let base = base.map(|entry| (entry.key.clone(), entry.key, entry.value.to_string()));
        let swept = self.sweep.iter().flat_map(|axis| {
            let values = axis.values.iter();
            values.map(|value| (sweep_key(&axis.key), axis.key.clone(), value.clone()))
        });
        let said = |(at, key, value): (String, String, String)| {
            let path = Path::parse(&key).ok()?;
            let (part, key) = match path.words()[..] {
                ["network", "pause", key] => (Part::Pause, key),
                ["host", "nic", key] | ["group", _, "nic", key] => (Part::Nic, key),
                ["host", "cpu", key] | ["group", _, "cpu", key] => (Part::Cpu, key),
                _ => return None,
            };
            let key = key.to_owned();
            Some(Said {
                at,
                part,
                key,
                value,
            })
        };
        base.chain(swept).filter_map(said).collect()
    }
}

impl Said {
    /// Whether it is not what it is if nobody says anything.
    fn is_set(&self) -> bool {
        match self.part {
            Part::Pause => self.differs(Pause::default()),
            Part::Nic => self.differs(Nic::default()),
            Part::Cpu => self.differs(Cpu::default()),
        }
    }

    fn differs(&self, mut usual: impl Knobs) -> bool {
        let before = Section::get(&usual, &self.key);
        let set = usual.set(&self.key, &self.value);
        set.is_err() || Section::get(&usual, &self.key) != before
    }

    /// Whether it is the switch that lets `key` say something.
    fn is_on(&self, key: &str) -> bool {
        match key {
            "classes" => self.value == "pfc",
            _ => self.is_set(),
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::file::Loaded;
    use crate::model::Invalid;
    use crate::plan::Plan;
    use crate::registry::Registry;

    fn check(more: &str) -> Result<(), Invalid> {
        let text = format!(
            "{more}\n[[traffic]]\nname = \"copy\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\nsize = \
             \"1MB\"\n"
        );
        let registry = Registry::default();
        let loaded = Loaded::parse("x.toml", &text, &registry).unwrap();
        Plan::new(&loaded.experiment, &registry)?.check(&registry)
    }

    #[test]
    fn a_knob_without_its_switch_is_refused_and_taken_with_it() {
        for (section, set, switch) in [
            ("network.pause", "quanta = 1000", "mode = \"802.3x\""),
            ("network.pause", "xoff = \"20kB\"", "mode = \"802.3x\""),
            ("network.pause", "xon = \"2kB\"", "mode = \"802.3x\""),
            (
                "host.nic",
                "shaper_burst = \"3kB\"",
                "shaper_rate = \"1Gb/s\"",
            ),
            (
                "host.nic",
                "shaper_tick = \"1ms\"",
                "shaper_rate = \"1Gb/s\"",
            ),
            ("host.nic", "tx_frames = 8", "tx_buffers = 64"),
            ("host.nic", "refuse_run = 3", "refuse = \"1%\""),
            ("host.nic", "rx_pause = true", "rx_usecs = \"20us\""),
        ] {
            let error = check(&format!("[{section}]\n{set}")).unwrap_err();
            let key = set.split(' ').next().unwrap();
            assert_eq!(error.key, format!("{section}.{key}"));
            let (switched, _) = switch.split_once(' ').unwrap();
            assert!(error.why.contains(switched), "{error}");
            check(&format!("[{section}]\n{switch}\n{set}")).unwrap();
        }
        let classes = "[network.pause]\nclasses = [0, 3]\nmode = ";
        assert_eq!(
            check(&format!("{classes}\"802.3x\"")).unwrap_err().key,
            "network.pause.classes"
        );
        let large = "[network.queue]\nlimit = \"256KiB\"\n";
        check(&format!("{large}{classes}\"pfc\"")).unwrap();
    }

    /// What is on at one point of the sweep, or in one group, lets it be said of all.
    #[test]
    fn a_switch_that_is_on_somewhere_is_enough() {
        let quanta = "[network.pause]\nquanta = 1000\n";
        let sweep = "[sweep]\n\"network.pause.mode\" = [\"off\", \"802.3x\"]";
        check(&format!("{quanta}{sweep}")).unwrap();
        let burst = "[host.nic]\nshaper_burst = \"3kB\"\n";
        let group = "[group.h1]\nnic = { shaper_rate = \"1Gb/s\" }";
        check(&format!("{burst}{group}")).unwrap();
        let swept = "[sweep]\n\"host.nic.shaper_tick\" = [\"0s\", \"1ms\"]";
        let error = check(swept).unwrap_err();
        assert_eq!(error.key, "sweep.\"host.nic.shaper_tick\"");
        // What every point has otherwise is on at none.
        let mode = "mode = \"802.3x\"\n[sweep]\n\"network.pause.mode\" = [\"off\"]";
        let error = check(&format!("{quanta}{mode}")).unwrap_err();
        assert_eq!(error.key, "network.pause.quanta");
    }
}
