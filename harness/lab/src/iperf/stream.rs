//! The data connections of a test, on our end.

use super::{StreamResults, stream_id};
use narrows::buffer::Bytes;
use narrows::driver::tokio::{Stack, TcpStream};
use narrows::{Duration, Instant};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Which way the data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Way {
    Send,
    Receive,
}

/// What all streams of a test have in common.
#[derive(Clone, Debug)]
pub(super) struct Work {
    pub(super) stack: Stack,
    /// Bytes written in one go.
    pub(super) block: usize,
    /// Bits per second of each stream; zero: as many as go.
    pub(super) rate: u64,
    /// Turns true when it is over.
    pub(super) over: watch::Receiver<bool>,
    /// Bytes of all streams that send, and the most that they may send.
    pub(super) total: Arc<AtomicU64>,
    pub(super) limit: Option<u64>,
}

/// A data connection at work.
#[derive(Debug)]
pub(super) struct Worker {
    pub(super) way: Way,
    id: u32,
    bytes: Arc<AtomicU64>,
    /// What had been moved when it began to count.
    omitted: u64,
    retransmits: u64,
    task: JoinHandle<TcpStream>,
    /// When it is over.
    stream: Option<TcpStream>,
}

impl Worker {
    /// Start the `n`th connection.
    pub(super) fn start(n: usize, way: Way, stream: TcpStream, work: Work) -> Self {
        let bytes = Arc::new(AtomicU64::new(0));
        let counted = bytes.clone();
        let task = tokio::spawn(async move {
            let mut stream = stream;
            let mut over = work.over.clone();
            tokio::select! {
                () = run(way, &mut stream, &work, &counted) => {}
                _ = over.wait_for(|over| *over) => {}
            }
            stream
        });
        Self {
            way,
            id: stream_id(n),
            bytes,
            omitted: 0,
            retransmits: 0,
            task,
            stream: None,
        }
    }

    /// Forget the bytes that have been counted so far.
    pub(super) fn begin_to_count(&mut self) {
        self.omitted = self.bytes.load(Ordering::Relaxed);
    }

    /// It is over: see what the connection knows.
    pub(super) async fn stop(&mut self) {
        if let Ok(stream) = (&mut self.task).await {
            let info = stream.info();
            self.retransmits = info.map_or(0, |info| info.tcpi_total_retrans.into());
            self.stream = Some(stream);
        }
    }

    /// Let go of a connection that has sent: its peer may wait for the end of a block.
    pub(super) fn close_if_sender(&mut self) {
        if self.way == Way::Send {
            self.stream = None;
        }
    }

    /// Bytes moved.
    pub(super) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed) - self.omitted
    }

    /// Segments sent again, from the connection's beginning.
    pub(super) fn retransmits(&self) -> u64 {
        self.retransmits
    }

    /// For the other end.
    pub(super) fn results(&self, seconds: f64) -> StreamResults {
        StreamResults {
            id: self.id,
            bytes: self.bytes(),
            retransmits: match self.way {
                Way::Send => self.retransmits as i64,
                Way::Receive => -1,
            },
            end_time: seconds,
            ..StreamResults::default()
        }
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn run(way: Way, stream: &mut TcpStream, work: &Work, bytes: &AtomicU64) {
    let outcome = match way {
        Way::Send => send(stream, work, bytes).await,
        Way::Receive => receive(stream, bytes).await,
    };
    // That a connection ends before the test is told by the control connection.
    let _ = outcome;
}

/// Taken over at a time: a few buffers of the device's.
const TAKEN: usize = 256 << 10;

async fn receive(stream: &mut TcpStream, bytes: &AtomicU64) -> std::io::Result<()> {
    let mut chunks = Vec::new();
    loop {
        match stream.read_chunks(&mut chunks, TAKEN).await? {
            0 => return Ok(()),
            n => bytes.fetch_add(n as u64, Ordering::Relaxed),
        };
        chunks.clear();
    }
}

async fn send(stream: &mut TcpStream, work: &Work, bytes: &AtomicU64) -> std::io::Result<()> {
    // Not all the same, so that nothing on the way can make less of it.
    let block: Bytes = (0..work.block).map(|i| (i * 7 + (i >> 8)) as u8).collect();
    let begin = work.stack.clock().now();
    loop {
        let mut len = block.len();
        if let Some(limit) = work.limit {
            // Reserved before it is written: the sum is exact.
            let before = work.total.fetch_add(len as u64, Ordering::Relaxed);
            len = limit.saturating_sub(before).min(len as u64) as usize;
            if len == 0 {
                return Ok(());
            }
        }
        let mut rest = block.slice(..len);
        while !rest.is_empty() {
            let n = stream.write_chunk(&mut rest).await?;
            bytes.fetch_add(n as u64, Ordering::Relaxed);
        }
        pace(work, begin, bytes.load(Ordering::Relaxed)).await;
    }
}

/// Wait until as many `bytes` are due by the rate.
async fn pace(work: &Work, begin: Instant, bytes: u64) {
    if work.rate == 0 {
        return;
    }
    let nanos = u128::from(bytes) * 8_000_000_000 / u128::from(work.rate);
    let due = begin + Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX));
    let early = due.since(work.stack.clock().now());
    if !early.is_zero() {
        tokio::time::sleep(early.into()).await;
    }
}
