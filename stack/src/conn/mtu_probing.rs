//! Packetization layer path MTU discovery (RFC 4821, RFC 8899): without routers that tell.
//!
//! A path that drops large packets in silence is a black hole for a TCP that waits for routers to
//! tell of it. If nothing large arrives any more, segments become small; then some are larger than
//! the others, to find out how much passes. The loss of such a probe tells of the path, not of
//! congestion.
//!
//! The effective path MTU (`eff_pmtu`) is also what is known to pass (`search_low`): a
//! connection never sends more but to probe. So the state of the search is its upper end.

use super::{Connection, Output, TcpTypes};
use crate::buffer::SendBuffer;
use crate::recovery::{AbsSeq, ProbeFate};
use narrows_congestion::{ByteCount, CongestionControl, Duration, Instant};

/// Whether and how the path's MTU is probed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MtuProbing {
    /// When.
    pub mode: MtuProbingMode,
    /// The MSS, as the MSS option counts it, that is tried when nothing larger seems to pass, and
    /// with which [`MtuProbingMode::Always`] begins (Linux's `tcp_base_mss`; RFC 4821 section 7.2
    /// recommends packets of 1,024 bytes). With IPv6 it is at least 1,220: links take 1,280 bytes.
    pub base_mss: u16,
    /// No MSS below this is tried (Linux's `tcp_mtu_probe_floor`).
    pub floor_mss: u16,
    /// The search is over when what passes is known to less than so many bytes (Linux's
    /// `tcp_probe_threshold`).
    pub threshold: u16,
    /// So long after a search it begins anew: the path may have changed (Linux's
    /// `tcp_probe_interval`; RFC 4821 section 7.3 and RFC 8899 section 5.1.1 have ten minutes).
    pub interval: Duration,
}

/// When the path's MTU is probed; the numbers are those of Linux's `tcp_mtu_probing`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MtuProbingMode {
    /// 0: never. Routers are believed ([`IcmpPolicy`](super::icmp::IcmpPolicy)), and where they
    /// are silent a connection may stall.
    Off,
    /// 1: once nothing large seems to pass any more: a segment larger than half of
    /// [`MtuProbing::base_mss`] was sent again in vain
    /// [`retries_before_report`](crate::config::Lifetimes::retries_before_report) times. One that is
    /// larger than all of it leaves in that size then, another one in half, and so on.
    AfterBlackHole,
    /// 2: from the beginning, with small segments.
    Always,
}

impl Default for MtuProbing {
    /// Off, as in Linux, and Linux's values.
    fn default() -> Self {
        Self {
            mode: MtuProbingMode::Off,
            base_mss: 1_024,
            floor_mss: 64,
            threshold: 8,
            interval: Duration::from_secs(600),
        }
    }
}

/// RFC 8200 section 5, less the headers.
const IPV6_LEAST_MSS: u16 = 1_280 - 60;
/// Probes of one size that told nothing, before the next size is tried (MAX_PROBES of RFC 8899
/// section 5.1.2).
const MAX_TRIES: u8 = 3;
/// After a timeout the next probe waits so many times as long (RFC 4821 section 7.6.3).
const HEADWAYS_AFTER_TIMEOUT: u64 = 5;

/// Whether a probe leaves next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NextProbe {
    None,
    /// It does, with so much payload.
    Payload(u64),
    /// It does when what is in flight has made room for it: what would leave in its stead would
    /// take that room again and again (RFC 4821 section 7.4 lets it wait).
    Wait,
}

/// Where the search stands. Sizes are of whole packets.
#[derive(Clone, Debug)]
pub(super) struct MtuSearch {
    /// `search_high`: the largest packet that may pass.
    high: u32,
    /// That is no guess from a probe that was lost: the peer's MSS or a router says so.
    told: bool,
    /// Probes of this size in a row told nothing.
    tries: (u32, u8),
    /// When something was last learnt.
    since: Instant,
    /// No probe leaves before: the last was lost.
    rest: Instant,
}

impl MtuSearch {
    fn new(limit: u32, now: Instant) -> Self {
        Self {
            high: limit,
            told: true,
            tries: (0, 0),
            since: now,
            rest: now,
        }
    }

    /// Begins anew, with what may pass at most.
    pub(super) fn restart(&mut self, limit: u32, now: Instant) {
        *self = Self {
            rest: self.rest,
            ..Self::new(limit, now)
        };
    }

    /// The size to try next, where `low` passes: halfway (RFC 4821 section 7.3), or what a router
    /// said, or in the end what should pass.
    fn next(&self, low: u32, threshold: u16) -> Option<u32> {
        if self.high <= low {
            return None;
        }
        if self.high - low >= u32::from(threshold) {
            return Some(low.midpoint(self.high));
        }
        self.told.then_some(self.high)
    }

    /// A probe of `size` was lost, alone (RFC 4821 section 7.6.2).
    fn on_lost(&mut self, size: u32, now: Instant) {
        self.high = self.high.min(size - 1);
        self.told = false;
        self.since = now;
    }

    /// It was lost with others, or a timeout was needed: that may have been congestion (section
    /// 7.6.4). A size that never tells anything counts as too large.
    fn on_inconclusive(&mut self, size: u32, now: Instant) {
        let (of, before) = self.tries;
        let tries = if of == size { before + 1 } else { 1 };
        self.tries = (size, tries);
        if tries >= MAX_TRIES {
            self.on_lost(size, now);
        }
    }

    /// A router says that no more than `mtu` passes.
    pub(super) fn on_too_big(&mut self, mtu: u32, now: Instant) {
        if mtu <= self.high {
            self.high = mtu;
            self.told = true;
            self.since = now;
        }
    }
}

impl<T: TcpTypes> Connection<T> {
    /// Bytes of the IP packet with a full segment of `mss`.
    pub(super) fn packet_of(&self, mss: u16) -> u32 {
        let ip_header = if self.ends.remote().is_ipv4() { 20 } else { 40 };
        u32::from(mss) + 20 + ip_header
    }

    /// Bytes of that of a probe.
    fn probe_of(&self, payload: u64) -> u32 {
        self.packet_of(0) + (payload + self.options()) as u32
    }

    /// The largest packet that the peer, our own link and the routers admit.
    fn mtu_limit(&self) -> u32 {
        self.packet_of(self.negotiated_mss().min(self.path_mss()))
    }

    fn at_least(&self, mss: u16) -> u16 {
        match self.ends.remote().is_ipv6() {
            true => mss.max(IPV6_LEAST_MSS),
            false => mss,
        }
    }

    /// The SYNs have said how large segments may be: where probing is on they begin small.
    pub(super) fn begin_mtu_probing(&mut self, now: Instant) {
        if self.config.mtu_probing.mode != MtuProbingMode::Always {
            return;
        }
        let base = self.at_least(self.config.mtu_probing.base_mss);
        if base < self.mss_out {
            self.path_mtu.told.search = Some(MtuSearch::new(self.mtu_limit(), now));
            self.mss_out = base;
        }
    }

    /// The first segment has been sent in vain as often as R1 says, or more: perhaps nothing that
    /// large passes (RFC 4821 section 7.7). Its own size counts, not that of those behind it, which
    /// a probe may have made larger. What the next smaller size would not cut was not lost for it.
    pub(super) fn suspect_black_hole(&mut self, now: Instant) {
        let probing = self.config.mtu_probing;
        if probing.mode == MtuProbingMode::Off || !self.state.is_synchronized() {
            return;
        }
        let base = self.at_least(probing.base_mss);
        let options = self.options();
        let payload_of = |mss: u16| u64::from(mss).saturating_sub(options);
        let first = self.snd.scoreboard().first().map_or(0, |s| s.len().get());
        let mss = if self.mss_out > base && first > payload_of(base) {
            base
        } else {
            (self.mss_out.min(base) / 2).max(self.at_least(probing.floor_mss))
        };
        let payload = payload_of(mss);
        if mss >= self.mss_out || first <= payload {
            return;
        }
        self.exceptions.change().mtu_black_holes += 1;
        let limit = self.mtu_limit();
        self.path_mtu
            .told
            .search
            .get_or_insert_with(|| MtuSearch::new(limit, now))
            .restart(limit, now);
        self.snd.forget_mtu_probe();
        self.path_mtu.arrived = self.path_mtu.arrived.min(payload);
        self.handle_path_mtu(now, self.packet_of(mss));
    }

    /// Whether the next segment is to be a probe, where it would have `len` bytes and congestion
    /// control lets `allowance` out. Enough must follow for its loss to be noticed by duplicate
    /// ACKs (RFC 4821 section 7.4).
    #[cold]
    pub(super) fn mtu_probe(&mut self, len: u64, allowance: ByteCount, now: Instant) -> NextProbe {
        let Some(payload) = self.next_mtu_probe(len, now) else {
            return NextProbe::None;
        };
        if self.usable().min(allowance.get()) < payload {
            return match self.snd.scoreboard().pipe().is_zero() {
                true => NextProbe::None,
                false => NextProbe::Wait,
            };
        }
        self.exceptions.change().mtu_probes += 1;
        NextProbe::Payload(payload)
    }

    /// Payload of the probe that the search wants and the flow can bear.
    fn next_mtu_probe(&mut self, len: u64, now: Instant) -> Option<u64> {
        let probing = self.config.mtu_probing;
        let (low, limit) = (self.packet_of(self.mss_out), self.mtu_limit());
        let mss = self.snd.mss().get();
        let search = self.path_mtu.search_mut()?;
        let resting = now < search.rest;
        if len < mss || resting || !self.snd.may_probe_mtu() || self.rare.snd_up.is_some() {
            return None;
        }
        if search.next(low, probing.threshold).is_none()
            && now.since(search.since) >= probing.interval
        {
            search.restart(limit, now);
        }
        let size = search.next(low, probing.threshold)?;
        let follow = mss * (u64::from(self.config.dup_thresh) + 1);
        let cwnd = self.snd.congestion().cwnd().get();
        // Where much is lost a window of small segments never bears one of several.
        let payload = match mss + u64::from(size - low) {
            halfway if halfway + follow > cwnd => halfway.min(2 * mss),
            halfway => halfway,
        };
        let needed = payload + follow;
        let queued = (self.send_buf.end() + 1).saturating_sub(self.snd.nxt());
        (queued.min(self.window.wnd()).min(cwnd) >= needed).then_some(payload)
    }

    /// What has become of the probe that is outstanding, if that is known (RFC 4821 section 7.6).
    #[cold]
    pub(super) fn settle_mtu_probe(&mut self, now: Instant) {
        let Some((fate, payload)) = self.snd.take_mtu_probe_fate() else {
            return;
        };
        let (low, size) = (self.packet_of(self.mss_out), self.probe_of(payload));
        let headway = self.mtu_probe_headway();
        let Some(search) = self.path_mtu.search_mut() else {
            return;
        };
        match fate {
            ProbeFate::Delivered => {
                search.since = now;
                if size > low {
                    self.mss_out = self.mss_out.saturating_add((size - low) as u16);
                    self.snd.set_mss(self.payload_mss(), now);
                }
            }
            ProbeFate::Lost => {
                // Of a small one that may be chance: it takes more to give up all that is above.
                match search.next(low, self.config.mtu_probing.threshold) {
                    Some(halfway) if size < halfway => search.on_inconclusive(size, now),
                    _ => search.on_lost(size, now),
                }
                search.rest = now + headway;
                self.exceptions.change().mtu_probes_lost += 1;
            }
            ProbeFate::Inconclusive | ProbeFate::TimedOut => {
                search.on_inconclusive(size, now);
                if fate == ProbeFate::TimedOut {
                    search.rest = now + headway * HEADWAYS_AFTER_TIMEOUT;
                }
                self.exceptions.change().mtu_probes_lost += 1;
            }
        }
    }

    /// How long no probe follows one that was lost: as many round trips as the window has segments,
    /// about what lies between two losses by congestion. Of that one congestion control hears
    /// nothing (RFC 4821 sections 4 and 7.6.2).
    fn mtu_probe_headway(&self) -> Duration {
        let mss = self.snd.mss().get().max(1);
        let segments = self.snd.congestion().cwnd().get().div_ceil(mss);
        let round_trip = self.snd.rtt().srtt().unwrap_or(Duration::from_secs(1));
        round_trip * segments
    }

    /// A router says that the packet at `at` is too big for a link of `mtu` bytes (0: an old one
    /// that does not say), and that is a probe: where smaller ones pass no segment need be smaller
    /// for that (RFC 8899 section 4.6.2). False: it is none, or less than other segments passes.
    pub(super) fn is_probe_too_big(&mut self, at: AbsSeq, mtu: u32, now: Instant) -> bool {
        let Some(payload) = self.snd.mtu_probe_at(at) else {
            return false;
        };
        let (low, size) = (self.packet_of(self.mss_out), self.probe_of(payload));
        if (1..low).contains(&mtu) {
            return false;
        }
        let headway = self.mtu_probe_headway();
        if let Some(search) = self.path_mtu.search_mut().filter(|_| mtu < size) {
            search.rest = now + headway;
            search.on_lost(size, now);
            if mtu > 0 {
                search.on_too_big(mtu, now);
            }
            self.exceptions.change().mtu_probes_lost += 1;
            self.snd.fail_mtu_probe();
            self.snd.forget_mtu_probe();
        }
        true
    }

    /// Payload of the segments into which a device cuts the packet: a probe is not cut.
    #[inline]
    pub(crate) fn cut_at(&self, out: &Output) -> ByteCount {
        let (mss, len) = (self.snd.mss(), out.payload_len());
        let is_probe = len > mss.get() && self.snd.mtu_probe_at(out.payload.start + 1).is_some();
        if is_probe { ByteCount::new(len) } else { mss }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const T: Instant = Instant::from_nanos(1);

    /// Where the search ends, and after how many probes, on a path that takes `path` bytes.
    fn search(mut low: u32, limit: u32, path: u32) -> (u32, usize) {
        let mut s = MtuSearch::new(limit, T);
        for probes in 0..64 {
            let Some(size) = s.next(low, 8) else {
                return (low, probes);
            };
            assert!(low < size && size <= limit, "{low} {size}");
            match size <= path {
                true => low = size,
                false => s.on_lost(size, T),
            }
        }
        panic!("{low} to {limit} on {path}: no end");
    }

    #[test]
    fn rfc4821_7_3_binary_steps_find_what_passes_to_the_threshold() {
        for (limit, probes) in [(1_500, 9), (9_000, 12), (65_535, 15)] {
            for path in (1_064..=limit).step_by(3) {
                let (found, n) = search(1_064, limit, path);
                assert!(found <= path && path - found < 8, "{found} of {path}");
                assert!(n <= probes, "{n} probes for {path} of {limit}");
            }
        }
    }

    /// Where nothing is in the way all of it is used.
    #[test]
    fn what_should_pass_is_tried_in_the_end() {
        assert_eq!(search(1_064, 1_500, 1_500).0, 1_500);
        assert_eq!(search(1_064, 9_000, 20_000).0, 9_000);
    }

    #[test]
    fn rfc8899_4_6_2_what_a_router_says_is_tried_first() {
        let mut s = MtuSearch::new(1_500, T);
        s.on_lost(1_282, T);
        s.on_too_big(1_070, T);
        assert_eq!(s.next(1_064, 8), Some(1_070));
        s.on_too_big(1_400, T);
        assert_eq!(s.next(1_064, 8), Some(1_070), "never up");
    }

    #[test]
    fn rfc4821_7_6_4_a_size_that_never_tells_anything_is_given_up() {
        let mut s = MtuSearch::new(1_500, T);
        for _ in 0..2 {
            s.on_inconclusive(1_282, T);
            assert_eq!(s.next(1_064, 8), Some(1_282), "the same again");
        }
        s.on_inconclusive(1_282, T);
        assert_eq!(s.next(1_064, 8), Some(1_172));
    }
}
