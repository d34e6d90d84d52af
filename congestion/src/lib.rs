//! Congestion control and retransmission timeouts for TCP: the interfaces, the algorithms, and a
//! kit that tests those of others.
//!
//! - [`CongestionControl`] says how much may be in flight. [`Reno`] (RFC 5681), [`Cubic`]
//!   (RFC 9438), [`Dctcp`] (RFC 8257) and [`Fixed`] implement it, the first three with standard
//!   slow start, hybrid slow start (CUBIC's default) or HyStart++ (RFC 9406).
//! - [`RtoPolicy`] says how long to wait. [`StandardRto`] is RFC 6298 with every bound a value;
//!   [`rto::presets`] are the values of papers and systems.
//! - [`LocalDropPolicy`] says what a segment means that the host's own device refused.
//! - [`registry`] finds them by name, [`testing`] checks that they keep their promises.
//!
//! Facts come in as arguments, time among them; all arithmetic is in integers with their unit in
//! the type ([`units`]). So the same calls give the same answers on every machine. The crate
//! needs only `alloc` and depends on nothing.
//!
//! # A congestion control of one's own
//!
//! [`window::Window`] has the steps of RFC 5681, so that only what differs is left to write:
//! here, a window that gives up a quarter instead of a half.
//!
//! ```
//! use narrows_congestion::{
//!     AckSample, ByteCount, CongestionControl, CongestionEvent, CongestionRegistry, FlowStart,
//!     FlowView, SlowStart, testing, window::Window,
//! };
//!
//! #[derive(Debug)]
//! struct Gentle {
//!     window: Window,
//!     slow_start: SlowStart,
//! }
//!
//! impl Gentle {
//!     fn new(start: &FlowStart) -> Self {
//!         Self { window: Window::new(start), slow_start: SlowStart::STANDARD }
//!     }
//! }
//!
//! impl CongestionControl for Gentle {
//!     fn name(&self) -> &'static str {
//!         "gentle"
//!     }
//!     fn cwnd(&self) -> ByteCount {
//!         self.window.cwnd()
//!     }
//!     fn ssthresh(&self) -> ByteCount {
//!         self.window.ssthresh()
//!     }
//!     fn on_ack(&mut self, ack: &AckSample, flow: &FlowView<'_>) {
//!         let bytes = self.slow_start.on_ack(&mut self.window, ack, flow);
//!         self.window.congestion_avoidance(bytes, flow.mss);
//!     }
//!     fn on_congestion_event(&mut self, _: CongestionEvent, flow: &FlowView<'_>) {
//!         self.window.reduce(self.window.flight(flow).mul_ratio(3, 4), flow);
//!     }
//!     fn on_rto(&mut self, consecutive: u32, flow: &FlowView<'_>) {
//!         self.window.timeout(consecutive, flow.flight_size / 2, flow);
//!     }
//!     fn window_mut(&mut self) -> Option<&mut Window> {
//!         Some(&mut self.window)
//!     }
//! }
//!
//! testing::assert_conformance(&Gentle::new);
//!
//! let mut registry = CongestionRegistry::standard();
//! registry.register("gentle", "gives up a quarter", Gentle::new);
//! assert!(registry.get("gentle").is_ok());
//! ```
//!
//! # An RTO policy of one's own
//!
//! ```
//! use narrows_congestion::{
//!     Duration, RtoContext, RtoPolicy, RtoRegistry, RttEstimator, testing,
//! };
//!
//! /// Three round-trip times, doubled by each timeout.
//! #[derive(Debug)]
//! struct Triple;
//!
//! impl RtoPolicy for Triple {
//!     fn name(&self) -> &'static str {
//!         "triple"
//!     }
//!     fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
//!         let srtt = rtt.srtt().unwrap_or(Duration::from_millis(300));
//!         let rto = (srtt * 3).max(Duration::from_micros(10));
//!         rto.saturating_shl(ctx.backoff).min(Duration::from_secs(60))
//!     }
//! }
//!
//! testing::assert_rto_conformance(&|| Triple);
//!
//! let mut registry = RtoRegistry::standard();
//! registry.register("triple", "three round-trip times", || Triple);
//! assert!(registry.get("triple").is_ok());
//! ```

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod any;
pub mod control;
pub mod cubic;
pub mod dctcp;
mod ended;
pub mod factory;
pub mod fixed;
pub mod flow;
pub mod hint;
pub mod hybrid;
pub mod hystart;
pub mod local_drop;
pub mod near_match;
pub mod order;

pub mod rarely;
pub mod registry;
pub mod reno;
pub mod rto;
pub mod rtt;
pub mod short;
pub mod slow_start;
pub mod testing;
pub mod units;
pub mod window;

pub use any::{AnyCongestion, AnyRto};
pub use control::{CongestionControl, EcnNeed, Needs, Variable};
pub use cubic::{Cubic, CubicConfig};
pub use dctcp::{Dctcp, DctcpConfig};
pub use factory::{CongestionFactory, RtoFactory};
pub use fixed::Fixed;
pub use flow::{
    AckSample, CaState, CongestionEvent, FlowStart, FlowView, Lower, RateSample, Spurious,
};
pub use local_drop::{LocalDropPolicy, LocalDropRegistry, LocalDropRule};
pub use registry::{CongestionRegistry, LookupError, RtoRegistry};
pub use reno::Reno;
pub use rto::{RtoContext, RtoPolicy, StandardRto};
pub use rtt::RttEstimator;
pub use slow_start::SlowStart;
pub use units::{ByteCount, Duration, Instant, Rate};
