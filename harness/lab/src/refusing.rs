//! A sender of ours at a TAP that refuses: of its few buffers one is free again for each frame that its
//! link has carried. A live twin of `enobufs`, with the answers of its TCP.
//!
//! The link is a port of the lab, with room for all of them; what comes back is late, so that a
//! window's worth is under way. What refuses stays writable, since the TAP itself has room.

mod course;
mod losing;

pub use course::{Course, Falls, Turn};
pub use losing::Losses;

use crate::LiveError;
use crate::bulk::remembering::Thresholds;
use crate::lab::{self, FRAME, Owned, Plug, Port};
use crate::shaper::Shape;
use crate::sockets;
use course::Refusals;
use losing::loses;
use narrows::config::TcpConfig;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::rule::{Fate, Ruled};
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::driver::{Clock, secret};
use narrows::endpoint::EndpointConfig;
use narrows::endpoint::metrics::MetricsConfig;
use narrows::interface::InterfaceConfig;
use narrows::{ByteCount, Instant, Rate};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, OnceLock};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 5_006;
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
const CHUNK: usize = 64 << 10;
/// More than a flow says in a run: some for each acknowledgement.
const EVENTS: usize = 1 << 20;

/// What runs.
#[derive(Clone, Debug)]
pub struct RefusingSpec {
    /// The TCP of both hosts; what it answers to a refusal is in it.
    pub tcp: TcpConfig,
    /// What the link carries.
    pub rate: Rate,
    /// How many full frames they hold.
    pub buffers: u64,
    /// How late comes what arrives at the sender.
    pub delay: Duration,
    /// When a frame of the sender's is lost.
    pub losses: Option<Losses>,
    /// A connection before the one that is counted.
    pub before: Option<Before>,
    /// What arrives before is not counted.
    pub warm_up: Duration,
    /// For how long it is counted then.
    pub span: Duration,
}

/// A connection that ends before the next one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Before {
    /// What it carries. Then its receiver closes, and its sender.
    pub size: ByteCount,
    /// Whether the sender's host remembers what it learned (RFC 9040), or nothing.
    pub remembers: bool,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq)]
pub struct RefusingRun {
    /// What the flow got, in bits a second.
    pub goodput: f64,
    /// Sends that the device refused meanwhile.
    pub refused: u64,
    /// Segments sent again meanwhile.
    pub again: u64,
    /// How often its window came down meanwhile.
    pub falls: Falls,
    /// Its window, since it began.
    pub course: Course,
    /// With a connection before it, what it has of that; what is stored is not looked at.
    pub thresholds: Thresholds,
}

/// Runs it in a lab of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &RefusingSpec, cancel: &AtomicBool) -> Result<RefusingRun, LiveError> {
    let lab = Owned::for_run()?;
    let plug = |number| {
        lab.lab()
            .plug(number..=number, Plug::Tap { offload: false })
    };
    let (server, client) = (plug(SERVER)?, plug(CLIENT)?);
    let link = Shape::port(spec.rate, FRAME * (spec.buffers + 100));
    let _watch = lab.shape(Port::Host(SERVER), &link)?;
    let failed = |e| LiveError::io("send through a TAP that refuses", e);
    let interface = |number| InterfaceConfig::new(lab::mac(number), lab::networks(number));
    let late = Faults {
        rates: vec![(Fault::Delay(spec.delay.into()), 1_000_000)],
        ..Faults::default()
    };
    let begun = Arc::new(OnceLock::new());
    let refusals = Refusals::default();
    let mut full = refusals.keep(few(spec.buffers, spec.rate));
    let mut loses = loses(spec.losses, spec.delay.into(), Arc::clone(&begun));
    let late = Faulty::new(client.device, 1, Faults::default(), late);
    let device = Ruled::new(late, move |now, len| match full(now, len) {
        true => Fate::Refused,
        false if loses(now) => Fate::Lost,
        false => Fate::Leaves,
    });
    let seen = Seen { begun, refusals };
    let remembers = spec.before.is_some_and(|before| before.remembers);
    let endpoint = EndpointConfig {
        metrics: remembers.then(MetricsConfig::default),
        ..EndpointConfig::new(Arc::new(spec.tcp.clone()), secret().map_err(failed)?)
    };
    crate::runtime()?
        .block_on(async {
            let server = Stack::spawn(server.device, interface(SERVER), spec.tcp.clone())?;
            let client = Stack::spawn_with(device, interface(CLIENT), endpoint)?;
            tokio::select! {
                run = flow(&server, &client, spec, &seen) => run,
                () = crate::cancelled(cancel) => Err(io::ErrorKind::Interrupted.into()),
            }
        })
        .map_err(failed)
}

/// What devices see, and are told.
struct Seen {
    /// When the first flow began.
    begun: Arc<OnceLock<Instant>>,
    refusals: Refusals,
}

async fn flow(
    server: &Stack,
    client: &Stack,
    spec: &RefusingSpec,
    seen: &Seen,
) -> io::Result<RefusingRun> {
    let [address, _] = lab::addresses(SERVER);
    let address = SocketAddr::new(address, PORT);
    let listener = TcpListener::bind(server, address).await?;
    let connect = async || {
        let connecting =
            tokio::time::timeout(sockets::CONNECT, TcpStream::connect(client, address));
        let (sender, accepted) = tokio::join!(connecting, listener.accept());
        let _ = seen.begun.set(Clock.now());
        Ok::<_, io::Error>((sender??, accepted?.0))
    };
    let mut thresholds = Thresholds::default();
    if let Some(before) = spec.before {
        let (sender, receiver) = connect().await?;
        thresholds.left = carry(sender, receiver, before.size).await?;
        // Until the last acknowledgement is back, which closes it.
        tokio::time::sleep(spec.delay * 4).await;
    }
    let (mut sender, mut receiver) = connect().await?;
    thresholds.begun = threshold(&sender)?;
    let (begin, mut events) = (Clock.now(), sender.trace(EVENTS)?);
    let reading = async {
        let from = tokio::time::Instant::now() + spec.warm_up;
        read_until(&mut receiver, from).await?;
        let (counts_from, before) = (Clock.now(), client.stats().device.refused);
        let bytes = read_until(&mut receiver, from + spec.span).await?;
        let refused = client.stats().device.refused - before;
        Ok::<_, io::Error>((bytes, refused, counts_from))
    };
    let (bytes, refused, counts_from) = tokio::select! {
        read = reading => read?,
        ended = write_on(&mut sender) => return Err(ended),
    };
    let told = course::read(&mut events, begin, counts_from, &seen.refusals);
    Ok(RefusingRun {
        goodput: bytes as f64 * 8.0 / spec.span.as_secs_f64(),
        refused,
        again: told.again,
        falls: told.falls,
        course: told.course,
        thresholds,
    })
}

/// In whole segments.
fn threshold(of: &TcpStream) -> io::Result<Option<u32>> {
    let segments = of.info()?.tcpi_snd_ssthresh;
    Ok(Some(segments).filter(|segments| *segments < u32::MAX))
}

/// Carries so much, and closes: the receiver first. The threshold that the sender is left with.
async fn carry(
    mut sender: TcpStream,
    mut receiver: TcpStream,
    size: ByteCount,
) -> io::Result<Option<u32>> {
    let writing = async {
        let chunk = vec![b'.'; CHUNK];
        let mut left = size.get();
        while left > 0 {
            let n = left.min(CHUNK as u64);
            sender.write_all(&chunk[..n as usize]).await?;
            left -= n;
        }
        // Nothing comes but the end.
        sender.read(&mut [0]).await.map(drop)
    };
    let reading = async {
        let mut left = size.get();
        let mut data = vec![0; CHUNK];
        while left > 0 {
            match receiver.read(&mut data).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                n => left = left.saturating_sub(n as u64),
            }
        }
        receiver.shutdown().await
    };
    let (wrote, read) = tokio::join!(writing, reading);
    wrote.and(read)?;
    let left = threshold(&sender)?;
    sender.shutdown().await?;
    Ok(left)
}

/// For ever; what ended it.
async fn write_on(stream: &mut TcpStream) -> io::Error {
    let chunk = vec![b'.'; CHUNK];
    loop {
        if let Err(e) = stream.write_all(&chunk).await {
            return e;
        }
    }
}

/// How many bytes come until then.
async fn read_until(stream: &mut TcpStream, until: tokio::time::Instant) -> io::Result<u64> {
    let (mut bytes, mut data) = (0, vec![0; CHUNK]);
    while let Ok(read) = tokio::time::timeout_at(until, stream.read(&mut data)).await {
        match read? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => bytes += n as u64,
        }
    }
    Ok(bytes)
}

/// Whether some buffers are full, each of which is free again when the link has carried its frame.
fn few(buffers: u64, rate: Rate) -> impl FnMut(Instant, usize) -> bool + Send {
    let room = rate.time_for(FRAME * buffers);
    let mut all_free = Instant::ZERO;
    move |now, len| {
        let then = all_free.max(now) + rate.time_for(ByteCount::new(len as u64));
        let full = then.since(now) > room;
        if !full {
            all_free = then;
        }
        full
    }
}
