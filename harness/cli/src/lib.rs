//! The `narrows` command.
//!
//! A program of one's own gets the whole command line for its own algorithms: see [`App`] and the
//! examples `own_congestion`, `own_rto` and `own_detector`. Experiments without the command line
//! are [`narrows_experiment`].

mod args;
#[cfg(target_os = "linux")]
mod calibrate;
pub mod catalog;
mod dry_run;
mod expected;
mod explain;
mod files;
mod generate;
mod headings;
mod keys;
mod list;
#[cfg(target_os = "linux")]
mod live;
#[cfg(target_os = "linux")]
mod meter;
mod negative;
pub mod output;
mod presets;
pub mod progress;
mod recorder;
mod results;
mod run;
mod script;
mod shorthand;
mod slurm;
mod story;
mod validate;
mod words;
pub use narrows_experiment::{scenario, values};

use args::{Cli, Command};
use catalog::Catalog;
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use narrows_report::table::Colour;
use narrows_validate::Check;
use output::OutputError;
use std::ffi::OsString;
use std::io::{self, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// All went well.
pub const EXIT_OK: u8 = 0;
/// A run failed, or a result could not be written.
pub const EXIT_FAILED: u8 = 1;
/// The options make no sense.
pub const EXIT_USAGE: u8 = 2;
/// Ctrl-C; what was finished has been reported.
pub const EXIT_INTERRUPTED: u8 = 130;

/// Width of tables that do not go to a terminal.
pub const COLUMNS: usize = 100;

/// The command: what can be named, and what it validates.
///
/// A program of the user's own makes one with her algorithms in the catalog's registries and
/// has the whole command line for them.
#[derive(Debug)]
pub struct App {
    /// What can be named.
    pub catalog: Catalog,
    /// What `narrows validate` runs.
    pub checks: Vec<Check>,
}

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
    fn colours(&self) -> Colour {
        match self.colour {
            true => Colour::Ansi,
            false => Colour::Plain,
        }
    }

    /// Tell people `text` on standard output.
    fn say(&mut self, text: &str) -> Result<(), OutputError> {
        output::print(self.stdout, &output::wrapped(text, self.wrap.stdout))
    }

    /// Tell people `text` on standard error.
    fn say_aside(&mut self, text: &str) -> Result<(), OutputError> {
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

/// Why a command stopped short.
enum Stop {
    /// As clap words it.
    Usage(clap::Error),
    /// A result could not be written.
    Output(OutputError),
    /// Something else could not be done.
    Failed(String),
    /// What was given cannot be; the text says it all.
    Wrong(String),
}

impl From<OutputError> for Stop {
    fn from(e: OutputError) -> Self {
        Self::Output(e)
    }
}

impl App {
    /// The command with the given names, and our checks.
    pub fn new(catalog: Catalog) -> Self {
        Self {
            catalog,
            checks: [narrows_validate::checks(), narrows_validate::local_checks()].concat(),
        }
    }

    /// Run with the process's arguments, streams and Ctrl-C.
    pub fn main(self) -> ExitCode {
        let cancel = Arc::new(AtomicBool::new(false));
        let flag = Arc::clone(&cancel);
        // Without a handler Ctrl-C just ends the process: worse, but no reason not to run.
        let _ = ctrlc::set_handler(move || {
            if flag.swap(true, Ordering::Relaxed) {
                std::process::exit(i32::from(EXIT_INTERRUPTED));
            }
        });
        let wants_colour = std::env::var_os("NO_COLOR").is_none_or(|v| v.is_empty())
            && std::env::var_os("TERM").is_none_or(|t| t != "dumb");
        let mut console = Console {
            colour: wants_colour && io::stdout().is_terminal(),
            columns: columns(),
            wrap: wrap(),
            stderr_terminal: io::stderr().is_terminal(),
            stdout: &mut io::stdout().lock(),
            stderr: &mut io::stderr(),
            cancel: &cancel,
        };
        ExitCode::from(self.run(std::env::args_os(), &mut console))
    }

    /// Run with `args`, the program's name first; the exit code.
    pub fn run(&self, args: impl IntoIterator<Item = OsString>, console: &mut Console<'_>) -> u8 {
        let args: Vec<OsString> = args.into_iter().collect();
        let outcome = Cli::try_parse_from(negative::joined(&args, &Cli::command()))
            .map_err(Stop::Usage)
            .and_then(|cli| match cli.command {
                Command::Incast(incast) => shorthand::incast::run(self, &incast, &args, console),
                Command::Flows(flows) => shorthand::flows::run(self, &flows, &args, console),
                #[cfg(target_os = "linux")]
                Command::Live(live) => live::run(self, &live, &args, console),
                Command::Run(run) => run::run(self, &run, &args, console),
                Command::Show(args) => keys::show(&args, console),
                Command::Keys(args) => keys::keys(self, &args, console),
                Command::Merge(merge) => results::merge(self, &merge, &args, console),
                Command::Diff(args) => results::diff(self, &args, console),
                Command::Generate(args) => generate::run(self, &args, Cli::command(), console),
                Command::Explain(explain) => {
                    explain::run(&self.catalog.registry, &explain, &args, console)
                }
                Command::Script(args) => script::run(&args, console),
                #[cfg(target_os = "linux")]
                Command::Meter(args) => meter::run(self, &args, console),
                #[cfg(target_os = "linux")]
                Command::Calibrate => calibrate::run(self, console),
                Command::Story(args) => story::run(self, &args, console),
                Command::Validate(validate) => validate::run(self, &validate, &args, console),
                Command::List { parameters } => {
                    let text = list::text(&self.catalog, parameters, console.colour);
                    output::print(console.stdout, &text)?;
                    Ok(EXIT_OK)
                }
            });
        match outcome {
            Ok(code) => code,
            Err(Stop::Usage(e)) => {
                let text = e.render();
                let help = matches!(e.kind(), ErrorKind::DisplayHelp | ErrorKind::DisplayVersion);
                let rendered = if console.colour {
                    text.ansi().to_string()
                } else {
                    text.to_string()
                };
                if help {
                    return match output::print(console.stdout, &rendered) {
                        Ok(()) => EXIT_OK,
                        Err(_) => EXIT_FAILED,
                    };
                }
                // Nobody is left to tell if this fails.
                let _ = console.say_aside(&rendered);
                EXIT_USAGE
            }
            Err(Stop::Output(e)) => {
                tell(&e, console);
                EXIT_FAILED
            }
            Err(Stop::Wrong(text)) => {
                let _ = output::print(console.stderr, &text);
                EXIT_USAGE
            }
            Err(Stop::Failed(why)) => {
                let _ = console.say_aside(&format!("narrows: {why}\n"));
                EXIT_FAILED
            }
        }
    }
}

/// The command as a shell takes it, by the name of the program that ran: ours, or one of somebody
/// who brought algorithms along.
fn command_line(args: &[OsString]) -> String {
    let quoted = |arg: &OsString| {
        let text = arg.to_string_lossy().into_owned();
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_=+.,:/%@".contains(c);
        if !text.is_empty() && text.chars().all(plain) {
            text
        } else {
            format!("'{}'", text.replace('\'', r"'\''"))
        }
    };
    let path = args.first().map(Path::new);
    let program = path.and_then(Path::file_name).unwrap_or("narrows".as_ref());
    std::iter::once(quoted(&program.to_owned()))
        .chain(args.iter().skip(1).map(quoted))
        .collect::<Vec<_>>()
        .join(" ")
}

/// How wide the terminal is, within what tables can make use of; [`COLUMNS`] without one.
fn columns() -> usize {
    screen(io::stdout().is_terminal())
        .unwrap_or(COLUMNS)
        .clamp(80, 200)
}

/// Where sentences are wrapped.
fn wrap() -> Wrap {
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

/// That something could not be written; nobody is left to tell if this fails.
fn tell(error: &OutputError, console: &mut Console<'_>) {
    let _ = console.say_aside(&format!("narrows: {error}\n"));
}

/// A usage error in clap's words: the option, the value, why not.
fn usage(option: &str, given: &str, why: &str) -> Stop {
    let text = format!("invalid value '{given}' for '--{option}': {why}\n");
    Stop::Usage(clap::Error::raw(ErrorKind::InvalidValue, text))
}

#[cfg(test)]
mod tests;
