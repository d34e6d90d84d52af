//! Data: `read` and its kin, `write` and its kin.

use super::call::{
    Answer, Fd, Gave, MSG_DONTWAIT, MSG_FASTOPEN, MSG_MORE, MSG_OOB, MSG_PEEK, MSG_WAITALL,
    RECEIVE_FLAGS, SEND_FLAGS, Text,
};
use super::errno::Errno;
use super::fast_open::{Begun, is_opening};
use super::socket::{Progress, Reply, Role, peer_closed};
use super::{Sockets, Stuck, refused};
use narrows::conn::state::State;
use std::net::SocketAddr;

type Tried = Result<Reply, Stuck>;

/// What is said of other flags.
pub const FLAGS_KNOWN: &str = "these flags are not known; there are MSG_DONTWAIT, MSG_NOSIGNAL, \
                               MSG_FASTOPEN, MSG_MORE and MSG_OOB for sending, MSG_PEEK, \
                               MSG_TRUNC and MSG_WAITALL for receiving";

impl Sockets {
    pub(super) fn receive(&mut self, fd: Fd, room: usize, flags: i32) -> Tried {
        if flags & !RECEIVE_FLAGS != 0 {
            return refused(FLAGS_KNOWN);
        }
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let Role::Conn(id) = socket.role else {
            return Ok(Errno::ENOTCONN.into());
        };
        let nonblocking = socket.nonblocking || flags & MSG_DONTWAIT != 0;
        // What came before an error is lost with it, as the stacks have it.
        if let Some(errno) = socket.error(&self.host) {
            socket.error_told = true;
            return Ok(errno.into());
        }
        let Some(conn) = self.host.connection_mut(id) else {
            return Ok(Reply::of(0));
        };
        if room == 0 {
            return Ok(Reply::of(0));
        }
        let readable = usize::try_from(conn.readable()).unwrap_or(usize::MAX);
        let wants_all = flags & MSG_WAITALL != 0 && !nonblocking;
        let ended = peer_closed(conn.state()) || socket.shut_read;
        if readable > 0 && (!wants_all || readable >= room || ended) {
            let n = readable.min(room);
            let view = conn.recv_buffer().peek(conn.readable_end());
            let bytes: Vec<u8> = view.iter().take(n).collect();
            if flags & MSG_PEEK == 0 {
                conn.consume(n as u64, self.now);
            }
            return Ok(Reply::Answer(Answer::giving(n as i64, Gave::Bytes(bytes))));
        }
        if ended {
            return Ok(Reply::of(0));
        }
        Ok(Reply::not_now(nonblocking))
    }

    pub(super) fn send(
        &mut self,
        fd: Fd,
        text: &Text,
        flags: i32,
        to: Option<SocketAddr>,
        progress: &mut Progress,
    ) -> Tried {
        if flags & !SEND_FLAGS != 0 {
            return refused(FLAGS_KNOWN);
        }
        let Some(socket) = self.sockets.get(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let nonblocking = socket.nonblocking || flags & MSG_DONTWAIT != 0;
        if flags & MSG_FASTOPEN != 0
            && let Some(to) = to
            && let Begun::Is(reply) = self.open_by_writing(fd, to, text, nonblocking, progress)?
        {
            return Ok(reply);
        }
        if let Some(reply) = self.ride(fd, text, nonblocking, progress) {
            return Ok(reply);
        }
        let Some(socket) = self.sockets.get_mut(&fd) else {
            return Ok(Errno::EBADF.into());
        };
        let Role::Conn(id) = socket.role else {
            return Ok(Errno::EPIPE.into());
        };
        if let Some(errno) = socket.error(&self.host) {
            socket.error_told = true;
            return Ok(match progress.written {
                0 => errno.into(),
                n => Reply::of(n as i64),
            });
        }
        let Some(conn) = self.host.connection_mut(id) else {
            return Ok(Errno::EPIPE.into());
        };
        match conn.state() {
            _ if is_opening(conn) => return Ok(Reply::not_now(nonblocking)),
            State::SynReceived(_) | State::Established | State::CloseWait => {}
            _ => return Ok(Errno::EPIPE.into()),
        }
        // No more is made than there is room for: the rest when it is.
        let room = usize::try_from(conn.send_room()).unwrap_or(usize::MAX);
        let left = text.len - progress.written.min(text.len);
        let bytes = text.bytes(progress.written, left.min(room));
        let sent = if flags & MSG_OOB != 0 {
            conn.send_urgent(&bytes, left)
        } else if flags & MSG_MORE != 0 {
            conn.send_more(&bytes, left)
        } else {
            conn.send(&bytes, left)
        };
        let Ok(taken) = sent else {
            return Ok(Errno::EPIPE.into());
        };
        progress.written += taken;
        progress.moved |= taken > 0;
        Ok(if progress.written >= text.len {
            Reply::of(text.len as i64)
        } else if !nonblocking {
            Reply::Block
        } else if progress.written > 0 {
            Reply::of(progress.written as i64)
        } else {
            Errno::EAGAIN.into()
        })
    }
}
