//! Both ends of a connection, in as few bytes as each packet needs of them.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};

/// Addresses and ports.
#[derive(Debug)]
pub(super) struct Ends {
    addresses: Addresses,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// Of our packets.
    pub(super) dscp: u8,
}

/// Of ours and of the peer's.
#[derive(Debug)]
enum Addresses {
    V4([Ipv4Addr; 2]),
    /// With the scope and flow label of IPv6.
    Other(Box<[SocketAddr; 2]>),
}

impl Ends {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr, dscp: u8) -> Self {
        Self {
            addresses: match (local, remote) {
                (SocketAddr::V4(local), SocketAddr::V4(remote)) => {
                    Addresses::V4([*local.ip(), *remote.ip()])
                }
                _ => Addresses::Other(Box::new([local, remote])),
            },
            local_port: local.port(),
            remote_port: remote.port(),
            dscp,
        }
    }

    /// Our address and the peer's.
    #[inline]
    pub(super) fn ips(&self) -> (IpAddr, IpAddr) {
        (self.local().ip(), self.remote().ip())
    }

    /// These, if they are of IPv4.
    #[inline]
    pub(super) fn v4(&self) -> Option<[Ipv4Addr; 2]> {
        match &self.addresses {
            Addresses::V4(both) => Some(*both),
            Addresses::Other(_) => None,
        }
    }

    pub(super) fn local(&self) -> SocketAddr {
        match &self.addresses {
            Addresses::V4([local, _]) => SocketAddr::from((*local, self.local_port)),
            Addresses::Other(ends) => ends[0],
        }
    }

    pub(super) fn remote(&self) -> SocketAddr {
        match &self.addresses {
            Addresses::V4([_, remote]) => SocketAddr::from((*remote, self.remote_port)),
            Addresses::Other(ends) => ends[1],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv6Addr, SocketAddrV6};

    #[test]
    fn nothing_of_an_address_is_lost() {
        let v4 = SocketAddr::from(([10, 0, 0, 1], 80));
        let v6 = SocketAddr::from((Ipv6Addr::LOCALHOST, 443));
        let scoped = SocketAddr::V6(SocketAddrV6::new(Ipv6Addr::LOCALHOST, 5, 6, 7));
        for (local, remote) in [(v4, v4), (v6, v6), (v6, scoped), (scoped, v6)] {
            let ends = Ends::new(local, remote, 0);
            assert_eq!((ends.local(), ends.remote()), (local, remote));
        }
        assert!(Ends::new(v4, v4, 0).v4().is_some());
        assert!(size_of::<Ends>() <= 24);
    }
}
