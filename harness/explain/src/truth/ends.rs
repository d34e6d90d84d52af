//! The ends of connections, each by a number.

use super::End;
use foldhash::fast::RandomState;
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::net::{IpAddr, SocketAddr, SocketAddrV4};
use std::ops::{Index, IndexMut};

/// An end of a connection, as [`Truth::end`](super::Truth::end) numbers it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndId(u32);

impl EndId {
    #[cfg(test)]
    pub(super) const FIRST: Self = Self(0);

    /// The other end of its connection.
    #[must_use]
    pub const fn peer(self) -> Self {
        Self(self.0 ^ 1)
    }

    const fn connection(self) -> usize {
        self.0 as usize / 2
    }

    const fn which(self) -> usize {
        self.0 as usize % 2
    }
}

/// Both ends of each connection that anything is known of.
#[derive(Debug, Default)]
pub(super) struct Ends {
    v4: HashMap<Addresses<u32>, EndId, RandomState>,
    v6: HashMap<Addresses<u128>, EndId, RandomState>,
    /// By connection.
    all: Vec<[End; 2]>,
    names: Vec<[SocketAddr; 2]>,
    /// The one asked for last: who hears of a packet often answers on the same connection at once.
    last: Option<(Addresses<u32>, EndId)>,
}

impl Ends {
    /// The number of the end whose own address comes first in `name`.
    pub(super) fn number(&mut self, name: [SocketAddr; 2]) -> EndId {
        match name {
            [SocketAddr::V4(local), SocketAddr::V4(remote)] => self.number_v4([local, remote]),
            _ => match self.v6.get(&Addresses::of_any(name)) {
                Some(number) => *number,
                None => self.add(name),
            },
        }
    }

    /// The same where both are IPv4.
    #[inline]
    pub(super) fn number_v4(&mut self, name: [SocketAddrV4; 2]) -> EndId {
        let addresses = Addresses::of_v4(name);
        match self.last {
            Some((last, number)) if addresses == last => return number,
            Some((last, number)) if addresses.mirrored() == last => return number.peer(),
            _ => {}
        }
        let number = match self.v4.get(&addresses) {
            Some(number) => *number,
            None => self.add(name.map(SocketAddr::V4)),
        };
        self.last = Some((addresses, number));
        number
    }

    #[cold]
    fn add(&mut self, name: [SocketAddr; 2]) -> EndId {
        let ends = 2 * self.all.len();
        let first = EndId(u32::try_from(ends).expect("they would not fit into memory"));
        let mirrored = [name[1], name[0]];
        // Who talks to itself is the first.
        for (name, number) in [(mirrored, first.peer()), (name, first)] {
            match name {
                [SocketAddr::V4(local), SocketAddr::V4(remote)] => {
                    self.v4.insert(Addresses::of_v4([local, remote]), number)
                }
                _ => self.v6.insert(Addresses::of_any(name), number),
            };
        }
        self.all.push(<[End; 2]>::default());
        self.names.extend([name, mirrored]);
        first
    }

    /// An end and its peer.
    #[inline]
    pub(super) fn pair(&mut self, end: EndId) -> (&mut End, &mut End) {
        let [a, b] = &mut self.all[end.connection()];
        match end.which() {
            0 => (a, b),
            _ => (b, a),
        }
    }

    /// The addresses of an end, its own first.
    pub(super) fn name(&self, end: EndId) -> [SocketAddr; 2] {
        self.names[end.0 as usize]
    }
}

impl Index<EndId> for Ends {
    type Output = End;

    #[inline]
    fn index(&self, end: EndId) -> &End {
        &self.all[end.connection()][end.which()]
    }
}

impl IndexMut<EndId> for Ends {
    #[inline]
    fn index_mut(&mut self, end: EndId) -> &mut End {
        &mut self.all[end.connection()][end.which()]
    }
}

/// The addresses of an end in few words, which are hashed for each packet wherever it is told of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Addresses<A> {
    hosts: [A; 2],
    ports: u32,
}

const fn ports_of(local: u16, remote: u16) -> u32 {
    (local as u32) << 16 | remote as u32
}

impl Hash for Addresses<u32> {
    #[inline]
    fn hash<H: Hasher>(&self, state: &mut H) {
        let [local, remote] = self.hosts.map(u64::from);
        state.write_u64(local << 32 | remote);
        state.write_u32(self.ports);
    }
}

impl Addresses<u32> {
    #[inline]
    fn mirrored(self) -> Self {
        let [local, remote] = self.hosts;
        Self {
            hosts: [remote, local],
            ports: self.ports.rotate_left(16),
        }
    }

    #[inline]
    fn of_v4([local, remote]: [SocketAddrV4; 2]) -> Self {
        Self {
            hosts: [local.ip().to_bits(), remote.ip().to_bits()],
            ports: ports_of(local.port(), remote.port()),
        }
    }
}

impl Hash for Addresses<u128> {
    fn hash<H: Hasher>(&self, state: &mut H) {
        for host in self.hosts {
            state.write_u128(host);
        }
        state.write_u32(self.ports);
    }
}

impl Addresses<u128> {
    /// IPv4 as the IPv6 addresses that it is mapped to (RFC 4291 section 2.5.5.2).
    fn of_any(ends: [SocketAddr; 2]) -> Self {
        let bits = |end: SocketAddr| match end.ip() {
            IpAddr::V4(v4) => v4.to_ipv6_mapped().to_bits(),
            IpAddr::V6(v6) => v6.to_bits(),
        };
        Self {
            hosts: ends.map(bits),
            ports: ports_of(ends[0].port(), ends[1].port()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_end_has_one_number_and_its_peer_the_other_of_the_pair() {
        let mut ends = Ends::default();
        let v4 = |n, port| SocketAddr::new(IpAddr::from([10, 0, 0, n]), port);
        let v6 = |n: u16, port| SocketAddr::new(IpAddr::from([0xfd00, 0, 0, 0, 0, 0, 0, n]), port);
        let names = [
            [v4(1, 80), v4(2, 5_000)],
            [v4(1, 80), v4(2, 5_001)],
            [v4(1, 5_000), v4(2, 80)],
            [v4(1, 80), v4(1, 80)],
            [v6(1, 80), v6(2, 5_000)],
        ];
        let numbers: Vec<EndId> = names.iter().map(|name| ends.number(*name)).collect();
        for (n, (name, number)) in names.into_iter().zip(&numbers).enumerate() {
            assert!(!numbers[..n].contains(number));
            assert_eq!(ends.number(name), *number);
            assert_eq!(ends.name(*number), name);
            assert_eq!(ends.name(number.peer()), [name[1], name[0]]);
            if name[0] != name[1] {
                assert_eq!(ends.number([name[1], name[0]]), number.peer());
            }
        }
    }
}
