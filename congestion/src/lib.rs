//! Congestion control and retransmission timeouts for TCP: the interfaces, and the first of
//! the family.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod control;
pub mod cubic;
pub mod dctcp;
pub mod fixed;
pub mod hystart;
pub mod registry;
pub mod reno;
pub mod rto;
pub mod rtt;
pub mod slow_start;
pub mod testing;
pub mod units;
pub mod window;

pub use control::{
    AckSample, CaState, CongestionControl, CongestionEvent, CongestionFactory, EcnNeed, FlowStart,
    FlowView, Needs, Spurious,
};
pub use cubic::{Cubic, CubicConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use fixed::Fixed;
pub use registry::{CongestionRegistry, LookupError, RtoRegistry};
pub use reno::Reno;
pub use rto::{RtoContext, RtoFactory, RtoPolicy, StandardRto};
pub use rtt::RttEstimator;
pub use slow_start::SlowStart;
pub use units::{ByteCount, Duration, Instant, Rate};
