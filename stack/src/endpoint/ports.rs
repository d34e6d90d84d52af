//! Local ports for active opens (RFC 6056).

use super::demux::FourTuple;
use super::isn::Secrets;
use crate::rng::Rng;
use core::ops::RangeInclusive;
use narrows_congestion::order::OrderedMap;
use std::net::{IpAddr, SocketAddr};

/// Sequences of ports. Destinations share one by chance: what a destination sees of it are its own
/// connections and those of one other in so many, blurred by [`MAX_SKIP`].
const SEQUENCES: usize = 1_024;
/// A sequence moves on by up to so many ports.
const MAX_SKIP: u32 = 8;
/// After so many ports that were in use, those that are free to the destination are listed.
const TRIES: u32 = 64;

/// Chooses local ports for active opens, RFC 6056 section 3.3.4 (algorithm 4): a keyed hash of the
/// destination gives the place to start, and another which of many counters moves on from there,
/// by a few ports at random (section 3.3.5).
///
/// To one destination a port is not used again soon; and what it sees twice tells it next to
/// nothing of how many connections were made to others meanwhile.
#[derive(Debug)]
pub struct EphemeralPorts {
    first: u16,
    count: u32,
    /// From the first port that is asked for on.
    counters: Option<Box<[u16; SEQUENCES]>>,
    rng: Rng,
    /// Where most ports are in use the others are known, ascending, so that one, or that there is
    /// none, is found without a look at each.
    free: OrderedMap<(IpAddr, SocketAddr), Vec<u16>>,
}

impl EphemeralPorts {
    /// The dynamic ports of IANA, 49152 to 65535 (RFC 6335 section 6).
    pub const DYNAMIC: RangeInclusive<u16> = 49_152..=65_535;

    /// Choose from `range`; port 0 is left out.
    pub fn new(range: RangeInclusive<u16>, rng: Rng) -> Self {
        let first = (*range.start()).max(1);
        let count = (u32::from(*range.end()) + 1).saturating_sub(u32::from(first));
        Self {
            first,
            count,
            counters: None,
            rng,
            free: OrderedMap::new(),
        }
    }

    /// A port for a connection from `local` to `remote` that `is_free` agrees to; `None` if it
    /// agrees to none of the range. The caller tells of every connection that it
    /// [opens](Self::on_opened) and [closes](Self::on_closed).
    pub fn choose(
        &mut self,
        secrets: &Secrets,
        local: IpAddr,
        remote: SocketAddr,
        mut is_free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let (first, count) = (self.first, self.count);
        if count == 0 {
            return None;
        }
        let hash = secrets.port_hash(local, remote);
        let sequence = (hash >> 32) as usize % SEQUENCES;
        let counters = self.counters.get_or_insert_with(|| {
            let mut random = || self.rng.below(u64::from(count)) as u16;
            Box::new(core::array::from_fn(|_| random()))
        });
        // Reduced before it is added: no jump where the sum would pass 2^32.
        let start = (hash as u32 % count + u32::from(counters[sequence])) % count;
        let port_at = |step: u32| first + ((start + step) % count) as u16;
        let key = (local, remote);
        let are_listed = self.free.contains_key(&key);
        let mut tries = (0..count.min(TRIES)).take_while(|_| !are_listed);
        let step = if let Some(near) = tries.find(|step| is_free(port_at(*step))) {
            near
        } else {
            let all = (0..count).map(|index| first + index as u16);
            let list = || all.filter(|port| is_free(*port)).collect();
            let free = self.free.get_or_insert_with(key, list);
            let above = free.partition_point(|port| *port < port_at(0));
            let next = free.get(above).or(free.first())?;
            (u32::from(next - first) + count - start) % count
        };
        // A small range is used in turn.
        let skip = self.rng.below(u64::from((count / 128).clamp(1, MAX_SKIP))) as u32;
        let moved = u32::from(counters[sequence]) + step + 1 + skip;
        counters[sequence] = (moved % count) as u16;
        Some(port_at(step))
    }

    /// A connection begins, whoever opened it and chose its port.
    #[inline]
    pub fn on_opened(&mut self, tuple: &FourTuple) {
        if !self.free.is_empty()
            && let Some(free) = self.free_beside(tuple)
            && let Ok(place) = free.binary_search(&tuple.local.port())
        {
            free.remove(place);
        }
    }

    /// A connection has ended.
    #[inline]
    pub fn on_closed(&mut self, tuple: &FourTuple) {
        let many = self.count.saturating_sub(TRIES / 2) as usize;
        if !self.free.is_empty()
            && let Some(free) = self.free_beside(tuple)
            && let Err(place) = free.binary_search(&tuple.local.port())
        {
            free.insert(place, tuple.local.port());
            if free.len() > many {
                self.free.remove(&(tuple.local.ip(), tuple.remote));
            }
        }
    }

    /// The ports that are free beside that of `tuple`, if it is one to choose from, and they are listed.
    fn free_beside(&mut self, tuple: &FourTuple) -> Option<&mut Vec<u16>> {
        let index = u32::from(tuple.local.port()).checked_sub(u32::from(self.first))?;
        let key = (tuple.local.ip(), tuple.remote);
        (index < self.count).then(|| self.free.get_mut(&key))?
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn ports(range: RangeInclusive<u16>) -> EphemeralPorts {
        EphemeralPorts::new(range, crate::rng::Rng::new(1))
    }

    fn peer(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 80))
    }

    fn to(host: u8, port: u16) -> FourTuple {
        FourTuple::new(SocketAddr::new(LOCAL, port), peer(host))
    }

    #[test]
    fn few_ports_to_one_destination_are_used_in_turn() {
        let s = Secrets::new(&[1; 16]);
        let mut ports = ports(100..=109);
        let mut choose = || ports.choose(&s, LOCAL, peer(2), |_| true).unwrap();
        let mut seen: Vec<u16> = (0..10).map(|_| choose()).collect();
        assert_eq!(choose(), seen[0]);
        assert!(
            seen.windows(2)
                .all(|w| w[1] == w[0] + 1 || (w[0], w[1]) == (109, 100))
        );
        seen.sort_unstable();
        assert_eq!(seen, (100..=109).collect::<Vec<_>>());
    }

    /// RFC 6056 section 3.3.4: what a server sees twice does not tell it how many connections went
    /// elsewhere meanwhile; and its own do not come back to a port soon.
    #[test]
    fn rfc6056_3_3_4_a_destination_does_not_see_how_many_others_were_connected_to() {
        let s = Secrets::new(&[1; 16]);
        for others in [0, 1, 7, 100, 5_000] {
            let mut ports = ports(EphemeralPorts::DYNAMIC);
            let seen = ports.choose(&s, LOCAL, peer(2), |_| true).unwrap();
            for n in 0..others {
                ports.choose(&s, LOCAL, peer(3 + n as u8 % 20), |_| true);
            }
            let again = ports.choose(&s, LOCAL, peer(2), |_| true).unwrap();
            let moved = (u32::from(again) + 16_384 - u32::from(seen)) % 16_384;
            assert!((1..=MAX_SKIP).contains(&moved), "{others}: {moved}");
        }
        let mut ports = ports(EphemeralPorts::DYNAMIC);
        let mut seen = BTreeSet::new();
        for _ in 0..16_384 / MAX_SKIP {
            assert!(seen.insert(ports.choose(&s, LOCAL, peer(2), |_| true)));
        }
    }

    /// A look at each port takes a millisecond: not where there is none, nor where there is one.
    #[test]
    fn a_full_range_is_refused_and_its_last_free_port_found_without_a_search() {
        let s = Secrets::new(&[1; 16]);
        let mut ports = ports(EphemeralPorts::DYNAMIC);
        let mut used = BTreeSet::new();
        let mut dearest = 0;
        for _ in 0..16_384 {
            let mut asked = 0;
            let port = ports.choose(&s, LOCAL, peer(2), |port| {
                asked += 1;
                !used.contains(&port)
            });
            dearest = dearest.max(asked);
            assert!(used.insert(port.unwrap()));
            ports.on_opened(&to(2, port.unwrap()));
        }
        assert!(dearest > TRIES, "listed once: {dearest}");
        let never = |_: u16| panic!("asked for");
        for port in [50_000, 49_152, 65_535] {
            assert_eq!(ports.choose(&s, LOCAL, peer(2), never), None);
            ports.on_closed(&to(2, port));
            assert_eq!(ports.choose(&s, LOCAL, peer(2), never), Some(port));
            ports.on_opened(&to(2, port));
        }
        // Another destination has nothing to do with it, and nothing is kept of what is gone.
        assert!(ports.choose(&s, LOCAL, peer(3), |_| true).is_some());
        for port in EphemeralPorts::DYNAMIC {
            ports.on_closed(&to(2, port));
        }
        assert!(ports.free.is_empty());
    }

    #[test]
    fn odd_ranges() {
        let s = Secrets::new(&[1; 16]);
        #[allow(clippy::reversed_empty_ranges)] // What is tested.
        for (range, want) in [(10..=5, None), (0..=0, None), (0..=1, Some(1))] {
            let mut ports = ports(range);
            assert_eq!(ports.choose(&s, LOCAL, peer(2), |_| true), want);
        }
        // Every port there is can be found, in a range that does not divide 2^16.
        let mut ports = ports(0..=65_535);
        for want in [1, 40_000, 65_535, 2] {
            let chosen = ports.choose(&s, LOCAL, peer(2), |port| port == want);
            assert_eq!(chosen, Some(want));
            ports.free = OrderedMap::new();
        }
    }

    #[test]
    fn where_the_sequence_starts_depends_on_the_destination() {
        let s = Secrets::new(&[1; 16]);
        let mut first: Vec<Option<u16>> = (1..=8)
            .map(|host| ports(EphemeralPorts::DYNAMIC).choose(&s, LOCAL, peer(host), |_| true))
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
    }

    proptest! {
        /// With connections that come and go, a port is given exactly if one is free, and it is.
        #[test]
        fn a_port_is_found_exactly_if_there_is_one(
            last in 100_u16..400,
            ops in proptest::collection::vec((any::<bool>(), any::<u16>(), 1_usize..200), 1..40),
        ) {
            let s = Secrets::new(&[1; 16]);
            let mut ports = ports(100..=last);
            let mut used = BTreeSet::new();
            for (opens, which, times) in ops {
                for k in 0..times {
                    if opens {
                        let port = ports.choose(&s, LOCAL, peer(2), |p| !used.contains(&p));
                        prop_assert_eq!(port.is_none(), used.len() == usize::from(last - 99));
                        let Some(port) = port else { break };
                        prop_assert!((100..=last).contains(&port) && used.insert(port));
                        ports.on_opened(&to(2, port));
                    } else {
                        let nth = (usize::from(which) + k * 7) % used.len().max(1);
                        let Some(port) = used.iter().copied().nth(nth) else { break };
                        used.remove(&port);
                        ports.on_closed(&to(2, port));
                    }
                }
            }
        }
    }
}
