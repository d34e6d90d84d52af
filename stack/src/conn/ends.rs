//! Both ends of a connection, in as few bytes as each packet needs of them.

use std::net::{IpAddr, SocketAddr};

/// Addresses and ports.
#[derive(Debug)]
pub(super) struct Ends {
    pub(super) local: IpAddr,
    pub(super) remote: IpAddr,
    pub(super) local_port: u16,
    pub(super) remote_port: u16,
    /// The user's own words, where they say more: the scope and flow label of IPv6.
    full: Option<Box<[SocketAddr; 2]>>,
}

impl Ends {
    pub(super) fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        let ends = Self {
            local: local.ip(),
            remote: remote.ip(),
            local_port: local.port(),
            remote_port: remote.port(),
            full: None,
        };
        let plain = ends.local() == local && ends.remote() == remote;
        Self {
            full: (!plain).then(|| Box::new([local, remote])),
            ..ends
        }
    }

    pub(super) fn local(&self) -> SocketAddr {
        match &self.full {
            Some(full) => full[0],
            None => SocketAddr::new(self.local, self.local_port),
        }
    }

    pub(super) fn remote(&self) -> SocketAddr {
        match &self.full {
            Some(full) => full[1],
            None => SocketAddr::new(self.remote, self.remote_port),
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
            let ends = Ends::new(local, remote);
            assert_eq!((ends.local(), ends.remote()), (local, remote));
        }
        assert!(Ends::new(v4, v4).full.is_none());
        assert!(size_of::<Ends>() <= 48);
    }
}
