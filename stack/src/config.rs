//! Everything about a connection that papers vary, as values.

use crate::conn::acknowledge::Acknowledge;
use crate::conn::ecn::EcnFeedback;
use crate::conn::flow_window::ReceiveWindow;
use crate::conn::icmp::IcmpPolicy;
use crate::conn::mtu_probing::MtuProbing;
use crate::conn::reassembly::Reassembly;
use crate::endpoint::challenge::ChallengeLimit;
use crate::fast_open::FastOpen;
use crate::recovery::detector::DetectorFactory;
use crate::recovery::rack::RackTlp;
use narrows_congestion::{
    ByteCount, CongestionFactory, Duration, FlowStart, LocalDropPolicy, LocalDropRule, RtoFactory,
    cubic::Cubic, rto::presets,
};
use std::fmt;
use std::sync::Arc;

mod validate;

pub use crate::conn::acknowledge::AckPolicy;
pub use crate::conn::ecn::EcnMode;
pub use validate::ConfigError;

/// Makes a policy of the user's own for each connection.
pub type Factory<P> = Arc<dyn Fn() -> Box<P> + Send + Sync>;

/// How a TCP behaves. Cheap to clone; one value serves any number of connections.
///
/// Where one value of a group is to differ, the others come from the group of the configuration
/// that it is made from: `TcpConfig { buffers: Buffers { send, ..mine.buffers }, ..mine }`, with
/// [`Buffers::default`] in that place, would drop what `mine` has there.
#[derive(Clone)]
pub struct TcpConfig {
    /// Congestion control.
    pub congestion: Arc<dyn CongestionFactory>,
    /// Retransmission timeout policy.
    pub rto: Arc<dyn RtoFactory>,
    /// Loss detection.
    pub detector: Arc<dyn DetectorFactory>,
    /// How much may be sent during fast recovery.
    pub recovery: RecoverySending,
    /// Segments that must be SACKed, or duplicate ACKs that must come, before a segment counts
    /// as lost (RFC 5681 section 3.2: 3).
    pub dup_thresh: u32,
    /// Send new data on the first two duplicate ACKs (RFC 3042).
    pub limited_transmit: bool,
    /// Detect and undo spurious timeouts and retransmissions.
    pub spurious: SpuriousDetection,
    /// Largest segment to offer and accept, as the MSS option states it (RFC 9293 section 3.7.1):
    /// without TCP options. Normally MTU - 40 (IPv4) or MTU - 60 (IPv6).
    pub mss: u16,
    /// Negotiate SACK (RFC 2018).
    pub sack: bool,
    /// Negotiate timestamps (RFC 7323), and in which unit the clock ticks.
    pub timestamps: TimestampMode,
    /// Negotiate window scaling (RFC 7323 section 2).
    pub window_scaling: bool,
    /// Explicit congestion notification.
    pub ecn: EcnMode,
    /// The initial window.
    pub initial_window: InitialWindow,
    /// What becomes of it where the SYN or SYN-ACK had to be retransmitted.
    pub lost_syn: LostSyn,
    /// What the congestion window counts.
    pub window_count: WindowCount,
    /// What becomes of a window that the application does not use.
    pub idle_restart: IdleRestart,
    /// Nagle's algorithm (RFC 9293 section 3.7.4).
    pub nagle: bool,
    /// Begin corked ([`Connection::set_cork`](crate::conn::Connection::set_cork)).
    pub cork: bool,
    /// When to acknowledge.
    pub ack: AckPolicy,
    /// A policy of the user's own in place of `ack`.
    pub acknowledge: Option<Factory<dyn Acknowledge>>,
    /// Congestion feedback of the user's own, where ECN is negotiated.
    pub ecn_feedback: Option<Factory<dyn EcnFeedback>>,
    /// What is held for the user, and offered to the peer.
    pub buffers: Buffers,
    /// Steers the offered window from the receiver's side; `None` offers what fits the buffer.
    pub receive_window: Option<Factory<dyn ReceiveWindow>>,
    /// Resolution of the host's timers: deadlines fire on multiples of it. Zero: exact.
    pub timer_tick: Duration,
    /// How long each thing may last before it is given up, or over.
    pub lifetimes: Lifetimes,
    /// After a SYN had to be retransmitted, the RTO when data transmission begins is at least
    /// this, until the first RTT sample (RFC 6298 section 5.7: 3 s).
    pub rto_after_syn_timeout: Duration,
    /// What it means that the local device or queue refused a segment (`ENOBUFS`).
    pub local_drop: Arc<dyn LocalDropPolicy>,
    /// Spread segments in time.
    pub pacing: PacingMode,
    /// Challenge ACKs of a connection (RFC 5961 section 7).
    pub challenge_acks: ChallengeLimit,
    /// What ICMP errors may do.
    pub icmp: IcmpPolicy,
    /// Find the path's MTU without the help of routers (RFC 4821).
    pub mtu_probing: MtuProbing,
    /// Tell the user of ICMP errors and of many retransmissions (RFC 9293 SHLD-20: can be off).
    pub report_soft_errors: bool,
    /// TCP Fast Open (RFC 7413): data on SYNs. Off by default, as its section 6 asks for.
    pub fast_open: FastOpen,
    /// Differentiated services code point of what is sent, six bits (RFC 9293 MUST-48).
    pub dscp: u8,
    /// Time to live, or hop limit, of what is sent (RFC 9293 MUST-49).
    pub hop_limit: u8,
}

impl Default for TcpConfig {
    /// A modern TCP: CUBIC, RACK-TLP, SACK, timestamps in milliseconds, window scaling, initial
    /// window 10, Linux-like timeouts, delayed ACKs.
    fn default() -> Self {
        Self {
            congestion: Arc::new(|start: &FlowStart| Cubic::new(start)),
            rto: presets::linux().shared(),
            detector: Arc::new(RackTlp::new),
            recovery: RecoverySending::Prr,
            dup_thresh: 3,
            limited_transmit: true,
            spurious: SpuriousDetection::default(),
            mss: 1460,
            sack: true,
            timestamps: TimestampMode::Millis,
            window_scaling: true,
            ecn: EcnMode::Accept,
            initial_window: InitialWindow::Segments(10),
            lost_syn: LostSyn::Rfc5681,
            window_count: WindowCount::Bytes,
            idle_restart: IdleRestart::Rfc5681,
            nagle: true,
            cork: false,
            ack: AckPolicy::default(),
            acknowledge: None,
            ecn_feedback: None,
            buffers: Buffers::default(),
            receive_window: None,
            timer_tick: Duration::ZERO,
            lifetimes: Lifetimes::default(),
            rto_after_syn_timeout: Duration::from_secs(3),
            local_drop: Arc::new(LocalDropRule::Requeue),
            pacing: PacingMode::Off,
            challenge_acks: ChallengeLimit::RFC5961,
            icmp: IcmpPolicy::default(),
            mtu_probing: MtuProbing::default(),
            report_soft_errors: true,
            fast_open: FastOpen::default(),
            dscp: 0,
            hop_limit: 64,
        }
    }
}

impl fmt::Debug for TcpConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TcpConfig")
            .field("mss", &self.mss)
            .field("sack", &self.sack)
            .field("timestamps", &self.timestamps)
            .field("ecn", &self.ecn)
            .field("initial_window", &self.initial_window)
            .field("ack", &self.ack)
            .finish_non_exhaustive()
    }
}

impl TcpConfig {
    /// The shift of the window scale option that the receive buffer needs (RFC 7323 section 2.2), or
    /// less, so that a `window_clamp` below its unit can be told.
    pub fn window_shift(&self) -> u8 {
        if !self.window_scaling {
            return 0;
        }
        let mut shift = 0;
        while shift < 14 && (self.buffers.recv >> shift) > usize::from(u16::MAX) {
            shift += 1;
        }
        match self.buffers.window_clamp {
            Some(clamp) => shift.min(clamp.get().max(1).ilog2() as u8),
            None => shift,
        }
    }
}

/// What a connection holds: for its user, and how much of that it offers to its peer; of what is
/// outstanding and out of order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Buffers {
    /// Bytes of unacknowledged and unsent data held for the user.
    pub send: usize,
    /// How much of `send` is used.
    pub send_use: SendBufferUse,
    /// Bytes of received data held for the user; the largest window ever offered.
    pub recv: usize,
    /// Never offer a larger window than this, whatever the buffer holds.
    pub window_clamp: Option<ByteCount>,
    /// Segments outstanding at most, whatever the windows admit: bounds the scoreboard when many
    /// small segments are sent.
    pub max_outstanding_segments: usize,
    /// Take no more from the user while so many bytes are unsent, though the send buffer has room,
    /// and tell of room when less than half of them are left (`TCP_NOTSENT_LOWAT` in Linux's
    /// tcp(7)): what is queued can still be chosen late. `None`: the send buffer is the limit.
    pub notsent_lowat: Option<ByteCount>,
    /// Ranges of out-of-order data remembered, 128 bytes of memory at most for each; more are
    /// dropped. `None`: as many as [`Self::out_of_order_ranges`] says.
    pub max_out_of_order_ranges: Option<usize>,
}

impl Buffers {
    /// Ranges of out-of-order data remembered. Where
    /// [`max_out_of_order_ranges`](Self::max_out_of_order_ranges) does not say: as many as the
    /// receive buffer has room for where every other of the smallest segments, 64 bytes each, is
    /// lost, so that they take no more memory than it; 256 at least, 65,536 at most.
    pub fn out_of_order_ranges(&self) -> usize {
        self.max_out_of_order_ranges
            .unwrap_or_else(|| (self.recv / Reassembly::RANGE_MEMORY).clamp(256, 65_536))
    }
}

impl Default for Buffers {
    /// A mebibyte each way.
    fn default() -> Self {
        Self {
            send: 1 << 20,
            send_use: SendBufferUse::default(),
            recv: 1 << 20,
            window_clamp: None,
            max_outstanding_segments: 65_536,
            notsent_lowat: None,
            max_out_of_order_ranges: None,
        }
    }
}

/// How long each thing of a connection may last: attempts to open it and to be heard, silence, and
/// what follows its end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lifetimes {
    /// How often a SYN or SYN-ACK is retransmitted before giving up: 7 with a first timeout of
    /// one second is more than the three minutes of RFC 9293 MUST-23.
    pub syn_retries: u32,
    /// ... and it is not given up sooner than this either (RFC 9293 MUST-23: three minutes): with
    /// timeouts of microseconds a few retries are nothing.
    pub syn_retry_time: Duration,
    /// How often data is retransmitted without progress before giving up (R2 of RFC 9293
    /// section 3.8.3).
    pub data_retries: u32,
    /// ... and it is not given up sooner than this either (RFC 9293 SHLD-11: 100 seconds).
    pub data_retry_time: Duration,
    /// Retransmissions of the same segment, or of the SYN, before the user is told (R1 of RFC 9293
    /// section 3.8.3; SHLD-10: at least 3).
    pub retries_before_report: u32,
    /// Time data may stay unacknowledged before the connection is given up (RFC 5482).
    pub user_timeout: Option<Duration>,
    /// Probe idle peers (RFC 9293 section 3.8.4); off by default as the RFC demands.
    pub keepalive: Option<Keepalive>,
    /// How long TIME-WAIT lasts (2 MSL).
    pub time_wait: Duration,
    /// How long to wait in FIN-WAIT-2 for the peer's FIN once the user has closed; `None`: for
    /// ever.
    pub fin_wait_2: Option<Duration>,
    /// How long a released connection waits for the peer to take any of what is queued, or the
    /// FIN, before it is given up: a peer may keep its window closed for as long as it likes;
    /// `None`: for ever.
    pub orphan_stall: Option<Duration>,
}

impl Default for Lifetimes {
    /// What RFC 9293 and Linux have: three minutes of SYNs, R2 of 100 seconds, no keepalive.
    fn default() -> Self {
        Self {
            syn_retries: 7,
            syn_retry_time: Duration::from_secs(180),
            data_retries: 15,
            data_retry_time: Duration::from_secs(100),
            retries_before_report: 3,
            user_timeout: None,
            keepalive: None,
            time_wait: Duration::from_secs(60),
            fin_wait_2: Some(Duration::from_secs(60)),
            orphan_stall: Some(Duration::from_secs(300)),
        }
    }
}

/// How much leaves during fast recovery and CWR.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RecoverySending {
    /// Proportional rate reduction, RFC 9937.
    Prr,
    /// The same as Linux had it from 4.3 on, before it followed the RFC's draft: below `ssthresh` an
    /// ACK lets out what it delivers, and a segment more only if it acknowledges what was sent again.
    /// A cut for a mark lasts until something is acknowledged that was sent since, so that of a window
    /// of which all is acknowledged the next one begins with what the last ACK delivered: often one
    /// segment.
    PrrLinux43,
    /// The window drops at once; `cwnd - pipe` may be sent (RFC 6675, RFC 6582).
    Pipe,
}

/// Which means find out that a timeout or retransmission was unnecessary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpuriousDetection {
    /// F-RTO, RFC 5682.
    pub frto: bool,
    /// Eifel, RFC 3522 and RFC 4015; needs timestamps.
    pub eifel: bool,
    /// D-SACK, RFC 3708.
    pub dsack: bool,
}

impl SpuriousDetection {
    /// None of them.
    pub const OFF: Self = Self {
        frto: false,
        eifel: false,
        dsack: false,
    };
}

impl Default for SpuriousDetection {
    fn default() -> Self {
        Self {
            frto: true,
            eifel: true,
            dsack: true,
        }
    }
}

/// The timestamps option and the unit of its clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TimestampMode {
    /// Do not offer or accept timestamps.
    Off,
    /// One tick per millisecond, the usual choice.
    Millis,
    /// One tick per microsecond: RTTs of retransmitted segments can be told apart inside a rack.
    Micros,
}

impl TimestampMode {
    /// Nanoseconds a tick.
    pub(crate) const fn tick(self) -> Duration {
        match self {
            Self::Off | Self::Millis => Duration::from_millis(1),
            Self::Micros => Duration::from_micros(1),
        }
    }
}

/// How much of [`Buffers::send`] is used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SendBufferUse {
    /// All of it, as soon as the user writes as much.
    #[default]
    Whole,
    /// What is in flight, and as much again that is unsent, or 128 KiB if that is more. What lay
    /// beyond would wait, and be cold in the processor's cache by the time it is sent. (Linux
    /// sizes a send buffer by twice the congestion window, `tcp_sndbuf_expand`; a window that was
    /// opened once says nothing of what a fast device has in flight now.)
    ByFlight,
}

/// The initial window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InitialWindow {
    /// This many full segments.
    Segments(u32),
    /// min(10 MSS, max(2 MSS, 14600)), RFC 6928 equation 1.
    Rfc6928,
    /// 2 to 4 segments by their size, RFC 5681 section 3.1.
    Rfc5681,
}

impl InitialWindow {
    /// The most that [`InitialWindow::Segments`] may say.
    pub const MAX_SEGMENTS: u32 = 1_000;

    /// In bytes, for segments of `mss`.
    pub fn bytes(self, mss: ByteCount) -> ByteCount {
        match self {
            Self::Segments(n) => mss * u64::from(n),
            Self::Rfc6928 => (mss * 10).min((mss * 2).max(ByteCount::new(14_600))),
            Self::Rfc5681 => match mss.get() {
                2191.. => mss * 2,
                1096..=2190 => mss * 3,
                _ => mss * 4,
            },
        }
    }
}

/// The initial window after a SYN or SYN-ACK was lost, or thought to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LostSyn {
    /// One segment (RFC 5681 section 3.1, a MUST).
    Rfc5681,
    /// As it is if there was one retransmission only, which often was a timeout too early; one
    /// segment after more (RFC 6928 section 2, recommended).
    Rfc6928,
}

impl LostSyn {
    /// The initial window is one segment after so many retransmissions of the SYN.
    pub(crate) fn resets(self, retransmissions: u32) -> bool {
        match self {
            Self::Rfc5681 => retransmissions > 0,
            Self::Rfc6928 => retransmissions > 1,
        }
    }
}

/// What a congestion window counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WindowCount {
    /// Bytes, as RFC 5681 does: small segments take little of it.
    #[default]
    Bytes,
    /// Segments, whatever their size, as Linux does: three of one byte fill a window of three, and
    /// its idle restart counts so, too.
    Packets,
}

/// What becomes of a window that the application does not use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum IdleRestart {
    /// Nothing.
    Keep,
    /// Back to the restart window after an idle RTO (RFC 5681 section 4.1).
    Rfc5681,
    /// Congestion window validation as of RFC 2861 (historic): halved for each idle RTO, down to
    /// the restart window, and half-way down to what was used for each RTO in which the
    /// application was the limit. `ssthresh` remembers 3/4 of it.
    Rfc2861,
    /// Congestion window validation as of RFC 7661: kept for five minutes in which less than half
    /// of it was used, and then halved. Meanwhile it does not grow unless it is full, segments
    /// leave paced, and congestion is answered for with what was used.
    Rfc7661,
}

impl IdleRestart {
    /// The window to go on with after `idle`, where the rule has it change by that alone; RFC
    /// 7661 goes by more. `offered`: the largest window that the peer has offered; `restart`: the
    /// restart window of RFC 5681, no more than `cwnd`.
    ///
    /// Never before an RTO: connections do not ask earlier (`after_idle`).
    pub fn window(
        self,
        cwnd: ByteCount,
        offered: ByteCount,
        restart: ByteCount,
        idle: Duration,
        rto: Duration,
    ) -> Option<ByteCount> {
        match self {
            Self::Rfc5681 if idle > rto => Some(restart),
            Self::Rfc2861 if idle >= rto => {
                let times = (idle.as_nanos() / rto.as_nanos().max(1)).min(63);
                let halved = ByteCount::new(cwnd.min(offered).get() >> times);
                Some(halved.max(restart))
            }
            Self::Keep | Self::Rfc5681 | Self::Rfc2861 | Self::Rfc7661 => None,
        }
    }
}

/// Keepalive probing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Keepalive {
    /// Idle time before the first probe (RFC 9293 MUST-28: at least 2 hours by default).
    pub idle: Duration,
    /// Time between probes.
    pub interval: Duration,
    /// Unanswered probes before the connection is given up.
    pub probes: u32,
}

impl Default for Keepalive {
    fn default() -> Self {
        Self {
            idle: Duration::from_secs(7_200),
            interval: Duration::from_secs(75),
            probes: 9,
        }
    }
}

/// Pacing of segments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PacingMode {
    /// Only where the congestion control asks for it.
    Off,
    /// At the congestion control's rate, or else at `cwnd / SRTT` times a gain in percent.
    On {
        /// Gain during slow start, in percent (Linux: 200).
        slow_start_gain: u32,
        /// Gain afterwards, in percent (Linux: 120).
        avoidance_gain: u32,
    },
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_restart_rules() {
        let bytes = ByteCount::new;
        let (cwnd, restart) = (bytes(80_000), bytes(10_000));
        let rto = Duration::from_millis(200);
        let offering = |offered, rule: IdleRestart, idle| {
            let window = rule.window(cwnd, bytes(offered), restart, idle, rto);
            window.map(ByteCount::get)
        };
        let after = |rule, idle| offering(1 << 20, rule, idle);
        let long = Duration::from_millis(450);
        assert_eq!(after(IdleRestart::Keep, long), None);
        assert_eq!(after(IdleRestart::Rfc5681, rto), None);
        assert_eq!(after(IdleRestart::Rfc5681, long), Some(10_000));
        let short = rto - Duration::from_nanos(1);
        assert_eq!(after(IdleRestart::Rfc2861, short), None);
        assert_eq!(after(IdleRestart::Rfc2861, rto), Some(40_000));
        assert_eq!(after(IdleRestart::Rfc2861, long), Some(20_000));
        let longer = Duration::from_secs(9);
        assert_eq!(after(IdleRestart::Rfc2861, longer), Some(10_000));
        // Half of what the peer ever admitted.
        assert_eq!(offering(30_000, IdleRestart::Rfc2861, rto), Some(15_000));
        assert_eq!(after(IdleRestart::Rfc7661, Duration::from_secs(301)), None);
    }

    #[test]
    fn rfc6928_and_rfc5681_initial_windows() {
        let iw = |rule: InitialWindow, mss| rule.bytes(ByteCount::new(mss)).get();
        assert_eq!(iw(InitialWindow::Rfc6928, 1_460), 14_600);
        assert_eq!(iw(InitialWindow::Rfc6928, 9_000), 18_000);
        assert_eq!(iw(InitialWindow::Rfc6928, 536), 5_360);
        assert_eq!(iw(InitialWindow::Rfc5681, 1_460), 4_380);
        assert_eq!(iw(InitialWindow::Rfc5681, 536), 2_144);
        assert_eq!(iw(InitialWindow::Rfc5681, 4_096), 8_192);
    }

    #[test]
    fn out_of_range_values_are_named() {
        let bad = TcpConfig {
            dup_thresh: 0,
            ..TcpConfig::default()
        };
        assert_eq!(bad.validate().map_err(|e| e.name), Err("dup_thresh"));
        let bad = TcpConfig {
            pacing: PacingMode::On {
                slow_start_gain: 200,
                avoidance_gain: 0,
            },
            ..TcpConfig::default()
        };
        assert_eq!(bad.validate().map_err(|e| e.name), Err("pacing"));
        let bad = TcpConfig {
            lifetimes: Lifetimes {
                keepalive: Some(Keepalive {
                    interval: Duration::ZERO,
                    ..Keepalive::default()
                }),
                ..Lifetimes::default()
            },
            ..TcpConfig::default()
        };
        assert_eq!(
            bad.validate().map_err(|e| e.name),
            Err("lifetimes.keepalive")
        );
        assert_eq!(TcpConfig::default().validate(), Ok(()));
    }

    #[test]
    fn rfc7323_2_2_window_shift_covers_the_buffer() {
        let shift = |n| {
            TcpConfig {
                buffers: Buffers {
                    recv: n,
                    ..Buffers::default()
                },
                ..TcpConfig::default()
            }
            .window_shift()
        };
        assert_eq!(
            (shift(65_535), shift(65_536), shift(1 << 20), shift(1 << 30)),
            (0, 1, 5, 14)
        );
    }
}
