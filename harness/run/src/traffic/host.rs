//! The application of a host: its roles, and whose each connection is.

use super::connections::{Broken, Family, Opened, Opener, Parts};
use super::log::Log;
use super::role::{Io, Role, RoleEvent};
use crate::host::{SimApp, SimEndpoint, address_of, ipv6_address_of};
use crate::net::packet::HostId;
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::conn::Event;
use narrows::endpoint::{ConnId, EndpointEvent};
use narrows_congestion::hint::cold_path;
use narrows_congestion::short::push_short;
use std::net::IpAddr;
use std::sync::Arc;

/// The application of a host. Two words, since each packet of the host brings them in: it asks when
/// the next timer is due, and little else that happens is news to the application.
#[derive(Debug)]
pub struct HostApp {
    /// The first of the timers of its roles, and of the starts; [`Instant::MAX`] is never.
    next: Instant,
    within: Box<Within>,
}

/// All the rest of a [`HostApp`].
#[derive(Debug)]
struct Within {
    parts: Parts,
    roles: Vec<Running>,
}

/// A role, and what it waits for: [`Instant::MAX`] is never.
#[derive(Debug)]
struct Running {
    role: Box<dyn Role>,
    timer: Instant,
    /// When it starts, until it has.
    start: Instant,
}

impl HostApp {
    /// A host without roles.
    pub fn new(host: HostId, family: Family, log: Log) -> Self {
        Self {
            next: Instant::MAX,
            within: Box::new(Within {
                parts: Parts::new(host, family, log),
                roles: Vec::new(),
            }),
        }
    }

    /// Gives the host a role of `traffic`, whose connections have `tcp` and which begins at
    /// `start`.
    pub fn add(&mut self, role: Box<dyn Role>, traffic: u16, tcp: Arc<TcpConfig>, start: Instant) {
        let within = &mut *self.within;
        let tcp = role.tcp(&tcp).map_or(tcp, Arc::new);
        push_short(
            &mut within.roles,
            Running {
                role,
                timer: Instant::MAX,
                start,
            },
        );
        within.parts.add_role(traffic, tcp);
    }

    /// The connections that its roles have opened and accepted, in that order.
    pub fn opened(&self) -> &[Opened] {
        self.within.parts.opened()
    }

    /// What went wrong, if something did.
    pub fn broken(&self) -> Option<Broken> {
        self.within.parts.broken()
    }

    #[inline]
    fn with(
        &mut self,
        tcp: &mut SimEndpoint,
        now: Instant,
        role: u32,
        call: impl FnOnce(&mut dyn Role, &mut Io<'_>),
    ) {
        let Within { parts, roles, .. } = &mut *self.within;
        let mut io = Io {
            tcp,
            now,
            role,
            parts,
        };
        let Running { role, timer, .. } = &mut roles[role as usize];
        call(&mut **role, &mut io);
        let due = role.poll_timeout().unwrap_or(Instant::MAX);
        if due != *timer {
            *timer = due;
            self.find_next();
        }
    }

    /// Tells the role whose connection it is.
    #[inline(always)] // Of each segment.
    fn tell(&mut self, tcp: &mut SimEndpoint, now: Instant, conn: ConnId, event: RoleEvent) {
        if let Some(role) = self.within.parts.role_of(conn) {
            self.with(tcp, now, role, |role, io| role.event(io, conn, event));
        }
    }

    /// The TCP tells something else than that there is something to read.
    #[inline(never)]
    fn other_event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        let (conn, event) = match event {
            EndpointEvent::Conn { conn, event } => {
                let event = match event {
                    Event::Readable => RoleEvent::Readable,
                    Event::Writable => RoleEvent::Writable,
                    Event::Connected => RoleEvent::Connected,
                    Event::PeerClosed => RoleEvent::PeerClosed,
                    Event::Closed(reason) => {
                        cold_path();
                        if !self.within.parts.was_to_close(conn, reason) {
                            self.within.parts.break_off(Broken::Lost);
                        }
                        RoleEvent::Closed
                    }
                    Event::Urgent | Event::SoftError(_) => return,
                };
                (conn, event)
            }
            EndpointEvent::Accepted { listener, conn } => {
                cold_path();
                let Some(&(_, role)) = self
                    .within
                    .parts
                    .listeners
                    .iter()
                    .find(|(l, _)| *l == listener)
                else {
                    return;
                };
                let remote = tcp.connection(conn).map(|c| c.remote().ip());
                let peer = remote.and_then(host_at);
                self.within
                    .parts
                    .attach(conn, role, peer, Opener::There, now);
                (conn, RoleEvent::Accepted)
            }
        };
        self.tell(tcp, now, conn, event);
    }

    fn find_next(&mut self) {
        let due = self.within.roles.iter().map(|r| r.timer.min(r.start));
        self.next = due.min().unwrap_or(Instant::MAX);
    }

    /// Starts the roles whose time has come, the earliest first and of one time in their order.
    fn start_due(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        loop {
            let roles = self.within.roles.iter_mut().zip(0..);
            let Some((next, number)) = roles.min_by_key(|(r, _)| r.start) else {
                break;
            };
            if next.start > now || next.start == Instant::MAX {
                break;
            }
            next.start = Instant::MAX;
            self.with(tcp, now, number, |role, io| role.start(io));
        }
        self.find_next();
    }
}

impl SimApp for HostApp {
    fn start(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        for role in 0..self.within.roles.len() as u32 {
            self.with(tcp, now, role, |role, io| role.open(io));
        }
        self.start_due(tcp, now);
    }

    #[inline(always)] // Of each segment.
    fn event(&mut self, tcp: &mut SimEndpoint, now: Instant, event: EndpointEvent) {
        match event {
            // What nearly all are.
            EndpointEvent::Conn {
                conn,
                event: Event::Readable,
            } => self.tell(tcp, now, conn, RoleEvent::Readable),
            event => self.other_event(tcp, now, event),
        }
    }

    fn timeout(&mut self, tcp: &mut SimEndpoint, now: Instant) {
        self.start_due(tcp, now);
        for role in 0..self.within.roles.len() as u32 {
            let timer = self.within.roles[role as usize].timer;
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
