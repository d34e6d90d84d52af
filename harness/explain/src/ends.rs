//! The two ends of a connection, in an order that no direction decides.

use std::hash::{Hash, Hasher};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

/// A connection by its ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Key {
    /// By [`Socket`].
    addresses: [Address; 2],
    ports: [u16; 2],
    v6: bool,
}

/// The bits of an address, the upper half first.
type Address = [u64; 2];

/// One of the two: by address, then by port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Socket {
    Lesser,
    Greater,
}

impl Socket {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Lesser => Self::Greater,
            Self::Greater => Self::Lesser,
        }
    }
}

impl Hash for Key {
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [a, b] = self.addresses;
        if self.v6 {
            state.write_u128(whole(a));
            state.write_u128(whole(b));
        } else {
            state.write_u64(a[1] << 32 | b[1]);
        }
        state.write_u32(u32::from(self.ports[0]) << 16 | u32::from(self.ports[1]));
    }
}

fn whole([upper, lower]: Address) -> u128 {
    u128::from(upper) << 64 | u128::from(lower)
}

impl Key {
    /// The connection that a packet from `src` to `dst` is of, and at which end of it `src` is.
    #[inline]
    pub(crate) fn between(src: SocketAddr, dst: SocketAddr) -> (Self, Socket) {
        let [a, b] = [src, dst].map(|end| match end.ip() {
            IpAddr::V4(v4) => ([0, v4.to_bits().into()], end.port()),
            IpAddr::V6(v6) => {
                let bits = v6.to_bits();
                ([(bits >> 64) as u64, bits as u64], end.port())
            }
        });
        let (a, b, from) = if a <= b {
            (a, b, Socket::Lesser)
        } else {
            (b, a, Socket::Greater)
        };
        let key = Self {
            addresses: [a.0, b.0],
            ports: [a.1, b.1],
            v6: src.is_ipv6(),
        };
        (key, from)
    }

    /// The end, and the other one.
    pub(crate) fn ends_from(&self, end: Socket) -> [SocketAddr; 2] {
        let [lesser, greater] = [0, 1].map(|n| {
            let bits = whole(self.addresses[n]);
            let ip = match self.v6 {
                true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
                false => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
            };
            SocketAddr::new(ip, self.ports[n])
        });
        match end {
            Socket::Lesser => [lesser, greater],
            Socket::Greater => [greater, lesser],
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn socket() -> impl Strategy<Value = (u128, u16)> {
        (prop_oneof![any::<u128>(), 0..4_u128], 0..3_u16)
    }

    proptest! {
        #[test]
        fn both_directions_are_of_one_connection(a in socket(), b in socket(), v6 in any::<bool>()) {
            let [a, b] = [a, b].map(|(bits, port)| {
                let ip = match v6 {
                    true => IpAddr::V6(Ipv6Addr::from_bits(bits)),
                    false => IpAddr::V4(Ipv4Addr::from_bits(bits as u32)),
                };
                SocketAddr::new(ip, port)
            });
            let ((there, from), (back, to)) = (Key::between(a, b), Key::between(b, a));
            prop_assert_eq!(there, back);
            prop_assert_eq!((there.ends_from(from), there.ends_from(to)), ([a, b], [b, a]));
            prop_assert_eq!(from == to, a == b);
        }
    }
}
