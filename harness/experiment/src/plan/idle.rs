//! Knobs that say nothing, because what they are about is on nowhere: in no part of the experiment and
//! at no point of its sweep. Whether values go together where it is on, its section says.
//!
//! Who says both, the knob and that what it is about is off, is told; who turns off what a file has on
//! need not know what the file says beside it: that is left out ([`Experiment::leave_idle_out`]). Where
//! it is on at some points of a sweep, or in some groups, nothing comes of the knob in the others.

use super::sweep_key;
use crate::knob::{Knobs, Section};
use crate::model::{Cpu, Experiment, Invalid, Nic, Path, Pause};
use std::collections::BTreeSet;

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
const NEEDS: [Needs; 8] = [
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
        keys: &["tx_frames", "tx_refill"],
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
        keys: &["refuse_for"],
        switches: &[(Part::Nic, "refuse")],
        why: "no send begins a moment: set refuse, too",
    },
    Needs {
        part: Part::Nic,
        keys: &["rx_hash"],
        switches: &[(Part::Nic, "rx_queues")],
        why: "there is one receive queue: set rx_queues, too",
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
        let first = self.idle().into_iter().next();
        first.map_or(Ok(()), |(at, why)| Err(Invalid::new(&at, why)))
    }

    /// Leaves out what says nothing any more, because what it is about was turned off since the experiment
    /// was `before`: a file that has pause with a threshold and is run without pause. The keys that were
    /// `set` since, in whatever spelling, stay, and so does what is varied;
    /// [`Plan::check`](super::Plan::check) refuses them.
    pub fn leave_idle_out<'k>(&mut self, before: &Self, set: impl IntoIterator<Item = &'k str>) {
        let said_idle = before.idle().into_iter().map(|(at, _)| at);
        let set = set.into_iter().map(|key| self.axis_name(key));
        let stay: BTreeSet<String> = said_idle.chain(set).collect();
        for (at, _) in self.idle() {
            if !stay.contains(&at) {
                self.unset(&at);
            }
        }
    }

    /// What is set at a key of these parts is as if nobody had said anything.
    fn unset(&mut self, at: &str) {
        let Ok(path) = Path::parse(at) else { return };
        match path.words()[..] {
            ["network", "pause", key] => put_back(&mut self.network.pause, &Pause::default(), key),
            ["host", "nic", key] => put_back(&mut self.host.nic, &Nic::default(), key),
            ["host", "cpu", key] => put_back(&mut self.host.cpu, &Cpu::default(), key),
            ["group", name, part, key] => {
                for group in self.groups.iter_mut().filter(|g| g.name == name) {
                    group.settings.remove(&format!("{part}.{key}"));
                }
            }
            _ => {}
        }
    }

    /// The keys that say nothing, and why.
    fn idle(&self) -> Vec<(String, &'static str)> {
        let said = self.said();
        let mut all = Vec::new();
        for needs in &NEEDS {
            let is = |said: &&Said| {
                said.part == needs.part && needs.keys.contains(&said.key.as_str()) && said.is_set()
            };
            for idle in said.iter().filter(is) {
                let on = |said: &Said| {
                    let switch =
                        |(part, key): &(Part, &str)| said.part == *part && said.key == *key;
                    needs.switches.iter().any(switch) && said.is_on(&idle.key)
                };
                if !said.iter().any(on) {
                    all.push((idle.at.clone(), needs.why));
                }
            }
        }
        all
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

/// Has a knob be what it usually is.
fn put_back<S: Knobs>(section: &mut S, usual: &S, key: &str) {
    let word = usual.get(key).unwrap_or_else(|| "off".to_owned());
    // What it usually is it can be.
    let _ = section.set(key, &word);
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
    use crate::file::{Loaded, text_of};
    use crate::model::{Experiment, Invalid};
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
            ("host.nic", "tx_refill = 1000", "tx_buffers = 64"),
            ("host.nic", "refuse_for = \"1ms\"", "refuse = \"1%\""),
            ("host.nic", "refuse_run = 3", "refuse = \"1%\""),
            ("host.nic", "rx_pause = true", "rx_usecs = \"20us\""),
            ("host.nic", "rx_hash = \"toeplitz\"", "rx_queues = 4"),
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

    fn load(sections: &str) -> Experiment {
        let copy = "[[traffic]]\nname = \"copy\"\nkind = \"bulk\"\nfrom = \"h1\"\nto = \"h0\"\n";
        let text = format!("{sections}\n{copy}");
        let loaded = Loaded::parse("x.toml", &text, &Registry::default());
        loaded.unwrap().experiment
    }

    /// What a file has on may be turned off by one key alone, and what is left is a file that can be run;
    /// what is said since is refused as ever.
    #[test]
    fn what_is_turned_off_takes_along_what_a_file_says_beside_it() {
        let registry = Registry::default();
        let check = |e: &Experiment| Plan::new(e, &registry)?.check(&registry);
        let cases = [
            (
                "network.pause",
                "mode = \"802.3x\"",
                "xoff = \"20kB\"",
                "mode=off",
            ),
            (
                "network.pause",
                "mode = \"802.3x\"",
                "quanta = 1000",
                "mode=off",
            ),
            (
                "network.pause",
                "mode = \"pfc\"",
                "classes = [0]",
                "mode=802.3x",
            ),
            (
                "host.nic",
                "shaper_rate = \"1Gb/s\"",
                "shaper_tick = \"1ms\"",
                "shaper_rate=off",
            ),
            (
                "host.nic",
                "tx_buffers = 64",
                "tx_refill = 1000",
                "tx_buffers=off",
            ),
            (
                "group.h1.nic",
                "refuse = \"1%\"",
                "refuse_for = \"1ms\"",
                "refuse=0%",
            ),
        ];
        for (section, on, beside, off) in cases {
            let file = load(&format!("[{section}]\n{on}\n{beside}"));
            check(&file).unwrap();
            let (switch, off) = off.split_once('=').unwrap();
            let (switch, key) = (
                format!("{section}.{switch}"),
                format!("{section}.{}", beside.split(' ').next().unwrap()),
            );
            let mut without = file.clone();
            without.set(&registry, &switch, off).unwrap();
            assert_eq!(check(&without).unwrap_err().key, key);
            without.leave_idle_out(&file, [&*switch]);
            check(&without).unwrap();
            let again = Loaded::parse("x.toml", &text_of(&without), &registry);
            check(&again.unwrap().experiment).unwrap();
            // The same as an axis of one value.
            let mut varied = file.clone();
            varied.vary(&switch, vec![off.to_owned()]).unwrap();
            varied.leave_idle_out(&file, [&*switch]);
            check(&varied).unwrap();
            // What is said with it is told, though it be what the file says.
            let value = file.get(&key).unwrap();
            let mut both = without.clone();
            both.set(&registry, &switch, off).unwrap();
            both.set(&registry, &key, &value).unwrap();
            both.leave_idle_out(&file, [&*switch, &*key]);
            assert_eq!(check(&both).unwrap_err().key, key);
            // And what a file says both of by itself.
            let mut own = file.clone();
            own.set(&registry, &switch, off).unwrap();
            let before = own.clone();
            own.set(&registry, "run.seed", "2").unwrap();
            own.leave_idle_out(&before, ["run.seed"]);
            assert_eq!(check(&own).unwrap_err().key, key);
        }
    }
}
