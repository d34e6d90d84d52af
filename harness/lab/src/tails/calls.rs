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

/// One call after the other.
async fn ask<S: Stream>(
    mut stream: S,
    (size, bytes): (usize, usize),
    (from, until): (Instant, Instant),
    counted: fn(&S) -> io::Result<Counts>,
) -> io::Result<Calls> {
    let mut took = Vec::new();
    let mut request = vec![b'?'; bytes];
    request[..LENGTH].copy_from_slice(&(bytes as u64).to_be_bytes());
    let mut reply = [0; REPLY];
    let mut before = None;
    loop {
        let began = Instant::now();
        if began >= from && before.is_none() {
            before = Some(counted(&stream)?);
        }
        let call = async {
            stream.write_all(&request).await?;
            stream.read_exact(&mut reply).await
        };
        match time::timeout_at(until, call).await {
            Err(_) => break,
            Ok(called) => drop(called?),
        }
        if began >= from {
            took.push(began.elapsed());
        }
    }
    let after = counted(&stream)?;
    Ok(Calls {
        size,
        took,
        counts: after - before.unwrap_or(after),
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
