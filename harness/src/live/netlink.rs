//! The few things a lab asks of the kernel, through rtnetlink.

use netlink_packet_core::{
    NLM_F_ACK, NLM_F_CREATE, NLM_F_DUMP, NLM_F_EXCL, NLM_F_REQUEST, NetlinkHeader, NetlinkMessage,
    NetlinkPayload,
};
use netlink_packet_route::address::{AddressAttribute, AddressFlags, AddressMessage};
use netlink_packet_route::link::{
    InfoBridge, InfoData, InfoKind, InfoVeth, LinkAttribute, LinkFlags, LinkInfo, LinkMessage,
};
use netlink_packet_route::{AddressFamily, RouteNetlinkMessage};
use netlink_sys::protocols::NETLINK_ROUTE;
use netlink_sys::{Socket, SocketAddr};
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd};

/// A socket in the network namespace in which it was opened.
#[derive(Debug)]
pub(super) struct Netlink {
    socket: Socket,
    sequence: u32,
}

/// An interface.
#[derive(Clone, Debug)]
pub(super) struct Link {
    pub(super) index: u32,
    pub(super) name: String,
    pub(super) alias: Option<String>,
    pub(super) kind: Option<InfoKind>,
    pub(super) mtu: u32,
}

impl Netlink {
    /// In the namespace of the calling thread.
    pub(super) fn open() -> io::Result<Self> {
        let mut socket = Socket::new(NETLINK_ROUTE)?;
        socket.bind_auto()?;
        socket.connect(&SocketAddr::new(0, 0))?;
        Ok(Self {
            socket,
            sequence: 0,
        })
    }

    /// Ask; what is answered until the kernel says that this was all.
    pub(super) fn ask(
        &mut self,
        message: RouteNetlinkMessage,
        flags: u16,
    ) -> io::Result<Vec<RouteNetlinkMessage>> {
        self.sequence += 1;
        let mut header = NetlinkHeader::default();
        header.flags = NLM_F_REQUEST | flags;
        header.sequence_number = self.sequence;
        let mut request = NetlinkMessage::new(header, NetlinkPayload::from(message));
        request.finalize();
        let mut bytes = vec![0; request.buffer_len()];
        request.serialize(&mut bytes);
        self.socket.send(&bytes, 0)?;

        let mut answers = Vec::new();
        loop {
            let (datagram, _) = self.socket.recv_from_full()?;
            let mut rest = datagram.as_slice();
            if rest.is_empty() {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            while !rest.is_empty() {
                let answer = NetlinkMessage::<RouteNetlinkMessage>::deserialize(rest)
                    .map_err(|e| io::Error::new(io::ErrorKind::InvalidData, e.to_string()))?;
                // Each stands at a multiple of four.
                let len = (answer.header.length as usize).next_multiple_of(4);
                rest = rest.get(len.max(16)..).unwrap_or_default();
                if answer.header.sequence_number != self.sequence {
                    continue;
                }
                match answer.payload {
                    NetlinkPayload::Done(_) => return Ok(answers),
                    NetlinkPayload::Error(e) if e.code.is_some() => return Err(e.to_io()),
                    NetlinkPayload::Error(_) => return Ok(answers),
                    NetlinkPayload::InnerMessage(inner) => answers.push(inner),
                    _ => {}
                }
            }
        }
    }

    /// All interfaces.
    pub(super) fn links(&mut self) -> io::Result<Vec<Link>> {
        let ask = RouteNetlinkMessage::GetLink(LinkMessage::default());
        let answers = self.ask(ask, NLM_F_DUMP)?;
        let link = |answer| match answer {
            RouteNetlinkMessage::NewLink(link) => Some(Link::of(link)),
            _ => None,
        };
        Ok(answers.into_iter().filter_map(link).collect())
    }

    /// The interface `name`.
    pub(super) fn link(&mut self, name: &str) -> io::Result<Link> {
        let missing = || io::Error::new(io::ErrorKind::NotFound, format!("no interface {name}"));
        let links = self.links()?;
        links
            .into_iter()
            .find(|l| l.name == name)
            .ok_or_else(missing)
    }

    fn change(&mut self, index: u32, attributes: Vec<LinkAttribute>, up: bool) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        if up {
            message.header.flags = LinkFlags::Up;
            message.header.change_mask = LinkFlags::Up;
        }
        message.attributes = attributes;
        self.ask(RouteNetlinkMessage::SetLink(message), NLM_F_ACK)
            .map(drop)
    }

    fn create(&mut self, name: &str, kind: InfoKind, data: InfoData, mtu: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.attributes = vec![
            LinkAttribute::IfName(name.to_owned()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::LinkInfo(vec![LinkInfo::Kind(kind), LinkInfo::Data(data)]),
        ];
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewLink(message), flags)
            .map(drop)
    }

    /// Bring an interface up.
    pub(super) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.change(index, Vec::new(), true)
    }

    /// Write a remark on an interface.
    pub(super) fn set_alias(&mut self, index: u32, alias: &str) -> io::Result<()> {
        let alias = LinkAttribute::IfAlias(alias.to_owned());
        self.change(index, vec![alias], false)
    }

    /// Make an interface a port of `bridge`, and bring it up.
    pub(super) fn set_port_of(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.change(index, vec![LinkAttribute::Controller(bridge)], true)
    }

    /// A bridge that floods what it does not know, and speaks no protocol of its own.
    pub(super) fn add_bridge(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        let data = vec![InfoBridge::MulticastSnooping(false)];
        self.create(name, InfoKind::Bridge, InfoData::Bridge(data), mtu)
    }

    /// A pair of interfaces, `name` here and `peer` in another namespace.
    pub(super) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        let mut other = LinkMessage::default();
        other.attributes = vec![
            LinkAttribute::IfName(peer.to_owned()),
            LinkAttribute::Mtu(mtu),
            LinkAttribute::NetNsFd(peer_namespace.as_raw_fd()),
        ];
        let data = InfoData::Veth(InfoVeth::Peer(other));
        self.create(name, InfoKind::Veth, data, mtu)
    }

    /// Remove an interface.
    pub(super) fn remove(&mut self, index: u32) -> io::Result<()> {
        let mut message = LinkMessage::default();
        message.header.index = index;
        self.ask(RouteNetlinkMessage::DelLink(message), NLM_F_ACK)
            .map(drop)
    }

    /// Give an interface an address, which can be used at once. The kernel adds the route to its
    /// network.
    pub(super) fn add_address(&mut self, index: u32, addr: IpAddr, prefix: u8) -> io::Result<()> {
        let mut message = AddressMessage::default();
        message.header.index = index;
        message.header.prefix_len = prefix;
        message.header.family = match addr {
            IpAddr::V4(_) => AddressFamily::Inet,
            IpAddr::V6(_) => AddressFamily::Inet6,
        };
        message.attributes = vec![
            AddressAttribute::Local(addr),
            AddressAttribute::Address(addr),
        ];
        if addr.is_ipv6() {
            // Nobody else can have it: no need to ask for a second.
            message
                .attributes
                .push(AddressAttribute::Flags(AddressFlags::Nodad));
        }
        let flags = NLM_F_ACK | NLM_F_CREATE | NLM_F_EXCL;
        self.ask(RouteNetlinkMessage::NewAddress(message), flags)
            .map(drop)
    }
}

impl Link {
    fn of(message: LinkMessage) -> Self {
        let mut link = Self {
            index: message.header.index,
            name: String::new(),
            alias: None,
            kind: None,
            mtu: 0,
        };
        for attribute in message.attributes {
            match attribute {
                LinkAttribute::IfName(name) => link.name = name,
                LinkAttribute::IfAlias(alias) => link.alias = Some(alias),
                LinkAttribute::Mtu(mtu) => link.mtu = mtu,
                LinkAttribute::LinkInfo(infos) => {
                    link.kind = infos.into_iter().find_map(|info| match info {
                        LinkInfo::Kind(kind) => Some(kind),
                        _ => None,
                    });
                }
                _ => {}
            }
        }
        link
    }
}
