//! System calls: from the script's words to the stack's, and what came of them against what the
//! script says.

use super::Machine;
use super::arguments::{NO_DESCRIPTOR, data, entries, said};
use super::words::{number, same_errno};
use crate::ast::{self, Expr};
use crate::diagnostic::Diagnostic;
use crate::flow::{Stream, peer_byte};
use crate::sockets::{
    Answer, Call, Fd, Form, Gave, MSG_FASTOPEN, MSG_PEEK, O_NONBLOCK, OptionValue, POLLERR,
    POLLHUP, POLLIN, POLLNVAL, POLLOUT, POLLRDHUP, RECEIVE_FLAGS, SEND_FLAGS, Text,
};
use std::net::SocketAddr;

/// Every call there is.
const KNOWN: &str = "socket, bind, listen, accept, accept4, connect, read, readv, recv, recvfrom, \
                     recvmsg, write, writev, send, sendto, sendmsg, close, shutdown, getsockopt, \
                     setsockopt, fcntl, ioctl, poll";

/// What the script knows of a descriptor.
#[derive(Clone, Debug)]
pub(super) struct Descriptor {
    /// The stack's number.
    pub(super) live: Fd,
    /// Its stream.
    pub(super) stream: usize,
    /// Where it is bound.
    bound: Option<SocketAddr>,
    /// The port that it listens on.
    pub(super) listening: Option<u16>,
    /// It has begun to connect to this port, from one that its SYN will tell.
    pub(super) connecting: Option<u16>,
    /// It is connected, or has begun to.
    connected: bool,
}

impl Machine<'_> {
    /// The descriptor that a call's first argument names.
    fn descriptor(&self, call: &ast::Call) -> Result<(i32, &Descriptor), Diagnostic> {
        let fd = i32::try_from(call.int(0)?).unwrap_or(-1);
        match self.descriptors.get(&fd) {
            Some(descriptor) => Ok((fd, descriptor)),
            None => Err(Diagnostic::mismatch(
                call.span,
                format!("{}(): no socket has the descriptor {fd}", call.name),
            )),
        }
    }

    fn live(&self, call: &ast::Call) -> Result<Fd, Diagnostic> {
        Ok(self.descriptor(call)?.1.live)
    }

    /// The descriptor that the script gives to what a call makes.
    fn new_descriptor(&self, call: &ast::Call) -> Result<i32, Diagnostic> {
        let fd = call.made()?;
        if self.descriptors.contains_key(&fd) {
            return Err(Diagnostic::syntax(
                call.span,
                format!("descriptor {fd} is open already"),
            ));
        }
        Ok(fd)
    }

    /// A descriptor with a stream of its own.
    fn fresh(&mut self, live: Fd, flow: Option<usize>) -> Descriptor {
        self.streams.push(Stream::of(flow));
        Descriptor {
            live,
            stream: self.streams.len() - 1,
            bound: None,
            listening: None,
            connecting: None,
            connected: false,
        }
    }

    fn local_address(&self) -> SocketAddr {
        SocketAddr::new(self.settings.local, self.settings.bind_port)
    }

    // ---- What the script asks for.

    /// The stack's call for the script's.
    pub(super) fn asked(&mut self, call: &ast::Call) -> Result<Call, Diagnostic> {
        Ok(match call.name.as_str() {
            "socket" => self.socket(call)?,
            "bind" => {
                let fd = self.live(call)?;
                let mut at = call.address(1, self.local_address())?;
                at.set_ip(self.settings.local);
                Call::Bind { fd, at }
            }
            "listen" => Call::Listen {
                fd: self.live(call)?,
                backlog: call.int(1)?.clamp(0, 65_535) as usize,
            },
            "accept" | "accept4" => {
                let flags = call.args.get(3).and_then(number).unwrap_or(0);
                Call::Accept {
                    fd: self.live(call)?,
                    nonblocking: flags & i64::from(O_NONBLOCK) != 0,
                }
            }
            "connect" => {
                let fd = self.live(call)?;
                let port = self.settings.connect_port;
                let to = call.address(1, SocketAddr::new(self.settings.remote, port))?;
                Call::Connect { fd, to }
            }
            "read" | "readv" | "recv" | "recvfrom" | "recvmsg" => {
                let fd = self.live(call)?;
                let data = data(call, RECEIVE_FLAGS)?;
                Call::Receive {
                    fd,
                    form: data.form,
                    parts: data.parts,
                    flags: data.flags,
                }
            }
            "write" | "writev" | "send" | "sendto" | "sendmsg" => self.send(call)?,
            "close" => Call::Close {
                fd: self.live(call)?,
            },
            "shutdown" => {
                let fd = self.live(call)?;
                let (read, write) = match call.name(1)? {
                    "SHUT_RD" => (true, false),
                    "SHUT_WR" => (false, true),
                    "SHUT_RDWR" => (true, true),
                    other => return Err(call.unsupported(format!("no way `{other}`"))),
                };
                Call::Shutdown { fd, read, write }
            }
            "getsockopt" => {
                let fd = self.live(call)?;
                call.value()?;
                let name = call.name(2)?.to_owned();
                Call::GetOption { fd, name }
            }
            "setsockopt" => self.setsockopt(call)?,
            "fcntl" => {
                let fd = self.live(call)?;
                match call.name(1)? {
                    "F_GETFL" => Call::GetFlags { fd },
                    "F_SETFL" => Call::SetFlags {
                        fd,
                        nonblocking: call.int(2)? & i64::from(O_NONBLOCK) != 0,
                    },
                    other => {
                        return Err(call.unsupported(format!(
                            "no command `{other}`; there are F_GETFL, F_SETFL"
                        )));
                    }
                }
            }
            "ioctl" => Call::Ioctl {
                fd: self.live(call)?,
                request: call.name(1)?.to_owned(),
                value: said(call).unwrap_or(0),
            },
            "poll" => self.poll(call)?,
            other => {
                return Err(Diagnostic::unsupported(
                    call.span,
                    format!("no system call `{other}`; there are {KNOWN}"),
                ));
            }
        })
    }

    fn socket(&self, call: &ast::Call) -> Result<Call, Diagnostic> {
        let kind = match call.arg(1)? {
            Expr::Ellipsis => 1,
            other => number(other).unwrap_or(0),
        };
        if kind & 0xf != 1 {
            return Err(call.unsupported("only SOCK_STREAM: this is a TCP"));
        }
        let families = ["AF_INET", "PF_INET", "AF_INET6", "PF_INET6"];
        if let Expr::Word(family) = call.arg(0)?
            && !families.contains(&family.as_str())
        {
            return Err(call.unsupported(format!("no address family `{family}`")));
        }
        if let Expr::Word(protocol) = call.arg(2)?
            && protocol != "IPPROTO_TCP"
        {
            return Err(call.unsupported(format!("`{protocol}`: this is a TCP")));
        }
        self.new_descriptor(call)?;
        Ok(Call::Socket {
            nonblocking: kind & i64::from(O_NONBLOCK) != 0,
        })
    }

    fn send(&mut self, call: &ast::Call) -> Result<Call, Diagnostic> {
        let (_, descriptor) = self.descriptor(call)?;
        let (fd, stream) = (descriptor.live, descriptor.stream);
        let data = data(call, SEND_FLAGS)?;
        let remote = SocketAddr::new(self.settings.remote, self.settings.connect_port);
        let to = match (data.flags & MSG_FASTOPEN, data.form) {
            (0, _) => None,
            (_, Form::Address) => Some(call.address(4, remote)?),
            _ => Some(remote),
        };
        let stream = &mut self.streams[stream];
        let len = data.parts.iter().sum();
        let mut given = data.text;
        given.truncate(len);
        let at = stream.written;
        let text = Text { given, at, len };
        // Taken back later, if it is not taken.
        stream.write(&text);
        Ok(Call::Send {
            fd,
            form: data.form,
            parts: data.parts,
            flags: data.flags,
            text,
            to,
        })
    }

    fn setsockopt(&self, call: &ast::Call) -> Result<Call, Diagnostic> {
        let fd = self.live(call)?;
        let name = call.name(2)?.to_owned();
        let value = call.value()?;
        let value = match (name.as_str(), value) {
            ("SO_LINGER", value) => {
                let field = |f| value.field(f).and_then(number).unwrap_or(0);
                let seconds = field("linger").max(0) as u64;
                OptionValue::Linger((field("onoff") != 0).then_some(seconds))
            }
            ("TCP_CONGESTION", Expr::Text(text)) => {
                OptionValue::Word(String::from_utf8_lossy(text).into_owned())
            }
            ("TCP_CONGESTION", _) => OptionValue::Word(String::new()),
            ("TCP_FASTOPEN_KEY", Expr::Text(key)) => {
                let len = call.size(4)?.min(key.len());
                OptionValue::Bytes(key[..len].to_vec())
            }
            (_, value) => match number(value) {
                Some(n) if (0..1 << 31).contains(&n) => OptionValue::Number(n),
                _ => {
                    return Err(
                        call.unsupported(format!("no value for {name}: a number in brackets"))
                    );
                }
            },
        };
        Ok(Call::SetOption { fd, name, value })
    }

    fn poll(&self, call: &ast::Call) -> Result<Call, Diagnostic> {
        let mut wanted = Vec::new();
        for (fd, events, _) in entries(call)? {
            let descriptor = self.descriptors.get(&fd);
            wanted.push((descriptor.map_or(NO_DESCRIPTOR, |d| d.live), events));
        }
        Ok(Call::Poll {
            wanted,
            timeout_ms: call.int(2)?,
        })
    }

    // ---- What came of it.

    /// The call is under way, or has returned: what packets will be its.
    pub(super) fn begun(&mut self, call: &ast::Call, asked: &Call, failed: bool) {
        let (Call::Connect { to, .. } | Call::Send { to: Some(to), .. }) = asked else {
            return;
        };
        let Ok((fd, _)) = self.descriptor(call) else {
            return;
        };
        let remote = to.port();
        let Some(d) = self.descriptors.get_mut(&fd) else {
            return;
        };
        if d.connected || d.listening.is_some() || failed {
            return;
        }
        d.connected = true;
        let (live, stream, bound) = (d.live, d.stream, d.bound);
        if bound.is_none() {
            d.connecting = Some(remote);
        }
        self.focus = Some(live);
        if let Some(at) = bound {
            let flow = self.flow_of(at.port(), remote);
            self.flows[flow].on_end_of_opening();
            self.streams[stream].flow = Some(flow);
            self.current = Some(flow);
        }
    }

    /// The call has returned: what it made, and what it gave.
    pub(super) fn answered(
        &mut self,
        call: &ast::Call,
        asked: &Call,
        answer: &Answer,
    ) -> Result<(), Diagnostic> {
        if let Call::Send { text, .. } = asked {
            let taken = answer.result.map_or(0, |n| n.max(0) as u64);
            if let Ok((_, d)) = self.descriptor(call) {
                let stream = d.stream;
                self.streams[stream].truncate(text.at + taken);
            }
        }
        let Ok(result) = answer.result else {
            return Ok(());
        };
        match (asked, &answer.gave) {
            (Call::Socket { .. }, _) => {
                let fd = self.new_descriptor(call)?;
                let new = self.fresh(result as Fd, None);
                self.descriptors.insert(fd, new);
            }
            (Call::Accept { .. }, gave) => self.accepted(call, result as Fd, gave)?,
            (Call::Bind { at, .. }, _) => {
                let (fd, _) = self.descriptor(call)?;
                if let Some(d) = self.descriptors.get_mut(&fd) {
                    d.bound = Some(*at);
                }
            }
            (Call::Listen { .. }, _) => {
                let (fd, _) = self.descriptor(call)?;
                let default = self.settings.bind_port;
                if let Some(d) = self.descriptors.get_mut(&fd)
                    && d.listening.is_none()
                {
                    d.listening = Some(d.bound.map_or(default, |at| at.port()));
                    self.current = None;
                }
            }
            (Call::Close { .. }, _) => {
                let (fd, _) = self.descriptor(call)?;
                self.descriptors.remove(&fd);
            }
            (Call::Receive { flags, .. }, Gave::Bytes(bytes)) => {
                self.check_read(call, bytes)?;
                let stream = self.descriptor(call)?.1.stream;
                if flags & MSG_PEEK == 0 {
                    self.streams[stream].read += bytes.len() as u64;
                }
            }
            (Call::GetOption { name, .. }, gave) => got_option(call, name, gave)?,
            (Call::Ioctl { request, .. }, Gave::Number(value)) => match said(call) {
                Some(wanted) if wanted != *value => {
                    return Err(Diagnostic::mismatch(
                        call.span,
                        format!("ioctl({request}) gives something else"),
                    )
                    .comparing(wanted.to_string(), value.to_string()));
                }
                _ => {}
            },
            (Call::Poll { .. }, Gave::Events(events)) => {
                for ((fd, _, wanted), got) in entries(call)?.into_iter().zip(events) {
                    if wanted != *got {
                        return Err(Diagnostic::mismatch(
                            call.span,
                            format!("poll() gives other events for descriptor {fd}"),
                        )
                        .comparing(event_names(wanted), event_names(*got)));
                    }
                }
            }
            _ => {}
        }
        Ok(())
    }

    fn accepted(&mut self, call: &ast::Call, live: Fd, gave: &Gave) -> Result<(), Diagnostic> {
        let (_, listener) = self.descriptor(call)?;
        let port = listener.listening.unwrap_or(self.settings.bind_port);
        let bound = listener.bound;
        let fd = self.new_descriptor(call)?;
        let flow = match gave {
            Gave::Peer(peer) => Some(self.flow_of(port, peer.port())),
            _ => None,
        };
        let mut new = self.fresh(live, flow);
        new.connected = true;
        new.bound = bound;
        self.descriptors.insert(fd, new);
        self.focus = Some(live);
        Ok(())
    }

    /// The bytes that were read are those that the peer sent.
    fn check_read(&self, call: &ast::Call, bytes: &[u8]) -> Result<(), Diagnostic> {
        let (_, d) = self.descriptor(call)?;
        let stream = &self.streams[d.stream];
        let Some(flow) = stream.flow.and_then(|f| self.flows.get(f)) else {
            return Ok(());
        };
        let good = flow.peer_isns.iter().any(|isn| {
            let first = isn.wrapping_add(1).wrapping_add(stream.read as u32);
            let mut sent = (0..).map(|i: u32| peer_byte(first.wrapping_add(i)));
            bytes.iter().all(|b| sent.next() == Some(*b))
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

    /// An unbound socket that listens does so where scripts expect it.
    pub(super) fn bind_first(&self, call: &ast::Call) -> Option<Call> {
        if call.name != "listen" {
            return None;
        }
        let (_, d) = self.descriptor(call).ok()?;
        let fresh = d.bound.is_none() && d.listening.is_none() && !d.connected;
        fresh.then(|| Call::Bind {
            fd: d.live,
            at: self.local_address(),
        })
    }
}

/// What a call returned, in the script's words: a new descriptor is the script's.
pub(super) fn result_words(call: &ast::Call, asked: &Call, answer: &Answer) -> String {
    match (asked, answer.result) {
        (_, Err(errno)) => format!("-1 {errno}"),
        (Call::Socket { .. } | Call::Accept { .. }, Ok(live)) => {
            call.made().map_or(live.to_string(), |fd| fd.to_string())
        }
        (_, Ok(n)) => n.to_string(),
    }
}

/// Whether `answer` is what the script says, and what it says in words.
pub(super) fn result_matches(
    call: &ast::Call,
    asked: &Call,
    answer: &Answer,
) -> Result<(bool, String), Diagnostic> {
    let wanted = match &call.result {
        Expr::Ellipsis => return Ok((true, "...".to_owned())),
        other => number(other).ok_or_else(|| {
            Diagnostic::syntax(call.span, "a call returns a number, flags or `...`")
        })?,
    };
    let errno = call.errno.as_deref();
    let words = match errno {
        Some(errno) => format!("{wanted} {errno}"),
        None => wanted.to_string(),
    };
    let makes = matches!(asked, Call::Socket { .. } | Call::Accept { .. });
    let matches = match answer.result {
        Ok(n) => errno.is_none() && (n == wanted || makes && wanted >= 0),
        Err(e) => wanted == -1 && errno.is_none_or(|said| same_errno(said, e.name())),
    };
    Ok((matches, words))
}

fn got_option(call: &ast::Call, name: &str, gave: &Gave) -> Result<(), Diagnostic> {
    let wanted = call.value()?;
    let (wanted, got) = match (gave, wanted) {
        (Gave::Word(got), Expr::Text(text)) if text != got.as_bytes() => {
            (String::from_utf8_lossy(text).into_owned(), got.clone())
        }
        (Gave::Number(got), wanted) if name != "TCP_INFO" => match number(wanted) {
            Some(n) if n != *got => (n.to_string(), got.to_string()),
            _ => return Ok(()),
        },
        _ => return Ok(()),
    };
    Err(Diagnostic::mismatch(
        call.span,
        format!("getsockopt({name}) gives something else"),
    )
    .comparing(wanted, got))
}

fn event_names(events: i16) -> String {
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
