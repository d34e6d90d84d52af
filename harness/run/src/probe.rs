//! Probes: what is looked at while an experiment runs.
//!
//! A kind of probe is a file: its knobs, and the [`Instrument`]s that it puts into a run. An
//! instrument looks at the run at instants that it names and changes nothing. Kinds have names in
//! [`ProbeKinds`]; users add theirs.

mod at_host;
mod counters;
mod flow;
mod instrument;
mod kind;
mod pause;
mod queue;
mod rate;
mod reading;
mod rtt;
mod site;
mod standard;
mod tier;
mod time_sequence;
mod window;

pub use counters::CountersProbe;
pub use flow::FlowProbe;
pub use instrument::{Hears, Instrument, Listener, PacketListener, View};
pub use kind::{Probe, ProbeKind, ProbeKinds};
pub use pause::PauseProbe;
pub use queue::QueueProbe;
pub use rate::RateProbe;
pub use reading::{Reading, Series, Table};
pub use rtt::RttProbe;
pub use site::Site;
pub use tier::TierProbe;
pub use time_sequence::TimeSequenceProbe;
pub use window::WindowProbe;
