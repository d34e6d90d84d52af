//! Files that are made of the results of a run: a page, a figure, tables, without the folder.

use super::output::{OutputError, OutputFile, Sink, Wanted};
use super::{Stop, usage};
use clap::Args;
use narrows_report::study::Report;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

/// What is wanted.
#[derive(Clone, Debug, Default, Args)]
#[command(next_help_heading = "Output")]
pub(super) struct FilesArgs {
    /// Write the report as one HTML page.
    #[arg(long, value_name = "FILE")]
    report: Option<PathBuf>,
    /// Write no report where one is written by default.
    #[arg(long, conflicts_with = "report")]
    no_report: bool,
    /// Write a figure of the report as SVG, for a paper: the first, or that of --figure.
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
    /// Which figure --svg draws, by the name that its files have in a folder of results.
    #[arg(long, value_name = "NAME", requires = "svg")]
    figure: Option<String>,
    /// Write a line of JSON for each run; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    json: Option<PathBuf>,
    /// Write a line for each run as CSV; - is standard output.
    #[arg(long, value_name = "FILE", num_args = 0..=1, default_missing_value = "-")]
    csv: Option<PathBuf>,
}

impl FilesArgs {
    /// The files that are wanted.
    pub(super) fn wanted(&self) -> Vec<Wanted<'_>> {
        vec![
            Wanted::file("report", self.report.as_deref()),
            Wanted::data("json", self.json.as_deref()),
            Wanted::data("csv", self.csv.as_deref()),
            Wanted::file("svg", self.svg.as_deref()),
        ]
    }

    /// Has a report written to `path` where nothing is said of one.
    pub(super) fn report_by_default(&mut self, path: &str) {
        if self.report.is_none() && !self.no_report {
            self.report = Some(PathBuf::from(path));
        }
    }

    /// Whether a report is written.
    pub(super) fn reports(&self) -> bool {
        self.report.is_some()
    }

    /// Whether a figure is drawn somewhere.
    pub(super) fn draws(&self) -> bool {
        self.report.is_some() || self.svg.is_some()
    }

    /// Whether a figure is wanted by itself.
    pub(super) fn svg(&self) -> bool {
        self.svg.is_some()
    }

    /// Which one, where nothing is said.
    pub(super) fn draw(&mut self, figure: &str) {
        self.figure.get_or_insert_with(|| figure.to_owned());
    }

    /// Opens them, before the first run.
    ///
    /// # Errors
    /// If that cannot be done.
    pub(super) fn open(&self) -> Result<Files, Stop> {
        let hint = "choose a place with --report FILE, or --no-report";
        let report = self.report.as_deref().map(|path| {
            let file = OutputFile::create("report", path).map_err(|e| e.with_hint(hint));
            file.map(|file| (path.to_owned(), file))
        });
        let svg = self.svg.as_deref();
        Ok(Files {
            report: report.transpose()?,
            svg: svg.map(|p| OutputFile::create("plot", p)).transpose()?,
            figure: self.figure.clone(),
            json: Sink::open("JSON", self.json.as_deref())?,
            csv: Sink::open("CSV", self.csv.as_deref())?,
        })
    }
}

/// The files, open before the first run.
pub(super) struct Files {
    report: Option<(PathBuf, OutputFile)>,
    svg: Option<OutputFile>,
    figure: Option<String>,
    json: Sink,
    csv: Sink,
}

impl Files {
    /// Whether there is one.
    pub(super) fn any(&self) -> bool {
        let data = |sink: &Sink| !matches!(sink, Sink::None);
        self.report.is_some() || self.svg.is_some() || data(&self.json) || data(&self.csv)
    }

    /// Whether standard output is taken.
    pub(super) fn data_on_stdout(&self) -> bool {
        self.json.is_stdout() || self.csv.is_stdout()
    }

    /// Writes each; the text for standard output, and where the report is. The first error is told
    /// after all the others had their chance.
    pub(super) fn write(self, report: &Report<'_>) -> (String, Result<Vec<PathBuf>, Stop>) {
        let mut machine = String::new();
        let mut reports = Vec::new();
        let mut failed: Option<Stop> = None;
        let mut keep = |stop: Stop| {
            failed.get_or_insert(stop);
        };
        let folder = report.folder.path();
        let read = |name: &str| {
            let path = folder.join(name);
            fs::read_to_string(&path).map_err(|e| OutputError::new("results", &path, e))
        };
        for (sink, name) in [(self.json, "runs.jsonl"), (self.csv, "runs.csv")] {
            if matches!(sink, Sink::None) {
                continue;
            }
            let text = read(name).and_then(|text| sink.finish_with(|| text));
            match text {
                Ok(text) => machine += &text,
                Err(e) => keep(Stop::Output(e)),
            }
        }
        // A report of nothing would only take the place of an older one.
        let any = !report.folder.records().is_empty();
        if let (Some(file), true) = (self.svg, any) {
            let svg = report.figure(self.figure.as_deref());
            let svg = svg.map_err(|e| Stop::Failed(e.to_string()));
            let named = |names: Vec<String>| {
                let why = format!("figures here are {}", names.join(", "));
                usage("figure", self.figure.as_deref().unwrap_or_default(), &why)
            };
            let svg = svg.and_then(|svg| svg.map_err(named));
            let written = svg.and_then(|svg| Ok(file.finish_with(svg.as_bytes())?));
            if let Err(stop) = written {
                keep(stop);
            }
        }
        if let (Some((path, file)), true) = (self.report, any) {
            let page = report.alone().map_err(|e| Stop::Failed(e.to_string()));
            match page.and_then(|page| Ok(file.finish_with(page.as_bytes())?)) {
                Ok(()) => reports.push(path),
                Err(stop) => keep(stop),
            }
        }
        (machine, failed.map_or(Ok(reports), Err))
    }
}

/// A folder for this command alone, which goes with it.
#[derive(Debug)]
pub(super) struct Scratch(PathBuf);

impl Scratch {
    pub(super) fn new() -> Result<Self, Stop> {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let name = format!("narrows-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        // Of a process that had this number and was killed.
        let _ = fs::remove_dir_all(&path);
        let made = fs::create_dir_all(&path);
        made.map_err(|e| OutputError::new("results", &path, e))?;
        Ok(Self(path))
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // There is nobody to tell.
        let _ = fs::remove_dir_all(&self.0);
    }
}
