//! `poll`, `fcntl` and `ioctl`.

use super::Tried;
use crate::script::ast::{Call, Expr};
use crate::script::diagnostic::Diagnostic;
use crate::script::run::Machine;
use crate::script::run::sockets::{Progress, Reply, Role, number, peer_closed};
use narrows::Duration;
use narrows::conn::state::State;

const POLLIN: i64 = 1;
const POLLOUT: i64 = 4;
const POLLERR: i64 = 8;
const POLLHUP: i64 = 0x10;
const POLLNVAL: i64 = 0x20;
const POLLRDHUP: i64 = 0x2000;
const O_RDWR: i64 = 2;
const O_NONBLOCK: i64 = 0o4000;

impl Machine<'_> {
    pub(super) fn poll(&mut self, call: &Call, progress: &mut Progress) -> Tried {
        let Expr::List(entries) = call.arg(0)? else {
            return Err(call.unsupported("descriptors are written [{fd=4, events=POLLIN}]"));
        };
        let mut ready = 0;
        let mut wrong = None;
        for entry in entries {
            let field = |name| entry.field(name).and_then(number);
            let (Some(fd), Some(events)) = (field("fd"), field("events")) else {
                return Err(call.unsupported("a descriptor is written {fd=4, events=POLLIN}"));
            };
            let wanted = field("revents").unwrap_or(0);
            let always = POLLERR | POLLHUP | POLLNVAL;
            let got = self.readiness(fd) & (events | always);
            ready += i64::from(got != 0);
            if got != wanted {
                wrong = Some((fd, wanted, got));
            }
        }
        let timeout = call.int(2)?;
        if ready == 0 {
            if timeout < 0 {
                return Ok(Reply::Block);
            }
            let end = progress.began + Duration::from_millis(timeout as u64);
            if self.now < end {
                progress.wake = Some(end);
                return Ok(Reply::Block);
            }
        }
        match wrong {
            Some((fd, wanted, got)) => Err(Diagnostic::mismatch(
                call.span,
                format!("poll() gives other events for descriptor {fd}"),
            )
            .comparing(event_names(wanted), event_names(got))),
            None => Ok(Reply::Returned(ready)),
        }
    }

    /// Everything that a descriptor is ready for.
    fn readiness(&self, fd: i64) -> i64 {
        let socket = i32::try_from(fd).ok().and_then(|fd| self.sockets.get(&fd));
        let Some(socket) = socket else {
            return POLLNVAL;
        };
        match socket.role {
            Role::Fresh => POLLOUT | POLLHUP,
            Role::Listener(id, _) => {
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
                let opening = matches!(state, State::SynSent | State::SynReceived(_));
                if !opening && conn.send_room() > 0 {
                    ready |= POLLOUT;
                }
                ready
            }
        }
    }

    pub(super) fn fcntl(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        match call.name(1)? {
            "F_GETFL" => {
                let flag = if self.socket(fd).nonblocking {
                    O_NONBLOCK
                } else {
                    0
                };
                Ok(Reply::Returned(O_RDWR | flag))
            }
            "F_SETFL" => {
                let flags = call.int(2)?;
                if let Some(socket) = self.sockets.get_mut(&fd) {
                    socket.nonblocking = flags & O_NONBLOCK != 0;
                }
                Ok(Reply::Returned(0))
            }
            other => {
                Err(call.unsupported(format!("no command `{other}`; there are F_GETFL, F_SETFL")))
            }
        }
    }

    pub(super) fn ioctl(&mut self, call: &Call) -> Tried {
        let fd = self.descriptor(call)?;
        let name = call.name(1)?;
        let said = match call.args.get(2) {
            Some(Expr::List(items)) => items.first().and_then(number),
            Some(other) => number(other),
            None => None,
        };
        if name == "FIONBIO" {
            if let Some(socket) = self.sockets.get_mut(&fd) {
                socket.nonblocking = said.unwrap_or(0) != 0;
            }
            return Ok(Reply::Returned(0));
        }
        let Some(conn) = self.socket(fd).conn(&self.host) else {
            return Ok(Reply::Failed("EINVAL"));
        };
        let sender = conn.sender();
        let value = match name {
            "FIONREAD" | "SIOCINQ" => conn.readable(),
            "SIOCOUTQ" | "FIONWRITE" | "TIOCOUTQ" => conn.unacknowledged(),
            "SIOCOUTQNSD" => {
                let outstanding = sender.nxt().saturating_sub(sender.una());
                conn.unacknowledged().saturating_sub(outstanding)
            }
            other => {
                return Err(call.unsupported(format!(
                    "no request `{other}`; there are FIONREAD, SIOCINQ, SIOCOUTQ, SIOCOUTQNSD, \
                     FIONBIO"
                )));
            }
        };
        match said {
            Some(wanted) if wanted != value as i64 => Err(Diagnostic::mismatch(
                call.span,
                format!("ioctl({name}) gives something else"),
            )
            .comparing(wanted.to_string(), value.to_string())),
            _ => Ok(Reply::Returned(0)),
        }
    }
}

fn event_names(events: i64) -> String {
    let names: Vec<&str> = [
        (POLLIN, "POLLIN"),
        (POLLOUT, "POLLOUT"),
        (POLLERR, "POLLERR"),
        (POLLHUP, "POLLHUP"),
        (POLLNVAL, "POLLNVAL"),
        (POLLRDHUP, "POLLRDHUP"),
    ]
    .into_iter()
    .filter(|(bit, _)| events & bit != 0)
    .map(|(_, name)| name)
    .collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join("|"),
    }
}
