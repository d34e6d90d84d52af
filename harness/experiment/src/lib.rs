//! Experiments on the simulated network of [`narrows_net`], as data.
//!
//! - [`builder`] builds an experiment in Rust, [`study`] runs all of it and reads its results;
//!   [`mod@file`] reads one from TOML, [`results`] keeps it in a folder.
//! - [`registry`] has everything that an experiment can name: a user's own topology, traffic,
//!   probe, metric or congestion control is one file and one registration there. See
//!   `docs/EXPERIMENTS.md`, and `examples/own_experiment`.
//! - [`scenario`] has the incast and the flows over one bottleneck, their sweeps and their runs.
//! - [`values`] reads quantities as people write them: `256KiB`, `1Gb/s`, `64p`.
//!
//! # One run
//!
//! ```
//! use narrows_experiment::scenario::incast::Incast;
//! use narrows_experiment::scenario::{IncastRunner, IncastSpec, Outcome, RunContext};
//!
//! let mut spec = IncastSpec { servers: 8, ..IncastSpec::default() };
//! spec.tcp.congestion = "dctcp".to_owned();
//! spec.tcp.rto = "1ms".to_owned();
//! let run = Incast::default().run(&spec, RunContext::default())?;
//! assert_eq!(run.outcome, Outcome::Completed);
//! assert!(run.goodput > narrows::Rate::from_mbps(800));
//! // The same spec gives the same numbers, bit for bit.
//! assert_eq!(run, Incast::default().run(&spec, RunContext::default())?);
//! # Ok::<(), narrows_experiment::scenario::ScenarioError>(())
//! ```

pub mod builder;
pub mod execute;
pub mod file;
pub mod knob;
pub mod metric;
pub mod model;
pub mod output_path;
pub mod plan;
pub mod polling;
pub mod probe;
pub mod registry;
pub mod results;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod shipped;
pub mod stats;
pub mod study;
pub mod summary;
pub mod traffic;
pub mod values;
pub mod version;

pub use narrows;
pub use narrows_net::{host, net, sim};

/// The guide: its code is run as printed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EXPERIMENTS.md")]
struct Guide;
