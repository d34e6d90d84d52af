//! Experiments on the simulated network of [`narrows_net`], as data.
//!
//! - [`scenario`] has the incast and the flows over one bottleneck, their sweeps and their runs.
//! - [`values`] reads quantities as people write them: `256KiB`, `1Gb/s`, `64p`.

pub mod execute;
pub mod file;
pub mod knob;
pub mod metric;
pub mod model;
pub mod plan;
pub mod probe;
pub mod registry;
pub mod results;
pub mod run;
pub mod scenario;
pub mod schema;
pub mod shipped;
pub mod stats;
pub mod summary;
pub mod traffic;
pub mod values;
pub mod version;

use narrows_net::{host, net, sim};
