//! A retransmission timeout of one's own: written in under 50 lines, checked by the conformance
//! kit, and run by name through the whole `narrows` command.
//!
//! ```text
//! cargo run --release --example own_rto -- list
//! cargo run --release --example own_rto -- incast --cc reno --rto linux,fine,peak --servers 1-64+7
//! ```
//!
//! `peak` remembers the longest round trip and lets the memory fade, after the idea of the
//! Peak-Hopper timer (Ekstroem and Ludwig, INFOCOM 2004): a queue that was full a moment ago may
//! be full again. RFC 6298 forgets such a peak with the variance, within a few samples.

use narrows_congestion::{Duration, Instant, RtoContext, RtoPolicy, RttEstimator};

/// A peak fades by 1/64 of its distance with each sample.
const FADE: u64 = 64;

#[derive(Debug, Default)]
pub(crate) struct Peak {
    peak: Duration,
}

impl RtoPolicy for Peak {
    fn name(&self) -> &'static str {
        "peak"
    }
    fn on_rtt_sample(&mut self, rtt: Duration, _: Instant) {
        let faded = self.peak - self.peak.saturating_sub(rtt) / FADE;
        self.peak = faded.max(rtt);
    }
    fn rto(&self, rtt: &RttEstimator, ctx: &RtoContext) -> Duration {
        let rto = match rtt.srtt() {
            // RFC 6298 rule 2.1.
            None => Duration::from_secs(1),
            Some(srtt) => self.peak.mul_ratio(5, 4).max(srtt) + Duration::from_micros(10),
        };
        // RFC 6298 rules 5.5 and 2.5.
        rto.saturating_shl(ctx.backoff).min(Duration::from_secs(60))
    }
}

// That was the policy. From here on: the command that knows it.

use narrows_cli::{App, catalog::Catalog};
use narrows_congestion::testing;
use std::process::ExitCode;

/// The `narrows` command with one more name.
pub(crate) fn app() -> App {
    let mut catalog = Catalog::default();
    catalog.registry.rto_mut().register(
        "peak",
        "5/4 of the longest round trip, which fades slowly",
        Peak::default,
    );
    App::new(catalog)
}

fn main() -> ExitCode {
    if let Err(violations) = testing::rto_conformance(&Peak::default) {
        for violation in violations {
            eprintln!("{violation}");
        }
        return ExitCode::FAILURE;
    }
    app().main()
}
