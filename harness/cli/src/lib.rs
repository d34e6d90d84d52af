//! The `narrows` command.
//!
//! A program of one's own gets the whole command line for its own algorithms: see [`App`] and the
//! examples `own_congestion`, `own_rto` and `own_detector`. Experiments without the command line
//! are [`narrows_experiment`].

mod app;
mod args;
#[cfg(target_os = "linux")]
mod calibrate;
pub mod catalog;
mod command_line;
mod console;
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
mod source;
mod stop;
mod story;
mod validate;
mod words;
pub use app::App;
pub use console::{COLUMNS, Console, Wrap};
pub use narrows_experiment::{scenario, values};
pub use stop::{EXIT_FAILED, EXIT_INTERRUPTED, EXIT_OK, EXIT_USAGE};

use args::{Cli, Command};
use clap::error::ErrorKind;
use clap::{CommandFactory, Parser};
use command_line::command_line;
use output::OutputError;
use std::ffi::OsString;
use std::io::{self, IsTerminal};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use stop::{Stop, usage};

impl App {
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
            columns: console::columns(),
            wrap: console::wrap(),
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

/// That something could not be written; nobody is left to tell if this fails.
fn tell(error: &OutputError, console: &mut Console<'_>) {
    let _ = console.say_aside(&format!("narrows: {error}\n"));
}

#[cfg(test)]
mod tests;
