//! The few things a lab asks of the kernel, through rtnetlink and its like.

mod diag;
mod interface;
mod message;
pub(super) mod offload;
mod remembered;

pub(super) use diag::Known;
pub(super) use interface::{Link, LinkKind};

use message::Said;
use netlink_bindings::builtin::Nlmsghdr;
use netlink_bindings::nlctrl;
use netlink_bindings::traits::{NetlinkRequest, Protocol};
use netlink_bindings::utils::ErrorContext;
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_SOCK_DIAG};
use netlink_sys::{Socket, SocketAddr};
use nix::libc;
use std::fmt::Display;
use std::io;

/// A socket in the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// What the kernel sent is not what it sends.
fn malformed(what: impl Display) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, format!("netlink: {what}"))
}

impl Netlink {
    /// For rtnetlink, in the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Self> {
        Self::of(NETLINK_ROUTE)
    }

    /// For families that have no number of their own.
    pub(super) fn open_generic() -> io::Result<Self> {
        Self::of(NETLINK_GENERIC)
    }

    /// For what is known of sockets in the namespace of the calling thread.
    pub(super) fn open_diag() -> io::Result<Self> {
        Self::of(NETLINK_SOCK_DIAG)
    }

    fn of(protocol: isize) -> io::Result<Self> {
        let mut socket = Socket::new(protocol)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Ask; what is read from each answer until the kernel says that this was all.
    pub(super) fn ask<R: NetlinkRequest, T>(
        &mut self,
        request: &R,
        mut read: impl FnMut(R::ReplyType<'_>) -> T,
    ) -> io::Result<Vec<T>> {
        let kind = self.kind_of(request.protocol())?;
        self.sequence = self.sequence.wrapping_add(1);
        let header = Nlmsghdr {
            len: (Nlmsghdr::len() + request.payload().len()) as u32,
            r#type: kind,
            flags: request.flags() | (libc::NLM_F_REQUEST | libc::NLM_F_ACK) as u16,
            seq: self.sequence,
            // The kernel fills in who asks.
            pid: 0,
        };
        let bytes = [header.as_slice(), request.payload()].concat();
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if datagram.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let mut rest = datagram.as_slice();
            while !rest.is_empty() {
                let (header, body, behind) = message::first(rest)?;
                rest = behind;
                if header.seq != self.sequence {
                    continue;
                }
                match message::said(header.r#type, body)? {
                    Said::Part => answers.push(read(R::decode_reply(body))),
                    Said::End => return Ok(answers),
                    Said::Nothing => {}
                }
            }
        }
    }

    /// Ask for something that one answer says.
    pub(super) fn ask_one<R: NetlinkRequest, T>(
        &mut self,
        request: &R,
        read: impl FnMut(R::ReplyType<'_>) -> Result<T, ErrorContext>,
    ) -> io::Result<T> {
        let answer = self.ask(request, read)?.into_iter().next();
        answer
            .ok_or_else(|| malformed("no answer"))?
            .map_err(malformed)
    }

    /// Ask for something that is done or not.
    pub(super) fn tell(&mut self, request: &impl NetlinkRequest) -> io::Result<()> {
        self.ask(request, |_| ()).map(drop)
    }

    /// The type of a request's messages: the kernel gives families their numbers by their names, and
    /// says [`io::ErrorKind::NotFound`] if it has none of that name.
    fn kind_of(&mut self, protocol: Protocol) -> io::Result<u16> {
        match protocol {
            Protocol::Raw { request_type, .. } => Ok(request_type),
            Protocol::Generic(name) => {
                let mut request = nlctrl::Request::new().op_getfamily_do();
                request.encode().push_family_name_bytes(name);
                self.ask_one(&request, |family| family.get_family_id())
            }
        }
    }
}

/// Checks what a request has behind its header against words of four bytes, as a machine with the
/// least significant byte first sends them.
#[cfg(test)]
#[track_caller]
pub(super) fn assert_words(request: &impl NetlinkRequest, words: &str) {
    let word = |four: &[u8]| four.iter().map(|b| format!("{b:02x}")).collect::<String>();
    let sent: Vec<_> = request.payload().chunks(4).map(word).collect();
    if cfg!(target_endian = "little") {
        assert_eq!(sent, words.split_whitespace().collect::<Vec<_>>());
    }
}
