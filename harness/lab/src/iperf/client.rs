//! The client: our stack measures itself against `iperf3 -s` of others.

use super::server::summary;
use super::stream::{Way, Work, Worker};
use super::{
    COOKIE, Cookie, Cpu, IperfError, Params, Results, State, Summary, read_json, read_state,
    write_json, write_state,
};
use crate::{LiveError, transfer};
use narrows::driver::secret;
use narrows::driver::tokio::{Stack, TcpStream};
use std::io;
use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::sync::watch;
use tokio::time::sleep;

/// What to measure.
#[derive(Clone, Debug)]
pub struct Request {
    /// The server, `HOST:PORT`.
    pub server: String,
    /// Which way data goes.
    pub direction: Direction,
    /// For how long, unless [`bytes`](Self::bytes) is given.
    pub time: Duration,
    /// How much.
    pub bytes: Option<u64>,
    /// Data connections in each direction.
    pub parallel: u32,
    /// Bytes written in one go.
    pub block: u32,
    /// Bits per second of each connection.
    pub rate: Option<u64>,
    /// Name of our congestion control, for the server's report.
    pub congestion: String,
}

/// Which way data goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// We send.
    Send,
    /// The server sends.
    Reverse,
    /// Both.
    Both,
}

/// A byte count is looked at this often.
const LOOK: Duration = Duration::from_millis(2);

/// Measure.
///
/// # Errors
/// See [`LiveError`].
pub async fn run(stack: &Stack, request: &Request) -> Result<Summary, LiveError> {
    let mut control = transfer::connect(stack, &request.server).await?;
    Ok(measure(stack, request, &mut control).await?)
}

/// A test between its states.
struct Test {
    workers: Vec<Worker>,
    streams: Vec<TcpStream>,
    stop: watch::Sender<bool>,
    begin: narrows::Instant,
    cpu: Cpu,
    seconds: f64,
    shares: [f64; 3],
    theirs: Results,
}

async fn measure(
    stack: &Stack,
    request: &Request,
    control: &mut TcpStream,
) -> Result<Summary, IperfError> {
    let _ = control.set_nodelay(true);
    let cookie = new_cookie()?;
    control.write_all(&cookie).await?;
    let ways = ways(request);
    let (stop, over) = watch::channel(false);
    let mut test = Test {
        workers: Vec::new(),
        streams: Vec::new(),
        stop,
        begin: stack.clock().now(),
        cpu: Cpu::now(),
        seconds: 0.0,
        shares: [0.0; 3],
        theirs: Results::default(),
    };
    loop {
        match read_state(control).await? {
            State::ParamExchange => write_json(control, &params(request)).await?,
            State::CreateStreams => {
                for _ in test.streams.len()..ways.len() {
                    let mut stream = TcpStream::connect(stack, request.server.as_str()).await?;
                    stream.write_all(&cookie).await?;
                    test.streams.push(stream);
                }
            }
            State::TestStart => {}
            State::TestRunning => {
                let work = Work {
                    stack: stack.clone(),
                    block: request.block.max(1) as usize,
                    rate: request.rate.unwrap_or(0),
                    over: over.clone(),
                    total: Arc::new(AtomicU64::new(0)),
                    limit: request.bytes,
                };
                test.begin = stack.clock().now();
                test.cpu = Cpu::now();
                let streams = std::mem::take(&mut test.streams).into_iter().zip(&ways);
                test.workers = streams
                    .enumerate()
                    .map(|(n, (stream, &way))| Worker::start(n, way, stream, work.clone()))
                    .collect();
                tokio::select! {
                    () = enough(request, &test.workers) => {}
                    // The server has nothing to say meanwhile, unless it gives up.
                    state = read_state(control) => return Err(match state? {
                        State::ServerTerminate => IperfError::Terminated,
                        other => IperfError::Protocol(format!("{other:?} during the test")),
                    }),
                }
                let took = stack.clock().now().since(test.begin);
                test.seconds = took.as_nanos() as f64 / 1e9;
                test.shares = Cpu::now().share_since(test.cpu, test.seconds);
                let _ = test.stop.send(true);
                for worker in &mut test.workers {
                    worker.stop().await;
                }
                write_state(control, State::TestEnd).await?;
            }
            State::ExchangeResults => {
                write_json(control, &results(request, &test)).await?;
                test.theirs = read_json(control).await?;
            }
            State::DisplayResults => {
                let _ = write_state(control, State::IperfDone).await;
                let Test {
                    workers,
                    theirs,
                    seconds,
                    shares,
                    ..
                } = &test;
                return Ok(summary(workers, theirs, *seconds, shares[0]));
            }
            State::AccessDenied => return Err(IperfError::Busy),
            State::ServerTerminate => return Err(IperfError::Terminated),
            State::ServerError => {
                let mut codes = [0; 8];
                control.read_exact(&mut codes).await?;
                let code = i32::from_be_bytes([codes[0], codes[1], codes[2], codes[3]]);
                return Err(IperfError::Remote(code));
            }
            other => return Err(IperfError::Protocol(format!("{other:?} from a server"))),
        }
    }
}

/// Until the time is up, or so much was moved.
async fn enough(request: &Request, workers: &[Worker]) {
    let Some(bytes) = request.bytes else {
        return sleep(request.time).await;
    };
    let sum = |way| -> u64 {
        let of = workers.iter().filter(|w| w.way == way);
        of.map(Worker::bytes).sum()
    };
    while sum(Way::Send) < bytes && sum(Way::Receive) < bytes {
        sleep(LOOK).await;
    }
}

fn ways(request: &Request) -> Vec<Way> {
    let n = request.parallel.max(1) as usize;
    match request.direction {
        Direction::Send => vec![Way::Send; n],
        Direction::Reverse => vec![Way::Receive; n],
        Direction::Both => [vec![Way::Send; n], vec![Way::Receive; n]].concat(),
    }
}

fn params(request: &Request) -> Params {
    Params {
        tcp: true,
        // The server wants whole seconds.
        time: match request.bytes {
            Some(_) => 0.0,
            None => request.time.as_secs_f64().ceil(),
        },
        num: request.bytes.unwrap_or(0),
        parallel: request.parallel.max(1),
        len: request.block.into(),
        reverse: request.direction == Direction::Reverse,
        bidirectional: request.direction == Direction::Both,
        bandwidth: request.rate.unwrap_or(0),
        client_version: concat!("narrows ", env!("CARGO_PKG_VERSION")).to_owned(),
        ..Params::default()
    }
}

fn results(request: &Request, test: &Test) -> Results {
    let sends = request.direction != Direction::Reverse;
    Results {
        cpu_util_total: test.shares[0],
        cpu_util_user: test.shares[1],
        cpu_util_system: test.shares[2],
        sender_has_retransmits: if sends { 1 } else { -1 },
        congestion_used: Some(request.congestion.clone()),
        streams: test
            .workers
            .iter()
            .map(|w| w.results(test.seconds))
            .collect(),
    }
}

/// Letters and digits that are nobody else's.
fn new_cookie() -> io::Result<Cookie> {
    const LETTERS: &[u8; 32] = b"abcdefghijklmnopqrstuvwxyz234567";
    let mut cookie = [0; COOKIE];
    let random = [secret()?, secret()?, secret()?].concat();
    for (to, byte) in cookie[..COOKIE - 1].iter_mut().zip(random) {
        *to = LETTERS[usize::from(byte % 32)];
    }
    Ok(cookie)
}
