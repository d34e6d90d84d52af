//! The documentation that the findings go into: one page, a chapter of tables for each family,
//! and figures.

use super::super::output::{OutputError, OutputFile};
use super::super::{Stop, usage};
use narrows_validate::origin::Origins;
use narrows_validate::report::chapter::{self, MARK, chapters, figures_of};
use narrows_validate::report::markdown::{Sections, sections};
use narrows_validate::report::overview::{self, BEGIN, CHAPTERS, END, FOLDER};
use narrows_validate::{Check, CheckReport};
use std::collections::BTreeSet;
use std::fmt;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// The page that the findings are summed up on.
const OVERVIEW: &str = "VALIDATION.md";

/// The page in the documentation in `dir`.
pub(super) fn overview_in(dir: &Path) -> PathBuf {
    dir.join(OVERVIEW)
}

/// The documentation, open before the first check.
pub(super) struct Docs {
    page: OutputFile,
    page_path: PathBuf,
    document: String,
    folder: PathBuf,
    sections: Sections,
    origins: Origins,
    earlier: Earlier,
}

/// What an earlier run left.
#[derive(Default)]
struct Earlier {
    /// The chapters, by file name.
    chapters: BTreeSet<String>,
    /// The figures that they show.
    figures: BTreeSet<String>,
}

/// What became of the files.
#[derive(Default)]
pub(super) struct Changes {
    written: Vec<PathBuf>,
    removed: Vec<PathBuf>,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (what, paths) in [("Wrote", &self.written), ("Removed", &self.removed)] {
            for path in paths {
                writeln!(f, "{what} {}", path.display())?;
            }
        }
        Ok(())
    }
}

impl Docs {
    /// Those in `dir`, for what `checks` find.
    pub(super) fn open(dir: &Path, checks: &[Check]) -> Result<Self, Stop> {
        let bad = |why: &str| usage("docs", &dir.display().to_string(), why);
        let page_path = overview_in(dir);
        let document = fs::read_to_string(&page_path)
            .map_err(|e| bad(&format!("cannot read {}: {e}", page_path.display())))?;
        if overview::replaced(&document, "").is_none() {
            return Err(bad(&format!(
                "{} must hold the lines '{BEGIN}' and '{END}', each once",
                page_path.display(),
            )));
        }
        let folder = dir.join(FOLDER);
        let tables = folder.join(CHAPTERS);
        let unusable = |path: &Path, e| bad(&format!("cannot use {}: {e}", path.display()));
        fs::create_dir_all(&tables).map_err(|e| unusable(&tables, e))?;
        // Files of their own that never get their names: are they allowed?
        for probe in [&folder, &tables] {
            drop(OutputFile::create("tables", &probe.join("probe"))?);
        }
        let mut known = Sections::new();
        for (name, text) in documents(&folder).map_err(|e| unusable(&folder, e))? {
            for (anchor, section) in sections(&text, &name) {
                known.entry(anchor).or_insert(section);
            }
        }
        let mut earlier = Earlier::default();
        let wanted: BTreeSet<String> = checks.iter().map(|c| chapter::file(c.family())).collect();
        for (name, text) in documents(&tables).map_err(|e| unusable(&tables, e))? {
            if text.starts_with(MARK) {
                let figures = figures_of(&text).into_iter().map(str::to_owned);
                earlier.figures.extend(figures);
                earlier.chapters.insert(name);
            } else if wanted.contains(&name) {
                return Err(bad(&format!(
                    "{} does not begin with '{MARK}', so it is not a chapter that may be written \
                     anew: move it away",
                    tables.join(name).display()
                )));
            }
        }
        Ok(Self {
            page: OutputFile::create("page", &page_path)?,
            page_path,
            document,
            folder,
            sections: known,
            origins: Origins::known(),
            earlier,
        })
    }

    /// What `reports` name and the documentation does not have.
    pub(super) fn faults(&self, reports: &[CheckReport]) -> Vec<String> {
        let unexplained = chapter::unexplained(reports, &self.sections);
        let undescribed = overview::undescribed(reports, &self.origins);
        let sections = unexplained.into_iter().map(|row| {
            let anchor = row.explained.unwrap_or_default();
            format!(
                "No section '{anchor}' in {FOLDER}/*.md, which '{}' names.",
                row.what
            )
        });
        let origins = undescribed.into_iter().map(|row| {
            format!(
                "harness/validate/reference/origins.tsv does not say what '{}' is, the source of '{}'.",
                row.source, row.what
            )
        });
        sections.chain(origins).collect()
    }

    /// Writes all that `reports` give, and removes what an earlier run left of families and
    /// figures that are gone. `changes` has what was done, also if something fails.
    ///
    /// Figures first and the page last, so that nothing shows or names what is not there.
    pub(super) fn write(
        self,
        reports: &[CheckReport],
        changes: &mut Changes,
    ) -> Result<(), OutputError> {
        let tables = self.folder.join(CHAPTERS);
        let mut gone = self.earlier;
        let mut write = |what, path: PathBuf, text: &str| {
            OutputFile::create(what, &path)?.finish_with(text.as_bytes())?;
            changes.written.push(path);
            Ok(())
        };
        for (name, svg) in chapter::figures(reports) {
            gone.figures.remove(&name);
            write("figure", self.folder.join(name), &svg)?;
        }
        for chapter in chapters(reports, &self.sections) {
            gone.chapters.remove(&chapter.file);
            write("chapter", tables.join(chapter.file), &chapter.text)?;
        }
        let part = overview::text(reports, &self.sections, &self.origins);
        let whole = overview::replaced(&self.document, &part).unwrap_or(self.document);
        self.page.finish_with(whole.as_bytes())?;
        changes.written.push(self.page_path);
        let chapters = gone.chapters.iter().map(|name| tables.join(name));
        let figures = gone.figures.iter().map(|name| self.folder.join(name));
        for path in chapters.chain(figures) {
            match fs::remove_file(&path) {
                Ok(()) => changes.removed.push(path),
                Err(e) if e.kind() == io::ErrorKind::NotFound => {}
                Err(e) => {
                    let why = format!("it is of an earlier run and cannot be removed: {e}");
                    return Err(OutputError::new("tables", &path, io::Error::other(why)));
                }
            }
        }
        Ok(())
    }
}

/// Name and text of each Markdown file in `folder`, in the order of their names.
fn documents(folder: &Path) -> io::Result<Vec<(String, String)>> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder)? {
        let path = entry?.path();
        if path.is_file() && path.extension() == Some("md".as_ref()) {
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            found.push((name.into_owned(), fs::read_to_string(&path)?));
        }
    }
    found.sort();
    Ok(found)
}
