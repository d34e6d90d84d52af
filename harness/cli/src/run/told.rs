//! What is told of results: tables, sentences, and files without a folder.

use super::super::command_line;
use super::super::expected::is_unmet;
use super::super::files::Files;
use super::super::output::print;
use super::work::Store;
use super::{Console, Options, Prepared, Stop, given};
use narrows_experiment::registry::Registry;
use narrows_experiment::summary::{Summary, Verdict};
use narrows_report::study::{self, Report};
use narrows_report::table::Colour;
use narrows_report::{flows, points};
use std::ffi::OsString;

/// Most flows of a run that are told one by one.
const MOST_FLOWS: usize = 100;

/// What is told.
pub(super) struct Telling<'a> {
    pub(super) prepared: &'a Prepared<'a>,
    pub(super) args: &'a Options,
    pub(super) registry: &'a Registry,
    pub(super) store: &'a Store,
    pub(super) summary: &'a Summary<'a>,
    pub(super) verdicts: &'a [Verdict],
    /// Each flow is told of, too.
    pub(super) each_flow: bool,
}

impl Telling<'_> {
    /// Writes the files, and tells what is asked for. Whatever could not be written, what was computed is
    /// told.
    pub(super) fn tell(
        &self,
        files: Files,
        command: &[OsString],
        console: &mut Console<'_>,
    ) -> Result<(), Stop> {
        let on_stdout = files.data_on_stdout();
        let (mut machine, mut written) = (String::new(), Ok(Vec::new()));
        if let Store::Folder(folder, scratch) = self.store {
            let command = command_line(command);
            let report = Report {
                summary: self.summary,
                registry: self.registry,
                folder,
                verdicts: self.verdicts,
                command: &command,
            };
            if scratch.is_none() {
                report.write()?;
            }
            (machine, written) = files.write(&report);
        }
        let mut told;
        if self.args.quiet {
            told = print(console.stderr, &self.args.expected.unmet(self.verdicts));
        } else {
            let colour = match on_stdout {
                true => Colour::Plain,
                false => console.colours(),
            };
            let text = self.tables(colour)?;
            told = match on_stdout {
                true => print(console.stderr, &text),
                false => print(console.stdout, &text),
            };
            // Files say what they expect; a command that has none says what it saw.
            if self.prepared.short.is_some() {
                for sentence in study::said(self.summary, self.registry) {
                    let line = sentence + "\n";
                    told = told.and(match on_stdout {
                        true => console.say_aside(&line),
                        false => console.say(&line),
                    });
                }
            }
        }
        let told = told.and(print(console.stdout, &machine));
        for path in written? {
            if !self.args.quiet {
                console.say_aside(&format!("narrows: the report is in {}\n", path.display()))?;
            }
        }
        Ok(told?)
    }

    /// Flows, points, and what became of what was expected.
    fn tables(&self, colour: Colour) -> Result<String, Stop> {
        let mut text = String::new();
        if let (Store::Folder(folder, _), [record], true) =
            (self.store, self.store.records(), self.each_flow)
        {
            text += &flows::table(folder, record, MOST_FLOWS, colour)?;
        }
        text += &points::table(self.summary, self.registry, colour);
        text += &points::verdicts(self.verdicts, colour);
        let Prepared {
            applied,
            experiment,
            ..
        } = self.prepared;
        let departures = given::departures(applied, experiment, self.registry);
        if self.verdicts.iter().any(is_unmet) && !departures.is_empty() {
            let other = departures.join("; ");
            text += &format!("What is expected was written for the file's values: {other}.\n");
        }
        Ok(text)
    }
}
