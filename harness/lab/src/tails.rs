//! Calls to one host through a port that marks, all hosts ours: where tails come from that a
//! receiver of DCTCP makes.
//!
//! It is the live twin of traffic `rpc` as the story `rack tails` has it: calls of two sizes over
//! connections that stay open, one at a time on each.

use crate::LiveError;
use crate::lab::{self, Owned, Plug, Port};
use crate::shaper::Shape;
use crate::sockets;
use narrows::config::TcpConfig;
use narrows::device::marking::QueueDepth;
use narrows::driver::tokio::{Stack, TcpListener, TcpStream};
use narrows::interface::InterfaceConfig;
use narrows::{ByteCount, Rate};
use std::io;
use std::net::SocketAddr;
use std::sync::atomic::AtomicBool;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::task::JoinHandle;
use tokio::time::Instant;

const PORT: u16 = 5_005;
const SERVER: u8 = 1;
const REPLY: usize = 100;
const CHUNK: usize = 64 << 10;
/// The bytes of a request that say how long it is.
const LENGTH: usize = 8;

/// What runs.
#[derive(Clone, Debug)]
pub struct TailsSpec {
    /// The TCP of all hosts.
    pub tcp: TcpConfig,
    /// What the port to the server carries.
    pub rate: Rate,
    /// It marks above so many packets.
    pub mark_above: u32,
    /// Hosts that call.
    pub clients: u8,
    /// Sizes of requests, each with the connections of a client that make them.
    pub calls: Vec<(ByteCount, u8)>,
    /// Calls that begin before are not counted.
    pub warm_up: Duration,
    /// For how long calls begin then.
    pub span: Duration,
}

/// What was seen.
#[derive(Clone, Debug, Default)]
pub struct TailsRun {
    /// How long calls took that ended in time, by size.
    pub took: Vec<Vec<Duration>>,
    /// Retransmission timeouts of the clients, all in all.
    pub timeouts: u64,
    /// Segments that they sent again.
    pub sent_again: u64,
    /// Packets that the port dropped.
    pub drops: u64,
    /// Packets that it marked.
    pub marks: u64,
}

/// What a connection gave.
struct Calls {
    size: usize,
    took: Vec<Duration>,
    timeouts: u64,
    sent_again: u64,
}

/// Runs it in a lab of its own.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &TailsSpec, cancel: &AtomicBool) -> Result<TailsRun, LiveError> {
    if spec.clients == 0 || spec.clients > 50 {
        let why = "from 1 to 50 clients".to_owned();
        return Err(LiveError::Invalid(why));
    }
    let lab = Owned::for_run()?;
    let mut plugged = Vec::new();
    for number in SERVER..=SERVER + spec.clients {
        let plug = Plug::Tap { offload: false };
        plugged.push(lab.lab().plug(number..=number, plug)?);
    }
    let port = Shape {
        mark_above: Some(QueueDepth::Packets(spec.mark_above)),
        ..Shape::port(spec.rate, ByteCount::new(1_000_000))
    };
    let mut watch = lab.shape(Port::Host(SERVER), &port)?;
    let failed = |e| LiveError::io("call hosts of ours", e);
    let runtime = crate::runtime()?;
    let mut run = runtime
        .block_on(async {
            let mut stacks = Vec::new();
            for host in plugged {
                let (mac, networks) = (lab::mac(host.number), lab::networks(host.number));
                let interface = InterfaceConfig::new(mac, networks);
                stacks.push(Stack::spawn(host.device, interface, spec.tcp.clone())?);
            }
            tokio::select! {
                run = call(&stacks, spec) => run,
                () = crate::cancelled(cancel) => Err(io::ErrorKind::Interrupted.into()),
            }
        })
        .map_err(failed)?;
    let seen = watch.look().map_err(failed)?;
    (run.drops, run.marks) = (seen.drops, seen.marks);
    Ok(run)
}

async fn call(stacks: &[Stack], spec: &TailsSpec) -> io::Result<TailsRun> {
    let [address, _] = lab::addresses(SERVER);
    let address = SocketAddr::new(address, PORT);
    let (server, clients) = stacks.split_first().ok_or(io::ErrorKind::NotFound)?;
    let listener = TcpListener::bind(server, address).await?;
    let serving: JoinHandle<io::Result<()>> = tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await?;
            tokio::spawn(answer(stream));
        }
    });
    let mut streams = Vec::new();
    for client in clients {
        for (nth, (_, connections)) in spec.calls.iter().enumerate() {
            for _ in 0..*connections {
                let stream = TcpStream::connect(client, address);
                let stream = tokio::time::timeout(sockets::CONNECT, stream).await??;
                stream.set_nodelay(true)?;
                streams.push((nth, stream));
            }
        }
    }
    let from = Instant::now() + spec.warm_up;
    let until = from + spec.span;
    let calling = streams.into_iter().map(|(nth, stream)| {
        let bytes = spec.calls[nth].0.as_usize().max(LENGTH);
        tokio::spawn(ask(stream, nth, bytes, from, until))
    });
    let calling: Vec<JoinHandle<io::Result<Calls>>> = calling.collect();
    let mut run = TailsRun {
        took: vec![Vec::new(); spec.calls.len()],
        ..TailsRun::default()
    };
    for connection in calling {
        let calls = connection.await.map_err(io::Error::other)??;
        run.took[calls.size].extend(calls.took);
        run.timeouts += calls.timeouts;
        run.sent_again += calls.sent_again;
    }
    serving.abort();
    Ok(run)
}

/// One call after the other.
async fn ask(
    mut stream: TcpStream,
    size: usize,
    bytes: usize,
    from: Instant,
    until: Instant,
) -> io::Result<Calls> {
    let mut took = Vec::new();
    let mut request = vec![b'?'; bytes];
    request[..LENGTH].copy_from_slice(&(bytes as u64).to_be_bytes());
    let mut reply = [0; REPLY];
    loop {
        let began = Instant::now();
        let call = async {
            stream.write_all(&request).await?;
            stream.read_exact(&mut reply).await
        };
        match tokio::time::timeout_at(until, call).await {
            Err(_) => break,
            Ok(called) => drop(called?),
        }
        if began >= from {
            took.push(began.elapsed());
        }
    }
    let info = stream.info()?;
    stream.set_zero_linger()?;
    Ok(Calls {
        size,
        took,
        timeouts: info.tcpi_total_rto,
        sent_again: info.tcpi_total_retrans.into(),
    })
}

/// Until the client has ended.
async fn answer(mut stream: TcpStream) -> io::Result<()> {
    stream.set_nodelay(true)?;
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
