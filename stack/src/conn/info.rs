//! What a connection knows, under the names of Linux's `struct tcp_info` (`linux/tcp.h`), so that
//! its figures stand beside those of `ss -ti`.

use super::state::State;
use super::{Connection, TcpTypes, payload_mss};
use crate::buffer::SendBuffer;
use narrows_congestion::{CongestionControl, Duration, Instant};

/// Timestamps are in use ([`TcpInfo::tcpi_options`]).
pub const TCPI_OPT_TIMESTAMPS: u8 = 1;
/// SACK is in use.
pub const TCPI_OPT_SACK: u8 = 2;
/// Windows are scaled.
pub const TCPI_OPT_WSCALE: u8 = 4;
/// ECN was negotiated.
pub const TCPI_OPT_ECN: u8 = 8;

/// A connection's figures at one moment.
///
/// Units are Linux's: times in microseconds unless said otherwise, windows of `snd_cwnd` and
/// `snd_ssthresh` in segments. Figures that this TCP does not keep are left out. One difference:
/// pipe and scoreboard count bytes here, so that counts of segments are rounded up from bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct TcpInfo {
    /// The state, by Linux's numbers: 1 is ESTABLISHED.
    pub tcpi_state: u8,
    /// 0 Open, 1 Disorder, 2 CWR, 3 Recovery, 4 Loss.
    pub tcpi_ca_state: u8,
    /// Timeouts of the same segment in a row.
    pub tcpi_retransmits: u8,
    /// Options in use: `TCPI_OPT_*`.
    pub tcpi_options: u8,
    /// By how many bits the windows that the peer offers are shifted.
    pub tcpi_snd_wscale: u8,
    /// ... and those that we offer.
    pub tcpi_rcv_wscale: u8,
    /// The retransmission timeout.
    pub tcpi_rto: u32,
    /// The maximum delay of an acknowledgement.
    pub tcpi_ato: u32,
    /// Payload of a full segment.
    pub tcpi_snd_mss: u32,
    /// The MSS that we stated, less the timestamps option where it is in use.
    pub tcpi_advmss: u32,
    /// Segments outstanding.
    pub tcpi_unacked: u32,
    /// ... of them SACKed.
    pub tcpi_sacked: u32,
    /// ... declared lost.
    pub tcpi_lost: u32,
    /// ... retransmitted and on their way.
    pub tcpi_retrans: u32,
    /// Milliseconds since data was last sent.
    pub tcpi_last_data_sent: u32,
    /// Milliseconds since anything was last received.
    pub tcpi_last_ack_recv: u32,
    /// The path's MTU, as far as it is known.
    pub tcpi_pmtu: u32,
    /// Smoothed RTT.
    pub tcpi_rtt: u32,
    /// Its variation.
    pub tcpi_rttvar: u32,
    /// Slow-start threshold in segments.
    pub tcpi_snd_ssthresh: u32,
    /// Congestion window in segments.
    pub tcpi_snd_cwnd: u32,
    /// Segments retransmitted in all.
    pub tcpi_total_retrans: u32,
    /// Bytes per second at which segments are spread, where the congestion control says;
    /// `u64::MAX`: they are not.
    pub tcpi_pacing_rate: u64,
    /// Bytes acknowledged.
    pub tcpi_bytes_acked: u64,
    /// Bytes received in order.
    pub tcpi_bytes_received: u64,
    /// Segments sent.
    pub tcpi_segs_out: u64,
    /// Segments received. What a device has merged counts once.
    pub tcpi_segs_in: u64,
    /// Bytes queued and not sent.
    pub tcpi_notsent_bytes: u64,
    /// The shortest RTT.
    pub tcpi_min_rtt: u32,
    /// Segments with data sent, repeated ones too.
    pub tcpi_data_segs_out: u64,
    /// Bytes sent, repeated ones too.
    pub tcpi_bytes_sent: u64,
    /// Bytes sent again.
    pub tcpi_bytes_retrans: u64,
    /// Segments received out of order.
    pub tcpi_rcv_ooopack: u64,
    /// The peer's window in bytes.
    pub tcpi_snd_wnd: u64,
    /// The largest window that could be offered now, in bytes.
    pub tcpi_rcv_space: u64,
    /// Timeouts in all.
    pub tcpi_total_rto: u64,
}

impl TcpInfo {
    /// The figures of `conn` at `now`.
    pub fn of<T: TcpTypes>(conn: &Connection<T>, now: Instant) -> Self {
        let (snd, sender) = (&conn.snd, conn.snd.stats());
        let board = snd.scoreboard();
        let mss = snd.mss().get().max(1);
        let segments = |bytes: u64| saturating(bytes.div_ceil(mss));
        let micros = |d: Duration| saturating(d.as_nanos() / 1_000);
        let millis_since = |at: Instant| match at {
            Instant::ZERO => 0,
            at => saturating(now.since(at).as_nanos() / 1_000_000),
        };
        let rate = snd.congestion().pacing_rate();
        // Offsets of the stream: the SYN has no byte.
        let acked = conn.send_buf.start();
        let sent = snd.nxt().saturating_sub(1).min(conn.send_buf.end());
        let options = [
            (conn.ts.in_use, TCPI_OPT_TIMESTAMPS),
            (conn.sack, TCPI_OPT_SACK),
            // Both sides' SYNs had the option, be the shifts 0.
            (
                conn.config.window_scaling && conn.peer_offers.wscale.is_some(),
                TCPI_OPT_WSCALE,
            ),
            (conn.ecn.in_use, TCPI_OPT_ECN),
        ];
        Self {
            tcpi_state: state_number(conn.state()),
            tcpi_ca_state: snd.ca_state() as u8,
            tcpi_retransmits: u8::try_from(snd.retries()).unwrap_or(u8::MAX),
            tcpi_options: options.map(|(on, bit)| u8::from(on) * bit).iter().sum(),
            tcpi_snd_wscale: conn.window.shift,
            tcpi_rcv_wscale: conn.offered.shift,
            tcpi_rto: micros(snd.current_rto()),
            tcpi_ato: micros(conn.config().ack.delay),
            tcpi_snd_mss: saturating(mss),
            tcpi_advmss: saturating(payload_mss(conn.config().mss, conn.ts.in_use).get()),
            tcpi_unacked: saturating(board.len() as u64),
            tcpi_sacked: segments(board.sacked().get()),
            tcpi_lost: segments(board.lost().get()),
            tcpi_retrans: segments(board.retransmitted().get()),
            tcpi_last_data_sent: millis_since(snd.last_sent_at()),
            tcpi_last_ack_recv: millis_since(conn.last_received),
            tcpi_pmtu: conn.packet_of(conn.mss_out),
            tcpi_rtt: micros(snd.rtt().srtt().unwrap_or(Duration::ZERO)),
            tcpi_rttvar: micros(snd.rtt().rttvar()),
            tcpi_snd_ssthresh: saturating(snd.congestion().ssthresh().get() / mss),
            tcpi_snd_cwnd: saturating(snd.congestion().cwnd().get() / mss),
            tcpi_total_retrans: saturating(sender.retransmits),
            tcpi_pacing_rate: rate.map_or(u64::MAX, |r| r.bits_per_sec() / 8),
            tcpi_bytes_acked: acked,
            tcpi_bytes_received: conn.stats().bytes_in,
            tcpi_segs_out: conn.stats().segments_out,
            tcpi_segs_in: conn.stats().segments_in,
            tcpi_notsent_bytes: conn.send_buf.end().saturating_sub(sent),
            tcpi_min_rtt: micros(snd.rtt().min().unwrap_or(Duration::ZERO)),
            // Linux counts before its queue takes them or not.
            tcpi_data_segs_out: sender.segments + sender.local_drops,
            tcpi_bytes_sent: sent + sender.retransmitted_bytes,
            tcpi_bytes_retrans: sender.retransmitted_bytes,
            tcpi_rcv_ooopack: conn.stats().out_of_order_in,
            tcpi_snd_wnd: conn.peer_window(),
            tcpi_rcv_space: (conn.config().buffers.recv as u64).saturating_sub(conn.readable()),
            tcpi_total_rto: sender.timeouts,
        }
    }
}

fn saturating(n: u64) -> u32 {
    u32::try_from(n).unwrap_or(u32::MAX)
}

/// The number of a state in `tcpi_state`, as in `net/tcp_states.h`.
pub fn state_number(state: State) -> u8 {
    match state {
        State::Established => 1,
        State::SynSent => 2,
        State::SynReceived(_) => 3,
        State::FinWait1 => 4,
        State::FinWait2 => 5,
        State::TimeWait => 6,
        State::Closed(_) => 7,
        State::CloseWait => 8,
        State::LastAck => 9,
        State::Closing => 11,
    }
}
