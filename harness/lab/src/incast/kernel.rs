//! Client and servers of a live incast on the kernel's TCP.

use super::blocks::{Answers, Blocks, Next};
use super::content::Content;
use crate::LiveError;
use crate::netns::Namespace;
use crate::rack::Waiter;
use crate::sockets::{self, socket};
use narrows::Instant;
use narrows::driver::Clock;
use narrows_congestion::EcnNeed;
use narrows_experiment::scenario::Outcome;
use std::fs;
use std::io::{self, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// Bytes read in one go.
const CHUNK: usize = 64 << 10;
/// A handshake that takes longer is a failure: the port is idle then.
const CONNECT: Duration = Duration::from_secs(10);

/// What the kernel's TCP needs to echo each mark, and not only that there were some.
const EXACT: &str = "dctcp";

/// Whether the kernel's TCP can echo each mark to a sender of ours (RFC 8257 section 3.2).
pub fn echoes_each_mark() -> bool {
    socket().and_then(|s| sockets::choose(&s, EXACT)).is_ok()
}

/// Read blocks from `servers` until it is over, or `stop` is set, with ECN if `ecn` says so.
/// Called in the namespace of the client.
pub(super) fn client(
    servers: &[SocketAddr],
    ecn: Option<EcnNeed>,
    mut blocks: Blocks,
    content: &Content,
    stop: &AtomicBool,
) -> io::Result<Blocks> {
    // Ask for ECN, or do with it as asked, which is the kernel's default.
    let offer = if ecn.is_some() { "1" } else { "2" };
    fs::write("/proc/sys/net/ipv4/tcp_ecn", offer)?;
    let mut streams = Vec::with_capacity(servers.len());
    for server in servers {
        if stop.load(Ordering::Relaxed) {
            return Ok(blocks);
        }
        let socket = socket()?;
        if ecn == Some(EcnNeed::Dctcp) {
            // Without, marks are echoed as in RFC 3168: `echoes_each_mark`.
            let _ = sockets::choose(&socket, EXACT);
        }
        socket
            .connect_timeout(&(*server).into(), CONNECT)
            .map_err(|e| io::Error::new(e.kind(), format!("connect to {server}: {e}")))?;
        let stream = TcpStream::from(socket);
        stream.set_nonblocking(true)?;
        streams.push(stream);
    }
    let mut waiter = Waiter::new(streams.len())?;
    for (stream, token) in streams.iter().zip(0..) {
        waiter.add(stream, token)?;
    }
    let request = vec![b'?'; blocks.request()];
    let mut heard = vec![0_u64; streams.len()];
    let mut buf = vec![0; CHUNK];
    let mut next = Next::Ask;
    while blocks.outcome.is_none() && !stop.load(Ordering::Relaxed) {
        if next == Next::Ask {
            next = Next::Wait;
            for server in blocks.ask(Clock.now()) {
                if (&streams[server]).write(&request).ok() != Some(request.len()) {
                    blocks.outcome = Some(Outcome::ConnectionLost);
                }
            }
        }
        waiter.wait(blocks.deadline())?;
        blocks.look_at(Clock.now());
        for server in waiter.ready() {
            let server = server as usize;
            let n = match (&streams[server]).read(&mut buf) {
                Ok(0) => {
                    blocks.outcome.get_or_insert(Outcome::ConnectionLost);
                    continue;
                }
                Ok(n) => n,
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
                Err(_) => {
                    blocks.outcome.get_or_insert(Outcome::ConnectionLost);
                    continue;
                }
            };
            if !content.is(heard[server], &buf[..n]) {
                blocks.outcome = Some(Outcome::CorruptData);
            }
            heard[server] += n as u64;
            match blocks.took(server, n as u64, Clock.now()) {
                Next::Wait => {}
                other => next = other,
            }
        }
    }
    Ok(blocks)
}

/// Listen in the namespace of a server, with the congestion control `cc`.
pub(super) fn listen(host: &Namespace, port: u16, cc: &str) -> Result<TcpListener, LiveError> {
    let listener = host.run(|| {
        // Nothing of an earlier connection is to be remembered.
        let _ = fs::write("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
        let socket = socket()?;
        sockets::choose(&socket, cc)?;
        // ECN for those who ask for it.
        let _ = fs::write("/proc/sys/net/ipv4/tcp_ecn", "2");
        socket.bind(&SocketAddr::from((Ipv4Addr::UNSPECIFIED, port)).into())?;
        socket.listen(4)?;
        socket.set_nonblocking(true)?;
        Ok(TcpListener::from(socket))
    });
    let doing = || "listen on a host of the kernel's".to_owned();
    listener
        .and_then(|l| l)
        .map_err(|e| LiveError::io(doing(), e))
}

/// A server's connection.
struct Serving {
    stream: TcpStream,
    answers: Answers,
    /// It is waited for room.
    blocked: bool,
}

/// Serve until `stop` is set. Each listener has one connection, and gets the answers at its place.
pub(super) fn serve(
    listeners: &[TcpListener],
    answers: Vec<Answers>,
    content: &Content,
    stop: &AtomicBool,
) -> io::Result<()> {
    let n = listeners.len();
    let mut waiter = Waiter::new(2 * n)?;
    for (listener, token) in listeners.iter().zip(0..) {
        waiter.add(listener, token)?;
    }
    let mut answers: Vec<Option<Answers>> = answers.into_iter().map(Some).collect();
    let mut serving: Vec<Option<Serving>> = (0..n).map(|_| None).collect();
    let mut buf = vec![0; CHUNK];
    while !stop.load(Ordering::Relaxed) {
        let next = serving.iter().flatten().filter_map(|s| s.answers.next());
        waiter.wait(next.min())?;
        let ready: Vec<usize> = waiter.ready().map(|token| token as usize).collect();
        let now = Clock.now();
        for token in ready {
            if token < n {
                let accepted = match listeners[token].accept() {
                    Ok((stream, _)) => stream,
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => continue,
                    Err(e) => return Err(e),
                };
                accepted.set_nonblocking(true)?;
                accepted.set_nodelay(true)?;
                waiter.add(&accepted, (n + token) as u64)?;
                if let Some(answers) = answers[token].take() {
                    serving[token] = Some(Serving {
                        stream: accepted,
                        answers,
                        blocked: false,
                    });
                }
                continue;
            }
            if let Some(server) = &mut serving[token - n] {
                server.hear(&mut buf, now);
            }
        }
        for (server, token) in serving.iter_mut().zip(n as u64..) {
            if let Some(server) = server {
                server.answers.begin(now);
                server.write(content, &waiter, token)?;
            }
        }
    }
    Ok(())
}

impl Serving {
    fn hear(&mut self, buf: &mut [u8], now: Instant) {
        // A client that is gone shows in what it has measured.
        if let Ok(n) = self.stream.read(buf) {
            self.answers.hear(n as u64, now);
        }
    }

    fn write(&mut self, content: &Content, waiter: &Waiter, token: u64) -> io::Result<()> {
        let mut full = false;
        loop {
            let bytes = content.of(&self.answers);
            if bytes.is_empty() {
                break;
            }
            match self.stream.write(bytes) {
                Ok(n) => self.answers.take(n),
                Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
                Err(e) => {
                    full = e.kind() == io::ErrorKind::WouldBlock;
                    break;
                }
            }
        }
        if full != self.blocked {
            self.blocked = full;
            waiter.set_writable(&self.stream, token, full)?;
        }
        Ok(())
    }
}
