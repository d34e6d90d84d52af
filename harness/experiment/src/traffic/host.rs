//! The application of a host: its roles, and whose each connection is.

use super::log::Log;
use super::role::{Io, Role, RoleEvent};
use crate::host::{App, SimEndpoint, address_of, ipv6_address_of};
use crate::net::packet::HostId;
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::conn::state::CloseReason;
use narrows::endpoint::{ConnId, EndpointEvent, ListenerId};
use narrows_congestion::short::push_short;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Traffic number i listens on this plus i.
const FIRST_PORT: u16 = 5_001;

/// The port on which hosts listen for connections of a traffic.
pub(crate) fn listens_on(traffic: u16) -> u16 {
    FIRST_PORT + traffic
}

/// The application of a host.
#[derive(Debug)]
pub struct HostApp {
    parts: Parts,
    roles: Vec<Running>,
    /// The first of their timers, and of the starts; [`Instant::MAX`] is never.
    next: Instant,
    /// Roles that are still to start, the next one last.
    to_start: Vec<(Instant, u32)>,
}

/// A role, and when its timer is due.
#[derive(Debug)]
struct Running {
    role: Box<dyn Role>,
    timer: Option<Instant>,
}

/// What roles share on a host.
#[derive(Debug)]
pub(super) struct Parts {
    pub(super) host: HostId,
    pub(super) log: Log,
    pub(super) listeners: Vec<(ListenerId, u32)>,
    broken: Option<Broken>,
    /// An application of this host has sent.
    has_sent: bool,
    family: Family,
    /// By role: traffic and TCP.
    of_role: Vec<(u16, Arc<TcpConfig>)>,
    /// By connection index: which of `opened` it is.
    ends: Vec<u32>,
    opened: Vec<Opened>,
}

/// IPv4 or IPv6.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Family {
    /// 10.0.0.0/8.
    #[default]
    Ipv4,
    /// fd00::/8.
    Ipv6,
}

impl Family {
    /// The address of a host.
    pub fn address_of(self, host: HostId) -> IpAddr {
        match self {
            Self::Ipv4 => address_of(host),
            Self::Ipv6 => ipv6_address_of(host),
        }
    }
}

/// A connection that a role opened or accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Opened {
    /// Which.
    pub conn: ConnId,
    /// Which traffic of the experiment, from 0.
    pub traffic: u16,
    /// The host at the other end.
    pub peer: HostId,
    /// Who opened it.
    pub opener: Opener,
    /// When this end was opened.
    pub at: Instant,
    /// Requests came over it, which no transfer counts.
    pub control: bool,
    role: u32,
    /// This side wants no more of it.
    closing: bool,
}

/// Who opened a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opener {
    /// This host.
    Here,
    /// Its peer.
    There,
}

/// Why a run's numbers are not what was asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Broken {
    /// A connection could not be opened, gave up, or was reset.
    Lost,
    /// The TCP delivered a wrong byte.
    Corrupt,
}

const NOBODY: u32 = u32::MAX;

impl HostApp {
    /// A host without roles.
    pub fn new(host: HostId, family: Family, log: Log) -> Self {
        Self {
            parts: Parts {
                host,
                log,
                listeners: Vec::new(),
                broken: None,
                has_sent: false,
                family,
                of_role: Vec::new(),
                ends: Vec::new(),
                opened: Vec::new(),
            },
            roles: Vec::new(),
            next: Instant::MAX,
            to_start: Vec::new(),
        }
    }

    /// Gives the host a role of `traffic`, whose connections have `tcp` and which begins at
    /// `start`.
    pub fn add(&mut self, role: Box<dyn Role>, traffic: u16, tcp: Arc<TcpConfig>, start: Instant) {
        let number = self.roles.len() as u32;
        let tcp = role.tcp(&tcp).map_or(tcp, Arc::new);
        push_short(&mut self.roles, Running { role, timer: None });
        push_short(&mut self.parts.of_role, (traffic, tcp));
        push_short(&mut self.to_start, (start, number));
    }

    /// The connections that its roles have opened and accepted, in that order.
    pub fn opened(&self) -> &[Opened] {
        &self.parts.opened
    }

    /// What went wrong, if something did.
    pub fn broken(&self) -> Option<Broken> {
        self.parts.broken
    }

    #[inline]
    fn with(
        &mut self,
        tcp: &mut SimEndpoint,
        now: Instant,
        role: u32,
        call: impl FnOnce(&mut dyn Role, &mut Io<'_>),
    ) {
        let mut io = Io {
            tcp,
            now,
            role,
            parts: &mut self.parts,
        };
        let Running { role, timer } = &mut self.roles[role as usize];
        call(&mut **role, &mut io);
        let due = role.poll_timeout();
        if due != *timer {
            *timer = due;
            self.find_next();
        }
    }

    fn find_next(&mut self) {
        let start = self.to_start.last().map(|(at, _)| *at);
        let timers = self.roles.iter().filter_map(|r| r.timer);
        self.next = timers.chain(start).min().unwrap_or(Instant::MAX);
    }

    fn start_due(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        while let Some(&(at, role)) = self.to_start.last()
            && at <= now
        {
            self.to_start.pop();
            self.with(tcp, now, role, |role, io| role.start(io));
        }
        if self.to_start.is_empty() {
            self.to_start = Vec::new();
        }
        self.find_next();
    }
}

impl App for HostApp {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for role in 0..self.roles.len() as u32 {
            self.with(tcp, now, role, |role, io| role.open(io));
        }
        // Stable, so that of one start they come in their order.
        self.to_start.sort_by_key(|(at, _)| *at);
        self.to_start.reverse();
        self.start_due(tcp, now);
    }

    #[inline]
    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let (conn, event) = match event {
            EndpointEvent::Conn { conn, event } => {
                let event = match event {
                    Event::Readable => RoleEvent::Readable,
                    Event::Writable => RoleEvent::Writable,
                    Event::Connected => RoleEvent::Connected,
                    Event::PeerClosed => RoleEvent::PeerClosed,
                    Event::Closed(reason) => {
                        if !self.parts.was_to_close(conn, reason) {
                            self.parts.break_off(Broken::Lost);
                        }
                        RoleEvent::Closed
                    }
                    Event::Urgent | Event::SoftError(_) => return,
                };
                (conn, event)
            }
            EndpointEvent::Accepted { listener, conn } => {
                let Some(&(_, role)) = self.parts.listeners.iter().find(|(l, _)| *l == listener)
                else {
                    return;
                };
                let remote = tcp.connection(conn).map(|c| c.remote().ip());
                let peer = remote.and_then(host_at);
                self.parts.attach(conn, role, peer, now);
                let opened = self.parts.opened.last_mut();
                if let Some(opened) = opened {
                    opened.opener = Opener::There;
                }
                (conn, RoleEvent::Accepted)
            }
        };
        if let Some(role) = self.parts.role_of(conn) {
            self.with(tcp, now, role, |role, io| role.event(io, conn, event));
        }
    }

    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        self.start_due(tcp, now);
        for role in 0..self.roles.len() as u32 {
            let timer = self.roles[role as usize].timer;
            if timer.is_some_and(|at| at <= now) {
                self.with(tcp, now, role, |role, io| role.timeout(io));
            }
        }
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        (self.next != Instant::MAX).then_some(self.next)
    }
}

impl Parts {
    /// Something went wrong, and the run is over; a wrong byte counts before anything else.
    pub(super) fn break_off(&mut self, how: Broken) {
        self.broken = match self.broken {
            Some(Broken::Corrupt) => Some(Broken::Corrupt),
            Some(Broken::Lost) | None => Some(how),
        };
        self.log.break_off();
    }

    /// An application of this host sends.
    #[inline]
    pub(super) fn note_send(&mut self, now: Instant) {
        if !self.has_sent {
            self.has_sent = true;
            self.log.send(now);
        }
    }

    pub(super) fn port_of(&self, role: u32) -> u16 {
        listens_on(self.of_role[role as usize].0)
    }

    pub(super) fn traffic_of(&self, role: u32) -> u16 {
        self.of_role[role as usize].0
    }

    pub(super) fn tcp_of(&self, role: u32) -> Arc<TcpConfig> {
        self.of_role[role as usize].1.clone()
    }

    pub(super) fn address(&self, host: HostId) -> IpAddr {
        self.family.address_of(host)
    }

    pub(super) fn any(&self) -> IpAddr {
        match self.family {
            Family::Ipv4 => Ipv4Addr::UNSPECIFIED.into(),
            Family::Ipv6 => Ipv6Addr::UNSPECIFIED.into(),
        }
    }

    pub(super) fn attach(&mut self, conn: ConnId, role: u32, peer: Option<HostId>, now: Instant) {
        let index = conn.index();
        while self.ends.len() <= index {
            push_short(&mut self.ends, NOBODY);
        }
        self.ends[index] = self.opened.len() as u32;
        let opened = Opened {
            conn,
            traffic: self.traffic_of(role),
            peer: peer.unwrap_or(self.host),
            opener: Opener::Here,
            at: now,
            control: false,
            role,
            closing: false,
        };
        push_short(&mut self.opened, opened);
    }

    fn of(&self, conn: ConnId) -> Option<&Opened> {
        let end = self.ends.get(conn.index())?;
        let opened = self.opened.get(*end as usize)?;
        (opened.conn == conn).then_some(opened)
    }

    #[inline]
    fn role_of(&self, conn: ConnId) -> Option<u32> {
        self.of(conn).map(|opened| opened.role)
    }

    pub(super) fn peer(&self, conn: ConnId) -> Option<HostId> {
        self.of(conn).map(|opened| opened.peer)
    }

    pub(super) fn mark_control(&mut self, conn: ConnId) {
        if let Some(&end) = self.ends.get(conn.index())
            && let Some(opened) = self.opened.get_mut(end as usize)
        {
            opened.control = true;
        }
    }

    pub(super) fn close(&mut self, conn: ConnId) {
        if let Some(&end) = self.ends.get(conn.index())
            && let Some(opened) = self.opened.get_mut(end as usize)
        {
            opened.closing = true;
        }
    }

    /// Whether a connection that is over was to be.
    fn was_to_close(&self, conn: ConnId, reason: CloseReason) -> bool {
        reason == CloseReason::Finished && self.of(conn).is_some_and(|opened| opened.closing)
    }
}

/// The host with an address.
fn host_at(address: IpAddr) -> Option<HostId> {
    let host = match address {
        IpAddr::V4(v4) => HostId((u32::from(v4) & 0x00ff_ffff).checked_sub(1)?),
        IpAddr::V6(v6) => HostId(((u128::from(v6) & 0x00ff_ffff) as u32).checked_sub(1)?),
    };
    (address_of(host) == address || ipv6_address_of(host) == address).then_some(host)
}
