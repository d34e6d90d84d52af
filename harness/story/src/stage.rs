//! Where stories are played: runs scenes, and keeps what they gave.

use crate::played::{Played, Scenery};
use crate::scene::{Extent, Keep, Scene};
use narrows::config::{Buffers, TcpConfig};
use narrows_experiment::file::Loaded;
use narrows_experiment::knob::KnobError;
use narrows_experiment::model::Experiment;
use narrows_experiment::plan::{Plan, PlannedRun};
use narrows_experiment::registry::Registry;
use narrows_experiment::run::RunOutcome;
use narrows_experiment::scenario::tcp;
use narrows_experiment::shipped::Shipped;
use narrows_experiment::study::{Study, StudyError};
use std::fmt;
use std::sync::atomic::AtomicBool;
use std::sync::{Mutex, PoisonError};

/// Where stories are played.
pub struct Stage<'a> {
    /// What experiments can name.
    pub registry: &'a Registry,
    /// Runs at the same time; changes no result.
    pub threads: usize,
    /// How much runs.
    pub extent: Extent,
    /// Set by who interrupts.
    pub cancel: &'a AtomicBool,
    /// Told when a run of a scene has ended.
    pub ended: &'a (dyn Fn() + Sync),
}

impl fmt::Debug for Stage<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stage")
            .field("threads", &self.threads)
            .field("extent", &self.extent)
            .finish_non_exhaustive()
    }
}

/// Why a story could not be played.
#[derive(Debug)]
pub enum StageError {
    /// It was interrupted.
    Interrupted,
    /// A scene is impossible, or a run gave no result: the scene, and why.
    Scene(&'static str, String),
}

impl fmt::Display for StageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Interrupted => f.write_str("interrupted"),
            Self::Scene(scene, why) => write!(f, "scene '{scene}': {why}"),
        }
    }
}

impl std::error::Error for StageError {}

static NEVER: AtomicBool = AtomicBool::new(false);

impl<'a> Stage<'a> {
    /// A stage with one thread, on which stories are played as usual.
    pub fn new(registry: &'a Registry) -> Self {
        Self {
            registry,
            threads: 1,
            extent: Extent::Usual,
            cancel: &NEVER,
            ended: &|| {},
        }
    }

    /// Those of the scenes that run here.
    fn here<'s>(&self, scenes: &'s [Scene]) -> impl Iterator<Item = &'s Scene> + use<'s> {
        let extent = self.extent;
        scenes.iter().filter(move |s| s.when.is_in(extent))
    }

    /// How many runs some scenes have.
    ///
    /// # Errors
    /// If a scene is impossible.
    pub fn runs(&self, scenes: &[Scene]) -> Result<usize, StageError> {
        let runs = self.here(scenes).map(|scene| {
            let failed = |why| StageError::Scene(scene.name, why);
            let experiment = self.experiment(scene).map_err(failed)?;
            let plan = Plan::new(&experiment, self.registry);
            Ok(plan.map_err(|e| failed(e.to_string()))?.runs())
        });
        runs.sum()
    }

    /// Runs some scenes: a run begins when a thread is free, whichever scene it is of.
    ///
    /// # Errors
    /// If it was interrupted, or a scene cannot run; of several the first.
    pub fn play(&self, scenes: &[Scene]) -> Result<Played, StageError> {
        let left_out = scenes.iter().filter(|s| !s.when.is_in(self.extent));
        let left_out = left_out.map(|s| s.name).collect();
        let scenes: Vec<&Scene> = self.here(scenes).collect();
        let failed = |nth: usize, why| StageError::Scene(scenes[nth].name, why);
        let experiments = scenes.iter().enumerate();
        let experiments =
            experiments.map(|(nth, scene)| self.experiment(scene).map_err(|e| failed(nth, e)));
        let experiments: Vec<Experiment> = experiments.collect::<Result<_, _>>()?;
        let outcomes = Mutex::new(vec![Vec::new(); scenes.len()]);
        let ended = |nth: usize, run: PlannedRun, outcome: RunOutcome| {
            if scenes[nth].keep == Keep::Outcomes {
                let mut outcomes = outcomes.lock().unwrap_or_else(PoisonError::into_inner);
                outcomes[nth].push((run, outcome));
            }
            (self.ended)();
        };
        let (registry, threads) = (self.registry, self.threads);
        let all: Vec<&Experiment> = experiments.iter().collect();
        let studies = Study::run_all(&all, registry, threads, self.cancel, &ended);
        let studies = studies.map_err(|(nth, e)| match e {
            StudyError::Interrupted => StageError::Interrupted,
            e => failed(nth, e.to_string()),
        })?;
        let outcomes = outcomes
            .into_inner()
            .unwrap_or_else(PoisonError::into_inner);
        let played = scenes.iter().zip(studies).zip(outcomes);
        let played = played.map(|((scene, study), mut outcomes)| {
            outcomes.sort_by_key(|(run, _)| (run.point, run.repetition));
            let keys = study.plan().base().sweep.iter();
            let titles = keys.map(|axis| study.plan().base().title_of(registry, &axis.key));
            let titles = titles.collect();
            (**scene, Scenery::new(study, outcomes, titles))
        });
        Ok(Played::new(played.collect(), left_out, self.extent))
    }

    /// The TCP of all hosts of a scene where keys, or short names, have these values, for hosts of ours
    /// that run live: with the buffers of such.
    ///
    /// # Errors
    /// If there is no such experiment or TCP.
    pub fn tcp(&self, scene: &Scene, at: &[(&str, &str)]) -> Result<TcpConfig, String> {
        let mut experiment = self.experiment(scene)?;
        for (key, value) in at {
            put(&mut experiment, self.registry, key, value).map_err(|e| format!("{key}: {e}"))?;
        }
        let mtu = experiment.network.common.mtu;
        let tcp = tcp::config(&experiment.host.tcp, mtu, self.registry);
        Ok(TcpConfig {
            buffers: Buffers::default(),
            window_scaling: true,
            ..tcp.map_err(|e| e.to_string())?
        })
    }

    /// The experiment of a scene.
    ///
    /// # Errors
    /// Why there is none.
    pub fn experiment(&self, scene: &Scene) -> Result<Experiment, String> {
        let registry = self.registry;
        let shipped = Shipped::get(scene.experiment)
            .map_err(|_| format!("no experiment '{}' ships", scene.experiment))?;
        let loaded = Loaded::parse(scene.experiment, shipped.text, registry);
        let shipped = loaded.map_err(|e| e.to_string())?.experiment;
        let mut experiment = shipped.clone();
        let usual = match self.extent {
            Extent::Usual => scene.usually,
            Extent::Full => &[],
        };
        let common = || scene.common.iter().copied().flatten();
        let keys = || common().chain(scene.set).chain(usual);
        for (key, value) in keys() {
            put(&mut experiment, registry, key, value).map_err(|e| format!("{key}: {e}"))?;
        }
        experiment.leave_idle_out(&shipped, keys().map(|(key, _)| *key));
        experiment.leave_lost_points_out(&shipped);
        Ok(experiment)
    }
}

/// Sets a key, which then is not varied, or varies one: `sweep.KEY`.
fn put(
    experiment: &mut Experiment,
    registry: &Registry,
    key: &str,
    value: &str,
) -> Result<(), KnobError> {
    let Some(axis) = key.strip_prefix("sweep.") else {
        let axis = experiment.axis_name(key);
        experiment.settle(registry, &axis, value);
        return experiment.set(registry, key, value);
    };
    let axis = experiment.axis_name(axis);
    let key = format!("sweep.{}", narrows_experiment::model::quoted(&axis));
    experiment.set(registry, &key, value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::played::{column, series_of};
    use narrows_experiment::probe::Series;
    use std::sync::atomic::{AtomicUsize, Ordering};

    const SHORT: &[(&str, &str)] = &[
        ("cc", "reno"),
        ("servers", "2"),
        ("sru", "10kB"),
        ("rto", "linux"),
        ("blocks", "1"),
    ];
    const LONG: Scene = Scene::new("long", "incast").with(&[
        ("cc", "reno"),
        ("servers", "2"),
        ("sru", "10kB"),
        ("rto", "linux"),
        ("blocks", "200"),
    ]);
    const SWEPT: Scene = Scene::new("swept", "incast")
        .sharing(&[SHORT])
        .with(&[("sweep.buffer", "32KiB,64KiB,128KiB")])
        .keeping_outcomes();
    const LAST: Scene = Scene::new("last", "incast")
        .sharing(&[SHORT])
        .keeping_outcomes();

    #[test]
    fn scenes_run_side_by_side_and_each_has_its_own_runs() {
        let registry = Registry::default();
        let scenes = [LONG, SWEPT, LAST, LAST.named("rare").in_full()];
        let of = |threads| {
            let ended = AtomicUsize::new(0);
            let stage = Stage {
                threads,
                ended: &|| {
                    ended.fetch_add(1, Ordering::Relaxed);
                },
                ..Stage::new(&registry)
            };
            let played = stage.play(&scenes).unwrap();
            assert_eq!(stage.runs(&scenes).unwrap(), ended.into_inner());
            let records = ["long", "swept", "last"].map(|name| {
                let scenery = played.scene(name).unwrap();
                let outcomes = scenery.outcomes(&[]).map_or(0, |all| all.len());
                (scenery.study().records().to_vec(), outcomes)
            });
            assert!(played.scene("rare").is_err());
            records
        };
        let one = of(1);
        assert_eq!([3, 9, 3], [0, 1, 2].map(|nth| one[nth].0.len()));
        assert_eq!([0, 9, 3], [0, 1, 2].map(|nth| one[nth].1));
        assert_eq!(one, of(3));
    }

    #[test]
    fn what_a_probe_saw_is_found_by_its_name() {
        let registry = Registry::default();
        let seen = SWEPT.named("seen").with(&[
            ("sweep.buffer", "32KiB,64KiB"),
            ("run.repetitions", "2"),
            ("probe.port.kind", "queue"),
            ("probe.port.series", "changes"),
            ("probe.port.on", "s0->h0"),
            ("probe.rate.kind", "rate"),
            ("probe.rate.on", "s0->h0"),
            ("probe.rate.every", "1ms"),
        ]);
        let played = Stage::new(&registry).play(&[seen]).unwrap();
        let scenery = played.scene("seen").unwrap();
        let at = [("buffer", "64KiB")];
        let named = |series: &Series, name: &str| column(series, name).is_ok();
        let (queue, rate) = ("queue_bytes", "rate.1ms_bit_per_s");
        let port = scenery.series(&at, "port").unwrap();
        assert!(named(port, queue) && !named(port, rate));
        let polled = scenery.series(&at, "rate").unwrap();
        assert!(named(polled, rate) && !named(polled, queue));
        let first = scenery.outcomes(&at).unwrap()[0];
        assert!(std::ptr::eq(scenery.run(&at).unwrap(), first));
        assert_eq!(series_of(first, "rate").next(), Some(polled));
        let misspelt = scenery.series(&at, "prot").unwrap_err().to_string();
        assert!(misspelt.contains("'prot'"), "{misspelt}");
    }

    #[test]
    fn of_impossible_scenes_the_first_is_told_before_anything_runs() {
        let registry = Registry::default();
        let stage = Stage {
            threads: 2,
            ended: &|| panic!("something ran"),
            ..Stage::new(&registry)
        };
        let nobody = Scene::new("nobody", "incast")
            .sharing(&[SHORT])
            .with(&[("traffic.read.from", "h9000")]);
        let nothing = nobody.named("nothing");
        let error = stage.play(&[LONG, nobody, nothing]).unwrap_err();
        assert!(matches!(&error, StageError::Scene("nobody", _)), "{error}");
    }

    #[test]
    fn what_a_scene_expects_is_of_points_that_it_runs_and_can_be_measured() {
        let registry = Registry::default();
        let stage = Stage {
            ended: &|| panic!("something ran"),
            ..Stage::new(&registry)
        };
        let few = Scene::new("few", "incast").with(&[("sweep.servers", "1,2"), ("blocks", "1")]);
        let expected = stage.experiment(&few).unwrap().expect;
        // `incast` expects something of 1 server and of 64.
        let places = expected.iter().flat_map(|e| e.place.iter());
        let servers: Vec<&str> = places
            .filter(|(key, _)| *key == "group.servers.size")
            .map(|(_, value)| value)
            .collect();
        assert_eq!(servers, ["1"]);
        let misspelt = few.with(&[("expect.0.that", "godput")]);
        let error = stage.play(&[misspelt]).unwrap_err().to_string();
        assert!(
            error.contains("expect.0.that") && error.contains("goodput"),
            "{error}"
        );
    }

    #[test]
    fn what_is_interrupted_gives_nothing() {
        let registry = Registry::default();
        let stage = Stage {
            cancel: &AtomicBool::new(true),
            ..Stage::new(&registry)
        };
        let error = stage.play(&[LONG]).unwrap_err();
        assert!(matches!(error, StageError::Interrupted), "{error}");
    }
}
