//! Experiments on the simulated network of [`narrows_net`], as data.
//!
//! - [`builder`] builds an experiment in Rust, [`study`] runs all of it and reads its results;
//!   [`mod@file`] reads one from TOML, [`results`] keeps it in a folder.
//! - [`registry`] has everything that an experiment can name: a user's own topology, traffic,
//!   probe, metric or congestion control is one file and one registration there. See
//!   `docs/EXPERIMENTS.md`, and `examples/own_experiment`.
//! - [`scenario`] has the words of experiments, and a run of synchronised reads in those of an incast.
//! - [`values`] reads quantities as people write them: `256KiB`, `1Gb/s`, `64p`.
//!
//! # One run
//!
//! ```
//! use narrows_experiment::model::Experiment;
//! use narrows_experiment::registry::Registry;
//! use narrows_experiment::scenario::{IncastRun, Outcome, RunContext};
//!
//! let registry = Registry::default();
//! let incast = Experiment::shipped(&registry, "incast")
//!     .set("servers", 8)
//!     .set("cc", "dctcp")
//!     .set("rto", "1ms")
//!     .build()?;
//! let run = incast.run(&registry, RunContext::default())?;
//! let found = IncastRun::from(&run);
//! assert_eq!(found.outcome, Outcome::Completed);
//! assert!(found.goodput > narrows::Rate::from_mbps(800));
//! // The same experiment gives the same numbers, bit for bit.
//! assert_eq!(run, incast.run(&registry, RunContext::default())?);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

pub mod builder;
pub mod execute;
pub mod file;
pub mod model;
pub mod output_path;
pub mod plan;
pub mod registry;
pub mod results;
pub mod run;
pub mod scenario;
pub mod shipped;
pub mod study;
pub mod summary;
pub mod traffic;
pub mod version;

pub use narrows;
pub use narrows_net::{host, net, sim};
pub(crate) use narrows_run::{invalid, unknown};
pub use narrows_run::{kinds, knob, metric, polling, probe, stats, values};

/// The guide: its code is run as printed.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/EXPERIMENTS.md")]
struct Guide;
