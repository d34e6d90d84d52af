//! Sockets come and go: `socket`, `bind`, `listen`, `accept`, `connect`, `close`, `shutdown`.

use super::Tried;
use crate::script::ast::{Call, Expr};
use crate::script::diagnostic::Diagnostic;
use crate::script::run::Machine;
use crate::script::run::sockets::{Progress, Reply, Role, Socket, number};
use narrows::conn::state::State;
use narrows::endpoint::{ConnectError, ListenError};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// `SOCK_NONBLOCK` in a socket's type.
const NONBLOCK: i64 = 0o4000;

impl Machine<'_> {
    pub(super) fn open_socket(&mut self, call: &Call) -> Tried {
        let kind = match call.arg(1)? {
            Expr::Ellipsis => 1,
            other => number(other).unwrap_or(0),
        };
        if kind & 0xf != 1 {
            return Err(call.unsupported("only SOCK_STREAM: this is a TCP"));
        }
        if let Expr::Word(family) = call.arg(0)?
            && !matches!(
                family.as_str(),
                "AF_INET" | "PF_INET" | "AF_INET6" | "PF_INET6"
            )
        {
            return Err(call.unsupported(format!("no address family `{family}`")));
        }
        if let Expr::Word(protocol) = call.arg(2)?
            && protocol != "IPPROTO_TCP"
        {
            return Err(call.unsupported(format!("`{protocol}`: this is a TCP")));
        }
        let fd = self.new_descriptor(call)?;
        let socket = Socket::new(Role::Fresh, self.tcp.clone(), kind & NONBLOCK != 0);
        self.sockets.insert(fd, socket);
        Ok(Reply::Returned(i64::from(fd)))
    }

    pub(super) fn bind(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let default = SocketAddr::new(self.settings.local, self.settings.bind_port);
        let at = address(call, call.arg(1)?, default)?;
        if let Some(socket) = self.sockets.get_mut(&fd) {
            socket.bound = Some(at);
        }
        Ok(Reply::Returned(0))
    }

    pub(super) fn listen(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let backlog = call.int(1)?.clamp(0, 65_535) as usize;
        let socket = self.socket(fd);
        match socket.role {
            Role::Listener(..) => return Ok(Reply::Returned(0)),
            Role::Conn(_) => return Ok(Reply::Failed("EINVAL")),
            Role::Fresh => {}
        }
        let default = SocketAddr::new(self.settings.local, self.settings.bind_port);
        let mut at = socket.bound.unwrap_or(default);
        at.set_ip(self.settings.local);
        let tcp = Arc::new(socket.tcp.clone());
        // As the stacks do: a backlog of one admits one more than it says.
        match self.host.listen(at, backlog + 1, Some(tcp)) {
            Ok(id) => {
                if let Some(socket) = self.sockets.get_mut(&fd) {
                    socket.role = Role::Listener(id, at.port());
                }
                self.current = None;
                Ok(Reply::Returned(0))
            }
            Err(ListenError::InUse) => Ok(Reply::Failed("EADDRINUSE")),
            Err(e) => Err(call.unsupported(e)),
        }
    }

    pub(super) fn accept(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let socket = self.socket(fd);
        let Role::Listener(listener, _) = socket.role else {
            return Ok(Reply::Failed("EINVAL"));
        };
        let nonblocking = socket.nonblocking;
        let queue = self.arrived.entry(listener).or_default();
        let Some(&conn) = queue.front() else {
            return Ok(match nonblocking {
                true => Reply::Failed("EAGAIN"),
                false => Reply::Block,
            });
        };
        // A refusal that the script expects takes nothing from the queue.
        let new = self.new_descriptor(call)?;
        let mut accepted = self.socket(fd).clone();
        accepted.role = Role::Conn(conn);
        accepted.nonblocking = match call.args.get(3) {
            Some(flags) => number(flags).unwrap_or(0) & NONBLOCK != 0,
            None => false,
        };
        accepted.connect_told = true;
        self.sockets.insert(new, accepted);
        if let Some(queue) = self.arrived.get_mut(&listener) {
            queue.pop_front();
        }
        self.focus = Some(conn);
        Ok(Reply::Returned(i64::from(new)))
    }

    pub(super) fn connect(&mut self, call: &Call, progress: &mut Progress) -> Tried {
        let fd = self.descriptor(call)?;
        let socket = self.socket(fd);
        let nonblocking = socket.nonblocking;
        match socket.role {
            Role::Listener(..) => return Ok(Reply::Failed("EISCONN")),
            Role::Fresh => {}
            Role::Conn(_) => return Ok(self.connect_again(fd, progress.tried)),
        }
        let default = SocketAddr::new(self.settings.remote, self.settings.connect_port);
        let remote = address(call, call.arg(1)?, default)?;
        let local = socket
            .bound
            .unwrap_or_else(|| SocketAddr::new(self.settings.local, 0));
        let tcp = Arc::new(socket.tcp.clone());
        match self.host.connect(self.now, local, remote, Some(tcp)) {
            Ok(id) => {
                let port = self.host.connection(id).map_or(0, |c| c.local().port());
                let flow = self.flow_of(port, remote.port());
                self.current = Some(flow);
                self.focus = Some(id);
                if let Some(socket) = self.sockets.get_mut(&fd) {
                    socket.role = Role::Conn(id);
                }
                Ok(match nonblocking {
                    true => Reply::Failed("EINPROGRESS"),
                    false => Reply::Block,
                })
            }
            Err(ConnectError::InUse | ConnectError::NoPort) => Ok(Reply::Failed("EADDRNOTAVAIL")),
            Err(e) => Err(call.unsupported(e)),
        }
    }

    /// `connect` on a socket that has begun to: the same call, if it blocks, or another.
    fn connect_again(&mut self, fd: i32, same_call: bool) -> Reply {
        let socket = self.socket(fd);
        let state = socket.conn(&self.host).map(|c| c.state());
        let error = socket.error(&self.host);
        let told = socket.connect_told;
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Reply::Failed("EBADF");
        };
        match (state, error) {
            (_, Some(error)) => {
                socket.error_told = true;
                Reply::Failed(error)
            }
            (Some(State::SynSent | State::SynReceived(_)), _) if same_call => Reply::Block,
            (Some(State::SynSent | State::SynReceived(_)), _) => Reply::Failed("EALREADY"),
            (Some(State::Closed(_)) | None, _) => Reply::Failed("ECONNABORTED"),
            _ if told => Reply::Failed("EISCONN"),
            _ => {
                socket.connect_told = true;
                Reply::Returned(0)
            }
        }
    }

    pub(super) fn close(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let Some(socket) = self.sockets.remove(&fd) else {
            return Ok(Reply::Failed("EBADF"));
        };
        match socket.role {
            Role::Fresh => {}
            Role::Listener(id, _) => {
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
            }
        }
        Ok(Reply::Returned(0))
    }

    pub(super) fn shutdown(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let (read, write) = match call.name(1)? {
            "SHUT_RD" => (true, false),
            "SHUT_WR" => (false, true),
            "SHUT_RDWR" => (true, true),
            other => return Err(call.unsupported(format!("no way `{other}`"))),
        };
        let now = self.now;
        let Role::Conn(id) = self.socket(fd).role else {
            return Ok(Reply::Failed("ENOTCONN"));
        };
        if let Some(socket) = self.sockets.get_mut(&fd) {
            socket.shut_read |= read;
        }
        match self.host.connection_mut(id) {
            Some(conn) if !matches!(conn.state(), State::Closed(_) | State::SynSent) => {
                if write {
                    conn.close(now);
                }
                Ok(Reply::Returned(0))
            }
            _ => Ok(Reply::Failed("ENOTCONN")),
        }
    }
}

/// The address that `e` says: `...` is the default; a port of its own in
/// `{sa_family=AF_INET, sin_port=htons(80), sin_addr=inet_addr("192.0.2.1")}`.
fn address(call: &Call, e: &Expr, default: SocketAddr) -> Result<SocketAddr, Diagnostic> {
    let Expr::Record(_) = e else {
        return match e {
            Expr::Ellipsis => Ok(default),
            _ => Err(call.unsupported("an address is `...` or {sa_family=...}")),
        };
    };
    let mut at = default;
    if let Some(Expr::Apply(_, port)) = e.field("sin_port").or_else(|| e.field("sin6_port")) {
        let port = port.first().and_then(number);
        let port = port.and_then(|p| u16::try_from(p).ok());
        at.set_port(port.ok_or_else(|| call.unsupported("a port is htons(NUMBER)"))?);
    }
    if let Some(Expr::Apply(_, ip)) = e.field("sin_addr").or_else(|| e.field("sin6_addr")) {
        let text = match ip.first() {
            Some(Expr::Text(text)) => String::from_utf8_lossy(text).into_owned(),
            _ => String::new(),
        };
        let ip: IpAddr = text
            .parse()
            .map_err(|_| call.unsupported("an address is inet_addr(\"A.B.C.D\")"))?;
        if !ip.is_unspecified() {
            at.set_ip(ip);
        }
    }
    Ok(at)
}
