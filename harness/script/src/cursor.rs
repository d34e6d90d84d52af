//! Reads a script character by character: blanks and comments, words, numbers, strings.
//!
//! There is no stream of tokens: what `1:1001(1000)`, `.1` or `0...0.3` are hangs on where they
//! stand.

use super::ast::Span;
use super::diagnostic::Diagnostic;
use narrows::Duration;

/// Where reading has come to.
#[derive(Clone, Debug)]
pub(super) struct Cursor<'a> {
    source: &'a str,
    at: usize,
    /// From where to where blanks and comments were last passed over: what was read ends before.
    gap: (usize, usize),
}

/// What reading gives, or why it does not.
pub(super) type Read<T> = Result<T, Diagnostic>;

impl<'a> Cursor<'a> {
    /// At the start of `source`.
    pub(super) fn new(source: &'a str) -> Self {
        Self {
            source,
            at: 0,
            gap: (0, 0),
        }
    }

    /// The byte that comes next, at the very place.
    pub(super) fn raw(&self) -> Option<u8> {
        self.source.as_bytes().get(self.at).copied()
    }

    /// What is left, from the very place on.
    fn rest(&self) -> &'a str {
        self.source.get(self.at..).unwrap_or_default()
    }

    /// The place, after blanks and comments.
    pub(super) fn here(&mut self) -> usize {
        self.skip();
        self.at
    }

    /// From `start` to the last thing read.
    pub(super) fn since(&self, start: usize) -> Span {
        Span {
            start,
            end: match self.gap {
                (from, to) if to == self.at => from.max(start),
                _ => self.at.max(start),
            },
        }
    }

    /// Everything is read.
    pub(super) fn is_done(&mut self) -> bool {
        self.skip();
        self.raw().is_none()
    }

    /// The next byte after blanks and comments.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.raw()
    }

    /// `what` comes next; not past it.
    pub(super) fn sees(&mut self, what: &str) -> bool {
        self.skip();
        self.rest().starts_with(what)
    }

    /// Take `what` if it comes next.
    pub(super) fn take(&mut self, what: &str) -> bool {
        let found = self.sees(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// Take the word `what` if exactly it comes next.
    pub(super) fn take_word(&mut self, what: &str) -> bool {
        let found = self.peek_word() == Some(what);
        if found {
            self.at += what.len();
        }
        found
    }

    /// Take `what`, which must come next.
    pub(super) fn expect(&mut self, what: &str) -> Read<()> {
        if self.take(what) {
            return Ok(());
        }
        Err(self.unexpected(&format!("`{what}`")))
    }

    /// An error that says what should stand here.
    pub(super) fn unexpected(&mut self, wanted: &str) -> Diagnostic {
        let start = self.here();
        let found = match self.rest().split_whitespace().next() {
            Some(word) => {
                let short: String = word.chars().take(24).collect();
                format!("`{short}`")
            }
            None => "the end of the script".to_owned(),
        };
        let end = start + self.rest().chars().next().map_or(0, char::len_utf8);
        Diagnostic::syntax(
            Span { start, end },
            format!("expected {wanted}, found {found}"),
        )
    }

    /// The word that comes next: letters, digits and underscores.
    pub(super) fn peek_word(&mut self) -> Option<&'a str> {
        self.skip();
        let rest = self.rest();
        let len = rest
            .find(|c: char| !(c.is_ascii_alphanumeric() || c == '_'))
            .unwrap_or(rest.len());
        (len > 0).then(|| &rest[..len])
    }

    /// The next word.
    pub(super) fn word(&mut self, wanted: &str) -> Read<&'a str> {
        match self.peek_word() {
            Some(word) => {
                self.at += word.len();
                Ok(word)
            }
            None => Err(self.unexpected(wanted)),
        }
    }

    /// As far as `keep` says, without skipping.
    pub(super) fn raw_while(&mut self, keep: impl Fn(u8) -> bool) -> &'a str {
        let rest = self.rest();
        let len = rest.bytes().position(|b| !keep(b)).unwrap_or(rest.len());
        // Bytes above 127 are never kept by half: no `keep` here takes any of them.
        let taken = rest.get(..len).unwrap_or_default();
        self.at += taken.len();
        taken
    }

    /// A number, decimal or `0x`, no more than `max`.
    pub(super) fn number(&mut self, what: &str, max: u64) -> Read<u64> {
        let start = self.here();
        let word = match self.peek_word() {
            Some(w) if w.as_bytes()[0].is_ascii_digit() => self.word(what)?,
            _ => return Err(self.unexpected(what)),
        };
        let parsed = match word.strip_prefix("0x") {
            Some(hex) => u64::from_str_radix(hex, 16),
            None => word.parse(),
        };
        match parsed {
            Ok(n) if n <= max => Ok(n),
            _ => Err(Diagnostic::syntax(
                self.since(start),
                format!("{what} must be a number from 0 to {max}"),
            )),
        }
    }

    /// Seconds, with a fraction down to nanoseconds.
    pub(super) fn seconds(&mut self) -> Read<Duration> {
        let start = self.here();
        let whole = self.raw_while(|b| b.is_ascii_digit());
        let mut fraction = "";
        let mut ahead = self.rest().bytes();
        if ahead.next() == Some(b'.') && ahead.next().is_some_and(|b| b.is_ascii_digit()) {
            self.at += 1;
            fraction = self.raw_while(|b| b.is_ascii_digit());
        }
        if whole.is_empty() && fraction.is_empty() {
            return Err(self.unexpected("a time in seconds"));
        }
        let bad = |c: &Self| {
            Diagnostic::syntax(
                c.since(start),
                "a time must be at most 1000000 seconds, with at most nine decimals",
            )
        };
        let whole: u64 = match whole {
            "" => 0,
            digits => digits.parse().map_err(|_| bad(self))?,
        };
        if whole > 1_000_000 || fraction.len() > 9 {
            return Err(bad(self));
        }
        let nanos: u64 = format!("{fraction:0<9}").parse().map_err(|_| bad(self))?;
        Ok(Duration::from_secs(whole) + Duration::from_nanos(nanos))
    }

    /// What stands between `open`, which is next, and `close`.
    pub(super) fn enclosed(&mut self, open: &str, close: &str) -> Read<&'a str> {
        let start = self.here();
        self.expect(open)?;
        let rest = self.rest();
        let Some(len) = rest.find(close) else {
            return Err(Diagnostic::syntax(
                self.since(start),
                format!("`{open}` without `{close}`"),
            ));
        };
        self.at += len + close.len();
        Ok(&rest[..len])
    }

    /// A string in double quotes, with `\n`, `\t`, `\\`, `\"`, `\xHH`.
    pub(super) fn string(&mut self) -> Read<Vec<u8>> {
        let start = self.here();
        self.expect("\"")?;
        let open = |c: &Self| Diagnostic::syntax(c.since(start), "a string without its end");
        let mut out = Vec::new();
        loop {
            let byte = self.raw().ok_or_else(|| open(self))?;
            self.at += 1;
            match byte {
                b'"' => return Ok(out),
                b'\\' => {
                    let escape = self.raw().ok_or_else(|| open(self))?;
                    self.at += 1;
                    out.push(match escape {
                        b'n' => b'\n',
                        b't' => b'\t',
                        b'r' => b'\r',
                        b'0' => 0,
                        b'x' => {
                            let digits = self.rest().get(..2).unwrap_or_default();
                            let byte = u8::from_str_radix(digits, 16);
                            self.at += digits.len();
                            byte.map_err(|_| {
                                Diagnostic::syntax(self.since(start), "\\x wants two hex digits")
                            })?
                        }
                        other => other,
                    });
                }
                other => out.push(other),
            }
        }
    }

    /// Past blanks and comments. An open comment reaches to the end.
    fn skip(&mut self) {
        let from = self.at;
        self.skip_all();
        if self.at > from {
            self.gap = (from, self.at);
        }
    }

    fn skip_all(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.len() - rest.trim_start().len();
            self.at += blank;
            let rest = &rest[blank..];
            let comment = if rest.starts_with("//") || rest.starts_with('#') {
                rest.find('\n').unwrap_or(rest.len())
            } else if rest.starts_with("/*") {
                rest.find("*/").map_or(rest.len(), |n| n + 2)
            } else {
                return;
            };
            self.at += comment;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_span_ends_with_what_was_read() {
        let mut c = Cursor::new("one // two\n three");
        let start = c.here();
        assert_eq!(c.word("a word").unwrap(), "one");
        assert_eq!(c.peek(), Some(b't'));
        assert_eq!(c.since(start), Span { start: 0, end: 3 });
        let start = c.here();
        assert_eq!(c.since(start), Span { start, end: start });
        assert_eq!(c.word("a word").unwrap(), "three");
        assert_eq!(c.since(start), Span { start, end: 17 });
    }

    #[test]
    fn times_are_exact_and_stop_before_an_ellipsis() {
        let mut c = Cursor::new("0...0.25 /* x */ .000000001 // y\n 3");
        assert_eq!(c.seconds(), Ok(Duration::ZERO));
        assert!(c.take("..."));
        assert_eq!(c.seconds(), Ok(Duration::from_millis(250)));
        assert_eq!(c.seconds(), Ok(Duration::from_nanos(1)));
        assert_eq!(c.seconds(), Ok(Duration::from_secs(3)));
        assert!(c.is_done());
        assert!(c.seconds().is_err());
    }

    #[test]
    fn strings_and_numbers() {
        let mut c = Cursor::new(r#""a\x41\"" 0x10 99 "#);
        assert_eq!(c.string(), Ok(b"aA\"".to_vec()));
        assert_eq!(c.number("n", 255), Ok(16));
        assert!(c.number("n", 98).unwrap_err().message.contains("0 to 98"));
        assert!(Cursor::new("\"open").string().is_err());
    }
}
