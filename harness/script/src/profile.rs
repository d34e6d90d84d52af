//! The choices in which stacks legitimately differ.

use narrows::config::{
    AckPolicy, Buffers, IdleRestart, InitialWindow, Lifetimes, RecoverySending, SpuriousDetection,
    TcpConfig,
};
use narrows::congestion::{FlowStart, reno::Reno, rto::presets};
use narrows::fast_open::{FastOpen, FastOpenClient};
use narrows::recovery::detector;
use narrows::{ByteCount, Duration};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// Whose choices hold where the RFCs leave one.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Profile {
    /// The RFCs' own defaults: Reno, RFC 6298, RFC 6675, ten segments to begin with, an ACK for
    /// every second segment or after 200 ms.
    #[default]
    Rfc,
    /// Linux: CUBIC, RACK-TLP, PRR, RTO at least SRTT + 200 ms, quick acknowledgements.
    Linux,
    /// FreeBSD: CUBIC, RFC 6675, PRR, RTO with 200 ms of slop, a window of 65 KB with scale 6.
    Freebsd,
}

impl Profile {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Rfc, Self::Linux, Self::Freebsd];

    /// Its name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Rfc => "rfc",
            Self::Linux => "linux",
            Self::Freebsd => "freebsd",
        }
    }

    /// The TCP.
    pub fn tcp(self) -> TcpConfig {
        let by_name = |name| {
            (detector::standard().get(name)).unwrap_or_else(|_| TcpConfig::default().detector)
        };
        let two = |delay| AckPolicy {
            delay: Duration::from_millis(delay),
            every: 2,
            quick_acks: 0,
        };
        match self {
            Self::Rfc => TcpConfig {
                congestion: Arc::new(|start: &FlowStart| Reno::new(start)),
                rto: Arc::new(presets::rfc6298),
                detector: by_name("sack"),
                recovery: RecoverySending::Pipe,
                spurious: SpuriousDetection::OFF,
                initial_window: InitialWindow::Rfc6928,
                idle_restart: IdleRestart::Rfc5681,
                ack: two(200),
                buffers: Buffers {
                    recv: 1 << 18,
                    ..Buffers::default()
                },
                lifetimes: Lifetimes {
                    time_wait: Duration::from_secs(240),
                    ..Lifetimes::default()
                },
                ..TcpConfig::default()
            },
            Self::Linux => TcpConfig {
                idle_restart: IdleRestart::Rfc2861,
                buffers: Buffers {
                    recv: 15 << 20,
                    window_clamp: Some(ByteCount::new(65_535)),
                    ..Buffers::default()
                },
                lifetimes: Lifetimes {
                    syn_retries: 6,
                    ..Lifetimes::default()
                },
                // What sockets that ask for it may do.
                fast_open: FastOpen {
                    client: FastOpenClient::Cookie,
                    ..FastOpen::default()
                },
                ..TcpConfig::default()
            },
            Self::Freebsd => TcpConfig {
                rto: Arc::new(presets::bsd),
                detector: by_name("sack"),
                spurious: SpuriousDetection::OFF,
                ack: two(40),
                buffers: Buffers {
                    recv: 65_535 << 6,
                    window_clamp: Some(ByteCount::new(66_240)),
                    ..Buffers::default()
                },
                ..TcpConfig::default()
            },
        }
    }

    /// How far a packet may be from its time unless the script says otherwise.
    pub const fn tolerance(self) -> Duration {
        match self {
            Self::Rfc => Duration::from_millis(1),
            _ => Duration::from_millis(4),
        }
    }

    /// The same, in thousandths of the time since the step before.
    pub const fn tolerance_per_mille(self) -> u64 {
        match self {
            Self::Rfc => 0,
            _ => 125,
        }
    }

    /// When a push is set is the stack's own choice, except here.
    pub const fn compares_push(self) -> bool {
        matches!(self, Self::Rfc)
    }

    /// `tcpi_snd_cwnd` and `tcpi_snd_ssthresh` count bytes, not segments.
    pub const fn window_in_bytes(self) -> bool {
        matches!(self, Self::Freebsd)
    }

    /// What `#ifdef` knows.
    pub const fn define(self) -> &'static str {
        match self {
            Self::Rfc => "RFC",
            Self::Linux => "LINUX",
            Self::Freebsd => "FREEBSD",
        }
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Profile {
    type Err = String;
    fn from_str(s: &str) -> Result<Self, String> {
        Self::ALL
            .into_iter()
            .find(|p| p.name() == s)
            .ok_or_else(|| format!("no profile '{s}'; there are rfc, linux, freebsd"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_profile_is_valid_and_has_its_scale() {
        for (profile, shift) in [
            (Profile::Rfc, 3),
            (Profile::Linux, 8),
            (Profile::Freebsd, 6),
        ] {
            assert_eq!(profile.tcp().validate(), Ok(()));
            assert_eq!(profile.tcp().window_shift(), shift);
            assert_eq!(profile.name().parse(), Ok(profile));
        }
        assert!("bsd".parse::<Profile>().is_err());
    }
}
