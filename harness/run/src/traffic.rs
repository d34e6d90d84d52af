//! Traffic: what the hosts of an experiment send each other.
//!
//! A kind of traffic is a file: its knobs, and the [`Role`]s that it gives to hosts. A role is a
//! part of the application of one host: it opens and accepts connections of its own, and hears of
//! no others, so that several kinds share hosts and network. Kinds have names in [`TrafficKinds`];
//! users add theirs.

mod alarms;
mod all_to_all;
mod arrivals;
mod bulk;
mod choose;
mod connections;
mod error;
mod fan_out;
mod host;
mod kind;
mod log;
mod messages;
mod node_mesh;
mod on_off;
mod opening;
mod placement;
mod port;
mod receiver;
#[cfg(test)]
mod rig;
mod ring;
mod role;
mod rpc;
mod size;
mod standard;
mod synchronised_read;
mod writes;

pub use alarms::Alarms;
pub use all_to_all::AllToAll;
pub use arrivals::{Arrivals, Pause, exponential, neg_ln};
pub use bulk::{Bulk, Pairs};
pub use choose::Skew;
pub(crate) use connections::listens_on;
pub use connections::{Broken, Family, Opened, Opener};
pub use error::TrafficError;
pub use fan_out::{FanOut, Offered, Recorded};
pub use host::HostApp;
pub use kind::{Traffic, TrafficKind, TrafficKinds};
pub use log::{AppEvent, AppSpan, Gauge, Log, Process, SpanKind, Transfer};
pub use messages::{Channels, Counts, Messenger, Shared};
pub use node_mesh::NodeMesh;
pub use on_off::OnOff;
#[doc(hidden)]
pub use placement::Ends;
pub use placement::Placement;
pub use port::{BusyLimit, Writers};
pub use receiver::Receiver;
pub use ring::{Operation, Ring, RingRecord};
pub use role::{Io, Role, RoleEvent};
pub use rpc::{NoDelay, Rpc};
pub use size::{CdfError, Mean, SizeCdf, SizeDistribution};
pub use synchronised_read::{AnswerTimes, AskOrder, SynchronisedRead};
pub use writes::WritePattern;
