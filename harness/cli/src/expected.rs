//! What a command does with what was expected: its exit code, and a file for a CI.

use super::Stop;
use super::headings::{OUTPUT, WHAT};
use super::output::{OutputFile, Wanted};
use clap::Args;
use narrows_experiment::summary::{Holds, Verdict};
use narrows_report::points;
use narrows_report::table::Colour;
use std::path::{Path, PathBuf};

/// The options.
#[derive(Clone, Debug, Default, Args)]
pub(super) struct ExpectedArgs {
    /// End with exit code 1 if what the experiment expects does not come out.
    #[arg(long, help_heading = WHAT)]
    check: bool,
    /// Write what was expected and what came out as JUnit XML.
    #[arg(long, value_name = "FILE", help_heading = OUTPUT)]
    junit: Option<PathBuf>,
}

/// Whether a command is content with what came out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Met {
    /// All of it was as expected, or nobody asked.
    Yes,
    /// Something was not.
    No,
}

impl ExpectedArgs {
    /// What they write.
    pub(super) fn wanted(&self) -> Wanted<'_> {
        Wanted::file("junit", self.junit())
    }

    /// The file for a CI.
    pub(super) fn junit(&self) -> Option<&Path> {
        self.junit.as_deref()
    }

    /// Whether the exit code is to tell.
    pub(super) fn check(&self) -> bool {
        self.check
    }

    /// What `--quiet` leaves to say: what was to be checked, and is not so.
    pub(super) fn unmet(&self, verdicts: &[Verdict]) -> String {
        let unmet = verdicts.iter().filter(|v| self.check && is_unmet(v));
        points::verdicts(&unmet.cloned().collect::<Vec<_>>(), Colour::Plain)
    }

    /// Opens what they write, before anything runs.
    pub(super) fn open(&self) -> Result<Option<OutputFile>, Stop> {
        let open = |path| Ok(OutputFile::create("JUnit", path)?);
        self.junit().map(open).transpose()
    }

    /// Writes what came out into `file`.
    pub(super) fn tell(
        &self,
        file: Option<OutputFile>,
        title: &str,
        verdicts: &[Verdict],
    ) -> Result<Met, Stop> {
        if let Some(file) = file {
            file.finish_with(points::junit(title, verdicts).as_bytes())?;
        }
        Ok(match self.check && verdicts.iter().any(is_unmet) {
            true => Met::No,
            false => Met::Yes,
        })
    }
}

/// Not as expected, or nobody can tell.
pub(super) fn is_unmet(verdict: &Verdict) -> bool {
    verdict.holds != Holds::Yes
}
