//! Sockets come and go: `socket`, `bind`, `listen`, `accept`, `connect`, `close`, `shutdown`.

use super::call::{Answer, Fd, Gave};
use super::errno::Errno;
use super::fast_open::AS_BACKLOG;
use super::socket::{Progress, Reply, Role, Socket};
use super::{Sockets, Stuck, local_address, refused};
use narrows::conn::state::State;
use narrows::endpoint::{ConnectError, ListenError};
use narrows::fast_open::{FastOpenClient, FastOpenStatus};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

type Tried = Result<Reply, Stuck>;

impl Sockets {
    fn add(&mut self, socket: Socket) -> Fd {
        let fd = self.next_fd;
        self.next_fd += 1;
        self.sockets.insert(fd, socket);
        fd
    }

    pub(super) fn open(&mut self, nonblocking: bool) -> Tried {
        let fd = self.add(Socket::new(self.tcp.clone(), nonblocking));
        Ok(Reply::of(i64::from(fd)))
    }

    pub(super) fn bind(&mut self, fd: Fd, at: SocketAddr) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        socket.bound = Some(at);
        Ok(Reply::of(0))
    }

    pub(super) fn listen(&mut self, fd: Fd, backlog: usize) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        match socket.role {
            Role::Listener(_) => return Ok(Reply::of(0)),
            Role::Conn(_) => return Ok(Errno::EINVAL.into()),
            Role::Fresh => {}
        }
        let Some(at) = socket.bound else {
            return refused("the socket must be bound to a port");
        };
        let mut tcp = socket.tcp.clone();
        if tcp.fast_open.pending == AS_BACKLOG {
            tcp.fast_open.pending = u32::try_from(backlog).unwrap_or(AS_BACKLOG).max(1);
        }
        let tcp = Arc::new(tcp);
        // As the stacks do: a backlog of one admits one more than it says.
        match self.host.listen(at, backlog.saturating_add(1), Some(tcp)) {
            Ok(id) => {
                socket.role = Role::Listener(id);
                Ok(Reply::of(0))
            }
            Err(ListenError::InUse) => Ok(Errno::EADDRINUSE.into()),
            Err(e) => refused(e),
        }
    }

    pub(super) fn accept(&mut self, fd: Fd, nonblocking: bool) -> Tried {
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let Role::Listener(listener) = socket.role else {
            return Ok(Errno::EINVAL.into());
        };
        let queue = self.arrived.entry(listener).or_default();
        let Some(conn) = queue.pop_front() else {
            return Ok(Reply::not_now(socket.nonblocking));
        };
        let mut accepted = socket.clone();
        accepted.role = Role::Conn(conn);
        accepted.nonblocking = nonblocking;
        accepted.connect_told = true;
        let unknown = SocketAddr::new(IpAddr::from([0; 4]), 0);
        let peer = self.host.connection(conn).map_or(unknown, |c| c.remote());
        let new = i64::from(self.add(accepted));
        Ok(Reply::Answer(Answer::giving(new, Gave::Peer(peer))))
    }

    pub(super) fn connect(&mut self, fd: Fd, to: SocketAddr, progress: &Progress) -> Tried {
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        match socket.role {
            Role::Listener(_) => return Ok(Errno::EISCONN.into()),
            Role::Fresh => {}
            Role::Conn(_) => return Ok(self.connect_again(fd, progress.tried)),
        }
        let fast_open = match socket.options.get("TCP_FASTOPEN_CONNECT") {
            Some(1..) => socket.tcp.fast_open.client,
            _ => FastOpenClient::Off,
        };
        let nonblocking = socket.nonblocking;
        match self.begin_to_connect(fd, to, fast_open)? {
            Reply::Block => {}
            failed => return Ok(failed),
        }
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let conn = socket.conn(&self.host);
        if conn.is_some_and(|c| c.fast_open() == FastOpenStatus::Waiting) {
            socket.connect_told = true;
            return Ok(Reply::of(0));
        }
        Ok(match nonblocking {
            true => Errno::EINPROGRESS.into(),
            false => Reply::Block,
        })
    }

    /// The socket begins to connect, and does not wait for the end of it; or an error.
    pub(super) fn begin_to_connect(
        &mut self,
        fd: Fd,
        to: SocketAddr,
        fast_open: FastOpenClient,
    ) -> Tried {
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let own = match to.is_ipv4() == self.config.local.is_ipv4() {
            true => self.config.local,
            false => local_address(to.is_ipv6()),
        };
        let mut local = socket.bound.unwrap_or(SocketAddr::new(own, 0));
        if local.ip().is_unspecified() {
            local.set_ip(own);
        }
        let mut tcp = socket.tcp.clone();
        tcp.fast_open.client = fast_open;
        match self.host.connect(self.now, local, to, Some(Arc::new(tcp))) {
            Ok(id) => {
                if let Some(socket) = self.sockets.get_mut(&fd) {
                    socket.role = Role::Conn(id);
                }
                Ok(Reply::Block)
            }
            Err(ConnectError::InUse | ConnectError::NoPort) => Ok(Errno::EADDRNOTAVAIL.into()),
            Err(e) => refused(e),
        }
    }

    /// `connect` on a socket that has begun to: the same call, if it blocks, or another.
    fn connect_again(&mut self, fd: Fd, same_call: bool) -> Reply {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Errno::EBADF.into();
        };
        let state = socket.conn(&self.host).map(|c| c.state());
        match (state, socket.error(&self.host)) {
            (_, Some(error)) => {
                socket.error_told = true;
                error.into()
            }
            (Some(State::SynSent | State::SynReceived(_)), _) if same_call => Reply::Block,
            (Some(State::SynSent | State::SynReceived(_)), _) => Errno::EALREADY.into(),
            (Some(State::Closed(_)) | None, _) => Errno::ECONNABORTED.into(),
            _ if socket.connect_told => Errno::EISCONN.into(),
            _ => {
                socket.connect_told = true;
                Reply::of(0)
            }
        }
    }

    pub(super) fn close(&mut self, fd: Fd) -> Tried {
        let Some(socket) = self.sockets.remove(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        match socket.role {
            Role::Fresh => {}
            Role::Listener(id) => {
                self.host.unlisten(id, self.now);
                for conn in self.arrived.remove(&id).unwrap_or_default() {
                    if let Some(conn) = self.host.connection_mut(conn) {
                        conn.abort(self.now);
                    }
                    self.host.release(conn, self.now);
                }
            }
            Role::Conn(id) => {
                if socket.linger == Some(0)
                    && let Some(conn) = self.host.connection_mut(id)
                {
                    conn.abort(self.now);
                }
                self.host.release(id, self.now);
                self.former.insert(fd, id);
            }
        }
        Ok(Reply::of(0))
    }

    pub(super) fn shutdown(&mut self, fd: Fd, read: bool, write: bool) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let Role::Conn(id) = socket.role else {
            return Ok(Errno::ENOTCONN.into());
        };
        socket.shut_read |= read;
        match self.host.connection_mut(id) {
            Some(conn) if !matches!(conn.state(), State::Closed(_) | State::SynSent) => {
                if write {
                    conn.close(self.now);
                }
                Ok(Reply::of(0))
            }
            _ => Ok(Errno::ENOTCONN.into()),
        }
    }
}
