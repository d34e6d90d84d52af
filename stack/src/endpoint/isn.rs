//! Numbers that must not be guessed: initial sequence numbers (RFC 6528), timestamp offsets
//! (RFC 7323 section 5.4) and ephemeral ports (RFC 6056).
//!
//! All are the same keyed hash of the addresses, each with a key of its own.

use super::demux::FourTuple;
use crate::siphash::SipKey;
use crate::wire::Seq;
use core::ops::RangeInclusive;
use narrows_congestion::Instant;
use std::net::{IpAddr, SocketAddr};

/// The endpoint's secrets.
#[derive(Clone, Debug)]
pub struct Secrets {
    isn: SipKey,
    timestamp: SipKey,
    port: SipKey,
    table: SipKey,
    cookie: SipKey,
}

impl Secrets {
    /// From 128 bits that no peer knows: from the operating system on a live network, from the
    /// seed in a simulation.
    pub fn new(k0: u64, k1: u64) -> Self {
        let master = SipKey::new(k0, k1);
        Self {
            isn: master.derive(1),
            timestamp: master.derive(2),
            port: master.derive(3),
            table: master.derive(4),
            cookie: master.derive(5),
        }
    }

    /// The key for hash tables whose keys peers choose.
    pub fn table(&self) -> &SipKey {
        &self.table
    }

    /// The key of SYN cookies.
    pub fn cookie(&self) -> &SipKey {
        &self.cookie
    }

    /// The initial sequence number of a connection opened at `now`: `M + F(localip, localport,
    /// remoteip, remoteport, secretkey)`, RFC 6528 section 3, M counting 4 us.
    ///
    /// For one four-tuple it moves on with time, so that a later incarnation starts beyond an
    /// earlier one that sent less than 250 kB/s on average.
    pub fn isn(&self, now: Instant, tuple: &FourTuple) -> Seq {
        let m = now.as_nanos() / 4_000;
        Seq((m as u32).wrapping_add(self.isn.sip24(tuple.words()) as u32))
    }

    /// What a connection adds to its timestamp clock: hides how long the host has been up, and
    /// is the same for each incarnation of a four-tuple, so that timestamps tell old segments
    /// from new ones across incarnations (RFC 6191).
    pub fn timestamp_offset(&self, tuple: &FourTuple) -> u32 {
        self.timestamp.sip24(tuple.words()) as u32
    }

    /// `F` of RFC 6056 section 3.3.3: of the tuple without the local port.
    fn port_offset(&self, local: IpAddr, remote: SocketAddr) -> u32 {
        let tuple = FourTuple::new(SocketAddr::new(local, 0), remote);
        self.port.sip24(tuple.words()) as u32
    }
}

/// Chooses local ports for active opens, RFC 6056 section 3.3.3 (algorithm 3): a hash of the
/// destination gives the place to start, a counter moves on from there.
///
/// To one destination ports come in sequence, so that one is reused as late as can be; what
/// sequence another sees is hidden from each.
#[derive(Clone, Debug)]
pub struct EphemeralPorts {
    first: u16,
    count: u32,
    next: u32,
}

impl EphemeralPorts {
    /// The dynamic ports of IANA, 49152 to 65535 (RFC 6335 section 6).
    pub const DYNAMIC: RangeInclusive<u16> = 49_152..=65_535;

    /// Choose from `range`; port 0 is left out.
    pub fn new(range: RangeInclusive<u16>) -> Self {
        let first = (*range.start()).max(1);
        let count = (u32::from(*range.end()) + 1).saturating_sub(u32::from(first));
        Self {
            first,
            count,
            next: 0,
        }
    }

    /// A port for a connection from `local` to `remote` that `is_free` agrees to; `None` if it
    /// agrees to none of the range. Each port is asked for at most once.
    pub fn choose(
        &mut self,
        secrets: &Secrets,
        local: IpAddr,
        remote: SocketAddr,
        mut is_free: impl FnMut(u16) -> bool,
    ) -> Option<u16> {
        let offset = secrets.port_offset(local, remote);
        for _ in 0..self.count {
            // Reduced before it is added: no jump where the sum would pass 2^32.
            let step = (offset % self.count + self.next) % self.count;
            self.next = (self.next + 1) % self.count;
            let port = self.first + step as u16;
            if is_free(port) {
                return Some(port);
            }
        }
        None
    }
}

impl Default for EphemeralPorts {
    fn default() -> Self {
        Self::new(Self::DYNAMIC)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use narrows_congestion::Duration;

    const LOCAL: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));

    fn tuple(local_port: u16, remote: &str) -> FourTuple {
        FourTuple::new(SocketAddr::new(LOCAL, local_port), remote.parse().unwrap())
    }

    fn peer(host: u8) -> SocketAddr {
        SocketAddr::from(([10, 0, 0, host], 80))
    }

    /// RFC 6528 section 3: M ticks every 4 us and wraps, F is fixed per four-tuple.
    #[test]
    fn rfc6528_the_clock_ticks_every_4_us() {
        let s = Secrets::new(1, 2);
        let t = tuple(1, "10.0.0.2:80");
        let start = s.isn(Instant::ZERO, &t);
        let after = |ns| s.isn(Instant::from_nanos(ns), &t).since(start);
        assert_eq!(after(3_999), 0);
        assert_eq!(after(4_000), 1);
        assert_eq!(after(1_000_000_000), 250_000);
        assert_eq!(after(4_000 << 32), 0);
        s.isn(Instant::MAX, &t);
    }

    #[test]
    fn every_input_counts() {
        let all = |s: Secrets, t: &FourTuple| [s.isn(Instant::ZERO, t).0, s.timestamp_offset(t)];
        let base = tuple(1, "10.0.0.2:80");
        let mut seen = all(Secrets::new(1, 2), &base).to_vec();
        for other in [
            tuple(2, "10.0.0.2:80"),
            tuple(1, "10.0.0.3:80"),
            tuple(1, "10.0.0.2:81"),
        ] {
            seen.extend(all(Secrets::new(1, 2), &other));
        }
        seen.extend(all(Secrets::new(1, 3), &base));
        seen.extend(all(Secrets::new(0, 2), &base));
        let numbers = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), numbers);
    }

    #[test]
    fn the_timestamp_offset_stays_across_incarnations() {
        let s = Secrets::new(1, 2);
        let t = tuple(1, "[fd00::1]:80");
        assert_eq!(
            s.timestamp_offset(&t),
            Secrets::new(1, 2).timestamp_offset(&t)
        );
        let later = Instant::ZERO + Duration::from_secs(1);
        assert_ne!(s.isn(later, &t), s.isn(Instant::ZERO, &t));
    }

    #[test]
    fn ports_to_one_destination_are_used_in_turn() {
        let s = Secrets::new(1, 2);
        let mut ports = EphemeralPorts::new(100..=109);
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

    #[test]
    fn a_full_range_is_searched_once_and_the_last_free_port_is_found() {
        let s = Secrets::new(1, 2);
        let mut ports = EphemeralPorts::default();
        let mut asked = 0;
        let full = ports.choose(&s, LOCAL, peer(2), |_| {
            asked += 1;
            false
        });
        assert_eq!((full, asked), (None, 16_384));
        // Every port there is can be found, in a range that does not divide 2^16.
        let mut ports = EphemeralPorts::new(0..=65_535);
        for want in [1, 40_000, 65_535, 2] {
            assert_eq!(
                ports.choose(&s, LOCAL, peer(2), |port| port == want),
                Some(want)
            );
        }
    }

    #[test]
    fn odd_ranges() {
        let s = Secrets::new(1, 2);
        #[allow(clippy::reversed_empty_ranges)] // What is tested.
        for (range, want) in [(10..=5, None), (0..=0, None), (0..=1, Some(1))] {
            let mut ports = EphemeralPorts::new(range);
            assert_eq!(ports.choose(&s, LOCAL, peer(2), |_| true), want);
        }
    }

    #[test]
    fn where_the_sequence_starts_depends_on_the_destination() {
        let s = Secrets::new(1, 2);
        let mut first: Vec<Option<u16>> = (1..=8)
            .map(|host| EphemeralPorts::default().choose(&s, LOCAL, peer(host), |_| true))
            .collect();
        first.sort_unstable();
        first.dedup();
        assert_eq!(first.len(), 8);
    }
}
