//! What the kernel says of a connection, and whether it says what we say.
#![allow(dead_code, unreachable_pub)] // Each test file uses a part of it.

use narrows::conn::info::TcpInfo;
use std::io;
use std::os::fd::AsRawFd;

/// The `struct tcp_info` of `linux/tcp.h`.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct KernelInfo {
    pub state: u8,
    pub ca_state: u8,
    pub retransmits: u8,
    pub probes: u8,
    pub backoff: u8,
    pub options: u8,
    /// Of what it sends in the lower half, of what it offers in the upper one.
    pub wscales: u8,
    pub flags: u8,
    pub rto: u32,
    pub ato: u32,
    pub snd_mss: u32,
    pub rcv_mss: u32,
    pub unacked: u32,
    pub sacked: u32,
    pub lost: u32,
    pub retrans: u32,
    pub fackets: u32,
    pub last_data_sent: u32,
    pub last_ack_sent: u32,
    pub last_data_recv: u32,
    pub last_ack_recv: u32,
    pub pmtu: u32,
    pub rcv_ssthresh: u32,
    pub rtt: u32,
    pub rttvar: u32,
    pub snd_ssthresh: u32,
    pub snd_cwnd: u32,
    pub advmss: u32,
    pub reordering: u32,
    pub rcv_rtt: u32,
    pub rcv_space: u32,
    pub total_retrans: u32,
    pub pacing_rate: u64,
    pub max_pacing_rate: u64,
    pub bytes_acked: u64,
    pub bytes_received: u64,
    pub segs_out: u32,
    pub segs_in: u32,
    pub notsent_bytes: u32,
    pub min_rtt: u32,
    pub data_segs_in: u32,
    pub data_segs_out: u32,
    pub delivery_rate: u64,
    pub busy_time: u64,
    pub rwnd_limited: u64,
    pub sndbuf_limited: u64,
    pub delivered: u32,
    pub delivered_ce: u32,
    pub bytes_sent: u64,
    pub bytes_retrans: u64,
    pub dsack_dups: u32,
    pub reord_seen: u32,
    pub rcv_ooopack: u32,
    pub snd_wnd: u32,
}

impl KernelInfo {
    /// Of a socket of the kernel's.
    pub fn of(socket: &impl AsRawFd) -> Self {
        let mut info = Self::default();
        let mut len = size_of::<Self>() as libc::socklen_t;
        // SAFETY: the kernel writes `len` bytes at most, and any are a valid value.
        let result = unsafe {
            let info = (&raw mut info).cast();
            libc::getsockopt(
                socket.as_raw_fd(),
                libc::IPPROTO_TCP,
                libc::TCP_INFO,
                info,
                &raw mut len,
            )
        };
        assert!(result == 0, "{}", io::Error::last_os_error());
        info
    }
}

/// What became of segments on their way.
#[derive(Clone, Copy, Debug, Default)]
pub struct Lost {
    /// Those that did not arrive.
    pub missing: u64,
    /// Those of which the receiver may or may not have known that they were for the connection:
    /// damaged ones, and frames that may have been others.
    pub unsure: u64,
    /// Those that arrived twice.
    pub doubled: u64,
    /// They all had data.
    pub data_only: bool,
}

/// An open connection on which everything was exchanged.
#[derive(Clone, Copy, Debug)]
pub struct Exchange {
    /// Bytes to the kernel.
    pub up: u64,
    /// Bytes to us.
    pub down: u64,
    pub kernel_opened: bool,
    /// What was lost on the way to the kernel, and to us. `None`: several segments share a frame,
    /// and cannot be counted.
    pub lost: Option<(Lost, Lost)>,
}

/// Options, MSS and window scales: each side says of itself what the other says of it.
pub fn settled_alike(theirs: &KernelInfo, ours: &TcpInfo, wrong: &mut Vec<String>) {
    let mut same = |what: &str, theirs: u64, ours: u64| {
        if theirs != ours {
            wrong.push(format!("{what}: {theirs} (kernel), {ours} (ours)"));
        }
    };
    // The four that both know: timestamps, SACK, window scaling, ECN.
    let options = u64::from(theirs.options) & 0xf;
    same("options", options, ours.tcpi_options.into());
    let scales = (theirs.wscales & 0xf, theirs.wscales >> 4);
    same(
        "scale of theirs",
        scales.1.into(),
        ours.tcpi_snd_wscale.into(),
    );
    same(
        "scale of ours",
        scales.0.into(),
        ours.tcpi_rcv_wscale.into(),
    );
    same("snd_mss", theirs.snd_mss.into(), ours.tcpi_snd_mss.into());
    same("advmss", theirs.advmss.into(), ours.tcpi_advmss.into());
    same("pmtu", theirs.pmtu.into(), ours.tcpi_pmtu.into());
}

/// What both have counted. The kernel counts the SYN of its own active open as a byte acknowledged,
/// and the SYN-ACK of a passive one not as a segment sent.
pub fn counted_alike(
    theirs: &KernelInfo,
    ours: &TcpInfo,
    exchange: &Exchange,
    wrong: &mut Vec<String>,
) {
    let &Exchange { up, down, .. } = exchange;
    let mut same = |what: &str, theirs: u64, ours: u64| {
        if theirs != ours {
            wrong.push(format!("{what}: {theirs} (kernel), {ours} (ours)"));
        }
    };
    same("state", theirs.state.into(), ours.tcpi_state.into());
    same("unacked", theirs.unacked.into(), 0);
    same("unacked", 0, ours.tcpi_unacked.into());
    same("bytes up", theirs.bytes_received, up);
    same("bytes up", up, ours.tcpi_bytes_acked);
    same("bytes down", down, ours.tcpi_bytes_received);
    let (syn, syn_ack) = if exchange.kernel_opened {
        (1, 0)
    } else {
        (0, 1)
    };
    same("bytes down", theirs.bytes_acked, down + syn);
    same(
        "bytes sent up",
        up,
        ours.tcpi_bytes_sent - ours.tcpi_bytes_retrans,
    );
    same(
        "bytes sent down",
        theirs.bytes_sent - theirs.bytes_retrans,
        down,
    );
    let Some((out, into)) = exchange.lost else {
        return;
    };
    let mut arrived = |what: &str, sent: u64, received: u64, lost: Lost| {
        let most = sent - lost.missing + lost.doubled;
        if received > most || received + lost.unsure < most {
            wrong.push(format!(
                "{what}: {sent} sent, {received} received, {lost:?}"
            ));
        }
    };
    arrived(
        "segments up",
        ours.tcpi_segs_out,
        theirs.segs_in.into(),
        out,
    );
    let sent = u64::from(theirs.segs_out) + syn_ack;
    arrived("segments down", sent, ours.tcpi_segs_in, into);
    if out.data_only {
        let (sent, received) = (ours.tcpi_data_segs_out, theirs.data_segs_in);
        arrived("data segments up", sent, received.into(), out);
    }
}
