//! What values a configuration may have.

use super::{InitialWindow, PacingMode, TcpConfig};
use crate::conn::mtu_probing::MtuProbing;
use narrows_congestion::{ByteCount, Duration};
use std::fmt;

impl TcpConfig {
    /// Check the values against each other and their ranges.
    ///
    /// # Errors
    /// The first value that cannot work, with its allowed range.
    pub fn validate(&self) -> Result<(), ConfigError> {
        let range = |name, ok: bool, allowed| {
            if ok {
                Ok(())
            } else {
                Err(ConfigError { name, allowed })
            }
        };
        // RFC 9293 MUST-67: what IP can reassemble, less two headers.
        range(
            "mss",
            (64..=65_495).contains(&self.mss),
            "64 to 65495 bytes",
        )?;
        range(
            "dup_thresh",
            (1..=255).contains(&self.dup_thresh),
            "1 to 255",
        )?;
        range(
            "buffers.send",
            (1..=1 << 30).contains(&self.buffers.send),
            "1 byte to 1 GiB",
        )?;
        range(
            "buffers.recv",
            (1..=1 << 30).contains(&self.buffers.recv),
            "1 byte to 1 GiB",
        )?;
        range(
            "buffers.max_out_of_order_ranges",
            (self.buffers.max_out_of_order_ranges).is_none_or(|n| (1..=65_536).contains(&n)),
            "1 to 65536",
        )?;
        range(
            "buffers.max_outstanding_segments",
            (1..=1 << 24).contains(&self.buffers.max_outstanding_segments),
            "1 to 16777216",
        )?;
        range(
            "timer_tick",
            self.timer_tick <= Duration::from_secs(1),
            "0 to 1 s",
        )?;
        range(
            "ack.delay",
            self.ack.delay < Duration::from_millis(500),
            "0 to less than 500 ms (RFC 9293 MUST-40)",
        )?;
        range(
            "ack.every",
            (1..=255).contains(&self.ack.every),
            "1 to 255 segments",
        )?;
        if let InitialWindow::Segments(n) = self.initial_window {
            range(
                "initial_window",
                (1..=InitialWindow::MAX_SEGMENTS).contains(&n),
                "1 to 1000 segments",
            )?;
        }
        if let PacingMode::On {
            slow_start_gain,
            avoidance_gain,
        } = self.pacing
        {
            range(
                "pacing",
                slow_start_gain.min(avoidance_gain) >= 1,
                "gains of at least 1 percent",
            )?;
        }
        if let Some(keepalive) = self.lifetimes.keepalive {
            range(
                "lifetimes.keepalive",
                !keepalive.idle.is_zero() && !keepalive.interval.is_zero(),
                "times above zero",
            )?;
        }
        range(
            "buffers.notsent_lowat",
            self.buffers.notsent_lowat.is_none_or(|l| !l.is_zero()),
            "at least 1 byte",
        )?;
        let MtuProbing {
            base_mss,
            floor_mss,
            threshold,
            interval,
            ..
        } = self.mtu_probing;
        range(
            "mtu_probing.floor_mss",
            (64..=base_mss).contains(&floor_mss),
            "64 bytes to base_mss",
        )?;
        range("mtu_probing.threshold", threshold >= 2, "at least 2 bytes")?;
        range(
            "mtu_probing.interval",
            !interval.is_zero(),
            "a time above zero",
        )?;
        range("dscp", self.dscp < 64, "0 to 63")?;
        range("hop_limit", self.hop_limit > 0, "1 to 255")?;
        range(
            "buffers.window_clamp",
            self.buffers
                .window_clamp
                .is_none_or(|w| w >= ByteCount::new(1)),
            "at least 1 byte",
        )
    }
}

/// A configuration value out of range.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConfigError {
    /// The field of [`TcpConfig`], as a path: `mss`, `buffers.send`.
    pub name: &'static str,
    /// What is allowed.
    pub allowed: &'static str,
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "TcpConfig::{} is out of range; allowed: {}",
            self.name, self.allowed
        )
    }
}
impl std::error::Error for ConfigError {}
