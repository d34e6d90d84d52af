//! Colours of text on a terminal.

/// Whether escape sequences may be used.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Colour {
    /// A terminal reads this.
    Ansi,
    /// A file or a pipe does, or the user said no.
    Plain,
}

impl Colour {
    /// `text` with the escape sequence of `code` around it, where one may be.
    pub fn wrap(self, code: &str, text: &str) -> String {
        match self {
            Self::Ansi if !text.trim().is_empty() => format!("\x1b[{code}m{text}\x1b[0m"),
            _ => text.to_owned(),
        }
    }
}

/// Code of [`Colour::wrap`] for bold text.
pub const BOLD: &str = "1";
/// For dim text.
pub const DIM: &str = "2";
/// For red.
pub const RED: &str = "31";
/// For green.
pub const GREEN: &str = "32";
/// For yellow.
pub const YELLOW: &str = "33";
