//! The small services of old: echo (RFC 862), discard (RFC 863), character generator (RFC 864).

use super::LiveError;
use super::crowd::Crowd;
use super::host::LiveHost;
use narrows::driver::tokio::{TcpListener, TcpStream};
use std::future::{Future, poll_fn};
use std::io;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::sync::Semaphore;

/// Bytes read or written in one go.
const CHUNK: usize = 128 << 10;

/// What is done with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Service {
    /// Send back what comes.
    Echo,
    /// Forget what comes.
    Discard,
    /// Send characters until the peer has enough.
    Chargen,
}

impl Service {
    /// The port that is his by tradition.
    pub const fn port(self) -> u16 {
        match self {
            Self::Echo => 7,
            Self::Discard => 9,
            Self::Chargen => 19,
        }
    }

    /// The name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Echo => "echo",
            Self::Discard => "discard",
            Self::Chargen => "chargen",
        }
    }

    /// Serve one connection to its end.
    async fn run(self, stream: TcpStream) -> io::Result<()> {
        let (mut read, mut write) = stream.into_split();
        match self {
            Self::Echo => {
                let mut read = BufReader::with_capacity(CHUNK, read);
                tokio::io::copy_buf(&mut read, &mut write).await?;
                write.shutdown().await
            }
            Self::Discard => {
                forget(&mut read).await?;
                write.shutdown().await
            }
            Self::Chargen => {
                let text = characters();
                let send = async {
                    loop {
                        write.write_all(&text).await?;
                    }
                };
                // A peer that says nothing more may still want to read.
                let hear = async {
                    forget(&mut read).await?;
                    std::future::pending::<io::Result<()>>().await
                };
                tokio::select! {
                    ended = send => ended,
                    ended = hear => ended,
                }
            }
        }
    }
}

async fn forget(read: &mut (impl AsyncReadExt + Unpin)) -> io::Result<()> {
    let mut buf = vec![0; CHUNK];
    while read.read(&mut buf).await? > 0 {}
    Ok(())
}

/// The 95 lines of RFC 864, several times: 72 characters each, every line begins one later.
fn characters() -> Vec<u8> {
    let printable: Vec<u8> = (b' '..=b'~').collect();
    let mut round = Vec::new();
    for first in 0..printable.len() {
        round.extend(printable.iter().cycle().skip(first).take(72));
        round.extend(b"\r\n");
    }
    round.repeat(CHUNK / round.len())
}

/// Listen on `port` of each of the host's addresses.
///
/// # Errors
/// When the port is taken.
pub async fn listen(host: &LiveHost, port: u16) -> Result<Vec<TcpListener>, LiveError> {
    let mut listeners = Vec::new();
    for at in host.sockets(port) {
        let listener = TcpListener::bind(host.stack(), at).await;
        listeners.push(listener.map_err(|e| LiveError::io(format!("listen on {at}"), e))?);
    }
    Ok(listeners)
}

/// Connections that a service has at a time. Whoever comes then waits until one has ended, in the
/// listener's backlog and then outside.
const CONNECTIONS: usize = 4096;

/// Run `serve` for each connection, as a task, until the stack ends; a bounded number at a time.
/// Counts them in `served`.
///
/// # Errors
/// What ended it.
pub async fn accept_loop<F>(
    listener: TcpListener,
    served: Arc<AtomicU64>,
    serve: impl Fn(TcpStream, SocketAddr) -> F,
) -> io::Result<()>
where
    F: Future<Output = ()> + Send + 'static,
{
    let places = Arc::new(Semaphore::new(CONNECTIONS));
    let crowd = Crowd::default();
    loop {
        let place = places.clone().acquire_owned().await;
        let place = place.map_err(io::Error::other)?;
        let (stream, peer) = listener.accept().await?;
        served.fetch_add(1, Ordering::Relaxed);
        let serving = serve(stream, peer);
        let crowd = crowd.clone();
        tokio::spawn(async move {
            crowd.comes();
            serving.await;
            drop(place);
            crowd.goes().await;
        });
    }
}

/// Serve every connection of `listener`.
///
/// # Errors
/// What ended it.
pub async fn run(
    service: Service,
    listener: TcpListener,
    served: Arc<AtomicU64>,
) -> io::Result<()> {
    accept_loop(listener, served, move |stream, _| async move {
        // An idle peer that is gone must not stay for ever; that one resets is his affair.
        let _ = stream.set_keepalive(Some(narrows::config::Keepalive::default()));
        let _ = service.run(stream).await;
    })
    .await
}

/// A service at work, for as long as the stack is.
pub type Running = Pin<Box<dyn Future<Output = io::Result<()>>>>;

/// Until the first ends; they do so together.
///
/// # Errors
/// What ended it.
pub async fn first_of(mut running: Vec<Running>) -> io::Result<()> {
    poll_fn(|cx| {
        for one in &mut running {
            if let Poll::Ready(ended) = one.as_mut().poll(cx) {
                return Poll::Ready(ended);
            }
        }
        Poll::Pending
    })
    .await
}

/// How long what was written may take to leave when a server stops.
pub const GRACE: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn characters_as_in_rfc_864() {
        let text = characters();
        assert_eq!(text.len() % (95 * 74), 0);
        let lines: Vec<&[u8]> = text.chunks(74).collect();
        assert!(lines[0].starts_with(b" !\"#$%&'()*+,-./0123"));
        assert!(lines[0].ends_with(b"efg\r\n"));
        assert!(lines[1].starts_with(b"!\"#"));
        assert!(lines[94].starts_with(b"~ !"));
        // It goes on with the first line.
        assert_eq!(lines[95], lines[0]);
    }
}
