//! SYN cookies: answering SYNs without keeping anything (RFC 4987 section 3.6).
//!
//! The initial sequence number of the SYN-ACK is a keyed hash of all that the connection needs,
//! and the third segment of the handshake brings it back. What does not fit there (window scale,
//! SACK, ECN) rides in the low bits of the timestamp, which comes back too; without timestamps
//! these options are not negotiated. The hash covers both, so nobody makes up a connection or
//! its options: a guess is right once in 2^24, and only while cookies are being sent.
//!
//! Given up, as everywhere: the exact MSS (the next smaller of eight), the window of the SYN, and
//! a retransmission of the SYN-ACK by us; the peer repeats its SYN.

use super::demux::FourTuple;
use crate::config::{TcpConfig, TimestampMode};
use crate::siphash::SipKey;
use crate::wire::{Flags, Seq, TcpHeader, TcpOptions, Timestamps};
use narrows_congestion::{Duration, Instant};

/// When a listener answers SYNs without keeping state.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SynCookies {
    /// Never: a SYN beyond the backlog is dropped.
    Off,
    /// When its backlog is full.
    #[default]
    WhenFull,
    /// Always.
    Always,
}

/// A cookie is good in the period it was made in and in the next.
const PERIOD: Duration = Duration::from_secs(64);
/// After the last cookie was sent, how long an acknowledgement may be the answer to one.
pub(super) const LIFETIME: Duration = Duration::from_secs(128);

/// MSS values that a cookie can tell, ascending: the common ones, Ethernet with and without
/// tunnels and IPv6, jumbo frames.
const MSS: [u16; 8] = [64, 536, 1_220, 1_380, 1_440, 1_460, 4_000, 8_940];

/// In the timestamp: 4 bits of window scale (15: none), SACK, ECN.
const TIMESTAMP_BITS: u32 = 0x3f;
const NO_SCALE: u32 = 15;
const SACK: u32 = 1 << 4;
const ECN: u32 = 1 << 5;
/// Stands for the bits above if the peer has no timestamps.
const NO_TIMESTAMPS: u32 = u32::MAX;

/// Makes cookies and knows them again.
#[derive(Clone, Debug)]
pub(super) struct Cookies(pub(super) SipKey);

impl Cookies {
    /// The initial sequence number for the answer to `syn`, which is already
    /// [reduced](reduce), and the low bits of its timestamp.
    pub(super) fn make(&self, tuple: &FourTuple, syn: &TcpHeader, now: Instant) -> Seq {
        let mss = mss_index(syn.options.mss.unwrap_or(0));
        self.cookie(tuple, syn.seq, period(now), mss, timestamp_bits(syn))
    }

    /// The SYN, as far as it is known, that `ack` completes a handshake for; `None` if it
    /// answers no cookie of ours. `config` is that of the listener.
    pub(super) fn open(
        &self,
        tuple: &FourTuple,
        ack: &TcpHeader,
        config: &TcpConfig,
        now: Instant,
    ) -> Option<TcpHeader> {
        let cookie = ack.ack - 1;
        let irs = ack.seq - 1;
        let echo = ack.options.timestamps.filter(|_| has_timestamps(config));
        let bits = echo.map_or(NO_TIMESTAMPS, |ts| ts.ecr & TIMESTAMP_BITS);
        let mss = (cookie.0 >> 24) & 7;
        // The counter in the cookie has five bits: only the two periods that may be meant are
        // tried.
        let current = period(now);
        let is_of = |period| self.cookie(tuple, irs, period, mss, bits) == cookie;
        let good = is_of(current) || current.checked_sub(1).is_some_and(is_of);
        good.then(|| told(ack, irs, mss, bits))
    }

    /// Five bits of period, three of MSS, 24 of hash.
    fn cookie(&self, tuple: &FourTuple, irs: Seq, period: u64, mss: u32, bits: u32) -> Seq {
        let [a, b, c, d, e] = tuple.words();
        let peer = u64::from(irs.0) << 32 | u64::from(bits);
        let offer = period << 3 | u64::from(mss);
        let hash = self.0.sip24([a, b, c, d, e, peer, offer]) as u32 & 0xff_ffff;
        Seq((period as u32 & 31) << 27 | mss << 24 | hash)
    }
}

/// The answer of such a listener has the option, if the SYN has.
fn has_timestamps(config: &TcpConfig) -> bool {
    config.timestamps != TimestampMode::Off
}

/// `syn` with what a cookie cannot tell taken out, so that the answer offers no more than the
/// connection will have; timestamps, too, where the listener's `config` has none: what rides in
/// them would not come back. `default_mss` is the peer's if its SYN names none.
pub(super) fn reduce(syn: &TcpHeader, config: &TcpConfig, default_mss: u16) -> TcpHeader {
    let mss = mss_index(syn.options.mss.unwrap_or(default_mss));
    let bits = match has_timestamps(config) {
        true => timestamp_bits(syn),
        false => NO_TIMESTAMPS,
    };
    told(syn, syn.seq, mss, bits)
}

/// The timestamp of the answer: at most `clock`, with the offer in its low bits.
pub(super) fn stamp(clock: u32, syn: &TcpHeader) -> u32 {
    let bits = timestamp_bits(syn) & TIMESTAMP_BITS;
    let stamp = clock & !TIMESTAMP_BITS | bits;
    // Not from the future: the connection's own clock goes on from here.
    if bits > clock & TIMESTAMP_BITS {
        stamp.wrapping_sub(TIMESTAMP_BITS + 1)
    } else {
        stamp
    }
}

fn period(now: Instant) -> u64 {
    now.as_nanos() / PERIOD.as_nanos()
}

/// The greatest that is not above the peer's.
fn mss_index(mss: u16) -> u32 {
    MSS.partition_point(|m| *m <= mss).saturating_sub(1) as u32
}

fn timestamp_bits(syn: &TcpHeader) -> u32 {
    if syn.options.timestamps.is_none() {
        return NO_TIMESTAMPS;
    }
    let scale = (syn.options.window_scale).map_or(NO_SCALE, |scale| u32::from(scale).min(14));
    let bit = |on: bool, bit: u32| if on { bit } else { 0 };
    let offers_ecn = syn.flags.contains(Flags::ECE | Flags::CWR);
    scale | bit(syn.options.sack_permitted, SACK) | bit(offers_ecn, ECN)
}

/// The SYN of the peer whose SYN or acknowledgement `header` is, as far as a cookie tells.
fn told(header: &TcpHeader, irs: Seq, mss: u32, bits: u32) -> TcpHeader {
    let fancy = bits != NO_TIMESTAMPS;
    let scale = bits & NO_SCALE;
    let ecn = (Flags::ECE | Flags::CWR).when(fancy && bits & ECN != 0);
    TcpHeader {
        src_port: header.src_port,
        dst_port: header.dst_port,
        seq: irs,
        flags: Flags::SYN | ecn,
        window: header.window,
        options: TcpOptions {
            mss: Some(MSS[mss as usize & 7]),
            window_scale: (fancy && scale != NO_SCALE).then_some(scale as u8),
            sack_permitted: fancy && bits & SACK != 0,
            timestamps: (header.options.timestamps.filter(|_| fancy)).map(|ts| Timestamps {
                val: ts.val,
                ecr: 0,
            }),
            ..TcpOptions::default()
        },
        ..TcpHeader::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn tuple(port: u16) -> FourTuple {
        FourTuple::new(([10, 0, 0, 1], 80).into(), ([10, 0, 0, 2], port).into())
    }

    fn cookies() -> Cookies {
        Cookies(SipKey::new(1, 2))
    }

    fn at(secs: u64) -> Instant {
        Instant::ZERO + Duration::from_secs(secs)
    }

    fn syn_with(options: TcpOptions, ecn: bool) -> TcpHeader {
        let ecn = if ecn {
            Flags::ECE | Flags::CWR
        } else {
            Flags::NONE
        };
        TcpHeader {
            seq: Seq(77),
            flags: Flags::SYN | ecn,
            options,
            ..TcpHeader::default()
        }
    }

    /// What a peer answers to the SYN-ACK with that cookie.
    fn answer(syn: &TcpHeader, cookie: Seq, clock: u32) -> TcpHeader {
        TcpHeader {
            seq: syn.seq + 1,
            ack: cookie + 1,
            flags: Flags::ACK,
            options: TcpOptions {
                timestamps: syn.options.timestamps.map(|ts| Timestamps {
                    val: ts.val,
                    ecr: stamp(clock, syn),
                }),
                ..TcpOptions::default()
            },
            ..TcpHeader::default()
        }
    }

    fn plain() -> TcpHeader {
        reduce(
            &syn_with(
                TcpOptions {
                    mss: Some(1_460),
                    ..TcpOptions::default()
                },
                false,
            ),
            &TcpConfig::default(),
            536,
        )
    }

    fn open(c: &Cookies, tuple: &FourTuple, ack: &TcpHeader, now: Instant) -> Option<TcpHeader> {
        c.open(tuple, ack, &TcpConfig::default(), now)
    }

    #[test]
    fn a_cookie_is_good_for_one_to_two_periods() {
        let (c, syn) = (cookies(), plain());
        let good = |made, seen| {
            let cookie = c.make(&tuple(9), &syn, at(made));
            open(&c, &tuple(9), &answer(&syn, cookie, 0), at(seen)).is_some()
        };
        assert!(good(0, 0) && good(0, 127) && good(63, 127) && good(64, 191));
        assert!(!good(0, 128) && !good(63, 128) && !good(64, 0));
        // Once around the five bits of the counter.
        assert!(!good(0, 32 * 64));
    }

    #[test]
    fn a_cookie_is_good_for_nobody_else_and_nothing_else() {
        let (c, syn) = (cookies(), plain());
        let cookie = c.make(&tuple(9), &syn, at(5));
        let honest = answer(&syn, cookie, 0);
        assert!(open(&c, &tuple(9), &honest, at(5)).is_some());
        assert!(open(&c, &tuple(8), &honest, at(5)).is_none());
        for forged in [
            TcpHeader {
                seq: honest.seq + 1,
                ..honest.clone()
            },
            TcpHeader {
                ack: honest.ack + 1,
                ..honest.clone()
            },
            // Another MSS.
            TcpHeader {
                ack: Seq(honest.ack.0 ^ 1 << 24),
                ..honest.clone()
            },
            // Options that were never offered.
            TcpHeader {
                options: TcpOptions {
                    timestamps: Some(Timestamps {
                        val: 1,
                        ecr: SACK | 7,
                    }),
                    ..TcpOptions::default()
                },
                ..honest.clone()
            },
        ] {
            assert!(open(&c, &tuple(9), &forged, at(5)).is_none(), "{forged:?}");
        }
        let others = Cookies(SipKey::new(1, 3));
        assert!(open(&others, &tuple(9), &honest, at(5)).is_none());
    }

    proptest! {
        #[test]
        fn what_was_offered_comes_back(
            mss in proptest::option::of(0_u16..),
            scale in proptest::option::of(0_u8..=20),
            (sack, ecn) in any::<(bool, bool)>(),
            timestamps in proptest::option::of(any::<u32>()),
            clock in any::<u32>(),
            stamps in any::<bool>(),
        ) {
            let mode = if stamps { TimestampMode::Micros } else { TimestampMode::Off };
            let config = TcpConfig { timestamps: mode, ..TcpConfig::default() };
            let options = TcpOptions {
                mss,
                window_scale: scale,
                sack_permitted: sack,
                timestamps: timestamps.map(|val| Timestamps { val, ecr: 0 }),
                ..TcpOptions::default()
            };
            let given = syn_with(options, ecn);
            let syn = reduce(&given, &config, 536);
            let cookie = cookies().make(&tuple(9), &syn, at(1_000));
            let ack = answer(&syn, cookie, clock);
            let back = cookies().open(&tuple(9), &ack, &config, at(1_000)).unwrap();
            prop_assert_eq!(&back.options, &syn.options);
            prop_assert_eq!((back.seq, back.flags), (syn.seq, syn.flags));
            // Never more than the peer said.
            let told = back.options.mss.unwrap();
            prop_assert!(told <= mss.unwrap_or(536).max(64));
            if let Some(ts) = ack.options.timestamps {
                prop_assert!(clock.wrapping_sub(ts.ecr) < 128);
            } else {
                prop_assert!(!back.options.sack_permitted && back.options.window_scale.is_none());
            }
        }
    }
}
