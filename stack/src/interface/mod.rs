//! Joins a device to an endpoint: frames to packets and back, neighbours, ICMP.
//!
//! Sans-I/O, as everything below it: time is an argument, frames come and go as bytes.
//!
//! # How to drive it
//! 1. [`handle_frame`](Interface::handle_frame) for each frame that the device has received.
//! 2. [`handle_timeout`](Interface::handle_timeout) when [`poll_timeout`](Interface::poll_timeout)
//!    has come.
//! 3. [`endpoint_mut`](Interface::endpoint_mut) for events and user calls.
//! 4. [`poll_frame`](Interface::poll_frame) until it gives `None`. If the device refuses a frame,
//!    say so with [`handle_refused`](Interface::handle_refused) and stop until it has room.
//!
//! What a host cannot use is counted in [`InterfaceStats`] and dropped: tagged frames, fragments,
//! wrong checksums, other protocols, other hosts' packets. Nothing that arrives is fatal.

mod address;
mod frame;
mod input;
mod output;

pub use address::{Cidr, CidrError};
pub use frame::{
    Capabilities, Medium, Offload, PartialChecksum, RxChecksum, RxFrame, Segmentation, TxFrame,
};

use crate::buffer::{RecvRing, SendRing};
use crate::config::{ConfigError, TcpConfig};
use crate::conn::TcpTypes;
use crate::endpoint::{
    ConnId, ConnectError, Endpoint, EndpointConfig, EndpointEvent, ListenError, ListenerId,
};
use crate::neighbor::{NeighborCache, NeighborConfig};
use crate::wire::ethernet::MacAddr;
use crate::wire::{IpHeader, PlainSegment, TcpHeader};
use address::Addresses;
use narrows_congestion::Instant;
use output::Link;
use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Connections whose bytes are real.
pub trait ByteTcp: TcpTypes<Send = SendRing, Recv = RecvRing> {}
impl<T: TcpTypes<Send = SendRing, Recv = RecvRing>> ByteTcp for T {}

/// Values of an interface.
#[derive(Clone, Debug)]
pub struct InterfaceConfig {
    /// Our hardware address; without meaning on [`Medium::Ip`].
    pub mac: MacAddr,
    /// Our addresses. Where one is of IPv6 and none link-local, the hardware address makes one more
    /// on [`Medium::Ethernet`]: every interface has one (RFC 4291 section 2.1).
    pub addresses: Vec<Cidr>,
    /// Routers, at most one of each family, for what is in none of the networks of `addresses`.
    pub gateways: Vec<IpAddr>,
    /// Send and take frames with this VLAN's tag only; `None`: untagged ones only.
    pub vlan: Option<u16>,
    /// Neighbours.
    pub neighbors: NeighborConfig,
    /// Neighbours whose hardware address is configured.
    pub fixed_neighbors: Vec<(IpAddr, MacAddr)>,
    /// Where the MSS comes from.
    pub mss: MssRule,
    /// Answer ICMP echo requests.
    pub echo: bool,
    /// Never send a super-frame larger than this, whatever the device can take.
    pub max_super_frame: usize,
}

/// Where the MSS of a connection comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MssRule {
    /// From the device's MTU (RFC 9293 section 3.7.1).
    FromMtu,
    /// From the connection's configuration, lowered to what the MTU allows.
    Configured,
}

impl InterfaceConfig {
    /// `addresses` at the hardware address `mac`, everything else as usual.
    pub fn new(mac: MacAddr, addresses: Vec<Cidr>) -> Self {
        Self {
            mac,
            addresses,
            gateways: Vec::new(),
            vlan: None,
            neighbors: NeighborConfig::default(),
            fixed_neighbors: Vec::new(),
            mss: MssRule::FromMtu,
            echo: true,
            max_super_frame: 65_535,
        }
    }
}

/// What an interface has seen. All but the first five count what was dropped, or answered by the
/// interface itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct InterfaceStats {
    /// Frames received.
    pub frames_in: u64,
    /// Frames given out to be sent, those refused included.
    pub frames_out: u64,
    /// Bytes of the frames received.
    pub bytes_in: u64,
    /// Bytes of the frames given out.
    pub bytes_out: u64,
    /// Frames received whose payload was left in the device's buffer ([`RxFrame::buffer`]).
    pub shared: u64,
    /// Frames refused by the device.
    pub refused: u64,
    /// Frames cut off or with impossible headers.
    pub malformed: u64,
    /// Frames with another VLAN tag than ours, or with one where there should be none, or none
    /// where there should be one.
    pub vlan: u64,
    /// Frames for another hardware address.
    pub other_mac: u64,
    /// Frames of other EtherTypes.
    pub other_ether_type: u64,
    /// Packets for another IP address.
    pub other_address: u64,
    /// Packets of other protocols than TCP and ICMP.
    pub other_protocol: u64,
    /// Fragments.
    pub fragments: u64,
    /// Packets with a wrong checksum.
    pub bad_checksum: u64,
    /// ARP and neighbour discovery messages taken.
    pub neighbor_in: u64,
    /// ... and sent.
    pub neighbor_out: u64,
    /// Echo requests answered.
    pub echoes: u64,
    /// ICMP errors about our TCP segments.
    pub icmp_errors: u64,
    /// ICMP messages of no use.
    pub icmp_ignored: u64,
    /// Packets to send that had no way: no route, or a neighbour that does not answer.
    pub unroutable: u64,
    /// Answers of the interface itself that were dropped because too many waited.
    pub answers_dropped: u64,
}

/// The addresses of an interface of Ethernet.
fn with_link_local(config: &InterfaceConfig) -> Vec<Cidr> {
    let mut addresses = config.addresses.clone();
    let mut ours = addresses.iter().filter_map(|c| match c.addr() {
        IpAddr::V6(addr) => Some(addr.is_unicast_link_local()),
        IpAddr::V4(_) => None,
    });
    let missing = ours.next().is_some_and(|first| !first) && !ours.any(|is| is);
    if missing {
        addresses.extend(Cidr::new(config.mac.link_local().into(), 64));
    }
    addresses
}

/// A frame of the interface's own: ARP, ICMP, or one that waited for its neighbour's address.
#[derive(Debug, Default)]
struct OwnFrame {
    bytes: Vec<u8>,
    offload: Offload,
    refused: Refusal,
}

/// What the refusal of a frame means.
#[derive(Debug, Default)]
enum Refusal {
    /// It is gone.
    #[default]
    Forget,
    /// It is tried again.
    Later,
}

/// What was given out last, should the device refuse it.
#[derive(Debug, Default)]
enum Last {
    #[default]
    Nothing,
    /// A plain segment with this many bytes of payload.
    Plain(PlainSegment, usize),
    /// Any other.
    Segment(IpHeader, TcpHeader, usize),
    /// [`Interface::current`].
    Own,
}

/// Answers of the interface itself that wait; more are dropped.
const MAX_OWN: usize = 512;
/// Buffers of those kept for the next.
const MAX_SPARE: usize = 64;
/// Ethernet with a tag, IPv6, TCP.
const MAX_HEAD: usize = 18 + 40 + 60;

/// An endpoint with its addresses on one device.
#[derive(Debug)]
pub struct Interface<T: ByteTcp> {
    endpoint: Endpoint<T>,
    link: Link,
    addresses: Addresses,
    mss: MssRule,
    echo: bool,
    tcp: Arc<TcpConfig>,
    neighbors: NeighborCache<OwnFrame>,
    own: VecDeque<OwnFrame>,
    spare: Vec<Vec<u8>>,
    current: OwnFrame,
    head: [u8; MAX_HEAD],
    last: Last,
    stats: InterfaceStats,
}

impl<T: ByteTcp> Interface<T> {
    /// An interface on a device that can do what `capabilities` say.
    ///
    /// # Errors
    /// When the TCP configuration is out of range.
    pub fn new(
        config: InterfaceConfig,
        endpoint: EndpointConfig,
        capabilities: Capabilities,
    ) -> Result<Self, ConfigError> {
        let mut neighbors = NeighborCache::new(config.neighbors);
        for &(addr, mac) in &config.fixed_neighbors {
            neighbors.fix(addr, mac, Instant::ZERO);
        }
        let addresses = match capabilities.medium {
            Medium::Ethernet => with_link_local(&config),
            Medium::Ip => config.addresses.clone(),
        };
        let tcp = endpoint.tcp.clone();
        let link = Link::new(&config, capabilities, &endpoint.secret);
        Ok(Self {
            endpoint: Endpoint::new(endpoint)?,
            link,
            addresses: Addresses::new(&addresses, &config.gateways),
            mss: config.mss,
            echo: config.echo,
            tcp,
            neighbors,
            own: VecDeque::new(),
            spare: Vec::new(),
            current: OwnFrame::default(),
            head: [0; MAX_HEAD],
            last: Last::Nothing,
            stats: InterfaceStats::default(),
        })
    }

    /// The TCP.
    pub fn endpoint(&self) -> &Endpoint<T> {
        &self.endpoint
    }

    /// The TCP, to call its user functions. Poll for frames afterwards.
    pub fn endpoint_mut(&mut self) -> &mut Endpoint<T> {
        &mut self.endpoint
    }

    /// Open a connection to `remote`. An unspecified or missing local address is chosen by the
    /// remote one, port 0 is chosen too. `tcp` overrides the endpoint's configuration.
    ///
    /// # Errors
    /// See [`ConnectError`].
    pub fn connect(
        &mut self,
        now: Instant,
        local: Option<SocketAddr>,
        remote: SocketAddr,
        tcp: Option<Arc<TcpConfig>>,
    ) -> Result<ConnId, ConnectError> {
        let port = local.map_or(0, |l| l.port());
        let ip = match local.map(|l| l.ip()).filter(|ip| !ip.is_unspecified()) {
            Some(ip) => ip,
            None => self
                .addresses
                .source_for(remote.ip())
                .ok_or(ConnectError::BadAddress)?,
        };
        let tcp = self.fitting(tcp, remote.is_ipv6());
        self.endpoint
            .connect(now, SocketAddr::new(ip, port), remote, Some(tcp))
    }

    /// Accept connections to `local`; see [`Endpoint::listen`].
    ///
    /// # Errors
    /// See [`ListenError`].
    pub fn listen(
        &mut self,
        local: SocketAddr,
        backlog: usize,
        tcp: Option<Arc<TcpConfig>>,
    ) -> Result<ListenerId, ListenError> {
        let tcp = self.fitting(tcp, local.is_ipv6());
        self.endpoint.listen(local, backlog, Some(tcp))
    }

    /// The configuration with an MSS that fits the device.
    fn fitting(&self, tcp: Option<Arc<TcpConfig>>, ipv6: bool) -> Arc<TcpConfig> {
        let mut tcp = tcp.unwrap_or_else(|| self.tcp.clone());
        let largest = self.link.largest_mss(ipv6);
        let mss = match self.mss {
            MssRule::FromMtu => largest,
            MssRule::Configured => tcp.mss.min(largest),
        };
        if mss != tcp.mss {
            Arc::make_mut(&mut tcp).mss = mss;
        }
        tcp
    }

    /// Whether `addr` is an address of this interface.
    pub fn is_own(&self, addr: IpAddr) -> bool {
        self.addresses.is_own(addr)
    }

    /// Our addresses.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.addresses.all()
    }

    /// What the device can do.
    pub fn capabilities(&self) -> &Capabilities {
        &self.link.capabilities
    }

    /// Timers are due.
    pub fn handle_timeout(&mut self, now: Instant) {
        self.endpoint.handle_timeout(now);
    }

    /// When to call [`handle_timeout`](Self::handle_timeout) and
    /// [`poll_frame`](Self::poll_frame), at the latest.
    pub fn poll_timeout(&self) -> Option<Instant> {
        match (self.endpoint.poll_timeout(), self.neighbors.poll_timeout()) {
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        }
    }

    /// The next thing to tell the user of the endpoint.
    pub fn poll_event(&mut self) -> Option<EndpointEvent> {
        self.endpoint.poll_event()
    }

    /// Counters.
    pub fn stats(&self) -> &InterfaceStats {
        &self.stats
    }

    /// A buffer for a frame of our own.
    fn buffer(&mut self) -> Vec<u8> {
        let mut buffer = self.spare.pop().unwrap_or_default();
        buffer.clear();
        buffer
    }

    /// Queue a frame of our own.
    fn answer(&mut self, bytes: Vec<u8>) {
        if self.own.len() >= MAX_OWN {
            self.stats.answers_dropped += 1;
            self.recycle(bytes);
            return;
        }
        self.own.push_back(OwnFrame {
            bytes,
            ..OwnFrame::default()
        });
    }

    fn recycle(&mut self, bytes: Vec<u8>) {
        if self.spare.len() < MAX_SPARE && bytes.capacity() > 0 {
            self.spare.push(bytes);
        }
    }
}
