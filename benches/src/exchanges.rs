//! Many connections between two hosts, each of which has one short request under way: what a driver
//! does of a batch, without a device.

use narrows::config::{Buffers, TcpConfig};
use narrows::conn::Event;
use narrows::driver::LiveTcp;
use narrows::endpoint::{ConnId, EndpointConfig, EndpointEvent};
use narrows::interface::{Capabilities, Cidr, Interface, InterfaceConfig, Medium, RxFrame};
use narrows::wire::ethernet::MacAddr;
use narrows::{Duration, Instant};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;

/// Bytes of a request, and of its reply.
pub const MESSAGE: usize = 64;
/// Frames that a host takes in or sends at a time, as the drivers do.
pub const BATCH: usize = 64;
/// Bytes that each socket buffers each way.
pub const BUFFER: usize = 4 << 10;
/// The server's port.
pub const PORT: u16 = 5_001;

/// Virtual time of a batch.
const TURN: Duration = Duration::from_micros(10);

type Host = Interface<LiveTcp>;

/// A client and a server with their connections.
#[derive(Debug)]
pub struct Exchanges {
    now: Instant,
    client: Host,
    server: Host,
    clients: Vec<ConnId>,
    frames: Vec<Vec<u8>>,
    /// Replies that have come.
    replies: u64,
}

/// What arrived is read; the reply, or nothing.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Answer {
    Reply,
    Count,
}

fn address(n: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, 0, n).into()
}

fn host(n: u8) -> Host {
    let tcp = TcpConfig {
        buffers: Buffers {
            send: BUFFER,
            recv: BUFFER,
            ..Buffers::default()
        },
        ..TcpConfig::default()
    };
    let cidr = Cidr::new(address(n), 24).expect("a valid prefix");
    let config = InterfaceConfig::new(MacAddr([2, 0, 0, 0, 0, n]), vec![cidr]);
    let endpoint = EndpointConfig::new(Arc::new(tcp), [n; 16]);
    Interface::new(config, endpoint, Capabilities::plain(Medium::Ip, 1_500)).expect("valid")
}

impl Exchanges {
    /// So many connections, each of which has had an exchange.
    ///
    /// # Panics
    /// If one is not established.
    pub fn connected(connections: usize) -> Self {
        let mut this = Self {
            now: Instant::ZERO + Duration::from_secs(1),
            client: host(1),
            server: host(2),
            clients: Vec::with_capacity(connections),
            frames: Vec::new(),
            replies: 0,
        };
        let server = SocketAddr::new(address(2), PORT);
        this.server
            .listen(server, BATCH, None)
            .expect("nobody else listens");
        while this.clients.len() < connections {
            for _ in 0..BATCH.min(connections - this.clients.len()) {
                let conn = this.client.connect(this.now, None, server, None);
                this.clients.push(conn.expect("there are ports"));
            }
            for _ in 0..4 {
                this.turn();
            }
        }
        assert_eq!(this.server.endpoint().connections(), connections);
        this.round();
        this
    }

    /// An exchange of each connection.
    pub fn round(&mut self) {
        let expected = self.replies + self.clients.len() as u64;
        for &conn in &self.clients {
            let conn = self
                .client
                .endpoint_mut()
                .connection_mut(conn)
                .expect("open");
            let sent = conn.send(&[0x5a; MESSAGE], MESSAGE);
            assert_eq!(sent, Ok(MESSAGE));
        }
        while self.replies < expected {
            self.turn();
        }
    }

    /// A batch each way.
    fn turn(&mut self) {
        self.now = self.now + TURN;
        carry(
            &mut self.client,
            &mut self.server,
            self.now,
            &mut self.frames,
        );
        tell(&mut self.server, self.now, Answer::Reply);
        carry(
            &mut self.server,
            &mut self.client,
            self.now,
            &mut self.frames,
        );
        self.replies += tell(&mut self.client, self.now, Answer::Count);
    }
}

fn carry(from: &mut Host, to: &mut Host, now: Instant, frames: &mut Vec<Vec<u8>>) {
    if from.poll_timeout().is_some_and(|at| at <= now) {
        from.handle_timeout(now);
    }
    let mut sent = 0;
    while sent < BATCH
        && let Some(frame) = from.poll_frame(now)
    {
        if frames.len() == sent {
            frames.push(Vec::new());
        }
        frames[sent].clear();
        frame.append_to(&mut frames[sent]);
        sent += 1;
    }
    to.endpoint_mut().begin_batch();
    for frame in &frames[..sent] {
        to.handle_frame(now, &RxFrame::plain(frame));
    }
}

/// How many messages came.
fn tell(host: &mut Host, now: Instant, answer: Answer) -> u64 {
    let mut messages = 0;
    while let Some(event) = host.poll_event() {
        let EndpointEvent::Conn {
            conn,
            event: Event::Readable,
        } = event
        else {
            continue;
        };
        let conn = host.endpoint_mut().connection_mut(conn).expect("open");
        let mut message = [0; MESSAGE];
        let got = conn
            .recv_buffer()
            .peek(conn.readable_end())
            .copy_to_slice(&mut message);
        assert_eq!(got, MESSAGE, "a message comes as one");
        conn.consume(got as u64, now);
        if answer == Answer::Reply {
            assert_eq!(conn.send(&message, MESSAGE), Ok(MESSAGE));
        }
        messages += 1;
    }
    messages
}
