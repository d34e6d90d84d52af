//! `narrows story`: tell the stories, and write their page.

use super::output::{OutputError, OutputFile, Wanted, apart, print};
use super::progress::{Progress, Watcher};
use super::{App, Console, EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, Stop, usage};
use clap::Args;
use narrows_experiment::results::cell;
use narrows_net::near_match::nearest;
use narrows_report::chart::Theme;
use narrows_story::grid::Grid;
use narrows_story::report::Report;
use narrows_story::scene::Extent;
use narrows_story::stage::{Stage, StageError};
use narrows_story::story::Live;
use narrows_story::{Story, docs, stories, text};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

#[derive(Debug, Args)]
pub(super) struct StoryArgs {
    /// Which one, as `narrows story` lists them.
    #[arg(value_name = "NAME")]
    name: Vec<String>,
    /// Run all rows, with all their runs; otherwise what takes less than a minute on two cores.
    #[arg(long, requires = "name")]
    full: bool,
    /// Run its twin on this machine's kernel, in network namespaces, beside the simulation: hosts of
    /// the kernel's, and of ours. Takes root. Fails where a claim differs.
    #[arg(long, requires = "name", conflicts_with_all = ["docs", "svg", "out"])]
    live: bool,
    /// Write a figure: the first, which tells the story, or that of --figure.
    #[arg(long, value_name = "FILE", requires = "name")]
    svg: Option<PathBuf>,
    /// Which figure --svg writes, by its name in a folder of --out (figure-NAME.svg).
    #[arg(long, value_name = "NAME", requires = "svg")]
    figure: Option<String>,
    /// Put figures, tables and verdicts into this folder.
    #[arg(short, long, value_name = "DIR", requires = "name")]
    out: Option<PathBuf>,
    /// Write STORIES.md and its figures in this folder: the section of the story, or without a name
    /// all of it. With --full and a name: the page beside it with what all rows and runs show.
    #[arg(long, value_name = "DIR")]
    docs: Option<PathBuf>,
    /// Runs at the same time [default: one for each core]; changes no result.
    #[arg(short = 'j', long, value_name = "N", value_parser = super::values::whole(1, 1_024))]
    threads: Option<u32>,
    /// No progress.
    #[arg(short, long)]
    quiet: bool,
}

/// Run it; the exit code.
pub(super) fn run(app: &App, args: &StoryArgs, console: &mut Console<'_>) -> Result<u8, Stop> {
    if args.name.is_empty() && args.docs.is_none() {
        print(console.stdout, &text::list())?;
        return Ok(EXIT_OK);
    }
    apart(&[Wanted::file("svg", args.svg.as_deref())])?;
    let teller = Teller { app, args };
    if args.name.is_empty() {
        return teller.write_page(console);
    }
    let name = args.name.join(" ");
    let story = named(&name)?;
    if args.live {
        return teller.live(story, console);
    }
    let svg = args.svg.as_deref().map(|path| teller.figure(story, path));
    let svg = svg.transpose()?;
    let report = match teller.report(story, console)? {
        Some(report) => report,
        None => return Ok(EXIT_INTERRUPTED),
    };
    let colour = console.colours();
    let said = text::report(&report, colour, console.columns);
    print(console.stdout, &said)?;
    if let Some(dir) = &args.out {
        write_folder(dir, &report)?;
    }
    match &args.docs {
        Some(dir) if args.full => write_full(dir, &report)?,
        Some(dir) => write_section(dir, &report)?,
        None => {}
    }
    // Last: there may be none, where it takes all rows.
    if let Some((path, figure)) = svg {
        let svg = drawn(&report, figure)?;
        OutputFile::create("figure", path)?.finish_with(svg.as_bytes())?;
    }
    Ok(code(&report))
}

/// The story with a name.
fn named(name: &str) -> Result<&'static Story, Stop> {
    if let Some(story) = stories::get(name) {
        return Ok(story);
    }
    let names = || stories::listed().map(|(known, _)| known);
    if names().any(|known| known == name) {
        let why = format!("nothing runs the story '{name}' yet; docs/STORIES.md has its claims");
        return Err(Stop::Failed(why));
    }
    // `rack` is the beginning of several.
    let mut near: Vec<&str> = names().filter(|known| known.starts_with(name)).collect();
    if near.is_empty() || name.is_empty() {
        near = nearest(name, names()).into_iter().collect();
    }
    let near: Vec<String> = near.iter().map(|n| format!("'{n}'")).collect();
    let near = match &near[..] {
        [] => String::new(),
        near => format!("; did you mean {}?", near.join(" or ")),
    };
    let all: Vec<&str> = names().collect();
    let why = format!(
        "there is no story '{name}'{near}; there are {}",
        all.join(", ")
    );
    Err(Stop::Failed(why))
}

/// The figure of a story by its place, as SVG.
fn drawn(report: &Report<'_>, nth: usize) -> Result<String, Stop> {
    let (_, chart) = &report.figures[nth];
    let chart = chart.as_ref().map_err(|why| {
        let story = report.story.name;
        Stop::Failed(format!("'{story}' has no such figure: {why}"))
    });
    Ok(chart?.svg(Theme::Paper))
}

fn code(report: &Report<'_>) -> u8 {
    match report.has_faults() {
        true => EXIT_FAILED,
        false => EXIT_OK,
    }
}

struct Teller<'a> {
    app: &'a App,
    args: &'a StoryArgs,
}

impl Teller<'_> {
    /// Where a figure goes, and which of the story's it is.
    fn figure<'p>(&self, story: &Story, path: &'p Path) -> Result<(&'p Path, usize), Stop> {
        // The name of the first is empty.
        let name = self.args.figure.as_deref().unwrap_or_default();
        let names = || story.figures.iter().map(|figure| figure.name);
        if let Some(nth) = names().position(|known| known == name) {
            return Ok((path, nth));
        }
        let others: Vec<&str> = names().filter(|n| !n.is_empty()).collect();
        let there = match (names().next(), &others[..]) {
            (None, _) => "no figure".to_owned(),
            (_, []) => "one figure, which --svg without --figure writes".to_owned(),
            _ => format!(
                "no such figure: beside the first there are {}",
                others.join(", ")
            ),
        };
        let why = format!("'{}' has {there}", story.name);
        Err(match name {
            "" => usage("svg", &path.display().to_string(), &why),
            name => usage("figure", name, &why),
        })
    }

    /// A story's report; `None` if it was interrupted.
    fn report(
        &self,
        story: &'static Story,
        console: &Console<'_>,
    ) -> Result<Option<Report<'static>>, Stop> {
        let failed = |e: StageError| Stop::Failed(format!("{}: {e}", story.name));
        let mut stage = self.stage(console.cancel);
        let runs = stage.runs(story.scenes).map_err(failed)?;
        let watcher = Watcher::of(self.args.quiet, console.stderr_terminal);
        let progress = Progress::new(watcher, "runs", runs, runs as u64);
        let ended = || progress.step(1);
        stage.ended = &ended;
        let report = Report::told(story, &stage);
        progress.finish();
        match report {
            Ok(report) => Ok(Some(report)),
            Err(StageError::Interrupted) => Ok(None),
            Err(e) => Err(failed(e)),
        }
    }

    fn stage<'s>(&'s self, cancel: &'s AtomicBool) -> Stage<'s> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        Stage {
            threads: self.args.threads.map_or(cores, |n| n as usize),
            extent: if self.args.full {
                Extent::Full
            } else {
                Extent::Usual
            },
            cancel,
            ..Stage::new(&self.app.catalog.registry)
        }
    }

    /// The twin of a story.
    fn live(&self, story: &'static Story, console: &mut Console<'_>) -> Result<u8, Stop> {
        let twin = match story.live {
            Live::Twin(twin) => twin,
            Live::Cannot(why) => {
                return Err(Stop::Failed(format!("'{}' has no twin: {why}", story.name)));
            }
            Live::Elsewhere(what) => {
                let why = format!("the twin of '{}' is another command: {what}", story.name);
                return Err(Stop::Failed(why));
            }
        };
        twin.check().map_err(Stop::Failed)?;
        console.say(&format!("{}\n\n", twin.about))?;
        let told = match twin.tell(&self.stage(console.cancel)) {
            Err(_) if console.cancel.load(Ordering::Relaxed) => return Ok(EXIT_INTERRUPTED),
            told => told.map_err(Stop::Failed)?,
        };
        let colour = console.colours();
        print(console.stdout, &text::twin(&told, colour, console.columns))?;
        Ok(match told.seen.differs() {
            true => EXIT_FAILED,
            false => EXIT_OK,
        })
    }

    /// The whole page with its figures.
    fn write_page(&self, console: &mut Console<'_>) -> Result<u8, Stop> {
        let Some(dir) = &self.args.docs else {
            return Ok(EXIT_OK);
        };
        let mut page = docs::opening();
        let mut worst = EXIT_OK;
        for (name, about) in stories::listed() {
            let section = match stories::get(name) {
                None => docs::open_section(name, about),
                Some(story) => {
                    let Some(report) = self.report(story, console)? else {
                        return Ok(EXIT_INTERRUPTED);
                    };
                    worst = worst.max(code(&report));
                    write_figures(dir, &report)?;
                    console.say(&format!("{name}: {}\n", report.tally()))?;
                    docs::section(&report)
                }
            };
            page = docs::replaced(&page, name, &section);
        }
        let path = dir.join(docs::PAGE);
        OutputFile::create("page", &path)?.finish_with(page.as_bytes())?;
        console.say(&format!("Wrote {}\n", path.display()))?;
        Ok(worst)
    }
}

fn folder(what: &'static str, path: &Path) -> Result<(), Stop> {
    fs::create_dir_all(path).map_err(|e| Stop::Output(OutputError::new(what, path, e)))
}

fn write_figures(dir: &Path, report: &Report<'_>) -> Result<(), Stop> {
    let dir = dir.join(docs::FOLDER);
    for (name, svg) in docs::figures(report, &docs::file_name(report.story.name)) {
        folder("figure", &dir)?;
        OutputFile::create("figure", &dir.join(name))?.finish_with(svg.as_bytes())?;
    }
    Ok(())
}

/// The section of a story in the page, with its figures.
fn write_section(dir: &Path, report: &Report<'_>) -> Result<(), Stop> {
    let path = dir.join(docs::PAGE);
    let before = match fs::read_to_string(&path) {
        Ok(before) => before,
        Err(e) if e.kind() == io::ErrorKind::NotFound => docs::opening(),
        Err(e) => return Err(Stop::Failed(format!("cannot read {}: {e}", path.display()))),
    };
    let page = docs::replaced(&before, report.story.name, &docs::section(report));
    write_figures(dir, report)?;
    Ok(OutputFile::create("page", &path)?.finish_with(page.as_bytes())?)
}

/// The page beside the figures of what a story shows with all rows and runs.
fn write_full(dir: &Path, report: &Report<'_>) -> Result<(), Stop> {
    let dir = dir.join(docs::FOLDER);
    folder("page", &dir)?;
    let path = dir.join(docs::full_name(report.story.name));
    Ok(OutputFile::create("page", &path)?.finish_with(docs::full(report).as_bytes())?)
}

/// Figures, tables and verdicts as files.
fn write_folder(dir: &Path, report: &Report<'_>) -> Result<(), Stop> {
    folder("story", dir)?;
    let write = |what, name: &str, text: &str| -> Result<(), Stop> {
        let file = OutputFile::create(what, &dir.join(name))?;
        Ok(file.finish_with(text.as_bytes())?)
    };
    for (file, svg) in docs::figures(report, "figure") {
        write("figure", &file, &svg)?;
    }
    let tables = report
        .tables
        .iter()
        .filter_map(|(_, grid)| grid.as_ref().ok());
    for (n, grid) in tables.enumerate() {
        write("table", &format!("table-{}.csv", n + 1), &csv(grid))?;
    }
    let rows = report.rows.iter().map(|row| {
        let why = row.verdict.why();
        let word = row.verdict.word();
        let cells = [row.claim.id, row.claim.says, &row.measured, word, &why];
        cells.map(str::to_owned).to_vec()
    });
    let claims = Grid {
        head: ["claim", "says", "measured", "verdict", "why"]
            .map(str::to_owned)
            .to_vec(),
        words: 5,
        rows: rows.collect(),
    };
    write("verdicts", "claims.csv", &csv(&claims))?;
    write("story", "story.md", &docs::section(report))
}

fn csv(grid: &Grid) -> String {
    let line = |cells: &Vec<String>| {
        let cells: Vec<String> = cells.iter().map(|text| cell(text)).collect();
        format!("{}\n", cells.join(","))
    };
    [&grid.head]
        .into_iter()
        .chain(&grid.rows)
        .map(line)
        .collect()
}
