//! System calls, mapped to the endpoint's.

mod io;
mod open;
mod options;
mod poll;

use super::Machine;
use super::sockets::{Progress, Reply};
use crate::script::ast::Call;
use crate::script::diagnostic::Diagnostic;

type Tried = Result<Reply, Diagnostic>;

/// Every call there is.
const KNOWN: &str = "socket, bind, listen, accept, accept4, connect, read, readv, recv, recvfrom, \
                     recvmsg, write, writev, send, sendto, sendmsg, close, shutdown, getsockopt, \
                     setsockopt, fcntl, ioctl, poll";

impl Machine<'_> {
    /// Try a call; again, if it blocked before.
    pub(super) fn attempt(&mut self, call: &Call, progress: &mut Progress) -> Tried {
        let reply = match call.name.as_str() {
            "socket" => self.open_socket(call),
            "bind" => self.bind(call),
            "listen" => self.listen(call),
            "accept" | "accept4" => self.accept(call),
            "connect" => self.connect(call, progress),
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" => self.receive(call),
            "write" | "writev" | "send" | "sendto" | "sendmsg" => self.send(call, progress),
            "close" => self.close(call),
            "shutdown" => self.shutdown(call),
            "getsockopt" => self.getsockopt(call),
            "setsockopt" => self.setsockopt(call),
            "fcntl" => self.fcntl(call),
            "ioctl" => self.ioctl(call),
            "poll" => self.poll(call, progress),
            other => Err(Diagnostic::unsupported(
                call.span,
                format!("no system call `{other}`; there are {KNOWN}"),
            )),
        };
        progress.tried = true;
        reply
    }
}
