//! The application of a host: its roles, and whose each connection is.

use super::connections::{Broken, Family, Opened, Opener, Parts};
use super::log::Log;
use super::role::{Io, Role, RoleEvent};
use crate::host::{SimApp, SimEndpoint, address_of, ipv6_address_of};
use crate::net::packet::HostId;
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::congestion::order::sort_by_key;
use narrows::conn::Event;
use narrows::endpoint::EndpointEvent;
use narrows_congestion::short::push_short;
use std::net::IpAddr;
use std::sync::Arc;

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

/// A role, and when its timer is due: [`Instant::MAX`] is never.
#[derive(Debug)]
struct Running {
    role: Box<dyn Role>,
    timer: Instant,
}

impl HostApp {
    /// A host without roles.
    pub fn new(host: HostId, family: Family, log: Log) -> Self {
        Self {
            parts: Parts::new(host, family, log),
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
        push_short(
            &mut self.roles,
            Running {
                role,
                timer: Instant::MAX,
            },
        );
        self.parts.add_role(traffic, tcp);
        push_short(&mut self.to_start, (start, number));
    }

    /// The connections that its roles have opened and accepted, in that order.
    pub fn opened(&self) -> &[Opened] {
        self.parts.opened()
    }

    /// What went wrong, if something did.
    pub fn broken(&self) -> Option<Broken> {
        self.parts.broken()
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
        let due = role.poll_timeout().unwrap_or(Instant::MAX);
        if due != *timer {
            *timer = due;
            self.find_next();
        }
    }

    fn find_next(&mut self) {
        let start = self.to_start.last().map(|(at, _)| *at);
        let timers = self.roles.iter().map(|r| r.timer);
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

impl SimApp for HostApp {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for role in 0..self.roles.len() as u32 {
            self.with(tcp, now, role, |role, io| role.open(io));
        }
        // Stable, so that of one start they come in their order.
        sort_by_key(&mut self.to_start, |(at, _)| *at);
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
                self.parts.attach(conn, role, peer, Opener::There, now);
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
            if timer <= now {
                self.with(tcp, now, role, |role, io| role.timeout(io));
            }
        }
    }

    #[inline]
    fn poll_timeout(&self) -> Option<Instant> {
        (self.next != Instant::MAX).then_some(self.next)
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
