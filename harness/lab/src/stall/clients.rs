//! The clients of a node, on hosts of the kernel's: they ask at a rate, whatever comes of it, and note what
//! comes.

use super::node::Node;
use super::{CHUNK, PORT, SERVER, StallRun, StallSpec};
use crate::lab::{self, KernelHost};
use crate::rack::Waiter;
use crate::sockets;
use std::io::{self, Write};
use std::net::{SocketAddr, TcpStream};

/// All of them. Times are nanoseconds since the begin.
pub(super) struct Clients {
    spec: StallSpec,
    all: Vec<Client>,
    /// The longest time without a reply to one whose way was never slow.
    gap: (u64, u64),
    replies: u64,
    buf: Vec<u8>,
}

struct Client {
    stream: TcpStream,
    /// Bytes that it has of a reply.
    heard: u64,
    last_reply: u64,
    next_request: u64,
}

impl Clients {
    pub(super) fn new(spec: &StallSpec) -> Self {
        Self {
            spec: *spec,
            all: Vec::new(),
            gap: (0, 0),
            replies: 0,
            buf: vec![0; CHUNK],
        }
    }

    /// Adds one at `host`.
    pub(super) fn connect(&mut self, host: &KernelHost) -> io::Result<()> {
        let [address, _] = lab::addresses(SERVER);
        let to = SocketAddr::new(address, PORT);
        let stream = sockets::connect(&host.namespace, to, sockets::cubic)?;
        stream.set_nonblocking(true)?;
        self.all.push(Client {
            stream,
            heard: 0,
            last_reply: 0,
            next_request: 0,
        });
        Ok(())
    }

    /// Has `waiter` wait for what comes.
    pub(super) fn wait_with(&self, waiter: &Waiter) -> io::Result<()> {
        let mut tokens = self.all.iter().zip(0..);
        tokens.try_for_each(|(client, token)| waiter.add(&client.stream, token))
    }

    /// The first requests are made now.
    pub(super) fn begin(&mut self, now: u64) {
        for client in &mut self.all {
            (client.last_reply, client.next_request) = (now, now);
        }
    }

    /// Asks what is due and takes what came; when the next request is due.
    pub(super) fn step(&mut self, now: u64) -> io::Result<u64> {
        let every = self.spec.every.as_nanos() as u64;
        let mut next = u64::MAX;
        for (nth, client) in self.all.iter_mut().enumerate() {
            while client.next_request <= now {
                client.next_request += every;
                match client.stream.write(b"?") {
                    Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                    other => drop(other?),
                }
            }
            next = next.min(client.next_request);
            client.heard += sockets::heard(&client.stream, &mut self.buf)?;
            let whole = client.heard / self.spec.reply.get();
            if whole == 0 {
                continue;
            }
            client.heard %= self.spec.reply.get();
            if nth > 0 {
                self.replies += whole;
                if now - client.last_reply > self.gap.1 - self.gap.0 {
                    self.gap = (client.last_reply, now);
                }
            }
            client.last_reply = now;
        }
        Ok(next)
    }

    /// What was seen of them and of the `node`.
    pub(super) fn seen(&self, node: Node) -> StallRun {
        StallRun::new(&node.stalls, self.gap, node.most_queued, self.replies)
    }
}
