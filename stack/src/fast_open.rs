//! TCP Fast Open (RFC 7413): data on the SYN, for which a cookie vouches.
//!
//! Off unless [`TcpConfig::fast_open`](crate::config::TcpConfig::fast_open) says otherwise: data
//! on a SYN may reach the application twice, which only the application can judge (section 6.1).
//!
//! A client's [`Endpoint::connect`](crate::endpoint::Endpoint::connect) asks for a cookie with its
//! first SYN to a server. Once it has one, the SYN waits for the first call of
//! [`send`](crate::conn::Connection::send) and takes along what fits. A listener hands a
//! connection whose cookie is good to its user at once, with the data; the answer may leave before
//! the handshake is complete.

use crate::endpoint::demux::ip_words;
use crate::siphash::SipKey;
use crate::wire::{FastOpenCookie, FastOpenForm, FastOpenOption};
use narrows_congestion::Instant;
use std::fmt;
use std::net::IpAddr;

/// What a connection, or a listener, does of Fast Open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FastOpen {
    /// For active opens.
    pub client: FastOpenClient,
    /// A listener takes data on SYNs while fewer connections than this are not yet confirmed by
    /// the third segment of their handshake (`PendingFastOpenRequests`, RFC 7413 section 5.1).
    /// 0: it does not.
    pub pending: u32,
    /// A listener takes such data without a cookie (section 7.3): only where no one can send with
    /// another's address.
    pub without_cookie: bool,
    /// A listener's keys; the endpoint's own unless given.
    pub keys: Option<FastOpenKeys>,
}

/// Fast Open of active opens.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum FastOpenClient {
    /// Not used.
    #[default]
    Off,
    /// The SYN asks for a cookie, or carries one and data.
    Cookie,
    /// The SYN carries data and no option (RFC 7413 section 7.3): where servers want no cookie.
    WithoutCookie,
}

/// The keys that a server's cookies are made with: anything that knows them makes the same, as the
/// servers behind one address must (RFC 7413 section 4.1.2). Cookies are those of Linux since 5.3.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct FastOpenKeys {
    current: SipKey,
    previous: Option<SipKey>,
}

/// What a cookie that came is worth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum CookieCheck {
    Current,
    /// Good, and soon not any more.
    Previous,
    Bad,
}

impl FastOpenKeys {
    /// One key of 128 bits that no peer knows.
    pub const fn new(key: &[u8; 16]) -> Self {
        Self {
            current: SipKey::from_bytes(key),
            previous: None,
        }
    }

    pub(crate) const fn of(current: SipKey) -> Self {
        Self {
            current,
            previous: None,
        }
    }

    /// A new key. Cookies of the one before are good until the next change, and are answered with
    /// new ones.
    #[must_use]
    pub const fn rotate(&self, key: &[u8; 16]) -> Self {
        Self {
            current: SipKey::from_bytes(key),
            previous: Some(self.current),
        }
    }

    /// The cookie of `client` for `server`, at its current address.
    pub fn cookie(&self, client: IpAddr, server: IpAddr) -> FastOpenCookie {
        cookie(&self.current, client, server)
    }

    pub(crate) fn check(
        &self,
        client: IpAddr,
        server: IpAddr,
        came: &FastOpenCookie,
    ) -> CookieCheck {
        if self.cookie(client, server) == *came {
            CookieCheck::Current
        } else if (self.previous).is_some_and(|key| cookie(&key, client, server) == *came) {
            CookieCheck::Previous
        } else {
            CookieCheck::Bad
        }
    }
}

impl fmt::Debug for FastOpenKeys {
    /// Does not show the keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FastOpenKeys(..)")
    }
}

fn cookie(key: &SipKey, client: IpAddr, server: IpAddr) -> FastOpenCookie {
    let tag = match (client, server) {
        (IpAddr::V4(c), IpAddr::V4(s)) => {
            let [a, b] = [c, s].map(|ip| u64::from(u32::from_le_bytes(ip.octets())));
            key.sip24([a | b << 32])
        }
        (c, s) => {
            let ([a, b], [c, d]) = (ip_words(c), ip_words(s));
            key.sip24([a, b, c, d].map(u64::swap_bytes))
        }
    };
    let bytes = tag.to_le_bytes();
    FastOpenCookie::new(&bytes).unwrap_or_else(|| unreachable!("8 bytes are a cookie"))
}

/// How far Fast Open has come with a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FastOpenStatus {
    /// It is not used.
    Unused,
    /// The SYN waits for data to take along.
    Waiting,
    /// The SYN asked for a cookie.
    Requested,
    /// The SYN carried data; there is no answer yet.
    Sent,
    /// The data of the SYN was taken.
    Accepted,
    /// The peer answered, but took none of the data, or not all.
    Refused,
    /// No answer came to the SYN with data or option.
    Lost,
}

/// What an active open begins with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FastOpenStart {
    /// The option of the SYN, if it is to have one. Without a cookie in it, it asks for one and
    /// carries no data.
    pub option: Option<FastOpenOption>,
    /// Bytes of data that the SYN may carry.
    pub room: u16,
}

impl FastOpenStart {
    pub(crate) fn takes_data(&self) -> bool {
        self.option.is_none_or(|o| o.cookie.is_some())
    }
}

/// What an active open has found out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FastOpenReport {
    /// When.
    pub(crate) at: Instant,
    /// How the SYN asked for a cookie, if it did.
    pub(crate) requested: Option<FastOpenForm>,
    /// The cookie that the SYN-ACK brought.
    pub(crate) cookie: Option<(FastOpenForm, FastOpenCookie)>,
    /// The MSS in it.
    pub(crate) mss: Option<u16>,
    pub(crate) finding: Finding,
}

/// What the answer says of the path (RFC 7413 section 4.1.3.1).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finding {
    /// Data on the SYN came through.
    Passes,
    /// A negative response.
    Fails,
    /// Neither.
    Nothing,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(s: &str) -> IpAddr {
        s.parse().unwrap()
    }

    const KEY: [u8; 16] = [
        0xa1, 0xa1, 0xa1, 0xa1, 0xb2, 0xb2, 0xb2, 0xb2, 0xc3, 0xc3, 0xc3, 0xc3, 0xd4, 0xd4, 0xd4,
        0xd4,
    ];

    /// With the key `a1a1a1a1-b2b2b2b2-c3c3c3c3-d4d4d4d4` Linux gives 192.0.2.1 this cookie.
    #[test]
    fn cookies_are_those_of_linux() {
        let keys = FastOpenKeys::new(&KEY);
        let cookie = keys.cookie(ip("192.0.2.1"), ip("192.168.0.1"));
        let linux = [0x30, 0x21, 0xb9, 0xd8, 0x89, 0x01, 0x7e, 0xeb];
        assert_eq!(cookie.as_slice(), linux);
    }

    #[test]
    fn rfc7413_4_1_2_a_cookie_is_good_for_one_client_and_until_the_second_change_of_keys() {
        let keys = FastOpenKeys::new(&KEY);
        for (client, server) in [("10.0.0.1", "10.0.0.2"), ("fd00::1", "fd00::2")] {
            let (client, server) = (ip(client), ip(server));
            let old = keys.cookie(client, server);
            assert_eq!(keys.check(client, server, &old), CookieCheck::Current);
            for (c, s) in [(server, client), (client, client), (ip("fd00::9"), server)] {
                assert_eq!(keys.check(c, s, &old), CookieCheck::Bad);
            }
            let second = keys.rotate(&[1; 16]);
            assert_eq!(second.check(client, server, &old), CookieCheck::Previous);
            let third = second.rotate(&[2; 16]);
            assert_eq!(third.check(client, server, &old), CookieCheck::Bad);
        }
        assert_eq!(format!("{keys:?}"), "FastOpenKeys(..)");
    }
}
