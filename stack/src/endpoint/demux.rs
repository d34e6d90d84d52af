//! Which connection, or which listener, a segment belongs to.
//!
//! A table of 16 bytes a connection for IPv4 and 40 for IPv6, holding the index of the
//! connection beside the whole key, so that a look-up reads one place in memory however many
//! connections there are.

use super::seeds::{Seeds, fold};
use crate::siphash::SipKey;
use crate::table::{Entry, Table};
use crate::wire::PlainSegment;
use core::fmt;
use narrows_congestion::order::OrderedMap;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// Names a connection: two addresses with their ports. The addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct FourTuple {
    /// Our address and port.
    pub local: SocketAddr,
    /// The peer's.
    pub remote: SocketAddr,
}

impl FourTuple {
    /// From our side and the peer's.
    pub const fn new(local: SocketAddr, remote: SocketAddr) -> Self {
        Self { local, remote }
    }

    /// The addresses as IPv6 words, an IPv4 address mapped (RFC 4291 section 2.5.5.2), and the
    /// ports: local (high, low), remote (high, low), ports.
    #[inline]
    pub(super) fn words(&self) -> [u64; 5] {
        let halves = |addr: SocketAddr| {
            let bits = mapped(addr.ip()).to_bits();
            ((bits >> 64) as u64, bits as u64)
        };
        let (local, remote) = (halves(self.local), halves(self.remote));
        [local.0, local.1, remote.0, remote.1, u64::from(ports(self))]
    }
}

/// Something else already stands under that key: its index.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Taken(pub u32);

impl fmt::Display for Taken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "address in use by number {}", self.0)
    }
}

impl core::error::Error for Taken {}

/// Four-tuples of connections and addresses of listeners, each with an index of the caller's.
pub struct Demux {
    /// By port, then address, ascending; `None` is any address of either family.
    listeners: OrderedMap<(u16, Option<IpAddr>), u32>,
    v6: Table<V6>,
    v4: Table<V4>,
    seeds: Seeds,
}

impl fmt::Debug for Demux {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Demux")
            .field("connections", &self.len())
            .field("listeners", &self.listeners)
            .finish_non_exhaustive()
    }
}

impl Demux {
    /// An empty table. `secret` keeps peers from choosing addresses that collide.
    pub fn new(secret: &SipKey) -> Self {
        Self {
            seeds: Seeds::new(secret),
            v4: Table::new(),
            v6: Table::new(),
            listeners: OrderedMap::new(),
        }
    }

    /// The index of the connection with this four-tuple.
    #[inline]
    pub fn lookup(&self, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple, 0) {
            Some(key) => self.v4.find(&key, &self.seeds).map(|e| e.index),
            None => (self.v6.find(&V6::of(tuple, 0), &self.seeds)).map(|e| e.index),
        }
    }

    /// Asks for the memory where this four-tuple is looked up.
    #[inline]
    pub(super) fn ask_for(&self, tuple: &FourTuple) {
        match V4::of(tuple, 0) {
            Some(key) => self.v4.ask_for(&key, &self.seeds),
            None => self.v6.ask_for(&V6::of(tuple, 0), &self.seeds),
        }
    }

    /// Enter a connection. Its index is below 2^32 - 1.
    ///
    /// # Errors
    /// [`Taken`] if the four-tuple has one; nothing is changed.
    pub fn insert(&mut self, tuple: &FourTuple, index: u32) -> Result<(), Taken> {
        if let Some(index) = self.lookup(tuple) {
            return Err(Taken(index));
        }
        match V4::of(tuple, index) {
            Some(entry) => self.v4.insert(entry, &self.seeds),
            None => self.v6.insert(V6::of(tuple, index), &self.seeds),
        }
        Ok(())
    }

    /// Take a connection out: its index, if it was there.
    pub fn remove(&mut self, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple, 0) {
            Some(key) => self.v4.remove(&key, &self.seeds).map(|e| e.index),
            None => (self.v6.remove(&V6::of(tuple, 0), &self.seeds)).map(|e| e.index),
        }
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.v4.len() + self.v6.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Enter a listener. `addr`: one address; the unspecified address of a family for all of
    /// that family; `None` for all of both.
    ///
    /// # Errors
    /// [`Taken`] if one listens on exactly that; nothing is changed. A more specific listener
    /// beside a more general one is allowed, and wins.
    pub fn listen(&mut self, addr: Option<IpAddr>, port: u16, index: u32) -> Result<(), Taken> {
        if let Some(index) = self.listeners.get(&(port, addr)) {
            return Err(Taken(*index));
        }
        self.listeners.insert((port, addr), index);
        Ok(())
    }

    /// Take a listener out: its index, if it was there.
    pub fn unlisten(&mut self, addr: Option<IpAddr>, port: u16) -> Option<u32> {
        self.listeners.remove(&(port, addr))
    }

    /// The listener for segments to `local`: the most specific one.
    pub fn listener(&self, local: SocketAddr) -> Option<u32> {
        let any = match local {
            SocketAddr::V4(_) => IpAddr::from([0; 4]),
            SocketAddr::V6(_) => IpAddr::from([0; 16]),
        };
        [Some(local.ip()), Some(any), None]
            .iter()
            .find_map(|&addr| self.listeners.get(&(local.port(), addr)).copied())
    }
}

/// The IPv4 connection found last: segments come in trains, and a host with one connection need
/// not look into the table at all.
pub(super) struct LastFound(V4);

impl LastFound {
    /// None: to be set whenever one is taken out of the table.
    pub(super) const NONE: Self = Self(V4::EMPTY);

    /// [`Demux::lookup`], remembering the answer.
    #[inline]
    pub(super) fn look_up(&mut self, demux: &Demux, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple, 0) {
            Some(key) => self.find(demux, key),
            None => demux.lookup(tuple),
        }
    }

    /// The same for the connection of a plain segment that came.
    #[inline]
    pub(super) fn look_up_plain(&mut self, demux: &Demux, segment: &PlainSegment) -> Option<u32> {
        let ports = u32::from(segment.tcp.dst_port) << 16 | u32::from(segment.tcp.src_port);
        let key = V4 {
            ports,
            remote: segment.src.to_bits(),
            local: segment.dst.to_bits(),
            index: 0,
        };
        self.find(demux, key)
    }

    #[inline]
    fn find(&mut self, demux: &Demux, key: V4) -> Option<u32> {
        if self.0.same(&key) && !self.0.is_empty() {
            return Some(self.0.index);
        }
        let index = demux.v4.find(&key, &demux.seeds)?.index;
        self.0 = V4 { index, ..key };
        Some(index)
    }
}

/// 16 bytes.
#[derive(Clone, Copy)]
struct V4 {
    ports: u32,
    remote: u32,
    local: u32,
    index: u32,
}

/// Index of no connection.
const NONE: u32 = u32::MAX;

impl V4 {
    #[inline]
    fn of(tuple: &FourTuple, index: u32) -> Option<Self> {
        let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (tuple.local, tuple.remote) else {
            return None;
        };
        let (local, remote) = (local.ip().to_bits(), remote.ip().to_bits());
        Some(Self {
            ports: ports(tuple),
            remote,
            local,
            index,
        })
    }
}

impl Entry for V4 {
    type Seeds = Seeds;
    const EMPTY: Self = Self {
        ports: 0,
        remote: 0,
        local: 0,
        index: NONE,
    };

    #[inline]
    fn is_empty(&self) -> bool {
        self.index == NONE
    }
    #[inline]
    fn hash(&self, Seeds(seeds): &Seeds) -> u64 {
        let remote = (u64::from(self.ports) << 32) | u64::from(self.remote);
        let both = fold(remote ^ seeds[0], u64::from(self.local) ^ seeds[1]);
        fold(both ^ seeds[2], seeds[3] | 1)
    }
    #[inline]
    fn same(&self, other: &Self) -> bool {
        (self.ports, self.remote, self.local) == (other.ports, other.remote, other.local)
    }
}

/// 40 bytes.
#[derive(Clone, Copy)]
struct V6 {
    remote: [u64; 2],
    local: [u64; 2],
    ports: u32,
    index: u32,
}

impl V6 {
    #[inline]
    fn of(tuple: &FourTuple, index: u32) -> Self {
        let [local_high, local_low, remote_high, remote_low, _] = tuple.words();
        let (local, remote) = ([local_high, local_low], [remote_high, remote_low]);
        Self {
            remote,
            local,
            ports: ports(tuple),
            index,
        }
    }
}

impl Entry for V6 {
    type Seeds = Seeds;
    const EMPTY: Self = Self {
        remote: [0; 2],
        local: [0; 2],
        ports: 0,
        index: NONE,
    };

    #[inline]
    fn is_empty(&self) -> bool {
        self.index == NONE
    }
    #[inline]
    fn hash(&self, Seeds(seeds): &Seeds) -> u64 {
        let remote = fold(self.remote[0] ^ seeds[0], self.remote[1] ^ seeds[1]);
        let local = fold(self.local[0] ^ seeds[2], self.local[1] ^ seeds[3]);
        let both = fold(remote ^ u64::from(self.ports), local ^ seeds[4]);
        fold(both ^ seeds[2], seeds[3] | 1)
    }
    #[inline]
    fn same(&self, other: &Self) -> bool {
        // Field by field: equality of arrays of this size becomes a call of memcmp.
        self.remote[0] == other.remote[0]
            && self.remote[1] == other.remote[1]
            && self.local[0] == other.local[0]
            && self.local[1] == other.local[1]
            && self.ports == other.ports
    }
}

#[inline]
fn ports(tuple: &FourTuple) -> u32 {
    (u32::from(tuple.local.port()) << 16) | u32::from(tuple.remote.port())
}

#[inline]
fn mapped(addr: IpAddr) -> Ipv6Addr {
    match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped(),
        IpAddr::V6(addr) => addr,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    fn demux() -> Demux {
        Demux::new(&SipKey::new(1, 2))
    }

    fn tuple(local: &str, remote: &str) -> FourTuple {
        FourTuple {
            local: local.parse().unwrap(),
            remote: remote.parse().unwrap(),
        }
    }

    #[test]
    fn entries_are_as_small_as_stated() {
        assert_eq!(size_of::<V4>(), 16);
        assert_eq!(size_of::<V6>(), 40);
    }

    #[test]
    fn every_part_of_the_tuple_counts() {
        for tuples in [
            [
                tuple("10.0.0.1:80", "10.0.0.2:99"),
                tuple("10.0.0.1:99", "10.0.0.2:80"),
                tuple("10.0.0.2:80", "10.0.0.1:99"),
                tuple("10.0.0.1:80", "10.0.0.3:99"),
            ],
            [
                tuple("[fd00::1]:80", "[fd00::2]:99"),
                tuple("[fd00::1]:99", "[fd00::2]:80"),
                tuple("[fd00::2]:80", "[fd00::1]:99"),
                tuple("[fd00::1]:80", "[fd01::2]:99"),
            ],
        ] {
            let mut d = demux();
            for (i, t) in tuples.iter().enumerate() {
                assert_eq!(d.insert(t, i as u32), Ok(()));
                assert_eq!(d.insert(t, 99), Err(Taken(i as u32)));
            }
            for (i, t) in tuples.iter().enumerate() {
                assert_eq!(d.lookup(t), Some(i as u32));
            }
        }
    }

    #[test]
    fn the_most_specific_listener_wins() {
        let local = |s: &str| s.parse::<SocketAddr>().unwrap();
        let addr = |s: &str| Some(s.parse::<IpAddr>().unwrap());
        let mut d = demux();
        d.listen(None, 80, 1).unwrap();
        d.listen(addr("0.0.0.0"), 80, 2).unwrap();
        d.listen(addr("10.0.0.1"), 80, 3).unwrap();
        assert_eq!(d.listen(None, 80, 9), Err(Taken(1)));
        assert_eq!(d.listener(local("10.0.0.1:80")), Some(3));
        assert_eq!(d.listener(local("10.0.0.2:80")), Some(2));
        assert_eq!(d.listener(local("[::1]:80")), Some(1));
        assert_eq!(d.listener(local("10.0.0.1:81")), None);
        assert_eq!(d.unlisten(addr("10.0.0.1"), 80), Some(3));
        assert_eq!(d.unlisten(addr("10.0.0.1"), 80), None);
        assert_eq!(d.listener(local("10.0.0.1:80")), Some(2));
    }

    /// The hash spreads the regular keys that networks are full of: few equal values in any 16
    /// bits that a table may use.
    #[test]
    fn regular_keys_spread() {
        let seeds = Seeds::new(&SipKey::new(3, 4));
        let v4 = |i: u32| V4 {
            ports: 80 << 16 | i & 0xff,
            remote: i >> 8,
            local: 1,
            index: 0,
        };
        let v6 = |i: u32| V6 {
            remote: [0xfd00 << 48, u64::from(i >> 8)],
            local: [0xfd00 << 48, 1],
            ports: 80 << 16 | i & 0xff,
            index: 0,
        };
        let v4 = (0..1 << 16).map(|i| v4(i).hash(&seeds));
        let v6 = (0..1 << 16).map(|i| v6(i).hash(&seeds));
        for hashes in [v4.collect::<Vec<_>>(), v6.collect()] {
            for shift in [0, 16, 32, 48] {
                let mut seen = vec![0u8; 1 << 16];
                hashes
                    .iter()
                    .for_each(|h| seen[(h >> shift) as usize & 0xffff] += 1);
                // Thrown at random, 1/e of the places stay empty and none gets above a dozen.
                let empty = seen.iter().filter(|&&n| n == 0).count();
                assert!(
                    (22_000..26_000).contains(&empty),
                    "shift {shift}: {empty} empty"
                );
                assert!(seen.iter().all(|&n| n <= 12), "shift {shift}");
            }
        }
    }

    fn any_tuple() -> impl Strategy<Value = FourTuple> {
        (any::<bool>(), 0u8..4, 0u8..4, 0u16..3, 0u16..3).prop_map(|(v6, a, b, p, q)| {
            let ip = |x: u8| -> IpAddr {
                if v6 {
                    IpAddr::from([x; 16])
                } else {
                    IpAddr::from([x; 4])
                }
            };
            FourTuple {
                local: SocketAddr::new(ip(a), p),
                remote: SocketAddr::new(ip(b), q),
            }
        })
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(
            ops in proptest::collection::vec((any_tuple(), 0u8..3), 0..300),
        ) {
            let (mut d, mut model, mut last) = (demux(), BTreeMap::new(), LastFound::NONE);
            for (n, (t, op)) in ops.into_iter().enumerate() {
                let key = (t.local, t.remote);
                match op {
                    0 => {
                        prop_assert_eq!(d.lookup(&t), model.get(&key).copied());
                        prop_assert_eq!(last.look_up(&d, &t), model.get(&key).copied());
                        prop_assert_eq!(last.look_up(&d, &t), model.get(&key).copied());
                    }
                    1 => {
                        prop_assert_eq!(d.remove(&t), model.remove(&key));
                        last = LastFound::NONE;
                    }
                    _ => match d.insert(&t, n as u32) {
                        Ok(()) => prop_assert_eq!(model.insert(key, n as u32), None),
                        Err(Taken(i)) => prop_assert_eq!(model.get(&key), Some(&i)),
                    },
                }
                prop_assert_eq!(d.len(), model.len());
            }
        }
    }
}
