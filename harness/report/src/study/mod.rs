//! The report of any experiment: its figures, each with its numbers, and a page around them.

mod cdf;
mod collapse;
mod course;
mod differences;
mod ledger;
mod losses;
mod sweep;

use super::chart::ink::escape;
use super::chart::{Chart, Theme};
use super::html;
use super::points;
use super::table::Colour;
use differences::{Differences, MOST_COMPARED, differences};
use narrows::ByteCount;
use narrows::congestion::{EcnNeed, FlowStart};
use narrows_experiment::model::{Entry, Experiment, quoted};
use narrows_experiment::registry::Registry;
use narrows_experiment::results::{Folder, FolderError, cell};
use narrows_experiment::scenario::spec::EcnUse;
use narrows_experiment::summary::{Holds, Summary, Verdict};
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
        settings(o, base, registry);
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

/// Most lines of a figure.
const MOST_LINES: usize = 12;

/// What a figure says that has no line for some points; `rest` is where they are.
fn left_out(summary: &Summary<'_>, rest: &str) -> Option<String> {
    let points = summary.plan().points();
    let some = points > MOST_LINES;
    some.then(|| format!("The first {MOST_LINES} of {points} points: {rest}."))
}

/// A figure, and the numbers in it.
#[derive(Clone, Debug)]
pub struct Figure {
    /// The name of its files, without what they end with.
    pub name: String,
    /// What is above it.
    pub heading: String,
    /// What is below it.
    pub caption: String,
    /// What it shows.
    pub chart: Chart,
}

impl Figure {
    /// Its numbers: a row for each point of each line.
    pub fn csv(&self) -> String {
        let mut out = format!(
            "line,{},{},least,greatest\n",
            cell(&self.chart.x.label),
            cell(&self.chart.y.label)
        );
        let words = &self.chart.x.words;
        for series in &self.chart.series {
            let name = match series.name.as_str() {
                "" => "all".to_owned(),
                name => cell(name),
            };
            for (n, (x, y)) in series.points.iter().enumerate() {
                let (least, most) = series.spread.get(n).copied().unwrap_or((*y, *y));
                let x = match words.get(x.round().max(0.0) as usize) {
                    Some(word) => cell(word),
                    None => x.to_string(),
                };
                let _ = writeln!(out, "{name},{x},{y},{least},{most}");
            }
        }
        out
    }
}

/// A unit for eyes: what a value in the base unit is divided by, and its name.
fn shown_unit(unit: &str, most: f64) -> (f64, &'static str) {
    match (unit, most) {
        ("ns", m) if m >= 1e9 => (1e9, "s"),
        ("ns", m) if m >= 1e6 => (1e6, "ms"),
        ("ns", _) => (1e3, "us"),
        ("bit/s", m) if m >= 1e9 => (1e9, "Gb/s"),
        ("bit/s", m) if m >= 1e6 => (1e6, "Mb/s"),
        ("bit/s", _) => (1e3, "kb/s"),
        ("bytes", m) if m >= 1e6 => (1e6, "MB"),
        ("bytes", m) if m >= 1e4 => (1e3, "kB"),
        ("bytes", _) => (1.0, "bytes"),
        ("packets", _) => (1.0, "packets"),
        _ => (1.0, ""),
    }
}

fn label(title: &str, unit: &str) -> String {
    let mut text = title.to_owned();
    if let Some(first) = text.get(..1).map(str::to_uppercase) {
        text.replace_range(..1, &first);
    }
    match unit {
        "" => text,
        unit => format!("{text} ({unit})"),
    }
}

fn file_name(text: &str) -> String {
    let plain = |c: char| {
        if c.is_ascii_alphanumeric() || c == '-' {
            c
        } else {
            '-'
        }
    };
    text.chars().map(plain).collect()
}

/// What a point is called in a key: the values of the sweep there.
fn point_name(summary: &Summary<'_>, point: usize) -> String {
    summary.plan().values(point).join(" / ")
}

/// A table: its first `words` columns are text, the others numbers. Rows are in groups, each with
/// a heading if that is not empty.
fn html_table(
    out: &mut String,
    head: &[String],
    words: usize,
    groups: Vec<(String, Vec<Vec<String>>)>,
) {
    let class = |n: usize| if n < words { " class=\"word\"" } else { "" };
    let _ = write!(
        out,
        "<div class=\"scroll\"><table class=\"numbers\">\n<thead><tr>"
    );
    for (n, text) in head.iter().enumerate() {
        let _ = write!(out, "<th{}>{}</th>", class(n), escape(text));
    }
    let _ = writeln!(out, "</tr></thead>");
    for (heading, rows) in groups {
        let _ = writeln!(out, "<tbody>");
        if !heading.is_empty() {
            let _ = writeln!(
                out,
                "<tr class=\"variant\"><th colspan=\"{}\" scope=\"rowgroup\">{}</th></tr>",
                head.len(),
                escape(&heading)
            );
        }
        for row in rows {
            let _ = write!(out, "<tr>");
            for n in 0..head.len() {
                let text = row.get(n).map_or("", String::as_str);
                let _ = write!(out, "<td{}>{}</td>", class(n), escape(text));
            }
            let _ = writeln!(out, "</tr>");
        }
        let _ = writeln!(out, "</tbody>");
    }
    let _ = writeln!(out, "</table></div>");
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
    html_table(out, &head, axes, vec![(String::new(), rows.collect())]);
    let mut note = match beside {
        Beside::Tables => "runs.csv has every metric of every run in base units.",
        Beside::Nothing => "With --csv FILE there is every metric of every run in base units.",
    }
    .to_owned();
    if summary.plan().base().run.repetitions > 1 {
        note = format!("Mean of the repetitions ± half of its 95 % interval; {note}");
    }
    if left_out > 0 {
        note += &format!(" So are {left_out} more points.");
    }
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

/// Every key with its value; those that are not as they are without being set stand out.
fn settings(out: &mut String, base: &Experiment, registry: &Registry) {
    let usual = usual(base, registry);
    let _ = write!(
        out,
        "<h2>Settings</h2>\n<p class=\"note\">Values in grey are defaults.</p>\n\
         <div class=\"scroll\"><table class=\"settings\">\n"
    );
    for Entry { key, value } in base.entries() {
        let value = value.to_string();
        let varied = base.sweep.iter().any(|axis| axis.key == key);
        let kind = key.ends_with(".kind");
        let class = if !kind && usual.get(&key).as_deref() == Some(&value) && !varied {
            " class=\"usual\""
        } else {
            ""
        };
        let value = if varied {
            "varied, see sweep".to_owned()
        } else {
            value
        };
        let about = registry.about(base, &key);
        let title = about.map_or(String::new(), |about| about.title.to_owned());
        let _ = writeln!(
            out,
            "<tr{class}><th scope=\"row\">{}</th><td>{}</td><td class=\"about\">{}</td></tr>",
            escape(&key),
            escape(&value),
            escape(&title)
        );
    }
    let _ = writeln!(out, "</table></div>");
}

/// An experiment with traffics and probes of the same kinds, in which nothing else is set.
fn usual(base: &Experiment, registry: &Registry) -> Experiment {
    let mut usual = Experiment::default();
    let traffic = base.traffic.iter().map(|t| ("traffic", &t.name, &t.kind));
    let probes = base.probes.iter().map(|p| ("probe", &p.name, &p.kind));
    for (part, name, kind) in traffic.chain(probes) {
        // The kinds are known: the experiment has them.
        let _ = usual.set(registry, &format!("{part}.{}.kind", quoted(name)), kind);
    }
    usual
}

/// A number with its noun: `1 run`, `2 runs`.
pub fn counted(n: usize, noun: &str) -> String {
    let s = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{s}")
}

/// What can be said in words of runs whose table is shown: what differs, and what was asked for and
/// did not come.
pub fn said(summary: &Summary<'_>, registry: &Registry) -> Vec<String> {
    remarks(summary, registry, &differences(summary, registry))
}

fn remarks(summary: &Summary<'_>, registry: &Registry, differences: &Differences) -> Vec<String> {
    let mut all: Vec<String> = unmeasured(summary).into_iter().collect();
    all.extend(opening(summary));
    all.extend(unmarked(summary, registry));
    all.extend(collapse::collapse(summary, registry));
    all.extend(differences.summary.clone());
    all
}

/// Where connections were not open yet when the measuring began or ended.
fn opening(summary: &Summary<'_>) -> Vec<String> {
    let plan = summary.plan();
    let sentence = |(column, when): (&str, &str)| {
        let mean = |p| summary.estimate(p, column).map_or(0.0, |e| e.mean);
        let points = (0..plan.points()).filter(|p| mean(*p) > 0.0);
        let most = points
            .clone()
            .max_by(|a, b| mean(*a).total_cmp(&mean(*b)))?;
        let of = match plan.points() {
            1 => String::new(),
            all => format!(" at {} of {all} points", points.count()),
        };
        let at = match plan.label(most) {
            label if label.is_empty() => String::new(),
            label => format!(" with {label}"),
        };
        let count = points::number(mean(most), "");
        Some(format!(
            "When the {when}, connections were still opening{of}, at most {count}{at}: what they \
             would have carried is in no number."
        ))
    };
    let times = [("opening.begin", "warm-up ended"), ("opening", "run ended")];
    times.into_iter().filter_map(sentence).collect()
}

/// Most points that a sentence names.
const MOST_NAMED: usize = 3;

/// Points in a sentence: ` with A; B and at 3 more points`; nothing if there is one of all.
fn places(summary: &Summary<'_>, points: &[usize]) -> String {
    let names: Vec<String> = points
        .iter()
        .take(MOST_NAMED)
        .map(|p| summary.plan().label(*p))
        .filter(|label| !label.is_empty())
        .collect();
    let at = match names.join("; ") {
        names if names.is_empty() => String::new(),
        names => format!(" with {names}"),
    };
    let more = match points.len().saturating_sub(MOST_NAMED) {
        0 => String::new(),
        n => format!(" and at {}", counted(n, "more point")),
    };
    at + &more
}

/// Where all was over before the warm-up was.
fn unmeasured(summary: &Summary<'_>) -> Option<String> {
    let over = |point: &usize| {
        let measured = summary.estimate(*point, "measured_ns");
        measured.is_some_and(|e| e.mean == 0.0)
    };
    let points: Vec<usize> = (0..summary.plan().points()).filter(over).collect();
    let warm_up = summary.plan().base().run.warm_up;
    (!points.is_empty()).then(|| {
        format!(
            "All was over before the warm-up of {warm_up}, and nothing is counted{}: give a shorter \
             run.warm_up.",
            places(summary, &points)
        )
    })
}

/// Where connections negotiate ECN, packets were dropped, and none was marked.
fn unmarked(summary: &Summary<'_>, registry: &Registry) -> Option<String> {
    let plan = summary.plan();
    let none = |point, name| summary.estimate(point, name).is_some_and(|e| e.mean == 0.0);
    let asks = |point| {
        let tcp = plan.at(point, registry).ok()?.host.tcp;
        let congestion = registry.congestion.get(&tcp.congestion).ok()?;
        let segment = ByteCount::new(1_460);
        let need = congestion.build(&FlowStart::new(segment, segment)).needs();
        Some(tcp.ecn == EcnUse::Classic || need.ecn != EcnNeed::Configured)
    };
    let points: Vec<usize> = (0..plan.points())
        .filter(|p| none(*p, "marks") && !none(*p, "drops") && asks(*p) == Some(true))
        .collect();
    (!points.is_empty()).then(|| {
        format!(
            "Where ECN was asked for, packets were dropped and none was marked{}: what lowers \
             the window there is loss alone.",
            places(summary, &points)
        )
    })
}

/// What can be said of what was measured, and no more.
fn sentences(summary: &Summary<'_>, verdicts: &[Verdict]) -> Vec<String> {
    let plan = summary.plan();
    let done: usize = (0..plan.points()).map(|p| summary.runs(p).len()).sum();
    let mut all = vec![match (done, plan.runs()) {
        (done, runs) if done < runs => {
            format!("Partial: {done} of {runs} runs. What is missing is in no figure and no mean.")
        }
        (done, _) => format!(
            "{}: {}, {} of each.",
            counted(done, "run"),
            counted(plan.points(), "point"),
            counted(plan.base().run.repetitions as usize, "repetition"),
        ),
    }];
    let unwell = (0..plan.points())
        .flat_map(|p| summary.runs(p).iter())
        .filter(|r| r.outcome != "completed")
        .count();
    if unwell > 0 {
        all.push(format!(
            "{unwell} of them did not complete what they were to do; the table says which."
        ));
    }
    let unmet = verdicts.iter().filter(|v| v.holds != Holds::Yes).count();
    if !verdicts.is_empty() {
        all.push(match unmet {
            0 => format!("All {} expectations hold.", verdicts.len()),
            n => format!("{n} of {} expectations do not hold.", verdicts.len()),
        });
    }
    all
}
