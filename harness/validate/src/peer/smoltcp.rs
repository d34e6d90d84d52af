//! A simulated host whose TCP is smoltcp's.
//!
//! Every packet to it is serialised and every packet of it parsed by our wire formats, with
//! checksums on. Between smoltcp and the NIC lies a queue without limit, in which a packet that
//! the NIC refuses waits for room. smoltcp's clock counts microseconds, its RTO is at least a
//! second; it sends SACK blocks, ignores those it gets, and retransmits everything after a hole.
//! What its user has not read when TIME-WAIT ends, after 10 s, is gone.
//!
//! Leaves out: timestamps (smoltcp takes them from a function without arguments, hence from a
//! global clock), and smoltcp's IPv6.

use super::{Close, Flow, FlowEnd, FlowReport, Open, Pace, Read};
use narrows::buffer::Synthetic;
use narrows::buffer::synthetic::{check_pattern, fill_pattern};
use narrows::wire::{self, ChecksumPolicy, Flags, Seq};
use narrows::{Duration, Instant};
use narrows_net::host::{SimPacket, address_of};
use narrows_net::net::nic::NicRoom;
use narrows_net::net::packet::HostId;
use narrows_net::sim::rng::{Component, Stream};
use narrows_net::sim::world::Host;
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, Device, DeviceCapabilities, Medium};
use smoltcp::socket::tcp::{CongestionControl, Socket, SocketBuffer, State};
use smoltcp::time;
use smoltcp::wire::{HardwareAddress, IpAddress, IpCidr};
use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

/// How smoltcp is set up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SmoltcpConfig {
    /// MTU in bytes.
    pub mtu: usize,
    /// Receive buffer of a connection in bytes.
    pub recv_buffer: usize,
    /// Send buffer of a connection in bytes.
    pub send_buffer: usize,
    /// Delayed ACKs wait this long; `None`: each segment is acknowledged at once.
    pub ack_delay: Option<Duration>,
    /// Nagle's algorithm.
    pub nagle: bool,
    /// Congestion control.
    pub congestion: SmoltcpCongestion,
}

impl Default for SmoltcpConfig {
    /// 64 KiB each way, everything else as smoltcp has it; Reno.
    fn default() -> Self {
        Self {
            mtu: 1_500,
            recv_buffer: 1 << 16,
            send_buffer: 1 << 16,
            ack_delay: Some(Duration::from_millis(10)),
            nagle: true,
            congestion: SmoltcpCongestion::Reno,
        }
    }
}

/// smoltcp's congestion controls.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmoltcpCongestion {
    /// None: it sends what the peer's window allows.
    None,
    /// Reno.
    Reno,
    /// CUBIC.
    Cubic,
}

/// Packets to and from smoltcp.
#[derive(Debug)]
struct Queues {
    mtu: usize,
    to_tcp: VecDeque<Vec<u8>>,
    from_tcp: VecDeque<Vec<u8>>,
}

struct RxToken(Vec<u8>);
struct TxToken<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::RxToken for RxToken {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, f: F) -> R {
        f(&self.0)
    }
}

impl phy::TxToken for TxToken<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, len: usize, f: F) -> R {
        let mut packet = vec![0; len];
        let result = f(&mut packet);
        self.0.push_back(packet);
        result
    }
}

impl Device for Queues {
    type RxToken<'a> = RxToken;
    type TxToken<'a> = TxToken<'a>;

    fn receive(&mut self, _: time::Instant) -> Option<(RxToken, TxToken<'_>)> {
        let packet = self.to_tcp.pop_front()?;
        Some((RxToken(packet), TxToken(&mut self.from_tcp)))
    }
    fn transmit(&mut self, _: time::Instant) -> Option<TxToken<'_>> {
        Some(TxToken(&mut self.from_tcp))
    }
    fn capabilities(&self) -> DeviceCapabilities {
        let mut caps = DeviceCapabilities::default();
        caps.medium = Medium::Ip;
        caps.max_transmission_unit = self.mtu;
        caps
    }
}

/// A flow of the host.
#[derive(Debug)]
struct TheirFlow {
    flow: Flow,
    socket: SocketHandle,
    pace: Pace,
    waits: bool,
    established: bool,
    closed: bool,
    fin_seen: bool,
    report: FlowReport,
}

impl TheirFlow {
    /// Does what can be done now; whether that was anything.
    fn progress(&mut self, socket: &mut Socket<'_>, now: Instant) -> bool {
        let mut did = false;
        self.established |= !matches!(
            socket.state(),
            State::Closed | State::Listen | State::SynSent | State::SynReceived
        );
        while self.report.sent < self.flow.send && socket.can_send() {
            let (at, left) = (self.report.sent, self.flow.send - self.report.sent);
            let taken = socket.send(|buf| {
                let n = buf.len().min(usize::try_from(left).unwrap_or(usize::MAX));
                fill_pattern(at, &mut buf[..n]);
                (n, n)
            });
            match taken {
                Ok(n) if n > 0 => self.report.sent += n as u64,
                _ => break,
            }
            did = true;
        }
        did |= self.read(socket, now);
        self.waits = socket.recv_queue() > 0;
        // A RST may end these states while there is data left to read.
        self.fin_seen |= matches!(
            socket.state(),
            State::CloseWait | State::LastAck | State::Closing | State::TimeWait
        );
        self.report.peer_closed = self.fin_seen && !self.waits;
        let peer = self.report.peer_closed || self.flow.close == Close::WhenSent;
        if !self.closed && peer && self.report.sent == self.flow.send && socket.may_send() {
            socket.close();
            self.closed = true;
            did = true;
        }
        let whole = self.closed && self.report.peer_closed;
        self.report.end = match socket.state() {
            State::TimeWait | State::Closed if whole => FlowEnd::Finished,
            State::Closed if !self.waits => FlowEnd::Failed,
            _ => self.report.end,
        };
        did
    }

    fn read(&mut self, socket: &mut Socket<'_>, now: Instant) -> bool {
        let readable = socket.recv_queue() as u64;
        let mut left = self.pace.allows(self.flow.read, readable, now);
        let did = left > 0;
        while left > 0 {
            let at = self.report.received;
            let got = socket.recv(|buf| {
                let n = buf.len().min(left as usize);
                (n, (n as u64, check_pattern(at, &buf[..n])))
            });
            let Ok((n @ 1.., wrong)) = got else { break };
            if let Some(from) = wrong {
                self.report.wrong += at + n - from;
            }
            self.report.received += n;
            self.report.last_byte = now;
            left -= n;
        }
        did
    }
}

/// Where the stream of one of its connections is.
#[derive(Clone, Copy, Debug)]
struct Sent {
    iss: Seq,
    /// Stream offset of the last payload seen.
    last: u64,
}

/// A host whose TCP is smoltcp's.
pub struct SmoltcpHost {
    config: SmoltcpConfig,
    interface: Interface,
    sockets: SocketSet<'static>,
    queues: Queues,
    flows: Vec<TheirFlow>,
    /// By local port and peer.
    sent: BTreeMap<(u16, IpAddr, u16), Sent>,
    deadline: Option<Instant>,
    /// Packets sent whose payload was not that of their place.
    pub wrong_out: u64,
}

impl SmoltcpHost {
    /// Host number `id` of the run with `seed`.
    pub fn new(id: HostId, config: SmoltcpConfig, flows: &[Flow], seed: u64) -> Self {
        let mut queues = Queues {
            mtu: config.mtu,
            to_tcp: VecDeque::new(),
            from_tcp: VecDeque::new(),
        };
        let mut interface_config = Config::new(HardwareAddress::Ip);
        interface_config.random_seed =
            Stream::new(seed, Component::Host, u64::from(id.0)).next_u64();
        let mut interface = Interface::new(interface_config, &mut queues, time::Instant::ZERO);
        interface.update_ip_addrs(|addresses| {
            // Every host is a neighbour.
            let own = address(address_of(id)).map(|own| IpCidr::new(own, 8));
            if let Some(own) = own {
                addresses
                    .push(own)
                    .expect("the list is empty and has room for one");
            }
        });
        let mut sockets = SocketSet::new(Vec::new());
        let flows = flows.iter().map(|flow| TheirFlow {
            flow: *flow,
            socket: sockets.add(socket(&config)),
            pace: Pace {
                next: Instant::ZERO,
            },
            waits: false,
            established: false,
            closed: false,
            fin_seen: false,
            report: FlowReport::NEW,
        });
        let flows = flows.collect();
        Self {
            config,
            interface,
            sockets,
            queues,
            flows,
            sent: BTreeMap::new(),
            deadline: None,
            wrong_out: 0,
        }
    }

    /// How each flow stands.
    pub fn reports(&self) -> Vec<FlowReport> {
        self.flows.iter().map(|f| f.report).collect()
    }

    /// How it is set up.
    pub fn config(&self) -> &SmoltcpConfig {
        &self.config
    }

    /// smoltcp and the application, until neither has more to do; then the next deadline.
    fn run(&mut self, now: Instant) {
        let stamp = time::Instant::from_micros((now.as_nanos() / 1_000) as i64);
        loop {
            self.interface
                .poll(stamp, &mut self.queues, &mut self.sockets);
            let mut did = false;
            for f in self
                .flows
                .iter_mut()
                .filter(|f| f.report.end == FlowEnd::Open)
            {
                let socket = self.sockets.get_mut::<Socket<'_>>(f.socket);
                if f.established || !matches!(socket.state(), State::Closed) {
                    did |= f.progress(socket, now);
                } else if let Open::Active { .. } = f.flow.open {
                    f.report.end = FlowEnd::Failed;
                }
            }
            if !did {
                break;
            }
        }
        // Its clock has to advance before it is asked again.
        let next = stamp + time::Duration::from_micros(1);
        let theirs = self.interface.poll_at(stamp, &self.sockets).map(|at| {
            let micros = u64::try_from(at.max(next).total_micros()).unwrap_or(0);
            Instant::from_nanos(micros * 1_000)
        });
        let waits = |f: &&TheirFlow| f.waits && matches!(f.flow.read, Read::Paced { .. });
        let ours = self.flows.iter().filter(waits).map(|f| f.pace.next).min();
        self.deadline = theirs.into_iter().chain(ours).min();
    }

    /// A packet of smoltcp's as the network carries it.
    fn parse(&mut self, bytes: &[u8]) -> SimPacket {
        let packet = wire::Packet::parse(bytes, ChecksumPolicy::Verify)
            .unwrap_or_else(|e| panic!("smoltcp's packet does not parse: {e:?}: {bytes:02x?}"));
        let (ip, tcp, payload) = (packet.ip, packet.tcp, packet.payload);
        let key = (tcp.src_port, ip.dst, tcp.dst_port);
        if tcp.flags.contains(Flags::SYN) {
            self.sent.insert(
                key,
                Sent {
                    iss: tcp.seq,
                    last: 0,
                },
            );
        }
        let mut offset = 0;
        if !payload.is_empty() {
            match self.sent.get_mut(&key) {
                Some(sent) => {
                    let low = tcp.seq.since(sent.iss + 1);
                    let ahead = low.wrapping_sub(sent.last as u32) as i32;
                    offset = sent.last.wrapping_add_signed(i64::from(ahead));
                    sent.last = offset;
                    if check_pattern(offset, payload).is_some() {
                        self.wrong_out += 1;
                        // A place from which the receiver cannot expect it.
                        offset ^= 1 << 62;
                    }
                }
                None => {
                    self.wrong_out += 1;
                    offset = 1 << 62;
                }
            }
        }
        SimPacket::new(
            &ip,
            &tcp,
            Synthetic {
                offset,
                len: payload.len() as u32,
            },
        )
    }
}

/// smoltcp runs over IPv4 only here.
fn address(ip: IpAddr) -> Option<IpAddress> {
    match ip {
        IpAddr::V4(v4) => Some(IpAddress::from(v4)),
        IpAddr::V6(_) => None,
    }
}

/// A closed socket.
fn socket(config: &SmoltcpConfig) -> Socket<'static> {
    let buffer = |len| SocketBuffer::new(vec![0; len]);
    let mut socket = Socket::new(buffer(config.recv_buffer), buffer(config.send_buffer));
    socket.set_ack_delay(
        config
            .ack_delay
            .map(|d| time::Duration::from_micros(d.as_nanos() / 1_000)),
    );
    socket.set_nagle_enabled(config.nagle);
    socket.set_congestion_control(match config.congestion {
        SmoltcpCongestion::None => CongestionControl::None,
        SmoltcpCongestion::Reno => CongestionControl::Reno,
        SmoltcpCongestion::Cubic => CongestionControl::Cubic,
    });
    socket
}

impl Host for SmoltcpHost {
    type Packet = SimPacket;

    fn handle_start(&mut self, now: Instant) {
        for f in &mut self.flows {
            let socket = self.sockets.get_mut::<Socket<'_>>(f.socket);
            let opened = match f.flow.open {
                Open::Active { port, to } => {
                    let cx = self.interface.context();
                    address(to.ip())
                        .is_some_and(|ip| socket.connect(cx, (ip, to.port()), port).is_ok())
                }
                Open::Passive { port } => socket.listen(port).is_ok(),
            };
            if !opened {
                f.report.end = FlowEnd::Failed;
            }
        }
        self.run(now);
    }

    fn handle_packet(&mut self, now: Instant, packet: &SimPacket) {
        let mut bytes = Vec::new();
        packet.write(&mut bytes);
        self.queues.to_tcp.push_back(bytes);
        self.run(now);
    }

    fn handle_timeout(&mut self, now: Instant) {
        self.run(now);
    }

    fn poll_transmit(
        &mut self,
        _now: Instant,
        _room: impl FnOnce() -> NicRoom,
    ) -> Option<SimPacket> {
        let bytes = self.queues.from_tcp.pop_front()?;
        Some(self.parse(&bytes))
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.deadline
    }

    fn local_drop(&mut self, _now: Instant, packet: SimPacket) {
        let mut bytes = Vec::new();
        packet.write(&mut bytes);
        self.queues.from_tcp.push_front(bytes);
    }

    fn waits_for_nic(&self) -> bool {
        !self.queues.from_tcp.is_empty()
    }
}
