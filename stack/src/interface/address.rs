//! The addresses of an interface, and which neighbour a packet goes to.

use narrows_congestion::order::sort_by_key;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// An address and the length of its network's prefix, written `10.0.0.1/24` or `fd00::1/64`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Cidr {
    addr: IpAddr,
    prefix: u8,
}

/// Why a text is no [`Cidr`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CidrError;

impl fmt::Display for CidrError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("expected an address and its prefix length, as 10.0.0.1/24 or fd00::1/64")
    }
}
impl std::error::Error for CidrError {}

impl Cidr {
    /// `addr` in a network whose first `prefix` bits are the same.
    ///
    /// # Errors
    /// A prefix longer than the address.
    pub fn new(addr: IpAddr, prefix: u8) -> Result<Self, CidrError> {
        let bits = if addr.is_ipv4() { 32 } else { 128 };
        if prefix > bits {
            return Err(CidrError);
        }
        Ok(Self { addr, prefix })
    }

    /// The address.
    pub const fn addr(&self) -> IpAddr {
        self.addr
    }

    /// The length of the prefix in bits.
    pub const fn prefix(&self) -> u8 {
        self.prefix
    }

    /// Whether `other` is in the same network.
    pub fn contains(&self, other: IpAddr) -> bool {
        self.common(other) == Some(self.prefix)
    }

    /// How many bits of the prefix `other` has too; `None`: it is of the other family.
    fn common(&self, other: IpAddr) -> Option<u8> {
        let same = match (self.addr, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            (IpAddr::V6(a), IpAddr::V6(b)) => (a.to_bits() ^ b.to_bits()).leading_zeros(),
            _ => return None,
        };
        // At most 128.
        Some(self.prefix.min(same as u8))
    }

    /// The broadcast address of an IPv4 network that has one.
    fn broadcast(&self) -> Option<Ipv4Addr> {
        match self.addr {
            IpAddr::V4(a) if self.prefix < 31 => {
                let hosts = u32::MAX.checked_shr(self.prefix.into()).unwrap_or(0);
                Some(Ipv4Addr::from_bits(a.to_bits() | hosts))
            }
            _ => None,
        }
    }
}

impl FromStr for Cidr {
    type Err = CidrError;
    fn from_str(text: &str) -> Result<Self, CidrError> {
        let (addr, prefix) = text.split_once('/').ok_or(CidrError)?;
        let addr = addr.parse().map_err(|_| CidrError)?;
        Self::new(addr, prefix.parse().map_err(|_| CidrError)?)
    }
}

impl fmt::Display for Cidr {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.addr, self.prefix)
    }
}

/// Our addresses and the way to others.
#[derive(Clone, Debug, Default)]
pub(super) struct Addresses {
    own: Vec<Cidr>,
    gateway_v4: Option<Ipv4Addr>,
    gateway_v6: Option<Ipv6Addr>,
}

impl Addresses {
    pub(super) fn new(own: &[Cidr], gateways: &[IpAddr]) -> Self {
        let mut own = own.to_vec();
        sort_by_key(&mut own, |c| c.addr);
        let mut addresses = Self {
            own,
            ..Self::default()
        };
        for gateway in gateways {
            match *gateway {
                IpAddr::V4(g) => addresses.gateway_v4 = Some(g),
                IpAddr::V6(g) => addresses.gateway_v6 = Some(g),
            }
        }
        addresses
    }

    /// Whether `addr` is ours.
    #[inline]
    pub(super) fn is_own(&self, addr: IpAddr) -> bool {
        match self.own.as_slice() {
            [only] => only.addr == addr,
            many => many.binary_search_by_key(&addr, |c| c.addr).is_ok(),
        }
    }

    /// The neighbour to whom a packet for `dst` goes. What is link-local is on the link (RFC 4861
    /// section 5.1), and no router passes it on.
    #[inline]
    pub(super) fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        let link_local = matches!(dst, IpAddr::V6(a) if a.is_unicast_link_local());
        if link_local || self.own.iter().any(|c| c.contains(dst)) {
            let refused = self
                .own
                .iter()
                .any(|c| c.broadcast().is_some_and(|b| IpAddr::V4(b) == dst));
            return (!refused && !self.is_own(dst)).then_some(dst);
        }
        match dst {
            IpAddr::V4(_) => self.gateway_v4.map(IpAddr::V4),
            IpAddr::V6(_) => self.gateway_v6.map(IpAddr::V6),
        }
    }

    /// The address of ours to speak to `remote` from (RFC 6724 section 5: rules 1, 2, 6 and 8; no
    /// address here has what the others ask for).
    pub(super) fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        let (needed, wanted) = scope_and_label(remote);
        let fitness = |c: &&Cidr| {
            let (scope, label) = scope_and_label(c.addr);
            // The smallest scope that reaches so far; if none does, the largest.
            let reach = if scope < needed { scope } else { 32 - scope };
            let network = (c.contains(remote), c.common(remote));
            (c.addr == remote, reach, label == wanted, network)
        };
        let family = |c: &&Cidr| c.addr.is_ipv4() == remote.is_ipv4();
        let best = self.own.iter().filter(family).max_by_key(fitness)?;
        Some(best.addr)
    }

    /// Ours.
    pub(super) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.own.iter().map(|c| c.addr)
    }
}

/// How far an address reaches (RFC 6724 section 3.1, 14 is everywhere), and the label of what it
/// belongs with (section 2.1).
const fn scope_and_label(addr: IpAddr) -> (u8, u8) {
    let addr = match addr {
        IpAddr::V6(addr) => addr,
        IpAddr::V4(addr) if addr.is_link_local() || addr.is_loopback() => return (2, 4),
        IpAddr::V4(_) => return (14, 4),
    };
    match addr.segments() {
        [0, 0, 0, 0, 0, 0, 0, 1] => (2, 0),
        [0, 0, 0, 0, 0, 0xffff, ..] => (14, 4),
        [0, 0, 0, 0, 0, 0, ..] => (14, 3),
        [0x2001, 0, ..] => (14, 5),
        [0x2002, ..] => (14, 2),
        [0x3ffe, ..] => (14, 12),
        [0xfc00..=0xfdff, ..] => (14, 13),
        [0xfe80..=0xfebf, ..] => (2, 1),
        [0xfec0..=0xfeff, ..] => (5, 11),
        _ => (14, 1),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cidr(text: &str) -> Cidr {
        text.parse().unwrap()
    }
    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn networks() {
        assert!(cidr("10.1.2.3/24").contains(ip("10.1.2.255")));
        assert!(!cidr("10.1.2.3/24").contains(ip("10.1.3.3")));
        assert!(cidr("10.1.2.3/0").contains(ip("1.1.1.1")));
        assert!(cidr("fd00::1/0").contains(ip("::1")));
        assert!(!cidr("10.1.2.3/32").contains(ip("10.1.2.2")));
        assert!(cidr("fd00::1/64").contains(ip("fd00::ffff")));
        assert!(!cidr("fd00::1/64").contains(ip("10.1.2.3")));
        assert_eq!(cidr("fd00::1/64").to_string(), "fd00::1/64");
        for bad in ["10.0.0.1", "10.0.0.1/33", "10.0.0.1/x", "::1/129", "/8"] {
            assert_eq!(bad.parse::<Cidr>(), Err(CidrError), "{bad}");
        }
    }

    #[test]
    fn ways() {
        let a = Addresses::new(
            &[cidr("10.0.0.1/24"), cidr("10.0.1.1/24"), cidr("fd00::1/64")],
            &[ip("10.0.0.254")],
        );
        assert_eq!(a.next_hop(ip("10.0.0.7")), Some(ip("10.0.0.7")));
        assert_eq!(a.next_hop(ip("8.8.8.8")), Some(ip("10.0.0.254")));
        assert_eq!(a.next_hop(ip("10.0.0.255")), None, "broadcast");
        assert_eq!(a.next_hop(ip("10.0.0.1")), None, "ourselves");
        assert_eq!(a.next_hop(ip("fd01::1")), None);
        assert!(a.is_own(ip("10.0.1.1")) && !a.is_own(ip("10.0.1.2")));
        assert_eq!(a.source_for(ip("10.0.1.9")), Some(ip("10.0.1.1")));
        assert_eq!(a.source_for(ip("fd01::9")), Some(ip("fd00::1")));
    }

    /// RFC 6724 section 10.1, as far as addresses are neither deprecated nor temporary here.
    #[test]
    fn rfc6724_5_the_source_address_fits_the_destination() {
        let table: [(&str, &str, &[&str]); 12] = [
            // Rule 1: the same.
            ("2001:db8:1::1", "2001:db8:1::1", &["2001:db8:1::2/64"]),
            // Rule 2: one that reaches there, and no farther.
            ("2001:db8:1::1", "2001:db8:3::1", &["fe80::1/64"]),
            ("2001:db8:1::1", "fd00::1", &["fe80::1/64", "::1/128"]),
            ("2001:db8:1::1", "fec0::1", &["fe80::1/64"]),
            ("fe80::1", "fe80::2", &["2001:db8:1::1/64", "fec0::1/64"]),
            ("fec0::1", "fec0::2", &["2001:db8:1::1/64", "fe80::2/64"]),
            ("8.8.8.8", "10.0.0.1", &["169.254.0.1/16", "127.0.0.1/8"]),
            // Rule 6: of the same kind.
            ("2002:c633:6401::1", "2002:c633:1::1", &["2001:db8:1::2/64"]),
            ("2001:db8:9::1", "3000::1", &["fd00::1/64", "2001::1/64"]),
            ("fd12::1", "fd00::1", &["fe00::1/64", "2001:db8::1/64"]),
            // Rule 8: the longest prefix in common, but not beyond its length.
            ("2001:db8:1::1", "2001:db8:1::2", &["2001:db8:3::2/64"]),
            ("10.0.3.1", "10.0.2.1", &["10.0.8.1/24", "10.8.3.1/24"]),
        ];
        for (remote, best, others) in table {
            let length = if best.contains(':') { 64 } else { 24 };
            let mut own = vec![Cidr::new(ip(best), length).unwrap()];
            own.extend(others.iter().map(|o| cidr(o)));
            let a = Addresses::new(&own, &[]);
            assert_eq!(a.source_for(ip(remote)), Some(ip(best)), "{remote}");
        }
        let long = Addresses::new(&[cidr("2001:db8::8/32"), cidr("2001:db8::1:0/64")], &[]);
        let found = long.source_for(ip("2001:db8::9"));
        assert_eq!(found, Some(ip("2001:db8::1:0")), "by the prefix");
        let other = Addresses::new(&[cidr("fd00::1/64")], &[]);
        assert_eq!(other.source_for(ip("10.0.0.1")), None);
    }

    #[test]
    fn rfc4861_5_1_what_is_link_local_is_on_the_link() {
        let a = Addresses::new(&[cidr("2001:db8::1/64")], &[ip("fe80::ff")]);
        for (dst, hop) in [
            ("fe80::2", "fe80::2"),
            ("fe80::ff", "fe80::ff"),
            ("febf::2", "febf::2"),
            ("2001:db8::2", "2001:db8::2"),
            // What no prefix of ours covers is not (RFC 5942 section 4).
            ("2001:db8:1::2", "fe80::ff"),
            ("fec0::2", "fe80::ff"),
        ] {
            assert_eq!(a.next_hop(ip(dst)), Some(ip(hop)), "{dst}");
        }
        let alone = Addresses::new(&[cidr("2001:db8::1/64")], &[]);
        assert_eq!(alone.next_hop(ip("2001:db8:1::2")), None);
        let local = Addresses::new(&[cidr("fe80::1/64")], &[]);
        assert_eq!(local.next_hop(ip("fe80::1")), None, "ourselves");
    }

    /// RFC 5952 section 4; any form is read (RFC 4291 section 2.2).
    #[test]
    fn rfc5952_4_addresses_are_written_the_recommended_way() {
        for (text, written) in [
            ("2001:0DB8:0:0:0:0:0002:1/64", "2001:db8::2:1/64"),
            ("2001:db8:0:1:1:1:1:1/128", "2001:db8:0:1:1:1:1:1/128"),
            ("2001:db8::0:1:0:0:1/48", "2001:db8::1:0:0:1/48"),
            ("2001:0:0:1:0:0:0:1/48", "2001:0:0:1::1/48"),
            ("::FFFF:192.0.2.1/96", "::ffff:192.0.2.1/96"),
            ("0:0:0:0:0:0:0:0/0", "::/0"),
        ] {
            assert_eq!(cidr(text).to_string(), written);
        }
    }
}
