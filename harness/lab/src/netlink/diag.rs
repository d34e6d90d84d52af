//! What the kernel knows of a TCP socket of its own (sock_diag(7), `linux/inet_diag.h`).

use super::{Answer, Netlink, Request, malformed, u32_at};
use nix::libc;
use std::io;
use std::net::SocketAddrV4;
use std::time::Duration;

const SOCK_DIAG_BY_FAMILY: u16 = 20;
/// Asks for and answers with `struct tcp_info`.
const INET_DIAG_INFO: u16 = 2;
/// Bytes of `struct inet_diag_msg`.
const INET_DIAG_MSG: usize = 72;
/// Where `struct tcp_info` has `tcpi_rtt`, in microseconds.
const RTT: usize = 68;
/// ... and `tcpi_snd_ssthresh`, in segments.
const SSTHRESH: usize = 76;
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

impl Netlink {
    /// What is known of the connection between two addresses, the first of which is of this namespace.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: there is no such connection, or the kernel has no `tcp_diag`.
    pub(crate) fn known(&mut self, ends: (SocketAddrV4, SocketAddrV4)) -> io::Result<Known> {
        known(&self.ask(&request(ends))?)
    }
}

/// `struct inet_diag_req_v2`: family, protocol, what is asked for, states, and the socket: ports,
/// addresses of sixteen bytes, an interface, and a cookie that says that there is none.
fn request((local, remote): (SocketAddrV4, SocketAddrV4)) -> Request {
    Request::new(SOCK_DIAG_BY_FAMILY, libc::NLM_F_ACK, |out| {
        let asked = 1 << (INET_DIAG_INFO - 1);
        out.fixed(&[libc::AF_INET as u8, libc::IPPROTO_TCP as u8, asked, 0]);
        out.fixed(&u32::MAX.to_ne_bytes());
        let ports = [local, remote].map(|end| end.port().to_be_bytes());
        out.fixed(ports.as_flattened());
        for end in [local, remote] {
            out.fixed(&end.ip().octets());
            out.fixed(&[0; 12]);
        }
        out.fixed(&[0; 4]);
        out.fixed(&[u8::MAX; 8]);
    })
}

fn known(answers: &[Answer]) -> io::Result<Known> {
    for answer in answers.iter().filter(|a| a.kind == SOCK_DIAG_BY_FAMILY) {
        let (_, attributes) = answer.parts::<INET_DIAG_MSG>()?;
        for attribute in attributes {
            let attribute = attribute?;
            if attribute.kind == INET_DIAG_INFO {
                let [us, segments] = [RTT, SSTHRESH].map(|at| {
                    let value = u32_at(attribute.value, at);
                    value.ok_or_else(|| malformed("what is known of a socket is too short"))
                });
                return Ok(Known {
                    round_trip: Duration::from_micros(us?.into()),
                    ssthresh: Some(segments?).filter(|segments| *segments < INFINITE),
                });
            }
        }
    }
    Err(malformed("an answer that knows nothing of the socket"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Writer;
    use std::net::Ipv4Addr;

    #[test]
    fn a_socket_is_asked_for_by_its_ends() {
        let end = |host, port| SocketAddrV4::new(Ipv4Addr::new(10, 77, 0, host), port);
        request((end(1, 0x1234), end(2, 5_001))).assert_words(
            "48000000 14000500 07000000 00000000
             02060200 ffffffff
             12341389
             0a4d0001 00000000 00000000 00000000
             0a4d0002 00000000 00000000 00000000
             00000000 ffffffff ffffffff",
        );
    }

    #[test]
    fn round_trip_and_threshold_are_where_the_kernel_puts_them() {
        let answer = |len: usize, infinite: bool| {
            let mut info: Vec<u32> = (0..60).collect();
            if infinite {
                info[19] = INFINITE;
            }
            let info: Vec<u8> = info.into_iter().flat_map(u32::to_ne_bytes).collect();
            let mut out = Writer::default();
            out.fixed(&[0; INET_DIAG_MSG]);
            out.bytes(INET_DIAG_INFO, &info[..len]);
            Answer::new(SOCK_DIAG_BY_FAMILY, out.finish().unwrap())
        };
        let expected = |ssthresh| Known {
            round_trip: Duration::from_micros(17),
            ssthresh,
        };
        assert_eq!(known(&[answer(104, false)]).unwrap(), expected(Some(19)));
        assert_eq!(known(&[answer(104, true)]).unwrap(), expected(None));
        for odd in [vec![answer(76, false)], Vec::new()] {
            let e = known(&odd).unwrap_err();
            assert_eq!(e.kind(), io::ErrorKind::InvalidData);
        }
    }
}
