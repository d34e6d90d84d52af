//! Twins of stories on kernels, in network namespaces.
//!
//! What is measured live has in it what the machine did meanwhile, so each verdict comes with that:
//! one that differs says what was measured, what is known to move it, and how the machine was.

use crate::grid::Grid;
use crate::judge::{Finding, Judged};
use crate::played::Played;
use crate::scene::Scene;
use crate::stage::Stage;

/// A twin on kernels.
#[derive(Clone, Copy, Debug)]
pub struct Twin {
    /// What it does, and what it leaves out, in a sentence or two.
    pub about: &'static str,
    /// The same simulated.
    pub scenes: &'static [Scene],
    /// Runs it live, where its scenes were played: simulated and live beside each other, and what was found of
    /// claims.
    pub run: fn(&Stage<'_>, &Played) -> Result<Seen, String>,
}

/// What a twin showed.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Simulated and live beside each other, in as many tables as it takes for none to be wider than a page
    /// (`text::PAGE`).
    pub tables: Vec<Grid>,
    /// What is said below them, a line each: what did not run, and why.
    pub notes: Vec<String>,
    /// What was found of claims, live.
    pub found: Vec<Found>,
}

impl Seen {
    /// Whether any claim differs.
    pub fn differs(&self) -> bool {
        let mut found = self.found.iter();
        found.any(|found| found.finding.judged == Judged::Differs)
    }
}

/// What was found of a claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Found {
    /// The claim's name: `D17`.
    pub claim: &'static str,
    /// What was measured, and whether that is what was to be shown.
    pub finding: Finding,
    /// What makes it differ, if it does.
    pub because: &'static str,
}

impl Found {
    /// The reason, if it differs, with what the `machine` did.
    pub fn why(&self, machine: &str) -> Option<String> {
        let Self { because, .. } = self;
        (self.finding.judged == Judged::Differs)
            .then(|| format!("because {because}. Meanwhile {machine}"))
    }
}

/// What came of a twin.
#[derive(Clone, Debug)]
pub struct Told {
    /// What it showed.
    pub seen: Seen,
    /// What the machine did meanwhile, in words.
    pub machine: String,
}

impl Twin {
    /// Whether this machine can run it.
    ///
    /// # Errors
    /// What is missing, or not permitted, with what to do about it.
    pub fn check(&self) -> Result<(), String> {
        possible()
    }

    /// Plays its scenes, then runs it live and watches the machine meanwhile.
    ///
    /// # Errors
    /// What it cannot do, or the machine.
    pub fn tell(&self, stage: &Stage<'_>) -> Result<Told, String> {
        let played = stage.play(self.scenes).map_err(|e| e.to_string())?;
        let (seen, machine) = watched(|| (self.run)(stage, &played));
        Ok(Told {
            seen: seen?,
            machine,
        })
    }
}

#[cfg(target_os = "linux")]
fn watched<T>(run: impl FnOnce() -> T) -> (T, String) {
    let watch = narrows_lab::machine::Watch::begin();
    let ran = run();
    (ran, watch.end().to_string())
}

#[cfg(target_os = "linux")]
fn possible() -> Result<(), String> {
    narrows_lab::lab::check().map_err(|e| e.to_string())
}

#[cfg(not(target_os = "linux"))]
fn possible() -> Result<(), String> {
    Err("it takes Linux's network namespaces".to_owned())
}

#[cfg(not(target_os = "linux"))]
fn watched<T>(run: impl FnOnce() -> T) -> (T, String) {
    (run(), "what the machine did is not known".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_differs_has_its_reason_and_what_the_machine_did() {
        let found = |so| Found {
            claim: "D17",
            finding: Finding::is("5 % against 3", so),
            because: "calls of a busy machine are late",
        };
        let why = found(false).why("threads woke 30 ms late").unwrap();
        assert!(why.contains("calls of a busy machine"), "{why}");
        assert!(why.contains("threads woke 30 ms late"), "{why}");
        assert_eq!(found(true).why("threads woke 30 ms late"), None);
        let seen = |found: Vec<Found>| Seen {
            tables: Vec::new(),
            notes: Vec::new(),
            found,
        };
        assert!(seen(vec![found(true), found(false)]).differs());
        assert!(!seen(vec![found(true)]).differs());
        assert!(!seen(Vec::new()).differs());
    }

    #[test]
    fn a_twin_tells_the_machine_beside_what_it_showed() {
        let twin = Twin {
            about: "",
            scenes: &[],
            run: |_, _| {
                Ok(Seen {
                    tables: Vec::new(),
                    notes: Vec::new(),
                    found: Vec::new(),
                })
            },
        };
        let registry = narrows_experiment::registry::Registry::default();
        let told = twin.tell(&Stage::new(&registry)).unwrap();
        assert!(!told.machine.is_empty());
        let broken = Twin {
            run: |_, _| Err("no root".to_owned()),
            ..twin
        };
        assert_eq!(broken.tell(&Stage::new(&registry)).unwrap_err(), "no root");
    }
}
