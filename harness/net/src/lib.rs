//! A deterministic simulated datacenter network for the narrows TCP.
//!
//! - [`sim`] is the discrete-event core: time in picoseconds, the event queue, timers, random
//!   streams.
//! - [`net`] is the network: NICs, links, switch ports, queue management, impairments,
//!   topologies. Neither knows TCP.
//! - [`host`] puts the TCP of [`narrows`], unchanged, on a simulated host.
//!
//! The same specification and seed give the same run, bit for bit, on any machine.

pub mod host;
pub mod net;
pub mod sim;

pub use narrows_congestion::near_match;
