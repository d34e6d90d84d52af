//! The sender's side of reliability and congestion control: what is outstanding, what is lost,
//! and how much may leave now.
//!
//! [`Sender`] ties the parts together: the [`Scoreboard`] knows what was sent, the
//! [`LossDetector`] which of it is lost, [`prr`] how fast the window is given up, `spurious`
//! whether that was right, and the congestion control and RTO policy what the window and the
//! timeout are.

mod ack;
mod clean;
mod count_packets;
pub mod detector;
pub mod dup_thresh;
mod episode;
mod mtu_probe;
mod next;
mod opening;
mod pace;
mod pacer;
#[doc(hidden)]
pub mod prr;
pub mod rack;
mod rare;
mod rate;
mod reduction;
pub mod scoreboard;
mod sender;
mod spurious;
mod stats;
mod timers;
pub mod tlp;
mod undo;
mod unsent;
mod validate;
mod validation;

pub use ack::AckInput;
pub(crate) use count_packets::Grant;
pub use detector::{DetectorFactory, LossDetector};
pub use mtu_probe::ProbeFate;
pub use next::NextSegment;
pub use scoreboard::{AbsSeq, Scoreboard, SentSegment};
pub use sender::{Sender, SenderPolicy};
pub use stats::SenderStats;
