//! A socket that is not connected yet, as `tokio::net::TcpSocket`, and what only this stack has:
//! congestion control, RTO policy and loss detection by value.

use super::conn::Conn;
use super::listener::TcpListener;
use super::stream::TcpStream;
use super::{Stack, connect_error, listen_error};
use crate::config::{Keepalive, SendBufferUse, TcpConfig};
use crate::conn::mtu_probing::MtuProbingMode;
use crate::fast_open::{FastOpenClient, FastOpenStatus};
use crate::recovery::detector::DetectorFactory;
use narrows_congestion::{ByteCount, CongestionFactory, RtoFactory};
use std::fmt;
use std::future::poll_fn;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

/// A socket to configure, then to connect or to listen with.
///
/// ```no_run
/// # async fn f(stack: narrows::driver::tokio::Stack) -> std::io::Result<()> {
/// use narrows::congestion::{dctcp::Dctcp, rto::presets};
/// use narrows::driver::tokio::TcpSocket;
///
/// let mut socket = TcpSocket::new_v4(&stack)?;
/// socket.set_nodelay(true)?;
/// socket.set_congestion(Dctcp::new);
/// socket.set_rto(presets::fine);
/// let stream = socket.connect("10.0.0.2:80".parse().unwrap()).await?;
/// println!("RTT {:?}", stream.info()?.tcpi_rtt);
/// # Ok(()) }
/// ```
pub struct TcpSocket {
    stack: Stack,
    ipv6: bool,
    local: Option<SocketAddr>,
    tcp: TcpConfig,
    linger: Option<Duration>,
}

impl TcpSocket {
    /// A socket for IPv4.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn new_v4(stack: &Stack) -> io::Result<Self> {
        stack.check_open()?;
        Ok(Self::new(stack, false))
    }

    /// A socket for IPv6.
    ///
    /// # Errors
    /// When the stack was shut down.
    pub fn new_v6(stack: &Stack) -> io::Result<Self> {
        stack.check_open()?;
        Ok(Self::new(stack, true))
    }

    /// A socket for the family of `addr`.
    pub(super) fn for_addr(stack: &Stack, addr: SocketAddr) -> Self {
        Self::new(stack, addr.is_ipv6())
    }

    fn new(stack: &Stack, ipv6: bool) -> Self {
        Self {
            stack: stack.clone(),
            ipv6,
            local: None,
            tcp: stack.tcp_config().clone(),
            linger: None,
        }
    }

    /// The address to connect from or to listen on. Port 0 lets one be chosen.
    ///
    /// # Errors
    /// `InvalidInput` for an address of the other family, `AddrNotAvailable` for one that is not
    /// the stack's.
    pub fn bind(&mut self, addr: SocketAddr) -> io::Result<()> {
        if addr.is_ipv6() != self.ipv6 {
            let text = "the socket is of the other address family";
            return Err(io::Error::new(io::ErrorKind::InvalidInput, text));
        }
        if !addr.ip().is_unspecified() && !self.stack.is_own(addr.ip()) {
            let text = format!("{} is no address of this stack", addr.ip());
            return Err(io::Error::new(io::ErrorKind::AddrNotAvailable, text));
        }
        self.local = Some(addr);
        Ok(())
    }

    /// Everything about the connection, to be changed.
    pub fn config_mut(&mut self) -> &mut TcpConfig {
        &mut self.tcp
    }

    /// The congestion control.
    pub fn set_congestion(&mut self, congestion: impl CongestionFactory + 'static) {
        self.tcp.congestion = Arc::new(congestion);
    }

    /// The retransmission timeout policy.
    pub fn set_rto(&mut self, rto: impl RtoFactory + 'static) {
        self.tcp.rto = Arc::new(rto);
    }

    /// The loss detector.
    pub fn set_detector(&mut self, detector: impl DetectorFactory + 'static) {
        self.tcp.detector = Arc::new(detector);
    }

    /// Turn Nagle's algorithm off (`true`) or on.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_nodelay(&mut self, nodelay: bool) -> io::Result<()> {
        self.tcp.nagle = !nodelay;
        Ok(())
    }

    /// Whether Nagle's algorithm is off.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn nodelay(&self) -> io::Result<bool> {
        Ok(!self.tcp.nagle)
    }

    /// Take no more while so many bytes are unsent; see
    /// [`TcpStream::set_notsent_lowat`].
    ///
    /// # Errors
    /// None; the signature is as tokio's are.
    pub fn set_notsent_lowat(&mut self, lowat: Option<u32>) -> io::Result<()> {
        self.tcp.buffers.notsent_lowat = lowat.map(ByteCount::from).filter(|l| !l.is_zero());
        Ok(())
    }

    /// Find the path's MTU by probes, or do not; off unless said.
    pub fn set_mtu_probing(&mut self, mode: MtuProbingMode) {
        self.tcp.mtu_probing.mode = mode;
    }

    /// Probe idle peers with the usual times.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_keepalive(&mut self, keepalive: bool) -> io::Result<()> {
        self.tcp.lifetimes.keepalive = keepalive.then(Keepalive::default);
        Ok(())
    }

    /// Whether idle peers are probed.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn keepalive(&self) -> io::Result<bool> {
        Ok(self.tcp.lifetimes.keepalive.is_some())
    }

    /// What [`set_linger`](Self::set_linger) has set.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn linger(&self) -> io::Result<Option<Duration>> {
        Ok(self.linger)
    }

    /// How dropping the stream ends it; see [`TcpStream::set_linger`].
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_linger(&mut self, linger: Option<Duration>) -> io::Result<()> {
        self.linger = linger;
        Ok(())
    }

    /// Bytes held to be sent and acknowledged. All of them are used then
    /// ([`SendBufferUse::Whole`](crate::config::SendBufferUse::Whole)).
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_send_buffer_size(&mut self, size: u32) -> io::Result<()> {
        self.tcp.buffers.send = size as usize;
        self.tcp.buffers.send_use = SendBufferUse::Whole;
        Ok(())
    }

    /// Bytes held to be sent and acknowledged.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn send_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.tcp.buffers.send).unwrap_or(u32::MAX))
    }

    /// Bytes held to be read; the largest window offered.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn set_recv_buffer_size(&mut self, size: u32) -> io::Result<()> {
        self.tcp.buffers.recv = size as usize;
        Ok(())
    }

    /// Bytes held to be read.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn recv_buffer_size(&self) -> io::Result<u32> {
        Ok(u32::try_from(self.tcp.buffers.recv).unwrap_or(u32::MAX))
    }

    /// Use TCP Fast Open (RFC 7413) to connect, if the data written first may reach the application
    /// twice. Once the server's cookie is known, [`connect`](Self::connect) returns at once, and
    /// the SYN leaves with the first write: of a server that speaks first nothing comes before, and
    /// a refusal is an error of what is called then.
    pub fn set_fast_open(&mut self, fast_open: bool) {
        self.tcp.fast_open.client = if fast_open {
            FastOpenClient::Cookie
        } else {
            FastOpenClient::Off
        };
    }

    /// Accept data on SYNs that bring a good cookie, while fewer connections than `pending` have
    /// been accepted so and not completed their handshake; 0: none. The same data may reach the
    /// application twice.
    pub fn set_fast_open_backlog(&mut self, pending: u32) {
        self.tcp.fast_open.pending = pending;
    }

    /// The address that [`bind`](Self::bind) was given, or none at all.
    ///
    /// # Errors
    /// None; the signature is tokio's.
    pub fn local_addr(&self) -> io::Result<SocketAddr> {
        Ok(self.local.unwrap_or(SocketAddr::new(self.unspecified(), 0)))
    }

    fn unspecified(&self) -> IpAddr {
        if self.ipv6 {
            Ipv6Addr::UNSPECIFIED.into()
        } else {
            Ipv4Addr::UNSPECIFIED.into()
        }
    }

    /// Connect to `addr`. Dropping the future gives the attempt up.
    ///
    /// # Errors
    /// With the kind that the standard library would give: `ConnectionRefused`, `TimedOut`,
    /// `HostUnreachable`, `AddrInUse`.
    pub async fn connect(self, addr: SocketAddr) -> io::Result<TcpStream> {
        let (local, nodelay) = (self.local, !self.tcp.nagle);
        let unspecified = self.unspecified();
        let tcp = Arc::new(self.tcp);
        let inner = self.stack.inner.clone();
        let (id, local, waits) = inner.shared.with(|core, now| {
            core.check_open()?;
            let interface = &mut core.engine.interface;
            let id = interface
                .connect(now, local, addr, Some(tcp))
                .map_err(connect_error)?;
            let conn = interface.endpoint().connection(id);
            let local = conn.map(|c| c.local());
            let waits = conn.is_some_and(|c| c.fast_open() == FastOpenStatus::Waiting);
            core.adopt(id, false);
            io::Result::Ok((id, local, waits))
        })?;
        let local = local.unwrap_or(SocketAddr::new(unspecified, 0));
        let conn = Arc::new(Conn::new(inner, id, local, addr, nodelay, self.linger));
        // The SYN of a fast open waits for data.
        if !waits {
            poll_fn(|cx| conn.poll_connected(cx)).await?;
        }
        Ok(TcpStream { conn })
    }

    /// Listen, with room for `backlog` connections that nobody has accepted yet.
    ///
    /// # Errors
    /// `AddrInUse`, or `InvalidInput` for a configuration out of range.
    #[inline] // Called once, or by nobody here: compiled where it is.
    pub fn listen(self, backlog: u32) -> io::Result<TcpListener> {
        let local = self.local_addr()?;
        let nodelay = !self.tcp.nagle;
        let tcp = Arc::new(self.tcp);
        let backlog = backlog.max(1) as usize;
        let inner = self.stack.inner.clone();
        let (id, local) = inner.shared.with(|core, _| {
            core.check_open()?;
            // Where the search for a port begins is no secret, only spread.
            let ports = match local.port() {
                0 => self.stack.inner.ports.clone(),
                port => port..=port,
            };
            let first = core.next_port(&ports);
            let interface = &mut core.engine.interface;
            let all = (first..=*ports.end()).chain(*ports.start()..first);
            let mut last = None;
            for port in all {
                let at = SocketAddr::new(local.ip(), port);
                match interface.listen(at, backlog, Some(tcp.clone())) {
                    Ok(id) => {
                        core.add_listener(id, backlog);
                        return Ok((id, at));
                    }
                    Err(e @ crate::endpoint::ListenError::InUse) => last = Some(e),
                    Err(e) => return Err(listen_error(e)),
                }
            }
            Err(last.map_or_else(|| io::ErrorKind::AddrInUse.into(), listen_error))
        })?;
        Ok(TcpListener::new(inner, id, local, nodelay, self.linger))
    }
}

impl fmt::Debug for TcpSocket {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpSocket")
            .field("local", &self.local)
            .field("tcp", &self.tcp)
            .finish_non_exhaustive()
    }
}
