//! Fast Open as Linux offers it: `sendto` with `MSG_FASTOPEN`, `TCP_FASTOPEN`,
//! `TCP_FASTOPEN_CONNECT`, `TCP_FASTOPEN_KEY`, `TCP_FASTOPEN_NO_COOKIE`.

use super::call::{Fd, Text};
use super::errno::Errno;
use super::socket::{Conn, Progress, Reply, Role};
use super::{Sockets, Stuck, refused};
use narrows::fast_open::{FastOpenClient, FastOpenKeys, FastOpenStatus};
use std::net::SocketAddr;

type Tried = Result<Reply, Stuck>;

/// Stands for as many pending requests as the listener's backlog is long.
pub(crate) const AS_BACKLOG: u32 = u32::MAX;

/// What a write is that may begin the connection.
pub(super) enum Begun {
    /// It goes on as any other.
    Not,
    /// This came of it.
    Is(Reply),
}

impl Sockets {
    /// A write with `MSG_FASTOPEN` connects, if nothing has yet, and the data rides on the SYN as
    /// far as there is room.
    pub(super) fn open_by_writing(
        &mut self,
        fd: Fd,
        to: SocketAddr,
        text: &Text,
        nonblocking: bool,
        progress: &mut Progress,
    ) -> Result<Begun, Stuck> {
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Begun::Not);
        };
        match socket.role {
            Role::Fresh => {}
            Role::Listener(_) => return Ok(Begun::Is(Errno::EISCONN.into())),
            Role::Conn(_) => {
                let opening = socket.conn(&self.host).is_some_and(is_opening);
                return Ok(if opening && !progress.tried {
                    Begun::Is(Errno::EALREADY.into())
                } else {
                    Begun::Not
                });
            }
        }
        let client = socket.tcp.fast_open.client;
        if client == FastOpenClient::Off {
            return Ok(Begun::Is(Errno::EOPNOTSUPP.into()));
        }
        match self.begin_to_connect(fd, to, client)? {
            Reply::Block => {}
            failed => return Ok(Begun::Is(failed)),
        }
        let ridden = self.ride(fd, text, nonblocking, progress);
        Ok(Begun::Is(ridden.unwrap_or(if nonblocking {
            Errno::EINPROGRESS.into()
        } else {
            Reply::Block
        })))
    }

    /// Data for a SYN that waits for some: as much as there is room for. None: no SYN waits.
    pub(super) fn ride(
        &mut self,
        fd: Fd,
        text: &Text,
        nonblocking: bool,
        progress: &mut Progress,
    ) -> Option<Reply> {
        let Role::Conn(id) = self.sockets.get(&fd)?.role else {
            return None;
        };
        let conn = self.host.connection_mut(id)?;
        if conn.fast_open() != FastOpenStatus::Waiting {
            return None;
        }
        let room = usize::try_from(conn.syn_room()).unwrap_or(usize::MAX);
        // The rest of a write that blocks leaves with the first acknowledgement.
        let all = usize::try_from(conn.send_room()).unwrap_or(usize::MAX);
        let bytes = text.bytes(0, text.len.min(if nonblocking { room } else { all }));
        let taken = conn.send(&bytes, bytes.len()).unwrap_or(0);
        progress.written = taken;
        progress.moved = true;
        Some(match (nonblocking, taken) {
            (true, 0) => Errno::EINPROGRESS.into(),
            (true, n) => Reply::of(n as i64),
            (false, _) => Reply::Block,
        })
    }

    pub(super) fn set_fast_open_key(&mut self, fd: Fd, key: &[u8]) -> Tried {
        let one = |at: usize| key.get(at..at + 16).and_then(|k| k.try_into().ok());
        let keys = match (key.len(), one(0), one(16)) {
            (16, Some(key), _) => FastOpenKeys::new(key),
            (32, Some(key), Some(before)) => FastOpenKeys::new(before).rotate(key),
            _ => return Ok(Errno::EINVAL.into()),
        };
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        socket.tcp.fast_open.keys = Some(keys);
        if let Role::Listener(id) = socket.role {
            let host = &mut self.host;
            host.set_listener_fast_open(id, |f| f.keys = Some(keys));
        }
        Ok(Reply::of(0))
    }

    /// `TCP_FASTOPEN` and its kin with a number.
    pub(super) fn set_fast_open(&mut self, fd: Fd, name: &str, n: i64) -> Result<(), Stuck> {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(());
        };
        let fast_open = &mut socket.tcp.fast_open;
        match name {
            "TCP_FASTOPEN" => {
                fast_open.pending = n as u32;
                if let Role::Listener(id) = socket.role {
                    let host = &mut self.host;
                    host.set_listener_fast_open(id, |f| f.pending = n as u32);
                }
            }
            "TCP_FASTOPEN_NO_COOKIE" if n != 0 => {
                fast_open.client = FastOpenClient::WithoutCookie;
                fast_open.without_cookie = true;
            }
            "TCP_FASTOPEN_CONNECT" if n != 0 && fast_open.client == FastOpenClient::Off => {
                return refused("TCP_FASTOPEN_CONNECT: net.ipv4.tcp_fastopen is without bit 1");
            }
            _ => {}
        }
        Ok(())
    }
}

/// The handshake is not complete, and the user has nothing of it yet.
pub(super) fn is_opening(conn: &Conn) -> bool {
    use narrows::conn::state::{Origin, State};
    match conn.state() {
        State::SynSent => conn.fast_open() != FastOpenStatus::Waiting,
        State::SynReceived(origin) => origin == Origin::Active,
        _ => false,
    }
}
