//! A sender of ours at a TAP that refuses: of its few buffers one is free again for each frame that its
//! link has carried. A live twin of `enobufs`, with the answers of its TCP.
//!
//! The link is a port of the lab, with room for all of them; what comes back is late, so that a
//! window's worth is under way. What refuses stays writable, since the TAP itself has room.

use crate::LiveError;
use crate::lab::{self, FRAME, Owned, Plug, Port};
use crate::shaper::Shape;
use crate::sockets;
use narrows::config::TcpConfig;
use narrows::device::fault::{Fault, Faults, Faulty};
use narrows::device::refusing::Refusing;
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::{ByteCount, Instant, Rate};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

const PORT: u16 = 5_006;
const SERVER: u8 = 1;
const CLIENT: u8 = 2;
const CHUNK: usize = 64 << 10;

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
    /// A frame that is lost on the way, by its number; the first is 0.
    pub lose: Option<u64>,
    /// What arrives before is not counted.
    pub warm_up: Duration,
    /// For how long it is counted then.
    pub span: Duration,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RefusingRun {
    /// What the flow got, in bits a second.
    pub goodput: f64,
    /// Sends that the device refused meanwhile.
    pub refused: u64,
    /// Segments sent again, since the beginning.
    pub again: u64,
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
    let lost = Faults {
        script: spec
            .lose
            .map(|number| (number, Fault::Drop))
            .into_iter()
            .collect(),
        ..Faults::default()
    };
    let few = Refusing::new(
        Faulty::new(client.device, 1, lost, late),
        few(spec.buffers, spec.rate),
    );
    crate::runtime()?
        .block_on(async {
            let server = Stack::spawn(server.device, interface(SERVER), spec.tcp.clone())?;
            let client = Stack::spawn(few, interface(CLIENT), spec.tcp.clone())?;
            tokio::select! {
                run = flow(&server, &client, spec) => run,
                () = crate::cancelled(cancel) => Err(io::ErrorKind::Interrupted.into()),
            }
        })
        .map_err(failed)
}

async fn flow(server: &Stack, client: &Stack, spec: &RefusingSpec) -> io::Result<RefusingRun> {
    let [address, _] = lab::addresses(SERVER);
    let address = SocketAddr::new(address, PORT);
    let listener = TcpListener::bind(server, address).await?;
    let connecting = tokio::time::timeout(sockets::CONNECT, TcpStream::connect(client, address));
    let (sender, accepted) = tokio::join!(connecting, listener.accept());
    let (mut sender, (mut receiver, _)) = (sender??, accepted?);
    let reading = async {
        let from = tokio::time::Instant::now() + spec.warm_up;
        read_until(&mut receiver, from).await?;
        let before = client.stats().device.refused;
        let bytes = read_until(&mut receiver, from + spec.span).await?;
        Ok::<_, io::Error>((bytes, client.stats().device.refused - before))
    };
    let (bytes, refused) = tokio::select! {
        read = reading => read?,
        ended = write_on(&mut sender) => return Err(ended),
    };
    Ok(RefusingRun {
        goodput: bytes as f64 * 8.0 / spec.span.as_secs_f64(),
        refused,
        again: sender.info()?.tcpi_total_retrans.into(),
    })
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
