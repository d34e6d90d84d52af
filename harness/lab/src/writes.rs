//! Small writes after a pause, from one host of the kernel's to another: the live twin of the
//! experiment `packet-window`.
//!
//! A server answers each request with a few writes, Nagle's algorithm off. The kernel's window
//! counts packets, and after a pause it is what the route says, so that the first writes fill it and
//! the rest waits for an acknowledgement. The client looks how much is there (`FIONREAD`) and reads
//! when that is all: one that reads what comes acknowledges by reading (`tcp_cleanup_rbuf`).

use crate::facing::{Facing, Replies};
use crate::pair::Pair;
use crate::shaper::RouteRules;
use crate::{LiveError, sleep};
use narrows::config::TcpConfig;
use narrows::driver::Clock;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const REQUEST: usize = 100;
/// An answer that takes longer does not come.
const LOST: narrows::Duration = narrows::Duration::from_secs(5);

/// From one look how much is there to the next.
const LOOK: Duration = Duration::from_micros(50);

/// What runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WritesSpec {
    /// How an answer is written, in bytes.
    pub writes: Vec<usize>,
    /// Whether the window is the initial one after a pause (`tcp_slow_start_after_idle`).
    pub idle_restart: bool,
    /// The initial window in segments (`initcwnd` of the route).
    pub initial_window: u32,
    /// Whether the client delays its acknowledgements.
    pub delayed_ack: bool,
    /// Whether the server sends tail loss probes (`tcp_early_retrans`), which end a wait early.
    pub probes: bool,
    /// How the client learns of an answer.
    pub reads: Reads,
    /// Before each request.
    pub pause: Duration,
    /// Requests that count; one before opens the window.
    pub calls: u32,
}

/// The text's: five small writes after a pause, against all that makes them wait.
impl Default for WritesSpec {
    fn default() -> Self {
        Self {
            writes: vec![1, 1, 1, 1, 396],
            idle_restart: true,
            initial_window: 3,
            delayed_ack: true,
            probes: false,
            reads: Reads::Whole,
            pause: Duration::from_millis(1_500),
            calls: 6,
        }
    }
}

impl WritesSpec {
    /// The rules of the client's route.
    fn of_client(&self) -> RouteRules {
        RouteRules {
            quick_ack: !self.delayed_ack,
            ..RouteRules::default()
        }
    }
}

/// How a client reads an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// When all of it is there.
    Whole,
    /// What there is, as it comes.
    Parts,
}

/// The same with a server of ours at a TAP and the kernel's client. What the sender does is in `tcp`, and
/// not in `spec`: its initial window, what a pause makes of it, and whether it probes.
///
/// # Errors
/// See [`LiveError`].
pub fn run_ours(
    spec: &WritesSpec,
    tcp: TcpConfig,
    cancel: &AtomicBool,
) -> Result<Vec<Duration>, LiveError> {
    let replies = Replies {
        request: REQUEST,
        writes: spec.writes.clone(),
    };
    let asked = Facing::new()?.answering(tcp, replies, |kernel, client| {
        kernel.set_rules(spec.of_client())?;
        ask(spec, &client, &mut || Ok(()), cancel)
    });
    asked.map_err(|e| LiveError::io("write small on a host of ours", e))
}

/// How long each answer took.
///
/// # Errors
/// See [`LiveError`].
pub fn run(spec: &WritesSpec, cancel: &AtomicBool) -> Result<Vec<Duration>, LiveError> {
    let pair = Pair::new()?;
    measure(spec, &pair, cancel)
        .map_err(|e| LiveError::io("write small on hosts of the kernel's", e))
}

fn measure(spec: &WritesSpec, pair: &Pair, cancel: &AtomicBool) -> io::Result<Vec<Duration>> {
    let switch = |on| if on { "1" } else { "0" };
    // The client is `a`.
    pair.b
        .set("tcp_slow_start_after_idle", switch(spec.idle_restart))?;
    pair.b
        .set("tcp_early_retrans", if spec.probes { "3" } else { "0" })?;
    pair.b.set_rules(RouteRules {
        initial_window: Some(spec.initial_window),
        ..RouteRules::default()
    })?;
    pair.a.set_rules(spec.of_client())?;
    let (client, mut server) = pair.connect(|_| Ok(()))?;
    let mut serve = || {
        server.read_exact(&mut [0; REQUEST])?;
        let mut writes = spec.writes.iter();
        writes.try_for_each(|size| server.write_all(&vec![b'!'; *size]))
    };
    ask(spec, &client, &mut serve, cancel)
}

/// Asks, has `serve` do what the server does on this thread, and waits for the answer, again and again.
fn ask(
    spec: &WritesSpec,
    client: &TcpStream,
    serve: &mut dyn FnMut() -> io::Result<()>,
    cancel: &AtomicBool,
) -> io::Result<Vec<Duration>> {
    let mut all = Vec::new();
    for call in 0..=spec.calls {
        if cancel.load(Ordering::Relaxed) {
            return Err(io::ErrorKind::Interrupted.into());
        }
        sleep(spec.pause);
        // As a client that is asked and answers in turn: its acknowledgements are delayed.
        let _ = SockRef::from(client).set_tcp_quickack(!spec.delayed_ack);
        let begin = Clock.now();
        one(spec, client, serve)?;
        let took = Duration::from_nanos(Clock.now().since(begin).as_nanos());
        if call > 0 {
            all.push(took);
        }
    }
    Ok(all)
}

/// A request and its answer.
fn one(
    spec: &WritesSpec,
    mut client: &TcpStream,
    serve: &mut dyn FnMut() -> io::Result<()>,
) -> io::Result<()> {
    client.write_all(&[b'?'; REQUEST])?;
    serve()?;
    let answer: usize = spec.writes.iter().sum();
    let mut buf = vec![0; answer];
    let mut heard = 0;
    let begin = Clock.now();
    while spec.reads == Reads::Whole && rustix::io::ioctl_fionread(client)? < answer as u64 {
        if Clock.now().since(begin) > LOST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        sleep(LOOK);
    }
    while heard < answer {
        match client.read(&mut buf[heard..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => heard += n,
        }
    }
    Ok(())
}
