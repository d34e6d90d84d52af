//! What a descriptor stands for, and what a user is told of how a connection ended.

use super::call::{Answer, Fd};
use super::errno::Errno;
use super::{Host, Sockets};
use narrows::Instant;
use narrows::config::TcpConfig;
use narrows::conn::state::{CloseReason, State};
use narrows::conn::{Boxed, Connection};
use narrows::endpoint::{ConnId, ListenerId};
use narrows::wire::icmp::Unreachable;
use std::collections::BTreeMap;
use std::net::SocketAddr;

pub(super) type Conn = Connection<Boxed<narrows::buffer::SendRing, narrows::buffer::RecvRing>>;

/// What a descriptor stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Role {
    /// Made, perhaps bound.
    Fresh,
    /// Listening.
    Listener(ListenerId),
    /// Connecting, connected, or done.
    Conn(ConnId),
}

/// One socket.
#[derive(Clone, Debug)]
pub(super) struct Socket {
    pub(super) role: Role,
    pub(super) tcp: TcpConfig,
    pub(super) bound: Option<SocketAddr>,
    pub(super) nonblocking: bool,
    /// `SO_LINGER`: seconds.
    pub(super) linger: Option<u64>,
    /// Options by name, as last set.
    pub(super) options: BTreeMap<String, i64>,
    /// The error that ended the connection has been told.
    pub(super) error_told: bool,
    pub(super) shut_read: bool,
    /// `connect` has returned 0.
    pub(super) connect_told: bool,
}

impl Socket {
    pub(super) fn new(tcp: TcpConfig, nonblocking: bool) -> Self {
        Self {
            role: Role::Fresh,
            tcp,
            bound: None,
            nonblocking,
            linger: None,
            options: BTreeMap::new(),
            error_told: false,
            shut_read: false,
            connect_told: false,
        }
    }

    pub(super) fn conn<'h>(&self, host: &'h Host) -> Option<&'h Conn> {
        match self.role {
            Role::Conn(id) => host.connection(id),
            _ => None,
        }
    }

    /// The error to be told, if there is one.
    pub(super) fn error(&self, host: &Host) -> Option<Errno> {
        if self.error_told {
            return None;
        }
        match self.conn(host)?.state() {
            State::Closed(reason) => errno_of(reason),
            _ => None,
        }
    }
}

/// What a user is told of how a connection ended.
fn errno_of(reason: CloseReason) -> Option<Errno> {
    match reason {
        CloseReason::Finished | CloseReason::Aborted => None,
        CloseReason::Reset => Some(Errno::ECONNRESET),
        CloseReason::Refused | CloseReason::Unreachable(Unreachable::Port) => {
            Some(Errno::ECONNREFUSED)
        }
        CloseReason::Unreachable(Unreachable::Protocol) => Some(Errno::ENOPROTOOPT),
        CloseReason::Unreachable(_) => Some(Errno::EHOSTUNREACH),
        _ => Some(Errno::ETIMEDOUT),
    }
}

/// The peer will send no more.
pub(super) fn peer_closed(state: State) -> bool {
    matches!(
        state,
        State::CloseWait | State::Closing | State::LastAck | State::TimeWait | State::Closed(_)
    )
}

/// What a try gives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Reply {
    /// The call returns.
    Answer(Answer),
    /// Nothing yet.
    Block,
}

impl Reply {
    pub(super) fn of(n: i64) -> Self {
        Self::Answer(Answer::of(n))
    }

    /// Nothing can be done now.
    pub(super) fn not_now(nonblocking: bool) -> Self {
        match nonblocking {
            true => Errno::EAGAIN.into(),
            false => Self::Block,
        }
    }
}

impl From<Errno> for Reply {
    fn from(errno: Errno) -> Self {
        Self::Answer(errno.into())
    }
}

/// What a call that blocks has come to.
#[derive(Clone, Debug)]
pub(super) struct Progress {
    /// When it began.
    pub(super) began: Instant,
    /// It has been tried before.
    pub(super) tried: bool,
    /// Bytes written so far.
    pub(super) written: usize,
    /// The last try did something.
    pub(super) moved: bool,
    /// When it gives up by itself.
    pub(super) wake: Option<Instant>,
}

impl Progress {
    pub(super) fn at(began: Instant) -> Self {
        Self {
            began,
            tried: false,
            written: 0,
            moved: false,
            wake: None,
        }
    }
}

impl Sockets {
    /// The connection of a descriptor, also after it was closed.
    pub(super) fn connection(&self, fd: Fd) -> Option<&Conn> {
        match self.sockets.get(&fd) {
            Some(socket) => socket.conn(&self.host),
            None => self.host.connection(*self.former.get(&fd)?),
        }
    }
}
