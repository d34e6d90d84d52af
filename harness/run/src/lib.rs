//! One run on the simulated network of [`narrows_net`]: what takes part in it, and what comes of it.
//!
//! - [`traffic`] has the kinds of traffic, as roles of hosts; [`probe`] the kinds of probes, as instruments.
//! - [`mod@knob`] is how both, and all sections of an experiment, say what they can be; [`spec`] has words that
//!   several share.
//! - [`parts`] is a run that can begin, [`outcome`] what it gave, [`metric`] what is measured of that.
//!
//! Experiments as data, from which the parts of runs come, are `narrows-experiment`'s, which has all modules of
//! this crate as its own.

pub mod changes;
pub mod context;
pub mod ended;
pub mod error;
pub mod invalid;
pub mod kinds;
pub mod knob;
pub mod metric;
pub mod outcome;
pub mod parts;
pub mod polling;
pub mod probe;
mod simulate;
pub mod spec;
pub mod stats;
mod trace;
mod tracers;
pub mod traffic;
#[doc(hidden)]
pub mod unknown;
pub mod values;
mod watch;

pub use narrows;
pub use narrows_net::{host, net, sim};
