//! Small writes after a pause, from one host of the kernel's to another: the live twin of the
//! experiment `packet-window`.
//!
//! A server answers each request with a few writes, Nagle's algorithm off. The kernel's window
//! counts packets, and after a pause it is what the route says, so that the first writes fill it and
//! the rest waits for an acknowledgement. The client looks how much is there (`FIONREAD`) and reads
//! when that is all: one that reads what comes acknowledges by reading (`tcp_cleanup_rbuf`).

use crate::LiveError;
use crate::pair::Pair;
use crate::shaper::RouteRules;
use narrows::driver::Clock;
use socket2::SockRef;
use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

const REQUEST: usize = 100;
/// An answer that takes longer does not come.
const LOST: narrows::Duration = narrows::Duration::from_secs(5);

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

/// How a client reads an answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Reads {
    /// When all of it is there.
    Whole,
    /// What there is, as it comes.
    Parts,
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
    pair.a.set_rules(RouteRules {
        quick_ack: !spec.delayed_ack,
        ..RouteRules::default()
    })?;
    let (client, server) = pair.connect(|_| Ok(()))?;
    let answer: usize = spec.writes.iter().sum();
    let mut all = Vec::new();
    for call in 0..=spec.calls {
        if cancel.load(Ordering::Relaxed) {
            break;
        }
        pause(spec.pause);
        // As a client that is asked and answers in turn: its acknowledgements are delayed.
        let _ = SockRef::from(&client).set_tcp_quickack(!spec.delayed_ack);
        let begin = Clock.now();
        one(spec, (&client, &server), answer)?;
        let took = Duration::from_nanos(Clock.now().since(begin).as_nanos());
        if call > 0 {
            all.push(took);
        }
    }
    Ok(all)
}

#[allow(
    clippy::disallowed_methods,
    reason = "the pause between two requests is real time"
)]
fn pause(time: Duration) {
    std::thread::sleep(time);
}

/// A request and its answer.
fn one(
    spec: &WritesSpec,
    (mut client, mut server): (&TcpStream, &TcpStream),
    answer: usize,
) -> io::Result<()> {
    client.write_all(&[b'?'; REQUEST])?;
    server.read_exact(&mut [0; REQUEST])?;
    for size in &spec.writes {
        server.write_all(&vec![b'!'; *size])?;
    }
    let mut buf = vec![0; answer];
    let mut heard = 0;
    let begin = Clock.now();
    while spec.reads == Reads::Whole && rustix::io::ioctl_fionread(client)? < answer as u64 {
        if Clock.now().since(begin) > LOST {
            return Err(io::ErrorKind::TimedOut.into());
        }
        std::hint::spin_loop();
    }
    while heard < answer {
        match client.read(&mut buf[heard..])? {
            0 => return Err(io::ErrorKind::UnexpectedEof.into()),
            n => heard += n,
        }
    }
    Ok(())
}
