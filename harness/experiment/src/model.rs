//! An experiment as a value: network, hosts, traffic, probes, changes, runs, sweep.
//!
//! Everything in it has a key, [`Experiment::set`] sets it from text and [`Experiment::entries`]
//! lists what is set: files, `--set`, sweeps and the resolved experiment in a folder of results are
//! all made of these two.

pub mod change;
mod entries;
pub mod expect;
pub(crate) mod experiment;
mod knobs;
pub mod link;
pub mod network;
pub mod nic;
mod path;
pub mod pause;
pub mod queue;
pub mod run;
mod set;
pub mod settings;

pub use crate::invalid::Invalid;
pub use change::Change;
pub use entries::{Entry, Value};
pub use expect::{Expect, Show};
pub use experiment::{Experiment, Group, HostSpec, Members, NamedProbe, NamedTraffic, SweepAxis};
pub use link::Link;
pub use network::Network;
pub use nic::{Cpu, Nic};
pub use path::{Path, quoted};
pub use pause::Pause;
pub use queue::Queue;
pub use run::{Clock, Device, Place, Run, Senders};
pub use settings::Settings;
