//! What a connection knows: the fields of `TCP_INFO`, by the names of Linux and FreeBSD.

use super::call::Fd;
use super::socket::Conn;
use super::{Seen, Sockets};
use crate::profile::Profile;
use narrows::congestion::CongestionControl;
use narrows::conn::info::{TcpInfo, state_number};
use narrows::fast_open::FastOpenStatus;
use narrows::{ByteCount, Duration, Instant};

/// `ssthresh` before the first congestion, as Linux has it.
const INFINITE: i128 = 0x7fff_ffff;

/// Where the values come from.
struct Facts<'a> {
    conn: &'a Conn,
    seen: Option<&'a Seen>,
    profile: Profile,
    now: Instant,
}

impl Sockets {
    /// A field of `struct tcp_info` by its name without `tcpi_`, of the connection that `fd` is,
    /// or was before it was closed. Times are microseconds, but milliseconds in `last_*`; windows
    /// count segments, bytes with [`Profile::Freebsd`].
    pub fn tcp_info(&self, fd: Fd, field: &str) -> Option<i128> {
        let conn = self.connection(fd)?;
        let facts = Facts {
            seen: self.seen.get(&(conn.local(), conn.remote())),
            conn,
            profile: self.config.profile,
            now: self.now,
        };
        facts.field(field)
    }
}

impl Facts<'_> {
    fn field(&self, field: &str) -> Option<i128> {
        let conn = self.conn;
        let sender = conn.sender();
        let board = sender.scoreboard();
        let (stats, sent) = (conn.stats(), conn.sender_stats());
        let micros = |d: Duration| i128::from(d.as_micros());
        let count = |f: &dyn Fn(&narrows::recovery::SentSegment) -> bool| {
            board.iter().filter(|s| f(s)).count() as i128
        };
        let n = match field {
            "state" => i128::from(state_number(conn.state())),
            "ca_state" => sender.ca_state() as i128,
            "retransmits" | "backoff" => i128::from(sender.retries()),
            "options" => self.options(conn),
            "snd_wscale" => i128::from(self.seen?.peer.window_scale.unwrap_or(0)),
            "rcv_wscale" => i128::from(self.seen?.own.window_scale.unwrap_or(0)),
            "rto" => micros(sender.current_rto()),
            "snd_mss" => i128::from(sender.mss().get()),
            "pmtu" => i128::from(TcpInfo::of(conn, self.now).tcpi_pmtu),
            "advmss" => i128::from(conn.config().mss),
            "unacked" => board.len() as i128,
            "sacked" => count(&|s| s.is_sacked()) + i128::from(board.reno_sacked()),
            "lost" => count(&|s| s.is_lost()),
            "retrans" => count(&|s| s.in_flight_retransmission()),
            "rtt" => micros(sender.rtt().srtt().unwrap_or(Duration::ZERO)),
            "rttvar" => micros(sender.rtt().rttvar()),
            "min_rtt" => micros(sender.rtt().min().unwrap_or(Duration::ZERO)),
            "snd_cwnd" => self.window(sender.congestion().cwnd(), sender.mss()),
            "snd_ssthresh" => self.window(sender.congestion().ssthresh(), sender.mss()),
            "total_retrans" | "snd_rexmitpack" => i128::from(sent.retransmits),
            "bytes_retrans" => i128::from(sent.retransmitted_bytes),
            "bytes_acked" => i128::from(sender.una().saturating_sub(1)),
            "bytes_sent" => {
                i128::from(sender.nxt().saturating_sub(1)) + i128::from(sent.retransmitted_bytes)
            }
            "bytes_received" => i128::from(stats.bytes_in),
            "segs_in" => i128::from(stats.segments_in),
            "segs_out" => i128::from(stats.segments_out),
            "data_segs_in" => i128::from(self.seen?.data_in),
            "data_segs_out" => i128::from(self.seen?.data_out),
            "delivered_ce" => i128::from(sent.ce_bytes / sender.mss().get().max(1)),
            "notsent_bytes" => {
                let sent_and_kept = sender.nxt().saturating_sub(sender.una());
                i128::from(conn.unacknowledged().saturating_sub(sent_and_kept))
            }
            "last_data_sent" => i128::from(self.now.since(sender.last_sent_at()).as_millis()),
            "snd_wnd" => i128::from(conn.peer_window()),
            "snd_nxt" => i128::from(sender.nxt()),
            "rcv_nxt" => i128::from(conn.readable_end()) + 1,
            "rcv_ooopack" => i128::from(stats.out_of_order_in),
            _ => return None,
        };
        Some(n)
    }

    fn options(&self, conn: &Conn) -> i128 {
        let both = |f: fn(&narrows::wire::TcpOptions) -> bool| {
            self.seen.is_some_and(|seen| f(&seen.own) && f(&seen.peer))
        };
        i128::from(both(|o| o.timestamps.is_some()))
            | i128::from(conn.sack_in_use()) << 1
            | i128::from(both(|o| o.window_scale.is_some())) << 2
            | i128::from(conn.ecn_in_use()) << 3
            | i128::from(conn.fast_open() == FastOpenStatus::Accepted) << 5
    }

    /// In segments, rounded down; in bytes with FreeBSD's profile.
    fn window(&self, bytes: ByteCount, mss: ByteCount) -> i128 {
        if bytes == ByteCount::MAX {
            return INFINITE;
        }
        if self.profile.window_in_bytes() {
            return i128::from(bytes.get());
        }
        i128::from(bytes.get() / mss.get().max(1))
    }
}
