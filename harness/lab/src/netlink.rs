//! The few things a lab asks of the kernel, through rtnetlink and its like.

mod attributes;
mod diag;
mod generic;
mod interface;
mod message;
pub(super) mod offload;
mod remembered;

#[cfg(test)]
pub(super) use attributes::Writer;
pub(super) use attributes::{malformed, u32_at};
pub(super) use interface::{Link, LinkKind};
pub(super) use message::{Answer, Request};

pub(super) use diag::Known;
use message::{Content, Messages};
use netlink_sys::protocols::{NETLINK_GENERIC, NETLINK_ROUTE, NETLINK_SOCK_DIAG};
use netlink_sys::{Socket, SocketAddr};
use nix::libc;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A socket in the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
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

    /// Ask; what is answered until the kernel says that this was all.
    pub(super) fn ask(&mut self, request: &Request) -> io::Result<Vec<Answer>> {
        self.sequence = self.sequence.wrapping_add(1);
        self.socket.send(&request.to_bytes(self.sequence)?, 0)?;

        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            if datagram.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            for message in Messages::new(&datagram) {
                let message = message?;
                if message.sequence != self.sequence {
                    continue;
                }
                match message.content()? {
                    Content::Part(answer) => answers.push(answer),
                    Content::End => return Ok(answers),
                    Content::Failed(e) => return Err(e),
                    Content::Nothing => {}
                }
            }
        }
    }

    /// Ask for something that is done or not.
    pub(super) fn tell(&mut self, request: &Request) -> io::Result<()> {
        self.ask(request).map(drop)
    }

    /// All interfaces.
    pub(super) fn links(&mut self) -> io::Result<Vec<Link>> {
        let answers = self.ask(&interface::all_links())?;
        let links = answers.iter().filter(|a| a.kind == libc::RTM_NEWLINK);
        links.map(Link::of).collect()
    }

    /// The interface `name`.
    pub(super) fn link(&mut self, name: &str) -> io::Result<Link> {
        let mut links = self.links()?;
        match links.iter().position(|l| l.name == name) {
            Some(at) => Ok(links.swap_remove(at)),
            None => {
                let names: Vec<&str> = links.iter().map(|l| l.name.as_str()).collect();
                Err(io::Error::new(
                    io::ErrorKind::NotFound,
                    format!("no interface {name}; there are {}", names.join(", ")),
                ))
            }
        }
    }

    /// Bring an interface up.
    pub(super) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.tell(&interface::up(index))
    }

    /// Let no super-frame that leaves an interface have more than so many segments.
    pub(super) fn limit_segments(&mut self, index: u32, most: u32) -> io::Result<()> {
        self.tell(&interface::segments_of(index, most))
    }

    /// Write a remark on an interface.
    pub(super) fn set_alias(&mut self, index: u32, alias: &str) -> io::Result<()> {
        self.tell(&interface::alias_of(index, alias))
    }

    /// Make an interface a port of `bridge`, and bring it up.
    pub(super) fn set_port_of(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.tell(&interface::port_of(index, bridge))
    }

    /// A bridge that floods what it does not know, and speaks no protocol of its own.
    pub(super) fn add_bridge(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        self.tell(&interface::new_bridge(name, mtu))
    }

    /// A pair of interfaces, `name` here and `peer` in another namespace.
    pub(super) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        self.tell(&interface::new_veth(
            name,
            peer,
            peer_namespace.as_raw_fd(),
            mtu,
        ))
    }

    /// Remove an interface.
    pub(super) fn remove(&mut self, index: u32) -> io::Result<()> {
        self.tell(&interface::removed(index))
    }

    /// Give an interface an address, which can be used at once. The kernel adds the route to its
    /// network.
    pub(super) fn add_address(&mut self, index: u32, addr: IpAddr, prefix: u8) -> io::Result<()> {
        self.tell(&interface::new_address(index, addr, prefix))
    }
}
