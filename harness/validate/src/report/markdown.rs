//! Markdown as GitHub shows it: headings and their anchors, text in cells, links.

use std::collections::BTreeMap;
use std::fmt::Write;

/// Where each section is that explains a difference: by its anchor.
pub type Sections = BTreeMap<String, Section>;

/// A section of a document.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Section {
    /// The name of the file that holds it, in the folder beside the page.
    pub file: String,
    /// Its heading, as it is written.
    pub title: String,
}

/// The headings of `document` as sections of `file`, each with its anchor.
pub fn sections<'a>(document: &'a str, file: &'a str) -> impl Iterator<Item = (String, Section)> {
    let section = |title: &str| Section {
        file: file.to_owned(),
        title: title.to_owned(),
    };
    let titles = headings(document).map(section).collect::<Vec<_>>();
    anchors(document).into_iter().zip(titles)
}

/// The anchors of the headings of `document`, as GitHub makes them.
pub fn anchors(document: &str) -> Vec<String> {
    let mut found: Vec<String> = Vec::new();
    for heading in headings(document) {
        let anchor = anchor(heading);
        // The second of a name is numbered.
        let before = found
            .iter()
            .filter(|f| {
                let rest = f.strip_prefix(anchor.as_str());
                rest == Some("")
                    || rest.is_some_and(|r| {
                        r.strip_prefix('-')
                            .is_some_and(|n| n.parse::<u32>().is_ok())
                    })
            })
            .count();
        found.push(match before {
            0 => anchor,
            n => format!("{anchor}-{n}"),
        });
    }
    found
}

/// The anchor of the first heading of this text.
pub fn anchor(heading: &str) -> String {
    let kept = heading
        .chars()
        .filter(|c| c.is_alphanumeric() || matches!(c, ' ' | '-' | '_'));
    kept.flat_map(char::to_lowercase)
        .map(|c| if c == ' ' { '-' } else { c })
        .collect()
}

fn headings(document: &str) -> impl Iterator<Item = &str> {
    let mut fenced = false;
    document.lines().filter_map(move |line| {
        if line.trim_start().starts_with("```") {
            fenced = !fenced;
        }
        let level = line.chars().take_while(|c| *c == '#').count();
        let heading = line.get(level..).and_then(|l| l.strip_prefix(' '));
        let heading = heading.filter(|_| !fenced && (1..=6).contains(&level));
        heading.map(str::trim)
    })
}

/// With a large first letter.
pub(super) fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|c| c.to_uppercase().to_string());
    text_of(&(first.unwrap_or_default() + letters.as_str()))
}

/// Text that Markdown shows as it is, in a cell of a table too.
pub(super) fn text_of(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '|' | '*' | '_' | '<' | '>' | '`' | '\\' | '[' | ']' => {
                out.push('\\');
                out.push(c);
            }
            '\n' | '\r' => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The head of a table after an empty line. Columns whose name begins with `>` hold numbers and
/// stand at the right.
pub(super) fn head(out: &mut String, columns: &[&str]) {
    let names: Vec<&str> = columns.iter().map(|c| c.trim_start_matches('>')).collect();
    let rules: Vec<&str> = columns
        .iter()
        .map(|c| if c.starts_with('>') { "--:" } else { "---" })
        .collect();
    let _ = write!(out, "\n| {} |\n|{}|\n", names.join(" | "), rules.join("|"));
}

/// A line of a table; its cells are Markdown.
pub(super) fn line<T: AsRef<str>>(out: &mut String, cells: &[T]) {
    let cells: Vec<&str> = cells.iter().map(AsRef::as_ref).collect();
    let _ = writeln!(out, "| {} |", cells.join(" | "));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn anchors_are_those_of_github() {
        let text = "# Why N* is 2.6, not 3\n```\n# no heading\n```\n## Reno & CUBIC\n#x\n## Twice\n## Twice\n";
        assert_eq!(
            anchors(text),
            ["why-n-is-26-not-3", "reno--cubic", "twice", "twice-1"]
        );
        let (anchor, section) = sections(text, "a.md").nth(1).unwrap();
        assert_eq!(anchor, "reno--cubic");
        assert_eq!((&*section.file, &*section.title), ("a.md", "Reno & CUBIC"));
    }
}
