//! What the kernel remembers of peers (`linux/tcp_metrics.h`; what `ip tcp_metrics` shows and flushes).

use super::generic::{GENLMSG, genlmsg};
use super::{Answer, Netlink, Request};
use nix::libc;
use std::io;
use std::net::Ipv4Addr;

const TCP_METRICS_CMD_GET: u8 = 1;
const TCP_METRICS_CMD_DEL: u8 = 2;
const TCP_METRICS_ATTR_ADDR_IPV4: u16 = 1;
const TCP_METRICS_ATTR_VALS: u16 = 6;
/// Each value is an attribute of the number after its own.
const SSTHRESH: u16 = 2 + 1;

impl Netlink {
    /// The slow-start threshold that is remembered of a peer, in segments, in a socket of
    /// [`open_generic`](Self::open_generic); `None` if nothing is, or no threshold.
    ///
    /// # Errors
    /// [`io::ErrorKind::NotFound`]: the kernel remembers nothing of peers.
    pub(crate) fn remembered_threshold(&mut self, peer: Ipv4Addr) -> io::Result<Option<u32>> {
        let family = self.family("tcp_metrics")?;
        threshold(&self.ask(&all(family))?, family, peer)
    }

    /// Lets the namespace forget all peers.
    ///
    /// # Errors
    /// As [`remembered_threshold`](Self::remembered_threshold).
    pub(crate) fn forget_peers(&mut self) -> io::Result<()> {
        let family = self.family("tcp_metrics")?;
        self.tell(&forgotten(family))
    }
}

fn all(family: u16) -> Request {
    Request::new(family, libc::NLM_F_DUMP, |out| {
        out.fixed(&genlmsg(TCP_METRICS_CMD_GET));
    })
}

/// Without an address: of all of them.
fn forgotten(family: u16) -> Request {
    Request::new(family, libc::NLM_F_ACK, |out| {
        out.fixed(&genlmsg(TCP_METRICS_CMD_DEL));
    })
}

fn threshold(answers: &[Answer], family: u16, peer: Ipv4Addr) -> io::Result<Option<u32>> {
    for answer in answers.iter().filter(|a| a.kind == family) {
        let (_, attributes) = answer.parts::<GENLMSG>()?;
        let (mut of_peer, mut found) = (false, None);
        for attribute in attributes {
            let attribute = attribute?;
            match attribute.kind {
                TCP_METRICS_ATTR_ADDR_IPV4 => of_peer = attribute.value == peer.octets(),
                TCP_METRICS_ATTR_VALS => {
                    for value in attribute.nested() {
                        let value = value?;
                        if value.kind == SSTHRESH {
                            found = Some(value.u32()?);
                        }
                    }
                }
                _ => {}
            }
        }
        if of_peer {
            return Ok(found);
        }
    }
    Ok(None)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::netlink::Writer;

    #[test]
    fn all_are_asked_for_and_all_are_forgotten() {
        all(21).assert_words("14000000 15000103 07000000 00000000 01010000");
        forgotten(21).assert_words("14000000 15000500 07000000 00000000 02010000");
    }

    #[test]
    fn a_threshold_is_that_of_the_peer_and_may_be_missing() {
        let answer = |host: u8, threshold: Option<u32>| {
            let mut out = Writer::default();
            out.fixed(&genlmsg(TCP_METRICS_CMD_GET));
            out.bytes(TCP_METRICS_ATTR_ADDR_IPV4, &[10, 77, 0, host]);
            out.nested(TCP_METRICS_ATTR_VALS, |out| {
                out.u32(1, 40);
                if let Some(threshold) = threshold {
                    out.u32(SSTHRESH, threshold);
                }
            });
            Answer::new(21, out.finish().unwrap())
        };
        let answers = [
            answer(1, Some(7)),
            answer(2, Some(9)),
            answer(3, None),
            Answer::new(21, genlmsg(TCP_METRICS_CMD_GET).to_vec()),
        ];
        let of = |host| threshold(&answers, 21, Ipv4Addr::new(10, 77, 0, host)).unwrap();
        assert_eq!([1, 2, 3, 4].map(of), [Some(7), Some(9), None, None]);
    }
}
