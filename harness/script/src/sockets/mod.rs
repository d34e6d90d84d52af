//! Sockets in virtual time: the calls of a user, packets in and out as bytes, and a clock that
//! moves only when it is told to.
//!
//! This is what scripts run against, and what the shared object for packetdrill puts behind its C
//! interface.
//!
//! - [`Sockets::call`] makes a call. It is [done](Outcome::Done) or [blocks](Outcome::Blocks);
//!   what blocked is found in [`Sockets::finished`] when it has returned.
//! - [`Sockets::packet_in`] takes an IP packet, [`Sockets::departed`] gives those that have left.
//! - [`Sockets::advance_to`] lets time go on, [`Sockets::fire`] to the next timer.
//!
//! What happens at the same instant as a timer comes before it, as in the simulator.
//!
//! ```
//! use narrows::Duration;
//! use narrows_script::Profile;
//! use narrows_script::sockets::{Call, Config, Outcome, Sockets};
//!
//! let mut sockets = Sockets::new(&Config::new(Profile::Rfc, "192.168.0.1".parse()?))?;
//! let Outcome::Done(socket) = sockets.call(Call::Socket { nonblocking: false })? else {
//!     unreachable!("socket() does not block");
//! };
//! let fd = socket.result? as i32;
//! // The SYN leaves, and again after a second: nobody answers.
//! sockets.call(Call::Connect { fd, to: "192.0.2.1:80".parse()? })?;
//! assert!(sockets.departed().is_some_and(|sent| sent.at == sockets.now()));
//! let later = sockets.now() + Duration::from_millis(1_500);
//! sockets.advance_to(later)?;
//! assert!(sockets.departed().is_some_and(|again| again.at < later));
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod call;
mod errno;
pub(super) mod fast_open;
mod info;
mod io;
mod open;
mod options;
mod poll;
mod socket;

pub use call::*;
pub use errno::Errno;
pub use io::FLAGS_KNOWN;

use super::profile::Profile;
use super::setup;
use narrows::buffer::{RecvRing, SendRing};
use narrows::config::TcpConfig;
use narrows::conn::Boxed;
use narrows::endpoint::{ConnId, Endpoint, EndpointConfig, EndpointEvent, ListenerId};
use narrows::wire::{
    ChecksumPolicy, Flags, IcmpPacket, IpHeader, Packet, ParseError, TcpHeader, TcpOptions,
};
use narrows::{ByteCount, Instant};
use socket::{Progress, Reply, Socket};
use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;

type Host = Endpoint<Boxed<SendRing, RecvRing>>;

/// When virtual time begins. Not zero, which stands for "never" in places.
pub const BEGIN: Instant = Instant::from_nanos(1_000_000_000);
/// Timers that may fire in all: a stack that spins is caught here.
const MAX_TIMERS: usize = 1_000_000;
/// Packets that may wait to be taken.
pub(super) const MAX_WAITING: usize = 100_000;

/// The address of a host where nothing is said of it: private ones, for both families.
pub const fn local_address(v6: bool) -> IpAddr {
    match v6 {
        true => IpAddr::V6(Ipv6Addr::new(0xfd3d, 0x0a0b, 0x17d6, 0, 0, 0, 0, 1)),
        false => IpAddr::V4(Ipv4Addr::new(192, 168, 0, 1)),
    }
}

/// What the TCP behind the sockets begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Config {
    /// Whose choices hold where the RFCs leave one.
    pub profile: Profile,
    /// The address of sockets that are not bound to one; for the other family it is
    /// [`local_address`].
    pub local: IpAddr,
    /// Bytes of the largest packet.
    pub mtu: u16,
}

impl Config {
    /// With packets of up to 1,500 bytes.
    pub const fn new(profile: Profile, local: IpAddr) -> Self {
        Self {
            profile,
            local,
            mtu: 1_500,
        }
    }

    /// The largest segment's text, but at least 64 bytes.
    pub fn mss(&self) -> u16 {
        let headers = if self.local.is_ipv4() { 40 } else { 60 };
        self.mtu.saturating_sub(headers).max(64)
    }
}

/// Why nothing more can be done.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Stuck {
    /// A million timers fired.
    Timers,
    /// A hundred thousand packets left and nobody took them.
    Packets,
    /// This TCP, or these sockets, do not do what is asked; why.
    Refused(String),
}

impl fmt::Display for Stuck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Timers => {
                f.write_str("a million timers fired: the script waits for what never comes")
            }
            Self::Packets => f.write_str("100000 packets left that the script does not speak of"),
            Self::Refused(why) => f.write_str(why),
        }
    }
}
impl std::error::Error for Stuck {}

/// A call is refused, because.
fn refused<T>(why: impl fmt::Display) -> Result<T, Stuck> {
    Err(Stuck::Refused(why.to_string()))
}

/// A packet that left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sent {
    /// When.
    pub at: Instant,
    /// Its IP header.
    pub ip: IpHeader,
    /// Its TCP header.
    pub tcp: TcpHeader,
    /// Its text.
    pub payload: Vec<u8>,
}

impl Sent {
    /// The packet as it stands on the wire, from the IP header on.
    ///
    /// # Errors
    /// When it is longer than an IP packet can be.
    pub fn bytes(&self) -> Result<Vec<u8>, narrows::wire::EmitError> {
        let packet = Packet {
            ip: self.ip,
            tcp: self.tcp.clone(),
            payload: &self.payload[..],
        };
        let mut out = vec![0; packet.wire_len()];
        let len = packet.emit(&mut out)?;
        out.truncate(len);
        Ok(out)
    }
}

/// A call that blocked has returned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finished {
    /// Which one.
    pub id: CallId,
    /// When.
    pub at: Instant,
    /// What came of it.
    pub answer: Answer,
}

/// What the packets of a connection told.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// Options of the peer's last SYN.
    peer: TcpOptions,
    /// Options of our last SYN.
    own: TcpOptions,
    /// Segments with text that arrived.
    data_in: u64,
    /// Segments with text that left.
    data_out: u64,
}

struct Pending {
    id: CallId,
    call: Call,
    progress: Progress,
}

/// The sockets of one host.
pub struct Sockets {
    config: Config,
    /// What new sockets get.
    tcp: TcpConfig,
    host: Host,
    now: Instant,
    sockets: BTreeMap<Fd, Socket>,
    /// Connections of descriptors that are closed.
    former: BTreeMap<Fd, ConnId>,
    next_fd: Fd,
    /// Established and not accepted.
    arrived: BTreeMap<ListenerId, VecDeque<ConnId>>,
    /// By local and remote address.
    seen: BTreeMap<(SocketAddr, SocketAddr), Seen>,
    outbox: VecDeque<Sent>,
    pending: Vec<Pending>,
    finished: VecDeque<Finished>,
    calls: u64,
    fired: usize,
}

impl fmt::Debug for Sockets {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sockets")
            .field("config", &self.config)
            .field("now", &self.now)
            .field("sockets", &self.sockets.keys())
            .finish_non_exhaustive()
    }
}

impl Sockets {
    /// No sockets yet.
    ///
    /// # Errors
    /// When the profile and the MTU make no valid TCP.
    pub fn new(config: &Config) -> Result<Self, Stuck> {
        let mut tcp = config.profile.tcp();
        tcp.mss = config.mss();
        if config.profile == Profile::Freebsd {
            // Its receive buffer holds whole segments.
            let whole = 65_536u64.next_multiple_of(u64::from(tcp.mss));
            tcp.buffers.window_clamp = Some(ByteCount::new(whole));
        }
        let endpoint = EndpointConfig::new(Arc::new(tcp.clone()), *b"narrows script 1");
        let host = Host::new(endpoint).or_else(|e| refused(format!("the TCP: {e}")))?;
        Ok(Self {
            config: *config,
            tcp,
            host,
            now: BEGIN,
            sockets: BTreeMap::new(),
            former: BTreeMap::new(),
            next_fd: 3,
            arrived: BTreeMap::new(),
            seen: BTreeMap::new(),
            outbox: VecDeque::new(),
            pending: Vec::new(),
            finished: VecDeque::new(),
            calls: 0,
            fired: 0,
        })
    }

    /// A set-up line, for the sockets made from now on; see [`setup::apply`].
    ///
    /// # Errors
    /// What is not known, by name.
    pub fn setup(&mut self, line: &str) -> Result<(), String> {
        if line.contains("tcp_metrics") {
            self.host.forget_fast_open();
        }
        setup::apply(line, &mut self.tcp)
    }

    /// The time.
    pub const fn now(&self) -> Instant {
        self.now
    }

    /// When a timer fires next, or a call gives up waiting.
    pub fn next_timer(&self) -> Option<Instant> {
        let wakes = self.pending.iter().filter_map(|p| p.progress.wake);
        self.host.poll_timeout().into_iter().chain(wakes).min()
    }

    /// When the next timer of a connection fires. The host's timers may promise too early a time;
    /// a connection's do not.
    pub fn next_timer_of(&self, fd: Fd) -> Option<Instant> {
        self.connection(fd)?.poll_timeout()
    }

    /// Let time go on to `to`. What happens at `to` itself is still to come.
    ///
    /// # Errors
    /// When the stack spins.
    pub fn advance_to(&mut self, to: Instant) -> Result<(), Stuck> {
        while let Some(at) = self.next_timer().filter(|at| *at < to) {
            self.fire_at(at)?;
        }
        self.now = self.now.max(to);
        Ok(())
    }

    /// Let time go on to the next timer, which fires; when that is. None: no timer is armed.
    ///
    /// # Errors
    /// When the stack spins.
    pub fn fire(&mut self) -> Result<Option<Instant>, Stuck> {
        let next = self.next_timer();
        if let Some(at) = next {
            self.fire_at(at)?;
        }
        Ok(next)
    }

    fn fire_at(&mut self, at: Instant) -> Result<(), Stuck> {
        self.fired += 1;
        if self.fired > MAX_TIMERS {
            return Err(Stuck::Timers);
        }
        self.now = self.now.max(at);
        self.host.handle_timeout(self.now);
        self.settle()
    }

    /// An IP packet arrives. What is no good packet of TCP or ICMP is dropped, as a host does.
    ///
    /// # Errors
    /// When the stack spins.
    pub fn packet_in(&mut self, bytes: &[u8]) -> Result<(), Stuck> {
        match Packet::parse(bytes, ChecksumPolicy::Verify) {
            Ok(packet) => {
                let Packet { ip, tcp, payload } = packet;
                let local = SocketAddr::new(ip.dst, tcp.dst_port);
                let remote = SocketAddr::new(ip.src, tcp.src_port);
                let seen = self.seen.entry((local, remote)).or_default();
                if tcp.flags.contains(Flags::SYN) {
                    seen.peer.clone_from(&tcp.options);
                }
                seen.data_in += u64::from(!payload.is_empty());
                self.host.handle_packet(self.now, &ip, &tcp, payload);
            }
            Err(ParseError::Protocol(_)) => {
                let icmp = IcmpPacket::parse(bytes, ChecksumPolicy::Verify);
                if let Some(error) = icmp.ok().and_then(|i| i.tcp_error()) {
                    self.host.handle_icmp(self.now, &error);
                }
            }
            Err(_) => {}
        }
        self.settle()
    }

    /// The next packet that has left; time does not go on for it.
    pub fn departed(&mut self) -> Option<Sent> {
        self.outbox.pop_front()
    }

    /// The next call that blocked and has returned.
    pub fn finished(&mut self) -> Option<Finished> {
        self.finished.pop_front()
    }

    /// Whether there is one.
    pub fn has_finished(&self) -> bool {
        !self.finished.is_empty()
    }

    /// Make a call.
    ///
    /// # Errors
    /// What these sockets do not do, by name; when the stack spins.
    pub fn call(&mut self, call: Call) -> Result<Outcome, Stuck> {
        let mut progress = Progress::at(self.now);
        let outcome = match self.attempt(&call, &mut progress)? {
            Reply::Answer(answer) => Outcome::Done(answer),
            Reply::Block => {
                self.calls += 1;
                let id = CallId(self.calls);
                self.pending.push(Pending { id, call, progress });
                Outcome::Blocks(id)
            }
        };
        self.settle()?;
        Ok(outcome)
    }

    /// Give up a call that blocks: it will not be answered.
    pub fn forget(&mut self, id: CallId) {
        self.pending.retain(|p| p.id != id);
        self.finished.retain(|f| f.id != id);
    }

    /// Something happened: what leaves, who is told, who can go on.
    fn settle(&mut self) -> Result<(), Stuck> {
        loop {
            self.drain()?;
            if !self.try_pending()? {
                return Ok(());
            }
        }
    }

    fn drain(&mut self) -> Result<(), Stuck> {
        loop {
            let mut idle = true;
            while let Some((ip, tcp, payload)) = self.host.poll_transmit(self.now) {
                idle = false;
                let sent = Sent {
                    at: self.now,
                    payload: payload.iter().collect(),
                    ip,
                    tcp,
                };
                if self.outbox.len() == MAX_WAITING {
                    return Err(Stuck::Packets);
                }
                let local = SocketAddr::new(sent.ip.src, sent.tcp.src_port);
                let remote = SocketAddr::new(sent.ip.dst, sent.tcp.dst_port);
                let seen = self.seen.entry((local, remote)).or_default();
                if sent.tcp.flags.contains(Flags::SYN) {
                    seen.own.clone_from(&sent.tcp.options);
                }
                seen.data_out += u64::from(!sent.payload.is_empty());
                self.outbox.push_back(sent);
            }
            while let Some(event) = self.host.poll_event() {
                idle = false;
                if let EndpointEvent::Accepted { listener, conn } = event {
                    self.arrived.entry(listener).or_default().push_back(conn);
                }
            }
            if idle {
                return Ok(());
            }
        }
    }

    /// Calls that blocked, once more; whether something changed.
    fn try_pending(&mut self) -> Result<bool, Stuck> {
        let mut changed = false;
        for mut pending in std::mem::take(&mut self.pending) {
            match self.attempt(&pending.call, &mut pending.progress)? {
                Reply::Block => {
                    changed |= std::mem::take(&mut pending.progress.moved);
                    self.pending.push(pending);
                }
                Reply::Answer(answer) => {
                    changed = true;
                    self.finished.push_back(Finished {
                        id: pending.id,
                        at: self.now,
                        answer,
                    });
                }
            }
        }
        Ok(changed)
    }

    /// Try a call; again, if it blocked before.
    fn attempt(&mut self, call: &Call, progress: &mut Progress) -> Result<Reply, Stuck> {
        let reply = match call {
            Call::Socket { nonblocking } => self.open(*nonblocking),
            Call::Bind { fd, at } => self.bind(*fd, *at),
            Call::Listen { fd, backlog } => self.listen(*fd, *backlog),
            Call::Accept { fd, nonblocking } => self.accept(*fd, *nonblocking),
            Call::Connect { fd, to } => self.connect(*fd, *to, progress),
            Call::Receive {
                fd, parts, flags, ..
            } => self.receive(*fd, total(parts), *flags),
            Call::Send {
                fd,
                text,
                flags,
                to,
                ..
            } => self.send(*fd, text, *flags, *to, progress),
            Call::Close { fd } => self.close(*fd),
            Call::Shutdown { fd, read, write } => self.shutdown(*fd, *read, *write),
            Call::SetOption { fd, name, value } => self.set_option(*fd, name, value),
            Call::GetOption { fd, name } => self.get_option(*fd, name),
            Call::GetFlags { fd } => self.get_flags(*fd),
            Call::SetFlags { fd, nonblocking } => self.set_flags(*fd, *nonblocking),
            Call::Ioctl { fd, request, value } => self.ioctl(*fd, request, *value),
            Call::Poll { wanted, timeout_ms } => self.poll(wanted, *timeout_ms, progress),
        };
        progress.tried = true;
        reply
    }
}

/// Bytes that there is room for.
fn total(parts: &[usize]) -> usize {
    parts.iter().fold(0, |sum: usize, n| sum.saturating_add(*n))
}
