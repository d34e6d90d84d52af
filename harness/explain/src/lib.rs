//! Why was a connection slow? From a capture, every gap found, named and summed.
//!
//! A capture comes in packet by packet ([`capture::read`] reads files), an [`Analyzer`] rebuilds
//! what the sender of each direction must have known, and gives each [`Gap`] in which a connection
//! with something to do did nothing, with its [`Cause`], and each [`Connection`] when it is over.
//! There is no clock and no I/O in the analysis.
//!
//! ```no_run
//! use narrows_explain::{Analyzer, Config, Finding, capture};
//!
//! let mut analyzer = Analyzer::new(Config::default());
//! let file = std::fs::File::open("capture.pcapng")?;
//! capture::read(file, |frame, _| analyzer.handle_packet(frame))?;
//! analyzer.finish();
//! while let Some(finding) = analyzer.poll_finding() {
//!     if let Finding::Gap(gap) = finding {
//!         println!("{}: {} ({}): {}", gap.length(), gap.cause, gap.confidence, gap.because());
//!     }
//! }
//! # Ok::<_, Box<dyn std::error::Error>>(())
//! ```

pub mod advice;
mod analyzer;
mod busy;
pub mod capture;
mod classify;
mod connection;
mod ends;
mod explanation;
mod gap;
mod half;
mod ledger;
pub mod link;
pub mod rounds;
pub mod score;
pub mod segment;
#[cfg(feature = "simulate")]
pub mod simulated;
pub mod truth;
pub mod two;

pub use analyzer::{Analyzer, Config, Finding, Seen};
pub use connection::{Closed, Connection, Opened, Point, PointKind};
pub use explanation::{Explanation, Input, lost_time, main_cause};
pub use gap::{Cause, Confidence, Evidence, Gap, Side, TAPO, Vantage};
pub use half::{Counts, RttEstimate, Sighting};
pub use ledger::{LEDGER, Ledger, Sum, pair};
