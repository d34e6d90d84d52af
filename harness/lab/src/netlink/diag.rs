//! What the kernel knows of a TCP socket of its own (sock_diag(7), `linux/inet_diag.h`).

use super::Netlink;
use netlink_bindings::inet_diag::{ReqV2, Request, Sockid, TcpInfo};
use nix::libc;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

/// Asks for `struct tcp_info`.
const INET_DIAG_INFO: u8 = 2;
/// `TCP_INFINITE_SSTHRESH`.
const INFINITE: u32 = 0x7fff_ffff;

/// What is known of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Known {
    /// Smoothed.
    pub(crate) round_trip: Duration,
    /// The slow-start threshold in segments, once there is one.
    pub(crate) ssthresh: Option<u32>,
}

impl From<TcpInfo> for Known {
    fn from(info: TcpInfo) -> Self {
        Self {
            round_trip: Duration::from_micros(info.rtt.into()),
            ssthresh: Some(info.snd_ssthresh).filter(|segments| *segments < INFINITE),
        }
    }
}

impl Netlink {
    /// What is known of the connection between two addresses, the first of which is of this namespace.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is no such connection, or the kernel has no `tcp_diag`.
    pub(crate) fn known(&mut self, ends: (SocketAddrV4, SocketAddrV4)) -> io::Result<Known> {
        let header = ReqV2 {
            family: libc::AF_INET as u8,
            protocol: libc::IPPROTO_TCP as u8,
            ext: 1 << (INET_DIAG_INFO - 1),
            states: u32::MAX,
            sockid: sockid(ends),
            ..Default::default()
        };
        let request = Request::new().op_tcp_diag_dump(&header);
        let found = self.ask(&request, |(of, known)| {
            // The kernel looks at the ports only.
            let same = (of.sockid.src, of.sockid.dst) == (header.sockid.src, header.sockid.dst);
            known.get_tcp_info().ok().filter(|_| same).map(Known::from)
        })?;
        found.into_iter().flatten().next().ok_or_else(|| {
            let why = format!("the kernel has no connection from {} to {}", ends.0, ends.1);
            io::Error::new(io::ErrorKind::NotFound, why)
        })
    }
}

/// Addresses have room for IPv6.
fn sockid((local, remote): (SocketAddrV4, SocketAddrV4)) -> Sockid {
    let mut id = Sockid::new();
    id.set_sport(local.port());
    id.set_dport(remote.port());
    id.src[..4].copy_from_slice(&local.ip().octets());
    id.dst[..4].copy_from_slice(&remote.ip().octets());
    id
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};

    #[test]
    fn a_threshold_is_known_once_there_is_one() {
        let known = |snd_ssthresh| {
            Known::from(TcpInfo {
                rtt: 17,
                snd_ssthresh,
                ..Default::default()
            })
        };
        assert_eq!(known(19).round_trip, Duration::from_micros(17));
        assert_eq!(known(19).ssthresh, Some(19));
        assert_eq!(known(INFINITE).ssthresh, None);
    }

    #[test]
    fn a_connection_is_found_by_its_ends() {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let stream = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let ends = [stream.local_addr(), stream.peer_addr()].map(Result::unwrap);
        let [SocketAddr::V4(local), SocketAddr::V4(mut remote)] = ends else {
            unreachable!("both are of IPv4");
        };
        let mut netlink = Netlink::open_diag().unwrap();
        let known = netlink.known((local, remote)).unwrap();
        assert!(known.round_trip > Duration::ZERO);
        // Of the same ports.
        remote.set_ip(Ipv4Addr::new(127, 0, 0, 2));
        let e = netlink.known((local, remote)).unwrap_err();
        assert_eq!(e.kind(), io::ErrorKind::NotFound);
    }
}
