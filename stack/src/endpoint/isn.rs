//! Numbers that must not be guessed: initial sequence numbers (RFC 6528), timestamp offsets
//! (RFC 7323 section 5.4) and where ephemeral ports begin (RFC 6056; [`ports`](super::ports)).
//!
//! All are the same keyed hash of the addresses, each with a key of its own.

use super::demux::FourTuple;
use crate::rng::Rng;
use crate::siphash::SipKey;
use crate::wire::Seq;
use narrows_congestion::Instant;
use std::net::{IpAddr, SocketAddr};

/// The endpoint's secrets: one, of which a key for each purpose is derived when it is asked for.
#[derive(Clone, Debug)]
pub struct Secrets(SipKey);

impl Secrets {
    /// From 128 bits that no peer knows: from the operating system on a live network, from the
    /// seed in a simulation.
    pub const fn new(secret: &[u8; 16]) -> Self {
        Self(SipKey::from_bytes(secret))
    }

    /// Stream `number` of the endpoint's random numbers.
    pub(super) fn random(&self, number: u64) -> Rng {
        Rng::stream(self.0.folded(), number)
    }

    /// The key for hash tables whose keys peers choose.
    pub fn table(&self) -> SipKey {
        self.0.derive(4)
    }

    /// The key of SYN cookies.
    pub fn cookie(&self) -> SipKey {
        self.0.derive(5)
    }

    /// The key of Fast Open cookies.
    pub fn fast_open(&self) -> SipKey {
        self.0.derive(6)
    }

    /// The initial sequence number of a connection opened at `now`: `M + F(localip, localport,
    /// remoteip, remoteport, secretkey)`, RFC 6528 section 3, M counting 4 us.
    ///
    /// For one four-tuple it moves on with time, so that a later incarnation starts beyond an
    /// earlier one that sent less than 250 kB/s on average.
    pub fn isn(&self, now: Instant, tuple: &FourTuple) -> Seq {
        let m = now.as_nanos() / 4_000;
        let isn = self.0.derive(1);
        Seq((m as u32).wrapping_add(isn.sip24(tuple.words()) as u32))
    }

    /// What a connection adds to its timestamp clock: hides how long the host has been up, and
    /// is the same for each incarnation of a four-tuple, so that timestamps tell old segments
    /// from new ones across incarnations (RFC 6191).
    pub fn timestamp_offset(&self, tuple: &FourTuple) -> u32 {
        self.0.derive(2).sip24(tuple.words()) as u32
    }

    /// `F` and `G` of RFC 6056 section 3.3.4, in the lower and the upper half: of the tuple without
    /// the local port.
    pub(super) fn port_hash(&self, local: IpAddr, remote: SocketAddr) -> u64 {
        let tuple = FourTuple::new(SocketAddr::new(local, 0), remote);
        self.0.derive(3).sip24(tuple.words())
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

    /// RFC 6528 section 3: M ticks every 4 us and wraps, F is fixed per four-tuple.
    #[test]
    fn rfc6528_the_clock_ticks_every_4_us() {
        let s = Secrets(SipKey::new(1, 2));
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
        let mut seen = all(Secrets(SipKey::new(1, 2)), &base).to_vec();
        for other in [
            tuple(2, "10.0.0.2:80"),
            tuple(1, "10.0.0.3:80"),
            tuple(1, "10.0.0.2:81"),
        ] {
            seen.extend(all(Secrets(SipKey::new(1, 2)), &other));
        }
        seen.extend(all(Secrets(SipKey::new(1, 3)), &base));
        seen.extend(all(Secrets(SipKey::new(0, 2)), &base));
        let numbers = seen.len();
        seen.sort_unstable();
        seen.dedup();
        assert_eq!(seen.len(), numbers);
    }

    #[test]
    fn the_timestamp_offset_stays_across_incarnations() {
        let s = Secrets(SipKey::new(1, 2));
        let t = tuple(1, "[fd00::1]:80");
        assert_eq!(
            s.timestamp_offset(&t),
            Secrets(SipKey::new(1, 2)).timestamp_offset(&t)
        );
        let later = Instant::ZERO + Duration::from_secs(1);
        assert_ne!(s.isn(later, &t), s.isn(Instant::ZERO, &t));
    }
}
