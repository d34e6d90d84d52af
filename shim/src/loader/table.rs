//! The functions of a table, called from Rust.

use crate::abi::PacketdrillInterface;
use crate::{address, numbers};
use libc::{c_int, c_void, iovec, linger, msghdr, pollfd, sockaddr, socklen_t, timeval};
use narrows_script::sockets::{
    Answer, Call, Errno, Fd, Form, Gave, O_NONBLOCK, O_RDWR, OptionValue, Stuck, Text,
};
use std::net::SocketAddr;
use std::{io, mem, ptr};

/// Room for a packet that leaves.
const PACKET_ROOM: usize = 65_536;

/// A table of functions, each of them there.
#[derive(Clone, Copy, Debug)]
pub struct Table {
    raw: PacketdrillInterface,
    /// The family of sockets.
    pub(super) domain: c_int,
}

// SAFETY: the interface is made to be called by two threads: blocking calls come from a second one.
// `userdata` is the object's, which must bear that; we only hand it back.
unsafe impl Send for Table {}
// SAFETY: as above.
unsafe impl Sync for Table {}

/// Call a function of the table, with `userdata` first.
macro_rules! ask {
    ($table:expr, $name:ident $(, $arg:expr)*) => {{
        let raw = &$table.raw;
        match raw.$name {
            // SAFETY: the table was filled in by the object, so the function is of the type that
            // the interface says, and `userdata` is the one for it. Pointers among the arguments
            // lead to locals of the caller that live through the call and are as long as said.
            Some(function) => (unsafe { function(raw.userdata, $($arg),*) }) as i64,
            None => -1,
        }
    }};
}

impl Table {
    pub(super) fn new(raw: PacketdrillInterface) -> Result<Self, String> {
        let there = [
            ("free", raw.free.is_some()),
            ("socket", raw.socket.is_some()),
            ("netdev_send", raw.netdev_send.is_some()),
            ("netdev_receive", raw.netdev_receive.is_some()),
            ("usleep", raw.usleep.is_some()),
            ("gettimeofday", raw.gettimeofday.is_some()),
        ];
        match there.iter().find(|(_, there)| !there) {
            Some((name, _)) => Err(format!("the object gives no function `{name}`")),
            None => Ok(Self {
                raw,
                domain: libc::AF_INET,
            }),
        }
    }

    /// The table itself.
    pub fn raw(&self) -> &PacketdrillInterface {
        &self.raw
    }

    /// `gettimeofday`, in microseconds.
    ///
    /// # Errors
    /// What the function says.
    pub fn look(&self) -> Result<i64, Errno> {
        let mut now = timeval {
            tv_sec: 0,
            tv_usec: 0,
        };
        result(ask!(self, gettimeofday, &raw mut now, ptr::null_mut()))?;
        Ok(now.tv_sec * 1_000_000 + now.tv_usec)
    }

    /// `usleep`
    ///
    /// # Errors
    /// What the function says.
    pub fn sleep(&self, microseconds: u32) -> Result<(), Errno> {
        result(ask!(self, usleep, microseconds)).map(|_| ())
    }

    /// `netdev_send`
    ///
    /// # Errors
    /// What the function says.
    pub fn inject(&self, packet: &[u8]) -> Result<(), Errno> {
        result(ask!(
            self,
            netdev_send,
            packet.as_ptr().cast(),
            packet.len()
        ))
        .map(|_| ())
    }

    /// `netdev_receive`: when the packet left, in microseconds, and its bytes. None: no packet.
    ///
    /// # Errors
    /// What the function says.
    pub fn sniff(&self) -> Result<Option<(i64, Vec<u8>)>, Errno> {
        let mut packet = vec![0u8; PACKET_ROOM];
        let mut len = packet.len();
        let mut at = 0;
        result(ask!(
            self,
            netdev_receive,
            packet.as_mut_ptr().cast(),
            &raw mut len,
            &raw mut at
        ))?;
        packet.truncate(len);
        Ok((len > 0).then_some((at, packet)))
    }

    /// Make a system call.
    pub fn call(&self, call: &Call) -> Result<Answer, Stuck> {
        let done = |n: i64| Ok(answer(n));
        match call {
            Call::Socket { nonblocking } => {
                let kind = libc::SOCK_STREAM | if *nonblocking { O_NONBLOCK } else { 0 };
                done(ask!(self, socket, self.domain, kind, libc::IPPROTO_TCP))
            }
            Call::Bind { fd, at } => {
                let at = address::bytes(*at, at.is_ipv6());
                let len = at.len() as socklen_t;
                done(ask!(self, bind, *fd, at.as_ptr().cast::<sockaddr>(), len))
            }
            Call::Listen { fd, backlog } => done(ask!(self, listen, *fd, *backlog as c_int)),
            Call::Accept {
                nonblocking: true, ..
            } => Err(Stuck::Refused("the interface has no accept4()".to_owned())),
            Call::Accept { fd, .. } => Ok(self.accept(*fd)),
            Call::Connect { fd, to } => {
                let to = address::bytes(*to, to.is_ipv6());
                let len = to.len() as socklen_t;
                done(ask!(
                    self,
                    connect,
                    *fd,
                    to.as_ptr().cast::<sockaddr>(),
                    len
                ))
            }
            Call::Receive {
                fd,
                form,
                parts,
                flags,
            } => Ok(self.receive(*fd, *form, parts, *flags)),
            Call::Send {
                fd,
                form,
                parts,
                flags,
                text,
                to,
            } => Ok(self.send(*fd, *form, parts, *flags, text, *to)),
            Call::Close { fd } => done(ask!(self, close, *fd)),
            Call::Shutdown { fd, read, write } => {
                let how = match (read, write) {
                    (true, true) => libc::SHUT_RDWR,
                    (true, false) => libc::SHUT_RD,
                    _ => libc::SHUT_WR,
                };
                done(ask!(self, shutdown, *fd, how))
            }
            Call::SetOption { fd, name, value } => self.set_option(*fd, name, value),
            Call::GetOption { fd, name } => self.get_option(*fd, name),
            Call::GetFlags { fd } => done(ask!(self, fcntl, *fd, libc::F_GETFL)),
            Call::SetFlags { fd, nonblocking } => {
                let flags: c_int = O_RDWR | if *nonblocking { O_NONBLOCK } else { 0 };
                done(ask!(self, fcntl, *fd, libc::F_SETFL, flags))
            }
            Call::Ioctl { fd, request, value } => {
                let number = numbers::request_number(request).ok_or_else(|| unknown(request))?;
                let mut value = *value as c_int;
                let n = ask!(self, ioctl, *fd, number, &raw mut value);
                Ok(Answer {
                    gave: Gave::Number(value.into()),
                    ..answer(n)
                })
            }
            Call::Poll { wanted, timeout_ms } => Ok(self.poll(wanted, *timeout_ms)),
        }
    }

    fn accept(&self, fd: Fd) -> Answer {
        let mut peer = [0u8; 28];
        let mut len = peer.len() as socklen_t;
        let addr = peer.as_mut_ptr().cast::<sockaddr>();
        let mut answer = answer(ask!(self, accept, fd, addr, &raw mut len));
        let len = len.min(peer.len() as socklen_t);
        // SAFETY: `peer` has as many bytes, and more.
        let peer: Result<SocketAddr, _> = unsafe { address::read(peer.as_ptr().cast(), len) };
        if let (Ok(_), Ok(peer)) = (answer.result, peer) {
            answer.gave = Gave::Peer(peer);
        }
        answer
    }

    fn receive(&self, fd: Fd, form: Form, parts: &[usize], flags: c_int) -> Answer {
        let mut memory: Vec<Vec<u8>> = parts.iter().map(|n| vec![0; *n]).collect();
        let mut vector = vectors(&mut memory);
        let (base, len) = vector
            .first()
            .map_or((ptr::null_mut(), 0), |v| (v.iov_base, v.iov_len));
        let n = match form {
            Form::Plain => ask!(self, read, fd, base, len),
            Form::Flags => ask!(self, recv, fd, base, len, flags),
            Form::Vector => ask!(self, readv, fd, vector.as_ptr(), vector.len() as c_int),
            Form::Address => {
                let mut from = [0u8; 28];
                let mut room = from.len() as socklen_t;
                let from = from.as_mut_ptr().cast::<sockaddr>();
                ask!(self, recvfrom, fd, base, len, flags, from, &raw mut room)
            }
            Form::Message => {
                let mut message = message(&mut vector);
                ask!(self, recvmsg, fd, &raw mut message, flags)
            }
        };
        let mut answer = answer(n);
        if let Ok(n) = answer.result {
            let mut bytes = memory.concat();
            bytes.truncate(usize::try_from(n).unwrap_or(0));
            answer.gave = Gave::Bytes(bytes);
        }
        answer
    }

    fn send(
        &self,
        fd: Fd,
        form: Form,
        parts: &[usize],
        flags: c_int,
        text: &Text,
        to: Option<SocketAddr>,
    ) -> Answer {
        let mut to = to.map_or_else(Vec::new, |to| address::bytes(to, to.is_ipv6()));
        let (addr, addr_len) = match to.len() {
            0 => (ptr::null_mut(), 0),
            n => (to.as_mut_ptr(), n as socklen_t),
        };
        let mut at = 0;
        let mut memory: Vec<Vec<u8>> = Vec::new();
        for part in parts {
            memory.push(text.bytes(at, *part));
            at += part;
        }
        let mut vector = vectors(&mut memory);
        let (base, len) = vector
            .first()
            .map_or((ptr::null_mut(), 0), |v| (v.iov_base, v.iov_len));
        let base = base.cast_const();
        answer(match form {
            Form::Plain => ask!(self, write, fd, base, len),
            Form::Flags => ask!(self, send, fd, base, len, flags),
            Form::Vector => ask!(self, writev, fd, vector.as_ptr(), vector.len() as c_int),
            Form::Address => {
                let addr = addr.cast_const().cast::<sockaddr>();
                ask!(self, sendto, fd, base, len, flags, addr, addr_len)
            }
            Form::Message => {
                let mut message = message(&mut vector);
                message.msg_name = addr.cast();
                message.msg_namelen = addr_len;
                ask!(self, sendmsg, fd, &raw const message, flags)
            }
        })
    }

    fn set_option(&self, fd: Fd, name: &str, value: &OptionValue) -> Result<Answer, Stuck> {
        let (level, number) = numbers::option_number(name).ok_or_else(|| unknown(name))?;
        let bytes: Vec<u8> = match value {
            OptionValue::Number(n) => (*n as c_int).to_ne_bytes().to_vec(),
            OptionValue::Word(word) => word.as_bytes().to_vec(),
            OptionValue::Bytes(bytes) => bytes.clone(),
            OptionValue::Linger(seconds) => [
                c_int::from(seconds.is_some()),
                seconds.map_or(0, |s| s as c_int),
            ]
            .into_iter()
            .flat_map(c_int::to_ne_bytes)
            .collect(),
        };
        let len = bytes.len() as socklen_t;
        let value = bytes.as_ptr().cast();
        Ok(answer(ask!(
            self, setsockopt, fd, level, number, value, len
        )))
    }

    fn get_option(&self, fd: Fd, name: &str) -> Result<Answer, Stuck> {
        let (level, number) = numbers::option_number(name).ok_or_else(|| unknown(name))?;
        let room = match name {
            "TCP_CONGESTION" => 16,
            "SO_LINGER" => size_of::<linger>(),
            _ => size_of::<c_int>(),
        };
        let (n, bytes) = self.option(fd, level, number, room);
        let mut answer = answer(n);
        if answer.result.is_ok() {
            answer.gave = match name {
                "TCP_CONGESTION" => {
                    let word = bytes.split(|b| *b == 0).next().unwrap_or_default();
                    Gave::Word(String::from_utf8_lossy(word).into_owned())
                }
                "SO_LINGER" => Gave::Nothing,
                _ => match bytes.try_into() {
                    Ok(bytes) => Gave::Number(c_int::from_ne_bytes(bytes).into()),
                    Err(_) => Gave::Nothing,
                },
            };
        }
        Ok(answer)
    }

    pub(super) fn option(
        &self,
        fd: Fd,
        level: c_int,
        number: c_int,
        room: usize,
    ) -> (i64, Vec<u8>) {
        let mut bytes = vec![0u8; room];
        let mut len = room as socklen_t;
        let value = bytes.as_mut_ptr().cast::<c_void>();
        let n = ask!(self, getsockopt, fd, level, number, value, &raw mut len);
        bytes.truncate(len as usize);
        (n, bytes)
    }

    fn poll(&self, wanted: &[(Fd, i16)], timeout_ms: i64) -> Answer {
        let mut polled: Vec<pollfd> = wanted
            .iter()
            .map(|(fd, events)| pollfd {
                fd: *fd,
                events: *events,
                revents: 0,
            })
            .collect();
        let timeout = timeout_ms.clamp(-1, c_int::MAX.into()) as c_int;
        let count = polled.len() as libc::nfds_t;
        let mut answer = answer(ask!(self, poll, polled.as_mut_ptr(), count, timeout));
        let events = polled.iter().map(|p| p.revents).collect();
        answer.gave = Gave::Events(events);
        answer
    }
}

/// What the interface's table of names cannot say.
fn unknown(name: &str) -> Stuck {
    Stuck::Refused(format!("no number of `{name}` is known"))
}

fn result(n: i64) -> Result<i64, Errno> {
    match n {
        0.. => Ok(n),
        _ => {
            let number = io::Error::last_os_error().raw_os_error();
            Err(Errno::of(number.unwrap_or(0)))
        }
    }
}

fn answer(n: i64) -> Answer {
    match result(n) {
        Ok(n) => Answer::of(n),
        Err(errno) => errno.into(),
    }
}

fn vectors(memory: &mut [Vec<u8>]) -> Vec<iovec> {
    memory
        .iter_mut()
        .map(|m| iovec {
            iov_base: m.as_mut_ptr().cast(),
            iov_len: m.len(),
        })
        .collect()
}

fn message(vector: &mut [iovec]) -> msghdr {
    // SAFETY: integers and pointers, for which zero is a value.
    let mut message: msghdr = unsafe { mem::zeroed() };
    message.msg_iov = vector.as_mut_ptr();
    message.msg_iovlen = vector.len() as _;
    message
}
