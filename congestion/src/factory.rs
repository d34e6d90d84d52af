//! Factories: what makes an algorithm or a policy for each connection.

use crate::any::{AnyCongestion, AnyRto};
use crate::control::CongestionControl;
use crate::flow::FlowStart;
use crate::rto::{RtoPolicy, StandardRto};
use alloc::boxed::Box;
use alloc::sync::Arc;

/// Makes one instance of an algorithm for each connection. Closures are factories:
///
/// ```
/// use narrows_congestion::{CongestionFactory, FlowStart, reno::Reno};
/// let factory: &dyn CongestionFactory = &|start: &FlowStart| Reno::new(start);
/// ```
pub trait CongestionFactory: Send + Sync {
    /// A fresh instance.
    fn build(&self, start: &FlowStart) -> Box<dyn CongestionControl>;

    /// The same, without a box if it is of this crate.
    fn build_any(&self, start: &FlowStart) -> AnyCongestion {
        AnyCongestion::Other(self.build(start))
    }
}

impl<F, C> CongestionFactory for F
where
    F: Fn(&FlowStart) -> C + Send + Sync,
    C: CongestionControl + 'static,
{
    fn build(&self, start: &FlowStart) -> Box<dyn CongestionControl> {
        Box::new(self(start))
    }
    fn build_any(&self, start: &FlowStart) -> AnyCongestion {
        AnyCongestion::of(self(start))
    }
}

/// Makes one policy for each connection. Closures are factories.
pub trait RtoFactory: Send + Sync {
    /// A fresh instance.
    fn build(&self) -> Box<dyn RtoPolicy>;

    /// The same, without a box of its own if it is of this crate.
    fn build_any(&self) -> AnyRto {
        AnyRto::Other(self.build())
    }
}

impl<F, R> RtoFactory for F
where
    F: Fn() -> R + Send + Sync,
    R: RtoPolicy + 'static,
{
    fn build(&self) -> Box<dyn RtoPolicy> {
        Box::new(self())
    }
    fn build_any(&self) -> AnyRto {
        AnyRto::of(self())
    }
}

impl StandardRto {
    /// A factory whose connections all use one and the same policy.
    pub fn shared(self) -> Arc<dyn RtoFactory> {
        let policy = Arc::new(self);
        Arc::new(move || Arc::clone(&policy))
    }
}
