//! The trace events of a connection as a stream.

use crate::trace::{TraceEvent, TraceSink};
use narrows_congestion::Instant;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::{Context, Poll};
use tokio::sync::mpsc;

/// Receives what a connection decides; see [`TcpStream::trace`](super::TcpStream::trace).
#[derive(Debug)]
pub struct TraceStream {
    events: mpsc::Receiver<(Instant, TraceEvent)>,
    lost: Arc<AtomicU64>,
}

impl TraceStream {
    /// The next event and when it was, by [`Clock`](crate::driver::Clock); `None` when the
    /// connection is gone.
    pub async fn recv(&mut self) -> Option<(Instant, TraceEvent)> {
        self.events.recv().await
    }

    /// As [`recv`](Self::recv).
    pub fn poll_recv(&mut self, cx: &mut Context<'_>) -> Poll<Option<(Instant, TraceEvent)>> {
        self.events.poll_recv(cx)
    }

    /// The next event, if there is one.
    pub fn try_recv(&mut self) -> Option<(Instant, TraceEvent)> {
        self.events.try_recv().ok()
    }

    /// How many events were dropped because nobody received them.
    pub fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

/// The connection's end of it.
pub(super) struct Sink {
    events: mpsc::Sender<(Instant, TraceEvent)>,
    lost: Arc<AtomicU64>,
}

impl TraceSink for Sink {
    fn event(&mut self, now: Instant, event: &TraceEvent) {
        if self.events.try_send((now, event.clone())).is_err() {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}

pub(super) fn channel(capacity: usize) -> (Sink, TraceStream) {
    let (sender, events) = mpsc::channel(capacity.max(1));
    let lost = Arc::new(AtomicU64::new(0));
    let sink = Sink {
        events: sender,
        lost: lost.clone(),
    };
    (sink, TraceStream { events, lost })
}
