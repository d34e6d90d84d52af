//! The connections of a host, whose each is, and what its roles share besides.

use super::log::{Delivered, Log};
use crate::host::{address_of, ipv6_address_of};
use crate::net::packet::HostId;
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::conn::state::CloseReason;
use narrows::endpoint::{ConnId, ListenerId};
use narrows_congestion::short::push_short;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;

/// Traffic number i listens on this plus i.
const FIRST_PORT: u16 = 5_001;

/// The port on which hosts listen for connections of a traffic.
pub(crate) fn listens_on(traffic: u16) -> u16 {
    FIRST_PORT + traffic
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
    of_role: Vec<RoleParts>,
    /// By connection index: which of `opened` it is.
    ends: Vec<u32>,
    opened: Vec<Opened>,
}

/// What is known of a role.
#[derive(Debug)]
struct RoleParts {
    traffic: u16,
    /// Of its connections.
    tcp: Arc<TcpConfig>,
    delivered: Delivered,
}

const NOBODY: u32 = u32::MAX;

impl Parts {
    /// Those of a host without roles.
    pub(super) fn new(host: HostId, family: Family, log: Log) -> Self {
        Self {
            host,
            log,
            listeners: Vec::new(),
            broken: None,
            has_sent: false,
            family,
            of_role: Vec::new(),
            ends: Vec::new(),
            opened: Vec::new(),
        }
    }

    /// One more role, of a traffic, with the TCP of its connections.
    pub(super) fn add_role(&mut self, traffic: u16, tcp: Arc<TcpConfig>) {
        let delivered = self.log.delivered_of(traffic).unwrap_or_default();
        let role = RoleParts {
            traffic,
            tcp,
            delivered,
        };
        push_short(&mut self.of_role, role);
    }

    /// The connections, in the order in which they were opened and accepted.
    pub(super) fn opened(&self) -> &[Opened] {
        &self.opened
    }

    /// What went wrong, if something did.
    pub(super) fn broken(&self) -> Option<Broken> {
        self.broken
    }

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
        listens_on(self.traffic_of(role))
    }

    pub(super) fn traffic_of(&self, role: u32) -> u16 {
        self.of_role[role as usize].traffic
    }

    /// An application of this host has read so much of what the traffic of a role is for.
    #[inline]
    pub(super) fn deliver(&self, role: u32, bytes: u64) {
        self.of_role[role as usize].delivered.add(bytes);
    }

    pub(super) fn tcp_of(&self, role: u32) -> Arc<TcpConfig> {
        self.of_role[role as usize].tcp.clone()
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

    /// A role has opened or accepted a connection.
    pub(super) fn attach(
        &mut self,
        conn: ConnId,
        role: u32,
        peer: Option<HostId>,
        opener: Opener,
        now: Instant,
    ) {
        let index = conn.index();
        while self.ends.len() <= index {
            push_short(&mut self.ends, NOBODY);
        }
        self.ends[index] = self.opened.len() as u32;
        let opened = Opened {
            conn,
            traffic: self.traffic_of(role),
            peer: peer.unwrap_or(self.host),
            opener,
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
    pub(super) fn role_of(&self, conn: ConnId) -> Option<u32> {
        if self.of_role.len() == 1 {
            // Each segment asks, and with many connections what is known of each is out of the cache. The
            // TCP tells of none that was not opened or accepted here.
            return (conn.index() < self.ends.len()).then_some(0);
        }
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
    pub(super) fn was_to_close(&self, conn: ConnId, reason: CloseReason) -> bool {
        reason == CloseReason::Finished && self.of(conn).is_some_and(|opened| opened.closing)
    }
}
