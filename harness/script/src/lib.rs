//! `narrows script`: tests in the language of packetdrill, against this TCP, in virtual time.
//!
//! A script says what a user calls, which packets arrive and which must leave, when, and what
//! then holds. It runs in milliseconds, without root, and gives the same result each time.
//! docs/SCRIPTS.md has the language and its limits.
//!
//! ```
//! use narrows_script::{Options, run};
//!
//! let report = run(
//!     "hello.pkt",
//!     "0   socket(..., SOCK_STREAM, IPPROTO_TCP) = 3
//!      +0  bind(3, ..., ...) = 0
//!      +0  listen(3, 1) = 0
//!      +0  < S 0:0(0) win 65535 <mss 1000>
//!      +0  > S. 0:0(0) ack 1 <mss 1460>
//!      +.1 < . 1:1(0) ack 1 win 65535
//!      +0  accept(3, ..., ...) = 4
//!      +0  write(4, ..., 5) = 5
//!      +0  > P. 1:6(5) ack 1",
//!     &Options::default(),
//! );
//! assert!(report.passed(), "{}", report.text());
//! ```

pub mod ast;
mod code;
mod cursor;
pub mod diagnostic;
mod flow;
mod matcher;
mod parse;
mod profile;
pub mod report;
mod run;
mod segment;
mod settings;
pub mod setup;
pub mod sockets;
pub mod stack;
pub mod suite;

use diagnostic::Diagnostic;
use narrows::Duration;

pub use parse::{Defines, parse};
pub use profile::Profile;
pub use run::Make;
pub use settings::Options;

/// What came of one script.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Report {
    /// The script's name.
    pub file: String,
    /// The script.
    pub source: String,
    /// Why it failed, if it did.
    pub failure: Option<Diagnostic>,
    /// What happened, a line each.
    pub transcript: Vec<String>,
    /// What its assertions printed.
    pub printed: Vec<String>,
    /// Steps in it.
    pub steps: usize,
    /// The virtual time it took.
    pub time: Duration,
}

impl Report {
    /// All was as it says.
    pub fn passed(&self) -> bool {
        self.failure.is_none()
    }

    /// The error as a compiler would word it; nothing if it passed.
    pub fn text(&self) -> String {
        let failure = self.failure.as_ref();
        failure.map_or_else(String::new, |d| {
            d.render(&self.file, &self.source, &self.transcript)
        })
    }
}

/// Run the script `source` against the TCP of this process; `file` is its name in errors.
pub fn run(file: &str, source: &str, options: &Options) -> Report {
    run_on(file, source, options, &mut stack::in_process)
}

/// Run the script `source` against the stack that `make` makes; `file` is its name in errors.
pub fn run_on(file: &str, source: &str, options: &Options, make: &mut Make<'_>) -> Report {
    let ran = run::run(source, options, make);
    Report {
        file: file.to_owned(),
        source: source.to_owned(),
        failure: ran.result.err(),
        transcript: ran.transcript,
        printed: ran.printed,
        steps: ran.steps,
        time: ran.time,
    }
}
