//! Experiments on the simulated network of [`narrows_net`], as data.
//!
//! - [`scenario`] has the incast and the flows over one bottleneck, their sweeps and their runs.
//! - [`values`] reads quantities as people write them: `256KiB`, `1Gb/s`, `64p`.

pub mod knob;
pub mod scenario;
pub mod traffic;
pub mod values;
pub mod version;

use narrows_net::{host, net, sim};
