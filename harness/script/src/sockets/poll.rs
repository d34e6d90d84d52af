//! `poll`, `fcntl` and `ioctl`.

use super::call::{
    Answer, Fd, Gave, O_NONBLOCK, O_RDWR, POLLERR, POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP,
};
use super::errno::Errno;
use super::fast_open::is_opening;
use super::socket::{Progress, Reply, Role, peer_closed};
use super::{Sockets, Stuck, refused};
use narrows::Duration;
use narrows::conn::state::State;

type Tried = Result<Reply, Stuck>;

impl Sockets {
    pub(super) fn poll(
        &mut self,
        wanted: &[(Fd, i16)],
        timeout_ms: i64,
        progress: &mut Progress,
    ) -> Tried {
        let always = POLLERR | POLLHUP | POLLNVAL;
        let got: Vec<i16> = wanted
            .iter()
            .map(|(fd, events)| match fd {
                // Passed over, as poll(2) says.
                ..0 => 0,
                _ => self.readiness(*fd) & (events | always),
            })
            .collect();
        let ready = got.iter().filter(|events| **events != 0).count();
        if ready == 0 {
            let Ok(timeout) = u64::try_from(timeout_ms) else {
                return Ok(Reply::Block);
            };
            let end = progress.began + Duration::from_millis(timeout);
            if self.now < end {
                progress.wake = Some(end);
                return Ok(Reply::Block);
            }
        }
        let gave = Gave::Events(got);
        Ok(Reply::Answer(Answer::giving(ready as i64, gave)))
    }

    /// Everything that a descriptor is ready for.
    fn readiness(&self, fd: Fd) -> i16 {
        let Some(socket) = self.sockets.get(&fd) else {
            return POLLNVAL;
        };
        match socket.role {
            Role::Fresh => POLLOUT | POLLHUP,
            Role::Listener(id) => {
                let waiting = self.arrived.get(&id).is_some_and(|q| !q.is_empty());
                if waiting { POLLIN } else { 0 }
            }
            Role::Conn(id) => {
                let Some(conn) = self.host.connection(id) else {
                    return POLLIN | POLLOUT | POLLHUP;
                };
                let state = conn.state();
                let mut ready = 0;
                if socket.error(&self.host).is_some() {
                    ready |= POLLERR | POLLIN | POLLOUT;
                }
                if peer_closed(state) || socket.shut_read {
                    ready |= POLLRDHUP | POLLIN;
                }
                if conn.readable() > 0 {
                    ready |= POLLIN;
                }
                if matches!(state, State::Closed(_)) {
                    ready |= POLLHUP | POLLOUT;
                }
                if !is_opening(conn) && conn.send_room() > 0 {
                    ready |= POLLOUT;
                }
                ready
            }
        }
    }

    pub(super) fn get_flags(&self, fd: Fd) -> Tried {
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let flag = if socket.nonblocking { O_NONBLOCK } else { 0 };
        Ok(Reply::of(i64::from(O_RDWR | flag)))
    }

    pub(super) fn set_flags(&mut self, fd: Fd, nonblocking: bool) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        socket.nonblocking = nonblocking;
        Ok(Reply::of(0))
    }

    pub(super) fn ioctl(&mut self, fd: Fd, request: &str, value: i64) -> Tried {
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        if request == "FIONBIO" {
            socket.nonblocking = value != 0;
            return Ok(Reply::of(0));
        }
        let Some(conn) = socket.conn(&self.host) else {
            return Ok(Errno::EINVAL.into());
        };
        let sender = conn.sender();
        let value = match request {
            "FIONREAD" | "SIOCINQ" => conn.readable(),
            "SIOCOUTQ" | "FIONWRITE" | "TIOCOUTQ" => conn.unacknowledged(),
            "SIOCOUTQNSD" => {
                let outstanding = sender.nxt().saturating_sub(sender.una());
                conn.unacknowledged().saturating_sub(outstanding)
            }
            other => {
                return refused(format!(
                    "no request `{other}`; there are FIONREAD, SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, \
                     FIONBIO"
                ));
            }
        };
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        Ok(Reply::Answer(Answer::giving(0, Gave::Number(value))))
    }
}
