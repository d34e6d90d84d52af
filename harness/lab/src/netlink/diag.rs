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
            let same = have_same_addresses(&of.sockid, &header.sockid);
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

/// The kernel looks at the ports only.
fn have_same_addresses(found: &Sockid, asked: &Sockid) -> bool {
    (found.src, found.dst) == (asked.src, asked.dst)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;

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
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, host), port);
        let asked = sockid((end(1, 5_000), end(2, 80)));
        assert_eq!((asked.sport(), asked.dport()), (5_000, 80));
        let is_found = |ends| have_same_addresses(&sockid(ends), &asked);
        assert!(is_found((end(1, 5_000), end(2, 80))));
        // Of the same ports.
        assert!(!is_found((end(1, 5_000), end(3, 80))));
        assert!(!is_found((end(3, 5_000), end(2, 80))));
    }
}
