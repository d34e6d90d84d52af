//! The kernel's TCP as the other side.

use super::lab::{KERNEL_THREAD, Net};
use std::io::{self, Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Bytes a call.
pub(crate) const CHUNK: usize = 256 << 10;
const PATIENCE: Duration = Duration::from_secs(10);

/// Bytes that have arrived.
pub(crate) type Counter = Arc<AtomicU64>;

/// Which way the kernel's bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Way {
    /// The kernel sends.
    Sends,
    /// The kernel receives.
    Receives,
}

/// A thread of the kernel's side.
pub(crate) struct Peer {
    stream: TcpStream,
    thread: JoinHandle<io::Result<()>>,
}

impl Peer {
    /// End it.
    pub(crate) fn stop(self) {
        let _ = self.stream.shutdown(Shutdown::Both);
        // How a cut connection ends is no matter.
        let _ = self.thread.join();
    }
}

fn pump(mut stream: TcpStream, way: Way, counter: &Counter) -> io::Result<()> {
    let mut buf = vec![7; CHUNK];
    loop {
        let n = match way {
            Way::Sends => {
                stream.write_all(&buf)?;
                continue;
            }
            Way::Receives => stream.read(&mut buf)?,
        };
        if n == 0 {
            return Ok(());
        }
        counter.fetch_add(n as u64, Ordering::Relaxed);
    }
}

/// Start a connection of `net`'s kernel to `to` and let it run; `counter` counts what it receives.
pub(crate) fn connect(
    net: &Net,
    core: Option<usize>,
    to: SocketAddr,
    way: Way,
    counter: Counter,
) -> io::Result<Peer> {
    let stream = net.run(move || TcpStream::connect_timeout(&to, PATIENCE))?;
    run_as(KERNEL_THREAD, net, core, stream, way, counter)
}

/// The same with a connection that there is, on a thread called `name`.
pub(crate) fn run_as(
    name: &str,
    net: &Net,
    core: Option<usize>,
    stream: TcpStream,
    way: Way,
    counter: Counter,
) -> io::Result<Peer> {
    let own = stream.try_clone()?;
    let thread = net.spawn_at(name, core, move || pump(own, way, &counter));
    Ok(Peer { stream, thread })
}

/// A listener of `net`'s kernel.
pub(crate) fn listen(net: &Net, at: SocketAddr) -> io::Result<TcpListener> {
    net.run(move || TcpListener::bind(at))
}

/// Echo what comes, on a thread.
pub(crate) fn echo(net: &Net, core: Option<usize>, listener: TcpListener) {
    net.spawn_at(KERNEL_THREAD, core, move || {
        let (mut stream, _) = listener.accept()?;
        stream.set_nodelay(true)?;
        let mut buf = [0; 4096];
        loop {
            let n = stream.read(&mut buf)?;
            if n == 0 {
                return Ok(());
            }
            stream.write_all(&buf[..n])?;
        }
    });
}

/// Round trips of 64 bytes to an echo server for `time`: how long each took, in nanoseconds, in
/// order of size.
#[allow(clippy::disallowed_methods)] // To measure is to read a clock.
pub(crate) fn ping(
    net: &Net,
    core: Option<usize>,
    to: SocketAddr,
    time: Duration,
) -> io::Result<Vec<u64>> {
    net.spawn_at(KERNEL_THREAD, core, move || {
        let mut stream = TcpStream::connect_timeout(&to, PATIENCE)?;
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut buf = [0; 64];
        let mut trips = Vec::new();
        let start = Instant::now();
        while start.elapsed() < time {
            let before = Instant::now();
            stream.write_all(&buf)?;
            stream.read_exact(&mut buf)?;
            trips.push(before.elapsed().as_nanos() as u64);
        }
        trips.sort_unstable();
        Ok(trips)
    })
    .join()
    .expect("it does not panic")
}
