//! The tokio driver: [`TcpStream`] and [`TcpListener`] with the names and behaviour of
//! `tokio::net`, on a [`Stack`] that is a task of the runtime.
//!
//! What a task writes leaves the device from that task, without a change of tasks; the driver's
//! task receives, runs timers (with a timerfd, to microseconds where tokio's own are
//! milliseconds), and waits for the device to have room.
//!
//! ```no_run
//! use narrows::config::TcpConfig;
//! use narrows::device::tap::{Tap, TapConfig};
//! use narrows::driver::tokio::{Stack, TcpStream};
//! use narrows::interface::InterfaceConfig;
//! use narrows::wire::ethernet::MacAddr;
//! use tokio::io::{AsyncReadExt, AsyncWriteExt};
//!
//! # async fn f() -> Result<(), Box<dyn std::error::Error>> {
//! let tap = Tap::open("narrows0", &TapConfig::default())?;
//! let mac = MacAddr([2, 0, 0, 0, 0, 1]);
//! let interface = InterfaceConfig::new(mac, vec!["10.0.0.1/24".parse()?]);
//! let stack = Stack::spawn(tap, interface, TcpConfig::default())?;
//!
//! let mut stream = TcpStream::connect(&stack, "10.0.0.2:80").await?;
//! stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
//! let mut answer = String::new();
//! stream.read_to_string(&mut answer).await?;
//! # Ok(()) }
//! ```

mod conn;
mod listener;
mod names;
mod shared;
mod socket;
mod split;
mod stream;
mod task;
mod trace;

pub use listener::TcpListener;
pub use socket::TcpSocket;
pub use split::{OwnedReadHalf, OwnedWriteHalf, ReadHalf, ReuniteError, WriteHalf};
pub use stream::TcpStream;
pub use trace::TraceStream;

use super::busy_poll::BusyPoll;
use super::engine::Engine;
use super::{Clock, LiveTcp, secret, usual_memory};
use crate::config::TcpConfig;
use crate::device::{Device, DeviceStats, sys::TimerFd};
use crate::endpoint::{ConnectError, EndpointConfig, EndpointStats, ListenError};
use crate::interface::{Interface, InterfaceConfig, InterfaceStats};
use crate::memory::MemoryStats;
use shared::{Phase, Shared, ended};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::IpAddr;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;
use task::Sources;

/// A host's TCP, driven by a task. Clones are the same host.
///
/// When the last clone, stream and listener are gone it finishes in the background what was
/// written, and ends.
#[derive(Clone)]
pub struct Stack {
    inner: Arc<Inner>,
}

/// What clones, streams and listeners hold.
struct Inner {
    shared: Arc<Shared>,
    tcp: TcpConfig,
    ports: RangeInclusive<u16>,
}

/// How long what was written may take to leave when nobody holds the stack any more.
const BACKGROUND: Duration = Duration::from_secs(60);

impl Drop for Inner {
    fn drop(&mut self) {
        self.shared.with(|core, now| {
            if let Phase::Running = core.phase {
                let until = Some(now + BACKGROUND.into());
                core.phase = Phase::Closing { until };
                core.kick();
            }
        });
    }
}

/// Counters of a stack.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct StackStats {
    /// Of the interface.
    pub interface: InterfaceStats,
    /// Of the TCP.
    pub endpoint: EndpointStats,
    /// Of the device.
    pub device: DeviceStats,
    /// Connections in all states.
    pub connections: usize,
    /// What they take of the memory they may.
    pub memory: MemoryStats,
}

impl Stack {
    /// A host with the addresses of `interface` on `device`, whose sockets behave as `tcp` says
    /// unless they say otherwise, and whose connections take [so much](usual_memory) memory at
    /// most. Starts a task on the current runtime.
    ///
    /// # Errors
    /// `InvalidInput` for a configuration out of range; when there are no more file descriptors.
    ///
    /// # Panics
    /// Outside a runtime, or in one whose I/O driver is off.
    pub fn spawn(
        device: impl Device + 'static,
        interface: InterfaceConfig,
        tcp: TcpConfig,
    ) -> io::Result<Self> {
        let endpoint = EndpointConfig {
            memory: Some(usual_memory()),
            ..EndpointConfig::new(Arc::new(tcp), secret()?)
        };
        Self::spawn_with(device, interface, endpoint)
    }

    /// The same with every value of the endpoint.
    ///
    /// # Errors
    /// As [`spawn`](Self::spawn).
    ///
    /// # Panics
    /// As [`spawn`](Self::spawn).
    pub fn spawn_with(
        device: impl Device + 'static,
        interface: InterfaceConfig,
        endpoint: EndpointConfig,
    ) -> io::Result<Self> {
        let invalid = |e| io::Error::new(io::ErrorKind::InvalidInput, e);
        let tcp = TcpConfig::clone(&endpoint.tcp);
        let ports = endpoint.ports.clone();
        let capabilities = device.capabilities();
        let interface =
            Interface::<LiveTcp>::new(interface, endpoint, capabilities).map_err(invalid)?;
        let fd = device.fd().try_clone_to_owned()?;
        let timer = Arc::new(TimerFd::new()?);
        let sources = Sources::register(fd, timer.clone())?;
        let engine = Engine::new(interface, Box::new(device) as Box<dyn Device>);
        let shared = Arc::new(Shared::new(engine, timer));
        tokio::spawn(task::drive(shared.clone(), sources));
        Ok(Self {
            inner: Arc::new(Inner { shared, tcp, ports }),
        })
    }

    /// Make no new connections, wait until those there are have ended, but no longer than `grace`,
    /// reset the others, and end.
    ///
    /// # Errors
    /// What ended the driver, if that was not this.
    pub async fn shutdown(&self, grace: Duration) -> io::Result<()> {
        let shared = &self.inner.shared;
        shared.with(|core, now| {
            if !matches!(core.phase, Phase::Ended(_)) {
                let until = Some(now + grace.into());
                core.phase = Phase::Closing { until };
                core.wake_listeners();
                core.kick();
            }
        });
        poll_fn(|cx| {
            let mut core = shared.lock();
            match &core.phase {
                Phase::Ended(None) => Poll::Ready(Ok(())),
                Phase::Ended(Some(why)) => Poll::Ready(Err(ended(Some(why)))),
                _ => {
                    core.ending.register(cx);
                    Poll::Pending
                }
            }
        })
        .await
    }

    /// Counters.
    pub fn stats(&self) -> StackStats {
        let core = self.inner.shared.lock();
        let interface = &core.engine.interface;
        StackStats {
            interface: *interface.stats(),
            endpoint: interface.endpoint().stats(),
            device: core.engine.device.stats(),
            connections: interface.endpoint().connections(),
            memory: interface.endpoint().memory_stats(),
        }
    }

    /// Look for frames for up to `limit` before the driver sleeps, 60 us unless it is set; zero:
    /// sleep at once.
    ///
    /// What a peer sends within that time after its last frame was served is served without a
    /// wake-up, which takes 5 to 60 us, at the price of the processor's time. How long is looked follows how long frames were
    /// waited for; where looking catches none it ends, and is tried again ever more rarely. Other
    /// tasks of the runtime have their turn meanwhile. (Of the kernel's sockets this is
    /// `SO_BUSY_POLL`, with a fixed time.)
    pub fn set_busy_poll(&self, limit: Duration) {
        let mut core = self.inner.shared.lock();
        core.busy_poll = BusyPoll::new(limit.into());
    }

    /// The clock by which times of this stack are given.
    pub fn clock(&self) -> Clock {
        Clock
    }

    /// What sockets behave like unless they say otherwise.
    pub fn tcp_config(&self) -> &TcpConfig {
        &self.inner.tcp
    }

    fn check_open(&self) -> io::Result<()> {
        self.inner.shared.lock().check_open()
    }

    fn is_own(&self, addr: IpAddr) -> bool {
        self.inner.shared.lock().engine.interface.is_own(addr)
    }
}

impl fmt::Debug for Stack {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stack")
            .field("stats", &self.stats())
            .finish_non_exhaustive()
    }
}

/// A time to live as the header has it.
fn hop_limit(ttl: u32) -> io::Result<u8> {
    let ttl = u8::try_from(ttl).ok().filter(|&ttl| ttl > 0);
    ttl.ok_or_else(|| {
        let text = "the time to live is 1 to 255";
        io::Error::new(io::ErrorKind::InvalidInput, text)
    })
}

fn connect_error(e: ConnectError) -> io::Error {
    let kind = match e {
        ConnectError::NoPort => io::ErrorKind::AddrNotAvailable,
        ConnectError::InUse => io::ErrorKind::AddrInUse,
        ConnectError::NoMemory => io::ErrorKind::OutOfMemory,
        ConnectError::BadAddress | ConnectError::Config(_) => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, e)
}

fn listen_error(e: ListenError) -> io::Error {
    let kind = match e {
        ListenError::InUse => io::ErrorKind::AddrInUse,
        ListenError::NoPort | ListenError::Config(_) => io::ErrorKind::InvalidInput,
    };
    io::Error::new(kind, e)
}
