//! Which connection, or which listener, a segment belongs to.
//!
//! A table of 16 bytes a connection for IPv4 and 40 for IPv6, holding the index of the
//! connection beside the whole key, so that a look-up reads one place in memory however many
//! connections there are.

use super::ListenerId;
use super::turns::Turn;
use crate::siphash::SipKey;
use crate::table::{Entry, Table};
use crate::wire::{IpHeader, PlainSegment, TcpHeader};
use narrows_congestion::order::OrderedMap;
use std::net::{IpAddr, SocketAddr};

/// Names a connection: two addresses with their ports. The addresses are of one family.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
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

    /// Of a packet that came.
    #[inline]
    pub(crate) fn of(ip: &IpHeader, tcp: &TcpHeader) -> Self {
        let local = SocketAddr::new(ip.dst, tcp.dst_port);
        Self::new(local, SocketAddr::new(ip.src, tcp.src_port))
    }

    /// Local address, remote address, ports.
    #[inline]
    pub(crate) fn words(&self) -> [u64; 5] {
        let ([a, b], [c, d]) = (ip_words(self.local.ip()), ip_words(self.remote.ip()));
        [a, b, c, d, u64::from(ports(self))]
    }
}

/// Four-tuples of connections, each with an index of the caller's, and addresses of listeners.
pub struct Demux {
    /// By port and address, which is the unspecified one for all of its family.
    pub(super) listeners: OrderedMap<(u16, IpAddr), ListenerId>,
    v6: Table<V6>,
    v4: Table<V4>,
    seeds: Seeds,
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

    /// Asks for the memory where a connection was found for whom it was this `turn`.
    #[inline]
    pub(super) fn ask_for(&self, turn: Turn) {
        self.v4.ask_for_place(turn.place as usize);
    }

    /// Enter a connection whose four-tuple has none. Its index is below 2^32 - 1.
    pub fn insert(&mut self, tuple: &FourTuple, index: u32) {
        debug_assert_eq!(self.lookup(tuple), None, "{tuple:?} twice");
        match V4::of(tuple, index) {
            Some(entry) => self.v4.insert(entry, &self.seeds),
            None => self.v6.insert(V6::of(tuple, index), &self.seeds),
        }
    }

    /// Take a connection out: its index, if it was there.
    pub fn remove(&mut self, tuple: &FourTuple) -> Option<u32> {
        match V4::of(tuple, 0) {
            Some(key) => self.v4.remove(&key, &self.seeds).map(|e| e.index),
            None => (self.v6.remove(&V6::of(tuple, 0), &self.seeds)).map(|e| e.index),
        }
    }

    /// The listener for segments to `local`: the most specific one.
    pub fn listener(&self, local: SocketAddr) -> Option<ListenerId> {
        let any = match local {
            SocketAddr::V4(_) => IpAddr::from([0; 4]),
            SocketAddr::V6(_) => IpAddr::from([0; 16]),
        };
        let at = |ip| self.listeners.get(&(local.port(), ip));
        at(local.ip()).or_else(|| at(any)).copied()
    }
}

/// The secret of the hash of four-tuples.
///
/// The hash is by folded multiplication with secret operands, at a third of the cost of
/// SipHash-1-3. It is not a pseudorandom function, and need not be: its values never leave the
/// table, and without the secret no set of keys is known to collide.
struct Seeds([u64; 5]);

impl Seeds {
    fn new(secret: &SipKey) -> Self {
        Self(core::array::from_fn(|i| secret.sip24([i as u64])))
    }
}

/// A word of two: their product, folded.
#[inline]
fn fold(a: u64, b: u64) -> u64 {
    let product = u128::from(a) * u128::from(b);
    product as u64 ^ (product >> 64) as u64
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
        self.find(demux, V4::of_plain(segment))
    }

    /// The same by way of the table: whose turn it is.
    #[inline]
    pub(super) fn turn_of(&mut self, demux: &Demux, segment: &PlainSegment) -> Option<Turn> {
        let (entry, place) = (demux.v4).find_place(&V4::of_plain(segment), &demux.seeds)?;
        self.0 = *entry;
        Some(Turn {
            slot: entry.index,
            place: place as u32,
        })
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

/// 16 bytes, in one cache line.
#[derive(Clone, Copy)]
#[repr(align(16))]
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
    fn of_plain(segment: &PlainSegment) -> Self {
        Self {
            ports: u32::from(segment.tcp.dst_port) << 16 | u32::from(segment.tcp.src_port),
            remote: segment.src.to_bits(),
            local: segment.dst.to_bits(),
            index: 0,
        }
    }

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
        Self {
            remote: ip_words(tuple.remote.ip()),
            local: ip_words(tuple.local.ip()),
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

/// An address as words of IPv6, high and low, an IPv4 address mapped (RFC 4291 section 2.5.5.2).
#[inline]
pub(crate) fn ip_words(addr: IpAddr) -> [u64; 2] {
    let bits = match addr {
        IpAddr::V4(addr) => addr.to_ipv6_mapped().to_bits(),
        IpAddr::V6(addr) => addr.to_bits(),
    };
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;
    use std::num::NonZeroU32;

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
                assert_eq!(d.lookup(t), None);
                d.insert(t, i as u32);
            }
            for (i, t) in tuples.iter().enumerate() {
                assert_eq!(d.lookup(t), Some(i as u32));
            }
        }
    }

    #[test]
    fn the_most_specific_listener_wins() {
        let local = |s: &str| s.parse::<SocketAddr>().unwrap();
        let mut d = demux();
        for (n, s) in ["0.0.0.0:80", "10.0.0.1:80", "[::]:81"].iter().enumerate() {
            let id = ListenerId(NonZeroU32::MIN.saturating_add(n as u32));
            d.listeners.insert((local(s).port(), local(s).ip()), id);
        }
        let found = |d: &Demux, s| d.listener(local(s)).map(|id| id.0.get());
        assert_eq!(found(&d, "10.0.0.1:80"), Some(2));
        assert_eq!(found(&d, "10.0.0.2:80"), Some(1));
        assert_eq!(found(&d, "[::1]:80"), None);
        assert_eq!(found(&d, "[::1]:81"), Some(3));
        assert_eq!(found(&d, "10.0.0.1:81"), None);
        d.listeners.remove(&(80, local("10.0.0.1:80").ip()));
        assert_eq!(found(&d, "10.0.0.1:80"), Some(1));
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
                    _ => match d.lookup(&t) {
                        None => {
                            d.insert(&t, n as u32);
                            prop_assert_eq!(model.insert(key, n as u32), None);
                        }
                        found => prop_assert_eq!(found, model.get(&key).copied()),
                    },
                }
                prop_assert_eq!(d.v4.len() + d.v6.len(), model.len());
            }
        }
    }
}
