//! `host.tcp`: the TCP of a host.

use crate::knob;
use crate::knob::{Kind, Knob, Knobs};
use crate::scenario::spec::TcpSpec;
use narrows::config::InitialWindow;

impl Knobs for TcpSpec {
    const TABLE: &'static [Knob<Self>] = &[
        knob! { congestion: "congestion", "congestion control", Kind::Name("congestion control"),
        "Congestion control; may carry parameters: dctcp:g=1/32." },
        knob! { rto: "rto", "RTO policy", Kind::Name("RTO policy"),
        "Retransmission timeout: a policy, or a time, which is the floor of RFC 6298's.", "RFC 6298" },
        knob! { loss_detector: "loss_detection", "loss detector", Kind::Name("loss detector"),
        "How losses are found.", "RFC 5681, RFC 6582, RFC 6675, RFC 8985" },
        knob! { sack: "sack", "SACK", Kind::Switch, "Selective acknowledgements.", "RFC 2018" },
        knob! { prr: "prr", "PRR", Kind::Switch,
        "Proportional rate reduction in recovery; without it the window is halved at once.", "RFC 9937" },
        knob! { limited_transmit: "limited_transmit", "limited transmit", Kind::Switch,
        "New segments for the first two duplicate ACKs.", "RFC 3042" },
        knob! { undo_spurious: "undo", "undo", Kind::Switch,
        "Undo of reductions that prove unnecessary: F-RTO, Eifel, D-SACK.", "RFC 5682, RFC 4015, RFC 3708" },
        knob! { idle_restart: "idle_restart", "idle restart",
        Kind::Choice(&["keep", "rfc5681", "rfc2861", "rfc7661"]),
        "What becomes of a window that is not used.", "RFC 5681, RFC 2861, RFC 7661" },
        knob! { timestamps: "timestamps", "timestamps", Kind::Switch, "Timestamps, in microseconds.", "RFC 7323" },
        knob! { ecn: "ecn", "ECN", Kind::Choice(&["auto", "classic", "off"]),
        "Explicit congestion notification: as the congestion control asks, RFC 3168, or none.", "RFC 3168, RFC 8257" },
        knob! { delayed_ack: "delayed_ack", "delayed ACK", Kind::Text("off, 40ms or 2/40ms"),
        "When data is acknowledged: at once (off), or after so many segments or a time.", "RFC 9293 section 3.8.6.3" },
        knob! { ack_count: "ack_count", "ACK count", Kind::Choice(&["segments", "bytes"]),
        "What the number of delayed_ack counts: segments of whatever size, or full ones by their bytes, as Linux does, so that small ones wait.", "RFC 5681 section 4.2, Linux __tcp_ack_snd_check" },
        knob! { nagle: "nagle", "Nagle", Kind::Switch,
        "A small segment waits while another is unacknowledged; off is TCP_NODELAY.", "RFC 9293 section 3.7.4" },
        knob! { initial_window: "initial_window", "initial window",
        Kind::Whole { least: 1, most: InitialWindow::MAX_SEGMENTS as u64 },
        "Initial congestion window, in segments.", "RFC 6928" },
        knob! { window_count: "window_count", "window counts", Kind::Choice(&["bytes", "packets"]),
        "What the congestion window counts: bytes, or segments whatever their size, as Linux does, so that small ones fill it.", "RFC 5681, Linux tcp_cwnd_test" },
        knob! { send_buffer: "send_buffer", "send buffer",
        Kind::Or("off", &Kind::Size { least: 1, most: 1 << 30 }),
        "Unsent and unacknowledged data that the TCP holds for the application; off is all that it writes." },
        knob! { receive_window: "receive_window", "receive window",
        Kind::Or("off", &Kind::Size { least: 64, most: 1 << 30 }),
        "Greatest receive window; off is no cap." },
        knob! { mss: "mss", "MSS", Kind::Or("off", &Kind::Whole { least: 64, most: 65_495 }),
        "Largest segment payload; off is what the MTU leaves." },
        knob! { local_drop: "local_drop", "local drop", Kind::Name("local-drop policy"),
        "What a segment means that the host's own NIC queue refused.", "FreeBSD tcp_output, Linux tcp_enter_cwr" },
        knob! { dscp: "dscp", "DSCP", Kind::Whole { least: 0, most: 63 },
        "Differentiated services code point of its packets; the upper three bits are the traffic class at switches.", "RFC 2474" },
        knob! { dctcp_receiver: "dctcp_receiver", "DCTCP receiver", Kind::Choice(&["rfc8257", "linux", "linux-2015"]),
        "How marks come back to DCTCP: as the RFC says; and what says CWR acknowledged at once, as Linux does; or with the faults that Linux had in 2015.", "RFC 8257 section 3.2, Linux tcp_dctcp.h" },
        knob! { metrics_cache: "metrics_cache", "metrics cache", Kind::Or("off", &Kind::SPAN),
        "How long a host remembers RTT and slow-start threshold of a peer after a connection has closed, for the next one. Of the host: traffic.NAME.tcp has no say.", "RFC 9040" },
        knob! { timer_tick: "timer_tick", "timer tick", Kind::Time { least: 0, most: 1_000_000_000 },
        "Resolution of the hosts' timers; 0 is exact." },
    ];
}
