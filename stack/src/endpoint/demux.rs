//! Which connection, or which listener, a segment belongs to.
//!
//! A table of 16 bytes a connection for IPv4 and 40 for IPv6, holding the index of the
//! connection beside the whole key, so that a look-up reads one place in memory however many
//! connections there are. Segments come in trains: the last hit is tried first.

use crate::siphash::SipKey;
use core::fmt;
use hashbrown::HashTable;
use std::collections::BTreeMap;
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
    seeds: Seeds,
    v4: Table<V4>,
    v6: Table<V6>,
    /// By port, then address; `None` is any address of either family.
    listeners: BTreeMap<(u16, Option<IpAddr>), u32>,
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
            listeners: BTreeMap::new(),
        }
    }

    /// The connection of this four-tuple.
    #[inline]
    pub fn lookup(&mut self, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple) {
            Some(key) => self.v4.lookup(&self.seeds, key),
            None => self.v6.lookup(&self.seeds, V6::of(tuple)),
        }
    }

    /// Enter a connection.
    ///
    /// # Errors
    /// [`Taken`] if the four-tuple has one; nothing is changed.
    pub fn insert(&mut self, tuple: &FourTuple, index: u32) -> Result<(), Taken> {
        match V4::of(tuple) {
            Some(key) => self.v4.insert(&self.seeds, key, index),
            None => self.v6.insert(&self.seeds, V6::of(tuple), index),
        }
    }

    /// Take a connection out: its index, if it was there.
    pub fn remove(&mut self, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple) {
            Some(key) => self.v4.remove(&self.seeds, key),
            None => self.v6.remove(&self.seeds, V6::of(tuple)),
        }
    }

    /// How many connections there are.
    pub fn len(&self) -> usize {
        self.v4.entries.len() + self.v6.entries.len()
    }

    /// Whether there is no connection.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Make room for this many more IPv4 connections at once: growing by insertion doubles the
    /// table each time, and one such step takes milliseconds from 100,000 on.
    pub fn reserve_v4(&mut self, additional: usize) {
        let seeds = &self.seeds;
        self.v4
            .entries
            .reserve(additional, |entry| entry.0.hash(seeds));
    }

    /// Enter a listener. `addr`: one address; the unspecified address of a family for all of
    /// that family; `None` for all of both.
    ///
    /// # Errors
    /// [`Taken`] if one listens on exactly that; nothing is changed. A more specific listener
    /// beside a more general one is allowed, and wins.
    pub fn listen(&mut self, addr: Option<IpAddr>, port: u16, index: u32) -> Result<(), Taken> {
        match self.listeners.get(&(port, addr)) {
            Some(&other) => Err(Taken(other)),
            None => {
                self.listeners.insert((port, addr), index);
                Ok(())
            }
        }
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

/// Keys of one family with the index of each.
struct Table<K> {
    entries: HashTable<(K, u32)>,
    last: Option<(K, u32)>,
}

impl<K: Key> Table<K> {
    const fn new() -> Self {
        Self {
            entries: HashTable::new(),
            last: None,
        }
    }

    #[inline]
    fn lookup(&mut self, seeds: &Seeds, key: K) -> Option<u32> {
        if let Some((last, index)) = self.last
            && last == key
        {
            return Some(index);
        }
        let entry = self.entries.find(key.hash(seeds), |entry| entry.0 == key)?;
        self.last = Some(*entry);
        Some(entry.1)
    }

    fn insert(&mut self, seeds: &Seeds, key: K, index: u32) -> Result<(), Taken> {
        let hash = key.hash(seeds);
        if let Some(entry) = self.entries.find(hash, |entry| entry.0 == key) {
            return Err(Taken(entry.1));
        }
        self.entries
            .insert_unique(hash, (key, index), |entry| entry.0.hash(seeds));
        Ok(())
    }

    fn remove(&mut self, seeds: &Seeds, key: K) -> Option<u32> {
        if self.last.is_some_and(|(last, _)| last == key) {
            self.last = None;
        }
        let entry = self
            .entries
            .find_entry(key.hash(seeds), |entry| entry.0 == key)
            .ok()?;
        Some(entry.remove().0.1)
    }
}

/// The secret of the hash.
struct Seeds([u64; 5]);

impl Seeds {
    fn new(secret: &SipKey) -> Self {
        Self(core::array::from_fn(|i| secret.sip24([i as u64])))
    }
}

/// A hash by folded multiplication with secret operands, a third of the cost of SipHash-1-3.
///
/// It is not a pseudorandom function, and need not be: its values never leave the table, and
/// without the secret no set of keys is known to collide.
trait Key: Copy + Eq {
    fn hash(&self, seeds: &Seeds) -> u64;
}

/// Ports (local above remote), remote address, local address: 32-bit words, so that key and
/// index are 16 bytes together.
#[derive(Clone, Copy, PartialEq, Eq)]
struct V4([u32; 3]);

impl V4 {
    #[inline]
    fn of(tuple: &FourTuple) -> Option<Self> {
        let (SocketAddr::V4(local), SocketAddr::V4(remote)) = (tuple.local, tuple.remote) else {
            return None;
        };
        Some(Self([
            ports(tuple),
            remote.ip().to_bits(),
            local.ip().to_bits(),
        ]))
    }
}

impl Key for V4 {
    #[inline]
    fn hash(&self, Seeds(seeds): &Seeds) -> u64 {
        let [ports, remote, local] = self.0.map(u64::from);
        let first = fold(ports << 32 | remote ^ seeds[0], local ^ seeds[1]);
        fold(first ^ seeds[2], seeds[3] | 1)
    }
}

/// Ports, then remote and local address in words.
#[derive(Clone, Copy, PartialEq, Eq)]
struct V6([u32; 9]);

impl V6 {
    #[inline]
    fn of(tuple: &FourTuple) -> Self {
        let remote = mapped(tuple.remote.ip()).to_bits();
        let local = mapped(tuple.local.ip()).to_bits();
        let word = |bits: u128, i: u32| (bits >> (32 * i)) as u32;
        Self([
            ports(tuple),
            word(remote, 0),
            word(remote, 1),
            word(remote, 2),
            word(remote, 3),
            word(local, 0),
            word(local, 1),
            word(local, 2),
            word(local, 3),
        ])
    }
}

impl Key for V6 {
    #[inline]
    fn hash(&self, Seeds(seeds): &Seeds) -> u64 {
        let pair = |i: usize| u64::from(self.0[i]) | u64::from(self.0[i + 1]) << 32;
        let remote = fold(pair(1) ^ seeds[0], pair(3) ^ seeds[1]);
        let local = fold(pair(5) ^ seeds[2], pair(7) ^ seeds[3]);
        let both = fold(remote ^ u64::from(self.0[0]), local ^ seeds[4]);
        fold(both ^ seeds[2], seeds[3] | 1)
    }
}

#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
}

#[inline]
fn ports(tuple: &FourTuple) -> u32 {
    u32::from(tuple.local.port()) << 16 | u32::from(tuple.remote.port())
}

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
        FourTuple::new(local.parse().unwrap(), remote.parse().unwrap())
    }

    #[test]
    fn entries_are_as_small_as_stated() {
        assert_eq!(size_of::<(V4, u32)>(), 16);
        assert_eq!(size_of::<(V6, u32)>(), 40);
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
                assert_eq!(d.lookup(t), Some(i as u32));
            }
        }
    }

    #[test]
    fn the_last_hit_does_not_outlive_its_connection() {
        let t = tuple("10.0.0.1:80", "10.0.0.2:99");
        let mut d = demux();
        d.insert(&t, 5).unwrap();
        assert_eq!(d.lookup(&t), Some(5));
        assert_eq!(d.remove(&t), Some(5));
        assert_eq!(d.lookup(&t), None);
        assert_eq!(d.remove(&t), None);
        d.insert(&t, 6).unwrap();
        assert_eq!(d.lookup(&t), Some(6));
        assert_eq!(d.len(), 1);
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
        assert_eq!(d.listener(local("10.0.0.1:80")), Some(2));
    }

    /// The hash spreads the regular keys that networks are full of: few equal values in any 16
    /// bits that a table may use.
    #[test]
    fn regular_keys_spread() {
        let seeds = Seeds::new(&SipKey::new(3, 4));
        let v4 = (0..1u32 << 16).map(|i| V4([80 << 16 | i & 0xff, i >> 8, 1]).hash(&seeds));
        let v6 = (0..1u32 << 16).map(|i| V6([i & 0xff, i >> 8, 0, 0, 1, 2, 3, 4, 5]).hash(&seeds));
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
            FourTuple::new(SocketAddr::new(ip(a), p), SocketAddr::new(ip(b), q))
        })
    }

    proptest! {
        #[test]
        fn agrees_with_an_ordered_map(
            ops in proptest::collection::vec((any_tuple(), 0u8..3), 0..300),
        ) {
            let (mut d, mut model) = (demux(), BTreeMap::new());
            for (n, (t, op)) in ops.into_iter().enumerate() {
                let key = (t.local, t.remote);
                match op {
                    0 => prop_assert_eq!(d.lookup(&t), model.get(&key).copied()),
                    1 => prop_assert_eq!(d.remove(&t), model.remove(&key)),
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
