//! Interfaces and their addresses: how they are asked for, and read.

use super::Netlink;
use netlink_bindings::rt_addr::{self, IfaFlags, Ifaddrmsg};
use netlink_bindings::rt_link::{
    IfinfoFlags, Ifinfomsg, IterableLinkAttrs, OpNewlinkDo, PushLinkAttrs, Request,
};
use netlink_bindings::traits::Pusher;
use netlink_bindings::utils::{finalize_nested_header, push_nested_header};
use nix::libc;
use std::ffi::CStr;
use std::io;
use std::net::IpAddr;
use std::os::fd::{AsRawFd, BorrowedFd, RawFd};

/// `VETH_INFO_PEER`: the other interface, as it would be asked for itself.
const VETH_INFO_PEER: u16 = 1;

/// An interface.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Link {
    pub(crate) index: u32,
    pub(crate) name: String,
    pub(crate) alias: Option<String>,
    pub(crate) kind: LinkKind,
    pub(crate) mtu: u32,
    /// Frames pass: the kernel has found out about its carrier.
    pub(crate) running: bool,
}

/// What an interface is, as far as a lab is made of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LinkKind {
    Bridge,
    /// One of a pair.
    Veth,
    Other,
}

impl Link {
    fn of((header, attributes): (Ifinfomsg, IterableLinkAttrs<'_>)) -> Self {
        // The kernel lets a name be of any bytes.
        let text = |text: &CStr| text.to_string_lossy().into_owned();
        let info = attributes.get_linkinfo();
        let kind = info.and_then(|info| info.get_kind()).map(CStr::to_bytes);
        Self {
            index: header.ifi_index.cast_unsigned(),
            name: attributes.get_ifname().map(text).unwrap_or_default(),
            alias: attributes.get_ifalias().map(text).ok(),
            kind: match kind {
                Ok(b"bridge") => LinkKind::Bridge,
                Ok(b"veth") => LinkKind::Veth,
                _ => LinkKind::Other,
            },
            mtu: attributes.get_mtu().unwrap_or_default(),
            running: header.ifi_flags & IfinfoFlags::Running as u32 != 0,
        }
    }
}

impl Netlink {
    /// All interfaces.
    pub(crate) fn links(&mut self) -> io::Result<Vec<Link>> {
        let all = Request::new().op_getlink_dump(&Ifinfomsg::new());
        self.ask(&all, Link::of)
    }

    /// The interface `name`.
    pub(crate) fn link(&mut self, name: &str) -> io::Result<Link> {
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

    fn change(
        &mut self,
        header: &Ifinfomsg,
        fill: impl for<'a> FnOnce(PushLinkAttrs<&'a mut Vec<u8>>) -> PushLinkAttrs<&'a mut Vec<u8>>,
    ) -> io::Result<()> {
        let mut request = Request::new().op_setlink_do(header);
        fill(request.encode());
        self.tell(&request)
    }

    /// Bring an interface up.
    pub(crate) fn set_up(&mut self, index: u32) -> io::Result<()> {
        self.change(&up(index), |out| out)
    }

    /// Let no super-frame that leaves an interface have more than so many segments.
    pub(crate) fn limit_segments(&mut self, index: u32, most: u32) -> io::Result<()> {
        self.change(&up(index), |out| out.push_gso_max_segs(most))
    }

    /// Write a remark on an interface.
    pub(crate) fn set_alias(&mut self, index: u32, alias: &str) -> io::Result<()> {
        self.change(&ifinfomsg(index), |out| {
            out.push_ifalias_bytes(alias.as_bytes())
        })
    }

    /// Make an interface a port of `bridge`, and bring it up.
    pub(crate) fn set_port_of(&mut self, index: u32, bridge: u32) -> io::Result<()> {
        self.change(&up(index), |out| out.push_master(bridge))
    }

    /// A bridge that floods what it does not know, and speaks no protocol of its own.
    pub(crate) fn add_bridge(&mut self, name: &str, mtu: u32) -> io::Result<()> {
        let mut request = new_link();
        named(request.encode(), name, mtu)
            .nested_linkinfo()
            .nested_data_bridge()
            .push_mcast_snooping(0);
        self.tell(&request)
    }

    /// A pair of interfaces, `name` here and `peer` in another namespace.
    pub(crate) fn add_veth(
        &mut self,
        name: &str,
        peer: &str,
        peer_namespace: BorrowedFd<'_>,
        mtu: u32,
    ) -> io::Result<()> {
        self.tell(&new_veth(name, peer, peer_namespace.as_raw_fd(), mtu))
    }

    /// Remove an interface.
    pub(crate) fn remove(&mut self, index: u32) -> io::Result<()> {
        self.tell(&Request::new().op_dellink_do(&ifinfomsg(index)))
    }

    /// Give an interface an address, which can be used at once. The kernel adds the route to its
    /// network.
    pub(crate) fn add_address(&mut self, index: u32, addr: IpAddr, prefix: u8) -> io::Result<()> {
        let header = Ifaddrmsg {
            ifa_family: match addr {
                IpAddr::V4(_) => libc::AF_INET,
                IpAddr::V6(_) => libc::AF_INET6,
            } as u8,
            ifa_prefixlen: prefix,
            ifa_index: index,
            ..Default::default()
        };
        let request = rt_addr::Request::new().set_create().set_excl();
        let mut request = request.op_newaddr_do(&header);
        let mut out = request.encode().push_local(addr).push_address(addr);
        if addr.is_ipv6() {
            // Nobody else can have it: no need to ask for a second.
            out = out.push_flags(IfaFlags::Nodad as u32);
        }
        drop(out);
        self.tell(&request)
    }
}

fn ifinfomsg(index: u32) -> Ifinfomsg {
    Ifinfomsg {
        ifi_index: index.cast_signed(),
        ..Default::default()
    }
}

fn up(index: u32) -> Ifinfomsg {
    Ifinfomsg {
        ifi_flags: IfinfoFlags::Up as u32,
        ifi_change: IfinfoFlags::Up as u32,
        ..ifinfomsg(index)
    }
}

fn new_link() -> OpNewlinkDo<'static> {
    let request = Request::new().set_create().set_excl();
    request.op_newlink_do(&Ifinfomsg::new())
}

fn named<P: Pusher>(out: PushLinkAttrs<P>, name: &str, mtu: u32) -> PushLinkAttrs<P> {
    out.push_ifname_bytes(name.as_bytes()).push_mtu(mtu)
}

fn new_veth(name: &str, peer: &str, peer_namespace: RawFd, mtu: u32) -> OpNewlinkDo<'static> {
    let mut request = new_link();
    let mut info = named(request.encode(), name, mtu)
        .nested_linkinfo()
        .push_kind(c"veth");
    // The specifications of the kernel do not have what a veth has.
    let out = info.as_vec_mut();
    let data = push_nested_header(out, libc::IFLA_INFO_DATA);
    let other = push_nested_header(out, VETH_INFO_PEER);
    out.extend(Ifinfomsg::new().as_slice());
    named(PushLinkAttrs::new(&mut *out), peer, mtu).push_net_ns_fd(peer_namespace.cast_unsigned());
    finalize_nested_header(out, other);
    finalize_nested_header(out, data);
    drop(info);
    request
}

#[cfg(test)]
mod tests {
    use super::*;
    use netlink_bindings::rt_link::OpGetlinkDump;
    use netlink_bindings::traits::NetlinkRequest;
    use proptest::prelude::*;

    #[test]
    fn a_pair() {
        crate::netlink::assert_words(
            &new_veth("eth0", "kernel", 9, 1500),
            "00000000 00000000 00000000 00000000
             09000300 65746830 00000000
             08000400 dc050000
             44001280
               09000100 76657468 00000000
               34000280
                 30000180
                   00000000 00000000 00000000 00000000
                   0b000300 6b65726e 656c0000
                   08000400 dc050000
                   08001c00 09000000",
        );
    }

    fn read(bytes: &[u8]) -> Link {
        Link::of(OpGetlinkDump::decode_reply(bytes))
    }

    /// An answer about an interface with an index, and attributes.
    fn answer(fill: impl FnOnce(PushLinkAttrs<&mut Vec<u8>>)) -> Link {
        let mut bytes = ifinfomsg(5).as_slice().to_vec();
        fill(PushLinkAttrs::new(&mut bytes));
        read(&bytes)
    }

    #[test]
    fn reading_an_interface() {
        let of_kind = |kind: &CStr| {
            answer(|out| {
                named(out, "eth0", 9000)
                    .push_address(&[2, 0x77, 0, 0, 0, 1])
                    .push_ifalias(c"ours")
                    .nested_linkinfo()
                    .push_kind(kind);
            })
        };
        let expected = |kind| Link {
            index: 5,
            name: "eth0".to_owned(),
            alias: Some("ours".to_owned()),
            kind,
            mtu: 9000,
            running: false,
        };
        assert_eq!(of_kind(c"bridge"), expected(LinkKind::Bridge));
        assert_eq!(of_kind(c"veth"), expected(LinkKind::Veth));
        for other in [c"", c"tun", c"bridg", c"bridges"] {
            assert_eq!(of_kind(other), expected(LinkKind::Other), "{other:?}");
        }
        let bare = answer(|_| {});
        assert_eq!((bare.index, bare.alias), (5, None));
        let odd = answer(|out| drop(out.push_ifname_bytes(&[b'a', 0xff])));
        assert_eq!(odd.name, "a\u{fffd}");
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(256))]

        #[test]
        fn anything_is_read_without_panic(bytes in prop::collection::vec(0..40_u8, 0..80)) {
            read(&bytes);
        }
    }
}
