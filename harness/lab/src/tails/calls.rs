//! The applications of all hosts: one call after the other on each connection, and what answers them.

use super::{Counts, TailsRun, TailsSpec};
use std::io;
use std::sync::mpsc::Sender;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::{self, Instant};

const REPLY: usize = 100;
const CHUNK: usize = 64 << 10;
/// The bytes of a request that say how long it is.
const LENGTH: usize = 8;

/// A connection.
pub(super) trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}
impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}

/// What a connection gave.
struct Calls {
    size: usize,
    took: Vec<Duration>,
    counts: Counts,
}

/// Has clients call over connections, each of which makes the calls at its place in [`TailsSpec::calls`].
/// `counted` has what the client of a connection has counted of it; `begins` is told when it is measured from.
pub(super) async fn measure<S: Stream>(
    streams: Vec<(usize, S)>,
    spec: &TailsSpec,
    counted: fn(&S) -> io::Result<Counts>,
    begins: &Sender<std::time::Instant>,
) -> io::Result<TailsRun> {
    let from = Instant::now() + spec.warm_up;
    let until = from + spec.span;
    let calling = streams.into_iter().map(|(nth, stream)| {
        let bytes = spec.calls[nth].0.as_usize().max(LENGTH);
        tokio::spawn(ask(stream, (nth, bytes), (from, until), counted))
    });
    let calling: Vec<JoinHandle<io::Result<Calls>>> = calling.collect();
    // Who looks may have failed, and says so.
    let _ = begins.send(from.into_std());
    let mut run = TailsRun {
        took: vec![Vec::new(); spec.calls.len()],
        ..TailsRun::default()
    };
    for connection in calling {
        let calls = connection.await.map_err(io::Error::other)??;
        run.took[calls.size].extend(calls.took);
        run.counts = run.counts + calls.counts;
    }
    Ok(run)
}

/// How far a call is: it can be left at any await, and gone on with.
struct Call {
    began: Instant,
    sent: usize,
    heard: usize,
}

impl Call {
    fn begin() -> Self {
        Self {
            began: Instant::now(),
            sent: 0,
            heard: 0,
        }
    }

    /// Until all of the reply is there.
    async fn go_on<S: Stream>(&mut self, stream: &mut S, request: &[u8]) -> io::Result<()> {
        while self.sent < request.len() {
            match stream.write(&request[self.sent..]).await? {
                0 => return Err(io::ErrorKind::WriteZero.into()),
                n => self.sent += n,
            }
        }
        let mut reply = [0; REPLY];
        while self.heard < REPLY {
            match stream.read(&mut reply[self.heard..]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => self.heard += n,
            }
        }
        Ok(())
    }
}

/// One call after the other. What the client has counted is read at both ends of the span, whatever call is
/// under way then.
async fn ask<S: Stream>(
    mut stream: S,
    (size, bytes): (usize, usize),
    (from, until): (Instant, Instant),
    counted: fn(&S) -> io::Result<Counts>,
) -> io::Result<Calls> {
    let mut request = vec![b'?'; bytes];
    request[..LENGTH].copy_from_slice(&(bytes as u64).to_be_bytes());
    let mut call = Call::begin();
    while let Ok(ended) = time::timeout_at(from, call.go_on(&mut stream, &request)).await {
        ended?;
        call = Call::begin();
    }
    let before = counted(&stream)?;
    let mut took = Vec::new();
    while let Ok(ended) = time::timeout_at(until, call.go_on(&mut stream, &request)).await {
        ended?;
        if call.began >= from {
            took.push(call.began.elapsed());
        }
        call = Call::begin();
    }
    Ok(Calls {
        size,
        took,
        counts: counted(&stream)? - before,
    })
}

/// Until the client has ended.
pub(super) async fn answer(mut stream: impl Stream) -> io::Result<()> {
    let mut data = vec![0; CHUNK];
    loop {
        let mut length = [0; LENGTH];
        stream.read_exact(&mut length).await?;
        let mut left = u64::from_be_bytes(length).saturating_sub(LENGTH as u64);
        while left > 0 {
            let most = usize::try_from(left).unwrap_or(CHUNK).min(CHUNK);
            match stream.read(&mut data[..most]).await? {
                0 => return Ok(()),
                n => left -= n as u64,
            }
        }
        stream.write_all(&[b'.'; REPLY]).await?;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows::{ByteCount, Rate};
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::mpsc;
    use tokio::io::{DuplexStream, duplex};

    const MS: Duration = Duration::from_millis(1);

    /// Calls of 4 kB over a connection, measured from 20 ms to 50 ms.
    async fn measured(
        stream: DuplexStream,
        counted: fn(&DuplexStream) -> io::Result<Counts>,
    ) -> TailsRun {
        let spec = TailsSpec {
            rate: Rate::from_mbps(1),
            mark_above: 1,
            clients: 1,
            calls: vec![(ByteCount::new(4_000), 1)],
            warm_up: 20 * MS,
            span: 30 * MS,
        };
        let (begins, _told) = mpsc::channel();
        let run = measure(vec![(0, stream)], &spec, counted, &begins).await;
        run.unwrap()
    }

    /// What has counted one timeout more each time that it is read.
    fn once_more(read: &AtomicU64) -> Counts {
        Counts {
            timeouts: read.fetch_add(1, Ordering::Relaxed),
            ..Counts::default()
        }
    }

    #[tokio::test(start_paused = true)]
    async fn counters_are_read_at_both_ends_of_the_span_even_if_no_call_ends() {
        static READ: AtomicU64 = AtomicU64::new(0);
        // Nobody reads at the other end, and there is room for a part of the request.
        let (stream, _silent) = duplex(1_000);
        let run = measured(stream, |_| Ok(once_more(&READ))).await;
        assert_eq!((run.took[0].len(), run.counts.timeouts), (0, 1));
    }

    #[tokio::test(start_paused = true)]
    async fn a_call_under_way_when_the_span_begins_goes_on_and_is_not_counted() {
        static READ: AtomicU64 = AtomicU64::new(0);
        let (stream, mut server) = duplex(1_000);
        // Each reply comes 8 ms after its request: calls end after 8, 16, 24, 32, 40 and 48 ms, three of
        // which began within the span.
        tokio::spawn(async move {
            let mut request = [0; 4_000];
            while server.read_exact(&mut request).await.is_ok() {
                assert_eq!(request[..LENGTH], 4_000_u64.to_be_bytes());
                time::sleep(8 * MS).await;
                server.write_all(&[b'.'; REPLY]).await.unwrap();
            }
        });
        let run = measured(stream, |_| Ok(once_more(&READ))).await;
        assert_eq!(run.took, [vec![8 * MS; 3]]);
        assert_eq!(run.counts.timeouts, 1);
    }
}
