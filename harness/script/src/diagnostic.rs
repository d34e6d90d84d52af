//! Errors as a compiler words them: file, line, what was expected and what came.

use super::ast::Span;
use std::fmt::Write;

/// What is wrong with a script, or with what came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// It cannot be read.
    Syntax,
    /// It asks for something this runner or this TCP does not have.
    Unsupported,
    /// What happened is not what it says.
    Mismatch,
}

/// One error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Diagnostic {
    /// Of which kind.
    pub kind: Kind,
    /// In one line.
    pub message: String,
    /// Where.
    pub span: Span,
    /// What the script says.
    pub expected: Option<String>,
    /// What came.
    pub got: Option<String>,
    /// What helps.
    pub notes: Vec<String>,
}

impl Diagnostic {
    fn new(kind: Kind, span: Span, message: impl Into<String>) -> Self {
        Self {
            kind,
            message: message.into(),
            span,
            expected: None,
            got: None,
            notes: Vec::new(),
        }
    }
    /// The script cannot be read.
    pub fn syntax(span: Span, message: impl Into<String>) -> Self {
        Self::new(Kind::Syntax, span, message)
    }
    /// Nothing here does that.
    pub fn unsupported(span: Span, message: impl Into<String>) -> Self {
        Self::new(Kind::Unsupported, span, message)
    }
    /// Something else happened.
    pub fn mismatch(span: Span, message: impl Into<String>) -> Self {
        Self::new(Kind::Mismatch, span, message)
    }
    /// What the script says and what came instead.
    #[must_use]
    pub fn comparing(mut self, expected: impl Into<String>, got: impl Into<String>) -> Self {
        self.expected = Some(expected.into());
        self.got = Some(got.into());
        self
    }
    /// What helps.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }

    /// The error as text. `transcript` is what has happened so far, a line each.
    pub fn render(&self, file: &str, source: &str, transcript: &[String]) -> String {
        let at = position(source, self.span.start);
        let gutter = at.line.to_string().len();
        let bar = format!("{:gutter$} |", "");
        let mut out = String::new();
        let _ = writeln!(out, "error: {}", self.message);
        let _ = writeln!(out, "{:gutter$}--> {file}:{}:{}", "", at.line, at.column);
        let _ = writeln!(out, "{bar}");
        let _ = writeln!(out, "{} | {}", at.line, at.text);
        let before = at.text.chars().take(at.column - 1);
        let indent: String = before.map(|c| if c == '\t' { c } else { ' ' }).collect();
        let room = at.text.chars().count().saturating_sub(at.column - 1);
        let marked = source
            .get(self.span.start..self.span.end)
            .map_or(1, |s| s.chars().count())
            .clamp(1, room.max(1));
        let _ = writeln!(out, "{bar} {indent}{}", "^".repeat(marked));
        let lead = format!("{:gutter$} =", "");
        if let (Some(expected), Some(got)) = (&self.expected, &self.got) {
            let _ = writeln!(out, "{lead} expected: {expected}");
            let _ = writeln!(out, "{lead}      got: {got}");
        }
        for note in &self.notes {
            let _ = writeln!(out, "{lead} note: {note}");
        }
        if !transcript.is_empty() {
            let _ = writeln!(out, "{lead} so far:");
            for line in transcript {
                let _ = writeln!(out, "{:gutter$}     {line}", "");
            }
        }
        out
    }
}

/// A place in a text as people count: from 1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Position<'a> {
    /// The line's number.
    pub line: usize,
    /// The column's, in characters.
    pub column: usize,
    /// The line.
    pub text: &'a str,
}

/// Where byte `at` of `source` stands.
pub fn position(source: &str, at: usize) -> Position<'_> {
    let mut at = at.min(source.len());
    while !source.is_char_boundary(at) {
        at -= 1;
    }
    let start = source[..at].rfind('\n').map_or(0, |n| n + 1);
    let end = source[at..].find('\n').map_or(source.len(), |n| at + n);
    Position {
        line: source[..at].matches('\n').count() + 1,
        column: source[start..at].chars().count() + 1,
        text: source[start..end].trim_end_matches('\r'),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_the_line_and_marks_it() {
        let source = "one\n  two three\nfour";
        let d = Diagnostic::mismatch(Span { start: 10, end: 15 }, "no three").comparing("3", "2");
        let text = d.render("a.pkt", source, &["0.1 < .".to_owned()]);
        assert!(text.contains("error: no three\n --> a.pkt:2:7"), "{text}");
        assert!(
            text.contains("2 |   two three\n  |       ^^^^^\n"),
            "{text}"
        );
        assert!(text.contains("expected: 3\n"), "{text}");
        assert!(text.contains("so far:\n      0.1 < ."), "{text}");
    }

    #[test]
    fn a_place_outside_the_text_is_its_end() {
        assert_eq!(position("ab\u{e9}", 3).column, 3);
        assert_eq!(position("a\nb", 99).line, 2);
    }
}
