//! Experiments as TOML files.
//!
//! A file's tables are the parts of an [`Experiment`], its keys those of [`Experiment::set`].
//! `[[traffic]]` and `[[probe]]` with a `name`, and `[traffic.NAME]`, are the same. What cannot be
//! is told with the line, and all of it at once.

use crate::knob::KnobError;
use crate::model::experiment::PARTS;
use crate::model::{Experiment, Invalid, Path, Value};
use crate::registry::Registry;
use crate::traffic::SizeDistribution;
use narrows::congestion::order::sort_by_key;
use std::fmt;
use std::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// An experiment and where its keys stand in the file.
#[derive(Clone, Debug)]
pub struct Loaded {
    /// The experiment.
    pub experiment: Experiment,
    /// The file.
    pub source: Source,
}

/// A file's text, and where the value of each key stands in it.
#[derive(Clone, Debug)]
pub struct Source {
    /// The name of the file.
    pub name: String,
    text: String,
    places: Vec<(String, Range<usize>)>,
}

/// What is wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileErrors {
    /// In the order of the lines.
    pub errors: Vec<FileError>,
}

/// Something that is wrong with a line of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileError {
    /// The file.
    pub file: String,
    /// The line, from 1; 0 if it concerns no line.
    pub line: usize,
    /// The column, from 1.
    pub column: usize,
    /// The text of the line.
    pub text: String,
    /// How many characters of it.
    pub width: usize,
    /// What is wrong, and what would be right.
    pub what: String,
}

/// A value somewhere in a file.
struct Leaf {
    /// Its key.
    path: Vec<String>,
    value: Text,
    /// Of each word of the key that the file has, the last ones of the path.
    words_at: Vec<Range<usize>>,
    /// Of the value.
    at: Range<usize>,
    /// What comes first where others depend on it.
    rank: u8,
}

impl Leaf {
    /// Where its key stands.
    fn key_at(&self) -> Range<usize> {
        self.words_at.last().unwrap_or(&self.at).clone()
    }

    /// Where the last word of its key stands that is `word`.
    fn word_at(&self, word: &str) -> Range<usize> {
        let words = self.path.iter().rev().zip(self.words_at.iter().rev());
        let mut found = words.filter(|(known, _)| *known == word);
        found
            .next()
            .map_or_else(|| self.key_at(), |(_, at)| at.clone())
    }
}

/// A value as [`Experiment::set`] takes it.
enum Text {
    One(String),
    /// With the place of each.
    List(Vec<(String, Range<usize>)>),
    /// It is none.
    Bad(&'static str),
}

impl Loaded {
    /// The experiment that `text` says, the content of a file called `name`.
    ///
    /// # Errors
    /// Everything that is wrong with it.
    pub fn parse(name: &str, text: &str, registry: &Registry) -> Result<Self, FileErrors> {
        let mut source = Source {
            name: name.to_owned(),
            text: text.to_owned(),
            places: Vec::new(),
        };
        let (table, errors) = DeTable::parse_recoverable(text);
        if !errors.is_empty() {
            let errors = errors
                .iter()
                .map(|e| source.error(e.span().unwrap_or_default(), e.message().to_owned()));
            return Err(FileErrors {
                errors: errors.collect(),
            });
        }
        let mut leaves = Vec::new();
        let mut errors = Vec::new();
        flatten(&source, table.get_ref(), &mut leaves, &mut errors);
        sort_by_key(&mut leaves, |leaf| (leaf.rank, leaf.at.start));
        let mut experiment = Experiment::default();
        for leaf in leaves {
            let key = Path::new(leaf.path.clone()).to_string();
            source.places.push((key.clone(), leaf.at.clone()));
            let leaf = beside(&source, &experiment, registry, leaf, &key);
            if let Err((at, what)) = put(&mut experiment, registry, &leaf, &key) {
                errors.push(source.error(at, what));
            }
        }
        if errors.is_empty() {
            match experiment.check_short(registry) {
                Ok(()) => return Ok(Self { experiment, source }),
                Err(e) => errors.push(source.locate(&e)),
            }
        }
        sort_by_key(&mut errors, |e| (e.line, e.column));
        Err(FileErrors { errors })
    }
}

/// A leaf whose paths of files are beside the experiment's own file.
fn beside(
    source: &Source,
    experiment: &Experiment,
    registry: &Registry,
    leaf: Leaf,
    key: &str,
) -> Leaf {
    let key = match leaf.path.as_slice() {
        [part, rest @ ..] if part == "sweep" => rest.join("."),
        [part, _, place, key] if part == "expect" && place == "where" => key.clone(),
        _ => key.to_owned(),
    };
    let about = registry.about(experiment, experiment.long_name(&key));
    if !about.is_some_and(|about| SizeDistribution::is_kind(&about.kind)) {
        return leaf;
    }
    let folder = std::path::Path::new(&source.name).parent();
    let moved = |text: String| match (SizeDistribution::file(&text), folder) {
        (Some(path), Some(folder)) => {
            SizeDistribution::file_value(&folder.join(path).to_string_lossy())
        }
        _ => text,
    };
    let value = match leaf.value {
        Text::One(text) => Text::One(moved(text)),
        Text::List(all) => Text::List(all.into_iter().map(|(t, at)| (moved(t), at)).collect()),
        Text::Bad(why) => Text::Bad(why),
    };
    Leaf { value, ..leaf }
}

/// Sets what a leaf says.
fn put(
    experiment: &mut Experiment,
    registry: &Registry,
    leaf: &Leaf,
    key: &str,
) -> Result<(), (Range<usize>, String)> {
    let of = |e: KnobError| {
        let at = match &e {
            KnobError::Unknown { key, .. } => leaf.word_at(key),
            KnobError::Value { .. } => leaf.at.clone(),
        };
        (at, e.to_string())
    };
    let part = leaf.path[0].as_str();
    if !PARTS.contains(&part) {
        return Err(of(KnobError::unknown(part, PARTS.into_iter())));
    }
    match &leaf.value {
        Text::Bad(why) => Err((leaf.at.clone(), (*why).to_owned())),
        Text::One(value) => experiment.set(registry, key, value).map_err(of),
        Text::List(values) if leaf.path.first().is_some_and(|p| p == "sweep") => {
            let axis = leaf.path[1..].join(".");
            for (value, at) in values {
                let tried = experiment.clone().set(registry, &axis, value);
                tried.map_err(|e| match e {
                    KnobError::Unknown { .. } => (leaf.key_at(), e.to_string()),
                    KnobError::Value { .. } => (at.clone(), e.to_string()),
                })?;
            }
            let values = values.iter().map(|(value, _)| value.clone()).collect();
            experiment.vary(&axis, values).map_err(of)
        }
        Text::List(values) => {
            let values: Vec<&str> = values.iter().map(|(value, _)| value.as_str()).collect();
            experiment.set(registry, key, &values.join(",")).map_err(of)
        }
    }
}

/// The values of a file's tables.
fn flatten(
    source: &Source,
    table: &DeTable<'_>,
    leaves: &mut Vec<Leaf>,
    errors: &mut Vec<FileError>,
) {
    for (name, value) in table {
        let part: &str = name.get_ref();
        match value.get_ref() {
            DeValue::Array(items) if matches!(part, "traffic" | "probe" | "change" | "expect") => {
                for (n, item) in items.iter().enumerate() {
                    let DeValue::Table(table) = item.get_ref() else {
                        let what = format!("expected tables: [[{part}]]");
                        errors.push(source.error(item.span(), what));
                        continue;
                    };
                    let named = matches!(part, "traffic" | "probe");
                    let words = ["name", "kind"].map(|key| Some((key, table.get(key)?)));
                    let no_text =
                        |(_, v): &(&str, &Spanned<DeValue<'_>>)| v.get_ref().as_str().is_none();
                    let wrong = words.into_iter().flatten().find(no_text);
                    if let Some((key, value)) = wrong.filter(|_| named) {
                        let what = format!("a {part}'s {key} is a word in quotes");
                        errors.push(source.error(value.span(), what));
                        continue;
                    }
                    let text = |key: &str| table.get(key).and_then(|v| v.get_ref().as_str());
                    let word = match (named, text("name").or_else(|| text("kind"))) {
                        (false, _) => n.to_string(),
                        (true, Some(name)) => name.to_owned(),
                        (true, None) => {
                            let what = format!("a {part} needs a name and a kind");
                            errors.push(source.error(item.span(), what));
                            continue;
                        }
                    };
                    if named && text("kind").is_none() {
                        let what = format!("{part} '{word}' has no kind");
                        errors.push(source.error(item.span(), what));
                        continue;
                    }
                    let taken = leaves.iter().any(|leaf| {
                        named && leaf.path.len() > 1 && leaf.path[0] == part && leaf.path[1] == word
                    });
                    if taken {
                        let what =
                            format!("there is a {part} '{word}' before: give it another name");
                        errors.push(source.error(item.span(), what));
                        continue;
                    }
                    let at = vec![part.to_owned(), word];
                    for (key, value) in table {
                        if !(named && key.get_ref() == "name") {
                            walk(&at, &[], key, value, leaves);
                        }
                    }
                }
            }
            _ => walk(&[], &[], name, value, leaves),
        }
    }
}

/// The values at `key` and below; `above` is where the words of the file stand that led there.
fn walk(
    at: &[String],
    above: &[Range<usize>],
    key: &Spanned<toml::de::DeString<'_>>,
    value: &Spanned<DeValue<'_>>,
    leaves: &mut Vec<Leaf>,
) {
    let word: &str = key.get_ref();
    let mut path = at.to_vec();
    // What follows is a key of its own, with or without quotes.
    let whole = match path.first().map(String::as_str) {
        Some("sweep" | "short") => path.len() > 1,
        Some("expect") => path.len() > 3 && path[2] == "where",
        _ => false,
    };
    match path.last_mut() {
        Some(last) if whole => {
            *last = format!("{last}.{}", crate::model::quoted(word));
        }
        _ => path.push(word.to_owned()),
    }
    let mut words_at = above.to_vec();
    words_at.push(key.span());
    if let DeValue::Table(table) = value.get_ref() {
        for (key, value) in table {
            walk(&path, &words_at, key, value, leaves);
        }
        return;
    }
    let words: Vec<&str> = path.iter().map(String::as_str).collect();
    let rank = match words.as_slice() {
        ["network", "topology"] | ["traffic" | "probe", _, "kind"] => 0,
        // Whatever has keys may use them.
        ["short", ..] => 0,
        ["sweep", ..] => 2,
        _ => 1,
    };
    let one = |value: &DeValue<'_>| match value {
        DeValue::String(text) => Ok(text.to_string()),
        DeValue::Integer(n) if n.radix() == 10 => Ok(n.as_str().replace('_', "")),
        DeValue::Integer(_) => Err("expected a decimal number"),
        DeValue::Float(x) => Ok(x.as_str().to_owned()),
        DeValue::Boolean(on) => Ok(if *on { "on" } else { "off" }.to_owned()),
        DeValue::Datetime(_) => Err("expected a value in quotes, and no date"),
        DeValue::Array(_) => Err("expected a value, and no list in a list"),
        DeValue::Table(_) => Err("expected a value, and no table in a list"),
    };
    let text = match value.get_ref() {
        DeValue::Array(items) => {
            let items = items
                .iter()
                .map(|item| one(item.get_ref()).map(|text| (text, item.span())))
                .collect();
            match items {
                Ok(items) => Text::List(items),
                Err(why) => Text::Bad(why),
            }
        }
        value => one(value).map_or_else(Text::Bad, Text::One),
    };
    leaves.push(Leaf {
        path,
        value: text,
        words_at,
        at: value.span(),
        rank,
    });
}

impl Source {
    /// What is wrong with a key, with its line: that of its value or, if the file does not have it,
    /// of the nearest that it has.
    pub fn locate(&self, e: &Invalid) -> FileError {
        let mut words = Path::parse(&e.key).map_or_else(
            |_| Vec::new(),
            |path| path.words().into_iter().map(str::to_owned).collect(),
        );
        while !words.is_empty() {
            let key = Path::new(words.clone()).to_string();
            let below = format!("{key}.");
            let is_below = |(known, _): &&(String, _)| known.starts_with(&below);
            let found = self.span_of(&key);
            let below = || Some(self.places.iter().find(is_below)?.1.clone());
            if let Some(at) = found.or_else(below) {
                return self.error(at, e.to_string());
            }
            words.pop();
        }
        FileError {
            file: self.name.clone(),
            line: 0,
            column: 0,
            text: String::new(),
            width: 0,
            what: e.to_string(),
        }
    }

    /// The same if the file has the key itself.
    pub fn locate_exactly(&self, e: &Invalid) -> Option<FileError> {
        Some(self.error(self.span_of(&e.key)?, e.to_string()))
    }

    /// Where the value of a key stands.
    fn span_of(&self, key: &str) -> Option<Range<usize>> {
        let found = self.places.iter().find(|(known, _)| known == key);
        found.map(|(_, at)| at.clone())
    }

    fn error(&self, at: Range<usize>, what: String) -> FileError {
        let start = at.start.min(self.text.len());
        let before = &self.text[..start];
        let begin = before.rfind('\n').map_or(0, |n| n + 1);
        let line = self.text[begin..].lines().next().unwrap_or_default();
        let column = self.text[begin..start].chars().count();
        let rest = line.chars().count().saturating_sub(column);
        let marked = self.text.get(start..at.end).unwrap_or_default();
        let width = marked.lines().next().unwrap_or_default().chars().count();
        FileError {
            file: self.name.clone(),
            line: before.matches('\n').count() + 1,
            column: column + 1,
            text: line.to_owned(),
            width: width.clamp(1, rest.max(1)),
            what,
        }
    }
}

impl fmt::Display for FileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            file,
            line,
            column,
            text,
            width,
            what,
        } = self;
        if *line == 0 {
            return write!(f, "{file}: {what}");
        }
        let marked = underlined(&line.to_string(), text, *column, *width);
        write!(f, "{file}:{line}:{column}: {what}\n{marked}")
    }
}

/// So many characters of a long line are shown on either side of what is marked in it, and of that.
const AROUND: usize = 50;

/// A line, whose number is in the margin, with carets below `width` characters of it from `column`
/// on (from 1). Of a long line what is near.
pub fn underlined(number: &str, text: &str, column: usize, width: usize) -> String {
    let margin = " ".repeat(number.len());
    let (mut column, mut width) = (column.saturating_sub(1), width.max(1));
    // Tabs are one column here and several on a screen.
    let mut text = text.replace('\t', " ");
    if text.chars().count() > 3 * AROUND {
        let from = column.saturating_sub(AROUND);
        width = width.min(AROUND);
        let after = text.chars().count() > column + width + AROUND;
        let near = text.chars().skip(from).take(column - from + width + AROUND);
        let dots = |cut: bool| if cut { "..." } else { "" };
        text = format!(
            "{}{}{}",
            dots(from > 0),
            near.collect::<String>(),
            dots(after)
        );
        column = column - from + dots(from > 0).len();
    }
    let before = " ".repeat(column);
    let carets = "^".repeat(width);
    format!("{margin} |\n{number} | {text}\n{margin} | {before}{carets}")
}

impl fmt::Display for FileErrors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (n, error) in self.errors.iter().enumerate() {
            let gap = if n == 0 { "" } else { "\n\n" };
            write!(f, "{gap}{error}")?;
        }
        Ok(())
    }
}

impl std::error::Error for FileErrors {}

/// The file that says everything that `experiment` is: what is printed reads back as the same.
pub fn text_of(experiment: &Experiment) -> String {
    let mut text = String::new();
    for entry in experiment.entries() {
        let value = match &entry.value {
            Value::One(value) => literal(value),
            Value::List(values) => {
                let all: Vec<String> = values.iter().map(|value| literal(value)).collect();
                format!("[{}]", all.join(", "))
            }
        };
        text.push_str(&format!("{} = {value}\n", entry.key));
    }
    text
}

/// A value as TOML has it.
fn literal(value: &str) -> String {
    if value.parse::<i64>().is_ok_and(|n| n.to_string() == value) {
        return value.to_owned();
    }
    let mut text = String::from("\"");
    for c in value.chars() {
        match c {
            '"' => text.push_str("\\\""),
            '\\' => text.push_str("\\\\"),
            '\n' => text.push_str("\\n"),
            '\t' => text.push_str("\\t"),
            c if c.is_control() => text.push_str(&format!("\\u{:04X}", u32::from(c))),
            c => text.push(c),
        }
    }
    text.push('"');
    text
}

#[cfg(test)]
mod tests;
