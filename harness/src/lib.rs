//! The narrows simulated network, its scenarios and its reports.
//!
//! - [`sim`] is the discrete-event core and [`net`] the network: NICs, links, switch ports,
//!   queue management, impairments. Neither knows TCP.
//! - [`host`] puts the TCP of [`narrows`], unchanged, on a simulated host.
//! - [`scenario`] has the experiments and sweeps over their parameters, [`report`] turns results
//!   into tables, sentences, plots and files, and [`cli`] is the `narrows` command over all that.
//!   A program of one's own gets the whole command line for its own algorithms: see [`cli::App`]
//!   and the examples `own_congestion` and `own_rto`.
//!
//! # One run
//!
//! ```
//! use narrows_harness::scenario::incast::Incast;
//! use narrows_harness::scenario::{IncastRunner, IncastSpec, Outcome, RunContext};
//!
//! let mut spec = IncastSpec { servers: 8, ..IncastSpec::default() };
//! spec.tcp.congestion = "dctcp".to_owned();
//! spec.tcp.rto = "1ms".to_owned();
//! let run = Incast::default().run(&spec, RunContext::default())?;
//! assert_eq!(run.outcome, Outcome::Completed);
//! assert!(run.goodput > narrows::Rate::from_mbps(800));
//! // The same spec gives the same numbers, bit for bit.
//! assert_eq!(run, Incast::default().run(&spec, RunContext::default())?);
//! # Ok::<(), narrows_harness::scenario::ScenarioError>(())
//! ```

pub mod cli;
#[cfg(target_os = "linux")]
pub mod live;
pub mod peer;
mod place;
pub mod report;

pub mod validate;

pub use narrows_experiment::{scenario, version};
pub use narrows_net::{host, net, sim};
pub use narrows_script as script;
