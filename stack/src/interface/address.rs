//! The addresses of an interface, and which neighbour a packet goes to.

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
        let differ = |a: u128, b: u128, bits: u32| {
            let rest = bits - u32::from(self.prefix);
            (a ^ b).checked_shr(rest).unwrap_or(0) != 0
        };
        match (self.addr, other) {
            (IpAddr::V4(a), IpAddr::V4(b)) => !differ(a.to_bits().into(), b.to_bits().into(), 32),
            (IpAddr::V6(a), IpAddr::V6(b)) => !differ(a.to_bits(), b.to_bits(), 128),
            _ => false,
        }
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
        own.sort_by_key(|c| c.addr);
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

    /// The neighbour to whom a packet for `dst` goes.
    #[inline]
    pub(super) fn next_hop(&self, dst: IpAddr) -> Option<IpAddr> {
        if self.own.iter().any(|c| c.contains(dst)) {
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

    /// The address of ours to speak to `remote` from.
    pub(super) fn source_for(&self, remote: IpAddr) -> Option<IpAddr> {
        self.own
            .iter()
            .filter(|c| c.addr.is_ipv4() == remote.is_ipv4())
            .max_by_key(|c| (c.contains(remote), c.prefix))
            .map(|c| c.addr)
    }

    /// Ours.
    pub(super) fn all(&self) -> impl Iterator<Item = IpAddr> {
        self.own.iter().map(|c| c.addr)
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
}
