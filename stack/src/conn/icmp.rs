//! ICMP errors about a connection's segments, and what else the user is told that ends nothing
//! (RFC 9293 sections 3.9.2.2 and 3.9.1.8).
//!
//! Anybody can send an ICMP error, so an error counts only if it quotes a sequence number that is
//! outstanding, does not end a connection that was open, and makes segments smaller only if
//! nothing speaks against it (RFC 5927 sections 4.1, 5.2 and 7.2; RFC 5461 section 4.1).

use super::EventKind;
use super::mtu_probing::MtuSearch;
use super::state::{CloseReason, Origin, State};
use super::{Connection, TcpTypes};
use crate::recovery::AbsSeq;
use crate::sparse::{Rarely, Sparse, begins};
use crate::wire::Seq;
use crate::wire::icmp::{IcmpError, IcmpErrorKind, Unreachable};
use narrows_congestion::{Duration, Instant};

/// What ICMP errors may do to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct IcmpPolicy {
    /// What hard errors do.
    pub hard_errors: HardErrors,
    /// Believe routers that packets are too big (RFC 1191, RFC 8201).
    pub path_mtu: bool,
    /// No IPv4 router is believed to have a smaller link than this, in bytes with the IP header
    /// (RFC 791: 68). IPv6 has its own minimum of 1,280.
    pub min_path_mtu: u32,
    /// Segments are as large as at first again so long after the last router that complained: the
    /// path may have changed. RFC 1191 section 6.3 and RFC 8201 section 4 want at least five
    /// minutes and recommend ten. `None`: never.
    pub raise_path_mtu: Option<Duration>,
}

impl Default for IcmpPolicy {
    fn default() -> Self {
        Self {
            hard_errors: HardErrors::AbortOpening,
            path_mtu: true,
            min_path_mtu: 68,
            raise_path_mtu: Some(Duration::from_secs(600)),
        }
    }
}

/// What "port unreachable" and "protocol unreachable" do to a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HardErrors {
    /// They end its opening; an open connection survives them (RFC 5461 section 4.1, RFC 5927
    /// section 5.2, and every stack in use).
    AbortOpening,
    /// They end it (RFC 9293 SHLD-26 to the letter). An attacker who guesses a sequence number
    /// in flight can then end connections.
    Abort,
}

/// Something is wrong that does not end the connection (RFC 9293 section 3.9.1.8).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SoftError {
    /// A router or the peer's host complains.
    Icmp(IcmpErrorKind),
    /// The same segment, or the SYN, has been retransmitted as often as
    /// [`Lifetimes::retries_before_report`](crate::config::Lifetimes::retries_before_report) says
    /// (R1 of RFC 9293 section 3.8.3): the route may be dead.
    Retransmitting,
}

/// What became of an ICMP error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IcmpOutcome {
    /// Nothing: no such connection, no such segment outstanding, or nothing to be done.
    Ignored,
    /// The user is told.
    Reported,
    /// Segments are smaller from now on.
    PathMtu(u32),
    /// It is about a probe of the path's MTU, or nothing that would be smaller: segments stay as
    /// they are.
    ProbeTooBig,
    /// Segments will be smaller if the quoted one times out: larger ones have arrived before.
    PathMtuPending,
    /// The connection is closed.
    Aborted,
}

/// What is known of the path's MTU.
#[derive(Clone, Debug)]
pub(super) struct PathMtu {
    /// The largest payload that is known to have arrived: maxsizeacked of RFC 5927 section 7.2
    /// without the headers.
    pub(super) arrived: u64,
    pub(super) told: Rarely<Complaints>,
}

begins! {
    /// What routers and probes have told of it.
    #[derive(Clone, Debug)]
    pub(super) struct Complaints {
        /// What routers said, in bytes with the IP header.
        mtu: Option<u32> = None,
        /// When the last of them said so, or, where another connection was told, since when this one
        /// knows that it sends.
        since: Sparse<Instant> = Sparse::NONE,
        /// A claim that contradicts what arrived, and the segment it is about.
        pending: Option<(AbsSeq, u32)> = None,
        /// The search for a larger one by probes.
        pub(super) search: Option<MtuSearch> = None,
    }
}

/// Sizes of links there are, for routers that do not tell theirs (RFC 1191 section 7.1).
const PLATEAUS: [u32; 10] = [
    32_000, 17_914, 8_166, 4_352, 2_002, 1_492, 1_006, 508, 296, 68,
];
/// RFC 8200 section 5.
const IPV6_MIN_MTU: u32 = 1_280;

impl PathMtu {
    pub(super) fn new(remembered: Option<u32>) -> Self {
        let mut told = Rarely::<Complaints>::default();
        if remembered.is_some() {
            told.mtu = remembered;
        }
        Self { arrived: 0, told }
    }

    /// Whether a larger one is searched for.
    #[inline]
    pub(super) fn is_searched(&self) -> bool {
        (self.told.as_changed()).is_some_and(|told| told.search.is_some())
    }

    /// The search for a larger one, if there is one.
    pub(super) fn search_mut(&mut self) -> Option<&mut MtuSearch> {
        self.told.changed()?.search.as_mut()
    }

    /// `acked` more bytes are acknowledged, the last before `una`; `mss` is a full segment. Smaller
    /// ones may be taken for a larger one, and then a claim waits that need not (as RFC 5927 section
    /// 7.2 says of it).
    #[inline]
    pub(super) fn on_progress(&mut self, acked: u64, una: AbsSeq, mss: u64) {
        self.arrived = self.arrived.max(acked.min(mss));
        if let Some(told) = self.told.changed() {
            told.pending = told.pending.filter(|claim| una <= claim.0);
        }
    }
}

impl<T: TcpTypes> Connection<T> {
    /// An ICMP error about a segment of this connection arrived.
    pub fn handle_icmp(&mut self, now: Instant, error: &IcmpError) -> IcmpOutcome {
        let Some(at) = self.outstanding(error.segment.seq) else {
            return IcmpOutcome::Ignored;
        };
        match error.kind {
            // RFC 9293 MUST-55.
            IcmpErrorKind::SourceQuench => IcmpOutcome::Ignored,
            IcmpErrorKind::PacketTooBig { mtu } => self.on_packet_too_big(at, mtu, now),
            IcmpErrorKind::Unreachable(why @ (Unreachable::Port | Unreachable::Protocol))
                if self.config.icmp.hard_errors == HardErrors::Abort || self.is_opening() =>
            {
                self.finish(CloseReason::Unreachable(why), now);
                IcmpOutcome::Aborted
            }
            kind => self.report(SoftError::Icmp(kind)),
        }
    }

    /// A link on the path takes packets of no more than `mtu` bytes, IP header included. Only ever
    /// shrinks the segments, and not below 64 bytes. What was sent too big leaves again at once, and
    /// that is no sign of congestion (RFC 1191 section 6.4).
    pub fn handle_path_mtu(&mut self, now: Instant, mtu: u32) {
        let mss = self.mss_within(mtu);
        if mss < self.mss_out {
            self.mss_out = mss;
            self.snd.on_path_mtu(self.payload_mss(), now);
        }
    }

    /// Another connection to the same host has been told of a smaller MTU, and believes it
    /// (RFC 8201 section 5.2). Not so if larger packets of this one have arrived.
    pub(crate) fn share_path_mtu(&mut self, now: Instant, mtu: u32) {
        let is_less = mtu < self.packet_of(self.mss_out);
        let settled = !matches!(self.state, State::Closed(_) | State::TimeWait);
        if settled && self.config.icmp.path_mtu && is_less && !self.contradicts(mtu) {
            self.apply_path_mtu(mtu, now);
        }
    }

    /// The path takes data. If routers have been silent for long enough, the next segment is as
    /// large as the peer takes; if that is too large still, a router says so and it leaves again
    /// in pieces.
    pub(super) fn raise_path_mtu(&mut self, now: Instant) {
        let (Some(_), Some(patience)) = (self.path_mtu.told.mtu, self.config.icmp.raise_path_mtu)
        else {
            return;
        };
        let since = self.path_mtu.told.since.get().unwrap_or(now);
        self.path_mtu.told.since = Sparse::some(since);
        if now.since(since) < patience {
            return;
        }
        self.path_mtu.told.mtu = None;
        self.path_mtu.told.since = Sparse::NONE;
        let mss = self.negotiated_mss();
        // Where routers have been seen not to tell, probes find out.
        let limit = self.packet_of(mss);
        if let Some(search) = self.path_mtu.search_mut() {
            search.restart(limit, now);
            return;
        }
        if mss > self.mss_out {
            self.mss_out = mss;
            self.snd.set_mss(self.payload_mss(), now);
        }
    }

    /// A segment was sent in vain: a claim about the path that was doubted is believed.
    pub(super) fn settle_path_mtu(&mut self, now: Instant) {
        let told = self.path_mtu.told.changed();
        if let Some((seq, mtu)) = told.and_then(|told| told.pending.take())
            && seq >= self.snd.una()
        {
            self.apply_path_mtu(mtu, now);
        }
    }

    /// Tell the user, who may not want to hear it (RFC 9293 SHLD-20).
    pub(super) fn report(&mut self, error: SoftError) -> IcmpOutcome {
        self.suspects_route = error == SoftError::Retransmitting;
        if let SoftError::Icmp(kind) = error {
            self.rare.last_icmp = Some(kind);
        }
        // Nobody knows of an embryonic connection.
        let nobody = matches!(self.state, State::SynReceived(Origin::Passive));
        if nobody || !self.config.report_soft_errors {
            return IcmpOutcome::Ignored;
        }
        self.events.set(EventKind::SoftError);
        IcmpOutcome::Reported
    }

    /// The last thing that went wrong without ending the connection.
    pub fn last_error(&self) -> Option<SoftError> {
        match self.suspects_route {
            true => Some(SoftError::Retransmitting),
            false => self.rare.last_icmp.map(SoftError::Icmp),
        }
    }

    /// Where the segment with sequence number `seq` stands, if it is outstanding
    /// (RFC 5927 section 4.1).
    fn outstanding(&self, seq: Seq) -> Option<AbsSeq> {
        match self.state {
            State::Closed(_) => None,
            State::SynSent | State::SynReceived(_) => {
                (seq == self.iss && self.handshake.sent_at.is_some()).then_some(0)
            }
            _ => {
                let una = self.snd.una();
                let at = una + u64::from(seq.since(self.seq(una)));
                (at < self.snd.nxt()).then_some(at)
            }
        }
    }

    fn on_packet_too_big(&mut self, at: AbsSeq, mtu: u32, now: Instant) -> IcmpOutcome {
        if self.config.icmp.path_mtu && self.is_probe_too_big(at, mtu, now) {
            return IcmpOutcome::ProbeTooBig;
        }
        let size = self.packet_of(self.mss_out);
        let mtu = match mtu {
            0 if self.ends.remote().is_ipv4() => {
                let smaller = PLATEAUS.into_iter().find(|plateau| *plateau < size);
                smaller.unwrap_or(size)
            }
            // RFC 8201 section 4: to be discarded.
            ..IPV6_MIN_MTU if self.ends.remote().is_ipv6() => return IcmpOutcome::Ignored,
            mtu => mtu.max(self.config.icmp.min_path_mtu),
        };
        if !self.config.icmp.path_mtu || mtu >= size {
            return IcmpOutcome::Ignored;
        }
        // A packet that was no larger than that has not been too big: nobody says so but who does
        // not know what he quotes (RFC 5927 section 7.2: claimedmtu above maxsizesent).
        let headers = u64::from(size) - self.payload_mss().get();
        let quoted = self.snd.scoreboard().get(at);
        if quoted.is_some_and(|s| u64::from(mtu) >= s.len().get() + headers) {
            return IcmpOutcome::Ignored;
        }
        if self.contradicts(mtu) {
            self.path_mtu.told.pending = Some((at, mtu));
            return IcmpOutcome::PathMtuPending;
        }
        self.apply_path_mtu(mtu, now);
        IcmpOutcome::PathMtu(mtu)
    }

    /// Payload is known to have arrived for which packets of `mtu` bytes are too small.
    fn contradicts(&self, mtu: u32) -> bool {
        let arrived = self.path_mtu.arrived;
        arrived > 0 && u64::from(self.mss_within(mtu)) < arrived + self.options()
    }

    /// The MSS that fits packets of `mtu` bytes; not below 64.
    fn mss_within(&self, mtu: u32) -> u16 {
        let mss = mtu.saturating_sub(self.packet_of(0)).max(64);
        u16::try_from(mss).unwrap_or(u16::MAX)
    }

    /// The largest MSS that the path takes.
    pub(super) fn path_mss(&self) -> u16 {
        (self.path_mtu.told.mtu).map_or(u16::MAX, |mtu| self.mss_within(mtu))
    }

    /// Bytes of options in a segment with data.
    pub(super) fn options(&self) -> u64 {
        u64::from(self.mss_out).saturating_sub(self.payload_mss().get())
    }

    fn apply_path_mtu(&mut self, mtu: u32, now: Instant) {
        self.path_mtu.told.mtu = Some(self.path_mtu.told.mtu.map_or(mtu, |old| old.min(mtu)));
        self.path_mtu.told.since = Sparse::some(now);
        let payload = u64::from(self.mss_within(mtu)).saturating_sub(self.options());
        self.path_mtu.arrived = self.path_mtu.arrived.min(payload);
        if let Some(search) = self.path_mtu.search_mut() {
            search.on_too_big(mtu, now);
            self.snd.forget_mtu_probe();
        }
        // While opening there is nothing to cut yet: the peer's SYN finds the limit.
        if matches!(self.state, State::SynSent) {
            self.on_syn_too_big();
            return;
        }
        self.handle_path_mtu(now, mtu);
    }
}
