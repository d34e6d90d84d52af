//! Files that values of a sweep name: read once, and known by a name from then on, wherever they
//! were.

use crate::traffic::SizeDistribution;
use std::fs;
use std::path::Path;

/// The files of a plan.
#[derive(Clone, Debug, Default)]
pub(crate) struct Files(Vec<SweptFile>);

/// A file of a plan.
#[derive(Clone, Debug)]
pub(crate) struct SweptFile {
    /// Its name, which no other of the plan has.
    pub(crate) name: String,
    /// What is in it.
    pub(crate) text: String,
    /// What that means: the value, written out.
    pub(crate) meaning: String,
}

impl SweptFile {
    /// The value that means it in the plan.
    pub(crate) fn value(&self) -> String {
        SizeDistribution::file_value(&self.name)
    }
}

impl Files {
    /// Reads the file that `value` names; what its value is in the plan. One of the same name that
    /// means something else gets another.
    ///
    /// # Errors
    /// If it cannot be read, or is not what it should be.
    pub(super) fn take(&mut self, value: &str, path: &Path) -> Result<String, String> {
        let file = read(value, path)?;
        let called = |name: &str| self.0.iter().find(|known| known.name == name);
        let mut name = file.name.clone();
        for n in 2.. {
            match called(&name) {
                None => break,
                Some(known) if known.meaning == file.meaning => return Ok(known.value()),
                Some(_) => {
                    name = match file.name.rsplit_once('.') {
                        Some((stem, extension)) => format!("{stem}.{n}.{extension}"),
                        None => format!("{}.{n}", file.name),
                    };
                }
            }
        }
        let file = SweptFile { name, ..file };
        let value = file.value();
        self.0.push(file);
        Ok(value)
    }

    /// The one among `values` that means what the file of `value` does.
    pub(super) fn like<'v>(
        &self,
        value: &str,
        path: &Path,
        values: &'v [String],
    ) -> Result<Option<&'v String>, String> {
        let meaning = read(value, path)?.meaning;
        let mut values = values.iter();
        Ok(values.find(|known| self.meaning(known) == meaning))
    }

    /// What a value of the plan means, as [`Experiment::set`](crate::model::Experiment::set) takes
    /// it.
    pub(super) fn meaning<'v>(&'v self, value: &'v str) -> &'v str {
        let found = self.of(value).map(|file| file.meaning.as_str());
        found.unwrap_or(value)
    }

    /// The file that a value of the plan means.
    pub(crate) fn of(&self, value: &str) -> Option<&SweptFile> {
        self.0.iter().find(|file| file.value() == value)
    }

    /// All of them.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &SweptFile> {
        self.0.iter()
    }
}

fn read(value: &str, path: &Path) -> Result<SweptFile, String> {
    let text = fs::read_to_string(path);
    let text = text.map_err(|e| format!("cannot read {}: {e}", path.display()))?;
    let meaning = SizeDistribution::written_out(value, path, &text)?;
    let name = path.file_name().unwrap_or_default().to_string_lossy();
    Ok(SweptFile {
        name: name.into_owned(),
        text,
        meaning,
    })
}
