//! The page around the figures of an experiment.

use super::differences::{Differences, MOST_COMPARED, differences};
use super::figure::{Figure, label};
use super::remarks::{remarks, sentences};
use super::{cdf, course, ledger, losses, settings, sweep};
use crate::chart::Theme;
use crate::chart::ink::escape;
use crate::html;
use crate::points;
use crate::table::Colour;
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError};
use narrows_experiment::summary::{Summary, Verdict};
use std::fmt::Write;

/// What a report is made of.
#[derive(Debug)]
pub struct Report<'a> {
    /// The runs.
    pub summary: &'a Summary<'a>,
    /// What they may name.
    pub registry: &'a Registry,
    /// Where their rows are, and where the report goes.
    pub folder: &'a Folder,
    /// What was expected.
    pub verdicts: &'a [Verdict],
    /// The command that made it.
    pub command: &'a str,
}

impl Report<'_> {
    /// Writes the page, its figures, and the numbers of each.
    ///
    /// # Errors
    /// If the folder cannot be read or written.
    pub fn write(&self) -> Result<(), FolderError> {
        let figures = self.figures()?;
        let folder = self.folder;
        for figure in figures.all() {
            let svg = figure.chart.svg(Theme::Paper);
            for (end, text) in [("svg", svg), ("csv", figure.csv())] {
                folder.write_file(&format!("{}.{end}", figure.name), &text)?;
            }
        }
        if let Some(text) = figures.ledger.csv(self.summary) {
            folder.write_file("ledger.csv", &text)?;
        }
        folder.write_file("report.html", &self.page(&figures, Beside::Tables)?)
    }

    /// The page, for a place of its own.
    ///
    /// # Errors
    /// If the folder cannot be read.
    pub fn alone(&self) -> Result<String, FolderError> {
        self.page(&self.figures()?, Beside::Nothing)
    }

    /// The figure of this name as SVG, for a paper; the first without a name.
    ///
    /// # Errors
    /// If the folder cannot be read; within, the names that there are, if this is none of them.
    pub fn figure(&self, name: Option<&str>) -> Result<Result<String, Vec<String>>, FolderError> {
        let figures = self.figures()?;
        let Some(name) = name else {
            let first = figures.all().next().map(|f| f.chart.clone());
            return Ok(Ok(first.unwrap_or_default().svg(Theme::Paper)));
        };
        let found = figures.all().find(|f| f.name == name);
        let names = || figures.all().map(|f| f.name.clone()).collect();
        Ok(found.map(|f| f.chart.svg(Theme::Paper)).ok_or_else(names))
    }

    fn figures(&self) -> Result<Figures, FolderError> {
        Ok(Figures {
            sweep: sweep::figures(self.summary, self.registry),
            times: cdf::figures(self.summary, self.registry, self.folder)?,
            series: course::figures(self.summary, self.folder)?,
            ledger: ledger::read(self.summary, self.folder)?,
        })
    }

    fn page(&self, figures: &Figures, beside: Beside) -> Result<String, FolderError> {
        let (summary, registry) = (self.summary, self.registry);
        let base = summary.plan().base();
        let mut out = String::new();
        let o = &mut out;
        let title = match base.title.as_str() {
            "" => "An experiment",
            title => title,
        };
        let differences = differences(summary, registry);
        let mut story = sentences(summary, self.verdicts);
        story.extend(remarks(summary, registry, &differences));
        html::begin(o, title, &base.about, &story);
        draw(o, &figures.sweep, beside);
        numbers(o, summary, registry, beside);
        what_differs(o, &differences);
        if !self.verdicts.is_empty() {
            let text = points::verdicts(self.verdicts, Colour::Plain);
            let _ = write!(o, "<h2>Expected</h2>\n<pre>{}</pre>\n", escape(&text));
        }
        draw(o, &figures.times, beside);
        losses::drops(o, summary, self.folder)?;
        losses::timeouts(o, summary, registry);
        figures.ledger.section(o);
        draw(o, &figures.series, beside);
        settings::section(o, base, registry);
        html::again(o, self.command);
        let _ = writeln!(
            o,
            "<p>{}</p>",
            match beside {
                Beside::Tables => {
                    "<code>experiment.toml</code> beside this page has all of these settings: \
                     <code>narrows run experiment.toml --out again</code> gives the same numbers \
                     with this version, on any machine and with any number of threads."
                }
                Beside::Nothing => {
                    "It gives the same numbers with this version, on any machine and with any \
                     number of threads. With <code>--out DIR</code> it leaves every number of every \
                     run in a folder, in the files that captions name."
                }
            }
        );
        html::end(o, html::Plots::Hide);
        Ok(out)
    }
}

/// What is read from the runs of a report: its figures, in their order, and the ledgers.
struct Figures {
    /// Metrics over what is varied.
    sweep: Vec<Figure>,
    /// Distributions of the transfers' times.
    times: Vec<Figure>,
    /// What probes saw over time.
    series: Vec<Figure>,
    /// What connections waited for.
    ledger: ledger::Ledgers,
}

impl Figures {
    fn all(&self) -> impl Iterator<Item = &Figure> {
        self.sweep.iter().chain(&self.times).chain(&self.series)
    }
}

/// What is in the folder of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Beside {
    /// The results, and the numbers of each figure.
    Tables,
    /// Nothing of it.
    Nothing,
}

fn draw(out: &mut String, figures: &[Figure], beside: Beside) {
    for figure in figures {
        let numbers = match beside {
            Beside::Tables => {
                format!(" Numbers: <code>{}.csv</code>.", escape(&figure.name))
            }
            Beside::Nothing => String::new(),
        };
        let _ = write!(
            out,
            "<h2>{}</h2>\n<figure class=\"paper\">\n{}<figcaption>{}{numbers}\
             </figcaption>\n</figure>\n",
            escape(&figure.heading),
            figure.chart.svg(Theme::Page),
            escape(&figure.caption),
        );
    }
}

/// Most rows of the table of points.
const MOST_ROWS: usize = 200;

/// A row for each point.
fn numbers(out: &mut String, summary: &Summary<'_>, registry: &Registry, beside: Beside) {
    let points::Rows {
        mut head,
        axes,
        rows,
    } = points::rows(summary, registry, points::Heads::Titles);
    let _ = writeln!(out, "<h2>Numbers</h2>");
    head.push(String::new());
    let left_out = rows.len().saturating_sub(MOST_ROWS);
    let rows = rows.into_iter().take(MOST_ROWS);
    html::table(out, &head, axes, vec![(String::new(), rows.collect())]);
    let mut note = match beside {
        Beside::Tables => "runs.csv has every metric of every run in base units.",
        Beside::Nothing => "With --csv FILE there is every metric of every run in base units.",
    }
    .to_owned();
    if summary.plan().base().run.repetitions > 1 {
        note = format!("Mean of the repetitions ± half of its 95 % interval; {note}");
    }
    note += &match left_out {
        0 => String::new(),
        1 => " It has one more point, too.".to_owned(),
        n => format!(" It has {n} more points, too."),
    };
    let _ = writeln!(out, "<p class=\"note\">{}</p>", escape(&note));
}

fn what_differs(out: &mut String, differences: &Differences) {
    if differences.metrics.is_empty() {
        return;
    }
    let _ = writeln!(
        out,
        "<h2>What differs</h2>\n<p class=\"note\">A difference is one beyond the 95 % intervals: \
         they do not meet. Where all repetitions gave the same, the interval is 0. Each value of a \
         key is compared with the first, of more than {MOST_COMPARED} others only the last, all \
         other keys equal. Of many such pairs a few may differ by chance.</p>"
    );
    for (title, lines) in &differences.metrics {
        let _ = writeln!(out, "<h3>{}</h3>\n<ul>", escape(&label(title, "")));
        for line in lines {
            let _ = writeln!(out, "<li>{}</li>", escape(&label(line, "")));
        }
        let _ = writeln!(out, "</ul>");
    }
}
