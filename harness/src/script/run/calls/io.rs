//! Data: `read` and its kin, `write` and its kin.

use super::Tried;
use crate::script::ast::{Call, Expr};
use crate::script::diagnostic::Diagnostic;
use crate::script::flow::{peer_byte, user_byte};
use crate::script::run::Machine;
use crate::script::run::sockets::{Progress, Reply, Role, number, peer_closed};
use narrows::buffer::RecvBuffer;
use narrows::conn::state::State;
use narrows::endpoint::ConnId;

const MSG_OOB: i64 = 1;
const MSG_PEEK: i64 = 2;
const MSG_DONTWAIT: i64 = 0x40;
const MSG_WAITALL: i64 = 0x100;

/// Flags that `recv` knows.
const RECV_FLAGS: i64 = MSG_PEEK | MSG_DONTWAIT | MSG_WAITALL | 0x20 | 0x4000;
/// Flags that `send` knows.
const SEND_FLAGS: i64 = MSG_OOB | MSG_DONTWAIT | 0x4000;

/// What a call says of data.
struct Data {
    len: usize,
    flags: i64,
    /// The bytes, where the script gives them.
    text: Vec<u8>,
}

/// Arguments of the calls for data, in their several forms.
fn data(call: &Call, known: i64) -> Result<Data, Diagnostic> {
    let mut data = Data {
        len: 0,
        flags: 0,
        text: Vec::new(),
    };
    match call.name.as_str() {
        "readv" | "writev" => vector(call, call.arg(1)?, &mut data)?,
        "recvmsg" | "sendmsg" => {
            let message = call.arg(1)?;
            let parts = message.field("msg_iov").ok_or_else(|| {
                call.unsupported("a message is {msg_name(...)=..., msg_iov(N)=...}")
            })?;
            vector(call, parts, &mut data)?;
            if let Some(Expr::List(control)) = message.field("msg_control")
                && !control.is_empty()
            {
                return Err(call.unsupported("control messages are not known"));
            }
            data.flags = flags(call, 2)?;
        }
        _ => {
            data.len = call.size(2)?;
            if let Expr::Text(text) = call.arg(1)? {
                data.text.clone_from(text);
            }
            if !matches!(call.name.as_str(), "read" | "write") {
                data.flags = flags(call, 3)?;
            }
        }
    }
    if data.flags & !known != 0 {
        return Err(call.unsupported(FLAGS_KNOWN));
    }
    Ok(data)
}

fn flags(call: &Call, at: usize) -> Result<i64, Diagnostic> {
    match call.args.get(at) {
        None => Ok(0),
        Some(e) => number(e).ok_or_else(|| call.unsupported(FLAGS_KNOWN)),
    }
}

/// What is said of other flags.
const FLAGS_KNOWN: &str = "these flags are not known; there are MSG_DONTWAIT, MSG_NOSIGNAL, MSG_OOB \
                           for sending, MSG_PEEK, MSG_TRUNC and MSG_WAITALL for receiving";

/// `[{..., 1000}, {"abc", 3}]`
fn vector(call: &Call, parts: &Expr, data: &mut Data) -> Result<(), Diagnostic> {
    let Expr::List(parts) = parts else {
        return Err(call.unsupported("parts are written [{..., LENGTH}, ...]"));
    };
    for part in parts {
        let Expr::Record(fields) = part else {
            return Err(call.unsupported("a part is written {..., LENGTH}"));
        };
        let len = fields.get(1).and_then(|(_, e)| number(e));
        let len = len.and_then(|n| usize::try_from(n).ok());
        let len = len.ok_or_else(|| call.unsupported("a part is written {..., LENGTH}"))?;
        data.len = data.len.saturating_add(len).min(1 << 26);
    }
    Ok(())
}

impl Machine<'_> {
    pub(super) fn receive(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let data = data(call, RECV_FLAGS)?;
        let socket = self.socket(fd);
        let Role::Conn(id) = socket.role else {
            return Ok(Reply::Failed("ENOTCONN"));
        };
        let nonblocking = socket.nonblocking || data.flags & MSG_DONTWAIT != 0;
        let shut = socket.shut_read;
        let error = socket.error(&self.host);
        let Some(conn) = self.host.connection(id) else {
            return Ok(Reply::Returned(0));
        };
        let state = conn.state();
        let readable = conn.readable() as usize;
        let wants_all = data.flags & MSG_WAITALL != 0 && !nonblocking;
        let ended = peer_closed(state) || shut;
        if data.len == 0 && error.is_none() {
            return Ok(Reply::Returned(0));
        }
        // What came before an error is lost with it, as the stacks have it.
        if let Some(errno) = error {
            if let Some(socket) = self.sockets.get_mut(&fd) {
                socket.error_told = true;
            }
            return Ok(Reply::Failed(errno));
        }
        if readable > 0 && (!wants_all || readable >= data.len || ended) {
            let n = readable.min(data.len);
            self.check_read(call, id, n)?;
            if data.flags & MSG_PEEK == 0 {
                let now = self.now;
                if let Some(conn) = self.host.connection_mut(id) {
                    conn.consume(n as u64, now);
                }
            }
            return Ok(Reply::Returned(n as i64));
        }
        if ended {
            return Ok(Reply::Returned(0));
        }
        Ok(match nonblocking {
            true => Reply::Failed("EAGAIN"),
            false => Reply::Block,
        })
    }

    /// The bytes to be read are those that the peer sent.
    fn check_read(&self, call: &Call, id: ConnId, n: usize) -> Result<(), Diagnostic> {
        let Some(conn) = self.host.connection(id) else {
            return Ok(());
        };
        let (local, remote) = (conn.local().port(), conn.remote().port());
        let flow = self
            .flows
            .iter()
            .find(|f| f.local == local && f.remote == remote);
        let Some(flow) = flow else { return Ok(()) };
        let start = conn.recv_buffer().start();
        let view = conn.recv_buffer().peek(conn.readable_end());
        let good = flow.peer_isns.iter().any(|isn| {
            let first = isn.wrapping_add(1).wrapping_add(start as u32);
            let sent = (0..n as u32).map(|i| peer_byte(first.wrapping_add(i)));
            view.iter().take(n).eq(sent)
        });
        if good {
            return Ok(());
        }
        Err(Diagnostic::mismatch(
            call.span,
            format!(
                "{}() gives bytes that the peer did not send there",
                call.name
            ),
        ))
    }

    pub(super) fn send(&mut self, call: &Call, progress: &mut Progress) -> Tried {
        let fd = self.descriptor(call)?;
        let data = data(call, SEND_FLAGS)?;
        let socket = self.socket(fd);
        let Role::Conn(id) = socket.role else {
            return Ok(Reply::Failed("EPIPE"));
        };
        let nonblocking = socket.nonblocking || data.flags & MSG_DONTWAIT != 0;
        if let Some(errno) = socket.error(&self.host) {
            if let Some(socket) = self.sockets.get_mut(&fd) {
                socket.error_told = true;
            }
            return Ok(match progress.written {
                0 => Reply::Failed(errno),
                n => Reply::Returned(n as i64),
            });
        }
        let Some(conn) = self.host.connection(id) else {
            return Ok(Reply::Failed("EPIPE"));
        };
        let (local, remote) = (conn.local().port(), conn.remote().port());
        // No more is made than there is room for: the rest when it is.
        let room = usize::try_from(conn.send_room()).unwrap_or(usize::MAX);
        match conn.state() {
            State::SynSent | State::SynReceived(_) => {
                return Ok(match nonblocking {
                    true => Reply::Failed("EAGAIN"),
                    false => Reply::Block,
                });
            }
            State::Established | State::CloseWait => {}
            _ => return Ok(Reply::Failed("EPIPE")),
        }
        let flow = self.flow_of(local, remote);
        let before = self.flows[flow].written.len();
        let left = data.len - progress.written.min(data.len);
        let bytes: Vec<u8> = (0..left.min(room))
            .map(|i| {
                let given = data.text.get(progress.written + i).copied();
                given.unwrap_or_else(|| user_byte(before + i))
            })
            .collect();
        let Some(conn) = self.host.connection_mut(id) else {
            return Ok(Reply::Failed("EPIPE"));
        };
        let sent = match data.flags & MSG_OOB {
            0 => conn.send(&bytes, left),
            _ => conn.send_urgent(&bytes, left),
        };
        let Ok(taken) = sent else {
            return Ok(Reply::Failed("EPIPE"));
        };
        self.flows[flow]
            .written
            .extend(bytes.get(..taken).unwrap_or_default());
        progress.written += taken;
        progress.moved |= taken > 0;
        Ok(if progress.written >= data.len {
            Reply::Returned(data.len as i64)
        } else if !nonblocking {
            Reply::Block
        } else if progress.written > 0 {
            Reply::Returned(progress.written as i64)
        } else {
            Reply::Failed("EAGAIN")
        })
    }
}
