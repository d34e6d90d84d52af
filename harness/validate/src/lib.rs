//! `narrows validate`: our results beside what others measured, published or derived.
//!
//! A [`Check`] is one comparison or a family of them that share runs. It gives [`Row`]s, each
//! with its source and a tolerance that was stated before the result was seen, and figures. The
//! reference values are data files in `harness/validate/reference/`, read by [`mod@reference`].
//!
//! What lies outside its tolerance is a finding. When its mechanism is understood, the row
//! names the section in docs/validation that explains it; it still shows as different.

mod buffers;
mod dctcp;
mod explained;
mod flows;
mod incast;
mod laws;
pub mod origin;
pub mod peer;
mod peers;
pub mod reference;
pub mod report;
mod row;
mod run;
mod set_up;
mod tahoe;
#[doc(hidden)]
pub mod testing;
mod vectors;

pub use row::{Expected, Measured, Row, Tolerance, Verdict};
pub use run::{CheckReport, run_checks};

use flows::{Flows, FlowsRun};
use narrows_experiment::model::Experiment;
use narrows_experiment::registry::Registry;
use narrows_experiment::scenario::{IncastRun, RunContext, ScenarioError};
use std::sync::atomic::{AtomicBool, Ordering};

/// One comparison with something that is not ours.
#[derive(Clone, Copy)]
pub struct Check {
    /// Its name on the command line, a path: `incast/fast08/buffers`. `--only` takes a prefix.
    pub name: &'static str,
    /// What is compared, in a few words.
    pub what: &'static str,
    /// About how many seconds it takes on one core; the longest start first.
    pub seconds: u32,
    /// Does it.
    pub run: fn(&mut Bench<'_>) -> Result<(), ScenarioError>,
}

impl std::fmt::Debug for Check {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Check").field("name", &self.name).finish()
    }
}

impl Check {
    /// The first part of its name. The checks of a family share a chapter.
    pub fn family(&self) -> &'static str {
        self.name.split('/').next().unwrap_or(self.name)
    }
}

/// The families, and what each is about.
const FAMILIES: [(&str, &str); 6] = [
    (
        "incast",
        "goodput, timeouts and block times when many servers answer one client at once",
    ),
    (
        "vectors",
        "figures that RFCs and papers print or that follow from their rules by arithmetic",
    ),
    (
        "laws",
        "windows of Reno and CUBIC under a given loss, over time, and beside each other",
    ),
    (
        "peers",
        "the same transfers and incasts in other simulators and with another TCP",
    ),
    (
        "dctcp",
        "queue, alpha, thresholds and incast of DCTCP, and its rules",
    ),
    (
        "buffers",
        "what ports get of paused trunks, split outputs and shared pools, what receivers make of marks and held interrupts, and bursts of ports",
    ),
];

/// What the checks of `family` are about.
pub fn about(family: &str) -> Option<&'static str> {
    let known = FAMILIES.iter().find(|(name, _)| *name == family);
    known.map(|(_, what)| *what)
}

/// All checks, in the order of the report.
pub fn checks() -> Vec<Check> {
    let mut all = Vec::new();
    all.extend(incast::CHECKS);
    all.extend(vectors::CHECKS);
    all.extend(laws::CHECKS);
    all.extend(peers::CHECKS);
    all.extend(dctcp::CHECKS);
    all.extend(buffers::CHECKS);
    all
}

/// The checks that [`checks`] leaves out because they take up to three quarters of an hour each.
pub fn full_checks() -> Vec<Check> {
    let mut all = laws::FULL.to_vec();
    all.push(peers::LOCAL_FULL);
    all
}

/// The checks of programs that this machine may have installed. They are part of every run, and
/// not of the chapter in the documentation, which is the same on every machine.
pub fn local_checks() -> Vec<Check> {
    vec![peers::LOCAL]
}

/// Whether `check` is one of [`local_checks`].
pub fn is_local(check: &Check) -> bool {
    local_checks().iter().any(|local| local.name == check.name)
}

/// A picture that a check makes.
#[derive(Clone, Debug, PartialEq)]
pub struct Figure {
    /// File name without ending: `fast08-buffers`.
    pub name: &'static str,
    /// What it shows, a sentence or two.
    pub caption: String,
    /// What is drawn.
    pub chart: narrows_report::chart::Chart,
}

/// What a check runs with, and where it puts its findings.
pub struct Bench<'a> {
    cancel: &'a AtomicBool,
    rows: Vec<Row>,
    figures: Vec<Figure>,
    on_row: &'a dyn Fn(&mut Row),
}

impl<'a> Bench<'a> {
    /// `on_row` sees each row when it is made; it is where the time is filled in.
    pub fn new(cancel: &'a AtomicBool, on_row: &'a dyn Fn(&mut Row)) -> Self {
        Self {
            cancel,
            rows: Vec::new(),
            figures: Vec::new(),
            on_row,
        }
    }

    /// Set when the user wants the run to stop.
    pub fn cancel(&self) -> &'a AtomicBool {
        self.cancel
    }

    /// An error if the run should stop.
    ///
    /// # Errors
    /// [`ScenarioError::Cancelled`].
    pub fn checkpoint(&self) -> Result<(), ScenarioError> {
        if self.cancel.load(Ordering::Relaxed) {
            Err(ScenarioError::Cancelled)
        } else {
            Ok(())
        }
    }

    /// One incast, with the algorithms that narrows brings along.
    ///
    /// # Errors
    /// Those of the runner.
    pub fn incast(&self, experiment: &Experiment) -> Result<IncastRun, ScenarioError> {
        self.incast_with(experiment, &Registry::default())
    }

    /// One incast, with what `registry` knows.
    fn incast_with(
        &self,
        experiment: &Experiment,
        registry: &Registry,
    ) -> Result<IncastRun, ScenarioError> {
        let run = experiment.run(registry, self.context())?;
        Ok(IncastRun::from(&run))
    }

    /// A run that ends when the user wants it to.
    fn context(&self) -> RunContext<'a> {
        RunContext {
            cancel: Some(self.cancel),
            ..RunContext::default()
        }
    }

    /// A run of flows, with the algorithms that narrows brings along.
    ///
    /// # Errors
    /// Those of the runner.
    fn flows(&self, flows: &Flows) -> Result<FlowsRun, ScenarioError> {
        flows.run(&Registry::default(), self.context())
    }

    /// A finding.
    pub fn row(&mut self, mut row: Row) {
        (self.on_row)(&mut row);
        self.rows.push(row);
    }

    /// A picture.
    pub fn figure(&mut self, figure: Figure) {
        self.figures.push(figure);
    }

    /// What was found.
    pub fn into_findings(self) -> (Vec<Row>, Vec<Figure>) {
        (self.rows, self.figures)
    }
}
