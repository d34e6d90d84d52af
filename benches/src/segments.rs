//! A stream through two TCPs in one process: every byte is copied in, segmented, carried,
//! acknowledged and copied out; or handed over and taken over without a copy: the one into the frame is
//! left, or none where a frame is gathered of its headers and what the user handed over.

use crate::SEGMENT;
use narrows::buffer::{Bytes, RecvRing, SendRing};
use narrows::config::{self, TcpConfig};
use narrows::conn::{Boxed, Connection, Event, Opening};
use narrows::device::Buffers;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent};
use narrows::wire::checksum::Sum;
use narrows::wire::{ChecksumPolicy, HeadChecksum, Headers, Seq, packet};
use narrows::{Duration, Instant};
use std::net::SocketAddr;
use std::sync::Arc;

/// Frames that the in-memory device holds each way.
pub const FRAMES: usize = 64;
/// Room for one of them.
pub const FRAME_LEN: usize = 1_536;
/// How much the user writes and reads at once.
pub const CHUNK: usize = 64 << 10;
/// Bytes that each socket buffers each way.
pub const BUFFER: usize = 1 << 20;

/// Virtual time between two turns.
const TURN: Duration = Duration::from_micros(10);

type Types = Boxed<SendRing, RecvRing>;

/// The TCP of both ends: the default (CUBIC, RACK-TLP, SACK, timestamps, delayed ACKs) with big
/// buffers.
pub fn config() -> TcpConfig {
    TcpConfig {
        buffers: config::Buffers {
            send: BUFFER,
            recv: BUFFER,
            ..config::Buffers::default()
        },
        ..TcpConfig::default()
    }
}

fn addresses() -> (SocketAddr, SocketAddr) {
    (
        SocketAddr::from(([10, 0, 0, 1], 40_000)),
        SocketAddr::from(([10, 0, 0, 2], 5_001)),
    )
}

/// Two endpoints and the frames between them, all checksums made and verified.
#[derive(Debug)]
pub struct Wired {
    now: Instant,
    sender: Endpoint<Types>,
    receiver: Endpoint<Types>,
    out: ConnId,
    into: ConnId,
    frames: Frames,
    lens: Vec<usize>,
    source: Bytes,
    sink: Vec<u8>,
    /// Packets with data that were carried so far.
    pub segments: u64,
}

/// Where frames lie, and with that who copies what the user sends and receives.
#[derive(Debug)]
enum Frames {
    /// In the device's memory: the TCPs copy what is written, into the frame, out of it, and what is
    /// read.
    Fixed(Box<[[u8; FRAME_LEN]]>),
    /// In buffers that whoever receives may keep, and gives back when it is done: the TCP that sends
    /// copies into them, and nobody else.
    Shared(Vec<Buffers>),
    /// In parts, as a device sends them that gathers: headers, and a reference to what the user handed
    /// over, which the user at the other end takes over.
    Gathered(Vec<Gathered>),
}

#[derive(Clone, Debug)]
struct Gathered {
    head: [u8; HEAD_LEN],
    body: Bytes,
}

/// Room for the headers of a frame: the longest of IPv4 and TCP.
const HEAD_LEN: usize = 120;

impl Wired {
    /// A connected pair that has sent enough for its windows to be open.
    pub fn connected() -> Self {
        let fixed = vec![[0; FRAME_LEN]; FRAMES].into_boxed_slice();
        Self::with_frames(Frames::Fixed(fixed))
    }

    /// The same where the user hands chunks over and takes the device's buffers over.
    pub fn connected_without_copies() -> Self {
        let buffers = (0..FRAMES).map(|_| Buffers::new(FRAME_LEN, 1)).collect();
        Self::with_frames(Frames::Shared(buffers))
    }

    /// The same where frames are gathered of parts.
    pub fn connected_by_reference() -> Self {
        let empty = Gathered {
            head: [0; HEAD_LEN],
            body: Bytes::new(),
        };
        Self::with_frames(Frames::Gathered(vec![empty; FRAMES]))
    }

    fn with_frames(frames: Frames) -> Self {
        let (client, server) = addresses();
        let endpoint =
            |n: u8| Endpoint::new(EndpointConfig::new(Arc::new(config()), [n; 16])).expect("valid");
        let (mut sender, mut receiver) = (endpoint(1), endpoint(2));
        let now = Instant::ZERO + Duration::from_secs(1);
        receiver
            .listen(server, 16, None)
            .expect("nobody else listens");
        let out = sender
            .connect(now, client, server, None)
            .expect("nobody else connects");
        let mut this = Self {
            now,
            sender,
            receiver,
            out,
            into: out,
            frames,
            lens: Vec::with_capacity(FRAMES),
            source: vec![0x5a; CHUNK].into(),
            sink: vec![0; CHUNK],
            segments: 0,
        };
        for _ in 0..3 {
            this.turn();
        }
        this.into = std::iter::from_fn(|| this.receiver.poll_event())
            .find_map(|event| match event {
                EndpointEvent::Accepted { conn, .. } => Some(conn),
                EndpointEvent::Conn { .. } => None,
            })
            .expect("the handshake is over");
        this.transfer(16 << 20);
        this
    }

    /// Send and receive `bytes`.
    pub fn transfer(&mut self, bytes: usize) {
        let (mut unsent, mut missing) = (bytes, bytes);
        while missing > 0 {
            while unsent > 0 {
                let conn = self.sender.connection_mut(self.out).expect("open");
                let len = unsent.min(CHUNK);
                let sent = match self.frames {
                    Frames::Fixed(_) => conn.send(&self.source[..len], len),
                    _ => conn.send_chunk(&mut self.source.slice(..len)),
                };
                match sent.expect("open") {
                    0 => break,
                    n => unsent -= n,
                }
            }
            self.turn();
            while self.sender.poll_event().is_some() {}
            while self.receiver.poll_event().is_some() {}
            missing -= self.read();
        }
    }

    fn read(&mut self) -> usize {
        let conn = self.receiver.connection_mut(self.into).expect("open");
        if !matches!(self.frames, Frames::Fixed(_)) {
            return conn.recv_chunks(usize::MAX, self.now, drop);
        }
        let mut got = 0;
        while conn.readable() > 0 {
            let n = conn
                .recv_buffer()
                .peek(conn.readable_end())
                .copy_to_slice(&mut self.sink);
            conn.consume(n as u64, self.now);
            got += n;
        }
        got
    }

    /// What the sender has, over to the receiver, and what that has, back.
    fn turn(&mut self) {
        self.now = self.now + TURN;
        let there = carry(
            &mut self.sender,
            &mut self.receiver,
            self.now,
            &mut self.frames,
            &mut self.lens,
        );
        let back = carry(
            &mut self.receiver,
            &mut self.sender,
            self.now,
            &mut self.frames,
            &mut self.lens,
        );
        self.segments += there;
        if there + back == 0 && self.lens.is_empty() {
            // A delayed ACK is all that is left.
            let next = [self.sender.poll_timeout(), self.receiver.poll_timeout()];
            if let Some(at) = next.into_iter().flatten().min() {
                self.now = self.now.max(at);
            }
        }
        self.sender.handle_timeout(self.now);
        self.receiver.handle_timeout(self.now);
    }
}

/// At most [`FRAMES`] frames; how many had data.
fn carry(
    from: &mut Endpoint<Types>,
    to: &mut Endpoint<Types>,
    now: Instant,
    frames: &mut Frames,
    lens: &mut Vec<usize>,
) -> u64 {
    lens.clear();
    while lens.len() < FRAMES {
        let at = lens.len();
        let frame = match frames {
            Frames::Fixed(frames) => &mut frames[at][..],
            Frames::Shared(frames) => frames[at].buffer(),
            Frames::Gathered(frames) => {
                match gather(from, now, &mut frames[at]) {
                    Some(len) => lens.push(len),
                    None => break,
                }
                continue;
            }
        };
        let sent = from.transmit(now, |headers, payload| {
            headers.emit(&payload, frame).expect("it fits")
        });
        match sent {
            Some(len) => lens.push(len),
            None => break,
        }
    }
    let mut data = 0;
    for (at, &len) in lens.iter().enumerate() {
        let (frame, shared) = match frames {
            Frames::Fixed(frames) => (&frames[at][..], None),
            Frames::Shared(frames) => {
                let shared = frames[at].share();
                (&shared[..], Some(shared))
            }
            Frames::Gathered(frames) => {
                data += u64::from(!frames[at].body.is_empty());
                scatter(to, now, &mut frames[at], len);
                continue;
            }
        };
        let read = packet::read(&frame[..len], ChecksumPolicy::Verify, |headers, payload| {
            data += u64::from(!payload.is_empty());
            match shared.filter(|_| !payload.is_empty()) {
                Some(shared) => {
                    to.handle_shared(now, headers, payload, shared);
                }
                None => to.handle_headers(now, headers, payload),
            }
        });
        read.expect("just written");
    }
    data
}

/// The next packet as a frame of parts: how long its headers are.
fn gather(from: &mut Endpoint<Types>, now: Instant, frame: &mut Gathered) -> Option<usize> {
    from.transmit(now, |headers, payload| {
        let sum = HeadChecksum::Full(Sum::of_parts(payload.slices()));
        let len = headers.emit_head(payload.len(), sum, &mut frame.head);
        frame.body = payload.to_bytes();
        len.expect("it fits")
    })
}

/// A frame of parts, whose headers are so long, has come.
fn scatter(to: &mut Endpoint<Types>, now: Instant, frame: &mut Gathered, len: usize) {
    let body = std::mem::take(&mut frame.body);
    let policy = ChecksumPolicy::Verify;
    let read = packet::read_apart(&frame.head[..len], body, policy, |headers, payload| {
        to.handle_bytes(now, headers, payload);
    });
    read.expect("just written");
}

/// Two bare connections: headers go over as they are, bytes are copied in, across, and out.
pub struct Bare {
    now: Instant,
    sender: Connection<Types>,
    receiver: Connection<Types>,
    frame: Box<[u8; FRAME_LEN]>,
    source: Vec<u8>,
    sink: Vec<u8>,
}

impl std::fmt::Debug for Bare {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Bare")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// The beginnings of a connection from `local` to `remote`.
pub fn opening(local: SocketAddr, remote: SocketAddr) -> Opening {
    Opening {
        local,
        remote,
        iss: Seq(1_000_000),
        timestamp_offset: 0,
        seed: 1,
        metrics: Default::default(),
    }
}

/// Two connections of which the first has connected to the second.
///
/// # Panics
/// If they do not come together in three packets.
pub fn handshake(
    client: TcpConfig,
    server: TcpConfig,
    now: Instant,
) -> (Connection<Types>, Connection<Types>) {
    let (c, s) = addresses();
    let mut active = Connection::<Types>::connect(Arc::new(client), opening(c, s), now);
    let (_, syn, _) = active.poll_transmit(now).expect("a SYN");
    let mut passive = Connection::<Types>::accept(Arc::new(server), opening(s, c), &syn, now);
    let (ip, syn_ack, _) = passive.poll_transmit(now).expect("a SYN-ACK");
    active.handle_segment(now, ip.ecn, &syn_ack, &[]);
    let (ip, ack, _) = active.poll_transmit(now).expect("an ACK");
    passive.handle_segment(now, ip.ecn, &ack, &[]);
    assert_eq!(active.poll_event(), Some(Event::Connected));
    assert_eq!(passive.poll_event(), Some(Event::Connected));
    (active, passive)
}

/// What leaves next, over; whether there was something.
fn pass(
    from: &mut Connection<Types>,
    to: &mut Connection<Types>,
    now: Instant,
    frame: &mut [u8; FRAME_LEN],
) -> bool {
    let sent = from.transmit(now, |headers, payload| {
        let n = payload.copy_to_slice(&mut frame[..]);
        match headers {
            Headers::Plain(segment) => {
                to.handle_plain(now, segment.ecn, &segment.tcp, &frame[..n]);
            }
            Headers::Sack(..) => {
                let (ip, tcp) = headers.whole();
                to.handle_segment(now, ip.ecn, &tcp, &frame[..n]);
            }
            Headers::Any(ip, tcp) => to.handle_segment(now, ip.ecn, tcp, &frame[..n]),
        }
    });
    sent.is_some()
}

impl Bare {
    /// A connected pair that has sent enough for its windows to be open.
    pub fn connected() -> Self {
        let now = Instant::ZERO + Duration::from_secs(1);
        let (sender, receiver) = handshake(config(), config(), now);
        let mut this = Self {
            now,
            sender,
            receiver,
            frame: Box::new([0; FRAME_LEN]),
            source: vec![0x5a; CHUNK],
            sink: vec![0; CHUNK],
        };
        this.transfer(16 << 20);
        this
    }

    /// Send and receive `bytes`.
    pub fn transfer(&mut self, bytes: usize) {
        let (mut unsent, mut missing) = (bytes, bytes);
        while missing > 0 {
            while unsent > 0 {
                let chunk = &self.source[..unsent.min(CHUNK)];
                match self.sender.send(chunk, chunk.len()).expect("open") {
                    0 => break,
                    n => unsent -= n,
                }
            }
            self.now = self.now + TURN;
            let mut carried = 0;
            let (now, frame) = (self.now, &mut self.frame);
            while carried < FRAMES && pass(&mut self.sender, &mut self.receiver, now, frame) {
                carried += 1;
            }
            while pass(&mut self.receiver, &mut self.sender, now, frame) {
                carried += 1;
            }
            if carried == 0
                && let Some(at) = self.receiver.poll_timeout()
            {
                self.now = self.now.max(at);
            }
            if self
                .receiver
                .poll_timeout()
                .is_some_and(|at| at <= self.now)
            {
                self.receiver.handle_timeout(self.now);
            }
            if self.sender.poll_timeout().is_some_and(|at| at <= self.now) {
                self.sender.handle_timeout(self.now);
            }
            while self.receiver.readable() > 0 {
                let view = self
                    .receiver
                    .recv_buffer()
                    .peek(self.receiver.readable_end());
                let n = view.copy_to_slice(&mut self.sink);
                self.receiver.consume(n as u64, self.now);
                missing -= n;
            }
        }
    }
}

/// Full segments in `bytes`.
pub const fn segments(bytes: usize) -> u64 {
    bytes.div_ceil(SEGMENT) as u64
}
