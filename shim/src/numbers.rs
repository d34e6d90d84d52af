//! Linux's numbers of socket options and requests, by name.

use libc as c;
use libc::{IPPROTO_IP, IPPROTO_IPV6, IPPROTO_TCP, SOL_SOCKET, c_int, c_ulong};

/// Name, level, number.
const OPTIONS: &[(&str, c_int, c_int)] = &[
    ("SO_DEBUG", SOL_SOCKET, c::SO_DEBUG),
    ("SO_ERROR", SOL_SOCKET, c::SO_ERROR),
    ("SO_KEEPALIVE", SOL_SOCKET, c::SO_KEEPALIVE),
    ("SO_LINGER", SOL_SOCKET, c::SO_LINGER),
    ("SO_PRIORITY", SOL_SOCKET, c::SO_PRIORITY),
    ("SO_RCVBUF", SOL_SOCKET, c::SO_RCVBUF),
    ("SO_RCVLOWAT", SOL_SOCKET, c::SO_RCVLOWAT),
    ("SO_REUSEADDR", SOL_SOCKET, c::SO_REUSEADDR),
    ("SO_REUSEPORT", SOL_SOCKET, c::SO_REUSEPORT),
    ("SO_SNDBUF", SOL_SOCKET, c::SO_SNDBUF),
    ("SO_SNDLOWAT", SOL_SOCKET, c::SO_SNDLOWAT),
    ("SO_TYPE", SOL_SOCKET, c::SO_TYPE),
    ("IP_MTU", IPPROTO_IP, c::IP_MTU),
    ("IP_MTU_DISCOVER", IPPROTO_IP, c::IP_MTU_DISCOVER),
    ("IP_RECVERR", IPPROTO_IP, c::IP_RECVERR),
    ("IP_TOS", IPPROTO_IP, c::IP_TOS),
    ("IP_TTL", IPPROTO_IP, c::IP_TTL),
    ("IPV6_MTU_DISCOVER", IPPROTO_IPV6, c::IPV6_MTU_DISCOVER),
    ("IPV6_RECVERR", IPPROTO_IPV6, c::IPV6_RECVERR),
    ("IPV6_TCLASS", IPPROTO_IPV6, c::IPV6_TCLASS),
    ("IPV6_UNICAST_HOPS", IPPROTO_IPV6, c::IPV6_UNICAST_HOPS),
    ("IPV6_V6ONLY", IPPROTO_IPV6, c::IPV6_V6ONLY),
    ("TCP_CONGESTION", IPPROTO_TCP, c::TCP_CONGESTION),
    ("TCP_CORK", IPPROTO_TCP, c::TCP_CORK),
    ("TCP_DEFER_ACCEPT", IPPROTO_TCP, c::TCP_DEFER_ACCEPT),
    ("TCP_FASTOPEN", IPPROTO_TCP, c::TCP_FASTOPEN),
    ("TCP_FASTOPEN_CONNECT", IPPROTO_TCP, c::TCP_FASTOPEN_CONNECT),
    ("TCP_FASTOPEN_KEY", IPPROTO_TCP, 33),
    ("TCP_FASTOPEN_NO_COOKIE", IPPROTO_TCP, 34),
    ("TCP_INFO", IPPROTO_TCP, c::TCP_INFO),
    ("TCP_KEEPCNT", IPPROTO_TCP, c::TCP_KEEPCNT),
    ("TCP_KEEPIDLE", IPPROTO_TCP, c::TCP_KEEPIDLE),
    ("TCP_KEEPINTVL", IPPROTO_TCP, c::TCP_KEEPINTVL),
    ("TCP_LINGER2", IPPROTO_TCP, c::TCP_LINGER2),
    ("TCP_MAXSEG", IPPROTO_TCP, c::TCP_MAXSEG),
    ("TCP_NODELAY", IPPROTO_TCP, c::TCP_NODELAY),
    ("TCP_NOTSENT_LOWAT", IPPROTO_TCP, c::TCP_NOTSENT_LOWAT),
    ("TCP_QUICKACK", IPPROTO_TCP, c::TCP_QUICKACK),
    ("TCP_SYNCNT", IPPROTO_TCP, c::TCP_SYNCNT),
    ("TCP_USER_TIMEOUT", IPPROTO_TCP, c::TCP_USER_TIMEOUT),
    ("TCP_WINDOW_CLAMP", IPPROTO_TCP, c::TCP_WINDOW_CLAMP),
];

/// What packetdrill asks for before each `%{ }%`, beside `TCP_INFO`: it gives nothing here.
pub(crate) const TCP_CC_INFO: c_int = 26;
/// The same: nine counters, all of them zero here.
pub(crate) const SO_MEMINFO: c_int = 55;

/// Requests of `ioctl`, from `linux/sockios.h` and `asm-generic/ioctls.h`. `SIOCINQ` and
/// `SIOCOUTQ` are other names of two of them.
const REQUESTS: &[(&str, c_ulong)] = &[
    ("FIONREAD", 0x541b),
    ("SIOCINQ", 0x541b),
    ("SIOCOUTQ", 0x5411),
    ("TIOCOUTQ", 0x5411),
    ("FIONBIO", 0x5421),
    ("SIOCOUTQNSD", 0x894b),
];

/// The name of an option.
pub(crate) fn option_name(level: c_int, number: c_int) -> Option<&'static str> {
    let found = OPTIONS.iter().find(|(_, l, n)| (*l, *n) == (level, number));
    found.map(|(name, _, _)| *name)
}

/// Level and number of an option.
pub(crate) fn option_number(name: &str) -> Option<(c_int, c_int)> {
    let found = OPTIONS.iter().find(|(n, _, _)| *n == name);
    found.map(|(_, level, number)| (*level, *number))
}

/// The name of a request.
pub(crate) fn request_name(number: c_ulong) -> Option<&'static str> {
    REQUESTS
        .iter()
        .find(|(_, n)| *n == number)
        .map(|(name, _)| *name)
}

/// The number of a request.
pub(crate) fn request_number(name: &str) -> Option<c_ulong> {
    REQUESTS.iter().find(|(n, _)| *n == name).map(|(_, n)| *n)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers_lead_to_each_other() {
        for (name, level, number) in OPTIONS {
            assert_eq!(option_name(*level, *number), Some(*name));
            assert_eq!(option_number(name), Some((*level, *number)));
        }
        for (name, number) in REQUESTS {
            assert_eq!(request_number(name), Some(*number));
            assert!(request_name(*number).is_some());
        }
        assert_eq!(option_name(SOL_SOCKET, 9_999), None);
        assert_eq!(request_name(1), None);
    }
}
