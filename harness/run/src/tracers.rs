//! Several that listen to the connections of a host, as one.

use narrows::Instant;
use narrows::endpoint::Tracer;
use narrows::trace::{TraceEvent, TraceSink};

/// Those of `tracers` as one; none of none.
pub(crate) fn all(mut tracers: Vec<Tracer>) -> Option<Tracer> {
    if tracers.len() < 2 {
        return tracers.pop();
    }
    Some(Box::new(move |now, conn, tuple| {
        let sinks = tracers.iter_mut().filter_map(|t| t(now, conn, tuple));
        let sinks: Vec<_> = sinks.collect();
        (!sinks.is_empty()).then(|| Box::new(Sinks(sinks)) as Box<dyn TraceSink>)
    }))
}

struct Sinks(Vec<Box<dyn TraceSink>>);

impl TraceSink for Sinks {
    fn event(&mut self, now: Instant, event: &TraceEvent) {
        let held = matches!(event, TraceEvent::Held(_));
        for sink in &mut self.0 {
            if !held || sink.wants_held() {
                sink.event(now, event);
            }
        }
    }

    fn wants_held(&self) -> bool {
        self.0.iter().any(|sink| sink.wants_held())
    }
}
