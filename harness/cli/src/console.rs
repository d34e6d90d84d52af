//! Where the command reads and writes, and how wide that is.

use crate::output::{self, OutputError};
use narrows_report::table::Colour;
use std::io::{self, IsTerminal, Write};
use std::sync::atomic::AtomicBool;

/// Width of tables that do not go to a terminal.
pub const COLUMNS: usize = 100;

/// Where the command reads and writes.
pub struct Console<'a> {
    /// Standard output.
    pub stdout: &'a mut dyn Write,
    /// Standard error.
    pub stderr: &'a mut dyn Write,
    /// Standard output is a terminal that wants colours.
    pub colour: bool,
    /// How wide tables may be.
    pub columns: usize,
    /// Where sentences are wrapped.
    pub wrap: Wrap,
    /// Standard error is a terminal.
    pub stderr_terminal: bool,
    /// Set by Ctrl-C.
    pub cancel: &'a AtomicBool,
}

/// At how many columns the lines that people read are wrapped, between words; not at all where no
/// screen is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Wrap {
    /// On standard output.
    pub stdout: Option<usize>,
    /// On standard error.
    pub stderr: Option<usize>,
}

impl Console<'_> {
    /// Whether text on standard output may have colours.
    pub(crate) fn colours(&self) -> Colour {
        match self.colour {
            true => Colour::Ansi,
            false => Colour::Plain,
        }
    }

    /// Tell people `text` on standard output.
    pub(crate) fn say(&mut self, text: &str) -> Result<(), OutputError> {
        output::print(self.stdout, &output::wrapped(text, self.wrap.stdout))
    }

    /// Tell people `text` on standard error.
    pub(crate) fn say_aside(&mut self, text: &str) -> Result<(), OutputError> {
        output::print(self.stderr, &output::wrapped(text, self.wrap.stderr))
    }
}

impl std::fmt::Debug for Console<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Console")
            .field("colour", &self.colour)
            .finish_non_exhaustive()
    }
}

/// How wide the terminal is, within what tables can make use of; [`COLUMNS`] without one.
pub(crate) fn columns() -> usize {
    screen(io::stdout().is_terminal())
        .unwrap_or(COLUMNS)
        .clamp(80, 200)
}

/// Where sentences are wrapped.
pub(crate) fn wrap() -> Wrap {
    let least = |columns: usize| columns.max(20);
    Wrap {
        stdout: screen(io::stdout().is_terminal()).map(least),
        stderr: screen(io::stderr().is_terminal()).map(least),
    }
}

/// How wide the screen is: as `COLUMNS` says, or as a terminal does.
fn screen(terminal: bool) -> Option<usize> {
    let said = std::env::var("COLUMNS").ok().and_then(|c| c.parse().ok());
    let asked = || {
        let (terminal_size::Width(width), _) = terminal_size::terminal_size()?;
        Some(usize::from(width))
    };
    match terminal {
        true => said.or_else(asked),
        false => said,
    }
}
