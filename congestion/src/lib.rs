//! Congestion control and retransmission timeouts for TCP: the interfaces, and the first of
//! the family.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod control;
pub mod rto;
pub mod rtt;
pub mod units;

pub use control::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionFactory, EcnNeed, FlowStart,
    FlowView, Needs, Spurious,
};
pub use rto::{RtoContext, RtoFactory, RtoPolicy};
pub use rtt::RttEstimator;
pub use units::{ByteCount, Duration, Instant, Rate};
