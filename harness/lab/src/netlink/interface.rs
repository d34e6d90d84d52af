//! Interfaces and their addresses: how they are asked for, and read.

use super::attributes::{Writer, u32_at};
use super::message::{Answer, Request};
use nix::libc;
use std::io;
use std::net::IpAddr;
use std::os::fd::RawFd;

/// What makes something new.
const CREATE: libc::c_int = libc::NLM_F_ACK | libc::NLM_F_CREATE | libc::NLM_F_EXCL;
/// `VETH_INFO_PEER`: the other interface, as it would be asked for itself.
const VETH_INFO_PEER: u16 = 1;
/// `IFLA_BR_MCAST_SNOOPING`.
const IFLA_BR_MCAST_SNOOPING: u16 = 23;

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

impl LinkKind {
    fn of(name: &[u8]) -> Self {
        match name {
            b"bridge" => Self::Bridge,
            b"veth" => Self::Veth,
            _ => Self::Other,
        }
    }
}

impl Link {
    pub(super) fn of(answer: &Answer) -> io::Result<Self> {
        // `struct ifinfomsg`.
        let (header, attributes) = answer.parts::<16>()?;
        let mut link = Self {
            index: u32_at(header, 4).unwrap_or_default(),
            name: String::new(),
            alias: None,
            kind: LinkKind::Other,
            mtu: 0,
            running: u32_at(header, 8).unwrap_or_default() & libc::IFF_RUNNING as u32 != 0,
        };
        let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
        for attribute in attributes {
            let attribute = attribute?;
            match attribute.kind {
                libc::IFLA_IFNAME => link.name = text(attribute.string()),
                libc::IFLA_IFALIAS => link.alias = Some(text(attribute.string())),
                libc::IFLA_MTU => link.mtu = attribute.u32()?,
                libc::IFLA_LINKINFO => {
                    for info in attribute.nested() {
                        let info = info?;
                        if info.kind == libc::IFLA_INFO_KIND {
                            link.kind = LinkKind::of(info.string());
                        }
                    }
                }
                _ => {}
            }
        }
        Ok(link)
    }
}

/// `struct ifinfomsg`: family, type, index, flags, and which of these count.
fn ifinfomsg(index: u32, flags: libc::c_int) -> [u8; 16] {
    let mut header = [0; 16];
    header[4..8].copy_from_slice(&index.to_ne_bytes());
    header[8..12].copy_from_slice(&flags.to_ne_bytes());
    header[12..].copy_from_slice(&flags.to_ne_bytes());
    header
}

pub(super) fn all_links() -> Request {
    Request::new(libc::RTM_GETLINK, libc::NLM_F_DUMP, |out| {
        out.fixed(&ifinfomsg(0, 0));
    })
}

fn change(index: u32, up: bool, fill: impl FnOnce(&mut Writer)) -> Request {
    let flags = if up { libc::IFF_UP } else { 0 };
    Request::new(libc::RTM_SETLINK, libc::NLM_F_ACK, |out| {
        out.fixed(&ifinfomsg(index, flags));
        fill(out);
    })
}

pub(super) fn up(index: u32) -> Request {
    change(index, true, |_| {})
}

pub(super) fn alias_of(index: u32, alias: &str) -> Request {
    change(index, false, |out| out.string(libc::IFLA_IFALIAS, alias))
}

pub(super) fn segments_of(index: u32, most: u32) -> Request {
    change(index, true, |out| out.u32(libc::IFLA_GSO_MAX_SEGS, most))
}

pub(super) fn port_of(index: u32, bridge: u32) -> Request {
    change(index, true, |out| out.u32(libc::IFLA_MASTER, bridge))
}

/// `fill` writes what only such interfaces have.
fn create(name: &str, mtu: u32, kind: &str, fill: impl FnOnce(&mut Writer)) -> Request {
    Request::new(libc::RTM_NEWLINK, CREATE, |out| {
        out.fixed(&ifinfomsg(0, 0));
        out.string(libc::IFLA_IFNAME, name);
        out.u32(libc::IFLA_MTU, mtu);
        out.nested(libc::IFLA_LINKINFO, |out| {
            out.string(libc::IFLA_INFO_KIND, kind);
            out.nested(libc::IFLA_INFO_DATA, fill);
        });
    })
}

pub(super) fn new_bridge(name: &str, mtu: u32) -> Request {
    create(name, mtu, "bridge", |out| {
        out.u8(IFLA_BR_MCAST_SNOOPING, 0);
    })
}

pub(super) fn new_veth(name: &str, peer: &str, peer_namespace: RawFd, mtu: u32) -> Request {
    create(name, mtu, "veth", |out| {
        out.nested(VETH_INFO_PEER, |out| {
            out.fixed(&ifinfomsg(0, 0));
            out.string(libc::IFLA_IFNAME, peer);
            out.u32(libc::IFLA_MTU, mtu);
            out.bytes(libc::IFLA_NET_NS_FD, &peer_namespace.to_ne_bytes());
        });
    })
}

pub(super) fn removed(index: u32) -> Request {
    Request::new(libc::RTM_DELLINK, libc::NLM_F_ACK, |out| {
        out.fixed(&ifinfomsg(index, 0));
    })
}

pub(super) fn new_address(index: u32, addr: IpAddr, prefix: u8) -> Request {
    let address = |family: libc::c_int, octets: &[u8], flags: u32| {
        Request::new(libc::RTM_NEWADDR, CREATE, |out| {
            // `struct ifaddrmsg`: family, length of the prefix, flags, scope, index.
            out.fixed(&[family as u8, prefix, 0, 0]);
            out.fixed(&index.to_ne_bytes());
            out.bytes(libc::IFA_LOCAL, octets);
            out.bytes(libc::IFA_ADDRESS, octets);
            if flags != 0 {
                out.u32(libc::IFA_FLAGS, flags);
            }
        })
    };
    match addr {
        IpAddr::V4(addr) => address(libc::AF_INET, &addr.octets(), 0),
        // Nobody else can have it: no need to ask for a second.
        IpAddr::V6(addr) => address(libc::AF_INET6, &addr.octets(), libc::IFA_F_NODAD),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn asking_for_all() {
        all_links().assert_words(
            "20000000 12000103 07000000 00000000
             00000000 00000000 00000000 00000000",
        );
    }

    #[test]
    fn changes() {
        up(5).assert_words(
            "20000000 13000500 07000000 00000000
             00000000 05000000 01000000 01000000",
        );
        alias_of(5, "narrows").assert_words(
            "2c000000 13000500 07000000 00000000
             00000000 05000000 00000000 00000000
             0c001400 6e617272 6f777300",
        );
        port_of(5, 3).assert_words(
            "28000000 13000500 07000000 00000000
             00000000 05000000 01000000 01000000
             08000a00 03000000",
        );
        removed(5).assert_words(
            "20000000 11000500 07000000 00000000
             00000000 05000000 00000000 00000000",
        );
    }

    #[test]
    fn a_bridge() {
        new_bridge("switch", 1500).assert_words(
            "50000000 10000506 07000000 00000000
             00000000 00000000 00000000 00000000
             0b000300 73776974 63680000
             08000400 dc050000
             1c001200
               0b000100 62726964 67650000
               0c000200 05001700 00000000",
        );
    }

    #[test]
    fn a_pair() {
        new_veth("eth0", "kernel", 9, 1500).assert_words(
            "78000000 10000506 07000000 00000000
             00000000 00000000 00000000 00000000
             09000300 65746830 00000000
             08000400 dc050000
             44001200
               09000100 76657468 00000000
               34000200
                 30000100
                   00000000 00000000 00000000 00000000
                   0b000300 6b65726e 656c0000
                   08000400 dc050000
                   08001c00 09000000",
        );
    }

    #[test]
    fn addresses() {
        new_address(5, "10.77.0.254".parse().unwrap(), 24).assert_words(
            "28000000 14000506 07000000 00000000
             02180000 05000000
             08000200 0a4d00fe
             08000100 0a4d00fe",
        );
        new_address(5, "fd77::fe".parse().unwrap(), 64).assert_words(
            "48000000 14000506 07000000 00000000
             0a400000 05000000
             14000200 fd770000 00000000 00000000 000000fe
             14000100 fd770000 00000000 00000000 000000fe
             08000800 02000000",
        );
    }

    fn answer(fill: impl FnOnce(&mut Writer)) -> Answer {
        let mut out = Writer::default();
        out.fixed(&ifinfomsg(5, 0));
        fill(&mut out);
        Answer::new(libc::RTM_NEWLINK, out.finish().unwrap())
    }

    #[test]
    fn reading_an_interface() {
        let read = |kind: &str| {
            let answer = answer(|out| {
                out.string(libc::IFLA_IFNAME, "eth0");
                out.bytes(libc::IFLA_ADDRESS, &[2, 0x77, 0, 0, 0, 1]);
                out.u32(libc::IFLA_MTU, 9000);
                out.nested(libc::IFLA_LINKINFO | libc::NLA_F_NESTED as u16, |out| {
                    out.nested(libc::IFLA_INFO_DATA, |_| {});
                    out.string(libc::IFLA_INFO_KIND, kind);
                });
                out.string(libc::IFLA_IFALIAS, "ours");
            });
            Link::of(&answer).unwrap()
        };
        let expected = |kind| Link {
            index: 5,
            name: "eth0".to_owned(),
            alias: Some("ours".to_owned()),
            kind,
            mtu: 9000,
            running: false,
        };
        assert_eq!(read("bridge"), expected(LinkKind::Bridge));
        assert_eq!(read("veth"), expected(LinkKind::Veth));
        for other in ["", "tun", "bridg", "bridges"] {
            assert_eq!(read(other), expected(LinkKind::Other), "{other}");
        }
        let bare = Link::of(&answer(|_| {})).unwrap();
        assert_eq!((bare.index, bare.alias), (5, None));
    }

    #[test]
    fn an_interface_that_cannot_be_read() {
        let odd = [
            Answer::new(libc::RTM_NEWLINK, vec![0; 15]),
            Answer::new(libc::RTM_NEWLINK, vec![0; 17]),
            answer(|out| out.bytes(libc::IFLA_MTU, &[1; 3])),
            answer(|out| out.bytes(libc::IFLA_LINKINFO, &[9, 0, 1, 0])),
        ];
        for odd in odd {
            let e = Link::of(&odd).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        }
        // The kernel lets a name be of any bytes.
        let odd = answer(|out| out.bytes(libc::IFLA_IFNAME, &[b'a', 0xff, 0]));
        assert_eq!(Link::of(&odd).unwrap().name, "a\u{fffd}");
    }
}
